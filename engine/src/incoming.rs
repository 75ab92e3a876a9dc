//! Reads requests, and rows that are sent along with them. Before a long request or long rows are read, memory is
//! reserved from the memory that all queries share. If there is not enough, the bytes are skipped, so that the
//! connection continues and the client learns the reason.

use olap::{Reservation, Runtime};
use protocol::frame;
use protocol::request::{Failure, FailureKind, Request, SENT_HEAD, SentRows};
use protocol::{ProtocolError, Result};

use crate::peer::Peer;

/// A request up to this length is read without a reservation. Most requests have a few kilobytes.
const SHORT: usize = 16 << 10;
/// The memory for a long request, as a multiple of the request's length. The request is decoded, and plans are made
/// from it, so it takes far more memory than its bytes.
const DECODED: usize = 16;
/// Rows exist in two forms at once: first as bytes and as decoded values, then as decoded values and as arrays.
const FORMS: usize = 2;
const SENT_ALONG: &str = "rows that are sent along";

/// Rows that were sent along with a request, and the memory reserved for them.
#[derive(Default)]
pub struct Sent {
    pub relations: Vec<SentRows>,
    memory: usize,
    room: Option<Reservation>,
}

impl Sent {
    /// Rows whose memory is reserved elsewhere.
    pub fn of(relations: Vec<SentRows>) -> Sent {
        Sent { relations, ..Sent::default() }
    }

    /// Takes the memory of the rows from the query's own limit.
    pub fn take_from(&self, limit: &mut Option<u64>) -> std::result::Result<(), Failure> {
        let Some(left) = limit else { return Ok(()) };
        let needed = self.room.as_ref().map_or(0, |_| self.memory.saturating_mul(FORMS)) as u64;
        if needed > *left {
            let message =
                format!("no room in anker.max_query_memory for {SENT_ALONG}: {} MB", needed.div_ceil(1 << 20));
            return Err(Failure { kind: FailureKind::OutOfMemory, message });
        }
        *left -= self.memory as u64;
        Ok(())
    }

    /// The rows, which the caller turns into arrays, and the memory reserved for them.
    pub fn into_parts(self) -> (Vec<SentRows>, SentRoom) {
        (self.relations, SentRoom { memory: self.memory, room: self.room })
    }
}

/// The memory reserved for rows that were sent along.
pub struct SentRoom {
    memory: usize,
    room: Option<Reservation>,
}

impl SentRoom {
    /// Releases the memory of the decoded form. Called when the rows exist only as arrays.
    pub fn settle(&mut self) {
        if let Some(room) = &mut self.room {
            room.shrink_to(self.memory);
        }
    }
}

/// Reads a request of this length. The memory reserved for it is held until the request is answered.
pub fn request(
    peer: &mut Peer,
    olap: &Runtime,
    length: usize,
) -> Result<std::result::Result<(Request, Option<Reservation>), Failure>> {
    let room = match length > SHORT {
        true => match reserve(olap, length.saturating_mul(DECODED), "a request of this length") {
            Ok(room) => Some(room),
            Err(failure) => return peer.skip(length).map(|()| Err(failure)),
        },
        false => None,
    };
    Ok(Ok((frame::parse(&peer.payload(length)?)?, room)))
}

/// Reads rows of this length, which belong to the request that follows.
pub fn sent(peer: &mut Peer, olap: &Runtime, length: usize) -> Result<std::result::Result<Sent, Failure>> {
    let Some(length) = length.checked_sub(SENT_HEAD) else { return Err(ProtocolError::Truncated) };
    let memory = u64::from_le_bytes(peer.bytes()?);
    if length as u64 > memory {
        return Err(ProtocolError::TooLong(length));
    }
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    match reserve(olap, memory.saturating_mul(FORMS), SENT_ALONG) {
        Ok(room) => {
            let relations = frame::parse(&peer.payload(length)?)?;
            Ok(Ok(Sent { relations, memory, room: Some(room) }))
        }
        Err(failure) => peer.skip(length).map(|()| Err(failure)),
    }
}

fn reserve(olap: &Runtime, bytes: usize, what: &str) -> std::result::Result<Reservation, Failure> {
    olap.reserve(bytes).map_err(|_| {
        let message = format!("no room in anker.query_memory for {what}: {} MB", bytes.div_ceil(1 << 20));
        Failure { kind: FailureKind::OutOfMemory, message }
    })
}
