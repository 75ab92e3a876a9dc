-- engine: at least 47
--
-- TIME ZONES
--

CREATE TABLE flight (
    id integer PRIMARY KEY,
    tz timestamptz,
    ts timestamp,
    d  date
);
INSERT INTO flight VALUES
    (1, '2024-03-10 09:59:59.999999+00', '2024-03-10 01:59:59.999999', '2024-03-10'),
    (2, '2024-03-10 10:00:00+00',        '2024-03-10 02:30:00',        '2024-03-11'),
    (3, '2024-11-03 08:30:00+00',        '2024-11-03 01:30:00',        '2024-11-03'),
    (4, '2024-11-03 09:30:00+00',        '2024-11-03 02:00:00',        '2024-11-04'),
    (5, '2011-12-30 09:59:59+00',        '2011-12-30 12:00:00',        '2011-12-30'),
    (6, '2018-11-04 03:00:00+00',        '2018-11-04 00:00:00',        '2018-11-04'),
    (7, '1883-11-18 20:00:00+00',        '1883-11-18 12:05:00',        '1883-11-18'),
    (8, '1800-06-15 12:34:56.789+00',    '1800-06-15 12:34:56.789',    '1800-06-15'),
    (9, '2500-07-01 00:30:00+00',        '2500-07-01 00:30:00',        '2500-07-01'),
    (10, '294270-07-01 22:30:00+00',     '294270-03-28 02:30:00',      '294270-12-31'),
    (11, '4700-01-15 00:00:00+00 BC',    '4700-01-15 00:00:00 BC',     '4700-01-15 BC'),
    (12, 'infinity', 'infinity', 'infinity'),
    (13, '-infinity', '-infinity', '-infinity'),
    (14, NULL, NULL, NULL),
    (15, '2024-12-31 23:59:59+00',       '2024-12-31 23:59:59',        '2024-12-31'),
    (16, '1971-10-31 02:30:00+00',       '1971-10-31 02:30:00',        '1971-10-31');
SELECT anker.mirror('flight');
SELECT anker.wait_for_mirror('flight');
SET datestyle = 'ISO, YMD';

-- times as the session's clocks show them
CREATE VIEW local AS SELECT * FROM (
    SELECT id, tz::timestamp AS shown, tz::date AS day, date_trunc('day', tz) AS midnight,
           date_trunc('hour', tz) AS hour, date_trunc('quarter', tz) AS quarter
    FROM flight WHERE id NOT IN (10, 11) OFFSET 0) x;
CREATE VIEW meant AS SELECT * FROM (
    SELECT id, ts::timestamptz AS of_ts, d::timestamptz AS of_d FROM flight WHERE id <> 11 OFFSET 0) x;
CREATE VIEW parts AS SELECT * FROM (
    SELECT id, extract(year FROM tz) AS y, extract(doy FROM tz) AS doy, extract(hour FROM tz) AS h,
           date_part('minute', tz) AS m, extract(second FROM tz) AS s, extract(timezone FROM tz) AS o,
           extract(timezone_hour FROM tz) AS oh, date_part('timezone_minute', tz) AS om, extract(epoch FROM CASE WHEN id <> 10 THEN tz END) AS e
    FROM flight WHERE isfinite(tz) OFFSET 0) x;
SET TimeZone = 'America/Los_Angeles';
SELECT * FROM local ORDER BY id;
SELECT * FROM meant ORDER BY id;
SELECT * FROM parts ORDER BY id;
SET TimeZone = 'Europe/Dublin';
SELECT * FROM local ORDER BY id;
SELECT * FROM meant ORDER BY id;
SELECT * FROM parts ORDER BY id;
SET TimeZone = 'Pacific/Apia';
SELECT * FROM local ORDER BY id;
SELECT * FROM meant ORDER BY id;
SELECT * FROM parts ORDER BY id;
SET TimeZone = 'America/Sao_Paulo';
SELECT * FROM meant ORDER BY id;
SELECT * FROM parts ORDER BY id;
SET TimeZone = 'Asia/Kathmandu';
SELECT * FROM parts ORDER BY id;
SET TimeZone = '<+03>-3';
SELECT * FROM parts ORDER BY id;
SET TIME ZONE -7.5;
SELECT * FROM parts ORDER BY id;
SET TIME ZONE INTERVAL '+01:00' HOUR TO MINUTE;
SELECT * FROM meant ORDER BY id;
SET TimeZone = 'AAA3BBB2,M3.2.0/2,M11.1.0/2';
SELECT * FROM parts ORDER BY id;
SELECT * FROM meant ORDER BY id;
SET TimeZone = 'EST5EDT,M3.2.0,M11.1.0';
SELECT * FROM local ORDER BY id;
SELECT * FROM meant ORDER BY id;

-- zones that the query names
SELECT id, x FROM (SELECT id, tz AT TIME ZONE 'Asia/Tokyo' AS x FROM flight WHERE id <> 10 OFFSET 0) y ORDER BY id;
SELECT id, x FROM (SELECT id, ts AT TIME ZONE 'Europe/Berlin' AS x FROM flight OFFSET 0) y ORDER BY id;
SELECT id, x FROM (SELECT id, tz AT TIME ZONE 'est' AS x, ts AT TIME ZONE 'EST' FROM flight OFFSET 0) y ORDER BY id;
SELECT id, x FROM (SELECT id, date_trunc('month', tz, 'Australia/Lord_Howe') AS x FROM flight OFFSET 0) y ORDER BY id;
SELECT count(*) FROM flight WHERE tz AT TIME ZONE 'nowhere' > '2000-01-01';
SELECT count(*) FROM flight WHERE id < 0 AND tz AT TIME ZONE 'nowhere' > '2000-01-01';
SELECT count(*) FROM flight WHERE tz AT TIME ZONE NULL > '2000-01-01';
SELECT count(*) FROM flight WHERE tz AT TIME ZONE interval '2 hours' > '2000-01-01';
SELECT count(*) FROM flight WHERE tz AT TIME ZONE 'MSK' > '2000-01-01';

-- groups, conditions, joins, windows
SET TimeZone = 'America/Los_Angeles';
SELECT extract(year FROM tz) AS year, count(*) FROM flight WHERE isfinite(tz) GROUP BY 1 ORDER BY 1;
SELECT date_trunc('month', tz) AS month, count(*), min(ts) FROM flight GROUP BY 1 ORDER BY 1;
SELECT id FROM flight WHERE extract(hour FROM tz) = 1 ORDER BY id;
SELECT a.id, b.id FROM flight a JOIN flight b ON a.tz::date = b.d ORDER BY 1, 2;
SELECT id, first FROM (SELECT id, min(tz::timestamp) OVER (PARTITION BY extract(year FROM tz)) AS first
  FROM flight WHERE isfinite(tz)) x ORDER BY id;
SELECT max(extract(hour FROM tz)), sum(date_part('minute', tz)) FROM flight WHERE isfinite(tz);

-- dates, local times and points in time compared, however far away
SELECT a.id, b.id FROM flight a JOIN flight b ON a.d <= b.tz AND b.id = 10 ORDER BY 1, 2;
SELECT id, d < tz AS before, d = tz AS same, ts < tz AS ts_before, ts >= tz AS ts_after FROM flight ORDER BY id;
SELECT count(*) FILTER (WHERE d < tz), count(*) FILTER (WHERE d = ts), count(*) FILTER (WHERE ts < tz) FROM flight;
SELECT count(*) FROM flight WHERE tz > date '5874897-12-31';
SELECT count(*) FROM flight WHERE tz < date 'infinity';
SELECT count(*) FROM flight WHERE ts < date '5874897-12-31';
SELECT count(*) FROM flight WHERE tz > date '4713-01-01 BC';

-- beyond the range
SET TimeZone = 'Asia/Tokyo';
SELECT count(tz::timestamp) FROM flight WHERE id <> 10;
INSERT INTO flight VALUES (20, '294276-12-31 23:00:00+00', '4713-01-01 00:00:00 BC', '294277-01-01');
SELECT count(*) FROM flight WHERE tz::timestamp > '2000-01-01';
SELECT count(*) FROM flight WHERE ts::timestamptz > '2000-01-01';
SELECT count(*) FROM flight WHERE d::timestamptz > '2000-01-01';
SELECT extract(year FROM tz) AS year, count(*) FROM flight WHERE isfinite(tz) GROUP BY 1 ORDER BY 1;
DELETE FROM flight WHERE id = 20;

-- a kept plan asks for the zone when it runs
PREPARE hours AS SELECT extract(hour FROM tz) AS hour, count(*) FROM flight WHERE isfinite(tz) GROUP BY 1 ORDER BY 1;
SET plan_cache_mode = force_generic_plan;
SET TimeZone = 'UTC';
EXECUTE hours;
SET TimeZone = 'Asia/Kathmandu';
EXECUTE hours;
BEGIN;
SET LOCAL TimeZone = 'America/St_Johns';
EXECUTE hours;
ROLLBACK;
EXECUTE hours;
CREATE FUNCTION hour_of(integer) RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT sum(extract(hour FROM tz)) FROM flight WHERE id = $1);
END $$;
SELECT hour_of(3);
SET TimeZone = 'Asia/Tokyo';
SELECT hour_of(3);
PREPARE zoned(text) AS SELECT min(tz AT TIME ZONE $1), max(ts AT TIME ZONE $1) FROM flight WHERE id < 10;
EXECUTE zoned('UTC');
EXECUTE zoned('America/New_York');
EXECUTE zoned(NULL);
EXECUTE zoned('Nowhere/Land');
RESET plan_cache_mode;
-- so does a cursor that was declared before
BEGIN;
DECLARE shown CURSOR FOR SELECT id, x FROM (SELECT id, tz::timestamp AS x FROM flight WHERE id < 4 OFFSET 0) y;
SET LOCAL TimeZone = 'UTC';
FETCH ALL FROM shown;
ROLLBACK;

-- clocks that are put forward for good, and leap seconds
CREATE TABLE odd_clocks (id integer PRIMARY KEY, tz timestamptz);
INSERT INTO odd_clocks VALUES (1, '1900-02-28 23:59:59.999999+00'), (2, '2024-03-10 06:59:59+00'), (3, '2024-08-01+00');
SELECT anker.mirror('odd_clocks');
SELECT anker.wait_for_mirror('odd_clocks');
SELECT tz AT TIME ZONE 'EST5EDT,0/0,J365/25' AS v, count(*) FROM odd_clocks GROUP BY 1 ORDER BY 1;
SELECT tz AT TIME ZONE 'FOO-14BAR,J1/0,J365/25' AS v, count(*) FROM odd_clocks GROUP BY 1 ORDER BY 1;
SELECT tz AT TIME ZONE 'EST5EDT,M3.2.0,M11.1.0' AS v, count(*) FROM odd_clocks GROUP BY 1 ORDER BY 1;
