-- engine: at least 26
--
-- LISTS: ARRAYS OF A ROW, ROWS OF THEIR ELEMENTS
--

CREATE TYPE mark AS ENUM ('low', 'high');
CREATE TABLE lists (
    id integer PRIMARY KEY, tags text[], ids integer[], bigs bigint[], sums numeric[], days date[], flags boolean[],
    us uuid[], marks mark[], docs jsonb, js json, n integer, t text);
INSERT INTO lists VALUES
    (1, '{red,blue}', '{1,2,3}', '{10000000000}', '{1.50,2}', '{2023-01-01}', '{t,f}',
        '{00000000-0000-0000-0000-000000000001}', '{high}', '[{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]', '[1, "x", null]', 3, 'a,b,,c'),
    (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '[]', '[]', 0, ''),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, '{NULL,red,"a long text that has more than a few bytes"}', '{NULL,2}', '{1,NULL}', '{NULL,NaN}', '{infinity,NULL}',
        '{NULL,t}', '{NULL}', '{low,NULL,high}', '["x", null, {"y": [1]}]', '[{"a": [1, 2]}, true]', -1, 'one'),
    (5, '{{a,b},{c,NULL}}', '{{1,2},{3,4}}', NULL, NULL, NULL, NULL, NULL, NULL, '[[1, 2], 3]', '["é\n"]', 2, ',');
SELECT anker.mirror('lists');
SELECT anker.wait_for_mirror('lists');

SELECT tag, count(*) FROM lists, unnest(tags) AS tag GROUP BY tag ORDER BY tag;
SELECT l.id, x FROM lists l, unnest(l.ids) AS x ORDER BY 1, 2;
SELECT l.id, x, o FROM lists l CROSS JOIN LATERAL unnest(l.ids) WITH ORDINALITY AS u(x, o) ORDER BY 1, 3;
SELECT l.id, x FROM lists l LEFT JOIN LATERAL unnest(l.tags) AS x ON true ORDER BY 1, 2;
SELECT l.id, x, o FROM lists l LEFT JOIN LATERAL unnest(l.bigs) WITH ORDINALITY AS u(x, o) ON x > 1 ORDER BY 1, 3;
SELECT x, count(*) FROM lists, unnest(sums) AS x GROUP BY 1 ORDER BY 1;
SELECT sum(x), avg(x) FROM lists, unnest(sums) AS x WHERE x <> 'NaN';
SELECT x, y FROM lists, unnest(days) AS x, unnest(flags) AS y WHERE id = 4 ORDER BY 1, 2;
SELECT u, m FROM lists, unnest(us) AS u, unnest(marks) AS m ORDER BY 1, 2;
SELECT d ->> 'sku' AS sku, sum((d ->> 'n')::integer) FROM lists, jsonb_array_elements(docs) AS d WHERE id = 1 GROUP BY 1 ORDER BY 1;
SELECT id, d FROM lists, jsonb_array_elements_text(docs) AS d ORDER BY 1, 2;
SELECT id, count(*), max(d::text) FROM lists, jsonb_array_elements(docs) AS d GROUP BY 1 ORDER BY 1;
SELECT id, d FROM lists, json_array_elements_text(js) AS d ORDER BY 1, 2;
SELECT id, s FROM lists, generate_series(1, n) AS s ORDER BY 1, 2;
SELECT id, s FROM lists, generate_series(n, 0, -2) AS s ORDER BY 1, 2;
SELECT id, count(s) FROM lists LEFT JOIN LATERAL generate_series(1::bigint, n) AS s ON s <> 2 GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(s) FROM lists, generate_series(1, n * 20000) AS s;
SELECT id, f FROM lists, unnest(string_to_array(t, ',')) AS f ORDER BY 1, 2;
SELECT id, f FROM lists, string_to_table(t, ',') AS f ORDER BY 1, 2;
SELECT id, (SELECT count(*) FROM unnest(ids) AS x WHERE x > 1) FROM lists ORDER BY 1;
SELECT id FROM lists l WHERE EXISTS (SELECT 1 FROM unnest(l.tags) AS x WHERE x LIKE 'r%') ORDER BY 1;
SELECT id FROM lists l WHERE 2 IN (SELECT unnest FROM unnest(l.ids)) ORDER BY 1;
SELECT a.id, b.id FROM lists a, unnest(a.ids) AS x JOIN lists b ON b.id = x ORDER BY 1, 2;
SELECT x.tag, x.n FROM (SELECT tag, count(*) AS n FROM lists, unnest(tags) AS tag GROUP BY tag HAVING count(*) > 1) x ORDER BY 1;

-- elements of a row's own array
SELECT id FROM lists WHERE 'red' = ANY (tags) ORDER BY 1;
SELECT id FROM lists WHERE 2 = ANY (ids) OR 10000000000 = ANY (bigs) ORDER BY 1;
SELECT id, 7 = ANY (ids) FROM lists ORDER BY 1;
SELECT count(*) FILTER (WHERE 'c' = ANY (tags)), count(*) FILTER (WHERE NOT 7 = ANY (ids)), count(*) FILTER (WHERE 'x' <> ALL (tags)) FROM lists;
SELECT count(*) FROM lists WHERE date '2023-01-01' = ANY (days) OR 'high' = ANY (marks);
SELECT array_length(ids, 1) AS k, cardinality(ids) AS l, array_length(ids, 2) AS m, count(*) FROM lists GROUP BY 1, 2, 3 ORDER BY 1, 2;

SELECT tags[1] AS k, ids[2] AS l, bigs[1] AS m, days[1] AS d, marks[1] AS e, flags[2] AS f, count(*) FROM lists GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4;
SELECT id FROM lists WHERE sums[1] > 1 OR us[1] IS NOT NULL OR tags[n] = 'blue' OR ids[-1] = 1 ORDER BY 1;
SELECT (string_to_array(t, ','))[1] AS a, (string_to_array(t, ','))[3] AS b, (string_to_array(t, ','))[4] AS c, count(*) FROM lists GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT ('[0:1]={7,8}'::integer[])[0], (ids || 9)[2] FROM lists WHERE id = 1;

-- lists that are known when the query starts
PREPARE listed(integer[]) AS SELECT count(*), min(id) FROM lists WHERE id = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXECUTE listed('{1,3,5}');
EXECUTE listed('{}');
EXECUTE listed(NULL);
EXECUTE listed('{NULL,2}');
PREPARE unlisted(integer[]) AS SELECT count(*), count(*) FILTER (WHERE (id <> ALL ($1)) IS NULL) FROM lists WHERE (id = ANY ($1)) IS NOT TRUE;
EXECUTE unlisted('{1,3,5}');
EXECUTE unlisted(NULL);
EXECUTE unlisted('{NULL,2}');
PREPARE several(integer, integer) AS SELECT count(*) FROM lists WHERE id IN ($1, $2, $1 + 1);
EXECUTE several(1, 4);
EXECUTE several(NULL, 4);
RESET plan_cache_mode;
SELECT count(*) FROM lists WHERE id = ANY (string_to_array('1,2,9', ',')::integer[]);

-- errors
\set VERBOSITY sqlstate
SELECT count(*) FROM lists l, jsonb_array_elements(l.docs -> 0) AS d;
SELECT count(*) FROM lists l, generate_series(1, l.n, 0) AS s;
\set VERBOSITY default
-- expressions that PostgreSQL evaluates itself
SELECT count(*) FROM lists l, unnest(l.ids, l.tags) AS u(x, y);
SELECT count(*) FROM lists l, regexp_split_to_table(l.t, ',') AS s;

-- Slices, of which a bound may be left out.
SELECT ids[2:], count(*) FROM lists GROUP BY 1 ORDER BY 1;
SELECT (string_to_array(t, ','))[2:], count(*) FROM lists GROUP BY 1 ORDER BY 1;
SELECT id FROM lists ORDER BY tags[:1], (ids[2:])[1], id;
