//! The agenda: the tables that have work to do. At most times, most tables have none. Gates, discards and idle work
//! visit only tables on the agenda, so their cost does not depend on the number of other tables.

use std::collections::BTreeSet;

/// A table's entry in the agenda, as the table last reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Whether transactions wait for a gate, or whether there is undo after the newest mark.
    pub unsettled: bool,
    /// The time at which the oldest undo was written, if a mark allows discarding it.
    pub discardable_ms: Option<u64>,
    pub undo_bytes: u64,
    /// Whether idle work may find something to tidy, for example lines put aside for snapshots.
    pub untidy: bool,
    /// The time of the table's next check for quiet chunks.
    pub look_ms: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Agenda {
    unsettled: BTreeSet<u32>,
    discardable: BTreeSet<(u64, u32)>,
    untidy: BTreeSet<u32>,
    looks: BTreeSet<(u64, u32)>,
    undo_bytes: u64,
}

impl Agenda {
    /// Replaces a table's entry `before` by `now`.
    pub fn replace(&mut self, relid: u32, before: Note, now: Note) {
        if now == before {
            return;
        }
        keep(&mut self.unsettled, relid, before.unsettled, now.unsettled);
        keep(&mut self.untidy, relid, before.untidy, now.untidy);
        move_to(&mut self.discardable, relid, before.discardable_ms, now.discardable_ms);
        move_to(&mut self.looks, relid, before.look_ms, now.look_ms);
        self.undo_bytes = self.undo_bytes - before.undo_bytes + now.undo_bytes;
    }

    /// The tables that a gate has to visit.
    pub fn unsettled(&self) -> Vec<u32> {
        self.unsettled.iter().copied().collect()
    }

    /// The tables that idle work has to visit.
    pub fn untidy(&self) -> Vec<u32> {
        self.untidy.iter().copied().collect()
    }

    /// The time of the next check for quiet chunks, and the table to check.
    pub fn next_look(&self) -> Option<(u64, u32)> {
        self.looks.first().copied()
    }

    /// The time at which the oldest undo that may be discarded was written, and its table.
    pub fn oldest_undo(&self) -> Option<(u64, u32)> {
        self.discardable.first().copied()
    }

    /// The undo of all tables together, in bytes.
    pub fn undo_bytes(&self) -> u64 {
        self.undo_bytes
    }
}

fn move_to(set: &mut BTreeSet<(u64, u32)>, relid: u32, before: Option<u64>, now: Option<u64>) {
    if before != now {
        before.map(|at_ms| set.remove(&(at_ms, relid)));
        now.map(|at_ms| set.insert((at_ms, relid)));
    }
}

fn keep(set: &mut BTreeSet<u32>, relid: u32, before: bool, now: bool) {
    match (before, now) {
        (false, true) => _ = set.insert(relid),
        (true, false) => _ = set.remove(&relid),
        _ => {}
    }
}
