-- engine: at least 43
--
-- DATE, TIMESTAMP, TIMESTAMP WITH TIME ZONE
--

CREATE TABLE moment (
    id integer PRIMARY KEY,
    d  date,
    ts timestamp,
    tz timestamptz,
    t3 timestamp(3)
);
INSERT INTO moment VALUES
    (1, '2024-02-29',  '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789012+00', '2024-02-29 12:34:56.7894'),
    (2, '2000-01-01',  '2000-01-01 00:00:00',        '2000-01-01 00:00:00+00',        '2000-01-01 00:00:00'),
    (3, '1999-12-31',  '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999+00', '1999-12-31 23:59:59.999999'),
    (4, 'infinity',    'infinity',                   'infinity',                      'infinity'),
    (5, '-infinity',   '-infinity',                  '-infinity',                     '-infinity'),
    (6, '0044-03-15 BC', '0044-03-15 12:00:00 BC',   '0044-03-15 12:00:00+00 BC',     '0044-03-15 12:00:00 BC'),
    (7, '5874897-12-31', '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00', '2024-06-30'),
    (8, NULL, NULL, NULL, NULL),
    (9, '2024-03-10',  '2024-03-10 02:30:00',        '2024-03-10 10:30:00+00',        '2024-03-10 02:30:00'),
    (10, '2024-11-03', '2024-11-03 01:30:00',        '2024-11-03 09:30:00+00',        '2024-11-03 01:30:00');
SELECT anker.mirror('moment');
SELECT anker.wait_for_mirror('moment');

-- display in another style and zone
SELECT id, d, ts FROM moment ORDER BY id;
SELECT id, tz, t3 FROM moment ORDER BY id;
SET TIME ZONE 'UTC';
SET datestyle = 'ISO, DMY';
SELECT id, d, tz FROM moment ORDER BY id;
RESET datestyle;
RESET TIME ZONE;

-- order and extremes
SELECT id FROM moment ORDER BY d, id;
SELECT min(d), max(d), min(ts), max(ts) FROM moment;
SELECT min(tz), max(tz) FROM moment WHERE id NOT IN (4, 5);
SELECT count(d), count(ts), count(tz) FROM moment;

-- comparison with constants, words and each other
SELECT id FROM moment WHERE d = '2024-02-29';
SELECT id FROM moment WHERE d < 'epoch' ORDER BY id;
SELECT id FROM moment WHERE d BETWEEN '1999-12-31' AND '2024-02-29' ORDER BY id;
SELECT id FROM moment WHERE d = 'infinity' OR d = '-infinity' ORDER BY id;
SELECT id FROM moment WHERE ts >= '2024-01-01' AND ts < '2024-01-01'::timestamp + interval '1 year' ORDER BY id;
SELECT id FROM moment WHERE tz = '2024-02-29 04:34:56.789012-08' ORDER BY id;
SELECT id FROM moment WHERE tz > '2024-03-10 02:30:00 America/New_York' ORDER BY id;
SELECT id FROM moment WHERE d = ts ORDER BY id;
SELECT id FROM moment WHERE d < ts AND id <> 7 ORDER BY id;
SELECT id FROM moment WHERE d > ts AND id <> 7 ORDER BY id;
SELECT id FROM moment WHERE ts = t3 ORDER BY id;
-- by the session's time zone
SELECT id FROM moment WHERE d < tz AND id <> 7 ORDER BY id;
SELECT id FROM moment WHERE ts = tz ORDER BY id;

-- a change of the session's time zone changes what such a query means
SET TIME ZONE 'Asia/Tokyo';
SELECT id FROM moment WHERE tz >= '2024-03-10' ORDER BY id;
SELECT id FROM moment WHERE ts < tz AND id <> 7 ORDER BY id;
RESET TIME ZONE;
SELECT id FROM moment WHERE tz >= '2024-03-10' ORDER BY id;

-- arithmetic
SELECT id, d + 1, d - 1, d - date '2000-01-01' FROM moment WHERE id IN (1, 2, 3, 9) ORDER BY id;
SELECT max(d - 1), min(d + id) FROM moment WHERE id IN (1, 2, 3);
SELECT id, ts + interval '1 month', ts - interval '1 day 2 hours' FROM moment WHERE id IN (1, 2, 3) ORDER BY id;
SELECT id, tz + interval '1 day', tz + interval '24 hours' FROM moment WHERE id IN (9, 10) ORDER BY id;
SELECT max(ts) - min(ts) FROM moment WHERE id IN (1, 2, 3);
SELECT d + 1 FROM moment WHERE id IN (4, 5) ORDER BY id;

CREATE TABLE day (id integer PRIMARY KEY, d date, later integer);
INSERT INTO day SELECT id, d, id * 10 FROM moment WHERE d IS NULL OR d BETWEEN '1000-01-01' AND '3000-01-01';
SELECT anker.mirror('day');
SELECT anker.wait_for_mirror('day');
SELECT id FROM day WHERE d - date '2000-01-01' > 8000 ORDER BY id;
SELECT id FROM day WHERE d + 1 = '2024-03-01';
SELECT d + later AS then, count(*) FROM day GROUP BY d + later ORDER BY 1;
SELECT a.id, b.id, a.d - b.d AS days FROM day a JOIN day b ON a.d = b.d + 1 ORDER BY 1, 2;
SELECT sum(d - date '2000-01-01'), avg(d - date '2000-01-01') FROM day;

-- parts
SELECT id, extract(year FROM d), extract(dow FROM ts), date_part('hour', tz) FROM moment WHERE id IN (1, 3, 6, 9) ORDER BY id;
SELECT extract(year FROM d) AS year, count(*) FROM moment WHERE id NOT IN (4, 5) GROUP BY extract(year FROM d) ORDER BY 1;
SELECT date_trunc('month', ts), count(*) FROM moment WHERE id IN (1, 2, 3, 9) GROUP BY 1 ORDER BY 1;
SELECT id FROM moment WHERE extract(month FROM d) = 2;
SELECT id, to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US'), tz AT TIME ZONE 'UTC' FROM moment WHERE id IN (1, 9) ORDER BY id;

-- groups and joins
SELECT d, count(*) FROM moment GROUP BY d ORDER BY d;
SELECT ts, tz, count(*) FROM moment WHERE id < 4 GROUP BY ts, tz ORDER BY ts;
SELECT a.id, b.id FROM moment a, moment b WHERE a.d = b.d AND a.id <= b.id ORDER BY 1, 2;
SELECT a.id, b.id FROM moment a, moment b WHERE a.d = b.ts ORDER BY 1, 2;
SELECT a.id, b.id FROM moment a, moment b WHERE a.ts = b.t3 ORDER BY 1, 2;

-- values that are stable within a statement
SELECT count(*) FROM moment WHERE tz < now() AND tz > '-infinity';
SELECT count(*) FROM moment WHERE d < current_date AND d > '-infinity';
SELECT count(*) FROM moment WHERE ts < localtimestamp - interval '10 years' AND id <> 5;
-- and that are not
SELECT count(*) FROM moment WHERE tz < clock_timestamp() AND id IN (1, 2, 3);
