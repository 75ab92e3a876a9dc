//! Common parts of the mechanisms that map pages: address space that grows without moving, and snapshots of it.

#![allow(unsafe_code)]

use std::fmt::Debug;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::memory::error::{Error, OutOfMemory};
use crate::memory::overlay::Overlay;
use crate::memory::pool::{Alive, Pool};
use crate::memory::region::{Snapshot, locate};
use crate::memory::run::Run;
use crate::memory::sys::{FilePages, Mapping, MemFd, PAGE, require_page_size};

/// The least and the greatest size of a piece of address space. Between these limits, a new piece is as large as all
/// earlier pieces together, so that a region has few pieces.
const PIECE: Range<usize> = 1 << 20..1 << 30;

const NO_POPULATE: &str = "this kernel has no MADV_POPULATE_WRITE: it came with Linux 5.14";

/// Checks, with one page, whether this kernel supports the mechanisms that use files. An emulated kernel may ignore
/// MADV_POPULATE_WRITE; then a snapshot would change together with its file.
pub(crate) fn probe_files() -> Result<(), Error> {
    require_page_size()?;
    let file = MemFd::new()?;
    file.set_len(PAGE)?;
    let private = Mapping::file(&file, 0, PAGE, FilePages::Private)?;
    match private.populate_for_writing(0, PAGE) {
        Err(Error::System { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            return Err(Error::Unavailable(NO_POPULATE));
        }
        probed => probed?,
    }
    file.write_at(0, &[1])?;
    // SAFETY: a byte of a mapping that lives, whose file nobody else knows.
    match unsafe { private.part(0, 1).read_volatile() } {
        0 => Ok(()),
        _ => Err(Error::Unavailable(NO_POPULATE)),
    }
}

/// Returns an error if runs do not consist of whole pages, or if the system's pages have another size.
pub(crate) fn require_pages(run_bytes: usize) -> Result<(), Error> {
    require_page_size()?;
    match run_bytes {
        0 => Err(Error::Unavailable("a run needs at least one page of 4096 bytes")),
        _ if run_bytes.is_multiple_of(PAGE) => Ok(()),
        _ => Err(Error::Unavailable("this mechanism works on pages: runs must be a multiple of 4096 bytes")),
    }
}

/// Address space in pieces, each of which is a mapping of whole runs. Bytes are addressed by their offset in the
/// region.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    start: usize,
    mapping: Mapping,
}

impl Space {
    /// The number of mapped bytes.
    pub fn room(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.start + piece.mapping.len())
    }

    /// The size that the next piece must have so that there is room for `len` bytes in total; 0 if there is enough room
    /// already.
    pub fn missing(&self, len: usize, run_bytes: usize) -> usize {
        match len.saturating_sub(self.room()) {
            0 => 0,
            missing => missing.max(self.room().clamp(PIECE.start, PIECE.end)).next_multiple_of(run_bytes),
        }
    }

    pub fn push(&mut self, mapping: Mapping) {
        self.pieces.push(Piece { start: self.room(), mapping });
    }

    /// The mapping that contains the byte at `offset`, and the byte's offset in that mapping.
    #[inline]
    pub fn at(&self, offset: usize) -> (&Mapping, usize) {
        let next = self.pieces.partition_point(|piece| piece.start <= offset);
        let piece = &self.pieces[next - 1];
        (&piece.mapping, offset - piece.start)
    }

    /// The mappings that contain a range of bytes. For each: the mapping, the offset in it, and the number of bytes.
    pub fn parts(&self, range: Range<usize>) -> impl Iterator<Item = (&Mapping, usize, usize)> {
        self.pieces.iter().filter_map(move |piece| {
            let from = range.start.max(piece.start);
            let to = range.end.min(piece.start + piece.mapping.len());
            (from < to).then(|| (&piece.mapping, from - piece.start, to - from))
        })
    }

    /// Reads bytes within one piece.
    ///
    /// # Safety
    ///
    /// The bytes are readable and nobody writes to them meanwhile.
    #[inline]
    pub unsafe fn read(&self, offset: usize, into: &mut [u8]) {
        let (mapping, at) = self.at(offset);
        // SAFETY: `part` checks the range; the caller vouches for the rest.
        unsafe { ptr::copy_nonoverlapping(mapping.part(at, into.len()), into.as_mut_ptr(), into.len()) };
    }

    /// Bytes within one piece, without a copy.
    ///
    /// # Safety
    ///
    /// While the slice lives, the bytes are readable, nobody writes to them, and nothing else is mapped there.
    #[inline]
    pub unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let (mapping, at) = self.at(offset);
        // SAFETY: `part` checks the range; the caller vouches for the rest.
        unsafe { std::slice::from_raw_parts(mapping.part(at, len), len) }
    }

    /// Writes bytes within one piece.
    ///
    /// # Safety
    ///
    /// The bytes are writable and nobody else reads or writes them meanwhile.
    #[inline]
    pub unsafe fn write(&self, offset: usize, bytes: &[u8]) {
        let (mapping, at) = self.at(offset);
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), mapping.part(at, bytes.len()), bytes.len()) };
    }
}

/// The length to which a region grows: `len` rounded up to whole runs, but not less than before.
pub(crate) fn grown(before: usize, len: usize, run_bytes: usize, pool: &Pool) -> Result<usize, Error> {
    let rounded = len.checked_next_multiple_of(run_bytes);
    let refused = OutOfMemory::Limit { wanted: len as u64, limit: pool.limit() };
    Ok(rounded.ok_or(refused)?.max(before))
}

/// The pages that a write touches.
#[inline]
pub(crate) fn pages(offset: usize, bytes: usize) -> Range<usize> {
    offset / PAGE..(offset + bytes).div_ceil(PAGE)
}

/// Makes room for `more` elements. A lack of memory is an error here, while `push` would abort.
pub(crate) fn reserve<T>(elements: &mut Vec<T>, more: usize, pool: &Pool) -> Result<(), Error> {
    let wanted = (more * size_of::<T>()) as u64;
    Ok(elements.try_reserve(more).map_err(|_| OutOfMemory::Limit { wanted, limit: pool.limit() })?)
}

/// The owner of a snapshot's pages.
///
/// # Safety
///
/// As long as it lives, the bytes of its space are readable and do not change.
pub(crate) unsafe trait Pages: Debug + Send + Sync + 'static {
    fn space(&self) -> &Space;
}

/// A snapshot whose content lies in mapped pages.
#[derive(Debug)]
pub(crate) struct PagedSnapshot<P> {
    pages: Arc<P>,
    len: usize,
    run_bytes: usize,
    patches: Overlay,
    _alive: Alive,
}

impl<P: Pages> PagedSnapshot<P> {
    /// A snapshot of the first `len` bytes of `pages`, in runs.
    pub fn new(pages: P, len: usize, run_bytes: usize, pool: &Pool, alive: Alive) -> PagedSnapshot<P> {
        PagedSnapshot { pages: Arc::new(pages), len, run_bytes, patches: Overlay::new(pool), _alive: alive }
    }
}

impl<P: Pages> Snapshot for PagedSnapshot<P> {
    fn len(&self) -> usize {
        self.len
    }

    fn run_bytes(&self) -> usize {
        self.run_bytes
    }

    fn run(&self, index: usize) -> Result<Run, Error> {
        Ok(self.patches.run(index).unwrap_or_else(|| unpatched(&self.pages, self.len, self.run_bytes, index)))
    }

    fn patch(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let (index, within) = locate(self.len, self.run_bytes, offset, bytes.len());
        let original = || Ok(unpatched(&self.pages, self.len, self.run_bytes, index));
        self.patches.patch(index, within, bytes, original)
    }
}

fn unpatched<P: Pages>(pages: &Arc<P>, len: usize, run_bytes: usize, index: usize) -> Run {
    assert!(index < len / run_bytes, "the snapshot has no run {index}");
    let (mapping, at) = pages.space().at(index * run_bytes);
    let start = NonNull::new(mapping.part(at, run_bytes)).expect("nothing is mapped at zero");
    // SAFETY: `Pages` vouches for the bytes, and the run keeps it.
    unsafe { Run::new(start, run_bytes, pages.clone()) }
}
