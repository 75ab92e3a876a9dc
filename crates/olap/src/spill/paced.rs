//! A brake for consumers of an exchange that are faster than others.
//!
//! DataFusion's exchange accepts rows as long as any consumer waits for rows, so that no consumer waits forever.
//! Meanwhile, the rows of slower consumers pile up. If these rows take too much memory, a consumer that finds no rows
//! pauses for a moment.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_array::RecordBatch;
use datafusion_common::error::Result;
use datafusion_execution::SendableRecordBatchStream;
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::Sleep;

use super::pool::Pool;

const MOMENT: Duration = Duration::from_millis(2);

pub struct Paced {
    rows: SendableRecordBatchStream,
    pool: Arc<Pool>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub fn new(rows: SendableRecordBatchStream, pool: Arc<Pool>) -> Paced {
        Paced { rows, pool, pause: None }
    }
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(pause) = &mut self.pause {
            if pause.poll_unpin(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        let polled = self.rows.poll_next_unpin(context);
        if polled.is_pending() && self.pool.is_congested() {
            let mut pause = Box::pin(tokio::time::sleep(MOMENT));
            // The task wakes when the pause ends. If new rows wake it earlier, it still waits for the end of the pause.
            if pause.poll_unpin(context).is_pending() {
                self.pause = Some(pause);
            }
        }
        polled
    }
}
