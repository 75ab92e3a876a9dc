-- engine: at least 94
--
-- AGGREGATES OVER VALUES IN AN ORDER
--
-- string_agg, array_agg, percentile_cont, percentile_disc and mode, by
-- themselves, in groups and in subqueries.
--

CREATE TYPE mood AS ENUM ('wild', 'calm', 'odd');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN short AS varchar(3);
CREATE TABLE entry (
    id     integer PRIMARY KEY,
    g      text,
    flag   boolean,
    i2     smallint,
    i4     integer,
    i8     bigint,
    f4     real,
    f8     double precision,
    price  numeric(8,2),
    wide   numeric(30,5),
    digits numeric,
    day    date,
    at     timestamp,
    atz    timestamptz,
    clock  time,
    word   text,
    brief  char(5),
    nick   name,
    tag    short,
    data   bytea,
    key    uuid,
    mood   mood,
    doc    jsonb,
    span   interval,
    place  point,
    mac    macaddr,
    letter "char",
    net    inet,
    duo    pair,
    nums   integer[]
);
SET TimeZone = 'UTC';
INSERT INTO entry
SELECT i, (ARRAY['a', 'b', 'c'])[i % 3 + 1], nullif(i % 3, 2) = 1, nullif(i % 7, 3) - 2, nullif(i * 37 % 11, 4), i * 1000000007::bigint % 97,
    (i % 5) / 4.0, nullif(i % 6, 5) * 1.5, i * 1.25, i * 100000000000.00001, (i % 4)::numeric / 8, date '2024-01-01' + i * 7 % 20,
    timestamp '2024-01-01' + i * interval '7 hours', timestamptz '2024-01-01 00:00+00' - i * interval '11 minutes', time '00:00' + i * interval '13 minutes',
    (ARRAY['pear', 'Apple', 'fig', NULL, '', 'čaj', 'chata'])[i % 7 + 1], 'b' || i % 4, 'n' || i % 3, left('t' || i, 3),
    decode(md5(i::text), 'hex'), md5(i::text)::uuid, (ARRAY['wild', 'calm', 'odd'])[i % 3 + 1]::mood, jsonb_build_object('i', i),
    i * interval '1 day', point(i, -i), '08:00:2b:01:02:03'::macaddr, chr(97 + i)::"char", ('10.0.0.' || i)::inet, (i, 'x' || i)::pair, ARRAY[i, i + 1]
FROM generate_series(1, 23) i;
INSERT INTO entry (id, g) VALUES (30, 'a'), (31, 'd'), (32, NULL);
INSERT INTO entry (id, g, word, f8, i4, digits) VALUES (40, 'a', 'x', 'NaN', 5, 'NaN'), (41, 'b', 'x', '-Infinity', 5, 1.50), (42, 'b', 'y', '0', 5, 1.5);
CREATE TABLE line (entry integer, n integer, what text, PRIMARY KEY (entry, n));
INSERT INTO line SELECT i % 25, i, 'w' || i * 31 % 17 FROM generate_series(1, 100) i;
SELECT anker.mirror('entry');
SELECT anker.mirror('line');
SELECT anker.wait_for_mirror('entry');
SELECT anker.wait_for_mirror('line');

-- text
SELECT g, string_agg(word, ', ' ORDER BY id) FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(word, ', ' ORDER BY word, id) FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(word, ', ' ORDER BY word COLLATE "C" DESC, id) FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(word, ', ' ORDER BY i4 NULLS FIRST, f8 DESC NULLS LAST, id) FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(DISTINCT word, ', ') FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(DISTINCT word, ', ' ORDER BY word DESC) FROM entry GROUP BY g ORDER BY g;
SELECT string_agg(DISTINCT word, g ORDER BY word, g) FROM entry;
SELECT string_agg(word, g ORDER BY id) FROM entry;
SELECT string_agg(word, NULL ORDER BY id), string_agg(word, '' ORDER BY id), string_agg(NULL::text, ',') FROM entry;
SELECT string_agg(brief, '|' ORDER BY id), string_agg(nick, '|' ORDER BY id), string_agg(tag, '|' ORDER BY id) FROM entry WHERE id < 6;
SELECT string_agg(id::text, ',' ORDER BY id), string_agg(word || g, '-' ORDER BY id DESC) FROM entry WHERE id < 9;
SELECT string_agg(data, '\xffff' ORDER BY id), string_agg(data, data ORDER BY data) FROM entry WHERE id < 4;
SELECT string_agg(word, ',' ORDER BY id) FROM entry WHERE id < 0;
SELECT g, string_agg(word, ',' ORDER BY id) FROM entry WHERE id < 0 GROUP BY g;
SELECT g, string_agg(word, ',' ORDER BY id) FILTER (WHERE i4 > 3), string_agg(word, ',' ORDER BY 10 / i4, id) FILTER (WHERE i4 <> 0) FROM entry GROUP BY g ORDER BY g;
SELECT g, string_agg(word, ',' ORDER BY id) FILTER (WHERE false), count(*) FROM entry GROUP BY g ORDER BY g;
SELECT length(string_agg(word, ',')), md5(string_agg(word, ',' ORDER BY id)) FROM entry;
SELECT g FROM entry GROUP BY g HAVING string_agg(word, ',' ORDER BY id) LIKE '%pear%' ORDER BY g;

-- arrays
SELECT g, array_agg(i4 ORDER BY id) FROM entry GROUP BY g ORDER BY g;
SELECT array_agg(flag ORDER BY id), array_agg(i2 ORDER BY id), array_agg(i8 ORDER BY id DESC) FROM entry;
SELECT array_agg(f4 ORDER BY id), array_agg(f8 ORDER BY id) FROM entry;
SELECT array_agg(price ORDER BY id), array_agg(wide ORDER BY id), array_agg(digits ORDER BY id) FROM entry WHERE id < 9 OR id > 30;
SELECT array_agg(day ORDER BY id), array_agg(at ORDER BY id), array_agg(atz ORDER BY id), array_agg(clock ORDER BY id) FROM entry WHERE id IN (3, 4, 31);
SELECT array_agg(word ORDER BY id), array_agg(brief ORDER BY id), array_agg(nick ORDER BY id), array_agg(tag ORDER BY id) FROM entry WHERE id < 9 OR id > 30;
SELECT array_agg(data ORDER BY id), array_agg(key ORDER BY id), array_agg(mood ORDER BY id) FROM entry WHERE id < 4 OR id = 31;
SELECT array_agg(doc ORDER BY id), array_agg(span ORDER BY id), array_agg(place ORDER BY id), array_agg(mac ORDER BY id) FROM entry WHERE id < 4 OR id = 31;
SELECT array_agg(letter ORDER BY id), array_agg(net ORDER BY id), array_agg(duo ORDER BY id) FROM entry WHERE id < 5 OR id = 31;
SELECT array_agg(nums ORDER BY id) FROM entry WHERE id < 4;
SELECT g, array_agg(DISTINCT i4), array_agg(DISTINCT word ORDER BY word DESC NULLS LAST), array_agg(DISTINCT flag) FROM entry GROUP BY g ORDER BY g;
SELECT array_agg(DISTINCT f8), array_agg(DISTINCT f8 ORDER BY f8 DESC), array_agg(DISTINCT day) FROM entry;
SELECT g, array_agg(id ORDER BY id) FILTER (WHERE i4 > 3), array_agg(word ORDER BY id) FILTER (WHERE word IS NULL) FROM entry GROUP BY g ORDER BY g;
SELECT array_agg(NULL::text), array_agg(1), array_agg('x'::text) FROM entry WHERE id < 3;
SELECT array_agg(id ORDER BY id) FROM entry WHERE id < 0;
SELECT pg_typeof(array_agg(tag)), pg_typeof(array_agg(brief)), pg_typeof(array_agg(mood)) FROM entry;
SELECT (array_agg(word ORDER BY id))[2:4], array_length(array_agg(id), 1), array_agg(id ORDER BY id) @> ARRAY[3] FROM entry;
SELECT array_agg(brief ORDER BY id) = ARRAY['b1', 'b2 ', 'b3']::char(5)[], array_agg(price ORDER BY id) = ARRAY[1.25, 2.5, 3.75] FROM entry WHERE id < 4;
SELECT array_agg(ARRAY[id, i4] ORDER BY id) FROM entry WHERE id < 4;
SELECT g, array_agg(id ORDER BY id), array_agg(word ORDER BY id), sum(i4), count(DISTINCT word), avg(price) FROM entry GROUP BY g ORDER BY g;
-- rows that are equal in the order come in one order to all
SELECT array_agg(id) = array_agg(-(-id)), array_agg(id ORDER BY g) = array_agg(-(-id) ORDER BY g) FROM entry WHERE i8 IS NOT NULL;
CREATE TEMP TABLE kept AS SELECT g, array_agg(word ORDER BY id) AS words FROM entry GROUP BY g;
SELECT * FROM kept ORDER BY g;

-- percentiles
SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY i4), percentile_cont(0.25) WITHIN GROUP (ORDER BY price), percentile_cont(0.9) WITHIN GROUP (ORDER BY f4 DESC) FROM entry GROUP BY g ORDER BY g;
SELECT percentile_cont(0) WITHIN GROUP (ORDER BY f8), percentile_cont(1) WITHIN GROUP (ORDER BY f8), percentile_cont(0.3) WITHIN GROUP (ORDER BY f8) FROM entry;
SELECT percentile_cont(0.999) WITHIN GROUP (ORDER BY f8), percentile_cont(0.001) WITHIN GROUP (ORDER BY f8), percentile_cont(NULL) WITHIN GROUP (ORDER BY f8) FROM entry;
SELECT percentile_cont(0.1) WITHIN GROUP (ORDER BY f8), percentile_cont(0.7) WITHIN GROUP (ORDER BY i4) FROM entry WHERE id < 20;
SELECT g, percentile_disc(0.5) WITHIN GROUP (ORDER BY word), percentile_disc(0.3) WITHIN GROUP (ORDER BY brief DESC), percentile_disc(0) WITHIN GROUP (ORDER BY day) FROM entry GROUP BY g ORDER BY g;
SELECT percentile_disc(1) WITHIN GROUP (ORDER BY at), percentile_disc(0.5) WITHIN GROUP (ORDER BY clock), percentile_disc(0.2) WITHIN GROUP (ORDER BY key), percentile_disc(0.5) WITHIN GROUP (ORDER BY data) FROM entry;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY wide), percentile_disc(0.8) WITHIN GROUP (ORDER BY f8), percentile_disc(0.5) WITHIN GROUP (ORDER BY flag) FROM entry;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) FILTER (WHERE g = 'a'), percentile_disc(0.5) WITHIN GROUP (ORDER BY i4) FILTER (WHERE g = 'z') FROM entry;
SELECT percentile_cont(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY i4), percentile_cont(0.5) WITHIN GROUP (ORDER BY span) FROM entry;
SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY span), percentile_cont(0.3) WITHIN GROUP (ORDER BY span DESC) FROM entry GROUP BY g ORDER BY g;
SELECT percentile_cont(0) WITHIN GROUP (ORDER BY span), percentile_cont(0.77) WITHIN GROUP (ORDER BY span * 45.5), percentile_cont(0.33) WITHIN GROUP (ORDER BY make_interval(months => id) - span) FROM entry;
SELECT id FROM entry e WHERE span > (SELECT percentile_cont(0.8) WITHIN GROUP (ORDER BY span) FROM entry o WHERE o.g = e.g) ORDER BY id;
SELECT percentile_cont(1.5) WITHIN GROUP (ORDER BY i4) FROM entry;
SELECT percentile_disc(-0.1) WITHIN GROUP (ORDER BY word) FROM entry;
SELECT percentile_disc(2) WITHIN GROUP (ORDER BY word) FROM entry WHERE id < 0;
SELECT id % 2, percentile_cont((id % 2) / 2.0) WITHIN GROUP (ORDER BY i4) FROM entry GROUP BY id % 2 ORDER BY 1;
PREPARE share (double precision) AS SELECT percentile_cont($1) WITHIN GROUP (ORDER BY i8) FROM entry;
EXECUTE share (0.5);
EXECUTE share (NULL);
EXECUTE share (7);

-- the most frequent
SELECT g, mode() WITHIN GROUP (ORDER BY i4), mode() WITHIN GROUP (ORDER BY i4 DESC), mode() WITHIN GROUP (ORDER BY word) FROM entry GROUP BY g ORDER BY g;
SELECT mode() WITHIN GROUP (ORDER BY brief), mode() WITHIN GROUP (ORDER BY nick), mode() WITHIN GROUP (ORDER BY price DESC), mode() WITHIN GROUP (ORDER BY flag) FROM entry;

-- within subqueries
SELECT l.n, (SELECT string_agg(word, ',' ORDER BY e.id) FROM entry e WHERE e.id <= l.entry) FROM line l WHERE n < 9 ORDER BY n;
SELECT e.id, (SELECT array_agg(n ORDER BY n DESC) FROM line l WHERE l.entry = e.id) FROM entry e WHERE id < 6 OR id > 30 ORDER BY id;
SELECT e.id, coalesce((SELECT string_agg(what, '/' ORDER BY n) FROM line l WHERE l.entry = e.id AND n % 2 = 0), 'none') FROM entry e WHERE id < 9 ORDER BY id;
SELECT count(*), max(length(names)) FROM (SELECT g, string_agg(word, ',' ORDER BY id) AS names FROM entry GROUP BY g) s WHERE names > 'a';
SELECT s.names, e.id FROM (SELECT g, string_agg(word, ',' ORDER BY id) AS names FROM entry GROUP BY g) s JOIN entry e ON e.word || '%' = left(s.names, 4) || '%' ORDER BY 2;
SELECT e.id, s.ids FROM entry e JOIN (SELECT entry, array_agg(n ORDER BY n) AS ids FROM line GROUP BY entry) s ON s.entry = e.id WHERE e.id < 5 ORDER BY 1;
SELECT avg(m), count(m) FROM (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY n) AS m FROM line GROUP BY entry) s;
SELECT id FROM entry e WHERE i8 > (SELECT percentile_cont(0.8) WITHIN GROUP (ORDER BY i8) FROM entry o WHERE o.g = e.g) ORDER BY id;
SELECT id FROM entry e WHERE word = (SELECT mode() WITHIN GROUP (ORDER BY word) FROM entry o WHERE o.g = e.g) ORDER BY id;
WITH s AS (SELECT g, array_agg(id ORDER BY id) AS ids FROM entry GROUP BY g) SELECT a.g, a.ids, b.ids FROM s a JOIN s b ON a.g < b.g ORDER BY 1, 2, 3;
SELECT g, flag, grouping(g, flag), string_agg(word, ',' ORDER BY id), array_agg(id ORDER BY id) FROM entry WHERE id < 9 GROUP BY ROLLUP (g, flag) ORDER BY 1, 2, 3;
SELECT n, l.what, x.words FROM line l, LATERAL (SELECT string_agg(e.word, ' ' ORDER BY e.id) AS words FROM entry e WHERE e.id % 5 = l.n % 5) x WHERE n < 6 ORDER BY n;

-- orders that make no difference
SELECT g, sum(i4 ORDER BY id), count(word ORDER BY id), min(word ORDER BY i8 DESC), avg(price ORDER BY g) FROM entry GROUP BY g ORDER BY g;
SELECT sum(i4 ORDER BY 1 / (id - 3)) FROM entry;
SELECT count(DISTINCT word ORDER BY word), bool_or(flag ORDER BY id) FROM entry;

-- the order of a subquery's rows
SELECT string_agg(word, ',') FROM (SELECT word FROM entry ORDER BY word COLLATE "C" DESC NULLS LAST, id) s;
SELECT array_agg(id), string_agg(g, '') FROM (SELECT id, g FROM entry ORDER BY i4 DESC, id) s;
SELECT g, length(string_agg(word, ',')) FROM (SELECT g, word FROM entry ORDER BY word, id) s GROUP BY g ORDER BY g;
SELECT string_agg(word, ',') FILTER (WHERE word <> 'fig') FROM (SELECT id, word FROM entry ORDER BY id DESC) s WHERE id < 20;
SELECT array_agg(DISTINCT word), array_agg(word ORDER BY word DESC, id) FROM (SELECT id, word FROM entry ORDER BY id DESC) s WHERE id < 20;
SELECT array_agg(g) FROM (SELECT DISTINCT g FROM entry ORDER BY g DESC) s;
SELECT array_agg(n) FROM (SELECT n FROM line ORDER BY what, n LIMIT 7 OFFSET 2) s;
SELECT array_agg(c) FROM (SELECT count(*) AS c, entry FROM line GROUP BY entry ORDER BY count(*), entry DESC) s WHERE entry < 5;
SELECT array_agg(w) FROM (SELECT word AS w FROM entry UNION SELECT what FROM line ORDER BY 1 DESC) s;
SELECT array_agg(r) FROM (SELECT id, rank() OVER (ORDER BY g) AS r FROM entry ORDER BY id) s;
WITH s AS (SELECT word, id FROM entry ORDER BY id DESC) SELECT string_agg(word, ',') FROM s;
WITH s AS (SELECT word, id FROM entry ORDER BY id DESC) SELECT (SELECT string_agg(word, ',') FROM s WHERE s.id <= line.n) FROM line WHERE n < 5 ORDER BY n;
SELECT e.id, (SELECT string_agg(what, ',') FROM (SELECT what FROM line l WHERE l.entry = e.id ORDER BY n DESC) s) FROM entry e WHERE id < 5 ORDER BY id;
SELECT string_agg(word, ',') FROM (SELECT word, (SELECT count(*) FROM line l WHERE l.entry = e.id) AS c FROM entry e ORDER BY (SELECT max(n) FROM line l WHERE l.entry = e.id), id) s;

-- arrays of rows
SELECT ARRAY(SELECT id FROM entry WHERE id < 5 ORDER BY id DESC), ARRAY(SELECT word FROM entry WHERE id < 0), ARRAY(SELECT NULL::date FROM entry WHERE id < 3) FROM line WHERE n = 1;
SELECT e.id, ARRAY(SELECT n FROM line l WHERE l.entry = e.id ORDER BY n DESC LIMIT 2), ARRAY(SELECT what FROM line l WHERE l.entry = e.id ORDER BY n) FROM entry e WHERE id < 4 OR id > 30 ORDER BY id;
SELECT e.id, ARRAY(SELECT DISTINCT brief FROM entry o WHERE o.id < e.id ORDER BY brief), ARRAY(SELECT digits FROM entry o WHERE o.id <= e.id ORDER BY o.id) FROM entry e WHERE id < 5 ORDER BY id;
SELECT id, cardinality(ARRAY(SELECT 1 FROM line l WHERE l.entry = e.id)) FROM entry e WHERE id < 4 ORDER BY id;
SELECT count(*) FROM entry e WHERE EXISTS (SELECT 1 FROM (SELECT ARRAY(SELECT n FROM line l WHERE l.entry = e.id) AS ns) s WHERE ns IS NOT NULL);
SELECT g, ARRAY(SELECT n FROM line WHERE n < 4 ORDER BY n), count(*) FROM entry GROUP BY g ORDER BY g;
SELECT ARRAY(SELECT nums FROM entry WHERE id < 3 ORDER BY id) FROM line WHERE n = 1;
SELECT ARRAY(SELECT x FROM (SELECT n AS x FROM line WHERE n < 5 ORDER BY n DESC) s) FROM line WHERE n = 1;

-- floats as keys: equal zeros are one group
CREATE TABLE zero (id integer PRIMARY KEY, f4 real, f8 double precision);
INSERT INTO zero VALUES (1, 0, 0), (2, '-0', '-0'), (3, 'NaN', 'NaN'), (4, 'NaN', 'NaN'), (5, NULL, NULL), (6, NULL, 1.5), (7, 'Infinity', 1.5), (8, 1e-40, 1e-300);
SELECT anker.mirror('zero');
SELECT anker.wait_for_mirror('zero');
SELECT f8 + 0 AS f, count(*) FROM zero GROUP BY f8 ORDER BY 1;
SELECT abs(f4) AS f, c FROM (SELECT f4, count(*) AS c FROM zero GROUP BY f4) s ORDER BY 1;
SELECT count(*), sum(c) FROM (SELECT f4, f8, count(*) AS c FROM zero GROUP BY f4, f8) s WHERE c > 1;
SELECT abs(f8) FROM (SELECT DISTINCT f8 FROM zero) s ORDER BY 1;
SELECT count(*) FROM (SELECT DISTINCT f4, f8 FROM zero) s;
SELECT id FROM zero z WHERE f8 IN (SELECT f8 FROM zero GROUP BY f8 HAVING count(*) > 1) ORDER BY id;
SELECT abs(f8), count(*) FROM zero GROUP BY ROLLUP (f8) ORDER BY 1, 2;
SELECT abs(f) FROM (SELECT f8 AS f FROM zero UNION SELECT f4 FROM zero) s ORDER BY 1;
SELECT abs(f) FROM (SELECT f8 AS f FROM zero INTERSECT SELECT f4 FROM zero) s ORDER BY 1;
SELECT f FROM (SELECT f8 AS f FROM zero EXCEPT SELECT f4 FROM zero) s ORDER BY 1;
SELECT abs(f), count(*) FROM (SELECT f8 AS f FROM zero INTERSECT ALL SELECT f4 FROM zero) s GROUP BY abs(f) ORDER BY 1;
SELECT count(*) FROM (SELECT f8 AS f FROM zero EXCEPT ALL SELECT f4 FROM zero WHERE id < 4) s;
