//! The control channel to the worker that owns this process. The engine sends events on it, and exits when the worker
//! closes it.

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

    /// Sends the last message, and then waits for the worker to close the channel. So the worker reads the message
    /// before it sees that the engine has ended.
    pub fn end_with(&self, message: &ToWorker) -> ! {
        // If sending fails, the worker is gone and needs no message.
        let _ = self.send(message);
        watch(&self.socket)
    }

    /// Starts a thread that sends the messages of the returned queue, so that a slow worker delays no other thread.
    /// Another thread exits the process when the worker is gone.
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
                // The watching thread sees the same closed channel, and exits the process.
                return;
            }
        }
    }
}

/// Waits until the worker closes the channel, and exits the process. The worker never sends anything.
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
