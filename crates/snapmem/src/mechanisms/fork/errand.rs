//! An errand: a task that a forked child of the whole process does, with the memory as it was at the fork.
//!
//! The parent prepares the input of the task in ordinary memory. It may drop the input right after the fork, because
//! the child has its own copy of all pages. The child writes the reply to memory that both share.

use std::fmt;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use super::board::Board;
use super::child::{Child, ForkView};
use crate::memory::error::{Error, OutOfMemory};
use crate::memory::pool::{Alive, Pool};
use crate::memory::sys::Mapping;

/// The task of a child that was forked for it.
///
/// It runs in a process that was forked from one with many threads. Like a [`super::Job`], it must not lock, allocate,
/// print or panic.
pub trait Errand: Send {
    /// Does the task. Writes the reply to `reply`, and returns its length.
    fn run(&mut self, reply: &mut [u8]) -> usize;
}

/// A child with a task, as the parent sees it. The child is killed when this is dropped.
pub struct ForkedErrand {
    child: Child,
    board: Board,
    reply: Mapping,
    job: super::Job,
    errand: usize,
    /// A lock that is held during a request, because the child can serve only one request at a time.
    asking: Mutex<()>,
    _alive: Alive,
}

impl ForkedErrand {
    /// Forks this process. The child then waits until it is asked. Its reply has at most `reply_bytes` bytes.
    pub fn fork<E: Errand>(errand: E, reply_bytes: usize, pool: &Pool) -> Result<ForkedErrand, Error> {
        let board = Board::new(1)?;
        let reply = Mapping::common(reply_bytes.max(1))?;
        // SAFETY: a view of nothing.
        let view = unsafe { ForkView::new(std::iter::empty()) };
        let mut errand = Box::new(errand);
        let place = ptr::from_mut(&mut *errand).expose_provenance();
        let child = Child::fork(&board, &view)?;
        // Only the parent's copy of the task is dropped here. The child has its own copy, at the same address.
        drop(errand);
        let alive = Alive::new(pool, &Arc::default());
        Ok(ForkedErrand {
            child,
            board,
            reply,
            job: perform::<E>,
            errand: place,
            asking: Mutex::new(()),
            _alive: alive,
        })
    }

    /// Makes the child do its task, and waits for the reply.
    pub fn ask(&self) -> Result<Vec<u8>, Error> {
        let _one = self.asking.lock();
        let to = self.reply.part(0, self.reply.len());
        let arguments = [self.errand as u64, to.expose_provenance() as u64, self.reply.len() as u64, 0];
        let alive = || self.child.check(&self.board);
        let said = self.board.slot(0).ask(self.job as *mut (), arguments, &mut [], alive)?;
        let said = (said as usize).min(self.reply.len());
        let mut reply = Vec::new();
        let refused = |_| OutOfMemory::System { call: "malloc", errno: libc::ENOMEM, hint: "" };
        reply.try_reserve_exact(said).map_err(refused)?;
        // SAFETY: the mapping has that many bytes, and the child has answered and does not touch them until it is
        // asked again.
        reply.extend_from_slice(unsafe { std::slice::from_raw_parts(to, said) });
        Ok(reply)
    }

    /// Ends the child; any thread may call this. A thread that waits for the child's answer soon gets an error.
    pub fn end(&self) {
        self.child.signal_to_end();
    }

    /// The child's process id, unless the child is known to have ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.pid()
    }
}

impl fmt::Debug for ForkedErrand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForkedErrand").field("pid", &self.pid()).finish()
    }
}

/// The job that runs the task in the child.
fn perform<E: Errand>(_: &ForkView, [errand, to, bytes, _]: [u64; 4], _: &mut [u8]) -> u64 {
    let errand = ptr::with_exposed_provenance_mut::<E>(errand as usize);
    let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: where the parent had the errand when it forked, this process has it; its only thread is here, and nobody
    // drops it. The parent does not read the reply before it has the answer.
    let (errand, reply) = unsafe { (&mut *errand, std::slice::from_raw_parts_mut(to, bytes as usize)) };
    errand.run(reply) as u64
}
