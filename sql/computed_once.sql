-- engine: at least 15
--
-- ROWS THAT ARE READ TWICE
--
-- Groups that a query refers to more than once, which the engine computes once: WITH, views, grouping sets above joins,
-- values of the outer rows that subqueries read; and NOT IN of lists that differ from row to row.
--

CREATE TABLE town (id integer PRIMARY KEY, region integer, name text COLLATE "C");
CREATE TABLE shop (id integer PRIMARY KEY, town integer, turnover numeric(8,2), since date);
INSERT INTO town SELECT i, nullif(i % 4, 3), 'town ' || i FROM generate_series(1, 12) i;
INSERT INTO shop SELECT i, nullif(i % 13, 12), nullif(i * 37 % 101, 50) * 1.25, date '2024-01-01' + i % 40 FROM generate_series(1, 200) i;
CREATE VIEW town_total AS SELECT town, sum(turnover) AS total, count(*) AS shops FROM shop GROUP BY town;
CREATE TABLE nobody (id integer PRIMARY KEY, town integer);
ANALYZE town, shop, nobody;
SELECT anker.mirror(t) FROM unnest('{town,shop,nobody}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{town,shop,nobody}'::regclass[]) t;

-- WITH and views
WITH w AS (SELECT town, sum(turnover) AS total FROM shop GROUP BY town)
  SELECT town, total FROM w WHERE total > (SELECT avg(total) FROM w) ORDER BY town;
WITH w AS (SELECT town, max(since) AS latest FROM shop GROUP BY town)
  SELECT a.town, b.town, a.latest FROM w a JOIN w b ON a.latest = b.latest AND a.town < b.town ORDER BY 1, 2;
WITH w AS MATERIALIZED (SELECT town, count(*) AS n FROM shop GROUP BY town)
  SELECT n, count(*) FROM (SELECT n FROM w UNION ALL SELECT n FROM w WHERE town > 3 UNION ALL SELECT n + 1 FROM w) s GROUP BY n ORDER BY n;
SELECT t.name, a.total, a.shops FROM town t JOIN town_total a ON a.town = t.id
  WHERE a.total = (SELECT max(b.total) FROM town_total b) ORDER BY 1;
SELECT x.town, y.shops FROM town_total x LEFT JOIN town_total y ON y.shops = x.town ORDER BY 1, 2;
SELECT count(*) FROM town_total a, town_total b, town_total c WHERE a.town = b.town AND b.town = c.town;
-- the same rows, in other columns
WITH w AS (SELECT town, row_number() OVER (ORDER BY sum(turnover) DESC NULLS LAST, town) AS place FROM shop GROUP BY town)
  SELECT a.town, a.place, b.town AS next FROM w a LEFT JOIN w b ON b.place = a.place + 1 WHERE a.place < 5 ORDER BY 2;
WITH w AS (SELECT id, town, turnover FROM shop WHERE turnover > 3 ORDER BY turnover DESC, id LIMIT 7)
  SELECT a.id, b.id FROM w a, w b WHERE a.town = b.town AND a.id < b.id ORDER BY 1, 2;
-- joins that both groups and a total over them read, in other columns
SELECT s.town, sum(s.turnover) FROM shop s, town t WHERE s.town = t.id AND t.region = 1 GROUP BY s.town
  HAVING sum(s.turnover) > (SELECT sum(x.turnover) * 0.3 FROM shop x, town y WHERE x.town = y.id AND y.region = 1) ORDER BY 1;
SELECT t.name, count(*), min(s.since) FROM shop s, town t WHERE s.town = t.id AND t.name < 'town 11' GROUP BY t.name
  HAVING min(s.id) < (SELECT avg(s.id) FROM shop s, town t WHERE s.town = t.id AND t.name < 'town 11')
     AND max(s.turnover) >= (SELECT min(s.turnover) FROM shop s, town t WHERE s.town = t.id AND t.name < 'town 11') ORDER BY 1;
SELECT 'by region' AS what, t.region, count(*), sum(s.turnover) FROM town t JOIN shop s ON s.town = t.id WHERE t.id IN (3, 5) GROUP BY t.region
  UNION ALL SELECT 'by day', NULL, count(DISTINCT s.since), NULL FROM town t JOIN shop s ON s.town = t.id WHERE t.id IN (3, 5)
  UNION ALL SELECT 'none', NULL, count(*), NULL FROM town t JOIN shop s ON s.town = t.id WHERE t.id IN (3, 6) ORDER BY 1, 2;
WITH w AS (SELECT s.id, s.since, t.region FROM shop s JOIN town t ON t.id = s.town WHERE t.id = 4)
  SELECT (SELECT count(*) FROM w), (SELECT max(since) FROM w), (SELECT sum(region) FROM w), (SELECT count(*) FROM w a JOIN w b USING (since));
SELECT count(*), (SELECT count(*) FROM nobody n JOIN town t ON t.id = n.town) FROM nobody n JOIN town t ON t.id = n.town;
SELECT sum(100 / t.region), (SELECT count(*) FROM shop s JOIN town t ON t.id = s.town WHERE 100 / nullif(t.region, 0) > 60)
  FROM shop s JOIN town t ON t.id = s.town WHERE 100 / nullif(t.region, 0) > 60;
SELECT sum(100 / t.region), (SELECT count(*) FROM shop s JOIN town t ON t.id = s.town WHERE 100 / t.region > 60)
  FROM shop s JOIN town t ON t.id = s.town WHERE 100 / t.region > 60;

-- joins that are read for several columns, and one of their tables beside them
SELECT (SELECT sum(a.total) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1),
       (SELECT sum(a.shops) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1),
       (SELECT max(b.total) FROM town_total b);
SELECT (SELECT max(b.total) FROM town_total b WHERE b.total > 0),
       (SELECT min(t.name) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1),
       (SELECT max(a.shops) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1),
       (SELECT max(b.town) FROM town_total b);
SELECT 'turnover' AS what, sum(a.total) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1
  UNION ALL SELECT 'shops', sum(a.shops) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1
  UNION ALL SELECT 'most', max(b.total) FROM town_total b
  UNION ALL SELECT 'towns', count(t.name) FROM town_total a JOIN town t ON t.id = a.town WHERE t.region = 1 ORDER BY 1;

-- nothing
WITH w AS (SELECT town, count(*) AS n FROM nobody GROUP BY town) SELECT * FROM w a FULL JOIN w b USING (town);
WITH w AS (SELECT count(*) AS n FROM nobody) SELECT * FROM w a, w b;

-- grouping sets above joins and groups
SELECT region, name, count(*), sum(turnover) FROM town JOIN shop ON town.id = shop.town GROUP BY ROLLUP (region, name) ORDER BY 1, 2, 3;
SELECT region, shops, grouping(region, shops), sum(total) FROM town JOIN town_total ON town.id = town GROUP BY CUBE (region, shops) ORDER BY 3, 1, 2;
SELECT region, count(*) FROM town JOIN nobody ON town.id = nobody.town GROUP BY ROLLUP (region) ORDER BY 1;

-- NOT IN of a list that differs from row to row, of nulls and of nothing
SELECT t.id FROM town t WHERE t.region NOT IN (SELECT s.town FROM shop s WHERE s.id < t.id) ORDER BY 1;
SELECT t.id, t.region NOT IN (SELECT s.town FROM shop s WHERE s.id % 12 = t.id) AS is_none FROM town t ORDER BY 1;
SELECT t.id, t.region IN (SELECT s.town FROM shop s WHERE s.id < t.id - 6) AS is_one FROM town t ORDER BY 1;
SELECT t.id FROM town t WHERE t.region NOT IN (SELECT n.town FROM nobody n WHERE n.id = t.id) ORDER BY 1;
SELECT t.id FROM town t WHERE (t.region NOT IN (SELECT s.town FROM shop s WHERE s.town = t.id)) IS NULL ORDER BY 1;
SELECT t.id FROM town t WHERE t.id NOT IN (SELECT s.town FROM shop s WHERE s.turnover > 20 AND s.since = (SELECT max(x.since) FROM shop x WHERE x.town = t.id)) ORDER BY 1;
SELECT count(*) FROM shop s WHERE s.turnover NOT IN (SELECT x.turnover FROM shop x WHERE x.town = s.town AND x.id <> s.id);
SELECT count(*) FROM shop s WHERE s.id = 7 OR s.turnover NOT IN (SELECT x.turnover FROM shop x WHERE x.town = s.town AND x.id <> s.id);
