-- engine: at least 32
--
-- FUNCTIONS IN FROM WHOSE BODY IS A QUERY
--
-- PostgreSQL replaces a STABLE function in SQL by its body, and so does the engine. Functions of other kinds
-- (VOLATILE, STRICT, SECURITY DEFINER, PL/pgSQL) are still called.
--

CREATE TABLE sale (id integer PRIMARY KEY, shop integer, gone text, day date, amount numeric(10,2), note text);
INSERT INTO sale SELECT i, nullif(i % 7, 3), 'x', date '2024-01-01' + i % 50, i * 1.25, CASE WHEN i % 5 <> 0 THEN 'note ' || i % 11 END
  FROM generate_series(1, 500) i;
ALTER TABLE sale DROP COLUMN gone;
CREATE TABLE shop (id integer PRIMARY KEY, name text);
INSERT INTO shop SELECT i, 'shop ' || i FROM generate_series(0, 8) i;
SELECT anker.mirror(t) FROM unnest('{sale,shop}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{sale,shop}'::regclass[]) t;

CREATE FUNCTION sales_of(of_shop integer, since date DEFAULT '2024-01-10') RETURNS TABLE (day date, n bigint, total numeric)
  LANGUAGE sql STABLE AS
  'SELECT day, count(*), sum(amount) FROM sale WHERE shop = of_shop AND day >= since GROUP BY day';
CREATE FUNCTION sales_of_shop(integer) RETURNS SETOF sale LANGUAGE sql STABLE AS 'SELECT * FROM sale WHERE shop = $1';
CREATE FUNCTION shops() RETURNS SETOF integer LANGUAGE sql STABLE
  BEGIN ATOMIC SELECT DISTINCT shop FROM sale; END;
CREATE FUNCTION best(n bigint) RETURNS TABLE (shop integer, name text, total numeric) LANGUAGE sql STABLE AS
  'SELECT s.id, s.name, t.total FROM shop s CROSS JOIN LATERAL (SELECT sum(o.total) AS total FROM sales_of(s.id) o) t ORDER BY total DESC NULLS LAST, 1 LIMIT n';
CREATE FUNCTION noted(pattern text) RETURNS TABLE (id integer, note text) LANGUAGE sql STABLE AS
  'SELECT id, upper(note) FROM sale WHERE note LIKE pattern UNION ALL SELECT id, name FROM shop WHERE name LIKE pattern';
CREATE FUNCTION changing(integer) RETURNS SETOF sale LANGUAGE sql VOLATILE AS 'SELECT * FROM sale WHERE shop = $1';
CREATE FUNCTION strict(integer) RETURNS SETOF sale LANGUAGE sql STABLE STRICT AS 'SELECT * FROM sale WHERE shop IS NOT DISTINCT FROM $1';
CREATE FUNCTION definers(integer) RETURNS SETOF sale LANGUAGE sql STABLE SECURITY DEFINER AS 'SELECT * FROM sale WHERE shop = $1';
CREATE FUNCTION procedural(integer) RETURNS SETOF sale LANGUAGE plpgsql STABLE AS
  $$ BEGIN RETURN QUERY SELECT * FROM sale WHERE shop = $1; END $$;
CREATE FUNCTION fraction(integer) RETURNS TABLE (id integer, part integer) LANGUAGE sql STABLE AS
  'SELECT id, 100 / (id - $1) FROM sale WHERE id < 10';

-- alone
SELECT * FROM sales_of(2) ORDER BY day LIMIT 5;
SELECT count(*), sum(n), sum(total) FROM sales_of(of_shop => 4, since => '2024-02-01');
SELECT count(*), min(day), max(n) FROM sales_of(NULL);
SELECT count(*), sum(amount), count(note) FROM sales_of_shop(1);
SELECT id, note FROM sales_of_shop(1) WHERE id < 30 ORDER BY id;
SELECT * FROM shops() ORDER BY 1;
SELECT s FROM shops() s WHERE s > 2 ORDER BY s;
SELECT * FROM best(3);
SELECT name FROM best(NULL) WHERE total > 10000 ORDER BY name;
SELECT note, count(*) FROM noted('%1') GROUP BY note ORDER BY note COLLATE "C";
SELECT * FROM fraction(500) ORDER BY id;
SELECT * FROM fraction(5) ORDER BY id;
SELECT part FROM fraction(5) WHERE id <> 5 ORDER BY id;

-- beside others
SELECT s.name, o.day, o.total FROM shop s JOIN sales_of(5) o ON o.n = s.id ORDER BY 1, 2 LIMIT 5;
SELECT s.name, count(o.day), sum(o.total) FROM shop s LEFT JOIN LATERAL sales_of(s.id) o ON true GROUP BY s.name ORDER BY s.name COLLATE "C";
SELECT s.id, o.* FROM shop s, LATERAL sales_of(s.id, date '2024-02-18') o ORDER BY 1, 2;
SELECT count(*) FROM sales_of(1) a FULL JOIN sales_of(2) b USING (day);
SELECT id FROM shop s WHERE EXISTS (SELECT FROM sales_of(s.id) o WHERE o.total > 100) ORDER BY id;
SELECT id FROM shop WHERE id NOT IN (SELECT s FROM shops() s WHERE s IS NOT NULL) ORDER BY id;
SELECT id, (SELECT max(total) FROM sales_of(s.id)) AS most FROM shop s ORDER BY id;
WITH o AS (SELECT * FROM sales_of(6)) SELECT count(*), sum(total) FROM o WHERE n > (SELECT avg(n) FROM o);
SELECT day, n FROM sales_of(0) UNION SELECT day, n FROM sales_of(1) ORDER BY 1, 2 LIMIT 4;

-- with parameters
PREPARE of_shop(integer, date) AS SELECT count(*), sum(total) FROM sales_of($1, $2);
EXECUTE of_shop(1, '2024-01-20');
EXECUTE of_shop(NULL, '2024-01-20');
SET plan_cache_mode = force_generic_plan;
EXECUTE of_shop(2, '2024-01-20');
RESET plan_cache_mode;
CREATE OR REPLACE FUNCTION sales_of(of_shop integer, since date DEFAULT '2024-01-10') RETURNS TABLE (day date, n bigint, total numeric)
  LANGUAGE sql STABLE AS 'SELECT day, count(*), sum(amount) FROM sale WHERE shop >= of_shop AND day >= since GROUP BY day';
EXECUTE of_shop(2, '2024-01-20');
CREATE TABLE kept AS SELECT * FROM sales_of(3);
SELECT count(*), sum(total) FROM kept;

-- functions that PostgreSQL calls
SELECT count(*), sum(amount) FROM changing(2);
SELECT count(*), sum(amount) FROM strict(2);
SELECT count(*), sum(amount) FROM strict(NULL);
SELECT count(*), sum(amount) FROM definers(2);
SELECT count(*), sum(amount) FROM procedural(2);
SELECT count(*), sum(n) FROM sales_of(2) WITH ORDINALITY;
SELECT count(*), max(s.name) FROM shop s JOIN changing(2) c ON c.id = s.id;

-- texts in another order than the function's
CREATE TABLE word (id integer PRIMARY KEY, word text COLLATE "C");
INSERT INTO word VALUES (1, 'a'), (2, 'B'), (3, 'B');
SELECT anker.mirror('word');
SELECT anker.wait_for_mirror('word');
CREATE FUNCTION words() RETURNS TABLE (word text, n bigint) LANGUAGE sql STABLE AS 'SELECT word, count(*) FROM word GROUP BY word';
CREATE FUNCTION words_from(integer) RETURNS TABLE (word text) LANGUAGE sql STABLE AS 'SELECT word FROM word WHERE id >= $1';
CREATE FUNCTION whole_words() RETURNS SETOF word LANGUAGE sql STABLE AS 'SELECT * FROM word';
SELECT n FROM words() ORDER BY word;
SELECT sum(n) FROM (SELECT n FROM words() ORDER BY word LIMIT 1) s;
SELECT w.id FROM word w CROSS JOIN LATERAL words_from(w.id) o ORDER BY o.word, 1;
SELECT id FROM whole_words() ORDER BY word, id;
SELECT max(word), min(word) FROM whole_words();

-- an error in a function that is never called
WITH unused AS (SELECT * FROM sales_of(1 / 0)) SELECT count(*) FROM shop;
SELECT CASE WHEN false THEN (SELECT max(n) FROM sales_of(1 / 0)) END, count(*) FROM sales_of(1);
SELECT count(*) FROM sales_of(1 / 0);

-- rights
CREATE ROLE reader;
GRANT SELECT (id, shop) ON sale TO reader;
SET ROLE reader;
SELECT count(*) FROM sales_of(2);
SELECT count(*) FROM shops();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION shops() FROM PUBLIC;
SET ROLE reader;
SELECT count(*) FROM shops();
RESET ROLE;
ALTER TABLE sale ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_few ON sale FOR SELECT TO reader USING (shop < 2);
GRANT SELECT ON sale TO reader;
SET ROLE reader;
SELECT count(*), sum(total) FROM sales_of(0);
RESET ROLE;
SELECT count(*), sum(total) FROM sales_of(0);

-- functions that were dropped
ALTER TABLE sale RENAME COLUMN amount TO price;
SELECT count(*) FROM sales_of(2);
DROP OWNED BY reader;
DROP ROLE reader;
