//! Common parts of the tests.

use std::{fmt, fs};

use anker_snapmem::{Error, LazyRegion, Mechanism, Pool, Region, Snapshot};

pub const PAGE: usize = 4096;

/// Whether the mechanism works on pages, which it maps by system calls.
pub fn works_on_pages(mechanism: Mechanism) -> bool {
    !["physical", "frames", "epochs", "auto"].contains(&mechanism.name())
}

/// The subject of a test: a mechanism, a run length, and whether snapshots are made at once or only when they are
/// needed.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub mechanism: Mechanism,
    pub run_bytes: usize,
    pub lazy: bool,
}

impl Subject {
    pub fn try_region(self, pool: &Pool) -> Result<Box<dyn Region>, Error> {
        let region = self.mechanism.region(pool, self.run_bytes)?;
        Ok(if self.lazy { Box::new(LazyRegion::new(region, pool)) } else { region })
    }

    pub fn region(self, pool: &Pool) -> Box<dyn Region> {
        self.try_region(pool).expect("the mechanism works here")
    }

    /// A region with this many runs.
    pub fn region_of(self, pool: &Pool, runs: usize) -> Box<dyn Region> {
        let mut region = self.region(pool);
        region.grow(runs * self.run_bytes).expect("there is room");
        region
    }
}

/// A number of repetitions, multiplied by SNAPMEM_SCALE; at least one.
pub fn scaled(repetitions: usize) -> usize {
    let scale = std::env::var("SNAPMEM_SCALE").map_or(1.0, |scale| scale.parse::<f64>().expect("a number"));
    let scale = if cfg!(miri) { scale / 100.0 } else { scale };
    ((repetitions as f64 * scale) as usize).max(1)
}

/// Calls `test` with the numbers below `seeds`, or only with SNAPMEM_SEED. If it panics, prints the number.
pub fn for_seeds(seeds: usize, test: impl Fn(u64)) {
    struct Say(u64);
    impl Drop for Say {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("with SNAPMEM_SEED={}", self.0);
            }
        }
    }
    let run = |seed| {
        let _say = Say(seed);
        test(seed);
    };
    match std::env::var("SNAPMEM_SEED") {
        Ok(seed) => run(seed.parse().expect("a number")),
        Err(_) => (0..scaled(seeds) as u64).for_each(run),
    }
}

/// Panics if a snapshot differs from its model.
pub fn check_snapshot(snapshot: &dyn Snapshot, model: &[u8]) {
    assert_eq!(snapshot.len(), model.len());
    for (i, bytes) in model.chunks(snapshot.run_bytes()).enumerate() {
        check_bytes(&snapshot.run(i).expect("memory for a run"), bytes, || format!("run {i} of {snapshot:?}"));
    }
}

/// Panics if a region differs from its model.
pub fn check_region(region: &dyn Region, model: &[u8]) {
    assert_eq!(region.len(), model.len());
    let mut run = vec![0; region.run_bytes()];
    for (i, bytes) in model.chunks(region.run_bytes()).enumerate() {
        region.read(i * run.len(), &mut run);
        check_bytes(&run, bytes, || format!("run {i} of the region"));
    }
}

pub fn check_bytes(found: &[u8], wanted: &[u8], what: impl FnOnce() -> String) {
    assert_eq!(found.len(), wanted.len());
    if found != wanted {
        let at = found.iter().zip(wanted).position(|(a, b)| a != b).expect("of the same length");
        panic!("{}: byte {at} is {} instead of {}", what(), found[at], wanted[at]);
    }
}

/// The system resources that this process uses.
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    /// The bytes of memory in use.
    pub resident: usize,
    pub address_space: usize,
    /// The number of areas of address space (VMAs).
    pub areas: usize,
    pub descriptors: usize,
}

impl Holdings {
    pub fn now() -> Holdings {
        let read = |file: &str| fs::read_to_string(file).expect("/proc is mounted");
        let pages: Vec<usize> =
            read("/proc/self/statm").split_whitespace().map(|pages| pages.parse().unwrap()).collect();
        Holdings {
            resident: pages[1] * PAGE,
            address_space: pages[0] * PAGE,
            areas: read("/proc/self/maps").lines().count(),
            descriptors: fs::read_dir("/proc/self/fd").expect("/proc is mounted").count(),
        }
    }

    /// Panics if memory has grown since `before` by more than an allocator may keep.
    pub fn assert_no_more_memory_than(self, before: Holdings) {
        assert!(self.resident <= before.resident + (8 << 20), "{self:?} after {before:?}");
        assert!(self.descriptors <= before.descriptors, "{self:?} after {before:?}");
    }

    /// Panics if resources have grown since `before`. Threads that stay, with their stacks and arenas, are allowed.
    pub fn assert_as_little_as(self, before: Holdings) {
        self.assert_no_more_memory_than(before);
        assert!(self.areas <= before.areas + 64, "{self:?} after {before:?}");
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}_{}k", if self.lazy { "lazy_" } else { "" }, self.mechanism, self.run_bytes >> 10)
    }
}
