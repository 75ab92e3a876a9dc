//! Bandwidth: compares the time in which the engine sums a column with the least time in which the same number of bytes
//! can be read. The column is larger than the processor's caches, and its values are stored in full.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;

use super::measured::{NONE, engine_ms};
use crate::report::Findings;
use crate::sets::Route;
use crate::sets::peers::THREADS;
use crate::{Result, anker};

/// The size of the caches if the system does not report it.
const FALLBACK: u64 = 32 << 20;
const TABLE: &str = "bandwidth_of_scans";

/// Twice the size of the last level of the processor's caches.
pub fn column_bytes() -> u64 {
    let size = |index: u32| {
        let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        let (number, unit) = text.trim().split_at(text.trim().len().checked_sub(1)?);
        let factor = if unit == "M" { 1 << 20 } else { 1 << 10 };
        number.parse::<u64>().ok().map(|number| number * factor)
    };
    2 * (0..8).filter_map(size).max().unwrap_or(FALLBACK)
}

pub fn measure(client: &mut Client, bytes: u64, runs: u32, findings: &mut Findings) -> Result<()> {
    let rows = bytes / 8;
    client.batch_execute(&format!(
        "RESET statement_timeout;
         CREATE TABLE {TABLE} (v bigint NOT NULL);
         INSERT INTO {TABLE} SELECT ((random() - 0.5) * 1.8e19)::bigint FROM generate_series(1, {rows})"
    ))?;
    anker::mirror(client, &[TABLE], Duration::from_secs(600))?;
    client.batch_execute(Route::Prefer.setting())?;
    let sql = format!("SELECT sum(v) FROM {TABLE}");
    let (mut engine, mut plain) = (f64::INFINITY, f64::INFINITY);
    let values: Vec<u64> = (0..rows).map(|row| row.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    // Both times are measured in turns, so that other work on the machine affects both.
    for _ in 0..runs {
        engine = engine.min(engine_ms(client, &sql, 3)?.ok_or("the engine does not sum a column")?);
        plain = (0..3).map(|_| read(&values)).fold(plain, f64::min);
    }
    let rate = |ms: f64| bytes as f64 / ms / 1e6;
    findings.row("bandwidth", "plain reading", &NONE, rate(plain), "GB/s");
    findings.row("bandwidth", "sum of a column", &NONE, rate(engine), "GB/s");
    findings.row("bandwidth_share", "sum of a column", &NONE, plain / engine, "of plain reading");
    client.batch_execute(&format!("SELECT anker.unmirror('{TABLE}'); DROP TABLE {TABLE}"))?;
    Ok(())
}

/// Milliseconds to read all values, with as many threads as the engine has.
fn read(values: &[u64]) -> f64 {
    let start = Instant::now();
    let part = values.len().div_ceil(THREADS as usize).max(1);
    thread::scope(|scope| {
        for part in values.chunks(part) {
            scope.spawn(|| {
                // There are several independent sums, so that the processor can add to all of them at the same time.
                let mut sums = [0u64; 32];
                for values in part.as_chunks::<32>().0 {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
                }
                black_box(sums);
            });
        }
    });
    start.elapsed().as_secs_f64() * 1e3
}
