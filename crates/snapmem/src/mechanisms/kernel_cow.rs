//! Regions in private memory. The kernel duplicates their mapping for a snapshot, and then copies pages when they are
//! written. `vm_snapshot` and `mremap_cow` consist of this module, and each of its own system call for duplicating.
//!
//! The kernel copies a page when it is first written after a snapshot, and the copy cannot be refused. So the writer
//! charges the memory of the copy before it writes. [`History`] tells whether a live snapshot still sees a page, and
//! when the last snapshot that sees a page's old content has ended. Page tables are not charged; they take 8 bytes per
//! page for each live snapshot.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::memory::areas::Areas;
use crate::memory::error::Error;
use crate::memory::history::History;
use crate::memory::paged::{PagedSnapshot, Pages, Space, grown, pages, require_pages, reserve};
use crate::memory::pool::{Alive, Charge, Pool};
use crate::memory::region::{InPlace, Region, Snapshot, Usage, locate};
use crate::memory::sys::{Mapping, PAGE};

/// Duplicates the first bytes of a mapping: the result shares its pages copy-on-write.
pub(crate) type Duplicate = fn(&Mapping, usize) -> Result<Mapping, Error>;

/// A region in private anonymous memory.
#[derive(Debug)]
pub(crate) struct KernelCowRegion {
    space: Space,
    len: usize,
    run_bytes: usize,
    /// For each page, the number of the last snapshot that was taken before its present content was written.
    born: Vec<u64>,
    duplicate: Duplicate,
    areas: Areas,
    shared: Arc<Shared>,
    pool: Pool,
    copied_bytes: u64,
    live: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Shared {
    /// A copy of [`History::newest`] that can be read without the lock.
    newest: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The old versions of pages, which only snapshots still see, and for which memory is charged.
    history: History<()>,
    /// The charge for the region's pages, and for old versions of pages that snapshots see.
    charge: Charge,
}

impl State {
    fn charge(&mut self, pages: usize) -> Result<(), Error> {
        Ok(self.charge.set(self.charge.bytes() + (pages * PAGE) as u64)?)
    }

    fn uncharge(&mut self, pages: usize) {
        let bytes = self.charge.bytes() - (pages * PAGE) as u64;
        self.charge.set(bytes).expect("a claim can always be lowered");
    }
}

impl KernelCowRegion {
    /// A region without pages. Runs consist of whole pages.
    pub fn new(pool: &Pool, run_bytes: usize, duplicate: Duplicate) -> Result<KernelCowRegion, Error> {
        require_pages(run_bytes)?;
        let state = State { history: History::new(), charge: pool.charge() };
        Ok(KernelCowRegion {
            space: Space::default(),
            len: 0,
            run_bytes,
            born: Vec::new(),
            duplicate,
            areas: Areas::default(),
            shared: Arc::new(Shared { newest: AtomicU64::new(0), state: Mutex::new(state) }),
            pool: pool.clone(),
            copied_bytes: 0,
            live: Arc::default(),
        })
    }

    /// Maps memory for at least `len` bytes.
    fn make_room(&mut self, len: usize) -> Result<(), Error> {
        reserve(&mut self.born, (len - self.len) / PAGE, &self.pool)?;
        let missing = self.space.missing(len, self.run_bytes);
        if missing > 0 {
            let areas = self.areas.count();
            self.areas.set(areas + 1)?;
            self.space.push(Mapping::anonymous(missing).inspect_err(|_| self.areas.restore(areas))?);
        }
        Ok(())
    }

    /// Charges the memory of the copy that the kernel will make of a page when the page is written.
    fn leave(&mut self, page: usize) -> Result<(), Error> {
        let state = &mut *self.shared.state.lock();
        let born = self.born[page];
        if born < state.history.newest() {
            state.charge(1)?;
            state.history.displace(born, ());
            self.born[page] = state.history.now();
            self.copied_bytes += PAGE as u64;
            self.pool.count_copied(PAGE as u64);
        }
        Ok(())
    }
}

impl Region for KernelCowRegion {
    fn len(&self) -> usize {
        self.len
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        let len = grown(self.len, len, self.run_bytes, &self.pool)?;
        let more = (len - self.len) / PAGE;
        let shared = self.shared.clone();
        let state = &mut *shared.state.lock();
        state.charge(more)?;
        self.make_room(len).inspect_err(|_| state.uncharge(more))?;
        self.born.resize(len / PAGE, state.history.now());
        self.len = len;
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        locate(self.len, self.run_bytes, offset, bytes.len());
        let newest = self.shared.newest.load(Ordering::Acquire);
        for page in pages(offset, bytes.len()) {
            if self.born[page] < newest {
                self.leave(page)?;
            }
        }
        // SAFETY: the region's own memory; the kernel keeps the content that a snapshot sees elsewhere.
        unsafe { self.space.write(offset, bytes) };
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        locate(self.len, self.run_bytes, offset, into.len());
        // SAFETY: only the writer changes the region's memory, and it holds the region.
        unsafe { self.space.read(offset, into) };
    }

    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        let mut areas = Areas::default();
        areas.set(self.areas.count())?;
        let mut space = Space::default();
        for (mapping, _, bytes) in self.space.parts(0..self.len) {
            space.push((self.duplicate)(mapping, bytes)?);
        }
        let mut state = self.shared.state.lock();
        let number = state.history.begin();
        self.shared.newest.store(number, Ordering::Release);
        drop(state);
        let pages = Duplicated { space, number, shared: self.shared.clone(), _areas: areas };
        let alive = Alive::new(&self.pool, &self.live);
        Ok(Box::new(PagedSnapshot::new(pages, self.len, self.run_bytes, &self.pool, alive)))
    }

    fn usage(&self) -> Usage {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        let shared = self.born.iter().filter(|&&born| born < newest).count();
        Usage {
            bytes: self.len as u64,
            snapshots: self.live.load(Ordering::Relaxed),
            shared_bytes: (shared * PAGE) as u64,
            copied_bytes: self.copied_bytes,
        }
    }
}

impl InPlace for KernelCowRegion {
    #[inline]
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8] {
        locate(self.len, self.run_bytes, offset, len);
        // SAFETY: only the writer changes the region's pages, and the region is borrowed.
        unsafe { self.space.bytes(offset, len) }
    }
}

/// When a region is dropped, pages that snapshots see stay charged until the last of these snapshots ends.
impl Drop for KernelCowRegion {
    fn drop(&mut self) {
        self.space = Space::default();
        let state = &mut *self.shared.state.lock();
        let newest = state.history.newest();
        let seen = self.born.iter().filter(|&&born| born < newest);
        seen.clone().for_each(|&born| state.history.displace(born, ()));
        state.uncharge(self.born.len() - seen.count());
    }
}

/// The memory of a snapshot.
#[derive(Debug)]
struct Duplicated {
    space: Space,
    number: u64,
    shared: Arc<Shared>,
    _areas: Areas,
}

// SAFETY: nothing writes to the duplicate, and the kernel keeps writes to the region out of it.
unsafe impl Pages for Duplicated {
    fn space(&self) -> &Space {
        &self.space
    }
}

impl Drop for Duplicated {
    fn drop(&mut self) {
        // The memory must be freed before its charge is.
        self.space = Space::default();
        let state = &mut *self.shared.state.lock();
        let mut free = 0;
        state.history.end(self.number, |()| free += 1);
        state.uncharge(free);
        self.shared.newest.store(state.history.newest(), Ordering::Release);
    }
}

/// Checks with one page that a duplicate shows the old content, and that later writes on either side do not affect the
/// other side. A kernel without the system call answers with one of the `missing` errors.
pub(crate) fn probe(duplicate: Duplicate, missing: &[i32], without: &'static str) -> Result<(), Error> {
    require_pages(PAGE)?;
    let origin = Mapping::anonymous(PAGE)?;
    // SAFETY: single bytes of mappings that live, which nobody else knows.
    let write = |mapping: &Mapping, byte: u8| unsafe { mapping.part(0, 1).write_volatile(byte) };
    // SAFETY: as above.
    let read = |mapping: &Mapping| unsafe { mapping.part(0, 1).read_volatile() };
    write(&origin, 1);
    let copy = match duplicate(&origin, PAGE) {
        Ok(copy) => copy,
        Err(Error::System { source, .. }) if source.raw_os_error().is_some_and(|errno| missing.contains(&errno)) => {
            return Err(Error::Unavailable(without));
        }
        Err(error) => return Err(error),
    };
    let same = (read(&origin), read(&copy));
    write(&origin, 2);
    let origin_written = (read(&origin), read(&copy));
    write(&copy, 3);
    let copy_written = (read(&origin), read(&copy));
    if (same, origin_written, copy_written) == ((1, 1), (2, 1), (2, 3)) {
        Ok(())
    } else {
        Err(Error::Unavailable(without))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const RUN: usize = 4 * PAGE;

    /// A substitute for the kernel's call. It copies the pages at once instead of sharing them, so that everything else
    /// can be tested on every kernel.
    fn copied_at_once(mapping: &Mapping, bytes: usize) -> Result<Mapping, Error> {
        let copy = Mapping::anonymous(bytes)?;
        // SAFETY: both live, and have `bytes` bytes.
        unsafe { std::ptr::copy_nonoverlapping(mapping.part(0, bytes), copy.part(0, bytes), bytes) };
        Ok(copy)
    }

    fn region(pool: &Pool) -> Box<dyn Region> {
        Box::new(KernelCowRegion::new(pool, RUN, copied_at_once).unwrap())
    }

    #[test]
    fn equals_a_plain_vector() {
        let _others_may = testing::AREAS.read();
        testing::equals_a_model(RUN, region);
    }

    #[test]
    fn survives_whatever_fails() {
        let _others_may = testing::AREAS.read();
        testing::survives_refusals(RUN, region);
    }

    #[test]
    fn refuses_to_grow_without_end() {
        let _others_may = testing::AREAS.read();
        testing::refuses_to_grow_without_end(RUN, region);
    }

    #[test]
    fn returns_all_memory() {
        let _others_may = testing::AREAS.read();
        testing::returns_all_memory(RUN, region);
    }

    #[test]
    fn a_copy_is_claimed_until_nobody_sees_it() {
        let _others_may = testing::AREAS.read();
        let pool = Pool::new(1 << 20);
        let mut region = region(&pool);
        region.grow(RUN).unwrap();
        let used = |region: &dyn Region| (pool.used() as usize / PAGE, region.usage().shared_bytes as usize / PAGE);
        assert_eq!(used(&*region), (4, 0));
        let first = region.snapshot().unwrap();
        region.write(0, &[1]).unwrap();
        region.write(1, &[1]).unwrap();
        assert_eq!(used(&*region), (5, 3));
        let second = region.snapshot().unwrap();
        region.write(0, &[2]).unwrap();
        region.write(PAGE, &[2]).unwrap();
        assert_eq!(used(&*region), (7, 2));
        // The first snapshot still sees the old content of page 1. Only the second snapshot saw the old content of page
        // 0, so it is free.
        drop(second);
        assert_eq!(used(&*region), (6, 2));
        drop(region);
        assert_eq!(pool.used() as usize / PAGE, 4);
        drop(first);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_probe_tells_a_missing_call_from_a_failing_one_and_from_a_wrong_one() {
        fn missing(_: &Mapping, _: usize) -> Result<Mapping, Error> {
            Err(Error::System { call: "duplicate", source: std::io::Error::from_raw_os_error(libc::ENOSYS), hint: "" })
        }
        fn zeros(_: &Mapping, bytes: usize) -> Result<Mapping, Error> {
            Mapping::anonymous(bytes)
        }
        assert!(probe(copied_at_once, &[libc::ENOSYS], "none").is_ok());
        assert_eq!(probe(missing, &[libc::ENOSYS], "none").unwrap_err().to_string(), "none");
        assert!(matches!(probe(missing, &[libc::EINVAL], "none"), Err(Error::System { .. })));
        assert_eq!(probe(zeros, &[libc::ENOSYS], "none").unwrap_err().to_string(), "none");
    }
}
