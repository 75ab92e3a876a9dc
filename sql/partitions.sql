-- engine: at least 38
--
-- PARTITIONED TABLES AND INHERITANCE
--
-- A table of parts is mirrored as all its parts, including those that come later.
--

CREATE TABLE measure (
    id    integer NOT NULL,
    day   date NOT NULL,
    place text,
    value numeric(8,2),
    PRIMARY KEY (id, day)
) PARTITION BY RANGE (day);
CREATE TABLE measure_2023 PARTITION OF measure FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');
-- its columns stand in another order, and some are gone
CREATE TABLE measure_2024 (gone integer, value numeric(8,2), place text, day date NOT NULL, id integer NOT NULL);
ALTER TABLE measure_2024 DROP COLUMN gone;
ALTER TABLE measure ATTACH PARTITION measure_2024 FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
-- partitions of a partition
CREATE TABLE measure_2025 PARTITION OF measure FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')
    PARTITION BY HASH (id);
CREATE TABLE measure_2025_0 PARTITION OF measure_2025 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE measure_2025_1 PARTITION OF measure_2025 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO measure
    SELECT i, date '2023-01-01' + (i * 7) % 1000, CASE WHEN i % 11 > 0 THEN 'place ' || i % 6 END, i * 0.75
    FROM generate_series(1, 600) i;
SELECT anker.mirror('measure');
SELECT relation FROM anker.mirrored ORDER BY relation::text;
SELECT relation FROM anker.mirrored_parents;
SELECT anker.wait_for_mirror('measure');
SELECT anker.mirror('measure');

SELECT count(*), sum(value), min(day), count(place) FROM measure;
SELECT place, count(*), avg(value) FROM measure GROUP BY place ORDER BY place;
SELECT * FROM measure WHERE id IN (7, 300, 599) ORDER BY id;
SELECT count(*) FROM measure WHERE day BETWEEN '2024-03-01' AND '2025-02-01';
SELECT id, day FROM measure ORDER BY value DESC, id LIMIT 3;
SELECT a.place, count(*) FROM measure a JOIN measure b ON b.id = a.id + 1 AND b.place = a.place GROUP BY 1 ORDER BY 1;
SELECT m.id, m.place, sum(n.value) FROM measure m JOIN measure n USING (place) WHERE m.id < 4 GROUP BY m.id, m.day
  ORDER BY 1;
SELECT count(*) FROM measure_2025;
SELECT count(*) FROM measure_2024 JOIN measure USING (id, day);
SELECT count(*) FROM ONLY measure;
SELECT count(DISTINCT tableoid) FROM measure;
SELECT count(*) FROM measure m WHERE NOT EXISTS (SELECT FROM measure n WHERE n.id = m.id * 2);

-- rows that move from one partition to another
UPDATE measure SET day = day + 365 WHERE id % 10 = 3 AND day < '2024-06-01';
SELECT count(*), sum(value), min(day), max(day) FROM measure;
SELECT count(*), sum(value), max(day) FROM measure_2024;
DELETE FROM measure WHERE id BETWEEN 100 AND 150;
SELECT count(*), sum(id) FROM measure;

-- a partition comes, is filled, is detached, is dropped
CREATE TABLE measure_2026 PARTITION OF measure FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
SELECT anker.wait_for_mirror('measure');
INSERT INTO measure VALUES (1000, '2026-05-05', 'new', 1), (1001, '2026-06-06', NULL, NULL);
SELECT count(*), max(day), count(place) FROM measure;
CREATE TABLE measure_2027 (LIKE measure INCLUDING ALL);
INSERT INTO measure_2027 VALUES (2000, '2027-01-01', 'ready', 2);
ALTER TABLE measure ATTACH PARTITION measure_2027 FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
SELECT anker.wait_for_mirror('measure');
SELECT count(*), max(day) FROM measure;
PREPARE newest AS SELECT count(*), max(day) FROM measure;
EXECUTE newest;
ALTER TABLE measure DETACH PARTITION measure_2027;
EXECUTE newest;
SELECT count(*) FROM measure_2027;
DROP TABLE measure_2026;
EXECUTE newest;
TRUNCATE measure_2025;
SELECT anker.wait_for_mirror('measure');
EXECUTE newest;
ALTER TABLE measure ADD COLUMN more integer DEFAULT 5;
SELECT anker.wait_for_mirror('measure');
SELECT count(*), sum(more) FROM measure;
DEALLOCATE newest;

-- prepared with a condition by which PostgreSQL prunes
SET plan_cache_mode = force_generic_plan;
PREPARE since(date) AS SELECT count(*), min(day) FROM measure WHERE day >= $1;
EXECUTE since('2023-05-01');
EXECUTE since('2024-05-01');
EXECUTE since('2030-01-01');
DEALLOCATE since;
RESET plan_cache_mode;
SELECT count(*) FROM measure WHERE day > '2024-12-31';

-- parts that this transaction has written to
BEGIN;
INSERT INTO measure (id, day, value) VALUES (5000, '2024-07-07', 7);
SELECT count(*), max(id) FROM measure;
SELECT count(*) FROM measure_2023;
ROLLBACK;
SELECT count(*), max(id) FROM measure;

-- a default partition and a list; a partition of its own kind cannot be mirrored
CREATE TABLE kind (id integer, what text, PRIMARY KEY (id, what)) PARTITION BY LIST (what);
SELECT anker.mirror('kind');
CREATE TABLE kind_a PARTITION OF kind FOR VALUES IN ('a');
CREATE UNLOGGED TABLE kind_b PARTITION OF kind FOR VALUES IN ('b');
CREATE TABLE kind_rest PARTITION OF kind DEFAULT;
INSERT INTO kind SELECT i, chr(97 + i % 4) FROM generate_series(1, 40) i;
SELECT relation FROM anker.mirrored WHERE relation::text LIKE 'kind%' ORDER BY relation::text;
SELECT count(*) FROM kind;
SELECT anker.wait_for_mirror('kind');
DROP TABLE kind_b;
SELECT anker.wait_for_mirror('kind');
SELECT what, count(*) FROM kind GROUP BY what ORDER BY what;
CREATE UNLOGGED TABLE kind_b PARTITION OF kind FOR VALUES IN ('b');
SELECT anker.mirror('kind');
DROP TABLE kind;
SELECT relation FROM anker.mirrored_parents;

-- inheritance
CREATE TABLE base (id integer PRIMARY KEY, name text);
CREATE TABLE derived (extra integer, PRIMARY KEY (id)) INHERITS (base);
INSERT INTO base VALUES (1, 'one'), (2, 'two');
INSERT INTO derived VALUES (2, 'again', 22), (3, NULL, 33);
SELECT anker.mirror('base');
SELECT anker.wait_for_mirror('base');
SELECT * FROM base ORDER BY id, name;
SELECT count(*), count(DISTINCT id) FROM base;
SELECT count(*) FROM ONLY base;
SELECT * FROM derived ORDER BY id;
SELECT b.name, d.extra FROM base b JOIN derived d USING (id) ORDER BY 1;
SELECT a.id, count(*) FROM base a JOIN base b ON a.id = b.id GROUP BY a.id ORDER BY 1;
SELECT id, count(*), name IS NULL FROM base GROUP BY id ORDER BY id;
CREATE TABLE later (PRIMARY KEY (id)) INHERITS (derived);
INSERT INTO later VALUES (9, 'later', 99);
SELECT anker.wait_for_mirror('base');
SELECT count(*), count(name) FROM base;
ALTER TABLE later NO INHERIT derived;
SELECT count(*), count(name) FROM base;
ALTER TABLE later INHERIT base;
SELECT count(*), count(name) FROM base;

-- a parent whose children have left it is forgotten, too
CREATE TABLE lone (id integer PRIMARY KEY);
CREATE TABLE left_it (PRIMARY KEY (id)) INHERITS (lone);
SELECT anker.mirror('lone');
ALTER TABLE left_it NO INHERIT lone;
SELECT anker.unmirror('lone');
SELECT relation FROM anker.mirrored_parents WHERE relation = 'lone'::regclass;
SELECT relation FROM anker.mirrored WHERE relation IN ('lone'::regclass, 'left_it'::regclass);
DROP TABLE left_it, lone;

-- a part that is not ready is named
CREATE TABLE whole (id integer PRIMARY KEY);
SELECT anker.mirror('whole');
CREATE UNLOGGED TABLE unlogged () INHERITS (whole);
SELECT anker.wait_for_mirror('whole');
INSERT INTO anker.mirrored VALUES ('unlogged');
DO $$ BEGIN
    FOR i IN 1..1000 LOOP
        EXIT WHEN (SELECT count(*) = 2 FROM anker.tables WHERE relation IN ('whole'::regclass, 'unlogged'::regclass)
            AND (state, relation) IN (('live', 'whole'::regclass), ('unsupported', 'unlogged'::regclass)));
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
SELECT anker.wait_for_mirror('whole', '1 second');
DROP TABLE whole CASCADE;

-- rights: those of the table that is named
CREATE ROLE regress_parts;
GRANT SELECT ON measure TO regress_parts;
SET ROLE regress_parts;
SELECT count(*) FROM measure;
SELECT count(*) FROM measure_2023;
RESET ROLE;
DROP OWNED BY regress_parts;
DROP ROLE regress_parts;

SELECT anker.unmirror('measure');
SELECT anker.unmirror('measure');
SELECT relation FROM anker.mirrored ORDER BY relation::text;
SELECT anker.wait_for_mirror('measure');
SELECT count(*) FROM measure;
DROP TABLE measure, measure_2027;
SELECT relation FROM anker.mirrored_parents;
