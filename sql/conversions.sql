-- engine: at least 33
--
-- VALUES AS TEXTS, AND TEXTS AS VALUES
--

CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
ALTER TYPE colour ADD VALUE 'orange' AFTER 'red';
CREATE TABLE mixed (
    id integer PRIMARY KEY, b boolean, d date, ts timestamp, tz timestamptz, ti time, iv interval, f double precision,
    r real, u uuid, o oid, e colour, t text, n numeric);
INSERT INTO mixed VALUES
    (1, true, '2023-05-01', '2023-05-01 12:30:45.5', '2023-05-01 12:30:45.5+00', '12:30', '1 year 2 mons 3 days 04:05:06.7',
        1.5, 1.5, '12345678-1234-1234-1234-1234567890ab', 1, 'red', '42', 1.50),
    (2, false, '0044-03-15 BC', '0044-03-15 00:00:00 BC', '1850-01-01 00:00:00+00', '24:00', '-1 mons +2 days', 1e15, 1e6,
        '00000000-0000-0000-0000-000000000000', 4294967295, 'blue', ' -7 ', -2),
    (3, NULL, 'infinity', '-infinity', 'infinity', '00:00:00.000001', '-00:00:01', '-0', 'NaN', NULL, NULL, 'orange', '1.5', NULL),
    (4, true, NULL, NULL, NULL, NULL, NULL, 0.1, 0.1, NULL, 0, 'green', '2023-02-28', 'NaN'),
    (5, NULL, '12345-01-01', '2023-12-31 23:59:59.999999', '2023-07-01 00:00:00+00', '23:59:59.9', '0', 'Infinity', '-Infinity',
        'ffffffff-ffff-ffff-ffff-ffffffffffff', 7, NULL, NULL, 'Infinity'),
    (6, true, '2000-01-01', '2000-01-01', '2000-01-01', '01:02:03', '100:00', 123456789.123456789, 16777216, NULL, 7, 'red',
        'true', 0.000001);
SELECT anker.mirror('mixed');
SELECT anker.wait_for_mirror('mixed');
SET timezone = 'Europe/Paris';

SELECT b::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT d::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT ts::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT tz::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT ti::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT iv::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT f::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT r::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT u::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT o::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT e::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM mixed WHERE e::text IN ('red', 'blue') AND d::text LIKE '20%';
SELECT string_agg(d::text || ' ' || e::text, ', ' ORDER BY id) FROM mixed;
SELECT string_agg(concat(ts, '|', f, '|', e), ', ' ORDER BY id) FROM mixed;
SET datestyle = 'SQL, DMY';
SELECT d::text AS k, count(*) FROM mixed WHERE id IN (1, 6) GROUP BY 1 ORDER BY 1;
SET datestyle = 'ISO, DMY';
SELECT d::text AS k, count(*) FROM mixed WHERE id IN (1, 6) GROUP BY 1 ORDER BY 1;
RESET datestyle;
SET extra_float_digits = 0;
SELECT f::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
RESET extra_float_digits;
SET intervalstyle = 'iso_8601';
SELECT iv::text AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
RESET intervalstyle;

-- from text
SELECT t::integer AS k, count(*) FROM mixed WHERE id IN (1, 2, 5) GROUP BY 1 ORDER BY 1;
SELECT t::bigint AS k, t::smallint AS l, count(*) FROM mixed WHERE id IN (1, 2, 5) GROUP BY 1, 2 ORDER BY 1;
SELECT sum(t::numeric), max(t::numeric(5,2)), sum(t::float8) FROM mixed WHERE id <= 3;
SELECT t::date AS k, count(*) FROM mixed WHERE id = 4 GROUP BY 1;
SELECT t::timestamp AS k, t::timestamptz AS l, count(*) FROM mixed WHERE id = 4 GROUP BY 1, 2;
SELECT count(*) FROM mixed WHERE t::boolean AND id = 6;
SELECT count(*) FROM mixed WHERE CASE WHEN t ~ '^ ?-?\d+ ?$' THEN t::integer END < 50;
SELECT to_date(t, 'YYYY-MM-DD') AS k, count(*) FROM mixed WHERE id = 4 GROUP BY 1;
SELECT count(*) FROM mixed WHERE u::text::uuid = u AND d::text::date = d AND id <> 2;
SELECT count(*) FROM mixed WHERE ts::text::timestamp = ts AND id IN (1, 6);
SELECT count(*) FROM mixed WHERE tz::text::timestamptz = tz AND id IN (1, 6);
SELECT sum(f::numeric), max(f::numeric), min(r::numeric) FROM mixed WHERE id IN (1, 2, 4, 6);
SELECT round(avg(f)::numeric, 2), round((sum(f) / 3)::numeric, 1) FROM mixed WHERE id IN (1, 4, 6);
SELECT k, count(*) FROM (SELECT round(f::numeric, 2) AS k FROM mixed) s GROUP BY k ORDER BY k;
\set VERBOSITY sqlstate
SELECT sum(t::integer) FROM mixed;
SELECT sum(t::smallint * 1000000) FROM mixed WHERE id = 1;
SELECT count(*) FROM mixed WHERE t::date > '2000-01-01';
SELECT count(*) FROM mixed WHERE t::boolean;
SELECT count(*) FROM mixed WHERE t::uuid = u;
\set VERBOSITY default
-- forms that only PostgreSQL reads
SELECT count(*) FROM mixed WHERE (d::text || ' 01:02')::timestamptz IS NOT NULL AND id = 1;
SELECT count(*) FROM mixed WHERE ('1 May ' || id + 2000)::date > '2000-01-01';

-- the order of an enum's labels
SELECT min(e), max(e) FROM mixed;
SELECT b, min(e), max(e) FILTER (WHERE id < 4) FROM mixed GROUP BY b ORDER BY b;
SELECT count(*) FROM mixed WHERE e > 'orange';
SELECT count(*) FROM mixed WHERE e BETWEEN 'red' AND 'green';
SELECT id FROM mixed ORDER BY e DESC, id LIMIT 3;
SELECT id FROM (SELECT id, e FROM mixed ORDER BY e, id LIMIT 3) s ORDER BY 1;
SELECT greatest(e, 'orange') AS k, count(*) FROM mixed GROUP BY 1 ORDER BY 1;
SELECT id, rank() OVER (ORDER BY e) FROM (SELECT * FROM mixed) s ORDER BY 2, 1;
SELECT s.r, count(*) FROM (SELECT rank() OVER (ORDER BY e) AS r FROM mixed) s GROUP BY 1 ORDER BY 1;
SELECT DISTINCT ON (b) b, e FROM mixed ORDER BY b, e DESC;
SELECT string_agg(e::text, ',' ORDER BY e DESC, id) FROM mixed;
SELECT count(*) FROM mixed a WHERE a.e < (SELECT max(b.e) FROM mixed b WHERE b.id <> a.id);
SELECT count(*) FROM mixed a JOIN mixed b ON a.e < b.e;
