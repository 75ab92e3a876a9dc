//! Minimum and maximum as PostgreSQL orders values: -0 = 0, NaN is the greatest float, text goes by its bytes as bytes do.
//!
//! The bits of the value found are kept, so that the minimum of -0 alone is -0. A partial result is a value like any
//! other: merging is one more update.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, BinaryViewType, Float64Type, StringViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

use locale::Locale;
use plan::catalogue::Extreme;

use crate::aggregates::sum::included;
use crate::base::operand::for_number;
use crate::functions::order::{Ordered, TextOrder, Texts, replaces};

/// The extreme of values of one Arrow type, which is the result's too.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ExtremeOf {
    which: Extreme,
    /// In which text is ordered, if not by its bytes.
    locale: Option<&'static Locale>,
    signature: Signature,
}

impl ExtremeOf {
    pub fn new(which: Extreme, locale: Option<&'static Locale>) -> Self {
        ExtremeOf { which, locale, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn order(&self) -> TextOrder {
        TextOrder::of(self.locale)
    }
}

/// Runs `$body` with `$T` as the Arrow type of a column of numbers, or `$text` with that of one of text or bytes.
macro_rules! for_ordered {
    ($data_type:expr, $T:ident => $body:expr, text => $text:expr) => {
        match $data_type {
            DataType::Utf8View => {
                type $T = StringViewType;
                $text
            }
            DataType::BinaryView => {
                type $T = BinaryViewType;
                $text
            }
            DataType::Float64 => {
                type $T = Float64Type;
                $body
            }
            data_type => for_number!(data_type, $T => $body),
        }
    };
}

impl AggregateUDFImpl for ExtremeOf {
    fn name(&self) -> &str {
        match self.which {
            Extreme::Min => "min",
            Extreme::Max => "max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (which, data_type) = (self.which, args.return_type());
        for_ordered!(data_type,
            T => Ok(Box::new(One::<T> { which, data_type: data_type.clone(), found: None })),
            text => Ok(Box::new(OneText::<T> { which, order: self.order(), found: None })))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let (which, data_type) = (self.which, args.return_type());
        for_ordered!(data_type,
            T => Ok(Box::new(PerGroup::<T> { which, data_type: data_type.clone(), values: vec![], seen: vec![] })),
            text => Ok(Box::new(TextPerGroup::<T> { which, order: self.order(), found: vec![], bytes: 0 })))
    }
}

/// Of all rows.
#[derive(Debug)]
struct One<T: ArrowPrimitiveType + Debug> {
    which: Extreme,
    data_type: DataType,
    found: Option<T::Native>,
}

impl<T: ArrowPrimitiveType + Debug> One<T>
where
    T::Native: Ordered,
{
    fn add(&mut self, values: &[T::Native]) {
        let values = values.iter().copied();
        // A loop of its own for each, without a branch.
        let found = match self.which {
            Extreme::Min => {
                self.found.into_iter().chain(values).reduce(|old, new| if new.before(&old) { new } else { old })
            }
            Extreme::Max => {
                self.found.into_iter().chain(values).reduce(|old, new| if old.before(&new) { new } else { old })
            }
        };
        self.found = found;
    }
}

impl<T: ArrowPrimitiveType + Debug> Accumulator for One<T>
where
    T::Native: Ordered,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let array = values[0].as_primitive::<T>();
        match array.nulls() {
            None => self.add(array.values()),
            Some(nulls) => nulls.valid_slices().for_each(|(start, end)| self.add(&array.values()[start..end])),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let one = PrimitiveArray::<T>::from_iter([self.found]).with_data_type(self.data_type.clone());
        ScalarValue::try_from_array(&one, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

struct PerGroup<T: ArrowPrimitiveType> {
    which: Extreme,
    data_type: DataType,
    values: Vec<T::Native>,
    /// Groups that have a value.
    seen: Vec<bool>,
}

impl<T: ArrowPrimitiveType> GroupsAccumulator for PerGroup<T>
where
    T::Native: Ordered,
{
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.values.resize(total_groups, T::Native::default());
        self.seen.resize(total_groups, false);
        let array = values[0].as_primitive::<T>();
        for_included(array, filter, |row| {
            let (group, value) = (groups[row], array.value(row));
            if !self.seen[group] || replaces(self.which, &value, &self.values[group]) {
                self.values[group] = value;
                self.seen[group] = true;
            }
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(states, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, seen) = (emit_to.take_needed(&mut self.values), emit_to.take_needed(&mut self.seen));
        let found = PrimitiveArray::<T>::new(values.into(), Some(NullBuffer::from(seen)));
        Ok(Arc::new(found.with_data_type(self.data_type.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<T>();
        let states = PrimitiveArray::<T>::new(array.values().clone(), included(array.nulls(), filter));
        Ok(vec![Arc::new(states.with_data_type(self.data_type.clone()))])
    }

    fn size(&self) -> usize {
        self.values.capacity() * size_of::<T::Native>() + self.seen.capacity()
    }
}

struct OneText<T: Texts> {
    which: Extreme,
    order: TextOrder,
    found: Option<T::Owned>,
}

impl<T: Texts> Debug for OneText<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneText").field("which", &self.which).field("found", &self.found).finish()
    }
}

impl<T: Texts> Accumulator for OneText<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for new in values[0].as_byte_view::<T>().iter().flatten() {
            if self.found.as_ref().is_none_or(|old| self.order.replaces::<T>(self.which, new, old.as_ref())) {
                self.found = Some(new.to_owned());
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&GenericByteViewArray::<T>::from_iter([self.found.as_ref()]), 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.found.as_ref().map_or(0, T::bytes)
    }
}

struct TextPerGroup<T: Texts> {
    which: Extreme,
    order: TextOrder,
    found: Vec<Option<T::Owned>>,
    /// Of the texts.
    bytes: usize,
}

impl<T: Texts> GroupsAccumulator for TextPerGroup<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.found.resize(total_groups, None);
        let array = values[0].as_byte_view::<T>();
        for_included(array, filter, |row| {
            let (new, slot) = (array.value(row), &mut self.found[groups[row]]);
            if slot.as_ref().is_none_or(|old| self.order.replaces::<T>(self.which, new, old.as_ref())) {
                let replaced = slot.replace(new.to_owned());
                self.bytes += slot.as_ref().map_or(0, T::bytes);
                self.bytes -= replaced.as_ref().map_or(0, T::bytes);
            }
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.update_batch(states, groups, None, total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let found = emit_to.take_needed(&mut self.found);
        self.bytes -= found.iter().flatten().map(T::bytes).sum::<usize>();
        Ok(Arc::new(found.iter().map(Option::as_ref).collect::<GenericByteViewArray<T>>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_byte_view::<T>();
        let (views, buffers, _) = array.clone().into_parts();
        Ok(vec![Arc::new(GenericByteViewArray::<T>::try_new(views, buffers, included(array.nulls(), filter))?)])
    }

    fn size(&self) -> usize {
        self.found.capacity() * size_of::<Option<T::Owned>>() + self.bytes
    }
}

/// Calls `visit` with each row that is not null and passes the filter.
fn for_included(array: &dyn Array, filter: Option<&BooleanArray>, visit: impl FnMut(usize)) {
    match included(array.nulls(), filter) {
        None => (0..array.len()).for_each(visit),
        Some(included) => included.valid_indices().for_each(visit),
    }
}
