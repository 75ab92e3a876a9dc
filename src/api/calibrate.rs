//! `anker.calibrate` measures the costs of the engine's work on this machine, in units of the planner's costs.
//!
//! The heap and the engine each run a few queries of each kind, on mirrored tables of several sizes. The heap's times
//! tell how long one unit of cost takes. With that, the engine's times give the costs of its work.

use std::ffi::CStr;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use pgrx::spi::SpiClient;
use route::{Observed, Work, fit};
use serde_json::Value;

use super::require_library;
use crate::pg::error::Error;
use crate::pg::session;
use crate::pg::transaction;
use crate::settings;

/// The number of tables that are queried: the smallest, the largest, and a table in between.
const TABLES: usize = 3;
/// The least number of rows of the largest table. With fewer rows, the measurements are mostly noise.
const FEWEST_ROWS: i64 = 10_000;
/// The least number of probes. Fewer cannot tell the four costs apart.
const FEWEST_PROBES: usize = 5;
/// Each query is run this many times, and the fastest run counts.
const RUNS: usize = 3;
/// The least time, in milliseconds, that a request to another process can take.
const FASTEST_ANSWER_MS: f64 = 0.1;

#[pg_extern]
#[allow(clippy::type_complexity)]
fn calibrate(
    max_rows: i64,
) -> TableIterator<
    'static,
    (name!(setting, String), name!(current, f64), name!(measured, Option<f64>), name!(statement, Option<String>)),
> {
    require_library();
    if max_rows < FEWEST_ROWS {
        Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("max_rows is {max_rows}, but must be at least {FEWEST_ROWS}"),
        )
        .hint("Of fewer rows nothing can be told from noise.")
        .raise()
    }
    // Every name in the queries must mean PostgreSQL's own object, even if the user has one with the same name.
    let search_path = [(c"search_path", c"pg_catalog, pg_temp")];
    let probes: Vec<Probe> = session::with_settings(&search_path, || {
        let tables = Spi::connect(|client| tables(client, max_rows));
        let tables = tables.unwrap_or_else(|e| error!("could not choose tables: {e}"));
        tables
            .iter()
            .flat_map(|table| queries(table).into_iter().filter_map(|query| tried(&query, table.rows)))
            .collect()
    });
    let large = probes.iter().filter(|probe| probe.rows >= FEWEST_ROWS).count();
    if probes.len() < FEWEST_PROBES || large == 0 {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("only {} of the queries that measure could be run, {large} of them on large tables", probes.len()),
        )
        .hint("The notices above say why.")
        .raise()
    }
    let unit_ms = middle(probes.iter().map(|probe| probe.heap_ms / probe.heap_cost).collect());
    let in_units = |probe: &Probe| Observed { work: probe.work, time: probe.engine_ms / unit_ms };
    let observed: Vec<Observed> = probes.iter().map(in_units).collect();
    let mut measured = fit(&observed);
    measured.startup = measured.startup.max(FASTEST_ANSWER_MS / unit_ms);

    let current = settings::engine_costs();
    let database = quoted(&database());
    let line = |name: &str, current: f64, measured: f64| {
        // A cost is missing if no query caused this kind of work, or if its share of the time was too small to measure.
        let measured = Some(measured).filter(|measured| *measured > 0.0).map(three_digits);
        let statement = measured.map(|value| format!("ALTER DATABASE {database} SET {name} = {value}"));
        (name.to_owned(), current, measured, statement)
    };
    TableIterator::new(vec![
        line("anker.engine_startup_cost", current.startup, measured.startup),
        line("anker.engine_value_cost", current.value, measured.value),
        line("anker.engine_row_cost", current.row, measured.row),
        line("anker.engine_result_cost", current.result, measured.result),
    ])
}

/// A query that both sides have run.
struct Probe {
    /// The number of rows in the query's table.
    rows: i64,
    work: Work,
    engine_ms: f64,
    heap_ms: f64,
    heap_cost: f64,
}

/// Runs a query on both sides. `None` if one side cannot answer it now, for example because it lacks memory.
fn tried(query: &str, rows: i64) -> Option<Probe> {
    let probed = transaction::attempt(
        || Ok(probe(query, rows)),
        |error| match error {
            CaughtError::PostgresError(raised) | CaughtError::ErrorReport(raised)
                if !is_interrupt(raised.sql_error_code()) =>
            {
                // The engine's error names the reason in its detail.
                Err(raised.detail().unwrap_or(raised.message()).to_owned())
            }
            other => other.rethrow(),
        },
    );
    probed.map_err(|reason| notice!("{query} is not measured: {reason}")).ok()
}

/// Whether an error is a cancelled query, a timeout or a shutdown, which must end the calibration.
fn is_interrupt(code: PgSqlErrorCode) -> bool {
    use PgSqlErrorCode::*;
    matches!(code, ERRCODE_QUERY_CANCELED | ERRCODE_ADMIN_SHUTDOWN | ERRCODE_CRASH_SHUTDOWN)
}

fn probe(query: &str, rows: i64) -> Probe {
    let engine_ms = least((0..RUNS).map(|_| run(query, c"force").total_ms));
    let heap: Vec<Ran> = (0..RUNS).map(|_| run(query, c"off")).collect();
    let heap_ms = least(heap.iter().map(|ran| ran.execution_ms));
    Probe { rows, work: work(query), engine_ms, heap_ms, heap_cost: heap[0].cost }
}

struct Ran {
    cost: f64,
    execution_ms: f64,
    /// The time with planning.
    total_ms: f64,
}

fn run(query: &str, route: &CStr) -> Ran {
    // With the fallback on, the heap would answer for the engine, and its time would be taken for the engine's.
    let settings = [(c"anker.route", route), (c"anker.fallback", c"off")];
    let explained = session::with_settings(&settings, || explained(query, "ANALYZE, TIMING off"));
    let execution_ms = number(&explained, "Execution Time");
    let total_ms = execution_ms + number(&explained, "Planning Time");
    Ran { cost: number(&explained["Plan"], "Total Cost"), execution_ms, total_ms }
}

/// The amounts of the engine's work for a query, as the planner estimates them. Each amount is the query's cost when
/// one unit of this work costs 1 and all other work costs nothing.
fn work(query: &str) -> Work {
    let cost = |which: usize| {
        let price = |i| if i == which { c"1" } else { c"0" };
        // Pages are so expensive here that the planner never chooses the heap.
        let settings = [
            (c"anker.route", c"auto"),
            (c"anker.engine_startup_cost", c"0"),
            (c"anker.engine_value_cost", price(1)),
            (c"anker.engine_row_cost", price(2)),
            (c"anker.engine_result_cost", price(3)),
            (c"seq_page_cost", c"1e12"),
            (c"random_page_cost", c"1e12"),
        ];
        let explained = session::with_settings(&settings, || explained(query, "VERBOSE"));
        number(&explained["Plan"], "Total Cost")
    };
    let nothing = cost(0);
    let [values, rows, results] = [1, 2, 3].map(|which| (cost(which) - nothing).max(0.0));
    Work { values, rows, results }
}

fn explained(query: &str, options: &str) -> Value {
    // EXPLAIN is run like a statement that writes, because SPI does not take it for a query that only reads.
    let text = Spi::connect_mut(|client| {
        let rows = client.update(&format!("EXPLAIN ({options}, FORMAT json) {query}"), None, &[])?;
        rows.first().get_one::<pgrx::Json>()
    });
    match text {
        Ok(Some(pgrx::Json(Value::Array(mut plans)))) if !plans.is_empty() => plans.remove(0),
        Ok(_) => error!("EXPLAIN gave no plan of {query}"),
        Err(e) => error!("could not run {query}: {e}"),
    }
}

fn number(explained: &Value, name: &str) -> f64 {
    explained[name].as_f64().unwrap_or_else(|| error!("EXPLAIN did not tell the {name}"))
}

/// Queries that read few or many columns, and queries that filter, group, join, or return rows.
fn queries(Table { name, columns, key, .. }: &Table) -> Vec<String> {
    let each = |form: &str, between: &str| {
        columns.iter().map(|column| form.replace('?', column)).collect::<Vec<_>>().join(between)
    };
    let mut queries = vec![
        format!("SELECT count(*) FROM {name}"),
        format!("SELECT {} FROM {name}", each("max(?)", ", ")),
        format!("SELECT count(*) FROM {name} WHERE {}", each("? IS NOT NULL", " AND ")),
        format!("SELECT {} FROM {name}", columns.join(", ")),
    ];
    if let Some(first) = columns.first() {
        queries.push(format!("SELECT max({first}) FROM {name}"));
        queries.push(format!("SELECT {first} FROM {name}"));
        queries.push(format!("SELECT {first}, count(*) FROM {name} GROUP BY {first}"));
    }
    if let Some(key) = key {
        queries.push(format!("SELECT count(*) FROM {name} a JOIN {name} b ON a.{key} = b.{key}"));
    }
    queries
}

struct Table {
    name: String,
    rows: i64,
    /// Columns of types with short, ordered values.
    columns: Vec<String>,
    /// A column in which each value has few rows.
    key: Option<String>,
}

/// Mirrored tables of different sizes (small, middle and large) that the user may read and the engine serves. Tables
/// with row security are left out, because the user might see only a few of their rows. So are names outside ASCII, if
/// the database's encoding is not UTF8.
fn tables(client: &SpiClient<'_>, max_rows: i64) -> spi::Result<Vec<Table>> {
    let found = client.select(
        "SELECT format('%s', t.relation), t.rows,
                (SELECT array_agg(quote_ident(attname) ORDER BY attnum)
                 FROM (SELECT attname, attnum FROM pg_catalog.pg_attribute
                       WHERE attrelid = t.relation AND attnum > 0 AND NOT attisdropped
                             AND atttypid IN (20, 21, 23, 701, 1082, 1114, 1184) AND (is_utf8 OR attname ~ ascii)
                             AND attname <> ALL (coalesce(t.excluded_columns, '{}'))
                       ORDER BY attnum LIMIT 4) a) AS columns,
                (SELECT quote_ident(attname)
                 FROM pg_catalog.pg_index JOIN pg_catalog.pg_attribute a ON a.attrelid = indrelid AND a.attnum = indkey[0]
                 WHERE indrelid = t.relation AND indisunique AND indnkeyatts = 1 AND indpred IS NULL
                       AND atttypid IN (20, 21, 23) AND attname <> ALL (coalesce(t.excluded_columns, '{}'))
                       AND (is_utf8 OR attname ~ ascii)
                 ORDER BY indexrelid LIMIT 1) AS key
         FROM anker.tables t JOIN pg_catalog.pg_class c ON c.oid = t.relation,
              (SELECT getdatabaseencoding() = 'UTF8' AS is_utf8, '^[ -~]+$' AS ascii) names
         WHERE (is_utf8 OR t.relation::text ~ ascii) AND t.state = 'live' AND t.rows BETWEEN 1 AND $1
               AND pg_catalog.has_table_privilege(t.relation, 'SELECT')
               AND NOT c.relrowsecurity
         ORDER BY t.rows",
        None,
        &[max_rows.into()],
    )?;
    let mut tables = Vec::new();
    for row in found {
        let (name, rows) = (row.get::<String>(1)?.unwrap_or_default(), row.get::<i64>(2)?.unwrap_or_default());
        let columns: Vec<String> = row.get::<Vec<String>>(3)?.unwrap_or_default();
        if !columns.is_empty() {
            tables.push(Table { name, rows, columns, key: row.get(4)? });
        }
    }
    if tables.last().is_none_or(|table| table.rows < FEWEST_ROWS) {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("no mirrored table has between {FEWEST_ROWS} and {max_rows} rows that you may read"),
        )
        .hint("Mirror one with anker.mirror() and wait for it, or let larger ones be read with max_rows.")
        .raise()
    }
    let last = tables.len() - 1;
    let mut chosen: Vec<usize> = (0..TABLES).map(|i| i * last / (TABLES - 1)).collect();
    chosen.dedup();
    let chosen = |at: usize| chosen.contains(&at);
    Ok(tables.into_iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, table)| table).collect())
}

fn database() -> String {
    let name = Spi::get_one::<String>("SELECT pg_catalog.current_database()::text");
    name.ok().flatten().unwrap_or_else(|| error!("this database has no name"))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn least(times: impl Iterator<Item = f64>) -> f64 {
    times.fold(f64::INFINITY, f64::min)
}

/// The median of at least one number.
fn middle(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Rounds to three digits, because the measurements are not more precise.
fn three_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.log10().floor() - 2.0);
    // The detour over text avoids digits that floating-point division would add.
    format!("{:.3e}", (value / unit).round() * unit).parse().unwrap_or(value)
}
