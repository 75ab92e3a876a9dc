//! The statements that were meant for the engine, which the view `anker.statements` shows by user, database and query
//! id.
//!
//! There is room for `anker.max_statements` of them. When all places are taken, the statements that are used least make
//! room for a new one. Uses fade each time that room is made, so that statements of long ago do not stay for ever.
//!
//! Statements that are neither flagged nor routed to the engine never come here.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::map::{Entry, Map};
use super::saved::{self, Saved, SavedStatement};
use super::{FixedText, globals};
use crate::pg::{process, session};
use crate::reason::{Reason, Why};
use crate::settings;

static STATEMENTS: Map<Statement> = Map::new(c"pg_anker statements");

/// The factor by which uses fade when room is made.
const FADING: f64 = 0.99;
/// The part of the statements that makes room, as a divisor.
const EVICTED_PART: usize = 20;
/// How often an execution tries to get room for its statement.
const ATTEMPTS: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Key {
    pub user: pg_sys::Oid,
    pub database: pg_sys::Oid,
    pub query_id: i64,
}

/// The executions of a statement by one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Times {
    pub calls: u64,
    pub total_us: u64,
    pub min_us: u64,
    pub max_us: u64,
}

impl Times {
    fn add(&mut self, took: Duration) {
        let micros = took.as_micros() as u64;
        self.min_us = if self.calls == 0 { micros } else { self.min_us.min(micros) };
        self.max_us = self.max_us.max(micros);
        self.total_us += micros;
        self.calls += 1;
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Statement {
    pub key: Key,
    pub engine: Times,
    pub heap: Times,
    /// The number of executions on the heap for each reason, in the order of [`Why::ALL`].
    pub reasons: [u64; Why::ALL.len()],
    pub last_reason: Option<Why>,
    pub last_text: FixedText,
    /// The rows that either side returned.
    pub rows: u64,
    pub figures: EngineFigures,
    /// The time of the first execution that is counted, in microseconds since the server's epoch.
    pub since: i64,
    pub(super) usage: f64,
}

// SAFETY: plain data that begins with its key, which consists of two numbers of four bytes and one of eight.
unsafe impl Entry for Statement {
    type Key = Key;

    fn key(&self) -> Key {
        self.key
    }
}

impl Statement {
    pub(super) fn new(key: Key) -> Statement {
        Statement {
            key,
            engine: Times::default(),
            heap: Times::default(),
            reasons: [0; Why::ALL.len()],
            last_reason: None,
            last_text: FixedText::NONE,
            rows: 0,
            figures: EngineFigures::default(),
            since: session::now(),
            usage: 0.0,
        }
    }
}

/// The figures of the engine for one execution, or for all executions of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct EngineFigures {
    /// The time from the request until the engine had the snapshot.
    pub wait_us: u64,
    pub queue_us: u64,
    pub peak_memory_bytes: u64,
    pub spilled_bytes: u64,
}

impl EngineFigures {
    fn add(&mut self, one: EngineFigures) {
        self.wait_us += one.wait_us;
        self.queue_us += one.queue_us;
        self.peak_memory_bytes = self.peak_memory_bytes.max(one.peak_memory_bytes);
        self.spilled_bytes += one.spilled_bytes;
    }
}

/// The side that has answered.
pub enum Answered<'a> {
    Engine(EngineFigures),
    Heap(&'a Reason),
}

/// The state of the list as a whole.
pub(super) struct History {
    /// The number of statements that have made room for others.
    evicted: AtomicU64,
    /// The time at which everything was forgotten last.
    reset: AtomicI64,
}

impl History {
    pub(super) fn begin() -> History {
        History { evicted: AtomicU64::new(0), reset: AtomicI64::new(session::now()) }
    }

    pub(super) fn restore(&self, evicted: u64, reset: i64) {
        self.evicted.store(evicted, Ordering::Relaxed);
        self.reset.store(reset, Ordering::Relaxed);
    }
}

pub(super) fn request() {
    if is_enabled() {
        STATEMENTS.request(settings::MAX_STATEMENTS.get() as usize);
    }
}

pub(super) fn create() {
    if is_enabled() {
        STATEMENTS.create();
    }
}

fn is_enabled() -> bool {
    settings::MAX_STATEMENTS.get() > 0
}

/// Counts an execution of a statement by the current user. `query_id` is 0 if PostgreSQL has computed none, and then
/// nothing is counted.
pub fn count(query_id: i64, took: Duration, rows: u64, answered: &Answered<'_>) {
    if query_id == 0 || !is_enabled() {
        return;
    }
    let change = |statement: &mut Statement| {
        statement.usage += 1.0;
        statement.rows += rows;
        match answered {
            Answered::Engine(figures) => {
                statement.engine.add(took);
                statement.figures.add(*figures);
            }
            Answered::Heap(reason) => {
                statement.heap.add(took);
                statement.reasons[reason.why.index()] += 1;
                statement.last_reason = Some(reason.why);
                statement.last_text = FixedText::new(&reason.text);
            }
        }
    };
    let new = Statement::new(Key { user: session::current_user(), database: session::database(), query_id });
    // Other processes may take the room that this one makes. After a few attempts, the execution is not counted.
    for _ in 0..ATTEMPTS {
        if STATEMENTS.change_or_insert(new, change).is_some() {
            return;
        }
        make_room();
    }
}

/// Brings the statements back that the server knew when it stopped, and saves those of now when it stops again. To be
/// called in the postmaster, when the empty list was made.
pub(super) fn keep_until_next_start() {
    if !is_enabled() || !settings::STATEMENTS_SAVE.get() {
        saved::discard();
    } else if let Some(Saved { evicted, reset, mut statements }) = saved::take() {
        globals().statements.restore(evicted, reset);
        // There may be less room than before.
        statements.sort_unstable_by(|a, b| b.usage.total_cmp(&a.usage));
        statements.truncate(STATEMENTS.room());
        for statement in statements.into_iter().map(Statement::from) {
            STATEMENTS.change_or_insert(statement, |_| ());
        }
    }
    process::at_orderly_exit(save);
}

fn save() {
    if !is_enabled() || !settings::STATEMENTS_SAVE.get() {
        return;
    }
    let mut statements = Vec::new();
    // A process that was killed while it held the lock may have left a half-written statement.
    if STATEMENTS.try_for_each(|statement| statements.push(SavedStatement::from(statement))) {
        let (evicted, reset) = history();
        saved::write(&Saved { evicted, reset, statements });
    }
}

/// Removes the statements that are used least, unless there is room.
fn make_room() {
    if STATEMENTS.room() > 0 {
        return;
    }
    let mut uses = Vec::with_capacity(settings::MAX_STATEMENTS.get() as usize);
    STATEMENTS.for_each_mut(|statement| {
        statement.usage *= FADING;
        uses.push(statement.usage);
    });
    uses.sort_unstable_by(f64::total_cmp);
    let mut left = (uses.len() / EVICTED_PART).max(1);
    let Some(&most) = uses.get(left - 1) else { return };
    STATEMENTS.retain(|statement| {
        let is_evicted = left > 0 && statement.usage <= most;
        if is_evicted {
            left -= 1;
            globals().statements.evicted.fetch_add(1, Ordering::Relaxed);
        }
        !is_evicted
    });
}

pub fn all() -> Vec<Statement> {
    let mut all = Vec::new();
    STATEMENTS.for_each(|statement| all.push(*statement));
    all
}

/// The number of statements that have made room for others, and the time at which everything was forgotten last.
pub fn history() -> (u64, i64) {
    let history = &globals().statements;
    (history.evicted.load(Ordering::Relaxed), history.reset.load(Ordering::Relaxed))
}

/// Forgets the statements for which `is_reset` returns true.
pub fn reset(is_reset: impl Fn(&Key) -> bool) {
    STATEMENTS.retain(|statement| !is_reset(&statement.key));
}

/// Forgets all statements, and how many have made room for others.
pub fn reset_all() {
    reset(|_| true);
    globals().statements.restore(0, session::now());
}
