//! Readers on other threads while the writer runs at full speed.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use anker_snapmem::{Pool, Snapshot};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Subject, scaled};

/// A sum over all words of a region. Each word is multiplied by a weight that depends on its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checksum(u64);

impl Checksum {
    fn weight(word: usize) -> u64 {
        (word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
    }

    /// Updates the sum after a word has changed from `from` to `to`.
    fn change(&mut self, word: usize, from: u64, to: u64) {
        self.0 = self.0.wrapping_add(to.wrapping_sub(from).wrapping_mul(Checksum::weight(word)));
    }

    fn of(snapshot: &dyn Snapshot) -> Checksum {
        let words_in_run = snapshot.run_bytes() / 8;
        let mut sum = Checksum(0);
        for i in 0..snapshot.len() / snapshot.run_bytes() {
            let run = snapshot.run(i).expect("memory for a run");
            for (word, bytes) in run.as_chunks::<8>().0.iter().enumerate() {
                sum.change(i * words_in_run + word, 0, u64::from_le_bytes(*bytes));
            }
        }
        sum
    }
}

/// The writer always knows the sum that every snapshot must have. Readers check each snapshot twice, hold several of
/// them, and drop them while the writer writes.
pub fn checksums_hold_while_the_writer_runs_flat_out(subject: Subject) {
    let (runs, writes) = if cfg!(miri) { (2, 40) } else { ((1 << 20) / subject.run_bytes, 400) };
    let pool = Pool::new(1 << 30);
    let mut region = subject.region_of(&pool, runs);
    let words = region.len() / 8;
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|seed| {
                let (sender, receiver) = mpsc::sync_channel::<(Arc<dyn Snapshot>, Checksum)>(8);
                scope.spawn(move || {
                    let mut rnd = StdRng::seed_from_u64(seed);
                    let mut held = Vec::new();
                    for (snapshot, wanted) in receiver {
                        assert_eq!(Checksum::of(&*snapshot), wanted, "{snapshot:?} just taken");
                        held.push((snapshot, wanted));
                        if held.len() > 6 {
                            let (snapshot, wanted) = held.swap_remove(rnd.random_range(0..held.len()));
                            assert_eq!(Checksum::of(&*snapshot), wanted, "{snapshot:?} later");
                        }
                    }
                });
                sender
            })
            .collect();
        let mut rnd = StdRng::seed_from_u64(7);
        let mut sum = Checksum(0);
        for i in 0..scaled(600) {
            for _ in 0..rnd.random_range(0..writes) {
                // Half of the writes go to one run, so that it is written again and again.
                let among = if rnd.random() { words } else { subject.run_bytes / 8 };
                let word = rnd.random_range(0..among);
                let (mut from, to) = ([0; 8], rnd.random());
                region.read(word * 8, &mut from);
                region.write(word * 8, &u64::to_le_bytes(to)).unwrap();
                sum.change(word, u64::from_le_bytes(from), to);
            }
            let snapshot: Arc<dyn Snapshot> = region.snapshot().unwrap().into();
            // Sometimes both readers get the same snapshot. A reader that has enough snapshots must not make the writer
            // wait.
            for reader in readers.iter().skip(i % 2).take(1 + i % 3) {
                if i % 10 == 0 {
                    reader.send((snapshot.clone(), sum)).expect("the reader is there");
                } else {
                    drop(reader.try_send((snapshot.clone(), sum)));
                }
            }
        }
    });
    // Some mechanisms free the memory of ended snapshots only when the writer next writes to the same run.
    assert!(pool.used() as usize <= region.len() + region.len() / 4);
    (0..runs).for_each(|run| region.write(run * subject.run_bytes, &[1]).unwrap());
    assert_eq!((pool.used() as usize, pool.snapshots()), (region.len(), 0));
}
