//! Undo: the old values that are needed to see a table as it was, newest last, and how far back they reach.
//!
//! ```text
//!    floor          marks: gate g1             gate g2                     newest
//!      |                    |                     |                          |
//!      v    discarded       v                     v                          v
//!   ...........|[ t11 ][ t12 ][ t15 ][ t13 ][ t16 ][ t14 ] ...            entries, in the order of application
//!            `first`
//! ```
//!
//! A *mark* says: its gate sees every entry before this position. Marks make both questions cheap:
//! - Serving S: behind the newest mark whose gate S dominates lies everything that S may not see.
//! - Discarding an entry: the first mark beyond it becomes the floor; S is served only if it dominates the floor, so it
//!   sees everything that can no longer be taken back.
//!
//! An entry is a run of operations, each followed by its length so that they can be read newest first.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::Snapshot;
use snapmem::{OutOfMemory, Pool};

use crate::base::claim::Claim;
use crate::cells::column::Cell;

/// A gate is kept as a mark at most this often; closer ones replace each other.
const MARK_MILLIS: u64 = 250;
/// Bytes beside the operations, including the allocator's, roughly.
const ALLOCATION_BYTES: u64 = 32;

#[derive(Debug)]
pub struct Undo {
    entries: VecDeque<Entry>,
    /// Position of the first entry that is kept.
    first: u64,
    marks: VecDeque<Mark>,
    floor: Arc<Snapshot>,
    claim: Claim,
}

/// Clones share the operations.
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
    /// `floor`: what the rows were loaded with.
    pub fn new(pool: &Pool, floor: Arc<Snapshot>) -> Undo {
        Undo { entries: VecDeque::new(), first: 0, marks: VecDeque::new(), floor, claim: Claim::new(pool) }
    }

    pub fn push(&mut self, xid: u64, applied_ms: u64, ops: &[u8]) -> Result<(), OutOfMemory> {
        let entry = Entry { xid, applied_ms, ops: ops.into() };
        self.claim.add(entry.bytes())?;
        self.entries.push_back(entry);
        Ok(())
    }

    /// A gate whose transactions have all been applied: the table can be seen as it does.
    pub fn mark(&mut self, gate: &Arc<Snapshot>, now_ms: u64) {
        let newest = self.marks.back().map_or(&self.floor, |mark| &mark.gate);
        // Marks follow each other in time. Only a gate from before the load fails this.
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

    /// Whether nothing that `snapshot` does not see has been discarded.
    pub fn reaches(&self, snapshot: &Snapshot) -> bool {
        snapshot.dominates(&self.floor)
    }

    /// The entries that `snapshot` may not see, newest first: it sees everything else.
    pub fn recent(&self, snapshot: &Snapshot) -> impl DoubleEndedIterator<Item = &Entry> + Clone {
        let seen = self.marks.iter().rev().find(|mark| snapshot.dominates(&mark.gate)).map_or(0, |mark| mark.upto);
        let start = seen.saturating_sub(self.first) as usize;
        self.entries.range(start..).rev()
    }

    /// The position up to which the newest mark's gate sees every entry.
    fn marked(&self) -> u64 {
        self.marks.back().map_or(self.first, |mark| mark.upto.max(self.first))
    }

    /// Whether a gate may yet mark entries.
    pub fn has_unmarked(&self) -> bool {
        self.marked() < self.first + self.entries.len() as u64
    }

    /// When the oldest entry was applied, if [`Undo::discard_oldest`] can discard it.
    pub fn discardable_ms(&self) -> Option<u64> {
        let oldest = self.entries.front()?;
        (self.marked() > self.first).then_some(oldest.applied_ms)
    }

    /// Discards the oldest entry and moves the floor, if a recorded gate allows it.
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

/// An operation on a slot.
#[derive(Debug)]
pub enum Op<'a> {
    Insert {
        slot: u32,
    },
    /// The row's cells are still in its slot; these columns (u16 each) were unholdable.
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
    pub fn slot(&self) -> u32 {
        match self {
            Op::Insert { slot } | Op::Delete { slot, .. } | Op::Update { slot, .. } => *slot,
        }
    }

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

/// Columns and what they held before.
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

/// Collects the operations of one transaction on one table.
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

    /// To be followed by the unholdable columns and [`OpWriter::end`].
    pub fn delete(&mut self, slot: u32) {
        self.begin(DELETE, slot);
    }

    pub fn unholdable(&mut self, column: usize) {
        self.bytes.extend_from_slice(&(column as u16).to_le_bytes());
    }

    /// To be followed by the old cells and [`OpWriter::end`].
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

    /// The update changed nothing.
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
