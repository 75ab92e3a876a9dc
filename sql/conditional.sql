-- engine: at least 67
--
-- CASE, COALESCE, NULLIF, GREATEST, LEAST, IS DISTINCT FROM
--
-- Nothing is evaluated that PostgreSQL would not evaluate, and numerics show their own digits.
--

CREATE TABLE item (
    id   integer PRIMARY KEY,
    i2   smallint,
    i8   bigint,
    n    numeric(10,2),
    w    numeric(38,4),
    f8   double precision,
    t    text COLLATE "C",
    c    char(4),
    d    date,
    ts   timestamp,
    b    boolean
);
INSERT INTO item VALUES
    (1, 1,    10, 1.50,  1.5000,  1.5,         'abc',  'abc',  '2024-01-01', '2024-01-01 00:00:00', true),
    (2, 2,    20, 0.00,  2.2500,  '-0',        '',     '',     '2024-02-29', '2024-02-28 12:30:00', false),
    (3, 3,  NULL, 3.25,  NULL,    'NaN',       'b',    'b',    'infinity',   '-infinity',           NULL),
    (4, NULL, 40, NULL,  0.1250,  'Infinity',  NULL,   NULL,   NULL,         NULL,                  true),
    (5, 0,     0, -1.00, -7.0000, 0,           'ärger','ä',    '-infinity',  'infinity',            false),
    (6, NULL, NULL, NULL, NULL,   NULL,        NULL,   NULL,   NULL,         NULL,                  NULL);
SELECT anker.mirror('item');
SELECT anker.wait_for_mirror('item');

-- searched and simple
SELECT CASE WHEN i2 > 1 THEN 'many' WHEN i2 = 1 THEN 'one' END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE i2 WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'other' END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE t WHEN 'abc' THEN 1 WHEN NULL THEN 2 ELSE 3 END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE c WHEN 'abc ' THEN 1 WHEN '' THEN 2 ELSE 3 END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE b WHEN true THEN 'yes' WHEN false THEN 'no' END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE i8 + 1 WHEN 11 THEN CASE i2 WHEN 1 THEN 'a' ELSE 'b' END ELSE 'c' END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT CASE CASE i2 WHEN 1 THEN 5 ELSE 6 END WHEN 5 THEN i8 ELSE -i8 END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT id FROM item WHERE CASE WHEN b THEN i2 = 1 ELSE i2 = 2 END ORDER BY id;
SELECT id FROM item WHERE CASE WHEN b THEN true END IS NULL ORDER BY id;
SELECT sum(CASE WHEN b THEN 1 ELSE 0 END), sum(CASE WHEN NOT b THEN i8 END), count(CASE WHEN b THEN 1 END) FROM item;
SELECT CASE WHEN id < 3 THEN d ELSE '2020-01-01' END AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT max(CASE WHEN id < 3 THEN ts ELSE d END), min(CASE WHEN id < 3 THEN f8 ELSE -1 END) FROM item;
SELECT c, CASE WHEN id > 2 THEN c END AS k, count(*) FROM item GROUP BY 1, 2 ORDER BY 1, 2;
SELECT '[' || CASE WHEN id > 2 THEN c ELSE 'x'::char(4) END || ']' AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;

-- a sum shows as many digits as the values that it added
SELECT sum(CASE WHEN id = 1 THEN n ELSE 0 END) FROM item;
SELECT sum(CASE WHEN id = 99 THEN n ELSE 0 END) FROM item;
SELECT sum(CASE WHEN id = 4 THEN n ELSE 0 END) FROM item;
SELECT sum(CASE WHEN id = 4 THEN n ELSE NULL END) FROM item;
SELECT sum(CASE WHEN id = 1 THEN n WHEN id = 2 THEN w ELSE 0.0 END), avg(CASE WHEN id = 1 THEN n ELSE 0 END) FROM item;
SELECT id % 3 AS k, sum(CASE WHEN b THEN n ELSE 0 END), avg(CASE WHEN b THEN n ELSE 0 END) FROM item GROUP BY 1 ORDER BY 1;
SELECT b, sum(coalesce(n, 0)), avg(coalesce(w, n, 7)), sum(nullif(n, 0)), count(coalesce(n, 0)) FROM item GROUP BY b ORDER BY b;
SELECT sum(CASE id WHEN 1 THEN n * w ELSE 0 END), 100.00 * sum(CASE WHEN b THEN n ELSE 0 END) / sum(n) FROM item;
SELECT b, sum(n) / nullif(sum(CASE WHEN id = 1 THEN n ELSE 0 END), 0) FROM item GROUP BY b ORDER BY b;
SELECT sum(nullif(coalesce(n, 0), 0)), avg(nullif(coalesce(n, 0), 0)) FROM item;
SELECT b, sum(CASE WHEN b THEN n ELSE 0 END) FROM item GROUP BY b HAVING sum(CASE WHEN b THEN n ELSE 0 END) > 1 ORDER BY 2;
SELECT b, rank() OVER (ORDER BY sum(CASE WHEN b THEN n ELSE 0 END)) FROM item GROUP BY b ORDER BY 1;
SELECT min(CASE WHEN id = 1 THEN n ELSE 0 END), max(coalesce(n, 0)) FROM item;
SELECT coalesce(n, 0) AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT coalesce(n, 0.00) AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT min(coalesce(n, 5.00)), max(coalesce(n, 5.00)) FROM item;
SELECT sum(coalesce(n, 0) * 2) FROM item;
SELECT id FROM item WHERE coalesce(n, w, 3) > 0 ORDER BY id;

-- COALESCE and NULLIF
SELECT coalesce(i2, i8, -1) AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT coalesce(t, 'none') AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT count(coalesce(c, 'x')), max(coalesce(d, 'infinity')), max(coalesce(ts, d)) FROM item;
SELECT nullif(i2, 1) AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT nullif(i2, i8) AS k, nullif(t, ''), nullif(c, 'abc'), count(*) FROM item GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT id FROM item WHERE nullif(f8, 'NaN') IS NULL ORDER BY id;
SELECT count(nullif(f8, 0)), count(nullif(d, 'infinity')), count(nullif(b, false)) FROM item;

-- GREATEST and LEAST
SELECT greatest(i2, i8, 2) AS g, least(i2, i8, 2) AS l, count(*) FROM item GROUP BY 1, 2 ORDER BY 1, 2;
SELECT greatest(n, 1.00) AS g, least(n, 1.00) AS l, count(*) FROM item GROUP BY 1, 2 ORDER BY 1, 2;
SELECT greatest(t, 'abd') AS g, least(t, 'abd') AS l, count(*) FROM item GROUP BY 1, 2 ORDER BY 1, 2;
SELECT greatest(d, '2024-02-01') AS g, least(d, ts::date) AS l, count(*) FROM item GROUP BY 1, 2 ORDER BY 1, 2;
SELECT max(least(f8, 0)), min(greatest(f8, '-1')), count(greatest(f8, NULL)) FROM item;
SELECT id FROM item WHERE greatest(f8, 1) = 'NaN' OR greatest(n, w) > 1.5 ORDER BY id;
SELECT greatest(n, w) AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;
SELECT greatest(round(w, 1), 0) AS k, count(*), sum(least(n, round(w, 1), 3)) FROM item GROUP BY 1 ORDER BY 1;
SELECT id, trunc(w, 1) FROM item ORDER BY trunc(w, 1) DESC NULLS LAST, id;
SELECT max(greatest(b, false)::int) FROM item;

-- IS DISTINCT FROM
SELECT id FROM item WHERE i2 IS DISTINCT FROM 1 ORDER BY id;
SELECT id FROM item WHERE i2 IS NOT DISTINCT FROM NULL ORDER BY id;
SELECT id FROM item WHERE i2 IS NOT DISTINCT FROM i8 ORDER BY id;
SELECT id FROM item WHERE n IS DISTINCT FROM w ORDER BY id;
SELECT id FROM item WHERE f8 IS NOT DISTINCT FROM 'NaN' OR f8 IS NOT DISTINCT FROM 0 ORDER BY id;
SELECT id FROM item WHERE c IS NOT DISTINCT FROM 'b' ORDER BY id;
SELECT id FROM item WHERE (t IS DISTINCT FROM 'abc') IS DISTINCT FROM b ORDER BY id;
SELECT id FROM item WHERE d IS DISTINCT FROM ts ORDER BY id;
SELECT i2 IS DISTINCT FROM 1 AS k, count(*) FROM item GROUP BY 1 ORDER BY 1;

-- with parameters
PREPARE p (integer, numeric, text) AS
    SELECT CASE $1 WHEN 1 THEN i2 WHEN 2 THEN i8 ELSE 0 END AS k, count(coalesce(n, $2)), min(coalesce(t, $3)) FROM item
    WHERE coalesce(n, $2) >= $2 GROUP BY 1 ORDER BY 1;
EXECUTE p (1, 1.5, 'none');
EXECUTE p (2, 0, NULL);
EXECUTE p (NULL, NULL, '');
SET plan_cache_mode = force_generic_plan;
EXECUTE p (1, 1.5, 'none');
EXECUTE p (3, 0.000, NULL);
RESET plan_cache_mode;

-- errors: only those of evaluated expressions
SELECT sum(CASE WHEN i2 <> 0 THEN 10 / i2 END), sum(CASE i2 WHEN 0 THEN 0 ELSE 10 / i2 END) FROM item;
SELECT sum(CASE WHEN i2 = 0 THEN 10 / i2 END) FROM item;
SELECT count(*) FROM item WHERE CASE WHEN i2 <> 0 THEN 10 / i2 > 3 ELSE b END;
SELECT sum(coalesce(i8, 10 / (id - 3))) FROM item WHERE id <> 3;
SELECT sum(coalesce(i8, 10 / (id - 3))) FROM item;
SELECT sum(CASE WHEN true THEN id ELSE 1 / (id - id) END) FROM item;
SELECT sum(greatest(id, 1 / (id - 1))) FROM item;
