//! Snapshots leave nothing behind, and a lack of mapped areas is an error that says how to avoid it.

use anker_snapmem::{Error, Pool};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Holdings, PAGE, Subject, check_region, check_snapshot, scaled};

/// All memory returns to the pool and to the system, whatever the order in which snapshots and kept runs end.
pub fn memory_returns_after_10_000_snapshots(subject: Subject) {
    const RUNS: usize = 16;
    let before = Holdings::now();
    let pool = Pool::new(1 << 30);
    let mut region = subject.region_of(&pool, RUNS);
    (0..RUNS).for_each(|run| region.write(run * subject.run_bytes, &[1]).unwrap());
    let used = pool.used();
    let mut rnd = StdRng::seed_from_u64(3);
    let (mut alive, mut runs) = (Vec::new(), Vec::new());
    let snapshots = scaled(10_000);
    let mut early = None;
    for i in 0..snapshots {
        let snapshot = region.snapshot().unwrap();
        if i % 7 == 0 {
            runs.push(snapshot.run(rnd.random_range(0..RUNS)).unwrap());
        }
        alive.push(snapshot);
        if alive.len() > 5 {
            alive.swap_remove(rnd.random_range(0..alive.len()));
        }
        if runs.len() > 5 {
            runs.swap_remove(rnd.random_range(0..runs.len()));
        }
        for _ in 0..2 {
            region.write(rnd.random_range(0..RUNS * subject.run_bytes), &[i as u8]).unwrap();
        }
        if i == snapshots / 10 {
            early = Some(Holdings::now());
        }
    }
    Holdings::now().assert_no_more_memory_than(early.expect("taken on the way"));
    assert!(region.usage().copied_bytes > 0 && pool.copied() > 0);
    drop((alive, runs));
    assert_eq!((pool.snapshots(), region.usage().snapshots), (0, 0));
    // Some mechanisms free the memory of ended snapshots only when the writer next writes to the same run.
    (0..RUNS).for_each(|run| region.write(run * subject.run_bytes, &[1]).unwrap());
    assert_eq!((pool.used(), region.usage().shared_bytes), (used, 0));
    drop(region);
    assert_eq!(pool.used(), 0);
    // When the pool is dropped, so is its warm memory.
    drop(pool);
    Holdings::now().assert_as_little_as(before);
}

/// One snapshot stays alive while thousands come and go. It must keep only the content that it sees.
pub fn an_old_snapshot_keeps_only_what_it_sees(subject: Subject) {
    const RUNS: usize = 8;
    let pool = Pool::new(1 << 30);
    let mut region = subject.region_of(&pool, RUNS);
    (0..RUNS).for_each(|run| region.write(run * subject.run_bytes, &[1]).unwrap());
    let old = region.snapshot().unwrap();
    let model: Vec<u8> = (0..region.len()).map(|at| u8::from(at % subject.run_bytes == 0)).collect();
    let mut rnd = StdRng::seed_from_u64(11);
    let mut alive = Vec::new();
    let snapshots = scaled(4000);
    let (mut early, mut most) = (None, 0);
    for i in 0..snapshots {
        (0..40).for_each(|_| region.write(rnd.random_range(0..region.len()), &[7]).unwrap());
        alive.push(region.snapshot().unwrap());
        if alive.len() > 3 {
            alive.swap_remove(rnd.random_range(0..alive.len()));
        }
        most = most.max(pool.used());
        if i == snapshots / 4 {
            early = Some(Holdings::now());
            check_snapshot(&*old, &model);
        }
    }
    Holdings::now().assert_no_more_memory_than(early.expect("taken on the way"));
    // The allowed memory is the region, the content of five snapshots, and as much again for bookkeeping and for memory
    // that is freed at the next write.
    assert!(most <= 12 * region.len() as u64, "{most} bytes for {}", region.len());
    alive.clear();
    check_snapshot(&*old, &model);
    (0..RUNS).for_each(|run| region.write(run * subject.run_bytes, &[1]).unwrap());
    let used = pool.used();
    assert!(used <= 3 * region.len() as u64, "{used} bytes for {}", region.len());
}

/// Many pages are written under a snapshot, but only every second one. A mechanism that maps pages one by one needs an
/// area for each written page.
pub fn scattered_writes_work_or_name_the_limit(subject: Subject) {
    let bytes = scaled(160 << 20).max(1 << 20).next_multiple_of(subject.run_bytes);
    let pool = Pool::new(4 << 30);
    let mut region = subject.region_of(&pool, bytes / subject.run_bytes);
    let mut model = vec![0; bytes];
    let mut snapshots = Vec::new();
    let mut refused = None;
    'generations: for generation in 1..4u8 {
        match region.snapshot() {
            Ok(snapshot) => snapshots.push((snapshot, model.clone())),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
        for page in (usize::from(generation) % 2..bytes / PAGE).step_by(2) {
            if let Err(error) = region.write(page * PAGE, &[generation]) {
                refused = Some(error);
                break 'generations;
            }
            model[page * PAGE] = generation;
        }
    }
    check_region(&*region, &model);
    snapshots.iter().for_each(|(snapshot, model)| check_snapshot(&**snapshot, model));
    let names_the_limit = |error: &Error| assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    refused.iter().for_each(names_the_limit);
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if subject.mechanism.name() == "rewired" && bytes / PAGE > limit / 2 {
        assert!(refused.is_some());
    }
    // The region can be written as soon as the snapshots are gone. Another snapshot may still need too many areas.
    drop(snapshots);
    for page in 0..bytes / PAGE {
        region.write(page * PAGE, &[9]).unwrap();
        model[page * PAGE] = 9;
    }
    check_region(&*region, &model);
    match region.snapshot() {
        Ok(snapshot) => check_snapshot(&*snapshot, &model),
        Err(error) => names_the_limit(&error),
    }
}
