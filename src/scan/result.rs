//! The engine's result on its way into the executor's slots.
//!
//! Usually, rows go straight from the last batch into the slot. The result is kept if it must be complete before its
//! first row is returned: the engine may still fail on a value, or the scan may be rewound. It is kept as batches or,
//! beyond `work_mem`, in a tuple store. If a node above reads ahead, as many rows are fetched first as `work_mem` has
//! room for. Most results are then complete before the first row is returned, and the loss of the engine does not
//! affect them.

use arrow_array::RecordBatch;
use pgrx::prelude::*;

use super::batch::Batch;
use super::conversation::Conversation;
use super::trouble::Trouble;
use crate::pg::delivery::Delivery;
use crate::pg::place::Place;
use crate::pg::session;
use crate::pg::tuple_store::TupleStore;
use crate::spec::Conversion;

pub struct EngineResult {
    columns: Vec<Conversion>,
    pub conversation: Conversation,
    batch: Batch,
    /// The rows that had to be fetched ahead: the whole result, or its beginning.
    kept: Option<Kept>,
    handed_out: bool,
    pub rows: u64,
}

enum Kept {
    /// Batches that were fetched ahead; `more` says that the engine has further batches.
    Batches {
        batches: Vec<RecordBatch>,
        next: usize,
        more: bool,
    },
    Tuples(TupleStore),
}

impl EngineResult {
    pub fn new(columns: Vec<Conversion>, conversation: Conversation) -> EngineResult {
        EngineResult { columns, conversation, batch: Batch::default(), kept: None, handed_out: false, rows: 0 }
    }

    /// Waits until the first rows have come.
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.conversation.await_ready()?;
        self.next_batch().map(drop)
    }

    /// Fetches rows and keeps them: all rows if `must_be_all`, otherwise as many as `work_mem` has room for.
    pub fn fetch(&mut self, place: Place<'_>, must_be_all: bool) -> Result<(), Trouble> {
        self.conversation.await_ready()?;
        let limit = session::work_mem() as usize * 1024;
        let mut batches = Vec::new();
        while let Some(batch) = self.receive()? {
            batches.push(batch);
            if self.conversation.received > limit {
                if must_be_all {
                    return self.store_all(batches, TupleStore::new(place));
                }
                self.kept = Some(Kept::Batches { batches, next: 0, more: true });
                return Ok(());
            }
        }
        self.kept = Some(Kept::Batches { batches, next: 0, more: false });
        Ok(())
    }

    /// Moves the batches that have come, and all that follow, into a tuple store.
    fn store_all(&mut self, came: Vec<RecordBatch>, mut store: TupleStore) -> Result<(), Trouble> {
        match self.fill(&mut store, came) {
            Ok(()) => self.kept = Some(Kept::Tuples(store)),
            Err(trouble) => {
                // The query continues on the heap without the store. The store is closed here, because otherwise its
                // file would stay.
                store.end();
                return Err(trouble);
            }
        }
        Ok(())
    }

    fn fill(&mut self, store: &mut TupleStore, came: Vec<RecordBatch>) -> Result<(), Trouble> {
        let columns = self.columns.len();
        let mut values = vec![pg_sys::Datum::null(); columns];
        let mut nulls = vec![false; columns];
        let mut came = came.into_iter();
        while let Some(batch) = came.next().map_or_else(|| self.receive(), |batch| Ok(Some(batch)))? {
            self.batch.load(&batch, &self.columns)?;
            while self.batch.next_row(&mut values, &mut nulls) {
                // SAFETY: the result's columns are those of the plan, and the store was made for them.
                unsafe { store.push(&mut values, &mut nulls) };
            }
        }
        Ok(())
    }

    /// Receives the next batch that has rows; `None` at the end of the result.
    fn receive(&mut self) -> Result<Option<RecordBatch>, Trouble> {
        if self.conversation.done.is_some() {
            return Ok(None);
        }
        while let Some(batch) = self.conversation.next_batch()? {
            pgrx::check_for_interrupts!();
            if batch.num_rows() > 0 {
                self.rows += batch.num_rows() as u64;
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Makes the next batch the current one; false if there is none.
    fn next_batch(&mut self) -> Result<bool, Trouble> {
        let batch = match &mut self.kept {
            Some(Kept::Batches { batches, next, .. }) if *next < batches.len() => {
                *next += 1;
                // Cloning a batch is cheap, because the clone shares its columns.
                Some(batches[*next - 1].clone())
            }
            Some(Kept::Batches { more: false, .. }) => None,
            Some(Kept::Batches { batches, next, .. }) => {
                // The kept batches were all read, and will not be read again.
                (*batches, *next) = (Vec::new(), 0);
                self.receive()?
            }
            _ => self.receive()?,
        };
        let Some(batch) = batch else {
            return Ok(false);
        };
        self.batch.load(&batch, &self.columns)?;
        Ok(true)
    }

    /// Writes the next row, which stays valid until the next call; false if there is none. Once a row was returned, any
    /// trouble with the engine is an error.
    #[inline]
    pub fn next_row(&mut self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) -> bool {
        self.handed_out = true;
        if let Some(Kept::Tuples(store)) = &mut self.kept {
            return store.next(values, nulls);
        }
        loop {
            if self.batch.next_row(values, nulls) {
                return true;
            }
            match self.next_batch() {
                Ok(true) => {}
                Ok(false) => return false,
                Err(trouble) => trouble.raise(),
            }
        }
    }

    /// Sends the rows of the current batch to the client past the executor, except the last row.
    pub fn deliver_ahead(&mut self, place: Place<'_>, delivery: &mut Delivery) {
        if !matches!(self.kept, Some(Kept::Tuples(_))) {
            // SAFETY: the result's columns are those of the plan. Neither this frame nor any frame above it owns
            // anything.
            unsafe { delivery.send(place, self.batch.rows_ahead()) };
        }
    }

    /// Goes back to the first row. Returns false if rows that were returned were not kept.
    pub fn rewind(&mut self) -> bool {
        match &mut self.kept {
            Some(Kept::Tuples(store)) => store.rewind(),
            Some(Kept::Batches { next, more: false, .. }) => {
                *next = 0;
                self.batch = Batch::default();
            }
            Some(Kept::Batches { more: true, .. }) | None => return !self.handed_out,
        }
        true
    }

    /// Closes the connection, which cancels the query in the engine, and drops the rows. Figures for EXPLAIN stay.
    pub fn release(&mut self) {
        self.conversation.hang_up();
        self.batch = Batch::default();
        if let Some(Kept::Tuples(store)) = self.kept.take() {
            store.end();
        }
    }
}
