//! The join of parts on disk, one part after the other.

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::error::Result;
use futures::TryStreamExt;
use futures::stream::{BoxStream, StreamExt};

use super::apart::{Apart, READ_BYTES, batches, is_joined_once, memory_of};
use super::building::put_together;
use super::output::BuildRows;
use super::parts::{Extent, Part};
use super::probe::{Prober, Step};
use super::shape::Shape;
use super::table::MOST_ROWS;
use crate::base::bytes::bytes_of;
use crate::spill::{Kept, Room, Stored};

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// The output of one thread, which takes parts and joins one after the other.
pub struct Partwise {
    shape: Arc<Shape>,
    apart: Arc<Apart>,
    batch_size: usize,
    part: Option<Joining>,
    prober: Prober,
    _room: Room,
}

impl Partwise {
    pub fn new(shape: Arc<Shape>, apart: Arc<Apart>, batch_size: usize) -> Result<Partwise> {
        let room = apart.room()?;
        let nothing = Arc::new(put_together(&shape, Vec::new())?);
        let prober = Prober::new(shape.clone(), nothing, batch_size);
        Ok(Partwise { shape, apart, batch_size, part: None, prober, _room: room })
    }

    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(part) = &mut self.part {
                if let Some(batch) = part.next(&mut self.prober).await? {
                    return Ok(Some(batch));
                }
                self.part = None;
            }
            let Some(part) = self.apart.parts.lock().pop() else { return self.prober.rest() };
            self.part = Some(Joining::new(self.shape.clone(), part, self.apart.budget, self.batch_size));
        }
    }
}

/// A part that is being joined. As much of its build side as fits into memory is joined with all of its probe side;
/// then comes the next piece of the build side.
struct Joining {
    shape: Arc<Shape>,
    budget: usize,
    batch_size: usize,
    build: Batches,
    /// The first batch of the build side that has not been in memory yet.
    next: Option<RecordBatch>,
    begun: bool,
    probe: ProbeRows,
    /// The remaining rows of the probe side in this pass.
    rows: Option<Batches>,
    /// Rows of the build side that are output at the end of the pass.
    build_rows: Option<BuildRows>,
    /// Whether each row of the probe side has a partner, and the number of rows that this pass has processed. Present
    /// if it takes several passes to find all partners.
    met: Option<(Vec<bool>, usize)>,
}

enum ProbeRows {
    Once(Vec<Stored>),
    Kept(Vec<Kept>),
}

impl Joining {
    fn new(shape: Arc<Shape>, part: Part, budget: usize, batch_size: usize) -> Joining {
        let once = is_joined_once(&part, budget);
        let (stored, rows) = (part.probe.stored, part.probe.extent.rows);
        let probe = match once {
            true => ProbeRows::Once(stored),
            false => ProbeRows::Kept(stored.into_iter().map(Stored::kept).collect()),
        };
        let met = (!once && shape.marks_probe()).then(|| (vec![false; rows], 0));
        let build = batches(part.build.stored, batch_size);
        Joining { shape, budget, batch_size, build, next: None, begun: false, probe, rows: None, build_rows: None, met }
    }

    async fn next(&mut self, prober: &mut Prober) -> Result<Option<RecordBatch>> {
        loop {
            if prober.is_busy() {
                match prober.next()? {
                    Step::Rows(batch) => return Ok(Some(batch)),
                    Step::Nothing => tokio::task::yield_now().await,
                    Step::End => self.remember(prober.met()),
                }
            } else if let Some(rows) = &mut self.rows {
                match rows.try_next().await? {
                    Some(batch) => {
                        let known = self.met.as_ref().map(|(met, at)| met[*at..*at + batch.num_rows()].to_vec());
                        prober.begin(batch, known)?;
                    }
                    None => self.rows = None,
                }
            } else if let Some(rows) = &mut self.build_rows {
                match rows.next()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.build_rows = None,
                }
            } else if !self.begun || self.next.is_some() {
                self.pass(prober).await?;
            } else {
                return Ok(None);
            }
        }
    }

    /// Records which of the probed rows have a partner.
    fn remember(&mut self, met: Vec<bool>) {
        if let Some((all, at)) = &mut self.met {
            all[*at..*at + met.len()].copy_from_slice(&met);
            *at += met.len();
        }
    }

    /// Begins a pass.
    async fn pass(&mut self, prober: &mut Prober) -> Result<()> {
        self.begun = true;
        prober.let_go()?;
        let rows = self.some_of_build().await?;
        let built = Arc::new(put_together(&self.shape, rows)?);
        let is_last = self.next.is_none();
        prober.turn_to(built.clone(), is_last);
        let batch_size = self.batch_size;
        self.rows = Some(match &mut self.probe {
            ProbeRows::Once(stored) => batches(std::mem::take(stored), batch_size),
            ProbeRows::Kept(kept) => {
                let batches = kept.iter().map(|kept| kept.batches_within(batch_size, READ_BYTES));
                futures::stream::iter(batches.collect::<Vec<_>>()).flatten().boxed()
            }
        });
        if self.shape.marks_build() {
            self.build_rows = Some(BuildRows::new(self.shape.clone(), built, batch_size));
        }
        if let Some((_, done)) = &mut self.met {
            *done = 0;
        }
        Ok(())
    }

    /// Reads as much of the build side as there is memory for.
    async fn some_of_build(&mut self) -> Result<Vec<RecordBatch>> {
        let (mut taken, mut extent) = (Vec::new(), Extent::default());
        loop {
            let batch = match self.next.take() {
                Some(batch) => batch,
                None => match self.build.try_next().await? {
                    Some(batch) => batch,
                    None => return Ok(taken),
                },
            };
            let bytes = bytes_of(&batch);
            let more = extent.with(Extent { rows: batch.num_rows(), bytes, largest: bytes });
            if !taken.is_empty() && (memory_of(&more) > self.budget || more.rows > MOST_ROWS) {
                self.next = Some(batch);
                return Ok(taken);
            }
            extent = more;
            taken.push(batch);
        }
    }
}
