-- engine: at least 59
--
-- VALUE LISTS
--
-- IN and NOT IN lists of many values, which are looked up in a set: every type, computed values, NULL, beside
-- other conditions. And what PostgreSQL computes above or beside the engine's rows: set-returning functions, unions of
-- different types, concat of padded characters, rows without columns.
--

CREATE TABLE part (
    id      integer PRIMARY KEY,
    small   smallint,
    big     bigint,
    price   numeric(8,2),
    exact   numeric,
    ratio   double precision,
    rough   real,
    name    text,
    code    char(6),
    made    date,
    seen    timestamp,
    token   uuid,
    sold    boolean,
    tags    text[]
);
INSERT INTO part
  SELECT i, nullif(i % 11, 5), i * 1000000007::bigint, nullif(i % 9, 4) * 1.25, i / 8.0, nullif(i % 7, 3) / 4.0, i / 3.0::real,
    CASE WHEN i % 13 <> 0 THEN 'part ' || i % 17 END, 'c' || i % 23, date '2024-01-01' + i % 31,
    timestamp '2024-01-01' + i * interval '1 hour', md5((i % 5)::text)::uuid, i % 3 = 0,
    CASE WHEN i % 4 <> 0 THEN (ARRAY['red', 'green', 'blue', NULL])[1:i % 4] END
  FROM generate_series(1, 500) i;
INSERT INTO part (id) VALUES (501);
UPDATE part SET ratio = 'NaN' WHERE id = 77;
UPDATE part SET ratio = '-0' WHERE id = 78;
CREATE TABLE nothing (id integer PRIMARY KEY);
ALTER TABLE nothing ADD kept text;
INSERT INTO nothing VALUES (1, 'x');
SELECT anker.mirror(t) FROM unnest('{part,nothing}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{part,nothing}'::regclass[]) t;

-- of every type
SELECT count(*) FROM part WHERE id IN (1, 3, 5, 7, 9, 11, 500, 501, 502);
SELECT count(*) FROM part WHERE small IN (1, 2, 3, 4, 5, 100);
SELECT count(*) FROM part WHERE small IN (1, 2, 3, 4, 5, 100000);
SELECT count(*) FROM part WHERE big IN (1000000007, 2000000014, 3, 4, 5000000035);
SELECT count(*) FROM part WHERE price IN (0, 1.25, 2.5, 3.75, 3.751, 1e10);
SELECT count(*) FROM part WHERE price IN (1, 2, 3, 5, 10);
SELECT count(*) FROM part WHERE price IN (0.001, 1.251, 2.5, 3.7512345, 1e10, 1.3e20);
SELECT count(*), count(price IN (0.001, 1.251, 1e10)), count(price NOT IN (0.001, 1.251)) FROM part;
SELECT count(*) FROM part WHERE price NOT IN (0.001, 1.251, 2.5, 3.7512345, 1e10, 1.3e20);
SELECT count(*) FROM part WHERE price = 1.251 OR 1e30 <> price;
SELECT count(*) FROM part WHERE exact IN (0.125, 0.250, 1, 2.0, 3.00);
SELECT count(*) FROM part WHERE ratio IN (0, 0.25, 0.5, 'NaN', 1);
SELECT count(*) FROM part WHERE ratio NOT IN (0, 0.25, 0.5, 'NaN', 1);
SELECT count(*) FROM part WHERE rough IN (1, 2, 3, 4, 5);
SELECT count(*) FROM part WHERE name IN ('part 1', 'part 2', 'part 3', 'part 16', 'part 17', '');
SELECT count(*) FROM part WHERE code IN ('c1', 'c2', 'c3 ', 'c4    ', 'c5       ');
SELECT count(*) FROM part WHERE made IN ('2024-01-01', '2024-01-02', '2024-01-31', 'infinity', '-infinity');
SELECT count(*) FROM part WHERE seen IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04', '2024-01-04 12:30');
SELECT count(*) FROM part WHERE token IN (md5('1')::uuid, md5('2')::uuid, md5('3')::uuid, md5('9')::uuid);
SELECT count(*) FROM part WHERE sold IN (true, true, true, true);

-- NOT IN, and NULL
SELECT count(*) FROM part WHERE small NOT IN (1, 2, 3, 4, 5, 100);
SELECT count(*) FROM part WHERE small NOT IN (1, 2, 3, NULL, 4);
SELECT count(*) FROM part WHERE small IN (1, 2, 3, NULL, 4);
SELECT count(*) FROM part WHERE NOT (name IN ('part 1', 'part 2', NULL, 'part 3', 'part 4'));
SELECT small IN (1, 2, 3, NULL, 4) AS among, small NOT IN (1, 2, 3, 4, 5) AS outside, count(*)
  FROM part GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM part WHERE (name IN ('part 1', 'part 2', 'part 3', 'part 4')) IS NOT TRUE;
SELECT count(*) FROM part WHERE (name NOT IN ('part 1', 'part 2', 'part 3', NULL)) IS UNKNOWN;

-- equal values that may look different
SELECT count(*) FROM part WHERE exact NOT IN (0.125, 0.250, 1, 2.0, 3.00, 62.5000);
SELECT count(*) FROM part WHERE price IN (0.001, 1.251, 2.5, 3.7512345, 1e10, 1.3e20);
SELECT count(*), count(price IN (0.001, 1.251, 1e10)), count(price NOT IN (0.001, 1.251)) FROM part;
SELECT count(*) FROM part WHERE price NOT IN (0.001, 1.251, 2.5, 3.7512345, 1e10, 1.3e20);
SELECT count(*) FROM part WHERE price = 1.251 OR 1e30 <> price;
SELECT count(*) FROM part WHERE exact IN (0.125, NULL, 1, 2.0, 'NaN', 3.00);
SELECT exact IN (0.125, NULL, 1.0, 2, 3), exact NOT IN (0.1250, 0.25, 1, 2), count(*) FROM part GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM part WHERE seen - timestamp '2024-01-01' IN ('1 hour', '60 minutes', '1 day', '24:00', '-1 s', '2 days');
SELECT count(*) FROM part WHERE seen - timestamp '2024-01-01' NOT IN ('1 hour', '60 minutes', '1 day', '24:00', '-1 s', '2 days');
SELECT count(*) FROM part WHERE ratio IN (0, NULL, 'NaN', 0.25, '-0') OR ratio NOT IN (0.5, 'NaN', 1, 1.5);
SELECT count(*) FROM part WHERE id NOT IN (1, 2, 3, 4) AND exact NOT IN (1, 2, 3, 4, 5) AND id NOT IN (11, 12, 13, 14) AND sold;
SELECT count(*) FROM part WHERE (id - 501) / 2 NOT IN (-1, -2, -3, 4) AND id NOT IN (1, 2, 3, 501);
SELECT count(*) FROM part a JOIN part b ON a.id = b.id + 1 AND a.small + b.small NOT IN (1, 2, 3, 4);

-- long ones, and <> ALL of a subquery
SELECT count(*) FROM part WHERE id <> ALL (ARRAY(SELECT i FROM generate_series(3, 2000) i));
SELECT count(*) FROM part WHERE small <> ALL (SELECT small FROM part WHERE small > 3);
SELECT count(*) FROM part WHERE small <> ALL (SELECT small FROM part WHERE id < 10);
SELECT count(*) FROM part WHERE NOT (small <> ALL (SELECT small FROM part WHERE small > 3));
SELECT small <> ALL (SELECT small FROM part WHERE id < 10), exact <> ALL (SELECT exact FROM part WHERE id > 490), count(*)
  FROM part GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM part p WHERE small <> ALL (SELECT small FROM part q WHERE q.id = p.id + 1) OR sold;
SELECT count(*) FROM part WHERE name <> ALL (SELECT kept FROM nothing);
SELECT count(*) FROM part WHERE small <> ALL (SELECT id FROM nothing WHERE id > 5);

-- computed values, and lists beside other conditions
SELECT count(*) FROM part WHERE substr(name, 6, 1) IN ('1', '2', '3', '4', '5');
SELECT count(*) FROM part WHERE left(name, 5) || small IN ('part 1', 'part 2', 'part 3', 'part 4');
SELECT count(*) FROM part WHERE id % 10 IN (1, 2, 3, 4) AND id / 10 NOT IN (1, 2, 3, 4, 5) AND sold;
SELECT count(*) FROM part WHERE id IN (1, 2, 3, 4) OR small IN (1, 2, 3, 4) OR name IN ('part 9', 'part 8', 'part 7', 'x');
SELECT count(*) FROM part WHERE id = 1 OR id = 2 OR id = 3 OR id = 4 OR id = small OR id = 400;
SELECT count(*) FROM part WHERE 1 = id OR 2 = id OR 3 = id OR 4 = id;
SELECT count(*) FROM part WHERE id <> 1 AND id <> 2 AND id <> 3 AND id <> 4 AND id <> small;
SELECT CASE WHEN small IN (1, 2, 3, 4) THEN 'low' WHEN small IN (6, 7, 8, 9) THEN 'high' END AS which, count(*)
  FROM part GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE made IN ('2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04')) FROM part;
SELECT count(*) FROM part p JOIN part q ON p.id = q.small WHERE p.id + q.id NOT IN (1, 2, 3, 4, 50);
SELECT count(*) FROM part p LEFT JOIN part q ON p.id = q.small AND p.id + q.id IN (12, 24, 36, 48, 60);
-- a value that an earlier condition guards raises no error
SELECT count(*) FROM part WHERE small <> 0 AND 100 / small IN (10, 11, 12, 100);
SELECT count(*) FROM part WHERE small = 0 OR 100 / small IN (10, 11, 12, 100);
SELECT count(*) FROM part WHERE 100 / small IN (10, 11, 12, 100);

-- a row of a list is seen and taken back like any other
BEGIN;
UPDATE nothing SET kept = 'y';
SELECT count(*) FROM nothing WHERE kept IN ('a', 'b', 'c', 'y');
ROLLBACK;
SELECT count(*) FROM nothing WHERE kept IN ('a', 'b', 'c', 'y');

-- set-returning functions above the engine's rows
SELECT id, unnest(tags) FROM part WHERE id < 8 ORDER BY 1, 2;
SELECT unnest(tags) AS tag, count(*), sum(price) FROM part GROUP BY 1 ORDER BY 1;
SELECT generate_series(1, 3) AS n, count(*) FROM part WHERE sold GROUP BY 1 ORDER BY 1;
SELECT small + generate_series(1, 2) AS n, count(*) FROM part GROUP BY 1 ORDER BY 1;
SELECT sold, unnest(array_agg(id ORDER BY id)) FROM part WHERE id IN (1, 2, 3, 4, 5, 6) GROUP BY sold ORDER BY 1, 2;
SELECT id, generate_series(1, small) FROM part WHERE id < 4 ORDER BY 1, 2 LIMIT 4;
SELECT id, generate_series(id, 3) FROM part ORDER BY id LIMIT 3;
SELECT DISTINCT regexp_split_to_table(name, ' ') AS word FROM part WHERE id < 5 ORDER BY 1;
SELECT generate_series(1, 2), sum(id) OVER (ORDER BY id) FROM part WHERE id < 3 ORDER BY 1, 2;
SELECT count(*) FROM (SELECT unnest(tags) FROM part) s;

-- unions of different types
SELECT ratio FROM part WHERE id < 5 UNION SELECT id FROM part WHERE id < 3 ORDER BY 1;
SELECT count(*), sum(x) FROM (SELECT small AS x FROM part UNION ALL SELECT ratio FROM part WHERE id < 70) s;
SELECT rough FROM part WHERE id < 4 UNION ALL SELECT 16777217 FROM part WHERE id = 1 ORDER BY 1;
SELECT big FROM part WHERE id = 1 INTERSECT SELECT ratio * 4000000028 FROM part ORDER BY 1;
SELECT made FROM part WHERE id < 4 UNION SELECT seen FROM part WHERE id < 3 ORDER BY 1;
SELECT count(*) FROM (SELECT made FROM part EXCEPT SELECT seen FROM part) s;

-- concat shows a character with its blanks, also from within a subquery
SELECT concat('[', code, ']') FROM part WHERE id < 3 ORDER BY 1;
SELECT concat('[', code, '] ', n) FROM (SELECT code, count(*) AS n FROM part GROUP BY code) s WHERE n > 21 ORDER BY 1;
SELECT x, count(*) FROM (SELECT concat(code, '|', sold, '|') AS x FROM part) s WHERE x LIKE 'c1%|t%' GROUP BY x ORDER BY 1;

-- a row of VALUES without values
CREATE TABLE blank ();
INSERT INTO blank DEFAULT VALUES;
SELECT count(*) FROM blank b, LATERAL (VALUES (b.*)) v, part WHERE part.id < 5;
DROP TABLE blank;
