-- engine: at least 8
--
-- MIRRORING
--
-- anker.mirror(), anker.unmirror(), the views, and relations that cannot be mirrored.
--

-- nothing is mirrored yet
SELECT * FROM anker.mirrored;
SELECT * FROM anker.tables;

-- relations that cannot be mirrored
CREATE UNLOGGED TABLE unlogged (id integer PRIMARY KEY);
CREATE TEMP TABLE fleeting (id integer PRIMARY KEY);
CREATE TABLE parted (id integer PRIMARY KEY) PARTITION BY LIST (id);
CREATE VIEW seen AS SELECT 1 AS id;
CREATE SEQUENCE numbers;
CREATE TABLE blank ();
SELECT anker.mirror('unlogged');
SELECT anker.mirror('fleeting');
SELECT anker.mirror('parted');
SELECT anker.mirror('seen');
SELECT anker.mirror('numbers');
SELECT anker.mirror('blank');
SELECT anker.mirror('pg_class');
SELECT anker.mirror('anker.mirrored');
SELECT anker.mirror('absent');
SELECT anker.mirror(NULL);
SELECT anker.mirror(1);

-- tables that can be mirrored: their rows are identified by a key, another unique index, their addresses
CREATE TABLE keyed (id integer PRIMARY KEY, x text, j json);
INSERT INTO keyed VALUES (1, 'one', '1'), (2, 'two', '2');
CREATE TABLE other_key (u uuid PRIMARY KEY, code text NOT NULL UNIQUE);
INSERT INTO other_key VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a');
ALTER TABLE other_key REPLICA IDENTITY USING INDEX other_key_code_key;
CREATE TABLE keyless (a integer);
INSERT INTO keyless VALUES (1), (1), (NULL);
CREATE TABLE nobody (id integer PRIMARY KEY);
ALTER TABLE nobody REPLICA IDENTITY NOTHING;
INSERT INTO nobody VALUES (1), (2);
SELECT anker.mirror('keyed'), anker.mirror('other_key'), anker.mirror('keyless'), anker.mirror('nobody');
SELECT anker.mirror('keyed');
SELECT anker.wait_for_mirror(relation) FROM anker.mirrored ORDER BY relation::text;
SELECT relation, state, rows, errors, reason, excluded_columns FROM anker.tables ORDER BY relation::text;
SELECT a, count(*) FROM keyless GROUP BY a ORDER BY a;
DELETE FROM keyless WHERE ctid = (SELECT min(ctid) FROM keyless);
SELECT a, count(*) FROM keyless GROUP BY a ORDER BY a;
DELETE FROM nobody WHERE id = 1;
SELECT id FROM nobody;
UPDATE other_key SET code = 'b';
SELECT code FROM other_key;
SELECT * FROM keyed ORDER BY id;

-- heap against mirror
SELECT * FROM anker.verify('keyed');
SELECT * FROM anker.verify('keyless');
CREATE TABLE in_parts (id integer PRIMARY KEY, v text) PARTITION BY RANGE (id);
SELECT * FROM anker.verify('in_parts');
CREATE TABLE in_parts_low PARTITION OF in_parts FOR VALUES FROM (0) TO (10);
CREATE TABLE in_parts_high PARTITION OF in_parts FOR VALUES FROM (10) TO (20);
INSERT INTO in_parts SELECT i, 'v' || i FROM generate_series(0, 19) i;
SELECT * FROM anker.verify('in_parts');
SELECT anker.mirror('in_parts');
SELECT anker.wait_for_mirror('in_parts');
SELECT * FROM anker.verify('in_parts');
DROP TABLE in_parts;
SELECT * FROM anker.verify('unlogged');

-- in a transaction: nothing happens before its end, or at all
BEGIN;
CREATE TABLE undone (id integer PRIMARY KEY);
SELECT anker.mirror('undone');
SAVEPOINT inner_one;
SELECT anker.wait_for_mirror('undone');
ROLLBACK TO inner_one;
CREATE TABLE undone_too (id integer PRIMARY KEY);
SELECT anker.mirror('undone_too');
SELECT anker.wait_for_mirror('undone_too');
ROLLBACK;
BEGIN;
CREATE TABLE made (id integer PRIMARY KEY);
INSERT INTO made VALUES (1);
SELECT anker.mirror('made');
COMMIT;
SELECT anker.wait_for_mirror('made');
SELECT count(*) FROM made;
BEGIN;
SELECT anker.unmirror('made');
SELECT count(*) FROM made;
ROLLBACK;
SELECT count(*) FROM made;
BEGIN;
SAVEPOINT s;
SELECT anker.unmirror('made');
ROLLBACK TO s;
COMMIT;
SELECT relation FROM anker.mirrored ORDER BY relation::text;

-- and no more
SELECT anker.unmirror('made');
SELECT anker.unmirror('made');
SELECT anker.unmirror('absent');
SELECT anker.wait_for_mirror('made');
SELECT count(*) FROM made;
SELECT relation FROM anker.mirrored ORDER BY relation::text;
SELECT anker.mirror('made');
SELECT anker.wait_for_mirror('made');
SELECT count(*) FROM made;

-- waiting has a limit
SELECT anker.wait_for_mirror('made', '0 seconds');
SELECT anker.wait_for_mirror('made', '-1 second');
SELECT anker.wait_for_mirror('made', NULL);

-- a dropped table is not listed
DROP TABLE made;
SELECT relation, state FROM anker.tables ORDER BY relation::text;

-- the list cannot be changed by hand into nonsense
INSERT INTO anker.mirrored VALUES ('seen');
-- (the worker looks at it as soon as it comes to that)
DO $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN (SELECT state = 'unsupported' FROM anker.tables WHERE relation = 'seen'::regclass);
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
SELECT relation, state FROM anker.tables WHERE relation = 'seen'::regclass;
DELETE FROM anker.mirrored WHERE relation = 'seen'::regclass;

-- functions that are not for users
SELECT anker.mirrored_changed();
SELECT * FROM anker.engine_result() AS (id integer);

-- settings that are not for sessions, and that are not there
SET anker.max_wait = '-1s';
SET anker.memory = '2GB';
SET anker.nonsense = 1;
