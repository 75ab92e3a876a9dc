//! Tests the views `anker.columns` and `anker.chunks` while the engine runs, hangs and restarts. Also tests every form
//! in which a chunk can store texts and numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;

use crate::flagged::{First, same, same_in_transaction};
use crate::runner::{Context, ensure, tests};

tests![
    an_engine_that_hangs_or_is_gone_is_told,
    texts_at_rest_are_the_heaps,
    numbers_take_no_more_bytes_than_what_is_there_needs,
    a_thousand_tables_have_columns,
];

const LIVE: Duration = Duration::from_secs(60);
/// The time after which a view must have given up an engine that hangs: five seconds, as docs/operations.md says, and
/// twenty more for a busy machine.
const GIVEN_UP: Duration = Duration::from_secs(25);

fn cluster(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&Options::default())?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    Ok((cluster, client))
}

fn an_engine_that_hangs_or_is_gone_is_told(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    let tables: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
    for table in &tables {
        client.batch_execute(&format!("CREATE TABLE {table} (id integer PRIMARY KEY, x text)"))?;
    }
    anker::mirror(&mut client, &tables.iter().map(String::as_str).collect::<Vec<_>>(), LIVE)?;
    let reasons = "SELECT DISTINCT coalesce(reason, 'none') FROM anker.columns ORDER BY 1";
    let told = anker::text_rows(&mut client, reasons)?;
    ensure!(told == ["none"], "of a live engine: {told:?}");

    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGSTOP)?;
    client.batch_execute("SET statement_timeout = '300ms'")?;
    let cancelled = [reasons, "SELECT * FROM anker.chunks('t7')"].map(|sql| {
        let start = Instant::now();
        let error = client.simple_query(sql).err().and_then(|e| e.code().cloned());
        (error, start.elapsed())
    });
    client.batch_execute("RESET statement_timeout")?;
    let start = Instant::now();
    let told = anker::text_rows(&mut client, reasons);
    let took = start.elapsed();
    os::kill(engine, os::SIGCONT)?;
    let told = told?;
    // The view waits for an engine that does not answer only once, not once for each of the twenty tables.
    ensure!(took < GIVEN_UP, "all columns took {took:?}");
    ensure!(told == ["engine did not answer in time", "engine did not answer in time before"], "{told:?}");
    for (error, took) in cancelled {
        ensure!(error == Some(SqlState::QUERY_CANCELED) && took < GIVEN_UP, "{error:?} after {took:?}");
    }

    os::kill(engine, os::SIGKILL)?;
    let gone = wait_until(LIVE, || Ok(anker::text_rows(&mut client, reasons)? != ["none"]))?;
    ensure!(gone, "nobody is told that the engine is gone");
    let error = client.simple_query("SELECT * FROM anker.chunks('t7')").err();
    let detail = error.as_ref().and_then(|e| e.as_db_error()).and_then(|e| e.detail()).unwrap_or_default().to_owned();
    // If the next engine already runs, the call succeeds. Otherwise its error must have a detail with the reason.
    ensure!(error.is_none() || detail.starts_with("Reason: "), "{error:?}");
    // Until the worker has noticed that the engine is gone, the view may still call the tables live.
    let back = wait_until(LIVE, || Ok(anker::text_rows(&mut client, reasons)? == ["none"]))?;
    ensure!(back, "of an engine that is back: {:?}", anker::text_rows(&mut client, reasons)?);
    Ok(())
}

/// The codings of a column's chunks, with the number of chunks for each.
fn codings(client: &mut Client, column: &str) -> Result<String> {
    let sql = format!("SELECT codings FROM anker.columns WHERE column_name = '{column}'");
    Ok(anker::text_rows(client, &sql)?.concat())
}

/// The number of full chunks of a column of `t` that still store an address ("place") for each text, so that texts can
/// be updated. The other chunks are at rest: they store only the texts' lengths.
fn restless(client: &mut Client, column: &str) -> Result<i64> {
    let sql =
        "SELECT count(*) FROM anker.chunks('t') WHERE column_name = $1 AND slots = 8192 AND coding LIKE 'places%'";
    Ok(client.query_one(sql, &[&column])?.get(0))
}

fn texts_at_rest_are_the_heaps(context: &Context) -> Result<()> {
    let (cluster, mut client) = cluster(context)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, letters text, lines text, mixed text, maybe varchar(40), raw bytea);
         INSERT INTO t SELECT i, i % 10, md5(i::text), left(repeat(md5((i * 7)::text), 20), 20 + i % 300),
                chr(32 + i % 90) || 'ěščřž' || chr(32 + i * 7 % 90) || i, CASE WHEN i % 3 > 0 THEN 'text ' || i END, decode(md5(i::text), 'hex')
            FROM generate_series(1, 40000) i",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let queries = [
        "SELECT count(*), max(letters), min(lines), max(mixed), max(maybe), sum(length(lines)) FROM t WHERE anker.olap()",
        "SELECT g, count(*), min(letters) FROM t WHERE letters LIKE '%ab%' AND anker.olap() GROUP BY g ORDER BY g",
        "SELECT id, letters, lines, mixed, maybe, raw FROM t WHERE id % 977 = 5 AND anker.olap() ORDER BY id",
        "SELECT maybe, count(*) FROM t WHERE maybe > 'text 39' AND anker.olap() GROUP BY maybe ORDER BY maybe",
        "SELECT count(*) FROM t WHERE mixed LIKE '%š%7' AND lines <> letters AND maybe IS NULL AND anker.olap()",
    ];
    let check =
        |client: &mut Client| -> Result<()> { queries.iter().try_for_each(|sql| same(client, sql).map(|_| ())) };
    for column in ["letters", "lines", "maybe"] {
        let told = codings(&mut client, column)?;
        ensure!(told.contains("in rows") && told.contains("bits a character"), "{column}: {told}");
    }
    check(&mut client)?;

    // Takes a snapshot before the changes below, which update, delete and insert rows of all chunks.
    let mut before = cluster.connect()?;
    before.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    client.batch_execute(
        "UPDATE t SET letters = upper(letters), maybe = nullif(maybe || '!', 'text 500!') WHERE id % 3000 = 500;
         UPDATE t SET g = g + 1 WHERE id % 100 = 7;
         DELETE FROM t WHERE id % 5000 = 17;
         INSERT INTO t SELECT i, 0, md5(i::text), 'new', 'new', 'new' FROM generate_series(50001, 50100) i",
    )?;
    queries.iter().try_for_each(|sql| same_in_transaction(&mut before, sql, First::Flagged).map(|_| ()))?;
    check(&mut client)?;
    let count = restless(&mut client, "letters")?;
    ensure!(count > 0, "after updates: {}", codings(&mut client, "letters")?);
    before.batch_execute("ROLLBACK")?;
    let differences = anker::verify(&mut client, "t")?;
    ensure!(differences.is_empty(), "{:?}", &differences[..differences.len().min(4)]);

    // Chunks that nobody writes to are laid to rest again. Texts that queries read all the time are then kept unpacked.
    let rests = wait_until(Duration::from_secs(180), || {
        check(&mut client)?;
        Ok(restless(&mut client, "letters")? == 0)
    })?;
    ensure!(rests, "letters: {}", codings(&mut client, "letters")?);
    let differences = anker::verify(&mut client, "t")?;
    ensure!(differences.is_empty(), "{:?}", &differences[..differences.len().min(4)]);
    Ok(())
}

fn numbers_take_no_more_bytes_than_what_is_there_needs(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.undo_time", "10s"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, n bigint NOT NULL, maybe integer, d date, price numeric(12,2), f float8);
         INSERT INTO t SELECT i, i % 100, CASE WHEN i % 3 > 0 THEN i % 50 END, DATE '2024-02-29' + i % 20, i % 90 / 100.0, i
            FROM generate_series(1, 20000) i",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let sql = "SELECT string_agg(concat_ws(' ', column_name, codings, min, max), ', ' ORDER BY column_name) \
               FROM anker.columns WHERE column_name <> 'f'";
    let told = |client: &mut Client| Ok::<_, bench::Error>(anker::text_rows(client, sql)?.concat());
    let loaded = told(&mut client)?;
    ensure!(loaded.contains(r#"n {"offsets of 1 byte": 3} 0 99"#), "as loaded: {loaded}");
    let queries = [
        "SELECT count(*), sum(n), min(n), max(n), sum(maybe), min(d), max(d), sum(price), sum(f) FROM t WHERE anker.olap()",
        "SELECT * FROM t WHERE (n > 1000000 OR maybe < -7) AND anker.olap() ORDER BY id",
        "SELECT * FROM t WHERE n > 1000000 AND anker.olap() ORDER BY id",
        "SELECT * FROM t WHERE d > DATE '2100-01-01' AND anker.olap() ORDER BY id",
        "SELECT price, count(*) FROM t WHERE price < 0 AND anker.olap() GROUP BY price ORDER BY price",
        "SELECT n, maybe, count(*), max(price) FROM t WHERE anker.olap() GROUP BY n, maybe ORDER BY n, maybe",
        "SELECT t.id, o.id FROM t JOIN t o ON o.n = t.n WHERE t.id % 97 = 5 AND o.id % 89 = 7 AND anker.olap() ORDER BY 1, 2",
    ];

    // Most chunks get a value far from the others, which widens codes and bounds. An open snapshot keeps seeing these
    // values.
    client.batch_execute(
        "UPDATE t SET n = 1::bigint << 50, maybe = -1000000, d = '9999-12-31', price = -9999999999.99 WHERE id % 5000 = 17",
    )?;
    let mut before = cluster.connect()?;
    before.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")?;
    queries.iter().try_for_each(|sql| same_in_transaction(&mut before, sql, First::Flagged).map(|_| ()))?;
    let wide = told(&mut client)?;
    ensure!(
        wide.contains(r#"n {"8 bytes": 2, "offsets of 1 byte": 1} "#) && wide.contains("9999-12-31"),
        "with values far beyond: {wide}"
    );

    // Now these values disappear again: most by updates (some of them to NULL), and one later by a DELETE.
    let others = "maybe = nullif(id % 3, 0), d = DATE '2024-03-01', price = 0.10";
    client.batch_execute(&format!("UPDATE t SET n = id % 100, {others} WHERE id % 5000 = 17 AND id > 17"))?;
    client.batch_execute(&format!("UPDATE t SET {others} WHERE id = 17"))?;
    let mut again = |client: &mut Client, wanted: &str| -> Result<()> {
        let reached = wait_until(Duration::from_secs(120), || {
            queries.iter().try_for_each(|sql| same(client, sql).map(|_| ()))?;
            // The engine answers queries under the old snapshot while undo for it is kept; after that the heap does.
            queries.iter().try_for_each(|sql| same_in_transaction(&mut before, sql, First::Heap).map(|_| ()))?;
            Ok(told(client)?.contains(wanted))
        })?;
        ensure!(reached, "after {wanted}: {}", told(client)?);
        Ok(())
    };
    again(&mut client, r#"d {"offsets of 1 byte": 3} 2024-02-29 2024-03-19"#)?;
    let told_of_n = told(&mut client)?;
    ensure!(
        told_of_n.contains(r#"n {"offsets of 1 byte": 2, "dictionary, 1 byte": 1} 0 1125899906842624"#),
        "{told_of_n}"
    );
    client.batch_execute("DELETE FROM t WHERE id = 17")?;
    again(&mut client, &loaded)?;
    let differences = anker::verify(&mut client, "t")?;
    ensure!(differences.is_empty(), "{:?}", &differences[..differences.len().min(4)]);
    Ok(())
}

fn a_thousand_tables_have_columns(context: &Context) -> Result<()> {
    let count = if context.quick { 200 } else { 1000 };
    let places = (count + 10).to_string();
    let options = Options::default().set("anker.max_tables", &places).set("max_locks_per_transaction", "1000");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(&format!(
        "DO $$ BEGIN FOR i IN 1..{count} LOOP
            EXECUTE format('CREATE TABLE t%s (id integer PRIMARY KEY, x text)', i);
            EXECUTE format('INSERT INTO t%s SELECT i, ''text '' || i FROM generate_series(1, 10) i', i);
            PERFORM anker.mirror(('t' || i)::regclass);
         END LOOP; END $$"
    ))?;
    let live = wait_until(Duration::from_secs(300), || {
        let sql = "SELECT count(*) FROM anker.tables WHERE state = 'live'";
        Ok(client.query_one(sql, &[])?.get::<_, i64>(0) == count)
    })?;
    ensure!(live, "not all tables are live");
    let told = anker::text_rows(
        &mut client,
        "SELECT count(*), sum(rows), sum(distinct_values), count(reason) FROM anker.columns",
    )?;
    ensure!(told == [format!("{}|{}|{}|0", 2 * count, 20 * count, 20 * count)], "{told:?}");
    Ok(())
}
