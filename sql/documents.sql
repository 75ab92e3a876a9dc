-- engine: at least 28
--
-- PARTS OF DOCUMENTS
--

CREATE TABLE docs (id integer PRIMARY KEY, b jsonb, j json);
INSERT INTO docs VALUES
    (1, '{"a": 1, "b": "x", "c": {"d": [1, 2.50, "é\n\"q\"", null, true, {"e": 5}]}, "long key": -1e3}',
        '{"a": 1, "b": "x", "c": {"d": [1, 2.50, "é\n\"q\"", null, true, {"e": 5}]}, "a": 2}'),
    (2, '{"a": "7", "b": null, "tags": ["red", "blue"]}', ' { "a" : "7" , "b":null, "tags":[ "red" , "blue" ] } '),
    (3, '[10, 20, [30]]', '[10, 20, [30]]'),
    (4, '"text"', '"text"'),
    (5, '5', '5'),
    (6, 'null', 'null'),
    (7, NULL, NULL),
    (8, '{}', '{}'),
    (9, '[]', '[]'),
    (10, ('{"a": 2, "big": "' || repeat('x', 5000) || '", "n": 12345678901234567890.123456789}')::jsonb, '{"a": "\u00e9"}');
SELECT anker.mirror('docs');
SELECT anker.wait_for_mirror('docs');

SELECT b ->> 'a' AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
SELECT b ->> 'b' AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
SELECT b ->> 'c' AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
SELECT b -> 'c' ->> 'd' AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
SELECT b -> 'c' -> 'd' ->> 2 AS k, b -> 'c' -> 'd' ->> -1 AS l, b #>> '{c,d,1}' AS m, count(*) FROM docs GROUP BY 1, 2, 3 ORDER BY 1;
SELECT b #>> '{c,d,5,e}' AS k, b #>> '{c,d,x}' AS l, b #>> '{}' AS m, count(*) FROM docs WHERE id < 10 GROUP BY 1, 2, 3 ORDER BY 1, 3;
SELECT b ->> 0 AS k, b ->> -1 AS l, b #>> '{0}' AS m, b #>> '{-1,0}' AS n, count(*) FROM docs GROUP BY 1, 2, 3, 4 ORDER BY 1, 2;
SELECT sum((b ->> 'a')::numeric), max((b ->> 'a')::integer), sum((b -> 'n')::numeric) FROM docs;
SELECT sum((b -> 'a')::integer) FROM docs WHERE id IN (1, 10);
SELECT count(*) FROM docs WHERE b ->> 'b' = 'x' AND (b ->> 'a')::integer < 5;
SELECT count(*) FILTER (WHERE b -> 'b' IS NULL), count(*) FILTER (WHERE b ->> 'b' IS NULL), count(b -> 'a') FROM docs;
SELECT count(*) FILTER (WHERE b ? 'a'), count(*) FILTER (WHERE b -> 'tags' ? 'red'), count(*) FILTER (WHERE b ? 'text') FROM docs;
SELECT jsonb_typeof(b) AS k, jsonb_typeof(b -> 'a') AS l, count(*) FROM docs GROUP BY 1, 2 ORDER BY 1, 2;
SELECT jsonb_array_length(b -> 'tags') AS k, count(*) FROM docs WHERE id = 2 GROUP BY 1;
SELECT b::text AS k, count(*) FROM docs WHERE id < 10 GROUP BY 1 ORDER BY 1;
SELECT length(b::text), length(b ->> 'big') FROM docs WHERE b ->> 'a' = '2';
SELECT x.part FROM (SELECT id, b -> 'c' AS part FROM docs) x WHERE x.part IS NOT NULL ORDER BY x.id;
SELECT (SELECT d.b -> 'tags' FROM docs d WHERE d.id = 2 LIMIT 1) FROM docs WHERE id = 1;
SELECT d.id, e.id FROM docs d JOIN docs e ON d.b ->> 'a' = e.j ->> 'a' WHERE e.id < 10 ORDER BY 1, 2;

-- json
SELECT j ->> 'a' AS k, count(*) FROM docs WHERE id < 10 GROUP BY 1 ORDER BY 1;
SELECT j ->> 'b' AS k, j ->> 'tags' AS l, j ->> 0 AS m, count(*) FROM docs WHERE id < 10 GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT j -> 'c' -> 'd' ->> 2 AS k, j #>> '{c,d,-2}' AS l, j -> 'c' ->> 'd' AS m, count(*) FROM docs WHERE id < 10 GROUP BY 1, 2, 3 ORDER BY 1;
SELECT json_typeof(j) AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
SELECT sum(json_array_length(j)) FROM docs WHERE id IN (3, 9);
SELECT j ->> 'a' AS k, count(*) FROM docs GROUP BY 1 ORDER BY 1;
\set VERBOSITY sqlstate
SELECT sum(jsonb_array_length(b)) FROM docs;
SELECT sum((b -> 'a')::integer) FROM docs;
SELECT sum((b ->> 'b')::integer) FROM docs;
\set VERBOSITY default

-- types of which the engine only knows equality
CREATE TABLE kept (id integer PRIMARY KEY, i inet, c cidr, m macaddr, b bit(4), v varbit, y money, z timetz);
INSERT INTO kept SELECT g, ('10.0.0.' || g % 3)::inet, ('10.' || g % 2 || '.0.0/16')::cidr, ('08:00:2b:01:02:0' || g % 4)::macaddr,
    (g % 4)::bit(4), repeat('1', g % 3)::varbit, (g % 3)::money, ('12:00+0' || g % 3)::timetz FROM generate_series(1, 12) g;
INSERT INTO kept VALUES (13, '10.0.0.1/24', NULL, NULL, NULL, NULL, NULL, '10:00-02'), (14, '::1', '::/0', NULL, NULL, '', NULL, '12:00+00');
SELECT anker.mirror('kept');
SELECT anker.wait_for_mirror('kept');
SELECT i, count(*) FROM kept GROUP BY i ORDER BY i;
SELECT c, count(*), count(DISTINCT i) FROM kept GROUP BY c ORDER BY c;
SELECT count(DISTINCT m), count(DISTINCT b), count(DISTINCT v), count(DISTINCT y), count(DISTINCT z) FROM kept;
SELECT count(*) FROM kept WHERE i = '10.0.0.1' OR c = '10.1.0.0/16';
SELECT count(*) FROM kept WHERE i <> '10.0.0.1' AND i IN ('10.0.0.2', '::1');
SELECT count(*) FROM kept a JOIN kept b ON a.m = b.m AND a.v = b.v AND a.y = b.y;
SELECT count(*) FROM kept a WHERE a.z IN (SELECT b.z FROM kept b WHERE b.id > 12);
SELECT z, count(*) FROM (SELECT z FROM kept UNION SELECT z FROM kept) s GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM kept WHERE i < '10.0.0.2';
-- The order of their bytes differs from their order.
INSERT INTO kept VALUES (21, '9.9.9.9/8', '9.0.0.0/8', '01:00:00:00:00:00', B'1000', B'1', -5, '23:00-05'),
    (22, '::ffff', '::/0', 'ff:00:00:00:00:00', B'0001', B'', 300, '00:00+05'),
    (23, '9.9.9.9', '9.9.0.0/16', '00:ff:00:00:00:00', B'0111', B'0111', 2, '12:30+00');
SELECT anker.wait_for_mirror('kept');
SELECT i FROM kept ORDER BY i DESC, id LIMIT 4;
SELECT c, m FROM kept ORDER BY c, m LIMIT 5;
SELECT b, v FROM kept ORDER BY b DESC, v DESC LIMIT 5;
SELECT y, z FROM kept WHERE id > 20 ORDER BY y, z;
SELECT z, y FROM kept ORDER BY z, id LIMIT 5;
SELECT DISTINCT ON (z) z, id FROM kept WHERE id > 20 ORDER BY z, id;
SELECT id, r FROM (SELECT id, rank() OVER (ORDER BY y, i) AS r FROM kept) w WHERE id > 20 ORDER BY id;
SELECT array_agg(z ORDER BY z DESC), array_agg(DISTINCT y), max(i) FROM kept WHERE id > 20;
SELECT sum(id) FROM (SELECT id FROM kept ORDER BY z, id LIMIT 4) s;
