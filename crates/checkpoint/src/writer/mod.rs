//! A new checkpoint.
//!
//! | file | job |
//! |---|---|
//! | `sweep` | old files of which little is used are copied into the new ones |

mod sweep;

use std::io::Read;
use std::mem;

use crate::appender::{Appender, Limits, Pace, make_sure_of_space};
use crate::directory::{Directory, MANIFESTS};
use crate::disk::{manifest_file, new_file};
use crate::error::Error;
use crate::manifest::{ChunkIndex, Manifest, Piece, TableEntry, TableHead, TableIndex};

/// A checkpoint that is being written. Without [`Checkpoint::finish`], its files are removed.
#[derive(Debug)]
pub struct Checkpoint<'a> {
    pub(crate) directory: &'a mut Directory,
    limits: Limits,
    appender: Appender,
    tables: Vec<Table>,
    is_finished: bool,
}

/// A table of a checkpoint.
#[derive(Debug)]
enum Table {
    Kept(TableEntry),
    /// A table whose index is not written yet.
    Changed(TableHead, TableIndex),
}

/// A checkpoint that is durable, but not confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub id: u64,
    pub bytes_written: u64,
    /// The tables that are not in the checkpoint, because their old pieces are damaged.
    pub lost: Vec<u32>,
}

impl Directory {
    /// Begins a checkpoint.
    pub fn begin(&mut self, limits: Limits, pace: Pace) -> Result<Checkpoint<'_>, Error> {
        if self.remains().len() >= MANIFESTS {
            return Err(Error::Unconfirmed);
        }
        // Files that a failed checkpoint has left count against the limit, so they must go first.
        self.remove_unnamed()?;
        let bytes = self.bytes()?;
        Ok(Checkpoint::new(self, limits, pace, bytes))
    }
}

impl<'a> Checkpoint<'a> {
    fn new(directory: &'a mut Directory, limits: Limits, pace: Pace, bytes: u64) -> Checkpoint<'a> {
        let appender = Appender::new(limits, pace, directory.next(), bytes);
        Checkpoint { directory, limits, appender, tables: Vec::new(), is_finished: false }
    }

    /// The table in the checkpoint before this one.
    pub fn previous(&self, relid: u32) -> Option<&TableEntry> {
        self.directory.remains().first()?.tables.iter().find(|table| table.head.relid == relid)
    }

    /// See [`Directory::index`].
    pub fn index(&self, table: &TableEntry) -> Result<TableIndex, Error> {
        self.directory.index(table)
    }

    /// Adds a table of the checkpoint before this one, none of whose pieces has changed.
    pub fn keep(&mut self, table: &TableEntry, head: TableHead) {
        self.tables.push(Table::Kept(TableEntry { head, ..table.clone() }));
    }

    /// Begins a table.
    pub fn table(&mut self) -> TableWriter<'_, 'a> {
        TableWriter { checkpoint: self, chunks: Vec::new() }
    }

    /// Makes the checkpoint durable. The one before it stays until this one is confirmed.
    pub fn finish(mut self, extra: Vec<u8>) -> Result<Finished, Error> {
        let lost = self.sweep()?;
        let tables = mem::take(&mut self.tables).into_iter().map(|table| self.entry(table));
        let tables = tables.collect::<Result<_, Error>>()?;
        self.appender.finish(&self.directory.disk)?;
        // The files and the manifest have different names, so their numbers may be taken from the same sequence.
        let number = self.appender.next;
        let (id, database) = (random()?, self.directory.database);
        let manifest = Manifest { database, id, number, tables, extra };
        self.appender.wait()?;
        self.write_manifest(&manifest)?;
        self.is_finished = true;
        self.directory.add(manifest);
        Ok(Finished { id, bytes_written: self.appender.written(), lost })
    }

    /// Writes the index of a table, if it has changed.
    fn entry(&mut self, table: Table) -> Result<TableEntry, Error> {
        match table {
            Table::Kept(entry) => Ok(entry),
            Table::Changed(head, index) => {
                let place = self.appender.append(&self.directory.disk, &index.encode()?)?;
                Ok(TableEntry { head, index: place, shares: index.shares(Some(place)) })
            }
        }
    }

    fn write_manifest(&self, manifest: &Manifest) -> Result<(), Error> {
        let (disk, bytes) = (&self.directory.disk, manifest.encode()?);
        make_sure_of_space(disk, &self.limits, self.directory.bytes()?, bytes.len() as u64)?;
        let (new, name) = (new_file(), manifest_file(manifest.number));
        let mut file = disk.create(&new)?;
        disk.append(&new, &mut file, &bytes)?;
        disk.flush(&new, &file)?;
        disk.rename(&new, &name)?;
        disk.flush_names()
    }
}

impl Drop for Checkpoint<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.directory.last = self.directory.last.max(self.appender.next);
            // If files cannot be removed now, the next call of `begin` or `open` removes them.
            let _ = self.directory.remove_unnamed();
        }
    }
}

/// A table that is being written, chunk by chunk. Without [`TableWriter::finish`], it is not in the checkpoint.
#[derive(Debug)]
pub struct TableWriter<'c, 'a> {
    checkpoint: &'c mut Checkpoint<'a>,
    chunks: Vec<ChunkIndex>,
}

impl TableWriter<'_, '_> {
    /// Begins the next chunk. Its pieces must follow.
    pub fn chunk(&mut self, slots: u32, rows: u32) {
        self.chunks.push(ChunkIndex { slots, rows, pieces: Vec::new() });
    }

    /// Adds a piece that has not changed since the checkpoint before this one.
    pub fn keep(&mut self, piece: Piece) {
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.pieces.push(piece);
        }
    }

    /// Adds a piece that is new, or has changed.
    pub fn write(&mut self, stamp: u32, bytes: &[u8]) -> Result<(), Error> {
        let place = self.checkpoint.appender.append(&self.checkpoint.directory.disk, bytes)?;
        self.keep(Piece { stamp, place });
        Ok(())
    }

    /// Ends the table. Generation and stamp are those of its image.
    pub fn finish(self, head: TableHead, generation: u64, stamp: u32) {
        let TableWriter { checkpoint, chunks } = self;
        checkpoint.tables.push(Table::Changed(head, TableIndex { generation, stamp, chunks }));
    }
}

/// A random number from 1 to the greatest one with 63 bits, as PostgreSQL's bigint can hold it.
fn random() -> Result<u64, Error> {
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| Error::system("read", path, error))?;
    Ok((u64::from_le_bytes(bytes) >> 1).max(1))
}
