//! How good the order is in which the engine joins: beside random ones, of which the best is what estimates could have
//! found.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::Client;
use serde_json::json;

use crate::cluster::Cluster;
use crate::report::{Report, median, rounded};
use crate::server::Server;
use crate::sets::{self, Query, Route, Set};
use crate::{Result, anker};

/// Where an order takes so many times what the engine's own takes, it is ended.
const TOO_SLOW: f64 = 5.0;
/// So many of the orders that were fast once are timed again, in turns with the engine's own.
const FINALISTS: usize = 3;
const ROUNDS: usize = 5;

pub fn orders(server: &Arc<Server>, set: &Set, scale: f64, orders: u32) -> Result<Report> {
    let params = json!({"set": set.name, set.scale_is: scale, "orders": orders});
    let mut report = Report::new("orders", params);
    let cluster = Cluster::start(server, &sets::cluster_options())?;
    set.create(&cluster, scale)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
    client.batch_execute(Route::Prefer.setting())?;
    let mut lines = Vec::new();
    for query in &set.queries(scale) {
        lines.push(tried(&mut client, query, orders, &mut report)?);
    }
    println!("\n  {:<6}{:>8}{:>8}{:>10}{:>10}{:>8}", "", "orders", "slow", "own ms", "best ms", "times");
    for line in &lines {
        let (own, best, times) = (rounded(line.own), rounded(line.best), rounded(line.own / line.best));
        println!("  {:<6}{:>8}{:>8}{own:>10}{best:>10}{times:>8}", line.query, line.different, line.stopped);
    }
    Ok(report)
}

struct Line {
    query: String,
    /// Plans that are not the engine's own.
    different: usize,
    stopped: usize,
    own: f64,
    best: f64,
}

fn tried(client: &mut Client, query: &Query, orders: u32, report: &mut Report) -> Result<Line> {
    let (mut answer, _) = answered(client, query, 0)?;
    answer.sort_unstable();
    let own = median(&(0..ROUNDS).map(|_| Ok(answered(client, query, 0)?.1)).collect::<Result<Vec<_>>>()?);

    let mut plans = HashSet::from([planned(client, query, 0)?]);
    let (mut finished, mut stopped) = (Vec::new(), 0);
    let limit = format!("SET statement_timeout = {}", (own * TOO_SLOW).ceil().max(20.0));
    for seed in 1..=orders {
        if !plans.insert(planned(client, query, seed)?) {
            continue;
        }
        client.batch_execute(&limit)?;
        let tried = sets::unless_timed_out(answered(client, query, seed))?;
        client.batch_execute("RESET statement_timeout")?;
        match tried {
            None => stopped += 1,
            Some((mut rows, ms)) => {
                rows.sort_unstable();
                if rows != answer {
                    return Err(format!("{}: another answer with anker.join_order_seed = {seed}", query.name).into());
                }
                finished.push((ms, seed));
            }
        }
    }

    finished.sort_by(|a, b| a.0.total_cmp(&b.0));
    let seeds: Vec<u32> = [0].into_iter().chain(finished.iter().take(FINALISTS).map(|(_, seed)| *seed)).collect();
    let mut times = vec![Vec::new(); seeds.len()];
    for _ in 0..ROUNDS {
        for (seed, times) in seeds.iter().zip(&mut times) {
            times.push(answered(client, query, *seed)?.1);
        }
    }
    let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let line = Line { query: query.name.clone(), different: plans.len() - 1, stopped, own: medians[0], best };
    report.query("orders", &line.query, line.different, "other than the engine's own");
    report.query("stopped", &line.query, stopped, &format!("after {TOO_SLOW} times the engine's own"));
    report.query("own_ms", &line.query, line.own, "ms");
    report.query("best_ms", &line.query, best, "ms");
    report.query("own_to_best", &line.query, line.own / best, "times");
    Ok(line)
}

/// The rows, and milliseconds.
fn answered(client: &mut Client, query: &Query, seed: u32) -> Result<(Vec<String>, f64)> {
    join_as(client, seed)?;
    let start = Instant::now();
    let rows = anker::text_rows(client, &query.sql)?;
    Ok((rows, start.elapsed().as_secs_f64() * 1e3))
}

fn planned(client: &mut Client, query: &Query, seed: u32) -> Result<Vec<String>> {
    join_as(client, seed)?;
    anker::text_rows(client, &format!("EXPLAIN (COSTS off) {}", query.sql))
}

fn join_as(client: &mut Client, seed: u32) -> Result<()> {
    Ok(client.batch_execute(&format!("SET anker.join_order_seed = {seed}"))?)
}
