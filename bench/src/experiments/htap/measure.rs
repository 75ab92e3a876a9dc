//! One run of one configuration, and its rows.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Configuration, Options, Side};
use crate::experiments::side_by_side;
use crate::queries::{self, ANKER, Query};
use crate::report::Findings;
use crate::stage::Stage;
use crate::streams::{Explain, Order, Plan};
use crate::tpcc::{self, Access, Pace, Scale, Workload};
use crate::trial::{Checked, Trial};
use crate::{Result, anker};

/// The purpose of a run.
#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    /// Figures 6 and 7, and a column of Table 2.
    Mixed,
    /// Figure 8 (a) and (b).
    TransactionStreams,
    /// Figure 8 (c).
    QueryStreams,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Mixed => "mixed",
            Part::TransactionStreams => "transaction streams",
            Part::QueryStreams => "query streams",
        }
    }
}

/// Conditions of a run that are the same for all configurations.
pub struct Conditions {
    part: Part,
    workload: Workload,
    queries: Vec<&'static Query>,
    /// The number of streams of queries.
    sessions: u32,
    every: Duration,
    quiet: Duration,
    measured: Duration,
}

/// The name of a figure: 1 if the engine was meant to answer the query, 0 if its mechanism cannot answer this query.
pub const BY_ENGINE: &str = "query of the engine";
/// The number of sessions that run queries, as in the paper.
const SESSIONS: u32 = 2;
/// The queries of Figure 8 (a) and (b).
pub const TIMED: [&str; 2] = ["Q1", "Q6"];
/// The number of clients while the number of streams of queries varies, as in the paper.
const CLIENTS: u32 = 2;

impl Conditions {
    pub fn usual(options: &Options, scale: Scale, access: Access) -> Conditions {
        let pace = options.rate.map_or(Pace::Closed, Pace::Rate);
        let workload = Workload { mix: options.mix, access, pace, ..Workload::of(scale, options.clients) };
        let measured = Duration::from_secs(options.seconds.into()).saturating_sub(options.quiet());
        let measured = measured.max(Duration::from_secs(1));
        let (every, quiet) = (options.every(), options.quiet());
        let queries = ANKER.iter().collect();
        Conditions { part: Part::Mixed, workload, queries, sessions: SESSIONS, every, quiet, measured }
    }

    /// Conditions of Figure 8. There are many runs, so each takes a third of the usual time. While the number of
    /// streams varies, each stream runs as many queries as two streams together in other runs. While the number of
    /// clients varies, only the figure's two queries run.
    pub fn scaling(options: &Options, scale: Scale, part: Part, streams: u32) -> Conditions {
        let usual = Conditions::usual(options, scale, Access::Uniform);
        let (clients, sessions) =
            if part == Part::TransactionStreams { (streams, SESSIONS) } else { (CLIENTS, streams) };
        let every = if part == Part::QueryStreams { usual.every / streams } else { usual.every };
        let workload = Workload { clients, ..usual.workload };
        let measured = (usual.measured / 3).max(Duration::from_secs(1));
        let is_asked = |query: &&Query| part != Part::TransactionStreams || TIMED.contains(&query.name);
        let queries = ANKER.iter().filter(is_asked).collect();
        Conditions { part, workload, queries, sessions, every, measured, ..usual }
    }

    /// A description of the run, which is printed when it begins.
    pub fn told(&self) -> String {
        let Workload { clients, access, scale, .. } = self.workload;
        let (warehouses, access, sessions) = (scale.warehouses, access.name(), self.sessions);
        format!("{warehouses} warehouse(s), {access}, {clients} clients, {sessions} streams of queries")
    }

    fn params(&self, round: usize) -> Value {
        json!({
            "part": self.part.name(), "round": round, "access": self.workload.access.name(),
            "warehouses": self.workload.scale.warehouses, "clients": self.workload.clients, "streams": self.sessions,
        })
    }
}

pub fn one(
    stage: &Stage,
    configuration: &Configuration,
    conditions: &Conditions,
    round: usize,
    findings: &mut Findings,
) -> Result<()> {
    let (mirrored, database) = match &configuration.side {
        Side::Engine(mechanism) | Side::Idle(mechanism) => (true, stage.mirrored_by(mechanism, &tpcc::TABLES)?),
        Side::Heap | Side::Nowhere => (false, stage.bare()?),
    };
    let mut by_engine = Vec::new();
    let outcome = Trial {
        database: &database,
        workload: Workload { isolation: configuration.isolation, ..conditions.workload },
        queries: plan(configuration, conditions, round),
        quiet: conditions.quiet,
        measured: conditions.measured,
        mirrored,
    }
    .run(|client| {
        let mut checked = Checked::default();
        for query in conditions.queries.iter().filter(|_| mirrored) {
            let is_by_engine = anker::analyzed(client, &query.flagged())?.as_deref() == Some("engine");
            // Skips queries that the mechanism leaves to the heap, because the heap's answer would be compared with
            // itself.
            if is_by_engine {
                checked.note(query.name, &queries::compare(client, query)?);
            }
            by_engine.push((query.name, is_by_engine));
        }
        Ok(checked)
    })?;
    database.discard()?;
    let queried = matches!(configuration.side, Side::Engine(_));
    for (query, by_engine) in by_engine.into_iter().filter(|_| queried) {
        let mut params = conditions.params(round);
        params["query"] = json!(query);
        findings.row(BY_ENGINE, &configuration.name, &params, u8::from(by_engine), "");
    }
    let names: Vec<&str> = conditions.queries.iter().map(|query| query.name).collect();
    side_by_side::rows(&outcome, &configuration.name, &names, &conditions.params(round), findings);
    outcome.checked.refuse()
}

/// The plan of queries, which is the same for each configuration of a round. Queries on the mirror run at READ
/// COMMITTED, even if the clients are SERIALIZABLE, because the engine does not answer in SERIALIZABLE transactions
/// that may write.
fn plan(configuration: &Configuration, conditions: &Conditions, round: usize) -> Option<Plan> {
    let (sql, isolation, explain): (fn(&Query) -> String, _, _) = match configuration.side {
        Side::Nowhere | Side::Idle(_) => return None,
        Side::Heap => (Query::heap, configuration.isolation, Explain::Alike),
        Side::Engine(_) => (Query::flagged, tpcc::Isolation::ReadCommitted, Explain::Snapshots),
    };
    Some(Plan {
        queries: conditions.queries.iter().map(|query| sql(query)).collect(),
        order: Order::Random,
        // Each query adds its number to the seed, so the rounds' seeds differ in higher bits only.
        seed: (round as u64) << 40,
        sessions: conditions.sessions,
        every: conditions.every,
        isolation,
        route: "",
        explain,
        numbers: 0,
    })
}
