//! The threads that run queries. Queries of one nice value share their threads (`anker.query_nice`).
//!
//! The threads of the engine's own setting exist from the start. Those of a higher value are made when the first query
//! asks for it, and stay. A query cannot have a lower value than the engine's setting, because the system lets a thread
//! only raise it.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;
use protocol::control::Settings;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::log;
use crate::process::Nice;

/// The stack size of threads that process expressions, which are decoded and planned recursively.
pub const STACK: usize = 16 << 20;
/// The threads that may wait for the disk, for each thread of queries. With more of them, each would keep its stack and
/// its cache of free memory for some seconds. In addition, each query may wait for a forked child.
const BLOCKED_THREADS: usize = 8;
/// The highest nice value.
const LAST: u32 = 19;

pub struct Threads {
    own: Nice,
    /// The nice value of the engine's setting, beyond that of the process.
    usual_nice: u32,
    threads: usize,
    blocked: usize,
    usual: Runtime,
    lower: Mutex<HashMap<u32, Runtime>>,
}

impl Threads {
    /// To be called before any thread has changed its nice value.
    pub fn new(settings: &Settings) -> io::Result<Threads> {
        let own = Nice::of_process();
        let threads = settings.query_threads.max(2) as usize;
        let blocked = BLOCKED_THREADS * threads + settings.max_queries as usize;
        let usual = runtime(own, settings.query_nice, threads, blocked)?;
        let lower = Mutex::default();
        Ok(Threads { own, usual_nice: settings.query_nice, threads, blocked, usual, lower })
    }

    /// The nice value of a query that asks for this one.
    pub fn nice(&self, wanted: u32) -> u32 {
        wanted.clamp(self.usual_nice.min(LAST), LAST)
    }

    /// Whether a thread of this nice value may answer queries of the engine's own setting.
    pub fn is_usual(&self, nice: u32) -> bool {
        nice == self.usual_nice
    }

    /// The threads of the engine's own setting.
    pub fn usual(&self) -> &Handle {
        self.usual.handle()
    }

    /// The threads for queries that ask for this nice value. If they cannot be made, the usual ones.
    pub fn of(&self, wanted: u32) -> Handle {
        let nice = self.nice(wanted);
        if self.is_usual(nice) {
            return self.usual().clone();
        }
        let mut lower = self.lower.lock();
        if let Some(runtime) = lower.get(&nice) {
            return runtime.handle().clone();
        }
        match runtime(self.own, nice, self.threads, self.blocked) {
            Ok(runtime) => lower.entry(nice).or_insert(runtime).handle().clone(),
            Err(error) => {
                log::line(format_args!("threads with nice value {nice} cannot be made: {error}"));
                self.usual().clone()
            }
        }
    }

    /// Gives the calling thread this nice value for good.
    pub fn yielding(&self, nice: u32) {
        self.own.behind(nice).take();
    }
}

fn runtime(own: Nice, nice: u32, threads: usize, blocked: usize) -> io::Result<Runtime> {
    let urgency = own.behind(nice);
    Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(blocked)
        .thread_name("anker query")
        .thread_stack_size(STACK)
        .on_thread_start(move || urgency.take())
        .enable_time()
        .build()
}
