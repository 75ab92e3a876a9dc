-- engine: at least 50
--
-- NUMBERS
--
-- Integers of three widths, numeric with its scale, double precision with its
-- zeros, infinities and NaN: arithmetic and comparison as PostgreSQL's, to the
-- last digit that is shown.
--

CREATE TABLE num (
    id  integer PRIMARY KEY,
    i2  smallint,
    i4  integer,
    i8  bigint,
    n0  numeric(6,0),
    n2  numeric(10,2),
    n18 numeric(18,6),
    n38 numeric(38,19),
    f8  double precision
);
INSERT INTO num VALUES
    (1,      0,           0,                    0,      0,       0.00,              0,                       0, 0),
    (2,      1,           1,                    1,      1,       0.01,       0.000001,  0.0000000000000000001, '-0'),
    (3,     -1,          -1,                   -1,     -1,      -0.01,      -0.000001, -0.0000000000000000001, 1),
    (4,  32767,  2147483647,  9223372036854775807,  999999, 99999999.99, 999999999999.999999,
        9999999999999999999.9999999999999999999, 'Infinity'),
    (5, -32768, -2147483648, -9223372036854775808, -999999, -99999999.99, -999999999999.999999,
        -9999999999999999999.9999999999999999999, '-Infinity'),
    (6,   NULL,        NULL,                 NULL,    NULL,       NULL,           NULL,                    NULL, NULL),
    (7,    100,      100000,        1000000000000,     500,      12.50,           2.5,                   1.1, 'NaN'),
    (8,      7,          -7,                   70,      70,       7.00,      7.000000,                   7.0, 1e-300),
    (9,      3,           3,                    3,       3,       3.00,      3.000000,                   3.0, 1.1);
SELECT anker.mirror('num');
SELECT anker.wait_for_mirror('num');

-- display: every value as it was inserted
SELECT * FROM num ORDER BY id;

-- the scale of a result is PostgreSQL's
SELECT n0 + n2, n2 + n18, n2 - n0, n2 * n2, n0 * n18, -n2, +n18 FROM num WHERE id IN (2, 3, 7, 8) ORDER BY id;
SELECT n2 + 1, n2 * 2, n2 * 0.5, 1.000 - n2, i4 + n2, i2 * n18, i8 - n0 FROM num WHERE id IN (2, 7, 9) ORDER BY id;
SELECT n2 / 3, n0 / 7, n2 % 5, 1 / n2 FROM num WHERE id IN (7, 8, 9) ORDER BY id;
SELECT n38 + n38, n38 * 2 FROM num ORDER BY id;
SELECT n38 * n38 FROM num WHERE id IN (2, 7) ORDER BY id;
SELECT sum(n38 * n2), sum(n18 * n18), avg(n2 * n2) FROM num WHERE id IN (7, 8, 9);

-- integers: result type, truncation towards zero, the sign of a remainder
SELECT i2 + i4, i4 + i8, i2 * i2, i4 - i2, -i4 FROM num WHERE id IN (7, 8, 9) ORDER BY id;
SELECT i4 / 2, i4 % 2, i8 / -3, i8 % -3, i2 / 2::smallint FROM num WHERE id IN (3, 7, 8, 9) ORDER BY id;
SELECT pg_typeof(i2 + i2), pg_typeof(i2 + i4), pg_typeof(i4 + i8), pg_typeof(i4 + n2), pg_typeof(i4 + f8),
       pg_typeof(n2 + f8), pg_typeof(i2 / i2) FROM num WHERE id = 9;

-- comparisons within and between types
SELECT id FROM num WHERE i2 = i4 ORDER BY id;
SELECT id FROM num WHERE i2 = i8 AND i4 = i8 ORDER BY id;
SELECT id FROM num WHERE i4 = n0 ORDER BY id;
SELECT id FROM num WHERE n2 = n18 AND n18 = n38 ORDER BY id;
SELECT id FROM num WHERE n2 > n18 ORDER BY id;
SELECT id FROM num WHERE i8 = f8 ORDER BY id;
SELECT id FROM num WHERE n2 = 7 ORDER BY id;
SELECT id FROM num WHERE n2 = 7.000 ORDER BY id;
SELECT id FROM num WHERE n2 > 0.009 AND n2 < 12.501 ORDER BY id;
SELECT id FROM num WHERE i4 > 1.5 ORDER BY id;
SELECT id FROM num WHERE i2 < 2147483648 AND i2 > -9223372036854775808 ORDER BY id;
SELECT id FROM num WHERE n2 < 1e20 AND n2 > -1e-20 ORDER BY id;
SELECT id FROM num WHERE n38 = 9999999999999999999.9999999999999999999;
SELECT id FROM num WHERE n0 <> 3.5 ORDER BY id;
SELECT id FROM num WHERE n2 < 'NaN' ORDER BY id;
SELECT id FROM num WHERE n2 < 'Infinity' AND n2 > '-Infinity' ORDER BY id;
SELECT id FROM num WHERE n2 = 'NaN' OR n2 = 'Infinity' ORDER BY id;

-- double precision: -0 equals 0, NaN equals itself and is above all
SELECT id, f8 FROM num WHERE f8 = 0 ORDER BY id;
SELECT id, f8 FROM num WHERE f8 = 'NaN';
SELECT id, f8 FROM num WHERE f8 > 1e308 ORDER BY id;
SELECT id, f8 FROM num WHERE f8 < -1 ORDER BY id;
SELECT id, f8 FROM num WHERE f8 <= 'Infinity' ORDER BY id;
SELECT id, f8 FROM num ORDER BY f8, id;
SELECT f8 = f8 AS same, count(*) FROM num GROUP BY f8 = f8 ORDER BY 1;
SELECT f8 * 2, f8 + 1, f8 - f8, -f8, f8 / 3 FROM num ORDER BY id;
SELECT f8 * i4, f8 + n2 FROM num WHERE id IN (8, 9) ORDER BY id;
SELECT min(f8), max(f8) FROM num WHERE id <> 7;
SELECT min(f8), max(f8) FROM num;

-- casts
SELECT i4::bigint, i2::integer, i4::numeric, i4::numeric(12,2), n2::integer, n2::numeric(10,1), i4::double precision,
       n2::double precision FROM num WHERE id IN (7, 8) ORDER BY id;
SELECT id FROM num WHERE i4::bigint * 10 > 2147483647 ORDER BY id;
SELECT id FROM num WHERE i2::numeric * n2 > 20 ORDER BY id;
SELECT id FROM num WHERE i2::numeric(5,0) = 3;

-- numeric in groups: equal values of different scales are one group, shown as stored
SELECT n2, count(*) FROM num WHERE n2 IN (0, 7, 3) GROUP BY n2 ORDER BY n2;
SELECT n2 * 1.000 AS n, count(*) FROM num WHERE id IN (7, 8, 9) GROUP BY n2 * 1.000 ORDER BY 1;
SELECT a.id, b.id FROM num a, num b WHERE a.n2 = b.n18 ORDER BY 1, 2;
SELECT a.id, b.id FROM num a, num b WHERE a.i4 = b.n2 AND a.id <> b.id ORDER BY 1, 2;

-- functions on top of the engine's columns
SELECT id, round(n18, 2), trunc(n2), abs(i4), sign(n2), ceil(n2), power(i2, 2) FROM num WHERE id IN (3, 7) ORDER BY id;
SELECT id, to_char(n2, 'FM999990.000') FROM num WHERE id IN (2, 7) ORDER BY id;

-- rounded, or cut off, to a known number of digits
SELECT id, round(n18, 3), round(n18, 6), round(n18, 9), trunc(n18, 4), trunc(n38, 18), round(n38, 1), round(n2, 1) FROM num ORDER BY id;
SELECT round(n18 * n2, 3) AS n, count(*), sum(trunc(n18, 2)), max(round(n2, 1)), avg(round(-n38, 5)) FROM num GROUP BY 1 ORDER BY 1;
SELECT id FROM num WHERE round(n2, 1) = 12.5 OR trunc(n18, 1) < -0.5 OR round(-n18 * 1.01, 1) = -2.5 ORDER BY id;
SELECT id, round(n2 * 0.1, 2), round(n2 * -0.5, 2), trunc(n2 * 0.5, 2), round(coalesce(n2, 0.05), 1) FROM num ORDER BY id;
SELECT a.id, b.id FROM num a JOIN num b ON round(a.n18, 2) = trunc(b.n2 * 0.1, 2) ORDER BY 1, 2;
SELECT DISTINCT round(n18, 2) FROM num ORDER BY 1;
SELECT id, scale(n2 * n18), min_scale(n2), trim_scale(n18) FROM num WHERE id IN (7, 8) ORDER BY id;

-- numeric without a scale is left to PostgreSQL; NaN in one with a scale comes and goes
CREATE TABLE loose (id integer PRIMARY KEY, n numeric, n2 numeric(5,2));
INSERT INTO loose VALUES (1, 1.10, 1.10), (2, 1.1000, 2.20), (3, 'NaN', 3.30);
SELECT anker.mirror('loose');
SELECT anker.wait_for_mirror('loose');
SELECT id, n FROM loose ORDER BY id;
SELECT trim_scale(n), count(*) FROM loose WHERE id < 3 GROUP BY trim_scale(n);
SELECT count(*), sum(n2) FROM loose;
UPDATE loose SET n2 = 'NaN' WHERE id = 3;
SELECT count(*), sum(n2), max(n2) FROM loose;
SELECT sum(id) FROM loose;
UPDATE loose SET n2 = 0 WHERE id = 3;
SELECT count(*), sum(n2), max(n2) FROM loose;
