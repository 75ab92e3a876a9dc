-- engine: at least 22
--
-- JOINS
--
-- The engine computes inner and outer joins; joins that it leaves to the heap have to give
-- the same answer.
--

CREATE TABLE customer (c_id integer PRIMARY KEY, c_name text, c_nation integer);
CREATE TABLE nation (n_id integer PRIMARY KEY, n_name text);
CREATE TABLE orders (o_id bigint PRIMARY KEY, o_c_id integer, o_day date, o_total numeric(10,2));
CREATE TABLE line (l_o_id bigint, l_number smallint, l_item text, l_qty integer,
                   PRIMARY KEY (l_o_id, l_number));
INSERT INTO nation VALUES (1, 'France'), (2, 'Peru'), (3, 'Nauru');
INSERT INTO customer
  SELECT i, 'customer ' || i, CASE WHEN i % 5 = 0 THEN NULL ELSE i % 2 + 1 END
  FROM generate_series(1, 20) i;
INSERT INTO orders
  SELECT i, CASE WHEN i % 10 = 0 THEN NULL ELSE i % 20 + 1 END, date '2024-01-01' + i::integer % 3, i * 1.25
  FROM generate_series(1, 60) i;
INSERT INTO line
  SELECT o, n, 'item ' || (o + n) % 4, (o * n) % 7
  FROM generate_series(1, 60) o, generate_series(1, 3) n WHERE (o + n) % 3 > 0;
ANALYZE nation, customer, orders, line;
SELECT anker.mirror(t) FROM unnest('{nation,customer,orders,line}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{nation,customer,orders,line}'::regclass[]) t;

-- two tables, by WHERE, ON, USING and NATURAL
SELECT count(*) FROM customer, nation WHERE c_nation = n_id;
SELECT n_name, count(*) FROM customer JOIN nation ON c_nation = n_id GROUP BY n_name ORDER BY n_name;
SELECT count(*), sum(a.o_total) FROM orders a JOIN orders b USING (o_id);
SELECT count(*) FROM orders a NATURAL JOIN orders b;
SELECT c_id, c_name, n_name FROM customer JOIN nation ON n_id = c_nation ORDER BY c_id LIMIT 5;

-- NULLs never join
SELECT count(*), count(o_c_id) FROM orders;
SELECT count(*) FROM orders a, orders b WHERE a.o_c_id = b.o_c_id AND a.o_c_id IS NULL;

-- more tables, keys of different integer types, keys of several columns
SELECT n_name, count(*), sum(l_qty), max(o_day)
  FROM nation, customer, orders, line
  WHERE n_id = c_nation AND c_id = o_c_id AND o_id = l_o_id
  GROUP BY n_name ORDER BY n_name;
SELECT count(*), sum(o_total) FROM orders, customer WHERE o_id = c_id;
SELECT count(*) FROM line a JOIN line b ON a.l_o_id = b.l_o_id AND a.l_number = b.l_number;
SELECT count(*) FROM line a JOIN line b ON a.l_o_id = b.l_o_id + 1 AND a.l_number = b.l_number;
SELECT count(*) FROM line a JOIN line b ON a.l_item = b.l_item WHERE a.l_o_id < 5;
SELECT count(*) FROM orders a, orders b WHERE a.o_day = b.o_day;

-- conditions beside the keys
SELECT a.c_id, b.c_id FROM customer a JOIN customer b ON a.c_nation = b.c_nation AND a.c_id < b.c_id
  WHERE b.c_id <= 6 ORDER BY 1, 2;
SELECT count(*) FROM customer, orders WHERE c_id = o_c_id AND (c_nation = 1 OR o_total > 50);
SELECT c_name, sum(o_total) FROM customer JOIN orders ON c_id = o_c_id
  WHERE o_day > '2024-01-01' AND c_nation IS NOT NULL
  GROUP BY c_name HAVING sum(o_total) > 100 ORDER BY 2 DESC, 1;
SELECT c_id, c_name, count(*) FROM customer JOIN orders ON c_id = o_c_id GROUP BY c_id ORDER BY c_id LIMIT 3;

-- no rows on one side
SELECT count(*), sum(o_total) FROM orders, customer WHERE o_c_id = c_id AND c_nation = 17;
SELECT n_name, count(*) FROM nation, customer WHERE n_id = c_nation AND n_id = 3 GROUP BY n_name;

-- self joins of three, and a join back to the first
SELECT count(*) FROM customer a, customer b, customer c
  WHERE a.c_nation = b.c_nation AND b.c_nation = c.c_nation AND a.c_id = c.c_id;

-- a cross product, a join by inequality
SELECT count(*) FROM nation a, nation b;
SELECT a.n_name, b.n_name FROM nation a JOIN nation b ON a.n_id < b.n_id ORDER BY 1, 2;

-- outer joins
SELECT n_name, count(c_id) FROM nation LEFT JOIN customer ON n_id = c_nation GROUP BY n_name ORDER BY n_name;
SELECT c_id, n_name FROM nation RIGHT JOIN customer ON n_id = c_nation ORDER BY c_id LIMIT 6;
SELECT count(*), count(n_id), count(c_id) FROM nation FULL JOIN customer ON n_id = c_nation;
SELECT n_name FROM nation LEFT JOIN customer ON n_id = c_nation WHERE c_id IS NULL;
-- one that PostgreSQL makes an inner join, since NULL does not pass the condition
SELECT n_name, count(*) FROM nation LEFT JOIN customer ON n_id = c_nation WHERE c_id > 3
  GROUP BY n_name ORDER BY n_name;

-- subqueries
SELECT c_id FROM customer WHERE c_id IN (SELECT o_c_id FROM orders WHERE o_total > 70) ORDER BY c_id;
SELECT c_id FROM customer WHERE c_id NOT IN (SELECT o_c_id FROM orders WHERE o_c_id IS NOT NULL) ORDER BY c_id;
SELECT count(*) FROM customer WHERE c_id NOT IN (SELECT o_c_id FROM orders);
SELECT n_name FROM nation WHERE EXISTS (SELECT FROM customer WHERE c_nation = n_id) ORDER BY n_name;
SELECT n_name FROM nation WHERE NOT EXISTS (SELECT FROM customer WHERE c_nation = n_id) ORDER BY n_name;
SELECT c_id, (SELECT max(o_total) FROM orders WHERE o_c_id = c_id) FROM customer ORDER BY c_id LIMIT 4;
SELECT count(*) FROM orders WHERE o_total > (SELECT avg(o_total) FROM orders);
SELECT n_name, s.orders FROM nation
  JOIN (SELECT c_nation, count(*) AS orders FROM customer JOIN orders ON c_id = o_c_id GROUP BY c_nation) s
  ON n_id = s.c_nation ORDER BY n_name;
SELECT n_name, o_id FROM nation JOIN customer ON n_id = c_nation,
  LATERAL (SELECT o_id FROM orders WHERE o_c_id = c_id ORDER BY o_id DESC LIMIT 1) last
  WHERE c_id < 5 ORDER BY c_id;
WITH totals AS (SELECT o_c_id, sum(o_total) AS total FROM orders GROUP BY o_c_id)
  SELECT c_name, total FROM customer JOIN totals ON c_id = o_c_id ORDER BY total DESC, c_name LIMIT 3;
WITH RECURSIVE next(id) AS (
  SELECT min(c_id) FROM customer UNION ALL SELECT id + 1 FROM next WHERE id < (SELECT max(n_id) FROM nation))
  SELECT id FROM next ORDER BY id;

-- set operations
SELECT c_nation FROM customer UNION SELECT n_id FROM nation ORDER BY 1;
SELECT c_id FROM customer EXCEPT SELECT o_c_id FROM orders ORDER BY 1;
SELECT count(*) FROM (SELECT c_id FROM customer INTERSECT ALL SELECT n_id FROM nation) s;
(SELECT max(c_id) FROM customer) UNION ALL (SELECT max(n_id) FROM nation) ORDER BY 1;

-- few keys of many: rows are looked for by their keys first, also among those that were deleted or changed, or have none
CREATE TABLE wide (id integer PRIMARY KEY, k integer, n smallint, t text);
INSERT INTO wide SELECT i, nullif(i * 7 % 9000, 21), i % 10, 'text ' || i * 31 % 977 FROM generate_series(1, 9500) i;
CREATE TABLE few (k integer PRIMARY KEY, name text);
INSERT INTO few SELECT i * 700, 'name ' || i % 3 FROM generate_series(0, 12) i;
SELECT anker.mirror(t) FROM unnest('{wide,few}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{wide,few}'::regclass[]) t;
DELETE FROM wide WHERE id % 900 = 0;
UPDATE wide SET k = 700 WHERE id BETWEEN 40 AND 44;
SELECT count(*), sum(id), max(t) FROM wide JOIN few USING (k);
SELECT count(*), sum(id) FROM wide JOIN few USING (k) WHERE n < 5;
SELECT count(*), sum(id) FROM wide JOIN few USING (k) WHERE t LIKE '%1%' AND n <> 3 AND name <> 'name 2';
SELECT name, count(*) FROM wide JOIN few USING (k) WHERE t > 'text 3' OR n = 0 GROUP BY name ORDER BY name;
SELECT count(*), sum(id) FROM wide JOIN few USING (k) WHERE name = 'none';
SELECT count(*) FROM wide w WHERE k IN (SELECT k FROM few WHERE name = 'name 1') AND t LIKE 'text%' AND n > 1;
SELECT count(*) FROM wide w WHERE n < 3 AND NOT EXISTS (SELECT FROM few f WHERE f.k = w.k);
SELECT count(*) FROM wide JOIN few USING (k) WHERE 100 / n > 0 AND t <> '';
-- a condition of one table still raises its error for a row without a partner, whatever the other conditions are
SELECT w.id FROM wide w WHERE 10 / (w.n - 9) > -100 AND EXISTS (SELECT FROM few WHERE few.k = w.k);
SELECT w.id FROM wide w WHERE w.id > 5 AND 10 / (w.n - 9) > -100 AND EXISTS (SELECT FROM few WHERE few.k = w.k);
SELECT f.k, c.id FROM few f LEFT JOIN (SELECT id, k FROM wide WHERE id > 5 AND 10 / (n - 9) > -100) c ON c.k = f.k;

-- full joins that PostgreSQL cannot compute raise its error; others may have any condition beside an equality, or none
SELECT count(*) FROM customer FULL JOIN orders ON c_id < o_c_id;
SELECT count(*) FROM customer FULL JOIN orders ON c_id = 5;
SELECT count(*) FROM customer FULL JOIN orders ON c_id = o_c_id AND c_id < o_id;
SELECT count(*) FROM customer FULL JOIN orders ON true;
SELECT count(*) FROM customer FULL JOIN orders ON c_id < o_c_id WHERE c_id > 0;
