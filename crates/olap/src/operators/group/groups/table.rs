//! Groups in memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::hash_utils::{QualityRandomState, create_hashes};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion_physical_plan::aggregates::order::GroupOrdering;
use datafusion_physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, aggregate_expressions, evaluate_group_by, evaluate_many,
};
use hashbrown::HashTable;

use super::indexed::indexed;
use super::packed::packed;
use super::remembered::remembered;
use crate::base::pieces::pieces;

/// The keys and the aggregates of a grouping.
#[derive(Debug)]
pub struct Shape {
    pub like: Arc<AggregateExec>,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
}

impl Shape {
    pub fn of(like: Arc<AggregateExec>) -> Result<Shape> {
        let keys = like.group_expr().num_group_exprs();
        let arguments = aggregate_expressions(like.aggr_expr(), like.mode(), keys)?;
        Ok(Shape { like, arguments })
    }

    /// The same keys and aggregates, over the rows of `input`.
    pub fn over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Shape> {
        let like = &self.like;
        let (keys, functions) = (like.group_expr().clone(), like.aggr_expr().to_vec());
        let filters = like.filter_expr().to_vec();
        let like = AggregateExec::try_new(*like.mode(), keys, functions, filters, input, like.input_schema())?;
        Shape::of(Arc::new(like))
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut sets = evaluate_group_by(self.like.group_expr(), batch)?;
        match (sets.pop(), sets.pop()) {
            (Some(keys), None) => Ok(keys),
            _ => Err(DataFusionError::Internal("not one set of keys".into())),
        }
    }

    /// Hashes of the rows' keys. Equal keys have equal hashes.
    pub fn hashes(&self, batch: &RecordBatch, seed: u64) -> Result<Vec<u64>> {
        hashes(&self.keys(batch)?, batch.num_rows(), seed)
    }
}

fn hashes(keys: &[ArrayRef], rows: usize, seed: u64) -> Result<Vec<u64>> {
    let mut hashes = vec![0; rows];
    create_hashes(keys, &QualityRandomState::with_seed(seed), &mut hashes)?;
    Ok(hashes)
}

/// Chooses the way of numbering groups for keys of these types.
pub fn group_values(keys: SchemaRef) -> Result<Box<dyn GroupValues>> {
    if let Some(indexed) = indexed(&keys) {
        return Ok(indexed);
    }
    let general = match packed(&keys) {
        Some(packed) => packed,
        None => new_group_values(keys.clone(), &GroupOrdering::None)?,
    };
    Ok(remembered(general, &keys))
}

pub struct Table {
    shape: Arc<Shape>,
    groups: Box<dyn GroupValues>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of a batch.
    places: Vec<usize>,
}

/// The hashes of keys.
pub type Hashes = HashTable<u64>;

impl Table {
    pub fn new(shape: Arc<Shape>) -> Result<Table> {
        let keys = shape.like.group_expr().group_schema(&shape.like.input().schema())?;
        let groups = group_values(keys)?;
        let accumulators = shape.like.aggr_expr().iter().map(|function| function.create_groups_accumulator());
        let accumulators = accumulators.collect::<Result<_>>()?;
        Ok(Table { shape, groups, accumulators, places: Vec::new() })
    }

    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut added = Ok(());
        pieces(batch.clone(), &mut |piece| {
            if added.is_ok() {
                added = self.add_piece(&piece);
            }
        });
        added
    }

    fn add_piece(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.shape.keys(batch)?;
        let arguments = evaluate_many(&self.shape.arguments, batch)?;
        self.groups.intern(&keys, &mut self.places)?;
        let count = self.groups.len();
        let raw = self.shape.like.mode().input_mode() == AggregateInputMode::Raw;
        for (accumulator, arguments) in self.accumulators.iter_mut().zip(&arguments) {
            match raw {
                true => accumulator.update_batch(arguments, &self.places, None, count)?,
                false => accumulator.merge_batch(arguments, &self.places, count)?,
            }
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        let accumulated: usize = self.accumulators.iter().map(|accumulator| accumulator.size()).sum();
        accumulated + self.groups.size() + self.places.capacity() * size_of::<usize>()
    }

    /// The memory that [`Table::key_hashes`] needs in addition.
    pub fn bytes_to_hash(&self) -> usize {
        // A hash table is at least half full.
        self.groups.size() + self.groups.len() * 2 * (size_of::<u64>() + 1)
    }

    /// The hashes of all groups' keys. The groups do not change.
    pub fn key_hashes(&mut self, seed: u64, batch_size: usize) -> Result<Hashes> {
        let count = self.groups.len();
        // DataFusion cannot say which group has which number. So the groups are taken out and added again in their
        // order.
        let keys = self.groups.emit(EmitTo::All)?;
        self.groups.clear_shrink(count);
        let mut known = Hashes::with_capacity(count);
        for start in (0..count).step_by(batch_size) {
            let rows = batch_size.min(count - start);
            let keys: Vec<ArrayRef> = keys.iter().map(|column| column.slice(start, rows)).collect();
            for hash in hashes(&keys, rows, seed)? {
                known.entry(hash, |other| *other == hash, |hash| *hash).or_insert(hash);
            }
            self.groups.intern(&keys, &mut self.places)?;
            if !self.places.iter().copied().eq(start..start + rows) {
                // If keys collide in DataFusion's own hashes, the groups may come back in another order, and so with
                // other numbers.
                return Err(DataFusionError::ResourcesExhausted("groups that cannot be put on disk".into()));
            }
        }
        Ok(known)
    }

    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// The states of all groups, which are removed.
    pub fn states(&mut self) -> Result<RecordBatch> {
        let mut columns = self.groups.emit(EmitTo::All)?;
        self.groups.clear_shrink(0);
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(self.shape.like.schema(), columns)?)
    }

    /// The states of each row, as if it were a group.
    pub fn states_of_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = self.shape.keys(batch)?;
        let arguments = evaluate_many(&self.shape.arguments, batch)?;
        for (accumulator, arguments) in self.accumulators.iter().zip(&arguments) {
            columns.extend(accumulator.convert_to_state(arguments, None)?);
        }
        Ok(RecordBatch::try_new(self.shape.like.schema(), columns)?)
    }

    /// The result: a row for each group.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let schema = self.shape.like.schema();
        if self.groups.is_empty() {
            return Ok(RecordBatch::new_empty(schema));
        }
        let mut columns = self.groups.emit(EmitTo::All)?;
        drop(self.groups);
        for mut accumulator in self.accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}
