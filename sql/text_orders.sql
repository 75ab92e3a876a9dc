-- engine: at least 29
--
-- TEXT ORDERS
--
-- Rows in the order of text as the database has it, whose locale is one of the C library's.
--

CREATE TABLE entry (id integer PRIMARY KEY, word text, code char(5), short varchar(8), kind integer, bytes text COLLATE "C",
  loose text COLLATE "en-x-icu");
INSERT INTO entry
  SELECT i, (ARRAY['a', 'B', '', 'ä', 'ab', NULL, 'b', 'a b', '中', '😀'])[i * 3 % 10 + 1],
    (ARRAY['x', 'y ', NULL, 'xy', 'Z'])[i % 5 + 1], (ARRAY['9', '10', 'é', NULL, 'e'])[i * 7 % 5 + 1], nullif(i % 4, 3),
    (ARRAY['a', 'B', NULL])[i % 3 + 1], (ARRAY['a', 'B', 'A'])[i % 3 + 1]
  FROM generate_series(1, 40) i;
ANALYZE entry;
SELECT anker.mirror('entry');
SELECT anker.wait_for_mirror('entry');

-- the first rows of the query itself
SELECT id, word FROM entry ORDER BY word, id LIMIT 12;
SELECT id, word FROM entry ORDER BY word DESC, id LIMIT 12;
SELECT id, word FROM entry ORDER BY word NULLS FIRST, id DESC LIMIT 7 OFFSET 2;
SELECT id, word FROM entry ORDER BY word DESC NULLS LAST, id LIMIT 7;
SELECT id, code FROM entry ORDER BY code, id LIMIT 12 OFFSET 5;
SELECT id, short, kind, word FROM entry ORDER BY kind DESC, short, bytes DESC, word NULLS FIRST, id LIMIT 15;
SELECT word FROM entry ORDER BY word DESC NULLS LAST FETCH FIRST 3 ROWS WITH TIES;
SELECT id FROM entry ORDER BY word || short, id LIMIT 5;
SELECT kind, max(word) FROM entry GROUP BY kind ORDER BY max(word), kind LIMIT 2;
SELECT DISTINCT word FROM entry ORDER BY word LIMIT 4;
SELECT id FROM entry ORDER BY short COLLATE "C", word, id LIMIT 5;
SELECT id FROM entry ORDER BY loose, id LIMIT 5;

-- in subqueries
SELECT count(*), sum(id), max(w) FROM (SELECT id, word AS w FROM entry ORDER BY word DESC NULLS LAST, id LIMIT 9) s;
SELECT count(*), sum(id) FROM (SELECT id FROM entry ORDER BY word FETCH FIRST 5 ROWS WITH TIES) s;
SELECT count(*), sum(id) FROM (SELECT id FROM entry ORDER BY code DESC, word, id LIMIT 11 OFFSET 3) s;
SELECT DISTINCT ON (kind) kind, word, id FROM entry ORDER BY kind, word DESC NULLS LAST, id LIMIT 4;
SELECT * FROM (SELECT DISTINCT ON (word) word, id FROM entry ORDER BY word, short DESC, id) s ORDER BY id;
SELECT kind, (SELECT e.id FROM entry e WHERE e.kind = k.kind ORDER BY e.word DESC NULLS LAST, e.id LIMIT 1) FROM entry k
  WHERE k.id < 5 ORDER BY k.id;
SELECT id FROM entry WHERE id IN (SELECT id FROM entry ORDER BY short, id LIMIT 4) ORDER BY id;
SELECT count(*) FROM (SELECT id FROM entry ORDER BY loose, id LIMIT 5) s;

-- window functions
SELECT * FROM (SELECT id, rank() OVER w, dense_rank() OVER w AS d, count(*) OVER w AS n FROM entry
  WINDOW w AS (ORDER BY word)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY kind ORDER BY word DESC NULLS LAST, short, id) AS n FROM entry) s
  ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(id) OVER w AS s, first_value(word) OVER w AS f FROM entry
  WINDOW w AS (PARTITION BY word ORDER BY short, id)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, min(word) OVER w AS lo, max(code) OVER w AS hi FROM entry
  WINDOW w AS (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(id) OVER (ORDER BY code DESC GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM entry) s
  ORDER BY id LIMIT 6;
SELECT count(*), max(r) FROM (SELECT rank() OVER (ORDER BY loose) AS r FROM entry) s;

-- greatest and least
SELECT id, greatest(word, short), least(word, short, 'b'), greatest(word, NULL, 'a b') FROM entry ORDER BY id LIMIT 10;
SELECT id, greatest(code, 'x'::char(5)), least(code, code) FROM entry ORDER BY id LIMIT 5;
SELECT count(*) FROM entry WHERE greatest(word, short) > 'b' AND least(word, short) IS NOT NULL;
SELECT max(greatest(word, short)), min(least(word, short)) FROM entry;
SELECT id, greatest(bytes, 'a'), greatest(loose, 'b') FROM entry ORDER BY id LIMIT 3;

-- a collation under which different texts are equal
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT id FROM entry ORDER BY word COLLATE any_case, id LIMIT 5;
SELECT max(greatest(word COLLATE any_case, 'AB')) FROM entry WHERE id < 9;
