//! DuckDB's time for the same queries on the same rows, where Python knows it: `pip install duckdb`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;

use postgres::Client;
use serde_json::{Value, json};

use super::{Query, Set};
use crate::Result;
use crate::server::run;

const SCRIPT: &str = include_str!("duckdb.py");
pub const THREADS: u32 = 2;

pub struct Found {
    pub version: String,
    queries: BTreeMap<String, Value>,
}

/// What became of a query.
pub enum Outcome {
    Done { ms: f64, rows: usize },
    Failed(String),
}

impl Found {
    pub fn outcome(&self, query: &str) -> Outcome {
        let found = self.queries.get(query).unwrap_or(&Value::Null);
        match (found["ms"].as_f64(), found["rows"].as_u64()) {
            (Some(ms), Some(rows)) => Outcome::Done { ms, rows: rows as usize },
            _ => Outcome::Failed(found["error"].as_str().unwrap_or("no result").to_owned()),
        }
    }
}

/// Whether there is a Python that knows DuckDB.
pub fn is_there() -> bool {
    Command::new("python3").args(["-c", "import duckdb"]).output().is_ok_and(|o| o.status.success())
}

/// Takes the tables' rows to DuckDB by way of files in `directory`, and has it answer the queries.
pub fn measure(client: &mut Client, set: &Set, queries: &[Query], runs: u32, directory: &Path) -> Result<Found> {
    fs::create_dir_all(directory)?;
    let tables: Result<Vec<Value>> = set.tables.iter().map(|table| export(client, table, directory)).collect();
    let queries: Vec<Value> = queries.iter().map(|q| json!({"name": q.name, "sql": q.sql})).collect();
    let asked = directory.join("asked.json");
    let work = json!({"threads": THREADS, "runs": runs, "tables": tables?, "queries": queries});
    fs::write(&asked, work.to_string())?;
    let answer = run(Command::new("python3").args(["-c", SCRIPT]).arg(&asked));
    fs::remove_dir_all(directory)?;
    let mut answer: Value = serde_json::from_str(&answer?)?;
    let version = answer["version"].as_str().unwrap_or_default().to_owned();
    Ok(Found { version, queries: serde_json::from_value(answer["queries"].take())? })
}

/// Writes a table's rows to a file; its columns as DuckDB declares them.
fn export(client: &mut Client, table: &str, directory: &Path) -> Result<Value> {
    let file = directory.join(format!("{table}.csv"));
    let columns = client.query(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
         WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        &[&table],
    )?;
    let (mut declared, mut values) = (Vec::new(), Vec::new());
    for column in &columns {
        let (name, kind): (&str, &str) = (column.get(0), column.get(1));
        let (theirs, value) = if kind.starts_with("character") {
            // DuckDB has no char(n): blanks at the end would count.
            ("varchar", format!("{name}::text"))
        } else if kind == "timestamp with time zone" {
            ("timestamp", format!("{name} AT TIME ZONE 'UTC'"))
        } else {
            (kind, name.to_owned())
        };
        declared.push(format!("{name} {theirs}"));
        values.push(value);
    }
    let statement = format!("COPY (SELECT {} FROM {table}) TO STDOUT (FORMAT csv)", values.join(", "));
    io::copy(&mut client.copy_out(&statement)?, &mut File::create(&file)?)?;
    Ok(json!({"name": table, "columns": declared.join(", "), "file": file}))
}
