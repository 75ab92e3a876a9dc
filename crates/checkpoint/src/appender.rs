//! New files, written from front to back: not faster than allowed, and not beyond the space that we may take.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::checksum::crc32c;
use crate::disk::{Disk, chunk_file};
use crate::error::Error;
use crate::manifest::Place;

/// The number of bytes that are written at a time.
const WRITTEN_AT_ONCE: usize = 1 << 20;
/// A file is flushed whenever this many bytes were written to it, so that the system never has many dirty pages of
/// ours.
const FLUSHED_AT_ONCE: u64 = 32 << 20;
/// The longest time that the writer sleeps without a look at the cancel flag.
const NAP: Duration = Duration::from_millis(20);
/// At least this part of the file system stays free, but no more than [`MOST_RESERVED`].
const RESERVED: u64 = 20;
const MOST_RESERVED: u64 = 1 << 30;

/// The default length after which a file gets no more bytes. Old files are copied as a whole, so they must not be long.
const FILE_BYTES: u64 = 1 << 30;

/// The space that checkpoints may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The greatest number of bytes of all files together. While a checkpoint is not confirmed, the one before it
    /// counts, too.
    pub bytes: u64,
    /// The length after which a file gets no more bytes.
    pub file_bytes: u64,
}

impl Limits {
    pub fn new(bytes: u64) -> Limits {
        Limits { bytes, file_bytes: FILE_BYTES }
    }
}

/// How fast a checkpoint is written, and whether it should end.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// The greatest number of bytes per second; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// If it is set, writing ends with [`Error::Cancelled`].
    pub cancel: Arc<AtomicBool>,
}

/// The new files of a checkpoint.
#[derive(Debug)]
pub struct Appender {
    limits: Limits,
    pace: Pace,
    open: Option<Open>,
    /// The number of the next file.
    pub next: u64,
    /// The files that were begun.
    pub files: Vec<u64>,
    /// The bytes of all files that are there already.
    before: u64,
    written: u64,
    begun: Instant,
    is_void: bool,
}

#[derive(Debug)]
struct Open {
    number: u64,
    name: String,
    file: File,
    buffer: Vec<u8>,
    /// The number of bytes in file and buffer.
    length: u64,
    unflushed: u64,
}

impl Appender {
    /// No files yet. `next` is the number of the first one, and `before` the bytes of all other files.
    pub fn new(limits: Limits, pace: Pace, next: u64, before: u64) -> Appender {
        let (open, files, written, begun) = (None, Vec::new(), 0, Instant::now());
        Appender { limits, pace, open, next, files, before, written, begun, is_void: false }
    }

    /// The number of bytes that were appended.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes, and returns their place.
    pub fn append(&mut self, disk: &Disk, bytes: &[u8]) -> Result<Place, Error> {
        self.guarded(|appender| appender.try_append(disk, bytes))
    }

    /// Flushes all files. Nothing may be appended afterwards.
    pub fn finish(&mut self, disk: &Disk) -> Result<(), Error> {
        self.guarded(|appender| appender.close(disk))
    }

    /// Calls a function that writes. If it fails, all files are void.
    fn guarded<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.is_void {
            return Err(Error::Void);
        }
        let result = write(self);
        self.is_void |= result.is_err();
        result
    }

    fn try_append(&mut self, disk: &Disk, bytes: &[u8]) -> Result<Place, Error> {
        if self.open.as_ref().is_some_and(|open| open.length >= self.limits.file_bytes) {
            self.close(disk)?;
        }
        if self.open.is_none() {
            let number = self.next;
            let name = chunk_file(number);
            self.next += 1;
            self.files.push(number);
            let file = disk.create(&name)?;
            self.open = Some(Open { number, name, file, buffer: Vec::new(), length: 0, unflushed: 0 });
        }
        let Some(open) = &mut self.open else { return Err(Error::Void) };
        let length = bytes.len() as u64;
        let place = Place { file: open.number, offset: open.length, length, crc: crc32c(bytes) };
        open.length += length;
        self.written += length;
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(open) = &mut self.open else { return Err(Error::Void) };
            let (now, later) = rest.split_at(rest.len().min(WRITTEN_AT_ONCE - open.buffer.len()));
            open.buffer.extend_from_slice(now);
            rest = later;
            if open.buffer.len() == WRITTEN_AT_ONCE {
                self.write(disk)?;
            }
        }
        Ok(place)
    }

    /// Writes the buffer.
    fn write(&mut self, disk: &Disk) -> Result<(), Error> {
        self.wait()?;
        let Some(open) = self.open.as_mut().filter(|open| !open.buffer.is_empty()) else { return Ok(()) };
        let bytes = open.buffer.len() as u64;
        make_sure_of_space(disk, &self.limits, self.before, bytes)?;
        disk.append(&open.name, &mut open.file, &open.buffer)?;
        open.buffer.clear();
        self.before += bytes;
        open.unflushed += bytes;
        if open.unflushed >= FLUSHED_AT_ONCE {
            disk.flush(&open.name, &open.file)?;
            open.unflushed = 0;
        }
        Ok(())
    }

    fn close(&mut self, disk: &Disk) -> Result<(), Error> {
        self.write(disk)?;
        if let Some(open) = self.open.take() {
            disk.flush(&open.name, &open.file)?;
        }
        Ok(())
    }

    /// Waits until more bytes may be written.
    pub fn wait(&self) -> Result<(), Error> {
        loop {
            if self.pace.cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            let due = self.pace.bytes_per_second.map(|rate| self.written as f64 / rate.max(1) as f64);
            let due = due.map(|due| self.begun + Duration::from_secs_f64(due.min(1e9)));
            match due.and_then(|due| due.checked_duration_since(Instant::now())) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
                _ => return Ok(()),
            }
        }
    }
}

/// Checks whether `more` bytes may be written beside the `present` ones.
pub fn make_sure_of_space(disk: &Disk, limits: &Limits, present: u64, more: u64) -> Result<(), Error> {
    if present.saturating_add(more) > limits.bytes {
        return Err(Error::Limit { limit: limits.bytes });
    }
    let (all, free) = disk.space()?;
    let reserve = (all / RESERVED).min(MOST_RESERVED);
    if free < reserve.saturating_add(more) { Err(Error::NoSpace { reserve }) } else { Ok(()) }
}
