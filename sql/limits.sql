-- engine: at least 60
--
-- LIMITS
--
-- The first rows in an order: of subqueries, and of the query itself.
--

CREATE TABLE dish (id integer PRIMARY KEY, kind integer, price numeric(8,2), weight double precision, name text COLLATE "C",
  label char(6) COLLATE "C", local text, sold date, hot boolean, wide numeric(30,4));
CREATE TABLE kind (k_id integer PRIMARY KEY, k_name text);
CREATE TABLE nothing (id integer PRIMARY KEY, v integer);
INSERT INTO dish
  SELECT i, nullif(i % 5, 4), nullif(i * 37 % 23, 7) * 1.25,
    (ARRAY['NaN', '-0', '0', '1.5', '-Infinity', 'Infinity', NULL]::float8[])[i % 7 + 1],
    (ARRAY['a', 'B', '', 'ä', 'ab', NULL, 'b'])[i * 3 % 7 + 1], (ARRAY['x', 'y ', NULL, 'xy'])[i % 4 + 1],
    'n' || i, (ARRAY['2024-01-01', 'infinity', '-infinity', NULL]::date[])[i % 4 + 1], nullif(i % 3, 2) = 1,
    nullif(i * 7919 % 101, 50) * 1000000000000.5
  FROM generate_series(1, 60) i;
INSERT INTO kind VALUES (0, 'soup'), (1, 'salad'), (2, NULL), (3, 'cake');
ANALYZE dish, kind, nothing;
SELECT anker.mirror(t) FROM unnest('{dish,kind,nothing}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{dish,kind,nothing}'::regclass[]) t;

-- the query itself
SELECT id, price FROM dish ORDER BY price, id LIMIT 4;
SELECT id, price FROM dish ORDER BY price DESC, id LIMIT 4;
SELECT id, price FROM dish ORDER BY price NULLS FIRST, id DESC LIMIT 4;
SELECT id, price FROM dish ORDER BY price DESC NULLS LAST, id LIMIT 4 OFFSET 3;
SELECT id, weight FROM dish ORDER BY weight, id LIMIT 30;
SELECT id, weight FROM dish ORDER BY weight DESC, id DESC LIMIT 12;
SELECT id, name FROM dish ORDER BY name, id LIMIT 20;
SELECT id, name FROM dish ORDER BY name DESC NULLS LAST, id LIMIT 20;
SELECT id, label FROM dish ORDER BY label, id LIMIT 20 OFFSET 25;
SELECT id, sold FROM dish ORDER BY sold, id LIMIT 18 OFFSET 10;
SELECT id, hot FROM dish ORDER BY hot, id LIMIT 25;
SELECT id, hot FROM dish ORDER BY hot DESC, id LIMIT 3 OFFSET 38;
SELECT id, wide FROM dish ORDER BY wide DESC, id LIMIT 5;
SELECT id FROM dish ORDER BY local LIMIT 3;
SELECT id + 1 AS next, price * 2 FROM dish WHERE kind = 2 ORDER BY price * -1, next DESC LIMIT 3;
SELECT * FROM dish WHERE id < 3 ORDER BY id LIMIT 10;
SELECT id FROM dish ORDER BY id OFFSET 57;
SELECT id FROM dish ORDER BY id LIMIT 3 OFFSET 58;
SELECT id FROM dish ORDER BY id LIMIT 3 OFFSET 60;
SELECT id FROM dish ORDER BY id LIMIT 0;
SELECT count(*) FROM (SELECT id FROM dish ORDER BY id LIMIT NULL) s;
SELECT id FROM dish WHERE id > 57 ORDER BY id LIMIT ALL;
SELECT id FROM dish WHERE id > 57 ORDER BY id LIMIT NULL OFFSET NULL;
SELECT id FROM nothing ORDER BY id LIMIT 3;
SELECT price FROM dish ORDER BY price DESC FETCH FIRST 3 ROWS WITH TIES;
SELECT price FROM dish ORDER BY price DESC NULLS LAST OFFSET 2 FETCH FIRST 3 ROWS WITH TIES;
SELECT weight = 0 FROM dish WHERE weight <= 0 ORDER BY weight DESC FETCH FIRST ROW WITH TIES;
SELECT count(*) FROM (SELECT 1 FROM dish LIMIT 7) s;
SELECT kind, count(*), sum(price) FROM dish GROUP BY kind ORDER BY 3 DESC, 1 LIMIT 2;
SELECT kind, avg(price) FROM dish GROUP BY kind ORDER BY avg(price) LIMIT 2 OFFSET 1;
SELECT kind, count(*) FROM dish GROUP BY kind HAVING sum(price) > 100 ORDER BY sum(price) LIMIT 1;
SELECT kind, min(name) FROM dish GROUP BY kind ORDER BY min(name) DESC, kind LIMIT 2;
SELECT DISTINCT kind FROM dish ORDER BY kind LIMIT 2;
SELECT DISTINCT ON (kind) kind, id FROM dish ORDER BY kind, price DESC NULLS LAST, id LIMIT 3;
SELECT id, rank() OVER (ORDER BY price DESC, id) FROM dish ORDER BY id LIMIT 3;
SELECT id FROM dish WHERE local ILIKE 'N1%' ORDER BY id LIMIT 3;
SELECT id FROM dish UNION ALL SELECT k_id FROM kind ORDER BY id LIMIT 6;
SELECT k_name, id FROM dish JOIN kind ON k_id = kind ORDER BY price DESC NULLS LAST, id LIMIT 4;
SELECT k_name, id FROM kind LEFT JOIN dish ON k_id = kind AND id < 0 ORDER BY k_id DESC LIMIT 2;

-- in FROM
SELECT count(*), sum(price), min(id) FROM (SELECT * FROM dish ORDER BY price DESC NULLS LAST, id LIMIT 10) s;
SELECT id, p FROM (SELECT id, price AS p FROM dish ORDER BY price NULLS FIRST, id LIMIT 5 OFFSET 2) s WHERE id > 10 ORDER BY id;
SELECT count(*), max(p) FROM (SELECT price AS p FROM dish ORDER BY price FETCH FIRST 4 ROWS WITH TIES) s;
SELECT count(*) FROM (SELECT id FROM dish LIMIT 7) s;
SELECT count(*) FROM (SELECT id FROM dish LIMIT 7 OFFSET 58) s;
SELECT count(*) FROM (SELECT id FROM dish OFFSET 7) s;
SELECT count(*), sum(id) FROM (SELECT id FROM dish ORDER BY id OFFSET 50) s;
SELECT count(*) FROM (SELECT id FROM dish ORDER BY id LIMIT 0) s;
SELECT count(*) FROM (SELECT id FROM nothing ORDER BY id LIMIT 5) s;
SELECT sum(k) FROM (SELECT DISTINCT kind AS k FROM dish ORDER BY kind DESC NULLS LAST LIMIT 2) s;
SELECT sum(n), count(*) FROM (SELECT kind, count(*) AS n FROM dish GROUP BY kind HAVING count(*) > 3 ORDER BY count(*), kind LIMIT 3) s;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM dish ORDER BY weight NULLS FIRST, id DESC LIMIT 20) s;
SELECT count(*), min(id), max(id) FROM (SELECT id FROM dish ORDER BY name || 'x', id LIMIT 20) s;
SELECT sum(id) FROM (SELECT id FROM (SELECT id FROM dish ORDER BY id DESC LIMIT 20) x ORDER BY id LIMIT 5) s;
SELECT k_name, count(s.id) FROM kind LEFT JOIN (SELECT * FROM dish ORDER BY id LIMIT 9) s ON s.kind = k_id GROUP BY k_name ORDER BY 2, 1;
SELECT count(*) FROM (SELECT id FROM dish ORDER BY local LIMIT 5) s;
SELECT id FROM (SELECT id, local FROM dish ORDER BY local || 'x', id LIMIT 2) s ORDER BY id;

-- behind WITH, in views
WITH best AS (SELECT id, kind, price FROM dish ORDER BY price DESC NULLS LAST, id LIMIT 8)
  SELECT kind, count(*), sum(price) FROM best GROUP BY kind ORDER BY kind;
WITH part AS (SELECT id FROM dish LIMIT 8) SELECT count(*) FROM part a JOIN part b ON a.id = b.id;
WITH part AS (SELECT kind FROM dish ORDER BY kind LIMIT 8) SELECT count(*) FROM part a, part b WHERE a.kind = b.kind;
WITH part AS (SELECT id, kind FROM dish ORDER BY kind LIMIT 8), more AS (SELECT id FROM part)
  SELECT count(*) FROM more a JOIN more b USING (id);
CREATE VIEW cheap AS SELECT * FROM dish WHERE price IS NOT NULL ORDER BY price, id LIMIT 6;
SELECT count(*), sum(price), max(id) FROM cheap;
SELECT c.id, k_name FROM cheap c JOIN kind ON k_id = c.kind ORDER BY c.id;

-- in conditions and values
SELECT count(*) FROM dish WHERE kind IN (SELECT k_id FROM kind ORDER BY k_id DESC LIMIT 2);
SELECT count(*) FROM dish WHERE kind NOT IN (SELECT k_id FROM kind ORDER BY k_id LIMIT 3);
SELECT count(*) FROM dish WHERE id IN (SELECT DISTINCT kind FROM dish ORDER BY kind LIMIT 2);
SELECT count(*) FROM dish WHERE id NOT IN (SELECT id FROM dish LIMIT 10);
SELECT count(*) FROM kind WHERE EXISTS (SELECT 1 FROM dish LIMIT 1);
SELECT count(*) FROM kind WHERE EXISTS (SELECT 1 FROM dish OFFSET 60);
SELECT count(*) FROM kind WHERE NOT EXISTS (SELECT 1 FROM nothing ORDER BY v LIMIT 1);
SELECT count(*) FROM kind WHERE EXISTS (SELECT 1 FROM dish WHERE kind = k_id LIMIT 1);
SELECT k_id, (SELECT max(price) FROM dish LIMIT 1), (SELECT max(price) FROM dish OFFSET 1) FROM kind ORDER BY k_id;
SELECT k_id, coalesce((SELECT count(*) FROM dish LIMIT 0), -1) FROM kind ORDER BY k_id;

-- operands of set operations
SELECT count(*), sum(id) FROM ((SELECT id FROM dish ORDER BY id LIMIT 3) UNION ALL (SELECT id FROM dish ORDER BY id DESC LIMIT 2)) s;
(SELECT id FROM dish ORDER BY price, id LIMIT 3) UNION (SELECT id FROM dish ORDER BY price, id LIMIT 2 OFFSET 1) ORDER BY 1;
(SELECT id FROM dish ORDER BY id LIMIT 5) EXCEPT (SELECT id FROM dish ORDER BY id LIMIT 2) ORDER BY 1 DESC LIMIT 2;
SELECT count(*) FROM (SELECT id FROM dish UNION SELECT k_id FROM kind ORDER BY 1 OFFSET 4 LIMIT 30) s;

-- parameters
PREPARE page(bigint, bigint) AS SELECT id, price FROM dish ORDER BY price DESC NULLS LAST, id LIMIT $1 OFFSET $2;
EXECUTE page(2, 0);
EXECUTE page(2, 2);
EXECUTE page(0, 2);
EXECUTE page(1, NULL);
EXECUTE page(3, 58);
EXECUTE page(-1, 0);
EXECUTE page(1, -1);
SET plan_cache_mode = force_generic_plan;
EXECUTE page(2, 4);
EXECUTE page(NULL, 58);
EXECUTE page(-1, -2);
RESET plan_cache_mode;
PREPARE inner_page(integer) AS SELECT count(*), sum(id) FROM (SELECT id FROM dish ORDER BY id LIMIT $1 + 1) s;
EXECUTE inner_page(4);
EXECUTE inner_page(NULL);
EXECUTE inner_page(-2);
DEALLOCATE ALL;

-- errors, where PostgreSQL has them
SELECT id FROM dish ORDER BY id LIMIT -1;
SELECT id FROM dish ORDER BY id OFFSET -1;
SELECT count(*) FROM (SELECT id FROM dish LIMIT -1) s;
SELECT count(*) FROM (SELECT id FROM dish OFFSET -1) s;
SELECT count(*) FROM nothing, (SELECT id FROM dish LIMIT -1) s WHERE v = s.id;
SELECT 10 / (id - 1) FROM dish ORDER BY id DESC LIMIT 2;
SELECT count(*) FROM (SELECT id FROM dish ORDER BY 1 / (id - 1), id LIMIT 2) s;

-- cursors
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM dish WHERE anker.olap() ORDER BY price, id LIMIT 4;
FETCH 3 FROM c;
FETCH 5 FROM c;
FETCH BACKWARD 2 FROM c;
COMMIT;

-- An average of more digits than the engine orders by.
CREATE TABLE rare (id integer PRIMARY KEY, g integer, e integer);
INSERT INTO rare SELECT i, i % 3, (i = 3)::integer FROM generate_series(1, 60000) i;
SELECT anker.mirror('rare');
SELECT anker.wait_for_mirror('rare');
SET anker.fallback = off;
SELECT g, avg(e) FROM rare GROUP BY g ORDER BY avg(e) DESC, g;
SELECT g, sum(e) FROM rare GROUP BY g ORDER BY sum(e) DESC, g DESC;
RESET anker.fallback;
