//! Runs a query twice under one snapshot, with its flag and without it, so that the engine's answer can be compared
//! with PostgreSQL's.

use bench::{Result, describe};
use postgres::Client;
use postgres::error::SqlState;

const FLAG: &str = "anker.olap()";

/// A session's outcome of a statement: rows in text form, or the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Rows(Vec<String>),
    Error { code: String, message: String },
}

impl Answer {
    /// Sorts the rows, since neither side promises an order.
    pub fn normal(mut self) -> Answer {
        if let Answer::Rows(rows) = &mut self {
            rows.sort_unstable();
        }
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Flagged,
    Heap,
}

/// The statement without its flag, so that it runs on the heap.
pub fn unflagged(sql: &str) -> String {
    assert!(sql.contains(FLAG), "not flagged: {sql}");
    sql.replace(FLAG, "true")
}

/// Runs a statement. An error that the server reports is an answer, too; any other failure, such as a broken
/// connection, is an error of this call.
pub fn ask(client: &mut Client, sql: &str) -> Result<Answer> {
    match bench::anker::text_rows(client, sql) {
        Ok(rows) => Ok(Answer::Rows(rows)),
        Err(error) => match error.downcast_ref::<postgres::Error>().and_then(|e| e.as_db_error()) {
            Some(db) if *db.code() != SqlState::ADMIN_SHUTDOWN && *db.code() != SqlState::CRASH_SHUTDOWN => {
                Ok(Answer::Error { code: db.code().code().into(), message: db.message().into() })
            }
            _ => Err(describe(&*error).into()),
        },
    }
}

/// Runs the query with and without its flag in the current transaction. Fails if the answers differ.
pub fn same_in_transaction(client: &mut Client, sql: &str, first: First) -> Result<Answer> {
    let plain = unflagged(sql);
    // Runs each form of the query in a savepoint, so that an error of one does not abort the transaction for the other.
    let mut guarded = |sql: &str| -> Result<Answer> {
        client.batch_execute("SAVEPOINT pair")?;
        let answer = ask(client, sql)?;
        client.batch_execute("ROLLBACK TO pair; RELEASE pair")?;
        Ok(answer.normal())
    };
    let (flagged, heap) = match first {
        First::Flagged => {
            let flagged = guarded(sql)?;
            (flagged, guarded(&plain)?)
        }
        First::Heap => {
            let heap = guarded(&plain)?;
            (guarded(sql)?, heap)
        }
    };
    if flagged == heap { Ok(heap) } else { Err(difference(sql, &heap, &flagged).into()) }
}

/// Like [`same_in_transaction`], but begins and ends a REPEATABLE READ transaction for the two queries.
pub fn same(client: &mut Client, sql: &str) -> Result<Answer> {
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
    let result = same_in_transaction(client, sql, First::Flagged);
    client.batch_execute("ROLLBACK")?;
    result
}

/// Like [`same`], while this session has `table` locked, so that neither TRUNCATE nor a tool like pg_repack comes
/// between the two queries: older snapshots do not see the rows that a table had before those.
pub fn same_under_lock(client: &mut Client, table: &str, sql: &str) -> Result<Answer> {
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE {table} IN ACCESS SHARE MODE"))?;
    let result = same_in_transaction(client, sql, First::Flagged);
    client.batch_execute("ROLLBACK")?;
    result
}

/// Runs the query with and without its flag, on tables that no session changes. Fails if the answers differ. `ordered`:
/// the order of rows must be the same, too.
pub fn compare(client: &mut Client, sql: &str, ordered: bool) -> Result<Answer> {
    let (flagged, heap) = (ask(client, sql)?, ask(client, &unflagged(sql))?);
    let (flagged, heap) = if ordered { (flagged, heap) } else { (flagged.normal(), heap.normal()) };
    let alike = match (&flagged, &heap) {
        // If several rows raise errors, the plan decides which is raised. So only the codes of errors are compared.
        (Answer::Error { code: a, .. }, Answer::Error { code: b, .. }) => a == b,
        _ => flagged == heap,
    };
    if alike { Ok(heap) } else { Err(difference(sql, &heap, &flagged).into()) }
}

/// Like [`compare`], but floats may differ in their last digits.
pub fn compare_rounded(client: &mut Client, sql: &str) -> Result<Answer> {
    let (flagged, heap) = (ask(client, sql)?, ask(client, &unflagged(sql))?);
    let alike = match (&flagged, &heap) {
        (Answer::Error { code: a, .. }, Answer::Error { code: b, .. }) => a == b,
        // Rounding separates two nearly equal numbers if one lies just below the border between two rounded values, and
        // the other just above. So a second comparison multiplies both numbers by a factor first, which moves the
        // borders.
        (Answer::Rows(a), Answer::Rows(b)) => [1.0, 1.000_000_000_3].iter().any(|&g| rounded(a, g) == rounded(b, g)),
        _ => false,
    };
    if alike { Ok(heap.normal()) } else { Err(difference(sql, &heap.normal(), &flagged.normal()).into()) }
}

/// The rows, with each number multiplied by `grid` and rounded to ten digits.
fn rounded(rows: &[String], grid: f64) -> Vec<String> {
    let digits = |value: &str| match value.parse::<f64>() {
        Ok(number) if number.abs() < 1e-6 => "0".into(),
        Ok(number) => format!("{:.9e}", number * grid),
        Err(_) => value.to_owned(),
    };
    let row = |row: &String| row.split('|').map(digits).collect::<Vec<String>>().join("|");
    let mut rounded: Vec<String> = rows.iter().map(row).collect();
    rounded.sort_unstable();
    rounded
}

fn difference(sql: &str, heap: &Answer, flagged: &Answer) -> String {
    match (heap, flagged) {
        (Answer::Rows(heap), Answer::Rows(flagged)) => {
            let only = |a: &[String], b: &[String]| -> Vec<String> {
                a.iter().filter(|row| b.binary_search(row).is_err()).take(3).cloned().collect()
            };
            format!(
                "different answers to {sql}: heap {} rows, flagged {} rows; only on the heap {:?}; only flagged {:?}",
                heap.len(),
                flagged.len(),
                only(heap, flagged),
                only(flagged, heap)
            )
        }
        _ => format!("different answers to {sql}: heap {heap:?}, flagged {flagged:?}"),
    }
}
