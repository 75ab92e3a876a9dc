//! Gets the engine's plan for EXPLAIN. The engine plans the query, but does not run it. This process does not compute
//! rows to be sent along either, and calls no functions except PostgreSQL's own.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use plan::Literal;
use protocol::tree::EnginePlan;

use super::checks;
use super::conversation::Question;
use super::sent;
use crate::pg::attempt::attempt;
use crate::pg::place::Place;
use crate::pg::session;
use crate::pg::tree::Node;
use crate::settings;
use crate::spec::ScanSpec;

thread_local! {
    /// The start time of the statement in which the engine did not answer. Later nodes of that statement do not ask the
    /// engine again.
    static GIVEN_UP: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The engine's plan, or the reason why there is none. `params` evaluates the parameters.
pub fn engine_plan(
    spec: &ScanSpec,
    params: impl FnOnce() -> Result<Vec<Option<Literal>>, String>,
    place: Place<'_>,
) -> Result<EnginePlan, String> {
    let limit = Duration::from_millis(settings::EXPLAIN_WAIT_MS.get() as u64);
    if limit.is_zero() {
        return Err("anker.explain_wait is 0".into());
    }
    let statement = session::statement_start();
    if GIVEN_UP.get() == Some(statement) {
        return Err("engine did not answer in time before".into());
    }
    let fingerprints = checks::check(spec, place).map_err(|reason| reason.text)?;
    if !place.expressions().all(is_known_now) {
        return Err("it depends on values that are computed when the query runs".into());
    }
    let params = attempt(AssertUnwindSafe(params))?;
    let begun = Instant::now();
    let told = Question { plan: &spec.plan, params, fingerprints }.outline(sent::expected(place), limit, place);
    if told.is_err() && begun.elapsed() >= limit {
        GIVEN_UP.set(Some(statement));
    }
    told
}

/// Whether a parameter can be evaluated although the query does not run.
fn is_known_now(expression: Node<'_>) -> bool {
    let comes_later = |node: Node<'_>| match node.tag() {
        pg_sys::NodeTag::T_SubPlan | pg_sys::NodeTag::T_AlternativeSubPlan => true,
        // A domain's check constraints may call any function.
        pg_sys::NodeTag::T_CoerceToDomain => true,
        _ => node.cast::<pg_sys::Param>().is_some_and(|param| param.paramkind == pg_sys::ParamKind::PARAM_EXEC),
    };
    !expression.any(comes_later) && expression.calls_only_builtin()
}
