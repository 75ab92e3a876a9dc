//! The groups of the chunks that one thread reads.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use colstore::Integers;
use datafusion_common::error::Result;

use super::compile::{Shape, State};
use super::loops::{clear_others, words_of};
use super::program::{BLOCK, Bounds, Workspace};
use super::rows::Rows;
use super::slots::Slots;
use super::totals::{ChunkSum, Totals, nulls_of};
use crate::aggregates::sum::Summand;
use crate::base::operand::for_number;
use crate::operators::scan::{Direct, Selected, exhausted};

pub struct Work {
    shape: Arc<Shape>,
    direct: Arc<Direct>,
    /// The schema of the states.
    schema: SchemaRef,
    slots: Slots,
    totals: Totals,
    /// One sum for each base of the program.
    sums: Vec<ChunkSum>,
    workspace: Workspace,
    /// The values of a block, with zeros in place of nulls.
    cleared: Vec<i64>,
}

/// A chunk, with the columns that the program reads.
struct Chunk {
    index: usize,
    selected: Selected,
    columns: Vec<Option<Integers>>,
    bounds: Bounds,
    /// For each list of columns in `Shape::ways`, a bit per row that is read, set if the row is not null. `None` if no
    /// row is null.
    valid: Vec<Option<Vec<u64>>>,
    /// For each list of columns in `Shape::ways`, the number of null rows in each slot.
    nulls: Vec<Option<Vec<u32>>>,
}

impl Work {
    pub fn new(shape: Arc<Shape>, direct: Arc<Direct>, schema: SchemaRef) -> Result<Work> {
        let slots = Slots::new(shape.keys.clone(), &schema)?;
        let mut totals = Totals::new(shape.exprs.len(), shape.ways.len());
        // Without keys, all rows form one group, which exists even if there are no rows.
        totals.make_room(slots.groups());
        let sums = (0..shape.program.bases()).map(|_| ChunkSum::default()).collect();
        Ok(Work { shape, direct, schema, slots, totals, sums, workspace: Workspace::default(), cleared: Vec::new() })
    }

    pub fn groups(&self) -> usize {
        self.slots.groups()
    }

    pub fn bytes(&self) -> usize {
        let sums: usize = self.sums.iter().map(ChunkSum::bytes).sum();
        self.slots.bytes() + self.totals.bytes() + self.workspace.bytes() + sums
    }

    /// Adds the rows of a chunk. Returns `false` if the chunk's keys have no codes; nothing was added then.
    pub fn add(&mut self, index: usize) -> Result<bool> {
        let Some(keys) = self.slots.coded(self.direct.view(), index)? else { return Ok(false) };
        let Some(selected) = self.direct.select(index)? else { return Ok(true) };
        let program = &self.shape.program;
        let integers = |column: &usize| self.direct.view().integers(index, *column).map_err(exhausted);
        let columns = program.columns().iter().map(integers).collect::<Result<Vec<_>>>()?;
        let bounds = program.bounds(&columns);
        let is_wide = |output: &usize| program.of_output(*output, &bounds).is_none();
        let wide: Vec<usize> = (0..program.outputs().len()).filter(is_wide).collect();
        let selected = if wide.is_empty() { selected } else { selected.without_others() };
        self.slots.number(&keys, &selected)?;
        self.totals.make_room(self.slots.groups());
        self.totals.count_rows(&self.slots);
        let mut chunk = Chunk { index, selected, columns, bounds, valid: Vec::new(), nulls: Vec::new() };
        for (number, way) in self.shape.ways.iter().enumerate() {
            let valid = self.valid(&chunk, way)?;
            let nulls = valid.as_ref().map(|valid| nulls_of(valid, &self.slots));
            nulls.iter().for_each(|nulls| self.totals.count_nulls(number, nulls, &self.slots));
            chunk.valid.push(valid);
            chunk.nulls.push(nulls);
        }
        self.sum(&chunk)?;
        if !wide.is_empty() {
            self.sum_otherwise(&chunk, &wide)?;
        }
        Ok(true)
    }

    /// The rows, among those that are read, in which none of the columns is null.
    fn valid(&self, chunk: &Chunk, way: &[usize]) -> Result<Option<Vec<u64>>> {
        let mut all: Option<BooleanBuffer> = None;
        for column in way {
            if let Some(valid) = self.direct.view().valid(chunk.index, *column).map_err(exhausted)? {
                all = Some(all.map_or(valid.clone(), |all| &all & &valid));
            }
        }
        Ok(all.map(|valid| match chunk.selected.list() {
            None => words_of(&valid),
            Some(rows) => words_of(&BooleanBuffer::collect_bool(rows.len(), |at| valid.value(rows[at] as usize))),
        }))
    }

    /// Computes the sums that fit 64 bits.
    fn sum(&mut self, chunk: &Chunk) -> Result<()> {
        let Shape { program, way_of_base, way_of, .. } = &*self.shape;
        for (base, sum) in self.sums.iter_mut().enumerate() {
            if let Some(bounds) = program.of_base(base, &chunk.bounds) {
                sum.begin(&self.slots, bounds);
            }
        }
        let (read, list) = (chunk.selected.read(), chunk.selected.list());
        // Blocks of rows keep registers in the cache. Values that can be summed where they lie need no registers, and
        // so no blocks.
        let all_at_once = program.is_in_place(&chunk.columns, Rows::block(list, 0, read));
        let block = if all_at_once { read } else { BLOCK };
        for first in (0..read).step_by(block) {
            let rows = Rows::block(list, first, block.min(read - first));
            program.run(&chunk.columns, &chunk.bounds, rows, &mut self.workspace, |base, values| {
                let sum = &mut self.sums[base];
                match &chunk.valid[way_of_base[base]] {
                    None => sum.add(&self.slots, first, values),
                    Some(valid) => {
                        self.cleared.clear();
                        self.cleared.extend_from_slice(values);
                        clear_others(&mut self.cleared, &valid[first / 64..]);
                        sum.add(&self.slots, first, &self.cleared);
                    }
                }
            });
        }
        for (number, output) in program.outputs().iter().enumerate() {
            if program.of_output(number, &chunk.bounds).is_none() {
                continue;
            }
            let (sum, nulls) = (&self.sums[output.base], &chunk.nulls[way_of[number]]);
            for (at, slot) in self.slots.present.iter().enumerate() {
                let nulls = nulls.as_ref().map_or(0, |nulls| nulls[usize::from(*slot)]);
                let rows = i128::from(self.slots.counts[usize::from(*slot)] - nulls);
                let sum = i128::from(output.factor) * sum.of(at, *slot) + i128::from(output.offset) * rows;
                self.totals.add(number, self.slots.group_of(*slot), sum)?;
            }
        }
        Ok(())
    }

    /// Computes the sums that may exceed 64 bits, with all checks. Every row that is read must be wanted.
    fn sum_otherwise(&mut self, chunk: &Chunk, outputs: &[usize]) -> Result<()> {
        let batch = self.direct.batch(chunk.index, chunk.selected.read(), chunk.selected.list())?;
        for output in outputs {
            let values = self.shape.exprs[*output].evaluate(&batch)?.into_array(batch.num_rows())?;
            for_number!(values.data_type(), T => {
                let values = values.as_primitive::<T>();
                let present = (0..values.len()).filter(|row| values.is_valid(*row));
                let groups = present.map(|row| (self.slots.group_of(self.slots.of(row)), values.value(row)));
                groups.into_iter().try_for_each(|(group, value)| self.totals.add(*output, group, T::widen(value)))
            })?;
        }
        Ok(())
    }

    /// The states: one row per group. The work must not be used afterwards.
    pub fn states(&mut self) -> Result<RecordBatch> {
        let mut columns = self.slots.take_keys()?;
        columns.extend(self.shape.states.iter().map(|state| match state {
            State::Rows => self.totals.row_counts(),
            State::Count(way) => self.totals.counts(*way),
            State::Sum(sum, way) => self.totals.sums(*sum, *way),
        }));
        let options = RecordBatchOptions::new().with_row_count(Some(self.totals.rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}
