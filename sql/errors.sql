-- engine: at least 26
--
-- ERRORS
--
-- A query raises the same error as on the heap, with its SQLSTATE, and no other one.
--
\set VERBOSITY sqlstate

CREATE TABLE edge (
    id integer PRIMARY KEY,
    i2 smallint,
    i4 integer,
    i8 bigint,
    n  numeric(38,0),
    f8 double precision,
    d  date,
    t  text
);
INSERT INTO edge VALUES
    (1,  32767,  2147483647,  9223372036854775807,  99999999999999999999999999999999999999, 1e308, '5874897-12-31', '1'),
    (2, -32768, -2147483648, -9223372036854775808, -99999999999999999999999999999999999999, 1e-308, '4713-01-01 BC', 'two'),
    (3, 0, 0, 0, 0, 0, '2024-01-01', ''),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT anker.mirror('edge');
SELECT anker.wait_for_mirror('edge');

-- overflow: integers
SELECT i2 + i2 FROM edge WHERE id = 1;
SELECT i4 + 1 FROM edge WHERE id = 1;
SELECT i4 - 1 FROM edge WHERE id = 2;
SELECT -i4 FROM edge WHERE id = 2;
SELECT i4 * 2 FROM edge WHERE id = 1;
SELECT i8 + 1 FROM edge WHERE id = 1;
SELECT -i8 FROM edge WHERE id = 2;
SELECT i4 / -1 FROM edge WHERE id = 2;
SELECT i4 % -1 FROM edge WHERE id = 2;
SELECT i8 % -1 FROM edge WHERE id = 2;
SELECT count(*) FROM edge WHERE i4 + 1 > 0;
SELECT sum(i4 + 1) FROM edge;
SELECT sum(i4 + 1) FROM edge WHERE id > 1;
SELECT sum(i8), avg(i8) FROM edge;
SELECT sum(i8 * 2) FROM edge;
SELECT i4 + 1 AS next, count(*) FROM edge GROUP BY i4 + 1;

-- division by zero
SELECT 1 / i4 FROM edge WHERE id = 3;
SELECT i4 % i2 FROM edge WHERE id = 3;
SELECT f8 / 0 FROM edge WHERE id = 3;
SELECT n / 0 FROM edge WHERE id = 3;
SELECT count(*) FROM edge WHERE 10 / i4 > 0;
SELECT avg(1 / id) FROM edge WHERE id > 10;
SELECT sum(1 / (id - 1)) FROM edge;
SELECT id / (count(*) - 1) FROM edge GROUP BY id;

-- doubles out of range
SELECT f8 * 10 FROM edge WHERE id = 1;
SELECT f8 / 1e308 FROM edge WHERE id = 2;
SELECT max(f8 * 10) FROM edge;
SELECT f8 * 'Infinity' FROM edge WHERE id = 1;

-- numeric grows until it does not fit its target
SELECT n * n FROM edge WHERE id = 1;
SELECT sum(n), sum(n * 10) FROM edge WHERE id = 1;
SELECT (n * 10)::numeric(38,0) FROM edge WHERE id = 1;
SELECT n::bigint FROM edge WHERE id = 1;
SELECT i8::integer FROM edge WHERE id = 1;
SELECT i4::smallint FROM edge WHERE id = 1;
SELECT f8::integer FROM edge WHERE id = 1;

-- dates
SELECT d + 1 FROM edge WHERE id = 1;
SELECT d - 1 FROM edge WHERE id = 2;
SELECT d::timestamp FROM edge WHERE id = 1;
SELECT count(*) FROM edge WHERE d + 2147483647 > d;
SELECT max(d + 1) FROM edge WHERE id = 3;

-- casts of text, and functions above the engine
SELECT t::integer FROM edge WHERE id = 1;
SELECT t::integer FROM edge ORDER BY id;
SELECT sqrt(i4) FROM edge WHERE id = 2;
SELECT repeat(t, i4) FROM edge WHERE id = 1;

-- errors of a value without columns
SELECT count(*) FROM edge WHERE id > 1 / 0;
SELECT count(*) FROM edge WHERE id > 'x'::text::integer;
SELECT count(*) FROM edge WHERE id > 0 AND id > (1 / (SELECT 0));
SELECT sum(i4 * (1 / (i4 - i4))) FROM edge WHERE false;

-- expressions that are not evaluated raise no error
SELECT CASE WHEN i4 = 0 THEN 0 ELSE 10 / i4 END FROM edge ORDER BY id;
SELECT count(*) FROM edge WHERE i4 <> 0 AND id < 3 AND CASE WHEN i4 <> 0 THEN 10 / i4 = 0 ELSE false END;
SELECT coalesce(id, 1 / 0) FROM edge ORDER BY id;
SELECT sum(1 / i4) FROM edge WHERE id = 4;
SELECT 1 / i4 FROM edge WHERE id = 3 LIMIT 0;

-- errors of parse analysis
SELECT nothing FROM edge;
SELECT count(*) FROM edge WHERE t = 1;
SELECT sum(t) FROM edge;
SELECT i4, count(*) FROM edge;
SELECT count(count(*)) FROM edge;
SELECT count(*) FROM edge WHERE count(*) > 1;
SELECT (SELECT id FROM edge);
SELECT anker.olap(1);

-- an error of a user's function: its own code, names and place
CREATE FUNCTION refuse(n integer) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused: %', n
      USING ERRCODE = 'AN123', DETAIL = 'on purpose', HINT = 'do not ask', TABLE = 'edge', COLUMN = 'id';
END $$;
\set VERBOSITY default
SELECT refuse(id) FROM edge WHERE id = 3;
SELECT id FROM edge WHERE refuse(id) > 0 AND id = 3;
SELECT max(refuse(id)) FROM edge WHERE id = 3;
SELECT refuse(count(*)::integer) FROM edge;
-- the texts of the commonest
SELECT i4 + 1 FROM edge WHERE id = 1;
SELECT sum(10 / i4) FROM edge;
SELECT d + 1 FROM edge WHERE id = 1;
SELECT max(f8 * 10) FROM edge;
SELECT count(*) FROM edge WHERE nothing = 1;

-- caught
DO $$
BEGIN
    PERFORM sum(10 / i4) FROM edge;
EXCEPTION WHEN division_by_zero THEN
    RAISE NOTICE 'caught %', SQLERRM;
END $$;
SELECT count(*) FROM edge;

-- a timeout while values are evaluated, by the planner or when the query starts, leaves
-- the session as it should be; only the heap knows where in the function it came
\set SHOW_CONTEXT never
CREATE FUNCTION slow() RETURNS integer LANGUAGE plpgsql STABLE AS $$
BEGIN
    PERFORM pg_sleep(10);
    RETURN 1;
END $$;
SET statement_timeout = '100ms';
SELECT count(*) FROM edge WHERE id > slow();
SELECT sum(id + slow()) FROM edge;
SELECT id + slow() FROM edge WHERE id > slow();
BEGIN;
INSERT INTO edge (id) VALUES (5);
SELECT sum(id + slow()) FROM edge;
SELECT 1;
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT sum(id + slow()) FROM edge;
ROLLBACK TO s;
SELECT count(*) FROM edge;
INSERT INTO edge (id) VALUES (6);
COMMIT;
DO $$
BEGIN
    INSERT INTO edge (id) VALUES (7);
    PERFORM sum(id + slow()) FROM edge;
EXCEPTION WHEN query_canceled THEN
    RAISE NOTICE 'cancelled';
END $$;
RESET statement_timeout;
INSERT INTO edge (id) VALUES (8);
SELECT id FROM edge WHERE id > 4 ORDER BY id;
\c -
SELECT id FROM edge WHERE id > 4 ORDER BY id;
SELECT count(*) FROM edge;
