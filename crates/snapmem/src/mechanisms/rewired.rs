//! Rewired memory (AnKer §4.2.3): pages of a memory file, which are mapped one by one.
//!
//! ```text
//!   region    [0][1][5][3]      page 2 was written while a snapshot saw file page 2: its content was copied to the
//!              |  |  |  |       free file page 5, which was mapped in its place
//!   file      [0][1][2][3][4][5]
//!              |  |  |  |
//!   snapshot  [0][1][2][3]
//! ```
//!
//! A snapshot is a second mapping of the region's file pages. It takes one mmap for each stretch of pages that are
//! adjacent in the file, and the kernel describes each stretch by an area (VMA). So each page that is written between
//! snapshots makes later snapshots more expensive, until the process has vm.max_map_count areas. Then a snapshot or a
//! write is an error. The error is raised a little before the kernel's limit, because other parts of the process need
//! areas, too.
//!
//! Writes come through [`Region::write`], so no page has to be write-protected, and no signal is needed to notice a
//! write. [`History`] tells when a file page that the region no longer maps is free for reuse.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::memory::areas::Areas;
use crate::memory::error::Error;
use crate::memory::history::History;
use crate::memory::page_file::PageFile;
use crate::memory::paged::{PagedSnapshot, Pages, Space, grown, pages, require_pages, reserve};
use crate::memory::pool::{Alive, KeepsWarm, Pool};
use crate::memory::region::{InPlace, Region, Snapshot, Usage, locate};
use crate::memory::sys::{FilePages, Mapping, MemFd, PAGE};

/// A region whose pages may lie anywhere in a file.
#[derive(Debug)]
pub struct RewiredRegion {
    space: Space,
    len: usize,
    run_bytes: usize,
    /// For each page, the file page that is mapped there, and the number of the last snapshot before its present
    /// content was written.
    wiring: Vec<Wire>,
    areas: Areas,
    shared: Arc<Shared>,
    pool: Pool,
    copied_bytes: u64,
    live: Arc<AtomicU64>,
}

#[derive(Clone, Copy, Debug)]
struct Wire {
    file_page: usize,
    born: u64,
}

/// State that the region shares with its snapshots, which free pages from any thread.
#[derive(Debug)]
struct Shared {
    /// A copy of [`History::newest`] that can be read without the lock.
    newest: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The file pages that only snapshots still see.
    history: History<usize>,
    file: PageFile,
}

impl RewiredRegion {
    /// A region without pages. Runs consist of whole pages.
    pub fn new(pool: &Pool, run_bytes: usize) -> Result<RewiredRegion, Error> {
        require_pages(run_bytes)?;
        let state = State { history: History::new(), file: PageFile::new(pool)? };
        let shared = Arc::new(Shared { newest: AtomicU64::new(0), state: Mutex::new(state) });
        let keeper: Arc<dyn KeepsWarm> = shared.clone();
        pool.may_cool(Arc::downgrade(&keeper));
        Ok(RewiredRegion {
            space: Space::default(),
            len: 0,
            run_bytes,
            wiring: Vec::new(),
            areas: Areas::default(),
            shared,
            pool: pool.clone(),
            copied_bytes: 0,
            live: Arc::default(),
        })
    }

    /// The number of areas (struct vm_area_struct) that the kernel needs for the region, and for a snapshot taken now.
    pub fn areas(&self) -> usize {
        self.areas.count()
    }

    /// Maps address space and file pages for at least `len` bytes.
    fn make_room(&mut self, len: usize, file: &mut PageFile) -> Result<(), Error> {
        let missing = self.space.missing(len, self.run_bytes);
        if missing > 0 {
            reserve(&mut self.wiring, missing / PAGE, &self.pool)?;
            let first = file.places(missing / PAGE)?;
            let areas = self.areas.count();
            self.areas.set(areas + 1)?;
            let mapping = Mapping::file(file.fd(), first * PAGE, missing, FilePages::Shared);
            self.space.push(mapping.inspect_err(|_| self.areas.restore(areas))?);
            self.wiring.extend((first..first + missing / PAGE).map(|file_page| Wire { file_page, born: 0 }));
        }
        Ok(())
    }

    /// Makes the kernel provide the memory of new pages now, so that a lack of memory is an error.
    fn touch(&self, new: Range<usize>, file: &PageFile) -> Result<(), Error> {
        let mut parts = self.space.parts(new.clone());
        parts.try_for_each(|(mapping, at, bytes)| mapping.populate_for_writing(at, bytes)).inspect_err(|_| {
            stretches(&self.wiring[new.start / PAGE..new.end / PAGE])
                .for_each(|stretch| file.forget(stretch[0].file_page, stretch.len()));
        })
    }

    /// Whether an area of the kernel begins at this page, if the page is mapped as `wire` says.
    fn starts_area(&self, page: usize, wire: Wire) -> bool {
        let (_, at) = self.space.at(page * PAGE);
        at == 0 || self.wiring[page - 1].file_page + 1 != wire.file_page
    }

    /// How many areas begin at this page and at the next one together, if the page is mapped as `wire` says.
    fn starts_around(&self, page: usize, wire: Wire) -> usize {
        let next_starts = self
            .wiring
            .get(page + 1)
            .is_some_and(|next| self.space.at((page + 1) * PAGE).1 == 0 || wire.file_page + 1 != next.file_page);
        usize::from(self.starts_area(page, wire)) + usize::from(next_starts)
    }

    /// Copies a page that a live snapshot sees to a free page of the file, and maps the free page in its place.
    fn rewire(&mut self, page: usize) -> Result<(), Error> {
        let shared = self.shared.clone();
        let state = &mut *shared.state.lock();
        let before = self.wiring[page];
        if before.born >= state.history.newest() {
            // The snapshot has ended since the caller checked, so the page can be written in place.
            return Ok(());
        }
        let (mapping, at) = self.space.at(page * PAGE);
        // SAFETY: one of the region's pages, which only the writer changes, and that is us.
        let content = unsafe { std::slice::from_raw_parts(mapping.part(at, PAGE), PAGE) };
        let after = Wire { file_page: state.file.take(content)?, born: state.history.now() };
        let areas = self.areas.count();
        let areas_after = areas + self.starts_around(page, after) - self.starts_around(page, before);
        let rewired = self
            .areas
            .set(areas_after)
            .and_then(|()| mapping.replace(at, PAGE, state.file.fd(), after.file_page * PAGE, FilePages::Shared));
        if let Err(error) = rewired {
            // The mapping has failed. Kernels before 6.12 may have unmapped the old page before that, so the page is
            // mapped again. On other kernels, this does no harm.
            let _ = mapping.replace(at, PAGE, state.file.fd(), before.file_page * PAGE, FilePages::Shared);
            self.areas.restore(areas);
            state.file.give_back([after.file_page]);
            return Err(error);
        }
        state.history.displace(before.born, before.file_page);
        self.wiring[page] = after;
        self.copied_bytes += PAGE as u64;
        self.pool.count_copied(PAGE as u64);
        Ok(())
    }

    /// Maps `pages` pages from `first` on a second time, for a snapshot.
    fn map_again(&self, first: usize, pages: usize, fd: &MemFd) -> Result<Mapping, Error> {
        let mut stretches = stretches(&self.wiring[first..first + pages]);
        let read_only = FilePages::SharedReadOnly;
        if stretches.clone().nth(1).is_none() {
            return Mapping::file(fd, self.wiring[first].file_page * PAGE, pages * PAGE, read_only);
        }
        let mapping = Mapping::reserve(pages * PAGE)?;
        stretches.try_fold(0, |at, stretch| {
            let bytes = stretch.len() * PAGE;
            mapping.replace(at, bytes, fd, stretch[0].file_page * PAGE, read_only).map(|()| at + bytes)
        })?;
        Ok(mapping)
    }
}

impl Region for RewiredRegion {
    fn len(&self) -> usize {
        self.len
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        let len = grown(self.len, len, self.run_bytes, &self.pool)?;
        let new = self.len / PAGE..len / PAGE;
        let shared = self.shared.clone();
        let state = &mut *shared.state.lock();
        state.file.charge(new.len())?;
        self.make_room(len, &mut state.file)
            .and_then(|()| self.touch(self.len..len, &state.file))
            .inspect_err(|_| state.file.uncharge(new.len()))?;
        let born = state.history.now();
        self.wiring[new].iter_mut().for_each(|wire| wire.born = born);
        self.len = len;
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        locate(self.len, self.run_bytes, offset, bytes.len());
        let newest = self.shared.newest.load(Ordering::Acquire);
        for page in pages(offset, bytes.len()) {
            if self.wiring[page].born < newest {
                self.rewire(page)?;
            }
        }
        // SAFETY: the region's own pages; no snapshot that is alive sees these.
        unsafe { self.space.write(offset, bytes) };
        Ok(())
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        locate(self.len, self.run_bytes, offset, into.len());
        // SAFETY: only the writer changes the region's pages, and it holds the region.
        unsafe { self.space.read(offset, into) };
    }

    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        let mut areas = Areas::default();
        areas.set(self.areas.count())?;
        let mut state = self.shared.state.lock();
        let (mut space, mut first) = (Space::default(), 0);
        for (_, _, bytes) in self.space.parts(0..self.len) {
            space.push(self.map_again(first, bytes / PAGE, state.file.fd())?);
            first += bytes / PAGE;
        }
        let number = state.history.begin();
        self.shared.newest.store(number, Ordering::Release);
        drop(state);
        let pages = RewiredPages { space, areas, number, shared: self.shared.clone() };
        let alive = Alive::new(&self.pool, &self.live);
        Ok(Box::new(PagedSnapshot::new(pages, self.len, self.run_bytes, &self.pool, alive)))
    }

    fn usage(&self) -> Usage {
        let newest = self.shared.newest.load(Ordering::Relaxed);
        let shared = self.wiring[..self.len / PAGE].iter().filter(|wire| wire.born < newest).count();
        Usage {
            bytes: self.len as u64,
            snapshots: self.live.load(Ordering::Relaxed),
            shared_bytes: (shared * PAGE) as u64,
            copied_bytes: self.copied_bytes,
        }
    }
}

impl InPlace for RewiredRegion {
    #[inline]
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8] {
        locate(self.len, self.run_bytes, offset, len);
        // SAFETY: only the writer changes the region's pages, and the region is borrowed.
        unsafe { self.space.bytes(offset, len) }
    }
}

/// When a region is dropped, its snapshots keep the pages that they see; all other pages are freed.
impl Drop for RewiredRegion {
    fn drop(&mut self) {
        self.space = Space::default();
        let state = &mut *self.shared.state.lock();
        let newest = state.history.newest();
        let wiring = &self.wiring[..self.len / PAGE];
        state.file.give_back(wiring.iter().filter(|wire| wire.born >= newest).map(|wire| wire.file_page));
        wiring
            .iter()
            .filter(|wire| wire.born < newest)
            .for_each(|wire| state.history.displace(wire.born, wire.file_page));
    }
}

/// The stretches of pages that are adjacent in the file. The kernel describes each by one area.
fn stretches(wiring: &[Wire]) -> impl Iterator<Item = &[Wire]> + Clone {
    wiring.chunk_by(|wire, next| wire.file_page + 1 == next.file_page)
}

/// A snapshot's mappings of file pages.
#[derive(Debug)]
struct RewiredPages {
    space: Space,
    areas: Areas,
    number: u64,
    shared: Arc<Shared>,
}

// SAFETY: the region leaves a page that a live snapshot sees before it writes, and the file hands it out again only
// after `end`.
unsafe impl Pages for RewiredPages {
    fn space(&self) -> &Space {
        &self.space
    }
}

impl Drop for RewiredPages {
    fn drop(&mut self) {
        self.space = Space::default();
        drop(std::mem::take(&mut self.areas));
        let state = &mut *self.shared.state.lock();
        let mut free = Vec::new();
        state.history.end(self.number, |page| free.push(page));
        state.file.give_back(free);
        self.shared.newest.store(state.history.newest(), Ordering::Release);
    }
}

impl KeepsWarm for Shared {
    fn cool(&self) {
        if let Some(mut state) = self.state.try_lock() {
            state.file.cool();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const RUN: usize = 4 * PAGE;

    fn region(pool: &Pool) -> RewiredRegion {
        RewiredRegion::new(pool, RUN).unwrap()
    }

    #[test]
    fn equals_a_plain_vector() {
        let _others_may = testing::AREAS.read();
        testing::equals_a_model(RUN, |pool| Box::new(region(pool)));
    }

    #[test]
    fn survives_whatever_fails() {
        let _others_may = testing::AREAS.read();
        testing::survives_refusals(RUN, |pool| Box::new(region(pool)));
    }

    #[test]
    fn refuses_to_grow_without_end() {
        let _others_may = testing::AREAS.read();
        testing::refuses_to_grow_without_end(RUN, |pool| Box::new(region(pool)));
    }

    #[test]
    fn returns_all_memory() {
        let _others_may = testing::AREAS.read();
        testing::returns_all_memory(RUN, |pool| Box::new(region(pool)));
    }

    /// Compares the count of areas with the kernel's own list.
    #[test]
    fn counts_the_kernel_s_areas() {
        let _others_may = testing::AREAS.read();
        let pool = Pool::new(1 << 30);
        let mut region = region(&pool);
        region.grow(64 * PAGE).unwrap();
        assert_eq!(region.areas(), 1);
        let mut snapshots = Vec::new();
        for page in [5, 6, 7, 20, 0, 63, 20, 21] {
            snapshots.push(region.snapshot().unwrap());
            region.write(page * PAGE, &[1]).unwrap();
        }
        let (mapping, _) = region.space.at(0);
        let range = mapping.part(0, 0) as usize..mapping.part(mapping.len(), 0) as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let start = |line: &str| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        assert_eq!(region.areas(), maps.lines().filter(|line| range.contains(&start(line))).count());
    }

    /// Each page is written after a snapshot of its own, until the process has no areas left. That is an error, and
    /// everything stays intact.
    #[test]
    fn too_many_areas_are_an_error_that_leaves_all_intact() {
        let _alone = testing::AREAS.write();
        let pool = Pool::new(4 << 30);
        let mut region = region(&pool);
        let pages = 80_000;
        region.grow(pages * PAGE).unwrap();
        let (mut written, mut refused) = (Vec::new(), None);
        let mut snapshot = region.snapshot().unwrap();
        for page in (0..pages).step_by(2) {
            match region.write(page * PAGE, &(page as u64).to_le_bytes()) {
                Ok(()) => written.push(page),
                Err(error) => {
                    refused = Some(error.to_string());
                    break;
                }
            }
        }
        let refused = refused.expect("no process may have so many areas here");
        assert!(refused.contains("vm.max_map_count"), "{refused}");
        snapshot.patch(0, &[1]).unwrap();
        assert!(region.snapshot().unwrap_err().to_string().contains("vm.max_map_count"));
        let mut word = [0; 8];
        for &page in &written {
            region.read(page * PAGE, &mut word);
            assert_eq!(u64::from_le_bytes(word), page as u64);
        }
        drop(snapshot);
        // Without snapshots, the region writes in place, so writing works again.
        region.write(written.len() * 2 * PAGE, &[1]).unwrap();
    }
}
