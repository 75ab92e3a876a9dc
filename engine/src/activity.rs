//! The queries that are open, which `anker.activity` shows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use olap::Usage;
use parking_lot::Mutex;
use protocol::request::{Phase, QueryActivity};

use crate::admission::User;

/// The open queries, by a number that each gets when it arrives.
#[derive(Default)]
pub struct Activities {
    open: Mutex<HashMap<u64, Arc<Activity>>>,
    last: AtomicU64,
}

/// An open query. Its own threads change the figures, and others read them.
pub struct Activity {
    backend: i32,
    query_id: i64,
    user: User,
    arrived: Instant,
    threads: u32,
    phase: AtomicU8,
    rows: AtomicU64,
    /// The memory and disk that the query uses, once it runs.
    usage: OnceLock<Usage>,
}

/// An entry of [`Activities`], which is removed when this value is dropped.
pub struct Entry<'a> {
    all: &'a Activities,
    number: u64,
    pub activity: Arc<Activity>,
}

impl Activities {
    pub fn begin(&self, backend: i32, query_id: i64, user: User, threads: u32) -> Entry<'_> {
        let activity = Arc::new(Activity {
            backend,
            query_id,
            user,
            arrived: Instant::now(),
            threads,
            phase: AtomicU8::new(Phase::Snapshot as u8),
            rows: AtomicU64::new(0),
            usage: OnceLock::new(),
        });
        let number = self.last.fetch_add(1, Relaxed);
        self.open.lock().insert(number, activity.clone());
        Entry { all: self, number, activity }
    }

    /// The open queries as they are now, in the order of their arrival.
    pub fn list(&self) -> Vec<QueryActivity> {
        let mut open: Vec<_> = self.open.lock().iter().map(|(number, query)| (*number, query.clone())).collect();
        open.sort_unstable_by_key(|(number, _)| *number);
        open.iter().map(|(_, query)| query.told()).collect()
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.all.open.lock().remove(&self.number);
    }
}

impl Activity {
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    pub fn has_rows(&self, rows: u64) {
        self.rows.store(rows, Relaxed);
    }

    pub fn uses(&self, usage: Usage) {
        // A query is started once.
        let _ = self.usage.set(usage);
    }

    /// A figure of the memory and disk that the query uses; 0 before it runs.
    pub fn used(&self, figure: fn(&Usage) -> u64) -> u64 {
        self.usage.get().map_or(0, figure)
    }

    fn told(&self) -> QueryActivity {
        let phase = self.phase.load(Relaxed);
        QueryActivity {
            backend: self.backend,
            query_id: self.query_id,
            user: self.user,
            elapsed_us: self.arrived.elapsed().as_micros() as u64,
            phase: Phase::ALL.into_iter().find(|p| *p as u8 == phase).unwrap_or(Phase::Running),
            rows: self.rows.load(Relaxed),
            memory_bytes: self.used(Usage::memory_bytes),
            disk_bytes: self.used(Usage::disk_bytes),
            spilled_bytes: self.used(Usage::spilled_bytes),
            threads: self.threads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_queries_are_listed_in_order_until_they_end() {
        let all = Activities::default();
        let entries: Vec<_> = (0..20).map(|backend| all.begin(backend, 7, 10, 2)).collect();
        entries[3].activity.enter(Phase::Sending);
        entries[3].activity.has_rows(5);
        let listed = all.list();
        assert!(listed.iter().map(|query| query.backend).eq(0..20));
        let told = |at: usize| (listed[at].phase, listed[at].rows, listed[at].threads);
        assert_eq!((told(3), told(4)), ((Phase::Sending, 5, 2), (Phase::Snapshot, 0, 2)));
        drop(entries);
        assert!(all.list().is_empty());
    }
}
