//! Forked children of the engine, which see the columns as they were at the fork, and the memory that they cost.
//!
//! When parent or child first writes to a page after the fork, the kernel copies the page, and tells nobody. But each
//! copy that the parent causes is a page fault of the thread that owns the store. So while a child exists, the thread's
//! page faults are an upper bound for the number of copied pages. These pages are charged to the pool like other
//! memory. If there is no room for them, the children are ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use snapmem::{Charge, Errand, Error, ForkedErrand, Pool, page_bytes, page_faults};

/// Children are ended if less than this fraction (one in `MARGIN`) of the memory limit is free.
const MARGIN: u64 = 32;

/// A child process with its task.
#[derive(Debug)]
pub struct Forked {
    errand: ForkedErrand,
    starved: AtomicBool,
}

/// The reason why a child did not answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The store ended the child, because memory was scarce.
    Starved,
    /// The child ended by itself, or could not be asked.
    Ended(Error),
}

impl Forked {
    /// Makes the child do its task, and waits for the answer.
    pub fn ask(&self) -> Result<Vec<u8>, NoAnswer> {
        self.errand.ask().map_err(|error| match self.starved.load(Ordering::Acquire) {
            true => NoAnswer::Starved,
            false => NoAnswer::Ended(error),
        })
    }

    /// Ends the child. A thread that waits for the child's answer soon gets an error.
    pub fn end(&self) {
        self.errand.end();
    }

    pub fn pid(&self) -> Option<u32> {
        self.errand.pid()
    }
}

/// The store's record of its children.
#[derive(Debug)]
pub struct Forks {
    /// The children, oldest first. The number is the count of this thread's page faults at the fork.
    children: Vec<(Weak<Forked>, u64)>,
    /// The thread's number of page faults when they were last counted.
    counted: u64,
    charge: Charge,
    pool: Pool,
}

impl Forks {
    pub fn new(pool: &Pool) -> Forks {
        Forks { children: Vec::new(), counted: 0, charge: pool.charge(), pool: pool.clone() }
    }

    /// Forks this process.
    pub fn fork(&mut self, errand: impl Errand, reply_bytes: usize) -> Result<Arc<Forked>, Error> {
        self.settle();
        let errand = ForkedErrand::fork(errand, reply_bytes, &self.pool)?;
        let born = page_faults();
        if self.children.is_empty() {
            self.counted = born;
        }
        let forked = Arc::new(Forked { errand, starved: false.into() });
        self.children.push((Arc::downgrade(&forked), born));
        Ok(forked)
    }

    pub fn len(&self) -> usize {
        self.children.iter().filter(|(child, _)| child.strong_count() > 0).count()
    }

    /// Charges the pages that were copied for children. Ends the children if there is no memory for these pages.
    pub fn settle(&mut self) {
        if self.children.is_empty() {
            return;
        }
        self.children.retain(|(child, _)| child.strong_count() > 0);
        let faults = page_faults();
        self.pool.count_copied((faults - self.counted) * page_bytes());
        self.counted = faults;
        // Pages that were copied before the oldest child was forked were kept for earlier children, which have ended.
        // So these pages are free again.
        let kept = self.children.first().map_or(0, |(_, born)| faults - born);
        let fits = self.charge.set(kept * page_bytes()).is_ok();
        // Children are ended early, so that no table ever lacks memory because of a child.
        if !fits || kept > 0 && self.pool.room() < self.pool.limit() / MARGIN {
            for child in self.children.iter().filter_map(|(child, _)| child.upgrade()) {
                child.starved.store(true, Ordering::Release);
                child.end();
            }
        }
    }
}
