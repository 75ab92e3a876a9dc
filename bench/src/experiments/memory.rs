//! Measures the memory of the mirror.

use std::thread;
use std::time::Duration;

use postgres::Client;
use serde_json::Value;

use crate::report::Findings;
use crate::{Result, os};

/// The time after which the engine has returned memory that it no longer needs, for example after loads and queries.
const SETTLED: Duration = Duration::from_secs(7);

/// Adds two figures of memory, both relative to the size of the heap without indexes. One is the memory of the mirrored
/// tables with key index, statistics and undo, the other the memory of the engine's whole process. `when` is appended
/// to the figures' names.
pub fn rows(client: &mut Client, subject: &str, when: &str, params: &Value, findings: &mut Findings) -> Result<()> {
    thread::sleep(SETTLED);
    let row = client.query_one(
        "SELECT sum(bytes + undo_bytes)::float8, sum(pg_table_size(relation))::float8, (SELECT engine_pid
            FROM anker.engine WHERE database::text = current_database()) FROM anker.tables",
        &[],
    )?;
    let (mirror, heap): (f64, f64) = (row.get(0), row.get(1));
    findings.row(&format!("memory_share{when}"), subject, params, mirror / heap, "of the heap without indexes");
    if let Some(resident) = row.get::<_, Option<i32>>(2).and_then(|pid| os::private_bytes(pid as u32)) {
        findings.row(
            &format!("resident_share{when}"),
            subject,
            params,
            resident as f64 / heap,
            "of the heap without indexes",
        );
    }
    Ok(())
}
