//! Aggregates over each distinct value of a group once.
//!
//! The first occurrence of a value decides, so all rows of a group must come to one place: there are no partial
//! states.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::DataType;
use arrow_select::filter::filter;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};

use crate::aggregates::fold::{Accumulating, Function, included};
use crate::aggregates::sum::Summand;
use crate::base::operand::for_number;
use crate::functions::numbers::floats::canonical;

/// Passes the first of several equal values on to another aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Distinct<F>(pub F);

impl<F: Function> Function for Distinct<F> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn arguments(&self) -> usize {
        self.0.arguments()
    }

    fn result_type(&self, arguments: &[DataType]) -> DataType {
        self.0.result_type(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        Ok(Box::new(OverFirst { of: self.0.accumulating(result)?, seen: Seen::default() }))
    }
}

fn no_partial_states<T>() -> Result<T> {
    Err(DataFusionError::Internal("an aggregate over distinct values in two phases".into()))
}

/// The values that each group has had so far.
#[derive(Debug, Default)]
struct Seen {
    /// Integers, decimals, truth values, and the bits of canonical floats, each with its group.
    numbers: HashSet<(usize, i128)>,
    texts: HashSet<(usize, Box<[u8]>)>,
    /// The bytes of the texts.
    bytes: usize,
}

impl Seen {
    /// Marks the rows whose value is new to their group. Nulls are not marked.
    fn first(
        &mut self,
        array: &ArrayRef,
        group: impl Fn(usize) -> usize,
        filter: Option<&BooleanArray>,
    ) -> Result<BooleanArray> {
        let included = included(array.nulls(), filter);
        let mut first = BooleanBufferBuilder::new(array.len());
        let rows = |row: &usize| included.as_ref().is_none_or(|included| included.is_valid(*row));
        let mut mark = |is_new: &mut dyn FnMut(usize) -> bool| {
            (0..array.len()).for_each(|row| first.append(rows(&row) && is_new(row)));
        };
        match array.data_type() {
            DataType::Utf8View => {
                let texts = array.as_string_view();
                mark(&mut |row| self.is_new(group(row), texts.value(row).as_bytes()));
            }
            DataType::BinaryView => {
                let values = array.as_binary_view();
                mark(&mut |row| self.is_new(group(row), values.value(row)));
            }
            DataType::Boolean => {
                let bits = array.as_boolean();
                mark(&mut |row| self.numbers.insert((group(row), bits.value(row) as i128)));
            }
            DataType::Float64 => {
                let floats = array.as_primitive::<Float64Type>();
                mark(&mut |row| self.numbers.insert((group(row), canonical(floats.value(row)).to_bits() as i128)));
            }
            number => for_number!(number, T => {
                let numbers = array.as_primitive::<T>();
                mark(&mut |row| self.numbers.insert((group(row), <T as Summand>::widen(numbers.value(row)))));
                Ok(())
            })?,
        }
        Ok(BooleanArray::new(first.finish(), None))
    }

    fn is_new(&mut self, group: usize, text: &[u8]) -> bool {
        let is_new = self.texts.insert((group, text.into()));
        self.bytes += if is_new { text.len() } else { 0 };
        is_new
    }

    /// Forgets the groups that were emitted; the others move up.
    fn forget(&mut self, emitted: EmitTo) {
        match emitted {
            EmitTo::All => *self = Seen::default(),
            EmitTo::First(n) => {
                self.numbers = self.numbers.drain().filter_map(|(g, v)| Some((g.checked_sub(n)?, v))).collect();
                self.texts = self.texts.drain().filter_map(|(g, v)| Some((g.checked_sub(n)?, v))).collect();
                self.bytes = self.texts.iter().map(|(_, text)| text.len()).sum();
            }
        }
    }

    fn size(&self) -> usize {
        self.numbers.capacity() * (size_of::<(usize, i128)>() + 1)
            + self.texts.capacity() * (size_of::<(usize, Box<[u8]>)>() + 1)
            + self.bytes
    }
}

#[derive(Debug)]
struct OverFirst {
    of: Box<dyn Accumulating>,
    seen: Seen,
}

impl Accumulator for OverFirst {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let first = self.seen.first(&values[0], |_| 0, None)?;
        Accumulator::update_batch(&mut *self.of, &[filter(&values[0], &first)?])
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Accumulator::evaluate(&mut *self.of)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        Accumulator::size(&*self.of) + self.seen.size()
    }
}

impl GroupsAccumulator for OverFirst {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let first = self.seen.first(&values[0], |row| groups[row], filter)?;
        GroupsAccumulator::update_batch(&mut *self.of, values, groups, Some(&first), total_groups)
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
        no_partial_states()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.seen.forget(emit_to);
        GroupsAccumulator::evaluate(&mut *self.of, emit_to)
    }

    fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        no_partial_states()
    }

    fn size(&self) -> usize {
        GroupsAccumulator::size(&*self.of) + self.seen.size()
    }
}
