-- engine: at least 59
--
-- FUNCTIONS OF NUMBERS AND TIMES
--

CREATE TABLE num (
    id integer PRIMARY KEY,
    i2 smallint,
    i4 integer,
    i8 bigint,
    n  numeric(10,2),
    w  numeric(38,6),
    f  double precision,
    b  boolean
);
INSERT INTO num VALUES
    (1, 1, 1, 1, 1.50, 1.500000, 1.5, true),
    (2, -7, -7, -7, -2.50, -2.500000, -2.5, false),
    (3, 32767, 2147483647, 9223372036854775807, 99999999.99, 99999999999999999999999999999999.999999, 1e300, true),
    (4, -32768, -2147483648, -9223372036854775808, -99999999.99, -1e31, '-Infinity', false),
    (5, 0, 0, 0, 0, 0, '-0', NULL),
    (6, NULL, NULL, NULL, NULL, NULL, 'NaN', NULL),
    (7, 12, 40, 70, 0.50, 0.499999, 0.5, true),
    (8, 300, 70000, 5000000000, 2.49, 2147483647.500000, 2.5, true);
SELECT anker.mirror('num');
SELECT anker.wait_for_mirror('num');

SELECT abs(i4) AS k, count(*) FROM num WHERE id <> 4 GROUP BY 1 ORDER BY 1;
SELECT abs(i2) AS a, @ n AS b, abs(w) AS c, count(*) FROM num WHERE id <> 4 GROUP BY 1, 2, 3 ORDER BY 1;
SELECT sum(abs(i8)) FROM num WHERE id NOT IN (3, 4);
SELECT id FROM num WHERE abs(f) = 2.5 OR @ f > 1e10 ORDER BY id;
SELECT sign(n) AS s, sign(w) AS w, count(*) FROM num GROUP BY 1, 2 ORDER BY 1;
SELECT min(sign(f)), max(sign(f)) FROM num;
SELECT id FROM num WHERE sign(f) = 0 ORDER BY id;
SELECT mod(i4, 7) AS k, mod(i8, 5::bigint) AS l, count(*) FROM num GROUP BY 1, 2 ORDER BY 1, 2;
SELECT ceil(n) AS c, floor(n) AS f, round(n) AS r, trunc(n) AS t, count(*) FROM num GROUP BY 1, 2, 3, 4 ORDER BY 1, 2;
SELECT ceil(w) AS c, floor(w) AS f, round(w) AS r, trunc(w) AS t, ceiling(w) AS e, count(*) FROM num GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2;
SELECT sum(ceil(n)), avg(floor(n)), sum(round(n)), sum(trunc(n)) FROM num;
SELECT round(n, 1) AS k, count(*) FROM num GROUP BY 1 ORDER BY 1;
SELECT id FROM num WHERE ceil(f) = 3 OR floor(f) = 2 ORDER BY id;
SELECT id FROM num WHERE round(f) = 2 OR trunc(f) = -2 OR round(f) = 0 ORDER BY id;
SELECT min(round(f)), max(round(f)), min(ceil(f)), max(trunc(f)) FROM num WHERE id IN (1, 2, 8);
SELECT max(sqrt(f)), count(sqrt(f)) FROM num WHERE f >= 0 AND f < 1e301;
SELECT i4 & 6 AS a, i4 | 8 AS o, i4 # 5 AS x, ~i4 AS n, count(*) FROM num GROUP BY i4 ORDER BY 1, 2;
SELECT i4 & 6 AS a, i4 | 8 AS o, i4 # 5 AS x, ~i4 AS n, count(*) FROM num GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3;
SELECT i2 << 3 AS a, i2 >> 1 AS b, i4 << 31 AS c, i4 >> 33 AS d, count(*) FROM num GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3;
SELECT i2 << 17 AS a, i2 >> -1 AS b, i8 << 63 AS c, i8 >> 65 AS d, i8 & 255::bigint AS e, count(*) FROM num GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5;
SELECT i4 << i2 AS a, count(*) FROM num GROUP BY 1 ORDER BY 1;

-- conversions
SELECT i8::integer AS k, i4::smallint AS l, count(*) FROM num WHERE id IN (1, 2, 5, 6, 7) GROUP BY 1, 2 ORDER BY 1;
SELECT n::integer AS k, n::bigint AS l, n::smallint AS m, count(*) FROM num WHERE id NOT IN (3, 4) GROUP BY 1, 2, 3 ORDER BY 1;
SELECT w::bigint AS k, count(*) FROM num WHERE id NOT IN (3, 4) GROUP BY 1 ORDER BY 1;
SELECT f::integer AS k, f::bigint AS l, f::smallint AS m, count(*) FROM num WHERE id IN (1, 2, 5, 7, 8) GROUP BY 1, 2, 3 ORDER BY 1;
SELECT b::integer AS k, i4::boolean AS b, count(*) FROM num GROUP BY 1, 2 ORDER BY 1, 2;
SELECT sum(b::integer), sum((f > 1)::integer), avg(b::integer) FROM num;
SELECT min(n::double precision), max(w::float8), min(w::float8) FROM num;
SELECT id FROM num WHERE n::float8 = f OR w::float8 > 1e31 ORDER BY id;

-- errors
\set VERBOSITY sqlstate
SELECT sum(abs(i2)) FROM num;
SELECT sum(abs(i4)) FROM num;
SELECT sum(abs(i8)) FROM num;
SELECT max(sqrt(f)) FROM num;
SELECT max(sqrt(f)) FROM num WHERE f > 0;
SELECT sum(i8::integer) FROM num;
SELECT sum(i4::smallint) FROM num WHERE id = 8;
SELECT sum(n::smallint) FROM num;
SELECT sum(w::integer) FROM num WHERE id = 8;
SELECT sum(w::bigint) FROM num;
SELECT sum(f::integer) FROM num WHERE id = 3;
SELECT sum(f::bigint) FROM num WHERE id = 6;
SELECT sum(f::smallint) FROM num WHERE id = 4;
SELECT sum(mod(i4, id - 1)) FROM num;
\set VERBOSITY default
SELECT count(*) FROM num WHERE i8::integer > 0;
SELECT sum(CASE WHEN abs(n) < 1000 THEN n::smallint END), sum(CASE WHEN f >= 0 AND f < 100 THEN sqrt(f)::integer END) FROM num;

--
-- dates and timestamps
--
CREATE TABLE moment (id integer PRIMARY KEY, d date, ts timestamp, tz timestamptz);
INSERT INTO moment
    SELECT i, date '1995-12-25' + i * 3, timestamp '1995-12-25 00:00:00' + i * interval '37 hours 11 minutes 7.123456 seconds',
        timestamptz '1995-12-25 00:00:00 UTC' FROM generate_series(1, 300) i;
INSERT INTO moment VALUES
    (1001, '0001-01-01', '0001-01-01 00:00:00', NULL),
    (1002, '0001-12-31 BC', '0001-12-31 23:59:59.999999 BC', NULL),
    (1003, '0101-12-31 BC', '0100-06-15 12:00:00 BC', NULL),
    (1004, '4713-01-01 BC', '4713-01-01 00:00:00 BC', NULL),
    (1005, '5874897-12-31', '294276-12-31 23:59:59.999999', NULL),
    (1006, '1999-12-31', '1999-12-31 23:59:59.999999', NULL),
    (1007, '2000-02-29', '2000-02-29 12:34:56.789', NULL),
    (1008, '1900-12-31', '1900-12-31 00:00:00.000001', NULL),
    (1009, '2001-01-01', '2001-01-01 00:00:00', NULL),
    (1010, '1011-01-02 BC', '1001-01-02 01:02:03.5 BC', NULL),
    (1011, NULL, NULL, NULL);
SELECT anker.mirror('moment');
SELECT anker.wait_for_mirror('moment');

SELECT extract(year from d) AS y, extract(month from d) AS m, count(*) FROM moment GROUP BY 1, 2 ORDER BY 1, 2;
SELECT extract(quarter from d) AS q, extract(dow from d) AS w, extract(isodow from d) AS i, count(*), sum(extract(day from d)), sum(extract(doy from d)) FROM moment GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT extract(isoyear from d) AS y, extract(week from d) AS w, min(id), count(*) FROM moment GROUP BY 1, 2 ORDER BY 1, 2;
SELECT extract(millennium from d) AS m, extract(century from d) AS c, extract(decade from d) AS e, count(*) FROM moment GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT extract(epoch from d) AS e, extract(julian from d) AS j, count(*) FROM moment WHERE id > 1000 GROUP BY 1, 2 ORDER BY 1;
SELECT extract(year from ts) AS y, extract(month from ts) AS m, extract(day from ts) AS d, extract(hour from ts) AS h, count(*) FROM moment WHERE id % 7 = 0 OR id > 1000 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
SELECT extract(second from ts) AS s, extract(milliseconds from ts) AS l, extract(microseconds from ts) AS u, extract(minute from ts) AS m, count(*) FROM moment WHERE id % 7 = 0 OR id > 1000 GROUP BY 1, 2, 3, 4 ORDER BY 1, 4;
SELECT extract(isoyear from ts) AS y, extract(week from ts) AS w, extract(century from ts) AS c, extract(doy from ts) AS d, count(*) FROM moment WHERE id > 1000 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 4;
SELECT extract(epoch from ts) AS e, count(*) FROM moment WHERE id > 1000 AND id <> 1005 GROUP BY 1 ORDER BY 1;
SELECT max(extract(epoch from ts)) FROM moment;
SELECT sum(extract(epoch from ts)) FROM moment WHERE id <> 1005;
SELECT avg(extract(second from ts)), max(extract(year from ts)), sum(extract(year from d) * 2) FROM moment;
SELECT id FROM moment WHERE extract(year from d) = 1998 AND extract(month from ts) BETWEEN 1 AND 3 ORDER BY id;
SELECT count(*) FROM moment WHERE date_part('year', ts) = 1996 AND date_part('dow', d) < 3;
SELECT max(date_part('year', d)), min(date_part('week', ts)), max(date_part('microseconds', ts)), max(date_part('minute', ts)) FROM moment;
SELECT date_part('second', ts) > 30 AS s, count(*) FROM moment GROUP BY 1 ORDER BY 1;
SELECT date_trunc('year', ts) AS y, date_trunc('quarter', ts) AS q, date_trunc('month', ts) AS m, count(*) FROM moment WHERE id <> 1004 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT date_trunc('week', ts) AS w, date_trunc('day', ts) AS d, date_trunc('hour', ts) AS h, date_trunc('minute', ts) AS m, count(*) FROM moment WHERE id > 1000 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2;
SELECT date_trunc('second', ts) AS s, date_trunc('milliseconds', ts) AS l, date_trunc('microseconds', ts) AS u, count(*) FROM moment WHERE id > 1000 GROUP BY 1, 2, 3 ORDER BY 1, 2;
SELECT date_trunc('century', ts) AS s, count(*) FROM moment WHERE id > 1000 GROUP BY 1 ORDER BY 1;
SELECT ts::date AS d, count(*) FROM moment WHERE id > 1000 GROUP BY 1 ORDER BY 1;
SELECT id FROM moment WHERE ts::date = d ORDER BY id;
SELECT extract(hour from tz) AS h, count(*) FROM moment GROUP BY 1 ORDER BY 1;
SELECT extract(hour from d) AS h, count(*) FROM moment GROUP BY 1 ORDER BY 1;
SELECT date_part('yr', ts) AS y, count(*) FROM moment WHERE id > 1000 GROUP BY 1 ORDER BY 1;

-- infinite ones
INSERT INTO moment VALUES (2001, 'infinity', 'infinity', 'infinity'), (2002, '-infinity', '-infinity', '-infinity');
SELECT extract(year from d) AS y, count(*) FROM moment WHERE id > 1005 GROUP BY 1 ORDER BY 1;
SELECT extract(month from d) AS m, extract(second from ts) AS s, extract(week from ts) AS w, count(*) FROM moment WHERE id > 2000 GROUP BY 1, 2, 3 ORDER BY 1;
SELECT max(date_part('year', ts)), min(date_part('isoyear', d)), count(date_part('month', ts)), count(*) FROM moment WHERE id > 2000;
SELECT max(date_trunc('year', ts)), min(date_trunc('day', ts)), max(ts::date), min(ts::date) FROM moment WHERE id > 2000;
SELECT max(extract(epoch from ts)), min(extract(year from ts)) FROM moment WHERE id > 2000;

-- a year that began before time did
INSERT INTO moment VALUES (3001, '4714-11-24 BC', '4714-11-24 00:00:00 BC', NULL);
SELECT min(date_trunc('day', ts)), min(date_trunc('week', ts)) FROM moment WHERE id = 3001;
SELECT min(date_trunc('year', ts)) FROM moment WHERE id = 3001;
SELECT min(extract(year from d)), min(extract(isoyear from ts)), min(extract(week from d)), min(extract(julian from d)) FROM moment WHERE id = 3001;

-- roots, logarithms and powers, as precise as PostgreSQL's
CREATE TABLE root (id integer PRIMARY KEY, n numeric, e numeric, p numeric(12,4), f double precision, g double precision);
INSERT INTO root VALUES
    (1, 2, 0.5, 2.25, 2, 0.5), (2, 0.0000001234567890123456789, -3, 1.0001, 1e-5, 3), (3, 1, 1e10, 1, 1, 1e10), (4, 99999999999999999999, 2, 0.0001, 1e10, 2),
    (5, 1.00000000000000000001, 12.345678, 12345678.9012, 10, -2), (6, NULL, NULL, NULL, NULL, NULL), (7, 1e40, -1.5, 100, 0.1, 0.1),
    (8, 3, 40, 7, 3, 40);
SELECT anker.mirror('root');
SELECT anker.wait_for_mirror('root');
SELECT * FROM (SELECT id, sqrt(n) AS a, ln(n) AS b, log(n) AS c, exp(e) AS d FROM root WHERE id <> 3 OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, n ^ e AS a, power(p, 2) AS b, p ^ -3 AS c, log(2, p) AS d, sqrt(p) AS e FROM root WHERE id <> 3 OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, sqrt(f) AS a, ln(f) AS b, log(f) AS c, exp(g) AS d, f ^ g AS e, power(f, 2) AS h FROM root WHERE id <> 3 OFFSET 0) x ORDER BY id;
SELECT count(*) FROM root WHERE ln(p) > 1 AND n ^ 0.5 < 100;
SELECT round(ln(p), 2) AS k, count(*) FROM root GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM root WHERE sqrt(n - 1) > 0;
SELECT count(*) FROM root WHERE ln(p - 1) > 0;
SELECT count(*) FROM root WHERE exp(n) > 0;
SELECT count(*) FROM root WHERE ln(coalesce(nullif(f, f), 'NaN')) > 1e300 AND sin(coalesce(nullif(f, f), 'NaN')) > 1 AND exp(coalesce(nullif(f, f), 'NaN')) = 'NaN';
SELECT count(*) FROM root WHERE (- n) ^ e > 0;
SELECT count(*) FROM root WHERE (n - n) ^ e > 0;
SELECT count(*) FROM root WHERE f ^ 1e300 > 0;
SELECT count(*) FROM root WHERE ln(f - 1) > 0;
