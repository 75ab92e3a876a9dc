//! Tests of the list of mirrored tables: who may write to the list, what it contains after DROP, and which workers
//! start when it changes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, ask, same};
use crate::runner::{Context, ensure, tests};

tests![
    a_list_that_is_restored_as_by_a_replica_is_followed,
    dropping_the_last_mirrored_table_ends_its_worker,
    a_dropped_table_leaves_the_list,
    a_row_of_a_table_that_is_no_more_starts_no_worker,
    mirroring_needs_a_privilege,
    a_table_without_room_says_so_and_is_taken_up_when_there_is_some,
    thousands_of_tables,
    mirror_in_a_prepared_transaction,
    anker_tables_waits_for_no_lock_on_a_table,
    a_database_that_allows_no_connections_is_left_alone,
    loaders_that_cannot_connect_come_ever_more_rarely,
    a_full_house_of_worker_processes_is_said_and_waited_for,
    what_changes_while_the_slot_is_made_is_known,
    a_database_comes_back_from_a_drop_that_fails,
    a_worker_that_is_just_starting_makes_way,
    who_may_copy_a_template_can,
    the_extensions_own_tables_are_not_mirrored,
    timeouts_of_clients_end_no_worker,
];

const LIVE: Duration = Duration::from_secs(60);

fn listed(client: &mut Client) -> Result<Vec<String>> {
    anker::text_rows(client, "SELECT relation::text FROM anker.mirrored ORDER BY 1")
}

/// Watches for the given time, and returns the process ids of all capture workers that ran meanwhile.
fn workers_within(client: &mut Client, time: Duration) -> Result<HashSet<String>> {
    let (mut seen, until) = (HashSet::new(), Instant::now() + time);
    while Instant::now() < until {
        let sql = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_anker capture worker'";
        seen.extend(anker::text_rows(client, sql)?);
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(seen)
}

/// Checks that, without mirrored tables, the worker ends soon and no further worker is started.
fn rests(client: &mut Client) -> Result<()> {
    let ended = wait_until(Duration::from_secs(20), || Ok(workers_within(client, Duration::from_secs(1))?.is_empty()))?;
    let seen = workers_within(client, Duration::from_secs(4))?;
    ensure!(ended && seen.is_empty(), "with nothing to mirror these workers came by: {seen:?}");
    Ok(())
}

fn dropping_the_last_mirrored_table_ends_its_worker(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    client.batch_execute("DROP TABLE t")?;
    rests(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (2)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    same(&mut client, "SELECT id FROM t WHERE anker.olap()").map(drop)
}

fn a_dropped_table_leaves_the_list(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE ROLE farmer LOGIN; CREATE SCHEMA barn AUTHORIZATION farmer; GRANT CREATE ON SCHEMA public TO farmer;
         SET ROLE farmer;
         CREATE TABLE own (id integer PRIMARY KEY); CREATE TABLE owned (id integer PRIMARY KEY);
         CREATE TABLE barn.inner (id integer PRIMARY KEY); CREATE TYPE ty AS (a integer);
         RESET ROLE;
         CREATE TABLE plain (id integer PRIMARY KEY); CREATE TABLE kept (id integer PRIMARY KEY);
         CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
         ALTER TABLE child ADD PRIMARY KEY (id); CREATE TABLE late (id integer PRIMARY KEY);
         CREATE TABLE later (id integer PRIMARY KEY)",
    )?;
    let tables = ["own", "owned", "barn.inner", "plain", "kept", "parent", "child", "late", "later"];
    anker::mirror(&mut client, &tables, LIVE)?;
    client.batch_execute(
        "BEGIN; DROP TABLE plain; ROLLBACK; BEGIN; SAVEPOINT s; DROP TABLE plain; ROLLBACK TO s; COMMIT",
    )?;
    ensure!(listed(&mut client)?.len() == tables.len(), "after ROLLBACK: {:?}", listed(&mut client)?);

    let mut farmer = cluster.connect_as("farmer")?;
    farmer.batch_execute("DROP TABLE own; DROP SCHEMA barn CASCADE; DROP OWNED BY farmer")?;
    client.batch_execute("DROP TABLE parent CASCADE")?;
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; DROP TABLE plain; COMMIT")?;
    ensure!(listed(&mut client)? == ["kept", "late", "later"], "after DROP: {:?}", listed(&mut client)?);

    // One transaction mirrors a table and drops it.
    client.batch_execute(
        "BEGIN; CREATE TABLE brief (id integer PRIMARY KEY); SELECT anker.mirror('brief'); DROP TABLE brief; COMMIT",
    )?;
    ensure!(listed(&mut client)? == ["kept", "late", "later"], "after CREATE and DROP: {:?}", listed(&mut client)?);

    // Another session has locked the list or its index. DROP must not wait for it.
    let mut other = cluster.connect()?;
    client.batch_execute("SET lock_timeout = '5s'")?;
    for (lock, table) in [("LOCK TABLE anker.mirrored", "late"), ("REINDEX TABLE anker.mirrored", "later")] {
        other.batch_execute(&format!("BEGIN; {lock}"))?;
        let dropped = client.batch_execute(&format!("DROP TABLE {table}"));
        other.batch_execute("COMMIT")?;
        dropped.map_err(|e| format!("{lock}: {}", bench::describe(&e)))?;
    }
    let shown = anker::text_rows(&mut client, "SELECT relation FROM anker.tables")?;
    ensure!(shown == ["kept"], "anker.tables shows {shown:?}");

    client.batch_execute("INSERT INTO kept VALUES (1)")?;
    same(&mut client, "SELECT id FROM kept WHERE anker.olap()")?;
    client.batch_execute("DROP EXTENSION pg_anker")?;
    client.batch_execute("DROP TABLE kept; CREATE EXTENSION pg_anker")?;
    rests(&mut client)
}

fn a_row_of_a_table_that_is_no_more_starts_no_worker(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("INSERT INTO anker.mirrored SELECT 4000000000::oid::regclass")?;
    rests(&mut client)?;
    cluster.restart()?;
    let mut client = cluster.connect()?;
    rests(&mut client)
}

fn mirroring_needs_a_privilege(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE ROLE owner LOGIN; CREATE ROLE granted LOGIN; GRANT CREATE ON SCHEMA public TO owner;
         SET ROLE owner; CREATE TABLE t (id integer PRIMARY KEY); RESET ROLE;
         GRANT EXECUTE ON FUNCTION anker.mirror, anker.unmirror TO granted",
    )?;
    let connect = |user: &str| cluster.config().user(user).connect(NoTls);
    let (mut owner, mut granted) = (connect("owner")?, connect("granted")?);
    for sql in ["SELECT anker.mirror('t')", "SELECT anker.unmirror('t')"] {
        for (who, session) in [("an owner without the privilege", &mut owner), ("a stranger with it", &mut granted)] {
            let answer = ask(session, sql)?;
            ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "{sql} as {who}: {answer:?}");
        }
    }
    client.batch_execute("GRANT EXECUTE ON FUNCTION anker.mirror, anker.unmirror TO owner")?;
    anker::mirror(&mut owner, &["t"], LIVE)?;
    owner.batch_execute("SELECT anker.unmirror('t')")?;
    Ok(())
}

fn a_table_without_room_says_so_and_is_taken_up_when_there_is_some(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("anker.max_tables", "3"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE DATABASE second")?;
    let mut second = cluster.connect_to("second")?;
    anker::create_extension(&mut second)?;
    for session in [&mut client, &mut second] {
        session.batch_execute(
            "CREATE TABLE a (id integer PRIMARY KEY); CREATE TABLE b (id integer PRIMARY KEY);
             CREATE TABLE c (id integer PRIMARY KEY); INSERT INTO c VALUES (1)",
        )?;
    }
    anker::mirror(&mut client, &["a", "b"], LIVE)?;
    anker::mirror(&mut second, &["a"], LIVE)?;
    for session in [&mut client, &mut second] {
        session.batch_execute("SELECT anker.mirror('c')")?;
    }
    let waits = |session: &mut Client| -> Result<bool> {
        wait_until(Duration::from_secs(10), || {
            let rows =
                anker::text_rows(session, "SELECT state, reason FROM anker.tables WHERE relation = 'c'::regclass")?;
            Ok(rows.iter().any(|row| row.contains("registered") && row.contains("anker.max_tables")))
        })
    };
    ensure!(waits(&mut client)? && waits(&mut second)?, "nothing says that there is no room");
    same(&mut client, "SELECT id FROM c WHERE anker.olap()")?;
    // Dropping a table of the other database frees an entry.
    second.batch_execute("DROP TABLE a; SELECT anker.unmirror('c')")?;
    anker::wait_live(&mut client, "c", LIVE)?;
    ensure!(anker::analyzed(&mut client, "SELECT id FROM c WHERE anker.olap()")?.as_deref() == Some("engine"), "c");
    // Removing a table of the same database from the list frees an entry, too.
    second.batch_execute("SELECT anker.mirror('c')")?;
    ensure!(waits(&mut second)?, "nothing says that there is no room, the second time");
    client.batch_execute("SELECT anker.unmirror('b')")?;
    anker::wait_live(&mut second, "c", LIVE)
}

fn thousands_of_tables(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("max_locks_per_transaction", "2000"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    let tables = context.size(3000, 300);
    client.batch_execute(&format!(
        "DO $$ BEGIN FOR i IN 1..{tables} LOOP
             EXECUTE format('CREATE TABLE t%s (id integer PRIMARY KEY, v text)', i);
             EXECUTE format('INSERT INTO t%s VALUES (1, ''one''), (2, ''two'')', i);
         END LOOP; END $$;
         SELECT count(anker.mirror(format('t%s', i)::regclass)) FROM generate_series(1, {tables}) i"
    ))?;
    let mut live = 0;
    let all = wait_until(Duration::from_secs(180), || {
        client.batch_execute("INSERT INTO t1 SELECT max(id) + 1, 'more' FROM t1; UPDATE t2 SET v = v WHERE id = 1")?;
        live = client.query_one("SELECT count(*) FROM anker.tables WHERE state = 'live'", &[])?.get::<_, i64>(0);
        Ok(live == i64::from(tables))
    })?;
    ensure!(all, "{live} of {tables} tables are live");
    for table in ["t1", "t2", &format!("t{tables}")] {
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    client.batch_execute(&format!(
        "DO $$ BEGIN FOR i IN 1..{tables} LOOP EXECUTE format('DROP TABLE t%s', i); END LOOP; END $$"
    ))?;
    ensure!(listed(&mut client)?.is_empty(), "dropped tables are in the list");
    rests(&mut client)
}

fn mirror_in_a_prepared_transaction(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().set("max_prepared_transactions", "5"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    rests(&mut client)?;
    client.batch_execute("BEGIN; SELECT anker.mirror('t'); PREPARE TRANSACTION 'first'")?;
    rests(&mut client)?;
    client.batch_execute("COMMIT PREPARED 'first'")?;
    anker::wait_live(&mut client, "t", LIVE)?;
    // A prepared transaction that does not change the list starts no worker in a database without mirrors.
    client.batch_execute("CREATE DATABASE other")?;
    let mut other = cluster.connect_to("other")?;
    other.batch_execute("BEGIN; CREATE TABLE t (id integer); PREPARE TRANSACTION 'second'")?;
    other.batch_execute("COMMIT PREPARED 'second'")?;
    let mine = anker::processes(&mut client)?.map(|(worker, _)| worker.to_string());
    let seen = workers_within(&mut client, Duration::from_secs(2))?;
    ensure!(seen.iter().eq(mine.iter()), "workers {seen:?} instead of {mine:?}");
    Ok(())
}

fn anker_tables_waits_for_no_lock_on_a_table(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, j json, dropped integer); ALTER TABLE t DROP dropped",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let mut other = cluster.connect()?;
    other.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")?;
    client.batch_execute("SET statement_timeout = '10s'")?;
    let shown = anker::text_rows(&mut client, "SELECT relation, state, excluded_columns FROM anker.tables")?;
    ensure!(shown == ["t|live|{}"], "anker.tables shows {shown:?}");
    // Waiting for a mirror does not take longer than the given time, either.
    let waited = anker::text_rows(&mut client, "SELECT anker.wait_for_mirror('t', '50 ms')")?;
    ensure!(waited == ["f"], "wait_for_mirror of a locked table: {waited:?}");
    Ok(())
}

fn a_database_that_allows_no_connections_is_left_alone(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    for (name, close) in [
        ("closed", "ALTER DATABASE closed ALLOW_CONNECTIONS false"),
        ("half_dropped", "UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half_dropped'"),
    ] {
        client.batch_execute(&format!("CREATE DATABASE {name}"))?;
        let mut session = cluster.connect_to(name)?;
        anker::create_extension(&mut session)?;
        session.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
        anker::mirror(&mut session, &["t"], LIVE)?;
        let (worker, _) = anker::processes(&mut session)?.ok_or("no worker")?;
        drop(session);
        client.batch_execute(close)?;
        client.execute("SELECT pg_terminate_backend($1)", &[&(worker as i32)])?;
    }
    let seen = workers_within(&mut client, Duration::from_secs(6))?;
    ensure!(seen.len() <= 2, "workers that cannot connect: {seen:?}");
    let refused = cluster.log().lines().filter(|line| line.contains("FATAL") && !line.contains("terminating")).count();
    ensure!(refused == 0, "{refused} attempts to connect:\n{}", cluster.log());
    client.batch_execute("ALTER DATABASE closed ALLOW_CONNECTIONS true")?;
    let mut session = cluster.connect_to("closed")?;
    anker::wait_live(&mut session, "t", Duration::from_secs(120))
}

fn loaders_that_cannot_connect_come_ever_more_rarely(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE DATABASE closing")?;
    let mut session = cluster.connect_to("closing")?;
    anker::create_extension(&mut session)?;
    session.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE u (id integer PRIMARY KEY)")?;
    anker::mirror(&mut session, &["t"], LIVE)?;
    client.batch_execute("ALTER DATABASE closing ALLOW_CONNECTIONS false")?;
    session.batch_execute("SELECT anker.mirror('u')")?;
    std::thread::sleep(Duration::from_secs(8));
    let refused = cluster.log().lines().filter(|line| line.contains("not currently accepting connections")).count();
    ensure!((1..=5).contains(&refused), "{refused} loaders in 8 s");
    client.batch_execute("ALTER DATABASE closing ALLOW_CONNECTIONS true")?;
    anker::wait_live(&mut session, "u", LIVE)
}

/// With `max_worker_processes` = 3, PostgreSQL's own launcher, ours and the capture worker use all slots, so no loader
/// can start. With 2, not even the capture worker can start.
fn a_full_house_of_worker_processes_is_said_and_waited_for(context: &Context) -> Result<()> {
    for (places, what) in [("3", "the list's reader"), ("2", "the capture worker")] {
        let cluster = context.cluster_with(&Options::default().set("max_worker_processes", places))?;
        let mut client = cluster.connect()?;
        anker::create_extension(&mut client)?;
        client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
        client.batch_execute("SELECT anker.mirror('t')")?;
        let said = wait_until(Duration::from_secs(20), || {
            let rows = anker::text_rows(&mut client, "SELECT coalesce(reason, '') FROM anker.engine")?;
            Ok(rows.iter().any(|row| row.contains("max_worker_processes")))
        })?;
        ensure!(said, "nothing says that there is no place for {what}");
        same(&mut client, "SELECT id FROM t WHERE anker.olap()")?;
    }
    Ok(())
}

/// When the list is restored, the launcher has already looked into the database. Only a trigger on the list makes the
/// launcher look again. The trigger must also fire if the session's role is that of a replica.
fn a_list_that_is_restored_as_by_a_replica_is_followed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    client.batch_execute("SELECT anker.unmirror('t')")?;
    let ended = wait_until(LIVE, || Ok(anker::text_rows(&mut client, "SELECT state FROM anker.engine")? == ["idle"]))?;
    ensure!(ended, "the worker did not end");
    client.batch_execute(
        "SET session_replication_role = replica; INSERT INTO anker.mirrored VALUES ('t'); RESET session_replication_role",
    )?;
    anker::wait_live(&mut client, "t", LIVE)
}

/// Creating a replication slot waits first for one open transaction, and then for another one. DDL that commits between
/// the two waits is missing in the catalog snapshot with which decoding begins.
fn what_changes_while_the_slot_is_made_is_known(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE other (x integer); CREATE TABLE keyless (id integer NOT NULL, v integer);
         CREATE TABLE changed (id integer PRIMARY KEY, v integer); INSERT INTO changed VALUES (1, 1)",
    )?;
    anker::mirror(&mut client, &["changed"], LIVE)?;
    client.batch_execute("INSERT INTO anker.mirrored VALUES ('keyless')")?;
    let (mut first, mut second) = (cluster.connect()?, cluster.connect()?);
    first.batch_execute("BEGIN; SELECT txid_current()")?;
    client.batch_execute("SELECT pg_terminate_backend(worker_pid) FROM anker.engine")?;
    let waits =
        || Ok(anker::text_rows(&mut client, "SELECT reason FROM anker.engine")?[0].starts_with("creating the slot"));
    ensure!(wait_until(LIVE, waits)?, "no slot is made");
    std::thread::sleep(Duration::from_millis(500));
    second.batch_execute("BEGIN; SELECT txid_current()")?;
    client.batch_execute(
        "ALTER TABLE changed DROP COLUMN v; ALTER TABLE keyless ADD PRIMARY KEY (id);
         CREATE TABLE made (id integer PRIMARY KEY); INSERT INTO made VALUES (1)",
    )?;
    client.batch_execute("INSERT INTO anker.mirrored VALUES ('made')")?;
    first.batch_execute("COMMIT")?;
    std::thread::sleep(Duration::from_millis(1500));
    client.batch_execute("INSERT INTO other VALUES (1)")?;
    second.batch_execute("COMMIT")?;
    let sql = "SELECT relation, state, reason FROM anker.tables WHERE state <> 'live' OR state IS NULL";
    let all_live = wait_until(LIVE, || Ok(anker::text_rows(&mut client, sql)?.is_empty()))?;
    ensure!(all_live, "not mirrored: {:?}", anker::text_rows(&mut client, sql)?);
    for table in ["changed", "keyless", "made"] {
        ensure!(anker::verify(&mut client, table)?.is_empty(), "{table}: heap and mirror differ");
    }
    Ok(())
}

/// The statement fails, and its session stays in the failed transaction and sends nothing more. Nevertheless the
/// database must be mirrored again.
fn a_database_comes_back_from_a_drop_that_fails(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE DATABASE second")?;
    client.batch_execute("CREATE DATABASE taken TEMPLATE DEFAULT")?;
    let mut session = cluster.connect_to("second")?;
    anker::create_extension(&mut session)?;
    session.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
    anker::mirror(&mut session, &["t"], LIVE)?;
    let before = anker::processes(&mut session)?;
    client.batch_execute("BEGIN")?;
    ensure!(client.batch_execute("DROP DATABASE second").is_err(), "a database was dropped in a transaction");
    ensure!(anker::processes(&mut session)? == before, "DROP DATABASE that cannot be ended the worker");
    client.batch_execute("ROLLBACK; BEGIN")?;
    // When this statement fails, our worker has already disconnected from the database to make way for it.
    ensure!(client.batch_execute("ALTER DATABASE second RENAME TO taken").is_err(), "two databases of one name");
    anker::wait_live(&mut session, "t", LIVE)?;
    client.batch_execute("ROLLBACK")?;
    drop(session);
    client.batch_execute("ALTER DATABASE second RENAME TO third")?;
    let mut session = cluster.connect_to("third")?;
    anker::wait_live(&mut session, "t", LIVE)?;
    drop(session);
    Ok(client.batch_execute("DROP DATABASE third")?)
}

/// A database with a mirrored table.
fn create_mirrored(cluster: &Cluster, client: &mut Client, name: &str) -> Result<()> {
    client.batch_execute(&format!("CREATE DATABASE {name}"))?;
    let mut session = cluster.connect_to(name)?;
    anker::create_extension(&mut session)?;
    session.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    anker::mirror(&mut session, &["t"], LIVE)
}

/// A worker has connected to the database, but waits for a lock, and is not yet registered in shared memory. It must
/// still make way for DROP DATABASE.
fn a_worker_that_is_just_starting_makes_way(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create_mirrored(&cluster, &mut client, "second")?;
    // Each process reads this catalog while it connects.
    let (mut locker, mut watcher) = (cluster.connect()?, cluster.connect()?);
    let worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_anker capture worker'";
    let starts = |watcher: &mut Client| {
        let waiting = "SELECT pid FROM pg_locks WHERE relation = 'pg_db_role_setting'::regclass AND NOT granted";
        Ok(!anker::text_rows(watcher, waiting)?.is_empty())
    };
    for sql in ["ALTER DATABASE second RENAME TO third", "CREATE DATABASE fourth TEMPLATE third", "DROP DATABASE third"]
    {
        let there = wait_until(LIVE, || Ok(!anker::text_rows(&mut watcher, worker)?.is_empty()))?;
        ensure!(there, "no worker");
        locker.batch_execute("BEGIN; LOCK TABLE pg_db_role_setting IN ACCESS EXCLUSIVE MODE")?;
        client.batch_execute(&format!("SELECT pg_terminate_backend(pid, 10000) FROM ({worker}) AS workers"))?;
        ensure!(wait_until(LIVE, || starts(&mut watcher))?, "no worker starts");
        // DROP and CREATE DATABASE read the locked catalog, too, but only after no other session uses the database.
        let done = std::thread::scope(|scope| {
            let statement = scope.spawn(|| client.batch_execute(sql));
            let made_way = wait_until(LIVE, || Ok(!starts(&mut watcher)? || statement.is_finished()));
            let released = locker.batch_execute("COMMIT");
            (made_way, released, statement.join().expect("no panic"))
        });
        let (made_way, released, done) = done;
        made_way?;
        released?;
        done.map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
    }
    Ok(())
}

fn who_may_copy_a_template_can(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    create_mirrored(&cluster, &mut client, "pattern")?;
    client.batch_execute("CREATE ROLE maker LOGIN CREATEDB; CREATE ROLE nobody LOGIN")?;
    let mut maker = cluster.connect_as("maker")?;
    let mut watched = cluster.connect()?;
    let worker = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_anker capture worker'";
    let before = anker::text_rows(&mut watched, worker)?;
    ensure!(before.len() == 1, "workers: {before:?}");
    // A user who may not copy the database does not stop its worker.
    let mut nobody = cluster.connect_as("nobody")?;
    for session in [&mut nobody, &mut maker] {
        ensure!(session.batch_execute("CREATE DATABASE copied TEMPLATE pattern").is_err(), "a database was copied");
        ensure!(anker::text_rows(&mut watched, worker)? == before, "the worker has made way");
    }
    client.batch_execute("ALTER DATABASE pattern IS_TEMPLATE true")?;
    ensure!(nobody.batch_execute("CREATE DATABASE copied TEMPLATE pattern").is_err(), "a database was copied");
    ensure!(anker::text_rows(&mut watched, worker)? == before, "the worker has made way");
    maker.batch_execute("CREATE DATABASE copied TEMPLATE pattern")?;
    for database in ["pattern", "copied"] {
        let mut session = cluster.connect_to(database)?;
        anker::wait_live(&mut session, "t", LIVE).map_err(|e| format!("{database}: {e}"))?;
        same(&mut session, "SELECT id FROM t WHERE anker.olap()")?;
    }
    Ok(())
}

fn the_extensions_own_tables_are_not_mirrored(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    for table in ["anker.mirrored", "anker.mirrored_parents"] {
        let answer = ask(&mut client, &format!("SELECT anker.mirror('{table}')"))?;
        let refused = matches!(&answer, Answer::Error { message, .. } if message.contains("own tables"));
        ensure!(refused, "{table}: {answer:?}");
        client.execute("INSERT INTO anker.mirrored VALUES ($1::text::regclass)", &[&table])?;
    }
    anker::mirror(&mut client, &["t"], LIVE)?;
    let sql = "SELECT relation, state, reason FROM anker.tables WHERE relation <> 't'::regclass ORDER BY 1";
    let mut shown = Vec::new();
    let refused = wait_until(LIVE, || {
        shown = anker::text_rows(&mut client, sql)?;
        let unsupported = |row: &String| row.ends_with("|unsupported|pg_anker's own tables cannot be mirrored");
        Ok(shown.len() == 2 && shown.iter().all(unsupported))
    })?;
    ensure!(refused, "anker.tables shows {shown:?}");
    same(&mut client, "SELECT count(*) FROM anker.mirrored WHERE anker.olap()")?;
    Ok(())
}

/// The server sets `lock_timeout` and `statement_timeout`. Loader and worker wait for locks and run for longer than
/// these timeouts, which must not end them.
fn timeouts_of_clients_end_no_worker(context: &Context) -> Result<()> {
    let cluster =
        context.cluster_with(&Options::default().set("lock_timeout", "300ms").set("statement_timeout", "2s"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    let mut other = cluster.connect()?;
    other.batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")?;
    // Unlike anker.mirror(), an INSERT waits for nothing.
    client.batch_execute("INSERT INTO anker.mirrored VALUES ('t')")?;
    std::thread::sleep(Duration::from_secs(2));
    other.batch_execute("ROLLBACK")?;
    anker::wait_live(&mut client, "t", LIVE)?;
    let ended = cluster.log().lines().filter(|line| line.contains("timeout")).count();
    ensure!(ended == 0, "a timeout has ended something:\n{}", cluster.log());
    Ok(())
}
