-- engine: at least 30
--
-- CHARACTERS
--
-- char(n) in expressions that do not tell n, since nulls are among their values: it is still shown with its blanks. And
-- char(n) of several lengths, for which the heap answers.
--

CREATE TABLE code (
    id     integer PRIMARY KEY,
    short  char(3),
    long   char(6),
    other  char(6) COLLATE "C",
    n      integer
);
INSERT INTO code
  SELECT i, CASE WHEN i % 5 <> 0 THEN 'a' || i % 7 END, CASE WHEN i % 4 <> 0 THEN 'b' || i % 3 END, 'c ' || i % 2, i % 6
  FROM generate_series(1, 60) i;
CREATE DOMAIN tag AS char(4);
CREATE TABLE tagged (id integer PRIMARY KEY, t tag);
INSERT INTO tagged VALUES (1, 'x'), (2, 'yy'), (3, NULL);
SELECT anker.mirror(t) FROM unnest('{code,tagged}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{code,tagged}'::regclass[]) t;

-- CASE, coalesce, nullif
SELECT '[' || concat(CASE WHEN n > 2 THEN long END) || ']' AS x, count(*) FROM code GROUP BY 1 ORDER BY 1;
SELECT concat(x, '|') AS y, k FROM (SELECT CASE WHEN n > 2 THEN long END AS x, count(*) AS k FROM code GROUP BY 1) s ORDER BY 1, 2;
SELECT CASE WHEN n > 2 THEN long END AS x, count(*), octet_length(CASE WHEN n > 2 THEN long END) FROM code GROUP BY 1 ORDER BY 1;
SELECT coalesce(CASE WHEN n > 2 THEN long END, CASE n WHEN 1 THEN other ELSE NULL END) AS x, count(*) FROM code GROUP BY 1 ORDER BY 1;
SELECT max(CASE WHEN n = 1 THEN short END) AS x, min(nullif(long, 'b1')) AS y FROM code;
SELECT octet_length(max(CASE WHEN n = 1 THEN short END)) AS x FROM code;
SELECT array_agg(CASE WHEN n = 1 THEN short END ORDER BY id) FROM code WHERE id < 9;
SELECT mode() WITHIN GROUP (ORDER BY CASE WHEN n < 4 THEN long END) AS x FROM code;
SELECT count(*) FROM code WHERE CASE WHEN n > 2 THEN long END LIKE 'b_    ';
SELECT count(*) FROM code WHERE CASE WHEN n > 2 THEN long END LIKE 'b_';

-- unions
SELECT long, n FROM code WHERE id < 4 UNION SELECT NULL, n FROM code WHERE id < 3 ORDER BY 1, 2;
SELECT concat(x, '|') FROM (SELECT long AS x FROM code WHERE id < 4 UNION ALL SELECT NULL FROM code WHERE id < 3) s ORDER BY 1;
SELECT x, count(*), max(octet_length(x)) FROM (SELECT long AS x FROM code UNION ALL SELECT NULL FROM code) s GROUP BY x ORDER BY x;
SELECT long FROM code INTERSECT SELECT CASE WHEN n > 2 THEN long END FROM code ORDER BY 1;
SELECT CASE WHEN n > 2 THEN long END AS x FROM code EXCEPT SELECT NULL FROM code ORDER BY 1;
WITH a AS (SELECT short, n FROM code), b AS (SELECT short, n FROM a WHERE n < 3 UNION SELECT NULL, n FROM a)
  SELECT CASE WHEN n = 1 THEN short END AS x, rank() OVER (PARTITION BY CASE WHEN n = 1 THEN short END ORDER BY n) FROM b ORDER BY 1, 2 LIMIT 5;
WITH b AS (SELECT short AS x FROM code UNION SELECT NULL) SELECT concat(x, '|') FROM b ORDER BY 1;
WITH b AS (SELECT short AS x, id FROM code UNION SELECT NULL, 7)
  SELECT concat(b.x, '|') AS y, count(*) FROM code c JOIN b USING (id) GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM (SELECT long AS x FROM code UNION ALL SELECT NULL FROM code) s WHERE x LIKE '%  ';

-- of several lengths, or of one that is not known
SELECT short AS x FROM code UNION SELECT long FROM code ORDER BY 1;
SELECT concat(x, '|') FROM (SELECT short AS x FROM code UNION SELECT long FROM code UNION SELECT NULL) s ORDER BY 1;
SELECT concat(x, '|') FROM (SELECT NULL AS x UNION SELECT short FROM code UNION (SELECT long FROM code EXCEPT SELECT short FROM code)) s ORDER BY 1;
SELECT concat(x, '|') FROM (SELECT NULL AS x UNION SELECT short FROM code UNION (SELECT short FROM code INTERSECT SELECT long FROM code)) s ORDER BY 1;
SELECT concat(CASE n WHEN 1 THEN short WHEN 2 THEN long END, '|') AS x, count(*) FROM code GROUP BY 1 ORDER BY 1;
SELECT CASE n WHEN 1 THEN short WHEN 2 THEN long END AS x, count(*) FROM code GROUP BY 1 ORDER BY 1;
SELECT concat(short::bpchar, '|'), count(*) FROM code GROUP BY 1 ORDER BY 1;
SELECT CASE n WHEN 1 THEN 'd '::bpchar ELSE long END AS x, count(*) FROM code GROUP BY 1 ORDER BY 1;

-- joins, levels around, domains
SELECT concat(CASE WHEN b.n = 1 THEN a.long END, '|') AS x, count(*) FROM code a LEFT JOIN code b ON a.id = b.n GROUP BY 1 ORDER BY 1;
SELECT concat(x, '|') AS y, count(*) FROM (SELECT CASE WHEN b.n = 1 THEN b.long END AS x FROM code a LEFT JOIN code b ON a.id = b.n OFFSET 0) s GROUP BY 1 ORDER BY 1;
SELECT (SELECT concat(s.x, '|')) AS y, count(*) FROM (SELECT CASE WHEN n = 1 THEN long END AS x FROM code OFFSET 0) s GROUP BY 1 ORDER BY 1;
SELECT a.id, l.x FROM code a, LATERAL (SELECT max(CASE WHEN b.n = a.n THEN a.long END) AS x FROM code b) l WHERE a.id < 6 ORDER BY 1;
SELECT long, count(*) FROM code a FULL JOIN (SELECT NULL::char(6) AS long) b USING (long) GROUP BY 1 ORDER BY 1;
SELECT x, count(*) FROM (SELECT coalesce(a.long, b.x) AS x FROM code a LEFT JOIN (SELECT NULL::char(6) AS x) b ON true) s GROUP BY x ORDER BY x;
SELECT concat(t, '|') AS x FROM tagged ORDER BY 1;
SELECT concat(x, '|') FROM (SELECT CASE WHEN id < 3 THEN t END AS x FROM tagged OFFSET 0) s ORDER BY 1;
SELECT t, count(*) FROM (SELECT t FROM tagged UNION ALL SELECT NULL) s GROUP BY t ORDER BY t;
