//! A hash table in shared memory with a fixed number of places, and the lock that guards it.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pgrx::prelude::*;

/// What such a table holds.
///
/// # Safety
///
/// The type is plain data in C's layout and begins with its key, which has no padding.
pub unsafe trait Entry: Copy {
    type Key: Copy;
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

    /// Asks for the memory, when extensions are asked what they need.
    pub fn request(&self, places: usize) {
        self.places.store(places, Ordering::Relaxed);
        // SAFETY: from the server's hook for this; the sizes are those of `attach`.
        unsafe {
            pg_sys::RequestAddinShmemSpace(pg_sys::hash_estimate_size(places as _, size_of::<E>()));
            pg_sys::RequestNamedLWLockTranche(self.name.as_ptr(), 1);
        }
    }

    /// Makes the table, empty. In the postmaster, for all processes that it will fork.
    pub fn create(&self) {
        let places = self.places.load(Ordering::Relaxed) as _;
        let mut control =
            pg_sys::HASHCTL { keysize: size_of::<E::Key>(), entrysize: size_of::<E>(), ..Default::default() };
        let flags = pg_sys::HASH_ELEM | pg_sys::HASH_BLOBS | pg_sys::HASH_FIXED_SIZE;
        // SAFETY: from the server's hook for this, with memory and lock that were asked for in time.
        unsafe {
            let table = pg_sys::ShmemInitHash(self.name.as_ptr(), places, places, &mut control, flags as i32);
            self.table.store(table, Ordering::Relaxed);
            self.lock.store(&raw mut (*pg_sys::GetNamedLWLockTranche(self.name.as_ptr())).lock, Ordering::Relaxed);
        }
    }

    pub fn get(&self, key: E::Key) -> Option<E> {
        let _guard = self.lock(pg_sys::LWLockMode::LW_SHARED);
        // SAFETY: under the lock.
        unsafe { self.find(key).as_ref().copied() }
    }

    /// Changes an entry that is there.
    pub fn change<T>(&self, key: E::Key, change: impl FnOnce(&mut E) -> T) -> Option<T> {
        let _guard = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE);
        // SAFETY: under the lock, and nobody else has a reference.
        unsafe { self.find(key).as_mut().map(change) }
    }

    /// Changes an entry, which is made if it is not there. `None`: there is no place for it.
    pub fn change_or_insert<T>(&self, key: E::Key, new: E, change: impl FnOnce(&mut E) -> T) -> Option<T> {
        let _guard = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE);
        let mut found = false;
        // SAFETY: under the lock; a new entry has its key alone, so it is filled in before it is looked at.
        unsafe {
            let enter = pg_sys::HASHACTION::HASH_ENTER_NULL;
            let entry = pg_sys::hash_search(self.table(), ptr::from_ref(&key).cast(), enter, &mut found)
                .cast::<MaybeUninit<E>>()
                .as_mut()?;
            if !found {
                entry.write(new);
            }
            Some(change(entry.assume_init_mut()))
        }
    }

    pub fn remove(&self, key: E::Key) {
        let _guard = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE);
        // SAFETY: under the lock.
        unsafe { self.delete(key) };
    }

    pub fn for_each(&self, mut visit: impl FnMut(&E)) {
        let _guard = self.lock(pg_sys::LWLockMode::LW_SHARED);
        self.scan(|entry| visit(entry));
    }

    pub fn for_each_mut(&self, visit: impl FnMut(&mut E)) {
        let _guard = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE);
        self.scan(visit);
    }

    pub fn retain(&self, mut keep: impl FnMut(&E) -> bool) {
        let _guard = self.lock(pg_sys::LWLockMode::LW_EXCLUSIVE);
        self.scan(|entry| {
            if !keep(entry) {
                // SAFETY: under the lock; the entry begins with its key, and a scan may delete what it stands at.
                unsafe { self.delete(ptr::from_ref(entry).cast::<E::Key>().read()) };
            }
        });
    }

    /// How many more entries there is a place for. Others may be quicker to take it.
    pub fn room(&self) -> usize {
        // SAFETY: reads one number.
        let used = unsafe { pg_sys::hash_get_num_entries(self.table()) };
        self.places.load(Ordering::Relaxed).saturating_sub(used as usize)
    }

    fn scan(&self, mut visit: impl FnMut(&mut E)) {
        let mut status = pg_sys::HASH_SEQ_STATUS::default();
        // SAFETY: the caller holds the lock; the scan goes to its end, which closes it.
        unsafe {
            pg_sys::hash_seq_init(&mut status, self.table());
            while let Some(entry) = pg_sys::hash_seq_search(&mut status).cast::<E>().as_mut() {
                visit(entry);
            }
        }
    }

    /// # Safety
    ///
    /// Under the lock.
    unsafe fn find(&self, key: E::Key) -> *mut E {
        let find = pg_sys::HASHACTION::HASH_FIND;
        // SAFETY: the caller's promise; the key is as long as the table expects.
        unsafe { pg_sys::hash_search(self.table(), ptr::from_ref(&key).cast(), find, ptr::null_mut()).cast() }
    }

    /// # Safety
    ///
    /// Under the lock, held exclusively.
    unsafe fn delete(&self, key: E::Key) {
        let remove = pg_sys::HASHACTION::HASH_REMOVE;
        // SAFETY: the caller's promise; the key is as long as the table expects.
        unsafe { pg_sys::hash_search(self.table(), ptr::from_ref(&key).cast(), remove, ptr::null_mut()) };
    }

    fn table(&self) -> *mut pg_sys::HTAB {
        self.table.load(Ordering::Relaxed)
    }

    fn lock(&self, mode: pg_sys::LWLockMode::Type) -> Guard {
        let lock = self.lock.load(Ordering::Relaxed);
        // SAFETY: a lock of ours in shared memory; what is done under it raises no error.
        unsafe { pg_sys::LWLockAcquire(lock, mode) };
        Guard(lock)
    }
}

struct Guard(*mut pg_sys::LWLock);

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: acquired by `lock`, and released once.
        unsafe { pg_sys::LWLockRelease(self.0) };
    }
}
