//! Sessions that change the tables while other sessions query them. They update rows, delete rows, and insert them
//! again. Some new values fit into the chunk's present code, others do not. The sessions write to one chunk after the
//! other, so that the engine rewrites the chunks that are quiet meanwhile more densely.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::cluster::Cluster;
use bench::{Result, describe};

use super::tables::{CHUNK, Column, columns_of, rows};
use crate::generated::dice::Dice;

/// The time after which the sessions move on to the next chunk.
const OF_A_CHUNK: Duration = Duration::from_secs(2);
/// One of this many transactions may write to any chunk.
const ANYWHERE: u32 = 200;

/// Writes until `stop` is set, and counts the committed transactions in `committed`.
pub fn write(cluster: &Cluster, seed: u64, chunks: u32, committed: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    let mut client = cluster.connect()?;
    client.batch_execute("SET synchronous_commit = off; SET log_min_messages = fatal")?;
    let mut dice = Dice::seeded(seed);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        // Some rows lie beyond the last chunk.
        let (all, turn) = (chunks * CHUNK * 5 / 4, start.elapsed().as_millis() / OF_A_CHUNK.as_millis());
        let first = turn as u32 * CHUNK % all;
        let (from, to) = if dice.chance(ANYWHERE) { (0, all) } else { (first, all.min(first + CHUNK)) };
        let sql = transaction(&mut dice, from, to);
        match client.batch_execute(&sql) {
            Ok(()) => {
                committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                // Deadlocks are expected, and inserts whose key exists already.
                let code = error.code().map_or("", |code| code.code());
                if !code.starts_with("40") && !code.starts_with("23") {
                    return Err(format!("{}: {sql}", describe(&error)).into());
                }
                client.batch_execute("ROLLBACK")?;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn transaction(dice: &mut Dice, from: u32, to: u32) -> String {
    let statements: Vec<String> = dice.some(3, |dice| match dice.below(8) {
        0 => format!("SAVEPOINT s; {}; ROLLBACK TO s", statement(dice, from, to)),
        _ => statement(dice, from, to),
    });
    let end = if dice.chance(8) { "ROLLBACK" } else { "COMMIT" };
    format!("BEGIN; {}; {end}", statements.join("; "))
}

/// A statement on rows from about `from` to `to`.
fn statement(dice: &mut Dice, from: u32, to: u32) -> String {
    let table = dice.pick(&["piece", "piece", "piece", "event"]);
    let from = from + dice.below(to - from);
    let length = match dice.below(40) {
        0 => CHUNK,
        1..5 => 1000,
        _ => dice.pick(&[1, 3, 10, 50]),
    };
    let to = from + length - 1;
    let key = if table == "piece" { "id" } else { "piece" };
    let which = format!("{key} BETWEEN {from} AND {to}");
    match dice.below(10) {
        // Rows are deleted only in every second chunk, because the engine does not rewrite a chunk while it keeps undo
        // of a delete there. The other chunks can be rewritten.
        0 | 1 if (from / CHUNK).is_multiple_of(2) => format!("DELETE FROM {table} WHERE {which}"),
        0..5 => rows(table, from, to, dice.below(5)),
        5 => format!("UPDATE piece SET id = id + {} WHERE id = {from}", dice.pick(&["1", "8192", "100000"])),
        _ => {
            let columns: Vec<&Column> =
                columns_of(table).iter().filter(|column| !["id", "piece", "no"].contains(&column.name)).collect();
            let column = dice.pick(&columns);
            let value = match dice.below(16) {
                // Only a few rows get such a value, because it widens the bounds of their chunk for a long time.
                0 if length < 1000 => dice.pick(column.odd).to_owned(),
                1..6 => (column.value)(dice),
                _ => column.made(key, dice.below(5)),
            };
            format!("UPDATE {table} SET {} = {value} WHERE {which}", column.name)
        }
    }
}
