//! Frames on the unix socket: `length: u32, kind: u8, payload`. Length counts the payload alone.

use std::io::{Read, Write};

use serde::{Serialize, de::DeserializeOwned};

use crate::{ProtocolError, Result};

pub const HEADER: usize = 5;
/// A frame that claims more is a broken peer.
pub const MAX_PAYLOAD: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// [`crate::request::Hello`]
    Hello = 1,
    /// [`crate::request::Request`]
    Request = 2,
    /// [`crate::request::Ready`]
    Ready = 3,
    /// A piece of an Arrow IPC stream.
    Arrow = 4,
    /// [`crate::request::Done`]
    Done = 5,
    /// [`crate::request::Refusal`]
    Refused = 6,
    /// [`crate::request::Failure`]
    Failed = 7,
    /// [`crate::request::Status`]
    Status = 8,
    /// Load accepted: send rows.
    Go = 9,
    /// Rows of a load, one behind the other, as in [`crate::change`].
    Rows = 10,
    /// All rows were sent; payload: their number, eight bytes, little-endian.
    LoadEnd = 11,
    /// The load was taken over.
    Loaded = 12,
}

impl Kind {
    pub fn from_u8(byte: u8) -> Result<Kind> {
        use Kind::*;
        [Hello, Request, Ready, Arrow, Done, Refused, Failed, Status, Go, Rows, LoadEnd, Loaded]
            .into_iter()
            .find(|k| *k as u8 == byte)
            .ok_or(ProtocolError::UnknownTag(byte))
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

/// For a sender that writes header and payload on its own; the payload has at most [`MAX_PAYLOAD`] bytes.
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

/// Reads one frame from a blocking stream; `None` at a clean end.
pub fn read(stream: &mut impl Read, payload: &mut Vec<u8>) -> Result<Option<Kind>> {
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
    let (kind, length) = parse_header(header)?;
    payload.clear();
    // Not `resize`: a lying header must not make us allocate before the bytes are there.
    let got = stream.take(length as u64).read_to_end(payload)?;
    if got < length {
        return Err(ProtocolError::Truncated);
    }
    Ok(Some(kind))
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
}
