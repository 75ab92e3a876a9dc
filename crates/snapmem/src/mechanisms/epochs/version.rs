//! A version: a frame's content from an epoch on, and the lines that were put aside since then.
//!
//! A reader walks from the newest version of a frame to the version that its snapshot sees. From the log of that
//! version, it takes the lines that its snapshot sees. It never reads memory that is still written to (see the parent
//! module).
//!
//! The chain may contain versions that no live snapshot sees. The writer removes them now and then, while no reader
//! walks along the chain. Otherwise, as long as an old snapshot lives, the chain would keep a version for each later
//! snapshot.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::ops::Range;
use std::ptr::{self, NonNull, addr_of, addr_of_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::memory::error::OutOfMemory;
use crate::memory::pool::{FrameRef, Pool};
use crate::memory::region::Label;

/// The unit in which changes are put aside: a cache line.
pub const LINE: usize = 64;
/// The number of lines in a segment of a log.
pub const SEGMENT_LINES: usize = 13;
/// The size of a segment: one kilobyte, a size that the pool keeps for reuse.
pub const SEGMENT_BYTES: usize = size_of::<Segment>();

/// An epoch later than all others.
pub const UNBORN: u64 = u64::MAX;

/// A version of a frame. Once published, it does not change, except that its log grows.
pub struct Version {
    /// The first epoch whose snapshot sees this version.
    pub birth: u64,
    pub base: NonNull<u8>,
    /// The length of the base.
    pub bytes: usize,
    /// The label that the run had in this version.
    pub label: Label,
    /// The first segment of the log, or null.
    pub log: AtomicPtr<Segment>,
    /// The birth of the log's first entry, or [`UNBORN`]. It tells readers of older snapshots that they need no entry
    /// of the log.
    pub logged_since: AtomicU64,
    /// An older version of the frame, or null. Versions that no live snapshot sees may have been removed in between.
    /// Only readers whose snapshots are older than `birth` follow this pointer, and only under [`Heads::walk`].
    ///
    /// [`Heads::walk`]: super::heads::Heads::walk
    pub previous: AtomicPtr<Version>,
}

impl Version {
    /// A version without a log. It is an allocation of its own, which [`Version::free_chain`] frees.
    pub fn allocate(
        birth: u64,
        base: &FrameRef,
        label: Label,
        previous: *mut Version,
        pool: &Pool,
    ) -> Result<NonNull<Version>, OutOfMemory> {
        let (log, logged_since) = (AtomicPtr::new(ptr::null_mut()), AtomicU64::new(UNBORN));
        let (base, bytes, previous) = (base.start(), base.len(), AtomicPtr::new(previous));
        let version = Version { birth, base, bytes, label, log, logged_since, previous };
        // SAFETY: a version has a size.
        let memory = unsafe { alloc(Layout::new::<Version>()) }.cast::<Version>();
        let wanted = size_of::<Version>() as u64;
        let memory = NonNull::new(memory).ok_or(OutOfMemory::Limit { wanted, limit: pool.limit() })?;
        // SAFETY: fresh memory of the right layout.
        unsafe { memory.write(version) };
        Ok(memory)
    }

    /// Frees a version.
    ///
    /// # Safety
    ///
    /// The version comes from `allocate`, and nobody uses it any more.
    unsafe fn free(version: NonNull<Version>) {
        // SAFETY: as the caller ensures; a version has nothing to drop.
        unsafe { dealloc(version.as_ptr().cast(), Layout::new::<Version>()) };
    }

    /// Frees a version and all versions before it.
    ///
    /// # Safety
    ///
    /// The versions come from `allocate`, and nobody uses them any more.
    pub unsafe fn free_chain(newest: NonNull<Version>) {
        let mut next = Some(newest);
        while let Some(version) = next {
            // SAFETY: as the caller ensures; each version belongs to one chain.
            unsafe {
                next = NonNull::new(version.as_ref().previous.load(Ordering::Relaxed));
                Version::free(version);
            }
        }
    }

    /// Removes those versions before this one that no live snapshot sees. Returns the number of those that remain.
    /// `seen` tells whether any snapshot with an epoch in a range is alive.
    ///
    /// # Safety
    ///
    /// No reader walks along the chain during the call.
    pub unsafe fn prune(&self, seen: impl Fn(Range<u64>) -> bool) -> u32 {
        let (mut newer, mut left) = (self, 0);
        while let Some(older) = NonNull::new(newer.previous.load(Ordering::Relaxed)) {
            // SAFETY: the chain leads only to existing versions.
            let version = unsafe { older.as_ref() };
            if seen(version.birth..newer.birth) {
                (newer, left) = (version, left + 1);
            } else {
                newer.previous.store(version.previous.load(Ordering::Relaxed), Ordering::Relaxed);
                // SAFETY: nobody walks along the chain, and whoever stays at a version sees it.
                unsafe { Version::free(older) };
            }
        }
        left
    }

    #[cfg(test)]
    pub fn versions_before(&self) -> usize {
        // SAFETY: the chain leads only to existing versions, and only the writer, which is the caller, changes it.
        NonNull::new(self.previous.load(Ordering::Relaxed))
            .map_or(0, |older| 1 + unsafe { older.as_ref() }.versions_before())
    }
}

/// A part of a log: lines that were put aside, oldest first. Readers see only the first `len` entries.
#[repr(C, align(64))]
pub struct Segment {
    next: AtomicPtr<Segment>,
    len: AtomicU32,
    /// The epoch in which each line was put aside, in ascending order.
    births: [u64; SEGMENT_LINES],
    /// For each entry, the number of the line in the frame.
    places: [u32; SEGMENT_LINES],
    lines: [[u8; LINE]; SEGMENT_LINES],
}

/// An iterator over those lines of a log that a snapshot sees, oldest first.
pub struct Seen {
    segment: *const Segment,
    at: usize,
    len: usize,
    epoch: u64,
}

impl Seen {
    /// The lines in a version's log that a snapshot sees; `None` if there are none.
    ///
    /// # Safety
    ///
    /// A snapshot of `epoch` is alive, and sees `version`, as long as the iterator is used.
    #[inline]
    pub unsafe fn of(version: NonNull<Version>, epoch: u64) -> Option<Seen> {
        // SAFETY: the version is there, as the caller ensures.
        let version = unsafe { version.as_ref() };
        if version.logged_since.load(Ordering::Acquire) > epoch {
            return None;
        }
        let mut seen = Seen { segment: version.log.load(Ordering::Acquire), at: 0, len: 0, epoch };
        seen.enter();
        Some(seen)
    }

    fn enter(&mut self) {
        self.at = 0;
        if !self.segment.is_null() {
            // SAFETY: segments of a version stay as long as a snapshot that sees the version is alive.
            self.len = unsafe { (*self.segment).len.load(Ordering::Acquire) } as usize;
        }
    }
}

impl Iterator for Seen {
    /// The number of a line in the frame, and its bytes.
    type Item = (usize, *const [u8; LINE]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == SEGMENT_LINES {
            // SAFETY: as in `enter`.
            self.segment = unsafe { (*self.segment).next.load(Ordering::Acquire) };
            self.enter();
        }
        if self.segment.is_null() || self.at == self.len {
            return None;
        }
        // SAFETY: as in `enter`; the entry is below `len`, so it has been published and its birth and place do not
        // change any more.
        let (birth, place, line) = unsafe {
            let segment = self.segment;
            (
                addr_of!((*segment).births[self.at]).read(),
                addr_of!((*segment).places[self.at]).read(),
                addr_of!((*segment).lines[self.at]),
            )
        };
        if birth > self.epoch {
            // Births ascend.
            return None;
        }
        self.at += 1;
        Some((place as usize, line))
    }
}

/// The writer's data of a version's log: where the present content of each line is.
pub struct Log {
    segments: Vec<FrameRef>,
    /// For each line of the frame, 1 + the index of its latest entry, or 0 if the log does not contain the line.
    index: FrameRef,
    len: usize,
}

/// The greatest number of entries in a log. That many entries cost about as much as a copy of the frame.
pub const MAX_ENTRIES: usize = 2 * SEGMENT_LINES;

impl Log {
    pub fn new(lines: usize, pool: &Pool) -> Result<Log, OutOfMemory> {
        Ok(Log { segments: Vec::new(), index: pool.frame(lines)?, len: 0 })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The epoch in which the last entry was added to the log; 0 if the log is empty.
    pub fn last_birth(&self) -> u64 {
        self.len.checked_sub(1).map_or(0, |last| self.birth(last))
    }

    /// The index of a line's latest entry, if the log contains the line.
    #[inline]
    pub fn find(&self, line: usize) -> Option<usize> {
        (self.index[line] as usize).checked_sub(1)
    }

    #[inline]
    fn segment(&self, entry: usize) -> (*mut Segment, usize) {
        (self.segments[entry / SEGMENT_LINES].start().as_ptr().cast(), entry % SEGMENT_LINES)
    }

    #[inline]
    pub fn birth(&self, entry: usize) -> u64 {
        let (segment, at) = self.segment(entry);
        // SAFETY: an entry of ours, written by this thread.
        unsafe { addr_of!((*segment).births[at]).read() }
    }

    #[inline]
    pub fn line(&self, entry: usize) -> NonNull<u8> {
        let (segment, at) = self.segment(entry);
        // SAFETY: within the segment.
        unsafe { NonNull::new_unchecked(addr_of_mut!((*segment).lines[at]).cast()) }
    }

    /// Makes room for `entries` more entries, so that the next `entries` calls of `append` cannot fail.
    pub fn reserve(&mut self, entries: usize, version: NonNull<Version>, pool: &Pool) -> Result<(), OutOfMemory> {
        while self.segments.len() * SEGMENT_LINES < self.len + entries {
            self.segments
                .try_reserve(1)
                .map_err(|_| OutOfMemory::Limit { wanted: SEGMENT_BYTES as u64, limit: pool.limit() })?;
            let frame = pool.any_frame(SEGMENT_BYTES)?;
            let segment = frame.start().as_ptr().cast::<Segment>();
            // SAFETY: the frame is ours, as large as a segment and aligned; entries beyond `len` are never read. A
            // reader that gets hold of it by the pointers below sees it empty (Release).
            unsafe {
                addr_of_mut!((*segment).next).write(AtomicPtr::new(ptr::null_mut()));
                addr_of_mut!((*segment).len).write(AtomicU32::new(0));
                match self.segments.last() {
                    Some(last) => (*last.start().as_ptr().cast::<Segment>()).next.store(segment, Ordering::Release),
                    None => version.as_ref().log.store(segment, Ordering::Release),
                }
            }
            self.segments.push(frame);
        }
        Ok(())
    }

    /// Adds an entry for a line. It is a copy of the line at `from`, which `change` then alters. Snapshots from `birth`
    /// on see it.
    ///
    /// # Safety
    ///
    /// The log belongs to `version` and has room, and `from` is the present content of the line.
    pub unsafe fn append(
        &mut self,
        version: NonNull<Version>,
        line: usize,
        birth: u64,
        from: NonNull<u8>,
        change: impl FnOnce(NonNull<u8>),
    ) {
        let entry = self.len;
        let (segment, at) = self.segment(entry);
        // SAFETY: the entry lies within the segment and is not yet published, so nobody else looks at it.
        unsafe {
            addr_of_mut!((*segment).births[at]).write(birth);
            addr_of_mut!((*segment).places[at]).write(line as u32);
            ptr::copy_nonoverlapping(from.as_ptr(), addr_of_mut!((*segment).lines[at]).cast(), LINE);
        }
        change(self.line(entry));
        // SAFETY: the segment and the version are there; only this thread stores to them.
        unsafe {
            (*segment).len.store(at as u32 + 1, Ordering::Release);
            if entry == 0 {
                version.as_ref().logged_since.store(birth, Ordering::Release);
            }
        }
        self.len += 1;
        // SAFETY: the index is never shared.
        let index = unsafe { self.index.get_mut_unchecked() };
        index[line] = self.len as u8;
    }

    /// The lines in the log, each with the address of its latest content.
    pub fn latest(&self) -> impl Iterator<Item = (usize, NonNull<u8>)> + '_ {
        (0..self.len).filter_map(|entry| {
            let (segment, at) = self.segment(entry);
            // SAFETY: an entry of ours, written by this thread.
            let line = unsafe { addr_of!((*segment).places[at]).read() } as usize;
            (self.find(line) == Some(entry)).then(|| (line, self.line(entry)))
        })
    }

    /// Returns the memory of the log. It must be kept until no reader uses it.
    pub fn into_segments(self) -> Vec<FrameRef> {
        self.segments
    }
}
