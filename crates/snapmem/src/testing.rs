//! Common parts of the unit tests of the mechanisms.

use parking_lot::RwLock;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::memory::error::Error;
use crate::memory::pool::Pool;
use crate::memory::region::{Region, Snapshot};
use crate::memory::sys::faults;

/// A lock on the process's areas of address space. Tests that use up all areas hold it exclusively; tests that need
/// some areas hold it shared.
pub(crate) static AREAS: RwLock<()> = RwLock::new(());

const SEEDS: u64 = 12;

/// A number of repetitions, multiplied by SNAPMEM_SCALE; at least one.
pub(crate) fn scaled(repetitions: u64) -> u64 {
    let scale = std::env::var("SNAPMEM_SCALE").map_or(1.0, |scale| scale.parse::<f64>().expect("a number"));
    ((repetitions as f64 * scale) as u64).max(1)
}

pub(crate) fn content(snapshot: &dyn Snapshot) -> Vec<u8> {
    (0..snapshot.len() / snapshot.run_bytes()).flat_map(|i| snapshot.run(i).unwrap().to_vec()).collect()
}

pub(crate) fn content_of_region(region: &dyn Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len()];
    bytes.chunks_mut(region.run_bytes()).enumerate().for_each(|(i, run)| region.read(i * region.run_bytes(), run));
    bytes
}

/// A region, and a model with the same content in plain vectors.
struct Rig {
    region: Box<dyn Region>,
    model: Vec<u8>,
    run: usize,
    snapshots: Vec<(Box<dyn Snapshot>, Vec<u8>)>,
    rnd: StdRng,
}

impl Rig {
    fn new(seed: u64, run: usize, region: Box<dyn Region>) -> Rig {
        Rig { region, model: Vec::new(), run, snapshots: Vec::new(), rnd: StdRng::seed_from_u64(seed) }
    }

    /// An offset below `len`, and bytes to write there, within one run. Mostly they are few, sometimes more than a
    /// page.
    fn place(&mut self, len: usize) -> (usize, Vec<u8>) {
        let offset = self.rnd.random_range(0..len);
        let longest = (self.run - offset % self.run).min(if self.rnd.random_bool(0.1) { 10_000 } else { 20 });
        let bytes = vec![self.rnd.random(); self.rnd.random_range(1..=longest)];
        (offset, bytes)
    }

    /// Does one random action to the region and the model. If it fails, it has changed neither.
    fn step(&mut self) -> Result<(), Error> {
        match self.rnd.random_range(0..12) {
            0 if self.model.len() < 12 * self.run => {
                let len = self.model.len() + self.rnd.random_range(1..4) * self.run;
                self.region.grow(len)?;
                self.model.resize(len, 0);
            }
            1..8 if !self.model.is_empty() => {
                let (offset, bytes) = self.place(self.model.len());
                self.region.write(offset, &bytes)?;
                self.model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            8..10 => {
                let mut snapshot = self.region.snapshot()?;
                let mut seen = self.model.clone();
                if !seen.is_empty() && self.rnd.random_bool(0.3) {
                    let (offset, bytes) = self.place(seen.len());
                    snapshot.patch(offset, &bytes)?;
                    seen[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                self.snapshots.push((snapshot, seen));
            }
            _ if !self.snapshots.is_empty() => {
                let (snapshot, seen) = self.snapshots.swap_remove(self.rnd.random_range(0..self.snapshots.len()));
                let run = (!seen.is_empty()).then(|| snapshot.run(0).unwrap());
                assert!(content(&*snapshot) == seen);
                drop(snapshot);
                assert!(run.is_none_or(|run| run[..] == seen[..self.run]), "a run outlives its snapshot");
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) {
        assert!(content_of_region(&*self.region) == self.model);
        self.snapshots.iter().for_each(|(snapshot, seen)| assert!(content(&**snapshot) == *seen));
        let usage = self.region.usage();
        assert_eq!((usage.bytes, usage.snapshots), (self.model.len() as u64, self.snapshots.len() as u64));
        assert!(usage.shared_bytes <= usage.bytes);
    }
}

/// Makes random writes, growth, snapshots, patches and drops, and compares with the model. At the end, all memory must
/// have been returned.
pub(crate) fn equals_a_model(run: usize, region: impl Fn(&Pool) -> Box<dyn Region>) {
    for seed in 0..scaled(SEEDS) {
        let pool = Pool::new(1 << 30);
        let mut rig = Rig::new(seed, run, region(&pool));
        for i in 0..300 {
            rig.step().unwrap();
            if i % 10 == 0 {
                rig.check();
            }
        }
        rig.check();
        rig.snapshots.clear();
        assert_eq!((pool.used(), pool.snapshots()), (rig.region.len() as u64, 0), "seed {seed}");
        drop(rig);
        assert_eq!(pool.used(), 0, "seed {seed}");
    }
}

/// Like [`equals_a_model`], but in some steps a system call fails, and in others the pool's limit is exceeded. A step
/// that fails must leave everything as it was, and the region must continue to work.
pub(crate) fn survives_refusals(run: usize, region: impl Fn(&Pool) -> Box<dyn Region>) {
    let mut refused = 0;
    for seed in 0..scaled(SEEDS) {
        let pool = Pool::new(14 * run as u64);
        let mut rig = Rig::new(seed, run, region(&pool));
        for i in 0..300 {
            let armed = faults::fail_call(rig.rnd.random_range(0..8));
            refused += u64::from(rig.step().is_err());
            drop(armed);
            assert!(pool.used() <= pool.limit());
            if i % 10 == 0 {
                rig.check();
            }
        }
        rig.check();
        rig.snapshots.clear();
        assert_eq!((pool.used(), pool.snapshots()), (rig.region.len() as u64, 0), "seed {seed}");
        drop(rig);
        assert_eq!(pool.used(), 0, "seed {seed}");
    }
    assert!(refused > 3 * scaled(SEEDS), "{refused}");
}

/// Takes and drops snapshots while pages are written. They must leave no memory behind.
pub(crate) fn returns_all_memory(run: usize, region: impl Fn(&Pool) -> Box<dyn Region>) {
    let pool = Pool::new(1 << 30);
    let mut region = region(&pool);
    region.grow(8 * run).unwrap();
    let mut rnd = StdRng::seed_from_u64(3);
    let mut alive = Vec::new();
    for _ in 0..scaled(2_000) {
        alive.push(region.snapshot().unwrap());
        if alive.len() > 5 {
            alive.swap_remove(rnd.random_range(0..alive.len()));
        }
        region.write(rnd.random_range(0..8 * run), &[rnd.random()]).unwrap();
        assert!(pool.used() <= 6 * 8 * run as u64);
    }
    assert!(region.usage().copied_bytes > 1000);
    assert_eq!(pool.snapshots(), alive.len() as u64);
    drop(alive);
    assert_eq!((pool.used(), pool.snapshots()), (8 * run as u64, 0));
}

/// Asks for more memory than any machine has, and for more runs than can be counted.
pub(crate) fn refuses_to_grow_without_end(run: usize, region: impl Fn(&Pool) -> Box<dyn Region>) {
    for limit in [1 << 30, u64::MAX] {
        let pool = Pool::new(limit);
        let mut region = region(&pool);
        region.grow(run).unwrap();
        for len in [1 << 60, usize::MAX - run, usize::MAX] {
            assert!(region.grow(len).is_err());
        }
        assert_eq!((region.len(), pool.used()), (run, run as u64));
        region.write(0, &[1]).unwrap();
    }
}

/// Runs all tests above.
pub(crate) fn all(run: usize, region: impl Fn(&Pool) -> Box<dyn Region> + Copy) {
    equals_a_model(run, region);
    survives_refusals(run, region);
    returns_all_memory(run, region);
    refuses_to_grow_without_end(run, region);
}
