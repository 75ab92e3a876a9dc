//! A hash table of fixed size in shared memory, and the lock that guards it.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pgrx::prelude::*;

use crate::pg::compat;

/// An entry of the hash table.
///
/// # Safety
///
/// The type is plain data in C's layout. It begins with its key, and the key contains no padding.
pub unsafe trait Entry: Copy {
    type Key: Copy;

    fn key(&self) -> Self::Key;
}

pub struct Map<E: Entry> {
    name: &'static CStr,
    table: AtomicPtr<pg_sys::HTAB>,
    lock: AtomicPtr<pg_sys::LWLock>,
    places: AtomicUsize,
    entry: PhantomData<fn() -> E>,
}

impl<E: Entry> Map<E> {
    pub const fn new(name: &'static CStr) -> Map<E> {
        Map {
            name,
            table: AtomicPtr::new(ptr::null_mut()),
            lock: AtomicPtr::new(ptr::null_mut()),
            places: AtomicUsize::new(0),
            entry: PhantomData,
        }
    }

    /// Requests the shared memory. To be called when PostgreSQL asks extensions for their needs.
    pub fn request(&self, places: usize) {
        self.places.store(places, Ordering::Relaxed);
        // SAFETY: the server's hook for such requests calls this, and `create` uses the same sizes.
        unsafe {
            pg_sys::RequestAddinShmemSpace(pg_sys::hash_estimate_size(places as _, size_of::<E>()));
            pg_sys::RequestNamedLWLockTranche(self.name.as_ptr(), 1);
        }
    }

    /// Creates the empty table. To be called in the postmaster, so that all processes forked later have it.
    pub fn create(&self) {
        let places = self.places.load(Ordering::Relaxed);
        let mut control =
            pg_sys::HASHCTL { keysize: size_of::<E::Key>(), entrysize: size_of::<E>(), ..Default::default() };
        let flags = pg_sys::HASH_ELEM | pg_sys::HASH_BLOBS | pg_sys::HASH_FIXED_SIZE;
        // SAFETY: the server's hook for creating shared memory calls this. The memory and the lock were requested
        // before.
        unsafe {
            let table = compat::shared_table(self.name, places, &mut control, flags as i32);
            self.table.store(table, Ordering::Relaxed);
            self.lock.store(&raw mut (*pg_sys::GetNamedLWLockTranche(self.name.as_ptr())).lock, Ordering::Relaxed);
        }
    }

    pub fn get(&self, key: E::Key) -> Option<E> {
        self.lock(pg_sys::LWLockMode::LW_SHARED)?.entry(key, None).copied()
    }

    /// Changes an existing entry.
    pub fn change<T>(&self, key: E::Key, change: impl FnOnce(&mut E) -> T) -> Option<T> {
        self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE)?.entry(key, None).map(change)
    }

    /// Changes an entry. If it does not exist, it is created first; `None` if the table is full.
    pub fn change_or_insert<T>(&self, new: E, change: impl FnOnce(&mut E) -> T) -> Option<T> {
        self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE)?.entry(new.key(), Some(new)).map(change)
    }

    pub fn remove(&self, key: E::Key) {
        if let Some(guard) = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE) {
            guard.search(key, pg_sys::HASHACTION::HASH_REMOVE);
        }
    }

    pub fn for_each(&self, mut visit: impl FnMut(&E)) {
        if let Some(guard) = self.lock(pg_sys::LWLockMode::LW_SHARED) {
            guard.scan(|entry| visit(entry));
        }
    }

    /// Like [`for_each`](Self::for_each), but does not wait for the lock. Returns whether the lock was free.
    pub fn try_for_each(&self, mut visit: impl FnMut(&E)) -> bool {
        let lock = self.lock.load(Ordering::Relaxed);
        // SAFETY: as for `lock`.
        if lock.is_null() || !unsafe { pg_sys::LWLockConditionalAcquire(lock, pg_sys::LWLockMode::LW_SHARED) } {
            return false;
        }
        Guard { map: self, lock }.scan(|entry| visit(entry));
        true
    }

    pub fn for_each_mut(&self, visit: impl FnMut(&mut E)) {
        if let Some(guard) = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE) {
            guard.scan(visit);
        }
    }

    pub fn retain(&self, mut keep: impl FnMut(&E) -> bool) {
        let Some(guard) = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE) else { return };
        guard.scan(|entry| {
            if !keep(entry) {
                // A scan may delete the entry that it visits.
                guard.search(entry.key(), pg_sys::HASHACTION::HASH_REMOVE);
            }
        });
    }

    /// The number of free places. Other processes may fill them before this one does.
    pub fn room(&self) -> usize {
        let table = self.table();
        if table.is_null() {
            return 0;
        }
        // SAFETY: the function reads one number of the table.
        let used = unsafe { pg_sys::hash_get_num_entries(table) };
        self.places.load(Ordering::Relaxed).saturating_sub(used as usize)
    }

    fn table(&self) -> *mut pg_sys::HTAB {
        self.table.load(Ordering::Relaxed)
    }

    /// Locks the table. `None` if there is no table, because the server was started without the library.
    fn lock(&self, mode: pg_sys::LWLockMode::Type) -> Option<Guard<'_, E>> {
        let lock = self.lock.load(Ordering::Relaxed);
        if lock.is_null() {
            return None;
        }
        // SAFETY: the lock is our own, in shared memory. No code that runs under it raises an error.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        Some(Guard { map: self, lock })
    }
}

/// The locked table. Under a shared lock, its entries must not be changed.
struct Guard<'a, E: Entry> {
    map: &'a Map<E>,
    lock: *mut pg_sys::LWLock,
}

impl<E: Entry> Guard<'_, E> {
    /// The entry, or null, and whether the entry existed before.
    fn search(&self, key: E::Key, action: pg_sys::HASHACTION::Type) -> (*mut E, bool) {
        let mut found = false;
        // SAFETY: under the lock; the key is as long as the table expects.
        let entry = unsafe { pg_sys::hash_search(self.map.table(), ptr::from_ref(&key).cast(), action, &mut found) };
        (entry.cast(), found)
    }

    /// An entry; if it does not exist, it is created from `new`. Creating an entry needs the exclusive lock.
    fn entry(&mut self, key: E::Key, new: Option<E>) -> Option<&mut E> {
        let action = if new.is_some() { pg_sys::HASHACTION::HASH_ENTER_NULL } else { pg_sys::HASHACTION::HASH_FIND };
        let (entry, found) = self.search(key, action);
        // SAFETY: the pointer is null, or leads to an entry to which nobody else in this process has a reference while
        // the lock is held. A new entry has only its key, and is filled before it is read.
        unsafe {
            if let Some(new) = new.filter(|_| !found && !entry.is_null()) {
                entry.write(new);
            }
            entry.as_mut()
        }
    }

    fn scan(&self, mut visit: impl FnMut(&mut E)) {
        let mut status = pg_sys::HASH_SEQ_STATUS::default();
        // SAFETY: the lock is held. The scan runs to its end, which closes it.
        unsafe {
            pg_sys::hash_seq_init(&mut status, self.map.table());
            while let Some(entry) = pg_sys::hash_seq_search(&mut status).cast::<E>().as_mut() {
                visit(entry);
            }
        }
    }
}

impl<E: Entry> Drop for Guard<'_, E> {
    fn drop(&mut self) {
        // SAFETY: acquired by `lock`, and released once.
        unsafe { pg_sys::LWLockRelease(self.lock) };
    }
}
