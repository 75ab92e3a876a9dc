//! Extents on a mechanism that has only runs of one length in each region.

use std::fmt::{self, Debug};
use std::sync::Arc;

use crate::mechanism::Mechanism;
use crate::mechanisms::epochs::is_run;
use crate::memory::error::OutOfMemory;
use crate::memory::pool::{FrameRef, Pool};
use crate::memory::region::{InPlace, Label, Snapshot};
use crate::memory::run::Run;
use crate::memory::sys::PAGE;

pub(super) struct Regions {
    mechanism: Mechanism,
    lengths: Lengths,
    classes: Vec<Option<Class>>,
    directory: Arc<Vec<Place>>,
    /// The length of a run that is appended.
    run_bytes: usize,
    /// The length of all runs together.
    bytes: u64,
    pool: Pool,
}

/// A region for the runs of one length. Each run of the region is a place, in which one run of the extents lies or
/// which is free.
struct Class {
    region: Box<dyn InPlace>,
    used: usize,
    /// The free places. The list has capacity for all places of the region, so that freeing one cannot fail.
    free: Vec<usize>,
}

/// The place at which a run lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    label: Label,
    /// The index of the place in the region of its class.
    index: usize,
    /// The binary logarithm of the run's length. The place may be longer, because a mechanism may have a least length.
    bits: u8,
}

impl Place {
    fn bytes(self) -> usize {
        1 << self.bits
    }
}

/// The mapping from lengths of runs to classes, that is, to indexes of regions.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    least_bits: u8,
}

impl Lengths {
    fn of(mechanism: Mechanism) -> Lengths {
        Lengths { least_bits: mechanism.least_run().ilog2() as u8 }
    }

    #[inline]
    fn class(self, bits: u8) -> usize {
        bits.saturating_sub(self.least_bits).into()
    }

    /// The length of the place for a run of length 2^`bits`.
    #[inline]
    fn place_bytes(self, bits: u8) -> usize {
        1 << bits.max(self.least_bits)
    }

    /// The offset of a run's bytes in its region.
    #[inline]
    fn offset(self, place: Place) -> usize {
        place.index * self.place_bytes(place.bits)
    }
}

/// These functions are not inlined into [`Extents`], so that the loops of callers that use epochs stay small.
impl Regions {
    pub fn new(pool: &Pool, mechanism: Mechanism, run_bytes: usize) -> Regions {
        assert!(is_run(run_bytes));
        let (lengths, classes, directory) = (Lengths::of(mechanism), Vec::new(), Arc::default());
        Regions { mechanism, lengths, classes, directory, run_bytes, bytes: 0, pool: pool.clone() }
    }

    pub fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    pub fn run_count(&self) -> usize {
        self.directory.len()
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn push_run(&mut self) -> Result<(), OutOfMemory> {
        self.own_directory(1)?;
        let place = self.take(self.run_bytes, 0)?;
        let zeros = self.pool.frame(self.run_bytes);
        if let Err(refused) = zeros.and_then(|zeros| self.write(place, 0, &zeros)) {
            self.give_back(place);
            return Err(refused);
        }
        self.own_directory(1)?.push(place);
        self.bytes += self.run_bytes as u64;
        Ok(())
    }

    pub fn lengthen_runs(&mut self, run_bytes: usize) -> Result<(), OutOfMemory> {
        let before = self.run_bytes;
        assert!(self.directory.len() <= 1 && run_bytes >= before, "only the first run becomes longer");
        if !self.directory.is_empty() {
            self.replace_run(0, run_bytes, 0, |old, new| new[..before].copy_from_slice(old))?;
        }
        self.run_bytes = run_bytes;
        Ok(())
    }

    pub fn replace_run(
        &mut self,
        run: usize,
        bytes: usize,
        label: Label,
        fill: impl FnOnce(&[u8], &mut [u8]),
    ) -> Result<(), OutOfMemory> {
        assert!(is_run(bytes));
        self.own_directory(0)?;
        let old = self.directory[run];
        let mut new = self.pool.frame(bytes)?;
        let content = self.content(old)?;
        fill(&content, new.get_mut().expect("the frame is new"));
        drop(content);

        let bits = bytes.ilog2() as u8;
        let stays = self.lengths.class(bits) == self.lengths.class(old.bits);
        let place = match stays {
            true => Place { label, bits, ..old },
            false => self.take(bytes, label)?,
        };
        if let Err(refused) = self.write(place, 0, &new) {
            if !stays {
                self.give_back(place);
            }
            return Err(refused);
        }
        self.own_directory(0)?[run] = place;
        if !stays {
            self.give_back(old);
        }
        self.bytes = self.bytes + bytes as u64 - old.bytes() as u64;
        Ok(())
    }

    #[inline(never)]
    pub fn bytes_in(&self, run: usize, within: usize, len: usize) -> &[u8] {
        let place = self.directory[run];
        check(place, within, len);
        self.class(place).region.bytes_in_place(self.lengths.offset(place) + within, len)
    }

    #[inline(never)]
    pub fn write_in(&mut self, run: usize, within: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let place = self.directory[run];
        check(place, within, bytes.len());
        self.write(place, within, bytes)
    }

    pub fn snapshot(&mut self) -> Result<RegionsSnapshot, OutOfMemory> {
        let mut regions = Vec::new();
        reserve(&mut regions, self.classes.len(), &self.pool)?;
        for class in &mut self.classes {
            regions.push(class.as_mut().map(|class| class.region.snapshot()).transpose()?);
        }
        let (directory, run_bytes) = (self.directory.clone(), self.run_bytes);
        Ok(RegionsSnapshot { lengths: self.lengths, regions, directory, run_bytes })
    }

    fn class(&self, place: Place) -> &Class {
        self.classes[self.lengths.class(place.bits)].as_ref().expect("a run has a region")
    }

    fn write(&mut self, place: Place, within: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let class = self.classes[self.lengths.class(place.bits)].as_mut().expect("a run has a region");
        let offset = self.lengths.offset(place) + within;
        relieved(&self.pool, bytes.len(), || Ok(class.region.write(offset, bytes)?))
    }

    /// A copy of a run.
    fn content(&self, place: Place) -> Result<FrameRef, OutOfMemory> {
        let mut content = self.pool.any_frame(place.bytes())?;
        let bytes = content.get_mut().expect("the frame is new");
        self.class(place).region.read(self.lengths.offset(place), bytes);
        Ok(content)
    }

    /// A place for a run: a free one, or a new one. Its content is undefined.
    fn take(&mut self, bytes: usize, label: Label) -> Result<Place, OutOfMemory> {
        let bits = bytes.ilog2() as u8;
        let (at, place_bytes) = (self.lengths.class(bits), self.lengths.place_bytes(bits));
        let missing = (at + 1).saturating_sub(self.classes.len());
        reserve(&mut self.classes, missing, &self.pool)?;
        self.classes.resize_with(self.classes.len() + missing, || None);
        let class = match &mut self.classes[at] {
            Some(class) => class,
            none => none.insert(Class {
                // A region asks for memory while it holds locks that snapshots need in order to end. Relief waits for
                // snapshots to end, so the region's pool must not ask for it. [`relieved`] asks for relief instead,
                // without a lock.
                region: self.mechanism.in_place(&self.pool.unrelieved(), place_bytes)?,
                used: 0,
                free: Vec::new(),
            }),
        };
        let index = class.free.pop().map_or_else(|| class.append(place_bytes, &self.pool), Ok);
        class.used += usize::from(index.is_ok());
        if class.used == 0 {
            self.classes[at] = None;
        }
        Ok(Place { label, index: index?, bits })
    }

    /// Frees the place of a run that only snapshots still see. When the last run of a length is freed, its region is
    /// dropped.
    fn give_back(&mut self, place: Place) {
        let at = self.lengths.class(place.bits);
        let class = self.classes[at].as_mut().expect("a run has a region");
        class.free.push(place.index);
        class.used -= 1;
        if class.used == 0 {
            self.classes[at] = None;
        }
    }

    /// The directory, for writing, with room for `more` places. It is copied if a snapshot shares it.
    fn own_directory(&mut self, more: usize) -> Result<&mut Vec<Place>, OutOfMemory> {
        if Arc::get_mut(&mut self.directory).is_none() {
            let mut copy = Vec::new();
            reserve(&mut copy, self.directory.len() + more, &self.pool)?;
            copy.extend_from_slice(&self.directory);
            self.directory = Arc::new(copy);
        }
        let directory = Arc::get_mut(&mut self.directory).expect("no snapshot has been taken meanwhile");
        reserve(directory, more, &self.pool)?;
        Ok(directory)
    }
}

impl Class {
    fn append(&mut self, place_bytes: usize, pool: &Pool) -> Result<usize, OutOfMemory> {
        let count = self.region.len() / place_bytes;
        reserve(&mut self.free, count + 1, pool)?;
        relieved(pool, place_bytes, || Ok(self.region.grow((count + 1) * place_bytes)?))?;
        Ok(count)
    }
}

impl Debug for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regions({}, {} runs, {} bytes)", self.mechanism, self.run_count(), self.bytes)
    }
}

/// Calls `attempt`. If it fails for lack of memory, asks for relief, and calls it again if `bytes` bytes are free then.
/// A mechanism takes memory for each page that the bytes touch, so each page may be refused once.
fn relieved<T>(
    pool: &Pool,
    bytes: usize,
    mut attempt: impl FnMut() -> Result<T, OutOfMemory>,
) -> Result<T, OutOfMemory> {
    for _ in 0..bytes / PAGE + 2 {
        match attempt() {
            Err(OutOfMemory::Limit { wanted, .. }) if pool.make_room(wanted.max(bytes as u64)) => {}
            result => return result,
        }
    }
    attempt()
}

#[inline]
fn check(place: Place, within: usize, len: usize) {
    assert!(within <= place.bytes() && len <= place.bytes() - within, "not within the run");
}

fn reserve<T>(list: &mut Vec<T>, more: usize, pool: &Pool) -> Result<(), OutOfMemory> {
    let wanted = (more * size_of::<T>()) as u64;
    list.try_reserve(more).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })
}

#[derive(Debug)]
pub(super) struct RegionsSnapshot {
    lengths: Lengths,
    /// The snapshots of the regions, by class.
    regions: Vec<Option<Box<dyn Snapshot>>>,
    directory: Arc<Vec<Place>>,
    /// The length of every run. It is used only if bytes are addressed by their offset.
    run_bytes: usize,
}

impl RegionsSnapshot {
    pub fn run_count(&self) -> usize {
        self.directory.len()
    }

    #[inline(never)]
    pub fn labelled_run(&self, index: usize) -> Result<(Run, Label), OutOfMemory> {
        let place = self.directory[index];
        let region = self.regions[self.lengths.class(place.bits)].as_ref().expect("a run has a region");
        Ok((region.run(place.index)?.shortened(place.bytes()), place.label))
    }

    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfMemory> {
        let (run, _) = self.labelled_run(offset / self.run_bytes)?;
        into.copy_from_slice(&run[offset % self.run_bytes..][..into.len()]);
        Ok(())
    }

    pub fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let (place, within) = (self.directory[offset / self.run_bytes], offset % self.run_bytes);
        check(place, within, bytes.len());
        let region = self.regions[self.lengths.class(place.bits)].as_mut().expect("a run has a region");
        Ok(region.patch(self.lengths.offset(place) + within, bytes)?)
    }
}
