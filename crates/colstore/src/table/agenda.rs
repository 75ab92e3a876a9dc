//! The tables that have work to do. Most tables of a database rest most of the time. A gate, a discard or an idle
//! moment visits only the others, however many tables there are.

use std::collections::BTreeSet;

/// A table's relation to the agenda, as it was last noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Transactions wait for a gate, or undo that no gate has been seen to include.
    pub unsettled: bool,
    /// When the oldest undo was written, if a gate allows to discard it.
    pub discardable_ms: Option<u64>,
    pub undo_bytes: u64,
    /// Lines may have been written beside the columns.
    pub untidy: bool,
    /// When chunks that were written to may be quiet.
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
    /// A table's note was `before` and is `now`.
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

    /// Tables that a gate may change.
    pub fn unsettled(&self) -> Vec<u32> {
        self.unsettled.iter().copied().collect()
    }

    /// Tables that an idle moment may change.
    pub fn untidy(&self) -> Vec<u32> {
        self.untidy.iter().copied().collect()
    }

    /// The table that is to be looked at next, and when.
    pub fn next_look(&self) -> Option<(u64, u32)> {
        self.looks.first().copied()
    }

    /// The oldest undo that may be discarded: its age, and the table.
    pub fn oldest_undo(&self) -> Option<(u64, u32)> {
        self.discardable.first().copied()
    }

    /// The undo of all tables together.
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
