//! Random queries, run with the flag and on the heap: see "Campaigns" in docs/testing.md.
//!
//! - `hostile`: tables with extreme and unusual values of every type, and a generator for all types
//! - `shop`: a schema of TPC-H's kind and joins of its tables
//! - `subqueries`: subqueries in conditions and values
//! - `rights`: changes a query so that a role with restricted access runs it
//! - `alternatives`: finds out whether PostgreSQL itself could have given an answer of the engine that differs
//! - `constructs`: counts the SQL constructs in the queries
//! - `lists`: ordered aggregates
//! - `select`: SELECT over a FROM clause of `hostile` or `shop`, with the expressions of `expressions`

pub mod alternatives;
mod constructs;
pub mod dice;
mod expressions;
pub mod hostile;
mod lists;
mod rights;
mod select;
mod shop;
mod subqueries;

use std::time::{Duration, Instant};

use bench::cluster::wait_until;
use bench::{Result, anker};
use postgres::Client;

use self::constructs::Seen;
use self::dice::Dice;
use self::select::Query;
use crate::flagged::{Answer, compare, compare_rounded};
use crate::locales;
use crate::runner::{Context, ensure, tests};
use crate::unplanned::Lagging;

tests![generated_queries, generated_queries_that_the_engine_refuses];

const LIVE: Duration = Duration::from_secs(60);

/// Creates a database with a locale that orders texts very differently from their bytes.
const DATABASE: &str = "CREATE DATABASE generated LOCALE 'cs_CZ.utf8' TEMPLATE template0";

/// Time zones of the sessions.
const ZONES: [&str; 5] = ["UTC", "America/Los_Angeles", "Europe/Dublin", "Asia/Kathmandu", "<+0330>-3:30"];

/// The number of differing answers after which a campaign ends, because then they probably all have the same cause.
const ENOUGH: usize = 10;

/// Each query is generated from a seed of its own, so that a query whose answers differ can be run again alone.
fn generated_queries(context: &Context) -> Result<()> {
    compare_sides(context, Side::Engine, context.queries.unwrap_or(context.size(1000, 300)))
}

/// The queries are translated for the engine, which refuses them at the first row. Only then PostgreSQL makes their
/// heap plans.
fn generated_queries_that_the_engine_refuses(context: &Context) -> Result<()> {
    compare_sides(context, Side::LateHeap, context.queries.unwrap_or(context.size(1000, 200)))
}

/// The side that answers flagged queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Engine,
    LateHeap,
}

fn compare_sides(context: &Context, side: Side, count: u32) -> Result<()> {
    let cluster = context.cluster_with(&locales::options(context)?)?;
    cluster.connect()?.batch_execute(DATABASE)?;
    let mut client = cluster.connect_to("generated")?;
    anker::create_extension(&mut client)?;
    hostile::create(&mut client)?;
    client.batch_execute(shop::SCHEMA)?;
    client.batch_execute(&shop::functions())?;
    anker::mirror(&mut client, &shop::TABLES, LIVE)?;
    client.batch_execute(shop::CHANGES)?;
    client.batch_execute(rights::SETUP)?;
    // Errors of queries are part of their answers, so the server need not log them.
    client.batch_execute("ANALYZE; SET statement_timeout = '60s'; SET log_min_messages = fatal")?;

    let _lagging = (side == Side::LateHeap).then(|| Lagging::start(&cluster, &mut client)).transpose()?;
    let served = anker::counter(&mut client, "queries_served")?;
    let start = Instant::now();
    let (mut errors, mut refused, mut either_way, mut one_error) = (0, 0, 0, 0);
    let mut seen = Seen::default();
    let mut differences = Vec::new();
    let mut failures = anker::failures(&mut client)?;
    for seed in (context.seed..).take(count as usize) {
        let Asked { query, role } = query(seed);
        seen.add(&query.sql);
        let zone = ZONES[seed as usize % ZONES.len()];
        client.batch_execute(&format!("SET TimeZone = '{zone}'; SET ROLE {role}"))?;
        let compared = match sums_floats(&query.sql) {
            true => compare_rounded(&mut client, &query.sql),
            false => compare(&mut client, &query.sql, query.ordered),
        };
        match compared {
            Ok(Answer::Rows(_)) => {}
            // Both sides refuse the query, because the role lacks a privilege on a column, or because a column is
            // neither grouped nor aggregated.
            Ok(Answer::Error { code, .. }) if code.starts_with("42") => refused += 1,
            Ok(Answer::Error { .. }) => errors += 1,
            Err(_) if alternatives::has_the_flagged_answer(&mut client, &query.sql, query.ordered)? => either_way += 1,
            Err(_) if alternatives::are_errors_of_values(&mut client, &query.sql)? => either_way += 1,
            Err(_) if alternatives::is_an_error_of_one_plan(&mut client, &query.sql)? => one_error += 1,
            Err(_) if alternatives::is_a_matter_of_zeros(&mut client, &query.sql)? => either_way += 1,
            Err(difference) => differences.push(format!("seed {seed} as {role}: {difference}")),
        }
        let failed = anker::failures(&mut client)?;
        if failed > failures {
            let why = anker::analyzed(&mut client, &query.sql).unwrap_or_else(|e| Some(e.to_string()));
            differences.push(format!("seed {seed} as {role}: the engine failed ({why:?}): {}", query.sql));
            failures = anker::failures(&mut client)?;
        }
        if differences.len() == ENOUGH {
            break;
        }
    }
    ensure!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));

    let seconds = start.elapsed().as_secs_f64();
    let run = count - refused;
    let by_engine = served_since(&mut client, served, if side == Side::Engine { run } else { 0 })?;
    println!(
        "       {run} queries, {by_engine} of them by the engine, {errors} errors, {refused} refused, {seconds:.0} s"
    );
    println!("       {one_error} where one side alone meets an error");
    println!(
        "       {either_way} that PostgreSQL could answer one way or the other; heap, because: {}",
        reasons(&mut client)?
    );
    if side == Side::LateHeap {
        return if by_engine == 0 { Ok(()) } else { Err(format!("the engine answered {by_engine}").into()) };
    }
    // These limits make sure that enough answers were compared. They do not apply to a run of a few given queries.
    if count >= 100 {
        let enough = share_by_engine(run);
        ensure!(by_engine >= enough, "only {by_engine} of {run} queries were answered by the engine, not {enough}");
        ensure!(errors < count / 5, "{errors} of {count} queries raised errors");
        ensure!(one_error <= count / 10_000 + 1, "in {one_error} of {count} queries one side alone raised an error");
        ensure!(either_way <= count / 2_000 + 3, "{either_way} of {count} queries could be answered either way");
    }
    if count >= 3000 {
        ensure!(seen.rare().is_empty(), "too few queries have: {}", seen.rare().join(", "));
    }
    Ok(())
}

/// A query, and the role that runs it.
struct Asked {
    query: Query,
    role: &'static str,
}

fn query(seed: u64) -> Asked {
    let mut dice = Dice::seeded(seed);
    let query = match dice.below(8) {
        0 => {
            return Asked {
                query: Query { sql: hostile::Queries::seeded(seed).query(), ordered: false },
                role: "none",
            };
        }
        1 | 2 => hostile::from().query(&mut dice),
        _ => shop::from(&mut dice).query(&mut dice),
    };
    let is_reader = dice.chance(6);
    let query = if is_reader { rights::as_reader(&mut dice, query) } else { query };
    Asked { query: with_parameter(&mut dice, query), role: if is_reader { rights::ROLE } else { "none" } }
}

/// Conditions that can be written with a parameter: the condition, its form with a parameter, the parameter's type, and
/// values for the parameter.
const PARAMETERS: [(&str, &str, &str, &[&str]); 4] = [
    ("NOT IN (1, 2)", "<> ALL ($1)", "integer[]", &["'{1,2}'", "'{2,NULL}'", "'{}'", "NULL"]),
    ("IN (1, 2)", "= ANY ($1)", "integer[]", &["'{1,2}'", "'{1,NULL}'", "'{}'", "NULL"]),
    ("IN ('a1', 'b2')", "= ANY ($1)", "text[]", &["'{a1,b2}'", "'{a1,NULL}'", "'{}'", "NULL"]),
    ("'a1'", "$1", "text", &["'a1'"]),
];

/// Replaces a constant in some queries by a parameter, whose value or list of values is known only at execution.
fn with_parameter(dice: &mut Dice, query: Query) -> Query {
    let place = PARAMETERS.iter().find(|(place, ..)| query.sql.contains(place));
    let Some((place, parameter, ty, values)) = place.filter(|_| dice.chance(3)) else { return query };
    let (body, value) = (query.sql.replace(place, parameter), dice.pick(values));
    let plan = dice.pick(&["auto", "force_generic_plan", "force_custom_plan"]);
    let sql = format!("DEALLOCATE ALL; SET plan_cache_mode = {plan}; PREPARE p ({ty}) AS {body}; EXECUTE p ({value})");
    Query { sql, ..query }
}

/// Whether the query has aggregates of floats.
fn sums_floats(sql: &str) -> bool {
    let aggregates = ["::double precision", "sum(f8)", "avg(f8)", "stddev(f8)", "var_pop(f8)"];
    aggregates.iter().any(|aggregate| sql.contains(aggregate))
}

/// The number of queries that the engine must answer: 90 % of many queries, but five sixths of few, because chance has
/// more influence on a small number.
fn share_by_engine(queries: u32) -> i64 {
    i64::from(if queries >= 3000 { queries / 10 * 9 } else { queries / 6 * 5 })
}

/// The number of queries that the engine has answered since its counter was `before`. The counter is updated with a
/// delay, so this function waits for it.
fn served_since(client: &mut Client, before: i64, at_most: u32) -> Result<i64> {
    let mut served = 0;
    wait_until(Duration::from_secs(10), || {
        served = anker::counter(client, "queries_served")? - before;
        Ok(served >= share_by_engine(at_most))
    })?;
    Ok(served)
}

/// Reasons that kept queries from the engine, the most frequent first.
fn reasons(client: &mut Client) -> Result<String> {
    let counts =
        "SELECT key, value::bigint FROM anker.engine, jsonb_each_text(fallback_reasons) ORDER BY value::bigint DESC";
    let rows = client.query(counts, &[])?;
    let named: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row.get::<_, &str>(0), row.get::<_, i64>(1))).collect();
    Ok(named.join(", "))
}
