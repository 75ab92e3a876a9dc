-- engine: at least 80
--
-- SUBQUERIES
--
-- In FROM, behind WITH, in conditions and in values: the engine joins them.
--

CREATE TABLE dept (d_id integer PRIMARY KEY, d_name text, d_boss integer);
CREATE TABLE emp (e_id integer PRIMARY KEY, e_dept integer, e_pay numeric(8,2), e_since date, e_grade smallint NOT NULL);
CREATE TABLE bonus (b_emp integer, b_year integer, b_sum numeric(8,2));
ALTER TABLE bonus REPLICA IDENTITY FULL;
CREATE TABLE nobody (n_id integer PRIMARY KEY, n_ref integer);
INSERT INTO dept VALUES (1, 'sales', 3), (2, 'ops', NULL), (3, 'law', 99), (4, NULL, 1);
INSERT INTO emp
  SELECT i, nullif(i % 5, 0), nullif(i * 37 % 100, 13) * 10.5, date '2020-01-01' + i, i % 3 FROM generate_series(1, 40) i;
INSERT INTO bonus
  SELECT nullif(i % 12, 7), 2020 + i % 3, i * 1.25 FROM generate_series(1, 50) i;
ANALYZE dept, emp, bonus, nobody;
SELECT anker.mirror(t) FROM unnest('{dept,emp,bonus,nobody}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{dept,emp,bonus,nobody}'::regclass[]) t;

-- in FROM: rows, groups, distinct rows
SELECT count(*), sum(p) FROM (SELECT e_pay + 1 AS p FROM emp WHERE e_grade > 0) s;
SELECT n, count(*) FROM (SELECT e_dept, count(*) AS n FROM emp GROUP BY e_dept) s GROUP BY n ORDER BY n;
SELECT d_name, s.total, s.n FROM dept JOIN (SELECT e_dept, sum(e_pay) AS total, count(e_pay) AS n FROM emp GROUP BY e_dept
  HAVING count(*) > 7) s ON s.e_dept = d_id ORDER BY d_id;
SELECT count(*) FROM (SELECT DISTINCT e_dept, e_grade FROM emp) s;
SELECT max(m) FROM (SELECT min(b_sum) AS m FROM bonus WHERE false) s;
SELECT count(*) FROM (SELECT sum(b_sum) AS m FROM bonus WHERE b_year = 1900) s WHERE m IS NULL;
SELECT top, count(*) FROM (SELECT e_dept, max(e_grade) AS top FROM (SELECT * FROM emp WHERE e_pay > 100) x GROUP BY e_dept) y
  GROUP BY top ORDER BY top;
SELECT e_grade, sum(n) FROM (SELECT e_dept, e_grade, count(*) AS n FROM emp GROUP BY e_dept, e_grade ORDER BY 3) s
  GROUP BY e_grade ORDER BY 1;

-- WITH
WITH rich AS (SELECT e_id, e_dept FROM emp WHERE e_pay > 500) SELECT e_dept, count(*) FROM rich GROUP BY e_dept ORDER BY 1;
WITH g AS (SELECT e_dept, sum(e_pay) AS s FROM emp GROUP BY e_dept)
  SELECT a.e_dept, a.s FROM g a, (SELECT max(s) AS m FROM g) b WHERE a.s = b.m ORDER BY 1;
WITH g AS MATERIALIZED (SELECT e_grade AS k, count(*) AS n FROM emp GROUP BY 1), h AS (SELECT k, n + 1 AS n FROM g WHERE k > 0)
  SELECT g.k, h.n - g.n FROM g LEFT JOIN h ON g.k = h.k ORDER BY 1;
WITH unused AS (SELECT count(*) FROM bonus) SELECT count(*) FROM emp;
WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 3) SELECT count(*) FROM r, emp WHERE e_id = i;

-- outer joins with subqueries on the side of the nulls
SELECT d_id, x FROM dept LEFT JOIN (SELECT e_dept, 7 AS x FROM emp WHERE e_pay > 900) s ON e_dept = d_id ORDER BY 1, 2;
SELECT d_id, n FROM dept LEFT JOIN (SELECT e_dept, count(*) AS n FROM emp WHERE e_dept < 3 GROUP BY 1) s ON e_dept = d_id ORDER BY 1;
SELECT n, count(*) FROM (SELECT d_id, count(e_id) AS n FROM dept LEFT JOIN emp ON d_id = e_dept AND e_pay > 600 GROUP BY d_id) c
  GROUP BY n ORDER BY n;
SELECT count(*), count(x), count(y) FROM (SELECT e_id AS x FROM emp WHERE e_grade = 1) a
  FULL JOIN (SELECT b_emp AS y FROM bonus WHERE b_year = 2021) b ON x = y;

-- in the condition of a full join, about one of its sides
SELECT count(*), count(e_id), count(d_id) FROM emp FULL JOIN dept ON e_dept = d_id AND e_id IN (SELECT b_emp FROM bonus);
SELECT count(*), count(e_id), count(d_id) FROM emp FULL JOIN dept ON e_dept = d_id AND d_id NOT IN (SELECT b_emp FROM bonus WHERE b_sum > 55);
SELECT count(*), count(e_id), count(d_id) FROM emp FULL JOIN dept ON e_dept = d_id AND e_pay > (SELECT avg(x.e_pay) FROM emp x WHERE x.e_dept = emp.e_dept);
SELECT count(*), count(a.e_id), count(b.e_id) FROM emp a FULL JOIN emp b ON a.e_id = b.e_dept AND EXISTS (SELECT FROM bonus WHERE b_emp = a.e_id)
  AND b.e_pay < ALL (SELECT b_sum * 20 FROM bonus WHERE b_year > 2020);
SELECT count(*), sum(e_id), sum(d_id) FROM emp FULL JOIN dept ON e_dept = d_id AND (SELECT count(*) > 100 FROM bonus);
SELECT count(*) FROM emp FULL JOIN dept ON e_dept = (SELECT max(d_id) FROM dept);
SELECT count(*) FROM emp FULL JOIN dept ON (e_id > 3) = EXISTS (SELECT FROM bonus);
SELECT count(*) FROM emp FULL JOIN dept ON (SELECT true);
SELECT count(*) FROM emp FULL JOIN dept ON now() > '2000-01-01';
SELECT count(*), count(e_id), count(d_id) FROM emp FULL JOIN dept ON e_dept = (SELECT min(b_emp) FROM bonus WHERE b_emp >= d_id);
SELECT count(*), count(e_id), count(d_id) FROM emp FULL JOIN dept ON false;

-- EXISTS
SELECT e_id FROM emp WHERE EXISTS (SELECT 1 FROM bonus WHERE b_emp = e_id AND b_sum > 40) ORDER BY 1;
SELECT count(*) FROM emp WHERE NOT EXISTS (SELECT * FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE EXISTS (SELECT FROM bonus WHERE b_emp = e_id AND b_year > 2019 + e_grade);
SELECT count(*) FROM emp a WHERE EXISTS (SELECT 1 FROM emp b WHERE b.e_dept = a.e_dept AND b.e_id <> a.e_id AND b.e_pay > a.e_pay);
SELECT count(*) FROM emp WHERE EXISTS (SELECT 1 FROM bonus WHERE b_year = 2020);
SELECT count(*) FROM emp WHERE EXISTS (SELECT 1 FROM nobody);
SELECT count(*) FROM emp WHERE NOT EXISTS (SELECT 1 FROM nobody);
SELECT count(*) FROM dept WHERE EXISTS (SELECT 1 FROM emp WHERE e_dept = d_id AND EXISTS (SELECT 1 FROM bonus WHERE b_emp = e_id));
SELECT count(*) FROM dept WHERE EXISTS (SELECT 1 FROM emp WHERE e_dept = d_id AND EXISTS (SELECT 1 FROM bonus WHERE b_emp = d_id));
SELECT count(*) FROM emp WHERE EXISTS (SELECT DISTINCT b_year FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE e_pay < EXTRACT(year FROM e_since) AND EXISTS (SELECT 1 FROM bonus WHERE b_emp = e_id);
SELECT d_name FROM dept WHERE EXISTS (SELECT e_dept FROM emp WHERE e_dept = d_id GROUP BY e_dept HAVING count(*) > 7) ORDER BY 1;

-- an aggregate always returns a row
SELECT count(*) FROM emp WHERE EXISTS (SELECT max(b_sum) FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE NOT EXISTS (SELECT max(b_sum) FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE EXISTS (SELECT max(b_sum) FROM bonus WHERE b_emp = e_id HAVING count(*) > 4);
SELECT count(*) FROM emp WHERE EXISTS (SELECT max(b_sum) FROM bonus WHERE b_year = 1900);
SELECT count(*) FROM emp WHERE e_id IN (SELECT max(b_emp) FROM bonus WHERE b_year = 2020 + e_grade);
SELECT count(*) FROM emp WHERE e_id NOT IN (SELECT max(b_emp) FROM bonus WHERE b_emp = e_id + 5);
SELECT count(*) FROM dept LEFT JOIN emp ON e_dept = d_id AND e_pay < (SELECT max(b_sum) * 5 FROM bonus);
SELECT count(*) FROM dept LEFT JOIN emp ON e_dept = d_id AND EXISTS (SELECT 1 FROM bonus WHERE b_emp = e_id);

-- IN and its kin
SELECT count(*) FROM emp WHERE e_id IN (SELECT b_emp FROM bonus);
SELECT count(*) FROM emp WHERE e_id IN (SELECT b_emp FROM bonus GROUP BY b_emp HAVING sum(b_sum) > 130);
SELECT count(*) FROM emp WHERE (e_dept, e_grade) IN (SELECT d_id, d_boss FROM dept);
SELECT count(*) FROM emp WHERE e_pay > ANY (SELECT b_sum * 10 FROM bonus WHERE b_year = 2021);
SELECT count(*) FROM emp WHERE e_dept IN (SELECT d_id FROM dept WHERE d_boss = e_id);
SELECT count(*) FROM emp WHERE 3 IN (SELECT b_emp FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE e_id IN (SELECT n_ref FROM nobody);
SELECT count(*) FROM emp WHERE e_pay >= ALL (SELECT b_sum FROM bonus);

-- NOT IN, with and without nulls on either side, and of nothing
SELECT count(*) FROM emp WHERE e_id NOT IN (SELECT b_emp FROM bonus);
SELECT count(*) FROM emp WHERE e_id NOT IN (SELECT b_emp FROM bonus WHERE b_emp IS NOT NULL);
SELECT count(*) FROM emp WHERE e_dept NOT IN (SELECT d_id FROM dept WHERE d_id < 3);
SELECT count(*) FROM emp WHERE e_dept NOT IN (SELECT n_ref FROM nobody);
SELECT count(*) FROM emp WHERE NOT e_dept IN (SELECT d_boss FROM dept WHERE d_id = e_dept);
-- several values: the result is unknown only if the values that are not null are equal
SELECT e_id FROM emp WHERE (e_dept, e_grade) NOT IN (SELECT d_id, d_boss FROM dept) ORDER BY 1;
SELECT e_id FROM emp WHERE (e_dept, e_pay) NOT IN (SELECT b_emp, b_sum FROM bonus) ORDER BY 1;
SELECT count(*) FROM emp WHERE (e_dept, e_pay) NOT IN (SELECT b_emp, b_sum FROM bonus WHERE b_emp IS NOT NULL);
SELECT e_id FROM emp WHERE (e_dept, e_pay, e_grade) NOT IN (SELECT b_emp, nullif(b_sum, 10), b_year - 2020 FROM bonus) ORDER BY 1;
SELECT count(*) FROM emp WHERE (e_dept, e_pay) NOT IN (SELECT n_id, n_ref FROM nobody);
SELECT count(*) FROM emp WHERE (e_dept, e_grade) NOT IN (SELECT b_emp, b_year - 2020 FROM bonus WHERE b_emp > e_id);
SELECT e_id, (e_dept, e_grade) IN (SELECT d_id, d_boss FROM dept) AS i FROM emp WHERE e_id < 12 ORDER BY 1;
SELECT count(*) FROM emp WHERE ((SELECT max(d_id) FROM dept WHERE d_boss = e_dept), e_grade) NOT IN (SELECT d_id, d_boss FROM dept);
SELECT count(*) FROM emp WHERE NOT ((e_dept, e_pay) IN (SELECT b_emp, b_sum FROM bonus) OR e_id < 7);
SELECT count(*) FROM dept WHERE d_boss NOT IN (SELECT e_dept FROM emp WHERE e_grade = d_id);

-- values, correlated and not
SELECT e_id FROM emp WHERE e_pay = (SELECT max(e_pay) FROM emp);
SELECT count(*) FROM emp WHERE e_pay > (SELECT min(e_pay) * 5 FROM emp WHERE e_grade = 2);
SELECT count(*) FROM emp a WHERE e_pay = (SELECT max(e_pay) FROM emp b WHERE b.e_dept = a.e_dept);
SELECT count(*) FROM emp WHERE e_grade + 30 < (SELECT sum(b_sum) FROM bonus WHERE b_emp = e_id AND b_year = 2020 + e_grade);
SELECT count(*) FROM emp WHERE (SELECT sum(b_sum) FROM bonus WHERE b_emp = e_id) IS NULL;
SELECT count(*) FROM emp WHERE coalesce((SELECT sum(b_sum) FROM bonus WHERE b_emp = e_id), 0) = 0;
SELECT count(*) FROM emp WHERE 0 = (SELECT count(*) FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE e_pay > (SELECT avg(e_pay) FROM emp);
SELECT d_id, (SELECT max(e_pay) FROM emp WHERE e_dept = d_id) AS top FROM dept ORDER BY 1;
SELECT d_id, (SELECT sum(e_pay) + d_id FROM emp WHERE e_dept = d_id) AS total FROM dept ORDER BY 1;
SELECT e_grade, count(*), (SELECT max(b_sum) FROM bonus) AS top FROM emp GROUP BY e_grade ORDER BY 1;
SELECT e_dept, sum(e_pay) FROM emp GROUP BY e_dept HAVING sum(e_pay) > (SELECT max(b_sum) * 60 FROM bonus) ORDER BY 1;
SELECT e_dept, sum(e_pay) FROM emp GROUP BY e_dept HAVING e_dept > (SELECT min(d_id) FROM dept WHERE d_boss = e_dept) ORDER BY 1;
SELECT sum((SELECT max(b_year) FROM bonus WHERE b_emp = e_id)) FROM emp;
SELECT (SELECT max(b_year) FROM bonus WHERE b_emp = e_id) AS y, count(*) FROM emp GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM emp WHERE e_pay > (SELECT sum(b_sum) FROM bonus WHERE b_emp = e_id HAVING count(*) > 4);
SELECT count(*) FROM emp WHERE e_id = (SELECT b_emp FROM bonus WHERE b_sum = 12.5);
SELECT count(*) FROM emp WHERE e_id = (SELECT b_emp FROM bonus);
SELECT d_id, (SELECT d_name FROM dept x WHERE x.d_id = dept.d_boss) AS boss FROM dept ORDER BY 1;
SELECT e_id FROM emp ORDER BY e_id LIMIT (SELECT count(*) FROM dept);

-- averages and values of different scales, which show as many digits as PostgreSQL's
SELECT count(*) FROM emp a WHERE e_pay > (SELECT 1.1 * avg(e_pay) FROM emp b WHERE b.e_dept = a.e_dept);
SELECT count(*) FROM emp JOIN (SELECT e_dept AS d, avg(e_pay) AS middle FROM emp GROUP BY e_dept) m ON e_dept = d AND e_pay < middle;
SELECT d, middle FROM dept JOIN (SELECT e_dept AS d, avg(e_pay) AS middle FROM emp GROUP BY e_dept) m ON d_id = d ORDER BY 1;
SELECT d_id, x FROM dept LEFT JOIN (SELECT e_id, CASE WHEN e_grade = 1 THEN 1.5 ELSE 2 END AS x FROM emp) s ON e_id = d_id ORDER BY 1;
SELECT DISTINCT x FROM (SELECT DISTINCT e_id, CASE WHEN e_grade = 1 THEN 1.50 ELSE 2 END AS x FROM emp) s ORDER BY 1;
SELECT sum(x) FROM dept LEFT JOIN (SELECT e_id, CASE WHEN e_grade = 1 THEN 1.5 ELSE 2 END AS x FROM emp) s ON e_id = d_id;

-- in other places
SELECT count(*) FROM emp WHERE e_grade = 0 OR EXISTS (SELECT 1 FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM emp WHERE CASE WHEN e_grade = 0 THEN e_id IN (SELECT b_emp FROM bonus) ELSE true END;
SELECT d_id, EXISTS (SELECT 1 FROM emp WHERE e_dept = d_id) AS has FROM dept ORDER BY 1;
SELECT count(*) FROM dept, LATERAL (SELECT max(e_pay) AS m FROM emp WHERE e_dept = d_id) s WHERE m > 500;
SELECT d_id, m FROM dept LEFT JOIN LATERAL (SELECT e_id AS m FROM emp WHERE e_dept = d_id ORDER BY e_pay DESC NULLS LAST LIMIT 1) s ON true ORDER BY 1;
SELECT ARRAY(SELECT d_id FROM dept ORDER BY 1) AS ids, count(*) FROM emp;

-- a view of groups, a view of views
CREATE VIEW totals AS SELECT b_emp, sum(b_sum) AS total FROM bonus GROUP BY b_emp;
CREATE VIEW paid AS SELECT e_id, e_pay + total AS paid FROM emp LEFT JOIN totals ON b_emp = e_id;
SELECT b_emp FROM totals WHERE total = (SELECT max(total) FROM totals) ORDER BY 1;
SELECT count(*), count(paid), max(paid) FROM paid;

-- columns that nobody reads are not computed, and raise no errors; but volatile functions are called
SELECT count(*) FROM emp WHERE EXISTS (SELECT 1 / 0 FROM bonus WHERE b_emp = e_id);
SELECT count(*) FROM dept LEFT JOIN (SELECT e_id, 1 / 0 AS z FROM emp) s ON e_id = d_id;
CREATE SEQUENCE calls;
SELECT count(*) FROM (SELECT e_dept, nextval('calls') FROM emp) s;
SELECT last_value FROM calls;
WITH w AS (SELECT e_id FROM emp) SELECT count(*) FROM (SELECT * FROM w) s;

-- a division by zero is an error in a subquery, too
SELECT count(*) FROM emp WHERE e_id IN (SELECT 10 / (b_year - 2020) FROM bonus);
SELECT count(*) FROM emp WHERE e_id > (SELECT max(10 / (e_grade - 1)) FROM emp);
SELECT count(*) FROM emp WHERE e_id IN (SELECT 10 / (b_year - 2020) FROM bonus WHERE b_year > 2020);

-- groups are looked up
SELECT e_dept FROM emp GROUP BY e_dept HAVING count(*) >= ALL (SELECT count(*) FROM emp GROUP BY e_dept) ORDER BY 1;
SELECT e_dept, count(*) IN (SELECT b_emp FROM bonus) AS i, max(e_grade) NOT IN (SELECT b_emp FROM bonus) AS n FROM emp GROUP BY e_dept ORDER BY 1;
SELECT e_dept, avg(e_pay) > ANY (SELECT b_sum * 10 FROM bonus) AS a, sum(e_pay) < ALL (SELECT b_sum * 70 FROM bonus) AS l FROM emp GROUP BY 1 ORDER BY 1;
SELECT e_dept FROM emp GROUP BY e_dept HAVING max(e_id) NOT IN (SELECT b_emp FROM bonus WHERE b_emp IS NOT NULL) ORDER BY 1;
SELECT e_dept, (count(*), max(e_grade)) IN (SELECT d_id * 2, 2 FROM dept) AS i FROM emp GROUP BY e_dept ORDER BY 1;
SELECT e_dept, (count(*), 2) = (SELECT 8, d_id FROM dept WHERE d_id = 2) AS r FROM emp GROUP BY e_dept ORDER BY 1;
SELECT e_dept FROM emp e GROUP BY e_dept HAVING sum(e_pay) IN (SELECT sum(x.e_pay) FROM emp x WHERE x.e_dept = e.e_dept) ORDER BY 1;
SELECT e_dept, e_grade, count(*) FROM emp GROUP BY ROLLUP (e_dept, e_grade)
  HAVING grouping(e_grade) IN (SELECT d_id FROM dept) AND count(*) > ANY (SELECT d_boss FROM dept) ORDER BY 1, 2, 3;
SELECT count(*) IN (SELECT n_id FROM nobody), sum(e_pay) NOT IN (SELECT n_ref FROM nobody) FROM emp;
SELECT * FROM (SELECT e_dept, count(*) IN (SELECT d_id * 2 FROM dept) AS i FROM emp GROUP BY e_dept) s WHERE i ORDER BY 1;
SELECT e_dept FROM emp GROUP BY e_dept
  HAVING count(*) IN (SELECT count(*) FROM bonus GROUP BY b_year HAVING count(*) IN (SELECT 2 * count(*) FROM emp GROUP BY e_dept)) ORDER BY 1;
