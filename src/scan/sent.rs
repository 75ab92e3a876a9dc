//! Rows that this process computes for the engine, and sends with the request.

use pgrx::prelude::*;
use plan::{Literal, Source, Type};
use protocol::request::SentRows;

use crate::pg::place::Place;
use crate::pg::tree::Node;
use crate::pg::types;
use crate::reason::{Reason, Why};
use crate::settings;
use crate::spec::ScanSpec;

/// The memory of one value, without the bytes of a text or a byte string.
const VALUE_BYTES: usize = 16;

/// The plans of the relations to send. The node's private list holds the specification first, and then these plans.
fn statements(place: Place<'_>) -> impl Iterator<Item = Node<'_>> {
    place.private().skip(1)
}

pub fn hold_relations(place: Place<'_>) {
    statements(place).for_each(|statement| place.hold_relations(statement));
}

/// The number of rows that PostgreSQL expects for each relation to send.
pub fn expected(place: Place<'_>) -> Vec<u64> {
    statements(place).map(|statement| place.expected_rows(statement) as u64).collect()
}

/// Computes the rows of all relations that are sent along.
pub fn compute(spec: &ScanSpec, place: Place<'_>) -> Result<Vec<SentRows>, Reason> {
    let relations = spec.plan.relations.iter().filter(|relation| relation.source == Source::Sent);
    let mut room = settings::MAX_SENT_KB.get() as usize * 1024;
    let mut all = Vec::new();
    for ((relation, name), statement) in relations.zip(&spec.sent).zip(statements(place)) {
        let mut rows = Collected::new(&relation.columns, room);
        // SAFETY: the statement was planned under the query's locks, and has a column of its type for each column of
        // the relation.
        unsafe { place.run(statement, &mut |values, nulls| rows.add(values, nulls)) };
        room = rows.room;
        all.push(rows.finish().map_err(|(why, what)| why.of(format!("rows of \"{name}\" cannot be sent: {what}")))?);
    }
    Ok(all)
}

/// The rows of one relation that were collected so far.
struct Collected<'a> {
    types: &'a [Type],
    sent: SentRows,
    /// The number of bytes that may still be added.
    room: usize,
    failed: Option<(Why, String)>,
}

impl Collected<'_> {
    fn new(types: &[Type], room: usize) -> Collected<'_> {
        let sent = SentRows { rows: 0, columns: types.iter().map(|_| Vec::new()).collect() };
        Collected { types, sent, room, failed: None }
    }

    /// Adds a row. Returns whether another one is wanted.
    ///
    /// # Safety
    ///
    /// Each value of the row must be null, or a value of its column's type.
    unsafe fn add(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> bool {
        // SAFETY: by the caller's promise.
        let added = unsafe { self.try_add(values, nulls) };
        self.failed = added.err();
        self.failed.is_none()
    }

    /// # Safety
    ///
    /// As for [`Collected::add`].
    unsafe fn try_add(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<(), (Why, String)> {
        self.take(VALUE_BYTES)?;
        self.sent.rows += 1;
        for (at, ty) in self.types.iter().enumerate() {
            let value = match nulls[at] {
                true => None,
                // SAFETY: by the caller's promise.
                false => Some(unsafe { types::literal(values[at], *ty) }.map_err(|what| (Why::Value, what))?),
            };
            let long = match &value {
                Some(Literal::Text(text)) => text.len(),
                Some(Literal::Bytes(bytes)) => bytes.len(),
                _ => 0,
            };
            self.take(VALUE_BYTES + long)?;
            self.sent.columns[at].push(value);
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), (Why, String)> {
        let too_many = || (Why::RowsSent, "they are too many (anker.max_sent)".to_owned());
        self.room = self.room.checked_sub(bytes).ok_or_else(too_many)?;
        Ok(())
    }

    fn finish(self) -> Result<SentRows, (Why, String)> {
        self.failed.map_or(Ok(self.sent), Err)
    }
}
