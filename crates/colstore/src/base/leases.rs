//! Snapshots that queries hold, and the way in which queries are asked to give them up.
//!
//! The writer keeps old values for as long as a snapshot sees them. That may be long, for example if a cursor is not
//! read. If memory for more old values is missing, snapshots are given up rather than tables. The snapshot beside which
//! most was written goes first.
//!
//! Revoking a lease takes nothing away. Its holder is told, and leaves by itself. Until then it continues to read its
//! snapshot. The memory becomes free when the holder has dropped everything that belongs to the snapshot, so no reader
//! ever reads freed memory.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use snapmem::Relief;

/// The longest time that a writer waits after it was refused memory; below, the part of it in which one holder has to
/// leave.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_WITH_ONE: Duration = Duration::from_secs(2);
/// How long arrays from a view may outlive the view itself.
const LINGER: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1);

/// A query's permission to hold its snapshot, until it is revoked.
#[derive(Default)]
pub struct Lease(Mutex<Terms>);

enum Terms {
    /// The holder has set how it leaves when it is told to.
    Held(Option<Box<dyn FnOnce() + Send>>),
    Revoked,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::Held(None)
    }
}

impl Lease {
    /// Sets how the holder leaves. If the lease is already revoked, the holder leaves at once. Otherwise it leaves on
    /// the writer's thread, which must not be held up.
    pub fn when_revoked(&self, leave: impl FnOnce() + Send + 'static) {
        let mut terms = self.0.lock();
        match &mut *terms {
            Terms::Held(before) => *before = Some(Box::new(leave)),
            Terms::Revoked => {
                drop(terms);
                leave();
            }
        }
    }

    pub fn is_revoked(&self) -> bool {
        matches!(*self.0.lock(), Terms::Revoked)
    }

    fn revoke(&self) {
        let before = mem::replace(&mut *self.0.lock(), Terms::Revoked);
        if let Terms::Held(Some(leave)) = before {
            leave();
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_revoked() { "Lease(revoked)" } else { "Lease" })
    }
}

/// The approximate number of bytes that were written to a table so far. They determine how much a snapshot costs.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the bytes that are written from now on.
    pub fn beside(&self) -> Beside {
        Beside { written: self.clone(), then: self.0.load(Ordering::Relaxed) }
    }
}

/// The bytes written to a table since a snapshot of it was taken.
#[derive(Debug)]
pub struct Beside {
    written: Written,
    then: u64,
}

impl Beside {
    fn bytes(&self) -> u64 {
        self.written.0.load(Ordering::Relaxed) - self.then
    }
}

/// All leases that may be revoked.
#[derive(Debug)]
pub struct Leases {
    lent: Mutex<Vec<Lent>>,
    writer: ThreadId,
}

#[derive(Debug)]
struct Lent {
    lease: Arc<Lease>,
    /// A token that all views of the query hold.
    views: Weak<()>,
    tables: Vec<Beside>,
}

impl Lent {
    fn bytes_beside(&self) -> u64 {
        self.tables.iter().map(Beside::bytes).sum()
    }
}

impl Leases {
    /// An empty set of leases. Only the calling thread, the writer's, may revoke them.
    pub fn new() -> Leases {
        Leases { lent: Mutex::default(), writer: thread::current().id() }
    }

    /// Adds a lease, which may be revoked as long as `views` is held.
    pub fn lend(&self, lease: Arc<Lease>, views: &Arc<()>, tables: Vec<Beside>) {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        lent.push(Lent { lease, views: Arc::downgrade(views), tables });
    }

    /// Removes the lease beside which most was written; of several such leases, the oldest. A lease beside which
    /// nothing was written keeps no memory, and is not chosen.
    fn dearest(&self) -> Option<Lent> {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        let dear = lent.iter().map(Lent::bytes_beside).enumerate().filter(|(_, bytes)| *bytes > 0);
        let (dearest, _) = dear.rev().max_by_key(|(_, bytes)| *bytes)?;
        Some(lent.remove(dearest))
    }
}

impl Relief for Leases {
    /// Gives up leases until there is enough memory. Only the writer does so: a reader without memory gives up its own
    /// snapshot.
    fn relieve(&self, is_enough: &dyn Fn() -> bool) -> bool {
        if thread::current().id() != self.writer {
            return false;
        }
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline
            && let Some(lent) = self.dearest()
        {
            lent.lease.revoke();
            if comes(&lent.views, deadline.min(Instant::now() + PATIENCE_WITH_ONE), is_enough) {
                return true;
            }
        }
        false
    }
}

/// Waits until there is enough memory, or until no more can come from these views.
fn comes(views: &Weak<()>, deadline: Instant, is_enough: &dyn Fn() -> bool) -> bool {
    let mut gone = None;
    loop {
        if is_enough() {
            return true;
        }
        let now = Instant::now();
        if views.strong_count() == 0 && now - *gone.get_or_insert(now) >= LINGER || now >= deadline {
            return false;
        }
        thread::sleep(PAUSE);
    }
}

/// The tokens that a view holds as long as it is alive.
#[derive(Clone, Debug)]
pub struct Hold {
    /// A token that all views of the store hold.
    pub _counted: Arc<()>,
    /// A token that tells whether any view of the query is left.
    pub of_query: Arc<()>,
}
