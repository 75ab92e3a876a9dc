//! If a row is too long, only its table is given up. No process needs memory in proportion to the row's length, and the
//! server goes on.

use std::time::Duration;

use bench::cluster::{Cluster, Options, Stop, wait_until};
use bench::{Result, anker, os};
use postgres::Client;

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};
use crate::wide::growth;

tests![
    a_long_row_costs_its_table_and_no_memory,
    a_long_row_among_other_changes_is_not_missed,
    a_long_row_that_was_there_before_is_not_loaded,
    long_values_within_the_limit_are_followed,
    long_records_that_nobody_follows_are_passed_over,
    a_long_record_of_a_mirrored_table_is_survived,
    records_about_as_long_as_the_limit_are_not_waited_for,
    a_table_over_which_the_server_goes_down_is_left_alone,
    a_load_that_goes_on_is_no_crash,
    a_table_that_is_mirrored_anew_has_no_crashes,
];

const LIVE: Duration = Duration::from_secs(60);
/// The value of `anker.max_row` in these tests.
const MAX_ROW: &str = "4MB";
/// The memory that worker and loader may need for a row of this length, in bytes.
const MEMORY: u64 = 48 << 20;

fn cluster(context: &Context) -> Result<(std::sync::Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&Options::default().set("anker.max_row", MAX_ROW))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE beside (id integer PRIMARY KEY); INSERT INTO beside VALUES (1);
         CREATE TABLE long (id integer PRIMARY KEY, a text, b text, c bytea);
         INSERT INTO long SELECT i, 'a', 'b', 'c' FROM generate_series(1, 10) i;
         CREATE TABLE unmirrored (LIKE long INCLUDING ALL);
         -- As it is stored, without being compressed.
         CREATE TABLE plain (LIKE long INCLUDING ALL);
         ALTER TABLE plain ALTER COLUMN a SET STORAGE EXTERNAL, ALTER COLUMN b SET STORAGE EXTERNAL",
    )?;
    Ok((cluster, client))
}

fn state(client: &mut Client, table: &str) -> Result<String> {
    let sql =
        format!("SELECT state || ': ' || coalesce(reason, '') FROM anker.tables WHERE relation = '{table}'::regclass");
    Ok(client.query_one(&sql, &[])?.get(0))
}

/// Waits until the table is given up because of its long row.
fn is_given_up(client: &mut Client, table: &str) -> Result<()> {
    let mut last = String::new();
    let given_up = wait_until(Duration::from_secs(30), || {
        last = state(client, table)?;
        Ok(last == "broken: a row is longer than anker.max_row = 4 MB")
    })?;
    ensure!(given_up, "{table} is {last}");
    Ok(())
}

/// Checks that the same worker still runs, and that it has followed the table `beside` all the time.
fn nothing_else_happened(client: &mut Client, worker: u32) -> Result<()> {
    client.batch_execute("INSERT INTO beside SELECT max(id) + 1 FROM beside")?;
    let all = "SELECT count(*), max(id) FROM beside WHERE anker.olap()";
    same(client, all)?;
    let by = anker::analyzed(client, all)?;
    ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    let now = anker::processes(client)?.map(|(worker, _)| worker);
    ensure!(now == Some(worker), "the worker was {worker}, and is {now:?}");
    let rebuilds = anker::text_rows(client, "SELECT rebuilds FROM anker.tables WHERE relation = 'beside'::regclass")?;
    ensure!(rebuilds == ["0"], "rebuilt {rebuilds:?} times");
    Ok(())
}

fn worker(client: &mut Client) -> Result<u32> {
    Ok(anker::processes(client)?.ok_or("no worker")?.0)
}

fn a_long_row_costs_its_table_and_no_memory(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    anker::mirror(&mut client, &["beside", "long", "plain"], LIVE)?;
    let worker = worker(&mut client)?;
    // Some of the long values are small when compressed, others are not. Some tables are mirrored, others are not. Some
    // transactions make other changes, too.
    for (table, sql) in [
        ("", "INSERT INTO unmirrored VALUES (1, repeat('x', 30000000), repeat('y', 30000000))"),
        ("", "INSERT INTO unmirrored SELECT 2, string_agg(md5(i::text), '') FROM generate_series(1, 600000) i"),
        ("long", "INSERT INTO long VALUES (11, repeat('x', 30000000), repeat('y', 30000000), 'c')"),
        (
            "plain",
            "BEGIN; INSERT INTO plain VALUES (1, 'a', 'b', 'c');
             SAVEPOINT s; INSERT INTO plain VALUES (2, repeat('x', 15000000), repeat('y', 15000000), 'c'); RELEASE s;
             UPDATE plain SET b = 'short'; COMMIT",
        ),
    ] {
        let (grown, ()) = growth(
            || os::private_bytes(worker),
            || {
                client.batch_execute(sql)?;
                nothing_else_happened(&mut client, worker)
            },
        )?;
        ensure!(grown < MEMORY, "{table}, {sql}: the worker has grown by {} MB", grown >> 20);
        if !table.is_empty() {
            is_given_up(&mut client, table)?;
            same(&mut client, &format!("SELECT id, length(a), length(b) FROM {table} WHERE anker.olap()"))?;
        }
    }
    for table in ["long", "plain"] {
        client
            .batch_execute(&format!("DELETE FROM {table} WHERE length(a) > 1000; SELECT anker.unmirror('{table}')"))?;
        anker::mirror(&mut client, &[table], LIVE)?;
        ensure!(anker::verify(&mut client, table)?.is_empty(), "{table}: heap and mirror differ");
    }
    Ok(())
}

/// A query that waits for a transaction may be answered as soon as the mirror has the transaction. By then the mirror
/// must also know that it lacks the long row.
fn a_long_row_among_other_changes_is_not_missed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    client.batch_execute("ALTER TABLE long ALTER COLUMN a SET STORAGE EXTERNAL")?;
    anker::mirror(&mut client, &["beside", "long"], LIVE)?;
    for round in 0..5 {
        for changes in ["INSERT INTO beside SELECT max(id) + 1 FROM beside", "UPDATE long SET b = 'short' WHERE id < 5"]
        {
            let long = "INSERT INTO long VALUES (-1, repeat('x', 5000000), 'b', 'c')";
            client.batch_execute(&format!("BEGIN; {changes}; {long}; {changes}; COMMIT"))?;
            same(&mut client, "SELECT count(*), min(id) FROM long WHERE anker.olap()")
                .map_err(|e| format!("round {round}, {changes}: {e}"))?;
            is_given_up(&mut client, "long")?;
            client.batch_execute("DELETE FROM long WHERE id < 0; SELECT anker.unmirror('long')")?;
            anker::mirror(&mut client, &["long"], LIVE)?;
        }
    }
    Ok(())
}

fn a_long_row_that_was_there_before_is_not_loaded(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    client.batch_execute(
        "INSERT INTO long VALUES (11, repeat('x', 50000000), repeat('y', 50000000), 'c');
         INSERT INTO plain VALUES (1, repeat('x', 2500000), repeat('y', 2500000), 'c')",
    )?;
    anker::mirror(&mut client, &["beside"], LIVE)?;
    let worker = worker(&mut client)?;
    for table in ["long", "plain"] {
        client.execute("SELECT anker.mirror($1::text::regclass)", &[&table])?;
        is_given_up(&mut client, table)?;
        same(&mut client, &format!("SELECT id, length(a), length(b) FROM {table} WHERE anker.olap()"))?;
    }
    nothing_else_happened(&mut client, worker)?;
    // After TRUNCATE the table has no long row any more, so it can be mirrored again.
    client.batch_execute("TRUNCATE long; SELECT anker.unmirror('long')")?;
    anker::mirror(&mut client, &["long"], LIVE)
}

fn long_values_within_the_limit_are_followed(context: &Context) -> Result<()> {
    let (cluster, mut client) = cluster(context)?;
    anker::mirror(&mut client, &["long", "plain"], LIVE)?;
    for table in ["long", "plain"] {
        client.batch_execute(&format!(
            "INSERT INTO {table} VALUES (21, repeat('x', 3900000), 'b', 'c'), (22, repeat('y', 20000), repeat('z', 20000), 'c');
             UPDATE {table} SET b = repeat('z', 100000) WHERE id = 21;
             UPDATE {table} SET id = id + 100, c = NULL;
             BEGIN; SAVEPOINT s; UPDATE {table} SET a = a || 'more'; ROLLBACK TO s; UPDATE {table} SET c = 'c'; COMMIT;
             INSERT INTO {table} SELECT i, repeat(md5(i::text), i), repeat('b', i * 10), 'c' FROM generate_series(1000, 1200) i"
        ))?;
        // COPY logs these rows together: first the long values of all rows, then the rows themselves.
        let mut copy = cluster.connect()?;
        let mut rows = copy.copy_in(&format!("COPY {table} FROM STDIN"))?;
        for id in 2000..2300 {
            std::io::Write::write_all(&mut rows, format!("{id}\t{}\tb\tc\n", format!("{id}").repeat(900)).as_bytes())?;
        }
        rows.finish()?;
        same(&mut client, &format!("SELECT id, a, b, c FROM {table} WHERE anker.olap()"))?;
        ensure!(anker::verify(&mut client, table)?.is_empty(), "{table}: heap and mirror differ");
    }
    let rebuilt = anker::text_rows(
        &mut client,
        "SELECT relation, reason FROM anker.tables WHERE rebuilds > 0 OR state <> 'live'",
    )?;
    ensure!(rebuilt.is_empty(), "rebuilt: {rebuilt:?}");
    Ok(())
}

fn long_records_that_nobody_follows_are_passed_over(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    anker::mirror(&mut client, &["beside"], LIVE)?;
    let worker = worker(&mut client)?;
    for sql in [
        "SELECT pg_logical_emit_message(true, 'x', repeat('x', 100000000))",
        "BEGIN; INSERT INTO beside VALUES (1000); SELECT pg_logical_emit_message(true, 'x', repeat('x', 100000000)); COMMIT",
        "BEGIN; SAVEPOINT s; SELECT pg_logical_emit_message(true, 'x', repeat('x', 5000000));
         INSERT INTO beside VALUES (2000); RELEASE s; INSERT INTO beside VALUES (3000); COMMIT",
        "SELECT pg_logical_emit_message(false, 'x', repeat('x', 100000000))",
    ] {
        let (grown, ()) = growth(
            || os::private_bytes(worker),
            || {
                client.batch_execute(sql)?;
                nothing_else_happened(&mut client, worker)
            },
        )?;
        ensure!(grown < MEMORY, "{sql}: the worker has grown by {} MB", grown >> 20);
    }
    Ok(())
}

/// With REPLICA IDENTITY FULL, one WAL record contains the whole old row. The worker cannot skip this record, so it
/// must end and start again after it.
fn a_long_record_of_a_mirrored_table_is_survived(context: &Context) -> Result<()> {
    let (_cluster, mut client) = cluster(context)?;
    client.batch_execute("ALTER TABLE plain REPLICA IDENTITY FULL")?;
    anker::mirror(&mut client, &["beside", "plain"], LIVE)?;
    client.batch_execute("INSERT INTO plain VALUES (1, repeat('x', 20000000), 'b', 'c')")?;
    is_given_up(&mut client, "plain")?;
    client.batch_execute("UPDATE plain SET b = 'more'")?;
    let log = |client: &mut Client| {
        anker::text_rows(client, "SELECT restarts FROM anker.engine WHERE database = current_database()")
    };
    let ended = wait_until(LIVE, || Ok(log(&mut client)? == ["1"]))?;
    ensure!(ended, "the worker has gone on, or has ended more than once: {:?}", log(&mut client)?);
    anker::wait_live(&mut client, "beside", LIVE)?;
    is_given_up(&mut client, "plain")?;
    same(&mut client, "SELECT id, length(a), b FROM plain WHERE anker.olap()").map(drop)
}

/// A WAL record that is slightly shorter than the limit may exceed it together with the headers of the WAL pages that
/// it crosses. The worker must not wait for such a record for ever.
fn records_about_as_long_as_the_limit_are_not_waited_for(context: &Context) -> Result<()> {
    const LIMIT: u32 = 1 << 20;
    let cluster = context.cluster_with(&Options::default().set("anker.max_row", "1MB"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    // A record that begins near the end of a WAL page crosses one more page. `to_end_of_page` writes WAL until the
    // position is near the end of a page.
    client.batch_execute(
        "CREATE TABLE beside (id integer PRIMARY KEY); INSERT INTO beside VALUES (1);
         CREATE TABLE plain (id integer PRIMARY KEY, a text, b text);
         ALTER TABLE plain ALTER COLUMN a SET STORAGE EXTERNAL, REPLICA IDENTITY FULL;
         CREATE FUNCTION to_end_of_page() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
             LOOP
                 PERFORM pg_logical_emit_message(false, 'x', repeat('x', 500));
                 EXIT WHEN (pg_current_wal_insert_lsn() - '0/0') % 8192 BETWEEN 7000 AND 7600;
             END LOOP;
         END $$",
    )?;
    anker::mirror(&mut client, &["beside", "plain"], LIVE)?;
    let worker = worker(&mut client)?;
    for missing in [-10_000, -100, 30, 200, 500, 1000, 3000] {
        let bytes = LIMIT.wrapping_add_signed(-missing);
        for message in ["false", "true"] {
            client.batch_execute(&format!(
                "BEGIN; SELECT to_end_of_page(); SELECT pg_logical_emit_message({message}, 'x', repeat('x', {bytes})); COMMIT"
            ))?;
            nothing_else_happened(&mut client, worker).map_err(|e| format!("{bytes} bytes, {message}: {e}"))?;
        }
    }
    for missing in [0, 700, 1300, 10_000] {
        let bytes = LIMIT - missing;
        client.batch_execute(&format!("INSERT INTO plain VALUES (1, repeat('x', {bytes}), 'b')"))?;
        client.batch_execute("BEGIN; SELECT to_end_of_page(); UPDATE plain SET b = 'more'; COMMIT; TRUNCATE plain")?;
        client.batch_execute("INSERT INTO beside SELECT max(id) + 1 FROM beside")?;
        let sql = "SELECT count(*), max(id) FROM beside WHERE anker.olap()";
        let mut by = None;
        let followed = wait_until(LIVE, || {
            by = anker::analyzed(&mut client, sql)?;
            Ok(by.as_deref() == Some("engine"))
        })?;
        ensure!(followed, "behind a row of {bytes} bytes: {by:?}");
        same(&mut client, sql)?;
    }
    Ok(())
}

fn a_table_over_which_the_server_goes_down_is_left_alone(context: &Context) -> Result<()> {
    let cluster = context.cluster()?;
    context.expect_crash(&cluster);
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE first (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY, v text);
         INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 200000) i",
    )?;
    anker::mirror(&mut client, &["first"], LIVE)?;
    // The loader is killed while it waits for the stopped engine. PostgreSQL then restarts all its processes.
    let engine = anker::engine_pid(&mut client)?;
    client.batch_execute("SELECT anker.mirror('t')")?;
    let loads = "SELECT pid FROM pg_locks WHERE relation = 't'::regclass AND granted AND pid <> pg_backend_pid()";
    let mut loader = Vec::new();
    let loading = wait_until(LIVE, || {
        loader = anker::text_rows(&mut client, loads)?;
        Ok(!loader.is_empty())
    })?;
    os::kill(engine, os::SIGSTOP)?;
    ensure!(loading, "no loader came");
    os::kill(loader[0].parse()?, os::SIGKILL)?;
    let marks = || marks(&cluster);
    ensure!(wait_until(LIVE, || Ok(!cluster.crashes().is_empty()))?, "the server has not noticed");
    let mut client = reconnected(&cluster)?;
    let marked = marks()?;
    ensure!(matches!(&marked[..], [(_, mark)] if mark.starts_with("1 ")), "after a crash: {marked:?}");
    let states = "SELECT state || ': ' || coalesce(reason, '') FROM anker.tables WHERE relation = 't'::regclass";
    let told = wait_until(LIVE, || {
        let state = anker::text_rows(&mut client, states)?.concat();
        Ok(state.starts_with("loading: the server went down while the table was loaded (crashes so far: 1)"))
    })?;
    ensure!(told, "anker.tables does not tell why the table is not loaded at once");
    // The table is loaded again. When the table is live, the file that marked the load must be gone.
    anker::wait_live(&mut client, "t", LIVE)?;
    ensure!(marks()?.is_empty(), "marks of loaded tables: {:?}", marks()?);

    // Writes the file that would be left if the server had crashed three times during the load.
    drop(client);
    cluster.stop(Stop::Fast)?;
    std::fs::write(&marked[0].0, "3")?;
    cluster.resume()?;
    let mut client = cluster.connect()?;
    let mut last = String::new();
    let left_alone = wait_until(LIVE, || {
        last = anker::text_rows(&mut client, states)?.concat();
        Ok(last.starts_with("unsupported: the server went down 3 times while the table was loaded"))
    })?;
    ensure!(left_alone, "the table is {last}");
    anker::wait_live(&mut client, "first", LIVE)?;
    same(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?;
    client.batch_execute("SELECT anker.unmirror('t')")?;
    anker::mirror(&mut client, &["t"], LIVE)
}

/// The files that mark loads, each with path and content. A file exists while its table is being loaded, and remains if
/// the server crashes then.
fn marks(cluster: &Cluster) -> Result<Vec<(String, String)>> {
    let files = std::fs::read_dir(cluster.data().join("pgsql_tmp_anker"))?.filter_map(|entry| entry.ok());
    let loading = files.filter(|file| file.file_name().to_string_lossy().ends_with(".loading"));
    let read = |path: std::path::PathBuf| (path.display().to_string(), std::fs::read_to_string(path));
    Ok(loading.map(|file| read(file.path())).map(|(path, mark)| (path, mark.unwrap_or_default())).collect())
}

/// A loader ends slightly later than its worker. Meanwhile the next worker may already look at the table. It must not
/// take the loader's file for the trace of a crash.
fn a_load_that_goes_on_is_no_crash(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE first (id integer PRIMARY KEY); CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)",
    )?;
    anker::mirror(&mut client, &["first"], LIVE)?;
    // The engine is stopped, so that the loader waits for it.
    let (worker, engine) = anker::processes(&mut client)?.ok_or("no worker")?;
    os::kill(engine, os::SIGSTOP)?;
    client.batch_execute("SELECT anker.mirror('t')")?;
    let loads = "SELECT pid FROM pg_locks WHERE relation = 't'::regclass AND granted AND pid <> pg_backend_pid()";
    let mut loader = Vec::new();
    let loading = wait_until(LIVE, || {
        loader = anker::text_rows(&mut client, loads)?;
        Ok(!loader.is_empty())
    })?;
    ensure!(loading, "no loader came");
    let loader: u32 = loader[0].parse()?;
    os::kill(loader, os::SIGSTOP)?;
    let mut seen = || -> Result<String> {
        let marked = marks(&cluster)?;
        let [(path, mark)] = &marked[..] else { return Err(format!("marks: {marked:?}").into()) };
        // Replaces the file by the one that exists during a third attempt, after two crashes.
        std::fs::write(path, mark.replacen('1', "3", 1))?;
        os::kill(worker, os::SIGTERM)?;
        let next = wait_until(LIVE, || Ok(anker::processes(&mut client)?.is_some_and(|(now, _)| now != worker)))?;
        ensure!(next, "no other worker came");
        anker::wait_live(&mut client, "first", LIVE)?;
        state(&mut client, "t")
    };
    let seen = seen();
    os::kill(loader, os::SIGCONT)?;
    let seen = seen?;
    ensure!(seen.starts_with("loading: "), "beside a load that goes on the table is {seen}");
    anker::wait_live(&mut client, "t", LIVE)
}

fn a_table_that_is_mirrored_anew_has_no_crashes(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE beside (id integer PRIMARY KEY)")?;
    let mark: String = client
        .query_one(
            "SELECT format('pgsql_tmp_anker/pgsql_tmp_%s_%s.loading', d.oid, 't'::regclass::oid)
             FROM pg_database d WHERE datname = current_database()",
            &[],
        )?
        .get(0);
    let with_library = |names: &str| -> Result<Client> {
        // Appends to the file, because PostgreSQL uses the last line for a setting.
        let conf = cluster.data().join("postgresql.conf");
        let settings = std::fs::read_to_string(&conf)? + &format!("shared_preload_libraries = '{names}'\n");
        std::fs::write(&conf, settings)?;
        cluster.restart()?;
        cluster.connect()
    };
    // Removes the table from the list while no worker runs that could notice it. At that time, another table is
    // mirrored (first round), or none (second round).
    for beside in [true, false] {
        anker::mirror(&mut client, &["t", "beside"], LIVE)?;
        drop(client);
        let mut bare = with_library("")?;
        std::fs::write(cluster.data().join(&mark), "3")?;
        bare.batch_execute("SELECT anker.unmirror('t')")?;
        if !beside {
            bare.batch_execute("SELECT anker.unmirror('beside')")?;
        }
        drop(bare);
        client = with_library("pg_anker")?;
        if beside {
            anker::wait_live(&mut client, "beside", LIVE)?;
            let forgotten = wait_until(Duration::from_secs(5), || Ok(marks(&cluster)?.is_empty()))?;
            ensure!(forgotten, "marks of a table that is not mirrored: {:?}", marks(&cluster)?);
        }
        client.batch_execute("SELECT anker.mirror('t')")?;
        let mut last = String::new();
        let live = wait_until(Duration::from_secs(20), || {
            last = state(&mut client, "t")?;
            Ok(last.starts_with("live"))
        })?;
        ensure!(live, "with another table: {beside}: the table is {last}");
    }
    Ok(())
}

/// A new session. Waits for the server, which is just restarting.
fn reconnected(cluster: &Cluster) -> Result<Client> {
    let mut session = None;
    wait_until(LIVE, || {
        session = cluster.connect().ok();
        Ok(session.is_some())
    })?;
    session.ok_or_else(|| "the server did not come back".into())
}
