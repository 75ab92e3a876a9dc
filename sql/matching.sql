-- engine: at least 40
--
-- PATTERNS AND REGULAR EXPRESSIONS
--

CREATE TABLE words (id integer PRIMARY KEY, t text, c char(8), w text COLLATE "C");
INSERT INTO words VALUES
    (1, 'Alpha', 'Alpha', 'Alpha'),
    (2, 'beta 42', 'beta 42', 'beta 42'),
    (3, '', '', ''),
    (4, NULL, NULL, NULL),
    (5, E'two\nlines', E'x\ny', E'two\nlines'),
    (6, 'ÉCOLE straße', 'ÉCOLE', 'ÉCOLE straße'),
    (7, 'école', 'école', 'école'),
    (8, '192.168.0.1', '10.0.0.1', '192.168.0.1'),
    (9, 'a_b%c\d', 'a_b%c\d', 'a_b%c\d'),
    (10, 'user@example.com', 'u@e.com', 'user@example.com'),
    (11, '日本 2023', '日本', '日本 2023'),
    (12, 'aaaaaaaaaaaaaaaaaaaaaaab', 'aab', 'aaaaaaaaaaaaaaaaaaaaaaab');
SELECT anker.mirror('words');
SELECT anker.wait_for_mirror('words');

SELECT count(*) FROM words WHERE t ILIKE 'a%';
SELECT count(*), min(id) FROM words WHERE t ILIKE '%É%';
SELECT count(*), min(id) FROM words WHERE t NOT ILIKE '%a%';
SELECT count(*), min(id) FROM words WHERE w ILIKE '%É%' OR w ILIKE 'ALPHA';
SELECT count(*), min(id) FROM words WHERE c ILIKE 'ALPHA';
SELECT count(*), min(id) FROM words WHERE c ILIKE 'ALPHA   ' OR c ILIKE 'BETA%';
SELECT count(*) FROM words WHERE t ILIKE w;
SELECT count(*) FROM words WHERE t ILIKE NULL;
SELECT count(*) FROM words WHERE t ILIKE '%A\_B\%%';

SELECT count(*), sum(id) FROM words WHERE t ~ '^[A-Z]';
SELECT count(*), sum(id) FROM words WHERE t ~ '\d+';
SELECT count(*), sum(id) FROM words WHERE t !~ '\d+';
SELECT count(*), sum(id) FROM words WHERE t ~* '^(alpha|BETA)';
SELECT count(*), sum(id) FROM words WHERE t !~* 'É';
SELECT count(*), sum(id) FROM words WHERE w ~* 'É';
SELECT count(*), sum(id) FROM words WHERE t ~ '^(\d{1,3}\.){3}\d{1,3}$';
SELECT count(*), sum(id) FROM words WHERE t ~ '^[[:alnum:]._-]+@[[:alnum:].-]+\.[a-z]{2,}$';
SELECT count(*), sum(id) FROM words WHERE t ~ '[[:alpha:]]{4}';
SELECT count(*), sum(id) FROM words WHERE w ~ '[[:alpha:]]{4}';
SELECT count(*) FILTER (WHERE t ~ '\w\s\w'), count(*) FILTER (WHERE t ~ '[^[:alnum:][:space:]]') FROM words;
SELECT count(*) FILTER (WHERE t ~ '.'), count(*) FILTER (WHERE t ~ 'two.lines'), count(*) FILTER (WHERE t ~ '^lines') FROM words;
SELECT count(*) FILTER (WHERE t ~ '^$'), count(*) FILTER (WHERE t ~ ''), count(*) FILTER (WHERE t ~ 'a|') FROM words;
SELECT count(*) FILTER (WHERE t ~ '(?i)^ALPHA$'), count(*) FILTER (WHERE t ~* '(?c)^alpha$') FROM words;
SELECT count(*) FILTER (WHERE t ~ '[\\%_]'), count(*) FILTER (WHERE t ~ '[]%]'), count(*) FILTER (WHERE t ~ '[a-]') FROM words;
SELECT count(*) FILTER (WHERE t ~ '^(a|aa)+b$'), count(*) FILTER (WHERE t ~ 'a{3,5}?b'), count(*) FILTER (WHERE t ~ '^a{30}') FROM words;
SELECT count(*) FILTER (WHERE t ~* '[k-s]'), count(*) FILTER (WHERE t ~* '[[:upper:]]'), count(*) FILTER (WHERE t ~ '[[:upper:]]') FROM words;
SELECT count(*) FILTER (WHERE t ~ '^日'), count(*) FILTER (WHERE t ~ '[一-龥]'), count(*) FILTER (WHERE t ~* 'STRASSE|STRAßE') FROM words;
SELECT count(*) FILTER (WHERE c ~ '^a_b%c.d $'), count(*) FILTER (WHERE c ~* 'alpha {3}$'), count(*) FILTER (WHERE c !~ ' $') FROM words;
SELECT count(*) FROM words WHERE t SIMILAR TO '(a|A)%' OR t SIMILAR TO '%[0-9]{2}';
SELECT count(*) FROM words WHERE t NOT SIMILAR TO '%(a|e)%';
SELECT count(*) FROM words WHERE regexp_like(t, '^[a-z]+$');
SELECT id FROM words WHERE t ~ 'a$b' OR t ~ '^^a' ORDER BY id;
SELECT CASE WHEN t ~ '^[0-9]' THEN 'number' WHEN t ~* '^[a-z]' THEN 'word' END AS kind, count(*) FROM words GROUP BY 1 ORDER BY 1;

-- expressions that PostgreSQL evaluates itself
SELECT count(*) FROM words WHERE t ~ '(a)\1';
SELECT count(*) FROM words WHERE t ~ '\mbeta\M';
SELECT count(*) FROM words WHERE t ~ 'a(?=l)';
SELECT count(*) FROM words WHERE t ~ w AND id < 9;
\set VERBOSITY sqlstate
SELECT count(*) FROM words WHERE t ~ '*a';
SELECT count(*) FROM words WHERE t ~ '[b-a]';
SELECT count(*) FROM words WHERE t ~ 'a{300}';
SELECT count(*) FROM words WHERE t ~ 'a\';
\set VERBOSITY default

-- other functions of text
SELECT initcap(t) AS k, count(*) FROM words WHERE id <> 4 GROUP BY 1 ORDER BY 1;
SELECT initcap(w) AS k, count(*) FROM words WHERE id <> 4 GROUP BY 1 ORDER BY 1;
SELECT translate(t, 'aeé%', 'AE') AS k, count(*) FROM words GROUP BY 1 ORDER BY 1;
SELECT md5(t) AS k, count(*) FROM words GROUP BY 1 ORDER BY 1;
SELECT chr(id + 64) AS k, count(*) FROM words GROUP BY 1 ORDER BY 1 LIMIT 3;
SELECT concat_ws('-', t, NULL, id, c) AS k, count(*) FROM words GROUP BY 1 ORDER BY 1;
SELECT concat_ws(', ', NULL, w) AS k, count(*) FROM words GROUP BY 1 ORDER BY 1;
SELECT t::varchar(3) AS k, count(*) FROM words GROUP BY 1 ORDER BY 1;
\set VERBOSITY sqlstate
SELECT count(*) FROM words WHERE chr(id - 5) = 'a';
\set VERBOSITY default

-- Letters that are neither upper nor lower case, alone and in ranges.
CREATE TABLE digraphs (id integer PRIMARY KEY, u text);
INSERT INTO digraphs VALUES (1, 'ǅ'), (2, 'ǆ'), (3, 'Ǆ'), (4, 'ǈ'), (5, 'ǲ'), (6, 'a');
SELECT anker.mirror('digraphs');
SELECT anker.wait_for_mirror('digraphs');
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~* 'ǅ';
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~* '[ǈ]';
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~* '^[^ǲ]$';
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~* '[Ǆ-ǈ]';
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~* '[ǈ-ǈ]';
SELECT string_agg(id::text, ',' ORDER BY id) FROM digraphs WHERE u ~ 'ǅ' OR u ILIKE 'ǈ';
-- negations of conditions, in subqueries and joins
SELECT a.id, (SELECT count(*) FROM words b WHERE b.id <= a.id AND NOT (b.w LIKE 'a%')) FROM words a WHERE a.id < 9 ORDER BY 1;
SELECT a.id, b.id FROM words a LEFT JOIN words b ON b.id = a.id + 1 AND NOT (b.w ILIKE 'A%') WHERE a.id < 9 ORDER BY 1;
SELECT id FROM words a WHERE EXISTS (SELECT FROM words b WHERE b.id = a.id AND NOT (b.w ~ '^a') AND NOT (b.w ~* 'Z$')) AND id < 20 ORDER BY 1;
SELECT id FROM words WHERE id < 9 EXCEPT SELECT id FROM words WHERE NOT (w LIKE '%a%') ORDER BY 1;
