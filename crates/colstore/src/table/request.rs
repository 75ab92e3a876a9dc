//! Changes and requests, as the store's users pass them.

use plan::RelationColumn;

/// The changes of one table in a committed transaction: Insert, Update and Delete messages in the order of the stream,
/// each with its length as a u32 before it.
#[derive(Clone, Debug)]
pub struct TableChanges {
    pub relid: u32,
    pub messages: Vec<u8>,
}

/// A table in a request.
#[derive(Clone, Debug)]
pub struct TableRequest {
    pub relid: u32,
    pub fingerprint: u64,
    pub columns: Vec<RelationColumn>,
}
