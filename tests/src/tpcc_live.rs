//! AnKer's eight queries on live TPC-C tables.

use std::time::Duration;

use bench::tpcc::{self, Clients, Scale, Workload};
use bench::{Result, anker, queries};

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![eight_queries_beside_transactions];

const LIVE: Duration = Duration::from_secs(60);

fn eight_queries_beside_transactions(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    let scale = Scale::small(2);
    tpcc::create(&cluster.config(), scale)?;
    anker::mirror(&mut client, &tpcc::TABLES, LIVE)?;
    let clients = Clients::start(&cluster.config(), Workload { synchronous_commit: true, ..Workload::of(scale, 3) })?;
    for round in 0..context.size(20, 4) {
        for query in &queries::ANKER {
            same(&mut client, &query.flagged()).map_err(|e| format!("round {round}, {}: {e}", query.name))?;
        }
    }
    let by: Result<Vec<_>> = queries::ANKER.iter().map(|q| anker::analyzed(&mut client, &q.flagged())).collect();
    let by = by?;
    let totals = clients.stop();
    ensure!(by.iter().all(|b| b.as_deref() == Some("engine")), "answered by {by:?}");
    ensure!(totals.errors.is_empty(), "client errors: {:?}", totals.errors);
    ensure!(totals.new_orders > 20, "hardly any new orders: {totals:?}");
    for table in tpcc::TABLES {
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {differences:?}");
    }
    Ok(())
}
