//! Common parts of the thesis' experiments. A stream of small transactions runs, and the time of each transaction is
//! measured. After some of the transactions, a snapshot is taken, and an analytic query reads the snapshot.

use std::sync::Arc;

use anker_report::percentile;
use serde::{Deserialize, Serialize};

use super::column::Reader;
use crate::Result;
use crate::clock::{self, Tick};
use crate::query::Query;
use crate::table::Table;

/// The share of the stream that comes before the snapshot.
const BEFORE: f64 = 0.2;
/// The number of pieces into which the plots divide the stream.
const PIECES: usize = 50;
/// The lower end of the first bucket of latency, in nanoseconds. Each bucket is twice as wide as the one before.
const FIRST_BUCKET: f64 = 64.0;
const BUCKETS: usize = 18;

/// Results of a run. Times are in nanoseconds; times of pieces count from the snapshot.
#[derive(Serialize, Deserialize)]
pub struct Course {
    /// The time of the snapshot alone.
    pub execution: f64,
    /// The time until the stream of transactions goes on.
    pub dispatch: f64,
    /// The time until the query begins.
    pub query_began: f64,
    /// The time until the query's answer is there.
    pub query: f64,
    /// Transactions a second after the snapshot was requested. The time of taking the snapshot is included.
    pub throughput: f64,
    /// Mean times of a transaction: before the snapshot, and in the tenth of the stream that follows it.
    pub mean_before: f64,
    pub mean_spike: f64,
    pub worst: f64,
    pub pieces: Vec<Piece>,
}

#[derive(Serialize, Deserialize)]
pub struct Piece {
    pub at: f64,
    pub mean: f64,
    pub half: f64,
    pub most: f64,
    pub worst: f64,
    /// Transactions by bucket of latency.
    pub counts: Vec<u32>,
}

/// The bucket's lower end, in nanoseconds.
pub fn bucket_start(bucket: usize) -> f64 {
    FIRST_BUCKET * 2f64.powi(bucket as i32)
}

fn bucket(nanoseconds: f64) -> usize {
    ((nanoseconds / FIRST_BUCKET).log2().floor().max(0.0) as usize).min(BUCKETS - 1)
}

/// Runs the stream of transactions. Calls `transaction` for each, with the table and the transaction's number.
pub fn course(
    table: &mut Table,
    query: Query,
    transactions: usize,
    mut transaction: impl FnMut(&mut Table, usize) -> Result<()>,
) -> Result<Course> {
    let reader = Reader::start();
    let before = (transactions as f64 * BEFORE) as usize;
    // Fills the vector in advance, so that the kernel need not provide its pages while we measure.
    let mut times = vec![(Tick::now(), Tick::now()); transactions];
    let mut timed = |table: &mut Table, i: usize| -> Result<()> {
        let start = Tick::now();
        transaction(table, i)?;
        times[i] = (start, Tick::now());
        Ok(())
    };
    for i in 0..before {
        timed(table, i)?;
    }
    let start = Tick::now();
    let taken = Arc::new(table.snapshot(0..table.columns())?);
    let execution = start.elapsed();
    reader.begin(&taken, query)?;
    let dispatch = start.elapsed();
    for i in before..transactions {
        timed(table, i)?;
    }
    let end = Tick::now();
    let answer = match reader.poll() {
        Some(answer) => answer?,
        None => reader.wait()?,
    };
    let latencies: Vec<f64> = times.iter().map(|(from, to)| (to.since(*from) - clock::overhead()).max(0.0)).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let spike = &latencies[before..before + (transactions - before).div_ceil(10)];
    let piece = |i: usize| {
        let (from, to) = (transactions * i / PIECES, transactions * (i + 1) / PIECES);
        let part = &latencies[from..to];
        let mut counts = vec![0; BUCKETS];
        part.iter().for_each(|time| counts[bucket(*time)] += 1);
        Piece {
            at: times[from].0.since(start),
            mean: mean(part),
            half: percentile(part, 0.5),
            most: percentile(part, 0.99),
            worst: percentile(part, 1.0),
            counts,
        }
    };
    Ok(Course {
        execution,
        dispatch,
        query_began: answer.began.since(start),
        query: answer.ended.since(start),
        throughput: (transactions - before) as f64 / end.since(start) * 1e9,
        mean_before: mean(&latencies[..before]),
        mean_spike: mean(spike),
        worst: percentile(&latencies[before..], 1.0),
        pieces: (0..PIECES).map(piece).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_bucket() {
        assert_eq!((bucket(0.0), bucket(64.0), bucket(127.9), bucket(128.0)), (0, 0, 0, 1));
        assert_eq!(bucket(1e12), BUCKETS - 1);
        assert!(bucket_start(bucket(5000.0)) <= 5000.0 && bucket_start(bucket(5000.0) + 1) > 5000.0);
    }
}
