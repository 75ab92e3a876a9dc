-- engine: at least 42
--
-- AGGREGATES
--
-- count, sum, min, max and avg over every type that is mirrored, with and
-- without groups, and the expressions that stand above them.
--

CREATE TABLE sales (
    id      integer PRIMARY KEY,
    region  text,
    kind    char(4),
    small   smallint,
    qty     integer,
    big     bigint,
    price   numeric(8,2),
    ratio   double precision,
    sold    date,
    open    boolean
);
INSERT INTO sales VALUES
    (1, 'north', 'a',    1,    10,          100,  1.50,  0.5,         '2024-01-01', true),
    (2, 'north', 'b',    2,    20,          200,  2.25, -0.5,         '2024-01-02', false),
    (3, 'south', 'a',    3,    30,          300,  0.00,  1e10,        '2024-02-01', true),
    (4, 'south', 'a', NULL,  NULL,         NULL,  NULL,  NULL,        NULL,         NULL),
    (5, 'east',  'b',   -5,   -50,         -500, -7.75,  'Infinity',  '1999-12-31', false),
    (6, 'east',  'c', 32767, 2147483647, 9223372036854775807, 999999.99, 'NaN', 'infinity', true),
    (7, NULL,    'c',    7,    70,          700,  7.00, '-Infinity',  '-infinity',  true),
    (8, NULL,   NULL, -32768, -2147483648, -9223372036854775808, -999999.99, 0, '2024-02-29', NULL);
SELECT anker.mirror('sales');
SELECT anker.wait_for_mirror('sales');

-- without groups
SELECT count(*) FROM sales;
SELECT count(*), count(region), count(kind), count(small), count(open) FROM sales;
SELECT sum(small), sum(qty), sum(big), sum(price) FROM sales;
SELECT avg(small), avg(qty), avg(big), avg(price) FROM sales;
SELECT min(small), max(small), min(qty), max(qty), min(big), max(big) FROM sales;
SELECT min(price), max(price), min(ratio), max(ratio) FROM sales;
SELECT min(sold), max(sold) FROM sales;
SELECT min(region COLLATE "C"), max(region COLLATE "C") FROM sales;
SELECT min(kind), max(kind) FROM sales;

-- the type of a result is PostgreSQL's
SELECT pg_typeof(count(*)), pg_typeof(sum(small)), pg_typeof(sum(qty)),
       pg_typeof(sum(big)), pg_typeof(sum(price)), pg_typeof(avg(qty)),
       pg_typeof(min(price)), pg_typeof(max(kind)) FROM sales;

-- no rows, without groups and with them
SELECT count(*), sum(qty), avg(price), min(sold), max(region COLLATE "C")
  FROM sales WHERE id > 100;
SELECT region, count(*) FROM sales WHERE id > 100 GROUP BY region;

-- expressions below and above the aggregates
SELECT sum(qty * 2), sum(price * small), sum(price + 1), avg(qty - 1)
  FROM sales WHERE id <= 3;
SELECT sum(qty) * 2 + count(*), max(price) - min(price), -sum(small)
  FROM sales WHERE id <= 5;
SELECT round(avg(price), 3), coalesce(sum(small), 0)::text || ' pieces'
  FROM sales WHERE id <= 5;
SELECT sum(big) / count(*) AS truncated, sum(big) % 7 AS rest FROM sales WHERE id < 6;

-- groups
SELECT region, count(*), sum(qty) FROM sales GROUP BY region ORDER BY region;
SELECT region, kind, count(*) FROM sales GROUP BY region, kind ORDER BY region, kind;
SELECT kind, '<' || kind || '>' AS shown, min(sold) FROM sales GROUP BY kind ORDER BY kind;
SELECT open, count(*), avg(price) FROM sales GROUP BY open ORDER BY open;
SELECT sold, max(id) FROM sales GROUP BY sold ORDER BY sold;
SELECT region FROM sales GROUP BY region ORDER BY region;
SELECT count(*) FROM sales GROUP BY region ORDER BY 1;
SELECT big, price, count(*) FROM sales GROUP BY big, price ORDER BY big, price;

-- which zero stands for a group of doubles is up to the plan, so these are
-- grouped where no two zeros meet
SELECT ratio, count(*) FROM sales GROUP BY ratio ORDER BY ratio;

-- groups by expressions whose parts and negations stand in select list and HAVING
SELECT qty / 100 AS hundreds, count(*) FROM sales WHERE qty BETWEEN -1000 AND 1000
  GROUP BY qty / 100 ORDER BY 1;
SELECT qty + small, (qty + small) * 2, count(*) FROM sales WHERE id <= 3
  GROUP BY qty + small ORDER BY 1;
SELECT qty < 25, NOT (qty < 25), count(*) FROM sales GROUP BY qty < 25 ORDER BY 1;
SELECT qty < 25, count(*) FROM sales GROUP BY qty < 25 HAVING NOT (qty < 25);
SELECT count(*) FROM sales GROUP BY qty < 25 HAVING (qty < 25) = false;
SELECT CASE WHEN NOT (qty IN (10, 20)) THEN 'others' ELSE 'these' END AS which, count(*)
  FROM sales WHERE qty IS NOT NULL GROUP BY qty IN (10, 20) ORDER BY 1;
SELECT qty > 25, qty > 5 AND id > 1, (qty > 25) AND (qty > 5 AND id > 1) AS both, count(*)
  FROM sales GROUP BY qty > 25, qty > 5 AND id > 1 ORDER BY 1, 2;
SELECT region IS NULL, NOT (region IS NULL), count(*) FROM sales GROUP BY region IS NULL ORDER BY 1;
SELECT -qty, count(*) FROM sales WHERE id <= 3 GROUP BY -qty ORDER BY 1;
SELECT id, region, qty FROM sales GROUP BY id HAVING qty > 10 ORDER BY id;

-- HAVING
SELECT region, count(*) FROM sales GROUP BY region HAVING count(*) > 2 ORDER BY region;
SELECT region, sum(qty) FROM sales GROUP BY region
  HAVING sum(price) > 0 AND region IS NOT NULL ORDER BY region;
SELECT count(*) FROM sales HAVING count(*) > 100;
SELECT sum(qty) FROM sales WHERE id < 3 HAVING min(id) = 1;

-- clauses above groups: ORDER BY aggregates, LIMIT, DISTINCT, windows
SELECT region, sum(big) AS total FROM sales GROUP BY region ORDER BY total DESC NULLS LAST, region LIMIT 2;
SELECT region FROM sales GROUP BY region ORDER BY count(*) DESC, region OFFSET 1;
SELECT DISTINCT count(*) FROM sales GROUP BY region ORDER BY 1;
SELECT region, count(*), sum(count(*)) OVER (ORDER BY region) FROM sales GROUP BY region ORDER BY region;
SELECT region, rank() OVER (ORDER BY sum(qty)) FROM sales WHERE id < 6 GROUP BY region ORDER BY 2, 1;

-- aggregates that the engine does not know give the same answer
SELECT count(DISTINCT region) FROM sales;
SELECT count(*) FILTER (WHERE qty > 0) FROM sales;
SELECT string_agg(region, ',' ORDER BY region, id) FROM sales;
SELECT array_agg(id ORDER BY id DESC) FROM sales;
SELECT bool_and(open), bool_or(open), every(open) FROM sales WHERE open IS NOT NULL;
SELECT sum(ratio) FROM sales WHERE id <= 2;
SELECT region, kind, count(*) FROM sales GROUP BY ROLLUP (region, kind) ORDER BY region, kind, 3;
SELECT region, grouping(region), count(*) FROM sales GROUP BY CUBE (region) ORDER BY 2, 1;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY qty) FROM sales;

-- sums beyond the range of their column's type
CREATE TABLE wide (id bigint PRIMARY KEY, big bigint, price numeric(38,10));
INSERT INTO wide
  SELECT i, 9223372036854775807, 9999999999999999999999999999.9999999999
  FROM generate_series(1, 1000) i;
SELECT anker.mirror('wide');
SELECT anker.wait_for_mirror('wide');
SELECT sum(big), avg(big), sum(price), avg(price) FROM wide;
SELECT id % 3 AS third, sum(big), sum(price) FROM wide GROUP BY id % 3 ORDER BY 1;
SELECT count(*), min(price), max(big) FROM wide;
