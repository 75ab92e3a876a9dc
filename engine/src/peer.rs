//! The other end of a connection: sends frames to the peer, and checks whether the peer is still there.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use protocol::ProtocolError;
use protocol::frame::{self, Kind};
use protocol::request::Refusal;
use serde::Serialize;
use tokio::sync::oneshot;

/// A peer is stalled if it takes no bytes for this long.
const STALL: Duration = Duration::from_millis(100);
/// The interval at which a waiting thread checks whether its client is still there.
const HANG_UP_CHECK: Duration = Duration::from_millis(20);

/// The client closed the connection, or cannot be reached.
pub struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Gone
    }
}

impl From<Gone> for io::Error {
    fn from(_: Gone) -> Self {
        ErrorKind::ConnectionAborted.into()
    }
}

pub struct Peer {
    stream: UnixStream,
}

impl Peer {
    /// Accepts a connection, but only from a process of the server's own user.
    pub fn new(stream: UnixStream) -> io::Result<Peer> {
        if crate::process::peer(&stream)?.uid != crate::process::user() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "connection of another user"));
        }
        stream.set_write_timeout(Some(STALL))?;
        Ok(Peer { stream })
    }

    /// The next frame; `None` at a clean end.
    pub fn read(&mut self, payload: &mut Vec<u8>) -> protocol::Result<Option<Kind>> {
        frame::read(&mut self.stream, payload)
    }

    /// The kind and the length of the next frame; `None` at a clean end.
    pub fn header(&mut self) -> protocol::Result<Option<(Kind, usize)>> {
        frame::read_header(&mut self.stream)
    }

    /// Reads the payload of a frame, whose header was read before, into new memory.
    pub fn payload(&mut self, length: usize) -> protocol::Result<Vec<u8>> {
        let mut payload = Vec::new();
        payload.try_reserve_exact(length).map_err(|_| ProtocolError::NoMemory(length))?;
        frame::read_payload(&mut self.stream, length, &mut payload)?;
        Ok(payload)
    }

    /// The next bytes of a frame's payload.
    pub fn bytes<const N: usize>(&mut self) -> protocol::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Skips what is left of a frame's payload.
    pub fn skip(&mut self, length: usize) -> protocol::Result<()> {
        frame::skip_payload(&mut self.stream, length)
    }

    /// Waits for the beginning of a frame, or for the end of the connection; false if the time runs out first.
    pub fn speaks_within(&self, limit: Duration) -> bool {
        crate::process::readable(&self.stream, limit)
    }

    /// Whether the client has closed the connection.
    pub fn is_gone(&self) -> bool {
        crate::process::hung_up(&self.stream)
    }

    pub fn send<T: Serialize>(&mut self, kind: Kind, message: &T) -> io::Result<()> {
        self.write(&mut [IoSlice::new(&frame::encode(kind, message))], || ())
    }

    /// Sends bytes without changes. `stalled` is called whenever the peer takes no bytes for [`STALL`].
    pub fn send_raw(&mut self, kind: Kind, payload: &[u8], stalled: impl FnMut()) -> io::Result<()> {
        let header = frame::encode_header(kind, payload.len());
        self.write(&mut [IoSlice::new(&header), IoSlice::new(payload)], stalled)
    }

    /// Sends payloads of [`Kind::Arrow`] and the message that follows them, all together.
    pub fn send_rest<'a, T: Serialize>(
        &mut self,
        pieces: impl Iterator<Item = &'a [u8]>,
        kind: Kind,
        message: &T,
    ) -> io::Result<()> {
        let pieces: Vec<_> = pieces.map(|piece| (frame::encode_header(Kind::Arrow, piece.len()), piece)).collect();
        let message = frame::encode(kind, message);
        let frames = pieces.iter().flat_map(|(header, piece)| [IoSlice::new(header), IoSlice::new(piece)]);
        let mut parts: Vec<_> = frames.chain([IoSlice::new(&message)]).collect();
        self.write(&mut parts, || ())
    }

    pub fn refuse(&mut self, refusal: &Refusal) -> io::Result<()> {
        self.send(Kind::Refused, refusal)
    }

    /// Waits for a future as long as the client is there, and sends keep-alive messages to the client meanwhile.
    ///
    /// This thread measures time itself, because timers of the query threads stand still while all of those threads
    /// compute.
    pub fn attend<F: Future>(&mut self, wanted: F) -> Result<F::Output, Gone> {
        self.attend_counting(wanted, || ())
    }

    /// Like `attend`, but calls `taken` each time that the client has read everything sent to it, including the latest
    /// keep-alive message. That shows that the client still waits for the result. A client that does not read gets no
    /// further keep-alive messages.
    pub fn attend_counting<F: Future>(&mut self, wanted: F, taken: impl FnMut()) -> Result<F::Output, Gone> {
        // Without a limit, the wait ends only with the value.
        self.wait(wanted, None, taken).map(|value| value.expect("what was waited for"))
    }

    /// Like `attend`, but waits no longer than `limit`.
    pub fn attend_for<F: Future>(&mut self, limit: Duration, wanted: F) -> Result<Option<F::Output>, Gone> {
        self.wait(wanted, Some(limit), || ())
    }

    fn wait<F: Future>(
        &mut self,
        wanted: F,
        limit: Option<Duration>,
        mut taken: impl FnMut(),
    ) -> Result<Option<F::Output>, Gone> {
        let mut wanted = pin!(wanted);
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let begun = Instant::now();
        let mut told = begun;
        loop {
            if let Poll::Ready(value) = wanted.as_mut().poll(&mut context) {
                return Ok(Some(value));
            }
            if crate::process::hung_up(&self.stream) {
                return Err(Gone);
            }
            if told.elapsed() >= frame::ALIVE_INTERVAL {
                if crate::process::all_read(&self.stream) {
                    taken();
                }
                self.tell_alive()?;
                told = Instant::now();
            }
            let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            thread::park_timeout(left.map_or(HANG_UP_CHECK, |left| left.min(HANG_UP_CHECK)));
        }
    }

    /// Waits for the writer's decision. An error means that the writer is gone, and that the process will end soon.
    pub fn verdict<T>(&mut self, reply: oneshot::Receiver<Result<T, Refusal>>) -> io::Result<Result<T, Refusal>> {
        let answer = self.attend(reply).map_err(io::Error::from)?;
        answer.map_err(|_| ErrorKind::ConnectionAborted.into())
    }

    /// Sends a keep-alive message, unless the socket's buffer is full. A full buffer means that the client, such as an
    /// open cursor, does not read. When it reads again, it finds enough messages.
    fn tell_alive(&mut self) -> io::Result<()> {
        if crate::process::writable(&self.stream) {
            self.send_raw(Kind::Alive, &[], || ())?;
        }
        Ok(())
    }

    fn write(&mut self, mut parts: &mut [IoSlice<'_>], mut stalled: impl FnMut()) -> io::Result<()> {
        while !parts.is_empty() {
            match self.stream.write_vectored(parts) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut parts, n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => stalled(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Work of a connection's own thread, during which its client gets keep-alive messages.
pub struct Work {
    told: Instant,
}

impl Work {
    pub fn new() -> Work {
        Work { told: Instant::now() }
    }

    /// Called between two pieces of work. Fails if the client is gone. Sends a keep-alive message if the last one was
    /// sent long ago.
    pub fn goes_on(&mut self, peer: &mut Peer) -> io::Result<()> {
        if crate::process::hung_up(&peer.stream) {
            return Err(Gone.into());
        }
        if self.told.elapsed() >= frame::ALIVE_INTERVAL {
            peer.tell_alive()?;
            self.told = Instant::now();
        }
        Ok(())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_notices_that_nobody_waits() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(ours).unwrap();
        let mut work = Work::new();
        work.goes_on(&mut peer).unwrap();
        work.told -= frame::ALIVE_INTERVAL;
        work.goes_on(&mut peer).unwrap();
        let mut told = [0; frame::HEADER];
        theirs.read_exact(&mut told).unwrap();
        assert_eq!(told, frame::encode_header(Kind::Alive, 0));
        drop(theirs);
        assert!(work.goes_on(&mut peer).is_err());
    }

    #[test]
    fn a_wait_with_a_limit_ends_with_it_or_with_what_was_waited_for() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(ours).unwrap();
        assert!(matches!(peer.attend_for(Duration::from_secs(60), std::future::ready(7)), Ok(Some(7))));
        let never = std::future::pending::<()>();
        assert!(matches!(peer.attend_for(Duration::from_millis(1), never), Ok(None)));
    }

    #[test]
    fn the_rest_is_frames_like_all_others() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(ours).unwrap();
        let pieces: [&[u8]; 3] = [b"first", b"", b"last"];
        peer.send_rest(pieces.into_iter(), Kind::Done, &7u32).unwrap();
        let mut payload = Vec::new();
        for piece in pieces {
            assert_eq!(frame::read(&mut theirs, &mut payload).unwrap(), Some(Kind::Arrow));
            assert_eq!(payload, piece);
        }
        assert_eq!(frame::read(&mut theirs, &mut payload).unwrap(), Some(Kind::Done));
        assert_eq!(frame::parse::<u32>(&payload).unwrap(), 7);
    }

    #[test]
    fn a_stalled_peer_gets_everything_in_the_end_and_a_gone_one_is_noticed() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut peer = Peer::new(ours).unwrap();
        assert!(!crate::process::hung_up(&peer.stream));
        assert!(!peer.speaks_within(Duration::from_millis(1)));
        let payload: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let (stalled, is_stalled) = std::sync::mpsc::channel();
        let expected = payload.clone();
        let reader = std::thread::spawn(move || {
            is_stalled.recv().unwrap();
            let mut got = vec![0; frame::HEADER + expected.len()];
            theirs.read_exact(&mut got).unwrap();
            assert!(got[frame::HEADER..] == expected);
        });
        peer.send_raw(Kind::Arrow, &payload, || stalled.send(()).unwrap_or_default()).unwrap();
        reader.join().unwrap();
        assert!(crate::process::hung_up(&peer.stream));
        assert!(peer.speaks_within(STALL));
        assert!(peer.send(Kind::Arrow, &0u8).is_err());
    }
}
