//! Queries made by chance, asked flagged and on the heap: see "Campaigns" in docs/testing.md.
//!
//! - `hostile`: tables with the odd values of every type, and the oldest generator, which knows all the types
//! - `shop`: a schema of TPC-H's kind and joins of its tables
//! - `subqueries`: in conditions and values
//! - `select`: what is selected from such a FROM clause, with the expressions of `expressions`

mod dice;
mod expressions;
pub mod hostile;
mod select;
mod shop;
mod subqueries;

use std::time::{Duration, Instant};

use bench::cluster::wait_until;
use bench::{Result, anker};
use postgres::Client;

use self::dice::Dice;
use self::select::Query;
use crate::flagged::{Answer, compare, compare_rounded};
use crate::runner::{Context, ensure, tests};

tests![generated_queries];

const LIVE: Duration = Duration::from_secs(60);

/// What clocks show where queries are asked.
const ZONES: [&str; 5] = ["UTC", "America/Los_Angeles", "Europe/Dublin", "Asia/Kathmandu", "<+0330>-3:30"];

/// Differences after which a campaign ends: they are the same one then.
const ENOUGH: usize = 10;

/// Each query is made from a seed of its own, so that one that differs can be asked again alone.
fn generated_queries(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    hostile::create(&mut client)?;
    client.batch_execute(shop::SCHEMA)?;
    anker::mirror(&mut client, &shop::TABLES, LIVE)?;
    client.batch_execute(shop::CHANGES)?;
    // Errors are part of the answers: the log is for what nobody expects.
    client.batch_execute("ANALYZE; SET statement_timeout = '20s'; SET log_min_messages = fatal")?;

    let count = context.queries.unwrap_or(context.size(1000, 300));
    let served = anker::counter(&mut client, "queries_served")?;
    let start = Instant::now();
    let mut errors = 0;
    let mut differences = Vec::new();
    for seed in (context.seed..).take(count as usize) {
        let query = query(seed);
        client.batch_execute(&format!("SET TimeZone = '{}'", ZONES[seed as usize % ZONES.len()]))?;
        let compared = match sums_floats(&query.sql) {
            true => compare_rounded(&mut client, &query.sql),
            false => compare(&mut client, &query.sql, query.ordered),
        };
        match compared {
            Ok(answer) => errors += u32::from(matches!(answer, Answer::Error { .. })),
            Err(difference) => differences.push(format!("seed {seed}: {difference}")),
        }
        if differences.len() == ENOUGH {
            break;
        }
    }
    ensure!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));

    let seconds = start.elapsed().as_secs_f64();
    let by_engine = served_since(&mut client, served, count)?;
    println!("       {count} queries, {by_engine} of them by the engine, {errors} errors, {seconds:.0} s");
    // Otherwise nothing was compared with anything. A few that were asked for may be what they want.
    if count >= 100 {
        let enough = share_by_engine(count);
        ensure!(by_engine >= enough, "only {by_engine} of {count} queries were answered by the engine, not {enough}");
        ensure!(errors < count / 5, "{errors} of {count} queries raised errors");
    }
    Ok(())
}

fn query(seed: u64) -> Query {
    let mut dice = Dice::seeded(seed);
    match dice.below(8) {
        0 => Query { sql: hostile::Queries::seeded(seed).query(), ordered: false },
        1 | 2 => hostile::from().query(&mut dice),
        _ => shop::from(&mut dice).query(&mut dice),
    }
}

/// Whether the query has aggregates of floats.
fn sums_floats(sql: &str) -> bool {
    let aggregates = ["::double precision", "sum(f8)", "avg(f8)", "stddev(f8)", "var_pop(f8)"];
    aggregates.iter().any(|aggregate| sql.contains(aggregate))
}

/// Nine of ten queries are answered by the engine; of a few there may be chance in it.
fn share_by_engine(queries: u32) -> i64 {
    i64::from(if queries >= 3000 { queries / 10 * 9 } else { queries / 6 * 5 })
}

/// What the engine has answered; it tells that now and then.
fn served_since(client: &mut Client, before: i64, at_most: u32) -> Result<i64> {
    let mut served = 0;
    wait_until(Duration::from_secs(10), || {
        served = anker::counter(client, "queries_served")? - before;
        Ok(served >= share_by_engine(at_most))
    })?;
    Ok(served)
}
