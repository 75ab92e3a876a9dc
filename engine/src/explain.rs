//! EXPLAIN: the plan that the engine would run for a query.
//!
//! The query is bound to a snapshot as if it ran, because the join order depends on the snapshot's statistics. Planning
//! happens in the connection's own thread, and needs no place in the admission of running queries.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use colstore::TableView;
use protocol::frame::Kind;
use protocol::request::{ExplainRequest, Failure};
use protocol::tree::EnginePlan;

use crate::peer::Peer;
use crate::shared::Shared;
use crate::{forked, log, query};

/// Answers a request to explain. An error means that the connection can no longer be used.
pub fn answer(peer: &mut Peer, shared: &Shared, request: ExplainRequest) -> io::Result<()> {
    let _open = match shared.open_queries.open(request.query.user) {
        Ok(open) => open,
        Err(refusal) => return peer.refuse(&refusal),
    };
    if shared.forks
        && let Err(refusal) = forked::check(&request.query.plan, &request.query.params)
    {
        return peer.refuse(&refusal);
    }
    match query::bind(peer, shared, &request.query, Instant::now(), &Arc::default(), None)? {
        Err(refusal) => peer.refuse(&refusal),
        Ok(tables) => match outline(shared, request, tables.views) {
            Ok(plan) => peer.send(Kind::Plan, &plan),
            Err(failure) => peer.send(Kind::Failed, &log::without_details(failure)),
        },
    }
}

/// The plan of a query. The views are dropped at the end, which releases the snapshot.
fn outline(shared: &Shared, request: ExplainRequest, tables: Vec<Arc<dyn TableView>>) -> Result<EnginePlan, Failure> {
    let ExplainRequest { query, expected_sent } = request;
    let views = olap::expected_views(&query.plan, tables, expected_sent)?;
    shared.olap.outline(&query.plan, &query.params, views, query::manner(&query))
}
