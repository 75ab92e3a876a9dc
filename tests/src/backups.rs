//! PostgreSQL's own programs (pg_basebackup, pg_rewind) work on a data directory that contains an engine's socket.

use std::time::Duration;

use bench::cluster::{Options, Stop, wait_until};
use bench::{Result, anker};

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![base_backup_and_rewind_pass_over_the_engines_socket, a_crashed_server_can_be_rewound_to_one_without_an_engine];

const LIVE: Duration = Duration::from_secs(60);

fn base_backup_and_rewind_pass_over_the_engines_socket(context: &Context) -> Result<()> {
    let old = context.cluster_with(&Options::default().set("wal_log_hints", "on").set("wal_keep_size", "512MB"))?;
    let mut client = old.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let (new, complaints) = old.standby()?;

    // The standby is promoted, and mirrors a table. The old primary keeps running for a while, as after a failover by
    // mistake.
    new.resume()?;
    new.promote()?;
    let mut there = new.connect()?;
    anker::wait_live(&mut there, "t", LIVE)?;
    there.batch_execute("INSERT INTO t VALUES (2001)")?;
    client.batch_execute("INSERT INTO t VALUES (3001)")?;
    drop(client);
    old.stop(Stop::Fast)?;
    there.batch_execute("CHECKPOINT")?;
    let said = old.rewind_to(&new)?;
    ensure!(!said.contains("could not"), "pg_rewind says: {said}");

    ensure!(complaints.is_empty(), "pg_basebackup says: {complaints}");

    drop(there);
    new.stop(Stop::Fast)?;
    old.resume()?;
    let mut client = old.connect()?;
    let rows = anker::text_rows(&mut client, "SELECT id FROM t WHERE id > 1000")?;
    ensure!(rows == ["2001"], "after pg_rewind: {rows:?}");
    let live = wait_until(LIVE, || {
        Ok(anker::analyzed(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?.as_deref() == Some("engine"))
    })?;
    ensure!(live, "no mirror after pg_rewind");
    same(&mut client, "SELECT count(*), sum(id) FROM t WHERE anker.olap()").map(drop)
}

/// The engine of the crashed server has left files in a directory that does not exist on the other server.
fn a_crashed_server_can_be_rewound_to_one_without_an_engine(context: &Context) -> Result<()> {
    let old = context.cluster_with(&Options::default().set("wal_log_hints", "on").set("wal_keep_size", "512MB"))?;
    let mut client = old.connect()?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 1000)")?;
    let (new, _) = old.standby()?;
    new.resume()?;
    new.promote()?;
    let mut there = new.connect()?;
    there.batch_execute("INSERT INTO t VALUES (2001)")?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    drop(client);
    old.stop(Stop::Immediate)?;
    there.batch_execute("CHECKPOINT")?;
    let said = old.rewind_to(&new)?;
    ensure!(!said.contains("could not"), "pg_rewind says: {said}");
    drop(there);
    new.stop(Stop::Fast)?;
    old.resume()?;
    let mut client = old.connect()?;
    let rows = anker::text_rows(&mut client, "SELECT id FROM t WHERE id > 1000")?;
    ensure!(rows == ["2001"], "after pg_rewind: {rows:?}");
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    same(&mut client, "SELECT count(*), sum(id) FROM t WHERE anker.olap()").map(drop)
}
