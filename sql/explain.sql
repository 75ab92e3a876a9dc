-- once, engine: at least 8
--
-- EXPLAIN
--
-- The engine in plans: which side answers, with which tables, and why not the engine.
-- Runs once, with anker.route = hint.
--

CREATE TABLE fact (id integer PRIMARY KEY, dim_id integer, kind text, n numeric(8,2), f real);
CREATE TABLE dim (id integer PRIMARY KEY, name text);
CREATE TABLE loose (id integer PRIMARY KEY);
INSERT INTO dim SELECT i, 'dim ' || i FROM generate_series(1, 10) i;
INSERT INTO fact SELECT i, i % 10 + 1, 'kind ' || i % 3, i, i FROM generate_series(1, 1000) i;
ANALYZE fact, dim, loose;
SELECT anker.mirror('fact'), anker.mirror('dim');
SELECT anker.wait_for_mirror('fact') AND anker.wait_for_mirror('dim') AS live;
-- the same plans on every machine
SET max_parallel_workers_per_gather = 0;
SET enable_indexonlyscan = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET enable_mergejoin = off;

-- without a flag, the plan has no node of pg_anker
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact;

-- with it, a choice between the engine and the heap
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT id, n FROM fact WHERE kind = 'kind 1' AND anker.olap();
EXPLAIN (COSTS OFF) SELECT kind, sum(n) FROM fact WHERE anker.olap() GROUP BY kind HAVING sum(n) > 1 ORDER BY kind LIMIT 2;
-- PostgreSQL computes the conditions of HAVING that the engine cannot
EXPLAIN (COSTS OFF) SELECT kind FROM fact WHERE anker.olap() GROUP BY kind HAVING count(*) > 1 AND quote_literal(max(kind)) <> '' AND 9 / max(id) < 1;
-- DISTINCT and window functions, as far as the engine can
EXPLAIN (COSTS OFF) SELECT DISTINCT kind, id % 2 AS odd FROM fact WHERE anker.olap() ORDER BY odd, kind LIMIT 3;
EXPLAIN (COSTS OFF) SELECT DISTINCT quote_literal(kind) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT id, rank() OVER (PARTITION BY kind ORDER BY n) FROM fact WHERE anker.olap() ORDER BY 2 DESC, 1;
-- joins by other comparisons than equality
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact a JOIN dim b ON a.n BETWEEN b.id AND b.id + 10 AND a.kind <> b.name WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact a WHERE NOT EXISTS (SELECT FROM dim b WHERE b.id > a.n) AND anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FROM dim a LEFT JOIN dim b ON a.id <> b.id WHERE anker.olap();

-- a join that is read twice
EXPLAIN (COSTS OFF) SELECT dim_id, sum(n) FROM fact JOIN dim ON dim_id = dim.id WHERE name = 'dim 3' AND anker.olap() GROUP BY dim_id
  HAVING sum(n) > (SELECT avg(n) FROM fact JOIN dim ON dim_id = dim.id WHERE name = 'dim 3');
EXPLAIN (COSTS OFF) SELECT name, avg(n) FROM fact JOIN dim ON dim_id = dim.id WHERE anker.olap() GROUP BY name;
EXPLAIN (COSTS OFF) SELECT kind, rank() OVER (ORDER BY sum(n)) FROM fact WHERE anker.olap() GROUP BY kind;
EXPLAIN (COSTS OFF, VERBOSE) SELECT kind, sum(n) + 1 FROM fact WHERE id > 5 AND anker.olap() GROUP BY kind;
EXPLAIN (COSTS OFF, FORMAT json) SELECT count(*) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF, FORMAT yaml) SELECT count(*) FROM dim WHERE anker.olap();

-- a condition that the engine leaves to PostgreSQL
EXPLAIN (COSTS OFF) SELECT id FROM fact WHERE kind ~ '(k)\1' AND id < 10 AND anker.olap();

-- the first rows in the order of a locale, and, in one that is not the C library's, all rows
EXPLAIN (COSTS OFF) SELECT id FROM fact WHERE greatest(kind, 'kind 1') = kind AND anker.olap() ORDER BY kind DESC, id LIMIT 3;
EXPLAIN (COSTS OFF) SELECT id FROM fact WHERE anker.olap() ORDER BY kind COLLATE "en-x-icu", id LIMIT 3;

-- why not
EXPLAIN (COSTS OFF) SELECT count(*) FROM loose WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact, loose WHERE fact.id = loose.id AND anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact a JOIN dim b ON quote_literal(a.kind) = quote_literal(b.name) WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT count(DISTINCT kind) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FILTER (WHERE id > 3) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT string_agg(kind, '') FROM (SELECT kind FROM fact WHERE anker.olap() ORDER BY id) s;
-- groups that PostgreSQL makes of the engine's rows
EXPLAIN (COSTS OFF) SELECT string_agg(kind, '' ORDER BY id), sum(f) FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT ctid FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT id FROM fact WHERE anker.olap() FOR UPDATE;
EXPLAIN (COSTS OFF) SELECT count(*) FROM generate_series(1, 3) WHERE anker.olap();
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact TABLESAMPLE system (10) REPEATABLE (1) WHERE anker.olap();

-- actual figures: no times, but rows
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM loose WHERE anker.olap();
CREATE FUNCTION done(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    -- The side that was not asked, and what depends on the machine, is left out.
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
        EXIT WHEN line ~ 'never executed';
        IF line !~ 'Undone|Memory' THEN
            RETURN NEXT line;
        END IF;
    END LOOP;
END $$;
SELECT done('SELECT count(*) FROM fact WHERE anker.olap()');
SELECT done('SELECT kind, sum(n) FROM fact WHERE anker.olap() GROUP BY kind ORDER BY kind');
SELECT done('SELECT id % 3 AS rest, sum(n) FROM fact WHERE anker.olap() GROUP BY rest ORDER BY rest DESC');
SELECT done('SELECT id FROM fact WHERE id < 4 AND anker.olap()');
SELECT done('SELECT count(*) FROM dim, fact WHERE dim_id = dim.id AND name = ''dim 1'' AND anker.olap()');

-- an error during the engine's work is the heap's answer
SELECT done('SELECT sum(1000 / (1000 - id)) FROM fact WHERE id < 1000 AND anker.olap()');
SELECT done('SELECT sum(1 / (1000 - id)) FROM fact WHERE anker.olap()');

-- in a transaction that has written the table
BEGIN;
UPDATE dim SET name = 'changed' WHERE id = 1;
SELECT done('SELECT count(*) FROM dim WHERE anker.olap()');
SELECT done('SELECT count(*) FROM fact WHERE anker.olap()');
ROLLBACK;
SELECT done('SELECT count(*) FROM dim WHERE anker.olap()');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT done('SELECT count(*) FROM dim WHERE anker.olap()');
COMMIT;

-- statements with a plan of their own
EXPLAIN (COSTS OFF) DECLARE c SCROLL CURSOR FOR SELECT id FROM dim WHERE anker.olap();
EXPLAIN (COSTS OFF) CREATE TABLE copied AS SELECT name FROM dim WHERE anker.olap();
PREPARE p(integer) AS SELECT name FROM dim WHERE id = $1 AND anker.olap();
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE p(1);
RESET plan_cache_mode;
EXPLAIN (COSTS OFF) EXECUTE p(1);
EXPLAIN (COSTS OFF) WITH w AS (SELECT count(*) AS n FROM dim WHERE anker.olap()) SELECT n FROM w;
EXPLAIN (COSTS OFF) SELECT (SELECT max(id) FROM dim WHERE anker.olap()) AS latest, name FROM dim;
EXPLAIN (COSTS OFF) SELECT id FROM dim WHERE anker.olap() UNION ALL SELECT id FROM fact WHERE anker.olap();
EXPLAIN (COSTS OFF) INSERT INTO loose SELECT id FROM dim WHERE anker.olap();

-- anker.route
SET anker.route = 'off';
EXPLAIN (COSTS OFF) SELECT count(*) FROM dim WHERE anker.olap();
SET anker.route = 'prefer';
EXPLAIN (COSTS OFF) SELECT count(*) FROM dim;
EXPLAIN (COSTS OFF) SELECT count(*) FROM loose;
EXPLAIN (COSTS OFF) SELECT count(*) FROM dim, loose WHERE dim.id = loose.id;
EXPLAIN (COSTS OFF) SELECT count(*) FROM fact a JOIN dim b ON quote_literal(a.kind) = quote_literal(b.name);
EXPLAIN (COSTS OFF) SELECT id FROM dim FOR UPDATE;
SET anker.route = 'force';
EXPLAIN (COSTS OFF) SELECT count(*) FROM dim;
SELECT count(*) FROM fact a JOIN dim b ON quote_literal(a.kind) = quote_literal(b.name);
SELECT count(*) FROM loose;
SET anker.route = 'sometimes';
RESET anker.route;

-- anker.fallback
SET anker.fallback = off;
SELECT count(*) FROM dim WHERE anker.olap();
SELECT count(*) FROM loose WHERE anker.olap();
SELECT count(*) FROM fact a JOIN dim b ON quote_literal(a.kind) = quote_literal(b.name) WHERE anker.olap();
RESET anker.fallback;

