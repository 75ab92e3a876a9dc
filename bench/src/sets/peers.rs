//! Runs the same queries on the same rows in other engines, if their Python modules are installed: `pip install duckdb
//! tableauhyperapi`.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use postgres::Client;
use serde_json::{Value, json};

use crate::Result;

pub const THREADS: u32 = 2;

/// An engine that holds all rows in memory.
pub struct Peer {
    pub name: &'static str,
    /// The prefix in the names of the peer's figures.
    pub figure: &'static str,
    pub module: &'static str,
    script: &'static str,
}

pub static PEERS: [Peer; 2] = [
    Peer { name: "DuckDB", figure: "duckdb", module: "duckdb", script: include_str!("duckdb.py") },
    Peer { name: "Hyper", figure: "hyper", module: "tableauhyperapi", script: include_str!("hyper.py") },
];

/// A running process of a peer. It has loaded the rows, and waits for queries.
pub struct Running {
    pub peer: &'static Peer,
    pub version: String,
    process: Child,
    queries: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The outcome of a query.
pub enum Outcome {
    Done { ms: f64, rows: usize },
    Failed(String),
}

impl Peer {
    /// Whether Python can import the peer's module.
    pub fn is_there(&self) -> bool {
        let import = format!("import {}", self.module);
        Command::new("python3").args(["-c", &import]).output().is_ok_and(|o| o.status.success())
    }

    fn start(&'static self, asked: &Path) -> Result<Running> {
        let mut process = Command::new("python3")
            .args(["-c", self.script])
            .arg(asked)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (queries, answers) = (process.stdin.take(), process.stdout.take());
        let queries = queries.expect("it was asked for");
        let answers = BufReader::new(answers.expect("it was asked for"));
        let mut running = Running { peer: self, version: String::new(), process, queries, answers };
        running.version = running.answer()?["version"].as_str().unwrap_or_default().to_owned();
        Ok(running)
    }
}

impl Running {
    pub fn ask(&mut self, sql: &str) -> Result<Outcome> {
        writeln!(self.queries, "{}", json!(sql))?;
        let found = self.answer()?;
        Ok(match (found["ms"].as_f64(), found["rows"].as_u64()) {
            (Some(ms), Some(rows)) => Outcome::Done { ms, rows: rows as usize },
            _ => Outcome::Failed(found["error"].as_str().unwrap_or("no result").to_owned()),
        })
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("{} has ended", self.peer.name).into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // If the process cannot be killed, nothing can be done about it here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the peers, and copies the tables' rows to each of them through files in `directory`.
pub fn start(peers: &[&'static Peer], client: &mut Client, tables: &[&str], directory: &Path) -> Result<Vec<Running>> {
    fs::create_dir_all(directory)?;
    let tables: Result<Vec<Value>> = tables.iter().map(|table| export(client, table, directory)).collect();
    let asked = directory.join("asked.json");
    fs::write(&asked, json!({"threads": THREADS, "tables": tables?}).to_string())?;
    peers.iter().map(|peer| peer.start(&asked)).collect()
}

/// Writes a table's rows to a file. Returns its columns as the peers declare them.
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
            // Copies char(n) as text, because trailing blanks of a char(n) would be significant in the peers.
            ("text", format!("{name}::text"))
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
