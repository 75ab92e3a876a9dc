-- engine: at least 60
--
-- AVERAGES
--
-- The digits of averages, sums and variances, wherever they are read: shown,
-- compared, ordered by, and computed with.
--

CREATE TABLE av (
    id  integer PRIMARY KEY,
    g   integer,
    i2  smallint,
    i4  integer,
    i8  bigint,
    d2  numeric(10,2),
    d18 numeric(18,18),
    d38 numeric(38,19),
    n   numeric,
    v   interval,
    f4  real,
    f8  double precision
);
INSERT INTO av VALUES
    (1, 1, 1, 1, 1, 1.00, 0.1, 0.5, 1.5, '1 month', 0.5, 0.25),
    (2, 1, 2, 2, 2, 2.01, 0.000000000000000001, 0.0000000000000000001, 1e-40, '1 day', 1.5, 1e100),
    (3, 1, 2, 2, 2, 2.01, 0.2, -0.5, 2.25, '-01:00:00.000001', 2.5, -1e100),
    (4, 2, 32767, 2147483647, 9223372036854775807, 99999999.99, 0.999999999999999999, 9999999999999999999.9999999999999999999, 1e130000, '1 year 2 months 3 days', 'Infinity', 1),
    (5, 2, 32767, 2147483647, 9223372036854775807, 99999999.99, 0.999999999999999999, 9999999999999999999.9999999999999999999, 1e-16000, '100 years', 1, 2),
    (6, 2, 0, 0, 0, 0, 0, 0, 3, '00:00:00.000001', 1, 3),
    (7, 3, -32768, -2147483648, -9223372036854775808, -99999999.99, -0.999999999999999999, -9999999999999999999.9999999999999999999, 'NaN', '-7 months', 'NaN', 'NaN'),
    (8, 3, 5, 5, 5, 5, 0.5, 5, 5, '5 days', 5, 5),
    (9, 4, 7, 7, 7, 7.77, 0.7, 7.7, 'Infinity', '7 days 00:00:00.7', 7, 7),
    (10, 4, NULL, NULL, NULL, NULL, NULL, NULL, 1, NULL, NULL, NULL),
    (11, 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (12, 6, 3, 3, 3, 3.30, 0.3, 3.3, 'Infinity', '3 hours', 3, 3),
    (13, 6, 4, 4, 4, 4.40, 0.4, 4.4, '-Infinity', '4 hours', 4, 4),
    (14, NULL, -1, -1, -1, -0.01, -0.1, -1e-19, -1.10, '-1 day', -1, -1),
    (15, NULL, 0, 0, 0, 0.00, 0, 0, 0.000, '0', 0, 0);
SELECT anker.mirror('av');
SELECT anker.wait_for_mirror('av');

-- of all rows, of none, of nulls
SELECT avg(i2), avg(i4), avg(i8), avg(d2), avg(d18), avg(d38) FROM av;
SELECT avg(i2), avg(i8), avg(d2), avg(n), avg(v), avg(f4), avg(f8) FROM av WHERE id > 100;
SELECT avg(i2), avg(i8), avg(d38), avg(n), avg(v), avg(f4), avg(f8) FROM av WHERE g = 5;
SELECT g, avg(d2) FROM av WHERE id > 100 GROUP BY g;
SELECT pg_typeof(avg(i2)), pg_typeof(avg(n)), pg_typeof(avg(v)), pg_typeof(avg(f4)), pg_typeof(stddev(d2)) FROM av;

-- of groups, of one row each
SELECT g, avg(i2), avg(i4), avg(i8) FROM av GROUP BY g ORDER BY g;
SELECT g, avg(d2), avg(d18), avg(d38) FROM av GROUP BY g ORDER BY g;
SELECT id, avg(i2), avg(i8), avg(d2), avg(d18), avg(d38), avg(v) FROM av GROUP BY id ORDER BY id;
SELECT g, avg(v), sum(v), count(v) FROM av GROUP BY g ORDER BY g;
SELECT g, avg(f4), avg(f8) FROM av WHERE g > 1 GROUP BY g ORDER BY g;

-- numerics of any length, not a number, infinite
SELECT g, avg(n) FROM av WHERE id NOT IN (4, 5) GROUP BY g ORDER BY g;
SELECT length(avg(n)::text), length(sum(n)::text), scale(avg(n)) FROM av WHERE id = 4;
SELECT avg(n), scale(sum(n)) FROM av WHERE id = 5;
SELECT scale(avg(n)), md5(avg(n)::text), md5(sum(n)::text) FROM av WHERE id IN (4, 5, 6);
SELECT id, avg(n) FROM av WHERE id NOT IN (4, 5) GROUP BY id ORDER BY id;
SELECT avg(n) FROM av WHERE g = 1;

-- digits that differ from row to row
SELECT g, avg(CASE WHEN id % 2 = 0 THEN d2 ELSE d18 END), sum(CASE WHEN id % 2 = 0 THEN d2 ELSE d18 END) FROM av GROUP BY g ORDER BY g;
SELECT avg(coalesce(d2, 0.5000)), sum(coalesce(d2, 0.5000)) FROM av WHERE id IN (10, 11);
SELECT g, sum(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS s FROM av GROUP BY g HAVING sum(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) > 0.001 ORDER BY s DESC, g LIMIT 4;
SELECT g, avg(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS a FROM av GROUP BY g HAVING avg(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) < 10 ORDER BY a, g;
SELECT * FROM (SELECT g, avg(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS a, sum(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS s FROM av GROUP BY g) x ORDER BY g;
SELECT s, count(*) FROM (SELECT sum(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS s FROM av GROUP BY g) x GROUP BY s ORDER BY s;
SELECT a, s, s - a FROM (SELECT avg(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS a, sum(CASE WHEN i2 > 2 THEN d2 ELSE 0.0005 END) AS s FROM av GROUP BY g) x WHERE s > a ORDER BY s, a;
SELECT id, coalesce(d2, 0.5000), CASE WHEN id < 5 THEN d2 ELSE d18 END AS c FROM av ORDER BY c, id LIMIT 9;

-- DISTINCT, FILTER
SELECT avg(DISTINCT i2), avg(DISTINCT d2), avg(DISTINCT i8), stddev(DISTINCT i4) FROM av;
SELECT g, avg(d2) FILTER (WHERE id > 2), avg(n) FILTER (WHERE n > 2 AND n < 10), avg(v) FILTER (WHERE i2 < 3), var_pop(d2) FILTER (WHERE id <> 2) FROM av GROUP BY g ORDER BY g;

-- conditions and orders
SELECT g, avg(i4) FROM av GROUP BY g HAVING avg(i4) > 1.6666666666666666 ORDER BY g;
SELECT g, avg(i4) FROM av GROUP BY g HAVING avg(i4) > 1.66666666666666666666 ORDER BY g;
SELECT g, avg(d2) FROM av GROUP BY g HAVING avg(d2) = 1.6733333333333333 ORDER BY g;
SELECT g FROM av GROUP BY g HAVING avg(v) > '1 day' ORDER BY g;
SELECT g FROM av GROUP BY g HAVING avg(n) IS NULL OR avg(n) = 'NaN' OR avg(n) > 1e10 ORDER BY g;
SELECT g, avg(d2) FROM av GROUP BY g ORDER BY avg(d2) DESC NULLS LAST, g LIMIT 3;
SELECT g, avg(d2) FROM av GROUP BY g ORDER BY avg(d2), g;
SELECT g, avg(v) FROM av GROUP BY g ORDER BY avg(v) DESC NULLS LAST, g LIMIT 3;
SELECT g, avg(n) FROM av WHERE id NOT IN (4, 5) GROUP BY g ORDER BY avg(n) DESC NULLS LAST, g LIMIT 4;
SELECT g FROM av GROUP BY g HAVING stddev(d2) > 0.5 ORDER BY g;
SELECT g, var_pop(i4), stddev_pop(i4) FROM av GROUP BY g ORDER BY stddev_pop(i4) DESC NULLS LAST, g LIMIT 3;
SELECT g, variance(d18), stddev(d18) FROM av GROUP BY g ORDER BY variance(d18) NULLS FIRST, g;
SELECT DISTINCT avg(i2) FROM av WHERE g IN (1, 4, 6) GROUP BY g ORDER BY 1;
SELECT g, avg(d2) FROM av GROUP BY g ORDER BY g OFFSET 2 FETCH FIRST 2 ROWS WITH TIES;

-- averages that differ in digits beyond the twentieth
CREATE TABLE near (id integer PRIMARY KEY, g integer, d numeric(18,18));
INSERT INTO near SELECT i, i % 7, CASE WHEN i <= 7 THEN 0.000000000000000001 ELSE 0 END
  FROM generate_series(1, 1400) i WHERE i <= 7 OR i % 7 + 95 > i / 7;
SELECT anker.mirror('near');
SELECT anker.wait_for_mirror('near');
SELECT g, avg(d), count(*) FROM near GROUP BY g ORDER BY avg(d) DESC;
SELECT g, avg(d) FROM near GROUP BY g ORDER BY avg(d) LIMIT 3;
SELECT g FROM near GROUP BY g HAVING avg(d) > 0.00000000000000000001 ORDER BY g;
SELECT g, stddev(d), var_pop(d) FROM near GROUP BY g ORDER BY g;

-- grouping sets
SELECT g, i2 > 2 AS more, avg(d2), avg(v), stddev(i4), grouping(g, i2 > 2) FROM av GROUP BY ROLLUP (g, i2 > 2) ORDER BY g, more, 6;
SELECT g, avg(n), sum(n) FROM av WHERE id NOT IN (4, 5) GROUP BY GROUPING SETS ((g), ()) HAVING grouping(g) = 1 OR g < 5 ORDER BY g;

-- computed with, above and within
SELECT g, avg(d2) * 2, round(avg(d2), 5), avg(i4)::integer, avg(d2)::text || '!', avg(i2) - avg(i4), -avg(d18) FROM av GROUP BY g ORDER BY g;
SELECT g, to_jsonb(avg(d2)), avg(v) * 2, extract(epoch FROM avg(v)), coalesce(avg(d2), 0.0) FROM av GROUP BY g ORDER BY g;
SELECT avg(a), sum(a), max(a), stddev(a) FROM (SELECT avg(d2) AS a FROM av GROUP BY g) x;
SELECT avg(a), max(a) FROM (SELECT avg(v) AS a FROM av GROUP BY g) x;
SELECT id, d2 FROM av o WHERE d2 > (SELECT avg(d2) FROM av i WHERE i.g = o.g) ORDER BY id;
SELECT id, (SELECT avg(v) FROM av i WHERE i.g = o.g), (SELECT avg(d18) FROM av i WHERE i.g = o.g) FROM av o ORDER BY id;
SELECT g, avg(d2) FROM av GROUP BY g HAVING avg(d2) > (SELECT avg(d2) FROM av) ORDER BY g;
SELECT a FROM (SELECT avg(d2) AS a FROM av GROUP BY g UNION SELECT avg(i4) FROM av GROUP BY g) x ORDER BY a;
SELECT g, rank() OVER (ORDER BY avg(d2) DESC NULLS LAST), sum(avg(d2)) OVER (ORDER BY g) FROM av GROUP BY g ORDER BY g;

-- over frames
SELECT id, avg(d2) OVER w, avg(v) OVER w, avg(i8) OVER w, stddev(d18) OVER w, var_pop(i4) OVER w FROM av
  WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) ORDER BY id;
SELECT id, avg(n) OVER (PARTITION BY g ORDER BY id), avg(f8) OVER (PARTITION BY g ORDER BY id) FROM av WHERE id NOT IN (4, 5) ORDER BY id;
SELECT id, avg(d2) OVER (ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 4 FOLLOWING) FROM av ORDER BY id;
SELECT * FROM (SELECT id, avg(d2) OVER (PARTITION BY g) AS a FROM av) x WHERE a > 2 ORDER BY id;

-- prepared, in a cursor, into a table
PREPARE above(numeric) AS SELECT g, avg(d2), stddev(d2) FROM av GROUP BY g HAVING avg(d2) > $1 ORDER BY g;
EXECUTE above(1.6733333333333333);
EXECUTE above(-0.00500000000000000000001);
BEGIN;
DECLARE c CURSOR FOR SELECT g, avg(i8) FROM av GROUP BY g ORDER BY g;
FETCH 2 FROM c;
FETCH 2 FROM c;
COMMIT;
CREATE TABLE averages AS SELECT g, avg(d2) AS a, avg(v) AS v, variance(i8) AS s FROM av GROUP BY g;
SELECT * FROM averages ORDER BY g;

-- many groups, in several threads
CREATE TABLE lots (id integer PRIMARY KEY, g integer, x integer, d numeric(12,4), n numeric, v interval);
INSERT INTO lots SELECT i, i % 9973, (i::bigint * 48271 % 1009)::integer, ((i::bigint * 16807) % 100000007) / 10000.0,
    ((i::bigint * 69621) % 99991) / 10::numeric ^ (i % 5), (i % 1000) * interval '1 hour 1 second' FROM generate_series(1, 60000) i;
SELECT anker.mirror('lots');
SELECT anker.wait_for_mirror('lots');
SELECT md5(string_agg(t, ',' ORDER BY t)) FROM (SELECT g || ' ' || avg(x) || ' ' || avg(d) || ' ' || avg(n) || ' ' || avg(v) || ' ' || stddev(d) AS t FROM lots GROUP BY g) q;
SELECT g, avg(d) FROM lots GROUP BY g ORDER BY avg(d) DESC, g LIMIT 5;
SELECT g, avg(n) FROM lots GROUP BY g ORDER BY avg(n), g LIMIT 5;
SELECT count(*) FROM (SELECT g FROM lots GROUP BY g HAVING avg(x) > 504.123456789) q;

-- a small spread of many places
CREATE TABLE places (id integer PRIMARY KEY, b numeric(34,32));
INSERT INTO places VALUES (1, -29.9), (2, -29.8), (3, -29.7), (4, NULL);
SELECT anker.mirror('places');
SELECT anker.wait_for_mirror('places');
SELECT variance(b), stddev(b), var_pop(b), stddev_pop(b), avg(b) FROM places;
SELECT variance(b * 1.00000000000000000001), var_pop(b / 1e20) FROM places;
SELECT id, variance(b) OVER (ORDER BY id), stddev(b) OVER (ORDER BY id DESC) FROM places ORDER BY id;
SELECT id FROM places WHERE b < (SELECT -29.75 - variance(b) FROM places) ORDER BY id;
