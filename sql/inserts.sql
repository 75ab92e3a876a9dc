-- engine: at least 18
--
-- INSERT ... SELECT
--
-- The rows come from the engine; defaults, constraints, triggers, views and partitions stay PostgreSQL's.
--

CREATE TABLE town (id integer PRIMARY KEY, region integer, name text COLLATE "C");
CREATE TABLE shop (id integer PRIMARY KEY, town integer, turnover numeric(8,2), since date, notes jsonb);
INSERT INTO town SELECT i, nullif(i % 4, 3), 'town ' || i FROM generate_series(1, 12) i;
INSERT INTO shop SELECT i, nullif(i % 13, 12), nullif(i * 37 % 101, 50) * 1.25, date '2024-01-01' + i % 40,
    jsonb_build_object('n', i % 3) FROM generate_series(1, 200) i;
ANALYZE town, shop;
SELECT anker.mirror(t) FROM unnest('{town,shop}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{town,shop}'::regclass[]) t;

CREATE TABLE report (gone text, region integer, shops bigint NOT NULL DEFAULT -1, total numeric(10,1), made text DEFAULT 'by hand');
ALTER TABLE report DROP COLUMN gone;

-- all columns, some, in another order, with casts
INSERT INTO report SELECT region, count(*), sum(turnover), 'grouped' FROM town JOIN shop ON town.id = shop.town GROUP BY region;
INSERT INTO report (total, region) SELECT avg(turnover), town FROM shop GROUP BY town;
INSERT INTO report (made) SELECT name FROM town WHERE id > 10 RETURNING region, shops, total, made;
INSERT INTO report (made, region) SELECT since, id::text::integer FROM shop WHERE id < 4;
SELECT * FROM report ORDER BY made, region, total;

-- WITH above it, UNION, subqueries, VALUES beside
TRUNCATE report;
WITH best AS (SELECT town, max(turnover) AS most FROM shop GROUP BY town)
  INSERT INTO report (region, total) SELECT town, most FROM best WHERE most > 120;
INSERT INTO report (region) SELECT id FROM town WHERE id < 3 UNION ALL SELECT town FROM shop WHERE id = 7;
INSERT INTO report (region, made) SELECT id, (SELECT min(name) FROM town t WHERE t.region = s.town) FROM shop s WHERE id <= 3;
INSERT INTO report (region, shops) VALUES (1, (SELECT count(*) FROM shop)), (2, (SELECT max(id) FROM town));
INSERT INTO report (region, made) SELECT t.id, v.x FROM town t, (VALUES ('a'), ('b')) v(x) WHERE t.id = 5;
SELECT * FROM report ORDER BY region, shops, total, made;

-- numbers in the order of the rows
CREATE TABLE ranked (place serial, shop integer, turnover numeric, notes jsonb);
INSERT INTO ranked (shop, turnover, notes) SELECT id, turnover, notes FROM shop ORDER BY turnover DESC NULLS LAST, id LIMIT 5;
SELECT * FROM ranked ORDER BY place;
CREATE TABLE listed (place integer, shop integer);
INSERT INTO listed SELECT row_number() OVER (ORDER BY turnover, id), id FROM shop;
SELECT count(*), sum(place * shop) FROM listed;

-- constraints
ALTER TABLE ranked ADD CONSTRAINT positive CHECK (turnover >= 0), ADD UNIQUE (shop);
INSERT INTO ranked (shop, turnover) SELECT id, turnover - 100 FROM shop WHERE id <> 37;
INSERT INTO ranked (shop, turnover) SELECT town, turnover FROM shop WHERE turnover > 50;
INSERT INTO report (shops) SELECT nullif(id, 150) FROM shop;
INSERT INTO report (total) SELECT 1e9 * id FROM shop;
INSERT INTO report (total) SELECT 1 / (id - 100) FROM shop;
INSERT INTO ranked (shop, turnover) SELECT town, max(turnover) FROM shop GROUP BY town
  ON CONFLICT (shop) DO UPDATE SET turnover = ranked.turnover + excluded.turnover, notes = NULL;
SELECT shop, turnover, notes FROM ranked ORDER BY shop NULLS FIRST;

-- views with conditions, partitions, generated columns, domains
CREATE VIEW cheap AS SELECT shop, turnover FROM ranked WHERE turnover < 10 WITH CHECK OPTION;
INSERT INTO cheap SELECT id + 1000, turnover FROM shop WHERE turnover < 6;
INSERT INTO cheap SELECT id + 2000, turnover FROM shop WHERE turnover < 20;
SELECT count(*), min(shop), max(turnover) FROM cheap;
CREATE DOMAIN percent AS integer CHECK (value BETWEEN 0 AND 100);
CREATE TABLE parted (town integer, share percent, doubled integer GENERATED ALWAYS AS (share * 2) STORED) PARTITION BY RANGE (town);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (6);
CREATE TABLE parted_rest PARTITION OF parted DEFAULT;
INSERT INTO parted (town, share) SELECT town, count(*) * 5 FROM shop GROUP BY town;
INSERT INTO parted (town, share) SELECT town, count(*) * 50 FROM shop GROUP BY town;
INSERT INTO parted (town) SELECT id FROM town WHERE id > 11;
SELECT tableoid::regclass, * FROM parted ORDER BY town, share;

-- a rule that inserts the rows a second time
CREATE TABLE noted (town integer);
CREATE RULE note AS ON INSERT TO parted DO ALSO INSERT INTO noted VALUES (new.town);
INSERT INTO parted (town, share) SELECT town, min(id) FROM shop WHERE town < 4 GROUP BY town;
SELECT * FROM noted ORDER BY town;

-- from the same table, and from rows that the transaction has written
BEGIN;
INSERT INTO town SELECT id + 100, region, name FROM town WHERE id < 3;
INSERT INTO noted SELECT id FROM town WHERE id > 100;
SELECT * FROM noted WHERE town > 100 ORDER BY town;
ROLLBACK;

-- a length that only the planner finds, since it removes all branches but one
CREATE TABLE kept AS SELECT DISTINCT CASE WHEN NULL::boolean THEN name ELSE name::varchar(3) END AS short FROM town;
SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attname = 'short';
