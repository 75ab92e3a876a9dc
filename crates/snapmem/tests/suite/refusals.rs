//! A lack of memory, or a system call that fails, is an error, and leaves everything as it was.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anker_snapmem::{Error, Mechanism, Pool, Region, Snapshot, faults};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Holdings, Subject, check_region, check_snapshot, for_seeds, scaled, works_on_pages};

/// A region and its snapshots, each with the content that it must have.
struct Rig {
    region: Box<dyn Region>,
    model: Vec<u8>,
    snapshots: Vec<(Box<dyn Snapshot>, Vec<u8>)>,
    rnd: StdRng,
}

impl Rig {
    fn new(region: Box<dyn Region>, seed: u64) -> Rig {
        Rig { region, model: Vec::new(), snapshots: Vec::new(), rnd: StdRng::seed_from_u64(seed) }
    }

    /// Does one random action. If it fails, it has changed nothing.
    fn step(&mut self) -> Result<(), Error> {
        let run_bytes = self.region.run_bytes();
        let runs = self.model.len() / run_bytes;
        match self.rnd.random_range(0..20) {
            0..2 => {
                let len = (runs + self.rnd.random_range(1..4)).min(24) * run_bytes;
                self.region.grow(len)?;
                self.model.resize(len.max(self.model.len()), 0);
            }
            2..4 => self.snapshots.push((self.region.snapshot()?, self.model.clone())),
            4 if !self.snapshots.is_empty() => {
                let i = self.rnd.random_range(0..self.snapshots.len());
                drop(self.snapshots.swap_remove(i));
            }
            5..8 if self.snapshots.last().is_some_and(|(_, model)| !model.is_empty()) => {
                let (snapshot, model) = self.snapshots.last_mut().expect("there is one");
                let (offset, bytes) = change(&mut self.rnd, model.len(), run_bytes);
                snapshot.patch(offset, &bytes)?;
                model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            _ if runs > 0 => {
                let (offset, bytes) = change(&mut self.rnd, self.model.len(), run_bytes);
                self.region.write(offset, &bytes)?;
                self.model[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&self) {
        check_region(&*self.region, &self.model);
        self.check_snapshots();
    }

    fn check_snapshots(&self) {
        for (snapshot, model) in &self.snapshots {
            match (0..snapshot.len() / snapshot.run_bytes()).try_for_each(|i| snapshot.run(i).map(drop)) {
                Ok(()) => check_snapshot(&**snapshot, model),
                // There may be no memory to merge a run. The runs that can be read must still have the right content.
                Err(_) => check_readable_runs(&**snapshot, model),
            }
        }
    }

    /// Drops the snapshots, and checks that everything works again.
    fn recover(&mut self) {
        self.check();
        self.snapshots.clear();
        check_region(&*self.region, &self.model);
        let run_bytes = self.region.run_bytes();
        for offset in (0..self.model.len()).step_by(run_bytes) {
            self.region.write(offset, &[99]).unwrap();
            self.model[offset] = 99;
        }
        self.check();
    }
}

fn check_readable_runs(snapshot: &dyn Snapshot, model: &[u8]) {
    for (i, bytes) in model.chunks(snapshot.run_bytes()).enumerate() {
        match snapshot.run(i) {
            Ok(run) => assert!(run[..] == *bytes, "run {i}"),
            Err(error) => assert!(matches!(error, Error::OutOfMemory(_)), "{error}"),
        }
    }
}

fn change(rnd: &mut StdRng, len: usize, run_bytes: usize) -> (usize, Vec<u8>) {
    let offset = rnd.random_range(0..len);
    let room = run_bytes - offset % run_bytes;
    let longest = if rnd.random_bool(0.1) { room } else { room.min(16) };
    (offset, vec![rnd.random(); rnd.random_range(1..=longest)])
}

/// Tries limits from nothing to plenty. After a refusal, everything stays as it was, and works again when there is
/// room.
pub fn at_the_limit_everything_stays_as_it_was(subject: Subject) {
    for_seeds(40, |seed| {
        let pool = Pool::new(seed * subject.run_bytes as u64);
        let mut rig = Rig::new(subject.region(&pool), seed);
        let mut refused = 0;
        for i in 0..if cfg!(miri) { 60 } else { 300 } {
            match rig.step() {
                Ok(()) => {}
                Err(Error::OutOfMemory(_)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert!(pool.used() <= pool.limit(), "{} of {} bytes", pool.used(), pool.limit());
            if i % 25 == 0 {
                rig.check();
            }
        }
        assert!(refused > 0 || seed > 10);
        rig.recover();
        drop(rig);
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
    });
}

/// Each system call fails once, in turn.
pub fn a_call_that_fails_leaves_everything_as_it_was(subject: Subject) {
    let mut refused = 0;
    for nth in 0..scaled(400) as u64 {
        let pool = Pool::new(1 << 30);
        let armed = faults::fail_call(nth);
        let Ok(region) = subject.try_region(&pool) else {
            refused += 1;
            continue;
        };
        let mut rig = Rig::new(region, 1);
        for _ in 0..150 {
            if let Err(error) = rig.step() {
                assert!(matches!(error, Error::System { .. }) && armed.fired(), "{error}");
                refused += 1;
                rig.check();
            }
        }
        let fired = armed.fired();
        drop(armed);
        rig.recover();
        drop(rig);
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
        if !fired {
            break;
        }
    }
    // Only mechanisms that make such calls can be refused.
    assert_eq!(refused > 0, works_on_pages(subject.mechanism));
}

/// The process gets no more address space, although the pool's limit would allow it.
pub fn when_address_space_ends_everything_stays_as_it_was(subject: Subject) {
    let pool = Pool::new(u64::MAX);
    let mut rig = Rig::new(subject.region_of(&pool, 4), 1);
    rig.model.resize(4 * subject.run_bytes, 0);
    (0..100).for_each(|_| rig.step().unwrap());
    // This memory is reserved for the test itself.
    let cushion = black_box(vec![0u8; 32 << 20]);
    let held = Holdings::now();
    limit_address_space(held.address_space + (64 << 20));
    let error = rig.region.grow(rig.model.len() + (1 << 30)).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory(_) | Error::System { .. }), "{error}");
    drop(cushion);
    // Mechanisms with helper threads are excluded: one thread may take the last memory just after another has checked
    // that there is some.
    if !matches!(subject.mechanism, Mechanism::Physical | Mechanism::Auto) {
        exhaust(subject);
    }
    rig.check();
    limit_address_space(libc::RLIM_INFINITY as usize);
    rig.region.grow(rig.model.len() + (1 << 20)).unwrap();
    rig.model.resize(rig.model.len() + (1 << 20), 0);
    rig.recover();
}

/// Takes snapshots and writes until no memory is left, and then some more.
fn exhaust(subject: Subject) {
    let mut snapshots = Vec::with_capacity(1 << 16);
    let pool = Pool::new(u64::MAX);
    let mut region = subject.region_of(&pool, (16 << 20) / subject.run_bytes);
    let (mut state, mut refused) = (1u64, 0);
    for i in 0..1_000_000u64 {
        if i % 500 == 0 && snapshots.len() < snapshots.capacity() {
            match region.snapshot() {
                Ok(snapshot) => snapshots.push(snapshot),
                Err(_) => refused += 1,
            }
        }
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let offset = ((state >> 33) as usize % region.len()) & !7;
        refused += u32::from(region.write(offset, &i.to_le_bytes()).is_err());
        if refused > 500 {
            break;
        }
    }
}

fn limit_address_space(bytes: usize) {
    let limit = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: sets a limit of this process, which is the test's alone.
    #[allow(unsafe_code)]
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
    assert_eq!(set, 0);
}

/// A range that does not lie within one run, or a run that does not exist, is a mistake of the caller. It causes a
/// panic, which changes nothing.
pub fn what_lies_outside_panics(subject: Subject) {
    let pool = Pool::new(1 << 30);
    let (run_bytes, len) = (subject.run_bytes, 2 * subject.run_bytes);
    let mut region = subject.region_of(&pool, 2);
    region.write(run_bytes - 1, &[1]).unwrap();
    let mut snapshot = region.snapshot().unwrap();
    snapshot.patch(len - 1, &[2]).unwrap();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panics = |act: &mut dyn FnMut()| assert!(catch_unwind(AssertUnwindSafe(act)).is_err());
    for (offset, bytes) in [(run_bytes - 1, 2), (len - 1, 2), (len, 1), (len, 0), (usize::MAX, 1), (0, run_bytes + 1)] {
        panics(&mut || drop(region.write(offset, &vec![3; bytes])));
        panics(&mut || region.read(offset, &mut vec![3; bytes]));
        panics(&mut || drop(snapshot.patch(offset, &vec![3; bytes])));
    }
    panics(&mut || drop(snapshot.run(2)));
    panics(&mut || drop(snapshot.run(usize::MAX)));
    std::panic::set_hook(quiet);
    let mut model = vec![0; len];
    model[run_bytes - 1] = 1;
    check_region(&*region, &model);
    model[len - 1] = 2;
    check_snapshot(&*snapshot, &model);
    let empty = subject.region(&pool).snapshot().unwrap();
    assert!(empty.is_empty());
    check_snapshot(&*empty, &[]);
}
