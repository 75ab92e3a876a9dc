//! Threads that are ready to copy frames.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use parking_lot::Mutex;

use crate::memory::error::OutOfMemory;
use crate::memory::pool::{FrameRef, Pool};
use crate::memory::streaming;
use crate::memory::sys::with_signals_blocked;

/// The number of frames that a thread takes at a time.
const BATCH: usize = 8;
/// The greatest number of threads. No machine so far copies faster with more, because memory bandwidth is the limit.
const MOST: usize = 4;
/// If the copies of a job have more than this many bytes in total, they bypass the caches. Otherwise a job would evict
/// everything from the caches, including its own first bytes.
const STREAMED: usize = 8 << 20;

/// A crew of threads that copy frames. The thread that asks for the copies is one of them.
#[derive(Debug)]
pub(crate) struct Copiers {
    helpers: Mutex<Vec<Sender<Task>>>,
}

/// A request to a helper to take part in a job. The job may be done before the helper gets to it.
struct Task {
    job: Weak<Job>,
    done: SyncSender<()>,
}

impl Copiers {
    /// A crew of `threads` threads. If the system refuses to start one, there are fewer.
    pub fn new(threads: usize) -> Copiers {
        Copiers { helpers: Mutex::new((1..threads).map_while(|_| start_helper()).collect()) }
    }

    /// The crew that all regions share: as many threads as there are cores, up to a limit.
    pub fn shared() -> Arc<Copiers> {
        static SHARED: OnceLock<Arc<Copiers>> = OnceLock::new();
        let cores = || thread::available_parallelism().map_or(1, |cores| cores.get());
        SHARED.get_or_init(|| Arc::new(Copiers::new(cores().min(MOST)))).clone()
    }

    /// Copies all frames. During the job, the frames are moved out of the list, so that the helpers can share them.
    pub fn copy(&self, frames: &mut Vec<FrameRef>, pool: &Pool) -> Result<Vec<FrameRef>, OutOfMemory> {
        pool.cushioned()?;
        let mut copies = Vec::new();
        let bytes = (frames.len() * size_of::<OnceLock<FrameRef>>()) as u64;
        copies
            .try_reserve_exact(frames.len())
            .map_err(|_| OutOfMemory::Limit { wanted: bytes, limit: pool.limit() })?;
        copies.resize_with(frames.len(), OnceLock::new);
        let large = frames.iter().map(|frame| frame.len()).sum::<usize>() > STREAMED;
        let mut job = Arc::new(Job {
            frames: std::mem::take(frames),
            copies,
            copy: if large { streaming::copy } else { <[u8]>::copy_from_slice },
            next: AtomicUsize::new(0),
            refused: OnceLock::new(),
            pool: pool.clone(),
        });
        // The channel has room for a message from every helper, so that no helper needs memory to report that it has
        // finished.
        let (done, some_done) = mpsc::sync_channel(MOST);
        // Helpers are asked only for more than one batch, because a single batch is copied before a helper has woken
        // up.
        if job.frames.len() > BATCH {
            let mut helpers = self.helpers.lock();
            // Sending fails if the helper's thread has ended. Then the helper is removed, and the other threads do its
            // work.
            helpers.retain(|helper| helper.send(Task { job: Arc::downgrade(&job), done: done.clone() }).is_ok());
        }
        drop(done);
        job.work();
        // Helpers that are at work still share the job. Helpers that have not begun will find it gone.
        let job = loop {
            match Arc::try_unwrap(job) {
                Ok(job) => break job,
                Err(shared) => job = shared,
            }
            let _ = some_done.recv();
        };
        *frames = job.frames;
        match job.refused.into_inner() {
            Some(refused) => Err(refused),
            None => Ok(job.copies.into_iter().map(|copy| copy.into_inner().expect("all are copied")).collect()),
        }
    }
}

fn start_helper() -> Option<Sender<Task>> {
    let (send, tasks) = mpsc::channel::<Task>();
    let work = move || {
        for Task { job, done } in tasks {
            if let Some(job) = job.upgrade() {
                job.work();
                drop(job);
                // An error here means that the thread that asked no longer waits.
                let _ = done.send(());
            }
        }
    };
    let builder = thread::Builder::new().name("snapmem copier".into());
    with_signals_blocked(|| builder.spawn(work)).ok().map(|_| send)
}

/// Frames to copy, and a place for each copy.
struct Job {
    frames: Vec<FrameRef>,
    copies: Vec<OnceLock<FrameRef>>,
    /// Copies from its second argument to its first.
    copy: fn(&mut [u8], &[u8]),
    /// The index of the first frame that no thread has taken yet.
    next: AtomicUsize,
    refused: OnceLock<OutOfMemory>,
    pool: Pool,
}

impl Job {
    fn work(&self) {
        while self.refused.get().is_none() {
            let from = self.next.fetch_add(BATCH, Ordering::Relaxed);
            let to = self.frames.len().min(from + BATCH);
            if from >= to {
                return;
            }
            for i in from..to {
                match self.pool.copy_by(self.copy, &self.frames[i]) {
                    Ok(copy) => drop(self.copies[i].set(copy)),
                    Err(refused) => drop(self.refused.set(refused)),
                }
            }
        }
    }
}
