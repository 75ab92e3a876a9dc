//! Aggregates as folds: rows are added to the states of their groups, and finally each state becomes a result.
//!
//! ```text
//!   Function   an aggregate's name and types, and what computes it    DataFusion sees it as: Folded
//!   Fold       the loops: rows into states, states into results      DataFusion sees it as: Over
//! ```
//!
//! A new aggregate is a type that implements both traits. Its loops are compiled for it, in versions with and without
//! nulls and groups.

use std::fmt::{self, Debug, Formatter};
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::error::Result;
use datafusion_common::scalar::ScalarValue;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility};

/// The properties of an aggregate that DataFusion asks for.
pub trait Function: Clone + Debug + Eq + Hash + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn arguments(&self) -> usize {
        1
    }

    fn result_type(&self, arguments: &[DataType]) -> DataType;

    /// Whether the result of a group without values is null.
    fn is_nullable(&self) -> bool {
        true
    }

    /// The columns of partial states. A single column is null where the aggregate's result is null.
    fn state_types(&self, result: &DataType) -> Vec<(&'static str, DataType)> {
        vec![("value", result.clone())]
    }

    fn accumulating(&self, result: DataType) -> Result<Box<dyn Accumulating>>;
}

/// The loops of an aggregate.
pub trait Fold: Send + Sync + 'static {
    type States: States;

    /// The state of a group without values.
    fn start(&self) -> <Self::States as States>::State;

    /// Adds rows to the states of their groups.
    fn add(&self, states: &mut Self::States, values: &[ArrayRef], rows: Rows<'_>) -> Result<()>;

    /// Adds partial states. Many aggregates add partial states like values.
    fn merge(&self, states: &mut Self::States, columns: &[ArrayRef], rows: Rows<'_>) -> Result<()> {
        self.add(states, columns, rows)
    }

    fn results(&self, states: Self::States, result: &DataType) -> Result<ArrayRef>;

    fn partial(&self, states: Self::States, result: &DataType) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.results(states, result)?])
    }

    /// Converts each row into a partial state, as if the row were a group of its own.
    fn partial_of_rows(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
        result: &DataType,
    ) -> Result<Vec<ArrayRef>> {
        let groups: Vec<usize> = (0..values[0].len()).collect();
        let mut states = Self::States::default();
        states.resize(groups.len(), || self.start());
        self.add(&mut states, values, Rows::OfGroups(&groups, filter))?;
        self.partial(states, result)
    }
}

/// The states of groups.
pub trait States: Clone + Default + Send + Sync + 'static {
    type State;

    /// Makes room for `groups` groups.
    fn resize(&mut self, groups: usize, start: impl Fn() -> Self::State);

    fn take(&mut self, emitted: EmitTo) -> Self;

    fn bytes(&self) -> usize;
}

/// The state of one group. A vector holds the states of all groups.
pub trait State: Clone + Send + Sync + 'static {
    /// The heap memory that the state owns, in bytes.
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<S: State> States for Vec<S> {
    type State = S;

    fn resize(&mut self, groups: usize, start: impl Fn() -> S) {
        self.resize_with(groups, start);
    }

    fn take(&mut self, emitted: EmitTo) -> Vec<S> {
        emitted.take_needed(self)
    }

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<S>() + self.iter().map(State::heap_bytes).sum::<usize>()
    }
}

/// A value for each group. `seen` says which groups have met a value.
#[derive(Clone, Debug, Default)]
pub struct Values<V> {
    pub values: Vec<V>,
    pub seen: Vec<bool>,
}

impl<V: Clone + Default + Send + Sync + 'static> States for Values<V> {
    type State = V;

    fn resize(&mut self, groups: usize, start: impl Fn() -> V) {
        self.values.resize_with(groups, start);
        self.seen.resize(groups, false);
    }

    fn take(&mut self, emitted: EmitTo) -> Values<V> {
        Values { values: emitted.take_needed(&mut self.values), seen: emitted.take_needed(&mut self.seen) }
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<V>() + self.seen.capacity()
    }
}

/// The groups to which rows are added.
#[derive(Clone, Copy)]
pub enum Rows<'a> {
    /// All rows belong to the first group.
    OfOne,
    /// Each row belongs to the group with its number here. A row counts only if the filter lets it pass.
    OfGroups(&'a [usize], Option<&'a BooleanArray>),
}

impl Rows<'_> {
    /// Calls `visit` with the group and the number of each row that is not null and passes the filter.
    #[inline]
    pub fn visit(
        self,
        rows: usize,
        nulls: Option<&NullBuffer>,
        mut visit: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        match self {
            Rows::OfOne => match included(nulls, None) {
                None => (0..rows).try_for_each(|row| visit(0, row)),
                Some(included) => included.valid_indices().try_for_each(|row| visit(0, row)),
            },
            Rows::OfGroups(groups, filter) => match included(nulls, filter) {
                None => groups.iter().enumerate().try_for_each(|(row, group)| visit(*group, row)),
                Some(included) => included.valid_indices().try_for_each(|row| visit(groups[row], row)),
            },
        }
    }
}

/// The rows that are not null and pass the filter; `None` if all rows do.
pub fn included(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passing = filter.map(|f| match f.nulls() {
        None => NullBuffer::new(f.values().clone()),
        Some(nulls) => NullBuffer::new(f.values() & nulls.inner()),
    });
    NullBuffer::union(nulls, passing.as_ref()).filter(|n| n.null_count() > 0)
}

/// Wraps an aggregate as DataFusion's `AggregateUDF`.
pub fn folded(function: impl Function) -> AggregateUDF {
    let signature = Signature::any(function.arguments(), Volatility::Immutable);
    AggregateUDF::from(Folded { function, signature })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Folded<F> {
    function: F,
    signature: Signature,
}

impl<F: Function> AggregateUDFImpl for Folded<F> {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.function.result_type(arguments))
    }

    fn is_nullable(&self) -> bool {
        self.function.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let columns = self.function.state_types(args.return_type());
        let nullable = columns.len() == 1 && self.function.is_nullable();
        let field = |(name, ty)| Arc::new(Field::new(format!("{}[{name}]", args.name), ty, nullable));
        Ok(columns.into_iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(self.function.accumulating(args.return_type().clone())?)
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(self.function.accumulating(args.return_type().clone())?)
    }
}

/// The state of an aggregate over all rows, or over groups.
pub trait Accumulating: Accumulator + GroupsAccumulator {}

impl<T: Accumulator + GroupsAccumulator> Accumulating for T {}

/// An aggregate's loops, with the states of its groups.
pub struct Over<F: Fold> {
    fold: F,
    result: DataType,
    pub states: F::States,
}

impl<F: Fold> Over<F> {
    pub fn new(fold: F, result: DataType) -> Over<F> {
        Over { fold, result, states: F::States::default() }
    }

    fn resize(&mut self, groups: usize) {
        self.states.resize(groups, || self.fold.start());
    }

    /// Copies the state when all rows form one group. The original stays, because DataFusion may ask for a minimum or
    /// maximum before all rows have arrived.
    fn all(&mut self) -> F::States {
        self.resize(1);
        self.states.clone()
    }
}

impl<F: Fold> Debug for Over<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", std::any::type_name::<F>())
    }
}

impl<F: Fold> Accumulator for Over<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.resize(1);
        self.fold.add(&mut self.states, values, Rows::OfOne)
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.resize(1);
        self.fold.merge(&mut self.states, columns, Rows::OfOne)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let states = self.all();
        ScalarValue::try_from_array(&self.fold.results(states, &self.result)?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.all();
        let columns = self.fold.partial(states, &self.result)?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.states.bytes()
    }
}

impl<F: Fold> GroupsAccumulator for Over<F> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.resize(total_groups);
        self.fold.add(&mut self.states, values, Rows::OfGroups(groups, filter))
    }

    fn merge_batch(&mut self, columns: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.resize(total_groups);
        self.fold.merge(&mut self.states, columns, Rows::OfGroups(groups, None))
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        let states = self.states.take(emitted);
        self.fold.results(states, &self.result)
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        let states = self.states.take(emitted);
        self.fold.partial(states, &self.result)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.fold.partial_of_rows(values, filter, &self.result)
    }

    fn size(&self) -> usize {
        self.states.bytes()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Int64Array;
    use plan::catalogue::Extreme;

    use super::*;
    use crate::aggregates::extreme::ExtremeOf;

    #[test]
    fn a_result_that_is_asked_for_before_the_end_loses_nothing() {
        let values = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
        let mut max: Box<dyn Accumulating> =
            ExtremeOf { which: Extreme::Max, locale: None }.accumulating(DataType::Int64).unwrap();
        Accumulator::update_batch(&mut *max, &[values(&[1, 7, 3])]).unwrap();
        for _ in 0..2 {
            assert_eq!(Accumulator::evaluate(&mut *max).unwrap(), ScalarValue::Int64(Some(7)));
        }
        Accumulator::update_batch(&mut *max, &[values(&[5])]).unwrap();
        assert_eq!(Accumulator::evaluate(&mut *max).unwrap(), ScalarValue::Int64(Some(7)));
    }
}
