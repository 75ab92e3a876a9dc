//! Memory for a result on its way, out of what all queries share.
//!
//! Memory for messages of the usual length is set aside in advance: while a client has no rows yet, the heap can
//! answer instead. A longer row needs more memory when it comes. A lack of memory would then be an error for a query
//! that is in order, so it waits until others give memory back. It gives up only if the client is waiting as well:
//! holders of the memory may be waiting for it too, or be cursors of the same session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use olap::{Reservation, Runtime};
use protocol::request::Failure;

use crate::encode::MESSAGE_BYTES;

/// Copies of a slice while it is encoded: its compacted texts, Arrow's message, the piece. About as many pieces queue
/// up for a client that does not read.
const COPIES: usize = 3;
/// Signs of life, one a second, that a client takes while its query waits for memory.
const LONGEST_WAIT: u32 = 30;
const PAUSE: Duration = Duration::from_millis(10);

/// For messages of the usual length, for as long as the query has any.
pub fn usual(olap: &Runtime) -> Result<Reservation, Failure> {
    olap.reserve(COPIES * MESSAGE_BYTES)
}

pub struct LongRows {
    pub olap: Arc<Runtime>,
    /// The memory that all queries share.
    pub limit: u64,
    /// Signs of life that the client took because there were no rows for it.
    pub signs: Arc<AtomicU32>,
}

impl LongRows {
    /// Room for a slice, if it is longer than a message. `begun`: some rows are with the client.
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
