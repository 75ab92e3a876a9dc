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

-- Parts that a plan may leave out when it starts are read by the engine all the same.
CREATE TABLE parts (day integer, k integer, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
INSERT INTO parts SELECT i % 20, i FROM generate_series(1, 500) i;
SELECT anker.mirror('parts');
SELECT anker.wait_for_mirror('parts_2') AND anker.wait_for_mirror('parts_1') AS same;
SET plan_cache_mode = force_generic_plan;
PREPARE p (integer) AS SELECT count(*), sum(k) FROM parts WHERE day >= $1 AND anker.olap();
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) EXECUTE p (12);
CREATE TEMP TABLE third AS EXECUTE p (12);
SELECT third = ROW (count(*), sum(k)) AS same FROM third, parts WHERE day >= 12 GROUP BY third;
RESET plan_cache_mode;

-- A function's body, and rows that are sent along from it.
CREATE TABLE plain AS SELECT i AS id, i % 7 AS k FROM generate_series(1, 100) i;
CREATE FUNCTION plain_from(integer) RETURNS SETOF plain LANGUAGE sql STABLE AS 'SELECT * FROM plain WHERE k >= $1';
SELECT count(*) AS n FROM t JOIN plain_from(3) p ON p.id = t.id WHERE anker.olap() \gset
SELECT count(*) = :n AS same FROM t JOIN plain p ON p.id = t.id WHERE k >= 3;
SELECT fallbacks = 0 AS same FROM anker.engine;

-- The heap's side is planned when the engine has refused.
CREATE VIEW both_of AS SELECT t.g, t.n, parts.k FROM t JOIN parts ON parts.k = t.id;
BEGIN;
UPDATE t SET n = n WHERE false;
SET LOCAL anker.max_sent = 0;
CREATE TEMP TABLE fourth AS SELECT g, count(*), max(n) FROM both_of WHERE anker.olap() GROUP BY g;
SELECT array(SELECT fourth::text FROM fourth ORDER BY g) = array(SELECT s::text FROM (SELECT g, count(*), max(n) FROM both_of GROUP BY g) s ORDER BY g) AS same;
COMMIT;
SELECT fallbacks = 1 AS same FROM anker.engine;
CREATE TEMP TABLE fifth AS SELECT g, count(*), max(n) FROM both_of WHERE anker.olap() GROUP BY g;
SELECT array(SELECT fourth::text FROM fourth ORDER BY g) = array(SELECT fifth::text FROM fifth ORDER BY g) AS same;
