-- engine: at least 15
--
-- CURSORS
--

CREATE TABLE item (id integer PRIMARY KEY, grp integer, label text);
INSERT INTO item SELECT i, i % 3, 'item ' || i FROM generate_series(1, 12) i;
SELECT anker.mirror('item');
SELECT anker.wait_for_mirror('item');

-- forward
BEGIN;
DECLARE c CURSOR FOR SELECT id, label FROM item WHERE anker.olap() ORDER BY id;
FETCH c;
FETCH 2 FROM c;
MOVE 3 FROM c;
FETCH FORWARD 2 FROM c;
FETCH ALL FROM c;
FETCH c;
CLOSE c;
COMMIT;

-- scrolling
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT grp, count(*) FROM item WHERE anker.olap() GROUP BY grp ORDER BY grp;
FETCH LAST FROM c;
FETCH PRIOR FROM c;
FETCH FIRST FROM c;
FETCH ABSOLUTE 3 FROM c;
FETCH RELATIVE -1 FROM c;
FETCH BACKWARD ALL FROM c;
FETCH ALL FROM c;
COMMIT;

BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT id FROM item WHERE anker.olap() ORDER BY id;
FETCH 2 FROM c;
FETCH PRIOR FROM c;
ROLLBACK;

-- several at once, one within a savepoint
BEGIN;
DECLARE a CURSOR FOR SELECT id FROM item WHERE anker.olap() ORDER BY id;
DECLARE b CURSOR FOR SELECT id FROM item WHERE anker.olap() ORDER BY id DESC;
FETCH 2 FROM a;
SAVEPOINT s;
DECLARE d CURSOR FOR SELECT count(*) FROM item WHERE anker.olap();
FETCH d;
FETCH 2 FROM b;
ROLLBACK TO s;
FETCH d;
ROLLBACK TO s;
FETCH 2 FROM a;
FETCH 2 FROM b;
COMMIT;

-- the rows are those from when the cursor was opened
BEGIN;
DECLARE c CURSOR FOR SELECT count(*), sum(id) FROM item WHERE anker.olap();
DECLARE r CURSOR FOR SELECT id FROM item WHERE grp = 0 AND anker.olap() ORDER BY id;
FETCH 1 FROM r;
DELETE FROM item WHERE id > 5;
UPDATE item SET id = id + 100, grp = 0;
FETCH ALL FROM c;
FETCH ALL FROM r;
SELECT count(*), sum(id) FROM item WHERE anker.olap();
ROLLBACK;
SELECT count(*), sum(id) FROM item WHERE anker.olap();

-- WITH HOLD: the rows as they were before the commit
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, label FROM item WHERE anker.olap() ORDER BY id;
FETCH 2 FROM h;
COMMIT;
DELETE FROM item WHERE id = 3;
FETCH 2 FROM h;
FETCH LAST FROM h;
FETCH ABSOLUTE 3 FROM h;
CLOSE h;
INSERT INTO item VALUES (3, 0, 'item 3');

-- a cursor that is never read, and one that is left open
BEGIN;
DECLARE unread CURSOR FOR SELECT id FROM item WHERE anker.olap();
COMMIT;
BEGIN;
DECLARE open CURSOR FOR SELECT a.id FROM item a, item b WHERE a.grp = b.grp AND anker.olap();
FETCH 1 FROM open \gset
ROLLBACK;

-- WHERE CURRENT OF
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM item ORDER BY id;
FETCH 2 FROM c;
UPDATE item SET label = 'current' WHERE CURRENT OF c RETURNING id, label;
ROLLBACK;

-- DDL under an open cursor is refused, as PostgreSQL does
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM item WHERE anker.olap() ORDER BY id;
FETCH 1 FROM c;
TRUNCATE item;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM item WHERE anker.olap() ORDER BY id;
ALTER TABLE item DROP COLUMN label;
ROLLBACK;

-- in PL/pgSQL: FOR over a query, an explicit cursor, a reference handed out
DO $$
DECLARE
    r record;
    total integer := 0;
    c CURSOR (lowest integer) FOR SELECT id FROM item WHERE id > lowest AND anker.olap() ORDER BY id;
    found_id integer;
BEGIN
    FOR r IN SELECT grp, count(*) AS n FROM item WHERE anker.olap() GROUP BY grp ORDER BY grp LOOP
        RAISE NOTICE 'group %: %', r.grp, r.n;
    END LOOP;
    FOR r IN c(9) LOOP
        total := total + r.id;
    END LOOP;
    RAISE NOTICE 'total %', total;
    OPEN c(5);
    FETCH c INTO found_id;
    MOVE RELATIVE 2 FROM c;
    FETCH c INTO found_id;
    CLOSE c;
    RAISE NOTICE 'found %', found_id;
END $$;
CREATE FUNCTION items(refcursor) RETURNS refcursor LANGUAGE plpgsql AS $$
BEGIN
    OPEN $1 FOR SELECT id FROM item WHERE anker.olap() ORDER BY id DESC;
    RETURN $1;
END $$;
BEGIN;
SELECT items('handed out');
FETCH 2 FROM "handed out";
COMMIT;

-- psql fetches in portions
\set FETCH_COUNT 5
SELECT id, label FROM item WHERE anker.olap() ORDER BY id;
\unset FETCH_COUNT

-- no cursor, no transaction block
DECLARE c CURSOR FOR SELECT id FROM item WHERE anker.olap();
FETCH c;

-- a cursor that scrolls back over groups that did not fit into memory
CREATE TABLE many (id integer PRIMARY KEY, g integer);
INSERT INTO many SELECT i, i % 5000 FROM generate_series(1, 40000) i;
SELECT anker.mirror('many');
SELECT anker.wait_for_mirror('many');
SET work_mem = '64kB';
BEGIN;
DECLARE back SCROLL CURSOR WITH HOLD FOR SELECT g, array_agg(id ORDER BY id) FROM many GROUP BY g;
MOVE ALL IN back;
MOVE ABSOLUTE 0 IN back;
MOVE FORWARD ALL IN back;
MOVE BACKWARD 3 IN back;
COMMIT;
MOVE ABSOLUTE 0 IN back;
MOVE FORWARD 7 IN back;
CLOSE back;
RESET work_mem;
