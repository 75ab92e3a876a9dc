//! Undo: the old values with which a table can be shown as it was, newest last, and the oldest snapshot that can be
//! served from them.
//!
//! ```text
//!    floor          marks: gate g1             gate g2                     newest
//!      |                    |                     |                          |
//!      v    discarded       v                     v                          v
//!   ...........|[ t11 ][ t12 ][ t15 ][ t13 ][ t16 ][ t14 ] ...            entries, in the order of application
//!            `first`
//! ```
//!
//! A gate is a snapshot that the capture worker takes. A *mark* at a position says that its gate sees every entry
//! before that position. Marks make two things cheap:
//! - To serve S: every entry that S does not see comes after the newest mark whose gate S dominates.
//! - To discard an entry: the gate of the first mark behind the entry becomes the floor. S is served only if it
//!   dominates the floor. So S sees all discarded changes, and they never have to be undone.
//!
//! An entry is a sequence of operations, each followed by its length so that they can be read newest first.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Snapshot;
use snapmem::{OutOfMemory, Pool};

use crate::base::claim::Claim;
use crate::cells::column::Cell;

/// The shortest time between two marks. A gate that comes sooner replaces the last mark.
const MARK_MILLIS: u64 = 250;
/// The approximate memory of an entry in addition to its operations, including the allocator's overhead.
const ALLOCATION_BYTES: u64 = 32;

#[derive(Debug)]
pub struct Undo {
    entries: VecDeque<Entry>,
    /// The position of the oldest entry.
    first: u64,
    marks: VecDeque<Mark>,
    floor: Arc<Snapshot>,
    claim: Claim,
}

/// One undo entry. Clones share the operations.
#[derive(Clone, Debug)]
pub struct Entry {
    pub xid: u64,
    pub applied_ms: u64,
    ops: Arc<[u8]>,
}

#[derive(Debug)]
struct Mark {
    gate: Arc<Snapshot>,
    at_ms: u64,
    upto: u64,
}

impl Undo {
    /// Empty undo. `floor` is the snapshot under which the rows were loaded.
    pub fn new(pool: &Pool, floor: Arc<Snapshot>) -> Undo {
        Undo { entries: VecDeque::new(), first: 0, marks: VecDeque::new(), floor, claim: Claim::new(pool) }
    }

    pub fn push(&mut self, xid: u64, applied_ms: u64, ops: &[u8]) -> Result<(), OutOfMemory> {
        let entry = Entry { xid, applied_ms, ops: ops.into() };
        self.claim.add(entry.bytes())?;
        self.entries.push_back(entry);
        Ok(())
    }

    /// Adds a mark for a gate whose transactions have all been applied.
    pub fn mark(&mut self, gate: &Arc<Snapshot>, now_ms: u64) {
        let newest = self.marks.back().map_or(&self.floor, |mark| &mark.gate);
        // Each mark's gate dominates the one before. Only a gate from before the load fails this test.
        if !gate.dominates(newest) {
            return;
        }
        let known = self.marked();
        let unknown = self.entries.range((known - self.first) as usize..);
        let upto = known + unknown.take_while(|entry| gate.sees(entry.xid)).count() as u64;
        if upto == known {
            return;
        }
        let crowded = self.marks.len() >= 2 && now_ms < self.marks[self.marks.len() - 2].at_ms + MARK_MILLIS;
        if crowded {
            self.marks.pop_back();
        }
        self.marks.push_back(Mark { gate: gate.clone(), at_ms: now_ms, upto });
    }

    /// Whether `snapshot` can be served, because it sees all changes whose undo was discarded.
    pub fn reaches(&self, snapshot: &Snapshot) -> bool {
        snapshot.dominates(&self.floor)
    }

    /// The entries that come after the newest mark whose gate `snapshot` dominates, newest first. `snapshot` sees all
    /// entries before that mark.
    pub fn recent(&self, snapshot: &Snapshot) -> impl DoubleEndedIterator<Item = &Entry> + Clone {
        let seen = self.marks.iter().rev().find(|mark| snapshot.dominates(&mark.gate)).map_or(0, |mark| mark.upto);
        let start = seen.saturating_sub(self.first) as usize;
        self.entries.range(start..).rev()
    }

    /// The position of the newest mark. The mark's gate sees every entry before it.
    fn marked(&self) -> u64 {
        self.marks.back().map_or(self.first, |mark| mark.upto.max(self.first))
    }

    /// Whether there are entries behind the newest mark.
    pub fn has_unmarked(&self) -> bool {
        self.marked() < self.first + self.entries.len() as u64
    }

    /// The time at which the oldest entry was applied, if [`Undo::discard_oldest`] can discard it.
    pub fn discardable_ms(&self) -> Option<u64> {
        let oldest = self.entries.front()?;
        (self.marked() > self.first).then_some(oldest.applied_ms)
    }

    /// Discards and returns the oldest entry, and raises the floor. `None` if no mark comes after the entry.
    pub fn discard_oldest(&mut self) -> Option<Entry> {
        while self.marks.len() > 1 && self.marks[0].upto <= self.first {
            self.marks.pop_front();
        }
        let mark = self.marks.iter().find(|mark| mark.upto > self.first)?;
        if !Arc::ptr_eq(&self.floor, &mark.gate) {
            self.floor = mark.gate.clone();
        }
        let entry = self.entries.pop_front()?;
        self.first += 1;
        self.claim.subtract(entry.bytes());
        Some(entry)
    }

    pub fn bytes(&self) -> u64 {
        self.claim.bytes()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    pub fn bytes(&self) -> u64 {
        size_of::<Entry>() as u64 + ALLOCATION_BYTES + self.ops.len() as u64
    }

    pub fn ops_newest_first(&self) -> impl Iterator<Item = Op<'_>> {
        let mut rest = &*self.ops;
        std::iter::from_fn(move || {
            let (before, length) = rest.split_last_chunk::<4>()?;
            let (before, op) = before.split_at(before.len() - u32::from_le_bytes(*length) as usize);
            rest = before;
            Some(Op::parse(op))
        })
    }
}

/// An operation on a slot, with the data that undoes it.
#[derive(Debug)]
pub enum Op<'a> {
    Insert {
        slot: u32,
    },
    /// The row's cells are still in its slot. `unholdable` lists the numbers of the columns whose cells were
    /// unholdable, each as a u16.
    Delete {
        slot: u32,
        unholdable: &'a [u8],
    },
    Update {
        slot: u32,
        old: OldCells<'a>,
    },
}

const INSERT: u8 = 0;
const DELETE: u8 = 1;
const UPDATE: u8 = 2;

impl<'a> Op<'a> {
    fn parse(bytes: &'a [u8]) -> Op<'a> {
        let slot = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        let rest = &bytes[5..];
        match bytes[0] {
            INSERT => Op::Insert { slot },
            DELETE => Op::Delete { slot, unholdable: rest },
            _ => Op::Update { slot, old: OldCells { rest } },
        }
    }
}

/// The changed columns, with their old values.
#[derive(Clone, Debug)]
pub struct OldCells<'a> {
    rest: &'a [u8],
}

const NULL: u8 = 0;
const UNHOLDABLE: u8 = 1;
const TEXT: u8 = 2;
const FIXED: u8 = 3;
const WIDE: u8 = 4;

impl<'a> Iterator for OldCells<'a> {
    type Item = (usize, Cell<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, mut rest) = self.rest.split_first_chunk::<3>()?;
        let mut take = |n: usize| {
            let (taken, behind) = rest.split_at(n);
            rest = behind;
            taken
        };
        let cell = match head[2] {
            NULL => Cell::Null,
            UNHOLDABLE => Cell::Unholdable,
            TEXT => {
                let length = take(4).iter().rev().fold(0, |n, &byte| n << 8 | byte as usize);
                Cell::Text(take(length))
            }
            width => {
                let bytes = take(if width == FIXED { 8 } else { 16 });
                Cell::Fixed(bytes.iter().rev().fold(0, |n, &byte| n << 8 | byte as u128))
            }
        };
        self.rest = rest;
        Some((u16::from_le_bytes([head[0], head[1]]) as usize, cell))
    }
}

/// Collects the undo operations of one transaction on one table.
#[derive(Debug, Default)]
pub struct OpWriter {
    pub bytes: Vec<u8>,
    start: usize,
}

impl OpWriter {
    pub fn insert(&mut self, slot: u32) {
        self.begin(INSERT, slot);
        self.end();
    }

    /// Begins a delete. The unholdable columns and [`OpWriter::end`] must follow.
    pub fn delete(&mut self, slot: u32) {
        self.begin(DELETE, slot);
    }

    pub fn unholdable(&mut self, column: usize) {
        self.bytes.extend_from_slice(&(column as u16).to_le_bytes());
    }

    /// Begins an update. The old cells and [`OpWriter::end`] must follow.
    pub fn update(&mut self, slot: u32) {
        self.begin(UPDATE, slot);
    }

    pub fn old(&mut self, column: usize, cell: Cell<'_>) {
        self.bytes.extend_from_slice(&(column as u16).to_le_bytes());
        match cell {
            Cell::Null => self.bytes.push(NULL),
            Cell::Unholdable => self.bytes.push(UNHOLDABLE),
            Cell::Text(text) => {
                self.bytes.push(TEXT);
                self.bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
                self.bytes.extend_from_slice(text);
            }
            Cell::Fixed(image) => match u64::try_from(image) {
                Ok(short) => {
                    self.bytes.push(FIXED);
                    self.bytes.extend_from_slice(&short.to_le_bytes());
                }
                Err(_) => {
                    self.bytes.push(WIDE);
                    self.bytes.extend_from_slice(&image.to_le_bytes());
                }
            },
        }
    }

    /// Drops the current operation, because the update changed nothing.
    pub fn cancel(&mut self) {
        self.bytes.truncate(self.start);
    }

    pub fn end(&mut self) {
        let length = (self.bytes.len() - self.start) as u32;
        self.bytes.extend_from_slice(&length.to_le_bytes());
    }

    fn begin(&mut self, tag: u8, slot: u32) {
        self.start = self.bytes.len();
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&slot.to_le_bytes());
    }
}
