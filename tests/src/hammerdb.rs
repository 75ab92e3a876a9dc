//! Tests of `bench/run hammerdb`. They are skipped on machines without HammerDB.

use std::time::Duration;

use anker_report::{Report, Row};
use bench::Result;
use bench::experiments::hammerdb::{self, Installation, Options, Place};

use crate::experiments::shown;
use crate::runner::{Context, Skipped, ensure, tests};

tests![
    a_quick_run_measures_every_configuration,
    a_virtual_user_that_fails_fails_the_run,
    a_server_of_somebody_is_left_as_it_was,
    what_has_its_names_already_is_left_alone,
];

fn installed() -> Result<()> {
    match std::env::var_os("HAMMERDB_HOME") {
        Some(_) => Ok(()),
        None => Err(Skipped("HAMMERDB_HOME is not set, see bench/hammerdb/README.md").into()),
    }
}

fn a_quick_run_measures_every_configuration(context: &Context) -> Result<()> {
    installed()?;
    let report = hammerdb::run(context.server(), &Options::quick())?;
    measured(&report, &["plain", "mirror off", "mirror on", "mirror stream", "heap stream"])?;
    shown(context, report, hammerdb::page)
}

fn measured(report: &Report, configurations: &[&str]) -> Result<()> {
    for config in configurations {
        let nopm = value(report, "nopm", config)?;
        ensure!(nopm > 0.0, "{config}: no orders");
    }
    let [asked, served, fallbacks] =
        ["asked", "served", "fallbacks"].map(|figure| value(report, figure, "mirror stream"));
    let (asked, served, fallbacks) = (asked?, served?, fallbacks?);
    ensure!(asked > 0.0, "the stream has asked nothing");
    // The stream may have been ended during a query. That query counts as asked, but not as answered.
    ensure!((0.0..=1.0).contains(&(served + fallbacks - asked)), "{asked} asked, {served} served, {fallbacks} not");
    Ok(())
}

fn value(report: &Report, figure: &str, config: &str) -> Result<f64> {
    let is_wanted = |row: &&Row| row.figure == figure && row.subject.name() == config;
    let value = report.rows().iter().find(is_wanted).and_then(Row::number);
    Ok(value.ok_or(format!("{config} has no {figure}"))?)
}

/// HammerDB's virtual user fails because there are no tables. The run must then report a failure.
fn a_virtual_user_that_fails_fails_the_run(context: &Context) -> Result<()> {
    installed()?;
    let hammerdb = Installation::find(&context.home().join("hammerdb"))?;
    let place = Place::private(context.server())?;
    let mut client = place.connect()?;
    client.batch_execute("CREATE ROLE anker_hammerdb LOGIN")?;
    client.batch_execute("CREATE DATABASE anker_hammerdb_run OWNER anker_hammerdb")?;
    let mut settings = place.settings_of_a_run()?;
    settings.extend([("rampup", "0".into()), ("duration", "0.1".into())]);
    let task = hammerdb.run(&settings, 1, Duration::from_secs(60))?;
    let error = match task.finish(|outcome| outcome.ran(1)) {
        Ok(achieved) => return Err(format!("it has achieved {achieved:?}").into()),
        Err(error) => error.to_string(),
    };
    ensure!(error.contains("Error in Virtual User") && error.contains("does not exist"), "{error}");
    Ok(())
}

fn a_server_of_somebody_is_left_as_it_was(context: &Context) -> Result<()> {
    installed()?;
    if context.quick {
        return Err(Skipped("it takes a minute, without --quick").into());
    }
    let (cluster, mut client) = context.anker()?;
    let options = Options { dsn: Some(cluster.conninfo("postgres")), ..Options::quick() };
    measured(
        &hammerdb::run(context.server(), &options)?,
        &["mirror off", "mirror on", "mirror stream", "heap stream"],
    )?;
    let left: i64 = client
        .query_one(
            "SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE '%hammerdb%')
                  + (SELECT count(*) FROM pg_roles WHERE rolname LIKE '%hammerdb%')",
            &[],
        )?
        .get(0);
    ensure!(left == 0, "{left} databases or roles are left");
    Ok(())
}

fn what_has_its_names_already_is_left_alone(context: &Context) -> Result<()> {
    installed()?;
    let (cluster, mut client) = context.anker()?;
    let options = Options { dsn: Some(cluster.conninfo("postgres")), ..Options::quick() };
    for (create, drop) in [
        ("CREATE ROLE anker_hammerdb", "DROP ROLE anker_hammerdb"),
        ("CREATE DATABASE anker_hammerdb_run", "DROP DATABASE anker_hammerdb_run"),
    ] {
        client.batch_execute(create)?;
        let error = hammerdb::run(context.server(), &options).err().map_or(String::new(), |error| error.to_string());
        ensure!(error.contains("already"), "after {create}: {error}");
        client.batch_execute(drop)?;
    }
    Ok(())
}
