//! Queries about the additions and changes of PostgreSQL 16, 17 and 18. Heap and engine must give the same answers.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, compare, same};
use crate::runner::{Context, Skipped, ensure, has_icu, tests};

tests![
    virtual_columns_are_computed,
    virtual_columns_are_computed_anew,
    virtual_columns_of_parts_policies_and_inserts,
    virtual_columns_are_described_as_by_the_heap,
    rows_with_virtual_columns_are_followed,
    infinite_intervals,
    quarters_of_intervals,
    newer_syntax_and_functions,
    conditions_above_outer_joins,
    builtin_locales,
    presorted_aggregates,
];

const LIVE: Duration = Duration::from_secs(60);

/// Skips the test if the server is older than this version.
pub fn since(client: &mut Client, version: i32, reason: &'static str) -> Result<()> {
    match number(client)? >= version {
        true => Ok(()),
        false => Err(Skipped(reason).into()),
    }
}

pub fn number(client: &mut Client) -> Result<i32> {
    let shown = anker::text_rows(client, "SHOW server_version_num")?;
    Ok(shown.first().ok_or("no version")?.parse()?)
}

const NO_VIRTUAL: &str = "virtual columns came with PostgreSQL 18";

/// The virtual columns have values even where the columns that they read are null, so that they show whether they are
/// computed for the rows that an outer join adds.
const ITEMS: &str = "
    CREATE TABLE item (
      id integer PRIMARY KEY, price numeric(8,2), discount numeric(8,1), name text, code char(4),
      total numeric GENERATED ALWAYS AS (coalesce(price, 0) - coalesce(discount, 0)) VIRTUAL,
      label text GENERATED ALWAYS AS (coalesce(upper(name), 'NONE')),
      twice integer GENERATED ALWAYS AS (id * 2),
      kept numeric GENERATED ALWAYS AS (price * 2) STORED,
      quoted text GENERATED ALWAYS AS (quote_nullable(name)),
      whole numeric(6,1) GENERATED ALWAYS AS (price / 3),
      same_price numeric GENERATED ALWAYS AS (price),
      padded char(6) GENERATED ALWAYS AS (code));
    INSERT INTO item SELECT i, nullif(i * 1.25, 10), nullif(i % 4, 2), nullif('n' || i % 5, 'n3'), 'c' || i % 3
      FROM generate_series(1, 40) i;
    ALTER TABLE item DROP COLUMN kept;
    CREATE TABLE sale (id integer PRIMARY KEY, item integer, n integer);
    INSERT INTO sale SELECT i, nullif(i % 50, 7), i % 6 FROM generate_series(1, 120) i;
    CREATE VIEW labels AS SELECT id, label, total FROM item;
    ANALYZE";

fn items(client: &mut Client) -> Result<()> {
    since(client, 180_000, NO_VIRTUAL)?;
    client.batch_execute(ITEMS)?;
    anker::mirror(client, &["item", "sale"], LIVE)
}

/// Queries that the engine must run.
const COMPUTED: &[&str] = &[
    "SELECT id, total, label, twice, whole, same_price, padded FROM item WHERE anker.olap()",
    "SELECT * FROM item WHERE twice BETWEEN 5 AND 31 AND anker.olap()",
    "SELECT label, count(*), sum(total), min(twice), max(whole) FROM item WHERE total > 3 AND anker.olap() GROUP BY label",
    "SELECT total, label, count(*) FROM item WHERE anker.olap() GROUP BY total, label HAVING max(twice) > 20",
    "SELECT twice % 3, sum(total + 1) FROM item WHERE anker.olap() GROUP BY twice % 3",
    "SELECT id, quoted FROM item WHERE anker.olap()",
    "SELECT id FROM item WHERE quoted <> 'NULL' AND anker.olap()",
    "SELECT DISTINCT label FROM item WHERE anker.olap()",
    "SELECT id, total FROM item WHERE anker.olap() ORDER BY total DESC, id LIMIT 7",
    "SELECT id, sum(total) OVER (PARTITION BY label ORDER BY id), rank() OVER (ORDER BY whole, id) FROM item WHERE anker.olap() ORDER BY id",
    "SELECT s.id, i.id, i.total, i.label, i.twice FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap()",
    "SELECT s.id, i.label FROM item i RIGHT JOIN sale s ON i.twice = s.item AND i.total > 2 WHERE anker.olap()",
    "SELECT i.label, count(*), count(i.label), sum(i.total) FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap() GROUP BY i.label",
    "SELECT s.id FROM sale s LEFT JOIN item i ON i.id = s.item WHERE i.label IS NULL AND anker.olap()",
    "SELECT s.id, i.total FROM sale s FULL JOIN item i ON i.twice = s.item WHERE anker.olap()",
    "SELECT label, total, a.id, b.id FROM item a FULL JOIN (SELECT label, total, id + 3 AS id FROM item) b USING (label, total) WHERE anker.olap()",
    "SELECT a.id, b.id FROM item a JOIN item b ON a.total = b.whole OR a.twice = b.id WHERE anker.olap()",
    "SELECT count(*) FROM item a JOIN item b USING (label) JOIN sale s ON s.item = a.twice WHERE anker.olap()",
    "SELECT s.id, (SELECT max(i.total) FROM item i WHERE i.twice = s.item) FROM sale s WHERE anker.olap()",
    "SELECT id FROM sale s WHERE EXISTS (SELECT FROM item i WHERE i.twice = s.item AND i.total > s.n) AND anker.olap()",
    "SELECT id FROM sale WHERE item NOT IN (SELECT twice FROM item WHERE label <> 'N1') AND anker.olap()",
    "SELECT i.id, (SELECT sum(n) FROM sale s WHERE s.item = i.twice) FROM item i WHERE anker.olap()",
    "SELECT label, code, sum(total), grouping(label) FROM item WHERE anker.olap() GROUP BY GROUPING SETS ((label, code), (label), ())",
    "SELECT label, count(*) FILTER (WHERE total > 5) FROM item WHERE anker.olap() GROUP BY ROLLUP (label)",
    "SELECT id, total, label FROM item WHERE anker.olap() GROUP BY id",
    "WITH w AS MATERIALIZED (SELECT label, total FROM item) SELECT label, max(total) FROM w WHERE anker.olap() GROUP BY 1",
    "SELECT total FROM item WHERE anker.olap() UNION SELECT whole FROM item",
    "SELECT label, max(total) FROM labels WHERE id > 3 AND anker.olap() GROUP BY label",
    "SELECT s.id, l.total FROM sale s LEFT JOIN labels l ON l.id = s.item WHERE anker.olap()",
    "SELECT s.id, x.t FROM sale s, LATERAL (SELECT sum(total) AS t FROM item i WHERE i.id < s.n) x WHERE anker.olap()",
    "SELECT string_agg(label, ',' ORDER BY total, id) FROM item WHERE anker.olap()",
    "SELECT array_agg(padded ORDER BY id), count(DISTINCT padded) FROM item WHERE anker.olap()",
    "SELECT id FROM item WHERE padded = 'c1' AND anker.olap()",
    "SELECT coalesce(i.label, 'nobody'), count(*) FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap() GROUP BY 1",
];

/// Queries whose answer may come from either side.
const ANSWERED: &[&str] = &[
    "SELECT i FROM item i WHERE anker.olap()",
    "SELECT row_to_json(i) FROM item i WHERE twice > 9 AND anker.olap()",
    "SELECT s.id, i FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap()",
    "SELECT tableoid::regclass, total FROM item WHERE anker.olap()",
    "SELECT i.id, i.total, count(*) FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap() GROUP BY i.id",
    "SELECT total FROM item TABLESAMPLE BERNOULLI (100) WHERE anker.olap()",
    "SELECT s.id, i.quoted FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap()",
    "SELECT s.id FROM sale s LEFT JOIN item i ON i.id = s.item AND i.quoted <> 'NULL' WHERE i.quoted IS NULL AND anker.olap()",
    "SELECT quoted, count(*) FROM item WHERE anker.olap() GROUP BY quoted",
    "SELECT json_agg(total) FROM item WHERE id = 3 AND anker.olap()",
];

fn virtual_columns_are_computed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    items(&mut client)?;
    for sql in COMPUTED {
        compare(&mut client, sql, false)?;
        let who = anker::explained(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    }
    for sql in ANSWERED {
        compare(&mut client, sql, false)?;
    }
    // The rows of the changed table are sent along, and the engine computes the column from them.
    client.batch_execute("BEGIN; UPDATE item SET price = 99 WHERE id < 9")?;
    for sql in COMPUTED.iter().chain(ANSWERED) {
        compare(&mut client, sql, false)?;
    }
    client.batch_execute("ROLLBACK; SET plan_cache_mode = force_generic_plan")?;
    client.batch_execute("PREPARE p (numeric) AS SELECT id, label FROM item WHERE total > $1 AND anker.olap()")?;
    client.batch_execute("PREPARE q (numeric) AS SELECT id, label FROM item WHERE total > $1")?;
    for value in ["4", "20.5", "NULL"] {
        let mut rows = |name: &str| anker::text_rows(&mut client, &format!("EXECUTE {name} ({value})"));
        let (engine, heap) = (rows("p")?, rows("q")?);
        ensure!(
            engine.len() == heap.len() && heap.iter().all(|row| engine.contains(row)),
            "{value}: {engine:?} {heap:?}"
        );
    }
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "the engine has met {failures} plans that it should not have");
    Ok(())
}

/// The expression of a virtual column changes, or a column is added. Plans that were made before must not be used.
fn virtual_columns_are_computed_anew(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    items(&mut client)?;
    let mut other = cluster.connect()?;
    let sql = "SELECT label, sum(total), max(twice) FROM item WHERE anker.olap() GROUP BY label";
    other.batch_execute(&format!("PREPARE p AS {sql} ORDER BY label; SET plan_cache_mode = force_generic_plan"))?;
    let rebuilds = |client: &mut Client| {
        anker::text_rows(client, "SELECT rebuilds FROM anker.tables WHERE relation = 'item'::regclass")
    };
    let before = rebuilds(&mut client)?;
    for change in [
        "ALTER TABLE item ALTER COLUMN total SET EXPRESSION AS (price * 3)",
        "ALTER TABLE item ALTER COLUMN label SET EXPRESSION AS (coalesce(lower(name), 'none') || id % 2)",
        "ALTER TABLE item ALTER COLUMN twice SET EXPRESSION AS (-id)",
    ] {
        anker::text_rows(&mut other, "EXECUTE p")?;
        client.batch_execute(change)?;
        same(&mut client, sql)?;
        let found = anker::text_rows(&mut other, "EXECUTE p")?;
        let sorted = format!("{} ORDER BY label", sql.replace("anker.olap()", "true"));
        let expected = anker::text_rows(&mut client, &sorted)?;
        ensure!(found == expected, "{change}: {found:?}, on the heap {expected:?}");
        let who = anker::analyzed(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{change}: {who:?}");
    }
    let after = rebuilds(&mut client)?;
    ensure!(before == after, "the mirror was built again: {before:?} {after:?}");
    client.batch_execute("ALTER TABLE item ADD COLUMN more integer GENERATED ALWAYS AS (coalesce(id, 1) + 5)")?;
    anker::wait_live(&mut client, "item", LIVE)?;
    let sql = "SELECT s.id, i.more FROM sale s LEFT JOIN item i ON i.id = s.item WHERE anker.olap()";
    compare(&mut client, sql, false)?;
    let who = anker::analyzed(&mut client, sql)?;
    ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    Ok(())
}

fn virtual_columns_of_parts_policies_and_inserts(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    items(&mut client)?;
    client.batch_execute(
        "CREATE TABLE parts (k integer, v integer, w integer GENERATED ALWAYS AS (v + 1000), PRIMARY KEY (k)) PARTITION BY RANGE (k);
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
         CREATE TABLE parts_2 (x text, v integer, k integer NOT NULL, w integer GENERATED ALWAYS AS (v * -1));
         ALTER TABLE parts_2 DROP COLUMN x; ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
         INSERT INTO parts (k, v) SELECT i, i % 7 FROM generate_series(0, 19) i;
         CREATE TABLE tree (k integer PRIMARY KEY, v integer, w integer GENERATED ALWAYS AS (v + 1000));
         CREATE TABLE leaf (w integer GENERATED ALWAYS AS (v - 1000), PRIMARY KEY (k)) INHERITS (tree);
         INSERT INTO tree (k, v) VALUES (1, 1), (2, 2); INSERT INTO leaf (k, v) VALUES (3, 3), (4, NULL);
         CREATE TABLE guarded (k integer PRIMARY KEY, v integer, owner text GENERATED ALWAYS AS (CASE WHEN v < 10 THEN 'u1' WHEN v < 20 THEN 'u2' ELSE 'u3' END));
         INSERT INTO guarded SELECT i, nullif(i, 5) FROM generate_series(1, 30) i;
         ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
         CREATE POLICY own ON guarded USING (owner = current_setting('test.me'));
         CREATE ROLE reader; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
         SET test.me = 'u1'",
    )?;
    anker::mirror(&mut client, &["parts_1", "parts_2", "tree", "leaf", "guarded"], LIVE)?;
    for sql in [
        "SELECT k, w FROM parts WHERE anker.olap()",
        "SELECT w, count(*) FROM parts WHERE w > 1002 AND anker.olap() GROUP BY w",
        "SELECT k, w FROM parts_2 WHERE anker.olap()",
        "SELECT k, w FROM tree WHERE anker.olap()",
        "SELECT k, w FROM leaf WHERE anker.olap()",
        "SELECT s.id, t.w FROM sale s LEFT JOIN tree t ON t.k = s.id WHERE anker.olap()",
    ] {
        compare(&mut client, sql, false)?;
        let who = anker::explained(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    }
    for sql in
        ["SELECT k, w FROM ONLY tree WHERE anker.olap()", "SELECT tableoid::regclass, w FROM tree WHERE anker.olap()"]
    {
        compare(&mut client, sql, false)?;
    }
    client.batch_execute("SET ROLE reader")?;
    for sql in [
        "SELECT k, v FROM guarded WHERE anker.olap()",
        "SELECT k, owner FROM guarded WHERE anker.olap()",
        "SELECT owner, count(*) FROM guarded WHERE v > 3 AND anker.olap() GROUP BY owner",
        "SELECT s.id, g.owner FROM sale s LEFT JOIN guarded g ON g.k = s.id WHERE anker.olap()",
    ] {
        let answer = compare(&mut client, sql, false)?;
        ensure!(matches!(&answer, Answer::Rows(rows) if !rows.is_empty()), "{sql}: {answer:?}");
        let who = anker::explained(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    }
    client.batch_execute(
        "RESET ROLE; CREATE TABLE copy (id integer, total numeric, n integer GENERATED ALWAYS AS (id + 1), label text)",
    )?;
    let insert = |flag: &str| {
        format!(
            "INSERT INTO copy (id, label, total) SELECT id, label, total FROM item WHERE {flag} RETURNING old.id, new.id, n, new.label"
        )
    };
    let mut inserted = |flag: &str| -> Result<Vec<String>> {
        let mut rows = anker::text_rows(&mut client, &insert(flag))?;
        rows.sort();
        Ok(rows)
    };
    let (engine, heap) = (inserted("anker.olap()")?, inserted("true")?);
    ensure!(engine == heap && heap.len() == 40, "{engine:?}, on the heap {heap:?}");
    let twice = anker::text_rows(&mut client, "SELECT count(*), count(DISTINCT (id, total, n, label)) FROM copy")?;
    ensure!(twice == ["80|40"], "{twice:?}");
    Ok(())
}

/// A result has the modifiers of the expressions, not those of the virtual columns.
fn virtual_columns_are_described_as_by_the_heap(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    items(&mut client)?;
    for (at, column) in
        ["same_price", "whole", "padded", "total", "CASE WHEN true THEN same_price END"].into_iter().enumerate()
    {
        let mut made = |route: &str| -> Result<Vec<String>> {
            let table = format!("{route}_{at}");
            client.batch_execute(&format!(
                "SET anker.route = {route}; CREATE TABLE {table} AS SELECT {column} AS a FROM item"
            ))?;
            let ty = format!(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum = 1"
            );
            anker::text_rows(&mut client, &ty)
        };
        let (heap, engine) = (made("off")?, made("prefer")?);
        ensure!(heap == engine, "{column}: {engine:?}, on the heap {heap:?}");
    }
    Ok(())
}

fn rows_with_virtual_columns_are_followed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    items(&mut client)?;
    client.batch_execute(
        "CREATE TABLE whole (a integer, b text, c integer GENERATED ALWAYS AS (coalesce(a, 0) + 1) NOT NULL);
         ALTER TABLE whole REPLICA IDENTITY FULL;
         INSERT INTO whole SELECT i % 5, 'b' || i FROM generate_series(1, 50) i",
    )?;
    anker::mirror(&mut client, &["whole"], LIVE)?;
    for change in [
        "UPDATE whole SET a = a + 1 WHERE a = 2; UPDATE item SET price = price + 1 WHERE id % 3 = 0",
        "DELETE FROM whole WHERE c = 4; DELETE FROM item WHERE twice > 60",
        "INSERT INTO whole (b) VALUES ('n'), ('n'); INSERT INTO item (id) VALUES (1000), (1001); UPDATE item SET id = id + 1 WHERE id = 1001",
        "DELETE FROM whole WHERE ctid IN (SELECT ctid FROM whole WHERE b = 'n' LIMIT 1)",
    ] {
        client.batch_execute(change)?;
        for sql in [
            "SELECT a, b, c FROM whole WHERE anker.olap()",
            "SELECT id, total, twice, label FROM item WHERE anker.olap()",
        ] {
            compare(&mut client, sql, false)?;
            let who = anker::analyzed(&mut client, sql)?;
            ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
        }
    }
    for table in ["whole", "item"] {
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    Ok(())
}

/// Intervals can be infinite since PostgreSQL 17. The engine does not compute with such intervals.
fn infinite_intervals(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    since(&mut client, 170_000, "infinite intervals came with PostgreSQL 17")?;
    client.batch_execute(
        "CREATE TABLE span (id integer PRIMARY KEY, v interval, ts timestamp, tz timestamptz, d date, tm time, f float8);
         INSERT INTO span VALUES (1, 'infinity', 'infinity', 'infinity', 'infinity', '01:00', 'infinity'),
           (2, '-infinity', '-infinity', '-infinity', '-infinity', '02:00', '-infinity'),
           (3, '1 day', '2024-02-29', '2024-02-29', '2024-02-29', '03:00', 2), (4, '0', '2024-03-01', '2024-03-01', '2024-03-01', '04:00', 0),
           (5, '-1 mon', '2024-03-02', '2024-03-02', '2024-03-02', '05:00', 'NaN'), (6, NULL, NULL, NULL, NULL, NULL, NULL);
         CREATE TABLE finite AS SELECT * FROM span WHERE id > 2; ALTER TABLE finite ADD PRIMARY KEY (id);
         CREATE TABLE plain AS SELECT * FROM span; ANALYZE",
    )?;
    anker::mirror(&mut client, &["span", "finite"], LIVE)?;
    let mut questions = Vec::new();
    for table in ["span", "finite"] {
        for value in [
            "v",
            "-v",
            "v::text",
            "isfinite(v)",
            "v * 2",
            "v * f",
            "v / 2",
            "v / f",
            "v + v",
            "v - v",
            "v - interval 'infinity'",
            "ts + v",
            "tz + v",
            "d + v",
            "tm + v",
            "ts - v",
            "tz - v",
            "d - v",
            "ts - timestamp '2024-01-01'",
            "ts - ts",
            "tz - tz",
            "timestamp 'infinity' - ts",
            "ts + interval 'infinity'",
            "tz - interval '-infinity'",
            "age(ts, timestamp '2024-01-01')",
            "age(tz, timestamptz 'infinity')",
            "extract(year FROM v)",
            "extract(month FROM v)",
            "extract(epoch FROM v)",
            "date_part('hour', v)",
            "justify_days(v)",
            "justify_hours(v)",
            "justify_interval(v)",
            "interval 'infinity' * f",
            "make_interval(days => id) * f",
            "v = interval 'infinity'",
            "v > interval '-infinity'",
            "greatest(v, interval '1 hour')",
            "coalesce(v, interval 'infinity')",
            "date_bin('1 hour', ts, '2024-01-01')",
            "(v, id) < (interval 'infinity', 3)",
        ] {
            // An error of one row must not hide the values of others.
            for id in 1..=6 {
                questions.push(format!("SELECT {value} FROM {table} WHERE id = {id} AND anker.olap()"));
            }
        }
        for query in [
            "SELECT id, v FROM {t} WHERE anker.olap() ORDER BY v, id",
            "SELECT count(v), count(DISTINCT v), min(v), max(v) FROM {t} WHERE anker.olap()",
            "SELECT sum(v) FROM {t} WHERE id <> 2 AND anker.olap()",
            "SELECT avg(v) FROM {t} WHERE id <> 1 AND anker.olap()",
            "SELECT sum(v) FROM {t} WHERE anker.olap()",
            "SELECT v, count(*) FROM {t} WHERE anker.olap() GROUP BY v",
            "SELECT id, sum(v) OVER (ORDER BY id ROWS 1 PRECEDING) FROM {t} WHERE id > 1 AND anker.olap() ORDER BY id",
            "SELECT id, count(*) OVER (ORDER BY ts RANGE interval 'infinity' PRECEDING) FROM {t} WHERE anker.olap() ORDER BY id",
            "SELECT id, count(*) OVER (ORDER BY v RANGE interval '1 day' PRECEDING) FROM {t} WHERE anker.olap() ORDER BY id",
            "SELECT a.id, b.id FROM {t} a JOIN plain b ON a.v = b.v WHERE anker.olap()",
            "SELECT a.id, b.v FROM {t} a JOIN plain b ON a.id = b.id AND b.v > a.v WHERE anker.olap()",
            "SELECT a.id, b.v FROM {t} a LEFT JOIN plain b ON a.id = b.id WHERE anker.olap()",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY v) FROM {t} WHERE anker.olap()",
            "SELECT array_agg(v ORDER BY id) FROM {t} WHERE anker.olap()",
        ] {
            questions.push(query.replace("{t}", table));
        }
    }
    for sql in &questions {
        compare(&mut client, sql, false)?;
    }
    client.batch_execute("SET plan_cache_mode = force_generic_plan")?;
    for (at, flag) in ["true", "anker.olap()"].iter().enumerate() {
        client.batch_execute(&format!(
            "PREPARE p{at} (interval) AS SELECT id, v < $1, ts + $1 FROM finite WHERE {flag} ORDER BY id"
        ))?;
    }
    for value in ["infinity", "-infinity", "1 day"] {
        let mut rows = |name: &str| anker::text_rows(&mut client, &format!("EXECUTE {name} ('{value}')"));
        let (heap, engine) = (rows("p0")?, rows("p1")?);
        ensure!(heap == engine, "{value}: {engine:?}, on the heap {heap:?}");
    }
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "the engine has met {failures} plans that it should not have");
    Ok(())
}

/// Since PostgreSQL 18, the quarter of a negative interval is negative.
fn quarters_of_intervals(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE span (id integer PRIMARY KEY, v interval);
         INSERT INTO span SELECT i, i * interval '1 month' + (i % 3 - 1) * interval '40 days' FROM generate_series(-40, 40) i;
         INSERT INTO span VALUES (100, NULL)",
    )?;
    anker::mirror(&mut client, &["span"], LIVE)?;
    for sql in [
        "SELECT id, extract(quarter FROM v) FROM span WHERE anker.olap()",
        "SELECT id, date_part('quarter', v), date_part('quarter', -v) FROM span WHERE anker.olap()",
        "SELECT extract(quarter FROM v), count(*) FROM span WHERE anker.olap() GROUP BY 1",
        "SELECT count(*) FROM span WHERE extract(quarter FROM v) = -1 AND anker.olap()",
    ] {
        compare(&mut client, sql, false)?;
        let who = anker::explained(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    }
    compare(&mut client, "SELECT id, extract(week FROM v) FROM span WHERE anker.olap()", false)?;
    Ok(())
}

/// Queries that are possible since a version.
const NEWER: &[(i32, &str)] = &[
    (160_000, "SELECT g, any_value(x) IS NOT NULL FROM t WHERE anker.olap() GROUP BY g"),
    (160_000, "SELECT g, any_value(g) FILTER (WHERE id > 3) FROM t WHERE anker.olap() GROUP BY g"),
    (160_000, "SELECT count(*) FROM t WHERE id < 0x1F AND n > 1_0.5 AND id <> 0o17 AND id > 0b11 AND anker.olap()"),
    (160_000, "SELECT id, num::integer, num::bigint FROM t WHERE id <> 9 AND anker.olap()"),
    (160_000, "SELECT id, num::numeric FROM t WHERE id <> 9 AND anker.olap()"),
    (160_000, "SELECT id, doc IS JSON, x IS JSON OBJECT FROM t WHERE anker.olap()"),
    (160_000, "SELECT g, json_arrayagg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY g"),
    (160_000, "SELECT g, json_objectagg(id::text : n ORDER BY id) IS NOT NULL FROM t WHERE anker.olap() GROUP BY g"),
    (160_000, "SELECT id, json_object('a' : n, 'b' : x) FROM t WHERE anker.olap()"),
    (
        160_000,
        "SELECT id, date_add(tz, '1 day', 'Europe/Paris'), date_subtract(tz, '1 month') FROM t WHERE anker.olap()",
    ),
    (160_000, "SELECT id, erf(n::float8), array_length(array_sample(list, 1), 1) FROM t WHERE anker.olap()"),
    (160_000, "SELECT id, trim_array(list, 1), list[1:2] FROM t WHERE anker.olap()"),
    (160_000, "SELECT count(*) FROM t WHERE x <> SYSTEM_USER OR SYSTEM_USER IS NULL AND anker.olap()"),
    (160_000, "SELECT max(id) FROM (SELECT id FROM t WHERE anker.olap()) WHERE id > 3"),
    (160_000, "SELECT min(xid), max(xid) FROM t WHERE anker.olap()"),
    (160_000, "SELECT g, count(*) FROM t WHERE anker.olap() AND x COLLATE \"unicode\" > 'b' GROUP BY g"),
    (170_000, "SELECT id, to_bin(id), to_oct(id), to_hex(id) FROM t WHERE anker.olap()"),
    (170_000, "SELECT id, tz AT LOCAL, ts AT LOCAL FROM t WHERE anker.olap()"),
    (170_000, "SELECT id, json_value(doc, '$.a' RETURNING integer) FROM t WHERE anker.olap()"),
    (
        170_000,
        "SELECT json_value(doc, '$.a' RETURNING integer DEFAULT -1 ON EMPTY), count(*) FROM t WHERE anker.olap() GROUP BY 1",
    ),
    (
        170_000,
        "SELECT id, json_query(doc, '$.b'), json_exists(doc, '$.a') FROM t WHERE json_exists(doc, '$.a') AND anker.olap()",
    ),
    (170_000, "SELECT id, json_scalar(n), json_serialize(doc) FROM t WHERE anker.olap()"),
    (
        170_000,
        "SELECT t.id, j.* FROM t, JSON_TABLE(doc, '$' COLUMNS (a integer PATH '$.a', NESTED PATH '$.b[*]' COLUMNS (b text PATH '$'))) j WHERE anker.olap()",
    ),
    (
        170_000,
        "SELECT count(*) FROM t JOIN JSON_TABLE('[1,2,3]', '$[*]' COLUMNS (a integer PATH '$')) j ON j.a = t.g WHERE anker.olap()",
    ),
    (170_000, "SELECT id, xmltext(x) FROM t WHERE id = 3 AND anker.olap()"),
    (
        170_000,
        "SELECT id, x COLLATE pg_c_utf8 FROM t WHERE x COLLATE pg_c_utf8 > 'B' AND anker.olap() ORDER BY x COLLATE pg_c_utf8, id",
    ),
    (
        170_000,
        "SELECT id, upper(x COLLATE pg_c_utf8), lower(x COLLATE pg_c_utf8), initcap(x COLLATE pg_c_utf8) FROM t WHERE anker.olap()",
    ),
    (170_000, "SELECT id FROM t WHERE x COLLATE pg_c_utf8 ILIKE '%ß%' AND anker.olap()"),
    (170_000, "SELECT id FROM t WHERE x COLLATE pg_c_utf8 ~ '^\\w+$' AND anker.olap()"),
    (170_000, "SELECT min(x COLLATE pg_c_utf8), max(x COLLATE pg_c_utf8) FROM t WHERE anker.olap()"),
    (
        180_000,
        "SELECT NOT (x IS NULL), json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY ROLLUP ((x IS NULL))",
    ),
    (
        180_000,
        "SELECT id, upper(x COLLATE pg_unicode_fast), casefold(x COLLATE pg_unicode_fast) FROM t WHERE anker.olap()",
    ),
    (180_000, "SELECT id FROM t WHERE x COLLATE pg_unicode_fast ILIKE 'STRASSE%' AND anker.olap()"),
    (180_000, "SELECT id, x FROM t WHERE anker.olap() ORDER BY x COLLATE pg_unicode_fast, id"),
    (180_000, "SELECT id FROM t WHERE x COLLATE any_case LIKE 'A%' AND anker.olap()"),
    (
        180_000,
        "SELECT id, strpos(x COLLATE any_case, 'A'), replace(x COLLATE any_case, 'A', '-') FROM t WHERE anker.olap()",
    ),
    (180_000, "SELECT x COLLATE any_case, count(*) FROM t WHERE anker.olap() GROUP BY 1 HAVING false"),
    (180_000, "SELECT id, crc32(x::bytea), crc32c(x::bytea), reverse(x::bytea), reverse(x) FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, array_sort(list), array_reverse(list) FROM t WHERE anker.olap()"),
    (180_000, "SELECT array_sort(list), count(*) FROM t WHERE anker.olap() GROUP BY 1"),
    (180_000, "SELECT id, gamma(id), lgamma(n::float8) FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, id::bytea, id::bytea::integer, id::bigint::bytea FROM t WHERE anker.olap()"),
    (180_000, "SELECT min(x::bytea), max(x::bytea), min(list), max(list) FROM t WHERE anker.olap()"),
    (180_000, "SELECT g, min(x::bytea), max(ROW(g, id)) FROM t WHERE anker.olap() GROUP BY g"),
    (180_000, "SELECT id, jsonb_strip_nulls(doc, true), json_strip_nulls(doc::json) FROM t WHERE anker.olap()"),
    (
        180_000,
        "SELECT id, (doc -> 'z')::integer, (doc -> 'z')::numeric, (doc -> 'z')::boolean FROM t WHERE anker.olap()",
    ),
    (180_000, "SELECT count((doc -> 'z')::float8) FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, uuid_extract_version(uuidv7()) FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, to_number(roman, 'RN') FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, extract(quarter FROM tz - ts), extract(week FROM tz) FROM t WHERE anker.olap()"),
    (180_000, "SELECT id, power(n, 3.5), sqrt(n), exp(n / 50), ln(n + 1) FROM t WHERE n > 0 AND anker.olap()"),
    (
        180_000,
        "SELECT NOT (x IS NULL), json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY ROLLUP ((x IS NULL))",
    ),
    (150_000, "SELECT g, json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY ROLLUP (g)"),
    (
        150_000,
        "SELECT g, coalesce(g, -1), json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY ROLLUP (g) HAVING g IS NULL OR g > 1",
    ),
    (
        150_000,
        "SELECT g + 0, json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY CUBE (g + 0) HAVING g + 0 IS NULL",
    ),
    (
        150_000,
        "SELECT coalesce(g, 7), json_agg(id ORDER BY id) FROM t WHERE anker.olap() GROUP BY ROLLUP (coalesce(g, 7)) HAVING coalesce(g, 7) IS NULL",
    ),
    (150_000, "SELECT CASE WHEN g > 1 THEN x END, count(*) FROM t WHERE anker.olap() GROUP BY 1"),
    (
        150_000,
        "SELECT g + 1, sum(id) OVER w FROM t WHERE anker.olap() GROUP BY g + 1, id WINDOW w AS (PARTITION BY g + 1 ORDER BY id) ORDER BY 1, 2",
    ),
    (
        150_000,
        "SELECT g % 2, count(*), (SELECT count(*) FROM t u WHERE u.g < 2) FROM t WHERE anker.olap() GROUP BY g % 2 HAVING g % 2 < 5",
    ),
    (
        150_000,
        "SELECT g, x, count(*), grouping(g, x) FROM t WHERE anker.olap() GROUP BY CUBE (g, x) HAVING count(*) > 1 OR grouping(g) = 1",
    ),
    (
        150_000,
        "SELECT k + 1, max(c) FROM (SELECT g AS k, count(*) AS c FROM t GROUP BY g) s WHERE k > 0 AND anker.olap() GROUP BY k + 1",
    ),
    (
        150_000,
        "SELECT k, c FROM (SELECT g + 1 AS k, count(*) AS c FROM t WHERE anker.olap() GROUP BY g + 1) s WHERE k > 1 ORDER BY c, k",
    ),
    (
        150_000,
        "SELECT u.id, s.k FROM t u LEFT JOIN (SELECT g + 1 AS k FROM t GROUP BY g + 1) s ON s.k = u.g WHERE anker.olap()",
    ),
    (
        150_000,
        "SELECT s.k FROM t u LEFT JOIN (SELECT coalesce(g, 0) AS k FROM t WHERE g > 1 GROUP BY 1) s ON s.k = u.g WHERE anker.olap() GROUP BY s.k",
    ),
];

fn newer_syntax_and_functions(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), x text, num text, doc jsonb, list integer[],
           ts timestamp, tz timestamptz, roman text, xid xid8);
         INSERT INTO t SELECT i, i % 4, i * 1.25, (ARRAY['abc', 'ABC', 'Straße', 'ÄB', 'ǆ', 'x y', 'σς', ''])[i % 8 + 1],
           (ARRAY['1', ' 2 ', '-3', '44'])[i % 4 + 1], jsonb_build_object('a', i, 'b', jsonb_build_array(i, 'q'), 'z', i % 3),
           ARRAY[i % 3, 5, i], timestamp '2024-01-31' + i * interval '1 day', timestamptz '2024-03-30 22:00+00' + i * interval '1 hour',
           (ARRAY['IX', 'XL', 'M'])[i % 3 + 1], (i * 7)::text::xid8 FROM generate_series(1, 24) i",
    )?;
    let version = number(&mut client)?;
    if version >= 160_000 {
        client
            .batch_execute("UPDATE t SET num = (ARRAY['0x1f', '1_000', '0b101', '0o17'])[id % 4 + 1] WHERE id > 12")?;
    }
    if version >= 180_000 {
        client.batch_execute("UPDATE t SET doc = doc || '{\"z\": null}' WHERE id > 20")?;
    }
    client.batch_execute("ANALYZE t")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let has_icu = has_icu(&mut client)?;
    if has_icu {
        client.batch_execute(
            "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        )?;
    }
    let by_icu = |sql: &str| sql.contains("COLLATE any_case") || sql.contains("COLLATE \"unicode\"");
    for (_, sql) in NEWER.iter().filter(|(since, sql)| version >= *since && (has_icu || !by_icu(sql))) {
        compare(&mut client, sql, false)?;
    }
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "the engine has met {failures} plans that it should not have");
    Ok(())
}

/// Since PostgreSQL 16, columns name the outer joins that may turn them into nulls.
fn conditions_above_outer_joins(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE a (id integer PRIMARY KEY, x text); CREATE TABLE b (id integer PRIMARY KEY, x text);
         INSERT INTO a SELECT i, 'a' || i FROM generate_series(1, 30) i; INSERT INTO b SELECT i, 'b' || i FROM generate_series(1, 30, 2) i; ANALYZE",
    )?;
    anker::mirror(&mut client, &["a", "b"], LIVE)?;
    for sql in [
        "SELECT a.id, b.x FROM a LEFT JOIN b USING (id) WHERE quote_nullable(b.x) < 'b' AND anker.olap()",
        "SELECT a.id, b.x FROM a LEFT JOIN b USING (id) WHERE quote_nullable(a.x) < 'a2' AND anker.olap()",
        "SELECT id, b.x FROM a FULL JOIN b USING (id) WHERE quote_nullable(b.x) > 'M' AND anker.olap()",
    ] {
        compare(&mut client, sql, false)?;
        let who = anker::explained(&mut client, sql)?;
        ensure!(who.as_deref() == Some("engine"), "{sql}: {who:?}");
    }
    Ok(())
}

/// PostgreSQL's own locales, which came with version 17.
fn builtin_locales(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    since(&mut client, 170_000, "builtin locales came with PostgreSQL 17")?;
    let mut locales = vec!["C", "C.UTF-8"];
    if number(&mut client)? >= 180_000 {
        locales.push("PG_UNICODE_FAST");
    }
    for (at, locale) in locales.into_iter().enumerate() {
        client.batch_execute(&format!(
            "CREATE DATABASE d{at} TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER builtin BUILTIN_LOCALE '{locale}' LOCALE 'C'"
        ))?;
        let mut own = cluster.connect_to(&format!("d{at}"))?;
        anker::create_extension(&mut own)?;
        own.batch_execute(
            "CREATE TABLE w (id integer PRIMARY KEY, x text, c char(8));
             INSERT INTO w SELECT i, w, w FROM unnest(ARRAY['abc', 'ABC', 'Abc def', 'äöü', 'ÄÖÜ', 'Straße', 'STRASSE', 'ǆ ǅ', 'σς', 'ıİ', '', 'a-b', 'é', '9', NULL])
               WITH ORDINALITY AS v (w, i); ANALYZE w",
        )?;
        anker::mirror(&mut own, &["w"], LIVE)?;
        for sql in [
            "SELECT id, x FROM w WHERE anker.olap() ORDER BY x, id",
            "SELECT id FROM w WHERE x > 'Z' AND anker.olap()",
            "SELECT min(x), max(x), min(c), max(c) FROM w WHERE anker.olap()",
            "SELECT a.id, b.id FROM w a JOIN w b ON a.x < b.x AND a.id < 9 WHERE anker.olap()",
            "SELECT x, count(*) FROM w WHERE anker.olap() GROUP BY x",
            "SELECT greatest(x, 'a'), least(x, 'b') FROM w WHERE anker.olap()",
            "SELECT id FROM w WHERE x LIKE 'a%' AND anker.olap()",
        ] {
            compare(&mut own, sql, false).map_err(|e| format!("{locale}: {e}"))?;
            let who = anker::explained(&mut own, sql)?;
            ensure!(who.as_deref() == Some("engine"), "{locale}: {sql}: {who:?}");
        }
        for sql in [
            "SELECT id, upper(x), lower(x), initcap(x) FROM w WHERE anker.olap()",
            "SELECT upper(x COLLATE \"C\"), count(*) FROM w WHERE anker.olap() GROUP BY 1",
            "SELECT id FROM w WHERE x ILIKE 'STRASSE' AND anker.olap()",
            "SELECT id FROM w WHERE x ILIKE '%ä%' AND anker.olap()",
            "SELECT id FROM w WHERE x ~* 'ä' AND anker.olap()",
            "SELECT id FROM w WHERE x ~ '^\\w+$' AND anker.olap()",
            "SELECT id FROM w WHERE x ~ '[[:upper:]]' AND anker.olap()",
            "SELECT id, regexp_replace(x, '\\w', '-') FROM w WHERE anker.olap()",
            "SELECT count(*) FROM w a JOIN w b ON lower(a.x) = lower(b.x) WHERE anker.olap()",
        ] {
            compare(&mut own, sql, false).map_err(|e| format!("{locale}: {e}"))?;
        }
    }
    Ok(())
}

/// Since PostgreSQL 16, an aggregate that states no order gets its rows in the order of another one, if they stand in
/// the same select list.
fn presorted_aggregates(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE word (id integer PRIMARY KEY, w text);
         INSERT INTO word SELECT i, chr(97 + i * 7 % 10) FROM generate_series(1, 40) i; ANALYZE word",
    )?;
    anker::mirror(&mut client, &["word"], LIVE)?;
    for list in ["array_agg(w ORDER BY w DESC)", "array_agg(DISTINCT w)", "max(w ORDER BY w)", "count(DISTINCT w)"] {
        for from in ["word", "(SELECT * FROM word ORDER BY id DESC) s"] {
            compare(&mut client, &format!("SELECT string_agg(w, ','), {list} FROM {from} WHERE anker.olap()"), true)?;
            let having = format!("SELECT string_agg(w, ',') FROM {from} WHERE anker.olap() HAVING {list} IS NOT NULL");
            compare(&mut client, &having, true)?;
        }
    }
    Ok(())
}
