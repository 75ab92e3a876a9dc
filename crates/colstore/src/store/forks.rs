//! Forked children, which have the columns as they were at the fork, and their memory cost.
//!
//! The kernel copies a page when either side first writes to it, without reporting it. But every copy is a page fault
//! of the thread that owns the store. So its page faults bound the number of copies while there is a child. They are
//! charged to the pool like everything else, and if there is no room the children end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use snapmem::{Charge, Errand, Error, ForkedErrand, Pool, page_bytes, page_faults};

/// Children leave this part of the memory alone.
const MARGIN: u64 = 32;

/// A child with something to do.
#[derive(Debug)]
pub struct Forked {
    errand: ForkedErrand,
    starved: AtomicBool,
}

/// Why a child has no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// It was ended for want of memory.
    Starved,
    /// It has ended, or could not be asked.
    Ended(Error),
}

impl Forked {
    /// Has the child do it, and waits.
    pub fn ask(&self) -> Result<Vec<u8>, NoAnswer> {
        self.errand.ask().map_err(|error| match self.starved.load(Ordering::Acquire) {
            true => NoAnswer::Starved,
            false => NoAnswer::Ended(error),
        })
    }

    /// Ends the child; who waits for it has an error soon.
    pub fn end(&self) {
        self.errand.end();
    }

    pub fn pid(&self) -> Option<u32> {
        self.errand.pid()
    }
}

/// The store's view of its children.
#[derive(Debug)]
pub struct Forks {
    /// With the page faults that this thread had when they were born, the oldest first.
    children: Vec<(Weak<Forked>, u64)>,
    /// Page faults that were counted.
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

    /// Counts what was copied since the last time; children that there is no memory for are ended.
    pub fn settle(&mut self) {
        if self.children.is_empty() {
            return;
        }
        self.children.retain(|(child, _)| child.strong_count() > 0);
        let faults = page_faults();
        self.pool.count_copied((faults - self.counted) * page_bytes());
        self.counted = faults;
        // Pages copied before the oldest child was born are kept for nobody.
        let kept = self.children.first().map_or(0, |(_, born)| faults - born);
        let fits = self.charge.set(kept * page_bytes()).is_ok();
        // The tables shall never go short for a child's sake.
        if !fits || kept > 0 && self.pool.room() < self.pool.limit() / MARGIN {
            for child in self.children.iter().filter_map(|(child, _)| child.upgrade()) {
                child.starved.store(true, Ordering::Release);
                child.end();
            }
        }
    }
}
