//! Leases: the snapshots that queries hold, and how queries are made to give them up.
//!
//! The writer keeps old values for as long as a snapshot sees them. That may be long, for example if a client does not
//! read its cursor. If the writer has no memory for more old values, it revokes snapshots rather than lose live tables.
//! The first one revoked is the one during whose life most bytes were written. Work that is not needed to keep a live
//! table, such as a load or tidying, revokes no snapshot.
//!
//! Revoking a lease frees no memory by itself. The query that holds the lease is told, and ends; until then it
//! continues to read its snapshot. The memory becomes free when the query has dropped everything that belongs to the
//! snapshot, so no reader ever reads freed memory.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use snapmem::Relief;

/// The longest time that the writer waits for memory after the pool has refused some. One query gets
/// [`PATIENCE_WITH_ONE`] to drop its views; then the next lease is revoked.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_WITH_ONE: Duration = Duration::from_secs(2);
/// The time for which Arrow arrays made from a view may outlive the view.
const LINGER: Duration = Duration::from_millis(10);
const PAUSE: Duration = Duration::from_millis(1);

/// A query's permission to hold its snapshot. The writer may revoke it.
#[derive(Default)]
pub struct Lease(Mutex<Terms>);

enum Terms {
    /// The lease is valid. The function, if it is set, makes the query end; revoking the lease calls it.
    Held(Option<Box<dyn FnOnce() + Send>>),
    Revoked,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::Held(None)
    }
}

impl Lease {
    /// Sets the function that makes the query end. If the lease is already revoked, the function is called at once.
    /// Otherwise it is called when the lease is revoked, on the writer's thread. So the function must not block.
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

/// The approximate number of bytes written to a table so far. The bytes written since a snapshot was taken tell how
/// much memory the snapshot keeps.
#[derive(Clone, Debug, Default)]
pub struct Written(Arc<AtomicU64>);

impl Written {
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Begins to count the bytes that are written from now on.
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
    /// The views of queries whose leases were revoked. They may still hold memory.
    leaving: Mutex<Vec<Weak<()>>>,
    /// Whether the writer is doing work that must succeed, because a failure would lose a live table.
    table_at_stake: AtomicBool,
    writer: ThreadId,
}

#[derive(Debug)]
struct Lent {
    lease: Arc<Lease>,
    /// A token that all views of the query hold; when it is gone, so are the views.
    views: Weak<()>,
    tables: Vec<Beside>,
}

impl Lent {
    fn bytes_beside(&self) -> u64 {
        self.tables.iter().map(Beside::bytes).sum()
    }
}

impl Leases {
    /// An empty set of leases. Only the thread that calls this function may revoke them, so it must be the writer's
    /// thread.
    pub fn new() -> Leases {
        Leases {
            lent: Mutex::default(),
            leaving: Mutex::default(),
            table_at_stake: AtomicBool::new(false),
            writer: thread::current().id(),
        }
    }

    /// Does work of the writer that must succeed, because a failure would lose a live table. If memory for the work is
    /// missing, leases are revoked.
    pub fn for_a_live_table<T>(&self, work: impl FnOnce() -> T) -> T {
        self.table_at_stake.store(true, Ordering::Relaxed);
        let done = work();
        self.table_at_stake.store(false, Ordering::Relaxed);
        done
    }

    /// Adds a lease, which may be revoked for as long as `views` is held.
    pub fn lend(&self, lease: Arc<Lease>, views: &Arc<()>, tables: Vec<Beside>) {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        lent.push(Lent { lease, views: Arc::downgrade(views), tables });
    }

    /// Removes the lease whose snapshot keeps the most memory: the one since which most bytes were written. Among
    /// equals, it is the oldest. A snapshot since which nothing was written keeps no memory, so its lease is not
    /// chosen.
    fn dearest(&self) -> Option<Lent> {
        let mut lent = self.lent.lock();
        lent.retain(|lent| lent.views.strong_count() > 0);
        let dear = lent.iter().map(Lent::bytes_beside).enumerate().filter(|(_, bytes)| *bytes > 0);
        let (dearest, _) = dear.rev().max_by_key(|(_, bytes)| *bytes)?;
        Some(lent.remove(dearest))
    }
}

impl Relief for Leases {
    /// Revokes leases until there is enough memory. Only the writer does this; a reader that gets no memory gives up
    /// its own snapshot instead.
    fn relieve(&self, is_enough: &dyn Fn() -> bool) -> bool {
        if thread::current().id() != self.writer || !self.table_at_stake.load(Ordering::Relaxed) {
            return false;
        }
        let deadline = Instant::now() + PATIENCE;
        let mut leaving = self.leaving.lock();
        // Queries whose leases were revoked by earlier calls may still be ending, so wait for these first.
        let mut next = Instant::now() + PATIENCE_WITH_ONE;
        loop {
            match wait(&leaving, deadline.min(next), is_enough) {
                Waited::Enough => return true,
                Waited::AllGone => leaving.clear(),
                Waited::Late => leaving.retain(|views| views.strong_count() > 0),
            }
            if Instant::now() >= deadline {
                return false;
            }
            match self.dearest() {
                Some(lent) => {
                    lent.lease.revoke();
                    leaving.push(lent.views);
                    next = Instant::now() + PATIENCE_WITH_ONE;
                }
                None if leaving.is_empty() => return false,
                None => next = deadline,
            }
        }
    }
}

enum Waited {
    Enough,
    /// All these views are gone, so waiting longer would free no more memory.
    AllGone,
    Late,
}

/// Waits until there is enough memory, until these views are gone, or, if some of them live on, until the deadline.
fn wait(views: &[Weak<()>], deadline: Instant, is_enough: &dyn Fn() -> bool) -> Waited {
    let mut gone = None;
    loop {
        if is_enough() {
            return Waited::Enough;
        }
        let now = Instant::now();
        if views.iter().any(|views| views.strong_count() > 0) {
            if now >= deadline {
                return Waited::Late;
            }
        } else if views.is_empty() || now - *gone.get_or_insert(now) >= LINGER {
            // Arrow arrays may outlive their view a little, so the wait lasts that long after the last view is gone,
            // even beyond the deadline.
            return Waited::AllGone;
        }
        thread::sleep(PAUSE);
    }
}

/// Tokens that a view holds for as long as it exists.
#[derive(Clone, Debug)]
pub struct Hold {
    /// A token that every view of the store holds. Its reference count tells how many views exist.
    pub _counted: Arc<()>,
    /// A token that every view of one query holds. Once it has no holder, all views of that query are gone.
    pub of_query: Arc<()>,
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn memory_of_views_that_vanish_at_the_deadline_counts() {
        let token = RefCell::new(Some(Arc::new(())));
        let views = [Arc::downgrade(token.borrow().as_ref().unwrap())];
        let deadline = Instant::now();
        assert!(matches!(wait(&views, deadline, &|| false), Waited::Late));
        // The views vanish after the first look, and an array that outlives them holds the memory until the second one.
        let looks = Cell::new(0);
        let is_enough = || {
            token.take();
            looks.set(looks.get() + 1);
            looks.get() > 1
        };
        assert!(matches!(wait(&views, deadline, &is_enough), Waited::Enough));
        assert!(matches!(wait(&views, deadline, &|| false), Waited::AllGone));
    }
}
