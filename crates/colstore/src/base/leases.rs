//! Snapshots that queries hold, and how they are asked to leave.
//!
//! The writer keeps what it changes for as long as a snapshot sees it. That may be long: a cursor that nobody reads
//! is enough. Where there is no memory for more of that, snapshots are given up, and not the tables. Those beside
//! which most was written go first.
//!
//! Revoking a lease takes nothing away. Its holder is told, and leaves by itself. Until then it goes on to read what
//! its snapshot sees, and memory is free when the last of that was dropped. So nobody ever reads what was given back.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use snapmem::Relief;

/// The longest wait of a writer that was refused memory, and the part of it that is for one holder to leave.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_WITH_ONE: Duration = Duration::from_secs(2);
/// Arrays that were made of a view may be dropped so much later than the view itself.
const LINGER: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1);

/// A query's right to its snapshot, until it is revoked.
#[derive(Default)]
pub struct Lease(Mutex<Terms>);

enum Terms {
    /// The holder has said how it leaves when it is told to.
    Held(Option<Box<dyn FnOnce() + Send>>),
    Revoked,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::Held(None)
    }
}

impl Lease {
    /// Sets how the holder leaves. It leaves at once if the lease is revoked by now, and else on the writer's thread,
    /// which must not be held up.
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

/// The bytes written to a table so far, roughly: they are what makes its snapshots dear.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts from now on.
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

/// Every lease that may be revoked.
#[derive(Debug)]
pub struct Leases {
    lent: Mutex<Vec<Lent>>,
    writer: ThreadId,
}

#[derive(Debug)]
struct Lent {
    lease: Arc<Lease>,
    /// All views of the query hold it.
    views: Weak<()>,
    tables: Vec<Beside>,
}

impl Lent {
    fn bytes_beside(&self) -> u64 {
        self.tables.iter().map(Beside::bytes).sum()
    }
}

impl Leases {
    /// Leases that the thread which calls this may revoke: the writer.
    pub fn new() -> Leases {
        Leases { lent: Mutex::default(), writer: thread::current().id() }
    }

    /// As long as `views` is held, the lease may be revoked.
    pub fn lend(&self, lease: Arc<Lease>, views: &Arc<()>, tables: Vec<Beside>) {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        lent.push(Lent { lease, views: Arc::downgrade(views), tables });
    }

    /// Takes out the lease beside which most was written; of equal ones the oldest. Where nothing was, a snapshot keeps
    /// nothing.
    fn dearest(&self) -> Option<Lent> {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        let dear = lent.iter().map(Lent::bytes_beside).enumerate().filter(|(_, bytes)| *bytes > 0);
        let (dearest, _) = dear.rev().max_by_key(|(_, bytes)| *bytes)?;
        Some(lent.remove(dearest))
    }
}

impl Relief for Leases {
    /// For the writer alone: a reader that finds no memory leaves itself.
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

/// Waits for enough memory, until it is clear that no more comes of these views.
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
    /// Counts all views of the store.
    pub _counted: Arc<()>,
    /// Tells whether any view of the query is left.
    pub of_query: Arc<()>,
}
