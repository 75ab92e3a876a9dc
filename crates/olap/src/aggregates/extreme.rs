//! Minimum and maximum in PostgreSQL's order of values: -0 = 0, NaN is the greatest float, and texts and bytes are
//! ordered by their bytes.
//!
//! The result keeps the bits of the value, so that the minimum of -0 alone is -0. Partial results are compared like
//! values.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, BinaryViewType, Float64Type, StringViewType};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteViewArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use datafusion_common::error::Result;
use datafusion_expr::EmitTo;
use locale::Locale;
use plan::catalogue::Extreme;

use crate::aggregates::fold::{Accumulating, Fold, Function, Over, Rows, States, Values, included};
use crate::base::operand::for_number;
use crate::functions::order::{Ordered, TextOrder, Texts, replaces};

/// A minimum or maximum. The result has the Arrow type of the values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtremeOf {
    pub which: Extreme,
    /// The locale that orders the texts; `None` if they are ordered by their bytes.
    pub locale: Option<&'static Locale>,
}

/// Runs `$body` with the Arrow type of a column: `$T` for numbers, or `$text` for text or bytes.
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

impl Function for ExtremeOf {
    fn name(&self) -> &'static str {
        match self.which {
            Extreme::Min => "min",
            Extreme::Max => "max",
        }
    }

    fn result_type(&self, arguments: &[DataType]) -> DataType {
        arguments[0].clone()
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>> {
        let ExtremeOf { which, locale } = *self;
        for_ordered!(&result,
            T => Ok(Box::new(Over::new(OfNumbers::<T> { which, of: PhantomData }, result))),
            text => Ok(Box::new(Over::new(OfTexts::<T> { which, locale, of: PhantomData }, result))))
    }
}

struct OfNumbers<T> {
    which: Extreme,
    of: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native: Ordered>> Fold for OfNumbers<T> {
    type States = Values<T::Native>;

    fn start(&self) -> T::Native {
        T::Native::default()
    }

    fn add(&self, found: &mut Values<T::Native>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let array = values[0].as_primitive::<T>();
        match (rows, array.nulls()) {
            (Rows::OfOne, None) => self.add_all(found, array.values()),
            (Rows::OfOne, Some(nulls)) => {
                nulls.valid_slices().for_each(|(start, end)| self.add_all(found, &array.values()[start..end]));
            }
            (rows, nulls) => rows.visit(array.len(), nulls, |group, row| {
                let value = array.value(row);
                if !found.seen[group] || replaces(self.which, &value, &found.values[group]) {
                    found.values[group] = value;
                    found.seen[group] = true;
                }
                Ok(())
            })?,
        }
        Ok(())
    }

    fn results(&self, found: Values<T::Native>, result: &DataType) -> Result<ArrayRef> {
        let found = PrimitiveArray::<T>::new(found.values.into(), Some(NullBuffer::from(found.seen)));
        Ok(Arc::new(found.with_data_type(result.clone())))
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        result: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_primitive::<T>();
        let states = PrimitiveArray::<T>::new(array.values().clone(), included(array.nulls(), filter));
        Ok(vec![Arc::new(states.with_data_type(result.clone()))])
    }
}

impl<T: ArrowPrimitiveType<Native: Ordered>> OfNumbers<T> {
    /// Compares all `values` with the extreme of the only group.
    fn add_all(&self, found: &mut Values<T::Native>, values: &[T::Native]) {
        let values = values.iter().copied();
        // Minimum and maximum have separate loops, so that no loop branches on the kind of extreme.
        let best = match self.which {
            Extreme::Min => values.reduce(|old, new| if new.before(&old) { new } else { old }),
            Extreme::Max => values.reduce(|old, new| if old.before(&new) { new } else { old }),
        };
        if let Some(best) = best
            && (!found.seen[0] || replaces(self.which, &best, &found.values[0]))
        {
            (found.values[0], found.seen[0]) = (best, true);
        }
    }
}

struct OfTexts<T> {
    which: Extreme,
    locale: Option<&'static Locale>,
    of: PhantomData<fn() -> T>,
}

impl<T: Texts> Fold for OfTexts<T> {
    type States = FoundTexts<T>;

    fn start(&self) -> Option<T::Owned> {
        None
    }

    fn add(&self, found: &mut FoundTexts<T>, values: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        let array = values[0].as_byte_view::<T>();
        let mut order = TextOrder::of(self.locale);
        let mut offer = |group: usize, new: &T::Native| {
            let slot = &mut found.texts[group];
            if slot.as_ref().is_none_or(|old| order.replaces::<T>(self.which, new, old.as_ref())) {
                let replaced = slot.replace(new.to_owned());
                found.bytes += slot.as_ref().map_or(0, T::bytes);
                found.bytes -= replaced.as_ref().map_or(0, T::bytes);
            }
        };
        if let Rows::OfOne = rows {
            // Finds the best text of the batch without copying any. Only this one is offered to the state.
            let mut order = TextOrder::of(self.locale);
            let best = |old, new| if order.replaces::<T>(self.which, new, old) { new } else { old };
            array.iter().flatten().reduce(best).into_iter().for_each(|best| offer(0, best));
            return Ok(());
        }
        rows.visit(array.len(), array.nulls(), |group, row| {
            offer(group, array.value(row));
            Ok(())
        })
    }

    fn results(&self, found: FoundTexts<T>, _: &DataType) -> Result<ArrayRef> {
        Ok(Arc::new(found.texts.iter().map(Option::as_ref).collect::<GenericByteViewArray<T>>()))
    }

    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        _: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let array = values[0].as_byte_view::<T>();
        let (views, buffers, _) = array.clone().into_parts();
        Ok(vec![Arc::new(GenericByteViewArray::<T>::try_new(views, buffers, included(array.nulls(), filter))?)])
    }
}

struct FoundTexts<T: Texts> {
    texts: Vec<Option<T::Owned>>,
    /// The bytes that the texts take in total.
    bytes: usize,
}

impl<T: Texts> Clone for FoundTexts<T> {
    fn clone(&self) -> Self {
        FoundTexts { texts: self.texts.clone(), bytes: self.bytes }
    }
}

impl<T: Texts> Default for FoundTexts<T> {
    fn default() -> Self {
        FoundTexts { texts: Vec::new(), bytes: 0 }
    }
}

impl<T: Texts> States for FoundTexts<T> {
    type State = Option<T::Owned>;

    fn resize(&mut self, groups: usize, start: impl Fn() -> Self::State) {
        self.texts.resize_with(groups, start);
    }

    fn take(&mut self, emitted: EmitTo) -> FoundTexts<T> {
        let texts = emitted.take_needed(&mut self.texts);
        let bytes = texts.iter().flatten().map(T::bytes).sum();
        self.bytes -= bytes;
        FoundTexts { texts, bytes }
    }

    fn bytes(&self) -> usize {
        self.texts.capacity() * size_of::<Option<T::Owned>>() + self.bytes
    }
}
