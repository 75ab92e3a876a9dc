//! Tests of `anker.mechanism = fork`, with which a forked child of the engine computes a query's groups.

use std::thread::JoinHandle;
use std::time::Duration;

use bench::cluster::{Cluster, Options, wait_for_exit, wait_until};
use bench::queries::{self, ANKER};
use bench::tpcc::{self, Clients, Scale, Workload};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;

use crate::chaos::{self, Writers};
use crate::flagged::same;
use crate::mechanisms::{LIVE, mechanisms};
use crate::runner::{Context, ensure, tests};

tests![
    groups_are_made_in_a_child_as_on_the_heap,
    ankers_queries_beside_transactions,
    what_a_child_cannot_do_is_the_heaps,
    a_child_that_is_killed_is_one_query_for_the_heap,
    nobody_waits_for_a_child_any_more,
    children_end_with_their_engine,
    what_is_written_beside_a_child_has_a_limit,
];

fn forking() -> Options {
    Options::default().set("anker.mechanism", "fork")
}

/// Creates a table of several chunks, with columns of every type that a forked child can compute with.
fn create(client: &mut Client, rows: u32) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TYPE colour AS ENUM ('red', 'green', 'blue');
         CREATE TABLE many (id integer PRIMARY KEY, s smallint, i integer, l bigint, n numeric(9,2), w numeric(30,4), b boolean,
            d date, ts timestamp, tz timestamptz, tm time, o oid, c char(6), v varchar(20), e colour, u uuid, f float8);
         INSERT INTO many SELECT i, i % 100, nullif(i % 7, 3), i::bigint * 1000003, i % 1000 / 7.0, i * 1e20 / 3, i % 3 = 0,
            CASE i % 50 WHEN 0 THEN 'infinity'::date WHEN 1 THEN '-infinity' ELSE '2024-01-01'::date + i % 400 END,
            '2024-01-01'::timestamp + i * interval '1 hour', '2024-01-01'::timestamptz + i * interval '1 s',
            '00:00'::time + i * interval '1 s', i % 5, nullif('c' || i % 4, 'c1'), 'text ' || i % 9,
            (enum_range(NULL::colour))[1 + i % 3], md5((i % 6)::text)::uuid, i FROM generate_series(1, {rows}) i"
    ))?;
    anker::mirror(client, &["many"], LIVE)
}

const QUESTIONS: [&str; 14] = [
    "SELECT count(*) FROM many WHERE anker.olap()",
    "SELECT s, count(*), count(i), sum(i), avg(l), min(d), max(d) FROM many WHERE anker.olap() GROUP BY s",
    "SELECT c, v, sum(n), avg(n), min(w), max(w), sum(w) FROM many WHERE i > 2 AND anker.olap() GROUP BY c, v",
    "SELECT e, b, max(ts), min(tz), max(tm), count(u) FROM many WHERE anker.olap() GROUP BY e, b",
    "SELECT u, o, count(*) FROM many WHERE (b OR c = 'c2') AND NOT s = 5 AND anker.olap() GROUP BY u, o",
    "SELECT d, count(*) FROM many WHERE d BETWEEN '2024-02-01' AND '2024-12-31' AND anker.olap() GROUP BY d",
    "SELECT v, sum(l + i), sum(n * 2), min(-n) FROM many WHERE v <> 'text 4' AND anker.olap() GROUP BY v",
    "SELECT count(*), sum(l) FROM many WHERE n >= 100.125 AND w < 1e20 AND c IS NOT NULL AND anker.olap()",
    "SELECT sum(i), avg(n), min(s) FROM many WHERE id < 0 AND anker.olap()",
    "SELECT s, sum(n) FROM many WHERE anker.olap() GROUP BY s HAVING count(*) > 100 ORDER BY sum(n) DESC LIMIT 5",
    "SELECT max(m) FROM (SELECT s, sum(i) AS m FROM many GROUP BY s) x WHERE anker.olap()",
    "SELECT tz::date = '2024-01-01' AS first, n FROM (SELECT min(tz) AS tz, sum(n) AS n FROM many) x WHERE anker.olap()",
    "SELECT DISTINCT c, b FROM many WHERE s > 50 AND anker.olap()",
    "SELECT i, count(*) FROM many WHERE e IN ('red', 'blue') AND ts >= '2024-02-03 04:00' AND anker.olap() GROUP BY i",
];

fn groups_are_made_in_a_child_as_on_the_heap(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&forking())?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    create(&mut client, context.size(100_000, 20_000))?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    ensure!(anker::text_rows(&mut client, "SELECT mechanism FROM anker.engine")? == ["fork"], "the view differs");
    client.batch_execute("SET anker.max_wait = '60s'")?;
    for question in QUESTIONS {
        let who = anker::analyzed(&mut client, question)?;
        ensure!(who.as_deref() == Some("engine"), "{question}: {who:?}");
        ensure!(mechanisms(&mut client, question)? == ["fork"], "{question}: another mechanism");
        same(&mut client, question)?;
    }
    // A prepared statement gets the values of its parameters only when it is executed.
    client.batch_execute(
        "SET plan_cache_mode = force_generic_plan;
         PREPARE asked(integer, text) AS SELECT c, sum(l) FROM many WHERE i = $1 AND v <> $2 AND anker.olap() GROUP BY c;
         PREPARE plain(integer, text) AS SELECT c, sum(l) FROM many WHERE i = $1 AND v <> $2 GROUP BY c",
    )?;
    for values in ["1, 'text 2'", "NULL, 'text 2'", "5, 'a text of more than fifteen bytes'"] {
        let mut asked = anker::text_rows(&mut client, &format!("EXECUTE asked({values})"))?;
        let mut plain = anker::text_rows(&mut client, &format!("EXECUTE plain({values})"))?;
        asked.sort();
        plain.sort();
        ensure!(asked == plain, "{values}: {asked:?}, {plain:?}");
    }

    let served = anker::counter(&mut client, "queries_served")?;
    // The snapshots do not see the writers' transactions in progress, nor those that ended later.
    let writers = Writers::start(&cluster, 2, "", Duration::from_millis(2))?;
    let mut old = cluster.connect()?;
    for round in 1..context.size(30, 8) {
        old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL anker.max_wait = '60s'; SELECT 1")?;
        client.batch_execute(&format!(
            "UPDATE many SET i = i + {round}, c = 'u{round}', v = v || {round}, n = n + 1 WHERE id % 31 = {round} % 31;
             DELETE FROM many WHERE id % 1009 = {round};
             INSERT INTO many (id, i, c, n) SELECT -{round} * 100 - i, i, NULL, 1 FROM generate_series(1, 50) i"
        ))?;
        for question in QUESTIONS {
            crate::flagged::same_in_transaction(&mut old, question, crate::flagged::First::Flagged)?;
        }
        old.batch_execute("COMMIT")?;
        same(&mut client, QUESTIONS[round as usize % QUESTIONS.len()])?;
        same(&mut client, "SELECT c, count(*), sum(i8), max(d), min(n9) FROM kinds WHERE anker.olap() GROUP BY c")?;
        same(&mut client, "SELECT k, count(*), sum(n) FROM bag WHERE anker.olap() GROUP BY k")?;
    }
    ensure!(writers.stop()? > 20, "the writers got hardly anything done");
    let served = anker::counter(&mut client, "queries_served")? - served;
    ensure!(served > 50, "the engine answered {served} queries");
    for table in chaos::TABLES.into_iter().chain(["many"]) {
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    }
    no_children(&mut client)
}

/// This is configuration HEE_fork of the AnKer paper: forked children answer some of its eight queries, with the same
/// rows as the heap.
fn ankers_queries_beside_transactions(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&forking())?;
    let scale = Scale::small(1);
    tpcc::create(&cluster.config(), scale)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, &queries::TABLES, LIVE)?;
    client.batch_execute("SET anker.max_wait = '60s'")?;
    let mut answered = Vec::new();
    for query in &ANKER {
        let who = anker::analyzed(&mut client, &query.flagged())?.unwrap_or_default();
        let wanted = match query.name {
            "Q1" => "it reads several tables",
            "Q4" | "Q5" => "its rows are not grouped",
            _ => {
                answered.push(query);
                "engine"
            }
        };
        ensure!(who.contains(wanted), "{}: {who}", query.name);
    }
    let clients = Clients::start(&cluster.config(), Workload::of(scale, 2))?;
    for _ in 0..context.size(20, 5) {
        for query in &answered {
            let compared = queries::compare(&mut client, query)?;
            ensure!(compared.same(), "{}: {}", query.name, compared.difference());
        }
    }
    let totals = clients.stop();
    ensure!(totals.errors.is_empty() && totals.transactions > 20, "hardly any transactions: {:?}", totals.errors);
    no_children(&mut client)
}

fn what_a_child_cannot_do_is_the_heaps(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&forking())?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    create(&mut client, 3000)?;
    client.batch_execute(
        "CREATE TABLE parted (id integer PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
         CREATE TABLE keys (k text PRIMARY KEY); INSERT INTO keys SELECT repeat('k', 30) || i FROM generate_series(1, 10) i;
         CREATE TABLE wide (id integer PRIMARY KEY); INSERT INTO wide SELECT generate_series(1, 70000)",
    )?;
    anker::mirror(&mut client, &["parted", "keys", "wide"], LIVE)?;
    // The plans of these queries show that a child cannot answer them. So the engine refuses them before it forks.
    for (sql, why) in [
        ("SELECT id FROM many WHERE anker.olap()", "its rows are not grouped"),
        ("SELECT c FROM many WHERE anker.olap() ORDER BY c LIMIT 3", "its rows are not grouped"),
        ("SELECT count(*) FROM many JOIN wide USING (id) WHERE anker.olap()", "it reads several tables"),
        ("SELECT sum(f) FROM many WHERE anker.olap()", "an aggregate that is not"),
        ("SELECT f, count(*) FROM many WHERE anker.olap() GROUP BY f", "a column that is neither"),
        ("SELECT count(DISTINCT i) FROM many WHERE anker.olap()", "distinct values"),
        ("SELECT count(*) FROM many WHERE length(v) > 3 AND anker.olap()", "a function"),
        ("SELECT sum(CASE WHEN b THEN 1 END) FROM many WHERE anker.olap()", "a conditional expression"),
        ("SELECT sum(l / 3) FROM many WHERE anker.olap()", "a division"),
        ("SELECT s, count(*) FROM many WHERE anker.olap() GROUP BY ROLLUP (s)", "grouping sets"),
        ("SELECT count(*) FROM many WHERE v = 'no text is as long as that' AND anker.olap()", "more than 15 bytes"),
    ] {
        let who = anker::analyzed(&mut client, sql)?.unwrap_or_default();
        ensure!(who.starts_with("heap, because") && who.contains(why), "{sql}: {who}");
        let told = anker::text_rows(&mut client, &format!("EXPLAIN {sql}"))?;
        ensure!(told.iter().any(|line| line.contains(why)), "{sql}: {told:#?}");
        same(&mut client, sql)?;
    }
    // A child cannot answer these queries because of values in the columns. The child finds such a value, and gives up.
    for (sql, why) in [
        ("SELECT k, count(*) FROM keys WHERE anker.olap() GROUP BY k", "groups by no text of more than 15 bytes"),
        ("SELECT id, count(*) FROM wide WHERE anker.olap() GROUP BY id", "more than 65536 groups"),
        ("SELECT max(id + 2147481000) FROM many WHERE anker.olap()", "out of range"),
    ] {
        let error = anker::analyzed(&mut client, sql);
        if let Ok(Some(who)) = &error {
            ensure!(who.contains(why), "{sql}: {who}");
        }
        same(&mut client, sql)?;
    }
    let counted = anker::text_rows(&mut client, "SELECT fallback_reasons ->> 'mechanism' FROM anker.engine")?;
    ensure!(counted.concat().parse::<u32>().is_ok_and(|count| count > 10), "counted: {counted:?}");
    no_children(&mut client)
}

/// A query whose forked child has begun and is stopped by a signal, and the thread that waits for the query's answer.
struct Held {
    engine: u32,
    child: u32,
    asking: Option<JoinHandle<Result<Vec<String>>>>,
}

impl Held {
    /// Starts the query in a new session, which runs `setup` first.
    fn start(cluster: &Cluster, client: &mut Client, setup: &str, sql: &str) -> Result<Held> {
        let engine = anker::engine_pid(client)?;
        for _ in 0..50 {
            let mut session = cluster.connect()?;
            session.batch_execute(setup)?;
            let sql = sql.to_owned();
            let asking = std::thread::spawn(move || anker::text_rows(&mut session, &sql));
            let mut child = None;
            while child.is_none() && !asking.is_finished() {
                child = os::children(engine).first().copied();
            }
            if let Some(child) = child {
                // The child may have answered already.
                let _ = os::kill(child, os::SIGSTOP);
                std::thread::sleep(Duration::from_millis(300));
                if !asking.is_finished() && os::alive(child) {
                    return Ok(Held { engine, child, asking: Some(asking) });
                }
                let _ = os::kill(child, os::SIGKILL);
            }
            let _ = asking.join();
        }
        Err("no child could be caught".into())
    }

    fn answer(&mut self) -> Result<Vec<String>> {
        let asking = self.asking.take().ok_or("it has been answered")?;
        asking.join().map_err(|_| "the session panicked")?
    }

    /// Whether the child has ended and the engine has waited for it.
    fn is_over(&self) -> Result<bool> {
        wait_until(LIVE, || Ok(!os::children(self.engine).contains(&self.child)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = os::kill(self.child, os::SIGCONT);
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

/// No child process of the engine is left, neither running nor as a zombie.
fn no_children(client: &mut Client) -> Result<()> {
    let engine = anker::engine_pid(client)?;
    let none = wait_until(LIVE, || Ok(os::children(engine).is_empty()))?;
    ensure!(none, "children of the engine are left: {:?}", os::children(engine));
    Ok(())
}

/// The child takes a while to answer this query.
const LONG: &str =
    "SELECT s, i, c, sum(l), avg(n), min(w), max(w), min(ts), max(tz), sum(l + i), sum(l - i), sum(n * 2) FROM many
    WHERE anker.olap() GROUP BY s, i, c ORDER BY s, i, c";

fn with_many(context: &Context, options: &Options) -> Result<(std::sync::Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    create(&mut client, context.size(300_000, 150_000))?;
    client.batch_execute("SET anker.max_wait = '60s'")?;
    Ok((cluster, client))
}

fn a_child_that_is_killed_is_one_query_for_the_heap(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_many(context, &forking())?;
    let plain = anker::text_rows(&mut client, &LONG.replace("anker.olap()", "true"))?;
    for signal in [os::SIGKILL, os::SIGSEGV] {
        let mut held = Held::start(&cluster, &mut client, "", LONG)?;
        os::kill(held.child, signal)?;
        let _ = os::kill(held.child, os::SIGCONT);
        ensure!(held.answer()? == plain, "another answer");
        ensure!(held.is_over()?, "the child is still there");
        // The next query gets a child of its own.
        ensure!(anker::text_rows(&mut client, LONG)? == plain, "another answer");
        let who = anker::analyzed(&mut client, LONG)?;
        ensure!(who.as_deref() == Some("engine") && anker::engine_pid(&mut client)? == held.engine, "{who:?}");
    }
    // With `anker.fallback = off` the heap does not answer.
    let mut held = Held::start(&cluster, &mut client, "SET anker.fallback = off", LONG)?;
    os::kill(held.child, os::SIGKILL)?;
    let error = held.answer().err().map(|e| bench::describe(&*e)).unwrap_or_default();
    ensure!(error.contains("process has ended"), "{error}");
    ensure!(cluster.log().contains("a forked process has no answer"), "the log does not say so");
    no_children(&mut client)
}

fn nobody_waits_for_a_child_any_more(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_many(context, &forking().set("anker.max_queries", "1"))?;
    // Ends one query by a timeout, and another by the end of its session. In both cases the child must end, too.
    let mut held = Held::start(&cluster, &mut client, "SET statement_timeout = '2s'", LONG)?;
    let error = held.answer().err().ok_or("no timeout")?;
    let code = error.downcast_ref::<postgres::Error>().and_then(postgres::Error::code);
    ensure!(code == Some(&SqlState::QUERY_CANCELED), "{}", bench::describe(&*error));
    ensure!(held.is_over()?, "the child of a query that was cancelled is still there");
    let mut held = Held::start(&cluster, &mut client, "SET application_name = 'held'", LONG)?;
    // Another query waits for the only execution slot. Its child has not begun to compute.
    let mut waiting = cluster.connect()?;
    let asked =
        std::thread::spawn(move || anker::text_rows(&mut waiting, "SELECT count(*) FROM many WHERE anker.olap()"));
    let two = wait_until(LIVE, || Ok(os::children(held.engine).len() == 2))?;
    ensure!(two && !asked.is_finished(), "the second query does not wait");
    let live = "SELECT live_snapshots FROM anker.engine";
    ensure!(
        anker::text_rows(&mut client, live)? == ["2"],
        "children are snapshots: {:?}",
        anker::text_rows(&mut client, live)
    );
    client.batch_execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'held'")?;
    ensure!(held.answer().is_err() && held.is_over()?, "the child of a session that was ended is still there");
    let answer = asked.join().map_err(|_| "the session panicked")??;
    ensure!(answer == anker::text_rows(&mut client, "SELECT count(*) FROM many")?, "{answer:?}");
    no_children(&mut client)?;
    ensure!(anker::text_rows(&mut client, live)? == ["0"], "snapshots are left");
    Ok(())
}

fn children_end_with_their_engine(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_many(context, &forking())?;
    let plain = anker::text_rows(&mut client, &LONG.replace("anker.olap()", "true"))?;
    let mut held = Held::start(&cluster, &mut client, "", LONG)?;
    os::kill(held.engine, os::SIGKILL)?;
    let _ = os::kill(held.child, os::SIGCONT);
    ensure!(wait_for_exit(held.child, LIVE)?, "a child outlives its engine");
    ensure!(held.answer()? == plain, "another answer");
    anker::wait_live(&mut client, "many", LIVE)?;
    let who = anker::analyzed(&mut client, LONG)?;
    ensure!(who.as_deref() == Some("engine"), "{who:?}");
    no_children(&mut client)
}

fn what_is_written_beside_a_child_has_a_limit(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_many(context, &forking().set("anker.undo_memory", "1MB"))?;
    let used = anker::counter(&mut client, "memory_bytes")?;
    let engine = anker::engine_pid(&mut client)?;
    cluster.alter_system(&[("anker.memory", &format!("{}MB", (used >> 20) + 12))])?;
    os::kill(engine, os::SIGKILL)?;
    let again = wait_until(LIVE, || Ok(anker::processes(&mut client)?.is_some_and(|(_, pid)| pid != engine)))?;
    ensure!(again, "there is no engine");
    anker::wait_live(&mut client, "many", LIVE)?;
    let mut held = Held::start(&cluster, &mut client, "", &format!("EXPLAIN (ANALYZE, COSTS off) {LONG}"))?;
    // The updates write to all pages of most columns while the child lives, so the kernel has to copy all these pages.
    let mut round = 0;
    let over = wait_until(LIVE, || {
        round += 1;
        client.batch_execute(&format!(
            "UPDATE many SET s = s + 1, i = i + 1, l = l + 1, n = n + 1, w = w + 1, ts = ts + interval '1 s', o = 7,
                tz = tz + interval '1 s', tm = tm + interval '1 s', u = md5(id::text)::uuid WHERE id % 20 = {round} % 20"
        ))?;
        Ok(!os::children(held.engine).contains(&held.child))
    })?;
    ensure!(over, "the child is still there");
    let told = held.answer()?;
    ensure!(told.iter().any(|line| line.contains("does not fit into anker.memory")), "{told:#?}");
    ensure!(anker::counter(&mut client, "copied_bytes")? > 1 << 20, "no copies were counted");
    no_children(&mut client)?;
    ensure!(anker::engine_pid(&mut client)? == held.engine, "the engine did not survive it");
    let broken = anker::text_rows(&mut client, "SELECT relation, reason FROM anker.tables WHERE state <> 'live'")?;
    ensure!(broken.is_empty(), "a table was given up for it: {broken:?}");
    same(&mut client, LONG)?;
    Ok(())
}
