//! Groups in memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
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

use crate::pieces::pieces;

/// What the groups are, and what is computed of each.
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

    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut sets = evaluate_group_by(self.like.group_expr(), batch)?;
        match (sets.pop(), sets.pop()) {
            (Some(keys), None) => Ok(keys),
            _ => Err(DataFusionError::Internal("not one set of keys".into())),
        }
    }

    /// Of the rows' keys. Equal keys have equal ones.
    pub fn hashes(&self, batch: &RecordBatch, seed: u64) -> Result<Vec<u64>> {
        hashes(&self.keys(batch)?, batch.num_rows(), seed)
    }
}

fn hashes(keys: &[ArrayRef], rows: usize, seed: u64) -> Result<Vec<u64>> {
    let mut hashes = vec![0; rows];
    create_hashes(keys, &QualityRandomState::with_seed(seed), &mut hashes)?;
    Ok(hashes)
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
        let groups = new_group_values(keys, &GroupOrdering::None)?;
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

    /// What [`Table::key_hashes`] takes beside it.
    pub fn bytes_to_hash(&self) -> usize {
        // A set of hashes is at least half full.
        self.groups.size() + self.groups.len() * 2 * (size_of::<u64>() + 1)
    }

    /// Of all groups. Afterwards everything is as it was.
    pub fn key_hashes(&mut self, seed: u64, batch_size: usize) -> Result<Hashes> {
        let count = self.groups.len();
        // What group has which number cannot be asked; but groups are numbered as they come.
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
                // Keys that collide in DataFusion's own hashes may come in another order.
                return Err(DataFusionError::ResourcesExhausted("groups that cannot be put on disk".into()));
            }
        }
        Ok(known)
    }

    /// A row for each group.
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
