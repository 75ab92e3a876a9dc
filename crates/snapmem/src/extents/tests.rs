use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::memory::pool::{Charge, Relief};
use crate::memory::sys::faults;
use crate::testing::{AREAS, scaled};

const SEEDS: u64 = if cfg!(miri) { 2 } else { 12 };
const STEPS: usize = if cfg!(miri) { 80 } else { 400 };
const MOST_RUNS: usize = 8;
/// The lengths of runs, as powers of two.
const LENGTHS: std::ops::RangeInclusive<u32> = 6..=15;

/// The mechanisms that this kernel supports. Miri supports only those without mappings and memory files.
fn mechanisms() -> impl Iterator<Item = Mechanism> {
    let is_there = |mechanism: &Mechanism| match mechanism {
        Mechanism::Physical | Mechanism::Frames | Mechanism::Epochs | Mechanism::Auto => true,
        others => !cfg!(miri) && others.probe().is_ok(),
    };
    Mechanism::ALL.into_iter().filter(is_there)
}

/// Labels and runs.
type Model = Vec<(Label, Vec<u8>)>;

/// Extents, and a model with the same content in plain vectors.
struct Rig {
    extents: Extents,
    model: Model,
    snapshots: Vec<(ExtentsSnapshot, Model)>,
    /// Whether all runs keep the length of an appended run. Only then can snapshots be patched. Otherwise, some actions
    /// replace a run by one of another length.
    equal: bool,
    rnd: StdRng,
}

impl Rig {
    fn new(seed: u64, mechanism: Mechanism, pool: &Pool) -> Rig {
        let mut rnd = StdRng::seed_from_u64(seed);
        let extents = Extents::new(pool, mechanism, 1 << rnd.random_range(6..=7));
        Rig { extents, model: Vec::new(), snapshots: Vec::new(), equal: seed.is_multiple_of(2), rnd }
    }

    /// A run, and bytes to write somewhere in it.
    fn change(&mut self, runs: usize) -> (usize, usize, Vec<u8>) {
        let run = self.rnd.random_range(0..runs);
        let len = self.model[run].1.len();
        let within = self.rnd.random_range(0..len);
        let longest = (len - within).min(if self.rnd.random_bool(0.1) { 10_000 } else { 16 });
        (run, within, vec![self.rnd.random(); self.rnd.random_range(1..=longest)])
    }

    /// Does one random action to the extents and the model. If it fails, it has changed neither.
    fn step(&mut self) -> Result<(), OutOfMemory> {
        match self.rnd.random_range(0..20) {
            0 | 1 if self.model.len() < MOST_RUNS => {
                self.extents.push_run()?;
                self.model.push((0, vec![0; self.extents.run_bytes()]));
            }
            2 if self.equal && self.model.len() <= 1 && self.extents.run_bytes() < 1 << LENGTHS.end() => {
                let longer = self.extents.run_bytes() << self.rnd.random_range(1..=2);
                self.extents.lengthen_runs(longer)?;
                self.model.iter_mut().for_each(|(label, run)| (*label, *run) = (0, resized(run, longer)));
            }
            2..6 if !self.equal && !self.model.is_empty() => {
                let run = self.rnd.random_range(0..self.model.len());
                let (bytes, label) = (1 << self.rnd.random_range(LENGTHS), self.rnd.random());
                let old = &self.model[run].1;
                self.extents.replace_run(run, bytes, label, |was, is| {
                    assert!(was == old && is.iter().all(|byte| *byte == 0));
                    is.copy_from_slice(&resized(was, bytes));
                })?;
                self.model[run] = (label, resized(old, bytes));
            }
            6..14 if !self.model.is_empty() => {
                let (run, within, bytes) = self.change(self.model.len());
                self.extents.write_in(run, within, &bytes)?;
                self.model[run].1[within..within + bytes.len()].copy_from_slice(&bytes);
            }
            14..17 => {
                let (mut snapshot, mut seen) = (self.extents.snapshot()?, self.model.clone());
                if self.equal && !seen.is_empty() && self.rnd.random_bool(0.5) {
                    let (run, within, bytes) = self.change(seen.len());
                    snapshot.patch(run * self.extents.run_bytes() + within, &bytes)?;
                    seen[run].1[within..within + bytes.len()].copy_from_slice(&bytes);
                }
                self.snapshots.push((snapshot, seen));
            }
            _ if !self.snapshots.is_empty() => {
                let (snapshot, seen) = self.snapshots.swap_remove(self.rnd.random_range(0..self.snapshots.len()));
                if self.equal {
                    check_reads(&snapshot, &seen, &mut self.rnd);
                }
                let run = (!seen.is_empty()).then(|| snapshot.run(0)).transpose()?;
                drop(snapshot);
                assert!(run.is_none_or(|run| run[..] == seen[0].1), "a run outlives its snapshot");
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) {
        let (extents, model) = (&self.extents, &self.model);
        assert_eq!(extents.run_count(), model.len());
        assert_eq!(extents.bytes(), model.iter().map(|(_, run)| run.len() as u64).sum());
        for (index, (_, run)) in model.iter().enumerate() {
            let lines = run.chunks(64).enumerate();
            lines.for_each(|(at, line)| assert_eq!(extents.bytes_in(index, at * 64, line.len()), line));
        }
        for (snapshot, seen) in &self.snapshots {
            assert_eq!(snapshot.run_count(), seen.len());
            for (index, (label, run)) in seen.iter().enumerate() {
                let (found, its_label) = snapshot.labelled_run(index).unwrap();
                assert!((its_label, &found[..]) == (*label, &run[..]));
            }
        }
    }
}

/// Checks reads of a snapshot by offset.
fn check_reads(snapshot: &ExtentsSnapshot, seen: &Model, rnd: &mut StdRng) {
    for (index, (_, run)) in seen.iter().enumerate() {
        let within = rnd.random_range(0..run.len());
        let mut found = vec![0; rnd.random_range(0..=run.len() - within)];
        snapshot.read(index * run.len() + within, &mut found).unwrap();
        assert_eq!(found, run[within..within + found.len()]);
    }
}

/// The first `bytes` bytes of a run; a shorter run is followed by zeros.
fn resized(run: &[u8], bytes: usize) -> Vec<u8> {
    let mut resized = run.to_vec();
    resized.resize(bytes, 0);
    resized
}

#[test]
fn equal_plain_vectors_on_any_mechanism() {
    let _others_may = AREAS.read();
    for (mechanism, seed) in mechanisms().flat_map(|mechanism| (0..scaled(SEEDS)).map(move |seed| (mechanism, seed))) {
        let pool = Pool::new(1 << 30);
        let mut rig = Rig::new(seed, mechanism, &pool);
        for step in 0..STEPS {
            rig.step().unwrap();
            if step % 20 == 0 {
                rig.check();
            }
        }
        rig.check();
        drop(rig);
        assert_eq!((pool.used(), pool.snapshots()), (0, 0), "{mechanism}, seed {seed}");
    }
}

/// In some steps a system call fails, and in others the pool's limit is exceeded.
#[test]
fn survive_refusals_on_any_mechanism() {
    let _others_may = AREAS.read();
    for mechanism in mechanisms() {
        let mut refused = 0;
        for seed in 0..scaled(SEEDS) {
            let pool = Pool::new(100 << 10);
            let mut rig = Rig::new(seed, mechanism, &pool);
            for step in 0..STEPS {
                let armed = faults::fail_call(rig.rnd.random_range(0..6));
                refused += u64::from(rig.step().is_err());
                drop(armed);
                assert!(pool.used() <= pool.limit());
                if step % 20 == 0 {
                    rig.snapshots.truncate(2);
                    rig.check_if_there_is_room(&pool);
                }
            }
            rig.snapshots.clear();
            rig.check();
            drop(rig);
            assert_eq!((pool.used(), pool.snapshots()), (0, 0), "{mechanism}, seed {seed}");
        }
        assert!(refused > scaled(SEEDS), "{mechanism}: {refused}");
    }
}

impl Rig {
    /// Checks the content, unless memory is short: a reader of epochs may need memory to merge a run.
    fn check_if_there_is_room(&self, pool: &Pool) {
        if pool.room() > 1 << LENGTHS.end() {
            self.check();
        }
    }
}

/// When the last run of a length is replaced, the memory of that length's region is freed.
#[test]
fn a_length_that_is_no_longer_there_takes_no_memory() {
    let _others_may = AREAS.read();
    for mechanism in mechanisms() {
        let pool = Pool::new(1 << 30);
        let mut extents = Extents::new(&pool, mechanism, 64);
        (0..10).for_each(|_| extents.push_run().unwrap());
        let before = pool.used();
        (0..10).for_each(|run| extents.replace_run(run, 1 << 16, 1, |_, _| ()).unwrap());
        assert!(pool.used() >= 10 << 16);
        let snapshot = extents.snapshot().unwrap();
        (0..10).for_each(|run| extents.replace_run(run, 64, 2, |_, new| new.fill(7)).unwrap());
        assert_eq!(snapshot.labelled_run(3).unwrap().1, 1);
        drop(snapshot);
        // A region of epochs frees old runs at the next snapshot, because only then it notices that no snapshot sees
        // them.
        drop(extents.snapshot().unwrap());
        assert!(pool.used() <= before + (8 << 10), "{mechanism}: {} after {before}", pool.used());
        assert_eq!(extents.bytes_in(9, 0, 64), [7; 64]);
    }
}

/// A place that an earlier run has left is filled with zeros for the next run.
#[test]
fn a_place_that_was_given_back_is_zeroed() {
    let _others_may = AREAS.read();
    for mechanism in mechanisms() {
        let pool = Pool::new(1 << 30);
        let mut extents = Extents::new(&pool, mechanism, 4096);
        (0..2).for_each(|_| extents.push_run().unwrap());
        (0..2).for_each(|run| extents.write_in(run, 0, &[9; 4096]).unwrap());
        extents.replace_run(0, 1 << 13, 0, |_, _| ()).unwrap();
        extents.push_run().unwrap();
        assert_eq!(extents.bytes_in(2, 64, 64), [0; 64], "{mechanism}");
    }
}

/// Readers that give up one page each.
#[derive(Debug, Default)]
struct Readers(Mutex<Vec<Charge>>);

impl Relief for Readers {
    fn relieve(&self, is_enough: &dyn Fn() -> bool) -> bool {
        while !is_enough() {
            if self.0.lock().pop().is_none() {
                return false;
            }
        }
        true
    }
}

/// Relief is asked for each page of a write, because each of them may be refused.
#[test]
fn a_write_across_pages_finds_room_for_each() {
    const PAGE: usize = 4096;
    let _others_may = AREAS.read();
    for mechanism in mechanisms() {
        let (pool, readers) = (Pool::new(1 << 20), Arc::new(Readers::default()));
        pool.relieved_by(readers.clone());
        let mut extents = Extents::new(&pool, mechanism, 4 * PAGE);
        extents.push_run().unwrap();
        let _snapshot = extents.snapshot().unwrap();
        while pool.room() > 0 {
            let mut page = pool.charge();
            page.set(pool.room().min(PAGE as u64)).unwrap();
            readers.0.lock().push(page);
        }
        extents.write_in(0, PAGE - 32, &[7; 64]).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        assert_eq!(extents.bytes_in(0, PAGE, 32), [7; 32], "{mechanism}");
        readers.0.lock().clear();
    }
}
