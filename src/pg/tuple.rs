//! Heap tuples to rows of the change stream.
//!
//! There is one deform per tuple, then each mirrored column goes straight from its datum into the output. The capture
//! worker uses it on tuples from the reorder buffer, loaders use it on tuples from the heap. They differ in the
//! meaning of an on-disk TOAST pointer: "this column did not change" to the first, "fetch it" to the second.

use pgrx::prelude::*;
use pgrx::varlena;
use plan::{Identity, TableLayout, Type, numeric};
use protocol::change::{Value, write_value};

use super::descriptor::{Descriptor, Tuple};
use super::value::{self, Form};

/// The meaning of a TOAST pointer in a tuple.
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
    form: Form,
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

/// A row, or a key, of more bytes than it may have. Of its values none was read beyond that.
#[derive(Debug)]
pub struct TooWide;

impl RowEncoder {
    /// `descriptor` belongs to the relation that `layout` was made from.
    pub fn new(layout: &TableLayout, descriptor: Descriptor<'_>) -> RowEncoder {
        let attributes = descriptor.attributes();
        let columns = layout.columns.iter().map(|c| {
            let attribute = &attributes[c.attnum as usize - 1];
            assert!(value::travels_as(attribute.atttypid, c.ty), "a layout of another relation");
            let form = Form::of(attribute.attlen, attribute.attbyval).expect("a layout of another relation");
            Column { attnum: c.attnum, ty: c.ty, typid: attribute.atttypid, typmod: attribute.atttypmod, form }
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
        let datum = row.values[at];
        // SAFETY: where it is asked for, a datum of type numeric, text, varchar, bpchar or bytea: the column fits the
        // row.
        let content = || unsafe { content(datum, on_disk, most_bytes) };
        Ok(match self.ty {
            Type::Bool => Value::Bool(datum.value() as u8 != 0),
            Type::Int16 => Value::Int(datum.value() as i16 as i64),
            Type::Int32 | Type::Date | Type::Enum => Value::Int(datum.value() as i32 as i64),
            Type::Int64 | Type::Timestamp | Type::TimestampTz | Type::Time => Value::Int(datum.value() as i64),
            Type::Oid => Value::Int(datum.value() as u32 as i64),
            Type::Float32 => Value::Float(f32::from_bits(datum.value() as u32).into()),
            Type::Float64 => Value::Float(f64::from_bits(datum.value() as u64)),
            Type::Decimal64 { scale } => match content()? {
                Some(bytes) => numeric::scaled_64(bytes, scale).map_or(Value::Unholdable, Value::Int),
                None => Value::Unchanged,
            },
            Type::Decimal128 { scale } => match content()? {
                Some(bytes) => numeric::scaled(bytes, scale).map_or(Value::Unholdable, Value::Decimal),
                None => Value::Unchanged,
            },
            // No column is of it.
            Type::Numeric | Type::Interval => Value::Unholdable,
            // SAFETY: a datum of type uuid: 16 bytes.
            Type::Uuid => Value::Decimal(value::uuid(unsafe { *datum.cast_mut_ptr::<[u8; 16]>() })),
            // SAFETY: a datum of type name, which lives as long as the tuple.
            Type::Name => Value::Text(unsafe { value::name(datum) }),
            Type::Text | Type::Bytes => content()?.map_or(Value::Unchanged, Value::Text),
            Type::Char => content()?.map_or(Value::Unchanged, |bytes| Value::Text(trimmed(bytes))),
            Type::Opaque => match self.form {
                Form::Varlena => content()?.map_or(Value::Unchanged, Value::Text),
                // SAFETY: a datum of this form, which lives as long as the tuple.
                Form::Fixed(length) => Value::Text(unsafe { std::slice::from_raw_parts(datum.cast_mut_ptr(), length) }),
                // SAFETY: a datum has at least that many bytes, the low ones first.
                Form::Inline(length) => Value::Text(unsafe {
                    std::slice::from_raw_parts(std::ptr::from_ref(&row.values[at]).cast(), length)
                }),
            },
        })
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

/// Without trailing blanks.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// The bytes behind a varlena's length; `None` for one that lies in the TOAST table and is not to be fetched.
unsafe fn content<'a>(datum: pg_sys::Datum, on_disk: OnDisk, most_bytes: usize) -> Result<Option<&'a [u8]>, TooWide> {
    let mut pointer = datum.cast_mut_ptr::<pg_sys::varlena>();
    // SAFETY: a non-null datum of a variable-length type points to a varlena; detoasting returns another.
    unsafe {
        if varlena::varatt_is_1b_e(pointer) {
            let tag = varlena::vartag_external(pointer) as pg_sys::vartag_external::Type;
            if tag == pg_sys::vartag_external::VARTAG_ONDISK && on_disk == OnDisk::Unchanged {
                return Ok(None);
            }
        }
        if varlena::varatt_is_1b_e(pointer) || varlena::varatt_is_4b_c(pointer) {
            // What it says of itself, before there is memory for it.
            if pg_sys::toast_raw_datum_size(datum) > most_bytes {
                return Err(TooWide);
            }
            pointer = pg_sys::pg_detoast_datum_packed(pointer);
        }
        Ok(Some(varlena::varlena_to_byte_slice(pointer)))
    }
}
