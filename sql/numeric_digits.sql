-- engine: at least 62
--
-- NUMERICS OF ANY NUMBER OF DIGITS
--
-- Columns without precision, quotients, averages that are computed with, and
-- other values whose number of digits differs from row to row. The engine has to find
-- PostgreSQL's value and PostgreSQL's digits.
--

CREATE TABLE num (
    id integer PRIMARY KEY,
    g  integer,
    n  numeric,
    m  numeric(12,3),
    w  numeric(30,10),
    s  smallint,
    b  bigint
);
INSERT INTO num SELECT i, i % 5,
    CASE WHEN i % 11 = 0 THEN NULL ELSE ((i * 7919) % 100003)::numeric / 10::numeric ^ (i % 9) END,
    CASE WHEN i % 13 = 0 THEN NULL ELSE ((i * 31) % 10007) / 7.0 END,
    CASE WHEN i % 17 = 0 THEN NULL ELSE ((i * 104729) % 1000003)::numeric * ((i % 5) - 2) / 3 END,
    i - 30, i::bigint * i * i
FROM generate_series(1, 60) i;
INSERT INTO num VALUES
    (101, 1, 1e60, 999999999.999, 1, 1, 1),
    (102, 1, 1e-60, 0, 0, 0, 0),
    (103, 2, -1e-40, -0.001, -12345678901234567890.0123456789, -32768, 9223372036854775807),
    (104, 6, 'NaN', NULL, NULL, NULL, NULL),
    (105, 7, 'Infinity', NULL, NULL, NULL, NULL),
    (106, 8, '-Infinity', NULL, NULL, NULL, NULL),
    (107, 9, 2.50, 2.5, 2.5, 2, 2);
SELECT anker.mirror('num');
SELECT anker.wait_for_mirror('num');

-- columns
SELECT id, n FROM num ORDER BY id;
SELECT id FROM num WHERE n > 12.5 ORDER BY id;
SELECT id FROM num WHERE n = 2.5000 ORDER BY id;
SELECT id FROM num WHERE n IN (2.5, 7919, 'NaN', 'Infinity') ORDER BY id;
SELECT id FROM num WHERE n BETWEEN -1 AND 1 ORDER BY id;
SELECT id FROM num WHERE n IS NULL ORDER BY id;
SELECT id, n FROM num ORDER BY n DESC NULLS LAST, id LIMIT 5;

-- arithmetic
SELECT id, n + m, n - m, n * m FROM num ORDER BY id;
SELECT id, m / 7, n / 3, m / nullif(w, 0), w / nullif(m, 0) FROM num ORDER BY id;
SELECT id, m % 7, mod(n, 2.5), div(m, 3), -n FROM num ORDER BY id;
SELECT id, s / 7.0, b / 3.0 FROM num ORDER BY id;
SELECT id, round(n, 2), round(n, -2), trunc(n, 1), ceil(n), floor(n) FROM num WHERE g < 6 ORDER BY id;
SELECT id, abs(n), sign(n), trim_scale(n), round(m, 1), trunc(w, 3) FROM num WHERE g < 6 ORDER BY id;
SELECT id, m::numeric(10,1), w::numeric(38,2), n::float8, m::integer FROM num WHERE n < 1e6 ORDER BY id;
SELECT m / s FROM num WHERE s = 0;
SELECT n % 0 FROM num WHERE id = 1;
SELECT n::numeric(5,2) FROM num WHERE id = 101;
SELECT n::integer FROM num WHERE id = 101;
SELECT n::bigint FROM num WHERE id = 104;

-- conditions on computed values
SELECT id FROM num WHERE m / 7 > 20 ORDER BY id;
SELECT id FROM num WHERE round(m / 7, 1) = 4.1 OR m / 3 = 0 ORDER BY id;
SELECT a.id, b.id FROM num a JOIN num b ON a.m / 3 = b.m / 3 AND a.id <= b.id WHERE a.id < 10 ORDER BY 1, 2;

-- aggregates
SELECT g, sum(n), avg(n), min(n), max(n), count(n) FROM num GROUP BY g ORDER BY g;
SELECT g, count(DISTINCT n), sum(n) FILTER (WHERE n > 1), avg(n) FILTER (WHERE n < 0) FROM num GROUP BY g ORDER BY g;
SELECT sum(m / 3), avg(m / 3), min(m / 3), max(w / 7) FROM num;
SELECT sum(n), avg(n) FROM num WHERE false;
SELECT g, sum(m) / count(*), 100.0 * sum(m) / (SELECT sum(m) FROM num) FROM num GROUP BY g ORDER BY g;
SELECT n, count(*) FROM num WHERE id > 20 GROUP BY n ORDER BY n;
SELECT m / 4, count(*) FROM num GROUP BY m / 4 ORDER BY 1;
SELECT DISTINCT m / 4 FROM num ORDER BY 1;

-- averages that are computed with
SELECT * FROM (SELECT g, avg(m) AS a, avg(n) AS b, avg(s) AS c, sum(m) / count(*) AS d FROM num GROUP BY g) v ORDER BY g;
SELECT g, a, m / a FROM (SELECT g, avg(m) AS a, max(m) AS m FROM num GROUP BY g) v WHERE a / 2 < m ORDER BY g;
SELECT id, m FROM num o WHERE m > (SELECT 1.2 * avg(m) FROM num i WHERE i.g = o.g) ORDER BY id;
SELECT id, m - (SELECT avg(m) FROM num i WHERE i.g = o.g) FROM num o WHERE id < 20 ORDER BY id;
SELECT avg(a), min(a), max(a), sum(a) FROM (SELECT avg(m) AS a FROM num GROUP BY g) s;
SELECT a, count(*) FROM (SELECT avg(s) AS a FROM num GROUP BY g) s GROUP BY a ORDER BY a;
SELECT m, id FROM (SELECT avg(m) OVER (PARTITION BY g) AS a, m, id FROM num) s WHERE m > a * 1.2 ORDER BY id;
SELECT g, p FROM (SELECT g, 100.0 * sum(m) / (SELECT sum(m) FROM num) AS p FROM num GROUP BY g) s WHERE p > 14 ORDER BY g;

-- of several digits
SELECT id, CASE WHEN g = 1 THEN n WHEN g = 2 THEN m ELSE 1.5 END, coalesce(n, m, 0.5), nullif(n, 2.5) FROM num ORDER BY id;
SELECT * FROM (SELECT n, g FROM num WHERE id < 9 UNION ALL SELECT m, 3 FROM num WHERE id < 9) s ORDER BY 1, 2;
SELECT trim_scale(n) FROM (SELECT n FROM num INTERSECT SELECT m FROM num) s ORDER BY 1;
SELECT * FROM (SELECT n / 2 AS h FROM num WHERE id < 9 EXCEPT SELECT m FROM num) s ORDER BY 1;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY n) AS r, lag(n) OVER (ORDER BY id) AS l, first_value(n) OVER (PARTITION BY g ORDER BY id) AS f FROM num) s ORDER BY id;
SELECT id FROM num WHERE n IN (SELECT m FROM num) ORDER BY id;
SELECT id FROM num WHERE n IS DISTINCT FROM m AND id < 9 ORDER BY id;
SELECT id, (SELECT sum(i.n) FROM num i WHERE i.g = o.g AND i.n < o.n) FROM num o WHERE id < 20 ORDER BY id;

-- parameters
PREPARE over(numeric) AS SELECT id, m / $1, n * $1 FROM num WHERE n > $1 AND id < 40 ORDER BY id;
EXECUTE over(2.50);
EXECUTE over(0.3333333333333333333333333333333333333333333333);
EXECUTE over('NaN');

-- changes
UPDATE num SET n = n / 3 WHERE id IN (1, 2, 3);
DELETE FROM num WHERE n = 2.5;
SELECT anker.wait_for_mirror('num');
SELECT id, n FROM num WHERE id < 5 OR id > 106 ORDER BY id;

-- as text
SELECT id, n::text, m::text, s::varchar, b::text || '!', (m / 3)::text FROM num WHERE id > 50 ORDER BY id;
SELECT count(*), max(id) FROM num WHERE m::text LIKE '%.5%' OR s::text = '-5';
SELECT * FROM (SELECT concat('item ', id, NULL, ': ', m) AS t FROM num) v WHERE t > 'item 5' ORDER BY t COLLATE "C";
SELECT concat('no. ', id::text, 'x'), concat(n, n) FROM num WHERE concat(s, '') <> '1' AND id < 6 ORDER BY id;

-- few values, and rows without one; more rows than are rewritten at once
CREATE TABLE few_num (id integer PRIMARY KEY, n numeric, j jsonb, a integer[], v interval);
INSERT INTO few_num SELECT i, nullif(i % 1500, 7), to_jsonb(nullif(i % 4, 1)), ARRAY[nullif(i % 3, 1)], nullif(i % 9, 2) * interval '1 day'
    FROM generate_series(1, 150000) i;
UPDATE few_num SET j = NULL, a = NULL WHERE id % 10 = 0;
DELETE FROM few_num WHERE id % 10 = 1;
SELECT anker.mirror('few_num');
SELECT anker.wait_for_mirror('few_num');
SELECT count(*), count(n), sum(n) FROM few_num WHERE n > 5;
SELECT count(*) FROM few_num WHERE n IS NOT NULL;
SELECT count(*) FROM few_num WHERE n IS NULL OR n + 1 < 3;
SELECT count(*) FROM few_num WHERE coalesce(n, -1) < 0;
SELECT count(*) FROM few_num WHERE j IS NULL OR j #>> '{}' = '2';
SELECT count(*) FROM few_num WHERE a[1] = 2;
SELECT count(*) FROM few_num WHERE a[1] IS NULL AND v > interval '3 days';

-- subqueries that compute with keys of groups
CREATE TABLE grouped (id integer PRIMARY KEY, g integer, n numeric, i interval);
INSERT INTO grouped SELECT i, i % 3, CASE WHEN i % 6 > 0 THEN (i % 5) / 4.0 END, i % 4 * interval '1 hour' FROM generate_series(1, 60) i;
CREATE TABLE beside (id integer PRIMARY KEY, n numeric, i interval);
INSERT INTO beside SELECT i, nullif((i % 5) / 4.0, 0.5), i % 5 * interval '1 hour' FROM generate_series(1, 20) i;
SELECT anker.mirror('grouped'), anker.mirror('beside');
SELECT anker.wait_for_mirror('grouped'), anker.wait_for_mirror('beside');
SELECT trim_scale(n), (SELECT count(*) FROM beside b WHERE b.id + grouped.n > 3) FROM grouped GROUP BY n ORDER BY 1;
SELECT trim_scale(n), (SELECT count(*) FROM beside b WHERE b.n IS NOT DISTINCT FROM grouped.n) FROM grouped GROUP BY n ORDER BY 1;
SELECT trim_scale(n) FROM grouped GROUP BY n HAVING (SELECT count(*) FROM beside b WHERE b.n IS NOT DISTINCT FROM grouped.n) > 2 ORDER BY 1;
SELECT trim_scale(n + 1), g, (SELECT count(*) FROM beside b WHERE b.n > grouped.n - 1) FROM grouped GROUP BY ROLLUP (n, g) ORDER BY 1, 2 LIMIT 12;
SELECT i, g, (SELECT max(b.i + grouped.i) FROM beside b) FROM grouped GROUP BY CUBE (i, g) ORDER BY 1, 2 LIMIT 15;
SELECT trim_scale(n) FROM grouped GROUP BY n HAVING n + 1 IN (SELECT n + 1 FROM beside) ORDER BY 1;
