//! A ledger of the pages that the kernel copies because children share them. The copies are charged to the pool.
//!
//! The kernel does not report which pages it copies. But all writes go through this crate, and the first write to a
//! page after a snapshot causes the copy. The bytes of the copy are booked on the newest child that shares the page.
//! When that child ends, the booking passes to the next older child. So the sum is an upper bound, because the older
//! child may not share the page.

use parking_lot::Mutex;

use crate::memory::error::OutOfMemory;
use crate::memory::pool::{Charge, Pool};

pub struct Ledger {
    books: Mutex<Books>,
    pool: Pool,
}

struct Books {
    charge: Charge,
    /// The children, in ascending order of their epochs.
    children: Vec<Entry>,
}

struct Entry {
    epoch: u64,
    regions: Vec<usize>,
    booked: u64,
    /// The bytes of the child's regions, which are an upper bound for the copies that the child causes.
    most: u64,
}

impl Ledger {
    pub fn new(pool: &Pool) -> Ledger {
        Ledger { books: Mutex::new(Books { charge: pool.charge(), children: Vec::new() }), pool: pool.clone() }
    }

    /// Adds a child with this epoch, which shares these regions. They have `most` bytes in total.
    pub fn begin(&self, epoch: u64, regions: Vec<usize>, most: u64) {
        self.books.lock().children.push(Entry { epoch, regions, booked: 0, most });
        self.pool.snapshot_born();
    }

    pub fn end(&self, epoch: u64) {
        let mut books = self.books.lock();
        let at = books.children.binary_search_by_key(&epoch, |entry| entry.epoch).expect("a child ends once");
        let booked = books.children.remove(at).booked;
        let passed = at.checked_sub(1).map_or(0, |older| {
            let older = &mut books.children[older];
            let passed = booked.min(older.most - older.booked);
            older.booked += passed;
            passed
        });
        let rest = books.charge.bytes() - (booked - passed);
        books.charge.set(rest).expect("less than before fits");
        self.pool.snapshot_died();
    }

    /// Books the copy of a page of `region`, which is about to be written for the first time since `newest`, the epoch
    /// of the newest child that shared the region. Returns whether any child may share the page.
    pub fn book(&self, region: usize, newest: u64, bytes: u64) -> Result<bool, OutOfMemory> {
        let mut books = self.books.lock();
        let sharing = |entry: &Entry| entry.epoch <= newest && entry.regions.contains(&region);
        let Some(at) = books.children.iter().rposition(sharing) else { return Ok(false) };
        let room = books.children[at].most - books.children[at].booked;
        let (booked, sum) = (bytes.min(room), books.charge.bytes() + bytes.min(room));
        books.charge.set(sum)?;
        books.children[at].booked += booked;
        self.pool.count_copied(bytes);
        Ok(true)
    }

    /// The number of living children that share the region.
    pub fn sharing(&self, region: usize) -> u64 {
        self.books.lock().children.iter().filter(|entry| entry.regions.contains(&region)).count() as u64
    }
}
