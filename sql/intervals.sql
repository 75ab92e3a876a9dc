-- engine: at least 49
--
-- INTERVALS, AND TIMES BY A PATTERN
--

CREATE TABLE meeting (
    id integer PRIMARY KEY,
    ts timestamp,
    tz timestamptz,
    d  date,
    y integer, m integer, day integer
);
INSERT INTO meeting VALUES
    (1, '2024-01-31 12:34:56.789012', '2024-03-09 10:30:00+00', '2024-01-31', 2024, 2, 29),
    (2, '2023-01-31 00:00:00',        '2024-11-02 09:30:00+00', '2023-12-31', 2023, 12, 31),
    (3, '1999-12-31 23:59:59.999999', '1999-12-31 23:59:59.999999+00', '1999-12-31', -44, 3, 15),
    (4, 'infinity', 'infinity', 'infinity', 1, 1, 1),
    (5, '-infinity', '-infinity', '-infinity', 5874897, 12, 31),
    (6, '0044-03-15 06:07:08 BC', '0044-03-15 06:07:08+00 BC', '0044-03-15 BC', -4713, 12, 1),
    (7, '2024-06-30 13:00:00', '2024-06-30 13:00:00+00', '2024-06-30', 10, 10, 10),
    (8, NULL, NULL, NULL, NULL, NULL, NULL),
    (9, '12024-07-09 00:05:09.5', '12024-07-09 00:05:09.5+00', '12024-07-09', 12024, 7, 9);
SELECT anker.mirror('meeting');
SELECT anker.wait_for_mirror('meeting');
SET datestyle = 'ISO, YMD';

SELECT * FROM (SELECT id, ts + interval '1 month' AS a, ts - interval '1 year 2 days 03:04:05.678' AS b,
  interval '-13 months' + ts AS c, d + interval '1 month' AS d, d - interval '1 hour' AS e FROM meeting OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, tz + interval '1 day' AS a, tz + interval '24 hours' AS b, tz - interval '6 months' AS c,
  tz + interval '-1 month 1 day -1 hour' AS d FROM meeting OFFSET 0) x ORDER BY id;
SET TimeZone = 'Europe/Paris';
SELECT * FROM (SELECT id, tz + interval '1 day' AS a, tz - interval '1 month' AS b FROM meeting OFFSET 0) x ORDER BY id;
RESET TimeZone;
SELECT id FROM meeting WHERE ts + interval '1 day' > '2024-02-01' ORDER BY id;
SELECT date_trunc('month', ts + interval '1 month') AS m, count(*) FROM meeting GROUP BY 1 ORDER BY 1;
PREPARE moved(interval) AS SELECT min(ts + $1), max(tz - $1), count(*) FILTER (WHERE d + $1 > ts) FROM meeting WHERE id IN (1, 2, 3, 7);
EXECUTE moved('1 month 2 days 3 hours');
EXECUTE moved('-1 day');
EXECUTE moved(NULL);
SET plan_cache_mode = force_generic_plan;
EXECUTE moved('1 month 2 days 3 hours');
EXECUTE moved('1000000 years');
RESET plan_cache_mode;
SELECT count(*) FROM meeting WHERE ts + interval '300000 years' > '2000-01-01';
SELECT count(*) FROM meeting WHERE d - interval '3000000 days' > '2000-01-01';
SELECT count(*) FROM meeting WHERE ts + (id || ' days')::interval > '2000-01-01';
SELECT * FROM (SELECT id, ts + id * interval '1 day' AS a, tz - m * interval '1 month 12 hours' AS b, d + interval '90 minutes' * y AS c
  FROM meeting WHERE id <> 5 OFFSET 0) x ORDER BY id;
SELECT count(*) FROM meeting WHERE ts + y * interval '1000 years' > '2000-01-01';
SELECT count(*) FROM meeting WHERE ts + id * 0.5 * interval '1 day' > '2000-01-01';

-- differences
SELECT * FROM (SELECT a.id AS a, b.id AS b, extract(epoch FROM a.ts - b.ts) AS e, extract(day FROM a.tz - b.tz) AS days,
  extract(hour FROM a.ts - b.ts) AS h, extract(minute FROM a.ts - b.ts) AS m, extract(second FROM a.ts - b.ts) AS s,
  date_part('epoch', a.tz - b.tz) AS f, date_part('second', a.ts - b.ts) AS g
  FROM meeting a, meeting b WHERE a.id IN (1, 2, 3, 6, 7) AND b.id IN (1, 2, 3, 9) OFFSET 0) x ORDER BY a, b;
SELECT a.id, b.id FROM meeting a JOIN meeting b ON a.ts - b.ts > interval '1 year' AND a.id < 4 AND b.id < 4 ORDER BY 1, 2;
SELECT count(*) FROM meeting WHERE id IN (1, 2, 3, 7) AND ts - tz::timestamp BETWEEN interval '-1 month' AND interval '1 month';
SELECT count(*) FROM meeting WHERE id IN (1, 2, 3, 7) AND tz - now() < interval '0';
SELECT avg(extract(epoch FROM tz - ts::timestamptz)) FROM meeting WHERE id IN (1, 2, 3, 7);
SELECT count(*) FROM meeting WHERE ts - '2000-01-01'::timestamp > interval '1 day';
SELECT ts - '2000-01-01'::timestamp AS since, count(*) FROM meeting WHERE id < 4 GROUP BY 1 ORDER BY 1;

-- patterns
SELECT * FROM (SELECT id, to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US') AS a, to_char(ts, 'FMMonth FMDD, FMYYYY BC') AS b,
  to_char(tz, 'Dy, DD Mon YY HH12:MI AM') AS c, to_char(d, 'IYYY-"W"IW-ID') AS d FROM meeting OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, to_char(ts, 'YYY Y Y,YYY CC Q WW W DDD D J') AS a, to_char(ts, 'MONTH|Month|month|DAY|Day|day|DY|dy|MON|mon|') AS b,
  to_char(ts, 'HH.FMMI.FMSS.MS.FF1.FF4.SSSS am A.M. pm b.c. ad') AS c, to_char(ts, 'FMCC FMDDD FMQ IYY IY I') AS d,
  to_char(ts, 'x é "YYYY\"" DD"') AS e FROM meeting OFFSET 0) x ORDER BY id;
SELECT to_char(ts, 'YYYY-MM') AS month, count(*) FROM meeting GROUP BY 1 ORDER BY 1;
SELECT id FROM meeting WHERE to_char(tz, 'HH24') = '13' ORDER BY id;
SELECT count(to_char(ts, '')), count(to_char(ts, NULL)) FROM meeting;
SELECT max(to_char(ts, 'DDth')), max(to_char(ts, 'TMMonth')) FROM meeting WHERE to_char(ts, 'DDth') > '' AND id = 1;
SELECT count(*) FROM meeting WHERE to_char(tz, 'TZ') = 'PST';

-- bins, dates made of numbers, finite values
SELECT * FROM (SELECT id, date_bin('15 minutes', ts, '2000-01-01') AS a, date_bin('7 days', tz, '2001-01-01') AS b
  FROM meeting OFFSET 0) x ORDER BY id;
SELECT date_bin('1 month', ts, '2000-01-01') AS a, count(*) FROM meeting GROUP BY 1;
SELECT * FROM (SELECT id, make_date(y, m, day) AS a FROM meeting OFFSET 0) x ORDER BY id;
SELECT count(*) FROM meeting WHERE make_date(y, m, day + 1) > '2000-01-01';
SELECT count(*) FROM meeting WHERE id <> 5 AND make_date(0 * y, m, day) > '2000-01-01';
SELECT count(*) FILTER (WHERE isfinite(ts)), count(*) FILTER (WHERE isfinite(tz)), count(*) FILTER (WHERE NOT isfinite(d)) FROM meeting;

-- groups of years
SELECT * FROM (SELECT id, date_trunc('decade', ts) AS a, date_trunc('century', ts) AS b, date_trunc('millennium', ts) AS c,
  date_trunc('century', tz) AS d, date_part('julian', ts) AS e, date_part('second', ts) AS f, date_part('epoch', ts) AS g,
  date_part('epoch', tz) AS h, date_part('milliseconds', ts) AS i FROM meeting OFFSET 0) x ORDER BY id;

-- as values: equal ones may look different, and any of them may stand for all
CREATE TABLE lead (id integer PRIMARY KEY, v interval, n integer, f double precision, tm time);
INSERT INTO lead VALUES
    (1, '1 mon', 2, 0.5, '12:00'), (2, '30 days', 3, -1.5, '23:30'), (3, '720:00:00', -1, 7, '24:00'),
    (4, '1 day', 0, 0.1, '00:00'), (5, '-1 year 2 mons -3 days 04:05:06.789', 12, 1e3, '07:07:07.7'), (6, NULL, NULL, NULL, NULL),
    (7, '0', 5, 3, '01:00'), (8, '23:59:59.999999', 1, 1, '13:00');
SELECT anker.mirror('lead');
SELECT anker.wait_for_mirror('lead');
SELECT * FROM (SELECT id, v + interval '1 day' AS a, v * f AS b, n * v AS c, v / nullif(n, 0) AS d, - v AS e FROM lead OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, justify_hours(v) AS a, justify_days(v) AS b, justify_interval(v) AS c, extract(epoch FROM v) AS d,
  date_part('month', v) AS e, tm + v AS f, tm - v AS g, tm - time '06:00' AS h FROM lead OFFSET 0) x ORDER BY id;
SELECT * FROM (SELECT id, age(ts, '2000-02-29') AS a, age('2024-05-31', ts) AS b, age(tz, '2000-02-29') AS c, ts - tz::timestamp AS d
  FROM meeting WHERE isfinite(ts) OFFSET 0) x ORDER BY id;
SELECT id FROM lead WHERE v = '1 mon' ORDER BY id;
SELECT id FROM lead WHERE v > '1 day' AND v IS DISTINCT FROM '30 days' ORDER BY id;
SELECT justify_interval(v), count(*), sum(n) FROM lead GROUP BY v ORDER BY 1;
SELECT justify_interval(v) FROM (SELECT DISTINCT v FROM lead) x ORDER BY 1;
SELECT justify_interval(min(v)), justify_interval(max(v)), sum(v), avg(v), count(DISTINCT v), sum(v) FILTER (WHERE n > 100) FROM lead;
SELECT * FROM (SELECT n % 2 AS k, avg(v) AS a, sum(v) AS s FROM lead GROUP BY 1 OFFSET 0) x ORDER BY 1;
SELECT a.id, b.id FROM lead a JOIN lead b ON a.v = b.v AND a.id < b.id ORDER BY 1, 2;
SELECT * FROM (SELECT id, v FROM lead ORDER BY v DESC NULLS LAST, id LIMIT 4) x ORDER BY v DESC, id;
SELECT id, rank FROM (SELECT id, rank() OVER (ORDER BY v) FROM lead) x ORDER BY id;
SELECT justify_interval(v) FROM (SELECT v FROM lead INTERSECT SELECT interval '1 day' * n FROM lead, generate_series(1, 3)) x ORDER BY 1;
PREPARE longer(interval) AS SELECT count(*), justify_interval(max(v + $1)) FROM lead WHERE v > $1;
EXECUTE longer('-1 day');
EXECUTE longer('2000000000 months');
SELECT sum(v * 1000000000) FROM lead WHERE id < 4;
SELECT count(*) FROM lead WHERE v / n > '1 day';
SELECT * FROM (SELECT id, make_interval(n, n, 0, n, 1, n, f) AS a FROM lead OFFSET 0) x ORDER BY id;
-- the greatest and the least of several
SELECT * FROM (SELECT id, greatest(v, interval '1 mon') AS g, least(v, interval '30 days', n * interval '1 day') AS l,
  greatest(v, NULL, tm - time '00:00') AS t FROM lead OFFSET 0) s ORDER BY id;
SELECT count(*) FROM lead a JOIN lead b ON greatest(a.v, b.v) = a.v AND least(a.v, b.v) < interval '1 day';
SELECT count(*), max(n) FROM (SELECT greatest(v, interval '0') AS g, count(*) AS n FROM lead GROUP BY 1 OFFSET 0) s;
-- intervals too long for the engine: kept and returned
INSERT INTO lead VALUES (9, '178000000 years', 0, 0, NULL);
SELECT v FROM lead WHERE id = 9;
SELECT count(v) FROM lead WHERE v > '1 year';

-- A bin that would begin before the first timestamp.
SELECT max(date_bin('1 week', timestamp '4714-11-24 BC' + id * interval '20 days', '2023-03-26 02:30')) FROM meeting;
SELECT max(date_bin('1 week', timestamp '4714-11-24 BC' + (id - id) * interval '1 day', '2023-03-26 02:30')) FROM meeting;
