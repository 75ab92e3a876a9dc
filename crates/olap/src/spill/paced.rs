//! A brake for consumers of an exchange that are faster than others.
//!
//! DataFusion's exchange accepts rows as long as any consumer waits for rows, so that no consumer waits forever.
//! Meanwhile, the rows of slower consumers pile up. While they take too much memory, a consumer that finds no rows
//! pauses. No pause is long, because a slow consumer may itself wait for the consumer that pauses. The first pauses are
//! the shortest, because an exchange may also yield although it has rows.

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

/// How often a consumer that pauses looks whether the others have caught up.
const MOMENT: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(100);
/// A consumer that has got this many batches without a pause does not wait for rows. A consumer that is faster than
/// others gets only a few, because the exchange stops once it has rows for every consumer.
const FLOW: u32 = 8;

pub struct Paced {
    rows: SendableRecordBatchStream,
    pool: Arc<Pool>,
    pauses: Pauses,
    pause: Option<Pause>,
}

struct Pause {
    end: Instant,
    moment: Pin<Box<Sleep>>,
}

/// The lengths of successive pauses: each pause is twice as long as the one before, up to the longest one.
struct Pauses {
    next: Duration,
    /// The number of batches since the last pause.
    batches: u32,
}

impl Pauses {
    fn new() -> Pauses {
        Pauses { next: MOMENT, batches: 0 }
    }

    fn next(&mut self) -> Duration {
        let length = self.next;
        *self = Pauses { next: (length * 2).min(LONGEST), batches: 0 };
        length
    }

    /// Counts a batch. After enough of them, pauses begin with the shortest one again.
    fn got_batch(&mut self) {
        self.batches += 1;
        if self.batches == FLOW {
            *self = Pauses::new();
        }
    }
}

impl Paced {
    pub fn new(rows: SendableRecordBatchStream, pool: Arc<Pool>) -> Paced {
        Paced { rows, pool, pauses: Pauses::new(), pause: None }
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
            match this.pool.is_congested() && Instant::now() < pause.end {
                true => pause.moment = Box::pin(tokio::time::sleep(MOMENT)),
                false => this.pause = None,
            }
        }
        let polled = this.rows.poll_next_unpin(context);
        if polled.is_ready() {
            this.pauses.got_batch();
        } else if !this.pool.is_congested() {
            this.pauses = Pauses::new();
        } else {
            let mut moment = Box::pin(tokio::time::sleep(MOMENT));
            if moment.poll_unpin(context).is_pending() {
                this.pause = Some(Pause { end: Instant::now() + this.pauses.next(), moment });
            }
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use arrow_schema::{Schema, SchemaRef};
    use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
    use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
    use futures::channel::mpsc::{UnboundedSender, unbounded};

    use super::*;

    type Rows = UnboundedSender<Result<RecordBatch>>;

    /// A consumer, and the sender of its rows.
    fn consumer(pool: &Arc<Pool>) -> (Rows, Paced) {
        let (sender, rows) = unbounded();
        let rows = RecordBatchStreamAdapter::new(SchemaRef::new(Schema::empty()), rows);
        (sender, Paced::new(Box::pin(rows), pool.clone()))
    }

    fn send(rows: &Rows) {
        rows.unbounded_send(Ok(RecordBatch::new_empty(SchemaRef::new(Schema::empty())))).unwrap();
    }

    /// Whether the consumer gets rows at once.
    fn gets(paced: &mut Paced) -> bool {
        paced.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(1000, None))
    }

    /// Rows that wait in an exchange of the pool's query. They are too many.
    fn congestion(pool: &Arc<Pool>) -> MemoryReservation {
        let of_pool: Arc<dyn MemoryPool> = pool.clone();
        let rows = MemoryConsumer::new("RepartitionExec[0]").register(&of_pool);
        rows.try_grow(51).unwrap();
        assert!(pool.is_congested());
        rows
    }

    #[tokio::test]
    async fn rows_that_are_there_are_not_delayed() {
        let pool = pool();
        let _waiting = congestion(&pool);
        let (rows, mut paced) = consumer(&pool);
        for _ in 0..100 {
            send(&rows);
        }
        assert!((0..100).all(|_| gets(&mut paced)));
    }

    #[tokio::test]
    async fn there_is_no_pause_without_congestion() {
        let pool = pool();
        let others = Arc::new(pool.for_query(None));
        let _of_others = congestion(&others);
        let (rows, mut paced) = consumer(&pool);
        for _ in 0..10 {
            assert!(!gets(&mut paced));
            send(&rows);
            assert!(gets(&mut paced));
        }
    }

    #[tokio::test]
    async fn a_pause_ends_with_the_congestion_or_on_its_own() {
        const HOUR: Duration = Duration::from_secs(3600);
        let pool = pool();
        let waiting = congestion(&pool);
        let (rows, mut paced) = consumer(&pool);
        paced.pauses.next = HOUR;
        assert!(!gets(&mut paced));
        send(&rows);
        tokio::time::sleep(3 * MOMENT).await;
        assert!(!gets(&mut paced), "the consumer does not pause");
        drop(waiting);
        tokio::time::timeout(HOUR / 60, paced.next()).await.expect("the congestion is over");
        let _waiting = congestion(&pool);
        assert!(!gets(&mut paced) && paced.pause.is_some());
        send(&rows);
        tokio::time::timeout(HOUR / 60, paced.next()).await.expect("no pause is long");
    }

    #[test]
    fn pauses_become_longer_until_rows_flow() {
        let mut pauses = Pauses::new();
        let mut next = |batches| {
            (0..batches).for_each(|_| pauses.got_batch());
            pauses.next().as_millis()
        };
        assert_eq!([0, 1, 0, FLOW - 1, 0, 2, 0, 0].map(&mut next), [2, 4, 8, 16, 32, 64, 100, 100]);
        assert_eq!([FLOW, 0, 3 * FLOW + 1, 0].map(&mut next), [2, 4, 2, 4]);
    }
}
