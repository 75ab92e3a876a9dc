//! A memory file, used as a store of single pages.
//!
//! Freed pages are kept for the next user, as the pool keeps warm frames, and within the same bounds. Beyond these
//! bounds, the memory of freed pages returns to the system, and only their places in the file are kept.

use crate::memory::error::Error;
use crate::memory::pool::{Charge, Pool};
use crate::memory::sys::{MemFd, PAGE};

/// The file grows in steps of this many pages, which cost nothing until they are touched.
const STEP: usize = 4096;

#[derive(Debug)]
pub(crate) struct PageFile {
    fd: MemFd,
    /// The number of pages that the file has room for. `end` is the number of pages that were ever handed out.
    room: usize,
    end: usize,
    /// Pages that have memory, but are not in use.
    warm: Vec<usize>,
    /// Pages that are not in use and have no memory.
    empty: Vec<usize>,
    /// The charge for all pages that have memory.
    charge: Charge,
    pool: Pool,
}

impl PageFile {
    pub fn new(pool: &Pool) -> Result<PageFile, Error> {
        let (fd, charge, pool) = (MemFd::new()?, pool.charge(), pool.clone());
        Ok(PageFile { fd, room: 0, end: 0, warm: Vec::new(), empty: Vec::new(), charge, pool })
    }

    pub fn fd(&self) -> &MemFd {
        &self.fd
    }

    /// Hands out this many adjacent pages, which have no memory yet and are not charged. Returns the first.
    pub fn places(&mut self, pages: usize) -> Result<usize, Error> {
        let (first, end) = (self.end, self.end + pages);
        if end > self.room {
            let room = end + STEP;
            self.fd.set_len(room * PAGE)?;
            self.room = room;
        }
        self.end = end;
        Ok(first)
    }

    /// Charges pages whose memory is about to be touched.
    pub fn charge(&mut self, pages: usize) -> Result<(), Error> {
        Ok(self.charge.set(self.charge.bytes() + (pages * PAGE) as u64)?)
    }

    /// Reverts [`PageFile::charge`].
    pub fn uncharge(&mut self, pages: usize) {
        let bytes = self.charge.bytes() - (pages * PAGE) as u64;
        self.charge.set(bytes).expect("a claim can always be lowered");
    }

    /// Returns the memory of pages to the system. The pages are not in use, but some of them may have memory.
    pub fn forget(&self, first: usize, pages: usize) {
        // Pages that are not freed now are freed with the file.
        let _ = self.fd.discard(first * PAGE, pages * PAGE);
    }

    /// A page with this content. The caller owns it until [`PageFile::give_back`].
    pub fn take(&mut self, content: &[u8]) -> Result<usize, Error> {
        if let Some(&page) = self.warm.last() {
            self.fd.write_at(page * PAGE, content)?;
            self.warm.pop();
            self.charge.set_warm((self.warm.len() * PAGE) as u64);
            return Ok(page);
        }
        self.charge(1)?;
        let page = self.empty.pop().map_or_else(|| self.places(1), Ok).inspect_err(|_| self.uncharge(1))?;
        self.fd.write_at(page * PAGE, content).inspect_err(|_| {
            self.empty.push(page);
            self.uncharge(1);
        })?;
        Ok(page)
    }

    /// Frees pages that no region uses and no mapping shows any more.
    pub fn give_back(&mut self, pages: impl IntoIterator<Item = usize>) {
        let before = self.warm.len();
        self.warm.extend(pages);
        let room = (self.pool.room_for_warm() / PAGE as u64) as usize;
        self.discard_down_to(before + room.min(self.warm.len() - before));
    }

    /// Returns the memory of all unused pages to the system.
    pub fn cool(&mut self) {
        self.discard_down_to(0);
    }

    fn discard_down_to(&mut self, keep: usize) {
        let mut surplus = self.warm.split_off(keep);
        self.charge.set_warm((keep * PAGE) as u64);
        surplus.sort_unstable();
        for stretch in surplus.chunk_by(|page, next| page + 1 == *next) {
            match self.fd.discard(stretch[0] * PAGE, stretch.len() * PAGE) {
                Ok(()) => {
                    self.empty.extend_from_slice(stretch);
                    self.uncharge(stretch.len());
                }
                // The memory could not be returned, so these pages stay warm.
                Err(_) => self.warm.extend_from_slice(stretch),
            }
        }
        self.charge.set_warm((self.warm.len() * PAGE) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::sys::faults;

    /// The number of pages that are charged, and the number of those in use.
    fn charged(file: &PageFile) -> (u64, u64) {
        (file.charge.bytes() / PAGE as u64, file.pool.used() / PAGE as u64)
    }

    #[test]
    fn pages_are_used_again_and_cool_at_the_limit() {
        let pool = Pool::new(64 * PAGE as u64);
        let mut file = PageFile::new(&pool).unwrap();
        let pages: Vec<_> = (0..20).map(|i| file.take(&[i; PAGE]).unwrap()).collect();
        assert_eq!(charged(&file), (20, 20));
        file.give_back(pages.iter().copied());
        // At most an eighth of the limit may be kept warm.
        assert_eq!(charged(&file), (8, 0));
        let again = file.take(&[1; PAGE]).unwrap();
        assert!(pages.contains(&again));
        assert_eq!(charged(&file), (8, 1));
        file.cool();
        assert_eq!(charged(&file), (1, 1));
        assert!(pages.contains(&file.take(&[1; PAGE]).unwrap()));
    }

    #[test]
    fn a_page_that_cannot_be_had_leaves_all_as_it_was() {
        let pool = Pool::new(2 * PAGE as u64);
        let mut file = PageFile::new(&pool).unwrap();
        for call in 0..2 {
            let _armed = faults::fail_call(call);
            file.take(&[1; PAGE]).unwrap_err();
            assert_eq!(charged(&file), (0, 0));
        }
        let page = file.take(&[1; PAGE]).unwrap();
        file.take(&[1; PAGE]).unwrap();
        file.take(&[1; PAGE]).unwrap_err();
        let armed = faults::fail_call(0);
        file.give_back([page]);
        assert!(armed.fired());
        assert_eq!(charged(&file), (2, 1));
    }
}
