-- once, engine: at least 1
--
-- COLUMNS AND CHUNKS
--
-- The facts that anker.columns and anker.chunks tell of a mirrored table, and the users who see them.
--

SET timezone = 'UTC';
SET datestyle = 'ISO';

CREATE TABLE kinds (
    id integer PRIMARY KEY, small smallint, price numeric(8,2), wide numeric(30,3), day date, at timestamptz,
    hour time, code char(3), word varchar(20), flag boolean, ratio double precision, tags text[], constant bigint
);
INSERT INTO kinds
    SELECT i, i % 7, i * 1.25 - 100, i * 1000000000000000000.5, '2024-01-01'::date + i, '2024-01-01 12:00+00'::timestamptz + i * interval '1 s',
        '08:30'::time + i * interval '1 minute', 'c' || i % 3, 'word ' || i, i % 2 = 0, i / 3.0, ARRAY[i::text], 77
    FROM generate_series(1, 100) i;
UPDATE kinds SET small = NULL, day = NULL, word = NULL WHERE id <= 10;

-- before there is a mirror
SELECT * FROM anker.columns;
SELECT * FROM anker.table_columns('kinds') WHERE column_name = 'id';
SELECT * FROM anker.chunks('kinds');
SELECT * FROM anker.table_columns(NULL);
SELECT * FROM anker.table_columns(4711);

SELECT anker.mirror('kinds');
SELECT anker.wait_for_mirror('kinds') AS live;

SELECT column_name, data_type, codings, rows, nulls, distinct_values, min, max, reason FROM anker.columns
    WHERE relation = 'kinds'::regclass;
SELECT chunk, column_name, coding, slots, rows, nulls, distinct_values, min, max FROM anker.chunks('kinds');
-- the parts are the whole
SELECT sum(bytes) > 0 AS some FROM anker.columns;
SELECT (SELECT sum(bytes) FROM anker.columns) = (SELECT sum(bytes) FROM anker.chunks('kinds')) AS same;
SELECT bytes >= index_bytes + (SELECT sum(bytes) FROM anker.columns) AS enough, index_bytes > 0 AS indexed, undo_bytes
    FROM anker.tables;

-- updates: bounds may stay wider than the values are, counts are those of now
DELETE FROM kinds WHERE id > 50;
UPDATE kinds SET price = -500 WHERE id = 1;
INSERT INTO kinds (id, day, at) VALUES (200, 'infinity', '-infinity');
SELECT count(*) FROM kinds WHERE anker.olap();
SELECT column_name, rows, nulls, distinct_values, min, max FROM anker.columns
    WHERE column_name IN ('id', 'price', 'day', 'at', 'flag');

-- a value that the mirror cannot hold is not counted as NULL, and no bounds are known
UPDATE kinds SET price = 'NaN' WHERE id = 2;
SELECT count(*) FROM kinds WHERE anker.olap();
SELECT column_name, rows, nulls, min, max FROM anker.columns WHERE column_name IN ('id', 'price');
SELECT chunk, nulls, min, max FROM anker.chunks('kinds') WHERE column_name = 'price';
UPDATE kinds SET price = -97.5 WHERE id = 2;
SELECT count(*) FROM kinds WHERE anker.olap();
SELECT column_name, rows, nulls, min, max FROM anker.columns WHERE column_name IN ('id', 'price');

-- floats in PostgreSQL's order: not a number comes last, and 0 has no sign
UPDATE kinds SET ratio = '-Infinity' WHERE id = 3;
UPDATE kinds SET ratio = '-0' WHERE id = 4;
SELECT count(*) FROM kinds WHERE anker.olap();
SELECT column_name, min, max FROM anker.columns WHERE column_name = 'ratio';
UPDATE kinds SET ratio = 'NaN' WHERE id = 5;
SELECT count(*) FROM kinds WHERE anker.olap() AND ratio > 1e300;
SELECT column_name, min, max FROM anker.columns WHERE column_name = 'ratio';

-- texts in the order of their bytes, as far as these are known; the empty text is a text, too
CREATE TABLE words (id text COLLATE "C" PRIMARY KEY, word text, long text, born uuid, mark bytea, flag boolean, kind regtype);
INSERT INTO words VALUES
    ('b', 'Österreich', 'https://example.com/1', '00000000-0000-0000-0000-000000000007', '\xff', true, 'integer'),
    ('a', 'zebra', 'https://example.com/2', 'ffffffff-0000-0000-0000-000000000007', '\x', NULL, 'text'),
    ('B', 'Zebra', 'ahaahaahaahaahaß', '123e4567-e89b-12d3-a456-426614174000', '\x000102030405060708090a0b0c0d0e0f10', true, 'text');
SELECT anker.mirror('words');
SELECT anker.wait_for_mirror('words') AS live;
SELECT column_name, rows, nulls, min, max FROM anker.columns WHERE relation = 'words'::regclass;
UPDATE words SET word = '', long = NULL, flag = false WHERE id = 'B';
SELECT count(*) FROM words WHERE anker.olap() AND word = '';
SELECT column_name, rows, nulls, min, max FROM anker.chunks('words') WHERE column_name IN ('word', 'long', 'flag');
DROP TABLE words;

-- dates and times in the session's style
SET datestyle = 'SQL, DMY';
SET timezone = 'Europe/Prague';
SELECT column_name, min, max FROM anker.columns WHERE column_name IN ('day', 'at', 'hour');
RESET datestyle;
RESET timezone;

-- the contents of rows are shown to users who may read them
CREATE ROLE regress_columns_none;
CREATE ROLE regress_columns_some;
GRANT SELECT (id, price) ON kinds TO regress_columns_some;
CREATE ROLE regress_columns_monitor;
GRANT pg_read_all_stats TO regress_columns_monitor;
SET ROLE regress_columns_none;
SELECT column_name, codings, bytes, rows, nulls, distinct_values, min, max, reason FROM anker.columns WHERE column_name IN ('id', 'price', 'small');
SELECT count(*) FROM anker.chunks('kinds');
SET ROLE regress_columns_some;
SELECT column_name, codings, bytes > 0 AS some, rows, nulls, distinct_values, min, max FROM anker.columns WHERE column_name IN ('id', 'price', 'small');
SELECT column_name, coding, bytes > 0 AS some, rows, nulls, distinct_values, min, max FROM anker.chunks('kinds') WHERE column_name IN ('id', 'price', 'small');
-- users who may see all statistics only see how columns are coded
SET ROLE regress_columns_monitor;
SELECT column_name, codings, bytes > 0 AS some, rows, nulls, distinct_values, min, max FROM anker.columns WHERE column_name IN ('id', 'price', 'small');
SELECT column_name, coding, bytes > 0 AS some, rows, nulls, distinct_values, min, max FROM anker.chunks('kinds') WHERE column_name IN ('id', 'price', 'small');
-- but not where row security is active for them
RESET ROLE;
ALTER TABLE kinds ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON kinds USING (id < 10);
SET ROLE regress_columns_some;
SELECT column_name, codings, bytes, rows, nulls, distinct_values, min, max FROM anker.columns WHERE column_name IN ('id', 'price');
SELECT count(*) FROM anker.chunks('kinds');
RESET ROLE;
SELECT column_name, min, max FROM anker.columns WHERE column_name = 'id';
ALTER TABLE kinds FORCE ROW LEVEL SECURITY;
-- a superuser sees everything
SELECT column_name, min, max FROM anker.columns WHERE column_name = 'id';

-- several chunks
CREATE TABLE many (id integer PRIMARY KEY, third integer, word text);
INSERT INTO many SELECT i, i % 3, 'w' || i % 5 FROM generate_series(1, 20000) i;
SELECT anker.mirror('many');
SELECT anker.wait_for_mirror('many') AS live;
SELECT column_name, codings, rows, nulls, distinct_values, min, max FROM anker.columns WHERE relation = 'many'::regclass;
SELECT chunk, column_name, coding, slots, rows, distinct_values BETWEEN rows * 0.98 AND rows AS all_differ, min, max
    FROM anker.chunks('many') WHERE column_name <> 'third' ORDER BY column_name, chunk;

-- few numbers, however far apart, become a list once a chunk is full; a number that is not in the list ends it
CREATE TABLE far (id integer PRIMARY KEY, tenant uuid, step double precision, big bigint, one uuid);
INSERT INTO far SELECT i, md5((i % 30)::text)::uuid, i % 400 * 0.37, (i % 7 - 3) * 1e15::bigint, md5('one')::uuid FROM generate_series(1, 20000) i;
SELECT anker.mirror('far');
SELECT anker.wait_for_mirror('far') AS live;
SELECT column_name, codings, distinct_values, min, max FROM anker.columns WHERE relation = 'far'::regclass AND column_name <> 'id';
SELECT tenant, count(*), min(step), sum(big) FROM far WHERE big IN (-3e15, 1e15) AND step > 100 AND anker.olap() GROUP BY tenant ORDER BY 1 LIMIT 3;
UPDATE far SET big = 1, step = step + 0.37 WHERE id = 100;
SELECT sum(big), max(step) FROM far WHERE id < 200 AND anker.olap();
SELECT chunk, column_name, coding FROM anker.chunks('far') WHERE column_name IN ('step', 'big') ORDER BY 2, 1;
DROP TABLE far;

-- an empty table, and one that is gone
CREATE TABLE bare (id integer PRIMARY KEY, x text);
SELECT anker.mirror('bare');
SELECT anker.wait_for_mirror('bare') AS live;
SELECT column_name, codings, bytes, rows, distinct_values, min, reason FROM anker.columns WHERE relation = 'bare'::regclass;
SELECT * FROM anker.chunks('bare');
DROP TABLE bare;
SELECT count(*) FROM anker.columns WHERE relation::text NOT IN ('kinds', 'many');

DROP OWNED BY regress_columns_some;
DROP ROLE regress_columns_none, regress_columns_some, regress_columns_monitor;
