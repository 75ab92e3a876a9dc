-- engine: at least 20
--
-- COVARIANCE, CORRELATION AND REGRESSION
--
-- Values are rounded where another order of rows could give other digits.
--

CREATE TABLE points (
    id  integer PRIMARY KEY,
    g   text,
    y   double precision,
    x   double precision,
    n   integer
);
INSERT INTO points VALUES
    (1, 'line', 1,    1,    1),
    (2, 'line', 3,    2,    2),
    (3, 'line', 5,    3,    3),
    (4, 'flat', 4,    1,    4),
    (5, 'flat', 4,    2,    5),
    (6, 'tall', 1,    7,    6),
    (7, 'tall', 2,    7,    7),
    (8, 'one',  3,    5,    8),
    (9, 'half', NULL, 5,    9),
    (10, 'half', 5,   NULL, 10),
    (11, 'null', NULL, NULL, NULL),
    (12, 'some', 1.5, 2.25, 12),
    (13, 'some', 2.5, 0.75, 13),
    (14, 'some', 0.5, 8.5,  14),
    (15, 'some', 9,   NULL, 15),
    (16, 'inf', 'Infinity', 1, 16),
    (17, 'inf', 2, 2, 17),
    (18, 'nan', 1, 'NaN', 18),
    (19, 'nan', 2, 2, 19);
SELECT anker.mirror('points');
SELECT anker.wait_for_mirror('points');

-- without groups
SELECT regr_count(y, x), regr_count(x, n), regr_count(1, y) FROM points;
SELECT regr_avgx(y, x), regr_avgy(y, x) FROM points WHERE id <= 5;
SELECT regr_sxx(y, x), regr_syy(y, x), regr_sxy(y, x) FROM points WHERE id <= 2;
SELECT covar_pop(y, x), covar_samp(y, x), corr(y, x) FROM points WHERE g = 'line';
SELECT regr_slope(y, x), regr_intercept(y, x), regr_r2(y, x) FROM points WHERE g = 'line';
SELECT pg_typeof(corr(y, x)), pg_typeof(regr_count(y, x)), pg_typeof(regr_slope(y, x)) FROM points;
SELECT regr_slope(n, x), covar_pop(n, n) FROM points WHERE id <= 3;

-- no rows, one, points in a line
SELECT regr_count(y, x), corr(y, x), covar_pop(y, x), covar_samp(y, x), regr_avgx(y, x), regr_sxx(y, x), regr_slope(y, x)
  FROM points WHERE id > 100;
SELECT g, regr_count(y, x), corr(y, x), covar_pop(y, x), covar_samp(y, x), regr_r2(y, x)
  FROM points WHERE g <> 'some' GROUP BY g ORDER BY g;
SELECT g, regr_avgx(y, x), regr_avgy(y, x), regr_sxx(y, x), regr_syy(y, x), regr_sxy(y, x)
  FROM points WHERE g <> 'some' GROUP BY g ORDER BY g;
SELECT g, regr_slope(y, x), regr_intercept(y, x) FROM points WHERE g <> 'some' GROUP BY g ORDER BY g;
SELECT round(corr(y, x)::numeric, 8), round(regr_r2(y, x)::numeric, 8), round(regr_slope(y, x)::numeric, 8),
       round(regr_intercept(y, x)::numeric, 8), round(covar_samp(y, x)::numeric, 8) FROM points WHERE g = 'some';

-- FILTER; DISTINCT pairs are left to the heap
SELECT corr(y, x) FILTER (WHERE g = 'line'), regr_count(y, x) FILTER (WHERE id > 5), covar_pop(y, x) FILTER (WHERE id > 100)
  FROM points;
SELECT g, regr_sxy(y, x) FILTER (WHERE x > 1) FROM points WHERE id <= 8 GROUP BY g ORDER BY g;
SELECT regr_count(DISTINCT y, x), covar_pop(DISTINCT y, x) FROM points WHERE id <= 3;

-- expressions above the aggregates
SELECT g FROM points GROUP BY g HAVING corr(y, x) = 1 ORDER BY g;
SELECT g, rank() OVER (ORDER BY regr_count(y, x) DESC) FROM points GROUP BY g ORDER BY 2, 1;
SELECT g, coalesce(regr_slope(y, x), 0) * 2 FROM points WHERE g IN ('line', 'tall') GROUP BY g ORDER BY g;

-- in subqueries
SELECT id FROM points WHERE y > (SELECT regr_avgy(y, x) FROM points WHERE g = 'line') AND id < 16 ORDER BY id;
SELECT sum(n) FROM (SELECT g, regr_count(y, x) AS n FROM points GROUP BY g) s;
SELECT id, (SELECT regr_count(q.y, q.x) FROM points q WHERE q.n > 3 AND q.g = p.g) FROM points p WHERE id < 7 ORDER BY id;

-- values too large to be summed in any order
INSERT INTO points VALUES (30, 'huge', 1e200, 1, 1), (31, 'huge', -1e200, 2, 2);
SELECT covar_pop(y, x) FROM points WHERE g = 'huge';
SELECT regr_syy(y, x) FROM points WHERE g = 'huge';

-- many rows, in several threads
CREATE TABLE many (id integer PRIMARY KEY, g integer, y double precision, x double precision);
INSERT INTO many SELECT i, i % 5, (i % 100) / 4.0, CASE WHEN i % 13 <> 0 THEN (i % 64) / 2.0 END FROM generate_series(1, 40000) i;
SELECT anker.mirror('many');
SELECT anker.wait_for_mirror('many');
SELECT regr_count(y, x), regr_avgx(y, x), regr_avgy(y, x), round(corr(y, x)::numeric, 8), round(covar_pop(y, x)::numeric, 6) FROM many;
SELECT g, regr_count(y, x), round(regr_slope(y, x)::numeric, 8), round(regr_intercept(y, x)::numeric, 6),
       round(regr_r2(y, x)::numeric, 8), round(regr_sxx(y, x)::numeric, 3) FROM many GROUP BY g ORDER BY g;
