-- engine: at least 43
--
-- WINDOWS
--
-- Window functions, DISTINCT ON and the ALL forms of INTERSECT and EXCEPT, where the engine has to know them: in subqueries.
--

CREATE TABLE score (id integer PRIMARY KEY, team integer, player text COLLATE "C", points integer, price numeric(8,2),
  weight double precision, day date, big bigint, won boolean, local text);
CREATE TABLE empty_score (id integer PRIMARY KEY, points integer);
INSERT INTO score
  SELECT i, nullif(i % 4, 3), (ARRAY['a', 'B', NULL, 'ä'])[i * 3 % 4 + 1], nullif(i * 7 % 10, 9), nullif(i * 37 % 23, 7) * 1.25,
    (ARRAY['NaN', '-0', '0', '1.5', '-Infinity', NULL]::float8[])[i % 6 + 1], date '2024-01-01' + nullif(i % 5, 2),
    i::bigint * 1000000007, nullif(i % 3, 2) = 1, 'p' || i % 3
  FROM generate_series(1, 30) i;
ANALYZE score, empty_score;
SELECT anker.mirror(t) FROM unnest('{score,empty_score}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{score,empty_score}'::regclass[]) t;

-- numbers and ranks
SELECT n, count(*), sum(id) FROM (SELECT id, row_number() OVER (PARTITION BY team ORDER BY points, id) AS n FROM score) s
  GROUP BY n ORDER BY n;
SELECT id, n FROM (SELECT id, row_number() OVER (ORDER BY price DESC NULLS LAST, id) AS n FROM score) s WHERE n <= 4 ORDER BY n;
SELECT * FROM (SELECT id, team, points, rank() OVER w AS r, dense_rank() OVER w AS d FROM score
  WINDOW w AS (PARTITION BY team ORDER BY points)) s ORDER BY id;
SELECT * FROM (SELECT id, percent_rank() OVER w AS p, cume_dist() OVER w AS c FROM score
  WINDOW w AS (PARTITION BY team ORDER BY points DESC)) s ORDER BY id;
SELECT id, weight, r FROM (SELECT id, weight, rank() OVER (ORDER BY weight) AS r FROM score) s ORDER BY id;
SELECT id, weight, r FROM (SELECT id, weight, rank() OVER (ORDER BY weight DESC NULLS LAST) AS r FROM score) s ORDER BY id;
SELECT bucket, count(*), min(id), max(id) FROM (SELECT id, ntile(7) OVER (ORDER BY id) AS bucket FROM score) s GROUP BY bucket ORDER BY 1;
SELECT bucket, count(*) FROM (SELECT ntile(50) OVER (ORDER BY id) AS bucket FROM score) s GROUP BY bucket ORDER BY 1 DESC LIMIT 2;
SELECT count(*) FROM (SELECT rank() OVER (ORDER BY id) FROM empty_score) s;
SELECT count(*), max(r) FROM (SELECT rank() OVER (ORDER BY local) AS r FROM score) s;
SELECT count(*), max(r) FROM (SELECT rank() OVER (PARTITION BY local ORDER BY player) AS r FROM score) s;
SELECT count(*), max(r) FROM (SELECT rank() OVER () AS r, count(*) OVER () AS c FROM score) s;

-- other rows
SELECT * FROM (SELECT id, lag(points) OVER w AS a, lead(points, 2) OVER w AS b, lag(points, 1, -1) OVER w AS c,
  lead(player, 3, 'none') OVER w AS d FROM score WINDOW w AS (PARTITION BY team ORDER BY id)) s ORDER BY id;
SELECT * FROM (SELECT id, lag(price, 0) OVER (ORDER BY id) AS a, lag(price, -1) OVER (ORDER BY id) AS b,
  lag(points, 2, points) OVER (ORDER BY id) AS c FROM score) s ORDER BY id LIMIT 5;
SELECT * FROM (SELECT id, lag(price, 1, 0) OVER (ORDER BY id) AS a FROM score) s ORDER BY id LIMIT 3;
SELECT * FROM (SELECT id, first_value(points) OVER w AS f, last_value(points) OVER w AS l, nth_value(points, 2) OVER w AS n
  FROM score WINDOW w AS (PARTITION BY team ORDER BY points, id)) s ORDER BY id;
SELECT * FROM (SELECT id, first_value(id) OVER w AS f, last_value(id) OVER w AS l, nth_value(id, 3) OVER w AS n
  FROM score WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)) s ORDER BY id LIMIT 6;

-- aggregates over frames
SELECT * FROM (SELECT id, sum(points) OVER w AS s, count(points) OVER w AS c, count(*) OVER w AS n, avg(points) OVER w > 3 AS a,
  min(points) OVER w AS lo, max(points) OVER w AS hi FROM score WINDOW w AS (PARTITION BY team ORDER BY day)) s ORDER BY id;
SELECT * FROM (SELECT id, sum(price) OVER w AS s, max(price) OVER w AS m FROM score
  WINDOW w AS (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING)) s ORDER BY id LIMIT 6;
SELECT * FROM (SELECT id, sum(price) OVER w AS s, min(player) OVER w AS m FROM score
  WINDOW w AS (ORDER BY day GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(big) OVER w AS s, count(*) OVER w AS n FROM score
  WINDOW w AS (ORDER BY day GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(points) OVER w AS s, min(weight) OVER w AS m FROM score
  WINDOW w AS (ORDER BY day DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP)) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(points) FILTER (WHERE won) OVER (PARTITION BY team ORDER BY id) AS s FROM score) s ORDER BY id LIMIT 12;
SELECT * FROM (SELECT id, sum(points) OVER (ORDER BY id ROWS BETWEEN 3 FOLLOWING AND 2 FOLLOWING) AS s FROM score) s ORDER BY id LIMIT 3;
SELECT * FROM (SELECT id, sum(weight) OVER (ORDER BY id) AS s FROM score WHERE id < 5) s ORDER BY id;
SELECT * FROM (SELECT id, sum(points) OVER (ORDER BY points RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s FROM score) s ORDER BY id LIMIT 5;
SELECT * FROM (SELECT id, sum(points) OVER (ORDER BY id ROWS -1 PRECEDING) AS s FROM score) s ORDER BY id LIMIT 5;
SELECT * FROM (SELECT ntile(0) OVER (ORDER BY id) FROM score) s;

-- with groups, above and below
SELECT * FROM (SELECT team, sum(points) AS p, rank() OVER (ORDER BY sum(points) DESC) AS r, sum(sum(points)) OVER () AS all_points
  FROM score GROUP BY team HAVING count(*) > 3) s ORDER BY r, team;
SELECT team, max(r) FROM (SELECT team, rank() OVER (PARTITION BY team ORDER BY points) AS r FROM score) s GROUP BY team ORDER BY team;
SELECT id FROM (SELECT id, team, rank() OVER (PARTITION BY team ORDER BY points DESC NULLS LAST, id) AS r FROM score) s
  WHERE r = 1 AND team > 0 ORDER BY id;
SELECT * FROM (SELECT DISTINCT team, count(*) OVER (PARTITION BY team) AS n FROM score) s ORDER BY team;
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) * 2 - 1 AS odd FROM score ORDER BY 2 DESC LIMIT 3) s ORDER BY id;
WITH numbered AS (SELECT id, row_number() OVER (ORDER BY team) AS n FROM score)
  SELECT count(*) FROM numbered a JOIN numbered b ON a.n = b.n AND a.id = b.id;
SELECT count(*) FROM score WHERE id IN (SELECT lead(id) OVER (ORDER BY id) FROM score);
SELECT s.id, e.id FROM (SELECT id, rank() OVER (ORDER BY id) AS r FROM empty_score) e RIGHT JOIN score s ON s.id = e.r ORDER BY s.id LIMIT 2;

-- DISTINCT ON
SELECT * FROM (SELECT DISTINCT ON (team) team, id, points FROM score ORDER BY team, points DESC NULLS LAST, id) s ORDER BY team;
SELECT * FROM (SELECT DISTINCT ON (team, won) id, team, won FROM score ORDER BY won, team, id DESC) s ORDER BY id;
SELECT * FROM (SELECT DISTINCT ON (weight) id, weight = 0 AS zero FROM score ORDER BY weight, id) s ORDER BY id;
SELECT count(*) FROM (SELECT DISTINCT ON (team) id FROM score) s;
SELECT * FROM (SELECT DISTINCT ON (player) player, id FROM score ORDER BY player, id LIMIT 2) s ORDER BY player;
SELECT count(*), sum(n) FROM (SELECT DISTINCT ON (points % 2) points % 2, count(*) AS n FROM score GROUP BY points ORDER BY points % 2, points) s;
SELECT count(*) FROM (SELECT DISTINCT ON (id) id FROM empty_score ORDER BY id, points) s;

-- every row as often
SELECT * FROM (SELECT team FROM score INTERSECT ALL SELECT points FROM score) s ORDER BY 1;
SELECT * FROM (SELECT points FROM score EXCEPT ALL SELECT team FROM score) s ORDER BY 1;
SELECT team, player FROM score EXCEPT ALL SELECT team, player FROM score WHERE id % 2 = 0 ORDER BY 1, 2;
SELECT count(*) FROM (SELECT team FROM score EXCEPT ALL SELECT points FROM empty_score) s;
SELECT count(*) FROM (SELECT points FROM empty_score INTERSECT ALL SELECT team FROM score) s;
SELECT id FROM score INTERSECT ALL (SELECT big / 1000000007 FROM score EXCEPT ALL SELECT points FROM score) ORDER BY 1;
