//! A table exactly as a snapshot S sees it.
//!
//! The columns contain all applied changes. The writer takes a private snapshot of the requested columns, and returns
//! it with the undo of the changes that S does not see. The requesting thread undoes them in the snapshot
//! ([`TableSnapshot::settle`]), newest first, so that old snapshots do not hold the writer up. Inserted rows are masked
//! out, deleted rows are shown again, and old values are restored.
//!
//! This is exact, because S never sees a change of a slot without the earlier changes of that slot: the second writer
//! of a row waits until the first one has committed.

use std::ops::AddAssign;
use std::sync::Arc;

use plan::Identity;
use protocol::Snapshot;
use protocol::request::Refusal;
use snapmem::{ExtentsSnapshot, OutOfMemory};

use crate::base::bitmap;
use crate::base::chunk::{CHUNK_ROWS, split};
use crate::base::leases::Hold;
use crate::cells::column::{Column, ColumnSnapshot};
use crate::read::image::{Imaged, ImagedRows, TableImage};
use crate::read::survey::{Survey, Surveyed};
use crate::read::view::ColumnsView;
use crate::rows::Rows;
use crate::rows::undo::{Entry, Op};
use crate::table::request::TableRequest;
use crate::table::{Live, Table};

/// The columns of a table as they were at the request, with the undo of changes that S does not see.
#[derive(Debug)]
pub struct TableSnapshot {
    relid: u32,
    columns: Vec<ColumnSnapshot>,
    /// For each column of the layout, its index in `columns`.
    wanted: Vec<Option<usize>>,
    /// For each requested column, its index in `columns`.
    order: Vec<usize>,
    /// The requested columns.
    attnums: Vec<i16>,
    key: Option<Vec<usize>>,
    live: ExtentsSnapshot,
    live_counts: Vec<u32>,
    slots: usize,
    /// The undo entries, newest first.
    undo: Vec<Entry>,
    hold: Hold,
}

/// The numbers of transactions and changes that were undone for a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    pub transactions: u64,
    pub changes: u64,
}

impl AddAssign for Undone {
    fn add_assign(&mut self, other: Undone) {
        self.transactions += other.transactions;
        self.changes += other.changes;
    }
}

impl Table {
    /// Checks whether S can be served. The pending transactions that S sees must have been applied.
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

    /// The positions of the requested columns in the layout.
    fn positions(&self, request: &TableRequest) -> Result<Vec<usize>, Refusal> {
        let position = |wanted: &plan::RelationColumn| {
            let missing = Refusal::ColumnMissing { relid: self.layout.relid, attnum: wanted.attnum };
            let position = self.layout.position(wanted.attnum).ok_or(missing.clone())?;
            if self.types[position] == wanted.ty { Ok(position) } else { Err(missing) }
        };
        request.columns.iter().map(position).collect()
    }

    /// Takes the snapshot of the columns. Everything that S sees must have been applied before.
    pub fn bind(&mut self, request: &TableRequest, s: &Snapshot, hold: &Hold) -> Result<TableSnapshot, Refusal> {
        let positions = self.positions(request)?;
        let (relid, width) = (self.layout.relid, self.types.len());
        let attnums = positions.iter().map(|&position| self.layout.columns[position].attnum).collect();
        let key = key(&self.layout.identity, &positions);
        let table = self.live_mut()?;
        let (columns, wanted) = columns(&mut table.rows, &positions, width).map_err(out_of_memory)?;
        let order = positions.iter().filter_map(|&position| wanted[position]).collect();
        let live_counts = table.rows.live_counts.clone();
        let live = table.rows.live.snapshot().map_err(out_of_memory)?;
        let undo = table.undo.recent(s).filter(|entry| !s.sees(entry.xid)).cloned().collect();
        let (slots, hold) = (table.rows.slots as usize, hold.clone());
        self.is_read(&positions);
        Ok(TableSnapshot { relid, columns, wanted, order, attnums, key, live, live_counts, slots, undo, hold })
    }
}

/// Snapshots of the columns at these positions of the layout. Then, for each of the layout's `width` columns, the index
/// of its snapshot, if it has one.
fn columns(
    rows: &mut Rows,
    positions: &[usize],
    width: usize,
) -> Result<(Vec<ColumnSnapshot>, Vec<Option<usize>>), OutOfMemory> {
    let mut columns = Vec::with_capacity(positions.len());
    let mut wanted = vec![None; width];
    for &position in positions {
        // A column that is requested twice is snapshotted once.
        if wanted[position].is_none() {
            wanted[position] = Some(columns.len());
            columns.push(rows.columns[position].snapshot()?);
        }
    }
    Ok((columns, wanted))
}

impl TableSnapshot {
    /// Undoes the changes that S does not see.
    pub fn settle(mut self) -> Result<(ColumnsView, Undone), Refusal> {
        let undo = std::mem::take(&mut self.undo);
        let undone = self.take_back(&undo).map_err(out_of_memory)?;
        let unholdable = self.order.iter().position(|&index| self.columns[index].has_unholdable());
        if let Some(column) = unholdable {
            return Err(Refusal::Unholdable { relid: self.relid, attnum: self.attnums[column] });
        }
        let TableSnapshot { columns, order, key, live, live_counts, slots, hold, .. } = self;
        Ok((ColumnsView::new(columns, order, key, live, live_counts, slots, hold), undone))
    }

    fn take_back(&mut self, undo: &[Entry]) -> Result<Undone, OutOfMemory> {
        let (mut undone, mut last) = (Undone::default(), None);
        for entry in undo {
            if last.replace(entry.xid) != Some(entry.xid) {
                undone.transactions += 1;
            }
            for op in entry.ops_newest_first() {
                undone.changes += 1;
                self.take_back_one(op)?;
            }
        }
        Ok(undone)
    }

    fn take_back_one(&mut self, op: Op<'_>) -> Result<(), OutOfMemory> {
        match op {
            Op::Insert { slot } => {
                self.show(slot, false)?;
                for column in &mut self.columns {
                    column.patch_unholdable(slot, false)?;
                }
            }
            Op::Delete { slot, unholdable } => {
                self.show(slot, true)?;
                for position in unholdable.as_chunks::<2>().0 {
                    if let Some(index) = self.wanted[u16::from_le_bytes(*position) as usize] {
                        self.columns[index].patch_unholdable(slot, true)?;
                    }
                }
            }
            Op::Update { slot, old } => {
                for (position, cell) in old {
                    if let Some(index) = self.wanted[position] {
                        self.columns[index].patch(slot, cell)?;
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
}

impl Table {
    /// The columns as they are now. For a survey, no pending transactions are applied, and no changes are undone.
    pub fn survey(&mut self, fingerprint: u64, alive: &Arc<()>) -> Result<Survey, Refusal> {
        let relid = self.layout.relid;
        if fingerprint != self.layout.fingerprint {
            return Err(Refusal::FingerprintDiffers { relid });
        }
        let numbers: Vec<i16> = self.layout.columns.iter().map(|column| column.attnum).collect();
        let Live { rows, .. } = self.live_mut()?;
        let chunks = (rows.slots as usize).div_ceil(CHUNK_ROWS);
        let surveyed = |(attnum, column): (i16, &mut Column)| {
            let bytes = (0..chunks).map(|chunk| column.bytes_of(chunk)).collect();
            let mut cells = column.snapshot()?;
            cells.look_only();
            Ok(Surveyed { attnum, cells, bytes })
        };
        let found = numbers.into_iter().zip(&mut rows.columns).map(surveyed).collect::<Result<_, OutOfMemory>>();
        let live = found.and_then(|columns| Ok((columns, rows.live.snapshot()?)));
        let (columns, live) = live.map_err(out_of_memory)?;
        let (live_counts, slots) = (rows.live_counts.clone(), rows.slots as usize);
        Ok(Survey { columns, live, live_counts, slots, _alive: alive.clone() })
    }
}

impl Table {
    /// The columns as they are now, for a file. As for a survey, everything that was applied is in them.
    pub fn image(&mut self, hold: &Hold) -> Result<TableImage, Refusal> {
        let (generation, fingerprint) = (self.generation, self.layout.fingerprint);
        let Live { rows, .. } = self.live_mut()?;
        let imaged = |column: &mut Column| {
            let mut cells = column.snapshot()?;
            cells.look_only();
            Ok(Imaged { stamps: column.take_stamps(), cells })
        };
        let columns = rows.columns.iter_mut().map(imaged).collect::<Result<_, OutOfMemory>>().map_err(out_of_memory)?;
        let live = rows.live.snapshot().map_err(out_of_memory)?;
        let stamp = rows.live_stamps.now();
        let live_stamps = rows.live_stamps.take();
        let (live_counts, slots) = (rows.live_counts.as_slice().into(), rows.slots as usize);
        let live = ImagedRows { bits: live, stamps: live_stamps, counts: live_counts };
        Ok(TableImage { generation, fingerprint, stamp, columns, live, slots, rows: rows.count, _hold: hold.clone() })
    }
}

fn out_of_memory(error: OutOfMemory) -> Refusal {
    Refusal::OutOfMemory { what: error.to_string() }
}

/// For each column of the key, its index in `positions`; `None` if a column is missing there.
fn key(identity: &Identity, positions: &[usize]) -> Option<Vec<usize>> {
    let Identity::Key(key) = identity else { return None };
    key.iter().map(|&column| positions.iter().position(|&position| position == column as usize)).collect()
}
