-- engine: at least 59
--
-- PREPARED STATEMENTS AND PARAMETERS
--

CREATE TABLE part (id integer PRIMARY KEY, size smallint, price numeric(8,2), name text, made date, ok boolean);
INSERT INTO part
  SELECT i, i % 4, i * 1.5, 'part ' || i % 5, date '2024-01-01' + i, i % 2 = 0 FROM generate_series(1, 20) i;
SELECT anker.mirror('part');
SELECT anker.wait_for_mirror('part');

-- no parameter
PREPARE plain AS SELECT size, count(*) FROM part GROUP BY size ORDER BY size;
EXECUTE plain;
EXECUTE plain;

-- parameters of every type, in conditions
PREPARE by_id(integer) AS SELECT count(*), sum(price) FROM part WHERE id > $1;
EXECUTE by_id(10);
EXECUTE by_id(NULL);
EXECUTE by_id('15');
EXECUTE by_id(3 + 4);
PREPARE by_all(smallint, numeric, text, date, boolean) AS
  SELECT id FROM part WHERE size = $1 AND price > $2 AND name <> $3 AND made >= $4 AND ok = $5 ORDER BY id;
EXECUTE by_all(2, 2, 'part 2', '2024-01-05', true);
EXECUTE by_all(2, 2.999999999, 'part 0', '-infinity', true);
EXECUTE by_all(1, 'NaN', 'part 0', 'epoch', false);
EXECUTE by_all(3, NULL, NULL, NULL, NULL);

-- the first five plans are made for their values, then one is kept
SET plan_cache_mode = auto;
EXECUTE by_id(1); EXECUTE by_id(2); EXECUTE by_id(3); EXECUTE by_id(4); EXECUTE by_id(5); EXECUTE by_id(6); EXECUTE by_id(7);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_id(8);
EXECUTE by_all(2, 2, 'part 2', '2024-01-05', true);
SET plan_cache_mode = force_custom_plan;
EXECUTE by_id(9);
RESET plan_cache_mode;

-- in select list, HAVING, LIMIT and lists
PREPARE shown(integer, text) AS SELECT id + $1, name || $2 FROM part WHERE id < 4 ORDER BY id;
EXECUTE shown(100, '!');
EXECUTE shown(NULL, NULL);
PREPARE grouped(bigint, integer) AS
  SELECT name, count(*) FROM part GROUP BY name HAVING count(*) >= $1 ORDER BY name LIMIT $2;
EXECUTE grouped(1, 2);
EXECUTE grouped(100, NULL);
PREPARE listed(integer[]) AS SELECT id, name FROM part WHERE id = ANY ($1) ORDER BY id;
EXECUTE listed('{1,3,99}');
EXECUTE listed('{}');
EXECUTE listed(NULL);
PREPARE several(integer, integer) AS SELECT count(*) FROM part WHERE id IN ($1, $2, 7);
EXECUTE several(1, 2);
EXECUTE several(NULL, 2);
PREPARE sized(integer) AS SELECT size + $1 AS s, sum(price) FROM part GROUP BY size + $1 ORDER BY 1;
EXECUTE sized(0);
EXECUTE sized(10);
PREPARE summed(numeric) AS SELECT sum(price * $1) FROM part;
EXECUTE summed(2);
EXECUTE summed(0.001);

-- a parameter that overflows or does not fit
EXECUTE shown(2147483647, '');
EXECUTE by_id('ten');
EXECUTE by_id(1, 2);

-- rows between executions
INSERT INTO part VALUES (21, 1, 1, 'part new', '2024-02-01', true);
EXECUTE plain;
DELETE FROM part WHERE id = 21;
EXECUTE plain;

-- a change of the table between executions
SET plan_cache_mode = force_generic_plan;
ALTER TABLE part ADD COLUMN extra integer DEFAULT 7;
EXECUTE plain;
SELECT anker.wait_for_mirror('part');
EXECUTE by_id(0);
PREPARE extra AS SELECT sum(extra) FROM part;
EXECUTE extra;
ALTER TABLE part DROP COLUMN extra;
EXECUTE extra;
EXECUTE plain;
PREPARE everything AS SELECT * FROM part WHERE id = 1;
EXECUTE everything;
ALTER TABLE part ALTER COLUMN size TYPE integer;
EXECUTE everything;
EXECUTE by_id(0);
RESET plan_cache_mode;
SELECT anker.wait_for_mirror('part');
EXECUTE by_id(0);

DEALLOCATE plain;
EXECUTE plain;
DISCARD PLANS;
EXECUTE by_id(19);
DEALLOCATE ALL;

-- the extended protocol's parameters, through PL/pgSQL and EXECUTE ... USING
CREATE FUNCTION count_above(lowest integer) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE n bigint;
BEGIN
    SELECT count(*) INTO n FROM part WHERE id > lowest;
    RETURN n;
END $$;
SELECT count_above(5), count_above(NULL), count_above(19);
SELECT g, count_above(g) FROM generate_series(0, 8) g ORDER BY g;
CREATE FUNCTION named(wanted text) RETURNS SETOF integer LANGUAGE sql STABLE AS
  $$ SELECT id FROM part WHERE name = wanted ORDER BY id $$;
SELECT * FROM named('part 3');
SELECT named('part 4') ORDER BY 1;
DO $$
DECLARE n numeric;
BEGIN
    EXECUTE 'SELECT sum(price) FROM part WHERE size = $1 AND ok = $2' INTO n USING 2::smallint, true;
    RAISE NOTICE 'sum %', n;
    EXECUTE 'SELECT sum(price) FROM part WHERE made < $1' INTO n USING date '2024-01-03';
    RAISE NOTICE 'sum %', n;
END $$;

-- the flag in a function's body
DO $$
BEGIN
    IF anker.olap() THEN
        RAISE NOTICE 'olap() is true';
    END IF;
    RAISE NOTICE '% parts', (SELECT count(*) FROM part WHERE anker.olap());
END $$;

-- lists of parameters, which are looked up, in every place
SET plan_cache_mode = force_generic_plan;
PREPARE listed_order (text) AS
  SELECT name, sum(size) FROM part GROUP BY name ORDER BY (name IN ($1, 'part 2'))::text, name LIMIT 4;
EXECUTE listed_order('part 0');
PREPARE listed_all (text) AS SELECT id, size FROM part ORDER BY name IN ($1, 'part 2') DESC, id;
EXECUTE listed_all('part 0');
PREPARE listed_inside (text) AS
  SELECT * FROM (SELECT id, name IN ($1, 'part 2') AS x FROM part ORDER BY name IN ($1, 'part 3'), id LIMIT 9) s ORDER BY 1;
EXECUTE listed_inside('part 0');
PREPARE listed_groups (text) AS
  SELECT x, count(*) FROM (SELECT name, max(name) IN ($1, 'part 2') AS x FROM part GROUP BY name) s GROUP BY x ORDER BY 1;
EXECUTE listed_groups('part 0');
PREPARE listed_window (text) AS
  SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY name IN ($1, 'part 2') ORDER BY id) AS r FROM part) s WHERE r < 3 ORDER BY 1;
EXECUTE listed_window('part 0');
PREPARE listed_having (text) AS
  SELECT name, sum(size) FROM part GROUP BY name HAVING name IN ($1, 'part 2') OR NOT (max(name) <> $1) OR sum(size) IS NULL ORDER BY name LIMIT 4;
EXECUTE listed_having('part 0');
EXECUTE listed_having(NULL);
RESET plan_cache_mode;

-- lists in the condition of an outer join
PREPARE some_left (integer[]) AS SELECT count(*), count(q.id) FROM part p LEFT JOIN part q ON q.size = p.id AND q.id = ANY ($1);
EXECUTE some_left('{1,2,7,NULL}');
PREPARE some_full (integer[], text[]) AS SELECT count(*), count(p.id), count(q.id) FROM part p FULL JOIN part q ON q.size = p.id AND q.id = ANY ($1) AND p.name <> ALL ($2);
EXECUTE some_full('{1,2,7,12}', '{part 2,none}');
EXECUTE some_full('{}', '{}');
EXECUTE some_full(NULL, '{NULL}');

-- numerics that are known only at execution, and are null there
PREPARE shown_or_not (numeric) AS SELECT p.id, x.n, x.n + 1 AS more, coalesce(x.n, 0) AS some FROM part p LEFT JOIN (SELECT $1 AS n) x ON p.id = 2
  WHERE p.id < 4 ORDER BY 1;
EXECUTE shown_or_not(1.50);
EXECUTE shown_or_not(NULL);
PREPARE summed_or_not (numeric) AS SELECT count(x.n), sum(x.n), count(*), count(*) FILTER (WHERE x.n IS NULL) FROM part p LEFT JOIN (SELECT $1 AS n) x ON p.id = 2;
EXECUTE summed_or_not(1.50);
PREPARE grouped_or_not (numeric) AS SELECT x.n, count(*) FROM (SELECT $1 / 3 AS n) x RIGHT JOIN part p ON p.id < 3 GROUP BY 1 ORDER BY 1;
EXECUTE grouped_or_not(1.50);
PREPARE none_or_one (numeric) AS SELECT id, (SELECT $1 FROM part q WHERE q.id = p.id AND q.id = 2) FROM part p WHERE id < 4 ORDER BY 1;
EXECUTE none_or_one(1.50);
PREPARE above_one (numeric) AS SELECT id FROM part p WHERE price > (SELECT $1 FROM part q WHERE q.id = p.id AND q.size = 2) ORDER BY 1;
EXECUTE above_one(0.5);
PREPARE never (numeric) AS SELECT (SELECT $1 WHERE false), count(*) FROM part;
EXECUTE never(1.5);
PREPARE before (numeric) AS SELECT id, lag($1) OVER (ORDER BY id), CASE WHEN id > 2 THEN $1 END, nullif($1, 1.5 * (id / id)) FROM part WHERE id < 4 ORDER BY 1;
EXECUTE before(1.50);
SELECT p.id, x.n FROM part p FULL JOIN (SELECT extract(year FROM date '2024-05-05' + make_interval(0)) + current_setting('block_size')::numeric AS n) x ON p.id = 2
  WHERE p.id < 4 ORDER BY 1;
