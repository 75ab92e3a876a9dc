//! Drops rows that cannot be among the first of their group, without sorting them completely. The sort above then gets
//! fewer rows.
//!
//! ```text
//!   rows -> dropped if behind their group's bound -> pieces of rows, sorted -> the first rows of each group -> out
//!                                           ^                                      |
//!                                           + a group's last wanted row, if it came +
//! ```

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{TryStreamExt, stream};

use crate::base::keys::{KeyRows, Keys, OwnedKey, SortColumn};
use crate::base::visit::visit_each;
use crate::operators::order::runs::{Runs, Wanted};
use crate::spill::{Means, Room};

/// This many rows pass unchanged, because sorting few rows takes no time.
const FREE_ROWS: usize = 1 << 16;
/// The number of rows that are sorted at a time. `PIECE_BYTES` is a limit of their bytes.
const PIECE_ROWS: usize = 1 << 15;
const PIECE_BYTES: usize = 4 << 20;
/// The greatest number of groups with a bound. If there are more groups, most have so few rows that none can be
/// dropped.
const MOST_BOUNDS: usize = 1 << 14;
const ALL: Wanted = Wanted { rows: usize::MAX, ties: false };

#[derive(Debug)]
pub struct Thinned {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<[SortColumn]>,
    order: Arc<[SortColumn]>,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
}

impl Thinned {
    /// Keeps `wanted` rows of each group.
    pub fn new(
        input: Arc<dyn ExecutionPlan>,
        keys: Arc<[SortColumn]>,
        order: Arc<[SortColumn]>,
        wanted: Wanted,
    ) -> Thinned {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Thinned { input, keys, order, wanted, properties: Arc::new(properties) }
    }
}

struct Thinning {
    schema: SchemaRef,
    groups: Keys,
    /// The columns of the groups, and of the order within them.
    columns: Arc<[SortColumn]>,
    places: Keys,
    wanted: Wanted,
    batch_size: usize,
    means: Means,
    /// The bound of each group: rows after it are not wanted.
    bounds: HashMap<Box<[u8]>, OwnedKey>,
    bounds_room: Room,
    piece: Runs,
    rows: Rows,
}

/// The counts of rows.
#[derive(Default)]
struct Rows {
    seen: usize,
    /// The number of rows that have arrived since the last piece was sorted. `held` is the number of rows that wait for
    /// the next piece.
    came: usize,
    held: usize,
}

impl Thinning {
    fn new(thinned: &Thinned, batch_size: usize, means: Means) -> Result<Thinning> {
        let schema = thinned.schema();
        let columns: Arc<[SortColumn]> = thinned.keys.iter().chain(thinned.order.iter()).cloned().collect();
        let keys = || Keys::new(columns.clone(), &schema);
        let piece = Runs::new(keys()?, schema.clone(), ALL, means.room.another());
        Ok(Thinning {
            groups: Keys::new(thinned.keys.clone(), &schema)?,
            places: keys()?,
            columns,
            wanted: thinned.wanted,
            batch_size,
            bounds: HashMap::new(),
            bounds_room: means.room.another(),
            means,
            piece,
            rows: Rows::default(),
            schema,
        })
    }

    /// Appends to `out` rows that may be wanted, of this batch and of earlier ones. Returns false if thinning does not
    /// pay, so that the following rows may pass unchanged.
    fn thin(&mut self, batch: RecordBatch, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        let rows = batch.num_rows();
        self.rows.seen += rows;
        if self.rows.seen <= FREE_ROWS {
            out.push_back(batch);
            return Ok(true);
        }
        let kept = match self.within_bounds(&batch).and_then(|kept| self.piece.insert(&kept).map(|()| kept)) {
            Ok(kept) => kept,
            // Without memory, rows pass unchanged, because the sort above can put them on disk.
            Err(DataFusionError::ResourcesExhausted(_)) => {
                self.finish_piece(out)?;
                out.push_back(batch);
                return Ok(false);
            }
            Err(other) => return Err(other),
        };
        self.rows.came += rows;
        self.rows.held += kept.num_rows();
        if self.rows.held < PIECE_ROWS && self.rows.held * self.piece.bytes_of_a_row() < PIECE_BYTES {
            return Ok(true);
        }
        let (came, given) = (self.rows.came, self.finish_piece(out)?);
        Ok(given < came / 2)
    }

    fn within_bounds(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.bounds.is_empty() {
            return Ok(batch.clone());
        }
        let (groups, places) = (self.groups.of(batch)?, self.places.of(batch)?);
        let is_within = |row: usize| {
            self.bounds.get(groups.bytes(row)).is_none_or(|bound| match self.wanted.ties {
                true => places.row(row) <= bound.key(),
                false => places.row(row) < bound.key(),
            })
        };
        let within: BooleanArray = (0..batch.num_rows()).map(|row| Some(is_within(row))).collect();
        Ok(filter_record_batch(batch, &within)?)
    }

    /// Sorts the held rows, appends the first rows of each group to `out`, and returns the number of appended rows.
    fn finish_piece(&mut self, out: &mut VecDeque<RecordBatch>) -> Result<usize> {
        let keys = Keys::new(self.columns.clone(), &self.schema)?;
        let next = Runs::new(keys, self.schema.clone(), ALL, self.means.room.another());
        let mut sorted = std::mem::replace(&mut self.piece, next).sorted();
        self.rows = Rows { seen: self.rows.seen, ..Rows::default() };
        let (mut group, mut count, mut given): (Vec<u8>, usize, usize) = (Vec::new(), 0, 0);
        let mut last: Option<OwnedKey> = None;
        while let Some(batch) = sorted.next_batch(self.batch_size)? {
            let (groups, places) = (self.groups.of(&batch)?, self.places.of(&batch)?);
            let mut kept = Vec::with_capacity(batch.num_rows());
            for row in 0..batch.num_rows() {
                if count == 0 || group != groups.bytes(row) {
                    group.clear();
                    group.extend_from_slice(groups.bytes(row));
                    (count, last) = (0, None);
                }
                count += 1;
                let is_tie = last.as_ref().is_some_and(|last| last.key() == places.row(row));
                kept.push(count <= self.wanted.rows || is_tie);
                if count == self.wanted.rows {
                    self.bind(&group, &places, row);
                    last = self.wanted.ties.then(|| places.row(row).owned());
                }
            }
            let kept = filter_record_batch(&batch, &BooleanArray::from(kept))?;
            given += kept.num_rows();
            out.push_back(kept);
        }
        Ok(given)
    }

    /// Sets the bound of a group to this row, because enough rows of the group come up to it. A bound never moves back,
    /// because rows behind the earlier bound were dropped.
    fn bind(&mut self, group: &[u8], places: &KeyRows, row: usize) {
        let bound = places.row(row).owned();
        if let Some(known) = self.bounds.get_mut(group) {
            *known = bound;
            return;
        }
        let bytes = 2 * group.len() + places.bytes(row).len() + 4 * size_of::<OwnedKey>();
        if self.bounds.len() < MOST_BOUNDS && self.bounds_room.grow(bytes).is_ok() {
            self.bounds.insert(group.into(), bound);
        }
    }
}

impl ExecutionPlan for Thinned {
    fn name(&self) -> &str {
        "Thinned"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        visit_each(self.keys.iter().chain(self.order.iter()).map(|column| &column.expr), f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Thinned::new(children.remove(0), self.keys.clone(), self.order.clone(), self.wanted)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let means = Means::new("Thinned", &context);
        let thinning = Thinning::new(self, context.session_config().batch_size(), means)?;
        let input = self.input.execute(partition, context)?;
        let state = State { input, thinning: Some(thinning), out: VecDeque::new() };
        let batches = stream::try_unfold(state, State::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

struct State {
    input: SendableRecordBatchStream,
    /// The state of the thinning; `None` if thinning does not pay, or once all rows have been thinned.
    thinning: Option<Thinning>,
    out: VecDeque<RecordBatch>,
}

impl State {
    async fn next(mut self) -> Result<Option<(RecordBatch, State)>> {
        loop {
            if let Some(batch) = self.out.pop_front() {
                return Ok(Some((batch, self)));
            }
            match (self.input.try_next().await?, &mut self.thinning) {
                (Some(batch), None) => self.out.push_back(batch),
                (Some(batch), Some(thinning)) => {
                    if !thinning.thin(batch, &mut self.out)? {
                        self.thinning = None;
                    }
                }
                (None, None) => return Ok(None),
                (None, Some(thinning)) => {
                    thinning.finish_piece(&mut self.out)?;
                    self.thinning = None;
                }
            }
        }
    }
}

impl DisplayAs for Thinned {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thinned: first={}", self.wanted.rows)
    }
}
