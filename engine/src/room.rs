//! Memory for a result in transit, out of the memory that all queries share.
//!
//! Memory for messages of the usual length is reserved in advance: while a client has no rows yet, the heap can answer
//! instead. A longer row needs more memory when it comes. A lack of memory would then be an error for a valid query, so
//! it waits until others release memory. It gives up only if the client is waiting as well, because holders of the
//! memory may be waiting for it, too, or be cursors of the same session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use olap::{Reservation, Runtime};
use protocol::request::Failure;

use crate::encode::MESSAGE_BYTES;

/// The number of copies of a slice while it is encoded: its compacted texts, Arrow's message, and the piece. About as
/// many pieces queue up for a client that does not read.
const COPIES: usize = 3;
/// The number of signs of life, one per second, that a client takes while its query waits for memory.
const LONGEST_WAIT: u32 = 30;
const PAUSE: Duration = Duration::from_millis(10);

/// Memory for messages of the usual length, reserved for the whole query.
pub fn usual(olap: &Runtime) -> Result<Reservation, Failure> {
    olap.reserve(COPIES * MESSAGE_BYTES)
}

pub struct LongRows {
    pub olap: Arc<Runtime>,
    /// The memory that all queries share.
    pub limit: u64,
    /// The number of signs of life that the client took because there were no rows for it.
    pub signs: Arc<AtomicU32>,
}

impl LongRows {
    /// Memory for a slice, if it is longer than a usual message. `begun` says that the client already has rows.
    pub async fn room(&self, length: usize, begun: bool) -> Result<Option<Reservation>, Failure> {
        if length <= MESSAGE_BYTES {
            return Ok(None);
        }
        let bytes = COPIES * length;
        let patient = begun && bytes as u64 <= self.limit;
        let signs = || self.signs.load(Ordering::Relaxed);
        let before = signs();
        loop {
            match self.olap.reserve(bytes) {
                Err(_) if patient && signs().wrapping_sub(before) < LONGEST_WAIT => tokio::time::sleep(PAUSE).await,
                result => return result.map(Some),
            }
        }
    }
}
