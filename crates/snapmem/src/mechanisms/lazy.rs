//! Snapshots that are made only when they are needed (AnKer §3.2.1), of regions on any mechanism.
//!
//! ```text
//!   writer   w w | declare, declare |        w w          | declare |
//!                +-------+----------+      ^              +---------+---- nobody reads, nobody writes: never made
//!   reader               | first read: made here, else    |
//!                                            just before this write
//! ```
//!
//! Declaring a snapshot records a point in time. As long as the region has not changed since then, the snapshot can
//! still be made. It is made by the first reader, or by the writer when it is about to change the region, whichever
//! comes first. Snapshots that are declared without a change in between share one actual snapshot.
//!
//! Between a declaration and the next change, the region itself is stored in the point, behind a lock, where readers on
//! any thread find it. The writer takes the region out of the point before it writes, and then writes without a lock.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::memory::error::Error;
use crate::memory::overlay::Overlay;
use crate::memory::pool::Pool;
use crate::memory::region::{Region, Snapshot, Usage, locate};
use crate::memory::run::Run;

/// A region whose snapshots are made when they are first read, or when the region is about to change.
pub struct LazyRegion {
    held: Held,
    pool: Pool,
    /// The number of declared snapshots that still exist.
    live: Arc<AtomicU64>,
}

/// Where the region is stored.
enum Held {
    /// Here. The region may have changed since the last declaration.
    Here(Box<dyn Region>),
    /// In the point of the last declaration. The region has not changed since then.
    Declared(Arc<Point>),
}

/// A point in time at which snapshots were declared.
struct Point(Mutex<State>);

struct State {
    /// The region itself. It is absent once the writer has taken it out to change it.
    region: Option<Box<dyn Region>>,
    made: Option<Arc<dyn Snapshot>>,
    /// The number of snapshots declared at this point that still exist.
    declared: usize,
    /// Whether the writer's side was dropped, so that nobody will take the region out.
    abandoned: bool,
}

impl State {
    fn region(&self) -> &dyn Region {
        &**self.region.as_ref().expect("it lies here until the writer takes it")
    }

    /// The actual snapshot at this point. It is made if it does not exist yet.
    fn make(&mut self) -> Result<Arc<dyn Snapshot>, Error> {
        if let Some(made) = &self.made {
            return Ok(made.clone());
        }
        let region = self.region.as_mut().expect("the writer has the snapshot made before it takes the region");
        let made: Arc<dyn Snapshot> = region.snapshot()?.into();
        self.made = Some(made.clone());
        if self.abandoned {
            self.region = None;
        }
        Ok(made)
    }
}

impl LazyRegion {
    pub fn new(region: Box<dyn Region>, pool: &Pool) -> LazyRegion {
        LazyRegion { held: Held::Here(region), pool: pool.clone(), live: Arc::default() }
    }

    /// Calls `at` with the region, for reading.
    fn look<T>(&self, at: impl FnOnce(&dyn Region) -> T) -> T {
        match &self.held {
            Held::Here(region) => at(&**region),
            Held::Declared(point) => at(point.0.lock().region()),
        }
    }

    /// The region, for writing. If a snapshot was declared since the last change, the actual snapshot is made first.
    #[inline]
    fn change(&mut self) -> Result<&mut dyn Region, Error> {
        if let Held::Declared(point) = &self.held {
            let mut state = point.0.lock();
            if state.declared > 0 {
                state.make()?;
            }
            let region = state.region.take().expect("it lies here until the writer takes it");
            drop(state);
            self.held = Held::Here(region);
        }
        match &mut self.held {
            Held::Here(region) => Ok(&mut **region),
            Held::Declared(_) => unreachable!("the region has just been taken out"),
        }
    }

    /// The point to which a declaration made now belongs.
    fn declare(&mut self) -> &Arc<Point> {
        if let Held::Here(_) = self.held {
            let state = State { region: None, made: None, declared: 0, abandoned: false };
            let point = Arc::new(Point(Mutex::new(state)));
            if let Held::Here(region) = std::mem::replace(&mut self.held, Held::Declared(point.clone())) {
                point.0.lock().region = Some(region);
            }
        }
        match &self.held {
            Held::Declared(point) => point,
            Held::Here(_) => unreachable!("the region has just been put into a point"),
        }
    }
}

impl Region for LazyRegion {
    fn len(&self) -> usize {
        self.look(|region| region.len())
    }

    fn run_bytes(&self) -> usize {
        self.look(|region| region.run_bytes())
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        self.change()?.grow(len)
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.change()?.write(offset, bytes)
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        self.look(|region| region.read(offset, into));
    }

    /// Declares a snapshot. This cannot fail.
    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        let point = self.declare().clone();
        let mut state = point.0.lock();
        state.declared += 1;
        let (len, run_bytes) = (state.region().len(), state.region().run_bytes());
        drop(state);
        self.live.fetch_add(1, Ordering::Relaxed);
        let (patches, live) = (Overlay::new(&self.pool), self.live.clone());
        Ok(Box::new(LazySnapshot { point, made: OnceLock::new(), len, run_bytes, patches, live }))
    }

    /// The region's usage, with the number of declared snapshots, whether they were made or not.
    fn usage(&self) -> Usage {
        Usage { snapshots: self.live.load(Ordering::Relaxed), ..self.look(|region| region.usage()) }
    }
}

impl Drop for LazyRegion {
    fn drop(&mut self) {
        if let Held::Declared(point) = &self.held {
            let mut state = point.0.lock();
            state.abandoned = true;
            let needless = if state.made.is_some() { state.region.take() } else { None };
            drop(state);
            drop(needless);
        }
    }
}

struct LazySnapshot {
    point: Arc<Point>,
    /// The actual snapshot, once it is known, so that reads need not lock the point.
    made: OnceLock<Arc<dyn Snapshot>>,
    len: usize,
    run_bytes: usize,
    patches: Overlay,
    /// The number of declared snapshots of the region that still exist.
    live: Arc<AtomicU64>,
}

impl LazySnapshot {
    fn made(&self) -> Result<&dyn Snapshot, Error> {
        if let Some(made) = self.made.get() {
            return Ok(&**made);
        }
        let made = self.point.0.lock().make()?;
        Ok(&**self.made.get_or_init(|| made))
    }
}

impl Snapshot for LazySnapshot {
    fn len(&self) -> usize {
        self.len
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn run(&self, index: usize) -> Result<Run, Error> {
        match self.patches.run(index) {
            Some(patched) => Ok(patched),
            None => self.made()?.run(index),
        }
    }

    /// Patches a private copy of the run, because other declared snapshots may share the actual snapshot.
    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (index, within) = locate(self.len, self.run_bytes, offset, bytes.len());
        self.made()?;
        let made = self.made.get().expect("it has just been made");
        self.patches.patch(index, within, bytes, || made.run(index))
    }
}

/// When the last snapshot that was declared at a point is dropped, the actual snapshot is dropped, too.
impl Drop for LazySnapshot {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.point.0.lock();
        state.declared -= 1;
        let needless = if state.declared == 0 { state.made.take() } else { None };
        drop(state);
        drop(needless);
    }
}

impl Debug for LazySnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LazySnapshot").field("len", &self.len).field("made", &self.made).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::mechanisms::physical::PhysicalRegion;
    use crate::mechanisms::rewired::RewiredRegion;
    use crate::testing;

    const RUN: usize = 16 << 10;

    /// A lazy region, and a function that counts the actual snapshots.
    fn lazy(pool: &Pool) -> (LazyRegion, impl Fn() -> u64) {
        let region = PhysicalRegion::with_threads(pool, RUN, 1);
        let made = pool.clone();
        (LazyRegion::new(Box::new(region), pool), move || made.snapshots())
    }

    #[test]
    fn equals_a_plain_vector() {
        let _others_may = testing::AREAS.read();
        testing::equals_a_model(256, |pool| {
            Box::new(LazyRegion::new(Box::new(PhysicalRegion::with_threads(pool, 256, 2)), pool))
        });
        let rewired = |pool: &Pool| -> Box<dyn Region> {
            Box::new(LazyRegion::new(Box::new(RewiredRegion::new(pool, RUN).unwrap()), pool))
        };
        testing::equals_a_model(RUN, rewired);
        testing::returns_all_memory(RUN, rewired);
    }

    #[test]
    fn is_made_by_the_first_read_and_shared() {
        let pool = Pool::new(1 << 20);
        let (mut region, made) = lazy(&pool);
        region.grow(RUN).unwrap();
        let declared: Vec<_> = (0..3).map(|_| region.snapshot().unwrap()).collect();
        assert_eq!((made(), region.usage().snapshots), (0, 3));
        assert_eq!(declared[1].run(0).unwrap()[0], 0);
        assert_eq!(made(), 1);
        region.write(0, &[1]).unwrap();
        assert_eq!(made(), 1);
        assert!(declared.iter().all(|snapshot| snapshot.run(0).unwrap()[0] == 0));
        let later = region.snapshot().unwrap();
        assert_eq!(later.run(0).unwrap()[0], 1);
        assert_eq!(made(), 2);
        drop(declared);
        assert_eq!(made(), 1);
    }

    #[test]
    fn is_made_just_before_a_change_if_anybody_still_wants_it() {
        let pool = Pool::new(1 << 20);
        let (mut region, made) = lazy(&pool);
        region.grow(RUN).unwrap();
        drop(region.snapshot().unwrap());
        region.write(0, &[1]).unwrap();
        assert_eq!(made(), 0);
        let wanted = region.snapshot().unwrap();
        region.write(0, &[2]).unwrap();
        assert_eq!((made(), wanted.run(0).unwrap()[0]), (1, 1));
        let before_growth = region.snapshot().unwrap();
        region.grow(2 * RUN).unwrap();
        assert_eq!((before_growth.len(), testing::content(&*before_growth).len()), (RUN, RUN));
    }

    #[test]
    fn a_patch_stays_in_one_of_those_that_share() {
        let pool = Pool::new(1 << 20);
        let (mut region, _) = lazy(&pool);
        region.grow(RUN).unwrap();
        let (mut patched, other) = (region.snapshot().unwrap(), region.snapshot().unwrap());
        patched.patch(0, &[7]).unwrap();
        assert_eq!((patched.run(0).unwrap()[0], other.run(0).unwrap()[0]), (7, 0));
    }

    #[test]
    fn outlives_the_region_made_or_not() {
        let pool = Pool::new(1 << 20);
        for read_before in [false, true] {
            let (mut region, _) = lazy(&pool);
            region.grow(RUN).unwrap();
            region.write(0, &[1]).unwrap();
            let snapshot = region.snapshot().unwrap();
            if read_before {
                snapshot.run(0).unwrap();
            }
            drop(region);
            assert_eq!(snapshot.run(0).unwrap()[0], 1);
            // Only the copied run is still in use.
            assert_eq!(pool.used(), RUN as u64);
            drop(snapshot);
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn what_cannot_be_made_now_can_be_later() {
        let pool = Pool::new(2 * RUN as u64);
        let (mut region, _) = lazy(&pool);
        region.grow(RUN).unwrap();
        let snapshot = region.snapshot().unwrap();
        let mut other = pool.charge();
        other.set(RUN as u64).unwrap();
        assert!(snapshot.run(0).is_err() && region.write(0, &[1]).is_err() && region.grow(2 * RUN).is_err());
        assert_eq!(testing::content_of_region(&region), [0; RUN]);
        drop(other);
        region.write(0, &[1]).unwrap();
        assert_eq!(snapshot.run(0).unwrap()[0], 0);
    }

    /// A reader and the writer may make the same snapshot at the same time. A run never mixes the content of two
    /// points.
    #[test]
    fn readers_and_the_writer_may_come_at_the_same_time() {
        let pool = Pool::new(1 << 30);
        let (mut region, _) = lazy(&pool);
        region.grow(RUN).unwrap();
        thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (send, snapshots) = mpsc::sync_channel::<(Box<dyn Snapshot>, u8)>(2);
                    scope.spawn(move || {
                        snapshots
                            .iter()
                            .for_each(|(snapshot, value)| assert_eq!(snapshot.run(0).unwrap()[..], [value; RUN]))
                    });
                    send
                })
                .collect();
            for i in 0..2_000 {
                let value = i as u8;
                region.write(0, &[value; RUN]).unwrap();
                readers[i % 2].send((region.snapshot().unwrap(), value)).unwrap();
                if i % 3 == 0 {
                    readers[1].send((region.snapshot().unwrap(), value)).unwrap();
                }
            }
        });
        assert_eq!((pool.used(), pool.snapshots()), (RUN as u64, 0));
    }
}
