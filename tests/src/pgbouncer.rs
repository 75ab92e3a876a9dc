//! Flagged queries through PgBouncer in transaction mode: each transaction may run in another session of the server,
//! and a session serves several clients.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_until};
use bench::server::run;
use bench::{Result, anker, os};
use postgres::{Client, NoTls};

use crate::flagged::{ask, same};
use crate::runner::{Context, Skipped, ensure, tests};

tests![clients_share_sessions, a_plain_set_follows_its_client, prepared_statements_move_between_sessions];

const LIVE: Duration = Duration::from_secs(60);
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A running PgBouncer, whose socket lies beside the cluster's data. It ends with this value.
struct Pooler {
    directory: std::path::PathBuf,
}

impl Pooler {
    fn start(cluster: &Cluster, sessions: u32, settings: &str) -> Result<Pooler> {
        let directory = cluster.directory().join(format!("pooler-{sessions}"));
        fs::create_dir(&directory)?;
        let (at, server) = (directory.display(), cluster.directory().display());
        let conf = directory.join("pgbouncer.ini");
        fs::write(
            &conf,
            format!(
                "[databases]\n* = host={server} port={} user=postgres\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\n\
                 unix_socket_dir = {at}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {sessions}\n\
                 logfile = {at}/log\npidfile = {at}/pid\n{settings}\n",
                cluster.port()
            ),
        )?;
        cluster.server().own(&directory)?;
        run(cluster.server().command(PROGRAM).arg("-q").arg("-d").arg(&conf))?;
        let pooler = Pooler { directory };
        let up = wait_until(LIVE, || Ok(pooler.connect().is_ok()))?;
        ensure!(up, "PgBouncer does not answer: {}", fs::read_to_string(pooler.directory.join("log"))?);
        Ok(pooler)
    }

    fn connect(&self) -> Result<Client> {
        let mut config = postgres::Config::new();
        config.host_path(&self.directory).port(6432).user("postgres").dbname("postgres");
        Ok(config.connect(NoTls)?)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.directory.join("pid")).ok().and_then(|pid| pid.trim().parse().ok());
        if let Some(pid) = pid {
            // It may have ended.
            let _ = os::kill(pid, os::SIGKILL);
        }
    }
}

/// PgBouncer's version, such as (1, 18). The test is skipped if the program is not installed.
fn version(cluster: &Cluster) -> Result<(u32, u32)> {
    if !Path::new(PROGRAM).exists() {
        return Err(Skipped("PgBouncer is not installed").into());
    }
    let said = run(cluster.server().command(PROGRAM).arg("--version"))?;
    let number = said.split_whitespace().nth(1).ok_or("no version of PgBouncer")?;
    let mut parts = number.split('.').map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(format!("version of PgBouncer: {said}").into()),
    }
}

fn with_table(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&Options::default())?;
    version(&cluster)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY, g integer); INSERT INTO t SELECT i, i % 5 FROM generate_series(1, 5000) i")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    Ok((cluster, client))
}

const PLAIN: &str = "SELECT g, count(*) FROM t GROUP BY g";
const FLAGGED: &str = "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g";

fn clients_share_sessions(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    for settings in ["", "server_reset_query = DISCARD ALL\nserver_reset_query_always = 1"] {
        let pooler = Pooler::start(&cluster, 1, settings)?;
        let (mut one, mut other) = (pooler.connect()?, pooler.connect()?);
        let sessions = [&mut one, &mut other].map(|client| ask(client, "SELECT pg_backend_pid()"));
        let [a, b] = sessions;
        ensure!(a? == b?, "the clients have a session each");
        for round in 0..5 {
            one.batch_execute("BEGIN; SET LOCAL anker.route = prefer")?;
            let side = anker::explained(&mut one, PLAIN)?;
            ensure!(side.as_deref() == Some("engine"), "with the setting: {side:?}");
            one.batch_execute("COMMIT")?;
            let side = anker::explained(&mut other, PLAIN)?;
            ensure!(side.is_none(), "a setting of another client's transaction routes: {side:?}");
            other.batch_execute(&format!("BEGIN; INSERT INTO t VALUES ({round} + 10000, 1)"))?;
            // The session has written, so the heap answers within its transaction, and the engine afterwards.
            same_within(&mut other)?;
            other.batch_execute("COMMIT")?;
            for client in [&mut one, &mut other] {
                let side = anker::analyzed(client, FLAGGED)?;
                ensure!(side.as_deref() == Some("engine"), "round {round}: answered by {side:?}");
                same(client, FLAGGED)?;
            }
            one.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t WHERE anker.olap(); FETCH 10 FROM c")?;
            let rest = anker::text_rows(&mut one, "FETCH ALL FROM c")?.len();
            one.batch_execute("COMMIT")?;
            ensure!(rest >= 4990, "round {round}: the cursor has {rest} more rows");
            // The client goes away in the middle of a transaction, and PgBouncer closes the session.
            let mut third = pooler.connect()?;
            third.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t WHERE anker.olap(); FETCH 10 FROM c")?;
            drop(third);
        }
        one.batch_execute("DELETE FROM t WHERE id >= 10000")?;
        drop(pooler);
        fs::remove_dir_all(cluster.directory().join("pooler-1"))?;
    }
    Ok(())
}

/// PgBouncer sets a tracked setting anew when a session gets another client. It learns the values from the server's
/// reports.
fn a_plain_set_follows_its_client(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    if version(&cluster)? < (1, 20) {
        return Err(Skipped("this PgBouncer tracks no extra parameters").into());
    }
    let pooler = Pooler::start(&cluster, 1, "track_extra_parameters = IntervalStyle, anker.route")?;
    let (mut one, mut other) = (pooler.connect()?, pooler.connect()?);
    for route in ["prefer", "off", "prefer"] {
        one.batch_execute(&format!("SET anker.route = {route}"))?;
        for _ in 0..3 {
            let side = anker::explained(&mut other, PLAIN)?;
            ensure!(side.is_none(), "the other client has set {route}, and this one's queries go to {side:?}");
            let side = anker::explained(&mut one, PLAIN)?;
            let expected = (route == "prefer").then_some("engine");
            ensure!(side.as_deref() == expected, "with {route}, the query goes to {side:?}");
        }
    }
    Ok(())
}

fn same_within(client: &mut Client) -> Result<()> {
    crate::flagged::same_in_transaction(client, FLAGGED, crate::flagged::First::Flagged).map(drop)
}

/// PgBouncer prepares a client's statements in each session that it uses for the client.
fn prepared_statements_move_between_sessions(context: &Context) -> Result<()> {
    let (cluster, mut direct) = with_table(context)?;
    if version(&cluster)? < (1, 21) {
        return Err(Skipped("this PgBouncer knows no prepared statements").into());
    }
    let pooler = Pooler::start(&cluster, 3, "max_prepared_statements = 20")?;
    let mut clients = (0..5).map(|_| pooler.connect()).collect::<Result<Vec<Client>>>()?;
    let sql = "SELECT count(*), sum(id) FROM t WHERE g = $1 AND anker.olap()";
    let statements =
        clients.iter_mut().map(|client| client.prepare(sql)).collect::<std::result::Result<Vec<_>, _>>()?;
    let before = anker::counter(&mut direct, "queries_served")?;
    for round in 0..20 {
        let g = round % 5;
        direct.batch_execute(&format!("INSERT INTO t VALUES ({round} + 20000, {g})"))?;
        let expected: (i64, i64) = {
            let row = direct.query_one("SELECT count(*), sum(id) FROM t WHERE g = $1", &[&g])?;
            (row.get(0), row.get(1))
        };
        // Open transactions hold some of the sessions, so that clients change theirs.
        let held = (round % 3) as usize;
        for client in &mut clients[..held] {
            client.batch_execute("BEGIN; SELECT 1")?;
        }
        for (client, statement) in clients.iter_mut().zip(&statements).rev() {
            let row = client.query_one(statement, &[&g])?;
            let found: (i64, i64) = (row.get(0), row.get(1));
            ensure!(found == expected, "round {round}: {found:?} instead of {expected:?}");
        }
        for client in &mut clients[..held] {
            client.batch_execute("COMMIT")?;
        }
    }
    let served = anker::counter(&mut direct, "queries_served")? - before;
    ensure!(served >= 100, "the engine has answered {served} queries only");
    Ok(())
}
