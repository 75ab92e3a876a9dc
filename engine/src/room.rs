//! Memory for the messages of a result on their way to the client, taken from the memory that all queries share.
//!
//! Memory for messages of the usual length is reserved before the query starts. If that fails, the heap can answer
//! instead, because the client has no rows yet. A longer row needs more memory when it comes. By then, a lack of memory
//! would be an error for a valid query, so the query waits until other queries release memory. It gives up only if its
//! own client is waiting for rows, because the holders of the memory may in turn wait for that client. An example are
//! open cursors of the same session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use olap::{Reservation, Runtime};
use protocol::request::Failure;

use crate::encode::MESSAGE_BYTES;

/// The number of copies of a slice during its encoding: its compacted texts, Arrow's message, and the piece. About as
/// many pieces queue up for a client that does not read.
const COPIES: usize = 3;
/// The number of keep-alive messages, one per second, that a client reads while its query waits for memory. After
/// these, the query gives up.
const LONGEST_WAIT: u32 = 30;
const PAUSE: Duration = Duration::from_millis(10);

/// Memory for messages of the usual length, reserved for the whole query.
pub fn usual(olap: &Runtime) -> Result<Reservation, Failure> {
    olap.reserve(COPIES * MESSAGE_BYTES)
}

pub struct LongRows {
    pub olap: Arc<Runtime>,
    /// The size of the memory that all queries share.
    pub limit: u64,
    /// The number of keep-alive messages that the client has read while this query had no rows to send.
    pub signs: Arc<AtomicU32>,
}

impl LongRows {
    /// Reserves memory for a slice that is longer than a usual message. `begun` says that the client already has rows.
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
