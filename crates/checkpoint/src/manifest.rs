//! The content of a checkpoint: a manifest with its tables, an index of each table's chunks, and the places of their
//! pieces.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checksum::crc32c;
use crate::error::Error;

/// The first bytes of a manifest: a name, and the version of the format of all files.
const MAGIC: [u8; 8] = *b"ankerc01";

/// The database to which a checkpoint belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Database {
    /// The system identifier of the server's data directory.
    pub system: u64,
    pub oid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub database: Database,
    /// A random number by which the caller finds out whether the manifest belongs to the present data.
    pub id: u64,
    /// The position among all manifests of the directory. A later manifest has a greater number.
    pub number: u64,
    pub tables: Vec<TableEntry>,
    /// Whatever the caller wants to know again.
    pub extra: Vec<u8>,
}

/// A table in a manifest, as the caller describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableHead {
    pub relid: u32,
    pub fingerprint: u64,
    /// The number of the table's file in PostgreSQL, if it is known.
    pub file_number: Option<u32>,
    /// The position in the WAL behind which changes may be missing.
    pub threshold: u64,
    pub rows: u64,
    /// Whatever the caller wants to know again.
    pub extra: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    pub head: TableHead,
    pub index: Place,
    /// The bytes that the table uses in each file, including its index.
    pub(crate) shares: Vec<(u64, u64)>,
}

/// Some bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The number in the file's name.
    pub file: u64,
    pub offset: u64,
    pub length: u64,
    /// The CRC32C of the bytes.
    pub crc: u32,
}

/// The chunks of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableIndex {
    /// The generation to which the stamps belong.
    pub generation: u64,
    /// The stamp of the image that was written. Pieces with a greater stamp have changed since.
    pub stamp: u32,
    pub chunks: Vec<ChunkIndex>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkIndex {
    pub slots: u32,
    /// The number of slots whose rows exist.
    pub rows: u32,
    pub pieces: Vec<Piece>,
}

/// A part of a chunk that is written and kept as a whole, for example a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub stamp: u32,
    pub place: Place,
}

impl Manifest {
    /// The file's bytes: magic, length, checksum, content.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let content = postcard::to_stdvec(self).map_err(|_| Error::Damaged("a manifest that cannot be written"))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(crc32c(&content).to_le_bytes());
        bytes.extend(content);
        Ok(bytes)
    }

    /// The manifest in a file; `None` if it is damaged, or of another format.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Manifest> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (crc, content) = rest.split_first_chunk::<4>()?;
        let is_whole = *magic == MAGIC
            && u64::from_le_bytes(*length) == content.len() as u64
            && u32::from_le_bytes(*crc) == crc32c(content);
        if is_whole { postcard::from_bytes(content).ok() } else { None }
    }

    /// The tables of the checkpoint.
    pub fn relids(&self) -> Vec<u32> {
        self.tables.iter().map(|table| table.head.relid).collect()
    }

    /// The numbers of all files that the manifest names.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> {
        self.tables.iter().flat_map(|table| table.shares.iter().map(|(file, _)| *file))
    }
}

impl TableIndex {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        postcard::to_stdvec(self).map_err(|_| Error::Damaged("an index that cannot be written"))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<TableIndex, Error> {
        postcard::from_bytes(bytes).map_err(|_| Error::Damaged("an index that is none"))
    }

    /// All pieces of all chunks.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.chunks.iter().flat_map(|chunk| &chunk.pieces)
    }

    /// The bytes that the table uses in each file. Its index is at `index`, if it is written.
    pub(crate) fn shares(&self, index: Option<Place>) -> Vec<(u64, u64)> {
        let mut shares = BTreeMap::new();
        for Place { file, length, .. } in self.pieces().map(|piece| piece.place).chain(index) {
            *shares.entry(file).or_default() += length;
        }
        shares.into_iter().collect()
    }
}
