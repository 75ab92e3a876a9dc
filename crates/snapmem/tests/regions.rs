//! Regions against plain vectors, readers against a busy writer, and what happens at the limit.

use std::sync::mpsc::{self, TrySendError};
use std::thread;

use anker_snapmem::{FrameRef, LegacyRegion as Region, LegacySnapshot as Snapshot, Pool};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const FRAME: usize = 256;

/// What a region or a snapshot must hold.
type Model = Vec<Vec<u8>>;

fn check(snapshot: &Snapshot, model: &Model) {
    assert_eq!(snapshot.frame_count(), model.len());
    model.iter().enumerate().for_each(|(i, frame)| assert_eq!(&snapshot.frame(i)[..], &frame[..], "frame {i}"));
}

/// Random writes, growth, snapshots and patches; snapshots and single frames are checked and dropped by other threads
/// in whatever order they come to it.
#[test]
fn regions_and_snapshots_equal_plain_vectors() {
    for seed in 0..200 {
        let pool = Pool::new(64 << 20);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let (send, receive) = mpsc::channel::<(Snapshot, Model)>();
                    scope.spawn(move || {
                        let mut rnd = StdRng::seed_from_u64(seed);
                        let mut held: Vec<(Snapshot, Model)> = Vec::new();
                        let mut frames: Vec<(FrameRef, Vec<u8>)> = Vec::new();
                        for (snapshot, model) in receive {
                            check(&snapshot, &model);
                            if !model.is_empty() {
                                let i = rnd.random_range(0..model.len());
                                frames.push((snapshot.frame(i).clone(), model[i].clone()));
                            }
                            held.push((snapshot, model));
                            if held.len() > 4 {
                                let (snapshot, model) = held.swap_remove(rnd.random_range(0..held.len()));
                                check(&snapshot, &model);
                            }
                        }
                        held.iter().for_each(|(snapshot, model)| check(snapshot, model));
                        drop(held);
                        // A frame outlives every snapshot that had it.
                        frames.iter().for_each(|(frame, bytes)| assert_eq!(&frame[..], &bytes[..]));
                    });
                    send
                })
                .collect();
            let mut rnd = StdRng::seed_from_u64(seed);
            let mut region = Region::new(&pool, FRAME);
            let mut model: Model = Vec::new();
            for _ in 0..300 {
                match rnd.random_range(0..10) {
                    0 if model.len() < 40 => {
                        region.grow().unwrap();
                        model.push(vec![0; FRAME]);
                    }
                    1..8 if !model.is_empty() => {
                        let (frame, byte) = (rnd.random_range(0..model.len()), rnd.random_range(0..FRAME));
                        let value = rnd.random();
                        region.write(frame).unwrap()[byte] = value;
                        model[frame][byte] = value;
                    }
                    _ => {
                        let mut snapshot = region.snapshot().unwrap();
                        let mut seen = model.clone();
                        for _ in 0..rnd.random_range(0..4).min(10 * model.len()) {
                            let (frame, byte) = (rnd.random_range(0..model.len()), rnd.random_range(0..FRAME));
                            snapshot.patch(frame).unwrap()[byte] ^= 0x55;
                            seen[frame][byte] ^= 0x55;
                        }
                        readers[rnd.random_range(0..readers.len())].send((snapshot, seen)).unwrap();
                    }
                }
                if let Some(frame) = (!model.is_empty()).then(|| rnd.random_range(0..model.len())) {
                    assert_eq!(region.read(frame), &model[frame][..], "seed {seed}");
                }
            }
            drop(region);
            drop(readers);
        });
        assert_eq!((pool.used(), pool.snapshots()), (0, 0), "seed {seed}");
    }
}

/// Two counters at the ends of every frame are always changed together: a torn snapshot would show them apart.
#[test]
fn snapshots_are_not_torn_while_the_writer_runs_flat_out() {
    let pool = Pool::new(64 << 20);
    let mut region = Region::new(&pool, 4096);
    (0..64).for_each(|_| region.grow().unwrap());
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel::<Snapshot>(4);
        scope.spawn(move || {
            for snapshot in receive.into_iter().take(2000) {
                let sums = || (0..64).map(|i| checksum(snapshot.frame(i))).collect::<Vec<_>>();
                let before = sums();
                for i in 0..64 {
                    let frame = snapshot.frame(i);
                    assert_eq!(frame[..8], frame[4088..], "frame {i}");
                }
                assert_eq!(sums(), before);
            }
        });
        let mut rnd = StdRng::seed_from_u64(1);
        let mut written = 0u64;
        loop {
            for _ in 0..100 {
                written += 1;
                let frame = region.write(rnd.random_range(0..64)).unwrap();
                frame[..8].copy_from_slice(&written.to_le_bytes());
                frame[4088..].copy_from_slice(&written.to_le_bytes());
            }
            if let Err(TrySendError::Disconnected(_)) = send.try_send(region.snapshot().unwrap()) {
                break;
            }
        }
    });
    assert!(pool.copied() > 0);
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(17, |sum, &byte| sum.rotate_left(5) ^ byte as u64)
}

#[test]
fn at_the_limit_everything_stays_as_it_was() {
    let pool = Pool::new(8 * FRAME as u64);
    let mut region = Region::new(&pool, FRAME);
    for i in 0..6 {
        region.grow().unwrap();
        region.write(i).unwrap().fill(i as u8);
    }
    let mut snapshot = region.snapshot().unwrap();
    region.write(0).unwrap()[0] = 100;
    snapshot.patch(1).unwrap()[0] = 101;
    // The room is used up: whatever would need a copy or a frame more is refused.
    assert!(region.write(2).is_err() && snapshot.patch(3).is_err() && region.grow().is_err());
    assert_eq!((region.frame_count(), pool.used()), (6, pool.limit()));
    for i in 0..6u8 {
        let (first, patched) = (if i == 0 { 100 } else { i }, if i == 1 { 101 } else { i });
        assert_eq!((region.read(i as usize)[0], region.read(i as usize)[1]), (first, i));
        assert_eq!((snapshot.frame(i as usize)[0], snapshot.frame(i as usize)[1]), (patched, i));
    }
    // What is private already, or becomes so, can still be written.
    region.write(0).unwrap()[1] = 7;
    drop(snapshot);
    region.write(2).unwrap()[0] = 8;
    assert_eq!(pool.used(), 6 * FRAME as u64);
}

#[test]
fn memory_returns_after_many_snapshots() {
    let pool = Pool::new(1 << 20);
    let mut region = Region::new(&pool, 4096);
    (0..32).for_each(|_| region.grow().unwrap());
    let used = pool.used();
    let mut rnd = StdRng::seed_from_u64(3);
    let mut alive = Vec::new();
    for _ in 0..10_000 {
        alive.push(region.snapshot().unwrap());
        if alive.len() > 5 {
            alive.swap_remove(rnd.random_range(0..alive.len()));
        }
        region.write(rnd.random_range(0..32)).unwrap()[0] ^= 1;
        assert_eq!(pool.snapshots(), alive.len() as u64);
    }
    assert!(pool.copied() > 1000 * 4096);
    drop(alive);
    assert_eq!((pool.used(), pool.snapshots()), (used, 0));
}
