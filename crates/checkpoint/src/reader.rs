//! Reading: the chunks of a table in their order.
//!
//! Pieces that were written together lie together, also those of consecutive chunks. So the pieces of many chunks are
//! read at once, and adjacent ones with one call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::path::Path;

use crate::checksum::crc32c;
use crate::disk::{Disk, chunk_file};
use crate::error::Error;
use crate::manifest::{ChunkIndex, Place, TableIndex};

/// The number of bytes after which no more chunks are read at once.
const READ_AT_ONCE: u64 = 4 << 20;
/// Pieces with a smaller gap between them are read together.
const GAP: u64 = 64 << 10;

/// The bytes at a place.
pub fn piece(disk: &Disk, place: Place) -> Result<Vec<u8>, Error> {
    let name = chunk_file(place.file);
    let file = disk.open(&name)?;
    ensure_within(disk, &name, &file, place)?;
    let mut bytes = vec![0; place.length as usize];
    disk.read_at(&name, &file, place.offset, &mut bytes)?;
    check(place, &bytes)?;
    Ok(bytes)
}

/// Checks that a file is long enough before memory is allocated for its bytes.
fn ensure_within(disk: &Disk, name: &str, file: &File, place: Place) -> Result<(), Error> {
    let end = place.offset.checked_add(place.length);
    match disk.length_of(name, file)? {
        length if end.is_some_and(|end| end <= length) => Ok(()),
        _ => Err(Error::Damaged("a file is too short")),
    }
}

fn check(place: Place, bytes: &[u8]) -> Result<(), Error> {
    if crc32c(bytes) == place.crc { Ok(()) } else { Err(Error::Damaged("a checksum differs")) }
}

/// A chunk that was read.
#[derive(Clone, Debug)]
pub struct ChunkBytes<'a> {
    pub slots: u32,
    pub rows: u32,
    pub pieces: Vec<&'a [u8]>,
}

/// The chunks of a table. An error ends it, because all chunks of a table are needed.
#[derive(Debug)]
pub struct TableReader {
    disk: Disk,
    index: TableIndex,
    files: HashMap<u64, File>,
    /// The next chunk to return, and the first one that was not read yet.
    next: usize,
    behind: usize,
    buffer: Vec<u8>,
    /// For each piece that was read, from that of chunk `next` on, its start in the buffer.
    starts: std::collections::VecDeque<usize>,
}

impl TableReader {
    pub(crate) fn new(path: &Path, index: TableIndex) -> Result<TableReader, Error> {
        let (disk, mut files) = (Disk::new(path)?, HashMap::new());
        // All files are opened now, so that they can be read even if they are removed meanwhile.
        for place in index.pieces().map(|piece| piece.place) {
            if let Entry::Vacant(entry) = files.entry(place.file) {
                entry.insert(disk.open(&chunk_file(place.file))?);
            }
        }
        let (buffer, starts) = Default::default();
        Ok(TableReader { disk, index, files, next: 0, behind: 0, buffer, starts })
    }

    pub fn index(&self) -> &TableIndex {
        &self.index
    }

    /// The next chunk; `None` behind the last one.
    pub fn next_chunk(&mut self) -> Result<Option<ChunkBytes<'_>>, Error> {
        if self.next == self.index.chunks.len() {
            return Ok(None);
        }
        if self.next == self.behind {
            self.read_some()?;
        }
        let ChunkIndex { slots, rows, pieces } = &self.index.chunks[self.next];
        self.next += 1;
        let starts = self.starts.drain(..pieces.len());
        let buffer = &self.buffer;
        let pieces = starts.zip(pieces).map(|(start, piece)| &buffer[start..start + piece.place.length as usize]);
        Ok(Some(ChunkBytes { slots: *slots, rows: *rows, pieces: pieces.collect() }))
    }

    /// Reads the next chunks.
    fn read_some(&mut self) -> Result<(), Error> {
        let mut places = Vec::new();
        let mut bytes: u64 = 0;
        while bytes < READ_AT_ONCE
            && let Some(chunk) = self.index.chunks.get(self.behind)
        {
            places.extend(chunk.pieces.iter().map(|piece| piece.place));
            bytes = chunk.pieces.iter().fold(bytes, |bytes, piece| bytes.saturating_add(piece.place.length));
            self.behind += 1;
        }
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|at| (places[*at].file, places[*at].offset));
        let mut starts = vec![0; places.len()];
        self.buffer.clear();
        let mut rest = &order[..];
        while let Some(first) = rest.first().map(|at| places[*at]) {
            let mut end = first.offset;
            let together = rest.iter().take_while(|at| {
                let Place { file, offset, length, .. } = places[**at];
                let is_near = file == first.file && offset <= end.saturating_add(GAP);
                end = if is_near { end.max(offset.saturating_add(length)) } else { end };
                is_near
            });
            let (now, later) = rest.split_at(together.count());
            let start = self.buffer.len();
            self.read_range(first.file, first.offset, end)?;
            for at in now {
                starts[*at] = start + (places[*at].offset - first.offset) as usize;
            }
            rest = later;
        }
        for (place, start) in places.iter().zip(&starts) {
            check(*place, &self.buffer[*start..*start + place.length as usize])?;
        }
        self.starts = starts.into();
        Ok(())
    }

    /// Appends the bytes of a file from `offset` to `end` to the buffer.
    fn read_range(&mut self, number: u64, offset: u64, end: u64) -> Result<(), Error> {
        let (name, file) = (chunk_file(number), &self.files[&number]);
        let length = end - offset;
        ensure_within(&self.disk, &name, file, Place { file: number, offset, length, crc: 0 })?;
        let start = self.buffer.len();
        let refused = |_| Error::Damaged("a chunk is longer than memory");
        self.buffer.try_reserve(length as usize).map_err(refused)?;
        self.buffer.resize(start + length as usize, 0);
        self.disk.read_at(&name, file, offset, &mut self.buffer[start..])
    }
}
