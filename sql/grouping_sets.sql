-- engine: at least 34
--
-- GROUPING SETS
--
-- GROUPING SETS, ROLLUP, CUBE and GROUPING(), of the query itself and of subqueries.
--

CREATE TABLE sale (id integer PRIMARY KEY, shop integer, kind text COLLATE "C", amount numeric(8,2), pieces integer, day date);
CREATE TABLE no_sale (id integer PRIMARY KEY, shop integer, amount numeric(8,2));
INSERT INTO sale
  SELECT i, nullif(i % 3, 2), (ARRAY['a', 'B', NULL, 'c'])[i * 7 % 4 + 1], nullif(i * 37 % 23, 7) * 1.25, i % 6, date '2024-01-01' + i % 4
  FROM generate_series(1, 40) i;
ANALYZE sale, no_sale;
SELECT anker.mirror(t) FROM unnest('{sale,no_sale}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{sale,no_sale}'::regclass[]) t;

SELECT shop, kind, grouping(shop, kind), count(*), sum(amount) FROM sale GROUP BY GROUPING SETS ((shop), (kind), ()) ORDER BY 3, 1, 2;
SELECT shop, kind, grouping(shop), grouping(kind), avg(amount), min(pieces) FROM sale GROUP BY ROLLUP (shop, kind) ORDER BY 3, 4, 1, 2;
SELECT shop, day, grouping(day, shop) AS g, max(amount) FROM sale WHERE id > 3 GROUP BY CUBE (shop, day) ORDER BY g, 1, 2;
SELECT shop, kind, count(*) FROM sale GROUP BY shop, ROLLUP (kind) ORDER BY 1, 2, 3;
SELECT shop, count(*) FROM sale GROUP BY GROUPING SETS ((shop), (shop), ()) ORDER BY 1, 2;
SELECT shop, kind, count(*) FROM sale GROUP BY DISTINCT ROLLUP (shop, kind), ROLLUP (shop) ORDER BY 1, 2, 3;
SELECT shop, kind, count(*) FROM sale GROUP BY ROLLUP (shop, kind), ROLLUP (shop) ORDER BY 1, 2, 3;
SELECT shop, kind, pieces, count(*) FROM sale GROUP BY ROLLUP ((shop, kind), pieces) HAVING count(*) > 2 ORDER BY 1, 2, 3, 4;
SELECT shop, sum(shop), count(shop) FROM sale GROUP BY ROLLUP (shop) ORDER BY 1, 2;
SELECT shop + 1 AS next, grouping(shop + 1), count(*) FROM sale GROUP BY CUBE (shop + 1) ORDER BY 1, 2;
SELECT shop, kind, count(DISTINCT pieces), sum(amount) FILTER (WHERE pieces > 2) FROM sale GROUP BY ROLLUP (shop, kind) ORDER BY 1, 2, 3;
SELECT id, pieces, count(*) FROM sale WHERE id < 4 GROUP BY GROUPING SETS ((id), (id, shop)) ORDER BY 1, 2;
SELECT shop, count(*), rank() OVER (ORDER BY count(*) DESC, shop) FROM sale GROUP BY ROLLUP (shop) ORDER BY 3;
SELECT kind, sum(amount) FROM sale GROUP BY ROLLUP (kind) ORDER BY sum(amount) DESC NULLS LAST, kind LIMIT 3;
SELECT DISTINCT grouping(kind) FROM sale GROUP BY CUBE (shop, kind) ORDER BY 1;

-- empty inputs
SELECT shop, count(*), sum(amount) FROM no_sale GROUP BY ROLLUP (shop) ORDER BY 1;
SELECT shop, count(*) FROM no_sale GROUP BY GROUPING SETS ((shop), (id)) ORDER BY 1;
SELECT count(*) FROM no_sale GROUP BY GROUPING SETS ((), ()) ORDER BY 1;
SELECT count(*) FROM sale GROUP BY ();
SELECT 1 FROM no_sale GROUP BY ();
SELECT count(*) FROM no_sale GROUP BY () HAVING count(*) > 0;

-- in subqueries
SELECT count(*), sum(n), count(shop) FROM (SELECT shop, kind, count(*) AS n FROM sale GROUP BY CUBE (shop, kind)) s;
SELECT g, count(*), sum(total) FROM (SELECT grouping(shop, kind) AS g, sum(amount) AS total FROM sale GROUP BY ROLLUP (shop, kind)
  HAVING sum(amount) > 20) s GROUP BY g ORDER BY g;
SELECT s.shop, s.n FROM (SELECT shop, count(*) AS n FROM (SELECT * FROM sale ORDER BY id LIMIT 20) x GROUP BY ROLLUP (shop)) s ORDER BY 1, 2;
SELECT count(*) FROM sale WHERE pieces IN (SELECT count(*) FROM sale GROUP BY ROLLUP (day, shop, kind));
WITH totals AS (SELECT shop, sum(pieces) AS p FROM sale GROUP BY ROLLUP (shop)) SELECT a.shop, b.p FROM totals a JOIN totals b ON a.p = b.p ORDER BY 1, 2;
SELECT shop, n FROM (SELECT shop, count(*) AS n, row_number() OVER (ORDER BY count(*), shop) AS r FROM sale GROUP BY ROLLUP (shop)) s WHERE r < 3 ORDER BY r;
SELECT shop FROM sale GROUP BY ROLLUP (shop) UNION ALL SELECT pieces FROM sale GROUP BY CUBE (pieces) ORDER BY 1;
SELECT id, (SELECT count(*) FROM no_sale GROUP BY GROUPING SETS ((), ())) FROM no_sale;

-- by expressions, in subqueries
SELECT sum(n), count(next) FROM (SELECT shop + 1 AS next, pieces % 2 AS odd, count(*) AS n FROM sale GROUP BY CUBE (shop + 1, pieces % 2)) s;
SELECT * FROM (SELECT date_trunc('month', day) AS month, kind, grouping(date_trunc('month', day), kind) AS g, sum(amount) AS total
  FROM sale GROUP BY ROLLUP (date_trunc('month', day), kind) OFFSET 0) s ORDER BY g, month, kind;
SELECT * FROM (SELECT shop > 0 AS known, (shop > 0) IS NULL AS no, count(*) AS n FROM sale GROUP BY GROUPING SETS ((shop > 0), (kind), ()) OFFSET 0) s
  ORDER BY known, no, n;
SELECT * FROM (SELECT shop * 2 + 1 AS x, shop, count(*) AS n FROM sale GROUP BY ROLLUP (shop, shop * 2) HAVING count(*) > 5 OFFSET 0) s ORDER BY 1, 2, 3;
SELECT * FROM (SELECT sum(pieces + 1) AS s, pieces + 1 AS p FROM sale GROUP BY ROLLUP (pieces + 1) OFFSET 0) s ORDER BY 2, 1;
-- expressions that PostgreSQL does not recognise once they are simplified
SELECT count(*) FROM (SELECT NOT (shop > 0) AS x FROM sale GROUP BY GROUPING SETS ((shop > 0), ())) s;

-- keys whose equal values look different
CREATE TABLE shades (id integer PRIMARY KEY, n numeric, v interval, g integer);
INSERT INTO shades SELECT i, (i % 4) * 1.50, (i % 3) * interval '1 day', i % 2 FROM generate_series(1, 30) i;
INSERT INTO shades VALUES (31, NULL, NULL, 1), (32, 'NaN', '-1 mon', NULL);
SELECT anker.mirror('shades');
SELECT anker.wait_for_mirror('shades');
SELECT n, v, count(*), grouping(n, v) FROM shades GROUP BY CUBE (n, v) ORDER BY 4, 1, 2;
SELECT g, n, sum(n), min(v) FROM shades GROUP BY ROLLUP (g, n) ORDER BY 1, 2, 3;
SELECT s.v, s.c, s.t FROM (SELECT v, count(*) AS c, sum(v) AS t FROM shades GROUP BY GROUPING SETS ((v), ())) s ORDER BY 1, 2;
SELECT n, count(*) FROM shades GROUP BY GROUPING SETS ((n), (g)) HAVING n > 1 OR n IS NULL ORDER BY 1, 2;
DROP TABLE shades;
