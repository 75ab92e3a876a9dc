//! The changes of a transaction that has not committed yet, grouped by table.

use std::collections::{HashMap, TryReserveError};

use colstore::TableChanges;

#[derive(Default)]
pub struct ByTable {
    tables: Vec<TableChanges>,
    /// The index of each table in `tables`, by its relid.
    places: HashMap<u32, usize>,
    /// The index of the table that was changed last, because the next change often belongs to the same table.
    current: usize,
    bytes: usize,
}

impl ByTable {
    /// The bytes of all tables together.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The tables that are changed, including the current one.
    pub fn relids(&self) -> impl Iterator<Item = u32> {
        self.tables.iter().map(|table| table.relid)
    }

    /// Makes `relid` the current table, and reserves `bytes` for its next changes. An error means that there is no
    /// memory.
    pub fn turn_to(&mut self, relid: u32, bytes: usize) -> Result<(), TryReserveError> {
        if self.tables.get(self.current).is_none_or(|table| table.relid != relid) {
            let tables = &mut self.tables;
            self.current = *self.places.entry(relid).or_insert_with(|| {
                tables.push(TableChanges { relid, messages: Vec::new() });
                tables.len() - 1
            });
        }
        self.tables[self.current].messages.try_reserve(bytes)
    }

    /// Appends changes of the current table.
    pub fn extend(&mut self, bytes: &[u8]) {
        if let Some(table) = self.tables.get_mut(self.current) {
            table.messages.extend_from_slice(bytes);
            self.bytes += bytes.len();
        }
    }

    /// The changes by table, in the order in which the tables were first changed.
    pub fn into_tables(self) -> Vec<TableChanges> {
        self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_gets_its_changes_in_order() {
        let mut changes = ByTable::default();
        for (relid, bytes) in [(7, "a"), (3, "b"), (3, "c"), (7, "d"), (9, "e"), (7, "f")] {
            changes.turn_to(relid, bytes.len()).unwrap();
            changes.extend(bytes.as_bytes());
        }
        assert_eq!(changes.bytes(), 6);
        let tables: Vec<_> = changes.into_tables().into_iter().map(|t| (t.relid, t.messages)).collect();
        assert_eq!(tables, [(7, b"adf".to_vec()), (3, b"bc".to_vec()), (9, b"e".to_vec())]);
    }
}
