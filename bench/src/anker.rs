//! Functions by which tests and benchmarks use the extension's SQL interface.

use std::time::Duration;

use postgres::{Client, SimpleQueryMessage};

use crate::Result;
use crate::cluster::wait_until;

pub fn create_extension(client: &mut Client) -> Result<()> {
    Ok(client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_anker")?)
}

/// Mirrors the tables and waits until all of them serve queries.
pub fn mirror(client: &mut Client, tables: &[&str], limit: Duration) -> Result<()> {
    for table in tables {
        client.execute("SELECT anker.mirror($1::text::regclass)", &[table])?;
    }
    tables.iter().try_for_each(|table| wait_live(client, table, limit))
}

pub fn wait_live(client: &mut Client, table: &str, limit: Duration) -> Result<()> {
    let seconds = limit.as_secs_f64();
    let live: bool = client
        .query_one("SELECT anker.wait_for_mirror($1::text::regclass, make_interval(secs => $2))", &[&table, &seconds])?
        .get(0);
    if live {
        return Ok(());
    }
    let state = client
        .query_opt("SELECT state, reason FROM anker.tables WHERE relation = $1::text::regclass", &[&table])?
        .map_or("not in anker.tables".to_owned(), |row| {
            format!("{} ({})", row.get::<_, String>(0), row.get::<_, Option<String>>(1).unwrap_or_default())
        });
    Err(format!("{table} is not live after {seconds} s: {state}").into())
}

/// The rows in which heap and mirror differ, as text. There should be none.
pub fn verify(client: &mut Client, table: &str) -> Result<Vec<String>> {
    text_rows(client, &format!("SELECT * FROM anker.verify('{table}')"))
}

/// Process ids of this database's capture worker and engine, if both exist.
pub fn processes(client: &mut Client) -> Result<Option<(u32, u32)>> {
    let row = client
        .query_opt("SELECT worker_pid, engine_pid FROM anker.engine WHERE database::text = current_database()", &[])?;
    Ok(row.and_then(|row| {
        let pid = |i| row.get::<_, Option<i32>>(i).filter(|p| *p > 0).map(|p| p as u32);
        Some((pid(0)?, pid(1)?))
    }))
}

pub fn engine_pid(client: &mut Client) -> Result<u32> {
    let mut pid = None;
    wait_until(Duration::from_secs(30), || {
        pid = processes(client)?.map(|(_, engine)| engine);
        Ok(pid.is_some())
    })?;
    pid.ok_or_else(|| "no engine is running".into())
}

/// The side that would answer a query, as EXPLAIN shows it: `engine`, or `heap, because …`. `None` if the plan has no
/// `Anker` node.
pub fn explained(client: &mut Client, sql: &str) -> Result<Option<String>> {
    answered(client, &format!("EXPLAIN (COSTS off) {sql}"))
}

/// The side that answered a query, found by EXPLAIN ANALYZE.
pub fn analyzed(client: &mut Client, sql: &str) -> Result<Option<String>> {
    answered(client, &format!("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) {sql}"))
}

fn answered(client: &mut Client, explain: &str) -> Result<Option<String>> {
    let lines = text_rows(client, explain)?;
    Ok(lines.iter().find_map(|line| line.trim().strip_prefix("Anker: ").map(str::to_owned)))
}

/// The rows of a query as the server prints them: `a|b|c`, `\N` for NULL.
pub fn text_rows(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for message in client.simple_query(sql)? {
        if let SimpleQueryMessage::Row(row) = message {
            let values: Vec<&str> = (0..row.len()).map(|i| row.get(i).unwrap_or("\\N")).collect();
            rows.push(values.join("|"));
        }
    }
    Ok(rows)
}

/// The value of a counter of `anker.engine` for the current database.
pub fn counter(client: &mut Client, column: &str) -> Result<i64> {
    let sql =
        format!("SELECT coalesce({column}, 0)::bigint FROM anker.engine WHERE database::text = current_database()");
    Ok(client.query_opt(&sql, &[])?.map_or(0, |row| row.get(0)))
}

/// The number of queries for which the engine could not be reached, was lost, or failed.
pub fn failures(client: &mut Client) -> Result<i64> {
    let sql = "SELECT coalesce((fallback_reasons ->> 'engine')::bigint, 0) FROM anker.engine WHERE database = current_database()";
    Ok(client.query_opt(sql, &[])?.map_or(0, |row| row.get(0)))
}
