//! Converts columns of the engine's result to datums.
//!
//! Values that do not fit into a datum lie in the batch's arena, and their datums point to them.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use pgrx::prelude::*;
use plan::{Stored, Type, numeric};

use super::Form;

const WRONG: &str = "the engine sent a column of another type";

/// The reason why a column cannot be converted.
#[derive(Debug)]
pub enum Unwritten {
    /// The engine sent another type or length than the planner expected.
    Wrong(String),
    NoMemory,
}

impl From<&str> for Unwritten {
    fn from(what: &str) -> Unwritten {
        Unwritten::Wrong(what.into())
    }
}

/// The datums of a column, and a flag for each whether it is null.
#[derive(Default)]
pub struct Datums {
    /// The datums. Until the batch is complete, the datum of a value in the arena is its offset there, in words.
    pub datums: Vec<usize>,
    pub nulls: Vec<bool>,
}

/// The values to which datums point, one behind the other. Each begins at a word, and so is aligned for every type.
///
/// The arena's size depends on the batch's rows. So a lack of memory is reported as an error, because a failed
/// allocation in Rust would end the server.
#[derive(Default)]
pub struct Arena {
    words: Vec<u64>,
}

/// Whether datums of the type point into the arena.
pub fn is_pointed_to(ty: Type) -> bool {
    match ty.stored() {
        Stored::Scaled64 { .. } | Stored::Scaled128 { .. } | Stored::Image(_) => true,
        Stored::Name | Stored::Padded | Stored::Varlena | Stored::Kept => true,
        Stored::Bool | Stored::Int16 | Stored::Int32 | Stored::Int64 | Stored::Unsigned => false,
        Stored::Real | Stored::Float | Stored::Nowhere => false,
    }
}

impl Datums {
    /// Removes all datums, and copies the array's null flags.
    pub fn begin(&mut self, array: &dyn Array) {
        self.datums.clear();
        self.nulls.clear();
        match array.nulls() {
            Some(valid) => self.nulls.extend(valid.iter().map(|is_valid| !is_valid)),
            None => self.nulls.resize(array.len(), false),
        }
    }
}

/// Converts the values of a type. A value in the arena is represented by its offset there.
pub fn plain(array: &dyn Array, ty: Type, out: &mut Datums, arena: &mut Arena) -> Result<(), Unwritten> {
    let datums = &mut out.datums;
    match ty.stored() {
        Stored::Bool => {
            let array = array.as_boolean_opt().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|b| b as usize));
        }
        Stored::Int16 => {
            let array = array.as_primitive_opt::<Int16Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Stored::Int32 => {
            let array = array.as_primitive_opt::<Int32Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Stored::Int64 | Stored::Unsigned => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v as usize));
        }
        Stored::Real => {
            let array = array.as_primitive_opt::<Float64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| (v as f32).to_bits() as i32 as usize));
        }
        Stored::Float => {
            let array = array.as_primitive_opt::<Float64Type>().ok_or(WRONG)?;
            datums.extend(array.values().iter().map(|&v| v.to_bits() as usize));
        }
        Stored::Scaled64 { scale } => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or(WRONG)?;
            for &value in array.values() {
                datums.push(arena.push_numeric(value.into(), scale)?);
            }
        }
        Stored::Scaled128 { scale } => {
            let array = array.as_primitive_opt::<Decimal128Type>().ok_or(WRONG)?;
            for &value in array.values() {
                datums.push(arena.push_numeric(value, scale)?);
            }
        }
        Stored::Image(image) if image.is_wide() => {
            let array = array.as_primitive_opt::<Decimal128Type>().ok_or(WRONG)?;
            for &number in array.values() {
                datums.push(arena.push_fixed(&image.bytes(number))?);
            }
        }
        Stored::Image(image) => {
            let array = array.as_primitive_opt::<Int64Type>().ok_or(WRONG)?;
            for &number in array.values() {
                datums.push(arena.push_fixed(&image.bytes(number.into()))?);
            }
        }
        Stored::Padded | Stored::Varlena if ty.is_text() => {
            let array = array.as_string_view_opt().ok_or(WRONG)?;
            for row in 0..array.len() {
                // The view of a null may hold anything.
                let text = if array.is_null(row) { "" } else { array.value(row) };
                datums.push(arena.push(text.as_bytes(), 0)?);
            }
        }
        Stored::Name => {
            let array = array.as_string_view_opt().ok_or(WRONG)?;
            for row in 0..array.len() {
                let mut name = [0; pg_sys::NAMEDATALEN as usize];
                let text = if array.is_null(row) { "" } else { array.value(row) };
                name.get_mut(..text.len()).ok_or(WRONG)?.copy_from_slice(text.as_bytes());
                datums.push(arena.push_fixed(&name)?);
            }
        }
        Stored::Padded | Stored::Varlena | Stored::Kept => return kept(array, Form::Varlena, out, arena),
        Stored::Nowhere => return Err(WRONG.into()),
    }
    Ok(())
}

/// Converts values that the engine has kept in PostgreSQL's form.
pub fn kept(array: &dyn Array, form: Form, out: &mut Datums, arena: &mut Arena) -> Result<(), Unwritten> {
    let array = array.as_binary_view_opt().ok_or(WRONG)?;
    for row in 0..array.len() {
        // The view of a null may hold anything.
        let bytes = if array.is_null(row) { None } else { Some(array.value(row)) };
        out.datums.push(match (form, bytes) {
            (Form::Varlena, bytes) => arena.push(bytes.unwrap_or_default(), 0)?,
            (_, None) => 0,
            (Form::Fixed(length) | Form::Inline(length), Some(bytes)) if bytes.len() != length => {
                let what = format!("the engine sent a value of {} instead of {length} bytes", bytes.len());
                return Err(Unwritten::Wrong(what));
            }
            (Form::Fixed(_), Some(bytes)) => arena.push_fixed(bytes)?,
            (Form::Inline(_), Some(bytes)) => inline(bytes)?,
        });
    }
    Ok(())
}

/// The datum that holds a value itself, made from the value's bytes in a tuple.
fn inline(bytes: &[u8]) -> Result<usize, Unwritten> {
    Ok(match *bytes {
        [a] => a as i8 as usize,
        [a, b] => i16::from_ne_bytes([a, b]) as usize,
        [a, b, c, d] => i32::from_ne_bytes([a, b, c, d]) as usize,
        [a, b, c, d, e, f, g, h] => usize::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => return Err(Unwritten::Wrong(format!("the engine sent a value of {} bytes", bytes.len()))),
    })
}

/// Converts values of char(n), and pads them with blanks to n characters.
pub fn padded(array: &dyn Array, width: usize, out: &mut Datums, arena: &mut Arena) -> Result<(), Unwritten> {
    let array = array.as_string_view_opt().ok_or(WRONG)?;
    for row in 0..array.len() {
        let text = if array.is_null(row) { "" } else { array.value(row) };
        // PostgreSQL counts only the characters up to a zero byte.
        let blanks = width.saturating_sub(text.chars().take_while(|c| *c != '\0').count());
        out.datums.push(arena.push(text.as_bytes(), blanks)?);
    }
    Ok(())
}

impl Arena {
    /// The greatest size of the memory that is kept for the next batch: enough for a batch of ordinary rows.
    const KEPT: usize = 1 << 20;
    /// PostgreSQL's MaxAllocSize, the greatest length that a varlena's header can hold.
    const LONGEST: usize = 0x3fff_ffff;

    /// The address of the first word. It is valid until the next push.
    pub fn start(&self) -> usize {
        self.words.as_ptr() as usize
    }

    pub fn clear(&mut self) {
        if self.words.capacity() > Self::KEPT {
            self.words = Vec::new();
        }
        self.words.clear();
    }

    pub fn push_numeric(&mut self, value: i128, scale: u8) -> Result<usize, Unwritten> {
        self.push(numeric::encode(value, scale).bytes(), 0)
    }

    /// Appends a varlena with a four-byte header; returns its offset in words.
    #[inline]
    pub fn push(&mut self, bytes: &[u8], blanks: usize) -> Result<usize, Unwritten> {
        const HEADER: usize = pg_sys::VARHDRSZ;
        let offset = self.words.len();
        let size = HEADER + bytes.len() + blanks;
        if size > Self::LONGEST {
            return Err(Unwritten::Wrong(format!("the engine sent a value of {size} bytes")));
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
    fn push_fixed(&mut self, bytes: &[u8]) -> Result<usize, Unwritten> {
        let offset = self.words.len();
        self.make(bytes.len())?;
        for (word, bytes) in self.words[offset..].iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut padded = [0; size_of::<u64>()];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Ok(offset)
    }

    /// Appends zeroed words for this many bytes.
    #[inline]
    fn make(&mut self, size: usize) -> Result<(), Unwritten> {
        let words = size.div_ceil(size_of::<u64>());
        self.words.try_reserve(words).map_err(|_| Unwritten::NoMemory)?;
        self.words.resize(self.words.len() + words, 0);
        Ok(())
    }
}
