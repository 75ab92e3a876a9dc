//! Old files: what is still used in some of them is copied into the new files, so that they can be removed.
//!
//! Two kinds of files are copied. Files of which less than half is used waste space. Short files that are not longer
//! than what this checkpoint has written would become many. Each copy at least doubles the length of the file in which
//! a piece lies, so a piece is copied for this reason only a few times.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checkpoint, Table};
use crate::disk::chunk_file;
use crate::error::Error;
use crate::manifest::Piece;
use crate::reader;

/// Files of which no more is used are always short.
const ALWAYS_SHORT: u64 = 64 << 10;
/// A checkpoint copies at most as much as it has written otherwise, and this many bytes.
const COPIED_ANYWAY: u64 = 64 << 20;

impl Checkpoint<'_> {
    /// Copies what is used in some old files. Returns the tables that were left out, because a piece is damaged.
    pub(super) fn sweep(&mut self) -> Result<Vec<u32>, Error> {
        let mut lost = Vec::new();
        let swept = self.worth_it()?;
        for table in std::mem::take(&mut self.tables) {
            let (relid, is_swept) = match &table {
                Table::Kept(entry) => (entry.head.relid, entry.shares.iter().any(|(file, _)| swept.contains(file))),
                Table::Changed(head, _) => (head.relid, true),
            };
            match if is_swept { self.copy(table, &swept)? } else { Some(table) } {
                Some(table) => self.tables.push(table),
                None => lost.push(relid),
            }
        }
        Ok(lost)
    }

    /// The old files that should be copied.
    fn worth_it(&self) -> Result<BTreeSet<u64>, Error> {
        let mut used = BTreeMap::<u64, u64>::new();
        let first_new = self.directory.next();
        for table in &self.tables {
            let shares = match table {
                Table::Kept(entry) => entry.shares.clone(),
                Table::Changed(_, index) => index.shares(None),
            };
            for (file, bytes) in shares.into_iter().filter(|(file, _)| *file < first_new) {
                *used.entry(file).or_default() += bytes;
            }
        }
        let mut files = Vec::new();
        for (file, used) in used {
            // A file that is missing is found when it is read.
            let length = self.directory.disk.length(&chunk_file(file)).unwrap_or(used);
            files.push((used, length, file));
        }
        // Files of which little is used come first, because copying them costs least.
        files.sort_unstable();
        let new = self.appender.written();
        let (mut swept, mut left) = (BTreeSet::new(), new.saturating_add(COPIED_ANYWAY));
        let mut together = new;
        for (used, length, file) in files {
            let is_short = length < self.limits.file_bytes && used <= together.max(ALWAYS_SHORT) && new > 0;
            if used > left || used >= length / 2 && !is_short {
                continue;
            }
            swept.insert(file);
            left -= used;
            together += used;
        }
        Ok(swept)
    }

    /// Copies the pieces of a table that lie in these files. `None` if one of them cannot be read.
    fn copy(&mut self, table: Table, swept: &BTreeSet<u64>) -> Result<Option<Table>, Error> {
        let (head, index) = match table {
            Table::Kept(entry) => (entry.head.clone(), self.directory.index(&entry)),
            Table::Changed(head, index) => (head, Ok(index)),
        };
        let Ok(mut index) = index else { return Ok(None) };
        for Piece { place, .. } in index.chunks.iter_mut().flat_map(|chunk| &mut chunk.pieces) {
            if swept.contains(&place.file) {
                let Ok(bytes) = reader::piece(&self.directory.disk, *place) else { return Ok(None) };
                *place = self.appender.append(&self.directory.disk, &bytes)?;
            }
        }
        Ok(Some(Table::Changed(head, index)))
    }
}
