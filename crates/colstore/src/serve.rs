//! A table exactly as a snapshot S sees it.
//!
//! The columns hold what has been applied. In a private snapshot of the columns asked for, everything applied that S
//! does not see is taken back, newest first: inserted rows are masked out, deleted ones are shown again, old values put
//! back.
//!
//! That is exact because S never sees a change of a slot without the earlier ones: the second writer of a row waits until
//! the first is visible. Under REPLICA IDENTITY FULL this holds for PostgreSQL's rows but not always for slots, since the
//! mirror may have chosen another of several equal rows. Such a snapshot is refused.

use std::collections::HashSet;
use std::sync::Arc;

use plan::Identity;
use protocol::Snapshot;
use protocol::request::Refusal;
use snapmem::{EpochSnapshot, OutOfMemory};

use crate::TableRequest;
use crate::bitmap;
use crate::chunk::split;
use crate::column::ColumnSnapshot;
use crate::rows::Rows;
use crate::table::Table;
use crate::undo::{Op, Undo};
use crate::view::ColumnsView;

/// A view, and what had to be taken back for it.
pub struct ServedTable {
    pub view: ColumnsView,
    pub undone_transactions: u64,
    pub undone_changes: u64,
}

impl Table {
    /// Whether S can be served at all, given what is applied or will be.
    pub fn check(&self, request: &TableRequest, snapshot: &Snapshot) -> Result<(), Refusal> {
        let relid = self.layout.relid;
        if self.is_broken() {
            return Err(Refusal::NotMirrored { relid });
        }
        if request.fingerprint != self.layout.fingerprint {
            return Err(Refusal::FingerprintDiffers { relid });
        }
        self.positions(request)?;
        if self.live()?.undo.reaches(snapshot) { Ok(()) } else { Err(Refusal::SnapshotTooOld { relid }) }
    }

    /// The columns that are asked for, as positions in the layout.
    fn positions(&self, request: &TableRequest) -> Result<Vec<usize>, Refusal> {
        let position = |wanted: &plan::RelationColumn| {
            let missing = Refusal::ColumnMissing { relid: self.layout.relid, attnum: wanted.attnum };
            let position = self.layout.position(wanted.attnum).ok_or(missing.clone())?;
            if self.types[position] == wanted.ty { Ok(position) } else { Err(missing) }
        };
        request.columns.iter().map(position).collect()
    }

    /// Everything that S sees must have been applied.
    pub fn view(&mut self, request: &TableRequest, s: &Snapshot, alive: &Arc<()>) -> Result<ServedTable, Refusal> {
        let positions = self.positions(request)?;
        let (relid, full, width) = (self.layout.relid, self.layout.identity == Identity::Full, self.types.len());
        let live = self.live_mut()?;
        if full && inverts_slots(&live.undo, s) {
            return Err(Refusal::SnapshotTooOld { relid });
        }
        let out_of_memory = |error: OutOfMemory| Refusal::OutOfMemory { what: error.to_string() };
        let mut past = Past::new(&mut live.rows, &positions, width).map_err(out_of_memory)?;
        past.take_back(&live.undo, s).map_err(out_of_memory)?;
        let slots = live.rows.slots as usize;
        match past.poisoned_column() {
            Some(position) => Err(Refusal::UnholdableValue { relid, attnum: self.layout.columns[position].attnum }),
            None => {
                let key = key(&self.layout.identity, &positions);
                Ok(past.into_served(&positions, key, slots, alive))
            }
        }
    }
}

/// Where the key is among the columns at `positions`, if all of it is.
fn key(identity: &Identity, positions: &[usize]) -> Option<Vec<usize>> {
    let Identity::Key(key) = identity else { return None };
    key.iter().map(|&column| positions.iter().position(|&position| position == column as usize)).collect()
}

/// Whether S sees a change of a slot, but not an earlier one of the same slot.
fn inverts_slots(undo: &Undo, s: &Snapshot) -> bool {
    let recent = undo.recent(s);
    let Some(oldest_unseen) = recent.clone().rev().position(|entry| !s.sees(entry.xid)) else { return false };
    let behind = recent.clone().count() - oldest_unseen;
    let mut seen = HashSet::new();
    recent.take(behind).any(|entry| {
        let mut slots = entry.ops_newest_first().map(|op| op.slot());
        if s.sees(entry.xid) {
            seen.extend(slots);
            return false;
        }
        slots.any(|slot| seen.contains(&slot))
    })
}

/// A private snapshot on its way back to S.
struct Past {
    /// Position in the layout, and the column.
    columns: Vec<(usize, ColumnSnapshot)>,
    /// By position in the layout: where in `columns`.
    wanted: Vec<Option<usize>>,
    live: EpochSnapshot,
    live_counts: Vec<u32>,
    undone_transactions: u64,
    undone_changes: u64,
}

impl Past {
    fn new(rows: &mut Rows, positions: &[usize], width: usize) -> Result<Past, OutOfMemory> {
        let mut columns = Vec::with_capacity(positions.len());
        let mut wanted = vec![None; width];
        for &position in positions {
            // A column may be asked for twice.
            if wanted[position].is_none() {
                wanted[position] = Some(columns.len());
                columns.push((position, rows.columns[position].snapshot()?));
            }
        }
        let live_counts = rows.live_counts.clone();
        let live = rows.live.snapshot()?;
        Ok(Past { columns, wanted, live, live_counts, undone_transactions: 0, undone_changes: 0 })
    }

    fn take_back(&mut self, undo: &Undo, s: &Snapshot) -> Result<(), OutOfMemory> {
        let mut last = None;
        for entry in undo.recent(s).filter(|entry| !s.sees(entry.xid)) {
            if last.replace(entry.xid) != Some(entry.xid) {
                self.undone_transactions += 1;
            }
            for op in entry.ops_newest_first() {
                self.undone_changes += 1;
                self.take_back_one(op)?;
            }
        }
        Ok(())
    }

    fn take_back_one(&mut self, op: Op<'_>) -> Result<(), OutOfMemory> {
        match op {
            Op::Insert { slot } => {
                self.show(slot, false)?;
                for (_, column) in &mut self.columns {
                    column.patch_poisoned(slot, false)?;
                }
            }
            Op::Delete { slot, poisoned } => {
                self.show(slot, true)?;
                for position in poisoned.as_chunks::<2>().0 {
                    if let Some(index) = self.wanted[u16::from_le_bytes(*position) as usize] {
                        self.columns[index].1.patch_poisoned(slot, true)?;
                    }
                }
            }
            Op::Update { slot, old } => {
                for (position, cell) in old {
                    if let Some(index) = self.wanted[position] {
                        self.columns[index].1.patch(slot, cell)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, slot: u32, live: bool) -> Result<(), OutOfMemory> {
        if bitmap::patch(&mut self.live, slot, live)? {
            let count = &mut self.live_counts[split(slot).0];
            *count = if live { *count + 1 } else { *count - 1 };
        }
        Ok(())
    }

    /// A column with a value, in some row that S sees, that its layout cannot hold.
    fn poisoned_column(&self) -> Option<usize> {
        self.columns.iter().find(|(_, column)| column.is_poisoned()).map(|(position, _)| *position)
    }

    fn into_served(self, positions: &[usize], key: Option<Vec<usize>>, slots: usize, alive: &Arc<()>) -> ServedTable {
        let order = positions.iter().filter_map(|&position| self.wanted[position]).collect();
        let columns = self.columns.into_iter().map(|(_, column)| column).collect();
        ServedTable {
            view: ColumnsView::new(columns, order, key, self.live, self.live_counts, slots, alive.clone()),
            undone_transactions: self.undone_transactions,
            undone_changes: self.undone_changes,
        }
    }
}
