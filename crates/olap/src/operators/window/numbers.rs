//! Numbers that depend on no later rows: `row_number`, `rank` and `dense_rank`. Each row gets its numbers when it
//! arrives.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_common::error::Result;

use crate::operators::window::frames::Starts;
use crate::operators::window::windowed::Call;

/// A number of a row.
#[derive(Clone, Copy)]
enum Number {
    Row,
    Rank,
    DenseRank,
}

/// Numbers the rows of sorted partitions.
pub struct Numbers {
    wanted: Vec<Number>,
    schema: SchemaRef,
    /// The numbers of the last row.
    row: i64,
    rank: i64,
    dense_rank: i64,
}

impl Numbers {
    /// `None` if any of the calls is another function.
    pub fn new(calls: &[Call], schema: SchemaRef) -> Option<Numbers> {
        let number = |call: &Call| match call {
            Call::RowNumber => Some(Number::Row),
            Call::Rank => Some(Number::Rank),
            Call::DenseRank => Some(Number::DenseRank),
            _ => None,
        };
        let wanted = calls.iter().map(number).collect::<Option<_>>()?;
        Some(Numbers { wanted, schema, row: 0, rank: 0, dense_rank: 0 })
    }

    /// The next rows, with their numbers.
    pub fn with(&mut self, batch: &RecordBatch, starts: &Starts) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut numbers = vec![Vec::with_capacity(rows); self.wanted.len()];
        for (partition, group) in starts.partitions.iter().zip(&starts.groups) {
            if partition {
                (self.row, self.rank, self.dense_rank) = (0, 0, 0);
            }
            self.row += 1;
            if group {
                self.rank = self.row;
                self.dense_rank += 1;
            }
            for (number, column) in self.wanted.iter().zip(&mut numbers) {
                column.push(match number {
                    Number::Row => self.row,
                    Number::Rank => self.rank,
                    Number::DenseRank => self.dense_rank,
                });
            }
        }
        let numbers = numbers.into_iter().map(|column| Arc::new(Int64Array::from(column)) as ArrayRef);
        let columns = batch.columns().iter().cloned().chain(numbers).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}
