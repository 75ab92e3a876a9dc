//! Encodes heap tuples as rows of the change stream.
//!
//! Each tuple is deformed once, and then each mirrored column goes straight from its datum into the output. The capture
//! worker encodes tuples of the reorder buffer; loaders encode tuples of the heap. A TOAST pointer to disk means "this
//! column did not change" for the capture worker, and "fetch the value" for a loader.
//!
//! Each row is followed by its address, which is not part of the tuple.

use pgrx::prelude::*;
use plan::{Identity, TableLayout, Type};
use protocol::change::{Value, write_value};

use super::address::Address;
use super::descriptor::{Descriptor, Tuple};
use super::types::{self, Codec, Form, OnDisk, TooWide};

struct Column {
    attnum: i16,
    ty: Type,
    typid: pg_sys::Oid,
    typmod: i32,
    codec: Codec,
}

/// Encodes the tuples of one relation as rows with a given layout.
pub struct RowEncoder {
    columns: Vec<Column>,
    /// The indexes in `columns` of the key's columns; empty if rows are identified by their addresses.
    key: Vec<u16>,
    /// The file of the rows' addresses.
    file: u32,
    new: Arrays,
    old: Arrays,
}

/// An encoder, with a descriptor whose tuples match its layout.
pub struct Fitting<'e> {
    encoder: &'e mut RowEncoder,
    descriptor: Descriptor<'e>,
    most_bytes: usize,
}

impl RowEncoder {
    /// An encoder for a layout. `descriptor` and `file` belong to the relation for which the layout was made.
    pub fn new(layout: &TableLayout, descriptor: Descriptor<'_>, file: u32) -> RowEncoder {
        let attributes = descriptor.attributes();
        let columns = layout.columns.iter().map(|c| {
            let attribute = &attributes[c.attnum as usize - 1];
            assert!(types::travels_as(attribute.atttypid, c.ty), "a layout of another relation");
            let form = Form::of(attribute.attlen, attribute.attbyval).expect("a layout of another relation");
            let codec = Codec::new(c.ty, form);
            Column { attnum: c.attnum, ty: c.ty, typid: attribute.atttypid, typmod: attribute.atttypmod, codec }
        });
        let key = match &layout.identity {
            Identity::Key(positions) => positions.clone(),
            Identity::Address => Vec::new(),
        };
        RowEncoder { columns: columns.collect(), key, file, new: Arrays::default(), old: Arrays::default() }
    }

    /// The file of the rows' addresses.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// Whether rows are identified by their addresses.
    pub fn is_by_address(&self) -> bool {
        self.key.is_empty()
    }

    /// Whether the layout's key consists of these columns, in ascending order of their numbers.
    pub fn has_key(&self, columns: &[i16]) -> bool {
        let key = self.key.iter().map(|&position| self.columns[position as usize].attnum);
        columns.iter().copied().eq(key)
    }

    /// Prepares the encoder for tuples with this descriptor, and limits rows to `most_bytes`. `None` if the descriptor
    /// does not match the layout. That happens if a transaction alters the table and then changes more of its rows.
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
    /// Whether rows are identified by their addresses.
    pub fn by_address(&self) -> bool {
        self.encoder.is_by_address()
    }

    /// Appends a row.
    pub fn row(
        &mut self,
        tuple: Tuple<'_>,
        address: Address,
        on_disk: OnDisk,
        out: &mut Vec<u8>,
    ) -> Result<(), TooWide> {
        let RowEncoder { columns, new, .. } = &mut *self.encoder;
        let row = new.deform(tuple, self.descriptor);
        let mut room = Room::new(out, self.most_bytes);
        columns.iter().try_for_each(|column| room.put(column.ty, &column.value(row, on_disk, room.left())))?;
        append_address(address, out);
        Ok(())
    }

    /// Appends the new row of an update. Values of the key that the update did not touch come from the old tuple, which
    /// has the columns of the key.
    pub fn updated_row(
        &mut self,
        old: Tuple<'_>,
        new: Tuple<'_>,
        address: Address,
        out: &mut Vec<u8>,
    ) -> Result<(), TooWide> {
        let encoder = &mut *self.encoder;
        let new = encoder.new.deform(new, self.descriptor);
        let old = encoder.old.deform(old, self.descriptor);
        let mut room = Room::new(out, self.most_bytes);
        for (position, column) in encoder.columns.iter().enumerate() {
            match &column.value(new, OnDisk::Unchanged, room.left()) {
                Ok(Value::Unchanged) if encoder.key.contains(&(position as u16)) => {
                    room.put(column.ty, &column.value(old, OnDisk::Unchanged, room.left()))?;
                }
                value => room.put(column.ty, value)?,
            }
        }
        append_address(address, out);
        Ok(())
    }

    /// Appends the key of a tuple.
    pub fn key(&mut self, tuple: Tuple<'_>, out: &mut Vec<u8>) -> Result<(), TooWide> {
        let RowEncoder { columns, key, old, .. } = &mut *self.encoder;
        let row = old.deform(tuple, self.descriptor);
        let mut out = Room::new(out, self.most_bytes);
        for &position in &*key {
            let column = &columns[position as usize];
            out.put(column.ty, &column.value(row, OnDisk::Unchanged, out.left()))?;
        }
        Ok(())
    }
}

/// Appends the address of a row, behind its columns or as the key that identifies it.
pub fn append_address(address: Address, out: &mut Vec<u8>) {
    write_value(out, TableLayout::ADDRESS, &Value::Int(address.number()));
}

/// The output of a row, with the limit of its length.
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

    /// Appends a value. It is passed by reference, because moving it costs more than reading it. If there is no memory
    /// for a long value, PostgreSQL raises an error. A failed allocation in Rust would end this process by a signal,
    /// and with it the server.
    fn put(&mut self, ty: Type, value: &Result<Value<'_>, TooWide>) -> Result<(), TooWide> {
        let value = value.as_ref().map_err(|_| TooWide)?;
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

/// The memory into which tuples are deformed.
#[derive(Default)]
struct Arrays {
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
}

/// The values of a deformed tuple. The tuple matches the encoder's columns.
#[derive(Clone, Copy)]
struct Deformed<'a> {
    values: &'a [pg_sys::Datum],
    nulls: &'a [bool],
}

impl Arrays {
    /// Deforms a tuple, whose descriptor must be `descriptor`.
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
    /// A column's value in a row. It lives as long as the tuple or, if it had to be decompressed, as the current memory
    /// context. A value of more than `most_bytes` is not decompressed, but refused.
    fn value<'a>(&self, row: Deformed<'a>, on_disk: OnDisk, most_bytes: usize) -> Result<Value<'a>, TooWide> {
        let at = self.attnum as usize - 1;
        if row.nulls[at] {
            return Ok(Value::Null);
        }
        // SAFETY: the column matches the row, so the datum has its type and form.
        unsafe { self.codec.read(&row.values[at], on_disk, most_bytes) }
    }
}

/// Reserves memory for `bytes` bytes and a little more. Raises an error if there is none.
fn make_room(out: &mut Vec<u8>, bytes: usize) {
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
