//! Memory for a result on its way, out of what all queries share.
//!
//! What messages of the usual length need is set aside before there are any: while a client has no rows the heap can
//! answer instead. A row that is longer needs more when it comes. By then a lack of memory would be an error for somebody
//! whose query is in order, so it waits until others give some back, and gives up only if a client waits all the while:
//! those who have the memory may be waiting for it, too, or be other cursors of the same session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use olap::{Reservation, Runtime};
use protocol::request::Failure;

use crate::encode::MESSAGE_BYTES;

/// Copies of a slice while it is encoded: its texts without what lies between, Arrow's message, the piece. About as many
/// pieces wait behind each other for a client that does not read.
const COPIES: usize = 3;
/// So many signs of life, one a second, a client takes while its query waits for memory.
const LONGEST_WAIT: u32 = 30;
const PAUSE: Duration = Duration::from_millis(10);

/// For messages of the usual length, for as long as the query has any.
pub fn usual(olap: &Runtime) -> Result<Reservation, Failure> {
    olap.reserve(COPIES * MESSAGE_BYTES)
}

pub struct LongRows {
    pub olap: Arc<Runtime>,
    /// What all queries share.
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
