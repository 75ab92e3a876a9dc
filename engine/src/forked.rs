//! Queries of an engine that forks a child process for each snapshot (`anker.mechanism = fork`), as HyPer did.
//!
//! ```text
//!   connection's thread                        writer                   child
//!   the part of the plan for a child (olap::Forking), memory for it
//!   request ---------------------------------> snapshot of S, fork ----> waits
//!   Ready, a place (max_queries)
//!   "go" ------------------------------------------------------------->  groups
//!   the other operators, over the groups <---------------------------
//! ```
//!
//! The writer forks between two transactions, so that the child finds a consistent store. The child has its own copy of
//! everything. So the parent drops the views of S right after the fork, and writes in place again.

use std::sync::Arc;

use colstore::{Forked, NoAnswer};
use olap::{Forking, Reservation, Rest};
use plan::{Literal, Plan};
use protocol::request::{Failure, FailureKind, QueryRequest, Refusal};
use protocol::tree::EnginePlan;

use crate::log;
use crate::peer::{Gone, Peer};
use crate::shared::Shared;
use crate::writer::Fork;

/// The part of a query that a forked child computes, with the memory reserved for it.
pub struct Task {
    forking: Forking,
    _memory: Reservation,
}

/// The reason why a request is not answered.
pub enum Unplanned {
    Refused(Refusal),
    Failed(Failure),
}

impl Task {
    /// The part of a query that a child computes. `None` if the query gets a snapshot of columns, as it does with every
    /// other mechanism.
    pub fn of(shared: &Shared, request: &QueryRequest) -> Result<Option<Task>, Unplanned> {
        if !shared.forks || request.verifies {
            return Ok(None);
        }
        let forking = check(&request.plan, &request.params).map_err(Unplanned::Refused)?;
        let memory = shared.olap.reserve(forking.bytes()).map_err(Unplanned::Failed)?;
        Ok(Some(Task { forking, _memory: memory }))
    }

    pub fn fork(&self) -> Fork {
        Fork { work: Box::new(self.forking.work()), reply_bytes: self.forking.reply_bytes() }
    }

    /// Makes the child compute its part of the query. `scanned` is the number of rows that this part reads.
    pub fn answer(
        self,
        peer: &mut Peer,
        shared: &Shared,
        child: Arc<Forked>,
        scanned: u64,
    ) -> Result<Result<(Rest, Told), Failure>, Gone> {
        let asked = child.clone();
        let mut asking = shared.threads.usual().spawn_blocking(move || asked.ask());
        let attended = peer.attend(&mut asking);
        // The child's answer has arrived, or the client is gone and nobody needs the answer.
        child.end();
        let answer = match attended {
            Ok(answer) => answer,
            Err(gone) => {
                let _ = shared.threads.usual().block_on(asking);
                return Err(gone);
            }
        };
        // This is the last reference, so the child process is reaped and its memory freed.
        drop(child);
        let reply = match answer {
            Ok(Ok(reply)) => reply,
            Ok(Err(NoAnswer::Starved)) => {
                let what = "a forked process was ended: what was written beside it does not fit into anker.memory";
                return Ok(Err(Failure { kind: FailureKind::OutOfMemory, message: what.into() }));
            }
            Ok(Err(NoAnswer::Ended(error))) => {
                log::line(format_args!("a forked process has no answer: {error}"));
                return Ok(Err(Failure { kind: FailureKind::Forked, message: error.to_string() }));
            }
            Err(panic) => return Ok(Err(Failure { kind: FailureKind::Internal, message: panic.to_string() })),
        };
        Ok(self.forking.rest(&reply).map(|rest| {
            let told = Told { groups: rest.groups.rows.into(), passed: rest.passed, scanned, task: self };
            (rest, told)
        }))
    }
}

/// The child's figures for EXPLAIN. The task is kept here, so that its memory remains reserved until the figures are
/// complete.
pub struct Told {
    task: Task,
    groups: u64,
    passed: u64,
    scanned: u64,
}

impl Told {
    /// The plan of the whole query. `rest` is the plan of the operators that the engine runs over the child's groups.
    pub fn whole(&self, rest: EnginePlan) -> EnginePlan {
        self.task.forking.told(rest, self.groups, self.passed, self.scanned)
    }
}

/// The part of the plan that a child can compute; a refusal if there is none.
pub fn check(plan: &Plan, params: &[Option<Literal>]) -> Result<Forking, Refusal> {
    if params.len() != plan.params.len() {
        return Err(Refusal::Protocol { what: "as many values as parameters are needed".into() });
    }
    Forking::of(plan, params).map_err(|what| Refusal::NotForked { what })
}
