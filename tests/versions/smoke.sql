-- A little of everything, for versions of PostgreSQL on which not all tests run. Every `same` must be true.
\set columns 'SELECT g, count(*), sum(n), avg(n), max(id), min(x COLLATE "C") FROM t'
\set flagged :columns ' WHERE anker.olap() GROUP BY g'
\set heap :columns ' GROUP BY g'
CREATE EXTENSION pg_anker;
CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), x text);
INSERT INTO t SELECT i, i % 5, i / 4.0, 'x' || i FROM generate_series(1, 1000) i;
SELECT anker.mirror('t');
SELECT anker.wait_for_mirror('t') AS same;

EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) :flagged;
CREATE TEMP TABLE first AS :flagged;
SELECT array(SELECT first::text FROM first ORDER BY g) = array(SELECT s::text FROM (:heap) s ORDER BY g) AS same;

INSERT INTO t VALUES (2000, 7, 1.25, 'new');
UPDATE t SET n = n + 1 WHERE id <= 10;
DELETE FROM t WHERE id BETWEEN 20 AND 30;
CREATE TEMP TABLE second AS :flagged;
SELECT array(SELECT second::text FROM second ORDER BY g) = array(SELECT s::text FROM (:heap) s ORDER BY g) AS same;
SELECT count(*) = 0 AS same FROM anker.verify('t');

ALTER TABLE t ADD COLUMN late integer DEFAULT 3;
SELECT anker.wait_for_mirror('t') AS same;
SELECT count(*) AS n FROM t WHERE late = 3 AND anker.olap() \gset
SELECT count(*) = :n AS same FROM t;
SELECT queries_served >= 3 AND queries_failed = 0 AS same FROM anker.engine;
