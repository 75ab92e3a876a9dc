-- engine: at least 89
--
-- NULL AND THE THREE TRUTH VALUES
--

CREATE TABLE truth (
    id integer PRIMARY KEY,
    a  boolean,
    b  boolean,
    x  integer,
    y  integer,
    t  text
);
INSERT INTO truth VALUES
    (1, true,  true,  1,    1,    'one'),
    (2, true,  false, 1,    2,    ''),
    (3, true,  NULL,  1,    NULL, NULL),
    (4, false, true,  NULL, 1,    'one'),
    (5, false, false, NULL, NULL, NULL),
    (6, false, NULL,  2,    1,    'two'),
    (7, NULL,  true,  2,    2,    ''),
    (8, NULL,  false, 0,    0,    'zero'),
    (9, NULL,  NULL,  -1,   NULL, NULL);
SELECT anker.mirror('truth');
SELECT anker.wait_for_mirror('truth');

-- AND, OR, NOT
SELECT a, b, a AND b AS "and", a OR b AS "or", NOT a AS "not" FROM truth ORDER BY id;
SELECT id FROM truth WHERE a AND b ORDER BY id;
SELECT id FROM truth WHERE a OR b ORDER BY id;
SELECT id FROM truth WHERE NOT (a AND b) ORDER BY id;
SELECT id FROM truth WHERE NOT (a OR b) ORDER BY id;
SELECT id FROM truth WHERE NOT a OR NOT b ORDER BY id;
SELECT id FROM truth WHERE a = b ORDER BY id;
SELECT id FROM truth WHERE a <> b ORDER BY id;
SELECT id FROM truth WHERE a = true ORDER BY id;
SELECT id FROM truth WHERE a <> true ORDER BY id;
SELECT id FROM truth WHERE a < b ORDER BY id;

-- tests that know NULL
SELECT id FROM truth WHERE a IS TRUE ORDER BY id;
SELECT id FROM truth WHERE a IS NOT TRUE ORDER BY id;
SELECT id FROM truth WHERE a IS FALSE ORDER BY id;
SELECT id FROM truth WHERE a IS NOT FALSE ORDER BY id;
SELECT id FROM truth WHERE (a AND b) IS UNKNOWN ORDER BY id;
SELECT id FROM truth WHERE (a OR b) IS NOT UNKNOWN ORDER BY id;
SELECT id FROM truth WHERE x IS NULL ORDER BY id;
SELECT id FROM truth WHERE x IS NOT NULL AND y IS NULL ORDER BY id;
SELECT id FROM truth WHERE (x > y) IS NULL ORDER BY id;
SELECT id FROM truth WHERE x IS DISTINCT FROM y ORDER BY id;
SELECT id FROM truth WHERE x IS NOT DISTINCT FROM y ORDER BY id;
SELECT id FROM truth WHERE (x, y) IS NULL ORDER BY id;
SELECT id FROM truth WHERE (x, y) IS NOT NULL ORDER BY id;

-- comparisons and arithmetic with NULL
SELECT id FROM truth WHERE x = NULL;
SELECT id FROM truth WHERE x <> NULL OR x = 1 ORDER BY id;
SELECT id FROM truth WHERE NOT (x > y) ORDER BY id;
SELECT id, x + y, x * NULL, -y FROM truth ORDER BY id;
SELECT id FROM truth WHERE x + y > 1 ORDER BY id;
SELECT id FROM truth WHERE (x = y) = a ORDER BY id;
SELECT id FROM truth WHERE (x IS NULL) = (y IS NULL) ORDER BY id;
SELECT id FROM truth WHERE (x, y) = (1, 2) ORDER BY id;
SELECT id FROM truth WHERE (x, y) < (1, 2) ORDER BY id;
SELECT id FROM truth WHERE (x, 1 / (y - 1)) < (1, 9) AND y IS DISTINCT FROM 1 ORDER BY id;
SELECT id, (x, 1 / y) <= (1, 1) AS "behind nulls" FROM truth WHERE id <> 8 OR y > 0 ORDER BY id;
SELECT id, (1, x, 1 / (y - 1)) > (1, 1, y) AS "behind nulls" FROM truth WHERE id <> 1 ORDER BY id;
SELECT id, (x, 1 / (y - 1)) <= (1, 1) FROM truth ORDER BY id;

-- lists
SELECT id FROM truth WHERE x IN (1, 2) ORDER BY id;
SELECT id FROM truth WHERE x IN (1, NULL) ORDER BY id;
SELECT id FROM truth WHERE x NOT IN (1, 2) ORDER BY id;
SELECT id FROM truth WHERE x NOT IN (1, NULL) ORDER BY id;
SELECT id FROM truth WHERE x IN (NULL, NULL) ORDER BY id;
SELECT id FROM truth WHERE x = ANY ('{1,0}') ORDER BY id;
SELECT id FROM truth WHERE x > ALL ('{0,1}') ORDER BY id;
SELECT id FROM truth WHERE x > ANY ('{0,1}') ORDER BY id;
SELECT id FROM truth WHERE x = ANY ('{}') ORDER BY id;
SELECT id FROM truth WHERE x <> ALL ('{}') ORDER BY id;
SELECT id FROM truth WHERE x = ANY (NULL::integer[]) ORDER BY id;
CREATE TABLE lists (id integer PRIMARY KEY, x integer, a integer[]);
INSERT INTO lists VALUES (1, 1, '{1,2}'), (2, NULL, '{1,2}'), (3, 3, '{}'), (4, NULL, '{}'), (5, 5, NULL), (6, NULL, NULL),
    (7, 7, '{NULL,7}'), (8, 8, '{NULL,7}'), (9, NULL, '{NULL}');
SELECT anker.mirror('lists');
SELECT anker.wait_for_mirror('lists');
SELECT x, a, x = ANY (a), x <> ALL (a) FROM lists ORDER BY id;
SELECT l.id, r.x FROM lists l LEFT JOIN lists r ON r.id = l.id AND r.x > 1 WHERE r.x <> ALL (l.a) ORDER BY l.id;
SELECT id FROM truth WHERE x = ANY (ARRAY[y, 2]) ORDER BY id;
-- all elements of an array are computed, whichever matches, and so is a value that is compared with an empty list
SELECT id FROM truth WHERE x = ANY (ARRAY[x, 10 / (y - 1)]) ORDER BY id;
SELECT id FROM truth WHERE x <> ALL (ARRAY[x, 10 / (y - 1)]) ORDER BY id;
SELECT id FROM truth WHERE x = ANY (ARRAY[x, 10 / (y + 7), y + 1]) ORDER BY id;
SELECT id FROM truth WHERE x = ANY (ARRAY[x, y, 10 / (y + 7)]) ORDER BY id;
SELECT id FROM truth WHERE 10 / (y - 1) = ANY ('{}') ORDER BY id;
SELECT id FROM truth WHERE 10 / (y - 1) = ANY (NULL::integer[]) ORDER BY id;
SELECT id FROM truth WHERE t IN ('one', '') ORDER BY id;
SELECT id FROM truth WHERE x BETWEEN 1 AND y ORDER BY id;
SELECT id FROM truth WHERE x BETWEEN SYMMETRIC 2 AND 1 ORDER BY id;
SELECT id FROM truth WHERE x NOT BETWEEN 0 AND 1 ORDER BY id;

-- the empty text is not NULL
SELECT id FROM truth WHERE t = '' ORDER BY id;
SELECT id FROM truth WHERE t IS NULL ORDER BY id;
SELECT id, coalesce(t, 'none'), nullif(t, ''), t IS NULL FROM truth ORDER BY id;

-- CASE, COALESCE, GREATEST
SELECT id, CASE WHEN a THEN 'yes' WHEN NOT a THEN 'no' ELSE 'unknown' END FROM truth ORDER BY id;
SELECT id, CASE x WHEN 1 THEN 'one' WHEN NULL THEN 'never' END FROM truth ORDER BY id;
SELECT id, coalesce(x, y, -99), greatest(x, y), least(x, NULL, y) FROM truth ORDER BY id;
SELECT id FROM truth WHERE coalesce(x, y) = 1 ORDER BY id;
SELECT id FROM truth WHERE CASE WHEN a THEN x ELSE y END = 1 ORDER BY id;
SELECT sum(CASE WHEN a THEN 1 ELSE 0 END), count(CASE WHEN b THEN 1 END) FROM truth;
SELECT sum(coalesce(x, 0)), avg(nullif(x, 0)) FROM truth;

-- constant conditions
SELECT count(*) FROM truth WHERE true;
SELECT count(*) FROM truth WHERE false;
SELECT count(*) FROM truth WHERE NULL;
SELECT count(*) FROM truth WHERE a AND false;
SELECT count(*) FROM truth WHERE a OR true;
SELECT count(*) FROM truth WHERE 1 = 1 AND x = x;

-- aggregates pass NULLs over, groups keep them together
SELECT count(*), count(x), count(y), count(t), sum(y), avg(x), min(t COLLATE "C") FROM truth;
SELECT x, count(*), count(y), sum(y) FROM truth GROUP BY x ORDER BY x;
SELECT x, y, count(*) FROM truth GROUP BY x, y ORDER BY x, y;
SELECT a, b, count(*) FROM truth GROUP BY a, b ORDER BY a NULLS FIRST, b DESC NULLS LAST;
SELECT t, count(*) FROM truth GROUP BY t ORDER BY t NULLS FIRST;
SELECT count(*), sum(y), max(y) FROM truth WHERE y IS NULL;
SELECT a AND b AS both, count(*) FROM truth GROUP BY a AND b ORDER BY 1;
SELECT x IS NULL AS missing, count(*) FROM truth GROUP BY x IS NULL ORDER BY 1;
SELECT x > y AS more, NOT (x > y) AS not_more, (x > y) IS NULL AS unknown, count(*)
  FROM truth GROUP BY x > y ORDER BY 1;

-- NULLs at both ends of an order
SELECT id, x FROM truth ORDER BY x, id;
SELECT id, x FROM truth ORDER BY x DESC, id;
SELECT id, x FROM truth ORDER BY x NULLS FIRST, id LIMIT 3;
SELECT DISTINCT x FROM truth ORDER BY x NULLS FIRST;
SELECT DISTINCT ON (y) y, id FROM truth ORDER BY y, id;

-- a table with only NULLs, and an empty one
CREATE TABLE hollow (id integer PRIMARY KEY, x integer, n numeric(4,1), t text, d date);
INSERT INTO hollow (id) SELECT generate_series(1, 3);
CREATE TABLE nothing (LIKE hollow INCLUDING ALL);
SELECT anker.mirror(r) FROM unnest('{hollow,nothing}'::regclass[]) r;
SELECT anker.wait_for_mirror(r) FROM unnest('{hollow,nothing}'::regclass[]) r;
SELECT count(*), count(x), sum(x), avg(n), min(d), max(t COLLATE "C") FROM hollow;
SELECT x, n, t, d, count(*) FROM hollow GROUP BY x, n, t, d;
SELECT * FROM hollow ORDER BY id;
SELECT count(*), count(x), sum(x), avg(n), min(d), max(t COLLATE "C") FROM nothing;
SELECT x, n, t, d, count(*) FROM nothing GROUP BY x, n, t, d;
SELECT * FROM nothing;
SELECT count(*) FROM hollow, nothing WHERE hollow.id = nothing.id;
