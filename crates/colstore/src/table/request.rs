//! Messages about tables: changes that come in, requests for columns.

use plan::RelationColumn;

/// A committed transaction's changes of one table: Insert, Update and Delete messages as they came, each with its u32
/// length.
#[derive(Clone, Debug)]
pub struct TableChanges {
    pub relid: u32,
    pub messages: Vec<u8>,
}

/// A table of a request.
#[derive(Clone, Debug)]
pub struct TableRequest {
    pub relid: u32,
    pub fingerprint: u64,
    pub columns: Vec<RelationColumn>,
}
