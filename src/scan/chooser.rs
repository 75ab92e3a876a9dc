//! The node "Anker" chooses between engine and heap once, before the first row.
//!
//! ```text
//!   begin    ask the engine, unless a reason against it is known
//!   1st row  wait until the engine can no longer refuse; if it has refused, start the heap's plan under the same
//!            snapshot, and make that plan first if the planner has not made it
//!   rows     return the rows of the chosen side
//! ```

use std::ffi::CStr;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::engine_node::EngineNode;
use super::tally::Tally;
use super::trouble::Trouble;
use crate::pg::child::Child;
use crate::pg::delivery::Delivery;
use crate::pg::explain::Explain;
use crate::pg::place::{Flags, Place, Slot};
use crate::pg::planning;
use crate::pg::scan_node::{Below, Methods, ScanNode};
use crate::pg::session;
use crate::pg::statement::Unplanned;
use crate::reason::{Reason, Why};
use crate::settings::{FALLBACK, ROUTE, Route};
use crate::shared;
use crate::spec::{CHOOSER, ChooserSpec, HeapSide, Unasked, from_node};
use crate::verifying;

pub struct Chooser {
    flags: Flags,
    /// PostgreSQL's nodes over the engine's scan; `None` if the query could not be translated.
    engine_side: Option<Child>,
    /// The engine's scan, below those nodes.
    leaf: Option<Below<EngineNode>>,
    /// The heap's side; `None` until the heap is needed.
    heap: Option<Child>,
    /// The query from which the heap's plan is made when the heap is needed; `None` if the heap's plan exists already.
    unplanned: Option<Unplanned>,
    runs_to_end: bool,
    active: Option<Side>,
    /// The reason why the query runs on the heap.
    reason: Option<Reason>,
    /// The JIT flags to set when the heap's plan is started; `None` if the statement has kept its flags.
    compiled: Option<i32>,
    /// The way in which rows are sent to the client past the executor, if they are.
    delivery: Option<Delivery>,
    /// The planner's cost comparison, if the query did not ask for the engine. Running such a query on the heap is
    /// never an error.
    unasked: Option<Unasked>,
    tally: Tally,
}

/// The chosen side.
#[derive(Clone, Copy)]
enum Side {
    Engine,
    Heap,
}

pub static METHODS: Methods<Chooser> = Methods::new();

impl ScanNode for Chooser {
    const NAME: &'static CStr = CHOOSER;
    const FILTERED: bool = false;

    fn methods() -> &'static Methods<Chooser> {
        &METHODS
    }

    fn begin(place: Place<'_>, flags: Flags) -> Chooser {
        let tally = Tally::begin(place.query_id());
        let spec = place.private().next().and_then(from_node);
        let ChooserSpec { heap, unasked } = spec.expect("what the planner tells the node that chooses");
        let (mut unplanned, mut compiled, mut alone) = (None, None, None);
        match heap {
            HeapSide::Planned { jit_flags } => compiled = Some(jit_flags),
            HeapSide::Unplanned { options } => unplanned = Some(Unplanned::new(planning::for_heap, options)),
            HeapSide::Alone(reason) => alone = Some(reason),
        }
        let mut chooser = Chooser {
            flags,
            engine_side: None,
            leaf: None,
            heap: None,
            unplanned,
            runs_to_end: false,
            active: None,
            reason: None,
            compiled,
            delivery: None,
            unasked,
            tally,
        };
        if chooser.unplanned.is_some() && !flags.explain_only() {
            place.hold_all_relations();
        }
        // The setting may have changed after the plan was made.
        if ROUTE.get() == Route::Off {
            chooser.start_heap(place, Why::RouteOff.of("anker.route is off"));
        } else if let Some(reason) = alone {
            if !still_holds(&reason, place) {
                session::plan_anew();
            }
            // Under `anker.route = auto`, a plan with only the heap's side is made just for EXPLAIN, to show the
            // reason.
            match unasked.is_some() {
                true => chooser.start_heap(place, reason),
                false => chooser.do_without_engine(place, reason),
            }
        } else if let Err(reason) = chooser.ask_engine(place) {
            chooser.do_without_engine(place, reason);
        }
        chooser.tally.pause();
        chooser
    }

    fn next<'a>(&mut self, place: Place<'a>) -> Slot<'a> {
        self.tally.go();
        if self.active().is_none() {
            // SAFETY: neither this frame nor the callback around it owns anything.
            unsafe { self.start(place) };
        }
        if self.delivery.is_some() {
            self.deliver_ahead();
        }
        let side = self.active().expect("a chosen side");
        // SAFETY: neither this frame nor the callback around it owns anything.
        unsafe { side.next(place) }
    }

    fn run(&mut self, all: bool) {
        self.runs_to_end = all;
        self.tally.go();
    }

    fn ran(&mut self, rows: u64) {
        self.tally.ran(rows);
    }

    fn deliver(&mut self, to: Option<Delivery>) {
        self.delivery = to;
    }

    fn rescan(&mut self) {
        if let Some(side) = self.active() {
            side.rescan();
        }
    }

    fn shut_down(&mut self) {
        if let Some(heap) = &self.heap {
            heap.shut_down();
        }
    }

    fn end(&mut self, place: Place<'_>) {
        let by_engine = matches!(self.active, Some(Side::Engine));
        let figures = self.leaf().filter(|_| by_engine).map(|(node, _)| node.figures());
        self.tally.count(figures, place.rows_processed());
        self.engine_side.take().into_iter().chain(self.heap.take()).for_each(Child::end);
    }

    fn explain(&self, _: Place<'_>, out: &Explain<'_>) {
        match &self.reason {
            Some(reason) => {
                out.property(c"Anker", &format!("heap, because {reason}"));
                if out.is_verbose() || !out.is_text() {
                    out.property(c"Heap Reason", reason.why.name());
                }
            }
            None => out.property(c"Anker", "engine"),
        }
        if let Some(cost) = self.unasked.as_ref().and_then(|unasked| unasked.other_cost) {
            let is_heap_alone = self.engine_side.is_none();
            out.cost(if is_heap_alone { c"Engine Cost" } else { c"Heap Cost" }, cost);
        }
        if let Some(heap) = &self.heap {
            out.statement(heap);
        }
    }
}

/// Whether a reason that was found at planning time still holds in this transaction. PostgreSQL replans a transient
/// statement only when its oldest visible transaction has moved, and other transactions can prevent that.
fn still_holds(reason: &Reason, place: Place<'_>) -> bool {
    match reason.why {
        Why::Written => place.may_have_written(),
        Why::Parallel => session::in_parallel_mode(),
        _ => true,
    }
}

impl Chooser {
    fn active(&self) -> Option<&Child> {
        match self.active? {
            Side::Engine => self.engine_side.as_ref(),
            Side::Heap => self.heap.as_ref(),
        }
    }

    /// The engine's scan.
    fn leaf(&mut self) -> Option<(&mut EngineNode, Place<'_>)> {
        // SAFETY: the executor runs the engine's scan only below this node, and this node's callback is not running it
        // now.
        self.leaf.as_mut().map(|leaf| unsafe { leaf.parts() })
    }

    /// Starts the engine's side, and asks the engine unless this is only an EXPLAIN.
    fn ask_engine(&mut self, place: Place<'_>) -> Result<(), Reason> {
        let runs = !self.flags.explain_only();
        let side = place.start(0, self.flags);
        self.leaf = side.last();
        self.engine_side = Some(side);
        let (node, place) = self.leaf().expect("the engine's scan below its side");
        match runs {
            true => node.ask(place),
            false => node.check(place),
        }
    }

    /// Prepares the chosen side for its first row.
    ///
    /// # Safety
    ///
    /// No frame between here and the executor owns anything that must be dropped, because errors of the planner jump
    /// over these frames.
    unsafe fn start(&mut self, place: Place<'_>) {
        if self.active.is_none() {
            self.choose(place);
            if let Some(heap) = &self.heap {
                // SAFETY: the heap's side was started within the run of this query. The caller promises the other
                // conditions.
                unsafe { heap.run_hooks(place) };
            }
        }
        if self.heap.is_none() && matches!(self.active, Some(Side::Heap)) {
            // SAFETY: by the caller's promise.
            unsafe { self.plan_heap(place) };
        }
    }

    /// # Safety
    ///
    /// As for [`Chooser::start`].
    unsafe fn plan_heap(&mut self, place: Place<'_>) {
        if let Some(how) = self.unplanned {
            let query = place.private().nth(1).expect("the query behind the spec");
            // SAFETY: by the caller's promise; the query's relations are in the range table of the statement.
            self.heap = Some(unsafe { place.start_query(query, how, self.flags, self.runs_to_end) });
            self.activate(place, Side::Heap);
        }
    }

    fn choose(&mut self, place: Place<'_>) {
        let reads_ahead = self.engine_side.as_ref().is_some_and(reads_ahead);
        let primed = self.leaf().map(|(node, place)| node.prime(place, reads_ahead));
        match primed.expect("the engine was asked") {
            Ok(()) => self.activate(place, Side::Engine),
            Err(trouble) => self.use_heap(place, trouble),
        }
    }

    /// Sends the engine's rows that have arrived to the client, except the last row, if no node above the scan changes
    /// rows.
    #[inline]
    fn deliver_ahead(&mut self) {
        let is_engines =
            matches!(self.active, Some(Side::Engine)) && self.engine_side.as_ref().is_some_and(Child::is_last);
        if let (true, Some(delivery), Some(leaf)) = (is_engines, &mut self.delivery, &mut self.leaf) {
            // SAFETY: the executor runs the engine's scan only below this node, and this node's callback is not running
            // it now.
            let (node, place) = unsafe { leaf.parts() };
            if delivery.has_begun() && place.is_bare() {
                node.deliver_ahead(place, delivery);
            }
        }
    }

    /// Chooses the heap for a reason that is known before the engine is asked.
    fn do_without_engine(&mut self, place: Place<'_>, reason: Reason) {
        match self.flags.explain_only() {
            true => self.start_heap(place, reason),
            false => self.use_heap(place, Trouble::Reason(reason)),
        }
    }

    fn use_heap(&mut self, place: Place<'_>, trouble: Trouble) {
        if (!FALLBACK.get() && self.unasked.is_none()) || ROUTE.get() == Route::Force {
            refuse(trouble);
        }
        if let Some((node, _)) = self.leaf() {
            node.release();
        }
        let reason = trouble.reason();
        count_fallback(reason.why);
        self.tally.leave(&reason);
        self.start_heap(place, reason);
    }

    fn start_heap(&mut self, place: Place<'_>, reason: Reason) {
        self.reason = Some(reason);
        if self.unplanned.is_some() {
            self.active = Some(Side::Heap);
            if self.flags.explain_only() {
                // SAFETY: the guard catches an error of the planner, so the error jumps over no frame that owns
                // anything.
                unsafe { pg_guard_ffi_boundary(|| self.plan_heap(place)) };
            }
            return;
        }
        if let Some(flags) = self.compiled {
            place.compile_from_now_on(flags);
        }
        self.heap = Some(place.start(place.plan_count() - 1, self.flags));
        self.activate(place, Side::Heap);
    }

    fn activate(&mut self, place: Place<'_>, side: Side) {
        let child = match side {
            Side::Engine => &mut self.engine_side,
            Side::Heap => &mut self.heap,
        };
        if let Some(child) = child {
            place.without_junk(child);
        }
        self.active = Some(side);
    }
}

/// Whether a node above the engine's scan reads rows before it returns its first row. If the engine were lost in
/// between, the heap could no longer be used.
fn reads_ahead(side: &Child) -> bool {
    side.kinds_above_last().any(|kind| !matches!(kind, pg_sys::NodeTag::T_LimitState | pg_sys::NodeTag::T_ResultState))
}

/// Raises an error instead of using the heap. The error names the reason, or is the query's own error.
fn refuse(trouble: Trouble) -> ! {
    match trouble {
        Trouble::Failure(_) => trouble.raise(),
        Trouble::Reason(reason) => {
            ErrorReport::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the columnar engine cannot run this query",
                "refuse",
            )
            .set_detail(reason.text)
            .set_hint(match verifying::now() {
                true => "What is compared with the heap must come of the engine. Try again when it can answer.",
                false => "Set anker.fallback to on, and anker.route to another value than force, to use the heap then.",
            })
            .report(PgLogLevel::ERROR);
            unreachable!("ERROR does not return")
        }
    }
}

fn count_fallback(why: Why) {
    let database = session::database();
    if shared::database(database).is_some() {
        shared::update_database(database, |entry| {
            entry.fallbacks += 1;
            entry.reasons[why.index()] += 1;
        });
    }
}
