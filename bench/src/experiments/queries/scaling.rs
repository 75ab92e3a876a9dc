//! Scaling: measures each query in the engine with one number of threads after the other.

use std::time::Duration;

use postgres::{Client, Config, NoTls};
use serde_json::json;

use super::Options;
use super::measured::{NONE, engine_ms};
use crate::cluster::wait_until;
use crate::report::Findings;
use crate::sets::{Route, Set};
use crate::{Result, anker};

pub fn measure(config: &Config, options: &Options, findings: &mut Findings) -> Result<()> {
    let queries = options.set.queries(options.scale);
    let mut times: Vec<Vec<Option<f64>>> = Vec::new();
    for threads in &options.threads {
        let mut client = config.connect(NoTls)?;
        restart(&mut client, options.set, *threads)?;
        client.batch_execute(Route::Prefer.setting())?;
        let mut of_queries = Vec::new();
        for query in &queries {
            let ms = engine_ms(&mut client, &query.sql, options.runs)?;
            if let Some(ms) = ms {
                findings.query("engine_time_ms", &query.name, &json!({"threads": threads}), ms, "ms");
            }
            of_queries.push(ms);
        }
        times.push(of_queries);
    }
    let (Some(first), Some(last)) = (times.first(), times.get(1..).and_then(<[_]>::last)) else { return Ok(()) };
    for ((query, first), last) in queries.iter().zip(first).zip(last) {
        if let (Some(first), Some(last)) = (first, last) {
            findings.query("scaling", &query.name, &NONE, first / last, "times as fast");
        }
    }
    Ok(())
}

/// Restarts the engine with `threads` threads for a query.
fn restart(client: &mut Client, set: &Set, threads: u32) -> Result<()> {
    client.batch_execute(&format!("ALTER SYSTEM SET anker.query_threads = {threads}"))?;
    client.batch_execute("SELECT pg_reload_conf()")?;
    let (worker, engine) = anker::processes(client)?.ok_or("no engine is running")?;
    client.execute("SELECT pg_terminate_backend($1)", &[&(worker as i32)])?;
    let is_new = || Ok(anker::processes(client)?.is_some_and(|(_, other)| other != engine));
    if !wait_until(Duration::from_secs(60), is_new)? {
        return Err("no new engine was started".into());
    }
    set.tables.iter().try_for_each(|table| anker::wait_live(client, table, Duration::from_secs(600)))
}
