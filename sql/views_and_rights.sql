-- engine: at least 13
--
-- VIEWS, PRIVILEGES, ROW-LEVEL SECURITY
--

CREATE TABLE salary (id integer PRIMARY KEY, person text, dept integer, amount numeric(8,2));
CREATE TABLE dept (id integer PRIMARY KEY, name text);
INSERT INTO dept VALUES (1, 'one'), (2, 'two');
INSERT INTO salary VALUES (1, 'alice', 1, 100), (2, 'bob', 1, 200), (3, 'carol', 2, 300), (4, 'regress_reader', 2, 400);
SELECT anker.mirror('salary'), anker.mirror('dept');
SELECT anker.wait_for_mirror('salary') AND anker.wait_for_mirror('dept') AS live;

-- views: of columns, conditions, joins, groups, views
CREATE VIEW low AS SELECT id, amount, dept FROM salary WHERE amount < 350;
CREATE VIEW named AS SELECT low.id, name, amount * 2 AS twice FROM low JOIN dept ON dept = dept.id;
CREATE VIEW totals AS SELECT dept, count(*) AS n, sum(amount) AS total FROM salary GROUP BY dept;
CREATE VIEW first_rows AS SELECT * FROM salary ORDER BY id LIMIT 2;
SELECT * FROM low ORDER BY id;
SELECT count(*), sum(amount) FROM low WHERE id > 1;
SELECT * FROM named ORDER BY id;
SELECT name, sum(twice) FROM named GROUP BY name ORDER BY name;
SELECT * FROM totals ORDER BY dept;
SELECT max(total) FROM totals WHERE n = 2;
SELECT name, total FROM totals JOIN dept ON dept = id ORDER BY name;
SELECT sum(amount) FROM first_rows;
-- the flag may stand in the view or in the query
CREATE VIEW flagged AS SELECT dept, sum(amount) AS total FROM salary WHERE anker.olap() GROUP BY dept;
SELECT * FROM flagged ORDER BY dept;
SELECT sum(amount) FROM low WHERE anker.olap();
-- a view is replaced under a query that was planned
PREPARE of_low AS SELECT count(*) FROM low;
EXECUTE of_low;
CREATE OR REPLACE VIEW low AS SELECT id, amount, dept FROM salary WHERE amount < 250;
EXECUTE of_low;

-- an ordinary user without any right
CREATE ROLE regress_reader;
CREATE ROLE regress_owner;
SET ROLE regress_reader;
SELECT count(*) FROM salary;
SELECT count(*) FROM salary WHERE anker.olap();
SELECT anker.mirror('salary');
SELECT anker.unmirror('salary');
SELECT * FROM anker.verify('salary');
INSERT INTO anker.mirrored VALUES ('salary');
DELETE FROM anker.mirrored;
SELECT * FROM anker.engine_result() AS (id integer);
RESET ROLE;

-- a right on some columns
GRANT SELECT (id, dept) ON salary TO regress_reader;
SET ROLE regress_reader;
SELECT dept, count(*) FROM salary GROUP BY dept ORDER BY dept;
SELECT dept, count(*) FROM salary WHERE anker.olap() GROUP BY dept ORDER BY dept;
SELECT sum(amount) FROM salary;
SELECT sum(amount) FROM salary WHERE anker.olap();
SELECT id FROM salary WHERE amount > 100;
SELECT count(*) FROM salary WHERE amount > 100 AND anker.olap();
SELECT * FROM salary;
SELECT id FROM salary ORDER BY amount;
RESET ROLE;

-- a right on a view, checked as its owner's on the table below
GRANT SELECT ON totals, flagged TO regress_reader;
SET ROLE regress_reader;
SELECT * FROM totals ORDER BY dept;
SELECT * FROM flagged ORDER BY dept;
SELECT count(*) FROM low;
RESET ROLE;
CREATE VIEW invoked WITH (security_invoker) AS SELECT dept, amount FROM salary;
GRANT SELECT ON invoked TO regress_reader;
SET ROLE regress_reader;
SELECT count(*) FROM invoked;
SELECT sum(amount) FROM invoked WHERE anker.olap();
RESET ROLE;

-- a right that is taken away between two executions
GRANT SELECT ON salary TO regress_reader;
SET plan_cache_mode = force_generic_plan;
SET ROLE regress_reader;
PREPARE p AS SELECT sum(amount) FROM salary WHERE anker.olap();
EXECUTE p;
RESET ROLE;
REVOKE ALL ON salary FROM regress_reader;
REVOKE ALL (id, dept) ON salary FROM regress_reader;
SET ROLE regress_reader;
EXECUTE p;
RESET ROLE;
EXECUTE p;
RESET plan_cache_mode;

-- a function that runs as its owner
CREATE FUNCTION payroll() RETURNS numeric LANGUAGE sql SECURITY DEFINER AS $$ SELECT sum(amount) FROM salary $$;
SET ROLE regress_reader;
SELECT payroll();
SELECT sum(amount) FROM salary;
RESET ROLE;

-- nobody looks behind a view that hides rows: the function of a condition sees
-- only what the view shows
CREATE VIEW hidden WITH (security_barrier) AS SELECT id, person FROM salary WHERE amount < 150;
GRANT SELECT ON hidden TO regress_reader;
CREATE FUNCTION spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
    RAISE NOTICE 'saw %', $1;
    RETURN true;
END $$;
SET ROLE regress_reader;
SELECT id FROM hidden WHERE spy(person);
SELECT count(*) FROM hidden WHERE person > 'a';
RESET ROLE;

-- row-level security
GRANT SELECT ON salary TO regress_reader, regress_owner;
ALTER TABLE salary ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON salary FOR SELECT USING (person = current_user);
SELECT count(*), sum(amount) FROM salary;
SET ROLE regress_reader;
SELECT count(*), sum(amount) FROM salary;
SELECT count(*), sum(amount) FROM salary WHERE anker.olap();
SELECT name, sum(amount) FROM salary JOIN (SELECT 1 AS id, 'one' AS name) d ON dept = d.id OR true GROUP BY name;
SET row_security = off;
SELECT count(*) FROM salary;
RESET row_security;
RESET ROLE;
ALTER TABLE salary OWNER TO regress_owner;
SET ROLE regress_owner;
SELECT count(*) FROM salary;
ALTER TABLE salary FORCE ROW LEVEL SECURITY;
SELECT count(*) FROM salary;
SELECT count(*) FROM salary WHERE anker.olap();
ALTER TABLE salary DISABLE ROW LEVEL SECURITY;
SELECT count(*) FROM salary;
RESET ROLE;
SELECT anker.wait_for_mirror('salary');
SELECT count(*), sum(amount) FROM salary;

-- SET SESSION AUTHORIZATION
SET SESSION AUTHORIZATION regress_reader;
SELECT count(*) FROM dept;
SELECT count(*) FROM salary;
RESET SESSION AUTHORIZATION;

-- the right to execute functions, which are the server's own
REVOKE EXECUTE ON FUNCTION max(integer), int4pl(integer, integer) FROM PUBLIC;
PREPARE greatest_id AS SELECT max(id) FROM salary;
EXECUTE greatest_id;
SET ROLE regress_reader;
EXECUTE greatest_id;
SELECT max(id) FROM salary;
SELECT count(*) FROM salary WHERE id + 1 = 3;
SELECT count(*) FROM (SELECT id FROM salary WHERE id + 1 > 0 LIMIT 2) s;
SELECT count(*) FROM salary;
RESET ROLE;
SELECT max(id), count(*) FROM salary WHERE id + 1 > 0;
GRANT EXECUTE ON FUNCTION max(integer), int4pl(integer, integer) TO PUBLIC;
DEALLOCATE greatest_id;

-- everyone may look at the state
SET ROLE regress_reader;
SELECT relation, state, rows FROM anker.tables ORDER BY relation::text;
SELECT relation FROM anker.mirrored ORDER BY relation::text;
SELECT state FROM anker.engine;
SELECT cardinality(d.request_to_ready_us) = coalesce((e.request_to_ready_us->>'count')::integer, 0) AS counted
    FROM anker.engine e, anker.latest_delays() d;
SELECT anker.olap();
RESET ROLE;

-- roles are the cluster's, not the database's
REASSIGN OWNED BY regress_owner TO CURRENT_USER;
DROP OWNED BY regress_reader, regress_owner;
DROP ROLE regress_reader, regress_owner;
