-- engine: at least 32
--
-- GROUPS THAT POSTGRESQL MAKES
--
-- If the engine does not know an aggregate, or cannot group by a key, it
-- gives the rows, and PostgreSQL makes the groups. And a query that only reads
-- a subquery is that subquery.
--

CREATE TABLE item (id integer PRIMARY KEY, kind text, name text, price numeric(8,2), weight double precision, sold date);
INSERT INTO item SELECT i, 'kind ' || i % 4, 'name ' || (i * 37) % 23, i * 1.25, i / 8.0, date '2024-01-01' + i % 30
FROM generate_series(1, 80) i;
INSERT INTO item VALUES (101, NULL, NULL, NULL, NULL, NULL), (102, 'kind 1', NULL, 0, 0, NULL);
CREATE TABLE sale (id integer PRIMARY KEY, item integer, quantity integer);
INSERT INTO sale SELECT i, i % 90, i % 7 FROM generate_series(1, 400) i;
SELECT anker.mirror('item');
SELECT anker.mirror('sale');
SELECT anker.wait_for_mirror('item');
SELECT anker.wait_for_mirror('sale');

-- aggregates
SELECT kind, string_agg(name, ', ' ORDER BY id) FROM item GROUP BY kind ORDER BY kind;
SELECT kind, string_agg(DISTINCT name, ', ' ORDER BY name) FROM item GROUP BY kind ORDER BY kind;
SELECT kind, array_agg(id ORDER BY id DESC) FROM item WHERE id < 20 GROUP BY kind ORDER BY kind;
SELECT kind, percentile_cont(0.5) WITHIN GROUP (ORDER BY weight), percentile_disc(0.25) WITHIN GROUP (ORDER BY price)
FROM item GROUP BY kind ORDER BY kind;
SELECT mode() WITHIN GROUP (ORDER BY name), count(*) FROM item;
SELECT rank(10) WITHIN GROUP (ORDER BY id) FROM item;
SELECT kind, json_agg(id ORDER BY id), jsonb_object_agg(id, name) FROM item WHERE id < 9 GROUP BY kind ORDER BY kind;
SELECT kind, array_agg(id ORDER BY id) FILTER (WHERE price > 50) FROM item GROUP BY kind ORDER BY kind;
SELECT kind, count(*), sum(price), avg(price), max(name) FROM item GROUP BY kind HAVING string_agg(name, '' ORDER BY id) <> '' ORDER BY kind;
SELECT array_agg(id ORDER BY id) FROM item WHERE id < 0;

-- keys and conditions
SELECT weight, count(*) FROM item WHERE id < 10 GROUP BY weight ORDER BY weight;
SELECT quote_literal(kind), count(*) FROM item GROUP BY quote_literal(kind) ORDER BY 1;
SELECT regexp_replace(name, 'n(.*)e', '\1'), count(*) FROM item GROUP BY 1 ORDER BY 1 LIMIT 5;
SELECT kind, count(*) FROM item WHERE quote_literal(name) < '''n5' GROUP BY kind ORDER BY kind;
SELECT kind, sold, grouping(kind, sold), array_agg(id ORDER BY id) FROM item WHERE id < 12 GROUP BY ROLLUP (kind, sold) ORDER BY 1, 2, 3;
-- a key that a subquery computes is null in the sets that it is not part of
SELECT kind, dear, grouping(kind, dear), count(*), array_agg(id ORDER BY id)
FROM (SELECT id, kind, price > 10 IS TRUE AS dear FROM item WHERE id < 12) i
GROUP BY GROUPING SETS ((kind, dear), (kind), ()) HAVING dear = false ORDER BY 1, 2, 3;
SELECT dear, count(*) FROM (SELECT id, kind, price > 10 IS TRUE AS dear FROM item) i
GROUP BY GROUPING SETS ((kind, dear), (kind), ()) HAVING NOT dear OR dear IS NULL ORDER BY 1, 2;
SELECT i.id, i.name, array_agg(s.id ORDER BY s.id) FROM item i JOIN sale s ON s.item = i.id WHERE i.id < 5 GROUP BY i.id ORDER BY 1;

-- subqueries beside and within them
SELECT kind, (SELECT max(p.id) FROM item p WHERE p.kind = i.kind), string_agg(name, ',' ORDER BY id) FROM item i WHERE id < 20 GROUP BY kind ORDER BY kind;
SELECT (SELECT count(*) FROM sale), array_agg(id ORDER BY id) FROM item WHERE id < 0;
SELECT array_agg((SELECT sum(quantity) FROM sale WHERE item = i.id) ORDER BY id) FROM item i WHERE id < 9;
SELECT kind, array_agg(id ORDER BY id) FROM item GROUP BY kind HAVING count(*) > (SELECT count(*) FROM sale) / 20 ORDER BY kind;

-- the order of a subquery's rows
SELECT string_agg(name, ',') FROM (SELECT name FROM item WHERE id < 9 ORDER BY name, id) s;
SELECT array_agg(r) FROM (SELECT row_number() OVER (ORDER BY id DESC) AS r FROM item WHERE id < 5) s;

-- above them
SELECT kind, rank() OVER (ORDER BY count(DISTINCT weight) DESC, kind) FROM item GROUP BY kind HAVING array_length(array_agg(id), 1) > 5 ORDER BY 1;
SELECT DISTINCT length(string_agg(name, ',' ORDER BY id)) FROM item GROUP BY kind ORDER BY 1 LIMIT 2;

-- queries that only read a subquery
CREATE VIEW report AS SELECT kind, string_agg(name, ',' ORDER BY id) AS names, max(price) AS most FROM item GROUP BY kind ORDER BY kind DESC NULLS LAST;
SELECT * FROM report;
SELECT kind, length(names) AS long FROM report WHERE most > 98;
SELECT most FROM report ORDER BY most LIMIT 2;
SELECT kind, kind FROM report LIMIT 1 OFFSET 1;
WITH r AS (SELECT kind, array_agg(id ORDER BY id) AS ids FROM item WHERE id < 9 GROUP BY kind) SELECT ids, kind || '!' FROM r WHERE kind > 'kind 1' ORDER BY 2;
WITH a AS (SELECT * FROM item WHERE id < 9), r AS (SELECT kind, array_agg(id ORDER BY id) AS ids FROM a GROUP BY kind) SELECT * FROM r ORDER BY kind;
SELECT x FROM (SELECT DISTINCT kind AS x, price > 50 FROM item) s ORDER BY x;
SELECT * FROM (SELECT kind FROM item UNION SELECT name FROM item WHERE id < 3) s ORDER BY 1;
SELECT n + 1 FROM (SELECT count(*) AS n FROM item GROUP BY kind LIMIT 2) s ORDER BY 1 LIMIT 0;
SELECT s FROM (SELECT kind, sum(price) AS s FROM item GROUP BY GROUPING SETS ((kind), ())) q WHERE kind IS NULL ORDER BY 1;
SELECT (r).kind FROM (SELECT i AS r FROM item i WHERE id = 3) s;

-- sent along, with a part for the engine
SELECT s.id, r.names FROM sale s JOIN report r ON r.kind = 'kind ' || s.quantity WHERE s.id < 9 ORDER BY 1;
SELECT id FROM item WHERE kind = (SELECT (array_agg(kind ORDER BY id))[3] FROM item) ORDER BY id LIMIT 3;

-- floats in the heap's order
SET anker.float_aggregates = heap;
SELECT kind, sum(weight), array_agg(id ORDER BY id) FROM item WHERE id < 9 GROUP BY kind ORDER BY kind;
RESET anker.float_aggregates;

-- a subquery's clauses must be applied before those of the outer query
SELECT k + 1, count FROM (SELECT 5 AS k, count(*) FROM item GROUP BY GROUPING SETS ((1), ())) v ORDER BY 1;
SELECT NOT k, c FROM (SELECT id > 50 AS k, count(*) AS c FROM item GROUP BY ROLLUP (id > 50)) v ORDER BY c;
SELECT 1 / (id - 1) FROM (SELECT id FROM item ORDER BY id OFFSET 78) v;
SELECT 1 / (id - 80) FROM (SELECT id FROM item WHERE id < 81 ORDER BY name COLLATE "C" DESC, id LIMIT 2) v;
WITH w AS MATERIALIZED (SELECT id, 1 / (id - 1) AS q FROM item) SELECT CASE WHEN id > 1 THEN q END FROM w;
SELECT CASE WHEN id <> 1 THEN q END FROM (SELECT id, 1 / (id - 1) AS q FROM item ORDER BY id) v;
CREATE VIEW newest AS SELECT id, name FROM item ORDER BY id DESC;
SELECT id FROM newest WHERE id > 78;
SELECT id FROM newest WHERE id % 2 = 0 LIMIT 3;
SELECT * FROM (SELECT * FROM newest LIMIT 2) v WHERE id > 0;
SELECT max(id) FROM (SELECT id FROM newest LIMIT 1) v;
SELECT min(id) FROM (SELECT * FROM (SELECT * FROM newest) x LIMIT 3) y;
SELECT row_number() OVER (), id FROM newest LIMIT 2;
SELECT id FROM item WHERE id IN (SELECT id FROM newest LIMIT 2) ORDER BY id;
SELECT id, (SELECT x FROM (SELECT s.id AS x FROM sale s WHERE s.item = i.id ORDER BY s.id DESC) v LIMIT 1) FROM item i WHERE id < 5 ORDER BY id;
SELECT s FROM (SELECT s FROM (SELECT kind, string_agg(name, '' ORDER BY id) AS s FROM item WHERE id < 9 GROUP BY kind) a) b ORDER BY s;

-- subqueries that read keys which are no columns
SELECT id % 5 IN (SELECT quantity FROM sale WHERE quantity > 2) AS sold, count(*) FROM item GROUP BY id % 5 ORDER BY 1, 2;
SELECT id % 5 AS k FROM item GROUP BY id % 5 HAVING id % 5 NOT IN (SELECT quantity FROM sale WHERE quantity > 2) ORDER BY 1;
SELECT k, (SELECT count(*) FROM sale s WHERE s.quantity = x.k), sum(price) FROM (SELECT id % 9 AS k, price FROM item) x GROUP BY k ORDER BY k;
SELECT (SELECT 'three' WHERE k = 3), max(price) FROM (SELECT id % 5 AS k, price FROM item) x GROUP BY k ORDER BY 2;
SELECT k, count(*) FROM (SELECT price * 2 AS k FROM item WHERE id < 9) x GROUP BY k
  HAVING EXISTS (SELECT FROM sale s WHERE s.quantity * 5 = x.k) ORDER BY (SELECT max(id) FROM sale s WHERE s.quantity < x.k), 1;
SELECT k, (SELECT k + 0.50 FROM sale s WHERE s.id = 1) AS more FROM (SELECT price * 1.10 AS k FROM item WHERE id < 4) x GROUP BY k ORDER BY 1;
SELECT k, (SELECT count(*) FROM sale s WHERE s.quantity = x.k) FROM (SELECT id % 3 AS k FROM item) x GROUP BY ROLLUP (k) ORDER BY k;
