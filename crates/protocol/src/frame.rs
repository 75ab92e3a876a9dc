//! Frames on the unix socket: `length: u32, kind: u8, payload`. `length` is the length of the payload alone.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::{ProtocolError, Result};

pub const HEADER: usize = 5;
/// The greatest length of a payload. A frame that announces more comes from a broken peer.
pub const MAX_PAYLOAD: usize = 1 << 30;
/// The interval at which the engine sends [`Kind::Alive`] to a waiting client, if it has nothing else to send.
pub const ALIVE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// [`crate::request::Hello`]
    Hello = 1,
    /// [`crate::request::Request`]
    Request = 2,
    /// [`crate::request::Ready`]
    Ready = 3,
    /// Whole messages of an Arrow IPC stream.
    Arrow = 4,
    /// [`crate::request::Done`]
    Done = 5,
    /// [`crate::request::Refusal`]
    Refused = 6,
    /// [`crate::request::Failure`]
    Failed = 7,
    /// [`crate::request::Status`]
    Status = 8,
    /// [`crate::request::Go`]
    Go = 9,
    /// Rows of a load, one directly after the other, in the form of [`crate::change`].
    Rows = 10,
    /// All rows of the load were sent. The payload is their number: eight bytes, little-endian.
    LoadEnd = 11,
    /// The engine has received all rows, and the table serves queries.
    Loaded = 12,
    /// The engine is alive, but has no answer yet. There is no payload.
    Alive = 13,
    /// [`crate::tree::EnginePlan`]
    Plan = 14,
    /// [`crate::survey::TableSurvey`]
    Survey = 15,
    /// Rows that belong to the request that follows, see [`crate::request::encode_sent`].
    Sent = 16,
    /// A list of [`crate::request::QueryActivity`]
    Activity = 17,
    /// [`crate::request::Phase`], for a query that has to queue.
    Phase = 18,
    /// A part of [`crate::request::Changed`].
    Changed = 19,
    /// A [`crate::request::CheckpointReport`], or the reason why no checkpoint was written.
    Checkpoint = 20,
}

impl Kind {
    pub fn from_u8(byte: u8) -> Result<Kind> {
        use Kind::*;
        let kinds = [
            Hello, Request, Ready, Arrow, Done, Refused, Failed, Status, Go, Rows, LoadEnd, Loaded, Alive, Plan,
            Survey, Sent, Activity, Phase, Changed, Checkpoint,
        ];
        kinds.into_iter().find(|k| *k as u8 == byte).ok_or(ProtocolError::UnknownTag(byte))
    }
}

/// Header and payload of a message, ready to be sent.
pub fn encode<T: Serialize>(kind: Kind, message: &T) -> Vec<u8> {
    // Serialising plain data into memory has no way to fail.
    let payload = postcard::to_stdvec(message).expect("plain data serialises");
    encode_raw(kind, &payload)
}

pub fn encode_raw(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER + payload.len());
    frame.extend_from_slice(&encode_header(kind, payload.len()));
    frame.extend_from_slice(payload);
    frame
}

/// A header. It is for a sender that writes header and payload separately. A payload may have at most [`MAX_PAYLOAD`]
/// bytes.
pub fn encode_header(kind: Kind, payload_bytes: usize) -> [u8; HEADER] {
    let [a, b, c, d] = (payload_bytes as u32).to_le_bytes();
    [a, b, c, d, kind as u8]
}

pub fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T> {
    Ok(postcard::from_bytes(payload)?)
}

/// Kind and payload length from a header.
pub fn parse_header(header: [u8; HEADER]) -> Result<(Kind, usize)> {
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > MAX_PAYLOAD {
        return Err(ProtocolError::TooLong(length));
    }
    Ok((Kind::from_u8(header[4])?, length))
}

/// Reads one frame from a blocking stream; `None` if the stream ends before the frame begins.
pub fn read(stream: &mut impl Read, payload: &mut Vec<u8>) -> Result<Option<Kind>> {
    let Some((kind, length)) = read_header(stream)? else { return Ok(None) };
    payload.clear();
    read_payload(stream, length, payload)?;
    Ok(Some(kind))
}

/// Reads the kind and the payload length of a frame from a blocking stream; `None` if the stream ends before the frame
/// begins.
pub fn read_header(stream: &mut impl Read) -> Result<Option<(Kind, usize)>> {
    let mut header = [0; HEADER];
    let mut have = 0;
    while have < HEADER {
        match stream.read(&mut header[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(ProtocolError::Truncated),
            Ok(n) => have += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    parse_header(header).map(Some)
}

/// Reads a payload of `length` bytes.
pub fn read_payload(stream: &mut impl Read, length: usize, payload: &mut Vec<u8>) -> Result<()> {
    // `resize` is not used. If the length is wrong, it would allocate all of it before the bytes have arrived.
    let got = stream.take(length as u64).read_to_end(payload)?;
    if got < length { Err(ProtocolError::Truncated) } else { Ok(()) }
}

/// Reads a payload of `length` bytes, and drops it.
pub fn skip_payload(stream: &mut impl Read, length: usize) -> Result<()> {
    let got = std::io::copy(&mut stream.take(length as u64), &mut std::io::sink())?;
    if got < length as u64 { Err(ProtocolError::Truncated) } else { Ok(()) }
}

/// Reads frames from a non-blocking stream. The payload of each frame gets memory of the payload's own length.
///
/// If there is no memory for the announced length, an error is returned.
#[derive(Default)]
pub struct Inbox {
    /// Bytes that were read, but do not belong to a returned frame yet: `read[start..]`. One system call may read
    /// several small frames.
    read: Vec<u8>,
    start: usize,
    /// The kind and length of the frame whose payload has not arrived completely.
    coming: Option<(Kind, usize)>,
    payload: Vec<u8>,
}

impl Inbox {
    /// The number of bytes that are read at once.
    const AHEAD: usize = 8 << 10;

    /// The next frame, if it has arrived completely. Its payload is valid until the next call.
    pub fn arrived(&mut self) -> Result<Option<Kind>> {
        let (kind, length) = match self.coming {
            Some(coming) => coming,
            None => {
                let Some(header) = self.read[self.start..].first_chunk::<HEADER>() else {
                    return Ok(None);
                };
                let (kind, length) = parse_header(*header)?;
                self.start += HEADER;
                self.payload = Vec::new();
                self.payload.try_reserve_exact(length).map_err(|_| ProtocolError::NoMemory(length))?;
                *self.coming.insert((kind, length))
            }
        };
        let there = self.read.len() - self.start;
        let taken = there.min(length - self.payload.len());
        self.payload.extend_from_slice(&self.read[self.start..self.start + taken]);
        self.start += taken;
        if self.payload.len() < length {
            return Ok(None);
        }
        self.coming = None;
        Ok(Some(kind))
    }

    /// The payload of the frame that [`Inbox::arrived`] returned last.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Like [`Inbox::payload`], but hands the payload over to the caller.
    pub fn take_payload(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.payload)
    }

    /// Whether all bytes that were read belong to returned frames.
    pub fn is_drained(&self) -> bool {
        self.coming.is_none() && self.start == self.read.len()
    }

    /// Reads more bytes from the stream; returns false if none have arrived. Call it when [`Inbox::arrived`] has no
    /// further frame.
    pub fn fill(&mut self, stream: &mut impl Read) -> Result<bool> {
        let missing = self.coming.map_or(0, |(_, length)| length - self.payload.len());
        let (target, limit) = if missing > Self::AHEAD {
            (&mut self.payload, missing)
        } else {
            self.read.drain(..self.start);
            self.start = 0;
            let limit = Self::AHEAD.saturating_sub(self.read.len()).max(HEADER);
            self.read.try_reserve(limit).map_err(|_| ProtocolError::NoMemory(limit))?;
            (&mut self.read, limit)
        };
        let before = target.len();
        // If some bytes were read before an error, they are kept, and the error is ignored. The next call returns the
        // error.
        let end = stream.take(limit as u64).read_to_end(target);
        match end {
            _ if target.len() > before => Ok(true),
            Ok(_) => Err(ProtocolError::Truncated),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// Writes one message to a blocking stream.
pub fn write<T: Serialize>(stream: &mut impl Write, kind: Kind, message: &T) -> Result<()> {
    stream.write_all(&encode(kind, message))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_round_trip_and_cuts_are_errors() {
        let mut wire = encode(Kind::Hello, &crate::request::Hello { version: 7 });
        wire.extend(encode_raw(Kind::Arrow, b"bytes"));
        let mut stream = &wire[..];
        let mut payload = Vec::new();
        assert_eq!(read(&mut stream, &mut payload).unwrap(), Some(Kind::Hello));
        assert_eq!(parse::<crate::request::Hello>(&payload).unwrap().version, 7);
        assert_eq!(read(&mut stream, &mut payload).unwrap(), Some(Kind::Arrow));
        assert_eq!(payload, b"bytes");
        assert_eq!(read(&mut stream, &mut payload).unwrap(), None);
        for cut in 1..HEADER + 1 {
            assert!(read(&mut &wire[..cut], &mut payload).is_err());
        }
        assert!(parse_header([255, 255, 255, 255, 1]).is_err());
        assert!(parse_header([0, 0, 0, 0, 77]).is_err());
    }
    /// A stream for tests. It returns at most `portion` bytes at a time. After each portion, it reports once that no
    /// bytes have arrived.
    struct Trickle<'a> {
        wire: &'a [u8],
        portion: usize,
        left: usize,
    }

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.left == 0 && !self.wire.is_empty() {
                self.left = self.portion;
                return Err(ErrorKind::WouldBlock.into());
            }
            let length = buffer.len().min(self.left).min(self.wire.len());
            buffer[..length].copy_from_slice(&self.wire[..length]);
            self.wire = &self.wire[length..];
            self.left -= length;
            Ok(length)
        }
    }

    #[test]
    fn an_inbox_puts_frames_together_however_they_come() {
        let sizes = [0, 1, 10, 5000, 8 << 10, (8 << 10) + 1, 100_000, 3_000_000, 2, 0];
        let payload = |size: usize| -> Vec<u8> { (0..size).map(|i| (i * 7) as u8).collect() };
        let wire: Vec<u8> = sizes.iter().flat_map(|&size| encode_raw(Kind::Arrow, &payload(size))).collect();
        for portion in [1, 3, 7, 1000, 8 << 10, 65_536, usize::MAX] {
            let wire = if portion < 1000 { &wire[..20_000] } else { &wire };
            let mut stream = Trickle { wire, portion, left: portion };
            let (mut inbox, mut came) = (Inbox::default(), 0);
            loop {
                while let Some(kind) = inbox.arrived().unwrap() {
                    assert_eq!(kind, Kind::Arrow);
                    assert!(inbox.payload() == payload(sizes[came]), "frame {came} in portions of {portion}");
                    let kept = inbox.take_payload();
                    assert_eq!((kept.len(), kept.capacity()), (sizes[came], sizes[came]));
                    came += 1;
                    assert!(came < sizes.len() || inbox.is_drained());
                }
                match inbox.fill(&mut stream) {
                    Ok(_) => {}
                    Err(ProtocolError::Truncated) => {
                        // As long as the inbox has a part of a frame, it is not drained.
                        assert_eq!(inbox.is_drained(), came == sizes.len(), "{came} frames in portions of {portion}");
                        break;
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            assert_eq!(came, if portion < 1000 { 5 } else { sizes.len() });
        }
    }

    #[test]
    fn an_inbox_refuses_what_is_no_frame() {
        for wire in [&[255, 255, 255, 255, 1][..], &[0, 0, 0, 0, 77]] {
            let mut inbox = Inbox::default();
            assert!(inbox.fill(&mut &wire[..]).unwrap());
            assert!(inbox.arrived().is_err());
        }
    }
}
