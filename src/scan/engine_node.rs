//! The node "Anker Engine": the scan of the engine's result, as the executor sees it.
//!
//! The chooser, the node above this one, starts the scan and fetches its first rows.

use std::ffi::CStr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use pgrx::prelude::*;
use plan::Literal;

use super::checks;
use super::conversation::{Conversation, Question, check_silence};
use super::foretell;
use super::outline;
use super::result::EngineResult;
use super::sent;
use super::trouble::Trouble;
use crate::pg::attempt::attempt;
use crate::pg::catalog::relation_name;
use crate::pg::delivery::Delivery;
use crate::pg::explain::Explain;
use crate::pg::place::{Expression, Flags, Place, Slot};
use crate::pg::scan_node::{Methods, ScanNode};
use crate::pg::tree::Node;
use crate::pg::types;
use crate::pg::zone::{self, ServerZone};
use crate::reason::{Reason, Why};
use crate::shared::statements::EngineFigures;
use crate::spec::{ENGINE, ScanSpec, Source, from_node};

/// The greatest length of a parameter that is a text or a byte string. It is limited because a request lies in memory
/// until it is sent.
const LONGEST_PARAMETER: usize = 1 << 20;

pub struct EngineNode {
    spec: ScanSpec,
    params: Vec<Expression>,
    flags: Flags,
    /// The number of rows that were sent with the request.
    rows_sent: u64,
    /// The session's time zone, if the engine was told of it.
    zone: Option<ServerZone>,
    /// The engine's result, once the engine was asked.
    result: Option<EngineResult>,
}

pub static METHODS: Methods<EngineNode> = Methods::new();

impl ScanNode for EngineNode {
    const NAME: &'static CStr = ENGINE;
    const FILTERED: bool = true;

    fn methods() -> &'static Methods<EngineNode> {
        &METHODS
    }

    fn begin(place: Place<'_>, flags: Flags) -> EngineNode {
        let Some(spec) = place.private().next().and_then(from_node::<ScanSpec>) else {
            error!("pg_anker: a plan node cannot be read");
        };
        let params = place.prepare();
        EngineNode { spec, params, flags, rows_sent: 0, zone: None, result: None }
    }

    fn next<'a>(&mut self, place: Place<'a>) -> Slot<'a> {
        let Some(result) = &mut self.result else {
            error!("pg_anker: the engine was not asked");
        };
        // SAFETY: the result's columns are those of the plan, and a row stays valid until the next row is requested.
        unsafe { place.store(|values, nulls| result.next_row(values, nulls)) }
    }

    fn run(&mut self, _all: bool) {}

    fn ran(&mut self, _rows: u64) {}

    fn deliver(&mut self, _to: Option<Delivery>) {}

    fn rescan(&mut self) {
        if !self.result.as_mut().is_none_or(EngineResult::rewind) {
            error!("pg_anker: a result that was not kept cannot be read again");
        }
    }

    fn shut_down(&mut self) {}

    fn end(&mut self, _place: Place<'_>) {
        self.release();
    }

    fn explain(&self, place: Place<'_>, out: &Explain<'_>) {
        out.list(c"Relations", self.spec.plan.tables().map(|table| relation_name(pg_sys::Oid::from(table.relid))));
        if !self.spec.sent.is_empty() {
            out.list(c"Sent Along", self.spec.sent.iter().cloned());
        }
        if self.flags.explain_only() {
            let told = foretell::engine_plan(&self.spec, || self.values(place), place);
            return outline::show(told.as_ref().map_err(String::as_str), &self.spec, place, out);
        }
        let Some(result) = self.result.as_ref().filter(|_| out.analyzes()) else {
            return;
        };
        let conversation = &result.conversation;
        if !self.spec.sent.is_empty() {
            out.number(c"Rows Sent Along", self.rows_sent);
        }
        if let Some(ready) = &conversation.ready {
            let taken = Duration::from_micros(ready.snapshot_us);
            out.property(c"Mechanism", &ready.mechanism);
            out.time(c"Snapshot Time", taken);
            out.time(c"Wait", conversation.wait.saturating_sub(taken));
            out.number(c"Undone Transactions", ready.undone_transactions);
            out.number(c"Undone Changes", ready.undone_changes);
        }
        if let Some(done) = &conversation.done {
            if !self.spec.names.iter().any(|names| names.hides) {
                out.number(c"Rows Scanned", done.scanned_rows);
            }
            out.number(c"Rows", done.rows);
            out.time(c"Queue Time", Duration::from_micros(done.queued_us));
            out.time(c"Engine Time", Duration::from_micros(done.engine_us));
        } else {
            out.number(c"Rows", result.rows);
        }
        let plan = conversation.done.as_ref().map(|done| done.plan.as_deref());
        match plan {
            Some(Some(plan)) => outline::show(Ok(plan), &self.spec, place, out),
            Some(None) => {}
            None => outline::show(Err("the result was not read to its end"), &self.spec, place, out),
        }
    }
}

impl EngineNode {
    /// Checks in this process whether the engine may be asked.
    pub fn check(&self, place: Place<'_>) -> Result<(), Reason> {
        checks::check(&self.spec, place).map(drop)
    }

    /// Evaluates the parameters and sends the request.
    pub fn ask(&mut self, place: Place<'_>) -> Result<(), Reason> {
        // These checks come first, so that no parameter is evaluated if the engine may not be asked.
        let fingerprints = checks::check(&self.spec, place)?;
        check_silence()?;
        sent::hold_relations(place);
        self.zone = self.spec.sources.contains(&Source::SessionZone).then(zone::of_session);
        let evaluate_all = || {
            let values = self.values(place).map_err(|what| Why::Value.of(what))?;
            Ok::<_, Reason>((values, sent::compute(&self.spec, place)?))
        };
        let mut sources = place.expressions().zip(&self.spec.sources);
        let cannot_raise = |(expr, source): (Node<'_>, &Source)| match source {
            Source::SessionZone => true,
            Source::Zone => false,
            _ => expr.tag() == pg_sys::NodeTag::T_Param,
        };
        let (values, sent) = match self.spec.sent.is_empty() && sources.all(cannot_raise) {
            true => evaluate_all()?,
            false => attempt(AssertUnwindSafe(evaluate_all))?,
        };
        self.rows_sent = sent.iter().map(|sent| u64::from(sent.rows)).sum();
        let question = Question { plan: &self.spec.plan, params: values, fingerprints };
        let conversation = Conversation::begin(question, sent, place)?;
        self.result = Some(EngineResult::new(self.spec.columns.clone(), conversation));
        Ok(())
    }

    /// Evaluates the parameters.
    fn values(&self, place: Place<'_>) -> Result<Vec<Option<Literal>>, String> {
        let params = self.params.iter().zip(self.spec.plan.params.iter().zip(&self.spec.sources));
        params.map(|(expr, (ty, source))| evaluate(expr, *ty, *source, place)).collect()
    }

    /// Waits for the engine's first rows, or for all rows if the first row must not be returned before the last has
    /// arrived. After that, the engine can no longer refuse the query or fail on a value.
    pub fn prime(&mut self, place: Place<'_>, reads_ahead: bool) -> Result<(), Trouble> {
        if self.zone.is_some_and(|zone| zone != zone::of_session()) {
            let text = "the session's time zone has changed since the query began";
            return Err(Trouble::Reason(Why::TimeZone.of(text)));
        }
        let must_be_all = self.flags.rewind() || self.spec.plan.may_fail_late();
        // Until sorted rows are fetched, the engine keeps them in memory that all queries share. So sorted rows are
        // fetched early.
        let reads_ahead = reads_ahead || self.spec.plan.order().is_some();
        let result = self.result.as_mut().ok_or_else(|| "engine was not asked".to_string())?;
        if must_be_all || reads_ahead { result.fetch(place, must_be_all) } else { result.begin() }
    }

    /// Sends the rows that have arrived, except the last, to the client.
    pub fn deliver_ahead(&mut self, place: Place<'_>, delivery: &mut Delivery) {
        if let Some(result) = &mut self.result {
            result.deliver_ahead(place, delivery);
        }
    }

    /// The engine's figures for this execution. Those that come with the end of the result are 0 if the result was not
    /// read to its end.
    pub fn figures(&self) -> EngineFigures {
        let Some(result) = &self.result else { return EngineFigures::default() };
        let done = result.conversation.done.as_ref();
        EngineFigures {
            wait_us: result.conversation.wait.as_micros() as u64,
            queue_us: done.map_or(0, |done| done.queued_us),
            peak_memory_bytes: done.map_or(0, |done| done.peak_memory_bytes),
            spilled_bytes: done.map_or(0, |done| done.spilled_bytes),
        }
    }

    /// Closes the connection to the engine and drops its rows.
    pub fn release(&mut self) {
        if let Some(result) = &mut self.result {
            result.release();
        }
    }
}

fn evaluate(
    expression: &Expression,
    ty: plan::Type,
    source: Source,
    place: Place<'_>,
) -> Result<Option<Literal>, String> {
    if source == Source::SessionZone {
        return zone::of_session().description().map(|zone| Some(Literal::Text(zone)));
    }
    let Some(datum) = place.value(expression)? else {
        return Ok(None);
    };
    let is_text = matches!(ty, plan::Type::Text | plan::Type::Char | plan::Type::Bytes | plan::Type::Opaque);
    // SAFETY: the planner has made the parameter from an expression of this type.
    unsafe {
        if is_text && pg_sys::toast_raw_datum_size(datum) > LONGEST_PARAMETER {
            return Err("a value in it is longer than 1 MB".into());
        }
        Ok(Some(match source {
            Source::Value | Source::SessionZone => types::literal(datum, ty)?,
            Source::Zone => match types::literal(datum, ty)? {
                Literal::Text(name) => Literal::Text(zone::named(&name)?),
                _ => return Err("a time zone whose name is no text".into()),
            },
        }))
    }
}
