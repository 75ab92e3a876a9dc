-- engine: at least 20
--
-- ROWS
--
-- Comparisons of rows, and with subqueries of several columns.
--

CREATE TABLE place (id integer PRIMARY KEY, a integer, b integer, c text COLLATE "C", n numeric, f double precision, t text, d date);
INSERT INTO place
  SELECT i, nullif(i % 4, 3), nullif(i * 7 % 5, 2), nullif(chr(96 + i % 3), 'a'), (ARRAY[1, 1.0, 2.50, 'NaN', NULL]::numeric[])[i % 5 + 1],
    (ARRAY[-0.0, 0, 1.5, 'NaN', NULL]::float8[])[i % 5 + 1], 'T' || i % 3, date '2024-01-01' + i % 3
  FROM generate_series(1, 30) i;
ANALYZE place;
SELECT anker.mirror('place');
SELECT anker.wait_for_mirror('place');

-- the first values that differ decide; a null before them leaves it open
SELECT p.id, q.id FROM place p, place q WHERE p.id < 9 AND q.id < 9 AND (p.a, p.b) < (q.a, q.b) ORDER BY 1, 2;
SELECT p.id, q.id FROM place p, place q WHERE p.id < 7 AND q.id < 7 AND (p.a, p.b, p.c) >= (q.a, q.b, q.c) ORDER BY 1, 2;
SELECT count(*) FILTER (WHERE x), count(*) FILTER (WHERE NOT x), count(*) FILTER (WHERE x IS NULL)
  FROM (SELECT (p.a, p.b) <= (q.a, q.b) AS x FROM place p, place q) s;
SELECT count(*) FILTER (WHERE x), count(*) FILTER (WHERE NOT x), count(*) FILTER (WHERE x IS NULL)
  FROM (SELECT (p.n, p.f, p.t) > (q.n, q.f, q.t) AS x FROM place p, place q) s;
SELECT id FROM place WHERE (a, b) > (1, 2) ORDER BY id;
SELECT id FROM place WHERE (d, id) >= (date '2024-01-02', 12) AND (d, id) < (date '2024-01-03', 6) ORDER BY d, id LIMIT 5;
SELECT id FROM place WHERE (a, 10 / (a - 1)) > (1, 0) ORDER BY id;
SELECT id FROM place WHERE (a, 10 / (a - 2)) > (1, -11) ORDER BY id;
SELECT id FROM place WHERE ROW(a, b) IN (ROW(1, 0), ROW(2, 4), ROW(0, NULL)) ORDER BY id;
SELECT id FROM place WHERE (a, b) NOT IN ((1, 0), (2, 4)) ORDER BY id;
SELECT (a, b) < (2, 1) AS x, count(*) FROM place GROUP BY 1 ORDER BY 1;

-- subqueries that are one row
SELECT id FROM place WHERE (a, b) = (SELECT a, b FROM place WHERE id = 5) ORDER BY id;
SELECT id FROM place WHERE (a, n) > (SELECT min(a), min(n) FROM place) ORDER BY id;
SELECT id FROM place p WHERE (a, b) <= (SELECT max(a), max(b) FROM place q WHERE q.id < p.id) ORDER BY id LIMIT 5;
SELECT id, (a, b) <> (SELECT a, b FROM place q WHERE q.id = p.id + 1) FROM place p ORDER BY id LIMIT 8;
SELECT id FROM place WHERE (a, b) = (SELECT a, b FROM place WHERE id > 90) ORDER BY id;
SELECT id FROM place WHERE (a, b) = (SELECT a, b FROM place) ORDER BY id;

-- subqueries of many rows
SELECT id FROM place WHERE (a, b) IN (SELECT b, a FROM place) ORDER BY id;
SELECT id FROM place WHERE (a, b) NOT IN (SELECT b, a FROM place WHERE a IS NOT NULL AND b IS NOT NULL) ORDER BY id;
SELECT id FROM place WHERE (a, b) < ANY (SELECT b, a FROM place WHERE id < 4) ORDER BY id;
SELECT id FROM place WHERE (a, b) >= ALL (SELECT b, a FROM place WHERE id < 4) ORDER BY id;
SELECT count(*) FILTER (WHERE x), count(*) FILTER (WHERE x IS NULL) FROM (SELECT (a, b) > ALL (SELECT b, a FROM place WHERE id < 9) AS x FROM place) s;
