-- engine: at least 97
--
-- RANGE JOINS
--
-- Joins by other comparisons than equality: a value between two others, before or after another one, periods that overlap
-- or lie within each other, of every type that has an order; inner and outer joins, EXISTS, NOT EXISTS, subqueries.
--

CREATE TABLE event (
    id      integer PRIMARY KEY,
    small   smallint,
    big     bigint,
    price   numeric(8,2),
    fine    numeric(20,6),
    exact   numeric,
    ratio   double precision,
    rough   real,
    made    date,
    seen    timestamp,
    told    timestamptz,
    clock   time,
    span    interval,
    name    text COLLATE "C",
    local   text,
    code    char(6) COLLATE "C",
    token   uuid,
    bytes   bytea,
    is_open boolean
);
INSERT INTO event
  SELECT i, nullif(i * 7 % 41, 3), (i * 37 % 61 - 30) * 3000000000::bigint, nullif(i * 11 % 53, 4) * 1.25,
    nullif(i * 13 % 47, 9) * 1.000001, (i * 17 % 43 - 20) * 10.5 ^ (i % 5 * 10), nullif(i * 19 % 37, 5) / 4.0, i * 23 % 31 / 3.0::real,
    date '2024-01-01' + i * 29 % 59, timestamp '2024-01-01' + i * 31 % 67 * interval '7 hours',
    timestamptz '2024-01-01 00:00+00' + i * 41 % 71 * interval '5 hours', time '00:00' + i * 43 % 73 * interval '11 minutes',
    i * 47 % 79 * interval '13 hours', CASE WHEN i % 13 <> 0 THEN 'event number ' || i * 53 % 83 END, 'e' || i * 59 % 89,
    'c' || i * 61 % 97, md5((i * 67 % 29)::text)::uuid, decode(md5(i::text), 'hex'), i % 3 = 0
  FROM generate_series(1, 240) i;
INSERT INTO event (id) VALUES (241);
UPDATE event SET ratio = 'NaN', exact = 'NaN', made = 'infinity', seen = '-infinity' WHERE id = 77;
UPDATE event SET ratio = '-Infinity', exact = 'Infinity', made = '-infinity', told = 'infinity' WHERE id = 78;
UPDATE event SET ratio = '-0', rough = 'NaN', exact = '-Infinity', seen = 'infinity' WHERE id = 79;
UPDATE event SET big = 9223372036854775807, small = -32768, exact = 1e-300 WHERE id = 80;
UPDATE event SET big = -9223372036854775808, small = 32767, exact = -1e300, name = '' WHERE id = 81;
CREATE TABLE period (id integer PRIMARY KEY, low integer, high integer, since date, until date, least numeric(10,4), most numeric(10,4));
INSERT INTO period
  SELECT i, i * 10, i * 10 + i % 13, date '2024-01-01' + i * 2, date '2024-01-01' + i * 2 + i % 7, i * 1.5, i * 1.5 + i % 4
  FROM generate_series(1, 40) i;
INSERT INTO period VALUES (41, NULL, 5, NULL, '2024-01-05', 1, NULL), (42, 5, NULL, '2024-01-05', NULL, NULL, 1), (43, 100, 50, '2024-02-01', '2024-01-01', 2, 1);
CREATE TABLE nothing (id integer PRIMARY KEY, low integer, high integer);
SELECT anker.mirror(t) FROM unnest('{event,period,nothing}'::regclass[]) t;
SELECT anker.wait_for_mirror(t) FROM unnest('{event,period,nothing}'::regclass[]) t;

PREPARE nearest(integer) AS SELECT count(*), sum(n.id) FROM event a CROSS JOIN LATERAL
  (SELECT id FROM event b WHERE b.is_open = a.is_open AND b.id < a.id ORDER BY b.id DESC LIMIT $1) n;

-- of every type
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.id < b.id;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.small <= b.small;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.big > b.big;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.small > b.big;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.price >= b.price;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.price < b.fine;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.fine <= b.small;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.exact > b.exact;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.exact >= b.price;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.ratio < b.ratio;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.ratio >= b.rough;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.rough <= b.small;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.made > b.made;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.made >= b.seen;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.seen < b.seen;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.told <= b.told;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.clock > b.clock;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.span >= b.span;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.name < b.name;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.local < b.local;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.code <= b.code;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.token > b.token;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.bytes >= b.bytes;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.is_open > b.is_open;

-- between two values
SELECT count(*), sum(e.id), sum(p.id) FROM event e JOIN period p ON e.id BETWEEN p.low AND p.high;
SELECT count(*), sum(e.id), sum(p.id) FROM event e, period p WHERE e.made >= p.since AND e.made < p.until;
SELECT count(*), sum(e.id), sum(p.id) FROM event e, period p WHERE e.seen >= p.since AND e.seen < p.until + 1;
SELECT count(*), sum(e.id), sum(p.id) FROM event e, period p WHERE e.price BETWEEN p.least AND p.most;
SELECT count(*), sum(e.id), sum(p.id) FROM event e, period p WHERE e.exact BETWEEN p.least AND p.most AND e.id <> p.id;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON b.id BETWEEN a.id AND a.id + 1;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON b.id BETWEEN a.id - 2 AND a.id + 2 AND a.small < b.small;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b
  ON b.seen BETWEEN a.seen - interval '1 day' AND a.seen + interval '1 day' WHERE a.id < 50;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON abs(a.small) < b.small AND b.id > a.id;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.id + b.id < 100 AND a.small < b.small;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON b.name BETWEEN a.name AND a.name || '9';

-- rows, by their first values
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.small, a.id) < (b.small, b.id);
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.seen, a.price, a.id) >= (b.seen, b.fine, b.id);
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.name, a.small) > (b.name, b.small) AND (a.exact, a.id) <= (b.exact, b.id);
SELECT count(*), count(b.id), sum(a.id), sum(b.id) FROM event a LEFT JOIN event b ON (b.small, b.price) < (a.small, a.price) AND b.id < 30;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.is_open = b.is_open AND (a.local, a.id) < (b.local, b.id);
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.small < b.small OR a.small = b.small AND a.price < b.price;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.big + 1, a.id) < (b.big, b.id) WHERE a.id <> 80;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.big + 1, a.id) < (b.big, b.id);
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (a.small, 1 / (a.id - 241)) < (b.small, b.id);
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON (b.small, 1 / (a.id - 7)) < (a.small, b.id);
SELECT count(*), sum(id) FROM event a WHERE NOT EXISTS (SELECT FROM event b WHERE (b.clock, b.id) > (a.clock, a.id) AND b.is_open = a.is_open);
SELECT count(*), sum(id), count(*) FILTER (WHERE found IS NULL) FROM
  (SELECT id, (small, id) < ANY (SELECT low, high FROM period) AS found FROM event a) s;
SELECT count(*), sum(a.id), sum(n.id) FROM event a CROSS JOIN LATERAL
  (SELECT id FROM event b WHERE b.is_open = a.is_open AND (b.seen, b.id) < (a.seen, a.id) ORDER BY b.seen DESC, b.id DESC LIMIT 1) n;

-- periods that overlap, that lie within each other
SELECT count(*), sum(a.id), sum(b.id) FROM period a JOIN period b ON a.since <= b.until AND b.since <= a.until AND a.id <> b.id;
SELECT count(*), sum(a.id), sum(b.id) FROM period a JOIN period b ON a.low >= b.low AND a.high <= b.high;
SELECT count(*), sum(a.id), sum(b.id) FROM period a JOIN period b ON a.low > b.low AND a.high < b.high + 30 AND a.least <= b.most;
SELECT p.id, e.id FROM period p JOIN event e ON e.id > p.low AND e.id < p.high AND e.small > 20 ORDER BY 1, 2;

-- outer joins
SELECT count(*), count(e.id), sum(p.id), sum(e.id) FROM period p LEFT JOIN event e ON e.id BETWEEN p.low AND p.high;
SELECT count(*), count(e.id), sum(p.id), sum(e.id) FROM period p RIGHT JOIN event e ON e.id BETWEEN p.low AND p.high;
SELECT count(*), count(e.id), sum(p.id) FROM period p LEFT JOIN event e ON e.made > p.until AND e.price < p.least;
SELECT count(*), count(e.id), sum(p.id) FROM event e LEFT JOIN period p ON e.made > p.until AND e.price < p.least;
SELECT count(*), count(n.id) FROM event e LEFT JOIN nothing n ON e.id BETWEEN n.low AND n.high;
SELECT count(*), count(n.id) FROM nothing n LEFT JOIN event e ON e.id BETWEEN n.low AND n.high;
SELECT count(*) FROM nothing n JOIN event e ON e.id BETWEEN n.low AND n.high;
SELECT count(*), count(p.id) FROM period p FULL JOIN event e ON e.id = p.id AND e.small > p.low;

-- among many rows with the same key
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON a.is_open = b.is_open AND a.seen < b.seen;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b ON left(a.name, 5) = left(b.name, 5)
  AND b.seen BETWEEN a.seen - interval '1 day' AND a.seen;
SELECT count(*), sum(a.id), sum(b.id) FROM event a JOIN event b
  ON a.is_open = b.is_open AND left(a.name, 5) = left(b.name, 5) AND a.price < b.fine AND b.id > a.id + 20 AND a.code <> b.code;
SELECT count(*), count(b.id), sum(a.id) FROM event a LEFT JOIN event b ON a.is_open = b.is_open AND a.made < b.made AND b.price < 3;
SELECT count(*), count(b.id), sum(b.id) FROM event a RIGHT JOIN event b ON a.is_open = b.is_open AND a.ratio > b.ratio AND a.id < 9;
SELECT count(*), count(a.id), count(b.id) FROM event a FULL JOIN event b ON a.is_open = b.is_open AND a.exact < b.exact AND b.id < 5;
SELECT count(*), sum(id) FROM event a WHERE EXISTS (SELECT FROM event b WHERE a.is_open = b.is_open AND b.seen > a.seen AND b.id < a.id - 100);
SELECT count(*), sum(id) FROM event a WHERE NOT EXISTS (SELECT FROM event b WHERE a.is_open = b.is_open AND b.told > a.told);
SELECT count(*), sum(id) FROM event a WHERE price > ALL (SELECT price FROM event b WHERE a.is_open = b.is_open AND b.clock > a.clock);
SELECT count(*), sum(n) FROM (SELECT (SELECT count(*) FROM event b WHERE b.is_open = a.is_open AND b.seen < a.seen) AS n FROM event a) s;
SELECT count(*) FROM event a JOIN event b ON a.is_open = b.is_open AND b.big > a.big + 1;
SELECT count(*) FROM event a JOIN event b ON a.is_open = b.is_open AND b.id > a.id AND b.big > a.big + 1 WHERE a.id <> 80;

-- EXISTS, NOT EXISTS, ANY, ALL
SELECT count(*), sum(id) FROM event e WHERE EXISTS (SELECT FROM period p WHERE e.id BETWEEN p.low AND p.high);
SELECT count(*), sum(id) FROM event e WHERE NOT EXISTS (SELECT FROM period p WHERE e.id BETWEEN p.low AND p.high);
SELECT count(*), sum(id) FROM period p WHERE EXISTS (SELECT FROM event e WHERE e.id BETWEEN p.low AND p.high);
SELECT count(*), sum(id) FROM period p WHERE NOT EXISTS (SELECT FROM event e WHERE e.id BETWEEN p.low AND p.high);
SELECT count(*), sum(id) FROM event a WHERE EXISTS (SELECT FROM event b WHERE b.id > a.id AND b.price < a.price AND b.small > a.small);
SELECT count(*), sum(id) FROM event a WHERE NOT EXISTS (SELECT FROM event b WHERE b.id > a.id AND b.price < a.price);
SELECT count(*), sum(id) FROM event a WHERE EXISTS (SELECT FROM event b WHERE b.id BETWEEN a.id + 1 AND a.id + 2 AND b.price > 30);
SELECT count(*), sum(id) FROM event a WHERE small < ANY (SELECT high FROM period);
SELECT count(*), sum(id) FROM event a WHERE small > ALL (SELECT low FROM period WHERE id < 3);
SELECT count(*), sum(id) FROM event a WHERE (small > ALL (SELECT low FROM period WHERE low > a.id - 100)) IS NOT TRUE;
SELECT count(*) FILTER (WHERE found), count(*) FROM
  (SELECT EXISTS (SELECT FROM period p WHERE e.id BETWEEN p.low AND p.high) AS found FROM event e) s;

-- subqueries by rows before, or after
SELECT sum(n), max(m) FROM (SELECT a.id, (SELECT count(*) FROM event b WHERE b.id < a.id) AS n,
  (SELECT max(b.price) FROM event b WHERE b.seen < a.seen) AS m FROM event a) s;
SELECT a.id, (SELECT b.id FROM event b WHERE b.seen <= a.seen AND b.id <> a.id ORDER BY b.seen DESC, b.id LIMIT 1)
  FROM event a WHERE a.id < 20 ORDER BY 1;
SELECT e.id, l.id FROM event e LEFT JOIN LATERAL (SELECT id FROM period p WHERE e.id BETWEEN p.low AND p.high ORDER BY id DESC LIMIT 1) l ON true
  WHERE e.id < 40 ORDER BY 1;

-- the nearest of each row, before it or after it
SELECT count(*), sum(a.id), sum(n.id), sum(n.price) FROM event a CROSS JOIN LATERAL
  (SELECT id, price FROM event b WHERE b.is_open = a.is_open AND b.seen <= a.seen AND b.id <> a.id ORDER BY b.seen DESC, b.id LIMIT 1) n;
SELECT count(*), sum(a.id), sum(n.id), sum(n.price) FROM event a LEFT JOIN LATERAL
  (SELECT id, price FROM event b WHERE b.is_open = a.is_open AND b.ratio > a.ratio ORDER BY b.ratio, b.id LIMIT 3) n ON true;
SELECT count(*), sum(a.id), sum(n.id) FROM event a CROSS JOIN LATERAL
  (SELECT id FROM event b WHERE b.name < a.name ORDER BY b.name DESC, b.id FETCH FIRST 2 ROWS WITH TIES) n;
SELECT count(*), sum(a.id), sum(n.id) FROM event a CROSS JOIN LATERAL
  (SELECT id FROM event b WHERE b.is_open = a.is_open AND b.exact >= a.exact AND b.made > a.made ORDER BY b.exact, b.id OFFSET 1 LIMIT 2) n;
SELECT count(*), sum((SELECT b.id FROM event b WHERE b.small = a.small AND b.told < a.told ORDER BY b.told DESC, b.id LIMIT 1)) FROM event a;
SELECT count(*), sum((SELECT b.id FROM event b WHERE b.big < a.big + 0 ORDER BY b.big DESC, b.id LIMIT 1)) FROM event a WHERE id NOT IN (80, 81);
SELECT count(*), sum((SELECT max(b.seen) FROM event b WHERE b.is_open = a.is_open AND b.seen < a.seen AND isfinite(b.seen)) - a.seen)
  FROM event a WHERE isfinite(a.seen);
EXECUTE nearest(1);
EXECUTE nearest(2);

-- several joins, groups
SELECT p.id, count(*), sum(e.price) FROM period p JOIN event e ON e.id BETWEEN p.low AND p.high GROUP BY p.id HAVING count(*) > 5 ORDER BY 1;
SELECT count(*) FROM event a JOIN event b ON a.id = b.id JOIN period p ON b.price BETWEEN p.least AND p.most AND a.small > p.id;
SELECT count(*) FROM event a JOIN event b ON a.small = b.small AND a.seen < b.seen;
SELECT count(*), sum(x.low) FROM (SELECT low, high FROM period WHERE id < 30 UNION ALL SELECT id, id + 3 FROM event) x
  JOIN event e ON e.id BETWEEN x.low AND x.high;
WITH bounds(low, high, label) AS (VALUES (0, 10, 'few'), (10, 30, 'some'), (30, NULL, 'many'))
  SELECT label, count(*), sum(e.id) FROM bounds JOIN event e ON e.small >= low AND (e.small < high OR high IS NULL) GROUP BY label ORDER BY label;

-- conditions raise their errors for the rows that meet
SELECT count(*) FROM event a JOIN event b ON b.id > a.id AND b.big > a.big + 1;
SELECT count(*) FROM event a JOIN event b ON b.id > a.id AND b.big + 1 > a.big;
SELECT count(*) FROM event a JOIN event b ON b.big > a.big + 1 WHERE a.id <> 80;
SELECT count(*) FROM event a JOIN event b ON b.id = 500 AND b.big > a.big + 1;
SELECT count(*) FROM nothing n JOIN event a ON n.low > a.big + 1;
SELECT count(*) FROM event a WHERE EXISTS (SELECT FROM event b WHERE b.small > 1 / (a.id - 3));
SELECT count(*) FROM event a WHERE a.id <> 3 AND EXISTS (SELECT FROM event b WHERE b.small > 100 / (a.id - 3));
