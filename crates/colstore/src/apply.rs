//! A committed transaction's changes, onto the rows and into the undo.

use plan::Type;
use protocol::change::{RowReader, StreamMessage};

use crate::backlog::Transaction;
use crate::column::Cell;
use crate::rows::{Fault, Rows, undecodable};
use crate::undo::{OpWriter, Undo};

/// A big transaction becomes several entries of the undo, so that none has to be built in one piece.
const ENTRY_BYTES: usize = 256 << 10;

/// Applies whole transactions, in the order given; returns the number of changes. After an error the rows are in no
/// defined state and must not be served.
pub fn apply(
    rows: &mut Rows,
    undo: &mut Undo,
    types: &[Type],
    transactions: &[Transaction],
    now_ms: u64,
) -> Result<u64, Fault> {
    let mut changes = 0;
    let mut ops = OpWriter::default();
    let mut row = Vec::with_capacity(types.len());
    let mut key = Vec::with_capacity(types.len());
    for transaction in transactions {
        let mut messages = Messages::new(&transaction.changes);
        while let Some(message) = messages.next()? {
            change(rows, types, message, &mut row, &mut key, &mut ops)?;
            changes += 1;
            if ops.bytes.len() >= ENTRY_BYTES {
                undo.push(transaction.xid, now_ms, &ops.bytes)?;
                ops.bytes.clear();
            }
        }
        if !ops.bytes.is_empty() {
            undo.push(transaction.xid, now_ms, &ops.bytes)?;
            ops.bytes.clear();
        }
    }
    Ok(changes)
}

fn change<'a>(
    rows: &mut Rows,
    types: &[Type],
    message: StreamMessage<'a>,
    row: &mut Vec<Option<Cell<'a>>>,
    key: &mut Vec<Cell<'a>>,
    ops: &mut OpWriter,
) -> Result<(), Fault> {
    match message {
        StreamMessage::Insert { row: bytes, .. } => {
            read_row(bytes, types, row)?;
            let slot = rows.insert(row)?;
            ops.insert(slot);
            Ok(())
        }
        StreamMessage::Update { old_key, row: bytes, .. } => {
            read_row(bytes, types, row)?;
            match old_key {
                Some(bytes) => read_key(bytes, types, rows.identity(), key)?,
                None => {
                    key.clear();
                    for &column in rows.identity() {
                        key.push(row[column].ok_or_else(|| undecodable("an update lacks its key"))?);
                    }
                }
            }
            let slot = rows.locate(key).ok_or(Fault::RowMissing)?;
            rows.update(slot, row, old_key.is_none(), ops)
        }
        StreamMessage::Delete { key: bytes, .. } => {
            read_key(bytes, types, rows.identity(), key)?;
            let slot = rows.locate(key).ok_or(Fault::RowMissing)?;
            rows.delete(slot, ops)
        }
        other => Err(undecodable(format!("unexpected message {other:?}"))),
    }
}

fn read_row<'a>(bytes: &'a [u8], types: &[Type], row: &mut Vec<Option<Cell<'a>>>) -> Result<(), Fault> {
    let mut reader = RowReader::new(bytes);
    row.clear();
    for &ty in types {
        row.push(read_cell(&mut reader, ty)?);
    }
    at_end(&reader)
}

/// The next cell of a row; `None`: unchanged.
#[inline]
pub fn read_cell<'a>(reader: &mut RowReader<'a>, ty: Type) -> Result<Option<Cell<'a>>, Fault> {
    Cell::from_value(ty, reader.next(ty).map_err(undecodable)?).map_err(undecodable)
}

fn read_key<'a>(bytes: &'a [u8], types: &[Type], identity: &[usize], key: &mut Vec<Cell<'a>>) -> Result<(), Fault> {
    let mut reader = RowReader::new(bytes);
    key.clear();
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

/// Walks messages that stand one behind the other, each with its length.
struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { rest: bytes }
    }

    fn next(&mut self) -> Result<Option<StreamMessage<'a>>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let too_early = || undecodable("message ends too early");
        let (length, rest) = self.rest.split_first_chunk::<4>().ok_or_else(too_early)?;
        let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(too_early)?;
        self.rest = rest;
        Ok(Some(StreamMessage::decode(message).map_err(undecodable)?))
    }
}
