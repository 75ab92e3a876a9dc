//! Heap tuples to rows of the change stream.
//!
//! There is one deform per tuple, then each mirrored column goes straight from its datum into the output. The capture
//! worker uses it on tuples from the reorder buffer, loaders use it on tuples from the heap. They differ in the
//! meaning of an on-disk TOAST pointer: "this column did not change" to the first, "fetch it" to the second.

use pgrx::prelude::*;
use plan::{Identity, TableLayout, Type};
use protocol::change::{Value, write_value};

use super::descriptor::{Descriptor, Tuple};
use super::types::{self, Codec, Form, OnDisk, TooWide};

struct Column {
    attnum: i16,
    ty: Type,
    typid: pg_sys::Oid,
    typmod: i32,
    codec: Codec,
}

/// Turns tuples of one relation, as described by one layout, into rows.
pub struct RowEncoder {
    columns: Vec<Column>,
    /// Positions in `columns`.
    key: Vec<u16>,
    full: bool,
    new: Arrays,
    old: Arrays,
}

/// An encoder at tuples that it can read.
pub struct Fitting<'e> {
    encoder: &'e mut RowEncoder,
    descriptor: Descriptor<'e>,
    most_bytes: usize,
}

impl RowEncoder {
    /// `descriptor` belongs to the relation that `layout` was made from.
    pub fn new(layout: &TableLayout, descriptor: Descriptor<'_>) -> RowEncoder {
        let attributes = descriptor.attributes();
        let columns = layout.columns.iter().map(|c| {
            let attribute = &attributes[c.attnum as usize - 1];
            assert!(types::travels_as(attribute.atttypid, c.ty), "a layout of another relation");
            let form = Form::of(attribute.attlen, attribute.attbyval).expect("a layout of another relation");
            let codec = Codec::new(c.ty, form);
            Column { attnum: c.attnum, ty: c.ty, typid: attribute.atttypid, typmod: attribute.atttypmod, codec }
        });
        let (key, full) = match &layout.identity {
            Identity::Key(positions) => (positions.clone(), false),
            Identity::Full => ((0..layout.columns.len() as u16).collect(), true),
        };
        RowEncoder { columns: columns.collect(), key, full, new: Arrays::default(), old: Arrays::default() }
    }

    /// Whether the layout identifies rows as a whole, or by these columns, in the order of their numbers.
    pub fn identifies_by(&self, full: bool, columns: &[i16]) -> bool {
        let key = self.key.iter().map(|&position| self.columns[position as usize].attnum);
        full == self.full && (full || columns.iter().copied().eq(key))
    }

    /// An encoder of rows of `most_bytes` at most. `None`: tuples with this descriptor cannot be read as the layout
    /// says. Within a transaction that alters the table its later rows cannot.
    pub fn fitting<'e>(&'e mut self, descriptor: Descriptor<'e>, most_bytes: usize) -> Option<Fitting<'e>> {
        let attributes = descriptor.attributes();
        let fits = self.columns.iter().all(|c| {
            attributes
                .get(c.attnum as usize - 1)
                .is_some_and(|a| a.atttypid == c.typid && a.atttypmod == c.typmod && !a.attisdropped)
        });
        fits.then_some(Fitting { encoder: self, descriptor, most_bytes })
    }
}

impl Fitting<'_> {
    /// Whether updates and deletes always carry the whole old row.
    pub fn full_identity(&self) -> bool {
        self.encoder.full
    }

    /// Appends a row.
    pub fn row(&mut self, tuple: Tuple<'_>, on_disk: OnDisk, out: &mut Vec<u8>) -> Result<(), TooWide> {
        let RowEncoder { columns, new, .. } = &mut *self.encoder;
        let row = new.deform(tuple, self.descriptor);
        let mut out = Room::new(out, self.most_bytes);
        columns.iter().try_for_each(|column| out.put(column.ty, column.value(row, on_disk, out.left())?))
    }

    /// Appends the row that an update left. Columns of the old tuple (the identity's, or all) stand in for values that
    /// the update did not touch.
    pub fn updated_row(&mut self, old: Option<Tuple<'_>>, new: Tuple<'_>, out: &mut Vec<u8>) -> Result<(), TooWide> {
        let Some(old) = old else {
            return self.row(new, OnDisk::Unchanged, out);
        };
        let encoder = &mut *self.encoder;
        let new = encoder.new.deform(new, self.descriptor);
        let old = encoder.old.deform(old, self.descriptor);
        let mut out = Room::new(out, self.most_bytes);
        for (position, column) in encoder.columns.iter().enumerate() {
            let mut value = column.value(new, OnDisk::Unchanged, out.left())?;
            if value == Value::Unchanged && encoder.key.contains(&(position as u16)) {
                value = column.value(old, OnDisk::Unchanged, out.left())?;
            }
            out.put(column.ty, value)?;
        }
        Ok(())
    }

    /// Appends a key: the identity's columns, or all.
    pub fn key(&mut self, tuple: Tuple<'_>, out: &mut Vec<u8>) -> Result<(), TooWide> {
        let RowEncoder { columns, key, old, .. } = &mut *self.encoder;
        let row = old.deform(tuple, self.descriptor);
        let mut out = Room::new(out, self.most_bytes);
        for &position in &*key {
            let column = &columns[position as usize];
            out.put(column.ty, column.value(row, OnDisk::Unchanged, out.left())?)?;
        }
        Ok(())
    }
}

/// Where a row is written to, and up to what length.
struct Room<'a> {
    out: &'a mut Vec<u8>,
    end: usize,
}

impl Room<'_> {
    fn new(out: &mut Vec<u8>, most_bytes: usize) -> Room<'_> {
        let end = out.len() + most_bytes;
        Room { out, end }
    }

    fn left(&self) -> usize {
        self.end.saturating_sub(self.out.len())
    }

    /// Appends a value. A failed allocation of Rust's would end the process by a signal, and with it the server: where
    /// values may be long, it is PostgreSQL's error instead.
    fn put(&mut self, ty: Type, value: Value<'_>) -> Result<(), TooWide> {
        if let Value::Text(bytes) = value {
            if bytes.len() > self.left() {
                return Err(TooWide);
            }
            make_room(self.out, bytes.len());
        }
        write_value(self.out, ty, value);
        Ok(())
    }
}

/// Room for the values of a tuple.
#[derive(Default)]
struct Arrays {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

/// The values of a tuple that the encoder's columns fit.
#[derive(Clone, Copy)]
struct Deformed<'a> {
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
}

impl Arrays {
    /// The descriptor is the one that the columns fit.
    fn deform<'a>(&'a mut self, tuple: Tuple<'a>, descriptor: Descriptor<'_>) -> Deformed<'a> {
        assert!(tuple.descriptor() == descriptor, "a tuple of another descriptor");
        let natts = descriptor.attributes().len();
        self.values.resize(natts, pg_sys::Datum::null());
        self.nulls.resize(natts, true);
        // SAFETY: the tuple has this descriptor; the arrays have room for all its attributes.
        unsafe {
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            pg_sys::heap_deform_tuple(tuple.as_ptr(), descriptor.as_ptr(), values, nulls);
        }
        Deformed { values: &self.values, nulls: &self.nulls }
    }
}

impl Column {
    /// The value lives as long as the tuple, or the current memory context where it had to be decompressed, which it is
    /// not to more than so many bytes.
    fn value<'a>(&self, row: Deformed<'a>, on_disk: OnDisk, most_bytes: usize) -> Result<Value<'a>, TooWide> {
        let at = self.attnum as usize - 1;
        if row.nulls[at] {
            return Ok(Value::Null);
        }
        // SAFETY: the column fits the row, so that the datum is of its type and form.
        unsafe { self.codec.read(&row.values[at], on_disk, most_bytes) }
    }
}

/// Makes room for `bytes` bytes and a little more.
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
