//! The interface between the change stream and the store.

use std::sync::Arc;

use plan::TableLayout;
use protocol::Snapshot;

use super::Store;
use crate::rows::Fault;
use crate::rows::backlog::PendingTransaction;
use crate::table::Table;
use crate::table::request::TableChanges;

/// A receiver of the change stream: the store, or an observer that only tracks the state of each table.
pub trait Sink {
    /// Whether the receiver needs the changes of this table: the table is watched and not broken.
    fn wants(&self, relid: u32) -> bool;
    /// Whether there is room for a transaction of this many bytes, which changes these tables.
    fn has_room(&self, relids: impl Iterator<Item = u32>, bytes: usize) -> bool;
    /// Gives up a table, because there is no room for a transaction that has changed it.
    fn give_up(&mut self, relid: u32, transaction_bytes: usize);
    /// Adds a committed transaction to the pending ones. Transactions must come in commit order.
    fn transaction(&mut self, xid: u64, time: i64, changes: Vec<TableChanges>);
    /// Applies all transactions that `gate` sees, marks the gate in the undo, and discards undo beyond the limits.
    fn gate(&mut self, gate: Snapshot);
    /// Handles `StreamMessage::Watch`: creates an empty table that waits to be loaded.
    fn watch(&mut self, generation: u64, layout: TableLayout);
    /// Handles `StreamMessage::Retire`: removes the table. Existing views keep their rows.
    fn retire(&mut self, relid: u32);
}

impl Sink for Store {
    fn wants(&self, relid: u32) -> bool {
        self.tables.get(&relid).is_some_and(|table| !table.is_broken())
    }

    fn has_room(&self, mut relids: impl Iterator<Item = u32>, bytes: usize) -> bool {
        let make_room = || self.pool.make_room(bytes as u64);
        match relids.any(|relid| self.tables.get(&relid).is_some_and(|table| table.live().is_ok())) {
            true => self.leases.for_a_live_table(make_room),
            false => make_room(),
        }
    }

    fn give_up(&mut self, relid: u32, transaction_bytes: usize) {
        self.break_on_fault(relid, Err(Fault::TransactionTooLarge { megabytes: transaction_bytes as u64 >> 20 }));
    }

    fn transaction(&mut self, xid: u64, time: i64, changes: Vec<TableChanges>) {
        let mut counted = Some(time);
        for TableChanges { relid, messages } in changes {
            let Some(table) = self.tables.get_mut(&relid).filter(|table| !table.is_broken()) else { continue };
            let transaction = PendingTransaction { xid, counted: counted.take(), messages: messages.into() };
            let result = match table.live() {
                Ok(_) => self.leases.for_a_live_table(|| table.enqueue(transaction)),
                Err(_) => table.enqueue(transaction),
            };
            table.note_in(&mut self.agenda);
            self.break_on_fault(relid, result.map_err(Fault::from));
        }
    }

    fn gate(&mut self, gate: Snapshot) {
        let gate = Arc::new(gate);
        self.last_gate = Some(gate.clone());
        let now_ms = self.clock.millis();
        for relid in self.agenda.unsettled() {
            loop {
                self.visits += 1;
                let more = self.apply_some(relid, &gate);
                if let Some(table) = self.tables.get_mut(&relid) {
                    table.mark(&gate, now_ms);
                    table.note_in(&mut self.agenda);
                }
                self.discard_undo_beyond_limit();
                if !more {
                    break;
                }
            }
        }
        while let Some(relid) = self.too_old_undo(now_ms) {
            self.discard_oldest(relid);
        }
    }

    fn watch(&mut self, generation: u64, layout: TableLayout) {
        self.retire(layout.relid);
        self.tables.insert(layout.relid, Table::new(generation, layout, &self.pool, self.mechanism));
    }

    fn retire(&mut self, relid: u32) {
        if let Some(table) = self.tables.remove(&relid) {
            table.count_left_rows();
            table.leave(&mut self.agenda);
            self.retired.push(relid);
        }
    }
}
