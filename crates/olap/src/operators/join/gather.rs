//! Reads the build side with all threads, and puts its rows into one table.
//!
//! ```text
//!   partition -> task: lays rows out, keeps them -+
//!   partition -> task: lays rows out, keeps them -+-> words of all keys -> tasks: table | column | column ...
//! ```
//!
//! If memory for the rows or for the table is missing, all rows go to disk instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use datafusion_common::error::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;

use super::building::{Building, building_bytes};
use super::built::{Built, KeyBounds};
use super::parts::{Side, Writer, Written};
use super::shape::Shape;
use super::spent::Spent;
use super::table::MOST_ROWS;
use crate::base::bytes::bytes_of;
use crate::spill::{Account, Means, Room, blocking};

/// The least number of rows for which several tasks pay.
const SHARED_ROWS: usize = 1 << 15;

/// The rows of a build side: in memory, with the reservations for it, or on disk.
pub enum Gathered {
    Built(Arc<Built>, Vec<Room>),
    OnDisk(Vec<Written>),
}

/// Rows that a task has read.
struct Held {
    batches: Vec<RecordBatch>,
    bytes: usize,
    bounds: KeyBounds,
    room: Room,
    written: Option<Written>,
}

/// State that the tasks share.
struct Task {
    shape: Arc<Shape>,
    /// Whether a task has run out of memory, so that all tasks have to write their rows to disk.
    is_full: AtomicBool,
    disk: Option<Account>,
    spent: Arc<Spent>,
}

pub async fn gather(
    shape: &Arc<Shape>,
    build: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    means: &Means,
    spent: &Arc<Spent>,
) -> Result<Gathered> {
    // Without keys, rows cannot be divided into parts.
    let disk = means.disk.clone().filter(|_| !shape.is_keyless());
    let task = Task { shape: shape.clone(), is_full: AtomicBool::new(false), disk, spent: spent.clone() };
    let task = Arc::new(task);
    let partitions = build.output_partitioning().partition_count();
    let mut all = Vec::new();
    if partitions == 1 {
        all.push(task.read(build.execute(0, context.clone())?, means.room.another(), false).await?);
    } else {
        let mut reading = Vec::new();
        for partition in 0..partitions {
            let (task, room) = (task.clone(), means.room.another());
            let (build, context) = (build.clone(), context.clone());
            reading.push(SpawnedTask::spawn(
                async move { task.read(build.execute(partition, context)?, room, true).await },
            ));
        }
        for read in reading {
            all.push(joined(read).await?);
        }
    }
    let threads = context.session_config().target_partitions();
    task.put_together(all, means.room.another(), threads).await
}

/// The result of a task.
pub async fn joined<T: 'static>(task: SpawnedTask<Result<T>>) -> Result<T> {
    task.join_unwind().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))?
}

impl Task {
    /// Reads rows into memory, or to disk. `apart` says that this runs in a separate task, whose time no stream counts.
    async fn read(&self, mut rows: SendableRecordBatchStream, room: Room, apart: bool) -> Result<Held> {
        let bounds = KeyBounds::of(&self.shape.build);
        let mut held = Held { batches: Vec::new(), bytes: 0, bounds, room, written: None };
        while let Some(batch) = rows.try_next().await? {
            let start = apart.then(Instant::now);
            let fits = self.take(&mut held, &batch)?;
            self.spent.since(start);
            if let Some(disk) = self.disk.as_ref().filter(|_| !fits) {
                return self.put_aside(held, rows, disk, apart).await;
            }
        }
        Ok(held)
    }

    /// Adds a batch to the held rows, and returns whether there is memory for it.
    fn take(&self, held: &mut Held, batch: &RecordBatch) -> Result<bool> {
        let batch = self.shape.build.lean_of(batch)?;
        held.bytes += bytes_of(&batch);
        held.bounds.add(&self.shape.build.keys_of(&batch));
        held.batches.push(batch);
        let fits = !self.is_full.load(Ordering::Relaxed) && held.room.try_resize(held.bytes);
        if !fits && self.disk.is_none() {
            held.room.resize(held.bytes)?;
        }
        Ok(fits)
    }

    /// Writes the held rows and all following rows to disk.
    async fn put_aside(
        &self,
        mut held: Held,
        mut rows: SendableRecordBatchStream,
        disk: &Account,
        apart: bool,
    ) -> Result<Held> {
        self.is_full.store(true, Ordering::Relaxed);
        let mut writer = Writer::new(&self.shape, Side::Build, 0, disk.clone());
        writer.write_all(std::mem::take(&mut held.batches)).await?;
        held.bytes = 0;
        held.room.resize(Writer::BYTES)?;
        while let Some(batch) = rows.try_next().await? {
            let start = apart.then(Instant::now);
            let batch = self.shape.build.of(&batch)?;
            blocking(|| writer.write(&batch))?;
            self.spent.since(start);
            tokio::task::yield_now().await;
        }
        held.written = Some(blocking(|| writer.finish())?);
        Ok(held)
    }

    async fn put_together(self: Arc<Self>, mut all: Vec<Held>, mut room: Room, threads: usize) -> Result<Gathered> {
        let mut batches: Vec<RecordBatch> = all.iter_mut().flat_map(|held| held.batches.drain(..)).collect();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let bounds = all.iter().fold(KeyBounds::of(&self.shape.build), |bounds, held| bounds.with(&held.bounds));
        let packing = bounds.packing();
        let threads = if rows < SHARED_ROWS { 1 } else { threads };
        let mut is_full = self.is_full.load(Ordering::Relaxed);
        if !is_full {
            let bytes = building_bytes(&self.shape, &batches, &packing, threads);
            is_full = rows > MOST_ROWS || !room.try_resize(bytes);
            if is_full && self.disk.is_none() {
                room.resize(bytes)?;
            }
        }
        if let Some(disk) = self.disk.as_ref().filter(|_| is_full) {
            let mut written: Vec<Written> = Vec::new();
            if !batches.is_empty() {
                room.resize(Writer::BYTES)?;
                let mut writer = Writer::new(&self.shape, Side::Build, 0, disk.clone());
                writer.write_all(std::mem::take(&mut batches)).await?;
                written.push(blocking(|| writer.finish())?);
            }
            written.extend(all.into_iter().filter_map(|held| held.written));
            return Ok(Gathered::OnDisk(written));
        }
        if rows > MOST_ROWS {
            return Err(DataFusionError::ResourcesExhausted(format!("a join of {rows} rows")));
        }
        let mut rooms: Vec<Room> = all.into_iter().map(|held| held.room).collect();
        let built = self.build(Building::new(&self.shape, batches, packing, threads > 1), threads).await?;
        // Memory that only building needed is released.
        room.resize(built.bytes_to_find())?;
        let mut bytes = built.bytes_of_columns();
        for room in &mut rooms {
            let kept = room.bytes().min(bytes);
            room.resize(kept)?;
            bytes -= kept;
        }
        rooms.push(room);
        Ok(Gathered::Built(Arc::new(built), rooms))
    }

    /// Builds with several threads.
    async fn build(self: &Arc<Self>, building: Building, threads: usize) -> Result<Built> {
        if threads == 1 {
            building.run(&self.shape.build)?;
            return blocking(|| building.done(&self.shape));
        }
        let building = Arc::new(building);
        let mut running = Vec::new();
        for _ in 0..threads {
            let (task, building) = (self.clone(), building.clone());
            running.push(SpawnedTask::spawn(async move {
                let start = Instant::now();
                let done = building.run(&task.shape.build);
                task.spent.since(Some(start));
                drop(building);
                done
            }));
        }
        for run in running {
            joined(run).await?;
        }
        let building = Arc::into_inner(building);
        let building = building.ok_or_else(|| DataFusionError::Internal("a task that has ended goes on".into()));
        let building = building?;
        blocking(|| building.done(&self.shape))
    }
}
