-- engine: at least 20
--
-- DDL ON MIRRORED TABLES
--
-- Whatever changes a mirrored table, its queries are right before, between and
-- after, and its mirror comes back by itself.
--

CREATE TABLE t (id integer PRIMARY KEY, a integer, b text, gone integer);
INSERT INTO t SELECT i, i * 10, 'b' || i, i FROM generate_series(1, 5) i;
SELECT anker.mirror('t');
SELECT anker.wait_for_mirror('t');
SELECT * FROM t ORDER BY id;

-- columns come, go, change
ALTER TABLE t DROP COLUMN gone;
SELECT * FROM t ORDER BY id;
SELECT anker.wait_for_mirror('t');
SELECT * FROM t ORDER BY id;
ALTER TABLE t ADD COLUMN c numeric(6,2);
SELECT count(c), count(*) FROM t;
UPDATE t SET c = a / 3.0 WHERE id > 2;
SELECT anker.wait_for_mirror('t');
SELECT sum(c), count(c) FROM t;
ALTER TABLE t ADD COLUMN d date DEFAULT '2024-01-01' NOT NULL;
SELECT anker.wait_for_mirror('t');
SELECT d, count(*) FROM t GROUP BY d;
ALTER TABLE t ALTER COLUMN a TYPE bigint;
SELECT anker.wait_for_mirror('t');
SELECT sum(a), pg_typeof(sum(a)) FROM t;
ALTER TABLE t ALTER COLUMN c TYPE numeric(8,4);
SELECT anker.wait_for_mirror('t');
SELECT c FROM t ORDER BY id;
ALTER TABLE t ALTER COLUMN c TYPE numeric;
SELECT anker.wait_for_mirror('t');
SELECT c FROM t ORDER BY id;
SELECT sum(a) FROM t;
ALTER TABLE t DROP COLUMN c;
ALTER TABLE t RENAME COLUMN a TO amount;
SELECT anker.wait_for_mirror('t');
SELECT sum(amount) FROM t;
ALTER TABLE t ALTER COLUMN b TYPE varchar(10) COLLATE "C";
SELECT anker.wait_for_mirror('t');
SELECT min(b), max(b) FROM t WHERE b < 'b4';
ALTER TABLE t ALTER COLUMN amount SET NOT NULL;
ALTER TABLE t ALTER COLUMN b SET STORAGE external;
SELECT anker.wait_for_mirror('t');
SELECT count(*), max(amount) FROM t;

-- names
ALTER TABLE t RENAME TO renamed;
SELECT anker.wait_for_mirror('renamed');
SELECT count(*) FROM renamed;
CREATE SCHEMA elsewhere;
ALTER TABLE renamed SET SCHEMA elsewhere;
SELECT anker.wait_for_mirror('elsewhere.renamed');
SELECT count(*) FROM elsewhere.renamed;
CREATE TABLE renamed (id integer PRIMARY KEY);
SELECT count(*) FROM renamed;
DROP TABLE renamed;
ALTER TABLE elsewhere.renamed SET SCHEMA public;
ALTER TABLE renamed RENAME TO t;

-- the key
ALTER TABLE t DROP CONSTRAINT t_pkey;
SELECT count(*), sum(amount) FROM t;
ALTER TABLE t ADD PRIMARY KEY (id);
SELECT anker.wait_for_mirror('t');
SELECT count(*), sum(amount) FROM t;
CREATE UNIQUE INDEX t_b ON t (b);
ALTER TABLE t ALTER COLUMN b SET NOT NULL;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_b;
SELECT anker.wait_for_mirror('t');
UPDATE t SET id = id + 100 WHERE b = 'b1';
SELECT id FROM t ORDER BY id;
ALTER TABLE t REPLICA IDENTITY FULL;
SELECT anker.wait_for_mirror('t');
DELETE FROM t WHERE id = 101;
SELECT id FROM t ORDER BY id;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
SELECT anker.wait_for_mirror('t');
UPDATE t SET amount = amount + 1;
SELECT sum(amount) FROM t;
REINDEX TABLE t;
SELECT sum(amount) FROM t;
REINDEX INDEX CONCURRENTLY t_pkey;
SELECT sum(amount) FROM t;

-- rewrites, and statements that only look like rewrites
VACUUM FULL t;
SELECT sum(amount) FROM t;
SELECT anker.wait_for_mirror('t');
SELECT sum(amount) FROM t;
CLUSTER t USING t_pkey;
SELECT anker.wait_for_mirror('t');
SELECT sum(amount) FROM t;
VACUUM t;
ANALYZE t;
SELECT sum(amount) FROM t;
ALTER TABLE t SET (fillfactor = 70);
ALTER TABLE t SET UNLOGGED;
SELECT sum(amount) FROM t;
ALTER TABLE t SET LOGGED;
SELECT sum(amount) FROM t;
SELECT anker.wait_for_mirror('t');
SELECT sum(amount) FROM t;

-- TRUNCATE, alone and in a transaction
TRUNCATE t;
SELECT count(*), sum(amount) FROM t;
INSERT INTO t VALUES (1, 10, 'one');
SELECT anker.wait_for_mirror('t');
SELECT count(*), sum(amount) FROM t;
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (2, 20, 'two');
SELECT id FROM t;
ROLLBACK;
SELECT id FROM t;
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (3, 30, 'three');
COMMIT;
SELECT id FROM t;
SELECT anker.wait_for_mirror('t');
SELECT id FROM t;

-- DDL and rows in one transaction, kept and undone
BEGIN;
INSERT INTO t VALUES (4, 40, 'four');
ALTER TABLE t ADD COLUMN late integer DEFAULT 5;
INSERT INTO t VALUES (5, 50, 'five');
SELECT id, late FROM t ORDER BY id;
ROLLBACK;
SELECT * FROM t ORDER BY id;
BEGIN;
INSERT INTO t VALUES (4, 40, 'four');
ALTER TABLE t ADD COLUMN late integer DEFAULT 5;
INSERT INTO t VALUES (5, 50, 'five');
COMMIT;
SELECT id, late FROM t ORDER BY id;
SELECT anker.wait_for_mirror('t');
SELECT id, late FROM t ORDER BY id;
SELECT late, count(*) FROM t GROUP BY late ORDER BY late;

-- constraints, triggers, rules
ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0);
SELECT anker.wait_for_mirror('t');
SELECT count(*) FROM t;
CREATE RULE no_five AS ON DELETE TO t WHERE old.id = 5 DO INSTEAD NOTHING;
DELETE FROM t WHERE id > 3;
SELECT id FROM t ORDER BY id;

-- other kinds of tables: children, partitions, temporary, unlogged
CREATE TABLE child () INHERITS (t);
INSERT INTO child (id, amount, b) VALUES (100, 1000, 'child');
SELECT count(*), sum(amount) FROM t;
SELECT count(*), sum(amount) FROM ONLY t;
DROP TABLE child;
SELECT count(*), sum(amount) FROM t;
CREATE TABLE parted (id integer, n integer, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (10) TO (20);
INSERT INTO parted SELECT i, i FROM generate_series(0, 19) i;
SELECT anker.mirror('parted_low');
SELECT anker.wait_for_mirror('parted_low');
SELECT count(*), sum(n) FROM parted;
SELECT count(*), sum(n) FROM parted_low;
DELETE FROM parted WHERE id = 15;
UPDATE parted SET id = 15 WHERE id = 5;
SELECT count(*), sum(n) FROM parted_low;
SELECT count(*), sum(n) FROM parted;
ALTER TABLE parted DETACH PARTITION parted_low;
SELECT count(*), sum(n) FROM parted_low;
CREATE TEMP TABLE scratch (id integer PRIMARY KEY);
INSERT INTO scratch VALUES (1);
SELECT count(*) FROM t JOIN scratch ON true;

-- a table that hides a mirrored one of the same name
CREATE TEMP TABLE t (id integer);
SELECT count(*) FROM t;
DROP TABLE pg_temp.t;
SELECT count(*) FROM t;

-- dropped, and made again under the same name
CREATE TABLE keeper (id integer PRIMARY KEY);
SELECT anker.mirror('keeper');
DROP TABLE t;
SELECT count(*) FROM t;
CREATE TABLE t (id integer PRIMARY KEY, fresh text);
INSERT INTO t VALUES (1, 'fresh');
SELECT * FROM t;
SELECT anker.mirror('t');
SELECT anker.wait_for_mirror('t');
SELECT * FROM t;
BEGIN;
DROP TABLE t;
SELECT * FROM t;
ROLLBACK;
SELECT * FROM t;
SELECT * FROM anker.verify('t');

-- columns of other types, and changes of these types
CREATE TYPE mood AS ENUM ('calm', 'wild');
CREATE DOMAIN positive AS integer CHECK (value > 0);
CREATE TABLE varied (id integer PRIMARY KEY, j jsonb, a integer[], m mood, p positive, u uuid, r real, i interval, n integer);
INSERT INTO varied VALUES
  (1, '{"k": 1}', '{1,2}', 'calm', 5, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 1.5, '1 day', 10),
  (2, '[]', NULL, 'wild', 6, NULL, NULL, NULL, 20);
SELECT anker.mirror('varied');
SELECT anker.wait_for_mirror('varied');
SELECT * FROM varied ORDER BY id;
SELECT sum(n), count(*) FROM varied;
SELECT m, sum(n) FROM varied GROUP BY m ORDER BY m;
SELECT id FROM varied WHERE j ->> 'k' = '1';
SELECT sum(p), max(r), max(i) FROM varied;
ALTER TYPE mood ADD VALUE 'odd';
SELECT sum(n) FROM varied WHERE m <> 'calm';
SELECT anker.wait_for_mirror('varied');
SELECT * FROM anker.verify('varied');
CREATE TYPE pair AS (a integer, b text);
ALTER TABLE varied ADD COLUMN pr pair, ADD COLUMN ms mood[];
SELECT anker.wait_for_mirror('varied');
UPDATE varied SET pr = '(1,x)', ms = '{calm,odd}' WHERE id = 1;
ALTER TYPE pair ADD ATTRIBUTE c numeric;
SELECT id, pr, (pr).b, (pr).c, ms FROM varied ORDER BY id;
UPDATE varied SET pr.c = 1.50 WHERE id = 1;
ALTER TYPE mood RENAME TO feeling;
ALTER TYPE feeling RENAME VALUE 'calm' TO 'quiet';
ALTER DOMAIN positive ADD CHECK (value < 100);
SELECT id, pr, (pr).b, (pr).c, ms FROM varied ORDER BY id;
SELECT m, count(*) FROM varied WHERE m = 'quiet' GROUP BY m;
ALTER TYPE pair DROP ATTRIBUTE b;
SELECT id, pr FROM varied ORDER BY id;
ALTER TABLE varied ALTER COLUMN u TYPE text, ALTER COLUMN r TYPE double precision, ALTER COLUMN j TYPE json;
SELECT anker.wait_for_mirror('varied');
SELECT id, u, r, j FROM varied ORDER BY id;
ALTER TABLE varied DROP CONSTRAINT varied_pkey, ADD PRIMARY KEY (m, id);
SELECT anker.wait_for_mirror('varied');
UPDATE varied SET m = 'odd' WHERE id = 2;
SELECT * FROM varied ORDER BY id;
SELECT * FROM anker.verify('varied');
DROP TYPE pair CASCADE;
SELECT anker.wait_for_mirror('varied');
SELECT * FROM varied ORDER BY id;
DROP TYPE feeling CASCADE;
SELECT * FROM varied ORDER BY id;

-- the last column goes, and another one comes
CREATE TABLE waning (a integer);
ALTER TABLE waning REPLICA IDENTITY FULL;
INSERT INTO waning VALUES (1), (2);
SELECT anker.mirror('waning');
SELECT anker.wait_for_mirror('waning');
SELECT count(*) FROM waning;
ALTER TABLE waning DROP a;
INSERT INTO waning DEFAULT VALUES;
SELECT count(*) FROM waning;
ALTER TABLE waning ADD b integer DEFAULT 7;
SELECT anker.wait_for_mirror('waning');
SELECT b, count(*) FROM waning GROUP BY b;
