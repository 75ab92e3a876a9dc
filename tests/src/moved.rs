//! Mirrored tables move to another server.

use std::time::Duration;

use bench::cluster::{Stop, wait_until};
use bench::{Result, anker};

use crate::runner::{Context, ensure, tests};

tests![no_worker_runs_while_pg_upgrade_works];

const LIVE: Duration = Duration::from_secs(60);

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
