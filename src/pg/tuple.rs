//! Heap tuples to rows of the change stream.
//!
//! One deform per tuple, then each mirrored column straight from its datum into the output. Used by the capture worker
//! on tuples from the reorder buffer, and by loaders on tuples from the heap; they differ in what an on-disk TOAST
//! pointer means: to the first "this column did not change", to the second "fetch it".

use pgrx::prelude::*;
use pgrx::varlena;
use plan::{Identity, TableLayout, Type, numeric};
use protocol::change::{Value, write_value};

use super::compat;

/// What a TOAST pointer in a tuple stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OnDisk {
    /// A value that an update did not touch; the WAL does not have it.
    Unchanged,
    /// A value to be read from the TOAST table.
    Fetch,
}

struct Column {
    attnum: i16,
    ty: Type,
    typid: pg_sys::Oid,
    typmod: i32,
}

/// Turns tuples of one relation, as described by one layout, into rows.
pub struct RowEncoder {
    columns: Vec<Column>,
    /// Positions in `columns`.
    key: Vec<u16>,
    full: bool,
    new: Deformed,
    old: Deformed,
}

#[derive(Default)]
struct Deformed {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

impl RowEncoder {
    /// # Safety
    ///
    /// `descriptor` belongs to the relation that `layout` was made from.
    pub unsafe fn new(layout: &TableLayout, descriptor: pg_sys::TupleDesc) -> RowEncoder {
        // SAFETY: the descriptor is valid and has the layout's attributes.
        let attributes = unsafe { compat::attributes(descriptor) };
        let columns = layout.columns.iter().map(|c| {
            let attribute = &attributes[c.attnum as usize - 1];
            Column { attnum: c.attnum, ty: c.ty, typid: attribute.atttypid, typmod: attribute.atttypmod }
        });
        let (key, full) = match &layout.identity {
            Identity::Key(positions) => (positions.clone(), false),
            Identity::Full => ((0..layout.columns.len() as u16).collect(), true),
        };
        RowEncoder { columns: columns.collect(), key, full, new: Deformed::default(), old: Deformed::default() }
    }

    /// Whether updates and deletes always carry the whole old row.
    pub fn full_identity(&self) -> bool {
        self.full
    }

    /// Whether tuples with this descriptor can be read as the layout says. Within a transaction that alters the table
    /// its later rows cannot.
    ///
    /// # Safety
    ///
    /// `descriptor` is valid.
    pub unsafe fn fits(&self, descriptor: pg_sys::TupleDesc) -> bool {
        // SAFETY: the caller's promise.
        let attributes = unsafe { compat::attributes(descriptor) };
        self.columns.iter().all(|c| {
            attributes
                .get(c.attnum as usize - 1)
                .is_some_and(|a| a.atttypid == c.typid && a.atttypmod == c.typmod && !a.attisdropped)
        })
    }

    /// Appends a row.
    ///
    /// # Safety
    ///
    /// `tuple` is valid and of `descriptor`, which [`fits`](Self::fits).
    pub unsafe fn row(
        &mut self,
        tuple: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
        on_disk: OnDisk,
        out: &mut Vec<u8>,
    ) {
        // SAFETY: the caller's promise, for all calls below.
        unsafe {
            self.new.deform(tuple, descriptor);
            for column in &self.columns {
                put(out, column.ty, column.value(&self.new, on_disk));
            }
        }
    }

    /// Appends the row that an update left. Columns of the old tuple (the identity's, or all) stand in for values that
    /// the update did not touch.
    ///
    /// # Safety
    ///
    /// As for [`row`](Self::row), for both tuples.
    pub unsafe fn updated_row(
        &mut self,
        old: Option<pg_sys::HeapTuple>,
        new: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
        out: &mut Vec<u8>,
    ) {
        let Some(old) = old else {
            // SAFETY: the caller's promise.
            return unsafe { self.row(new, descriptor, OnDisk::Unchanged, out) };
        };
        // SAFETY: the caller's promise, for all calls below.
        unsafe {
            self.new.deform(new, descriptor);
            self.old.deform(old, descriptor);
            for (position, column) in self.columns.iter().enumerate() {
                let mut value = column.value(&self.new, OnDisk::Unchanged);
                if value == Value::Unchanged && self.key.contains(&(position as u16)) {
                    value = column.value(&self.old, OnDisk::Unchanged);
                }
                put(out, column.ty, value);
            }
        }
    }

    /// Appends a key: the identity's columns, or all.
    ///
    /// # Safety
    ///
    /// As for [`row`](Self::row).
    pub unsafe fn key(&mut self, tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc, out: &mut Vec<u8>) {
        // SAFETY: the caller's promise, for all calls below.
        unsafe {
            self.old.deform(tuple, descriptor);
            for &position in &self.key {
                let column = &self.columns[position as usize];
                put(out, column.ty, column.value(&self.old, OnDisk::Unchanged));
            }
        }
    }
}

impl Deformed {
    unsafe fn deform(&mut self, tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) {
        // SAFETY: the caller passes a tuple of this descriptor; the arrays have room for all its attributes.
        unsafe {
            let natts = (*descriptor).natts as usize;
            self.values.resize(natts, pg_sys::Datum::null());
            self.nulls.resize(natts, true);
            pg_sys::heap_deform_tuple(tuple, descriptor, self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
        }
    }
}

impl Column {
    /// The value lives as long as the tuple, or the current memory context where it had to be decompressed.
    unsafe fn value<'a>(&self, row: &'a Deformed, on_disk: OnDisk) -> Value<'a> {
        let at = self.attnum as usize - 1;
        if row.nulls[at] {
            return Value::Null;
        }
        let datum = row.values[at];
        match self.ty {
            Type::Bool => Value::Bool(datum.value() as u8 != 0),
            Type::Int16 => Value::Int(datum.value() as i16 as i64),
            Type::Int32 | Type::Date => Value::Int(datum.value() as i32 as i64),
            Type::Int64 | Type::Timestamp | Type::TimestampTz => Value::Int(datum.value() as i64),
            Type::Float64 => Value::Float(f64::from_bits(datum.value() as u64)),
            Type::Decimal64 { scale } => {
                // SAFETY: a datum of type numeric.
                match unsafe { content(datum, on_disk) } {
                    Some(bytes) => numeric::scaled_64(bytes, scale).map_or(Value::Unholdable, Value::Int),
                    None => Value::Unchanged,
                }
            }
            Type::Decimal128 { scale } => {
                // SAFETY: a datum of type numeric.
                match unsafe { content(datum, on_disk) } {
                    Some(bytes) => numeric::scaled(bytes, scale).map_or(Value::Unholdable, Value::Decimal),
                    None => Value::Unchanged,
                }
            }
            // SAFETY: a datum of type text or varchar.
            Type::Text => unsafe { content(datum, on_disk) }.map_or(Value::Unchanged, Value::Text),
            Type::Char => {
                // SAFETY: a datum of type bpchar.
                unsafe { content(datum, on_disk) }.map_or(Value::Unchanged, |bytes| Value::Text(trimmed(bytes)))
            }
        }
    }
}

/// Appends a value. A failed allocation of Rust's would end the process by a signal, and with it the server: where values
/// may be long, it is PostgreSQL's error instead.
fn put(out: &mut Vec<u8>, ty: Type, value: Value<'_>) {
    if let Value::Text(bytes) = value {
        make_room(out, bytes.len());
    }
    write_value(out, ty, value);
}

/// Sees to it that so many bytes and a little more can be appended.
pub fn make_room(out: &mut Vec<u8>, bytes: usize) {
    const A_LITTLE_MORE: usize = 64;
    if out.try_reserve(bytes + A_LITTLE_MORE).is_err() {
        ereport!(
            PgLogLevel::ERROR,
            PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
            "out of memory",
            format!("Failed to make room for a row of {} bytes.", out.len() + bytes)
        );
    }
}

/// Without trailing blanks.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The bytes behind a varlena's length; `None` for one that lies in the TOAST table and is not to be fetched.
unsafe fn content<'a>(datum: pg_sys::Datum, on_disk: OnDisk) -> Option<&'a [u8]> {
    let mut pointer = datum.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: a non-null datum of a variable-length type points to a varlena; detoasting returns another.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) {
            let tag = varlena::vartag_external(pointer) as pg_sys::vartag_external::Type;
            if tag == pg_sys::vartag_external::VARTAG_ONDISK && on_disk == OnDisk::Unchanged {
                return None;
            }
        }
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            pointer = pg_sys::pg_detoast_datum_packed(pointer);
        }
        Some(varlena::varlena_to_byte_slice(pointer))
    }
}
