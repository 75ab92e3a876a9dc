//! The control channel to the worker that owns this process. Events are sent on it, and this process ends when the
//! channel does.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use protocol::control::ToWorker;

/// A connected packet socket. (std has no type for SOCK_SEQPACKET, but makes the same calls for a datagram socket.)
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

    /// Sends the last message, and waits for the worker's end, so that the worker reads the message before it sees the
    /// engine's end.
    pub fn end_with(&self, message: &ToWorker) -> ! {
        // If the worker is gone, it needs no message.
        let _ = self.send(message);
        watch(&self.socket)
    }

    /// Starts sending the messages of the queue, in a thread of its own, so that a slow worker holds nobody up. Another
    /// thread watches for the worker's end.
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
                // The watcher sees the same end, and exits.
                return;
            }
        }
    }
}

/// Waits for the end of the channel, on which nothing is received.
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
