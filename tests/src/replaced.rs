//! Library and engine are of one build. If they are not, queries run on the heap, and the reason says what to do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_for_exit, wait_until};
use bench::server::Server;
use bench::{Result, anker, os};
use postgres::Client;

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![an_upgrade_waits_for_the_restart, an_engine_of_another_build_is_not_used];

const LIVE: Duration = Duration::from_secs(60);
const SUM: &str = "SELECT count(*), sum(n) FROM t WHERE anker.olap()";

/// A program that greets the worker as an engine with protocol version 5, by a message of the control channel.
const OTHER_ENGINE: &str = "#!/bin/bash\nprintf '\\0\\5\\1' >&$PG_ANKER_CONTROL_FD\nexec sleep 600\n";

/// A server of this test alone, because its files are changed.
fn server() -> Result<Server> {
    let mut server = Server::install_other(std::env::current_exe()?.parent().ok_or("executable without a directory")?)?;
    server.set_everywhere("anker.max_wait", "15s");
    Ok(server)
}

fn start(server: Server) -> Result<(Cluster, Client)> {
    let cluster = Cluster::start(&Arc::new(server), &Options::default())?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t AS SELECT i AS id, i % 7 AS n FROM generate_series(1, 1000) i; ALTER TABLE t ADD PRIMARY KEY (id)")?;
    Ok((cluster, client))
}

/// Puts another file in the place of the executable, as package managers do.
fn replace(engine: &Path, by: &Path) -> Result<()> {
    let new = engine.with_extension("new");
    fs::copy(by, &new)?;
    Ok(fs::rename(new, engine)?)
}

/// Waits until the query runs on the heap for this reason. Until then, too, every answer must be the heap's.
fn runs_on_heap_because(client: &mut Client, wanted: &str) -> Result<()> {
    let mut last = None;
    let found = wait_until(LIVE, || {
        same(client, SUM)?;
        last = anker::analyzed(client, SUM)?;
        Ok(last.as_ref().is_some_and(|side| side.starts_with("heap") && side.contains(wanted)))
    })?;
    ensure!(found, "no reason with {wanted:?}: {last:?}");
    Ok(())
}

/// Restarts the server. Afterwards, the engine must answer.
fn works_after_restart(cluster: &Cluster) -> Result<()> {
    cluster.restart()?;
    let mut client = cluster.connect()?;
    anker::wait_live(&mut client, "t", LIVE)?;
    same(&mut client, SUM)?;
    let side = anker::analyzed(&mut client, SUM)?;
    ensure!(side.as_deref() == Some("engine"), "{side:?}");
    ensure!(cluster.crashes().is_empty(), "{:?}", cluster.crashes());
    Ok(())
}

fn an_upgrade_waits_for_the_restart(_: &Context) -> Result<()> {
    let server = server()?;
    let engine = server.engine();
    let (cluster, mut client) = start(server)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    replace(&engine, &engine)?;
    // The running engine is not touched.
    let side = anker::analyzed(&mut client, SUM)?;
    ensure!(side.as_deref() == Some("engine"), "{side:?}");

    let running = anker::engine_pid(&mut client)?;
    os::kill(running, os::SIGKILL)?;
    ensure!(wait_for_exit(running, LIVE)?, "the engine survived");
    runs_on_heap_because(&mut client, "replaced while the server was running: restart the server")?;
    works_after_restart(&cluster)
}

fn an_engine_of_another_build_is_not_used(_: &Context) -> Result<()> {
    let server = server()?;
    let engine = server.engine();
    let (ours, other) = (engine.with_extension("ours"), engine.with_extension("other"));
    fs::copy(&engine, &ours)?;
    fs::write(&other, OTHER_ENGINE)?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755))?;
    replace(&engine, &other)?;
    let (cluster, mut client) = start(server)?;
    client.batch_execute("SELECT anker.mirror('t')")?;
    runs_on_heap_because(&mut client, "the engine is of another build than the library")?;
    replace(&engine, &ours)?;
    works_after_restart(&cluster)
}
