//! Mirrors move to another server by pg_upgrade, and by pg_dump and pg_restore.
//!
//! `PG_ANKER_OLDER` names a directory with the `pg_config` of an older PostgreSQL, and with pg_anker as built for it.
//! Without it, both servers are of the same version. `scripts/pg-upgrade.sh` runs these tests with an older version.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, Stop, wait_until};
use bench::server::{Server, run};
use bench::{Result, anker};
use postgres::Client;

use crate::flagged::same;
use crate::runner::{Context, PATIENCE, Skipped, ensure, tests};

tests![no_worker_runs_while_pg_upgrade_works, pg_upgrade_keeps_the_mirrors, a_dump_brings_the_mirrors,];

const LIVE: Duration = Duration::from_secs(60);

/// One table of each kind that the list of mirrored tables may contain.
const TABLES: &str = r#"
    CREATE ROLE maker LOGIN;
    ALTER ROLE maker SET anker.route = 'prefer';
    GRANT EXECUTE ON FUNCTION anker.mirror, anker.unmirror TO maker;
    CREATE SCHEMA "Other";
    CREATE TABLE t (id integer PRIMARY KEY, gone text, v text, n numeric(12,2), at timestamptz);
    INSERT INTO t SELECT i, 'x', 'v' || i % 7, i / 4.0, '2024-02-28'::timestamptz + i * interval '1 hour'
        FROM generate_series(1, 20000) i;
    ALTER TABLE t DROP COLUMN gone;
    CREATE TABLE whole (id integer PRIMARY KEY, k text) PARTITION BY RANGE (id);
    CREATE TABLE low PARTITION OF whole FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id);
    CREATE TABLE lowest PARTITION OF low FOR VALUES FROM (0) TO (50);
    CREATE TABLE lower PARTITION OF low DEFAULT;
    CREATE TABLE "Other"."High" PARTITION OF whole FOR VALUES FROM (100) TO (200);
    INSERT INTO whole SELECT i, 'k' || i % 3 FROM generate_series(0, 199) i;
    CREATE TABLE made (id integer PRIMARY KEY, a integer, twice integer GENERATED ALWAYS AS (a * 2) STORED);
    INSERT INTO made SELECT i, i % 10 FROM generate_series(1, 500) i;
    CREATE TABLE keyless (a integer, b text);
    ALTER TABLE keyless REPLICA IDENTITY FULL;
    INSERT INTO keyless SELECT i % 50, 'b' || i % 4 FROM generate_series(1, 300) i;
    CREATE TABLE chosen (a integer NOT NULL, b text);
    CREATE UNIQUE INDEX chosen_a ON chosen (a);
    ALTER TABLE chosen REPLICA IDENTITY USING INDEX chosen_a;
    INSERT INTO chosen SELECT i, 'c' || i FROM generate_series(1, 100) i;
    CREATE TYPE mood AS ENUM ('low', 'high');
    CREATE TABLE typed (id integer PRIMARY KEY, m mood, l integer[], j jsonb);
    INSERT INTO typed SELECT i, (CASE i % 2 WHEN 0 THEN 'low' ELSE 'high' END)::mood, ARRAY[i, i % 3],
        jsonb_build_object('a', i % 5) FROM generate_series(1, 100) i;
    CREATE TABLE base (id integer PRIMARY KEY, v text);
    CREATE TABLE heir (extra integer, PRIMARY KEY (id)) INHERITS (base);
    INSERT INTO base SELECT i, 'base' FROM generate_series(1, 10) i;
    INSERT INTO heir SELECT i, 'heir', i FROM generate_series(11, 30) i;
    CREATE TABLE other (id integer PRIMARY KEY);
    CREATE TABLE dropped (id integer PRIMARY KEY)"#;

const MIRRORED: &[&str] = &["t", "whole", "made", "keyless", "chosen", "typed", "base", "dropped"];

const QUERIES: &[&str] = &[
    "SELECT v, count(*), sum(n), max(at) FROM t WHERE anker.olap() GROUP BY v",
    "SELECT k, count(*), min(id) FROM whole WHERE anker.olap() GROUP BY k",
    r#"SELECT count(*) FROM "Other"."High" JOIN t USING (id) WHERE anker.olap()"#,
    "SELECT twice, count(*) FROM made WHERE anker.olap() GROUP BY twice",
    "SELECT b, count(*), sum(a) FROM keyless WHERE anker.olap() GROUP BY b",
    "SELECT count(*), max(b) FROM chosen WHERE anker.olap()",
    "SELECT id, m, l, j FROM typed WHERE anker.olap()",
    "SELECT v, count(*), sum(id) FROM base WHERE anker.olap() GROUP BY v",
];

const LISTS: &str = "
    SELECT 'table', relation::text, since IS NULL FROM anker.mirrored
    UNION ALL SELECT 'parent', relation::text, since IS NULL FROM anker.mirrored_parents ORDER BY 1, 2";

const RIGHTS: &str = "
    SELECT has_function_privilege('maker', 'anker.mirror(regclass)', 'EXECUTE'),
        has_function_privilege('maker', 'anker.mirror_tables(regclass[])', 'EXECUTE'),
        (SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'maker'::regrole)";

/// The server whose tables move.
fn older(context: &Context) -> Result<Arc<Server>> {
    let Some(place) = std::env::var_os("PG_ANKER_OLDER").map(PathBuf::from) else {
        return Ok(context.server().clone());
    };
    let mut server = Server::install_another(&place.join("pg_config"), &place)?;
    server.set_everywhere("anker.max_wait", PATIENCE);
    Ok(Arc::new(server))
}

/// Fails with the reason to skip the test, if PostgreSQL itself cannot move a table. The newer server must know what a
/// minor release of the older one may have begun to write into the catalog.
fn tables_can_move(old: &Cluster, new: &Cluster) -> Result<()> {
    let (mut from, mut to) = (old.connect()?, new.connect()?);
    from.batch_execute("CREATE DATABASE plain")?;
    to.batch_execute("CREATE DATABASE plain")?;
    old.connect_to("plain")?.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
    let dump = new.directory().join("plain");
    run(new.server().command("pg_dump").args(["-Fc", "-d", &old.conninfo("plain"), "-f"]).arg(&dump))?;
    let mut pg_restore = new.server().command("pg_restore");
    let moved = run(pg_restore.args(["--exit-on-error", "-d", &new.conninfo("plain")]).arg(&dump));
    from.batch_execute("DROP DATABASE plain")?;
    to.batch_execute("DROP DATABASE plain")?;
    match moved {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(Skipped("without pg_anker, too, this minor release cannot restore the older server's dump").into())
        }
    }
}

fn filled(client: &mut Client) -> Result<Vec<String>> {
    anker::create_extension(client)?;
    client.batch_execute(TABLES)?;
    anker::mirror(client, MIRRORED, LIVE)?;
    client.batch_execute("DROP TABLE dropped")?;
    works(client)?;
    let lists = anker::text_rows(client, LISTS)?;
    ensure!(lists.len() == 12, "the lists are {lists:?}");
    Ok(lists)
}

/// The engine answers every query as the heap does, and no mirror differs from its table.
fn works(client: &mut Client) -> Result<()> {
    for sql in QUERIES {
        same(client, sql)?;
        let by = anker::analyzed(client, sql)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    for table in anker::text_rows(client, "SELECT relation FROM anker.mirrored")? {
        let wrong = anker::verify(client, &table)?;
        ensure!(wrong.is_empty(), "{table} differs from its mirror: {wrong:?}");
    }
    Ok(())
}

/// The same tables are mirrored on the new server, and their mirrors follow changes and new partitions.
fn has_moved(client: &mut Client, lists: &[String]) -> Result<()> {
    let found = anker::text_rows(client, LISTS)?;
    ensure!(found == lists, "before: {lists:?}\nafter: {found:?}");
    for table in anker::text_rows(client, "SELECT relation FROM anker.mirrored")? {
        anker::wait_live(client, &table, LIVE)?;
    }
    works(client)?;
    let rights = anker::text_rows(client, RIGHTS)?;
    ensure!(rights == ["t|f|{anker.route=prefer}"], "rights and settings: {rights:?}");
    client.batch_execute(
        "INSERT INTO t VALUES (30000, 'new', 1.5, now()); UPDATE made SET a = a + 1 WHERE id < 10;
         UPDATE keyless SET b = 'changed' WHERE a = 3; DELETE FROM chosen WHERE a < 10; DELETE FROM heir WHERE id = 12;
         CREATE TABLE highest PARTITION OF whole FOR VALUES FROM (200) TO (300);
         INSERT INTO whole SELECT i, 'high' FROM generate_series(200, 250) i",
    )?;
    anker::wait_live(client, "highest", LIVE)?;
    works(client)
}

fn no_worker_runs_while_pg_upgrade_works(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    drop(client);
    cluster.stop(Stop::Fast)?;
    // The argument with which pg_upgrade starts servers.
    cluster.resume_with("-b")?;
    let mut client = cluster.connect()?;
    let workers = "SELECT backend_type FROM pg_stat_activity WHERE backend_type LIKE 'pg_anker%'";
    let mut found = Vec::new();
    wait_until(Duration::from_secs(3), || {
        found = anker::text_rows(&mut client, workers)?;
        Ok(!found.is_empty())
    })?;
    ensure!(found.is_empty(), "workers: {found:?}");
    drop(client);
    cluster.restart()?;
    anker::wait_live(&mut cluster.connect()?, "t", LIVE)
}

fn pg_upgrade_keeps_the_mirrors(context: &Context) -> Result<()> {
    let old = Cluster::start(&older(context)?, &Options::default())?;
    let new = context.cluster()?;
    tables_can_move(&old, &new)?;
    let mut client = old.connect()?;
    let lists = filled(&mut client)?;
    // Another database has objects of an older version of pg_anker.
    client.batch_execute("CREATE DATABASE second")?;
    let mut second = old.connect_to("second")?;
    second.batch_execute(
        "CREATE EXTENSION pg_anker VERSION '0.1.0';
         CREATE TABLE t AS SELECT i AS id, i % 7 AS n FROM generate_series(1, 1000) i; ALTER TABLE t ADD PRIMARY KEY (id)",
    )?;
    anker::mirror(&mut second, &["t"], LIVE)?;
    drop((client, second));
    old.stop(Stop::Fast)?;

    let checksums = |cluster: &Cluster| {
        let shown = run(cluster.server().command("pg_controldata").arg(cluster.data()))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(!shown.contains("checksum version:           0"))
    };
    new.stop(Stop::Fast)?;
    if checksums(&new)? != checksums(&old)? {
        // Since 18, data directories have checksums unless somebody declines them.
        run(new.server().command("pg_checksums").args(["--disable", "--no-sync", "-D"]).arg(new.data()))?;
    }
    old.upgrade_to(&new)?;
    ensure!(old.crashes().is_empty(), "the old server has crashed: {:?}", old.crashes());
    new.resume()?;
    let mut client = new.connect()?;
    has_moved(&mut client, &lists)?;
    let mut second = new.connect_to("second")?;
    anker::wait_live(&mut second, "t", LIVE)?;
    second.batch_execute("ALTER EXTENSION pg_anker UPDATE; INSERT INTO t VALUES (1001, 1)")?;
    let sql = "SELECT n, count(*), sum(id) FROM t WHERE anker.olap() GROUP BY n";
    same(&mut second, sql)?;
    let by = anker::analyzed(&mut second, sql)?;
    ensure!(by.as_deref() == Some("engine"), "in the second database: answered by {by:?}");
    Ok(())
}

fn a_dump_brings_the_mirrors(context: &Context) -> Result<()> {
    let old = Cluster::start(&older(context)?, &Options::default())?;
    let new = context.cluster()?;
    tables_can_move(&old, &new)?;
    let lists = filled(&mut old.connect()?)?;
    let dump = new.directory().join("dump");
    let mut pg_dump = new.server().command("pg_dump");
    run(pg_dump.args(["-Fc", "-d", &old.conninfo("postgres"), "-f"]).arg(&dump))?;
    let mut client = new.connect()?;
    client.batch_execute("CREATE ROLE maker LOGIN; ALTER ROLE maker SET anker.route = 'prefer'")?;
    let mut pg_restore = new.server().command("pg_restore");
    run(pg_restore.args(["--exit-on-error", "-j", "2", "-d", &new.conninfo("postgres")]).arg(&dump))?;
    ensure!(old.crashes().is_empty(), "the old server has crashed: {:?}", old.crashes());
    has_moved(&mut client, &lists)
}
