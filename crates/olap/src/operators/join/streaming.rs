//! Joins the rows of one partition of the probe side with a build side that is in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use datafusion_common::error::Result;
use datafusion_execution::SendableRecordBatchStream;
use futures::TryStreamExt;

use super::built::Built;
use super::output::BuildRows;
use super::probe::{Prober, Step};
use super::shape::Shape;
use crate::spill::Room;

/// A build side for all partitions of the probe side.
pub struct Ready {
    pub built: Arc<Built>,
    /// The number of partitions that have not ended.
    pub asking: AtomicUsize,
    pub _rooms: Vec<Room>,
}

pub struct Streaming {
    shape: Arc<Shape>,
    ready: Arc<Ready>,
    batch_size: usize,
    prober: Prober,
    rows: Option<SendableRecordBatchStream>,
    /// Rows of the build side, which are output by the partition that ends last.
    build_rows: Option<BuildRows>,
}

impl Streaming {
    /// `rows` are the rows of the probe side; `None` if there is no need to read them.
    pub fn new(
        shape: Arc<Shape>,
        ready: Arc<Ready>,
        rows: Option<SendableRecordBatchStream>,
        batch_size: usize,
    ) -> Streaming {
        let prober = Prober::new(shape.clone(), ready.built.clone(), batch_size);
        Streaming { shape, ready, batch_size, prober, rows, build_rows: None }
    }

    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.prober.is_busy() {
                match self.prober.next()? {
                    Step::Rows(batch) => return Ok(Some(batch)),
                    Step::Nothing => tokio::task::yield_now().await,
                    Step::End => {}
                }
            } else if let Some(rows) = &mut self.rows {
                match rows.try_next().await? {
                    Some(batch) => self.prober.begin(self.shape.probe.of(&batch)?, None)?,
                    None => self.end(),
                }
            } else if let Some(rows) = &mut self.build_rows {
                match rows.next()? {
                    Some(batch) => return Ok(Some(batch)),
                    None => self.build_rows = None,
                }
            } else {
                return self.prober.rest();
            }
        }
    }

    fn end(&mut self) {
        self.rows = None;
        // The partition that ends last sees the marks that all other partitions have set.
        let is_last = self.ready.asking.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.shape.marks_build() {
            self.build_rows = Some(BuildRows::new(self.shape.clone(), self.ready.built.clone(), self.batch_size));
        }
    }
}
