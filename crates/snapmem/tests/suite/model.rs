//! The property that regions and snapshots always equal plain vectors, whatever is done to them, in any order.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anker_snapmem::{Pool, Region, Run, Snapshot};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{Subject, check_bytes, check_region, check_snapshot, for_seeds};

const READERS: usize = 3;
const MAX_REGIONS: usize = 4;
const MAX_RUNS: usize = if cfg!(miri) { 3 } else { 12 };
const STEPS: usize = if cfg!(miri) { 100 } else { 400 };

/// A snapshot with the content that it must have.
type Seen = (Arc<dyn Snapshot>, Arc<Vec<u8>>);

/// A region with the content that it must have.
struct Column {
    region: Box<dyn Region>,
    model: Vec<u8>,
}

/// Compares regions with plain vectors. One writer makes random writes, growth, snapshots of some regions with patches,
/// new regions and dropped ones. Readers on their own threads check, share and drop the snapshots, and keep runs longer
/// than the snapshots.
pub fn equals_plain_vectors(subject: Subject) {
    for_seeds(if subject.run_bytes < 4096 { 60 } else { 25 }, |seed| {
        let pool = Pool::new(4 << 30);
        thread::scope(|scope| {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..READERS).map(|_| mpsc::channel::<Seen>()).unzip();
            for (i, receiver) in receivers.into_iter().enumerate() {
                scope.spawn(move || read(receiver, seed + 1000 * i as u64));
            }
            let mut writer = Writer {
                rnd: StdRng::seed_from_u64(seed),
                columns: Vec::new(),
                hot: 0,
                subject,
                pool: &pool,
                readers: senders,
            };
            (0..STEPS).for_each(|_| writer.step());
            writer.columns.iter().for_each(|column| check_region(&*column.region, &column.model));
            // Half of the regions are dropped while snapshots of them are alive.
            writer.columns.truncate(MAX_REGIONS / 2);
            writer.readers.clear();
        });
        assert_eq!((pool.used(), pool.snapshots()), (0, 0));
    });
}

struct Writer<'a> {
    rnd: StdRng,
    columns: Vec<Column>,
    /// An offset at which many writes happen, so that some lines and pages are written again and again.
    hot: usize,
    subject: Subject,
    pool: &'a Pool,
    readers: Vec<Sender<Seen>>,
}

impl Writer<'_> {
    fn step(&mut self) {
        match self.rnd.random_range(0..100) {
            _ if self.columns.is_empty() => self.create(),
            0 if self.columns.len() < MAX_REGIONS => self.create(),
            0 => drop(self.columns.swap_remove(self.rnd.random_range(0..self.columns.len()))),
            1..6 => self.grow(),
            6..16 => self.snapshot(),
            16..18 => self.hot = self.rnd.random_range(0..MAX_RUNS * self.subject.run_bytes),
            18..30 => self.check_some(),
            _ => self.write(),
        }
    }

    fn create(&mut self) {
        self.columns.push(Column { region: self.subject.region(self.pool), model: Vec::new() });
        self.grow();
    }

    fn any(&mut self) -> usize {
        self.rnd.random_range(0..self.columns.len())
    }

    fn grow(&mut self) {
        let (i, more) = (self.any(), self.rnd.random_range(0..3) * self.subject.run_bytes);
        let Column { region, model } = &mut self.columns[i];
        let len = (model.len() + more).min(MAX_RUNS * self.subject.run_bytes);
        region.grow(len).unwrap();
        model.resize(len, 0);
        // Growing to a smaller length changes nothing.
        region.grow(len / 2).unwrap();
        assert_eq!(region.len(), len);
    }

    /// An offset, and bytes within one run of a region of `len` bytes: few or many, aligned or not, often at offset
    /// `hot`.
    fn change(&mut self, len: usize) -> (usize, Vec<u8>) {
        let rnd = &mut self.rnd;
        let offset = match rnd.random_range(0..8) {
            0 => rnd.random_range(0..len / self.subject.run_bytes) * self.subject.run_bytes,
            1..4 => (self.hot + rnd.random_range(0..256)) % len,
            4 => rnd.random_range(0..len) & !4095,
            _ => rnd.random_range(0..len) & !7,
        };
        let room = self.subject.run_bytes - offset % self.subject.run_bytes;
        let longest = match rnd.random_range(0..20) {
            0 => room,
            1 => 9000,
            2 | 3 => 200,
            _ => 8,
        };
        let bytes = rnd.random_range(0..=longest.min(room));
        let first: u8 = rnd.random();
        (offset, (0..bytes).map(|i| first.wrapping_add(i as u8)).collect())
    }

    fn write(&mut self) {
        let i = self.any();
        if !self.columns[i].model.is_empty() {
            let (offset, bytes) = self.change(self.columns[i].model.len());
            let Column { region, model } = &mut self.columns[i];
            region.write(offset, &bytes).unwrap();
            model[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn check_some(&mut self) {
        let i = self.any();
        if !self.columns[i].model.is_empty() {
            let (offset, mut bytes) = self.change(self.columns[i].model.len());
            let Column { region, model } = &self.columns[i];
            region.read(offset, &mut bytes);
            check_bytes(&bytes, &model[offset..offset + bytes.len()], || format!("read at {offset}"));
        }
    }

    /// Takes snapshots of some regions at the same moment, that is, without a write in between.
    fn snapshot(&mut self) {
        for i in 0..self.columns.len() {
            if self.rnd.random_bool(0.5) {
                continue;
            }
            let mut snapshot = self.columns[i].region.snapshot().unwrap();
            let mut model = self.columns[i].model.clone();
            for _ in 0..self.rnd.random_range(0..4) {
                if !model.is_empty() {
                    let (offset, bytes) = self.change(model.len());
                    // A run that was read before the patch must not change.
                    let index = offset / self.subject.run_bytes;
                    let before = self.rnd.random_bool(0.3).then(|| snapshot.run(index).unwrap());
                    let wanted = before.as_deref().map(<[u8]>::to_vec);
                    snapshot.patch(offset, &bytes).unwrap();
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    assert_eq!(before.as_deref(), wanted.as_deref());
                }
            }
            let usage = self.columns[i].region.usage();
            assert_eq!(usage.bytes, self.columns[i].model.len() as u64);
            assert!(usage.snapshots > 0 && usage.shared_bytes <= usage.bytes, "{usage:?}");
            let seen: Seen = (snapshot.into(), Arc::new(model));
            // Sometimes two readers get the same snapshot.
            for _ in 0..self.rnd.random_range(1..3) {
                self.readers[self.rnd.random_range(0..READERS)].send(seen.clone()).unwrap();
            }
        }
    }
}

/// The thread of a reader. It holds some snapshots, and some runs whose snapshots it has dropped. It checks both now
/// and then.
fn read(snapshots: Receiver<Seen>, seed: u64) {
    let mut rnd = StdRng::seed_from_u64(seed);
    let mut held: Vec<Seen> = Vec::new();
    let mut runs: Vec<(Run, Vec<u8>)> = Vec::new();
    let hold = rnd.random_range(1..12);
    for (snapshot, model) in snapshots {
        if rnd.random_bool(0.5) {
            check_snapshot(&*snapshot, &model);
        }
        if !model.is_empty() {
            let i = rnd.random_range(0..model.len() / snapshot.run_bytes());
            let bytes = model.chunks(snapshot.run_bytes()).nth(i).unwrap();
            runs.push((snapshot.run(i).unwrap().clone(), bytes.to_vec()));
        }
        held.push((snapshot, model));
        while held.len() > hold {
            let (snapshot, model) = held.swap_remove(rnd.random_range(0..held.len()));
            check_snapshot(&*snapshot, &model);
        }
        while runs.len() > hold {
            let (run, bytes) = runs.swap_remove(rnd.random_range(0..runs.len()));
            check_bytes(&run, &bytes, || "a run that is kept".to_owned());
        }
    }
    held.drain(..).for_each(|(snapshot, model)| check_snapshot(&*snapshot, &model));
    runs.iter().for_each(|(run, bytes)| check_bytes(run, bytes, || "a run beyond its snapshot".to_owned()));
}
