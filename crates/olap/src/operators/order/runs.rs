//! Sorted rows, all of them or the first ones. Each batch is sorted, and the batches are merged.
//!
//! Rows are ordered by their keys. If only the first rows are wanted, a row is dropped once enough rows come before it,
//! which usually a comparison of keys alone decides. Kept rows are copies, so that they do not hold the batches'
//! memory.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use datafusion_common::error::Result;

use crate::base::compact::owned;
use crate::base::keys::{Key, KeyRows, Keys, OwnedKey};
use crate::spill::Room;

/// A sorted batch.
struct Run {
    batch: RecordBatch,
    keys: KeyRows,
}

impl Run {
    fn bytes(&self) -> usize {
        self.batch.get_array_memory_size() + self.keys.size()
    }
}

/// The number of first rows that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub rows: usize,
    /// Whether rows that are equal to the last wanted row are wanted, too.
    pub ties: bool,
}

pub struct Runs {
    keys: Keys,
    schema: SchemaRef,
    wanted: Wanted,
    runs: Vec<Run>,
    rows: usize,
    room: Room,
    /// The key of the last wanted row so far. A row after it is not wanted.
    last: Option<OwnedKey>,
    /// The number of rows beyond which it pays to drop superfluous ones.
    most: usize,
}

impl Runs {
    pub fn new(keys: Keys, schema: SchemaRef, wanted: Wanted, room: Room) -> Runs {
        let most = wanted.rows.saturating_mul(2);
        Runs { keys, schema, wanted, runs: Vec::new(), rows: 0, room, last: None, most }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The average bytes of a row with its key.
    pub fn bytes_of_a_row(&self) -> usize {
        self.runs.iter().map(Run::bytes).sum::<usize>() / self.rows.max(1)
    }

    /// Adds rows. If it returns an error, the rows were not added.
    pub fn insert(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.wanted.rows == 0 {
            return Ok(());
        }
        let keys = self.keys.of(batch)?;
        let mut order: Vec<u32> = match &self.last {
            None => (0..batch.num_rows() as u32).collect(),
            Some(last) => {
                let last = last.key();
                let may_be = |at: &u32| match keys.row(*at as usize).cmp(&last) {
                    Ordering::Less => true,
                    Ordering::Equal => self.wanted.ties,
                    Ordering::Greater => false,
                };
                (0..batch.num_rows() as u32).filter(may_be).collect()
            }
        };
        let key = |at: &u32| keys.row(*at as usize);
        order.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        let mut last = None;
        if let Some((at, behind)) = order.get(self.wanted.rows - 1..).and_then(<[u32]>::split_first) {
            let equal = behind.iter().take_while(|other| self.wanted.ties && key(other) == key(at)).count();
            last = Some(key(at).owned());
            order.truncate(self.wanted.rows + equal);
        }
        if order.is_empty() {
            return Ok(());
        }
        let gathered = self.keys.gathered(order.iter().map(key));
        let order = UInt32Array::from(order);
        let columns = batch.columns().iter().map(|column| Ok(owned(take(column, &order, None)?)));
        let batch = self.batch(columns.collect::<Result<_>>()?, order.values().len())?;
        let run = Run { batch, keys: gathered };
        self.room.grow(run.bytes())?;
        // `last` is set only after the rows were added, because with this `last` other rows are dropped in favour of
        // the added rows.
        self.last = last.or(self.last.take());
        self.rows += run.batch.num_rows();
        self.runs.push(run);
        if self.rows > self.most { self.compact() } else { Ok(()) }
    }

    /// Keeps the rows that are wanted so far.
    fn compact(&mut self) -> Result<()> {
        let mut places = Vec::with_capacity(self.wanted.rows);
        let mut at = vec![0; self.runs.len()];
        self.merge(&mut at, self.wanted.rows, &mut places);
        let Some(&last) = places.last() else { return Ok(()) };
        self.last = Some(self.key(last).owned());
        if self.wanted.ties {
            self.merge_equal(&mut at, last, &mut places);
        }
        let batch = self.gathered(&places)?;
        let keys = self.keys.gathered(places.iter().map(|place| self.key(*place)));
        let run = Run { batch, keys };
        // The copy may need more memory than the original. If there is too little, the original is kept.
        if self.room.try_resize(run.bytes()) {
            self.rows = run.batch.num_rows();
            self.runs = vec![run];
        }
        self.most = self.most.max(self.rows * 2);
        Ok(())
    }

    fn key(&self, (run, at): (usize, usize)) -> Key<'_> {
        self.runs[run].keys.row(at)
    }

    /// Merges the next `rows` rows. For each run, `at` is the position up to which its rows are merged already.
    fn merge(&self, at: &mut [usize], rows: usize, places: &mut Vec<(usize, usize)>) {
        let head =
            |run: usize, at: usize| (at < self.runs[run].keys.num_rows()).then(|| Reverse((self.key((run, at)), run)));
        let mut heads: BinaryHeap<_> = (0..self.runs.len()).filter_map(|run| head(run, at[run])).collect();
        for _ in 0..rows {
            let Some(Reverse((_, run))) = heads.pop() else { return };
            places.push((run, at[run]));
            at[run] += 1;
            heads.extend(head(run, at[run]));
        }
    }

    /// Merges the following rows whose keys equal the key of the row at `last`.
    fn merge_equal(&self, at: &mut [usize], last: (usize, usize), places: &mut Vec<(usize, usize)>) {
        let key = self.key(last);
        for (run, at) in at.iter_mut().enumerate() {
            while *at < self.runs[run].keys.num_rows() && self.key((run, *at)) == key {
                places.push((run, *at));
                *at += 1;
            }
        }
    }

    fn gathered(&self, places: &[(usize, usize)]) -> Result<RecordBatch> {
        let column = |i: usize| {
            let arrays: Vec<_> = self.runs.iter().map(|run| run.batch.column(i).as_ref()).collect();
            Ok(owned(interleave(&arrays, places)?))
        };
        let columns = (0..self.schema.fields().len()).map(column).collect::<Result<_>>()?;
        self.batch(columns, places.len())
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }

    /// The wanted rows in their order.
    pub fn sorted(self) -> Sorted {
        Sorted { at: vec![0; self.runs.len()], left: self.wanted.rows, runs: self }
    }
}

/// Returns sorted rows in batches.
pub struct Sorted {
    runs: Runs,
    /// The position in each run up to which rows were returned.
    at: Vec<usize>,
    left: usize,
}

impl Sorted {
    /// The next rows, about `rows` of them; `None` at the end.
    pub fn next_batch(&mut self, rows: usize) -> Result<Option<RecordBatch>> {
        let mut places = Vec::with_capacity(rows.min(self.left).min(self.runs.rows));
        self.runs.merge(&mut self.at, rows.min(self.left), &mut places);
        self.left -= places.len();
        let Some(&last) = places.last() else { return Ok(None) };
        if self.left == 0 && self.runs.wanted.ties {
            self.runs.merge_equal(&mut self.at, last, &mut places);
        }
        self.runs.gathered(&places).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::{DataType, Field, Schema};
    use datafusion_common::error::DataFusionError;
    use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use datafusion_physical_expr::expressions::Column;

    use super::*;
    use crate::base::keys::SortColumn;
    use crate::spill::{Room, Share};

    fn batch(values: impl Iterator<Item = i64>) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("k", DataType::Int64, false)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(values))]).unwrap()
    }

    fn runs(rows: usize, ties: bool, bytes: usize) -> Runs {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let room = Room::new(MemoryConsumer::new("runs").register(&pool), Arc::new(Share::new(usize::MAX, 0)));
        let schema = batch(0..1).schema();
        let columns = [SortColumn::any(Arc::new(Column::new("k", 0)))];
        Runs::new(Keys::new(columns.into(), &schema).unwrap(), schema, Wanted { rows, ties }, room)
    }

    fn sorted(runs: Runs) -> Vec<i64> {
        let (mut sorted, mut all) = (runs.sorted(), Vec::new());
        while let Some(batch) = sorted.next_batch(7).unwrap() {
            all.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
        all
    }

    /// Behaves like a sorter without much memory: rows that do not fit are added to an empty set, in halves if need be.
    struct Few {
        rows: usize,
        ties: bool,
        bytes: usize,
        runs: Runs,
        parts: Vec<i64>,
        halved: usize,
    }

    impl Few {
        fn new(rows: usize, ties: bool, bytes: usize) -> Few {
            Few { rows, ties, bytes, runs: runs(rows, ties, bytes), parts: Vec::new(), halved: 0 }
        }

        fn insert(&mut self, batch: &RecordBatch) -> Result<()> {
            match self.runs.insert(batch) {
                Err(DataFusionError::ResourcesExhausted(_)) if !self.runs.is_empty() => {
                    self.put_aside();
                    self.insert(batch)
                }
                Err(DataFusionError::ResourcesExhausted(_)) if batch.num_rows() > 1 => {
                    self.halved += 1;
                    let half = batch.num_rows() / 2;
                    self.insert(&batch.slice(0, half))?;
                    self.insert(&batch.slice(half, batch.num_rows() - half))
                }
                inserted => inserted,
            }
        }

        fn put_aside(&mut self) {
            let next = runs(self.rows, self.ties, self.bytes);
            self.parts.extend(sorted(std::mem::replace(&mut self.runs, next)));
        }

        fn first(mut self) -> Vec<i64> {
            self.put_aside();
            self.parts.sort_unstable();
            self.parts.truncate(self.rows);
            self.parts
        }
    }

    #[test]
    fn rows_that_found_no_memory_keep_no_others_out() {
        let (all, behind) = (batch((0..200).rev()), batch(1000..1200));
        for (rows, ties) in [(60, false), (60, true), (150, false), (199, false), (300, true)] {
            let expected: Vec<i64> = (0..200).chain(1000..1200).take(rows).collect();
            let mut halved = 0;
            for bytes in (0..16_000).step_by(48) {
                let mut few = Few::new(rows, ties, bytes);
                match few.insert(&all).and_then(|()| few.insert(&behind)) {
                    Ok(()) => {
                        halved += few.halved;
                        assert_eq!(few.first(), expected, "{rows} rows in {bytes} bytes");
                    }
                    Err(error) => assert!(matches!(error, DataFusionError::ResourcesExhausted(_)), "{error}"),
                }
            }
            assert!(halved > 0, "{rows} rows always fit");
        }
    }
}
