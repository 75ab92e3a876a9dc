//! The pool: frames of memory that are shared, counted, limited, and kept warm.
//!
//! The first touch of a frame causes page faults, which cost more than copying the frame. Therefore freed frames are
//! kept warm, on a list per size (powers of two), for their next user. The lists are bounded, and are emptied before a
//! request is refused because of the limit. Other owners of memory may keep it warm in the same way ([`KeepsWarm`]), or
//! make readers free memory ([`Relief`]).

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::memory::error::OutOfMemory;
use crate::memory::run::Run;
use crate::memory::slabs;

/// The alignment of every frame: a cache line, which Arrow requires, too.
const ALIGN: usize = 64;
/// Frames are kept warm only if their length is a power of two and at most 2^(CLASSES - 1) bytes.
const CLASSES: usize = 21;
/// The limit for warm memory in bytes. Warm memory is also limited to an eighth of the pool's limit.
const MAX_WARM: u64 = 256 << 20;

/// The memory in bytes that the system must still have, for small objects that belong to frames and snapshots. Without
/// it, Rust would abort the process when it allocates such an object.
const CUSHION: usize = 16 << 10;

/// The source of all memory. Clones are the same pool.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    /// Whether [`Relief`] is asked before a request is refused because of the limit.
    asks: bool,
}

#[derive(Debug)]
struct Shared {
    limit: u64,
    /// The bytes of frames in use, of warm frames, and of charges.
    held: AtomicU64,
    warm_bytes: AtomicU64,
    warm: Mutex<[Vec<Block>; CLASSES]>,
    keepers: Mutex<Vec<Weak<dyn KeepsWarm>>>,
    snapshots: AtomicU64,
    copied: AtomicU64,
    relief: OnceLock<Arc<dyn Relief>>,
}

/// A way to make readers free memory when the limit is reached.
pub trait Relief: Debug + Send + Sync {
    /// Makes readers free memory, and waits for a limited time until `is_enough` returns true. Returns whether there is
    /// enough memory now.
    fn relieve(&self, is_enough: &dyn Fn() -> bool) -> bool;
}

impl Pool {
    pub fn new(limit: u64) -> Pool {
        let shared = Shared {
            limit,
            held: AtomicU64::new(0),
            warm_bytes: AtomicU64::new(0),
            warm: Mutex::new([const { Vec::new() }; CLASSES]),
            keepers: Mutex::default(),
            snapshots: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            relief: OnceLock::new(),
        };
        Pool { shared: Arc::new(shared), asks: true }
    }

    /// Sets the relief that is asked before a request is refused because of the limit.
    pub fn relieved_by(&self, relief: Arc<dyn Relief>) {
        // If a relief is set already, it stays.
        let _ = self.shared.relief.set(relief);
    }

    /// The same pool, but it does not ask for relief. It is for callers that can do without the memory, or that hold a
    /// lock which readers need in order to end.
    pub(crate) fn unrelieved(&self) -> Pool {
        Pool { asks: false, ..self.clone() }
    }

    /// Whether this many bytes are free. If not, asks for relief first.
    pub fn make_room(&self, bytes: u64) -> bool {
        let is_enough = || bytes <= self.room();
        is_enough() || self.shared.relieve(bytes, &is_enough)
    }

    /// A frame of zeros.
    pub fn frame(&self, bytes: usize) -> Result<FrameRef, OutOfMemory> {
        let (mut block, fresh) = self.shared.take(self.asks, bytes)?;
        if !fresh {
            block.fill(0);
        }
        Ok(self.wrap(block))
    }

    /// A frame with arbitrary content.
    pub(crate) fn any_frame(&self, bytes: usize) -> Result<FrameRef, OutOfMemory> {
        let (block, _) = self.shared.take(self.asks, bytes)?;
        Ok(self.wrap(block))
    }

    /// A new frame with the same content, which is counted as copied because of a snapshot.
    pub(crate) fn copy(&self, of: &[u8]) -> Result<FrameRef, OutOfMemory> {
        self.copy_by(<[u8]>::copy_from_slice, of)
    }

    /// Like [`Pool::copy`], but `copy` does the copying, from its second argument to its first.
    pub(crate) fn copy_by(&self, copy: fn(&mut [u8], &[u8]), of: &[u8]) -> Result<FrameRef, OutOfMemory> {
        let (mut block, _) = self.shared.take(self.asks, of.len())?;
        if let Err(refused) = self.shared.cushioned() {
            self.shared.give_back(block);
            return Err(refused);
        }
        copy(&mut block, of);
        self.count_copied(of.len() as u64);
        Ok(self.wrap(block))
    }

    /// Checks that the system still has memory for small objects. It is called before such objects are allocated.
    pub(crate) fn cushioned(&self) -> Result<(), OutOfMemory> {
        self.shared.cushioned()
    }

    fn wrap(&self, block: Block) -> FrameRef {
        let (start, bytes) = (block.start, block.bytes);
        FrameRef { frame: Arc::new(Frame { block: Some(block), pool: self.shared.clone() }), start, bytes }
    }

    /// An empty charge, for memory that does not come from the pool but counts against its limit.
    pub fn charge(&self) -> Charge {
        Charge { pool: self.shared.clone(), asks: self.asks, bytes: 0, warm: 0 }
    }

    pub fn limit(&self) -> u64 {
        self.shared.limit
    }

    /// The bytes in use: frames and charges, without warm memory.
    pub fn used(&self) -> u64 {
        self.shared.held.load(Ordering::Relaxed).saturating_sub(self.shared.warm_bytes.load(Ordering::Relaxed))
    }

    /// The bytes that are not in use, so that they can still be requested.
    pub fn room(&self) -> u64 {
        self.limit().saturating_sub(self.used())
    }

    /// The bytes that were copied so far because a snapshot shared them.
    pub fn copied(&self) -> u64 {
        self.shared.copied.load(Ordering::Relaxed)
    }

    /// The number of live snapshots.
    pub fn snapshots(&self) -> u64 {
        self.shared.snapshots.load(Ordering::Relaxed)
    }

    /// Counts bytes that the system, or a mechanism, has copied outside of the pool because of a snapshot.
    pub fn count_copied(&self, bytes: u64) {
        self.shared.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Registers `keeper`. It is asked to free its warm memory before a request is refused because of the limit.
    pub(crate) fn may_cool(&self, keeper: Weak<dyn KeepsWarm>) {
        let mut keepers = self.shared.keepers.lock();
        keepers.retain(|keeper| keeper.strong_count() > 0);
        keepers.push(keeper);
    }

    /// The number of bytes by which the warm memory may still grow.
    pub(crate) fn room_for_warm(&self) -> u64 {
        self.shared.room_for_warm()
    }

    pub(crate) fn snapshot_born(&self) {
        self.shared.snapshots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot_died(&self) {
        self.shared.snapshots.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn cushioned(&self) -> Result<(), OutOfMemory> {
        let layout = Layout::from_size_align(CUSHION, ALIGN).expect("a constant");
        // SAFETY: the layout has a size; the memory is freed at once.
        let there = unsafe {
            let piece = std::hint::black_box(alloc(layout));
            (!piece.is_null()).then(|| dealloc(piece, layout)).is_some()
        };
        if there { Ok(()) } else { Err(self.refusal(CUSHION as u64)) }
    }

    /// Takes a block of `bytes` bytes. Returns it, and whether it is all zeros. Only for a fresh block, the cushion is
    /// checked: a warm block needs no memory from the system, and the check could make an allocator tidy up.
    fn take(&self, asks: bool, bytes: usize) -> Result<(Block, bool), OutOfMemory> {
        if let Some(class) = class(bytes) {
            let mut warm = self.warm.lock();
            if let Some(block) = warm[class].pop() {
                self.warm_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
                return Ok((block, false));
            }
        }
        self.reserve(asks, bytes as u64)?;
        match Block::new(bytes) {
            Some(block) if self.cushioned().is_ok() => Ok(block),
            _ => {
                self.release(bytes as u64);
                Err(self.refusal(bytes as u64))
            }
        }
    }

    fn give_back(&self, block: Block) {
        let bytes = block.len() as u64;
        if let Some(class) = class(block.len())
            && bytes <= self.room_for_warm()
        {
            let mut warm = self.warm.lock();
            if warm[class].try_reserve(1).is_ok() {
                warm[class].push(block);
                self.warm_bytes.fetch_add(bytes, Ordering::Relaxed);
                return;
            }
        }
        drop(block);
        self.release(bytes);
    }

    fn reserve(&self, asks: bool, bytes: u64) -> Result<(), OutOfMemory> {
        let claim = || {
            let fits = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= self.limit);
            self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
        };
        if claim() {
            return Ok(());
        }
        self.cool();
        let claim_cooled = || {
            self.cool();
            claim()
        };
        if claim() || (asks && self.relieve(bytes, &claim_cooled)) { Ok(()) } else { Err(self.refusal(bytes)) }
    }

    fn relieve(&self, bytes: u64, is_enough: &dyn Fn() -> bool) -> bool {
        bytes <= self.limit && self.relief.get().is_some_and(|relief| relief.relieve(is_enough))
    }

    fn room_for_warm(&self) -> u64 {
        MAX_WARM.min(self.limit / 8).saturating_sub(self.warm_bytes.load(Ordering::Relaxed))
    }

    /// Frees all warm memory.
    fn cool(&self) {
        let blocks = std::mem::replace(&mut *self.warm.lock(), [const { Vec::new() }; CLASSES]);
        let bytes = blocks.iter().flatten().map(|block| block.len() as u64).sum();
        drop(blocks);
        self.warm_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.release(bytes);
        let keepers: Vec<_> = self.keepers.lock().iter().filter_map(Weak::upgrade).collect();
        keepers.iter().for_each(|keeper| keeper.cool());
    }

    fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn refusal(&self, wanted: u64) -> OutOfMemory {
        OutOfMemory::Limit { wanted, limit: self.limit }
    }
}

fn class(bytes: usize) -> Option<usize> {
    let class = bytes.trailing_zeros() as usize;
    (bytes.is_power_of_two() && class < CLASSES).then_some(class)
}

/// A reference to a frame; clones refer to the same frame. When the last of them is dropped, the memory returns to the
/// pool.
#[derive(Clone, Debug)]
pub struct FrameRef {
    frame: Arc<Frame>,
    /// The address of the bytes, stored here so that the frame itself need not be read.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a reference gives access to the frame's block only, which may be sent and shared.
unsafe impl Send for FrameRef {}
// SAFETY: as above.
unsafe impl Sync for FrameRef {}

impl FrameRef {
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn strong_count(&self) -> usize {
        Arc::strong_count(&self.frame)
    }

    /// The frame as a run. From now on, nobody can write to it.
    pub fn into_run(self) -> Run {
        let (start, bytes, owner) = (self.start, self.bytes, self.frame);
        // SAFETY: the frame keeps the bytes; it is shared with the run from now on, and a shared frame is not written.
        unsafe { Run::new(start, bytes, owner) }
    }

    /// The bytes for writing, if there is no other reference to the frame.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.frame)?;
        // SAFETY: nobody else holds the frame, and we are borrowed for writing.
        Some(unsafe { self.get_mut_unchecked() })
    }

    /// Like [`FrameRef::get_mut`], without the check.
    ///
    /// # Safety
    ///
    /// Nobody else holds the frame.
    #[inline]
    pub(crate) unsafe fn get_mut_unchecked(&mut self) -> &mut [u8] {
        // SAFETY: `bytes` initialised bytes, kept by `frame`; the caller ensures that nobody else looks at them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Deref for FrameRef {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes, kept by `frame`; writing takes an exclusive borrow of the only reference.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

// A frame's bytes do not change while it is shared, so a panic elsewhere cannot leave them half changed.
impl RefUnwindSafe for FrameRef {}

#[derive(Debug)]
struct Frame {
    /// `None` only while the value is being dropped.
    block: Option<Block>,
    pool: Arc<Shared>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.pool.give_back(block);
        }
    }
}

/// A live snapshot. It is counted in its pool and its region until dropped.
#[derive(Debug)]
pub(crate) struct Alive {
    pool: Pool,
    of_region: Arc<AtomicU64>,
}

impl Alive {
    pub fn new(pool: &Pool, of_region: &Arc<AtomicU64>) -> Alive {
        pool.snapshot_born();
        of_region.fetch_add(1, Ordering::Relaxed);
        Alive { pool: pool.clone(), of_region: of_region.clone() }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.of_region.fetch_sub(1, Ordering::Relaxed);
        self.pool.snapshot_died();
    }
}

/// An owner of warm memory outside of the pool: memory that is kept for reuse, but is not in use.
pub(crate) trait KeepsWarm: Send + Sync {
    /// Frees the warm memory and its charge. It must not wait for a lock, because the caller may hold any lock; memory
    /// behind a lock that is held stays.
    fn cool(&self);
}

/// A claim on a part of the pool's limit, for memory that does not come from the pool. It is released when dropped.
#[derive(Debug)]
pub struct Charge {
    pool: Arc<Shared>,
    asks: bool,
    bytes: u64,
    /// The number of the charged bytes that are warm.
    warm: u64,
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the charge to `bytes`. On error, it stays as it was.
    pub fn set(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        if bytes > self.bytes {
            self.pool.reserve(self.asks, bytes - self.bytes)?;
        } else {
            self.pool.release(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Sets how many of the charged bytes are warm, that is, not in use.
    pub(crate) fn set_warm(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes);
        self.pool.warm_bytes.fetch_add(bytes.wrapping_sub(self.warm), Ordering::Relaxed);
        self.warm = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set_warm(0);
        self.pool.release(self.bytes);
    }
}

/// Owned, aligned, initialised memory.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block owns its memory exclusively, as a Box<[u8]> does.
unsafe impl Send for Block {}
// SAFETY: as above; `&Block` only allows reading.
unsafe impl Sync for Block {}

impl Block {
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, ALIGN).ok().filter(|layout| layout.size() > 0)
    }

    /// A new block, and whether it is all zeros; `None` if the system has no memory.
    fn new(bytes: usize) -> Option<(Block, bool)> {
        if slabs::are_for(bytes) {
            return slabs::take(bytes).map(|(start, is_zero)| (Block { start, bytes }, is_zero));
        }
        let layout = Block::layout(bytes)?;
        // SAFETY: the layout's size is not zero; a null result becomes `None`.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some((Block { start, bytes }, true))
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` initialised bytes, owned by us, borrowed as long as `self` is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes us the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if slabs::are_for(self.bytes) {
            // SAFETY: taken in `new` with this very size, and not used after.
            unsafe { slabs::give_back(self.start, self.bytes) };
        } else if let Some(layout) = Block::layout(self.bytes) {
            // SAFETY: allocated in `new` with this very layout, and not used after.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_frames_and_charges_and_gives_all_back() {
        let pool = Pool::new(1 << 20);
        let mut charge = pool.charge();
        charge.set(1 << 19).unwrap();
        let frame = pool.frame(1 << 19).unwrap();
        assert_eq!(frame.as_ptr() as usize % ALIGN, 0);
        let refused = pool.frame(64).unwrap_err();
        assert_eq!(refused, OutOfMemory::Limit { wanted: 64, limit: 1 << 20 });
        assert!(charge.set((1 << 19) + 1).is_err());
        assert_eq!((charge.bytes(), pool.used()), (1 << 19, 1 << 20));
        drop((frame, charge));
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn warm_frames_are_zeroed_again_and_yield_to_other_sizes() {
        let pool = Pool::new(1 << 20);
        for size in [1 << 10, 1 << 12, 1 << 14, 1 << 16] {
            let mut frame = pool.frame(size).unwrap();
            frame.get_mut().unwrap().fill(7);
            drop(frame);
            assert!(pool.frame(size).unwrap().iter().all(|&byte| byte == 0));
        }
        assert_eq!(pool.used(), 0);
        assert!(pool.shared.warm_bytes.load(Ordering::Relaxed) > 0);
        pool.frame(1 << 20).unwrap();
        assert_eq!(pool.shared.warm_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_the_system_refuses_is_an_error() {
        let pool = Pool::new(u64::MAX);
        assert!(pool.frame(isize::MAX as usize - 128).is_err());
        assert!(pool.frame(usize::MAX - 64).is_err());
        assert_eq!(pool.used(), 0);
    }
}
