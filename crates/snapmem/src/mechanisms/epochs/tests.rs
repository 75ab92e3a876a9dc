//! Tests of an epoch region against a plain vector, with readers on other threads. They are small enough for Miri.

use std::sync::mpsc;
use std::thread;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::memory::region::{Region, Snapshot};

type Model = Vec<u8>;

fn check(snapshot: &EpochSnapshot, model: &Model) {
    assert_eq!(snapshot.run_count() * snapshot.run_bytes(), model.len());
    for (run, want) in model.chunks(snapshot.run_bytes().max(1)).enumerate() {
        assert!(&snapshot.run(run).unwrap()[..] == want, "run {run} of {snapshot:?}");
    }
    let (mut some, at) = ([0; 24], (model.len() / 2) & !63);
    if !model.is_empty() {
        snapshot.read(at, &mut some);
        assert_eq!(some, model[at..at + 24]);
    }
}

/// Makes random writes, growth, tidying, snapshots and patches. Other threads check and drop snapshots, and keep some
/// runs.
fn play(seed: u64, run_bytes: usize, steps: usize, automatic: bool) {
    let pool = Pool::new(1 << 30);
    let mut rnd = StdRng::seed_from_u64(seed);
    let mut region =
        if automatic { EpochRegion::automatic(&pool, run_bytes) } else { EpochRegion::new(&pool, run_bytes) };
    let mut model: Model = Vec::new();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (send, receive) = mpsc::channel::<(EpochSnapshot, Model)>();
                scope.spawn(move || {
                    let mut rnd = StdRng::seed_from_u64(seed);
                    let mut held: Vec<(EpochSnapshot, Model)> = Vec::new();
                    let mut runs = Vec::new();
                    for (snapshot, model) in receive {
                        check(&snapshot, &model);
                        if snapshot.run_count() > 0 && rnd.random_bool(0.5) {
                            let run = rnd.random_range(0..snapshot.run_count());
                            let want = model[run * run_bytes..(run + 1) * run_bytes].to_vec();
                            runs.push((snapshot.run(run).unwrap(), want));
                        }
                        held.push((snapshot, model));
                        while held.len() > rnd.random_range(0..6) {
                            let (snapshot, model) = held.swap_remove(rnd.random_range(0..held.len()));
                            check(&snapshot, &model);
                        }
                        if runs.len() > 4 {
                            runs.remove(0);
                        }
                        runs.iter().for_each(|(run, want)| assert_eq!(&run[..], want));
                    }
                });
                send
            })
            .collect();
        for _ in 0..steps {
            match rnd.random_range(0..100) {
                0..4 if model.len() < 20 * run_bytes => {
                    region.push_run().unwrap();
                    model.resize(model.len() + run_bytes, 0);
                }
                4..14 => {
                    let mut snapshot = region.snapshot().unwrap();
                    let mut then = model.clone();
                    for _ in 0..rnd.random_range(0..4) {
                        if let Some((at, bytes)) = some_bytes(&mut rnd, model.len(), run_bytes) {
                            snapshot.patch(at, &bytes).unwrap();
                            then[at..at + bytes.len()].copy_from_slice(&bytes);
                        }
                    }
                    let _ = readers[rnd.random_range(0..readers.len())].send((snapshot, then));
                }
                14..16 => drop(region.tidy(2)),
                _ => {
                    if let Some((at, bytes)) = some_bytes(&mut rnd, model.len(), run_bytes) {
                        region.write(at, &bytes).unwrap();
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
            }
        }
        let mut now = vec![0; model.len()];
        now.chunks_mut(run_bytes).enumerate().for_each(|(run, bytes)| region.read(run * run_bytes, bytes));
        assert!(now == model, "what the writer reads, seed {seed}");
        if seed.is_multiple_of(2) {
            drop(region);
        }
    });
    assert_eq!(pool.snapshots(), 0);
}

/// An offset, and bytes to write there: mostly few, sometimes many.
fn some_bytes(rnd: &mut StdRng, len: usize, run_bytes: usize) -> Option<(usize, Vec<u8>)> {
    if len == 0 {
        return None;
    }
    let at = rnd.random_range(0..len);
    let most = run_bytes - at % run_bytes;
    let few = if rnd.random_bool(0.95) { most.min(16) } else { most };
    Some((at, (0..rnd.random_range(1..=few)).map(|_| rnd.random()).collect()))
}

#[test]
fn snapshots_equal_plain_vectors() {
    let seeds = 0..if cfg!(miri) { 3 } else { crate::testing::scaled(150) };
    for seed in seeds {
        for (run_bytes, automatic) in [(64, false), (1024, true), (4096, false), (8192, true)] {
            play(seed, run_bytes, if cfg!(miri) { 120 } else { 1500 }, automatic);
        }
    }
}

#[test]
fn memory_returns_with_the_last_snapshot() {
    let pool = Pool::new(1 << 30);
    let mut region = EpochRegion::new(&pool, 4096);
    (0..8).for_each(|_| region.push_run().unwrap());
    let at_first = pool.used();
    for round in 0..if cfg!(miri) { 5 } else { 1000 } {
        let held: Vec<_> = (0..4)
            .map(|turn| {
                (0..40).for_each(|i| region.write(i * 808 / 8 * 8, &[(round as u8).wrapping_add(turn); 8]).unwrap());
                region.snapshot().unwrap()
            })
            .collect();
        drop(held);
    }
    while region.tidy(8) > 0 {}
    assert_eq!(pool.used(), at_first);
    assert!(pool.copied() > 0);
    drop(region);
    assert_eq!(pool.used(), 0);
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let pool = Pool::new(12 * 4096);
    let mut region = EpochRegion::new(&pool, 4096);
    (0..8).for_each(|_| region.push_run().unwrap());
    let mut model = vec![0; region.len()];
    let snapshot = region.snapshot().unwrap();
    let (mut refused, mut rnd) = (0, StdRng::seed_from_u64(1));
    for _ in 0..if cfg!(miri) { 30 } else { 2000 } {
        let (at, bytes) = some_bytes(&mut rnd, model.len(), 4096).unwrap();
        match region.write(at, &bytes) {
            Ok(()) => model[at..at + bytes.len()].copy_from_slice(&bytes),
            Err(_) => refused += 1,
        }
        let mut now = vec![0; 4096];
        region.read(at & !4095, &mut now);
        assert!(now == model[at & !4095..][..4096]);
    }
    assert!(refused > 0);
    (0..8).for_each(|run| assert!(snapshot.run(run).is_ok_and(|run| run.iter().all(|&byte| byte == 0))));
    drop(snapshot);
    region.write(0, &[1; 4096]).unwrap();
}

/// Rewrites every frame, so that each gets a new version if a snapshot sees it.
fn rewrite(region: &mut EpochRegion, byte: u8) {
    let run = vec![byte; region.run_bytes()];
    (0..region.run_count()).for_each(|i| region.write(i * run.len(), &run).unwrap());
}

#[test]
fn an_old_snapshot_does_not_keep_what_later_ones_saw() {
    let pool = Pool::new(1 << 20);
    let mut region = EpochRegion::new(&pool, 1024);
    (0..3).for_each(|_| region.push_run().unwrap());
    let old = region.snapshot().unwrap();
    let (mut later, mut most) = (Vec::new(), 0);
    for round in 0..if cfg!(miri) { 50 } else { 5000 } {
        rewrite(&mut region, round as u8);
        later.push((region.snapshot().unwrap(), round as u8));
        if later.len() > 6 {
            let (snapshot, byte) = later.swap_remove(round % 7);
            assert_eq!(snapshot.run(round % 3).unwrap()[..], [byte; 1024]);
        }
        // SAFETY: the newest version of a frame is there.
        most = most.max(unsafe { region.frames[1].version.as_ref() }.versions_before());
        assert_eq!(old.run(1).unwrap()[..], [0; 1024]);
    }
    assert!(most <= 2 * 8 + UNPRUNED as usize, "{most}");
    drop((old, later));
    assert_eq!(pool.used(), 3 * 1024);
}

#[test]
fn readers_walk_while_versions_are_taken_out() {
    let pool = Pool::new(1 << 20);
    let mut region = EpochRegion::new(&pool, 64);
    (0..2).for_each(|_| region.push_run().unwrap());
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        for byte in 1..3 {
            rewrite(&mut region, byte);
            let (old, done) = (region.snapshot().unwrap(), &done);
            scope.spawn(move || {
                while done.load(Ordering::Relaxed) == 0 {
                    (0..2).for_each(|run| assert_eq!(old.run(run).unwrap()[..], [byte; 64]));
                }
            });
        }
        for round in 0..if cfg!(miri) { 100 } else { 20_000 } {
            rewrite(&mut region, round as u8);
            drop(region.snapshot().unwrap());
            drop(region.snapshot().unwrap());
            let _sees = region.snapshot().unwrap();
            rewrite(&mut region, round as u8);
        }
        drop(region);
        done.store(1, Ordering::Relaxed);
    });
    assert_eq!((pool.used(), pool.snapshots()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore = "large")]
fn lines_of_long_runs_keep_their_places() {
    let (pool, run_bytes) = (Pool::new(1 << 30), 16 << 20);
    let mut region = EpochRegion::new(&pool, run_bytes);
    region.push_run().unwrap();
    let before = region.snapshot().unwrap();
    for megabyte in 0..16 {
        region.write(megabyte << 20, &[1 + megabyte as u8]).unwrap();
    }
    let after = region.snapshot().unwrap();
    let (before, after) = (before.run(0).unwrap(), after.run(0).unwrap());
    let wanted = |at: usize| if at.is_multiple_of(1 << 20) { 1 + (at >> 20) as u8 } else { 0 };
    assert!(after.iter().enumerate().all(|(at, &byte)| byte == wanted(at)));
    assert!(before.iter().all(|&byte| byte == 0));
}

#[test]
fn a_run_that_was_handed_out_is_not_patched() {
    let pool = Pool::new(1 << 20);
    for run_bytes in [1024, 8192] {
        let mut region = EpochRegion::new(&pool, run_bytes);
        region.push_run().unwrap();
        let mut snapshot = region.snapshot().unwrap();
        let firsts: Vec<_> = (1..4)
            .map(|byte| {
                snapshot.patch(0, &[byte]).unwrap();
                snapshot.run(0).unwrap()
            })
            .collect();
        assert_eq!([firsts[0][0], firsts[1][0], firsts[2][0]], [1, 2, 3]);
    }
}

#[test]
#[cfg_attr(miri, ignore = "large")]
fn copying_ahead_leaves_room_for_others() {
    let (frames, run_bytes) = (32, 8192);
    for (limit, ahead) in [(10 * frames * run_bytes, true), (5 * frames * run_bytes / 2, false)] {
        let pool = Pool::new(limit as u64);
        let mut region = EpochRegion::automatic(&pool, run_bytes);
        (0..frames).for_each(|_| region.push_run().unwrap());
        let mut snapshot = region.snapshot().unwrap();
        for round in 0..10 {
            for at in (0..frames * run_bytes).step_by(LINE) {
                region.write(at, &[round]).unwrap();
            }
            drop(snapshot);
            snapshot = region.snapshot().unwrap();
            if round > 2 {
                assert!(pool.room() >= (frames * run_bytes) as u64);
            }
        }
        assert_eq!(region.reason().starts_with("copies ahead 32 of 32"), ahead, "{}", region.reason());
        assert_eq!(region.reason().contains("no memory"), !ahead);
    }
}

/// A writer must be able to remove versions even if a reader of an old snapshot never pauses.
#[test]
fn readers_without_a_pause_do_not_keep_versions() {
    const FRAMES: usize = 64;
    let pool = Pool::new(1 << 30);
    let mut region = EpochRegion::new(&pool, 64);
    (0..FRAMES).for_each(|_| region.push_run().unwrap());
    let old = region.snapshot().unwrap();
    rewrite(&mut region, 1);
    let stop = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while stop.load(Ordering::Relaxed) == 0 {
                    (0..FRAMES).for_each(|run| assert_eq!(old.run(run).unwrap()[0], 0));
                }
            });
        }
        for round in 0..if cfg!(miri) { 20 } else { 4000 } {
            let snapshot = region.snapshot().unwrap();
            rewrite(&mut region, round as u8);
            drop(snapshot);
        }
        stop.store(1, Ordering::Relaxed);
    });
    // SAFETY: the newest versions are there.
    let most = region.frames.iter().map(|frame| unsafe { frame.version.as_ref() }.versions_before()).max();
    assert!(most < Some(4 * UNPRUNED as usize), "{most:?} versions before the newest");
}

#[test]
fn many_patches_of_a_run_become_a_copy() {
    const RUN: usize = 64 << 10;
    let pool = Pool::new(1 << 30);
    let mut region = EpochRegion::new(&pool, RUN);
    region.push_run().unwrap();
    let mut snapshot = region.snapshot().unwrap();
    let before = pool.used();
    for i in 0..20_000u64 {
        snapshot.patch(i as usize % 1000 * 8, &i.to_le_bytes()).unwrap();
    }
    assert!(pool.used() <= before + RUN as u64, "{}", pool.used());
    let run = snapshot.run(0).unwrap();
    (0..1000u64).for_each(|i| assert_eq!(run[i as usize * 8..][..8], (19_000 + i).to_le_bytes()));
}

/// Writes that load or append data are not counted as writes that a snapshot made expensive.
#[test]
fn loading_is_no_reason_to_copy_ahead() {
    const RUN: usize = 4096;
    let pool = Pool::new(1 << 30);
    let mut region = EpochRegion::automatic(&pool, RUN);
    let mut snapshots = Vec::new();
    for round in 0..4 {
        let before = region.run_count();
        for run in before..before + 40 {
            region.push_run().unwrap();
            (0..RUN).step_by(8).for_each(|at| region.write(run * RUN + at, &[round; 8]).unwrap());
        }
        (0..before).for_each(|run| region.write(run * RUN, &[9]).unwrap());
        let copied = region.usage().copied_bytes;
        snapshots.push(region.snapshot().unwrap());
        assert_eq!(region.usage().copied_bytes, copied, "{}", region.reason());
    }
}

#[test]
fn a_first_run_becomes_longer_while_snapshots_keep_the_short_one() {
    let pool = Pool::new(1 << 20);
    let mut region = EpochRegion::automatic(&pool, 64);
    region.lengthen_runs(128).unwrap();
    assert_eq!((region.run_count(), region.run_bytes()), (0, 128));
    region.push_run().unwrap();
    region.write(100, b"before").unwrap();
    let snapshot = region.snapshot().unwrap();
    region.write(100, b"beside").unwrap();
    region.lengthen_runs(8192).unwrap();
    region.write(100, b"behind").unwrap();
    region.write(8000, b"more").unwrap();
    let mut now = vec![0; 8192];
    region.read(0, &mut now);
    assert_eq!((&now[100..106], &now[8000..8004]), (&b"behind"[..], &b"more"[..]));
    assert!(now[106..8000].iter().all(|&byte| byte == 0));
    assert_eq!((snapshot.run_bytes(), &snapshot.run(0).unwrap()[100..106]), (128, &b"before"[..]));
    drop((region, snapshot));
    assert_eq!(pool.used(), 0);
}

/// The label and the content of each run. Runs have different lengths.
type Runs = Vec<(Label, Vec<u8>)>;

fn check_runs(snapshot: &EpochSnapshot, runs: &Runs) {
    for (index, (label, want)) in runs.iter().enumerate() {
        let (run, found) = snapshot.labelled_run(index).unwrap();
        assert!(found == *label && run[..] == want[..], "run {index} of {snapshot:?}");
    }
}

#[test]
fn runs_are_replaced_by_longer_and_shorter_ones() {
    for seed in 0..if cfg!(miri) { 2 } else { 20 } {
        let pool = Pool::new(1 << 30);
        let mut rnd = StdRng::seed_from_u64(seed);
        let mut region = EpochRegion::automatic(&pool, LINE);
        let mut model = Runs::new();
        let mut bytes = 0;
        let (send, receive) = mpsc::channel::<(EpochSnapshot, Runs)>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut held: Vec<(EpochSnapshot, Runs)> = Vec::new();
                for (snapshot, runs) in receive {
                    check_runs(&snapshot, &runs);
                    held.push((snapshot, runs));
                    if held.len() > 5 {
                        let (snapshot, runs) = held.swap_remove((held.len() * seed as usize) % 6);
                        check_runs(&snapshot, &runs);
                    }
                }
            });
            for step in 0..if cfg!(miri) { 100 } else { 2000 } {
                match rnd.random_range(0..20) {
                    0..2 if model.len() < 24 => {
                        region.push_run().unwrap();
                        model.push((0, vec![0; LINE]));
                        bytes += LINE;
                    }
                    2..4 if !model.is_empty() => {
                        let run = rnd.random_range(0..model.len());
                        let (label, length) = (step as Label, LINE << rnd.random_range(0..9));
                        let kept = length.min(model[run].1.len());
                        let fill = |old: &[u8], new: &mut [u8]| new[..kept].copy_from_slice(&old[..kept]);
                        region.replace_run(run, length, label, fill).unwrap();
                        bytes = bytes + length - model[run].1.len();
                        model[run].1.truncate(kept);
                        model[run].1.resize(length, 0);
                        model[run].0 = label;
                    }
                    4 => send.send((region.snapshot().unwrap(), model.clone())).unwrap(),
                    5 => drop(region.tidy(2)),
                    _ if !model.is_empty() => {
                        let run = rnd.random_range(0..model.len());
                        let (label, content) = &mut model[run];
                        let at = rnd.random_range(0..content.len() / 8) * 8;
                        content[at..at + 8].fill(step as u8);
                        region.write_in(run, at, &[step as u8; 8]).unwrap();
                        assert_eq!((region.label(run), region.bytes_in(run, at, 8)), (*label, &content[at..at + 8]));
                    }
                    _ => {}
                }
                assert_eq!((region.bytes(), region.usage().bytes), (bytes as u64, bytes as u64));
            }
            drop(send);
        });
        check_runs(&region.snapshot().unwrap(), &model);
        drop(region);
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
    }
}

#[test]
fn a_replacement_without_memory_changes_nothing() {
    let pool = Pool::new(64 << 10);
    let mut region = EpochRegion::new(&pool, 8192);
    region.push_run().unwrap();
    region.write_in(0, 5000, b"kept").unwrap();
    let snapshot = region.snapshot().unwrap();
    region.write_in(0, 6000, b"later").unwrap();
    region.replace_run(0, 64 << 10, 7, |_, _| panic!("there is no room")).unwrap_err();
    assert_eq!((region.label(0), region.bytes()), (0, 8192));
    assert_eq!((region.bytes_in(0, 5000, 4), region.bytes_in(0, 6000, 5)), (&b"kept"[..], &b"later"[..]));
    assert_eq!(&snapshot.run(0).unwrap()[5000..5004], b"kept");
}
