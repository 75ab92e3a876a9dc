//! A batch of the engine's result as PostgreSQL's values.
//!
//! Values are converted column by column when the batch arrives. Values that do not fit a Datum lie in one arena of
//! the batch. They stay valid until the next batch is loaded, which is longer than a slot must hold a row.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use pgrx::prelude::*;
use plan::catalogue::Spread;

use super::spread;
use crate::client::Lost;
use crate::pg::types::{self, Arena, Datums, Form, Unwritten};
use crate::spec::{Conversion, ResultColumn};

#[derive(Default)]
pub struct Batch {
    rows: usize,
    next: usize,
    columns: Vec<Datums>,
    /// Values that are pointed to.
    arena: Arena,
}

impl Batch {
    /// Takes over a batch; an error means that the engine sent something else than was agreed.
    pub fn load(&mut self, batch: &RecordBatch, columns: &[ResultColumn]) -> Result<(), Lost> {
        self.rows = batch.num_rows();
        self.next = 0;
        self.arena.clear();
        self.columns.resize_with(columns.len(), Datums::default);
        for (values, column) in self.columns.iter_mut().zip(columns) {
            let array = batch.columns().get(column.at as usize).ok_or("the engine sent too few columns")?;
            values.begin(array.as_ref());
            match column.conversion {
                Conversion::Plain(ty) => types::plain(array.as_ref(), ty, values, &mut self.arena)?,
                Conversion::Kept(form) => types::kept(array.as_ref(), form, values, &mut self.arena)?,
                Conversion::Padded(width) => types::padded(array.as_ref(), width as usize, values, &mut self.arena)?,
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
        let base = self.arena.start();
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

impl From<Unwritten> for Lost {
    fn from(unwritten: Unwritten) -> Lost {
        match unwritten {
            Unwritten::Wrong(what) => Lost::Other(what),
            Unwritten::NoMemory => Lost::NoMemory("no memory for the engine's rows".into()),
        }
    }
}

fn by_reference(conversion: Conversion) -> bool {
    match conversion {
        Conversion::Plain(ty) => types::is_pointed_to(ty),
        Conversion::Kept(form) => !matches!(form, Form::Inline(_)),
        Conversion::Padded(_) | Conversion::Average { .. } | Conversion::Spread { .. } => true,
    }
}

fn averages(sums: &dyn Array, counts: &dyn Array, scale: u8, out: &mut Datums, arena: &mut Arena) -> Result<(), Lost> {
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
                pg_sys::Datum::from(sum.start()),
                pg_sys::Datum::from(count.start()),
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
    out: &mut Datums,
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
