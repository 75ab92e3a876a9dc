-- engine: at least 100
--
-- COLUMNS OF OTHER TYPES
--
-- Types that the engine compares as PostgreSQL does (uuid, real, time, oid, name, enums, bytea, domains), and types
-- that it keeps for PostgreSQL to compute with (json, arrays, intervals and all others).
--

CREATE TYPE mood AS ENUM ('calm', 'wild', 'odd');
CREATE DOMAIN positive AS integer CHECK (value > 0);
CREATE DOMAIN money_like AS numeric(10,2);
CREATE DOMAIN short AS char(4);
CREATE DOMAIN shorter AS short;
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN list AS integer[];
CREATE TYPE pair AS (a integer, b text);

-- uuid: a key, as most are
CREATE TABLE session (id uuid PRIMARY KEY, parent uuid, n integer);
INSERT INTO session VALUES
    ('00000000-0000-0000-0000-000000000000', NULL, 1),
    ('7fffffff-ffff-ffff-ffff-ffffffffffff', '00000000-0000-0000-0000-000000000000', 2),
    ('80000000-0000-0000-0000-000000000000', '7fffffff-ffff-ffff-ffff-ffffffffffff', 3),
    ('ffffffff-ffff-ffff-ffff-ffffffffffff', '80000000-0000-0000-0000-000000000000', 4),
    ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '80000000-0000-0000-0000-000000000000', 5);
SELECT anker.mirror('session');
SELECT anker.wait_for_mirror('session');
SELECT * FROM session ORDER BY id;
SELECT id FROM session WHERE id = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11';
SELECT id FROM session WHERE id > '7fffffff-ffff-ffff-ffff-ffffffffffff' ORDER BY id DESC;
SELECT n FROM session WHERE id IN ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff') ORDER BY n;
SELECT parent, count(*), sum(n), count(DISTINCT id) FROM session GROUP BY parent ORDER BY parent;
SELECT s.n, p.n FROM session s LEFT JOIN session p ON p.id = s.parent ORDER BY s.n;
SELECT id, parent, count(*) FROM session GROUP BY id ORDER BY id LIMIT 2;
SELECT n FROM session s WHERE EXISTS (SELECT FROM session WHERE parent = s.id) ORDER BY n;
SELECT n, (SELECT p.id FROM session p WHERE p.id = s.parent) FROM session s ORDER BY n;
SELECT greatest(id, parent), coalesce(parent, id), nullif(id, parent) FROM session ORDER BY n;
SELECT id FROM session UNION SELECT parent FROM session ORDER BY id;
SELECT DISTINCT parent FROM session ORDER BY parent NULLS FIRST;
SELECT id FROM session ORDER BY id DESC LIMIT 2;
PREPARE by_id(uuid) AS SELECT n FROM session WHERE id = $1;
EXECUTE by_id('80000000-0000-0000-0000-000000000000');
EXECUTE by_id(NULL);
UPDATE session SET id = '11111111-1111-1111-1111-111111111111', n = 50 WHERE n = 5;
DELETE FROM session WHERE id = '00000000-0000-0000-0000-000000000000';
SELECT * FROM session ORDER BY id;
SELECT * FROM anker.verify('session');

-- real
CREATE TABLE measured (id integer PRIMARY KEY, r real, d double precision, i integer);
INSERT INTO measured VALUES (1, 0.1, 0.1, 1), (2, 1.5, 1.5, 2), (3, '-0', '0', 3), (4, 'NaN', 'NaN', 4),
    (5, 'Infinity', '-Infinity', 5), (6, 3.4028235e38, 3.4028235e38, 6), (7, 1e-45, 1e-45, 7), (8, NULL, NULL, 16777217);
SELECT anker.mirror('measured');
SELECT anker.wait_for_mirror('measured');
SELECT id, r, r::text, float4send(r) FROM measured ORDER BY id;
SELECT id FROM measured WHERE r = 0.1 ORDER BY id;
SELECT id FROM measured WHERE r = 0.1::real ORDER BY id;
SELECT id FROM measured WHERE r = d ORDER BY id;
SELECT id, r < d, d < r, r < 1.5, r <> 'NaN' FROM measured WHERE r < d OR d < r ORDER BY id;
SELECT id FROM measured WHERE r IN (1.5, 'NaN', 0) ORDER BY id;
SELECT min(r), max(r), count(r), count(DISTINCT r) FROM measured;
SELECT round(avg(r)::numeric, 12), round(stddev(r)::numeric, 12), round(var_pop(r)::numeric, 12) FROM measured WHERE id IN (1, 2, 7);
SELECT sum(r), avg(r) FROM measured WHERE id < 3;
SELECT id, - r, abs(r), r::double precision FROM measured WHERE - r < abs(r) AND r::double precision > -1 ORDER BY id;
SELECT id FROM measured WHERE r + 1 > 2.4 AND r * 2 = 3 AND r / 4 = 0.375 AND r - d = 0 ORDER BY id;
SELECT id FROM measured WHERE i::real = 16777216 ORDER BY id;
SELECT id FROM measured WHERE id < 4 AND (r::integer = 2 OR (r * 1000)::smallint = 100 OR r::bigint = 0 AND id = 3) ORDER BY id;
SELECT count(*) FROM measured WHERE r::integer > 0 AND id = 6;
SELECT count(*) FROM measured WHERE r * r > 0 AND id = 6;
SELECT count(*) FROM measured WHERE r * r > 0 AND id = 7;
SELECT count(*) FROM measured WHERE r / 0 > 0 AND id = 1;
SELECT count(*) FROM measured WHERE d::real > 0 AND id = 1;
SELECT count(*) FROM measured WHERE (d * 10)::real > 0 AND id = 6;
SELECT r, count(*) FROM measured GROUP BY r ORDER BY r;
SELECT greatest(r, 1), coalesce(r, 2) FROM measured ORDER BY id;

-- time, oid, name
CREATE TABLE odds (id integer PRIMARY KEY, t time, t3 time(3), o oid, n name, c "char");
INSERT INTO odds VALUES
    (1, '00:00', '00:00', 0, 'a', 'a'), (2, '24:00', '12:34:56.7895', 4294967295, repeat('long', 20), E'\\377'),
    (3, '12:34:56.789012', NULL, 2147483648, 'Ä', ''), (4, NULL, '01:00', NULL, NULL, NULL);
SELECT anker.mirror('odds');
SELECT anker.wait_for_mirror('odds');
SELECT * FROM odds ORDER BY id;
SELECT min(t), max(t), min(o), max(o), count(c) FROM odds;
SELECT t, count(*) FROM odds GROUP BY t ORDER BY t;
SELECT id FROM odds WHERE t < '12:34:57' ORDER BY id;
SELECT id FROM odds WHERE t3 = t ORDER BY id;
SELECT id FROM odds WHERE o > 2147483647 ORDER BY o DESC;
SELECT id FROM odds WHERE o IN (0, 4294967295) ORDER BY id;
SELECT o::bigint + 1 FROM odds WHERE o::bigint > 1 ORDER BY id;
SELECT o, n, count(*) FROM odds GROUP BY o, n ORDER BY o;
SELECT id, length(n), n || '!' FROM odds ORDER BY n;
SELECT id FROM odds WHERE n = 'a' OR n > 'b' OR n = repeat('long', 20) OR n LIKE '_' ORDER BY id;
SELECT max(n::text COLLATE "C") FROM odds;
SELECT id FROM odds WHERE c = 'a' ORDER BY id;
UPDATE odds SET o = 5, n = 'other', c = 'z', t = '23:59' WHERE id < 3;
SELECT * FROM odds ORDER BY id;

-- enums: order is PostgreSQL's
CREATE TABLE felt (id integer, m mood, n integer, PRIMARY KEY (m, id));
INSERT INTO felt VALUES (1, 'odd', 10), (2, 'calm', 20), (3, 'wild', 30), (4, 'calm', 40);
SELECT anker.mirror('felt');
SELECT anker.wait_for_mirror('felt');
SELECT * FROM felt ORDER BY m, id;
SELECT m, sum(n) FROM felt GROUP BY m ORDER BY m;
SELECT id FROM felt WHERE m = 'calm' ORDER BY id;
SELECT id FROM felt WHERE m <> 'calm' ORDER BY id;
SELECT id FROM felt WHERE m IN ('odd', 'wild') ORDER BY id;
SELECT id FROM felt WHERE m > 'calm' ORDER BY id;
SELECT min(m), max(m) FROM felt;
SELECT count(DISTINCT m), count(m) FROM felt;
SELECT DISTINCT m FROM felt ORDER BY m DESC;
SELECT m FROM felt ORDER BY m DESC, id LIMIT 2;
SELECT a.id, b.id FROM felt a JOIN felt b ON a.m = b.m AND a.id < b.id ORDER BY 1, 2;
SELECT CASE WHEN n > 25 THEN m ELSE 'odd' END, count(*) FROM felt GROUP BY 1 ORDER BY 1;
SELECT m::text || '!' FROM felt ORDER BY id;
PREPARE by_mood(mood) AS SELECT id FROM felt WHERE m = $1 ORDER BY id;
EXECUTE by_mood('calm');
EXECUTE by_mood(NULL);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_mood('odd');
RESET plan_cache_mode;
CREATE FUNCTION number_felt(mood, feeling, real, time, oid, name) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
    RETURN (SELECT count(*) FROM felt, odds WHERE (m = $1 OR m = $2::mood) AND felt.n > $3 AND (t < $4 OR o = $5 OR odds.n = $6));
END $$;
SELECT number_felt('calm', 'wild', 0.5, '23:00', 0, 'Ä');
SELECT number_felt('calm', NULL, 30.5, NULL, 4294967295, NULL);
ALTER TYPE mood ADD VALUE 'sad' BEFORE 'wild';
INSERT INTO felt VALUES (5, 'sad', 50);
ALTER TYPE mood RENAME VALUE 'odd' TO 'strange';
UPDATE felt SET m = 'sad' WHERE id = 2;
SELECT m, sum(n) FROM felt GROUP BY m ORDER BY m;
SELECT id FROM felt WHERE m = 'sad' ORDER BY id;
SELECT * FROM anker.verify('felt');

-- bytea
CREATE TABLE stored (k bytea PRIMARY KEY, v bytea);
INSERT INTO stored VALUES ('\x', '\x00'), ('\x00', '\xff'), ('\x0001', NULL), ('\xff', '\xff'), ('\x80', repeat('x', 5000)::bytea);
SELECT anker.mirror('stored');
SELECT anker.wait_for_mirror('stored');
SELECT k, length(v), md5(v) FROM stored ORDER BY k;
SELECT k FROM stored WHERE k > '\x00' ORDER BY k DESC LIMIT 2;
SELECT k FROM stored WHERE v = '\xff' OR k IN ('\x', '\x0001') ORDER BY k;
SELECT v, count(*) FROM stored WHERE k <> '\x80' GROUP BY v ORDER BY v;
SELECT count(DISTINCT v), count(v) FROM stored;
SELECT a.k FROM stored a JOIN stored b ON a.k = b.v ORDER BY 1;
PREPARE by_key(bytea) AS SELECT length(v) FROM stored WHERE k = $1;
EXECUTE by_key('\x80');
UPDATE stored SET k = k || '\x01' WHERE k = '\x80';
SELECT k, length(v) FROM stored ORDER BY k;
SELECT * FROM anker.verify('stored');

-- kept as they are
CREATE TABLE kept (id integer PRIMARY KEY, j json, b jsonb, a integer[], f float8[], i interval, z timetz, n numeric,
    w numeric(50,2), ip inet, mac macaddr, r int4range, p pair, x tsquery, ts tsvector, pt point, bits varbit, bp bpchar, g integer);
INSERT INTO kept VALUES
    (1, '{"k": 1, "k": 2}', '{"k": [1, 2]}', '{1,2,3}', '{0,-0,NaN}', '1 mon', '12:00+02', 1.0, 1, '10.0.0.1/8', '08:00:2b:01:02:03',
     '[1,5)', '(1,one)', 'cat & dog', 'cat dog', '(1,2)', B'101', 'a  ', 1),
    (2, '[]', '{"k": [1, 2.0]}', '{}', NULL, '30 days', '11:00+01', 1.00, 1.5, '::1', NULL, 'empty', '(,)', NULL, '', NULL, B'', 'a', 1),
    (3, NULL, NULL, NULL, '{}', NULL, NULL, 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 2);
INSERT INTO kept (id, b, a, g)
    SELECT 4, jsonb_object_agg(k::text, md5(k::text)), array_agg(k), 2 FROM generate_series(1, 500) k;
SELECT anker.mirror('kept');
SELECT anker.wait_for_mirror('kept');
SELECT excluded_columns FROM anker.tables WHERE relation = 'kept'::regclass;
SELECT * FROM kept WHERE id < 4 ORDER BY id;
SELECT id, md5(b::text), array_length(a, 1), b ->> '77', a[3] FROM kept ORDER BY id;
SELECT id, b -> 'k' -> 0, (p).b, i + interval '1 day', n * 2, w + 1, host(ip), lower(r) FROM kept ORDER BY id;
SELECT count(*), count(j), count(b), count(n), count(i), count(x) FROM kept;
SELECT g, count(b), count(*) FILTER (WHERE a IS NULL) FROM kept GROUP BY g ORDER BY g;
SELECT id FROM kept WHERE b IS NULL OR x IS NOT NULL ORDER BY id;
SELECT id FROM kept WHERE n = 1 AND i = '30 days' ORDER BY id;
SELECT id FROM kept WHERE b ? 'k' AND g = 1 ORDER BY id;
SELECT id, b, count(*) FROM kept WHERE id < 3 GROUP BY id ORDER BY id;
SELECT trim_scale(n), count(*) FROM kept GROUP BY n ORDER BY n;
SELECT i, count(*) FROM kept GROUP BY i ORDER BY i;
SELECT b, count(*) FROM kept WHERE id < 4 GROUP BY b ORDER BY b;
SELECT sum(n), max(i), min(ip), count(DISTINCT n), count(DISTINCT b) FROM kept WHERE id < 3;
SELECT DISTINCT round(n, 1) FROM kept ORDER BY 1;
SELECT DISTINCT rtrim(bp), length(bp) FROM kept ORDER BY 1;
SELECT k.id, l.id FROM kept k JOIN kept l ON k.i = l.i ORDER BY 1, 2;
SELECT k.id, l.j, l.i FROM kept k LEFT JOIN kept l ON k.id = l.g AND l.id < 4 ORDER BY 1, l.id;
SELECT g, (SELECT b FROM kept l WHERE l.id = k.g), (SELECT max(l.id) FROM kept l WHERE l.b IS NOT NULL AND l.g = k.g) FROM kept k WHERE id < 4 ORDER BY id;
SELECT CASE WHEN id = 1 THEN a END, coalesce(f, '{1}') FROM kept WHERE id < 4 ORDER BY id;
SELECT s.c, s.x FROM (SELECT id, CASE WHEN id > 1 THEN a END AS c, i AS x FROM kept WHERE id < 4 OFFSET 0) s ORDER BY id;
SELECT s.b FROM (SELECT b FROM kept WHERE id < 3 UNION ALL SELECT b FROM kept WHERE id = 1) s ORDER BY b::text;
SELECT trim_scale(n) FROM (SELECT n FROM kept WHERE id < 3 UNION SELECT n FROM kept) s ORDER BY 1;
SELECT id, rank() OVER (PARTITION BY n ORDER BY id) FROM kept ORDER BY id;
SELECT id, first_value(j) OVER (ORDER BY id) FROM kept ORDER BY id;
SELECT id FROM kept ORDER BY i, id LIMIT 2;

-- followed: values out of line that an update leaves alone, and that it changes
ALTER TABLE kept ALTER COLUMN b SET STORAGE EXTERNAL;
UPDATE kept SET b = (SELECT jsonb_object_agg(k::text, md5(k::text)) FROM generate_series(1, 600) k) WHERE id = 3;
UPDATE kept SET g = g + 10;
UPDATE kept SET id = id + 100 WHERE id = 4;
UPDATE kept SET a = a || 7, n = n + 0.10, i = i * 2 WHERE id < 3;
SELECT id, md5(b::text), array_length(a, 1), n, i, g FROM kept ORDER BY id;
SELECT * FROM anker.verify('kept');

-- keys of these types, and rows without a key
CREATE TABLE by_number (n numeric PRIMARY KEY, v text);
INSERT INTO by_number VALUES (1.0, 'one'), (2.50, 'more'), ('NaN', 'none');
CREATE TABLE loose (j jsonb, i interval, u uuid, r real, m mood, long text);
ALTER TABLE loose REPLICA IDENTITY FULL;
INSERT INTO loose VALUES ('{"a": 1}', '1 mon', NULL, '-0', 'calm', 'x'), ('{"a": 1}', '1 mon', NULL, '-0', 'calm', 'x'),
    ('{"a": 1.0}', '30 days', NULL, '0', 'calm', 'x');
INSERT INTO loose SELECT jsonb_agg(md5(k::text)), NULL, NULL, 1, 'wild', repeat('long', 3000) FROM generate_series(1, 400) k;
SELECT anker.mirror('by_number'), anker.mirror('loose');
SELECT anker.wait_for_mirror('by_number'), anker.wait_for_mirror('loose');
UPDATE by_number SET n = 1.00 WHERE n = 1;
UPDATE by_number SET v = 'two' WHERE n = 2.5;
UPDATE by_number SET n = 3.000 WHERE n = 'NaN';
DELETE FROM by_number WHERE n = 3;
SELECT * FROM by_number ORDER BY n;
DELETE FROM loose WHERE ctid = (SELECT min(ctid) FROM loose);
UPDATE loose SET i = '2 mons' WHERE j = '{"a": 1}' AND r::text = '0';
UPDATE loose SET r = 2 WHERE m = 'wild';
SELECT md5(j::text), i, r, m, length(long) FROM loose ORDER BY 1, 2, 3;
SELECT * FROM anker.verify('by_number');
SELECT * FROM anker.verify('loose');

-- domains
CREATE TABLE domains (id positive PRIMARY KEY, m money_like, s short, ss shorter, f feeling, l list, t positive);
INSERT INTO domains VALUES (1, 1.5, 'a', 'b', 'calm', '{1}', 3), (2, 2.25, 'abcd', NULL, 'wild', '{1,2}', 4), (3, NULL, 'a', 'b', NULL, NULL, NULL);
SELECT anker.mirror('domains');
SELECT anker.wait_for_mirror('domains');
SELECT * FROM domains ORDER BY id;
SELECT sum(m), avg(m), max(m), sum(t), min(id) FROM domains;
SELECT s, count(*), sum(m) FROM domains GROUP BY s ORDER BY s;
SELECT id, length(s), s || 'x', ss FROM domains WHERE s = 'a' AND ss = 'b' ORDER BY id;
SELECT f, count(*) FROM domains WHERE f::mood IN ('calm', 'wild') GROUP BY f ORDER BY f;
SELECT id FROM domains WHERE m > 1.6 AND t + id > 5 ORDER BY id;
SELECT id, l[1], array_length(l, 1) FROM domains WHERE l IS NOT NULL ORDER BY id;
SELECT d.id, e.id FROM domains d JOIN domains e ON d.t = e.id::integer + 2 ORDER BY 1;
SELECT id::positive, (t + 1)::positive FROM domains ORDER BY id;
SELECT t, m FROM domains UNION SELECT id, m FROM domains ORDER BY 1, 2;
ALTER TABLE domains ALTER COLUMN t TYPE bigint, ALTER COLUMN m TYPE money_like USING m + 1;
SELECT anker.wait_for_mirror('domains');
SELECT sum(t), sum(m) FROM domains;
SELECT * FROM anker.verify('domains');

-- the least of values that the engine only keeps
CREATE TABLE free_numbers (id integer PRIMARY KEY, n numeric);
INSERT INTO free_numbers VALUES (1, 9), (2, 10), (3, 'NaN'), (4, -5), (5, 100);
SELECT anker.mirror('free_numbers');
SELECT anker.wait_for_mirror('free_numbers');
SELECT min(n), max(n), count(n) FROM free_numbers WHERE id <> 3;
SELECT id % 2 AS odd, max(n) FILTER (WHERE id > 1) FROM free_numbers GROUP BY 1 ORDER BY 1;
SELECT (SELECT min(n) FROM free_numbers b WHERE b.id <= a.id) FROM free_numbers a ORDER BY id;
