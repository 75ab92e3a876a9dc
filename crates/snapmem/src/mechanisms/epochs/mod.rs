//! Copy-on-write in user space, one line at a time, by epochs.
//!
//! ```text
//!   frame   version born in 1 --------------> base [line 0][line 1][line 2] ...   written in place while no live
//!             |  log: (line 2, born in 7) (line 0, born in 9)                     snapshot can see it; otherwise
//!             |        the new content of each line                               the line is put aside, in the log
//!   snapshot of epoch 7 = base + the log's entries born in 7 or before
//! ```
//!
//! A snapshot is a number. Taking one adds the region's epoch to the list of live epochs and increments it; the cost
//! does not depend on the region's size. Frames have versions. A version, and each entry of its log, is born in an
//! epoch, and the snapshots from that epoch on see it. Before a write, the writer compares the birth of the content
//! with the newest live snapshot. If the content was born later, no snapshot sees it, and it is changed in place.
//! Otherwise the writer
//!
//! - appends the changed line to the frame's log, which costs 64 bytes instead of a frame or a page;
//! - or, if the log is full, copies the frame with its log into a new version. Readers of older snapshots walk to
//!   earlier versions. Versions that no live snapshot sees are removed from the chain.
//!
//! When the snapshots that saw a version have ended, its log is merged into its base in place. So a frame is copied
//! only while snapshots are alive, and at most once per full log. As an exception, a few logs that have not grown for
//! long are merged into a copy, so that readers need not merge them.
//!
//! If most frames of a region are rewritten between snapshots, putting lines aside is expensive. An automatic region
//! notices this, and copies those frames at the snapshot, all at once and in parallel.
//!
//! A reader gets a pointer to the base if its snapshot sees no entry of the log. Otherwise the reader makes a copy with
//! the log merged, at its own cost. Memory that a live snapshot sees is never written to.
//!
//! The protocol: births and bases do not change once they are published, nor does the line number of a log's entry. The
//! log's length, the newest version and the newest live snapshot are stored with Release and loaded with Acquire. When
//! the newest live snapshot decreases, the writer knows that all reads of the ended snapshots are over. A reader takes
//! a lock only to go past a frame's newest version, and shares it with all other readers. There are no page faults, no
//! system calls, no TLB shoot-downs, and no reference count per frame.

#![allow(unsafe_code)]

mod ahead;
mod as_region;
mod heads;
mod live;
mod snapshot;
#[cfg(test)]
mod tests;
mod version;

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::ahead::Ahead;
use self::heads::Heads;
use self::live::{Live, NEVER, Retired};
pub use self::snapshot::EpochSnapshot;
use self::version::{LINE, Log, MAX_ENTRIES, UNBORN, Version};
use crate::memory::error::OutOfMemory;
use crate::memory::pool::{FrameRef, Pool};
use crate::memory::region::{Label, Usage};

/// Frames shorter than this are copied whole, because a log would cost as much.
const MIN_LOGGED: usize = 4096;
/// A log is full when it has an entry for one in this many lines of its frame.
const FULL_SHARE: usize = 8;
/// A write that touches more lines than this copies the frame, instead of putting the lines aside.
const MAX_LINES_ASIDE: usize = 8;
/// The number of frames whose logs are checked, and merged if possible, at each snapshot.
const TIDY_AT_SNAPSHOT: usize = 2;
/// Removal of older versions that no snapshot sees begins when a frame has this many older versions.
const UNPRUNED: u32 = 4;
/// If a log has got no entry for this many epochs, it is merged into a copy of the frame, even though snapshots still
/// see the version.
const COLD: u64 = 16;

/// A growable list of frames, each of which is one run. It offers the functions of [`Region`], but with types of its
/// own. In addition, its runs may have different lengths and labels, and may be replaced.
pub struct EpochRegion {
    frames: Vec<Frame>,
    /// The length of an appended run. All runs have this length if bytes are addressed by their offset in the region.
    run_bytes: usize,
    /// The length of all runs.
    bytes: u64,
    /// The present epoch, in which writes are born. The next snapshot gets its number.
    epoch: u64,
    /// The decision about which frames are copied ahead; `None` if no frame ever is.
    ahead: Option<Ahead>,
    /// The number of bytes that were copied into logs, but are not yet counted in `shared`.
    written_aside: u64,
    /// The frames that have a log, which may have to be merged. Each frame is listed at most once.
    logged: VecDeque<u32>,
    shared: Arc<Shared>,
    pool: Pool,
}

/// State that readers and the writer share.
struct Shared {
    live: Live,
    heads: Heads,
    copied_bytes: AtomicU64,
}

/// The writer's data of a frame.
struct Frame {
    /// The newest version's birth.
    birth: u64,
    base: FrameRef,
    label: Label,
    log: Option<Box<Log>>,
    /// Whether the frame is in `logged`.
    listed: bool,
    /// The number of writes since the last count that had to put lines aside because of the newest snapshot. If the
    /// frame was copied ahead, it is the number of writes that would have had to.
    writes: u32,
    version: NonNull<Version>,
    /// The number of versions older than the newest one. When it reaches `prune_at`, versions that no snapshot sees are
    /// removed.
    older: u32,
    prune_at: u32,
}

// SAFETY: versions are reached through pointers, and owned by exactly one frame or one retired entry; the region hands
// nothing out that is bound to a thread.
unsafe impl Send for EpochRegion {}

impl EpochRegion {
    /// A region without frames. `run_bytes` is a power of two, from a line of 64 bytes to 4 GiB.
    pub fn new(pool: &Pool, run_bytes: usize) -> EpochRegion {
        assert!(is_run(run_bytes));
        EpochRegion {
            frames: Vec::new(),
            run_bytes,
            bytes: 0,
            epoch: NEVER + 1,
            ahead: None,
            written_aside: 0,
            logged: VecDeque::new(),
            shared: Arc::new(Shared { live: Live::new(), heads: Heads::new(), copied_bytes: AtomicU64::new(0) }),
            pool: pool.clone(),
        }
    }

    /// Like [`EpochRegion::new`], but frames are copied at a snapshot if that is cheaper (see [`Ahead`]).
    pub fn automatic(pool: &Pool, run_bytes: usize) -> EpochRegion {
        let mut region = EpochRegion::new(pool, run_bytes);
        region.ahead = Some(Ahead::default());
        region
    }

    /// A description of the region's present behaviour, with the reason for it.
    pub fn reason(&self) -> String {
        self.ahead.as_ref().map_or_else(|| "lines are written aside".to_owned(), Ahead::reason)
    }

    #[inline]
    pub fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    /// The length of all runs together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub fn run_count(&self) -> usize {
        self.frames.len()
    }

    /// Appends a run of zeros.
    pub fn push_run(&mut self) -> Result<(), OutOfMemory> {
        let index = self.frames.len();
        reserve(&mut self.frames, 1, &self.pool)?;
        self.shared.heads.ensure(index, &self.pool)?;
        let base = self.pool.frame(self.run_bytes)?;
        let birth = self.epoch;
        let version = Version::allocate(birth, &base, 0, ptr::null_mut(), &self.pool)?;
        let (label, log, listed, writes, older, prune_at) = (0, None, false, 0, 0, UNPRUNED);
        self.frames.push(Frame { birth, base, label, log, listed, writes, version, older, prune_at });
        self.shared.heads.at(index).publish(version, birth);
        self.bytes += self.run_bytes as u64;
        Ok(())
    }

    /// Changes the length of appended runs to `run_bytes`. If there is a run already, it becomes as long; its new bytes
    /// are zero, and live snapshots keep the short run. There must not be more than one run.
    pub fn lengthen_runs(&mut self, run_bytes: usize) -> Result<(), OutOfMemory> {
        let before = self.run_bytes;
        assert!(self.frames.len() <= 1 && run_bytes >= before, "only the first run becomes longer");
        if !self.frames.is_empty() {
            self.replace_run(0, run_bytes, 0, |old, new| new[..before].copy_from_slice(old))?;
        }
        self.run_bytes = run_bytes;
        Ok(())
    }

    /// The label of a run. It is 0 until the run is replaced by one with another label.
    #[inline]
    pub fn label(&self, run: usize) -> Label {
        self.frames[run].label
    }

    /// Replaces a run by a new one of any length. The new run begins as zeros. `fill` is called with the old content,
    /// and writes the new content. Live snapshots keep the old run and its label. On error, nothing has changed.
    pub fn replace_run(
        &mut self,
        run: usize,
        bytes: usize,
        label: Label,
        fill: impl FnOnce(&[u8], &mut [u8]),
    ) -> Result<(), OutOfMemory> {
        assert!(is_run(bytes));
        self.shared.live.reserve(1, &self.pool)?;
        let mut base = self.pool.frame(bytes)?;
        // `fill` needs the run's present content in one piece, so the log is merged first.
        if self.frames[run].birth > self.shared.live.newest() {
            self.frames[run].fold();
        } else if self.frames[run].log.is_some() {
            self.renew(run)?;
        }
        fill(&self.frames[run].base, base.get_mut().expect("the run is new"));
        let before = self.frames[run].base.len();
        let old = self.replace(run, base, label)?;
        self.shared.live.retire([old]);
        self.bytes = self.bytes + bytes as u64 - before as u64;
        Ok(())
    }

    /// Reads bytes from `offset` on, which must lie within one run.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let (run, within) = self.locate(offset);
        self.read_in(run, within, into);
    }

    /// Reads bytes of a run.
    #[inline]
    pub fn read_in(&self, run: usize, within: usize, into: &mut [u8]) {
        let frame = &self.frames[run];
        frame.check(within, into.len());
        if frame.log.is_none() {
            // SAFETY: within the frame; only this thread writes to the region.
            unsafe { ptr::copy_nonoverlapping(frame.base.start().as_ptr().add(within), into.as_mut_ptr(), into.len()) };
        } else {
            for piece in pieces(within, into.len()) {
                let from = frame.line(piece.line);
                // SAFETY: within the line, and within `into`.
                unsafe {
                    ptr::copy_nonoverlapping(from.as_ptr().add(piece.at), into[piece.done..].as_mut_ptr(), piece.len)
                };
            }
        }
    }

    /// Bytes of a run, without a copy. They must lie within one line.
    #[inline]
    pub fn bytes_in(&self, run: usize, within: usize, len: usize) -> &[u8] {
        let (line, at) = (within / LINE, within % LINE);
        assert!(at + len <= LINE, "not within one line");
        self.frames[run].check(within, len);
        // SAFETY: within the line; the region is borrowed, so nobody writes.
        unsafe { std::slice::from_raw_parts(self.frames[run].line(line).as_ptr().add(at), len) }
    }

    /// Writes bytes from `offset` on, which must lie within one run. On error nothing has changed.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let (run, within) = self.locate(offset);
        self.write_in(run, within, bytes)
    }

    /// Writes bytes of a run. On error nothing has changed.
    #[inline]
    pub fn write_in(&mut self, run: usize, within: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        let frame = &mut self.frames[run];
        frame.check(within, bytes.len());
        let newest = self.shared.live.newest();
        if frame.birth <= newest || frame.log.is_some() {
            return self.write_shared(run, within, bytes);
        }
        // If the frame was copied since the newest snapshot, the write is counted, because without the copy it would
        // have been expensive. Writes to a new frame are not counted.
        frame.writes = frame.writes.wrapping_add((frame.birth == newest + 1 && frame.older > 0) as u32);
        // SAFETY: within the frame, which no live snapshot sees.
        unsafe { frame.put(within, bytes) };
        Ok(())
    }

    /// The run that contains an offset, and the offset within the run. All runs must have the same length.
    #[inline]
    fn locate(&self, offset: usize) -> (usize, usize) {
        (offset >> self.run_bytes.trailing_zeros(), offset & (self.run_bytes - 1))
    }

    #[inline(never)]
    fn write_shared(&mut self, run: usize, within: usize, bytes: &[u8]) -> Result<(), OutOfMemory> {
        if bytes.is_empty() {
            return Ok(());
        }
        let newest = self.shared.live.newest();
        let frame = &mut self.frames[run];
        if frame.birth > newest {
            frame.fold();
        } else if !self.write_aside(run, within, bytes, newest)? {
            self.renew(run)?;
        } else {
            return Ok(());
        }
        // SAFETY: within the frame, which no live snapshot sees, and which has no log.
        unsafe { self.frames[run].put(within, bytes) };
        Ok(())
    }

    /// Puts the written lines aside in the log, if possible. Returns false if the frame has to be copied instead.
    fn write_aside(&mut self, run: usize, within: usize, bytes: &[u8], newest: u64) -> Result<bool, OutOfMemory> {
        let frame = &mut self.frames[run];
        let lines = (within + bytes.len()).div_ceil(LINE) - within / LINE;
        if lines > MAX_LINES_ASIDE || frame.log_len() + lines > frame.max_entries() {
            return Ok(false);
        }
        if frame.log.is_none() {
            let refused = OutOfMemory::Limit { wanted: size_of::<u32>() as u64, limit: self.pool.limit() };
            self.logged.try_reserve(1).map_err(|_| refused)?;
            frame.log = Some(Box::new(Log::new(frame.base.len() / LINE, &self.pool)?));
            if !std::mem::replace(&mut frame.listed, true) {
                self.logged.push_back(run as u32);
            }
        }
        let log = frame.log.as_mut().expect("made above");
        log.reserve(lines, frame.version, &self.pool)?;
        for piece in pieces(within, bytes.len()) {
            let part = &bytes[piece.done..piece.done + piece.len];
            let entry = log.find(piece.line);
            let put = |line: NonNull<u8>| {
                // SAFETY: within a line that no live snapshot sees.
                unsafe { ptr::copy_nonoverlapping(part.as_ptr(), line.as_ptr().add(piece.at), piece.len) };
            };
            match entry {
                Some(entry) if log.birth(entry) > newest => put(log.line(entry)),
                _ => {
                    // SAFETY: a line of the frame; `reserve` made room.
                    let from =
                        entry.map_or(unsafe { frame.base.start().add(piece.line * LINE) }, |entry| log.line(entry));
                    // SAFETY: there is room, and that is where the line is.
                    unsafe { log.append(frame.version, piece.line, self.epoch, from, put) };
                    self.written_aside += LINE as u64;
                }
            }
        }
        frame.writes = frame.writes.wrapping_add(lines as u32);
        if let Some(ahead) = &mut self.ahead {
            ahead.lines_written(lines);
        }
        Ok(true)
    }

    /// Copies a frame that live snapshots see, merges its log into the copy, and makes the copy the frame's newest
    /// version.
    fn renew(&mut self, run: usize) -> Result<(), OutOfMemory> {
        self.shared.live.reserve(1, &self.pool)?;
        let frame = &mut self.frames[run];
        let base = self.pool.copy(&frame.base)?;
        self.shared.copied_bytes.fetch_add(base.len() as u64, Ordering::Relaxed);
        frame.writes = frame.writes.wrapping_add(1);
        if let Some(ahead) = &mut self.ahead {
            ahead.frame_copied();
        }
        let old = self.replace_by_copy(run, base)?;
        self.shared.live.retire([old]);
        Ok(())
    }

    /// Merges the log of a frame into `base`, a fresh copy of the frame's base, and makes `base` the newest version.
    /// Returns the old content, which snapshots may still see.
    fn replace_by_copy(&mut self, run: usize, base: FrameRef) -> Result<Retired, OutOfMemory> {
        let frame = &mut self.frames[run];
        if let Some(log) = &frame.log {
            // SAFETY: the copy is ours alone.
            unsafe { merge(base.start(), log) };
        }
        let label = frame.label;
        self.replace(run, base, label)
    }

    /// Gives a frame a new version with this base. Returns the content of the old version, which snapshots may still
    /// see.
    fn replace(&mut self, run: usize, base: FrameRef, label: Label) -> Result<Retired, OutOfMemory> {
        let frame = &mut self.frames[run];
        let version = Version::allocate(self.epoch, &base, label, frame.version.as_ptr(), &self.pool)?;
        self.shared.heads.at(run).publish(version, self.epoch);
        let base = std::mem::replace(&mut frame.base, base);
        let old = retired(frame.birth, base, frame.log.take());
        (frame.birth, frame.version, frame.label) = (self.epoch, version, label);
        frame.older += 1;
        if frame.older >= frame.prune_at {
            frame.prune(&self.shared);
        }
        Ok(old)
    }

    fn count_copied(&mut self) {
        let bytes = std::mem::take(&mut self.written_aside);
        self.shared.copied_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.pool.count_copied(bytes);
    }

    pub fn snapshot(&mut self) -> Result<EpochSnapshot, OutOfMemory> {
        self.count_copied();
        self.tidy(TIDY_AT_SNAPSHOT);
        let snapshot = EpochSnapshot::new(&self.shared, self.epoch, self.frames.len(), self.run_bytes, &self.pool)?;
        self.epoch += 1;
        self.copy_ahead();
        Ok(snapshot)
    }

    /// Checks the logs of at most `frames` frames, and merges those that can be merged, so that readers need not do it.
    /// An idle writer calls this. Returns the number of merged logs.
    pub fn tidy(&mut self, frames: usize) -> usize {
        let mut merged = 0;
        for _ in 0..frames {
            let Some(run) = self.logged.pop_front() else { break };
            let frame = &mut self.frames[run as usize];
            let cold = frame.log.as_ref().is_none_or(|log| log.last_birth() + COLD <= self.epoch);
            if frame.birth > self.shared.live.newest() {
                frame.fold();
            } else if frame.log.is_some() && !(cold && self.renew(run as usize).is_ok()) {
                self.logged.push_back(run);
                continue;
            }
            self.frames[run as usize].listed = false;
            merged += 1;
        }
        merged
    }

    /// Whether [`EpochRegion::tidy`] would find nothing to do. The answer holds until the next write.
    pub fn is_tidy(&self) -> bool {
        self.logged.is_empty()
    }

    fn usage(&self) -> Usage {
        let newest = self.shared.live.newest();
        let shared = self.frames.iter().filter(|frame| frame.birth <= newest);
        Usage {
            bytes: self.bytes,
            snapshots: self.shared.live.count(),
            shared_bytes: shared.map(|frame| frame.base.len() as u64).sum(),
            copied_bytes: self.shared.copied_bytes.load(Ordering::Relaxed) + self.written_aside,
        }
    }
}

impl Debug for EpochRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EpochRegion({} runs, {} bytes, epoch {})", self.frames.len(), self.bytes, self.epoch)
    }
}

impl Drop for EpochRegion {
    fn drop(&mut self) {
        self.count_copied();
        self.shared.live.retire(self.frames.drain(..).flat_map(Frame::into_retired));
    }
}

impl Frame {
    #[inline]
    fn check(&self, within: usize, len: usize) {
        assert!(within <= self.base.len() && len <= self.base.len() - within, "not within the run");
    }

    /// The number of entries that the frame's log may have; 0 if the frame is always copied whole.
    fn max_entries(&self) -> usize {
        let bytes = self.base.len();
        if bytes < MIN_LOGGED { 0 } else { (bytes / LINE / FULL_SHARE).min(MAX_ENTRIES) }
    }

    #[inline]
    fn log_len(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.len())
    }

    /// The address of a line's current content.
    #[inline]
    fn line(&self, line: usize) -> NonNull<u8> {
        let entry = self.log.as_ref().and_then(|log| Some(log.line(log.find(line)?)));
        // SAFETY: a line of the frame.
        entry.unwrap_or_else(|| unsafe { self.base.start().add(line * LINE) })
    }

    /// Writes bytes of the base in place.
    ///
    /// # Safety
    ///
    /// The bytes lie within the frame, and no live snapshot sees this version.
    #[inline]
    unsafe fn put(&mut self, within: usize, bytes: &[u8]) {
        // SAFETY: as the caller ensures. Copies of a known length are single instructions.
        unsafe {
            let (from, to) = (bytes.as_ptr(), self.base.start().as_ptr().add(within));
            match bytes.len() {
                8 => ptr::copy_nonoverlapping(from, to, 8),
                4 => ptr::copy_nonoverlapping(from, to, 4),
                16 => ptr::copy_nonoverlapping(from, to, 16),
                len => ptr::copy_nonoverlapping(from, to, len),
            }
        }
    }

    /// Merges the log into the base in place. No live snapshot may see the version.
    fn fold(&mut self) {
        if let Some(log) = self.log.take() {
            // SAFETY: no live snapshot sees the version, so nobody reads its base or its log.
            unsafe {
                merge(self.base.start(), &log);
                self.version.as_ref().logged_since.store(UNBORN, Ordering::Release);
                self.version.as_ref().log.store(ptr::null_mut(), Ordering::Release);
            }
        }
    }

    /// Removes older versions that no live snapshot sees. Does nothing while a reader walks along versions. The more
    /// versions remain, the later is the next attempt, so that the cost per new version stays small.
    fn prune(&mut self, shared: &Shared) {
        let version = self.version;
        let prune = || {
            // SAFETY: the frame's newest version; nobody walks.
            shared.live.with_seen(|seen| unsafe { version.as_ref().prune(seen) })
        };
        // If there are very many versions, wait for the readers. Otherwise readers that follow each other without a gap
        // would prevent the removal, and so would have to walk ever farther.
        let must_be = self.older >= self.prune_at.saturating_mul(2);
        if let Some(left) = shared.heads.while_nobody_walks(must_be, prune) {
            self.older = left;
            self.prune_at = UNPRUNED.max(2 * left);
        }
    }

    fn into_retired(self) -> [Retired; 2] {
        // SAFETY: the frame was the versions' owner, and is no longer there for later snapshots.
        [retired(self.birth, self.base, self.log), unsafe { Retired::versions(self.version) }]
    }
}

/// The content of a version that was replaced. Snapshots from `birth` on may see it.
fn retired(birth: u64, base: FrameRef, log: Option<Box<Log>>) -> Retired {
    Retired::bytes(birth, base, log.map_or_else(Vec::new, |log| log.into_segments()))
}

/// Copies the latest content of each line in the log to `base`.
///
/// # Safety
///
/// `base` belongs to the log's frame, or is a copy of it, and nobody reads it.
unsafe fn merge(base: NonNull<u8>, log: &Log) {
    for (line, from) in log.latest() {
        // SAFETY: a line of the frame, and one of the log.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), base.as_ptr().add(line * LINE), LINE) };
    }
}

/// The part of a read or write that lies within one line.
struct Piece {
    line: usize,
    /// The offset in the line.
    at: usize,
    /// The number of bytes in the pieces before this one.
    done: usize,
    len: usize,
}

#[inline]
fn pieces(within: usize, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (line, at) = ((within + done) / LINE, (within + done) % LINE);
        let piece = Piece { line, at, done, len: (LINE - at).min(len - done) };
        done += piece.len;
        (piece.len > 0).then_some(piece)
    })
}

/// Whether a run may have this length.
pub(crate) fn is_run(bytes: usize) -> bool {
    bytes.is_power_of_two() && (LINE..=1 << 32).contains(&bytes)
}

fn reserve<T>(list: &mut Vec<T>, more: usize, pool: &Pool) -> Result<(), OutOfMemory> {
    let wanted = (more * size_of::<T>()) as u64;
    list.try_reserve(more).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })
}
