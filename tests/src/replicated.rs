//! Mirrored tables that other servers write to by logical replication, that pg_dump copies, or whose database goes.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::server::run;
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{ask, same, same_under_lock};
use crate::runner::{Context, ensure, tests};

tests![
    a_subscribers_mirror_follows_the_publisher,
    tables_that_are_replicated_both_ways,
    a_dump_is_restored_with_its_mirrors,
    a_forced_drop_ends_worker_and_sessions,
];

const LIVE: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options::default().set("max_prepared_transactions", "5").set("logical_decoding_work_mem", "64kB")
}

/// A server with the extension, and the tables of the replication tests.
fn with_tables(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&options())?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, n numeric, x text);
         CREATE TABLE bag (a integer, b text); ALTER TABLE bag REPLICA IDENTITY FULL;
         CREATE TABLE parts (day date NOT NULL, k integer, PRIMARY KEY (day, k)) PARTITION BY RANGE (day);
         CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
         CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')",
    )?;
    Ok((cluster, client))
}

const TABLES: [&str; 3] = ["t", "bag", "parts"];

/// Waits until a table has the same rows on both servers, and until the second server's engine returns them.
fn arrives(source: &mut Client, target: &mut Client, table: &str, after: &str) -> Result<()> {
    let sql = format!("SELECT * FROM {table} WHERE anker.olap()");
    let heap = format!("SELECT * FROM {table}");
    let there = wait_until(LIVE, || {
        // On the way, too, the mirror has the rows of the heap.
        same_under_lock(target, table, &sql)?;
        Ok(ask(target, &heap)?.normal() == ask(source, &heap)?.normal())
    })
    .map_err(|e| format!("{table} while it changes by {after}: {e}"))?;
    ensure!(there, "{table} after {after}: the rows do not arrive");
    anker::wait_live(target, table, LIVE)?;
    same(target, &sql).map_err(|e| format!("{table} after {after}: {e}"))?;
    let by = anker::analyzed(target, &sql)?;
    ensure!(by.as_deref() == Some("engine"), "{table} after {after}: answered by {by:?}");
    Ok(())
}

fn subscribe(target: &mut Client, name: &str, source: &Cluster, with: &str) -> Result<()> {
    let connection = source.conninfo("postgres");
    Ok(target.batch_execute(&format!(
        "CREATE SUBSCRIPTION {name} CONNECTION '{connection}' PUBLICATION {name} WITH ({with})"
    ))?)
}

fn a_subscribers_mirror_follows_the_publisher(context: &Context) -> Result<()> {
    for with in ["streaming = off", "streaming = on, two_phase = on", "binary = true"] {
        let (source, mut writer) = with_tables(context)?;
        let (_target, mut reader) = with_tables(context)?;
        writer.batch_execute(
            "INSERT INTO t SELECT i, i / 3.0, 'row ' || i FROM generate_series(1, 2000) i;
             INSERT INTO bag SELECT i % 7, 'b' || i % 3 FROM generate_series(1, 100) i;
             INSERT INTO parts SELECT date '2026-01-01' + i % 59, i FROM generate_series(1, 500) i;
             CREATE PUBLICATION p FOR TABLE t, bag, parts",
        )?;
        anker::mirror(&mut writer, &TABLES, LIVE)?;
        anker::mirror(&mut reader, &TABLES, LIVE)?;
        subscribe(&mut reader, "p", &source, with)?;
        for sql in [
            "SELECT 'the initial copy'",
            "UPDATE t SET n = n + 1, x = repeat(x, 1000) WHERE id % 10 = 3",
            "UPDATE t SET n = n + 1 WHERE id % 10 < 5",
            "UPDATE t SET id = -id WHERE id < 20",
            "DELETE FROM t WHERE id % 7 = 1",
            "DELETE FROM bag WHERE a = 3; UPDATE bag SET b = b || 'x' WHERE a = 4",
            "UPDATE parts SET day = day + 31 WHERE day < '2026-01-15'",
            // Larger than the memory of decoding on both sides.
            "BEGIN; INSERT INTO t SELECT i, i, md5(i::text) FROM generate_series(10001, 30000) i;
             SAVEPOINT a; DELETE FROM t WHERE id < 15000; ROLLBACK TO a; UPDATE t SET n = 5 WHERE id > 25000; COMMIT",
            "BEGIN; UPDATE t SET n = 6 WHERE id > 29000; INSERT INTO bag VALUES (1, 'prepared');
             PREPARE TRANSACTION 'one';; INSERT INTO bag VALUES (2, 'meanwhile');; COMMIT PREPARED 'one'",
            "BEGIN; UPDATE t SET n = 7; PREPARE TRANSACTION 'two';; ROLLBACK PREPARED 'two'",
            "TRUNCATE t, parts; INSERT INTO t VALUES (1, 1, 'new')",
        ] {
            // COMMIT PREPARED cannot be sent together with other statements.
            let sent = sql.split(";;").try_for_each(|piece| writer.batch_execute(piece));
            sent.map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
            for table in TABLES {
                arrives(&mut writer, &mut reader, table, sql).map_err(|e| format!("{with}: {e}"))?;
            }
        }
        for table in TABLES {
            ensure!(anker::verify(&mut reader, table)?.is_empty(), "{with}, {table}: heap and mirror differ");
        }
        reader.batch_execute("DROP SUBSCRIPTION p")?;
    }
    Ok(())
}

fn tables_that_are_replicated_both_ways(context: &Context) -> Result<()> {
    let (first, mut one) = with_tables(context)?;
    let (second, mut two) = with_tables(context)?;
    // A change that came from the other server goes back to it, unless the subscription asks for changes without an
    // origin. This option came with 16; before, each table goes one way.
    let both_ways: bool = one.query_one("SELECT current_setting('server_version_num')::integer >= 160000", &[])?.get(0);
    for client in [&mut one, &mut two] {
        anker::mirror(client, &TABLES, LIVE)?;
    }
    let with = if both_ways { "copy_data = off, origin = none" } else { "copy_data = off" };
    one.batch_execute(if both_ways {
        "CREATE PUBLICATION a FOR TABLE t, bag"
    } else {
        "CREATE PUBLICATION a FOR TABLE t"
    })?;
    two.batch_execute(if both_ways {
        "CREATE PUBLICATION b FOR TABLE t, bag"
    } else {
        "CREATE PUBLICATION b FOR TABLE bag"
    })?;
    subscribe(&mut two, "a", &first, with)?;
    subscribe(&mut one, "b", &second, with)?;
    for round in 0..10 {
        let from = round * 200;
        one.batch_execute(&format!("INSERT INTO t SELECT i, i, 'one' FROM generate_series({from}, {from} + 99) i"))?;
        if both_ways {
            two.batch_execute(&format!(
                "INSERT INTO t SELECT i, i, 'two' FROM generate_series({from} + 100, {from} + 199) i"
            ))?;
        }
        two.batch_execute(&format!("INSERT INTO bag SELECT i % 5, 'two' FROM generate_series({from}, {from} + 99) i"))?;
        arrives(&mut one, &mut two, "t", "insert")?;
        arrives(&mut two, &mut one, "bag", "insert")?;
        if both_ways {
            arrives(&mut two, &mut one, "t", "insert")?;
            two.batch_execute(&format!("UPDATE t SET n = n + 1 WHERE id % 3 = 0 AND id >= {from}"))?;
            arrives(&mut two, &mut one, "t", "update")?;
        }
        one.batch_execute(&format!("DELETE FROM t WHERE id % 3 = 1 AND id < {from}"))?;
        arrives(&mut one, &mut two, "t", "delete")?;
    }
    for client in [&mut one, &mut two] {
        for table in TABLES {
            ensure!(anker::verify(client, table)?.is_empty(), "{table}: heap and mirror differ");
        }
    }
    two.batch_execute("DROP SUBSCRIPTION a")?;
    Ok(one.batch_execute("DROP SUBSCRIPTION b")?)
}

fn a_dump_is_restored_with_its_mirrors(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_tables(context)?;
    client.batch_execute(
        "INSERT INTO t SELECT i, i / 3.0, 'row ' || i FROM generate_series(1, 2000) i;
         INSERT INTO bag SELECT i % 7, 'b' FROM generate_series(1, 100) i;
         INSERT INTO parts SELECT date '2026-01-01' + i % 59, i FROM generate_series(1, 500) i;
         CREATE SCHEMA \"other one\"; CREATE TABLE \"other one\".\"T\" (id integer PRIMARY KEY);
         INSERT INTO \"other one\".\"T\" VALUES (1), (2);
         CREATE MATERIALIZED VIEW found AS SELECT x, sum(n) FROM t WHERE anker.olap() GROUP BY x;
         CREATE VIEW flagged AS SELECT count(*) FROM t WHERE anker.olap()",
    )?;
    let tables = ["t", "bag", "parts", "\"other one\".\"T\""];
    anker::mirror(&mut client, &tables, LIVE)?;
    let server = cluster.server();
    let connected = |program: &str| {
        let mut command = server.command(program);
        command.args(["-U", "postgres", "-p"]).arg(cluster.port().to_string()).arg("-h").arg(cluster.directory());
        command
    };
    let dump = cluster.directory().join("dump");
    let file = |name: &str| format!("{}.{name}", dump.display());
    for (name, format, restore) in [
        ("plain", "p", &["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"][..]),
        ("one_transaction", "p", &["psql", "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f"][..]),
        ("custom", "c", &["pg_restore", "-e"][..]),
        ("parallel", "d", &["pg_restore", "-e", "-j", "3"][..]),
    ] {
        run(connected("pg_dump").args(["-d", "postgres", "-F", format, "-f"]).arg(file(name)))?;
        client.batch_execute(&format!("CREATE DATABASE {name}"))?;
        run(connected(restore[0]).args(["-d", name]).args(&restore[1..]).arg(file(name)))?;
        let mut restored = cluster.connect_to(name)?;
        restored.batch_execute("INSERT INTO t VALUES (-1, 1, 'since'); DELETE FROM bag WHERE a = 1")?;
        for table in tables {
            anker::wait_live(&mut restored, table, LIVE).map_err(|e| format!("{name}: {e}"))?;
            let sql = format!("SELECT * FROM {table} WHERE anker.olap()");
            same(&mut restored, &sql).map_err(|e| format!("{name}: {e}"))?;
            let by = anker::analyzed(&mut restored, &sql)?;
            ensure!(by.as_deref() == Some("engine"), "{name}, {table}: answered by {by:?}");
        }
        let flagged = anker::text_rows(&mut restored, "SELECT * FROM flagged")?;
        ensure!(flagged == ["2001"], "{name}: {flagged:?}");
    }
    Ok(())
}

fn a_forced_drop_ends_worker_and_sessions(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    for round in 0..3 {
        client.batch_execute("CREATE DATABASE second")?;
        let mut session = cluster.connect_to("second")?;
        anker::create_extension(&mut session)?;
        session
            .batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 50000)")?;
        if round < 2 {
            anker::mirror(&mut session, &["t"], LIVE)?;
        } else {
            // The table may still be loading.
            session.batch_execute("SELECT anker.mirror('t')")?;
        }
        let engine = anker::processes(&mut session)?.map(|(_, engine)| engine);
        session.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t WHERE anker.olap(); FETCH 10 FROM c")?;
        client.batch_execute("DROP DATABASE second WITH (FORCE)")?;
        ensure!(session.batch_execute("FETCH 10 FROM c").is_err(), "a session survived its database");
        if let Some(engine) = engine {
            ensure!(bench::cluster::wait_for_exit(engine, LIVE)?, "an engine survived its database");
        }
        let left = anker::text_rows(
            &mut client,
            "SELECT slot_name FROM pg_replication_slots WHERE database NOT IN (SELECT datname FROM pg_database)",
        )?;
        ensure!(left.is_empty(), "slots of a database that is gone: {left:?}");
    }
    Ok(())
}
