//! The engine answers all queries of TPC-H, CH-benCHmark and the Star Schema Benchmark, with the heap's rows.

use std::time::Duration;

use bench::sets::{self, Answered, Route, Set};
use bench::{Result, anker};

use crate::runner::{Context, ensure, tests};

tests![tpch_queries_are_the_engines, ch_queries_are_the_engines, ssb_queries_are_the_engines];

const LIVE: Duration = Duration::from_secs(120);

fn tpch_queries_are_the_engines(context: &Context) -> Result<()> {
    answered_alike(context, "tpch", 22)
}

fn ch_queries_are_the_engines(context: &Context) -> Result<()> {
    answered_alike(context, "ch", 22)
}

fn ssb_queries_are_the_engines(context: &Context) -> Result<()> {
    answered_alike(context, "ssb", 13)
}

/// Asks all queries of a set on heap and mirror.
fn answered_alike(context: &Context, set: &str, queries: usize) -> Result<()> {
    let set = Set::named(set).ok_or("no such set")?;
    let cluster = context.cluster_with(&sets::cluster_options())?;
    set.create(&cluster.config(), set.quick_scale)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    anker::mirror(&mut client, set.tables, LIVE)?;
    let (mut wrong, mut asked) = (Vec::new(), 0);
    for query in set.queries(set.quick_scale) {
        asked += 1;
        client.batch_execute(Route::Prefer.setting())?;
        let by = sets::answered(&mut client, &query.sql).map_err(|e| format!("{}: {e}", query.name))?;
        if let Answered::Otherwise(reason) = by {
            wrong.push(format!("{}: {reason}", query.name));
        }
        let compared = sets::compare(&mut client, &query)?.ok_or("a query was cancelled")?;
        if !compared.same() {
            wrong.push(format!("{}: different answers: {}", query.name, compared.difference()));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(asked == queries, "{asked} queries, not {queries}");
    Ok(())
}
