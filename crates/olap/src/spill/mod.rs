//! Rows on disk, for operators that can work with less memory than their rows need.
//!
//! ```text
//!   Room    how much memory an operator has: it asks its room for more, and puts rows on disk if it gets none
//!   Sink    takes batches, Stored keeps them and gives them back, in the same order, once
//!   Disk    the pages that hold the batches of all queries; they vanish with the process
//! ```

mod batches;
mod disk;
mod meter;
mod paced;
mod pool;
mod room;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::error::Result;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::repartition::RepartitionExec;
use futures::stream::{BoxStream, StreamExt};
use tokio::runtime::{Handle, RuntimeFlavor};

pub use self::batches::{Kept, SINK_BYTES, Sink, Stored};
pub use self::disk::{Account, Disk, Quota, Tally};
pub use self::meter::Meter;
use self::meter::tally;
use self::paced::Paced;
pub use self::pool::{FIRST_PHASE, FreedMemory, Pool};
pub use self::room::{Room, Share};

/// State that all queries share, as an extension of their configuration.
#[derive(Debug)]
pub struct Spill {
    pub share: Arc<Share>,
    pub disk: Arc<Disk>,
}

/// The memory that operators which can use the disk may take together, out of all memory.
pub fn share_of(memory_bytes: u64) -> u64 {
    memory_bytes / 20 * 9
}

/// The memory that each operator which can use the disk gets in any case.
pub fn least_of(memory_bytes: u64) -> u64 {
    (memory_bytes / 128).clamp(512 << 10, 4 << 20)
}

impl Spill {
    /// The state for one query, which may have `bytes` of memory.
    pub fn of_query(&self, bytes: usize) -> Spill {
        let (share, least) = (share_of(bytes as u64) as usize, least_of(bytes as u64) as usize);
        Spill { share: Arc::new(self.share.part(share, least)), disk: self.disk.clone() }
    }
}

/// Memory for one operator, and a disk if there is one.
pub struct Means {
    pub room: Room,
    pub disk: Option<Account>,
}

impl Means {
    pub fn new(operator: &str, context: &TaskContext) -> Means {
        let reservation = MemoryConsumer::new(operator).register(context.memory_pool());
        match context.session_config().get_extension::<Spill>() {
            Some(spill) => Means {
                room: Room::new(reservation, spill.share.clone()),
                disk: Some(Account {
                    disk: spill.disk.clone(),
                    quota: context.session_config().get_extension::<Quota>(),
                    tally: tally(context),
                }),
            },
            None => Means { room: Room::new(reservation, Arc::new(Share::new(usize::MAX, 0))), disk: None },
        }
    }
}

/// The rows of one partition, for a consumer that reads all of them. If they come from an exchange, the consumer pauses
/// while the query's other consumers lag behind.
pub fn paced(
    input: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
) -> Result<BoxStream<'static, Result<RecordBatch>>> {
    let pool = context.session_config().get_extension::<Pool>();
    let rows = input.execute(partition, context)?;
    Ok(match pool.filter(|_| input.is::<RepartitionExec>()) {
        Some(pool) => Paced::new(rows, pool).boxed(),
        None => rows,
    })
}

/// Runs work that may wait for the disk, so that other queries' tasks need not wait with it.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
