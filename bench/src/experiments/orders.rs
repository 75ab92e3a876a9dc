//! Compares the engine's join orders with random orders. The best random order shows what would be possible with
//! perfect estimates.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anker_report::found::Found;
use anker_report::page::{Groups, Page, Plot, Scale, Section};
use anker_report::{Report, median, percentile, rounded};
use postgres::Client;
use serde_json::{Value, json};

use crate::arguments::{Arguments, Parsed};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Query, Route, Set};
use crate::stage::Place;
use crate::{Output, Result, anker};

pub const USAGE: &str = "orders [--set anker|tpch|ch|ssb] [--quick] [--scale N] [--orders N] [--dsn DSN] [OUTPUT]";

const NAME: &str = "orders";

pub struct Options {
    set: &'static Set,
    scale: f64,
    orders: u32,
    /// The connection string of a given server, instead of a private one.
    dsn: Option<String>,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut dsn, mut output) = (false, None, Output::default());
        let (mut set, mut scale, mut orders) = (Set::named("tpch"), None, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--set" => set = Some(arguments.set()?),
                "--scale" => scale = Some(arguments.number()?),
                "--orders" => orders = Some(arguments.number()?),
                "--dsn" => dsn = Some(arguments.value()?),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let set = set.ok_or("no set")?;
        let scale = scale.unwrap_or(if quick { set.quick_scale } else { set.scale });
        let orders = orders.unwrap_or(if quick { 10 } else { 100 });
        Ok(Options { set, scale, orders, dsn, output })
    }
}

/// A query in a random order is cancelled after this multiple of the time that it takes in the engine's own order.
const TOO_SLOW: f64 = 5.0;
/// The number of fast random orders that are measured again, in turns with the engine's own order.
const FINALISTS: usize = 3;
const ROUNDS: usize = 5;

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let Options { set, scale, orders, .. } = *options;
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("set", json!(set.name)),
        ("scale", json!(scale)),
        ("scale_is", json!(set.scale_is)),
        ("orders", json!(orders)),
    ] {
        findings.report.set_meta(key, value);
    }
    let place = Place::new(server, options.dsn.as_deref());
    let database = place.database(&sets::cluster_options())?;
    eprintln!("loading {}, {} {scale}", set.name, set.scale_is);
    set.create(&database.config(), scale)?;
    let mut client = database.connect()?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, set.tables, Duration::from_secs(600))?;
    client.batch_execute(Route::Prefer.setting())?;
    for query in &set.queries(scale) {
        tried(&mut client, query, orders, &mut findings)?;
    }
    drop(client);
    database.discard()?;
    Ok(findings.report)
}

fn tried(client: &mut Client, query: &Query, orders: u32, findings: &mut Findings) -> Result<()> {
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
        // The cancelled query may still use the processors for a moment. So the timeout may cancel even this statement,
        // and it is repeated.
        while sets::unless_timed_out(client.batch_execute("RESET statement_timeout").map_err(Into::into))?.is_none() {}
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
    let own = medians[0];
    eprintln!("{}: {} ms, the best of {} orders {}", query.name, rounded(own), plans.len() - 1, rounded(best));
    let mut row =
        |figure: &str, value: Value, unit: &str| findings.query(figure, &query.name, &Value::Null, value, unit);
    row("orders", json!(plans.len() - 1), "other than the engine's own");
    row("stopped", json!(stopped), &format!("after {TOO_SLOW} times the engine's own"));
    row("own_ms", json!(own), "ms");
    row("best_ms", json!(best), "ms");
    row("own_to_best", json!(own / best), "times");
    Ok(())
}

/// The rows, and the milliseconds that they took.
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

pub fn page(report: &Report) -> Page {
    let (found, meta) = (Found::new(report, NAME), report.meta());
    let about = format!(
        "{}, {} {}: each query in the engine's order of joins and in {} random ones.",
        meta["set"].as_str().unwrap_or_default(),
        meta["scale_is"].as_str().unwrap_or_default(),
        meta["scale"],
        meta["orders"]
    );
    Page {
        title: "The engine's order of joins beside random ones".into(),
        about: vec![report.machine(), about],
        sections: vec![section(&found)],
        ..Page::default()
    }
}

fn section(found: &Found) -> Section {
    let grid = found.by_figure(
        "",
        &[
            ("orders", "other plans"),
            ("stopped", "stopped as too slow"),
            ("own_ms", "the engine's own, ms"),
            ("best_ms", "the best, ms"),
            ("own_to_best", "times the best"),
        ],
    );
    let times = found.figure("own_to_best").values();
    let bars = |query: String| {
        let bar = |(figure, name): (&str, &str)| Some((name.to_owned(), found.figure(figure).subject(&query).value()?));
        let bars = [("own_ms", "the engine's own"), ("best_ms", "the best")].into_iter().filter_map(bar).collect();
        (query, bars)
    };
    let groups = Groups { scale: Scale::Log, groups: found.subjects().into_iter().map(bars).collect() };
    Section {
        id: "orders",
        title: "Each query".into(),
        claim: "The best of many random orders is what estimates could have found.".into(),
        here: format!(
            "The engine's own order takes {} times the best one's time (median), at most {}",
            rounded(median(&times)),
            rounded(percentile(&times, 1.0))
        ),
        notes: vec![format!(
            "An order that takes {TOO_SLOW} times the time of the engine's own is stopped. The {FINALISTS} fastest are timed \
             again, {ROUNDS} times in turns with the engine's own; medians. Every order must give the same rows."
        )],
        grids: vec![grid],
        plots: vec![Plot::groups("Time to the last row", "ms", groups).named(NAME)],
    }
}
