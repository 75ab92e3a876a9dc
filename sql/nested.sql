-- engine: at least 24
--
-- DISTINCT AND WINDOW FUNCTIONS OF THE QUERY ITSELF
--
-- The engine computes them as in a subquery; PostgreSQL computes the others above it.
--

CREATE TABLE visit (id integer PRIMARY KEY, shop integer, city text, spent numeric(8,2), bill numeric, day date, mood real, note varchar(20) COLLATE "C");
INSERT INTO visit SELECT i, nullif(i % 7, 6), 'city ' || i % 5, nullif(i * 37 % 50, 7) * 0.5, (i % 4)::numeric(4,1),
  date '2024-02-27' + i % 9, CASE i % 11 WHEN 0 THEN 'NaN'::real WHEN 1 THEN 7 ELSE i % 3 END, nullif('note ' || i % 13, 'note 9') FROM generate_series(1, 120) i;
CREATE TABLE none (id integer PRIMARY KEY, n integer);
ANALYZE visit, none;
SELECT anker.mirror('visit'), anker.mirror('none');
SELECT anker.wait_for_mirror('visit') AND anker.wait_for_mirror('none') AS live;

-- each row once
SELECT DISTINCT city FROM visit ORDER BY city;
SELECT DISTINCT city, shop FROM visit WHERE id < 30 ORDER BY shop DESC NULLS LAST, city LIMIT 7 OFFSET 3;
SELECT DISTINCT shop AS s, shop + 1, shop AS s FROM visit ORDER BY 2 NULLS FIRST;
SELECT DISTINCT extract(month FROM day) AS m, spent > 10 AS dear FROM visit ORDER BY dear, m;
SELECT DISTINCT mood FROM visit ORDER BY mood;
SELECT DISTINCT count(*) FROM visit GROUP BY city, shop ORDER BY 1;
SELECT DISTINCT shop FROM visit GROUP BY shop, city HAVING sum(spent) > 40 ORDER BY shop;
SELECT DISTINCT 1 FROM visit;
SELECT DISTINCT 1, NULL::date FROM none;
SELECT DISTINCT n FROM none ORDER BY n;
SELECT DISTINCT (SELECT max(v.day) FROM visit v WHERE v.shop = w.shop) AS latest FROM visit w ORDER BY 1;
SELECT DISTINCT note FROM visit WHERE note > 'note 5' ORDER BY note FETCH FIRST 3 ROWS WITH TIES;
WITH w AS (SELECT DISTINCT shop, day FROM visit) SELECT DISTINCT a.day FROM w a JOIN w b ON a.day = b.day + 1 AND a.shop = b.shop ORDER BY 1;
SELECT count(*) FROM (SELECT DISTINCT bill FROM visit) s;

-- the first row of each set of equal ones
SELECT DISTINCT ON (city) city, id, spent FROM visit ORDER BY city, spent DESC NULLS LAST, id;
SELECT DISTINCT ON (shop) id FROM visit ORDER BY shop DESC, day, id LIMIT 4;
SELECT DISTINCT ON (spent > 10) count(*) OVER (PARTITION BY shop) AS n, id FROM visit ORDER BY spent > 10, id DESC;
SELECT DISTINCT ON (sum(spent) > 100) city, shop FROM visit GROUP BY city, shop ORDER BY sum(spent) > 100, sum(spent), city, shop;

-- window functions of rows in an order
SELECT id, rank() OVER (PARTITION BY city ORDER BY spent) AS place FROM visit ORDER BY place DESC, id LIMIT 5;
SELECT id, sum(spent) OVER (ORDER BY id ROWS 2 PRECEDING) FROM visit WHERE id < 9 ORDER BY id;
SELECT city, sum(spent), rank() OVER (ORDER BY sum(spent) DESC) FROM visit GROUP BY city ORDER BY 3;
SELECT city, sum(spent) FROM visit GROUP BY city ORDER BY rank() OVER (ORDER BY sum(spent)), city;
SELECT DISTINCT shop, count(*) OVER w, max(day) OVER w FROM visit WINDOW w AS (PARTITION BY shop) ORDER BY 1;
SELECT id, lag(spent, 2, 0.0) OVER (ORDER BY id) - spent AS change FROM visit ORDER BY day, id FETCH FIRST 4 ROWS ONLY;
SELECT day, row_number() OVER (ORDER BY day, id) FROM visit WHERE shop = 2 ORDER BY 2 DESC OFFSET 12;

-- rows keep the order of a subquery if the query names no other order
CREATE TABLE lined (id integer PRIMARY KEY, a integer, b integer);
INSERT INTO lined SELECT i, i % 3, i % 2 FROM generate_series(1, 60) i;
ANALYZE lined;
SELECT anker.mirror('lined');
SELECT anker.wait_for_mirror('lined');
SELECT DISTINCT ON (a) a, id FROM (SELECT * FROM lined ORDER BY a, id DESC) s ORDER BY a;
SELECT sum(id) FROM (SELECT DISTINCT ON (a) a, id FROM (SELECT * FROM lined ORDER BY a, id DESC) s ORDER BY a) t;
WITH w AS MATERIALIZED (SELECT * FROM lined ORDER BY a, id DESC) SELECT max(id) FROM (SELECT DISTINCT ON (a) a, id FROM w ORDER BY a) t;
SELECT id, row_number() OVER (PARTITION BY a ORDER BY a) FROM (SELECT * FROM lined ORDER BY a, id DESC) s ORDER BY id LIMIT 4;
SELECT sum(id * n) FROM (SELECT id, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM (SELECT * FROM lined ORDER BY a, b, id DESC OFFSET 0) s) t;
SELECT DISTINCT first_value(id) OVER (PARTITION BY a ORDER BY b) FROM (SELECT * FROM lined ORDER BY a, b, id DESC) s ORDER BY 1;
SELECT DISTINCT ON (a) a, 10 / (id - 60) FROM lined ORDER BY a, id;
-- also if PostgreSQL computes the deciding value, and through a subquery that keeps the order of rows
SELECT id, row_number() OVER (PARTITION BY a ORDER BY b) FROM (SELECT * FROM lined ORDER BY a, b, id DESC) s LIMIT 4;
SELECT DISTINCT ON (a) a, id, quote_literal(b::text) FROM (SELECT * FROM lined ORDER BY a, id DESC) s ORDER BY a;
SELECT DISTINCT ON (a) a, id FROM (SELECT a + 0 AS a, id FROM (SELECT * FROM lined ORDER BY a, id DESC OFFSET 0) x WHERE id < 50 OFFSET 0) y ORDER BY a;
WITH w AS MATERIALIZED (SELECT * FROM lined ORDER BY b, id DESC), v AS MATERIALIZED (SELECT b, id FROM w)
  SELECT sum(id) FROM (SELECT DISTINCT ON (b) b, id FROM v ORDER BY b) t;
-- windows with the same order see rows that are alike in the same order
SELECT count(*) FROM (SELECT a, b, n, running, sum(id) OVER (PARTITION BY a ORDER BY b, n ROWS UNBOUNDED PRECEDING) AS again FROM
  (SELECT id, a, b, row_number() OVER (PARTITION BY a ORDER BY b) AS n, sum(id) OVER (ORDER BY id % 7) AS other,
    sum(id) OVER (PARTITION BY a ORDER BY b ROWS UNBOUNDED PRECEDING) AS running FROM lined OFFSET 0) s) t WHERE running <> again;
-- rows come in the order of their windows if that order begins with ORDER BY
SELECT a, id, rank() OVER (PARTITION BY a ORDER BY id DESC) FROM lined ORDER BY a LIMIT 3;
SELECT DISTINCT ON (a) a, id, row_number() OVER (PARTITION BY a ORDER BY id DESC) FROM lined ORDER BY a;

-- equality of another operator class
CREATE FUNCTION lt(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 < $2 % 2';
CREATE FUNCTION le(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 <= $2 % 2';
CREATE FUNCTION eq(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = $2 % 2';
CREATE FUNCTION ge(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 >= $2 % 2';
CREATE FUNCTION gt(integer, integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 > $2 % 2';
CREATE FUNCTION cmp(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($1 % 2, $2 % 2)';
CREATE OPERATOR <# (LEFTARG = integer, RIGHTARG = integer, FUNCTION = lt);
CREATE OPERATOR <=# (LEFTARG = integer, RIGHTARG = integer, FUNCTION = le);
CREATE OPERATOR =# (LEFTARG = integer, RIGHTARG = integer, FUNCTION = eq);
CREATE OPERATOR >=# (LEFTARG = integer, RIGHTARG = integer, FUNCTION = ge);
CREATE OPERATOR ># (LEFTARG = integer, RIGHTARG = integer, FUNCTION = gt);
CREATE OPERATOR CLASS parity FOR TYPE integer USING btree AS
  OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 cmp(integer, integer);
SELECT count(*) FROM (SELECT DISTINCT id FROM lined ORDER BY id USING <#) s;
SELECT count(*) FROM (SELECT id FROM lined GROUP BY id ORDER BY id USING >#) s;
SELECT count(DISTINCT s.n) FROM (SELECT count(*) OVER (PARTITION BY id ORDER BY id USING <#) AS n FROM lined) s;
SELECT array_length(array_agg(DISTINCT id ORDER BY id USING <#), 1) FROM lined;
DROP OPERATOR FAMILY parity USING btree;

-- functions that stay above the engine
SELECT DISTINCT quote_literal(city) FROM visit ORDER BY 1;
SELECT DISTINCT city, generate_series(1, 2) AS n FROM visit ORDER BY 1, 2 LIMIT 3;
SELECT DISTINCT ON (city) quote_ident(city), id FROM visit ORDER BY city, id;
SELECT id, sum(mood) OVER (ORDER BY id) FROM visit WHERE id BETWEEN 12 AND 15 ORDER BY id;

-- parameters, cursors, statements that read the rows
PREPARE seen(integer, bigint) AS SELECT DISTINCT shop, day + $1 AS later FROM visit WHERE shop < $1 ORDER BY later, shop LIMIT $2;
EXECUTE seen(2, 3);
EXECUTE seen(1, NULL);
DEALLOCATE seen;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT city FROM visit ORDER BY city;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH LAST FROM c;
COMMIT;
CREATE TABLE cities AS SELECT DISTINCT city FROM visit;
INSERT INTO cities SELECT DISTINCT city FROM visit WHERE shop = 1;
SELECT city, count(*) FROM cities GROUP BY city ORDER BY city;
COPY (SELECT DISTINCT shop FROM visit ORDER BY shop) TO STDOUT;
-- an error that is raised, and one that is not
SELECT DISTINCT 10 / (shop - 3) FROM visit ORDER BY 1;
SELECT DISTINCT 10 / (shop - 3) FROM visit WHERE shop <> 3 ORDER BY 1;
