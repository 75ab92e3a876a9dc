//! The control channel to the worker that owns this process: events go out, its end is our end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use protocol::control::ToWorker;

/// A socket of packets that is connected once and for all. (std has no name for SOCK_SEQPACKET; of a datagram socket it
/// uses the same calls.)
pub struct Control {
    socket: UnixDatagram,
}

impl Control {
    pub fn new(socket: OwnedFd) -> Control {
        Control { socket: socket.into() }
    }

    pub fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    pub fn send(&self, message: &ToWorker) -> io::Result<()> {
        self.socket.send(&message.encode()).map(|_| ())
    }

    /// Sends the last message, and waits for the worker's end: it shall read this before it sees ours.
    pub fn end_with(&self, message: &ToWorker) -> ! {
        // A worker that is gone needs no word.
        let _ = self.send(message);
        watch(&self.socket)
    }

    /// Starts to send what the queue gets, from a thread of its own so that a slow worker holds up nobody, and to watch
    /// for the worker's end.
    pub fn start(self) -> io::Result<Sender<ToWorker>> {
        let (events, queue) = channel();
        let watched = self.socket.try_clone()?;
        thread::Builder::new().name("anker control".into()).spawn(move || watch(&watched))?;
        thread::Builder::new().name("anker events".into()).spawn(move || self.send_all(&queue))?;
        Ok(events)
    }

    fn send_all(&self, queue: &Receiver<ToWorker>) {
        for event in queue {
            if self.send(&event).is_err() {
                // The watcher sees the same end and exits.
                return;
            }
        }
    }
}

/// Nothing comes on this channel but its end.
fn watch(socket: &UnixDatagram) -> ! {
    let mut packet = [0; 64];
    loop {
        match socket.recv(&mut packet) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    std::process::exit(0);
}
