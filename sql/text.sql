-- engine: at least 59
--
-- TEXT, VARCHAR, CHAR(n)
--
-- Equality is the engine's under any deterministic collation, order under "C" and in locales of the C library.
--

CREATE TABLE word (
    id integer PRIMARY KEY,
    t  text,
    c  char(6),
    v  varchar(10),
    b  text COLLATE "C"
);
INSERT INTO word VALUES
    (1, 'abc',       'abc',    'abc',    'abc'),
    (2, 'ABC',       'ABC',    'ABC',    'ABC'),
    (3, 'abc  ',     'abc  ',  'abc  ',  'abc  '),
    (4, '',          '',       '',       ''),
    (5, NULL,        NULL,     NULL,     NULL),
    (6, 'äöü',       'äöü',    'äöü',    'äöü'),
    (7, E'tab\there', E'a\tb', E'a\nb',  E'back\\slash'),
    (8, '雪だるま☃',  '雪',     '☃',      '😀'),
    (9, repeat('long ', 2000), 'long', 'long', repeat('x', 5000)),
    (10, 'it''s "quoted"', '''', '"',    '%_'),
    (11, 'abd',      'abd',    'abd',    'abd');
SELECT anker.mirror('word');
SELECT anker.wait_for_mirror('word');

SELECT id, t, c, v, b FROM word WHERE id <> 9 ORDER BY id;
SELECT id, length(t), length(c), octet_length(c), length(v), octet_length(t), md5(t) FROM word ORDER BY id;

-- equality: blanks count for text and varchar, not for char(n)
SELECT id FROM word WHERE t = 'abc' ORDER BY id;
SELECT id FROM word WHERE v = 'abc' ORDER BY id;
SELECT id FROM word WHERE c = 'abc' ORDER BY id;
SELECT id FROM word WHERE c = 'abc   ' ORDER BY id;
SELECT id FROM word WHERE c = ''::char(6) ORDER BY id;
SELECT id FROM word WHERE t = v ORDER BY id;
SELECT id FROM word WHERE t = c ORDER BY id;
SELECT id FROM word WHERE c::text = t ORDER BY id;
SELECT id FROM word WHERE v = c ORDER BY id;
SELECT id FROM word WHERE t <> 'abc' ORDER BY id;
SELECT id FROM word WHERE t = '' OR v = '' ORDER BY id;
SELECT id FROM word WHERE t = 'äöü' OR t = E'a\u0308o\u0308u\u0308' ORDER BY id;
SELECT id FROM word WHERE t IN ('abc', 'ABC', 'nothing', NULL) ORDER BY id;
SELECT id FROM word WHERE t NOT IN ('abc', 'ABC') ORDER BY id;
SELECT id FROM word WHERE v = 'it''s' OR v = '"' OR b = '%_' ORDER BY id;
SELECT id FROM word WHERE b = repeat('x', 5000);
SELECT id FROM word WHERE t = repeat('long ', 2000) AND c = 'long';

-- order, in "C"
SELECT id FROM word WHERE b < 'abc' ORDER BY id;
SELECT id FROM word WHERE b >= 'abc' AND b <= 'abd' ORDER BY id;
SELECT id FROM word WHERE t COLLATE "C" > 'a' ORDER BY id;
SELECT id FROM word WHERE c COLLATE "C" < 'abd' ORDER BY id;
SELECT min(b), max(b) FROM word WHERE id NOT IN (9);
SELECT min(t COLLATE "C"), max(t COLLATE "C") FROM word WHERE id NOT IN (8, 9);
SELECT id FROM word ORDER BY b, id;
SELECT id FROM word ORDER BY t COLLATE "C" DESC NULLS LAST, id;
SELECT id FROM word ORDER BY c COLLATE "C", id;
SELECT DISTINCT c COLLATE "C" FROM word ORDER BY 1;

-- order in the database's collation, and in that of a language
SELECT id FROM word WHERE t < 'b' ORDER BY id;
SELECT min(t), max(v) FROM word WHERE id IN (1, 2, 11);
SELECT id FROM word WHERE id IN (1, 2, 6, 11) ORDER BY t COLLATE "en-x-icu", id;
SELECT max(t COLLATE "en-x-icu") FROM word WHERE id IN (1, 2, 11);

-- a collation under which different texts are equal
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
SELECT id FROM word WHERE t COLLATE any_case = 'Abc' ORDER BY id;
SELECT count(*) FROM word WHERE id < 3 GROUP BY t COLLATE any_case;
SELECT t COLLATE any_case = 'ABC' AS like_abc, count(*) FROM word GROUP BY 1 ORDER BY 1;

-- groups and joins
SELECT c, count(*), min(id) FROM word GROUP BY c ORDER BY c;
SELECT t, count(*) FROM word WHERE id IN (1, 2, 3, 4, 5) GROUP BY t ORDER BY t;
SELECT v, c, count(*) FROM word WHERE id < 5 GROUP BY v, c ORDER BY v, c;
SELECT a.id, b.id FROM word a, word b WHERE a.t = b.t AND a.id < 5 ORDER BY 1, 2;
SELECT a.id, b.id FROM word a, word b WHERE a.c = b.c AND a.id < b.id ORDER BY 1, 2;
SELECT a.id, b.id FROM word a, word b WHERE a.t = b.c AND a.id <> b.id ORDER BY 1, 2;
SELECT a.id, b.id FROM word a, word b WHERE a.t = b.v AND a.id <> b.id ORDER BY 1, 2;

-- widths: char(n) is shown with its blanks, casts cut
SELECT '[' || c || ']', '[' || c::char(8) || ']', c::char(2), v::varchar(2), format('[%s]', c) FROM word WHERE id IN (1, 4) ORDER BY id;
SELECT max(c), max(c)::text || '|' FROM word WHERE id IN (1, 11);
SELECT c, '[' || c || ']' FROM word WHERE id IN (1, 3) GROUP BY c;
SELECT id FROM word WHERE c::varchar(2) = 'ab' ORDER BY id;
SELECT id FROM word WHERE v::char(4) = 'abc' ORDER BY id;
SELECT id FROM word WHERE t::"char" = 'a' ORDER BY id;

-- patterns and functions
SELECT id FROM word WHERE t LIKE 'ab%' ORDER BY id;
SELECT id FROM word WHERE t NOT LIKE '%b%' ORDER BY id;
SELECT id FROM word WHERE t ILIKE 'ABC' ORDER BY id;
SELECT id FROM word WHERE b LIKE '\%\_' ORDER BY id;
SELECT id FROM word WHERE t ~ '^[a-c]+$' ORDER BY id;
SELECT id FROM word WHERE t COLLATE "C" ILIKE 'AB%' ORDER BY id;
SELECT id FROM word WHERE v NOT ILIKE '%B_' COLLATE "C" ORDER BY id;
SELECT id FROM word WHERE t ~ 'b' ORDER BY id;
SELECT id FROM word WHERE t !~ '^ab' ORDER BY id;
SELECT id FROM word WHERE v ~ '^a.*c$' ORDER BY id;
SELECT id FROM word WHERE b ~ '%_' ORDER BY id;
SELECT id FROM word WHERE t ~ '^$' OR t ~ '^...$' ORDER BY id;
SELECT id FROM word WHERE c LIKE 'abc' ORDER BY id;
SELECT id FROM word WHERE c SIMILAR TO 'ab(c|d)%' ORDER BY id;
SELECT id, upper(t), initcap(v), substr(t, 2, 2), position('b' IN t), t || '!', lpad(v, 5, '*'), reverse(c)
  FROM word WHERE id IN (1, 2, 6, 11) ORDER BY id;
SELECT substr(t, 1, 1) AS first, count(*) FROM word GROUP BY 1 ORDER BY 1;
SELECT length(t) AS length, count(*) FROM word GROUP BY length(t) ORDER BY 1;
SELECT count(*) FROM word WHERE starts_with(t, 'ab');
SELECT count(*) FROM word WHERE t ^@ 'ab';
SELECT concat(t, c, NULL, v) FROM word WHERE id = 1;
SELECT string_agg(v, '/' ORDER BY id) FROM word WHERE id < 5;
