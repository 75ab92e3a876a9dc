-- engine: at least 30
--
-- SUM AND AVG OF DOUBLE PRECISION
--
-- The values here give the same rounding in any order of rows; results that the
-- order could change are left to the heap.
--

CREATE TABLE measured (
    id     integer PRIMARY KEY,
    place  text,
    hour   smallint,
    x      double precision,
    y      double precision,
    n      integer
);
INSERT INTO measured VALUES
    (1, 'north', 1,  0.5,        1,          1),
    (2, 'north', 1, -0.25,       2,          2),
    (3, 'north', 2,  0.5,        4.5,        3),
    (4, 'south', 2,  1e10,       NULL,       4),
    (5, 'south', 2,  NULL,       8,          NULL),
    (6, 'east',  1, 'Infinity',  1,          6),
    (7, 'east',  3, 'NaN',       2,          7),
    (8, 'west',  3, '-Infinity', 3,          8),
    (9, 'west',  3, 'Infinity',  4,          9),
    (10, NULL,   4, '-0',        NULL,      10),
    (11, 'zero', 5, '-0',        '-0',      11),
    (12, 'zero', 5, '0',         '-0',      12),
    (13, 'none', 6, NULL,        NULL,      13),
    (14, 'one',  7, 3.75,        -3.75,     14);
SELECT anker.mirror('measured');
SELECT anker.wait_for_mirror('measured');

-- without groups
SELECT sum(y), avg(y), count(y) FROM measured;
SELECT sum(x), avg(x) FROM measured WHERE id <= 5;
SELECT pg_typeof(sum(x)), pg_typeof(avg(x)) FROM measured;
SELECT sum(n::double precision), avg(n::double precision) FROM measured;

-- no rows, and only nulls
SELECT sum(x), avg(x) FROM measured WHERE id > 100;
SELECT sum(x), avg(x) FROM measured WHERE place = 'none';
SELECT place, sum(x) FROM measured WHERE id > 100 GROUP BY place;

-- infinities, NaN, zeros
SELECT sum(x), avg(x) FROM measured WHERE id = 6;
SELECT sum(x), avg(x) FROM measured WHERE id IN (6, 9);
SELECT sum(x), avg(x) FROM measured WHERE id IN (8, 9);
SELECT sum(x), avg(x) FROM measured WHERE id IN (1, 2, 7);
SELECT sum(x), avg(x) FROM measured WHERE id IN (1, 2, 8);
SELECT sum(x), avg(x) FROM measured WHERE id = 10;
SELECT sum(y), avg(y) FROM measured WHERE id IN (11, 12);
SELECT sum(x), avg(x) FROM measured;

-- groups
SELECT place, sum(x), avg(x), sum(y), count(*) FROM measured WHERE id <> 10 GROUP BY place ORDER BY place;
SELECT hour, sum(y), avg(y) FROM measured GROUP BY hour ORDER BY hour;
SELECT hour, place, avg(x) FROM measured GROUP BY hour, place ORDER BY hour, place;
SELECT n % 3, sum(y), avg(x + 1) FROM measured WHERE id < 6 GROUP BY n % 3 ORDER BY 1;

-- DISTINCT and FILTER
SELECT sum(DISTINCT x), avg(DISTINCT x), sum(x) FROM measured WHERE id <= 3;
SELECT sum(DISTINCT y), sum(DISTINCT y) FILTER (WHERE id > 5) FROM measured WHERE id NOT IN (11, 12);
SELECT place, avg(DISTINCT y) FROM measured WHERE id < 11 GROUP BY place ORDER BY place;
SELECT sum(x) FILTER (WHERE place = 'north'), avg(x) FILTER (WHERE y > 1000) FROM measured;
SELECT place, sum(x) FILTER (WHERE y > 1) FROM measured WHERE id < 6 GROUP BY place ORDER BY place;

-- expressions above the aggregates
SELECT place, avg(x) FROM measured WHERE id < 6 GROUP BY place HAVING sum(x) < 100 ORDER BY place;
SELECT place, sum(y), rank() OVER (ORDER BY sum(y) DESC) FROM measured WHERE id <= 9 GROUP BY place ORDER BY 3, 1;
SELECT hour, sum(sum(y)) OVER (ORDER BY hour) FROM measured WHERE id <= 9 GROUP BY hour ORDER BY hour;
SELECT round(avg(y)::numeric, 2), sum(y) * 2, -avg(y) FROM measured;
SELECT DISTINCT sum(y) IS NULL FROM measured GROUP BY place ORDER BY 1;
SELECT place FROM measured WHERE id < 6 GROUP BY place ORDER BY avg(y) DESC LIMIT 1;

-- in subqueries
SELECT id FROM measured WHERE y > (SELECT avg(y) FROM measured WHERE id <= 5) ORDER BY id;
SELECT id FROM measured m WHERE y = (SELECT sum(y) FROM measured i WHERE i.hour = m.hour AND i.id < 7) ORDER BY id;
SELECT count(*), sum(total) FROM (SELECT place, sum(y) AS total FROM measured GROUP BY place) s WHERE total > 3;

-- joins
SELECT a.place, sum(a.y + b.y) FROM measured a JOIN measured b ON a.hour = b.hour AND a.id < b.id
  GROUP BY a.place ORDER BY a.place;

-- sums that would overflow in some order of rows: the heap says whether they do in this one
INSERT INTO measured VALUES (20, 'huge', 9, 1e308, 1e200, 1), (21, 'huge', 9, 1e308, -1e200, 2), (22, 'large', 9, 1e140, 1e140, 2);
SELECT sum(x) FROM measured WHERE place = 'huge';
SELECT sum(y) FROM measured WHERE place = 'huge';
SELECT avg(y) FROM measured WHERE place = 'huge';
SELECT place, sum(x) FROM measured WHERE id > 20 GROUP BY place ORDER BY place;
SELECT sum(x), avg(x), count(*) FROM measured WHERE place = 'large';
SELECT max(x), min(y), count(x) FROM measured WHERE place = 'huge';

-- many rows: sums that are exact in every order, in several threads
CREATE TABLE readings (id integer PRIMARY KEY, sensor integer, wide bigint, value double precision);
INSERT INTO readings
  SELECT i, i % 7, (i % 5) * 1000000007::bigint, CASE WHEN i % 11 <> 0 THEN (i % 1000 - 300) / 8.0 END
  FROM generate_series(1, 60000) i;
SELECT anker.mirror('readings');
SELECT anker.wait_for_mirror('readings');
SELECT sum(value), avg(value) FROM readings;
SELECT sensor, sum(value), avg(value), count(value) FROM readings GROUP BY sensor ORDER BY sensor;
SELECT wide, sum(value), avg(value) FROM readings GROUP BY wide ORDER BY wide;
SELECT sum(total), count(*) FROM (SELECT id / 3 AS g, sum(value) AS total FROM readings GROUP BY id / 3) s;
SELECT sum(DISTINCT value), avg(DISTINCT value) FROM readings;

-- the setting
SET anker.float_aggregates = heap;
SELECT sum(value) FROM readings;
RESET anker.float_aggregates;
