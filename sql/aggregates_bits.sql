-- engine: at least 20
--
-- BOOL_AND, BOOL_OR, EVERY, BIT_AND, BIT_OR, BIT_XOR
--

CREATE TABLE flags (
    id    integer PRIMARY KEY,
    kind  text,
    yes   boolean,
    i2    smallint,
    i4    integer,
    i8    bigint
);
INSERT INTO flags VALUES
    (1, 'all',   true,  1,      1,           1),
    (2, 'all',   true,  3,      7,           15),
    (3, 'some',  true,  -1,     -1,          -1),
    (4, 'some',  false, 12,     10,          9),
    (5, 'some',  NULL,  NULL,   NULL,        NULL),
    (6, 'none',  false, -32768, -2147483648, -9223372036854775808),
    (7, 'none',  false, 32767,  2147483647,  9223372036854775807),
    (8, 'null',  NULL,  NULL,   NULL,        NULL),
    (9, NULL,    true,  5,      5,           5),
    (10, 'twice', true, 6,      6,           6),
    (11, 'twice', true, 6,      6,           6),
    (12, 'twice', true, 1,      1,           1);
SELECT anker.mirror('flags');
SELECT anker.wait_for_mirror('flags');

-- without groups
SELECT bool_and(yes), bool_or(yes), every(yes) FROM flags;
SELECT bit_and(i2), bit_or(i2), bit_xor(i2) FROM flags;
SELECT bit_and(i4), bit_or(i4), bit_xor(i4) FROM flags;
SELECT bit_and(i8), bit_or(i8), bit_xor(i8) FROM flags;
SELECT pg_typeof(bool_and(yes)), pg_typeof(bit_and(i2)), pg_typeof(bit_or(i4)), pg_typeof(bit_xor(i8)) FROM flags;
SELECT bool_and(i4 > 0), bool_or(i8 IS NULL), every(kind <> 'x') FROM flags;
SELECT bit_or(i4 * 2), bit_xor(i2 + i4) FROM flags WHERE id < 5;

-- no rows, and only nulls
SELECT bool_and(yes), bool_or(yes), bit_and(i2), bit_or(i4), bit_xor(i8) FROM flags WHERE id > 100;
SELECT bool_and(yes), bool_or(yes), bit_and(i2), bit_or(i4), bit_xor(i8) FROM flags WHERE kind = 'null';
SELECT kind, bool_and(yes) FROM flags WHERE id > 100 GROUP BY kind;

-- groups
SELECT kind, bool_and(yes), bool_or(yes), every(yes) FROM flags GROUP BY kind ORDER BY kind;
SELECT kind, bit_and(i2), bit_or(i2), bit_xor(i2) FROM flags GROUP BY kind ORDER BY kind;
SELECT kind, bit_and(i4), bit_or(i4), bit_xor(i4) FROM flags GROUP BY kind ORDER BY kind;
SELECT id % 3, bit_and(i8), bit_or(i8), bit_xor(i8), bool_or(yes) FROM flags GROUP BY id % 3 ORDER BY 1;

-- DISTINCT and FILTER
SELECT kind, bit_xor(DISTINCT i4), bit_or(DISTINCT i4), bool_and(DISTINCT yes) FROM flags GROUP BY kind ORDER BY kind;
SELECT bit_xor(DISTINCT i2), bit_xor(i2), bit_and(DISTINCT i2) FROM flags WHERE kind = 'twice';
SELECT bool_and(yes) FILTER (WHERE kind = 'all'), bool_or(yes) FILTER (WHERE id > 100) FROM flags;
SELECT kind, bit_or(i4) FILTER (WHERE i4 > 1), every(yes) FILTER (WHERE i4 > 1) FROM flags GROUP BY kind ORDER BY kind;

-- expressions above the aggregates
SELECT kind FROM flags GROUP BY kind HAVING bool_and(yes) ORDER BY kind;
SELECT kind FROM flags GROUP BY kind HAVING NOT bool_or(yes) ORDER BY kind;
SELECT kind, bit_or(i4) | 16, coalesce(bool_and(yes), true) FROM flags GROUP BY kind ORDER BY kind;
SELECT kind, rank() OVER (ORDER BY bit_or(i8)) FROM flags WHERE kind IS NOT NULL AND kind <> 'null' GROUP BY kind ORDER BY 2, 1;

-- in subqueries
SELECT count(*) FROM flags WHERE i4 = (SELECT bit_or(i4) FROM flags WHERE id <= 2);
SELECT id FROM flags f WHERE (SELECT bool_and(yes) FROM flags g WHERE g.kind = f.kind) ORDER BY id;
SELECT count(*) FROM (SELECT kind, every(yes) AS good FROM flags GROUP BY kind) s WHERE good;

-- several threads
CREATE TABLE many (id integer PRIMARY KEY, g integer, v bigint);
INSERT INTO many SELECT i, i % 9, (i::bigint * 2654435761) % 1000000007 FROM generate_series(1, 60000) i;
SELECT anker.mirror('many');
SELECT anker.wait_for_mirror('many');
SELECT bit_and(v), bit_or(v), bit_xor(v), bool_and(v > 0), bool_or(v > 1000000005) FROM many;
SELECT g, bit_and(v | 3), bit_or(v), bit_xor(v), bool_and(v > 100) FROM many GROUP BY g ORDER BY g;
SELECT bit_xor(x), bit_and(x), count(*) FROM (SELECT bit_xor(v) AS x FROM many GROUP BY id / 3) s;
