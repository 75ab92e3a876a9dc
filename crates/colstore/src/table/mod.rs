//! One mirrored table through its life: waiting, loading, live, broken.
//!
//! ```text
//!   watch -> Waiting -- load_begin --> Loading -- load_end --> Live
//!               ^                         |                     |
//!               +------- load_abort ------+---- any fault ------+--> Broken
//! ```
//!
//! In every state except Broken, arriving transactions are kept in the backlog. Transactions that the load's snapshot
//! sees are dropped, because the loaded rows contain their changes.
//!
//! | file | job |
//! |---|---|
//! | `agenda` | the tables that have work to do |
//! | `request` | requests and changes, as the crate's users pass them |
//! | `serve` | a table exactly as S sees it |

pub mod agenda;
pub mod request;
pub mod serve;

use std::sync::Arc;

use plan::{TableLayout, Type};
use protocol::Snapshot;
use protocol::change::RowReader;
use protocol::request::{Refusal, TableStatus};
use snapmem::{Mechanism, OutOfMemory, Pool};

use crate::base::leases::Written;
use crate::cells::column::Cell;
use crate::rows::apply::{apply, read_cell};
use crate::rows::backlog::{Backlog, PendingTransaction};
use crate::rows::load::ChunkImage;
use crate::rows::undo::{Op, Undo};
use crate::rows::{Fault, Rows, undecodable};
use crate::table::agenda::{Agenda, Note};

/// The number of bytes of transactions that are applied in one step. Undo can be discarded between two steps, so a long
/// backlog does not become an equally long undo.
const APPLY_BYTES: u64 = 16 << 20;
/// The number of loaded rows that are appended to the columns at a time.
const LOADED_AT_ONCE: usize = 512;

#[derive(Debug)]
pub struct Table {
    pub layout: TableLayout,
    pub generation: u64,
    /// The types of a row's values, see [`TableLayout::types`].
    pub types: Vec<Type>,
    pub changes_applied: u64,
    pub written: Written,
    /// The table's entry in the agenda.
    noted: Note,
    backlog: Backlog,
    /// Whether the table was written to since its columns were last found tidy.
    untidy: bool,
    state: State,
    mechanism: Mechanism,
    pool: Pool,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// `kept` is the number of rows that came from images.
    Loading {
        snapshot: Arc<Snapshot>,
        rows: Rows,
        kept: u64,
    },
    Live(Live),
    Broken,
}

impl State {
    /// The reason for refusing requests while the table is not live.
    fn refusal(&self, relid: u32) -> Refusal {
        match self {
            State::Broken => Refusal::NotMirrored { relid },
            _ => Refusal::Loading { relid },
        }
    }
}

#[derive(Debug)]
pub struct Live {
    pub rows: Rows,
    pub undo: Undo,
    /// The snapshot under which the rows were loaded.
    loaded: Arc<Snapshot>,
}

/// The transactions that were applied, and the number of their changes.
pub struct Applied {
    pub transactions: Vec<PendingTransaction>,
    pub changes: u64,
}

/// Appends rows, which are encoded one after the other as in `frame::Kind::Rows`. Their cells are collected in a list
/// for each column; [`LOADED_AT_ONCE`] rows are added to the table at a time.
fn load(rows: &mut Rows, types: &[Type], bytes: &[u8]) -> Result<(), Fault> {
    let mut reader = RowReader::new(bytes);
    let mut columns: Vec<Vec<Cell<'_>>> = types.iter().map(|_| Vec::with_capacity(LOADED_AT_ONCE)).collect();
    while !reader.remaining().is_empty() {
        let mut count = 0;
        while count < LOADED_AT_ONCE && !reader.remaining().is_empty() {
            for (ty, column) in types.iter().zip(&mut columns) {
                let cell = read_cell(&mut reader, *ty)?;
                column.push(cell.ok_or_else(|| undecodable("a new row lacks a value"))?);
            }
            count += 1;
        }
        rows.add_all(&columns, count)?;
        columns.iter_mut().for_each(Vec::clear);
    }
    Ok(())
}

impl Table {
    pub fn new(generation: u64, layout: TableLayout, pool: &Pool, mechanism: Mechanism) -> Table {
        let types = layout.types();
        let backlog = Backlog::new(pool);
        Table {
            layout,
            generation,
            types,
            changes_applied: 0,
            written: Written::default(),
            noted: Note::default(),
            backlog,
            untidy: false,
            state: State::Waiting,
            mechanism,
            pool: pool.clone(),
        }
    }

    pub fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken)
    }

    pub fn live(&self) -> Result<&Live, Refusal> {
        match &self.state {
            State::Live(live) => Ok(live),
            other => Err(other.refusal(self.layout.relid)),
        }
    }

    pub fn live_mut(&mut self) -> Result<&mut Live, Refusal> {
        match &mut self.state {
            State::Live(live) => Ok(live),
            other => Err(other.refusal(self.layout.relid)),
        }
    }

    /// Gives up the table, and frees its rows and its backlog.
    pub fn break_down(&mut self) {
        self.count_left_rows();
        self.state = State::Broken;
        self.backlog = Backlog::new(&self.pool);
    }

    /// Counts all rows of a table as written bytes. It is called before the table is dropped: from then on, the rows
    /// stay in memory only because of snapshots, and [`Written`] tells how much memory a snapshot keeps.
    pub fn count_left_rows(&self) {
        if let State::Live(live) = &self.state {
            self.written.add(live.rows.bytes());
        }
    }

    /// Adds a committed transaction to the backlog, if the table needs it.
    pub fn enqueue(&mut self, transaction: PendingTransaction) -> Result<(), OutOfMemory> {
        match &self.state {
            State::Broken => Ok(()),
            State::Live(live) if live.loaded.sees(transaction.xid) => Ok(()),
            _ => self.backlog.push(transaction),
        }
    }

    /// Applies the pending transactions that `snapshot` sees; if they are many, only the first of them.
    pub fn apply_some(&mut self, snapshot: &Snapshot, now_ms: u64) -> Result<Applied, Fault> {
        let State::Live(live) = &mut self.state else {
            return Ok(Applied { transactions: Vec::new(), changes: 0 });
        };
        let transactions = self.backlog.take(|xid| snapshot.sees(xid), APPLY_BYTES);
        self.untidy |= !transactions.is_empty();
        self.written.add(transactions.iter().map(|transaction| transaction.messages.len() as u64).sum());
        let changes = apply(&mut live.rows, &mut live.undo, &self.types, &transactions, now_ms)?;
        live.rows.expect_looks(now_ms);
        self.changes_applied += changes;
        Ok(Applied { transactions, changes })
    }

    /// Marks a gate in the undo. All transactions that the gate sees must have been applied.
    pub fn mark(&mut self, gate: &Arc<Snapshot>, now_ms: u64) {
        if let State::Live(live) = &mut self.state {
            live.undo.mark(gate, now_ms);
        }
    }

    /// Discards the oldest undo entry, if a mark allows that.
    pub fn discard_oldest(&mut self) -> Result<(), Fault> {
        let State::Live(live) = &mut self.state else { return Ok(()) };
        let Some(entry) = live.undo.discard_oldest() else { return Ok(()) };
        self.untidy = true;
        self.written.add(entry.bytes());
        for op in entry.ops_newest_first() {
            if let Op::Delete { slot, .. } = op {
                live.rows.release(slot)?;
            }
        }
        Ok(())
    }

    /// Does a step of idle work, see [`Rows::tidy`]. Returns whether there was something to do.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let State::Live(live) = &mut self.state else {
            self.untidy = false;
            return false;
        };
        let worked = live.rows.tidy(now_ms);
        self.written.add(worked.into());
        self.untidy = !live.rows.is_tidy();
        worked
    }

    /// See [`Rows::look`].
    pub fn look(&mut self, now_ms: u64) -> bool {
        match &mut self.state {
            State::Live(live) => {
                let looked = live.rows.look(now_ms);
                self.written.add(looked.into());
                looked
            }
            State::Waiting | State::Loading { .. } | State::Broken => false,
        }
    }

    /// Records that a query reads the columns at `positions`. If a column's texts are read often, another form of them
    /// may be better, so the table may have idle work.
    pub fn is_read(&mut self, positions: &[usize]) {
        if let State::Live(live) = &self.state {
            self.untidy |= positions.iter().any(|position| !live.rows.columns[*position].is_tidy());
        }
    }

    /// Updates the table's entry in the agenda. It must be called after anything that may have changed the entry.
    pub fn note_in(&mut self, agenda: &mut Agenda) {
        let now = self.note();
        agenda.replace(self.layout.relid, std::mem::replace(&mut self.noted, now), now);
    }

    /// Removes the table from the agenda.
    pub fn leave(&self, agenda: &mut Agenda) {
        agenda.replace(self.layout.relid, self.noted, Note::default());
    }

    fn note(&self) -> Note {
        match &self.state {
            State::Live(Live { rows, undo, .. }) => Note {
                unsettled: self.backlog.len() > 0 || undo.has_unmarked(),
                discardable_ms: undo.discardable_ms(),
                undo_bytes: undo.bytes(),
                untidy: self.untidy,
                look_ms: rows.next_look_ms(),
            },
            State::Waiting | State::Loading { .. } | State::Broken => Note::default(),
        }
    }

    pub fn load_begin(&mut self, snapshot: Snapshot) -> Result<(), Refusal> {
        match self.state {
            State::Waiting => {
                let rows = Rows::new(&self.layout, &self.pool, self.mechanism);
                self.state = State::Loading { snapshot: Arc::new(snapshot), rows, kept: 0 };
                Ok(())
            }
            _ => Err(self.not_loading()),
        }
    }

    pub fn load_rows(&mut self, bytes: &[u8]) -> Result<Result<(), Fault>, Refusal> {
        let State::Loading { rows, .. } = &mut self.state else { return Err(self.not_loading()) };
        Ok(load(rows, &self.types, bytes))
    }

    /// Adds a chunk from its image, see [`Rows::load_chunk`].
    pub fn load_chunk(
        &mut self,
        image: &ChunkImage<'_>,
        dropped: impl Fn(i64) -> bool,
    ) -> Result<Result<(), Fault>, Refusal> {
        let State::Loading { rows, kept, .. } = &mut self.state else { return Err(self.not_loading()) };
        let loaded = rows.load_chunk(image, dropped);
        *kept = rows.count;
        Ok(loaded)
    }

    /// Prepares a load for this many rows, see [`Rows::expect_rows`].
    pub fn load_expect(&mut self, count: u64) -> Result<Result<(), Fault>, Refusal> {
        let State::Loading { rows, .. } = &mut self.state else { return Err(self.not_loading()) };
        Ok(rows.expect_rows(count).map_err(Fault::from))
    }

    /// Ends the load, after which the table is live. Returns the number of its rows. `announced` is the number of rows
    /// that the loader has sent, in addition to those from images.
    pub fn load_end(&mut self, announced: u64) -> Result<Result<u64, Fault>, Refusal> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Loading { rows, kept, .. } if rows.count != kept + announced => {
                Ok(Err(Fault::RowCount { announced, sent: rows.count - kept }))
            }
            State::Loading { snapshot, rows, kept } => {
                self.backlog.take(|xid| snapshot.sees(xid), u64::MAX);
                let undo = Undo::new(&self.pool, snapshot.clone());
                self.state = State::Live(Live { rows, undo, loaded: snapshot });
                Ok(Ok(kept + announced))
            }
            other => {
                self.state = other;
                Err(self.not_loading())
            }
        }
    }

    /// Waits for another load. The backlog is kept: it may contain transactions that this load's snapshot sees, but the
    /// next load's snapshot does not.
    pub fn load_abort(&mut self) {
        if matches!(self.state, State::Loading { .. }) {
            self.state = State::Waiting;
        }
    }

    fn not_loading(&self) -> Refusal {
        match self.state {
            State::Broken => Refusal::NotMirrored { relid: self.layout.relid },
            _ => Refusal::Protocol { what: "the table is not waiting for these rows".into() },
        }
    }

    pub fn pending(&self) -> u64 {
        self.backlog.len() as u64
    }

    pub fn status(&self) -> TableStatus {
        let of_rows = |rows: &Rows| (rows.count, rows.bytes(), rows.index_bytes());
        let ((rows, bytes, index_bytes), undo_bytes) = match &self.state {
            State::Live(live) => (of_rows(&live.rows), live.undo.bytes()),
            State::Loading { rows, .. } => (of_rows(rows), 0),
            State::Waiting | State::Broken => ((0, 0, 0), 0),
        };
        TableStatus {
            relid: self.layout.relid,
            generation: self.generation,
            live: matches!(self.state, State::Live(_)),
            rows,
            bytes,
            index_bytes,
            undo_bytes,
            changes_applied: self.changes_applied,
            kept: None,
        }
    }
}
