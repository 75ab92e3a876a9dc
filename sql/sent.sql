-- engine: at least 46
--
-- ROWS THAT POSTGRESQL SENDS ALONG
--
-- Beside mirrored tables: tables that are not mirrored, functions, recursive
-- queries, and subqueries that the engine cannot compute.
--

CREATE TABLE sale (
    id     integer PRIMARY KEY,
    shop   integer,
    day    date NOT NULL,
    amount numeric(10,2),
    note   text
);
INSERT INTO sale
    SELECT i, i % 7, date '2024-01-01' + i % 31, i * 1.25, CASE WHEN i % 5 > 0 THEN 'note ' || i % 9 END
    FROM generate_series(1, 500) i;
SELECT anker.mirror('sale');
SELECT anker.wait_for_mirror('sale');

-- a table that is not mirrored
CREATE TABLE shop (
    id      integer PRIMARY KEY,
    name    varchar(20),
    short   char(4),
    share   numeric,
    tax     numeric(4,2),
    weight  double precision,
    opened  timestamp,
    seen    timestamptz,
    large   bigint,
    small   smallint,
    closed  boolean,
    tags    text[]
);
INSERT INTO shop VALUES
    (0, 'north', 'n',  1.50,  0.19, 'NaN',  '2020-01-01 10:00', '2020-01-01 10:00+00', 1, 1, false, '{a,b}'),
    (1, 'süd',   'sü', 2,     0.07, -0.0,   'infinity', '-infinity', -9223372036854775808, -32768, true, '{}'),
    (2, '',      '',   0.001, 0.00, 1e300,  NULL, NULL, NULL, NULL, NULL, NULL),
    (3, NULL,    NULL, NULL,  NULL, NULL,   '2021-05-05', '2021-05-05+02', 3, 3, false, NULL),
    (9, 'alone', 'a',  9.900, 9.99, 9,      '2021-05-05', '2021-05-05+02', 9, 9, true, '{z}');
SELECT s.name, count(*), sum(amount) FROM sale JOIN shop s ON s.id = shop GROUP BY s.name ORDER BY 1, 2;
SELECT s.id, s.name, s.short, s.short || '|' AS bar, s.share, s.tax, s.weight, s.opened, s.large, s.small, s.closed
  FROM shop s JOIN sale ON sale.id = s.id + 1 ORDER BY 1;
SELECT s.short, count(*) FROM shop s LEFT JOIN sale ON shop = s.id AND amount > 300 GROUP BY s.short ORDER BY 1, 2;
SELECT share, count(*) FROM sale JOIN shop s ON s.id = shop WHERE s.name IS NOT NULL GROUP BY share, s.id ORDER BY s.id;
SELECT sum(s.share), sum(s.tax), max(s.large) FROM sale JOIN shop s ON s.id = shop WHERE day < '2024-01-05';
SELECT count(*) FROM sale FULL JOIN shop s ON s.id = shop;
SELECT s.name FROM shop s WHERE EXISTS (SELECT FROM sale WHERE shop = s.id AND amount > 600) ORDER BY 1;
SELECT s.name FROM shop s WHERE id NOT IN (SELECT shop FROM sale) ORDER BY 1;
SELECT count(*) FROM sale WHERE shop IN (SELECT id FROM shop WHERE closed);
SELECT count(*) FROM sale WHERE shop NOT IN (SELECT id FROM shop WHERE NOT closed);
SELECT count(*), (SELECT max(name) FROM shop WHERE id < 1) FROM sale;
SELECT s.id, (SELECT sum(amount) FROM sale WHERE shop = s.id AND day > s.opened) FROM shop s ORDER BY 1;
SELECT a.name, b.name, count(*) FROM shop a JOIN sale ON shop = a.id JOIN shop b ON b.id = sale.id % 4
  GROUP BY 1, 2 ORDER BY 1, 2, 3;

-- conditions on it alone, some of which the engine does not know
SELECT count(*) FROM sale JOIN shop s ON s.id = shop WHERE s.tags @> '{a}';
SELECT count(*) FROM sale, shop s WHERE s.id = shop AND s.name ~ '^[a-n]' AND s.weight > 1;
SELECT count(*) FROM sale LEFT JOIN shop s ON s.id = shop WHERE s.name ~ '^[a-n]';
SELECT count(*) FROM sale LEFT JOIN shop s ON s.id = shop AND s.tags IS NOT NULL WHERE s.id IS NULL;

-- the same table several times, each with conditions of its own
SELECT count(*) FROM sale WHERE shop IN (
    SELECT id FROM shop WHERE id < 5 EXCEPT SELECT id FROM shop WHERE id > 1);
SELECT (SELECT count(*) FROM shop WHERE id > 2), (SELECT max(id) FROM shop WHERE id < 2), count(*) FROM sale
  WHERE shop NOT IN (SELECT id FROM shop WHERE id = 1) IS NOT FALSE;

-- none of its rows, none of its columns
SELECT count(*) FROM sale, shop s WHERE s.id < 0;
SELECT count(*) FROM sale, shop;
CREATE TABLE nobody (id integer);
SELECT count(*), count(n.id) FROM sale LEFT JOIN nobody n ON n.id = shop;

-- functions
SELECT g, count(id), sum(amount) FROM generate_series(-1, 3) g LEFT JOIN sale ON shop = g GROUP BY g ORDER BY g;
SELECT d::date, count(s.id) FROM generate_series(timestamp '2024-01-01', '2024-01-10', '3 days') d
  LEFT JOIN sale s ON s.day = d::date GROUP BY d ORDER BY d;
SELECT u.x, u.n, count(*) FROM sale JOIN unnest(ARRAY[3, 1, NULL]) WITH ORDINALITY u(x, n) ON u.x = shop
  GROUP BY 1, 2 ORDER BY 2;
SELECT k.kind, count(*) FROM sale JOIN (VALUES (0, 'zero'), (1, 'one')) k(shop, kind) USING (shop) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM sale JOIN json_to_recordset('[{"a":1,"b":"x"},{"a":2,"b":"y"}]') AS j(a int, b text) ON a = shop;
SELECT count(*) FROM sale JOIN string_to_table('1,2,x', ',') t(v) ON v = shop::text;

-- functions that read other rows, or are called anew for each
SELECT count(*) FROM sale, generate_series(1, shop) g;
SELECT count(*) FROM sale, LATERAL (SELECT FROM shop TABLESAMPLE bernoulli (sale.id % 2 * 100)) s;
SELECT id, (SELECT count(*) FROM shop TABLESAMPLE bernoulli (sale.id % 2 * 100)) FROM sale WHERE id < 4 ORDER BY id;
SELECT count(*) >= 0 FROM sale JOIN generate_series(1, (random() * 5)::int) g ON g = shop;

-- WITH RECURSIVE
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 2 FROM n WHERE i < 6)
  SELECT i, count(*) FROM n JOIN sale ON shop = i GROUP BY i ORDER BY i;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 2 FROM n WHERE i < 6)
  SELECT count(*) FROM n a JOIN n b ON a.i < b.i JOIN sale ON shop = b.i;
SELECT shop, count(*) FROM sale WHERE shop IN (
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 2 FROM n WHERE i < 6) SELECT i FROM n)
  GROUP BY shop ORDER BY shop;
WITH few AS (SELECT id FROM shop WHERE id < 2),
     RECURSIVE_not AS (SELECT string_agg(id::text, ',' ORDER BY id) AS ids FROM few)
  SELECT count(*), ids FROM sale, RECURSIVE_not GROUP BY ids;

-- a WITH query that both sides would compute
WITH few AS (SELECT id, shop FROM sale ORDER BY shop LIMIT 3)
  SELECT count(*), cardinality(ids) FROM few, (SELECT array_agg(id) AS ids FROM few) a WHERE few.id = ANY (ids) GROUP BY ids;

-- subqueries with expressions that the engine does not have
SELECT count(*) FROM sale JOIN (SELECT shop, array_agg(id) AS ids FROM sale GROUP BY shop) a USING (shop)
  WHERE sale.id < 10;
SELECT s.shop, top.note FROM (SELECT DISTINCT shop FROM sale) s
  JOIN (SELECT shop, string_agg(note, '+' ORDER BY note) AS note FROM sale WHERE id < 20 GROUP BY shop) top
    USING (shop) ORDER BY 1;
SELECT count(*) FROM sale WHERE shop = (SELECT (array_agg(id ORDER BY id))[2] FROM shop);
SELECT count(*) FROM sale WHERE amount > (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM sale);

-- tables that this transaction has written to
BEGIN;
INSERT INTO sale VALUES (1000, 0, '2024-02-01', 5, 'mine');
SELECT count(*), max(day) FROM sale;
UPDATE shop SET name = 'mine' WHERE id = 0;
SELECT s.name, count(*) FROM sale JOIN shop s ON s.id = shop GROUP BY 1 ORDER BY 1;
ROLLBACK;
CREATE TABLE other (id integer PRIMARY KEY, x integer);
SELECT anker.mirror('other');
SELECT anker.wait_for_mirror('other');
BEGIN;
INSERT INTO other VALUES (1, 1), (2, NULL);
SELECT count(*), sum(x) FROM other JOIN sale USING (id);
ROLLBACK;
SELECT count(*), sum(x) FROM other JOIN sale USING (id);

-- parameters, cursors, PL/pgSQL
PREPARE of_shop(text, int) AS SELECT count(*) FROM sale JOIN shop s ON s.id = shop
  JOIN generate_series(0, $2) g ON g = shop WHERE s.name = $1;
EXECUTE of_shop('north', 3);
EXECUTE of_shop('süd', 0);
EXECUTE of_shop('süd', NULL);
DEALLOCATE of_shop;
BEGIN;
DECLARE c CURSOR FOR SELECT s.id, count(sale.id) FROM shop s LEFT JOIN sale ON shop = s.id GROUP BY 1 ORDER BY 1;
FETCH 2 FROM c;
FETCH ALL FROM c;
COMMIT;
CREATE FUNCTION named(which int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM sale JOIN shop s ON s.id = shop WHERE s.id = which);
END $$;
SELECT named(i) FROM generate_series(0, 3) i;

-- values that cannot be sent, and errors in computed rows
CREATE TABLE odd (id integer, value numeric);
INSERT INTO odd VALUES (1, 'NaN'), (2, 1e60), (3, 0.00000000000000000000000001);
SELECT count(*), sum(value) FROM odd JOIN sale USING (id) WHERE odd.id > 1;
SELECT id, value FROM odd JOIN sale USING (id) ORDER BY id;
SELECT count(*) FROM sale JOIN (SELECT 1 / (id - 1) AS x FROM shop) s ON x = shop;
SELECT count(*) FROM sale JOIN generate_series(1, 3, 0) g ON g = shop;

-- rights
CREATE ROLE regress_reader;
GRANT SELECT ON sale TO regress_reader;
SET ROLE regress_reader;
SELECT count(*) FROM sale JOIN shop s ON s.id = shop;
RESET ROLE;
GRANT SELECT (id) ON shop TO regress_reader;
SET ROLE regress_reader;
SELECT count(*) FROM sale JOIN shop s ON s.id = shop;
SELECT max(name) FROM sale JOIN shop s ON s.id = shop;
RESET ROLE;

-- row security
CREATE TABLE secret (id integer, owner text DEFAULT current_user);
INSERT INTO secret VALUES (1), (2);
INSERT INTO secret VALUES (3, 'regress_reader');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
GRANT SELECT ON secret TO regress_reader;
PREPARE secrets AS SELECT count(*) FROM sale JOIN secret USING (id);
EXECUTE secrets;
SET ROLE regress_reader;
SELECT count(*) FROM sale JOIN secret USING (id);
EXECUTE secrets;
RESET ROLE;
EXECUTE secrets;
DEALLOCATE secrets;
CREATE VIEW barrier WITH (security_barrier) AS SELECT id, name FROM shop WHERE id < 2;
SELECT count(*) FROM sale JOIN barrier b ON b.id = shop WHERE b.name <> 'x';

-- functions with effects are called as often as without the engine
CREATE TABLE audit (n integer);
CREATE FUNCTION audited(i integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO audit VALUES (i);
    RETURN i;
END $$;
WITH x AS MATERIALIZED (SELECT audited(1) AS n) SELECT sale.id, x.n FROM sale LEFT JOIN x ON true WHERE sale.id < 0;
SELECT count(*) FROM audit;
WITH x AS MATERIALIZED (SELECT id FROM shop TABLESAMPLE bernoulli (50))
  SELECT count(*) FROM x JOIN sale USING (id) WHERE id NOT IN (SELECT id FROM x);

-- no DDL while a cursor reads
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM sale JOIN shop s ON s.id = shop;
TRUNCATE shop;
ROLLBACK;

-- catalogs
SELECT c.relname, count(*) FROM pg_class c JOIN sale ON c.relname = 'sale' GROUP BY 1;

DROP OWNED BY regress_reader;
DROP VIEW barrier;
DROP TABLE secret, shop;
DROP ROLE regress_reader;

-- values that the engine only keeps, in rows that are sent along
CREATE TABLE kept (id integer PRIMARY KEY, doc jsonb, tags text[], span int4range, v interval);
INSERT INTO kept VALUES (0, '{"a": [1, 2.50]}', '{x,NULL}', '[1,5)', '1 mon'), (1, NULL, '{}', 'empty', '30 days'),
    (2, to_jsonb(repeat('x', 5000)), NULL, NULL, NULL);
SELECT k.id, left(k.doc::text, 30) AS doc, k.tags, k.span, count(*) FROM kept k JOIN sale ON shop = k.id GROUP BY k.id ORDER BY 1;
SELECT * FROM (SELECT k.id, length(k.doc::text) AS long, k.tags[1] AS tag, k.v, s.id AS sale FROM kept k LEFT JOIN sale s ON s.id = k.id) x ORDER BY id;
SELECT s.id, coalesce(k.doc, '{}') -> 'a' AS a FROM sale s LEFT JOIN kept k ON k.id = s.id WHERE s.id < 4 ORDER BY 1;
SELECT count(*) FROM sale s JOIN kept k ON k.id = s.id % 3 WHERE k.doc IS NULL OR k.v = '30 days';
SELECT count(DISTINCT k.doc) FROM sale s JOIN kept k ON k.id = s.id % 3;

-- a recursive query that is read twice
CREATE TABLE parts (id integer PRIMARY KEY, parent integer, n integer);
INSERT INTO parts SELECT i, nullif(i / 3, 0), i * 7 % 5 FROM generate_series(1, 40) i;
SELECT anker.mirror('parts');
SELECT anker.wait_for_mirror('parts');
WITH RECURSIVE tree AS (
    SELECT id, parent, 1 AS depth FROM parts WHERE parent IS NULL
    UNION ALL SELECT p.id, p.parent, depth + 1 FROM parts p JOIN tree t ON p.parent = t.id)
SELECT a.depth, count(*), sum(p.n), max(b.depth) FROM tree a JOIN tree b ON b.parent = a.id JOIN parts p ON p.id = a.id
    GROUP BY 1 ORDER BY 1;
WITH RECURSIVE t(n) AS (SELECT 1 UNION SELECT n + 1 FROM t WHERE n < 6)
SELECT p.n, count(*) FROM parts p WHERE p.n IN (SELECT n FROM t) AND p.n NOT IN (SELECT n - 1 FROM t WHERE n > 3) GROUP BY 1 ORDER BY 1;
DROP TABLE parts;
