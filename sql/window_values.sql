-- engine: at least 31
--
-- WINDOW VALUES
--
-- Window functions of subqueries over numerics, floats and intervals in frames, and over numbers that are columns.
--

CREATE TABLE tick (id integer PRIMARY KEY, part integer, price numeric(8,2), free numeric, huge numeric(40,3), single real,
  double double precision, lead interval, yes boolean, back integer, small smallint, big bigint);
INSERT INTO tick
  SELECT i, i % 3, nullif(i * 37 % 23, 7) * 1.25, (ARRAY['1', '0.50', '-2.125', NULL, '1e20', '0.000', '7.0']::numeric[])[i % 7 + 1],
    i * 12345678901234567890123456789.125, (ARRAY[0.1, 16777216, NULL, 1, -0.3]::real[])[i % 5 + 1],
    (ARRAY[1e16, 1, NULL, -1e16, 0.1, 3]::float8[])[i % 6 + 1],
    (ARRAY['1 mon', '30 days', '-1 day', '25:00', NULL]::interval[])[i % 5 + 1], nullif(i % 4, 0) > 1,
    nullif(i * 7 % 5, 3) - 1, (i % 4)::smallint, i::bigint * 1000000007
  FROM generate_series(1, 24) i;
CREATE TABLE odd (id integer PRIMARY KEY, free numeric, double double precision, single real);
INSERT INTO odd VALUES (1, 1.5, 1.5, 1.5), (2, 'NaN', 'NaN', 'NaN'), (3, 2, 2, 2), (4, 'Infinity', 'Infinity', 'Infinity'), (5, 0.25, -0.0, '-0'),
  (6, '-Infinity', '-Infinity', '-Infinity'), (7, NULL, NULL, NULL), (8, 3.000, 1e-300, 1e-40);
ANALYZE tick, odd;
SELECT anker.mirror(t) FROM unnest('{tick,odd}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{tick,odd}'::regclass[]) t;

-- numerics: digits, averages, NaN
SELECT * FROM (SELECT id, sum(price) OVER w AS s, avg(price) OVER w AS a, count(price) OVER w AS n, min(price) OVER w AS lo,
  max(price) OVER w AS hi FROM tick WINDOW w AS (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, free, sum(free) OVER w AS s, avg(free) OVER w AS a, min(free) OVER w AS lo, max(free) OVER w AS hi
  FROM tick WINDOW w AS (PARTITION BY part ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, sum(free) OVER (ORDER BY id) AS s, sum(free) OVER (ORDER BY id DESC) AS t,
  avg(free) OVER (PARTITION BY part) AS a FROM tick OFFSET 0) s ORDER BY id LIMIT 8;
SELECT * FROM (SELECT id, sum(free) OVER w AS s FROM tick
  WINDOW w AS (ORDER BY part GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) OFFSET 0) s ORDER BY id LIMIT 8;
SELECT * FROM (SELECT id, sum(free) OVER w AS s, avg(free) OVER w AS a FROM odd WINDOW w AS (ORDER BY id ROWS 1 PRECEDING) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, sum(huge) OVER w AS s, avg(huge) OVER w AS a FROM tick
  WINDOW w AS (ORDER BY id ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING) OFFSET 0) s ORDER BY id LIMIT 4;
SELECT * FROM (SELECT id, sum(price / 3) OVER (ORDER BY id ROWS 2 PRECEDING) AS s, avg(CASE WHEN yes THEN price ELSE 1.125 END)
  OVER (ORDER BY id ROWS 2 PRECEDING) AS a FROM tick OFFSET 0) s ORDER BY id LIMIT 6;
SELECT * FROM (SELECT id, sum(free) FILTER (WHERE yes) OVER (ORDER BY id) AS s FROM tick OFFSET 0) s ORDER BY id LIMIT 6;
SELECT count(*) FROM (SELECT id, avg(price) OVER (PARTITION BY part) AS a, price FROM tick) s WHERE price > a;
SELECT * FROM (SELECT id, stddev(price) OVER w AS a, var_pop(small) OVER w AS b, variance(big) OVER w AS c FROM tick
  WINDOW w AS (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) OFFSET 0) s ORDER BY id LIMIT 8;

-- the last of equal values that look different
SELECT * FROM (SELECT id, max(CASE WHEN yes THEN 7 ELSE 7.00 END) OVER w AS m, min(free * 0) OVER w AS n, min(double * 0) OVER w AS z,
  max(single * 0) OVER w AS r FROM tick WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) OFFSET 0) s
  ORDER BY id;

-- floats: in the order of the frame, row by row
SELECT * FROM (SELECT id, double, sum(double) OVER w AS s, avg(double) OVER w AS a FROM tick
  WINDOW w AS (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, sum(double) OVER (ORDER BY id) AS up, sum(double) OVER (ORDER BY id DESC) AS down,
  sum(double) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS rest,
  sum(double) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS others
  FROM tick OFFSET 0) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, single, sum(single) OVER w AS s, avg(single) OVER w AS a FROM tick
  WINDOW w AS (PARTITION BY part ORDER BY id) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, sum(double) OVER w AS s, avg(double) OVER w AS a, sum(single) OVER w AS t FROM odd
  WINDOW w AS (ORDER BY id ROWS 1 PRECEDING) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, stddev(double) OVER w AS a, var_pop(single) OVER w AS b, variance(double) OVER w AS c FROM tick
  WINDOW w AS (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) OFFSET 0) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(single) OVER (ORDER BY id) AS s FROM (SELECT id, single * 1e38::real AS single FROM tick WHERE id < 4) t OFFSET 0) s;

-- intervals, truth, bits
SELECT * FROM (SELECT id, lead, sum(lead) OVER w AS s, avg(lead) OVER w AS a, max(lead) OVER w AS m FROM tick
  WINDOW w AS (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) OFFSET 0) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, bool_and(yes) OVER w AS a, bool_or(yes) OVER w AS o, bit_or(small) OVER w AS b, bit_and(id) OVER w AS c
  FROM tick WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) OFFSET 0) s ORDER BY id LIMIT 12;

-- numbers that are columns and expressions
SELECT * FROM (SELECT id, back, lag(id, back) OVER w AS a, lead(id, back) OVER w AS b, lag(price, back + 1, 0) OVER w AS c,
  lead(free, small, price) OVER w AS d FROM tick WINDOW w AS (ORDER BY id) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, nth_value(id, small + 1) OVER w AS a, nth_value(price, nullif(small, 0)) OVER w AS b FROM tick
  WINDOW w AS (PARTITION BY part ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW) OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, nth_value(id, small) OVER (ORDER BY id) FROM tick OFFSET 0) s;
SELECT * FROM (SELECT id, part, ntile(part + 2) OVER (PARTITION BY part ORDER BY id) AS n FROM tick OFFSET 0) s ORDER BY part, id;
SELECT * FROM (SELECT id, ntile(CASE WHEN id > 2 THEN 5 END) OVER (ORDER BY id) AS n FROM tick OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, ntile(id - 1) OVER (ORDER BY id) AS n FROM tick OFFSET 0) s ORDER BY id;
SELECT * FROM (SELECT id, ntile(id) OVER (ORDER BY id DESC) AS n, lag(id, NULL) OVER (ORDER BY id) AS l FROM tick OFFSET 0) s ORDER BY id LIMIT 3;

-- parameters
SET plan_cache_mode = force_generic_plan;
PREPARE numbers (integer, integer, integer) AS SELECT * FROM (SELECT id, ntile($1) OVER w AS n, lag(id, $2, -1) OVER w AS l,
  nth_value(id, $3) OVER w AS v FROM tick WINDOW w AS (ORDER BY id) OFFSET 0) s ORDER BY id LIMIT 6;
EXECUTE numbers (4, 2, 3);
EXECUTE numbers (40, -2, 1);
EXECUTE numbers (NULL, NULL, NULL);
EXECUTE numbers (4, 2, 0);
EXECUTE numbers (-1, 2, 1);
RESET plan_cache_mode;

-- with groups, above and below, and twice
SELECT * FROM (SELECT part, sum(avg(free)) OVER (ORDER BY part) AS s, avg(sum(double)) OVER (ORDER BY part) AS a FROM tick GROUP BY part OFFSET 0) s
  ORDER BY part;
SELECT part, max(s), sum(a) FROM (SELECT part, sum(free) OVER (PARTITION BY part ORDER BY id) AS s,
  avg(price) OVER (PARTITION BY part ORDER BY id ROWS 2 PRECEDING) AS a FROM tick) s GROUP BY part ORDER BY part;
WITH w AS (SELECT id, sum(double) OVER (PARTITION BY part ORDER BY id) AS s FROM tick)
  SELECT count(*) FROM w a JOIN w b ON a.s = b.s AND a.id = b.id;
