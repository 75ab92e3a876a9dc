//! The directory with the checkpoints of a database.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, chunk_file, is_manifest, lock_file, manifest_file, number_in};
use crate::error::Error;
use crate::manifest::{Database, Manifest, Place, TableEntry, TableIndex};
use crate::reader::{self, TableReader};

/// The number of manifests that are kept: the confirmed one, and the one that is not confirmed yet.
pub const MANIFESTS: usize = 2;
/// The checkpoints of a database. No other process uses the directory while this lives.
#[derive(Debug)]
pub struct Directory {
    pub(crate) disk: Disk,
    pub(crate) database: Database,
    /// The valid manifests, the newest first.
    manifests: Vec<Manifest>,
    /// The greatest number that a file or manifest has had so far.
    pub(crate) last: u64,
    /// It keeps the directory locked.
    _lock: File,
}

/// The files of the checkpoints, for reading only. It may go to another thread than the [`Directory`]. Files may be
/// removed at any time, which is an error when they are read.
#[derive(Clone, Debug)]
pub struct Source(PathBuf);

impl Source {
    /// See [`Directory::table`].
    pub fn table(&self, table: &TableEntry) -> Result<TableReader, Error> {
        let index = TableIndex::decode(&reader::piece(&Disk::new(&self.0)?, table.index)?)?;
        TableReader::new(&self.0, index)
    }
}

impl Directory {
    /// Opens the directory, or makes it. All files that no valid manifest of this database names are removed.
    pub fn open(path: &Path, database: Database) -> Result<Directory, Error> {
        let disk = Disk::new(path)?;
        let _lock = disk.lock(&lock_file())?.ok_or_else(|| Error::Busy(path.into()))?;
        let names = disk.names()?;
        let mut manifests = Vec::new();
        for name in names.iter().filter(|name| is_manifest(name)) {
            let manifest = Manifest::decode(&disk.read(name)?);
            manifests
                .extend(manifest.filter(|known| known.database == database && *name == manifest_file(known.number)));
        }
        manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.number));
        manifests.truncate(MANIFESTS);
        let numbers = names.iter().filter_map(|name| number_in(name));
        let named = manifests.iter().flat_map(|manifest| manifest.files().chain([manifest.number]));
        let last = numbers.chain(named).max().unwrap_or(0);
        let mut directory = Directory { disk, database, manifests, last, _lock };
        directory.remove_unnamed()?;
        Ok(directory)
    }

    /// The checkpoints that are there, the newest first. There are two at most.
    pub fn remains(&self) -> &[Manifest] {
        &self.manifests
    }

    /// Keeps the checkpoint with this id, and removes the other one. It must be called once the id is durable
    /// elsewhere, and before the next checkpoint begins.
    pub fn confirm(&mut self, id: u64) -> Result<(), Error> {
        if !self.manifests.iter().any(|manifest| manifest.id == id) {
            return Err(Error::Unknown);
        }
        self.manifests.retain(|manifest| manifest.id == id);
        self.remove_unnamed()
    }

    /// Removes all checkpoints.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.manifests.clear();
        self.remove_unnamed()
    }

    /// The index of a table's chunks.
    pub fn index(&self, table: &TableEntry) -> Result<TableIndex, Error> {
        TableIndex::decode(&self.piece(table.index)?)
    }

    /// The bytes at a place.
    pub fn piece(&self, place: Place) -> Result<Vec<u8>, Error> {
        reader::piece(&self.disk, place)
    }

    /// The means to read tables while this is in use elsewhere.
    pub fn source(&self) -> Source {
        Source(self.disk.path().into())
    }

    /// A reader of a table's chunks. It may go to another thread.
    pub fn table(&self, table: &TableEntry) -> Result<TableReader, Error> {
        TableReader::new(self.disk.path(), self.index(table)?)
    }

    /// The length of all files together.
    pub fn bytes(&self) -> Result<u64, Error> {
        self.disk.names()?.iter().map(|name| self.disk.length(name)).sum()
    }

    /// The greatest number of a chunk file that a manifest names is less than this.
    pub(crate) fn next(&self) -> u64 {
        self.last + 1
    }

    /// Adds a manifest that was just made durable.
    pub(crate) fn add(&mut self, manifest: Manifest) {
        self.last = self.last.max(manifest.number);
        self.manifests.insert(0, manifest);
    }

    /// Removes all files that no manifest names. Manifests go first: until they are gone for sure, they must not name
    /// files that are not there.
    pub(crate) fn remove_unnamed(&mut self) -> Result<(), Error> {
        let numbers: BTreeSet<u64> = self.manifests.iter().flat_map(Manifest::files).collect();
        let mut named: BTreeSet<String> = numbers.into_iter().map(chunk_file).collect();
        named.extend(self.manifests.iter().map(|manifest| manifest_file(manifest.number)));
        named.insert(lock_file());
        let mut unnamed = self.disk.names()?;
        unnamed.retain(|name| !named.contains(name));
        let (manifests, others): (Vec<String>, Vec<String>) = unnamed.into_iter().partition(|name| is_manifest(name));
        for names in [manifests, others] {
            names.iter().try_for_each(|name| self.disk.remove(name))?;
            if !names.is_empty() {
                self.disk.flush_names()?;
            }
        }
        Ok(())
    }
}
