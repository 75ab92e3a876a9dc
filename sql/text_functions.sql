-- engine: at least 67
--
-- FUNCTIONS OF TEXT
--
-- Characters, not bytes, are counted; patterns match as PostgreSQL matches them.
--

CREATE TABLE word (
    id integer PRIMARY KEY,
    t  text,
    v  varchar(20),
    c  char(6),
    b  text COLLATE "C",
    n  integer
);
INSERT INTO word VALUES
    (1, 'abc',          'abc',    'abc',  'abc',  1),
    (2, 'ABC abc',      'a b',    'ab c', 'ABC',  -1),
    (3, '  pad  ',      ' pad ',  'pad',  '%',    2),
    (4, '',             '',       '',     '',     0),
    (5, NULL,           NULL,     NULL,   NULL,   NULL),
    (6, 'äöü',          'äöü',    'ä',    'ÄÖÜ',  -2),
    (7, '雪だるま☃😀',   '雪',     '☃',    '雪だ', 3),
    (8, 'a%b_c\d',      '100%',   'a_',   'a\b',  2147483647),
    (9, repeat('long ', 2000) || 'end', 'aaaaaaaab', 'aab', repeat('x', 5000) || 'y', -2147483648),
    (10, 'a,b,,c',      ',',      ',',    'x--y--z', 4);
SELECT anker.mirror('word');
SELECT anker.wait_for_mirror('word');

-- LIKE
SELECT id FROM word WHERE t LIKE 'a%' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%c' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%b%' ORDER BY id;
SELECT id FROM word WHERE t LIKE 'abc' ORDER BY id;
SELECT id FROM word WHERE t LIKE '' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%' ORDER BY id;
SELECT id FROM word WHERE t LIKE '___' ORDER BY id;
SELECT id FROM word WHERE t LIKE '雪_る%' OR t LIKE '%_😀' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%long%long%end' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%\%b\_c\\d' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%!%%' ESCAPE '!' ORDER BY id;
SELECT id FROM word WHERE t LIKE '%\%' ESCAPE '' ORDER BY id;
SELECT id FROM word WHERE t NOT LIKE '%a%' ORDER BY id;
SELECT id FROM word WHERE NOT (t LIKE '%a%') ORDER BY id;
SELECT id FROM word WHERE v LIKE 'a%' OR v LIKE '1__\%' ORDER BY id;
SELECT id FROM word WHERE v LIKE '%aab' AND v NOT LIKE '%aaaaaaaaab' ORDER BY id;
SELECT id FROM word WHERE t LIKE b ORDER BY id;
SELECT id FROM word WHERE t LIKE NULL OR t LIKE ('a' || NULL) ORDER BY id;
SELECT count(*) FROM word WHERE t LIKE 'a%' IS NOT TRUE;
SELECT t LIKE '%a%' AS k, count(*) FROM word GROUP BY 1 ORDER BY 1;
SELECT sum(CASE WHEN t LIKE 'a%' THEN n::bigint ELSE 0 END) FROM word;
SELECT id FROM word WHERE t ILIKE 'ABC%' ORDER BY id;

-- char(n) is matched with its blanks, and loses them where it becomes text
SELECT id FROM word WHERE c LIKE 'abc' ORDER BY id;
SELECT id FROM word WHERE c LIKE 'abc   ' ORDER BY id;
SELECT id FROM word WHERE c LIKE 'ab%' ORDER BY id;
SELECT id FROM word WHERE c LIKE '______' ORDER BY id;
SELECT id FROM word WHERE c NOT LIKE '% ' ORDER BY id;
SELECT id FROM word WHERE c::text LIKE 'abc' ORDER BY id;
SELECT length(c) AS l, count(*) FROM word GROUP BY 1 ORDER BY 1;
SELECT substring(c from 1 for 2) AS k, count(*) FROM word GROUP BY 1 ORDER BY 1;
SELECT c || '|' AS k, count(*) FROM word WHERE id < 4 GROUP BY 1 ORDER BY 1;
SELECT id FROM word WHERE c::text = t ORDER BY id;
SELECT octet_length(c) AS k, count(*) FROM word GROUP BY 1 ORDER BY 1;

-- a pattern that ends in an escape is an error only if the match reaches it
SELECT count(*) FROM word WHERE t LIKE 'q\';
SELECT count(*) FROM word WHERE t LIKE 'a\';
SELECT count(*) FROM word WHERE t LIKE '%\';
SELECT count(*) FROM word WHERE id > 100 AND t LIKE 'a\';
SELECT count(*) FROM word WHERE id = 1 AND t LIKE 'abc\';

-- parts
SELECT id, length(substring(t from 2 for 3)) AS l FROM word WHERE substring(t from 2 for 3) = 'bc' OR substr(t, 2, 3) = 'öü' ORDER BY id;
SELECT substr(t, 1, 1) AS k, count(*) FROM word GROUP BY 1 ORDER BY 1;
SELECT substring(t from n for 2) AS k, count(*) FROM word WHERE id <> 9 GROUP BY 1 ORDER BY 1;
SELECT substring(t, -1, 3) AS k, substring(t, 2147483647, 2147483647), substring(t, 0, 2147483647) = t AS all, count(*) FROM word GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT substring(t, -2147483648, 2147483647) AS k, substring(t, 2, 0), count(*) FROM word GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(substring(t from 1 for n)) FROM word WHERE n > 0;
SELECT count(substring(t from 1 for n)) FROM word;
SELECT left(t, n) AS l, right(t, n) AS r, count(*) FROM word WHERE id <> 9 GROUP BY 1, 2 ORDER BY 1, 2;
SELECT sum(length(left(t, n))), sum(length(right(t, 2147483647))) FROM word WHERE id = 9;
SELECT left(b, -1) AS l, right(b, -1) AS r, count(*) FROM word WHERE id <> 9 GROUP BY 1, 2 ORDER BY 1, 2;
SELECT split_part(t, ',', 2) AS a, split_part(t, ',', -1) AS z, split_part(b, '--', 2), count(*) FROM word WHERE id <> 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT split_part(t, '', 1) AS a, split_part(t, '', 2) AS b, split_part(t, ',', 9), split_part(t, ',', -9), count(*) FROM word WHERE id IN (4, 10) GROUP BY 1, 2, 3, 4 ORDER BY 1;
SELECT count(split_part(t, ',', id - 4)) FROM word;
SELECT max(btrim(t)), max(ltrim(t)), max(rtrim(t)) FROM word WHERE id = 3 AND t COLLATE "C" <> '';
SELECT btrim(t COLLATE "C", 'abc ') AS k, ltrim(b, 'xAB'), rtrim(v, 'b '), count(*) FROM word WHERE id <> 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT trim(both 'äü' from t) AS k, trim(v, '') AS v, count(*) FROM word WHERE id IN (6, 7) GROUP BY 1, 2 ORDER BY 1;

-- lengths and places
SELECT length(t) AS l, octet_length(t) AS o, char_length(v) AS c, count(*) FROM word GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT ascii(t) AS t, ascii(c) AS c, ascii(b) AS b, count(*) FROM word GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT position('b' in t) AS p, strpos(t, 'る') AS s, position('' in t) AS e, strpos(b, 'xy') AS x, count(*) FROM word GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
SELECT count(*) FROM word WHERE starts_with(t, 'ab') OR t ^@ '雪';
SELECT sum(length(t || v || 'x')), max(length(repeat(t, 3))) FROM word;

-- new texts
SELECT t || '!' AS k, count(*) FROM word WHERE id <> 9 GROUP BY 1 ORDER BY 1;
SELECT id FROM word WHERE t || v = 'abcabc' ORDER BY id;
SELECT replace(t, 'b', 'xyz') AS k, replace(v, 'aa', 'b') AS v, replace(b, '', 'q') AS b, count(*) FROM word WHERE id <> 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT lpad(t, 5, 'äb') AS l, rpad(v, 4) AS r, lpad(b, n, '') AS e, count(*) FROM word WHERE id < 8 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT rpad(t, 2, 'x') AS l, lpad(t, -1, 'x') AS r, count(*) FROM word GROUP BY 1, 2 ORDER BY 1, 2;
SELECT repeat(v, 2) AS k, repeat(v, -1) AS n, reverse(t) AS r, count(*) FROM word WHERE id <> 9 GROUP BY 1, 2, 3 ORDER BY 1, 3;
SELECT upper(b) AS u, lower(b) AS l, upper(t COLLATE "C") AS t, count(*) FROM word WHERE id <> 9 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT min(upper(b)), max(lower(b)), min(b || 'x'), max(left(b, 2)) FROM word WHERE id <> 9;
SELECT upper(t) AS k, count(*) FROM word WHERE id < 3 GROUP BY 1 ORDER BY 1;
SELECT concat(t, v) AS k, count(*) FROM word WHERE id < 3 GROUP BY 1 ORDER BY 1;
SELECT t || n AS k, count(*) FROM word WHERE id < 3 GROUP BY 1 ORDER BY 1;

-- texts too long for the engine, or for PostgreSQL as well
SELECT sum(length(repeat(t, 10000))) FROM word WHERE id = 9;
\set VERBOSITY sqlstate
SELECT sum(length(repeat(t, n))) FROM word WHERE id = 8;
SELECT sum(length(lpad(t, n, 'x'))) FROM word WHERE id = 8;
\set VERBOSITY default

-- with parameters, and guarded
PREPARE p (text, integer) AS SELECT count(*), count(left(t, $2)) FROM word WHERE t LIKE $1 AND substr(t, $2, 1) <> 'q';
EXECUTE p ('%a%', 1);
EXECUTE p (NULL, 1);
EXECUTE p ('%\', 2);
SET plan_cache_mode = force_generic_plan;
EXECUTE p ('a%', 2);
EXECUTE p ('abc\', 2);
RESET plan_cache_mode;
SELECT count(*) FROM word WHERE n >= 0 AND substring(t from 1 for n) <> '';
SELECT sum(CASE WHEN n >= 0 THEN length(substring(t from 1 for n)) ELSE -1 END) FROM word;

-- a collation under which different texts are equal
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT count(*) FROM word WHERE t COLLATE any_case LIKE 'A%';
SELECT count(*) FROM word WHERE position('A' in (t COLLATE any_case)) > 0;
SELECT count(*) FROM word WHERE length(t COLLATE any_case) = 3;
