//! Requests, and rows that come with them. Long ones are read when there is memory for them, out of the memory that all
//! queries share. If there is none, their bytes are skipped, so that the connection continues and the client learns
//! why.

use olap::{Reservation, Runtime};
use protocol::frame;
use protocol::request::{Failure, FailureKind, Request, SENT_HEAD, SentRows};
use protocol::{ProtocolError, Result};

use crate::peer::Peer;

/// A request up to this length is read without a reservation. Most have a few kilobytes.
const SHORT: usize = 16 << 10;
/// A decoded request, with the plans that are made from it, takes this many times its length.
const DECODED: usize = 16;
/// Rows exist in two forms at once: as bytes and decoded, or decoded and as arrays.
const FORMS: usize = 2;

/// Rows that came with a request, and the memory for them.
#[derive(Default)]
pub struct Sent {
    pub relations: Vec<SentRows>,
    memory: usize,
    room: Option<Reservation>,
}

impl Sent {
    /// Rows whose memory is counted elsewhere.
    pub fn of(relations: Vec<SentRows>) -> Sent {
        Sent { relations, ..Sent::default() }
    }

    /// The rows, which will become arrays, and their memory.
    pub fn into_parts(self) -> (Vec<SentRows>, SentRoom) {
        (self.relations, SentRoom { memory: self.memory, room: self.room })
    }
}

/// The memory of rows that came along.
pub struct SentRoom {
    memory: usize,
    room: Option<Reservation>,
}

impl SentRoom {
    /// Called when the rows exist only as arrays.
    pub fn settle(&mut self) {
        if let Some(room) = &mut self.room {
            room.shrink_to(self.memory);
        }
    }
}

/// Reads a request of this length, and reserves memory until it is answered.
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

/// Reads rows of this length, for the request that follows.
pub fn sent(peer: &mut Peer, olap: &Runtime, length: usize) -> Result<std::result::Result<Sent, Failure>> {
    let Some(length) = length.checked_sub(SENT_HEAD) else { return Err(ProtocolError::Truncated) };
    let memory = u64::from_le_bytes(peer.bytes()?);
    if length as u64 > memory {
        return Err(ProtocolError::TooLong(length));
    }
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    match reserve(olap, memory.saturating_mul(FORMS), "rows that are sent along") {
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
