-- engine: at least 34
--
-- WINDOW RANGES
--
-- Window frames of a range of values, where the engine has to know them: in subqueries.
--

CREATE TABLE reading (id integer PRIMARY KEY, small smallint, whole integer, big bigint, price numeric(8,2), single real,
  double double precision, day date, at timestamp, zoned timestamptz, clock time, wide numeric, part integer);
INSERT INTO reading
  SELECT i, (ARRAY[32767, -32768, 0, 3, 5, NULL])[i % 6 + 1], (ARRAY[2147483647, -2147483648, 1, 2, 2, NULL, 7])[i % 7 + 1],
    (ARRAY[9223372036854775807, -9223372036854775808, 10, 12, NULL])[i % 5 + 1], nullif(i * 37 % 23, 7) * 1.25,
    (ARRAY['NaN', '-0', '0', '1.5', '-Infinity', 'Infinity', NULL, '3.4e38']::real[])[i % 8 + 1],
    (ARRAY['NaN', '0', '1.5', '-Infinity', 'Infinity', NULL, '1.7e308', '-1.7e308', '2']::float8[])[i % 9 + 1],
    (ARRAY['2024-01-31', '2024-02-28', '2024-02-29', 'infinity', '-infinity', NULL, '2024-03-31']::date[])[i % 7 + 1],
    timestamp '2024-01-29 08:00' + nullif(i % 11, 4) * interval '7 hours',
    timestamptz '2024-03-30 00:00+00' + nullif(i % 13, 5) * interval '5 hours',
    time '10:00' + i % 4 * interval '1 hour', i / 3.0, i % 3
  FROM generate_series(1, 40) i;
ANALYZE reading;
CREATE TABLE unread (id integer PRIMARY KEY, d date);
INSERT INTO unread VALUES (1, '4714-11-24 BC'), (2, '2024-01-01');
CREATE SEQUENCE sq;
SELECT anker.mirror('unread');
SELECT anker.wait_for_mirror('unread');
SELECT anker.mirror('reading');
SELECT anker.wait_for_mirror('reading');

-- integers, beyond their ends too
SELECT * FROM (SELECT id, whole, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY whole RANGE BETWEEN 1 PRECEDING AND 5 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY whole DESC NULLS LAST RANGE BETWEEN 5 PRECEDING AND 1 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, min(id) OVER w AS s FROM reading
  WINDOW w AS (PARTITION BY part ORDER BY big NULLS FIRST RANGE 9223372036854775807 PRECEDING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, max(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY small RANGE BETWEEN 2147483648 PRECEDING AND 2::smallint FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, first_value(id) OVER w IS NULL AS e FROM reading
  WINDOW w AS (ORDER BY whole RANGE BETWEEN 5 FOLLOWING AND 1 FOLLOWING)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY id RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING EXCLUDE CURRENT ROW)) s ORDER BY id LIMIT 8;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY small DESC RANGE BETWEEN CURRENT ROW AND 3 FOLLOWING EXCLUDE GROUP)) s ORDER BY id;
SELECT * FROM (SELECT id, last_value(id) OVER w AS l, nth_value(id, 2) OVER w AS n FROM reading
  WINDOW w AS (ORDER BY id RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE TIES)) s ORDER BY id LIMIT 8;

-- numerics
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(price) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY price RANGE BETWEEN 1.255 PRECEDING AND 2.5 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n FROM reading
  WINDOW w AS (ORDER BY price DESC RANGE BETWEEN 0 PRECEDING AND 100000000000000000000.001 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n FROM reading
  WINDOW w AS (ORDER BY price RANGE BETWEEN 'Infinity' PRECEDING AND 1 FOLLOWING)) s ORDER BY id LIMIT 5;
SELECT * FROM (SELECT id, count(*) OVER (ORDER BY wide RANGE 1 PRECEDING) AS n FROM reading) s ORDER BY id LIMIT 5;

-- floats: NaN, infinities, sums beyond the largest
SELECT * FROM (SELECT id, double, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY double RANGE BETWEEN 1.5 PRECEDING AND 0.5 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY double RANGE BETWEEN 'inf' PRECEDING AND 'inf' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY double RANGE BETWEEN 'inf' PRECEDING AND 'inf' PRECEDING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY double DESC RANGE BETWEEN 'inf' FOLLOWING AND 'inf' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY double DESC NULLS LAST RANGE BETWEEN 1.7e308 PRECEDING AND 1.7e308 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, single, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY single RANGE BETWEEN 1.5 PRECEDING AND 3.5e38 FOLLOWING)) s ORDER BY id;

-- dates and times, whose months have different lengths
SELECT * FROM (SELECT id, day, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY day RANGE BETWEEN '1 month' PRECEDING AND '1 day' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, first_value(day) OVER w AS f FROM reading
  WINDOW w AS (PARTITION BY part ORDER BY day DESC RANGE BETWEEN '1 month 1 day' PRECEDING AND '30 days 1 hour' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, at, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY at RANGE BETWEEN '1 month' FOLLOWING AND UNBOUNDED FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, last_value(at) OVER w AS l FROM reading
  WINDOW w AS (ORDER BY at DESC RANGE BETWEEN '1 day -3 hours' PRECEDING AND '07:00:00.000001' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, nth_value(id, 2) OVER w AS n, count(*) OVER w AS c FROM reading
  WINDOW w AS (ORDER BY at, id ROWS 1 PRECEDING)) s ORDER BY id LIMIT 3;
SELECT * FROM (SELECT id, last_value(id) OVER (ORDER BY at RANGE BETWEEN '1 month' PRECEDING AND CURRENT ROW) IS NULL FROM reading) s
  ORDER BY id LIMIT 3;
SET TimeZone = 'Europe/Berlin';
SELECT * FROM (SELECT id, zoned, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY zoned RANGE BETWEEN '1 day' PRECEDING AND '1 day' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY zoned DESC RANGE BETWEEN '1 month 2 hours' PRECEDING AND '5 hours' FOLLOWING)) s ORDER BY id;
SET TimeZone = 'UTC';
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM reading
  WINDOW w AS (ORDER BY zoned RANGE BETWEEN '24:00' PRECEDING AND '1 day' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER (ORDER BY clock RANGE '1 hour' PRECEDING) AS n FROM reading) s ORDER BY id LIMIT 5;
SELECT * FROM (SELECT id, count(*) OVER (ORDER BY at RANGE '100000 years' PRECEDING) AS n FROM reading) s ORDER BY id LIMIT 5;

-- tied to the rows around
SELECT part, (SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY whole RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n
  FROM reading r WHERE r.part = o.part AND r.whole < 100) s) FROM reading o WHERE id < 7 ORDER BY id;
WITH w AS (SELECT id, sum(id) OVER (ORDER BY price RANGE 2 PRECEDING) AS s FROM reading)
  SELECT count(*) FROM w a JOIN w b ON a.s = b.s AND a.id = b.id;

-- invalid offsets
SELECT * FROM (SELECT count(*) OVER (ORDER BY whole RANGE -1 PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY price RANGE BETWEEN -0.5 PRECEDING AND CURRENT ROW) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY price RANGE 'NaN' PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY double RANGE 'NaN' PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY double RANGE -1 PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY at RANGE '-1 hour' PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY at RANGE '1 month -31 days' PRECEDING) FROM reading) s LIMIT 1;
SELECT * FROM (SELECT count(*) OVER (ORDER BY whole RANGE NULL::integer PRECEDING) FROM reading) s LIMIT 1;
PREPARE around(integer) AS SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY id RANGE BETWEEN $1 PRECEDING AND 1 FOLLOWING) AS n FROM reading) s;
EXECUTE around(2);
EXECUTE around(-2);
SELECT * FROM (SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 1 + 1 PRECEDING AND CURRENT ROW) AS n FROM reading) s ORDER BY id LIMIT 3;

-- frames that are not read, and raise errors all the same
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id ROWS BETWEEN -1 PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE id > 0;
SELECT * FROM (SELECT id, lag(id) OVER (ORDER BY id ROWS BETWEEN NULL::integer PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE id > 0;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY id GROUPS BETWEEN -1 PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE r > 0;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY id RANGE BETWEEN -1 PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE r > 0;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY d RANGE BETWEEN '-1 month' PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE r > 0;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY d RANGE BETWEEN '1 month' PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE r > 0;
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY d RANGE BETWEEN UNBOUNDED PRECEDING AND '1 month' PRECEDING) AS r FROM unread) s WHERE r < 9;
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id ROWS BETWEEN nextval('sq') PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE id > 0 ORDER BY id;
SELECT is_called FROM sq;
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM unread) s WHERE id > 0 ORDER BY id;
SELECT * FROM (SELECT id, rank() OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS r FROM unread) s WHERE r > 0 ORDER BY id;

-- intervals, times of the day, numerics of any digits
CREATE TABLE lead (id integer PRIMARY KEY, v interval, tm time, n numeric);
INSERT INTO lead SELECT i, (ARRAY['1 mon', '30 days', '1 day', '25:00', '-1 mon', NULL, '59 days', '0']::interval[])[i % 8 + 1],
    time '00:00' + nullif(i * 37 % 67, 3) * interval '40 minutes',
    (ARRAY['NaN', '0.00', '0', '1.50', '-Infinity', 'Infinity', NULL, '1e50', '-2.5']::numeric[])[i % 9 + 1]
  FROM generate_series(1, 30) i;
SELECT anker.mirror('lead');
SELECT anker.wait_for_mirror('lead');
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM lead
  WINDOW w AS (ORDER BY v RANGE BETWEEN '1 day' PRECEDING AND '29 days' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM lead
  WINDOW w AS (ORDER BY v DESC RANGE BETWEEN '1 mon' PRECEDING AND '1 hour' FOLLOWING EXCLUDE TIES)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM lead
  WINDOW w AS (ORDER BY tm RANGE BETWEEN '3 mons 2 hours' PRECEDING AND '20 hours' FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER w AS n, sum(id) OVER w AS s FROM lead
  WINDOW w AS (ORDER BY n RANGE BETWEEN 1.5 PRECEDING AND 1e49 FOLLOWING)) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER (ORDER BY v RANGE '-1 day' PRECEDING) AS n FROM lead) s ORDER BY id;
SELECT * FROM (SELECT id, count(*) OVER (ORDER BY tm RANGE '-1 hour' PRECEDING) AS n FROM lead) s ORDER BY id;
