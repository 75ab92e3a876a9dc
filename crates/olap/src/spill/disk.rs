//! The file that holds the rows of queries on disk. It is unlinked as soon as it is created, so that it vanishes with
//! the process.
//!
//! The file consists of pages. Each page belongs to one [`Outflow`] or [`Pages`], or is free. If all pages are free,
//! the file is truncated to nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub const PAGE: usize = 16 << 10;

#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    limit_bytes: u64,
    space: Mutex<Space>,
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Space {
    /// The file, created when it is first needed.
    file: Option<Arc<File>>,
    /// The free pages before the end.
    free: Vec<u32>,
    /// The end of the last page that was used since the file was empty.
    end: u32,
}

impl Disk {
    /// `path` is the place where the file is created. It is unlinked at once.
    pub fn new(path: PathBuf, limit_bytes: u64) -> Disk {
        Disk { path, limit_bytes, space: Mutex::default(), written: AtomicU64::new(0) }
    }

    /// Bytes that were ever written.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn take(&self) -> io::Result<(u32, Arc<File>)> {
        let mut space = self.space.lock();
        let file = match &space.file {
            Some(file) => file.clone(),
            None => space.file.insert(Arc::new(self.create()?)).clone(),
        };
        if let Some(page) = space.free.pop() {
            return Ok((page, file));
        }
        let page = space.end;
        if (u64::from(page) + 1) * PAGE as u64 > self.limit_bytes || page == u32::MAX {
            let message = "queries have put as much on disk as they may (anker.query_disk)";
            return Err(Error::new(ErrorKind::StorageFull, message));
        }
        space.end += 1;
        Ok((page, file))
    }

    fn create(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        std::fs::remove_file(&self.path)?;
        Ok(file)
    }

    fn give_back(&self, page: u32) {
        let mut space = self.space.lock();
        space.free.push(page);
        if space.free.len() == space.end as usize {
            space.free = Vec::new();
            space.end = 0;
            // If the file cannot be truncated, its pages will be overwritten later.
            let _ = space.file.as_ref().map(|file| file.set_len(0));
        }
    }

    #[cfg(test)]
    pub fn pages_in_use(&self) -> usize {
        let space = self.space.lock();
        space.end as usize - space.free.len()
    }
}

/// The disk space of one query, in bytes, which its user's `temp_file_limit` may bound.
#[derive(Debug)]
pub struct Quota {
    limit_bytes: u64,
    used: AtomicU64,
    written: AtomicU64,
}

impl Quota {
    pub fn new(limit_bytes: u64) -> Quota {
        Quota { limit_bytes, used: AtomicU64::new(0), written: AtomicU64::new(0) }
    }

    /// The bytes that the query has on disk now.
    pub fn used_bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes that the query has written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn take_page(&self) -> io::Result<()> {
        let more = |used| Some(used + PAGE as u64).filter(|used| *used <= self.limit_bytes);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => {
                let message = "the query has put as much on disk as its user may (temp_file_limit)";
                Err(Error::new(ErrorKind::QuotaExceeded, message))
            }
        }
    }

    fn give_back_page(&self) {
        self.used.fetch_sub(PAGE as u64, Ordering::Relaxed);
    }
}

/// Counts the bytes that one operator has on disk.
pub trait Tally: Send + Sync {
    fn added(&self, bytes: u64);
    fn removed(&self, bytes: u64);
}

/// The disk that one operator uses, and the counters of its use.
#[derive(Clone)]
pub struct Account {
    pub disk: Arc<Disk>,
    pub quota: Option<Arc<Quota>>,
    pub tally: Option<Arc<dyn Tally>>,
}

impl Account {
    fn write(&self, bytes: &[u8]) -> io::Result<u32> {
        if let Some(quota) = &self.quota {
            quota.take_page()?;
        }
        let written = self.disk.take().and_then(|(page, file)| {
            let written = file.write_all_at(bytes, u64::from(page) * PAGE as u64);
            written.map(|()| page).inspect_err(|_| self.disk.give_back(page))
        });
        let page = written.inspect_err(|_| self.give_back_quota())?;
        self.disk.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Some(quota) = &self.quota {
            quota.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        if let Some(tally) = &self.tally {
            tally.added(PAGE as u64);
        }
        Ok(page)
    }

    fn read(&self, page: u32, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.disk.space.lock().file.clone();
        let file = file.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        file.read_exact_at(bytes, u64::from(page) * PAGE as u64)
    }

    fn give_back_quota(&self) {
        if let Some(quota) = &self.quota {
            quota.give_back_page();
        }
    }

    fn give_back(&self, page: u32) {
        self.disk.give_back(page);
        self.give_back_quota();
        if let Some(tally) = &self.tally {
            tally.removed(PAGE as u64);
        }
    }
}

/// Pages that were written one after the other.
pub struct Pages {
    account: Account,
    numbers: Vec<u32>,
    /// The bytes in all pages; only the last page may not be full.
    length: u64,
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.numbers.drain(..).for_each(|page| self.account.give_back(page));
    }
}

/// Writes bytes to pages on disk.
pub struct Outflow {
    pages: Pages,
    buffer: Vec<u8>,
}

impl Outflow {
    pub fn new(account: Account) -> Outflow {
        Outflow { pages: Pages { account, numbers: Vec::new(), length: 0 }, buffer: Vec::with_capacity(PAGE) }
    }

    pub fn finish(mut self) -> io::Result<Pages> {
        self.put_down()?;
        Ok(self.pages)
    }

    fn put_down(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let page = self.pages.account.write(&self.buffer)?;
            self.pages.numbers.push(page);
            self.pages.length += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Write for Outflow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() == PAGE {
            self.put_down()?;
        }
        let taken = bytes.len().min(PAGE - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// A page that is not full waits for more bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the bytes of pages, in the order in which they were written.
pub struct Inflow {
    source: Source,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were read.
    given: usize,
}

enum Source {
    /// Pages in reverse order, so that the last one is read next. Each page is freed once it is read.
    Once(Pages),
    /// Pages that other readers may read, too. `next` counts the pages that this reader has read.
    Kept { pages: Arc<Pages>, next: usize },
}

impl Inflow {
    pub fn new(mut pages: Pages) -> Inflow {
        pages.numbers.reverse();
        Inflow { source: Source::Once(pages), buffer: Vec::new(), given: 0 }
    }

    pub fn of_kept(pages: Arc<Pages>) -> Inflow {
        Inflow { source: Source::Kept { pages, next: 0 }, buffer: Vec::new(), given: 0 }
    }

    /// Reads the next page, if there is one.
    fn turn(&mut self) -> io::Result<bool> {
        match &mut self.source {
            Source::Once(pages) => {
                let Some(&page) = pages.numbers.last() else { return Ok(false) };
                let length = pages.length.min(PAGE as u64);
                self.buffer.resize(length as usize, 0);
                pages.account.read(page, &mut self.buffer)?;
                pages.numbers.pop();
                pages.length -= length;
                pages.account.give_back(page);
            }
            Source::Kept { pages, next } => {
                let Some(&page) = pages.numbers.get(*next) else { return Ok(false) };
                let length = (pages.length - (*next * PAGE) as u64).min(PAGE as u64);
                self.buffer.resize(length as usize, 0);
                pages.account.read(page, &mut self.buffer)?;
                *next += 1;
            }
        }
        self.given = 0;
        Ok(true)
    }
}

impl Read for Inflow {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.given == self.buffer.len() && !self.turn()? {
            return Ok(0);
        }
        let given = bytes.len().min(self.buffer.len() - self.given);
        bytes[..given].copy_from_slice(&self.buffer[self.given..][..given]);
        self.given += given;
        Ok(given)
    }
}
