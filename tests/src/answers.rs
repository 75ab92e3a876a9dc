//! Hand-written queries on tables with odd and extreme values. Heap and engine must return the same rows with the same
//! types, or the same error. For random queries see [`crate::generated`].

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{same, unflagged};
use crate::generated::hostile;
use crate::runner::{Context, ensure, tests};

tests![
    grouped_expressions_that_stand_simplified_elsewhere,
    chosen_queries,
    results_have_postgresqls_types,
    empty_tables_and_dropped_columns
];

const LIVE: Duration = Duration::from_secs(60);

fn grouped_expressions_that_stand_simplified_elsewhere(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE w (id integer PRIMARY KEY, x integer NOT NULL, y integer, b boolean, t text, c char(5));
         INSERT INTO w SELECT i, i, nullif(i % 4, 3), nullif(i % 3, 2) = 1, 'T' || i % 2, 'c' || i % 3
         FROM generate_series(1, 10) i;
         CREATE TABLE v (wid integer REFERENCES w, no integer, z numeric(6,2), PRIMARY KEY (wid, no));
         INSERT INTO v SELECT i, j, i / 4.0 + j FROM generate_series(1, 10) i, generate_series(1, 3) j;
         CREATE VIEW seen AS SELECT id, x < 5 AS small, x + 0 AS x, y FROM w;
         CREATE FUNCTION small(integer) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 < 5'",
    )?;
    anker::mirror(&mut client, &["w", "v"], LIVE)?;
    for sql in [
        "SELECT x < 5, NOT (x < 5), count(*) FROM w WHERE anker.olap() GROUP BY x < 5",
        "SELECT x < 5, count(*) FROM w WHERE anker.olap() GROUP BY x < 5 HAVING NOT (x < 5)",
        "SELECT count(*) FROM w WHERE anker.olap() GROUP BY x < 5 HAVING (x < 5) = false",
        "SELECT count(*), max(x) FROM w WHERE anker.olap() GROUP BY x < 5 HAVING (x < 5) IS NOT TRUE ORDER BY NOT (x < 5)",
        "SELECT CASE WHEN NOT (x IN (1, 2)) THEN 'other' ELSE 'few' END, count(*) FROM w WHERE anker.olap() GROUP BY x IN (1, 2)",
        "SELECT (x > 8) AND (x > 1 AND id > 1), count(*) FROM w WHERE anker.olap() GROUP BY x > 8, x > 1 AND id > 1",
        "SELECT NOT (b AND y > 1), count(*) FROM w WHERE anker.olap() GROUP BY b AND y > 1",
        "SELECT NOT (b = true), b = true, count(*) FROM w WHERE anker.olap() GROUP BY b = true",
        "SELECT x < 5, NOT (x >= 5), count(*) FROM w WHERE anker.olap() GROUP BY x < 5, NOT (x >= 5)",
        "SELECT NOT small, small, count(*) FROM seen WHERE anker.olap() GROUP BY small",
        "SELECT NOT small, x + 0, count(*) FROM seen WHERE anker.olap() GROUP BY small, x",
        "SELECT NOT small(x), small(x), count(*) FROM w WHERE anker.olap() GROUP BY small(x)",
        "SELECT NOT (j.x < 5), count(*) FROM (w JOIN v ON id = wid) AS j WHERE anker.olap() GROUP BY j.x < 5",
        "SELECT DISTINCT NOT (x < 5) FROM w WHERE anker.olap() GROUP BY x < 5, y",
        "SELECT NOT (x < 5), rank() OVER (PARTITION BY NOT (x < 5) ORDER BY sum(y)) FROM w WHERE anker.olap() GROUP BY x < 5, y",
        "SELECT sum(x + 1), sum(1 + x), sum(x + 1) + count(*), count(1), count(*) FROM w WHERE anker.olap() GROUP BY x < 5",
        "SELECT NOT (sum(x) > 10), sum(NULLIF(x, NULL) + 0) FROM w WHERE anker.olap() GROUP BY y HAVING NOT (sum(x) > 30)",
        "SELECT t COLLATE \"C\", count(*) FROM w WHERE anker.olap() GROUP BY t COLLATE \"C\" ORDER BY 1",
        "SELECT c || 'x', c::text, count(*) FROM w WHERE anker.olap() GROUP BY c ORDER BY 1",
        // Columns that are not grouped, but depend on a grouped primary key.
        "SELECT x, NOT (x < 5), c, count(*) FROM w WHERE anker.olap() GROUP BY id",
        "SELECT x + y, z, count(*) FROM w, v WHERE id = wid AND anker.olap() GROUP BY id, wid, no",
        "SELECT z * 2, wid < 5, NOT (wid < 5) FROM v WHERE anker.olap() GROUP BY wid, no",
    ] {
        same(&mut client, sql)?;
        let by = anker::analyzed(&mut client, sql)?;
        let helped = !sql.contains("NULLIF");
        ensure!(!helped || by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    // PostgreSQL's planner simplifies these group keys to constants, so that no key is left.
    for key in ["x > 5 AND false", "CASE WHEN true THEN 1 ELSE x END", "b OR true"] {
        same(&mut client, &format!("SELECT {key}, count(*) FROM w WHERE anker.olap() GROUP BY {key}"))?;
        same(&mut client, &format!("SELECT {key}, count(*) FROM w WHERE id < 0 AND anker.olap() GROUP BY {key}"))?;
    }
    Ok(())
}

/// Queries that the generator of random queries rarely produces.
fn chosen_queries(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    hostile::create(&mut client)?;
    for sql in [
        "SELECT count(*) FROM kinds WHERE anker.olap()",
        "SELECT 1 FROM kinds WHERE anker.olap()",
        "SELECT * FROM facts WHERE anker.olap() AND false",
        "SELECT sum(i4), avg(n9) FROM kinds WHERE id < -5 AND anker.olap()",
        "SELECT i2, sum(i4) FROM kinds WHERE id < -5 AND anker.olap() GROUP BY i2",
        "SELECT f8, count(*) FROM kinds WHERE anker.olap() GROUP BY f8",
        "SELECT f8 FROM kinds WHERE f8 = 'NaN' AND anker.olap()",
        "SELECT f8 FROM kinds WHERE f8 > 1e308 AND anker.olap()",
        "SELECT min(f8), max(f8) FROM kinds WHERE anker.olap()",
        "SELECT id FROM kinds WHERE f8 = 0 AND anker.olap()",
        "SELECT id FROM kinds WHERE c = 'pad' AND anker.olap()",
        "SELECT id FROM kinds WHERE c = 'pad   ' AND anker.olap()",
        "SELECT id FROM kinds WHERE v = 'trailing' AND anker.olap()",
        "SELECT id FROM kinds WHERE v = c AND anker.olap()",
        "SELECT id FROM kinds WHERE d = 'infinity' AND anker.olap()",
        "SELECT min(d), max(d), min(ts), max(ts), min(tz), max(tz) FROM kinds WHERE anker.olap()",
        "SELECT id FROM kinds WHERE d < ts AND anker.olap()",
        "SELECT id FROM kinds WHERE d = tz AND anker.olap()",
        "SELECT id FROM kinds WHERE tz > now() - interval '20 years' AND anker.olap()",
        "SELECT id FROM kinds WHERE i2 = i8 OR i4 = n9 OR i8 = f8 AND anker.olap()",
        "SELECT id FROM kinds WHERE i4 = 1.5 AND anker.olap()",
        "SELECT id FROM kinds WHERE n9 = 3 AND anker.olap()",
        "SELECT id, i4 FROM kinds WHERE i4 IN (1, 2, 3, NULL) AND anker.olap()",
        "SELECT id, i4 FROM kinds WHERE i4 NOT IN (1, 2, 3) AND anker.olap()",
        "SELECT id, i4 FROM kinds WHERE i4 NOT IN (1, NULL) AND anker.olap()",
        "SELECT id, i4 FROM kinds WHERE i4 BETWEEN 0 AND 100 AND anker.olap()",
        "SELECT id FROM kinds WHERE (i4 > 0) IS TRUE AND anker.olap()",
        "SELECT id FROM kinds WHERE b IS NOT TRUE AND anker.olap()",
        "SELECT id FROM kinds WHERE i4 IS DISTINCT FROM i2 AND anker.olap()",
        "SELECT id, CASE WHEN i4 > 0 THEN 'plus' ELSE 'minus' END FROM kinds WHERE anker.olap()",
        "SELECT coalesce(i4, 0) + 1, upper(t), length(v) FROM kinds WHERE anker.olap()",
        "SELECT t, count(*) FROM kinds WHERE anker.olap() GROUP BY t ORDER BY count(*) DESC, t LIMIT 5",
        "SELECT t, count(*) AS n FROM kinds WHERE anker.olap() GROUP BY t HAVING count(*) > 3",
        "SELECT DISTINCT b, i2 FROM kinds WHERE anker.olap()",
        "SELECT id, rank() OVER (PARTITION BY b ORDER BY i4, id) FROM kinds WHERE anker.olap()",
        "SELECT sum(count(*)) OVER () FROM kinds WHERE anker.olap() GROUP BY b",
        "SELECT b, sum(i4) / count(*) + 1, round(avg(n9), 1) FROM kinds WHERE anker.olap() GROUP BY b",
        "SELECT i4 / 10 AS tens, count(*) FROM kinds WHERE anker.olap() GROUP BY i4 / 10",
        "SELECT max(amount) - min(amount), avg(amount) * 2 FROM facts WHERE anker.olap()",
        "SELECT avg(i2), avg(i4), avg(i8), avg(n9), avg(n30) FROM kinds WHERE anker.olap()",
        "SELECT sum(i2), sum(i4), sum(i8), sum(n9), sum(n30) FROM kinds WHERE anker.olap()",
        "SELECT sum(n30 * n30), sum(n9 * n9 * n9) FROM kinds WHERE anker.olap()",
        "SELECT sum(n30 * n30 * n30) FROM kinds WHERE anker.olap()",
        "SELECT n9 / 3, n9 % 2, round(n9) FROM kinds WHERE anker.olap()",
        "SELECT -n9, -i4, -f8, +i2 FROM kinds WHERE i4 > -2147483648 AND anker.olap()",
        "SELECT d + 1, d - 1, d - date '2020-01-01' FROM kinds WHERE d > '1900-01-01' AND d < '2100-01-01' AND anker.olap()",
        "SELECT a.id, b.id FROM kinds a, kinds b WHERE a.id = b.id + 1 AND anker.olap()",
        "SELECT count(*) FROM kinds a, kinds b WHERE a.t = b.t AND a.id < b.id AND anker.olap()",
        "SELECT count(*) FROM kinds a, kinds b WHERE a.f8 = b.f8 AND anker.olap()",
        "SELECT count(*) FROM kinds a, kinds b WHERE a.c = b.v AND anker.olap()",
        "SELECT count(*) FROM kinds a, kinds b WHERE a.i2 = b.i8 AND anker.olap()",
        "SELECT count(*) FROM kinds, facts, coded WHERE id = kid AND part = i2 AND anker.olap()",
        "SELECT count(*) FROM facts, coded WHERE anker.olap()",
        "SELECT kinds.*, facts.* FROM kinds, facts WHERE id = fid AND anker.olap()",
        "SELECT k, v, n, count(*) FROM bag WHERE anker.olap() GROUP BY k, v, n",
        "SELECT * FROM bag WHERE anker.olap() ORDER BY k, v, n",
        "SELECT long, count(*), max(x) FROM pairs WHERE anker.olap() GROUP BY long",
        "SELECT * FROM (SELECT b, count(*) AS n FROM kinds WHERE anker.olap() GROUP BY b) s WHERE n > 1",
        "WITH s AS (SELECT t, sum(i4) AS total FROM kinds WHERE anker.olap() GROUP BY t) SELECT max(total) FROM s",
        "SELECT (SELECT count(*) FROM facts WHERE anker.olap()) AS facts",
        "SELECT id FROM kinds WHERE anker.olap() ORDER BY id OFFSET 3 FETCH FIRST 4 ROWS ONLY",
        "SELECT NULL::integer, 'constant', 1.50, count(*) FROM kinds WHERE anker.olap()",
        "SELECT count(*) FROM kinds WHERE i4 > NULL AND anker.olap()",
        "SELECT count(*) FROM kinds WHERE anker.olap() AND anker.olap()",
        "SELECT count(*) FROM kinds WHERE anker.olap() OR id = 1",
        "SELECT count(*) FROM kinds WHERE NOT anker.olap()",
        "SELECT anker.olap(), count(*) FROM kinds",
    ] {
        same(&mut client, sql)?;
    }
    Ok(())
}

fn results_have_postgresqls_types(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    hostile::create(&mut client)?;
    for sql in [
        "SELECT * FROM kinds WHERE anker.olap()",
        "SELECT sum(i2), sum(i4), sum(i8), sum(n9), avg(i2), avg(n30), count(*) FROM kinds WHERE anker.olap()",
        "SELECT min(d), max(ts), min(tz), max(c), max(v), min(t), max(f8) FROM kinds WHERE anker.olap()",
        "SELECT i2 + i4, i2 * i2, n9 * n30, n9 + 1, d - d, d + 1, f8 * 2 FROM kinds WHERE anker.olap()",
        "SELECT c, count(*) AS n FROM kinds WHERE anker.olap() GROUP BY c",
    ] {
        // Compares the types that the server announces to a client, and the type modifiers in a table that is created
        // from the rows.
        let described = |client: &mut Client, sql: &str| -> Result<Vec<String>> {
            let statement = client.prepare(sql)?;
            Ok(statement.columns().iter().map(|c| format!("{} {}", c.name(), c.type_())).collect())
        };
        let (flagged, heap) = (described(&mut client, sql)?, described(&mut client, &unflagged(sql))?);
        ensure!(flagged == heap, "{sql}: {flagged:?} instead of {heap:?}");
    }
    client.batch_execute(
        "CREATE TABLE of_heap AS SELECT * FROM kinds; CREATE TABLE of_mirror AS SELECT * FROM kinds WHERE anker.olap()",
    )?;
    let shape = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute
        WHERE attnum > 0 AND attrelid = ";
    let of = |client: &mut Client, name: &str| anker::text_rows(client, &format!("{shape}'{name}'::regclass"));
    let (heap, mirror) = (of(&mut client, "of_heap")?, of(&mut client, "of_mirror")?);
    ensure!(heap == mirror, "columns {mirror:?} instead of {heap:?}");
    // Compares exact forms of values, because equal values may differ in padding, display scale, or the sign of zero.
    let shown =
        "id, n9::text, n30::text, convert_to(c, 'UTF8'), f8::text, float8send(f8), uuid_send(u), float4send(r), m,
        time_send(tm), o, y, dm::text, j::text, array_send(a)";
    let without = |one: &str, other: &str| format!("SELECT {shown} FROM {one} EXCEPT ALL SELECT {shown} FROM {other}");
    let (lost, made) = (without("of_heap", "of_mirror"), without("of_mirror", "of_heap"));
    let differ = anker::text_rows(&mut client, &format!("({lost}) UNION ALL ({made})"))?;
    ensure!(differ.is_empty(), "different values: {:?}", &differ[..differ.len().min(3)]);
    Ok(())
}

fn empty_tables_and_dropped_columns(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE nothing (id integer PRIMARY KEY, n numeric(5,1), x text);
         CREATE TABLE gaps (gone1 text, id integer PRIMARY KEY, gone2 integer, v text, gone3 numeric(4,2), n integer);
         INSERT INTO gaps SELECT 'g', i, i, 'v' || i, 1, i FROM generate_series(1, 100) i;
         ALTER TABLE gaps DROP COLUMN gone1, DROP COLUMN gone2, DROP COLUMN gone3;
         ALTER TABLE gaps ADD COLUMN late text DEFAULT 'default', ADD COLUMN later integer DEFAULT 5;
         INSERT INTO gaps VALUES (1000, 'new', 1, NULL, NULL);
         CREATE TABLE narrow (); ALTER TABLE narrow ADD COLUMN id integer PRIMARY KEY",
    )?;
    anker::mirror(&mut client, &["nothing", "gaps", "narrow"], LIVE)?;
    for sql in [
        "SELECT * FROM nothing WHERE anker.olap()",
        "SELECT count(*), sum(n), avg(n), min(n), count(x), max(id) FROM nothing WHERE anker.olap()",
        "SELECT x, count(*) FROM nothing WHERE anker.olap() GROUP BY x",
        "SELECT count(*) FROM nothing, gaps WHERE nothing.id = gaps.id AND anker.olap()",
        "SELECT * FROM gaps WHERE anker.olap()",
        "SELECT late, later, count(*), sum(n) FROM gaps WHERE anker.olap() GROUP BY late, later",
        "SELECT count(*) FROM narrow WHERE anker.olap()",
    ] {
        same(&mut client, sql)?;
        let by = anker::analyzed(&mut client, sql)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    client.batch_execute("UPDATE gaps SET later = id WHERE id < 50; INSERT INTO nothing VALUES (1, 1, 'x'); DELETE FROM gaps WHERE id > 90")?;
    for table in ["nothing", "gaps", "narrow"] {
        same(&mut client, &format!("SELECT * FROM {table} WHERE anker.olap()"))?;
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    Ok(())
}
