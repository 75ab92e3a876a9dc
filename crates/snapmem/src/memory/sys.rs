//! The system calls that the mechanisms need, behind small safe types.
//!
//! The types are safe because a [`Mapping`] returns addresses, not slices. Code that makes a slice of mapped memory has
//! to make sure that there are pages behind it.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::memory::error::Error;

/// The page size that mechanisms assume; [`require_page_size`] refuses other systems.
pub(crate) const PAGE: usize = 4096;

const MEMORY: &str = "the system has no memory or address space left, or vm.max_map_count mappings are in use";
/// The number of file descriptors that mechanisms leave to other parts of the process, but at most a quarter of the
/// limit.
const SPARE_FILES: u64 = 4096;
const FILES: &str = "raise the limit of open files (ulimit -n)";

/// The size of the system's pages.
pub fn page_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    // SAFETY: sysconf reads a constant of the system.
    *BYTES.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64)
}

/// Whether the system's pages have [`PAGE`] bytes.
pub(crate) fn require_page_size() -> Result<(), Error> {
    match page_bytes() {
        4096 => Ok(()),
        _ => Err(Error::Unavailable("this mechanism needs pages of 4096 bytes")),
    }
}

/// A range of address space, which is unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping owns its address range as a box does, and gives no access that would not be checked elsewhere.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The way in which a file's pages are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePages {
    /// Shared: writes go to the file.
    Shared,
    /// Shared, for reading only.
    SharedReadOnly,
    /// Private: the kernel copies a page before it is written.
    Private,
}

impl FilePages {
    fn protection(self) -> c_int {
        if self == FilePages::SharedReadOnly { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE }
    }

    fn flags(self) -> c_int {
        if self == FilePages::Private { libc::MAP_PRIVATE | libc::MAP_NORESERVE } else { libc::MAP_SHARED }
    }
}

impl Mapping {
    /// Private memory of zeros. Its pages are small, so that a write after a snapshot makes the kernel copy only 4 KB.
    pub fn anonymous(bytes: usize) -> Result<Mapping, Error> {
        let mapping = Mapping::unbacked(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: advice about our own mapping. Its failure means that the kernel has no huge pages anyway.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), bytes, libc::MADV_NOHUGEPAGE) };
        Ok(mapping)
    }

    /// A range of address space without memory.
    pub fn reserve(bytes: usize) -> Result<Mapping, Error> {
        Mapping::unbacked(bytes, libc::PROT_NONE)
    }

    fn unbacked(bytes: usize, protection: c_int) -> Result<Mapping, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping where the kernel finds room touches no memory of ours.
        unsafe { Mapping::map(ptr::null_mut(), bytes, protection, flags, None) }
    }

    /// A mapping of a file's bytes from `offset` on.
    pub fn file(file: &MemFd, offset: usize, bytes: usize, pages: FilePages) -> Result<Mapping, Error> {
        // SAFETY: as above.
        unsafe { Mapping::map(ptr::null_mut(), bytes, pages.protection(), pages.flags(), Some((file, offset))) }
    }

    /// Maps bytes of a file over a part of this mapping, which loses its content there.
    pub fn replace(&self, at: usize, bytes: usize, file: &MemFd, offset: usize, pages: FilePages) -> Result<(), Error> {
        let flags = pages.flags() | libc::MAP_FIXED;
        // SAFETY: the part lies within our own address range, which `part` checks.
        let part =
            unsafe { Mapping::map(self.part(at, bytes), bytes, pages.protection(), flags, Some((file, offset)))? };
        // `part` must not be unmapped when it is dropped, because it belongs to the whole mapping, which unmaps it
        // later.
        std::mem::forget(part);
        Ok(())
    }

    /// A new mapping, by a call that tests can make fail.
    ///
    /// # Safety
    ///
    /// With MAP_FIXED, the range at `start` may be replaced.
    unsafe fn map(
        start: *mut u8,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: Option<(&MemFd, usize)>,
    ) -> Result<Mapping, Error> {
        faults::check("mmap", MEMORY)?;
        // SAFETY: as the caller says.
        unsafe { Mapping::map_at(start, bytes, protection, flags, file) }
    }

    /// Like `map`, but tests cannot make the call fail.
    ///
    /// # Safety
    ///
    /// As for `map`.
    unsafe fn map_at(
        start: *mut u8,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: Option<(&MemFd, usize)>,
    ) -> Result<Mapping, Error> {
        let (fd, offset) = file.map_or((-1, 0), |(file, offset)| (file.0.as_raw_fd(), offset));
        // SAFETY: the caller vouches for the range that a fixed mapping replaces; any other takes free address space.
        let start = unsafe { libc::mmap(start.cast(), bytes, protection, flags, fd, offset as libc::off_t) };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mmap", MEMORY));
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("nothing is mapped at zero"), bytes })
    }

    /// The mapping that a system call has returned. It has as many bytes as the call was given.
    ///
    /// # Safety
    ///
    /// Unless `result` is -1, the bytes are newly mapped there, and belong to nobody else.
    pub unsafe fn from_call(result: c_long, bytes: usize, call: &'static str) -> Result<Mapping, Error> {
        match result {
            -1 => Err(Error::last(call, MEMORY)),
            start => Ok(Mapping { start: NonNull::new(start as *mut u8).expect("nothing is mapped at zero"), bytes }),
        }
    }

    /// Private memory of zeros, in huge pages if the kernel has some.
    pub fn anonymous_huge(bytes: usize) -> Result<Mapping, Error> {
        let mapping = Mapping::unbacked(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        mapping.advise(libc::MADV_HUGEPAGE, "this kernel has no transparent huge pages")?;
        Ok(mapping)
    }

    /// Private memory of zeros that begins at a multiple of its size, a power of two. It is in a huge page if `is_huge`
    /// and the kernel has one. The count of areas does not include it, because it is ordinary memory, as from an
    /// allocator.
    pub fn aligned(bytes: usize, is_huge: bool) -> Result<Mapping, Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel finds room touches no memory of ours.
        let mut whole = unsafe { Mapping::map_at(ptr::null_mut(), 2 * bytes, protection, flags, None)? };
        // The upper part is used. The next mapping will lie below it, and then the kernel can merge both mappings.
        let before = match whole.start.as_ptr().align_offset(bytes) {
            0 => bytes,
            before => before,
        };
        let (start, end) = (whole.part(before, bytes), whole.part(before + bytes, 0));
        let rest = Range { start: end as usize, bytes: bytes - before };
        let ahead = Range { start: whole.start.as_ptr() as usize, bytes: before };
        for part in [ahead, rest] {
            if part.bytes > 0 {
                LEFT_OVER.unmap(part);
            }
        }
        (whole.start, whole.bytes) = (NonNull::new(start).expect("nothing is mapped at zero"), bytes);
        let advice = if is_huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: advice about our own mapping. Its failure means that the kernel has no huge pages anyway.
        unsafe { libc::madvise(start.cast(), bytes, advice) };
        Ok(whole)
    }

    /// Memory of zeros that stays shared with forked children.
    pub fn common(bytes: usize) -> Result<Mapping, Error> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: as above.
        unsafe { Mapping::map(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, None) }
    }

    /// Extends private memory by zeros. The memory may move, with its content.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        assert!(bytes >= self.bytes);
        faults::check("mremap", MEMORY)?;
        // SAFETY: our own mapping; `&mut self` says that nobody uses an address in it.
        let start = unsafe { libc::mremap(self.start.as_ptr().cast(), self.bytes, bytes, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return Err(Error::last("mremap", MEMORY));
        }
        self.start = NonNull::new(start.cast()).expect("nothing is mapped at zero");
        self.bytes = bytes;
        Ok(())
    }

    /// Sets whether children that are forked from now on get the memory.
    pub fn inherit(&self, inherited: bool) -> Result<(), Error> {
        self.advise(if inherited { libc::MADV_DOFORK } else { libc::MADV_DONTFORK }, MEMORY)
    }

    /// Gives the kernel advice about the mapping. It must not change the bytes that this process sees.
    fn advise(&self, advice: c_int, hint: &'static str) -> Result<(), Error> {
        faults::check("madvise", hint)?;
        // SAFETY: our own mapping, whose bytes stay.
        match unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) } {
            0 => Ok(()),
            _ => Err(Error::last("madvise", hint)),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The address of `bytes` bytes, which are checked to lie within the mapping.
    #[inline]
    pub fn part(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "outside the mapping");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(at) }
    }

    /// Makes the kernel provide pages as a write would, without changing a byte. So a lack of memory is an error here,
    /// instead of a signal at the write.
    pub fn populate_for_writing(&self, at: usize, bytes: usize) -> Result<(), Error> {
        faults::check("madvise(MADV_POPULATE_WRITE)", MEMORY)?;
        // SAFETY: leaves the bytes of our own mapping as they are.
        match unsafe { libc::madvise(self.part(at, bytes).cast(), bytes, libc::MADV_POPULATE_WRITE) } {
            0 => Ok(()),
            _ => Err(Error::last("madvise(MADV_POPULATE_WRITE)", MEMORY)),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        LEFT_OVER.unmap(Range { start: self.start.as_ptr() as usize, bytes: self.bytes });
    }
}

/// Ranges that could not be unmapped. Unmapping the middle of a larger mapping splits it in two, which the limit of
/// mappings may forbid. Unmapping is tried again when the next mapping is dropped.
static LEFT_OVER: LeftOver = LeftOver(Mutex::new(Vec::new()));

struct LeftOver(Mutex<Vec<Range>>);

struct Range {
    start: usize,
    bytes: usize,
}

impl LeftOver {
    fn unmap(&self, range: Range) {
        if !range.unmap() {
            self.0.lock().push(range);
        } else if let Some(mut waiting) = self.0.try_lock()
            && !waiting.is_empty()
        {
            waiting.retain(|range| !range.unmap());
        }
    }
}

impl Range {
    fn unmap(&self) -> bool {
        // SAFETY: only dropped mappings come here, and nobody else has their range.
        faults::check("munmap", "").is_ok() && unsafe { libc::munmap(self.start as *mut _, self.bytes) } == 0
    }
}

/// The number of file descriptors up to which mechanisms may open files. The process needs the remaining descriptors,
/// even to accept connections.
fn descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to a structure of ours.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => limit.rlim_cur - (limit.rlim_cur / 4).min(SPARE_FILES),
        _ => u64::MAX,
    }
}

/// A file in memory, without a name.
#[derive(Debug)]
pub(crate) struct MemFd(OwnedFd);

impl MemFd {
    pub fn new() -> Result<MemFd, Error> {
        faults::check("memfd_create", FILES)?;
        // SAFETY: the name is a constant string with its final zero.
        let fd = unsafe { libc::memfd_create(c"anker".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last("memfd_create", FILES));
        }
        // SAFETY: a descriptor that was just opened, and that nobody else knows.
        let file = MemFd(unsafe { OwnedFd::from_raw_fd(fd) });
        // The kernel returns the lowest free number, so about this many descriptors are in use.
        if fd as u64 >= descriptors() {
            return Err(Error::System {
                call: "memfd_create",
                source: io::Error::from_raw_os_error(libc::EMFILE),
                hint: FILES,
            });
        }
        Ok(file)
    }

    /// Changes the file's length. New bytes cost nothing until they are touched.
    pub fn set_len(&self, bytes: usize) -> Result<(), Error> {
        faults::check("ftruncate", MEMORY)?;
        // SAFETY: our own file.
        match unsafe { libc::ftruncate(self.0.as_raw_fd(), bytes as libc::off_t) } {
            0 => Ok(()),
            _ => Err(Error::last("ftruncate", MEMORY)),
        }
    }

    /// Writes within the file. A lack of memory is an error here, instead of a signal.
    pub fn write_at(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        faults::check("pwrite", MEMORY)?;
        // SAFETY: reads from `bytes` as many as it has.
        let n = unsafe { libc::pwrite(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), offset as libc::off_t) };
        match n {
            n if n == bytes.len() as isize => Ok(()),
            n if n < 0 => Err(Error::last("pwrite", MEMORY)),
            _ => Err(Error::System { call: "pwrite", source: io::ErrorKind::WriteZero.into(), hint: MEMORY }),
        }
    }

    /// Returns the memory of pages to the system. They read as zeros afterwards.
    pub fn discard(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        faults::check("fallocate", MEMORY)?;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: our own file.
        match unsafe { libc::fallocate(self.0.as_raw_fd(), mode, offset as libc::off_t, bytes as libc::off_t) } {
            0 => Ok(()),
            _ => Err(Error::last("fallocate", MEMORY)),
        }
    }
}

/// Runs `start` with all signals blocked, so that a thread started by it has them blocked, too. Signals are for the
/// threads of the crate's user.
pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero set is a valid place for sigfillset to write to.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets are ours; the mask is that of this thread.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let started = start();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
    started
}

/// The number of page faults of this thread so far, including those for which the kernel copied a page.
pub fn page_faults() -> u64 {
    // SAFETY: all-zero is a valid structure, which is ours to write to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usage.ru_minflt as u64
}

/// Lets tests make any single system call fail. This code is always compiled in, so that tests run the shipped code.
/// Its cost is negligible next to that of a system call.
pub mod faults {
    use std::cell::Cell;
    use std::io;

    use crate::memory::error::Error;

    thread_local! {
        /// The number of calls that this thread may still make before one fails.
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// While this exists, one system call of this thread is going to fail.
    #[derive(Debug)]
    pub struct Armed(());

    /// Makes call number `nth` (from 0) of this thread fail with ENOMEM; later calls work.
    pub fn fail_call(nth: u64) -> Armed {
        LEFT.set(Some(nth));
        Armed(())
    }

    impl Armed {
        /// Whether the call has failed.
        pub fn fired(&self) -> bool {
            LEFT.get().is_none()
        }
    }

    impl Drop for Armed {
        fn drop(&mut self) {
            LEFT.set(None);
        }
    }

    pub(crate) fn check(call: &'static str, hint: &'static str) -> Result<(), Error> {
        let left = LEFT.get();
        LEFT.set(left.and_then(|left| left.checked_sub(1)));
        match left {
            Some(0) => Err(Error::System { call, source: io::Error::from_raw_os_error(libc::ENOMEM), hint }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_fails_names_itself_the_reason_and_a_way_out() {
        let _armed = faults::fail_call(0);
        let refused = Mapping::reserve(PAGE).unwrap_err().to_string();
        assert!(refused.starts_with("mmap failed: Cannot allocate memory"), "{refused}");
        assert!(refused.contains("vm.max_map_count"), "{refused}");
        assert!(Mapping::reserve(1 << 60).is_err());
        assert!(Mapping::reserve(PAGE).is_ok());
    }

    #[test]
    fn what_cannot_be_unmapped_is_unmapped_later() {
        let left_over = LeftOver(Mutex::default());
        let range = || {
            let mapping = std::mem::ManuallyDrop::new(Mapping::anonymous(PAGE).unwrap());
            Range { start: mapping.start.as_ptr() as usize, bytes: PAGE }
        };
        let armed = faults::fail_call(1);
        left_over.unmap(range());
        assert!(armed.fired());
        assert_eq!(left_over.0.lock().len(), 1);
        drop(armed);
        left_over.unmap(range());
        assert!(left_over.0.lock().is_empty());
    }

    #[test]
    fn private_pages_are_copied_without_being_changed() {
        let file = MemFd::new().unwrap();
        file.set_len(4 * PAGE).unwrap();
        file.write_at(PAGE, &[1; PAGE]).unwrap();
        let private = Mapping::file(&file, 0, 4 * PAGE, FilePages::Private).unwrap();
        // SAFETY: reads a byte of a mapping that lives.
        let read = |page: usize| unsafe { private.part(page * PAGE, 1).read_volatile() };
        private.populate_for_writing(PAGE, PAGE).unwrap();
        file.write_at(PAGE, &[2; 2 * PAGE]).unwrap();
        assert_eq!((read(0), read(1), read(2)), (0, 1, 2));
        file.discard(2 * PAGE, PAGE).unwrap();
        assert_eq!(read(2), 0);
        private.replace(3 * PAGE, PAGE, &file, PAGE, FilePages::SharedReadOnly).unwrap();
        assert_eq!(read(3), 2);
    }
}
