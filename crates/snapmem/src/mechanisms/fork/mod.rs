//! Snapshots by fork, as in HyPer: the snapshot is a child process, and readers send their requests to it.
//!
//! ```text
//!   parent   write ...  snapshot  write (the kernel copies the page first) ...
//!                          \
//!   child                   waits for a Job, runs it on the memory as of the fork, replies through shared memory
//! ```
//!
//! By default, a child gets all regions, and the kernel copies the page tables of all of them. So regions that are not
//! part of the snapshot are marked with MADV_DONTFORK. Then the cost depends only on the regions of the snapshot.
//!
//! The snapshot is another process, so readers cannot get pointers to its runs. This mechanism exists for comparison,
//! and has an interface of its own. [`ForkedErrand`] does the same for ordinary memory: its child gets the whole
//! process.

#![allow(unsafe_code)]

mod board;
mod child;
mod errand;
mod ledger;
mod snapshot;

use std::sync::Arc;

use self::board::Board;
use self::child::Child;
pub use self::child::{ForkView, Job};
pub use self::errand::{Errand, ForkedErrand};
use self::ledger::Ledger;
pub use self::snapshot::ForkSnapshot;
use crate::memory::error::{Error, OutOfMemory};
use crate::memory::pool::{Charge, Pool};
use crate::memory::region::Usage;
use crate::memory::sys::{self, Mapping, PAGE};

/// The size of the pages that regions consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    Small,
    /// Huge pages, if the kernel has them (MADV_HUGEPAGE).
    Huge,
}

/// Regions in plain private memory, numbered in the order of their creation.
pub struct ForkMemory {
    regions: Vec<Option<ForkRegion>>,
    pages: Pages,
    /// The epoch of the next child.
    epoch: u64,
    ledger: Arc<Ledger>,
    pool: Pool,
}

struct ForkRegion {
    memory: Option<Mapping>,
    len: usize,
    /// Whether children get the region when they are forked.
    inherited: bool,
    /// The epoch of the newest child that shares the region.
    shared_in: u64,
    /// A bit for each page. It is set if no child can share the page, because the page was written or mapped after the
    /// fork of epoch `shared_in`.
    private: Vec<u64>,
    copied_bytes: u64,
    charge: Charge,
}

impl ForkMemory {
    pub fn new(pool: &Pool, pages: Pages) -> Result<ForkMemory, Error> {
        sys::require_page_size()?;
        Ok(ForkMemory { regions: Vec::new(), pages, epoch: 1, ledger: Arc::new(Ledger::new(pool)), pool: pool.clone() })
    }

    /// Creates an empty region, and returns its number.
    pub fn create(&mut self) -> usize {
        self.regions.push(Some(ForkRegion {
            memory: None,
            len: 0,
            inherited: true,
            shared_in: 0,
            private: Vec::new(),
            copied_bytes: 0,
            charge: self.pool.charge(),
        }));
        self.regions.len() - 1
    }

    /// Removes a region; live snapshots keep their copy of it.
    ///
    /// # Panics
    ///
    /// If there is no region with this number. All functions that take a number panic in this case.
    pub fn drop_region(&mut self, region: usize) {
        assert!(self.regions[region].take().is_some(), "the region has been dropped");
    }

    fn region(&self, region: usize) -> &ForkRegion {
        self.regions[region].as_ref().expect("the region has been dropped")
    }

    pub fn len(&self, region: usize) -> usize {
        self.region(region).len
    }

    /// Appends zeros until the region has `len` bytes. Live snapshots do not see them.
    pub fn grow(&mut self, region: usize, len: usize) -> Result<(), Error> {
        let region = self.regions[region].as_mut().expect("the region has been dropped");
        region.grow(len, self.pages, &self.pool)
    }

    /// Writes bytes of a region. On error nothing has changed.
    ///
    /// # Panics
    ///
    /// If the bytes do not lie within the region.
    #[inline]
    pub fn write(&mut self, number: usize, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let region = self.regions[number].as_mut().expect("the region has been dropped");
        region.check(offset, bytes.len());
        let Some(memory) = region.memory.as_ref().filter(|_| !bytes.is_empty()) else { return Ok(()) };
        let to = memory.part(offset, bytes.len());
        for page in offset / PAGE..=(offset + bytes.len() - 1) / PAGE {
            if !region.is_private(page) {
                if self.ledger.book(number, region.shared_in, PAGE as u64)? {
                    region.copied_bytes += PAGE as u64;
                }
                region.set_private(page);
            }
        }
        // SAFETY: within the mapping; we are borrowed exclusively, and nobody else has the address in this process.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Reads bytes of a region.
    ///
    /// # Panics
    ///
    /// Like [`ForkMemory::write`].
    pub fn read(&self, number: usize, offset: usize, into: &mut [u8]) {
        let region = self.region(number);
        region.check(offset, into.len());
        if let Some(memory) = &region.memory {
            // SAFETY: within the mapping, which is readable; whoever writes borrows us exclusively.
            unsafe { memory.part(offset, into.len()).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        }
    }

    /// A snapshot of all regions, in a child with this many threads, at least one.
    pub fn snapshot(&mut self, threads: usize) -> Result<ForkSnapshot, Error> {
        let all: Vec<_> = (0..self.regions.len()).filter(|&region| self.regions[region].is_some()).collect();
        self.snapshot_of(&all, threads)
    }

    /// A snapshot of some regions; the other regions cost nothing. From then on, the other regions are hidden from all
    /// processes that this process forks, until another snapshot includes them.
    pub fn snapshot_of(&mut self, regions: &[usize], threads: usize) -> Result<ForkSnapshot, Error> {
        for &number in regions {
            self.region(number);
        }
        for (number, region) in self.regions.iter_mut().enumerate() {
            if let Some(region) = region {
                region.inherit(regions.contains(&number))?;
            }
        }
        let part = |number| regions.contains(&number).then(|| self.region(number).part());
        // SAFETY: inherited memory is mapped in the child, which has the only copy, and jobs only read.
        let view = unsafe { ForkView::new((0..self.regions.len()).map(part)) };
        let board = Board::new(threads.max(1))?;
        let child = Child::fork(&board, &view)?;
        let epoch = self.epoch;
        self.epoch += 1;
        // A region that is named twice is counted twice, which does no harm because `most` is only an upper bound.
        let most =
            regions.iter().map(|&number| self.region(number).memory.as_ref().map_or(0, Mapping::len) as u64).sum();
        self.ledger.begin(epoch, regions.to_vec(), most);
        for &number in regions {
            let region = self.regions[number].as_mut().expect("looked at above");
            region.shared_in = epoch;
            region.private.fill(0);
        }
        Ok(ForkSnapshot::new(child, board, view, epoch, self.ledger.clone()))
    }

    pub fn usage(&self, region: usize) -> Usage {
        let snapshots = self.ledger.sharing(region);
        let ForkRegion { len, private, copied_bytes, .. } = self.region(region);
        let unshared: u64 = private.iter().map(|bits| u64::from(bits.count_ones())).sum();
        let shared_pages = if snapshots == 0 { 0 } else { len.div_ceil(PAGE) as u64 - unshared };
        Usage { bytes: *len as u64, snapshots, shared_bytes: shared_pages * PAGE as u64, copied_bytes: *copied_bytes }
    }
}

impl ForkRegion {
    #[inline]
    fn check(&self, offset: usize, bytes: usize) {
        assert!(offset <= self.len && bytes <= self.len - offset, "not within the region");
    }

    /// The start and the length of the region's bytes.
    fn part(&self) -> (*mut u8, usize) {
        (self.memory.as_ref().map_or(std::ptr::null_mut(), |memory| memory.part(0, self.len)), self.len)
    }

    fn grow(&mut self, len: usize, pages: Pages, pool: &Pool) -> Result<(), Error> {
        let mapped = self.memory.as_ref().map_or(0, Mapping::len);
        let wanted = len.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
        if wanted > mapped {
            let charged = self.charge.bytes();
            self.charge.set(wanted as u64)?;
            if let Err(error) = self.map(wanted, pages, pool) {
                self.charge.set(charged).expect("less than before fits");
                return Err(error);
            }
            // No child can share the new pages.
            (mapped / PAGE..wanted / PAGE).for_each(|page| self.set_private(page));
        }
        self.len = self.len.max(len);
        Ok(())
    }

    fn map(&mut self, bytes: usize, pages: Pages, pool: &Pool) -> Result<(), Error> {
        let words = (bytes / PAGE).div_ceil(64);
        let more = words - self.private.len();
        let refused = |_| OutOfMemory::Limit { wanted: (more * size_of::<u64>()) as u64, limit: pool.limit() };
        self.private.try_reserve(more).map_err(refused)?;
        match &mut self.memory {
            Some(memory) => memory.grow(bytes)?,
            None => {
                let memory = match pages {
                    Pages::Small => Mapping::anonymous(bytes)?,
                    Pages::Huge => Mapping::anonymous_huge(bytes)?,
                };
                (self.memory, self.inherited) = (Some(memory), true);
            }
        }
        self.private.resize(words, 0);
        Ok(())
    }

    fn is_private(&self, page: usize) -> bool {
        self.private[page / 64] & 1 << (page % 64) != 0
    }

    fn set_private(&mut self, page: usize) {
        self.private[page / 64] |= 1 << (page % 64);
    }

    /// Sets whether children get the region from now on.
    fn inherit(&mut self, inherited: bool) -> Result<(), Error> {
        if self.inherited != inherited
            && let Some(memory) = &self.memory
        {
            memory.inherit(inherited)?;
            self.inherited = inherited;
        }
        Ok(())
    }
}
