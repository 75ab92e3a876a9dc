-- engine: at least 26
--
-- SELECT
--
-- Clauses that PostgreSQL computes above the engine's rows: windows, DISTINCT, LIMIT,
-- set-returning functions, WITH, COPY, and statements that hold a query.
--

CREATE TABLE emp (
    id     integer PRIMARY KEY,
    dept   text,
    salary numeric(8,2),
    hired  date
);
INSERT INTO emp VALUES
    (1, 'sales',   5000, '2019-08-01'), (2, 'staff',  3900, '2018-12-23'),
    (3, 'sales',   4800, '2020-01-08'), (4, 'sales',  4800, '2019-12-08'),
    (5, 'staff',   3500, '2019-12-10'), (7, 'devel',  4200, '2018-01-01'),
    (8, 'devel',   6000, '2017-10-01'), (9, 'devel',  4500, '2019-01-01'),
    (10, 'devel',  5200, '2018-08-01'), (11, 'devel', 5200, '2018-08-15');
CREATE TABLE unmirrored (id integer PRIMARY KEY, remark text);
INSERT INTO unmirrored VALUES (1, 'first'), (5, 'fifth'), (99, 'nobody');
SELECT anker.mirror('emp');
SELECT anker.wait_for_mirror('emp');

-- rows
SELECT * FROM emp ORDER BY id;
SELECT emp.*, salary * 12 AS yearly FROM emp WHERE dept = 'staff' ORDER BY id;
SELECT id AS "Number", dept "Where" FROM emp ORDER BY "Number" LIMIT 2;
SELECT 1 AS one, 'x' AS letter, NULL AS nothing FROM emp WHERE id < 3;
SELECT FROM emp WHERE id < 3;
SELECT emp FROM emp WHERE id = 1;
TABLE emp ORDER BY id LIMIT 2;
SELECT id, tableoid::regclass FROM emp WHERE id = 1;

-- order, by selected columns and by others
SELECT id FROM emp ORDER BY salary DESC, id;
SELECT id, dept FROM emp ORDER BY 2 DESC, 1 LIMIT 3;
SELECT dept FROM emp ORDER BY hired OFFSET 2 FETCH FIRST 3 ROWS ONLY;
SELECT salary FROM emp ORDER BY salary DESC FETCH FIRST 2 ROWS WITH TIES;
SELECT id FROM emp ORDER BY length(dept), id LIMIT ALL OFFSET 8;
SELECT id FROM emp ORDER BY id LIMIT 0;
SELECT id FROM emp ORDER BY id LIMIT (SELECT count(*) FROM emp WHERE dept = 'staff');

-- DISTINCT
SELECT DISTINCT dept FROM emp ORDER BY dept;
SELECT DISTINCT dept, salary > 4500 AS well_paid FROM emp ORDER BY 1, 2;
SELECT DISTINCT ON (dept) dept, id, salary FROM emp ORDER BY dept, salary DESC, id;
SELECT count(*) FROM (SELECT DISTINCT salary FROM emp) s;

-- windows
SELECT dept, id, salary, avg(salary) OVER (PARTITION BY dept) FROM emp ORDER BY dept, id;
SELECT id, rank() OVER w, dense_rank() OVER w, row_number() OVER (w ROWS UNBOUNDED PRECEDING)
  FROM emp WHERE dept = 'devel' WINDOW w AS (ORDER BY salary) ORDER BY salary, id;
SELECT id, sum(salary) OVER (ORDER BY hired, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM emp ORDER BY hired, id;
SELECT id, lag(salary) OVER (ORDER BY id), first_value(id) OVER (PARTITION BY dept ORDER BY salary DESC, id)
  FROM emp ORDER BY id;
SELECT dept, sum(salary), rank() OVER (ORDER BY sum(salary) DESC) FROM emp GROUP BY dept ORDER BY 3;

-- set-returning and volatile functions
SELECT id, generate_series(1, 2) FROM emp WHERE id < 3 ORDER BY 1, 2;
SELECT count(*) FROM emp, generate_series(1, 3);
SELECT count(*) FROM emp WHERE random() >= 0;
SELECT count(random()) FROM emp;

-- WITH
WITH paid AS (SELECT dept, sum(salary) AS total FROM emp GROUP BY dept) SELECT * FROM paid ORDER BY dept;
WITH paid AS MATERIALIZED (SELECT dept, sum(salary) AS total FROM emp GROUP BY dept) SELECT max(total) FROM paid;
WITH a AS (SELECT * FROM emp), b AS (SELECT dept, count(*) AS n FROM a GROUP BY dept)
  SELECT a.id, n FROM a JOIN b USING (dept) WHERE a.id < 4 ORDER BY 1;

-- subqueries in FROM, nested, merged and not
SELECT dept, n FROM (SELECT dept, count(*) AS n FROM emp GROUP BY dept) s WHERE n > 2 ORDER BY dept;
SELECT sum(twice) FROM (SELECT salary * 2 AS twice FROM emp WHERE id > 3) s WHERE twice > 8000;
SELECT id FROM (SELECT id FROM emp ORDER BY id LIMIT 3) s ORDER BY id DESC;
SELECT max(n) FROM (SELECT count(*) AS n FROM emp GROUP BY dept) s;
SELECT s.id, t.n FROM (SELECT * FROM emp WHERE id < 3) s, (SELECT count(*) AS n FROM emp) t ORDER BY 1;

-- a table that is not mirrored beside one that is
SELECT emp.id, remark FROM emp JOIN unmirrored USING (id) ORDER BY 1;
SELECT count(*) FROM emp WHERE id IN (SELECT id FROM unmirrored);
SELECT count(*), (SELECT count(*) FROM unmirrored) FROM emp;

-- set operations
SELECT dept FROM emp WHERE id < 3 UNION ALL SELECT dept FROM emp WHERE id > 9 ORDER BY 1;
SELECT dept FROM emp INTERSECT SELECT 'sales' ORDER BY 1;
SELECT dept, count(*) FROM emp GROUP BY dept EXCEPT SELECT 'sales', 3 ORDER BY 1;

-- statements that hold a query
COPY (SELECT dept, sum(salary) FROM emp GROUP BY dept ORDER BY dept) TO STDOUT;
COPY (SELECT * FROM emp WHERE id < 4 ORDER BY id) TO STDOUT WITH (FORMAT csv, HEADER);
CREATE TABLE by_dept AS SELECT dept, count(*) AS n, avg(salary) AS mean FROM emp GROUP BY dept;
SELECT dept, n, round(mean, 2) AS mean FROM by_dept ORDER BY dept;
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
  WHERE attrelid = 'by_dept'::regclass AND attnum > 0 ORDER BY attnum;
SELECT id, salary, dept INTO top FROM emp WHERE salary > 5000;
SELECT * FROM top ORDER BY id;
INSERT INTO by_dept SELECT 'all', count(*), avg(salary) FROM emp;
SELECT dept, n, round(mean, 2) FROM by_dept WHERE dept = 'all';
CREATE MATERIALIZED VIEW yearly AS SELECT extract(year FROM hired) AS year, sum(salary) AS paid FROM emp GROUP BY 1;
SELECT * FROM yearly ORDER BY year;
REFRESH MATERIALIZED VIEW yearly;
SELECT count(*) FROM yearly;
UPDATE by_dept SET n = (SELECT max(id) FROM emp) WHERE dept = 'all' RETURNING dept, n;
DELETE FROM top WHERE id IN (SELECT id FROM emp WHERE dept = 'sales') RETURNING id;

-- rows for update are the heap's
SELECT id, salary FROM emp WHERE id = 1 FOR UPDATE;
SELECT count(*) FROM (SELECT id FROM emp WHERE id < 5 FOR SHARE) s;

-- VALUES, row constructors, arrays over rows
SELECT id, v.name FROM emp JOIN (VALUES ('sales', 'Sales'), ('devel', 'Development')) v(dept, name) USING (dept)
  WHERE id < 8 ORDER BY id;
SELECT ARRAY(SELECT id FROM emp WHERE dept = 'staff' ORDER BY id);
SELECT row(dept, count(*)) FROM emp GROUP BY dept ORDER BY dept;
SELECT to_json(s) FROM (SELECT dept, min(salary) AS least FROM emp GROUP BY dept ORDER BY dept) s;
SELECT json_agg(id ORDER BY id) FROM emp WHERE dept = 'sales';
