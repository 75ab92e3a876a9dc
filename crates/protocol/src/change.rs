//! The change stream, which the capture worker writes into the ring, message by message.
//!
//! Every change is sent in this format, so it is encoded by hand: little-endian, without padding. Rows are written
//! column by column in the order of [`TableLayout::columns`]; the row's address follows. A key consists of the columns
//! of [`plan::Identity::Key`], or of the address. The reader knows the types from the layout
//! that came with [`StreamMessage::Watch`].
//!
//! A transaction is sent as a whole after it has committed, in commit order: `Begin`, its changes, `Commit`. No other
//! message comes between these.

use std::convert::Infallible;

use plan::{Literal, Physical, TableLayout, Type};

use crate::{ProtocolError, Result, Snapshot};

/// One message. Its slices point into the bytes from which it was decoded.
#[derive(Debug, PartialEq)]
pub enum StreamMessage<'a> {
    Begin {
        xid: u64,
    },
    Insert {
        relid: u32,
        row: &'a [u8],
    },
    /// `old_key` is present if the key has changed, as an address always does. Columns that PostgreSQL did not log
    /// (unchanged TOAST) are [`Value::Unchanged`] in `row`.
    Update {
        relid: u32,
        old_key: Option<&'a [u8]>,
        row: &'a [u8],
    },
    Delete {
        relid: u32,
        key: &'a [u8],
    },
    /// `lsn` is the end of the commit record, so the stream has reached this position. It is 0 if messages follow that
    /// belong to the transaction, for example that a table is retired; then a later `Position` has it. `time` is
    /// PostgreSQL's commit timestamp in microseconds since 2000-01-01.
    Commit {
        xid: u64,
        lsn: u64,
        time: i64,
    },
    /// Everything that was committed below `lsn` has been sent.
    Position {
        lsn: u64,
    },
    /// A snapshot that the capture worker has taken. Changes that it sees may be applied without a request.
    Gate {
        snapshot: Snapshot,
        around: Around,
    },
    /// From here on, the stream carries all changes of this table. The rows of earlier transactions come by a load of
    /// the same generation.
    Watch {
        generation: u64,
        layout: TableLayout,
    },
    /// The table's mirror is invalid from here on, and must be dropped. A `Watch` of the next generation may follow.
    Retire {
        relid: u32,
    },
    /// The database now names the checkpoint with this id, and this is durable.
    Anchored {
        id: u64,
    },
}

/// Positions around the moment when the snapshot of a gate was taken, in the order in which they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The position of the stream.
    pub decoded: u64,
    /// The next transaction id that was to be given out, still before the snapshot.
    pub next_xid: u64,
    /// The position at which WAL was inserted, after the snapshot.
    pub inserted: u64,
}

/// A value in a row of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    /// The value was not sent, because the update does not change it. The mirror keeps its own value.
    Unchanged,
    /// A value that the mirror's layout cannot represent, for example NaN in a decimal.
    Unholdable,
    Bool(bool),
    /// A value of type Int16, Int32, Int64, Date, Timestamp, TimestampTz or Decimal64.
    Int(i64),
    Float(f64),
    /// A value of type Decimal128.
    Decimal(i128),
    /// A value of type Text, Name, Char, Bytes or Opaque.
    Text(&'a [u8]),
}

impl Value<'_> {
    /// The value as a constant of type `ty`; `None` if there is no value, or if the value does not have this type.
    pub fn literal(self, ty: Type) -> Option<Literal> {
        Some(match self {
            Value::Bool(value) => Literal::Bool(value),
            Value::Int(value) => Literal::Int(value),
            Value::Float(value) => Literal::Float(value),
            Value::Decimal(value) => Literal::Decimal(value),
            Value::Text(bytes) if ty.is_text() => Literal::Text(std::str::from_utf8(bytes).ok()?.into()),
            Value::Text(bytes) => Literal::Bytes(bytes.into()),
            Value::Null | Value::Unchanged | Value::Unholdable => return None,
        })
    }
}

const BEGIN: u8 = 1;
const INSERT: u8 = 2;
const UPDATE: u8 = 3;
const UPDATE_WITH_KEY: u8 = 4;
const DELETE: u8 = 5;
const COMMIT: u8 = 6;
const POSITION: u8 = 7;
const GATE: u8 = 8;
const WATCH: u8 = 9;
const RETIRE: u8 = 10;
const ANCHORED: u8 = 11;

const NULL: u8 = 0;
const UNCHANGED: u8 = 1;
const UNHOLDABLE: u8 = 2;
const PRESENT: u8 = 3;

impl<'a> StreamMessage<'a> {
    /// Appends the message to `out`, with its length before it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Ok(()) = match self {
            StreamMessage::Insert { relid, row } => insert(out, *relid, copy(row)),
            StreamMessage::Update { relid, old_key: None, row } => update(out, *relid, copy(row)),
            StreamMessage::Update { relid, old_key: Some(key), row } => {
                update_with_key(out, *relid, (), |(), out| copy(key)(out), |(), out| copy(row)(out))
            }
            StreamMessage::Delete { relid, key } => delete(out, *relid, copy(key)),
            StreamMessage::Begin { xid } => framed(out, |out| {
                out.push(BEGIN);
                copy(&xid.to_le_bytes())(out)
            }),
            StreamMessage::Commit { xid, lsn, time } => framed(out, |out| {
                out.push(COMMIT);
                out.extend_from_slice(&xid.to_le_bytes());
                out.extend_from_slice(&lsn.to_le_bytes());
                copy(&time.to_le_bytes())(out)
            }),
            StreamMessage::Position { lsn } => framed(out, |out| {
                out.push(POSITION);
                copy(&lsn.to_le_bytes())(out)
            }),
            StreamMessage::Gate { snapshot, around } => framed(out, |out| {
                out.push(GATE);
                for number in [around.decoded, around.next_xid, around.inserted] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                copy(&in_postcard(snapshot))(out)
            }),
            StreamMessage::Watch { generation, layout } => framed(out, |out| {
                out.push(WATCH);
                out.extend_from_slice(&generation.to_le_bytes());
                copy(&in_postcard(layout))(out)
            }),
            StreamMessage::Retire { relid } => framed(out, |out| {
                out.push(RETIRE);
                copy(&relid.to_le_bytes())(out)
            }),
            StreamMessage::Anchored { id } => framed(out, |out| {
                out.push(ANCHORED);
                copy(&id.to_le_bytes())(out)
            }),
        };
    }

    /// Decodes one message. `bytes` begin after the message's length.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut r = Reader { bytes };
        Ok(match r.u8()? {
            BEGIN => StreamMessage::Begin { xid: r.u64()? },
            INSERT => StreamMessage::Insert { relid: r.u32()?, row: r.rest() },
            UPDATE => StreamMessage::Update { relid: r.u32()?, old_key: None, row: r.rest() },
            UPDATE_WITH_KEY => {
                let relid = r.u32()?;
                let length = r.u32()? as usize;
                StreamMessage::Update { relid, old_key: Some(r.take(length)?), row: r.rest() }
            }
            DELETE => StreamMessage::Delete { relid: r.u32()?, key: r.rest() },
            COMMIT => StreamMessage::Commit { xid: r.u64()?, lsn: r.u64()?, time: r.u64()? as i64 },
            POSITION => StreamMessage::Position { lsn: r.u64()? },
            GATE => {
                let around = Around { decoded: r.u64()?, next_xid: r.u64()?, inserted: r.u64()? };
                StreamMessage::Gate { snapshot: postcard::from_bytes(r.rest())?, around }
            }
            WATCH => StreamMessage::Watch { generation: r.u64()?, layout: postcard::from_bytes(r.rest())? },
            RETIRE => StreamMessage::Retire { relid: r.u32()? },
            ANCHORED => StreamMessage::Anchored { id: r.u64()? },
            tag => return Err(ProtocolError::UnknownTag(tag)),
        })
    }
}

/// The number of bytes that [`changed_table`] needs from the beginning of a message, after its length.
pub const CHANGE_HEAD: usize = 5;

/// The table of a row change (insert, update, delete), read from the message's first bytes; `None` for other messages.
/// So a reader can skip the changes of tables that it does not need, without decoding them.
pub fn changed_table(head: [u8; CHANGE_HEAD]) -> Option<u32> {
    match head[0] {
        INSERT | UPDATE | UPDATE_WITH_KEY | DELETE => Some(u32::from_le_bytes([head[1], head[2], head[3], head[4]])),
        _ => None,
    }
}

/// Appends an insert. `row` appends the row, so that a long row is not copied once more. Here and below, `out` is left
/// as it was if the row or the key cannot be appended.
pub fn insert<E>(out: &mut Vec<u8>, relid: u32, row: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    row_change(out, INSERT, relid, row)
}

/// Appends an update that does not change the key.
pub fn update<E>(out: &mut Vec<u8>, relid: u32, row: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    row_change(out, UPDATE, relid, row)
}

/// Appends an update with the old key. Both come from `source`.
pub fn update_with_key<S, E>(
    out: &mut Vec<u8>,
    relid: u32,
    mut source: S,
    old_key: impl FnOnce(&mut S, &mut Vec<u8>) -> Result<(), E>,
    row: impl FnOnce(&mut S, &mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    row_change(out, UPDATE_WITH_KEY, relid, |out| {
        framed(out, |out| old_key(&mut source, out))?;
        row(&mut source, out)
    })
}

/// Appends a delete.
pub fn delete<E>(out: &mut Vec<u8>, relid: u32, key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    row_change(out, DELETE, relid, key)
}

fn row_change<E>(
    out: &mut Vec<u8>,
    tag: u8,
    relid: u32,
    content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    framed(out, |out| {
        out.push(tag);
        out.extend_from_slice(&relid.to_le_bytes());
        content(out)
    })
}

/// Appends bytes with their length before them.
fn framed<E>(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let appended = content(out);
    match appended {
        Ok(()) => {
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
        Err(_) => out.truncate(start),
    }
    appended
}

/// Appends a copy of `bytes`.
fn copy(bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> Result<(), Infallible> {
    move |out| {
        out.extend_from_slice(bytes);
        Ok(())
    }
}

fn in_postcard<T: serde::Serialize>(value: &T) -> Vec<u8> {
    // Serialising plain data into memory cannot fail.
    postcard::to_stdvec(value).expect("plain data serialises")
}

/// Appends one value of a column of type `ty`.
///
/// The [`Value`] variant must belong to the type.
pub fn write_value(out: &mut Vec<u8>, ty: Type, value: &Value<'_>) {
    match value {
        Value::Null => return out.push(NULL),
        Value::Unchanged => return out.push(UNCHANGED),
        Value::Unholdable => return out.push(UNHOLDABLE),
        _ => out.push(PRESENT),
    }
    match (ty.physical(), *value) {
        (_, Value::Bool(b)) => out.push(b as u8),
        (Physical::Int16, Value::Int(i)) => out.extend_from_slice(&(i as i16).to_le_bytes()),
        (Physical::Int32, Value::Int(i)) => out.extend_from_slice(&(i as i32).to_le_bytes()),
        (_, Value::Int(i)) => out.extend_from_slice(&i.to_le_bytes()),
        (_, Value::Float(f)) => out.extend_from_slice(&f.to_bits().to_le_bytes()),
        (_, Value::Decimal(d)) => out.extend_from_slice(&d.to_le_bytes()),
        (_, Value::Text(t)) => {
            out.extend_from_slice(&(t.len() as u32).to_le_bytes());
            out.extend_from_slice(t);
        }
        (_, Value::Null | Value::Unchanged | Value::Unholdable) => {}
    }
}

/// Reads the values of a row, one [`RowReader::next`] per column.
#[derive(Clone, Copy)]
pub struct RowReader<'a> {
    reader: Reader<'a>,
}

impl<'a> RowReader<'a> {
    pub fn new(row: &'a [u8]) -> Self {
        RowReader { reader: Reader { bytes: row } }
    }

    /// The next column's value, given its type.
    #[inline]
    pub fn next(&mut self, ty: Type) -> Result<Value<'a>> {
        let r = &mut self.reader;
        Ok(match r.u8()? {
            NULL => Value::Null,
            UNCHANGED => Value::Unchanged,
            UNHOLDABLE => Value::Unholdable,
            PRESENT => match ty.physical() {
                Physical::Bit => Value::Bool(r.u8()? != 0),
                Physical::Int16 => Value::Int(i16::from_le_bytes(r.array()?) as i64),
                Physical::Int32 => Value::Int(i32::from_le_bytes(r.array()?) as i64),
                Physical::Int64 => Value::Int(i64::from_le_bytes(r.array()?)),
                Physical::Float64 => Value::Float(f64::from_bits(r.u64()?)),
                Physical::Int128 => Value::Decimal(i128::from_le_bytes(r.array()?)),
                Physical::Text | Physical::Bytes => {
                    let length = r.u32()? as usize;
                    Value::Text(r.take(length)?)
                }
            },
            tag => return Err(ProtocolError::UnknownTag(tag)),
        })
    }

    /// The bytes that were not read yet. If several rows are stored one directly after the other, these bytes begin
    /// with the next row.
    pub fn remaining(&self) -> &'a [u8] {
        self.reader.bytes
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.bytes.len() {
            return Err(ProtocolError::Truncated);
        }
        let (head, tail) = self.bytes.split_at(n);
        self.bytes = tail;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.bytes = tail;
                Ok(*head)
            }
            None => Err(ProtocolError::Truncated),
        }
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use plan::{Identity, MirrorColumn};

    use super::*;

    #[test]
    fn messages_survive_the_round_trip() {
        let layout = TableLayout {
            relid: 7,
            fingerprint: 99,
            columns: vec![MirrorColumn { attnum: 1, ty: Type::Decimal64 { scale: 2 } }],
            identity: Identity::Key(vec![0]),
        };
        let messages = [
            StreamMessage::Begin { xid: u64::MAX },
            StreamMessage::Insert { relid: 1, row: b"row" },
            StreamMessage::Update { relid: 1, old_key: None, row: b"" },
            StreamMessage::Update { relid: 1, old_key: Some(b"key"), row: b"row" },
            StreamMessage::Delete { relid: 2, key: b"k" },
            StreamMessage::Commit { xid: 3, lsn: 4, time: -5 },
            StreamMessage::Position { lsn: 6 },
            StreamMessage::Gate {
                snapshot: Snapshot::new(9, vec![3, 1]),
                around: Around { decoded: 1, next_xid: 2, inserted: 3 },
            },
            StreamMessage::Watch { generation: 2, layout },
            StreamMessage::Retire { relid: 8 },
            StreamMessage::Anchored { id: 1 << 60 },
        ];
        let mut bytes = Vec::new();
        messages.iter().for_each(|m| m.encode(&mut bytes));
        let mut rest = &bytes[..];
        for message in &messages {
            let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
            assert_eq!(&StreamMessage::decode(&rest[4..4 + length]).unwrap(), message);
            let table = rest.get(4..4 + CHANGE_HEAD).and_then(|head| changed_table(head.try_into().unwrap()));
            assert_eq!(
                table,
                match message {
                    StreamMessage::Insert { relid, .. }
                    | StreamMessage::Update { relid, .. }
                    | StreamMessage::Delete { relid, .. } => Some(*relid),
                    _ => None,
                }
            );
            rest = &rest[4 + length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_row_that_cannot_be_appended_leaves_nothing_behind() {
        let mut bytes = b"before".to_vec();
        let fails = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"half");
            Err(())
        };
        let works = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"whole");
            Ok(())
        };
        assert!(insert(&mut bytes, 1, fails).is_err());
        assert!(update(&mut bytes, 1, fails).is_err());
        assert!(update_with_key(&mut bytes, 1, (), |(), out| fails(out), |(), out| works(out)).is_err());
        assert!(update_with_key(&mut bytes, 1, (), |(), out| works(out), |(), out| fails(out)).is_err());
        assert!(delete(&mut bytes, 1, fails).is_err());
        assert_eq!(bytes, b"before");
    }

    #[test]
    fn values_survive_the_round_trip() {
        let values = [
            (Type::Bool, Value::Bool(true)),
            (Type::Int16, Value::Int(-3)),
            (Type::Int32, Value::Int(i32::MIN as i64)),
            (Type::Date, Value::Int(i32::MAX as i64)),
            (Type::Int64, Value::Int(i64::MIN)),
            (Type::Decimal64 { scale: 2 }, Value::Int(-12345)),
            (Type::Float64, Value::Float(-0.0)),
            (Type::Decimal128 { scale: 30 }, Value::Decimal(i128::MIN)),
            (Type::Text, Value::Text("Käse".as_bytes())),
            (Type::Char, Value::Null),
            (Type::Text, Value::Unchanged),
            (Type::Float32, Value::Float(1.5)),
            (Type::Time, Value::Int(86_400_000_000)),
            (Type::Oid, Value::Int(u32::MAX as i64)),
            (Type::Enum, Value::Int(-1)),
            (Type::Uuid, Value::Decimal(i128::MIN)),
            (Type::Bytes, Value::Text(b"\xff\0")),
            (Type::Opaque, Value::Unchanged),
            (Type::Decimal64 { scale: 0 }, Value::Unholdable),
        ];
        let mut row = Vec::new();
        values.iter().for_each(|(ty, v)| write_value(&mut row, *ty, v));
        let mut reader = RowReader::new(&row);
        for (ty, value) in values {
            assert_eq!(reader.next(ty).unwrap(), value);
        }
        assert!(reader.remaining().is_empty());
        for cut in 0..row.len() {
            let mut reader = RowReader::new(&row[..cut]);
            assert!(values.iter().any(|(ty, _)| reader.next(*ty).is_err()));
        }
    }
}
