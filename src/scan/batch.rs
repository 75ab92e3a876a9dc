//! A batch of the engine's result as PostgreSQL's values.
//!
//! Values are converted column by column when the batch arrives. Values that do not fit a Datum lie in one arena of
//! the batch. They stay valid until the next batch is loaded, which is longer than a slot must hold a row.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use pgrx::prelude::*;
use plan::Type;

use super::spread;
use crate::client::Lost;
use crate::pg::value::{self, Form};
use crate::spec::{Conversion, ResultColumn};
use plan::catalogue::Spread;
use plan::numeric;

#[derive(Default)]
pub struct Batch {
    rows: usize,
    next: usize,
    columns: Vec<Values>,
    /// Values that are pointed to.
    arena: Arena,
}

#[derive(Default)]
struct Values {
    /// Datums; for values in the arena their word offset until the batch is complete.
    datums: Vec<usize>,
    nulls: Vec<bool>,
}

/// Values that are pointed to, one behind the other, each at the start of a word: aligned for whatever is in it.
///
/// It is as wide as the batch's rows: that there is no memory for them is an error, where a failed allocation of Rust's
/// would be the end of the server.
#[derive(Default)]
struct Arena {
    words: Vec<u64>,
}

impl Batch {
    /// Takes over a batch; an error means that the engine sent something else than was agreed.
    pub fn load(&mut self, batch: &RecordBatch, columns: &[ResultColumn]) -> Result<(), Lost> {
        self.rows = batch.num_rows();
        self.next = 0;
        self.arena.clear();
        self.columns.resize_with(columns.len(), Values::default);
        for (values, column) in self.columns.iter_mut().zip(columns) {
            values.datums.clear();
            values.nulls.clear();
            let array = batch.columns().get(column.at as usize).ok_or("the engine sent too few columns")?;
            match array.nulls() {
                Some(valid) => values.nulls.extend(valid.iter().map(|is_valid| !is_valid)),
                None => values.nulls.resize(array.len(), false),
            }
            match column.conversion {
                Conversion::Plain(ty) => plain(array.as_ref(), ty, values, &mut self.arena)?,
                Conversion::Kept(form) => kept(array.as_ref(), form, values, &mut self.arena)?,
                Conversion::Padded(width) => padded(array.as_ref(), width as usize, values, &mut self.arena)?,
                Conversion::Average { scale } => {
                    let count = batch.columns().get(column.at as usize + 1).ok_or("the engine sent too few columns")?;
                    averages(array.as_ref(), count.as_ref(), scale, values, &mut self.arena)?
                }
                Conversion::Spread { of, scale } => {
                    let count = batch.columns().get(column.at as usize + 1).ok_or("the engine sent too few columns")?;
                    spreads(array.as_ref(), count.as_ref(), (of, scale), values, &mut self.arena)?
                }
            }
        }
        // The arena has stopped growing: offsets become addresses.
        let base = self.arena.words.as_ptr() as usize;
        for (values, column) in self.columns.iter_mut().zip(columns) {
            if by_reference(column.conversion) {
                values.datums.iter_mut().for_each(|datum| *datum = base + *datum * size_of::<u64>());
            }
        }
        Ok(())
    }

    /// Writes the next row; false if there is none.
    #[inline]
    pub fn next_row(&mut self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) -> bool {
        if self.next == self.rows {
            return false;
        }
        for (column, (value, null)) in self.columns.iter().zip(values.iter_mut().zip(nulls)) {
            *value = pg_sys::Datum::from(column.datums[self.next]);
            *null = column.nulls[self.next];
        }
        self.next += 1;
        true
    }
}

impl Batch {
    /// The remaining rows except the last: their values, and whether they are null.
    pub fn rows_ahead(&mut self) -> impl ExactSizeIterator<Item = impl Iterator<Item = (usize, bool)>> {
        let last = self.rows.saturating_sub(1).max(self.next);
        let rows = std::mem::replace(&mut self.next, last)..last;
        let columns = &self.columns;
        rows.map(move |row| columns.iter().map(move |column| (column.datums[row], column.nulls[row])))
    }
}

fn by_reference(conversion: Conversion) -> bool {
    match conversion {
        Conversion::Plain(ty) => {
            use Type::*;
            matches!(ty, Decimal64 { .. } | Decimal128 { .. } | Interval | Uuid | Text | Name | Char | Bytes)
        }
        Conversion::Kept(form) => !matches!(form, Form::Inline(_)),
        Conversion::Padded(_) | Conversion::Average { .. } | Conversion::Spread { .. } => true,
    }
}

fn plain(array: &dyn Array, ty: Type, out: &mut Values, arena: &mut Arena) -> Result<(), Lost> {
    const WRONG: &str = "the engine sent a column of another type";
    let datums = &mut out.datums;
    match ty {
        Type::Bool => {
            let array = array.as_boolean_opt().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|b| b as usize));
        }
        Type::Int16 => {
            let array = array.as_primitive_opt::<Int16Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Type::Int32 | Type::Date | Type::Enum => {
            let array = array.as_primitive_opt::<Int32Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Type::Int64 | Type::Timestamp | Type::TimestampTz | Type::Time | Type::Oid => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Type::Float32 => {
            let array = array.as_primitive_opt::<Float64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| (v as f32).to_bits() as i32 as usize));
        }
        Type::Float64 => {
            let array = array.as_primitive_opt::<Float64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v.to_bits() as usize));
        }
        Type::Decimal64 { scale } => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or(WRONG)?;
            for &value in array.values() {
                datums.push(arena.push_numeric(value.into(), scale)?);
            }
        }
        Type::Decimal128 { scale } => {
            let array = array.as_primitive_opt::<Decimal128Type>().ok_or(WRONG)?;
            for &value in array.values() {
                datums.push(arena.push_numeric(value, scale)?);
            }
        }
        Type::Interval => {
            let array = array.as_primitive_opt::<Decimal128Type>().ok_or(WRONG)?;
            for &number in array.values() {
                datums.push(arena.push_fixed(&plan::Interval::of_number(number).stored())?);
            }
        }
        Type::Uuid => {
            let array = array.as_primitive_opt::<Decimal128Type>().ok_or(WRONG)?;
            for &value in array.values() {
                datums.push(arena.push_fixed(&value::uuid_bytes(value))?);
            }
        }
        Type::Text | Type::Char => {
            let array = array.as_string_view_opt().ok_or(WRONG)?;
            for row in 0..array.len() {
                // A null's view may hold anything.
                let text = if array.is_null(row) { "" } else { array.value(row) };
                datums.push(arena.push(text.as_bytes(), 0)?);
            }
        }
        Type::Name => {
            let array = array.as_string_view_opt().ok_or(WRONG)?;
            for row in 0..array.len() {
                let mut name = [0; pg_sys::NAMEDATALEN as usize];
                let text = if array.is_null(row) { "" } else { array.value(row) };
                name.get_mut(..text.len()).ok_or(WRONG)?.copy_from_slice(text.as_bytes());
                datums.push(arena.push_fixed(&name)?);
            }
        }
        Type::Bytes | Type::Opaque => return kept(array, Form::Varlena, out, arena),
        Type::Numeric => return Err(WRONG.into()),
    }
    Ok(())
}

/// Converts values that the engine keeps as PostgreSQL gave them.
fn kept(array: &dyn Array, form: Form, out: &mut Values, arena: &mut Arena) -> Result<(), Lost> {
    let array = array.as_binary_view_opt().ok_or("the engine sent a column of another type")?;
    for row in 0..array.len() {
        // A null's view may hold anything.
        let bytes = if array.is_null(row) { None } else { Some(array.value(row)) };
        out.datums.push(match (form, bytes) {
            (Form::Varlena, bytes) => arena.push(bytes.unwrap_or_default(), 0)?,
            (_, None) => 0,
            (Form::Fixed(length) | Form::Inline(length), Some(bytes)) if bytes.len() != length => {
                return Err(format!("the engine sent a value of {} instead of {length} bytes", bytes.len()).into());
            }
            (Form::Fixed(_), Some(bytes)) => arena.push_fixed(bytes)?,
            (Form::Inline(_), Some(bytes)) => inline(bytes)?,
        });
    }
    Ok(())
}

/// The datum of a value that lies in it, as it is read from a tuple.
fn inline(bytes: &[u8]) -> Result<usize, Lost> {
    Ok(match *bytes {
        [a] => a as i8 as usize,
        [a, b] => i16::from_ne_bytes([a, b]) as usize,
        [a, b, c, d] => i32::from_ne_bytes([a, b, c, d]) as usize,
        [a, b, c, d, e, f, g, h] => usize::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(format!("the engine sent a value of {} bytes", bytes.len()).into()),
    })
}

/// char(n): with blanks up to n characters.
fn padded(array: &dyn Array, width: usize, out: &mut Values, arena: &mut Arena) -> Result<(), Lost> {
    let array = array.as_string_view_opt().ok_or("the engine sent a column of another type")?;
    for row in 0..array.len() {
        let text = if array.is_null(row) { "" } else { array.value(row) };
        // PostgreSQL counts up to a zero byte.
        let blanks = width.saturating_sub(text.chars().take_while(|c| *c != '\0').count());
        out.datums.push(arena.push(text.as_bytes(), blanks)?);
    }
    Ok(())
}

fn averages(sums: &dyn Array, counts: &dyn Array, scale: u8, out: &mut Values, arena: &mut Arena) -> Result<(), Lost> {
    let sums = sums.as_primitive_opt::<Decimal128Type>().ok_or("the engine sent a sum of another type")?;
    let counts = counts.as_primitive_opt::<Int64Type>().ok_or("the engine sent a count of another type")?;
    let (mut sum, mut count) = (Arena::default(), Arena::default());
    for row in 0..sums.len() {
        if sums.is_null(row) {
            out.datums.push(0);
            continue;
        }
        sum.clear();
        count.clear();
        sum.push_numeric(sums.value(row), scale)?;
        count.push_numeric(counts.value(row).into(), 0)?;
        // SAFETY: two numerics; the quotient is a fresh varlena with a long header.
        unsafe {
            let quotient = pg_sys::OidFunctionCall2Coll(
                pg_sys::Oid::from(pg_sys::F_NUMERIC_DIV),
                pg_sys::InvalidOid,
                pg_sys::Datum::from(sum.words.as_ptr()),
                pg_sys::Datum::from(count.words.as_ptr()),
            );
            let varlena = quotient.cast_mut_ptr::<pg_sys::varlena>();
            out.datums.push(arena.push(pgrx::varlena::varlena_to_byte_slice(varlena), 0)?);
            pg_sys::pfree(varlena.cast());
        }
    }
    Ok(())
}

fn spreads(
    differences: &dyn Array,
    counts: &dyn Array,
    (of, scale): (Spread, u8),
    out: &mut Values,
    arena: &mut Arena,
) -> Result<(), Lost> {
    let differences = differences.as_string_view_opt().ok_or("the engine sent a variance of another type")?;
    let counts = counts.as_primitive_opt::<Int64Type>().ok_or("the engine sent a count of another type")?;
    for row in 0..differences.len() {
        let difference = if differences.is_null(row) { "0" } else { differences.value(row) };
        let finished = spread::finished(of, difference, 2 * scale as usize, counts.value(row))?;
        out.nulls[row] = finished.is_none();
        out.datums.push(finished.map_or(Ok(0), |numeric| arena.push(numeric.bytes(), 0))?);
    }
    Ok(())
}

impl Arena {
    /// The arena's memory that stays for the next batch: as much as a batch of ordinary rows needs.
    const KEPT: usize = 1 << 20;
    /// PostgreSQL's MaxAllocSize: what a varlena's header can say.
    const LONGEST: usize = 0x3fff_ffff;

    fn clear(&mut self) {
        if self.words.capacity() > Self::KEPT {
            self.words = Vec::new();
        }
        self.words.clear();
    }

    fn push_numeric(&mut self, value: i128, scale: u8) -> Result<usize, Lost> {
        self.push(numeric::encode(value, scale).bytes(), 0)
    }

    /// Appends a varlena with a four-byte header; returns its offset in words.
    #[inline]
    fn push(&mut self, bytes: &[u8], blanks: usize) -> Result<usize, Lost> {
        const HEADER: usize = pg_sys::VARHDRSZ;
        let offset = self.words.len();
        let size = HEADER + bytes.len() + blanks;
        if size > Self::LONGEST {
            return Err(format!("the engine sent a value of {size} bytes").into());
        }
        self.make(size)?;
        // SAFETY: the words were just made; `size` bytes fit into them.
        unsafe {
            let start = self.words.as_mut_ptr().add(offset).cast::<u8>();
            pgrx::varlena::set_varsize_4b(start.cast(), size as i32);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(HEADER), bytes.len());
            std::ptr::write_bytes(start.add(HEADER + bytes.len()), b' ', blanks);
        }
        Ok(offset)
    }

    /// Appends a value of fixed length; returns its offset in words.
    fn push_fixed(&mut self, bytes: &[u8]) -> Result<usize, Lost> {
        let offset = self.words.len();
        self.make(bytes.len())?;
        for (word, bytes) in self.words[offset..].iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut padded = [0; size_of::<u64>()];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Ok(offset)
    }

    /// Room for `size` bytes at the end.
    #[inline]
    fn make(&mut self, size: usize) -> Result<(), Lost> {
        let words = size.div_ceil(size_of::<u64>());
        self.words.try_reserve(words).map_err(|_| Lost::NoMemory("no memory for the engine's rows".into()))?;
        self.words.resize(self.words.len() + words, 0);
        Ok(())
    }
}
