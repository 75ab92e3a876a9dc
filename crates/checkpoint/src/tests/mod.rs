//! Test tools: a directory that goes away, and a database whose tables are strings of bytes.

mod crashes;
mod damage;
mod limits;
mod sweeps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Database, Directory, Error, Finished, Limits, Manifest, Pace, TableEntry, TableHead};

pub const DATABASE: Database = Database { system: 7, oid: 5 };
pub const LIMITS: Limits = Limits { bytes: 1 << 30, file_bytes: 4000 };

/// A directory for one test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("anker_checkpoint_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self) -> PathBuf {
        self.0.join("checkpoint")
    }

    pub fn open(&self) -> Directory {
        Directory::open(&self.path(), DATABASE).unwrap()
    }

    /// All files but that of the lock.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap());
        let named =
            entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()));
        named.filter(|(name, _)| !name.ends_with("lock")).collect()
    }

    /// Another folder with these files.
    pub fn with(files: &BTreeMap<String, Vec<u8>>) -> Folder {
        let folder = Folder::new();
        std::fs::create_dir(folder.path()).unwrap();
        files.iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}

/// For each table its chunks, and for each chunk its pieces.
pub type Tables = BTreeMap<u32, Vec<Vec<Vec<u8>>>>;

pub fn head(relid: u32, tables: &Tables) -> TableHead {
    let rows = tables[&relid].len() as u64;
    TableHead { relid, fingerprint: 3, file_number: Some(relid + 1), threshold: rows * 1000, rows, extra: vec![9] }
}

/// Writes a checkpoint of `tables`. What equals `before` is kept.
pub fn write(directory: &mut Directory, tables: &Tables, before: &Tables, limits: Limits) -> Result<Finished, Error> {
    let mut checkpoint = directory.begin(limits, Pace::default())?;
    for (relid, chunks) in tables {
        let (entry, old) = (checkpoint.previous(*relid).cloned(), before.get(relid));
        if let (Some(entry), Some(old)) = (&entry, old)
            && old == chunks
        {
            checkpoint.keep(entry, head(*relid, tables));
            continue;
        }
        let index = entry.map(|entry| checkpoint.index(&entry)).transpose()?.unwrap_or_default();
        let mut writer = checkpoint.table();
        for (at, pieces) in chunks.iter().enumerate() {
            writer.chunk(at as u32, pieces.len() as u32);
            for (piece, bytes) in pieces.iter().enumerate() {
                let known = index.chunks.get(at).and_then(|chunk| chunk.pieces.get(piece));
                let same = old.and_then(|old| old.get(at)?.get(piece)) == Some(bytes);
                match known.filter(|_| same) {
                    Some(known) => writer.keep(*known),
                    None => writer.write(4, bytes)?,
                }
            }
        }
        writer.finish(head(*relid, tables), 1, 4);
    }
    checkpoint.finish(vec![8])
}

/// Reads a table.
pub fn read(directory: &Directory, entry: &TableEntry) -> Result<Vec<Vec<Vec<u8>>>, Error> {
    let mut reader = directory.table(entry)?;
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next_chunk()? {
        assert_eq!((chunk.slots, chunk.rows), (chunks.len() as u32, chunk.pieces.len() as u32));
        chunks.push(chunk.pieces.iter().map(|piece| piece.to_vec()).collect());
    }
    Ok(chunks)
}

/// Reads all tables of a checkpoint.
pub fn read_all(directory: &Directory, manifest: &Manifest) -> Result<Tables, Error> {
    manifest.tables.iter().map(|entry| Ok((entry.head.relid, read(directory, entry)?))).collect()
}

/// Two small databases, one after the other.
pub fn two() -> [Tables; 2] {
    let chunk = |seed: u8| vec![vec![seed; 40], vec![], (0..50).map(|byte| byte ^ seed).collect()];
    let before = BTreeMap::from([(1, vec![chunk(1), chunk(2)]), (2, vec![]), (3, vec![chunk(5)])]);
    let mut after = before.clone();
    after.remove(&3);
    after.insert(4, vec![chunk(6)]);
    after.entry(1).and_modify(|chunks| chunks[1][0] = vec![7; 30]);
    [before, after]
}
