//! `anker.configure` names the lines that `postgresql.conf` lacks. With these lines, a server mirrors tables.

use std::time::Duration;

use bench::cluster::Options;
use bench::{Result, anker};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, ask};
use crate::newer::number;
use crate::runner::{Context, Skipped, ensure, tests};

tests![the_lines_that_are_missing_make_a_server_mirror, the_plugin_must_be_allowed];

const LIVE: Duration = Duration::from_secs(60);

fn missing(client: &mut Client) -> Result<Vec<String>> {
    let lacks = "SELECT line FROM anker.configure() WHERE NOT ok AND setting NOT LIKE 'anker.%' ORDER BY setting";
    anker::text_rows(client, lacks)
}

fn the_lines_that_are_missing_make_a_server_mirror(context: &Context) -> Result<()> {
    let options = Options::default().set("max_parallel_workers", "4").set("max_replication_slots", "10");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE ROLE nobody LOGIN; CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher")?;
    ensure!(missing(&mut client)?.is_empty(), "a server that is configured lacks {:?}", missing(&mut client)?);
    let connect = |user: &str| cluster.config().user(user).connect(NoTls);
    let answer = ask(&mut connect("nobody")?, "SELECT * FROM anker.configure()")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "a stranger gets {answer:?}");
    ensure!(missing(&mut connect("watcher")?)?.is_empty(), "a monitor sees missing lines");

    // The memory of engines depends on the machine, until somebody has chosen it.
    let memory = "SELECT setting, ok, line ~ ('^' || setting || ' = [0-9]+MB$'), restart FROM anker.configure()
        WHERE setting LIKE 'anker.%'";
    let shown = anker::text_rows(&mut client, memory)?;
    ensure!(shown.len() == 2, "memory: {shown:?}");
    cluster.alter_system(&[("anker.memory", "64MB"), ("anker.query_memory", "32MB")])?;
    let chosen = bench::cluster::wait_until(LIVE, || {
        let shown = anker::text_rows(&mut client, memory)?;
        Ok(shown == [r"anker.memory|t|\N|f", r"anker.query_memory|t|\N|f"])
    })?;
    ensure!(chosen, "memory that was chosen: {:?}", anker::text_rows(&mut client, memory)?);

    cluster.alter_system(&[
        ("shared_preload_libraries", "plpgsql"),
        ("wal_level", "replica"),
        ("max_replication_slots", "0"),
        ("max_worker_processes", "5"),
    ])?;
    cluster.restart()?;
    let mut client = cluster.connect()?;
    let lines = missing(&mut client)?;
    let mut expected = vec![
        "max_replication_slots = 1",
        // A launcher, four workers of one database, four of parallel queries, and PostgreSQL's own launcher.
        "max_worker_processes = 10",
        "shared_preload_libraries = 'plpgsql, pg_anker'",
    ];
    // From PostgreSQL 19 on, a slot suffices to make the WAL logical.
    if number(&mut client)? < 190_000 {
        expected.push("wal_level = logical");
    }
    ensure!(lines == expected, "missing are {lines:?}");
    client.batch_execute("ALTER SYSTEM RESET shared_preload_libraries")?;
    for line in lines.iter().filter(|line| !line.starts_with("shared_preload_libraries")) {
        client.batch_execute(&format!("ALTER SYSTEM SET {line}"))?;
    }
    client.batch_execute("ALTER SYSTEM SET shared_preload_libraries = plpgsql, pg_anker")?;
    cluster.restart()?;
    let mut client = cluster.connect()?;
    ensure!(missing(&mut client)?.is_empty(), "with these lines the server lacks {:?}", missing(&mut client)?);
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY)")?;
    anker::mirror(&mut client, &["t"], LIVE)
}

fn the_plugin_must_be_allowed(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    let name = "output_plugin_libraries";
    if matches!(ask(&mut client, &format!("SHOW {name}"))?, Answer::Error { .. }) {
        return Err(Skipped("this minor release has no output_plugin_libraries").into());
    }
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let change = |value: &str| -> Result<()> {
        let mut client = cluster.connect()?;
        client.batch_execute(&format!("ALTER SYSTEM SET {name} = {value}"))?;
        client.batch_execute("SELECT pg_reload_conf()")?;
        let shown = || Ok(anker::text_rows(&mut client, &format!("SHOW {name}"))? == [value]);
        ensure!(bench::cluster::wait_until(LIVE, shown)?, "{name} does not become {value}");
        Ok(())
    };
    change("test_decoding")?;
    let lines = missing(&mut client)?;
    ensure!(lines == ["output_plugin_libraries = 'test_decoding, pgoutput'"], "missing are {lines:?}");
    client.batch_execute("CREATE TABLE later (id integer PRIMARY KEY)")?;
    let answer = ask(&mut client, "SELECT anker.mirror('later')")?;
    let says = |answer: &Answer| format!("{answer:?}").contains("mirroring needs pgoutput in output_plugin_libraries");
    ensure!(says(&answer), "mirroring without the plugin: {answer:?}");

    // A worker that begins without the plugin says so, and the next one begins once the setting is right.
    client.execute("SELECT pg_terminate_backend(worker_pid) FROM anker.engine", &[])?;
    let reason = "SELECT reason FROM anker.engine";
    let expected = ["output_plugin_libraries does not allow pgoutput"];
    let is_said = bench::cluster::wait_until(LIVE, || Ok(anker::text_rows(&mut client, reason)? == expected))?;
    ensure!(is_said, "the worker says {:?}", anker::text_rows(&mut client, reason)?);
    change("test_decoding, pgoutput")?;
    anker::wait_live(&mut client, "t", LIVE)
}
