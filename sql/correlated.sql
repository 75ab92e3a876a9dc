-- engine: at least 57
--
-- SUBQUERIES THAT READ OUTER ROWS
--
-- Under OR, in CASE, in values, several levels deep, tied by anything: the engine joins them.
--

CREATE TABLE outr (id integer PRIMARY KEY, k integer, v numeric(10,2), t text, f double precision, b boolean);
CREATE TABLE innr (id integer PRIMARY KEY, o integer, k integer, q numeric(10,2), d date, f double precision, t text);
INSERT INTO outr SELECT i, nullif(i % 7, 0), i / 3.0, 't' || nullif(i % 5, 2), i, nullif(i % 3, 2) = 1
  FROM generate_series(1, 40) i;
INSERT INTO innr SELECT i, nullif(i % 30, 3), nullif(i % 11, 10), i / 7.0, date '2020-01-01' + i, i, 't' || i % 4
  FROM generate_series(1, 300) i;
ANALYZE outr, innr;
SELECT anker.mirror(t) FROM unnest('{outr,innr}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{outr,innr}'::regclass[]) t;

-- EXISTS as one condition of several
SELECT id FROM outr WHERE k = 3 OR EXISTS (SELECT 1 FROM innr i WHERE i.o = outr.id AND i.k = 5) ORDER BY id;
SELECT id, EXISTS (SELECT 1 FROM innr i WHERE i.o = outr.id AND i.k = 5) FROM outr ORDER BY id LIMIT 12;
SELECT id, NOT EXISTS (SELECT 1 FROM innr WHERE q > 1000), EXISTS (SELECT FROM innr WHERE q > 40) FROM outr ORDER BY id LIMIT 3;
SELECT count(*), count(CASE WHEN EXISTS (SELECT 1 FROM innr i WHERE i.o = outr.id) THEN v END) FROM outr;
SELECT sum(CASE WHEN b AND k IN (SELECT k FROM innr WHERE q < 1) THEN 1 WHEN b THEN 10 ELSE 100 END) FROM outr;

-- true, false or neither
SELECT id, k IN (SELECT k FROM innr WHERE q < 1), k IN (SELECT k FROM innr), k IN (SELECT k FROM innr WHERE false)
  FROM outr ORDER BY id LIMIT 8;
SELECT id, k NOT IN (SELECT o FROM innr), k NOT IN (SELECT o FROM innr WHERE o > 3) FROM outr ORDER BY id LIMIT 8;
SELECT id, k IN (SELECT o FROM innr i WHERE i.k = outr.id % 11) FROM outr ORDER BY id;
SELECT id FROM outr WHERE NOT (k IN (SELECT o FROM innr i WHERE i.k = outr.id % 11)) ORDER BY id;
SELECT id FROM outr WHERE (k IN (SELECT o FROM innr i WHERE i.k = outr.id % 11)) IS NULL ORDER BY id;
SELECT id, (k, id) IN (SELECT k, o FROM innr) FROM outr ORDER BY id LIMIT 12;
SELECT id FROM outr WHERE (k, id) NOT IN (SELECT k, o FROM innr WHERE k IS NOT NULL) ORDER BY id;

-- ANY and ALL
SELECT id, k > ALL (SELECT i.k FROM innr i WHERE i.o = outr.id), k >= ANY (SELECT i.k FROM innr i WHERE i.o = outr.id)
  FROM outr ORDER BY id;
SELECT id FROM outr WHERE k > ALL (SELECT i.k FROM innr i WHERE i.o = outr.id AND i.k < 4) ORDER BY id;
SELECT id FROM outr WHERE NOT k > ALL (SELECT i.k FROM innr i WHERE i.o = outr.id AND i.k < 4) ORDER BY id;
SELECT id FROM outr WHERE k > ALL (SELECT i.k FROM innr i WHERE i.o = outr.id) OR id < 5 ORDER BY id;
SELECT count(*) FROM outr WHERE id > ALL (SELECT o FROM innr WHERE k = 100);
SELECT count(*) FROM outr WHERE id > ALL (SELECT o FROM innr WHERE k = 1);
SELECT count(*) FROM outr WHERE t <> ALL (SELECT t FROM innr WHERE t IS NOT NULL);

-- one row
SELECT id, (SELECT q FROM innr i WHERE i.id = outr.id * 9) FROM outr ORDER BY id;
SELECT id, (SELECT b FROM outr o WHERE o.id = outr.k), (SELECT t FROM outr o WHERE o.id = outr.k) FROM outr ORDER BY id LIMIT 9;
SELECT id, (SELECT q FROM innr i WHERE i.o = outr.id) FROM outr;
SELECT id, (SELECT k FROM innr) FROM outr;
SELECT count(CASE WHEN id > 1000 THEN (SELECT q FROM innr i WHERE i.o = outr.id) END) FROM outr;
SELECT count(*) FROM outr WHERE v > (SELECT q FROM innr WHERE id = 20);
SELECT id, coalesce((SELECT q FROM innr i WHERE i.id = outr.id * 50), 0) FROM outr ORDER BY id LIMIT 8;
SELECT id, (SELECT outr.v FROM innr i WHERE i.id = outr.id * 8) FROM outr ORDER BY id LIMIT 40;
SELECT id, (SELECT t FROM outr o WHERE o.id = outr.k UNION SELECT t FROM outr p WHERE p.id = outr.k) FROM outr ORDER BY id LIMIT 9;

-- aggregates of rows that are tied by other conditions than equalities
SELECT id, (SELECT count(*) FROM innr i WHERE i.k < outr.k), (SELECT sum(q) FROM innr i WHERE i.k < outr.k AND i.o = outr.id)
  FROM outr ORDER BY id;
SELECT id, (SELECT sum(q) + outr.id FROM innr i WHERE i.o = outr.id OR i.k = outr.k) FROM outr ORDER BY id LIMIT 9;
SELECT id, (SELECT sum(q) FROM innr i WHERE i.o = outr.id HAVING count(*) > 9 OR outr.k = 2) FROM outr ORDER BY id;
SELECT id, (SELECT count(*) FROM innr i WHERE i.o = outr.id GROUP BY outr.k) FROM outr WHERE id < 9 ORDER BY id;
SELECT id, (SELECT max(n) FROM (SELECT count(*) AS n FROM innr i WHERE i.k = outr.k GROUP BY i.o) x) FROM outr ORDER BY id LIMIT 9;
SELECT id, (SELECT count(*) FROM innr i WHERE i.f > outr.f * 7) FROM outr ORDER BY id LIMIT 3;
SELECT id, (SELECT count(*) FROM innr i WHERE i.f > outr.f) FROM outr ORDER BY id LIMIT 3;
-- a group that nobody asks for raises no error
SELECT id, (SELECT sum(10 / (i.id - 200)) FROM innr i WHERE i.o = outr.id) FROM outr WHERE id < 20 ORDER BY id;

-- several levels
SELECT id FROM outr WHERE v > (SELECT avg(q) FROM innr i WHERE i.k = (SELECT max(k) FROM outr p WHERE p.k = outr.k)) ORDER BY id;
SELECT id FROM outr WHERE EXISTS (SELECT 1 FROM innr i WHERE i.o = outr.id
  AND i.q > (SELECT avg(j.q) FROM innr j WHERE j.k = outr.k)) ORDER BY id;
SELECT id FROM outr WHERE EXISTS (SELECT 1 FROM innr i WHERE i.o = outr.id
  AND NOT EXISTS (SELECT 1 FROM innr j WHERE j.k = outr.k AND j.o = i.k)) ORDER BY id;
SELECT id, (SELECT count(*) FROM innr i WHERE i.o = outr.id
  AND (i.k = 3 OR i.k IN (SELECT j.k FROM innr j WHERE j.o = outr.k AND j.q > i.q))) FROM outr ORDER BY id;

-- LATERAL
SELECT id, s FROM outr, LATERAL (SELECT sum(q) AS s FROM innr i WHERE i.o = outr.id) x ORDER BY id;
SELECT id, x.* FROM outr LEFT JOIN LATERAL (SELECT k, sum(q) AS s FROM innr i WHERE i.o = outr.id GROUP BY k) x ON x.s > 35
  ORDER BY id, x.k;
SELECT id, q FROM outr, LATERAL (SELECT q FROM innr i WHERE i.k > outr.k + 5 AND i.o < 2) x ORDER BY id, q;
SELECT id, x.* FROM outr, LATERAL (SELECT outr.v + i.q AS z, i.k FROM innr i WHERE i.id = outr.id) x ORDER BY id LIMIT 7;
SELECT id, x.k, y.n FROM outr CROSS JOIN LATERAL (SELECT DISTINCT k FROM innr i WHERE i.o = outr.id) x
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM innr j WHERE j.k = x.k AND j.o > outr.k) y ORDER BY id, x.k LIMIT 20;
SELECT id, x.z FROM outr CROSS JOIN LATERAL (SELECT k AS z FROM innr i WHERE i.id = outr.id UNION ALL SELECT outr.k) x
  ORDER BY id, z LIMIT 9;

-- groups
SELECT k, (SELECT count(*) FROM innr i WHERE i.k = outr.k) FROM outr GROUP BY k ORDER BY k;
SELECT k, count(*) FROM outr GROUP BY k HAVING EXISTS (SELECT 1 FROM innr i WHERE i.k = outr.k AND i.q > 42) ORDER BY k;
SELECT k, count(*) FROM outr GROUP BY k HAVING k IN (SELECT o FROM innr WHERE q < 1) OR count(*) > 5 ORDER BY k;
SELECT t, sum((SELECT max(q) FROM innr i WHERE i.o = outr.id)) FROM outr GROUP BY t ORDER BY t;
SELECT DISTINCT (SELECT max(k) FROM innr i WHERE i.o = outr.id) AS m FROM outr ORDER BY m;
SELECT id FROM outr ORDER BY (SELECT count(*) FROM innr i WHERE i.o = outr.id), id LIMIT 9;

-- conditions of outer joins
SELECT o.id, i.id FROM outr o LEFT JOIN innr i ON i.o = o.id AND EXISTS (SELECT 1 FROM innr j WHERE j.k = i.k AND j.o = o.k)
  ORDER BY 1, 2 LIMIT 30;
SELECT o.id, count(i.id) FROM outr o LEFT JOIN innr i ON i.o > o.id + 20 GROUP BY o.id ORDER BY o.id;
SELECT o.id, i.id FROM outr o FULL JOIN innr i ON i.o = o.id AND i.k = (SELECT max(k) FROM outr) AND i.q > 10 ORDER BY 1, 2 LIMIT 5;

-- queries that stay on the heap
SELECT count(*) FROM outr WHERE id = ANY (ARRAY(SELECT k FROM innr));
SELECT id, (SELECT outr.f + i.f FROM innr i WHERE i.id = outr.id) FROM outr ORDER BY id LIMIT 2;

-- rows that the query contains as VALUES
SELECT x.c, x.d, count(i.id) FROM (VALUES (1, 'one'), (2, NULL), (NULL, 'none'), (77, '')) x(c, d) LEFT JOIN innr i ON i.k = x.c
  GROUP BY x.c, x.d ORDER BY 1, 2;
SELECT id, x.n FROM outr JOIN (VALUES (1, 1.5), (2, 2.25), (3, 7), (4, NULL::numeric)) x(c, n) ON x.c = outr.k ORDER BY id LIMIT 12;
SELECT sum(x.n), avg(x.n), count(x.n) FROM outr JOIN (VALUES (1, 1.5), (2, NULL), (3, 2.25), (4, NULL)) x(c, n) ON x.c = outr.k;
SELECT sum(x.n), avg(x.n) FROM outr JOIN (VALUES (1, 1.5), (2, NULL)) x(c, n) ON x.c = outr.k;
SELECT id, coalesce(x.n, id::numeric(6,2)), CASE WHEN id % 2 = 0 THEN x.n ELSE 7.25 END
  FROM outr JOIN (VALUES (1, 1.5), (2, NULL), (3, 4.125)) x(c, n) ON x.c = outr.k ORDER BY id LIMIT 12;
SELECT sum(x.n), min(x.n), count(*) FROM outr JOIN (VALUES (1, NULL::numeric), (2, NULL)) x(c, n) ON x.c = outr.k;
SELECT id FROM outr WHERE (k, id) IN (VALUES (1, 1), (2, 2), (3, 10)) ORDER BY id;
SELECT id, m FROM outr, LATERAL (SELECT max(v) AS m FROM (VALUES (outr.k), (outr.id / 2)) t(v)) x ORDER BY id LIMIT 9;
SELECT id, x.one FROM outr CROSS JOIN (SELECT 1 AS one) x ORDER BY id LIMIT 3;
SELECT count(*) FROM outr CROSS JOIN (VALUES (1, 'a'::text COLLATE "C"), (1, NULL)) x(k, t) WHERE outr.k = x.k;
SELECT id FROM outr WHERE EXISTS (SELECT 1 FROM innr i WHERE i.k = outr.k AND i.o <> outr.id
  AND EXISTS (SELECT 1 FROM innr j WHERE j.o = i.o AND j.q < outr.v)) ORDER BY id;
SELECT id FROM outr WHERE NOT EXISTS (SELECT 1 FROM innr i WHERE i.k = outr.k AND i.o <> outr.id
  AND EXISTS (SELECT 1 FROM innr j WHERE j.o = i.o AND j.q < outr.v AND j.id < 30)) ORDER BY id;

-- beside lists and sums of floats, which are not read
SELECT id, ARRAY(SELECT i.id FROM innr i WHERE i.o = outr.id ORDER BY i.id) AS own, ARRAY(SELECT i.k FROM innr i WHERE i.id <= outr.id ORDER BY i.id)
  FROM outr WHERE id < 9 ORDER BY id;
SELECT id, (SELECT string_agg(i.t, ',' ORDER BY i.id) FROM innr i WHERE i.o = outr.id) AS texts,
  (SELECT array_agg(i.k ORDER BY i.id) FROM innr i WHERE i.id < outr.id) AS keys, (SELECT count(*) FROM innr i WHERE i.id > outr.id) AS n
  FROM outr WHERE id < 9 ORDER BY id;
SELECT k, sum(f)::integer, (SELECT count(*) FROM innr i WHERE i.o > g.k) FROM outr g GROUP BY k ORDER BY k;
SELECT k, n, (SELECT max(i.id) FROM innr i WHERE i.k >= g.k AND i.o <> g.n) FROM (SELECT k, count(*) AS n, avg(f) AS mean FROM outr GROUP BY k) g
  ORDER BY k;
SELECT k, (SELECT count(*) FROM innr i WHERE i.f > g.s AND i.o <> g.k) FROM (SELECT k, sum(f) AS s FROM outr GROUP BY k) g ORDER BY k;
SELECT id FROM outr o WHERE EXISTS (SELECT FROM (SELECT i.o, sum(i.f) AS s FROM innr i WHERE i.k <> o.k GROUP BY i.o) x WHERE x.s > 1000) ORDER BY id LIMIT 5;
SELECT k, (SELECT count(*) FROM innr i WHERE i.o > g.k) FROM outr g GROUP BY k HAVING sum(f) > 110 ORDER BY k;
SELECT k, c FROM (SELECT k, s, (SELECT count(*) FROM innr i WHERE i.o > g.k) c FROM (SELECT k, sum(f) s FROM outr GROUP BY k) g) x WHERE s > 110 ORDER BY k;

-- lists that are looked up in lists that are looked up in lists
SELECT count(*) FROM outr a WHERE a.id NOT IN (SELECT b.o FROM innr b WHERE b.k > a.k AND b.id NOT IN
  (SELECT c.o FROM innr c WHERE c.k <> b.k AND c.q > a.v AND c.id NOT IN (SELECT d.o FROM innr d WHERE d.k = a.k AND d.o <> b.o AND d.id < 40) AND c.id < 40) AND b.id < 40);
SELECT count(*) FROM outr a WHERE a.id IN (SELECT b.o FROM innr b WHERE b.k > a.k AND b.id NOT IN
  (SELECT c.o FROM innr c WHERE c.k <> b.k AND c.q > a.v AND (c.id IN (SELECT d.o FROM innr d WHERE d.k = a.k AND d.o <> b.o AND d.t <> c.t AND d.id < 40)) IS NOT TRUE AND c.id < 40) AND b.id < 40);
SELECT id, (SELECT count(*) FROM innr b WHERE b.o = a.id AND b.k NOT IN (SELECT c.o FROM innr c WHERE c.k <> a.k AND c.id > ALL (SELECT d.o FROM innr d WHERE d.k = c.k
  AND d.o > b.o AND d.q <> a.v AND d.id < 30) AND c.id < 30)) FROM outr a WHERE id < 12 ORDER BY id;
