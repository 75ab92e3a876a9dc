//! Generated queries over tables of several chunks, while other sessions change these tables. Heap and engine must
//! return the same rows and errors, under new and old snapshots. The engine must not read chunks in which no row can
//! match.
//!
//! - `tables`: the contents of the chunks
//! - `writers`: changes while the queries run
//! - `queries`: the queries

mod queries;
mod tables;
mod writers;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::cluster::Cluster;
use bench::{Result, anker};
use postgres::Client;

use self::queries::Query;
use crate::flagged::{Answer, ask};
use crate::generated::alternatives::differ_in_zeros;
use crate::generated::dice::Dice;
use crate::runner::{Context, ensure, tests};

tests![queries_over_many_chunks_that_change];

const READERS: usize = 3;
const WRITERS: u64 = 2;

/// One in this many queries is also run by EXPLAIN ANALYZE.
const EXPLAINED: u32 = 4;

/// The number of queries after which the tables are created again. The writers' changes make the chunks of a table more
/// and more alike, so that scans can skip fewer and fewer of them.
const OF_A_ROUND: u32 = 500;

#[derive(Default)]
struct Counts {
    asked: u32,
    by_engine: i64,
    rows: usize,
    errors: u32,
    /// The number of chunks in all tables that EXPLAIN ANALYZE scanned. `read` counts those of them that the engine
    /// read.
    chunks: u64,
    read: u64,
    /// The number of transactions that committed while the queries ran. `unseen` counts those that the oldest snapshot
    /// did not see.
    written: u64,
    unseen: u64,
    /// The number of times that the engine recoded a chunk's numbers in fewer bytes.
    shorter: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.asked += more.asked;
        self.by_engine += more.by_engine;
        self.rows += more.rows;
        self.errors += more.errors;
        self.chunks += more.chunks;
        self.read += more.read;
        self.written += more.written;
        self.unseen = self.unseen.max(more.unseen);
        self.shorter += more.shorter;
    }
}

fn queries_over_many_chunks_that_change(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    let count = context.queries.unwrap_or(context.size(3000, 300));
    let (mut all, start) = (Counts::default(), Instant::now());
    while all.asked < count {
        let asked = (count - all.asked).min(OF_A_ROUND);
        let seed = context.seed + u64::from(all.asked);
        all.add(round(&cluster, &mut client, context.size(7, 5), seed, asked)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let Counts { asked, by_engine, rows, errors, chunks, read, written, unseen, shorter } = all;
    println!(
        "       {asked} queries, {rows} rows, {errors} errors, {written} transactions beside them, {seconds:.0} s"
    );
    println!(
        "       {read} of {chunks} chunks read by those that were explained; the oldest snapshot did not see {unseen}; \
         numbers became shorter {shorter} times"
    );

    ensure!(by_engine >= i64::from(asked) * 95 / 100, "only {by_engine} of {asked} were answered by the engine");
    // These limits apply only to the default number of queries, because a number from the command line may be too
    // small.
    if context.queries.is_none() {
        ensure!(read < chunks * 9 / 10, "{read} of {chunks} chunks were read");
        ensure!(errors < asked / 10 && rows > 0, "{errors} errors, {rows} rows");
        ensure!(unseen >= 10, "there were only {unseen} transactions beside the oldest snapshot");
        ensure!(context.quick || shorter > 0, "no chunk came to rest");
    }
    Ok(())
}

/// Creates the tables, and runs queries while writers change them. At the end, compares all rows of heap and mirror.
fn round(cluster: &Cluster, client: &mut Client, chunks: u32, seed: u64, count: u32) -> Result<Counts> {
    tables::create(client, chunks)?;
    // Reads the counter only now that tables are mirrored. While no table is mirrored, the worker ends, and its
    // counters are lost.
    let served = anker::counter(client, "queries_served")?;
    let (stop, written) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let mut counts = std::thread::scope(|scope| -> Result<Counts> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || writers::write(cluster, seed + writer, chunks, written, stop)))
            .collect();
        // The first reader holds a single snapshot, the second holds each for a while, the third takes a new one for
        // each query.
        let readers: Vec<_> = [u32::MAX, count / 15 + 1, 1]
            .into_iter()
            .enumerate()
            .map(|(reader, held)| {
                let seeds = (seed + reader as u64..seed + u64::from(count)).step_by(READERS);
                scope.spawn(move || read(cluster, seeds, held, written))
            })
            .collect();
        let watcher = scope.spawn(move || watch(cluster, stop));
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join().map_err(|_| "a reader panicked")).collect();
        stop.store(true, Ordering::Relaxed);
        let mut counts = Counts::default();
        for read in read {
            counts.add(read??);
        }
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")??;
        }
        counts.shorter = watcher.join().map_err(|_| "the watcher panicked")??;
        counts.written = written.load(Ordering::Relaxed);
        Ok(counts)
    })?;
    counts.by_engine = anker::counter(client, "queries_served")? - served;
    for table in tables::TABLES {
        let differences = anker::verify(client, table)?;
        ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    }
    let rebuilt = anker::text_rows(client, "SELECT relation, rebuilds FROM anker.tables WHERE rebuilds > 0")?;
    ensure!(rebuilt.is_empty(), "rebuilt: {rebuilt:?}");
    Ok(counts)
}

/// Runs one query for each seed. After `held` queries, takes a new snapshot.
fn read(cluster: &Cluster, seeds: impl Iterator<Item = u64>, held: u32, written: &AtomicU64) -> Result<Counts> {
    let mut client = cluster.connect()?;
    client.batch_execute("SET log_min_messages = fatal; SET statement_timeout = '120s'")?;
    let mut counts = Counts::default();
    // `left` is the number of queries that still run under the present snapshot. `before` is the number of transactions
    // that had committed when this snapshot was taken.
    let (mut left, mut before) = (0, 0);
    for seed in seeds {
        if left == 0 {
            before = written.load(Ordering::Relaxed);
            client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
            left = held;
        }
        let mut dice = Dice::seeded(seed);
        let query = queries::query(&mut dice);
        let unseen = written.load(Ordering::Relaxed) - before;
        let answer = pair(&mut client, &query, dice.chance(2));
        match answer.map_err(|why| format!("seed {seed}, {unseen} transactions later: {why}"))? {
            Answer::Rows(rows) => counts.rows += rows.len(),
            Answer::Error { .. } => counts.errors += 1,
        }
        counts.asked += 1;
        counts.unseen = counts.unseen.max(unseen);
        if counts.asked % EXPLAINED == 0 {
            explain(&mut client, &query, &mut counts)?;
        }
        left -= 1;
        if left == 0 {
            client.batch_execute("COMMIT")?;
        }
    }
    Ok(counts)
}

/// Until `stop` is set, counts how often the engine recodes a chunk's numbers in fewer bytes.
fn watch(cluster: &Cluster, stop: &AtomicBool) -> Result<u64> {
    const SQL: &str = "SELECT column_name::text, chunk::bigint, bytes FROM anker.chunks('piece') \
                       WHERE slots = 8192 AND (coding LIKE '%bytes' OR coding LIKE '%byte' OR coding = 'constant')";
    let (mut client, mut shorter) = (cluster.connect()?, 0);
    let mut known: HashMap<(String, i64), i64> = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        for row in client.query(SQL, &[])? {
            let (column, bytes) = ((row.get(0), row.get(1)), row.get(2));
            shorter += u64::from(known.insert(column, bytes).is_some_and(|before| bytes < before));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(shorter)
}

/// Runs the query on both routes in the current transaction, and returns the answer. Fails if the answers differ.
fn pair(client: &mut Client, query: &Query, engine_first: bool) -> Result<Answer> {
    let mut routes = ["off", "prefer"];
    if engine_first {
        routes.reverse();
    }
    let mut answers = Vec::new();
    for route in routes {
        client.batch_execute(&format!("SAVEPOINT pair; SET LOCAL anker.route = {route}"))?;
        let answer = ask(client, &query.sql)?;
        client.batch_execute("ROLLBACK TO pair; RELEASE pair")?;
        answers.push(match answer {
            Answer::Rows(mut rows) if !query.ordered => {
                rows.sort_unstable();
                Answer::Rows(rows)
            }
            answer => answer,
        });
    }
    if answers[0] == answers[1] || differ_in_zeros(&query.sql, &answers[0], &answers[1]) {
        return Ok(answers.swap_remove(0));
    }
    let shown = |answer: &Answer, other: &Answer| match (answer, other) {
        (Answer::Rows(rows), Answer::Rows(others)) => {
            let own: Vec<&String> = rows.iter().filter(|row| !others.contains(row)).take(3).collect();
            format!("{} rows, of its own {own:?}", rows.len())
        }
        (answer, _) => format!("{answer:?}").chars().take(300).collect(),
    };
    let (first, second) = (shown(&answers[0], &answers[1]), shown(&answers[1], &answers[0]));
    Err(format!("{}\n{}: {first}\n{}: {second}", query.sql, routes[0], routes[1]).into())
}

/// Runs the query by EXPLAIN ANALYZE, and adds the number of chunks that the engine read.
fn explain(client: &mut Client, query: &Query, counts: &mut Counts) -> Result<()> {
    client.batch_execute("SAVEPOINT explained; SET LOCAL anker.route = prefer")?;
    let plan = ask(client, &format!("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) {}", query.sql))?;
    client.batch_execute("ROLLBACK TO explained; RELEASE explained")?;
    let Answer::Rows(lines) = plan else { return Ok(()) };
    for line in &lines {
        let Some((_, numbers)) = line.split_once("Chunks Read: ") else { continue };
        let (read, of) = numbers.split_once(" of ").ok_or_else(|| format!("unknown: {line}"))?;
        counts.read += read.trim().parse::<u64>()?;
        counts.chunks += of.trim().parse::<u64>()?;
    }
    Ok(())
}
