//! A join whose build side does not fit into memory.
//!
//! ```text
//!   build side -> parts on disk --+
//!                                 +-> parts that are too large are divided again, by another hash
//!   probe side -> parts on disk --+
//!                                each part: a piece of its build side in memory <- its probe side, batch by batch
//!                                           the next piece                     <- its probe side once more
//! ```
//!
//! Everything except the joining of parts happens before the first row is returned. By then the memory for joining is
//! reserved, so that nothing can fail any more. Most parts are joined in one pass. A part with too many rows of one key
//! needs several passes.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;
use futures::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;

use super::gather::joined;
use super::parts::{Extent, PARTS, PIECE, Part, Rows, Side, Writer, Written};
use super::shape::Shape;
use super::spent::Spent;
use super::table::{MOST_ROWS, Table};
use crate::spill::{Account, Means, Room, Stored, blocking};

/// The approximate number of bytes of rows that are read from disk at once.
pub const READ_BYTES: usize = 2 * PIECE;
/// The deepest level. Each level has sixteen times as many parts, so no disk is large enough for a deeper one.
const DEEPEST: u64 = 8;

/// Parts that have not been joined yet, with the memory for joining them.
pub struct Apart {
    pub parts: Mutex<Vec<Part>>,
    rooms: Mutex<Vec<Room>>,
    /// The memory for a build side in each of `rooms`, in bytes.
    pub budget: usize,
}

impl Apart {
    pub fn room(&self) -> Result<Room> {
        self.rooms.lock().pop().ok_or_else(|| DataFusionError::Internal("more partitions than were expected".into()))
    }
}

/// The memory for joining a part whose build side has this extent.
pub fn memory_of(extent: &Extent) -> usize {
    2 * extent.bytes + Table::most_bytes(extent.rows) + extent.rows
}

/// Divides both sides until each part fits into memory, or dividing it again would not help.
pub async fn apart(
    shape: &Arc<Shape>,
    written: Vec<Written>,
    probe: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    means: Means,
    spent: &Arc<Spent>,
) -> Result<Apart> {
    let Means { mut room, disk } = means;
    let account = disk.ok_or_else(|| DataFusionError::Internal("rows on no disk".into()))?;
    let mut parts: Vec<Part> = (0..PARTS).map(|_| Part { depth: 1, ..Part::default() }).collect();
    for written in written {
        parts.iter_mut().zip(written).for_each(|(part, written)| part.build.add(written));
    }
    let mut left_out = [false; PARTS];
    for (left_out, part) in left_out.iter_mut().zip(&parts) {
        *left_out = part.build.extent.rows == 0 && !shape.keeps_nulls_of_probe();
    }
    for written in probed(shape, probe, context, &room, &account, left_out, spent).await? {
        parts.iter_mut().zip(written).for_each(|(part, written)| part.probe.add(written));
    }
    parts.retain(|part| part.is_wanted(shape));
    let partitions = probe.output_partitioning().partition_count();
    let mut rooms: Vec<Room> = (0..partitions).map(|_| room.another()).collect();
    let budget = share(&mut rooms, &parts)?;
    let parts = divided(shape, parts, budget, &mut room, &account).await?;
    drop(room);
    // The memory for batches of the probe side, in addition to the build side. It matters if a single row is large.
    let beside = parts.iter().map(|part| beside(shape, part, budget)).max().unwrap_or(0);
    for room in &mut rooms {
        room.resize(budget + beside)?;
    }
    Ok(Apart { parts: Mutex::new(parts), rooms: Mutex::new(rooms), budget })
}

/// Divides the probe side into parts.
async fn probed(
    shape: &Arc<Shape>,
    probe: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    room: &Room,
    account: &Account,
    left_out: [bool; PARTS],
    spent: &Arc<Spent>,
) -> Result<Vec<Written>> {
    let mut writing = Vec::new();
    for partition in 0..probe.output_partitioning().partition_count() {
        let (probe, context, spent) = (probe.clone(), context.clone(), spent.clone());
        let mut room = room.another();
        let writer = Writer::new(shape, Side::Probe, 0, account.clone()).leaving_out(left_out);
        let shape = shape.clone();
        writing.push(SpawnedTask::spawn(async move {
            room.resize(Writer::BYTES)?;
            write_all(&shape, probe.execute(partition, context)?, writer, &spent).await
        }));
    }
    let mut all = Vec::new();
    for task in writing {
        all.push(joined(task).await?);
    }
    Ok(all)
}

async fn write_all(
    shape: &Shape,
    mut rows: SendableRecordBatchStream,
    mut writer: Writer,
    spent: &Spent,
) -> Result<Written> {
    while let Some(batch) = rows.try_next().await? {
        let start = Instant::now();
        let batch = shape.probe.of(&batch)?;
        blocking(|| writer.write(&batch))?;
        spent.since(Some(start));
        tokio::task::yield_now().await;
    }
    blocking(|| writer.finish())
}

/// Takes memory for each thread: as much as the largest part needs, or as much as is available.
fn share(rooms: &mut [Room], parts: &[Part]) -> Result<usize> {
    let wanted = parts.iter().map(|part| memory_of(&part.build.extent)).max().unwrap_or(0);
    let least = rooms.first().map_or(0, Room::least_bytes).max(READ_BYTES);
    let mut budget = wanted;
    while budget > least {
        if rooms.iter_mut().all(|room| room.try_resize(budget)) {
            return Ok(budget);
        }
        rooms.iter_mut().try_for_each(|room| room.resize(0))?;
        budget /= 2;
    }
    let budget = least.min(wanted).max(READ_BYTES);
    rooms.iter_mut().try_for_each(|room| room.resize(budget))?;
    Ok(budget)
}

/// Divides the parts further until none needs more than `budget`, as far as this is possible.
async fn divided(
    shape: &Arc<Shape>,
    mut parts: Vec<Part>,
    budget: usize,
    room: &mut Room,
    account: &Account,
) -> Result<Vec<Part>> {
    let mut done = Vec::new();
    while let Some(part) = parts.pop() {
        let fits = memory_of(&part.build.extent) <= budget && part.build.extent.rows <= MOST_ROWS;
        if fits || part.is_whole || part.depth == DEEPEST {
            done.push(part);
            continue;
        }
        room.resize(Writer::BYTES + READ_BYTES + part.build.extent.largest.max(part.probe.extent.largest))?;
        let (rows, depth) = (part.build.extent.rows, part.depth);
        let build = again(shape, Side::Build, part.build, depth, account).await?;
        let probe = again(shape, Side::Probe, part.probe, depth, account).await?;
        for (build, probe) in build.into_iter().zip(probe) {
            let mut part = Part { depth: depth + 1, ..Part::default() };
            part.build.add(build);
            part.probe.add(probe);
            part.is_whole = part.build.extent.rows == rows;
            if part.is_wanted(shape) {
                parts.push(part);
            }
        }
    }
    Ok(done)
}

/// Divides one side of a part again.
async fn again(shape: &Arc<Shape>, side: Side, rows: Rows, depth: u64, account: &Account) -> Result<Written> {
    let mut writer = Writer::new(shape, side, depth, account.clone());
    let mut batches = batches(rows.stored, usize::MAX);
    while let Some(batch) = batches.try_next().await? {
        blocking(|| writer.write(&batch))?;
    }
    blocking(|| writer.finish())
}

/// The batches of several files, one file after the other.
pub fn batches(stored: Vec<Stored>, rows: usize) -> BoxStream<'static, Result<RecordBatch>> {
    let batches = move |stored: Stored| stored.batches_within(rows, READ_BYTES);
    futures::stream::iter(stored).flat_map(batches).boxed()
}

/// The memory for joining a part, in addition to the memory of its build side.
fn beside(shape: &Shape, part: &Part, budget: usize) -> usize {
    let (build, probe) = (&part.build.extent, &part.probe.extent);
    let marks = if is_joined_once(part, budget) || !shape.marks_probe() { 0 } else { probe.rows };
    // A single row may need more than the budget.
    let row = 2 * build.largest + Table::most_bytes(1);
    row + 2 * (READ_BYTES + probe.largest) + marks
}

/// Whether the whole build side of a part fits into memory.
pub fn is_joined_once(part: &Part, budget: usize) -> bool {
    memory_of(&part.build.extent) <= budget && part.build.extent.rows <= MOST_ROWS
}
