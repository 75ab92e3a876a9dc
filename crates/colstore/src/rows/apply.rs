//! Applies the changes of committed transactions to the rows, and writes the undo.
//!
//! The memory that a change reads is scattered, and waiting for it would take most of the time. So several changes are
//! decoded together, and the memory that each of them needs is prefetched before the first change is made:
//!
//! ```text
//!   messages -> Batch: cells, key, hash  ->  index: the likely slot  ->  cells of that slot  ->  texts
//!                                                                        ... then one change after the other
//! ```

use plan::Type;
use protocol::change::{RowReader, StreamMessage};

use crate::cells::column::Cell;
use crate::rows::backlog::PendingTransaction;
use crate::rows::undo::{OpWriter, Undo};
use crate::rows::{Fault, Rows, undecodable};

/// The greatest length of an undo entry. A transaction with more operations gets several entries, so that none becomes
/// too large a piece of memory.
const ENTRY_BYTES: usize = 256 << 10;
/// The number of changes that are decoded together. There are fewer if they have many cells ([`CELLS_TOGETHER`]), so
/// that prefetched memory is still in the cache when it is used.
const TOGETHER: usize = 16;
const CELLS_TOGETHER: usize = 1024;

/// Applies whole transactions in the given order, and returns the number of changes. After an error, the state of the
/// rows is undefined, and they must not be served.
pub fn apply(
    rows: &mut Rows,
    undo: &mut Undo,
    types: &[Type],
    transactions: &[PendingTransaction],
    now_ms: u64,
) -> Result<u64, Fault> {
    let mut messages = transactions
        .iter()
        .flat_map(|transaction| Messages { rest: &transaction.messages }.map(|message| (transaction.xid, message)));
    let mut batch = Batch::default();
    let (mut ops, mut writes, mut changes) = (OpWriter::default(), None, 0);
    loop {
        batch.clear();
        while batch.has_room()
            && let Some((xid, message)) = messages.next()
        {
            batch.read(xid, message?, types, rows)?;
        }
        batch.prefetch(rows);
        for change in &batch.changes {
            let goes_on = writes == Some(change.xid) && ops.bytes.len() < ENTRY_BYTES;
            if !goes_on {
                end_entry(undo, writes.replace(change.xid), now_ms, &mut ops)?;
            }
            batch.make(change, rows, &mut ops)?;
        }
        changes += batch.changes.len() as u64;
        if batch.changes.is_empty() {
            end_entry(undo, writes, now_ms, &mut ops)?;
            return Ok(changes);
        }
    }
}

/// Writes the operations since a transaction's last undo entry as a new entry, if there are any.
fn end_entry(undo: &mut Undo, xid: Option<u64>, now_ms: u64, ops: &mut OpWriter) -> Result<(), Fault> {
    if let Some(xid) = xid
        && !ops.bytes.is_empty()
    {
        undo.push(xid, now_ms, &ops.bytes)?;
        ops.bytes.clear();
    }
    Ok(())
}

/// Changes that were decoded, but not made yet.
#[derive(Default)]
struct Batch<'a> {
    changes: Vec<DecodedChange>,
    /// The new cells of all changes except deletes, one change directly after the other.
    cells: Vec<Option<Cell<'a>>>,
    /// The key's cells of all changes, one change directly after the other.
    keys: Vec<Cell<'a>>,
}

struct DecodedChange {
    xid: u64,
    kind: Kind,
    /// The indexes of the change's first cell in `Batch::cells`, and of its first key cell in `Batch::keys`.
    cells: usize,
    key: usize,
    /// The hash of the change's key.
    hash: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Insert,
    Update { same_key: bool },
    Delete,
}

impl<'a> Batch<'a> {
    fn clear(&mut self) {
        self.changes.clear();
        self.cells.clear();
        self.keys.clear();
    }

    fn has_room(&self) -> bool {
        self.changes.len() < TOGETHER && self.cells.len() < CELLS_TOGETHER
    }

    fn read(&mut self, xid: u64, message: StreamMessage<'a>, types: &[Type], rows: &Rows) -> Result<(), Fault> {
        let (cells, key) = (self.cells.len(), self.keys.len());
        let kind = match message {
            StreamMessage::Insert { row, .. } => {
                read_row(row, types, &mut self.cells)?;
                Kind::Insert
            }
            StreamMessage::Update { old_key, row, .. } => {
                read_row(row, types, &mut self.cells)?;
                if let Some(bytes) = old_key {
                    read_key(bytes, types, rows.identity(), &mut self.keys)?;
                }
                Kind::Update { same_key: old_key.is_none() }
            }
            StreamMessage::Delete { key: bytes, .. } => {
                read_key(bytes, types, rows.identity(), &mut self.keys)?;
                Kind::Delete
            }
            other => return Err(undecodable(format!("unexpected message {other:?}"))),
        };
        if matches!(kind, Kind::Insert | Kind::Update { same_key: true }) {
            for &column in rows.identity() {
                let cell = self.cells[cells + column];
                self.keys.push(cell.ok_or_else(|| undecodable("a row lacks a value of its key"))?);
            }
        }
        let hash = rows.hash(&self.keys[key..]);
        self.changes.push(DecodedChange { xid, kind, cells, key, hash });
        Ok(())
    }

    fn prefetch(&self, rows: &Rows) {
        let mut slots = [None; TOGETHER];
        for (slot, change) in slots.iter_mut().zip(&self.changes) {
            *slot = rows.prefetch(change.hash);
        }
        slots.iter().flatten().for_each(|slot| rows.prefetch_texts(*slot));
    }

    fn make(&self, change: &DecodedChange, rows: &mut Rows, ops: &mut OpWriter) -> Result<(), Fault> {
        let DecodedChange { kind, hash, .. } = *change;
        let cells = &self.cells[change.cells..];
        let key = &self.keys[change.key..];
        if kind == Kind::Insert {
            ops.insert(rows.insert(cells, hash)?);
            return Ok(());
        }
        let slot = rows.locate(key, hash).ok_or(Fault::RowMissing)?;
        match kind {
            Kind::Update { same_key } => rows.update(slot, cells, same_key, ops),
            Kind::Insert | Kind::Delete => rows.delete(slot, ops),
        }
    }
}

/// Appends the cells of a row to `cells`; `None` stands for an unchanged cell.
fn read_row<'a>(bytes: &'a [u8], types: &[Type], cells: &mut Vec<Option<Cell<'a>>>) -> Result<(), Fault> {
    let mut reader = RowReader::new(bytes);
    for &ty in types {
        cells.push(read_cell(&mut reader, ty)?);
    }
    at_end(&reader)
}

/// The next cell of a row; `None` if the change leaves the cell as it is.
#[inline]
pub fn read_cell<'a>(reader: &mut RowReader<'a>, ty: Type) -> Result<Option<Cell<'a>>, Fault> {
    Cell::from_value(ty, reader.next(ty).map_err(undecodable)?).map_err(undecodable)
}

/// Appends the cells of a key to `key`.
fn read_key<'a>(bytes: &'a [u8], types: &[Type], identity: &[usize], key: &mut Vec<Cell<'a>>) -> Result<(), Fault> {
    let mut reader = RowReader::new(bytes);
    for &column in identity {
        let value = reader.next(types[column]).map_err(undecodable)?;
        let cell = Cell::from_value(types[column], value).map_err(undecodable)?;
        key.push(cell.ok_or_else(|| undecodable("a key lacks a value"))?);
    }
    at_end(&reader)
}

fn at_end(reader: &RowReader<'_>) -> Result<(), Fault> {
    if reader.remaining().is_empty() { Ok(()) } else { Err(undecodable("a row is longer than its columns")) }
}

/// Consecutive messages, each with its length before it.
struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<StreamMessage<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let first = self.first();
        if first.is_err() {
            // After an invalid length, the start of the next message is unknown.
            self.rest = &[];
        }
        Some(first)
    }
}

impl<'a> Messages<'a> {
    fn first(&mut self) -> Result<StreamMessage<'a>, Fault> {
        let too_early = || undecodable("message ends too early");
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or_else(too_early)?;
        let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(too_early)?;
        self.rest = rest;
        StreamMessage::decode(message).map_err(undecodable)
    }
}
