//! A brake for consumers of an exchange that are faster than others.
//!
//! DataFusion's exchange accepts rows as long as any consumer waits for rows, so that no consumer waits forever.
//! Meanwhile, the rows of slower consumers pile up. While they take too much memory, a consumer that finds no rows
//! pauses. No pause is long, because a slow consumer may itself wait for the consumer that pauses.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use datafusion_common::error::Result;
use datafusion_execution::SendableRecordBatchStream;
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::Sleep;

use super::pool::Pool;

/// How often a consumer that pauses looks whether the others have caught up, and the longest pause.
const MOMENT: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);

pub struct Paced {
    rows: SendableRecordBatchStream,
    pool: Arc<Pool>,
    pause: Option<Pause>,
}

struct Pause {
    start: Instant,
    moment: Pin<Box<Sleep>>,
}

impl Paced {
    pub fn new(rows: SendableRecordBatchStream, pool: Arc<Pool>) -> Paced {
        Paced { rows, pool, pause: None }
    }
}

impl Stream for Paced {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while let Some(pause) = &mut this.pause {
            // The moment wakes this task. If new rows wake it earlier, it still waits for the moment.
            if pause.moment.poll_unpin(context).is_pending() {
                return Poll::Pending;
            }
            match this.pool.is_congested() && pause.start.elapsed() < LONGEST {
                true => pause.moment = Box::pin(tokio::time::sleep(MOMENT)),
                false => this.pause = None,
            }
        }
        let polled = this.rows.poll_next_unpin(context);
        if polled.is_pending() && this.pool.is_congested() {
            let mut moment = Box::pin(tokio::time::sleep(MOMENT));
            if moment.poll_unpin(context).is_pending() {
                this.pause = Some(Pause { start: Instant::now(), moment });
            }
        }
        polled
    }
}
