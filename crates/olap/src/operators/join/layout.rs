//! The columns of one side that a join needs: output columns, columns of its conditions, keys, and ranks.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::error::Result;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;

use super::words::Packing;
use crate::base::compact::lean;

/// The columns of one side in order: first kept columns of the input, then keys that are not among these, then ranks.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The positions of the kept columns in the input.
    kept: Vec<usize>,
    computed: Vec<Arc<dyn PhysicalExpr>>,
    /// The positions of the keys in the layout.
    keys: Vec<usize>,
    /// The number of ranks.
    ranks: usize,
    schema: SchemaRef,
}

impl Layout {
    /// `read` are the positions in the input of the columns that are read in addition to keys and ranks. Each position
    /// occurs once.
    pub fn new(
        input: &Schema,
        read: Vec<usize>,
        keys: &[Arc<dyn PhysicalExpr>],
        ranks: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Layout> {
        let mut fields: Vec<Field> = read.iter().map(|at| input.field(*at).clone().with_nullable(true)).collect();
        let mut computed: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
        let mut places = Vec::new();
        for key in keys {
            let column = (&**key as &dyn std::any::Any).downcast_ref::<Column>().map(Column::index);
            let place = match column.and_then(|index| read.iter().position(|at| *at == index)) {
                Some(place) => place,
                None => {
                    fields.push(Field::new(format!("key{}", computed.len()), key.data_type(input)?, true));
                    computed.push(key.clone());
                    fields.len() - 1
                }
            };
            places.push(place);
        }
        fields.extend((0..ranks.len()).map(|at| Field::new(format!("rank{at}"), DataType::Int64, true)));
        computed.extend(ranks.iter().cloned());
        let (kept, keys, ranks, schema) = (read, places, ranks.len(), Arc::new(Schema::new(fields)));
        Ok(Layout { kept, computed, keys, ranks, schema })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of columns that come from the input unchanged.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// The position of a column of the input in the layout.
    pub fn place_of(&self, input: usize) -> Option<usize> {
        self.kept.iter().position(|at| *at == input)
    }

    pub fn data_type(&self, place: usize) -> &DataType {
        self.schema.field(place).data_type()
    }

    pub fn key_types(&self) -> Vec<DataType> {
        self.keys.iter().map(|at| self.data_type(*at).clone()).collect()
    }

    pub fn key_places(&self) -> &[usize] {
        &self.keys
    }

    /// The number of columns before the ranks.
    pub fn without_ranks(&self) -> usize {
        self.schema.fields().len() - self.ranks
    }

    /// Converts rows of the input to this layout.
    pub fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = self.kept.iter().map(|at| batch.column(*at).clone()).collect();
        for key in &self.computed {
            columns.push(key.evaluate(batch)?.into_array(batch.num_rows())?);
        }
        self.batch(columns, batch.num_rows())
    }

    /// Like `of`, but the rows hold no memory that they do not need.
    pub fn lean_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let laid_out = self.of(batch)?;
        let columns = laid_out.columns().iter().map(lean).collect();
        self.batch(columns, batch.num_rows())
    }

    pub fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// The keys of rows in this layout.
    pub fn keys_of(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.keys_of_columns(rows.columns())
    }

    pub fn keys_of_columns(&self, columns: &[ArrayRef]) -> Vec<ArrayRef> {
        self.keys.iter().map(|at| columns[*at].clone()).collect()
    }

    /// The ranks among the columns of rows in this layout.
    pub fn ranks_of<'a>(&self, columns: &'a [ArrayRef]) -> &'a [ArrayRef] {
        &columns[self.without_ranks()..]
    }
}

/// The number of columns that remain in the build side. If equal words always mean equal keys, columns that hold only
/// keys are dropped.
pub fn places_kept(layout: &Layout, packing: &Packing) -> usize {
    if packing.is_exact() { layout.kept() } else { layout.without_ranks() }
}
