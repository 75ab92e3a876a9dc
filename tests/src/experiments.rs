//! Runs each benchmark quickly: it must end, all answers must be right, and the report must have the measured figures.

use std::path::Path;

use anker_report::Report;
use anker_report::page::Page;
use bench::cluster::Cluster;
use bench::experiments::{
    Experiment, capture, ch, freshness, htap, load, lookups, orders, pairs, phases, planning, queries, restart, thesis,
};
use bench::{Output, Result, demo};

use crate::runner::{Context, ensure, tests};

tests![
    transactions_and_queries_side_by_side,
    ch_benchmark,
    freshness_and_frontier,
    transactions_around_snapshots,
    costs_of_following,
    a_table_that_is_loaded,
    snapshots_by_each_mechanism,
    rows_by_their_keys,
    plans_in_turns,
    queries_alone,
    orders_of_joins,
    builds_in_turns,
    a_mirror_that_comes_back,
    demonstration,
    a_given_server_is_left_as_it_was,
    mechanisms_that_are_missing_are_said,
    what_cannot_be_given_is_refused,
];

fn quick() -> impl Iterator<Item = String> {
    words("")
}

/// Arguments of a quick run.
fn words(more: &str) -> impl Iterator<Item = String> {
    format!("--quick {more}").split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

fn transactions_and_queries_side_by_side(context: &Context) -> Result<()> {
    let options = htap::Options::parse(quick())?;
    let report = htap::run(context.server(), &options)?;
    let of = |figure: &str| report.rows().iter().filter(|row| row.figure == figure).collect::<Vec<_>>();
    ensure!(
        of("throughput").iter().all(|row| row.number().is_some_and(|rate| rate > 0.0)),
        "a run without transactions"
    );
    ensure!(of("query").len() > 20 && !of("snapshot").is_empty(), "hardly any queries");
    let shares: Vec<f64> = of("answered by the engine").iter().filter_map(|row| row.number()).collect();
    ensure!(!shares.is_empty() && shares.iter().all(|share| *share == 1.0), "shares of the engine: {shares:?}");
    ensure!(of("compared").iter().all(|row| row.number() == Some(8.0)), "not all answers were compared");
    shown(context, report, htap::page)
}

fn ch_benchmark(context: &Context) -> Result<()> {
    let report = ch::run(context.server(), &ch::Options::parse(quick())?)?;
    let values = |figure: &str| values(&report, figure);
    ensure!(values("new_orders").iter().all(|rate| *rate > 0.0), "a run without new orders");
    ensure!(values("answered by the engine") == [1.0], "of the engine: {:?}", values("answered by the engine"));
    ensure!(values("compared") == [22.0] && values("differing") == [0.0], "not all answers were compared");
    shown(context, report, ch::page)
}

fn freshness_and_frontier(context: &Context) -> Result<()> {
    let report = freshness::run(context.server(), &freshness::Options::parse(quick())?)?;
    let scores = values(&report, "score");
    ensure!(scores.len() > 50, "hardly any queries: {}", scores.len());
    // This does not depend on the speed of the machine: an answer contains either all transactions that were committed
    // before the query began, or not.
    ensure!(scores.iter().all(|score| *score == 0.0), "an old answer: {scores:?}");
    let shares = values(&report, "answered by the engine");
    ensure!(!shares.is_empty() && shares.iter().all(|share| *share == 1.0), "shares of the engine: {shares:?}");
    shown(context, report, freshness::page)
}

fn transactions_around_snapshots(context: &Context) -> Result<()> {
    let report = thesis::run(context.server(), &thesis::Options::parse(quick())?)?;
    // Three workloads (two mixes of YCSB, and TPC-H's updates), on the heap and by one mechanism: six figures.
    for (figure, count) in [("throughput", 6), ("client p99", 6), ("client after", 6), ("compared", 3)] {
        let found = values(&report, figure);
        ensure!(found.len() == count && found.iter().all(|value| *value > 0.0), "{figure}: {found:?}");
    }
    let shares = values(&report, "answered by the engine");
    ensure!(shares == [1.0; 3], "shares of the engine: {shares:?}");
    // One of the mixes only reads, so the engine applies no transactions of it.
    let seen = (values(&report, "apply p50").len(), values(&report, "applied, not seen"));
    ensure!(seen == (2, vec![0.0; 3]), "what the engine told: {seen:?}");
    for figure in ["query", "snapshot", "wait", "client mean", "client density", "apply mean", "apply density"] {
        ensure!(!values(&report, figure).is_empty(), "no {figure}");
    }
    shown(context, report, thesis::page)
}

fn costs_of_following(context: &Context) -> Result<()> {
    let report = capture::run(context.server(), &capture::Options::parse(quick())?)?;
    let all_positive = |figure: &str| {
        let found = values(&report, figure);
        !found.is_empty() && found.iter().all(|value| *value > 0.0)
    };
    for figure in ["new_orders", "backend cpu per new order", "engine's share", "applied, p99", "ready, p50", "load"] {
        ensure!(all_positive(figure), "{figure}: {:?}", values(&report, figure));
    }
    ensure!(values(&report, "differing") == [0.0, 0.0], "not all answers were compared, or they differ");
    ensure!(values(&report, "queries").iter().sum::<f64>() > 20.0, "hardly any queries");
    shown(context, report, capture::page)
}

fn a_table_that_is_loaded(context: &Context) -> Result<()> {
    let report = load::run(context.server(), &load::Options::parse(quick())?)?;
    // CPU times may be 0: the kernel counts them in hundredths of a second, and loading so few rows may take less.
    for (figure, least) in [("rows_per_s", 1.0), ("memory_share", 0.01), ("engine_cpu", 0.0), ("others_cpu", 0.0)] {
        let found = values(&report, figure);
        ensure!(found.len() == 2 && found.iter().all(|value| *value >= least), "{figure}: {found:?}");
    }
    shown(context, report, load::page)
}

fn snapshots_by_each_mechanism(context: &Context) -> Result<()> {
    let report = phases::run(context.server(), &phases::Options::parse(quick())?)?;
    for name in ["epochs", "frames", "physical", "rewired", "scoot", "fork"] {
        let of = |figure: &str| report.rows().iter().filter(|r| r.figure == figure && r.subject.name() == name).count();
        ensure!([of("snapshot"), of("wait"), of("resident")] == [10, 10, 1], "{name}: not all was measured");
    }
    shown(context, report, phases::page)
}

fn rows_by_their_keys(context: &Context) -> Result<()> {
    let report = lookups::run(context.server(), &lookups::Options::parse(words("--rounds 2"))?)?;
    // 12 times: two rounds, two protocols, three sessions.
    ensure!(values(&report, "time").len() == 12, "{} times", values(&report, "time").len());
    ensure!(values(&report, "time").iter().all(|time| *time > 0.0), "no time at all");
    shown(context, report, lookups::page)
}

fn plans_in_turns(context: &Context) -> Result<()> {
    let report = planning::run(context.server(), &planning::Options::parse(words("--quick --rounds 2"))?)?;
    // 92 times: two rounds, 22 queries and a count, two servers.
    ensure!(values(&report, "time").len() == 92, "{} times", values(&report, "time").len());
    ensure!(values(&report, "flagged").iter().all(|time| *time > 0.0), "no time at all");
    shown(context, report, planning::page)
}

fn queries_alone(context: &Context) -> Result<()> {
    let report = queries::run(context.server(), &queries::Options::parse(words("--set tpch --scale 0.01"))?)?;
    ensure!(values(&report, "engine") == [1.0; 22], "of the engine: {:?}", values(&report, "engine"));
    let same = report.rows().iter().filter(|row| row.figure == "same_answer" && row.value == true).count();
    ensure!(same == 22, "{same} answers are the same");
    ensure!(values(&report, "geomean").len() == 1, "no mean");
    shown(context, report, queries::page)
}

fn orders_of_joins(context: &Context) -> Result<()> {
    let report = orders::run(context.server(), &orders::Options::parse(words("--orders 3"))?)?;
    ensure!(values(&report, "own_ms").len() == 22, "{} queries", values(&report, "own_ms").len());
    ensure!(values(&report, "orders").iter().sum::<f64>() > 5.0, "no other orders were tried");
    shown(context, report, orders::page)
}

/// Compares this build with itself: its own files, given as another build.
fn builds_in_turns(context: &Context) -> Result<()> {
    let own = std::env::current_exe()?.parent().ok_or("no directory")?.display().to_string();
    let report = pairs::run(context.server(), &pairs::Options::parse(words(&format!("--base {own}")))?)?;
    // 88 times: 22 queries, two rounds, two builds.
    ensure!(values(&report, "time").len() == 88, "{} times", values(&report, "time").len());
    ensure!(values(&report, "cpu").iter().all(|time| *time > 0.0), "no CPU time at all");
    shown(context, report, pairs::page)
}

fn a_mirror_that_comes_back(context: &Context) -> Result<()> {
    let report = restart::run(context.server(), &restart::Options::parse(quick())?)?;
    // Five losses, each without a checkpoint and with one.
    for (figure, count) in [("live", 10), ("changed", 5), ("checkpoint", 2), ("throughput", 2), ("written, of WAL", 1)]
    {
        let found = values(&report, figure);
        ensure!(found.len() == count && found.iter().all(|value| *value >= 0.0), "{figure}: {found:?}");
    }
    shown(context, report, restart::page)
}

fn demonstration(context: &Context) -> Result<()> {
    let written = |name: &str| context.home().join(name).display().to_string();
    let [html, json, svg] = ["demo.html", "demo.json", "demo.svg"].map(written);
    let words = format!("--warehouses 1 --seconds 6 --html {html} --json {json} --svg {svg}");
    let options = demo::Options::parse(self::words(&words))?;
    let (_cluster, same) = demo::show(context.server(), &options)?;
    ensure!(same, "heap and mirror gave different answers");
    let report = Report::read(Path::new(&json))?;
    let seconds = values(&report, "second");
    ensure!(seconds.len() == 6 && seconds.iter().any(|rate| *rate > 0.0), "seconds: {seconds:?}");
    let scores = values(&report, "score");
    ensure!(!scores.is_empty() && scores.iter().all(|score| *score == 0.0), "scores: {scores:?}");
    let errors = &report.meta()["errors"];
    ensure!(errors.as_array().is_some_and(Vec::is_empty), "errors: {errors}");
    let (picture, page) = (std::fs::read_to_string(svg)?, std::fs::read_to_string(html)?);
    ensure!(picture.starts_with("<svg ") && picture.matches("<g ").count() == 2, "two plots are in the picture");
    ensure!(page.contains("100.0 % of the answers of the mirror"), "the page does not say how old the answers are");
    shown(context, report, demo::page)
}

/// Runs all experiments that can run on a given server. Each creates databases of its own, and drops them at its end.
fn a_given_server_is_left_as_it_was(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TABLE kept (id integer PRIMARY KEY)")?;
    for (name, more) in [
        ("htap", "--levels read-committed --seconds 2"),
        ("capture", "--seconds 1"),
        ("freshness", "--clients 1 --streams 1"),
        ("thesis", "--mixes A --records 500 --transactions 400"),
        ("queries", "--set tpch --scale 0.01 --runs 1"),
    ] {
        let planned = plan(name, given(&cluster, more))?;
        let report = planned(context.server()).map_err(|e| format!("{name}: {}", bench::describe(&*e)))?;
        ensure!(report.rows().len() > 10, "{name}: {} figures", report.rows().len());
        let left = "SELECT count(*) FROM pg_database WHERE datname LIKE 'anker%'";
        let left: i64 = client.query_one(left, &[])?.get(0);
        ensure!(left == 0, "{name} has left {left} databases");
    }
    let kept: i64 = client.query_one("SELECT count(*) FROM kept", &[])?.get(0);
    ensure!(kept == 0, "a table is another one");

    client.batch_execute("CREATE DATABASE anker_bench")?;
    let error = plan("htap", given(&cluster, ""))?(context.server()).err().map_or(String::new(), |e| e.to_string());
    ensure!(error.contains("anker_bench already"), "a database of that name: {error}");
    let there: i64 = client.query_one("SELECT count(*) FROM pg_database WHERE datname = 'anker_bench'", &[])?.get(0);
    ensure!(there == 1, "somebody's database is gone");
    Ok(())
}

/// The words of a quick run on a cluster.
fn given(cluster: &Cluster, more: &str) -> Vec<String> {
    let mut words: Vec<String> = words(more).collect();
    words.extend(["--dsn".to_owned(), cluster.conninfo("postgres")]);
    words
}

fn plan(name: &str, words: Vec<String>) -> Result<Box<bench::experiments::Run>> {
    let experiment = Experiment::named(name).ok_or("no such experiment")?;
    Ok((experiment.plan)(words.into_iter())?.run)
}

fn mechanisms_that_are_missing_are_said(context: &Context) -> Result<()> {
    let run = plan("htap", words("--mechanisms scoot,vm_snapshot --levels read-committed --seconds 2").collect())?;
    let report = run(context.server())?;
    let measured = report.rows().iter().any(|row| row.subject.name() == "scoot, read committed");
    ensure!(measured, "scoot was not measured");
    let patched = report.rows().iter().any(|row| row.subject.name() == "vm_snapshot, read committed");
    let text = htap::page(&report).text();
    let told = text.contains("Not measured: vm_snapshot: ") && text.contains("no vm_snapshot");
    ensure!(patched != told, "neither measured nor said to be missing: {text}");
    let error = plan("htap", words("--mechanisms wishes").collect())?(context.server()).err();
    let error = error.map_or(String::new(), |error| error.to_string());
    ensure!(error.contains("wishes is none of") && error.contains("epochs"), "{error}");
    Ok(())
}

fn what_cannot_be_given_is_refused(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&bench::cluster::Options::default().set("wal_level", "replica"))?;
    let run = plan("ch", given(&cluster, ""))?;
    let error = run(context.server()).err().map_or(String::new(), |error| error.to_string());
    ensure!(error.contains("needs wal_level = logical"), "{error}");
    for (name, more) in [
        ("lookups", ""),
        ("planning", ""),
        ("pairs", ""),
        ("htap", "--mechanisms scoot"),
        ("thesis", "--mechanisms scoot"),
    ] {
        let refused = plan(name, given(&cluster, more)).err().map_or(String::new(), |error| error.to_string());
        ensure!(refused.contains("of its own") || refused.contains("needs its own"), "{name}: {refused}");
    }
    Ok(())
}

fn values(report: &Report, figure: &str) -> Vec<f64> {
    report.rows().iter().filter(|row| row.figure == figure).filter_map(|row| row.number()).collect()
}

/// Writes the report and its page. Fails if the page refers to other files. Also fails if the same page cannot be made
/// from the written report.
pub fn shown(context: &Context, mut report: Report, page: fn(&Report) -> Page) -> Result<()> {
    let written = |name: &str| context.home().join(name);
    let output = Output { json: Some(written("report.json")), html: Some(written("report.html")), svg_dir: None };
    output.write(&page(&report), &mut report)?;
    let html = std::fs::read_to_string(written("report.html"))?;
    let outside = html.matches("http").count() - html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
    ensure!(outside == 0 && html.contains("<svg") && !html.contains("<script"), "the page does not stand alone");
    ensure!(!html.contains("NaN") && !html.contains("inf"), "a figure that is no number");
    let again = page(&Report::read(Path::new(&written("report.json")))?).html();
    ensure!(again == html, "the page of the written report is another one");
    Ok(())
}
