-- engine: at least 40
--
-- VARIANCE AND STANDARD DEVIATION
--
-- For integers and numerics, all digits are PostgreSQL's. For double precision,
-- the values give the same rounding in any order of rows, or results are
-- rounded here.
--

CREATE TABLE spread (
    id     integer PRIMARY KEY,
    g      text,
    i2     smallint,
    i4     integer,
    i8     bigint,
    price  numeric(12,2),
    fine   numeric(38,10),
    x      double precision
);
INSERT INTO spread VALUES
    (1, 'a', 1,      10,          100,                   1.50,          0.0000000001, 1),
    (2, 'a', 2,      20,          -200,                  2.25,          0.0000000002, 2),
    (3, 'a', 4,      35,          305,                   -7.75,         0.0000000003, 3),
    (4, 'b', 7,      7,           7,                     7.00,          7,            4),
    (5, 'b', 7,      7,           7,                     7.00,          7,            4),
    (6, 'c', NULL,   NULL,        NULL,                  NULL,          NULL,         NULL),
    (7, 'd', 32767,  2147483647,  9223372036854775807,   9999999999.99, 9999999999999999.9999999999, 0.5),
    (8, 'd', -32768, -2147483648, -9223372036854775808,  -9999999999.99, -9999999999999999.9999999999, -0.5),
    (9, 'd', 3,      -77,         123456789012345678,    0.01,          1234567.0000000001, 0),
    (10, 'e', 5,     5,           5,                     5,             5,            5),
    (11, NULL, 1,    1000000,     1000000000000,         1234567.89,    1e15,         10),
    (12, NULL, 2,    1000003,     1000000000007,         1234567.91,    1e15,         20);
SELECT anker.mirror('spread');
SELECT anker.wait_for_mirror('spread');

-- without groups
SELECT variance(i2), var_samp(i2), var_pop(i2), stddev(i2), stddev_samp(i2), stddev_pop(i2) FROM spread;
SELECT variance(i4), var_samp(i4), var_pop(i4), stddev(i4), stddev_samp(i4), stddev_pop(i4) FROM spread;
SELECT variance(i8), var_samp(i8), var_pop(i8), stddev(i8), stddev_samp(i8), stddev_pop(i8) FROM spread;
SELECT variance(price), var_samp(price), var_pop(price) FROM spread;
SELECT stddev(price), stddev_samp(price), stddev_pop(price) FROM spread;
SELECT variance(fine), var_pop(fine), stddev(fine), stddev_pop(fine) FROM spread;
SELECT pg_typeof(variance(i2)), pg_typeof(stddev(price)), pg_typeof(var_pop(x)), pg_typeof(stddev(x)) FROM spread;
SELECT variance(i4 * 2), stddev(price * 3), var_pop(price + i4), stddev_samp(i4 - i2) FROM spread WHERE id < 6;

-- no rows, only nulls, one row, two equal rows
SELECT variance(i4), var_pop(i8), stddev(price), stddev_pop(x), var_samp(x) FROM spread WHERE id > 100;
SELECT variance(i4), var_pop(i8), stddev(price), stddev_pop(x), var_samp(x) FROM spread WHERE g = 'c';
SELECT variance(i4), var_pop(i8), stddev(price), stddev_pop(price), var_samp(x), var_pop(x), stddev_pop(x)
  FROM spread WHERE g = 'e';
SELECT variance(i4), var_pop(i8), stddev(price), stddev_pop(price), var_samp(x), var_pop(x), stddev(x)
  FROM spread WHERE g = 'b';
SELECT g, variance(i4) FROM spread WHERE id > 100 GROUP BY g;

-- groups
SELECT g, variance(i2), var_pop(i2), stddev(i2), stddev_pop(i2) FROM spread GROUP BY g ORDER BY g;
SELECT g, variance(i4), var_pop(i4), stddev(i4), stddev_pop(i4) FROM spread GROUP BY g ORDER BY g;
SELECT g, variance(i8), var_pop(i8), stddev(i8), stddev_pop(i8) FROM spread GROUP BY g ORDER BY g;
SELECT g, variance(price), var_pop(price), stddev(price), stddev_pop(price) FROM spread GROUP BY g ORDER BY g;
SELECT g, variance(fine), var_pop(fine), stddev(fine), stddev_pop(fine) FROM spread GROUP BY g ORDER BY g;
SELECT g, variance(x), var_pop(x), stddev_pop(x) FROM spread WHERE g IN ('b', 'c', 'd', 'e') GROUP BY g ORDER BY g;
SELECT round(variance(x)::numeric, 8), round(stddev(x)::numeric, 8), round(stddev_pop(x)::numeric, 8) FROM spread;
SELECT id % 2, stddev(price), count(*), avg(price) FROM spread WHERE id < 7 GROUP BY id % 2 ORDER BY 1;

-- DISTINCT and FILTER
SELECT variance(DISTINCT i2), stddev(DISTINCT price), var_pop(DISTINCT i8) FROM spread WHERE id < 6;
SELECT g, variance(DISTINCT i4), var_pop(DISTINCT x) FROM spread WHERE g IN ('b', 'd') GROUP BY g ORDER BY g;
SELECT stddev(i4) FILTER (WHERE g = 'a'), variance(price) FILTER (WHERE id > 100), var_pop(i2) FILTER (WHERE id = 1)
  FROM spread;
SELECT g, stddev_pop(price) FILTER (WHERE price > 2) FROM spread GROUP BY g ORDER BY g;

-- expressions above the aggregates
SELECT g, stddev(i4) FROM spread GROUP BY g HAVING variance(i4) > 1 ORDER BY g;
SELECT g, rank() OVER (ORDER BY variance(price) NULLS FIRST) FROM spread GROUP BY g ORDER BY 2, 1;
SELECT round(stddev(price), 3), variance(i4) / 2, coalesce(stddev(i8)::text, 'none') FROM spread;
SELECT DISTINCT var_pop(i2) FROM spread WHERE g IN ('b', 'e') GROUP BY g;

-- infinities and NaN
INSERT INTO spread (id, g, x) VALUES (20, 'i', 'Infinity'), (21, 'i', 1), (22, 'n', 'NaN'), (23, 'n', 2), (24, 'j', '-Infinity'),
  (25, 'h', 1e200), (26, 'h', -1e200), (27, 'l', 1e140);
SELECT g, var_pop(x), var_samp(x), stddev(x), stddev_pop(x) FROM spread WHERE g IN ('i', 'n', 'j') GROUP BY g ORDER BY g;
SELECT var_pop(x) FROM spread WHERE g = 'h';
SELECT var_pop(x), stddev_samp(x) FROM spread WHERE g = 'l';

-- in subqueries: floats; other types are left to the heap
SELECT id FROM spread WHERE x > (SELECT stddev_pop(x) FROM spread WHERE g IN ('a', 'b')) AND id < 20 ORDER BY id;
SELECT id FROM spread WHERE price > (SELECT stddev(price) FROM spread WHERE g = 'a') ORDER BY id;
SELECT round(sum(v), 5) FROM (SELECT variance(i4) AS v FROM spread GROUP BY g) s;

-- many rows, in several threads: roots and quotients of all sizes
CREATE TABLE many (id integer PRIMARY KEY, g integer, small integer, large bigint, tiny numeric(20,15), money numeric(14,2), x double precision);
INSERT INTO many
  SELECT i, i % 400, (i::bigint * 48271 % 1009)::integer, i::bigint * 2654435761 % 1000000000039,
         (i::bigint * 69621 % 9973) / 1e12::numeric, ((i::bigint * 16807) % 100000007) / 100.0, (i % 256) / 4.0
  FROM generate_series(1, 40000) i;
SELECT anker.mirror('many');
SELECT anker.wait_for_mirror('many');
SELECT variance(small), stddev(small), var_pop(large), stddev_pop(large), stddev(tiny), variance(money) FROM many;
SELECT md5(string_agg(s, ',' ORDER BY g)) FROM (SELECT g, variance(small)::text || stddev(small) AS s FROM many GROUP BY g) q;
SELECT g, variance(small), stddev(small), stddev_pop(small) FROM many GROUP BY g HAVING g < 12 ORDER BY g;
SELECT g, variance(large), stddev(large), stddev_pop(large) FROM many GROUP BY g HAVING g < 12 ORDER BY g;
SELECT g, variance(tiny), stddev(tiny), stddev_pop(tiny) FROM many GROUP BY g HAVING g < 12 ORDER BY g;
SELECT g, variance(money), stddev(money), stddev_pop(money) FROM many GROUP BY g HAVING g < 12 ORDER BY g;
SELECT id / 2 AS pair, stddev(small), stddev(money), stddev(tiny) FROM many WHERE id < 60 GROUP BY id / 2 ORDER BY 1;
SELECT stddev(large * 100000000), variance(large * large::numeric(13,0)) FROM many;
SELECT round(variance(x)::numeric, 6), round(stddev_pop(x)::numeric, 6) FROM many;
SELECT g, round(stddev(x)::numeric, 6) FROM many GROUP BY g HAVING g < 5 ORDER BY g;

-- within subqueries
SELECT g, v, s FROM (SELECT g, variance(i4) AS v, stddev(i4) AS s FROM spread GROUP BY g) q WHERE v IS NOT NULL OR g = 'c' ORDER BY g;
SELECT g, var_pop(price) AS vp, stddev_pop(price) AS sp, var_samp(price) AS vs, stddev_samp(price) AS ss FROM (SELECT * FROM spread) q GROUP BY g ORDER BY g;
SELECT sum(v), max(s), count(s) FROM (SELECT var_pop(i2) AS v, stddev_pop(i8) AS s FROM spread GROUP BY g) q;
SELECT avg(s), min(v) FROM (SELECT stddev(price) AS s, var_pop(fine) AS v FROM spread GROUP BY g) q;
SELECT v, s, v2, s2 FROM (SELECT g, variance(fine) AS v, stddev(fine) AS s, var_pop(fine) AS v2, stddev_pop(fine) AS s2, count(*) FROM spread GROUP BY g) q ORDER BY g, 1;
SELECT id, i4 FROM spread s WHERE i4 > (SELECT stddev(o.i4) FROM spread o WHERE o.g = s.g) ORDER BY id;
SELECT id, (SELECT stddev_samp(o.price) FROM spread o WHERE o.id <= s.id) FROM spread s ORDER BY id;
SELECT id, (SELECT stddev_pop(DISTINCT o.i2) FROM spread o WHERE o.id <= s.id) + 1 FROM spread s ORDER BY id;
SELECT id, round((SELECT variance(o.i8) FROM spread o WHERE o.g = s.g), 3) FROM spread s ORDER BY id;
SELECT g, s * s = v FROM (SELECT g, stddev_pop(i2) AS s, var_pop(i2) AS v FROM spread GROUP BY g) q ORDER BY g;
