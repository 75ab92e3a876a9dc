//! The engine's result on its way into slots.
//!
//! Usually rows go from the batch that came last straight into the slot. Where the whole result must be there before the
//! first row is handed out (a node above reads ahead, the engine may yet fail, or the scan may be rewound) it is kept: as
//! batches, or in a tuple store beyond `work_mem`.

use arrow_array::RecordBatch;
use pgrx::prelude::*;

use super::batch::Batch;
use super::conversation::Conversation;
use super::trouble::Trouble;
use crate::pg::memory::in_context;
use crate::spec::ResultColumn;

pub struct EngineResult {
    columns: Vec<ResultColumn>,
    pub conversation: Conversation,
    batch: Batch,
    /// The whole result, if it had to be fetched ahead.
    kept: Option<Kept>,
    handed_out: bool,
    pub rows: u64,
}

enum Kept {
    Batches { batches: Vec<RecordBatch>, next: usize },
    Tuples { store: *mut pg_sys::Tuplestorestate, slot: *mut pg_sys::TupleTableSlot },
}

impl EngineResult {
    pub fn new(columns: Vec<ResultColumn>, conversation: Conversation) -> EngineResult {
        EngineResult { columns, conversation, batch: Batch::default(), kept: None, handed_out: false, rows: 0 }
    }

    /// Waits until the first rows are there.
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.conversation.await_ready()?;
        self.next_batch().map(drop)
    }

    /// Waits until all rows are there, and keeps them.
    ///
    /// # Safety
    ///
    /// `context` is the query's; `descriptor` that of the scan's rows.
    pub unsafe fn fetch_all(
        &mut self,
        context: pg_sys::MemoryContext,
        descriptor: pg_sys::TupleDesc,
    ) -> Result<(), Trouble> {
        self.conversation.await_ready()?;
        // SAFETY: a plain setting.
        let limit = unsafe { pg_sys::work_mem } as usize * 1024;
        let mut batches = Vec::new();
        while let Some(batch) = self.receive()? {
            batches.push(batch);
            if self.conversation.received > limit {
                // SAFETY: by the caller's promise.
                return unsafe { self.store_all(batches, context, descriptor) };
            }
        }
        self.kept = Some(Kept::Batches { batches, next: 0 });
        Ok(())
    }

    /// Moves what came and what will come to a tuple store.
    ///
    /// # Safety
    ///
    /// As for [`EngineResult::fetch_all`].
    unsafe fn store_all(
        &mut self,
        came: Vec<RecordBatch>,
        context: pg_sys::MemoryContext,
        descriptor: pg_sys::TupleDesc,
    ) -> Result<(), Trouble> {
        let columns = self.columns.len();
        let mut values = vec![pg_sys::Datum::null(); columns];
        let mut nulls = vec![false; columns];
        // SAFETY: the query's context is alive; the store ends with it or with the node.
        let (store, slot) = unsafe {
            in_context(context, || {
                let store = pg_sys::tuplestore_begin_heap(true, false, pg_sys::work_mem);
                (store, pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple))
            })
        };
        let mut came = came.into_iter();
        while let Some(batch) = came.next().map_or_else(|| self.receive(), |batch| Ok(Some(batch)))? {
            self.batch.load(&batch, &self.columns)?;
            // SAFETY: as many values as the descriptor has columns.
            unsafe {
                while self.batch.next_row(values.as_mut_ptr(), nulls.as_mut_ptr()) {
                    pg_sys::tuplestore_putvalues(store, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
                }
            }
        }
        self.kept = Some(Kept::Tuples { store, slot });
        Ok(())
    }

    /// The next batch that has rows, from the engine.
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

    /// Makes the next batch the current one; false at the end.
    fn next_batch(&mut self) -> Result<bool, Trouble> {
        let batch = match &mut self.kept {
            Some(Kept::Batches { batches, next }) => {
                *next += 1;
                // Cheap: the columns are shared.
                batches.get(*next - 1).cloned()
            }
            _ => self.receive()?,
        };
        let Some(batch) = batch else {
            return Ok(false);
        };
        self.batch.load(&batch, &self.columns)?;
        Ok(true)
    }

    /// Puts the next row into the slot; false at the end. From the first row on trouble is an error.
    ///
    /// # Safety
    ///
    /// The slot is the scan's own, virtual, with room for its columns.
    #[inline]
    pub unsafe fn next_row(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        self.handed_out = true;
        // SAFETY: by the caller's promise.
        unsafe {
            if let Some(Kept::Tuples { store, slot: stored }) = self.kept {
                if !pg_sys::tuplestore_gettupleslot(store, true, false, stored) {
                    return false;
                }
                let columns = self.columns.len();
                pg_sys::slot_getsomeattrs_int(stored, columns as i32);
                std::ptr::copy_nonoverlapping((*stored).tts_values, (*slot).tts_values, columns);
                std::ptr::copy_nonoverlapping((*stored).tts_isnull, (*slot).tts_isnull, columns);
                return true;
            }
            loop {
                if self.batch.next_row((*slot).tts_values, (*slot).tts_isnull) {
                    return true;
                }
                match self.next_batch() {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(trouble) => trouble.raise(),
                }
            }
        }
    }

    /// Goes back to the first row; false if the rows that were handed out are gone.
    pub fn rewind(&mut self) -> bool {
        match &mut self.kept {
            // SAFETY: the store ends with the node.
            Some(Kept::Tuples { store, .. }) => unsafe { pg_sys::tuplestore_rescan(*store) },
            Some(Kept::Batches { next, .. }) => {
                *next = 0;
                self.batch = Batch::default();
            }
            None => return !self.handed_out,
        }
        true
    }

    /// Lets go of the engine, which gives up what it still computes, and of the rows; what was learned stays for EXPLAIN.
    pub fn release(&mut self) {
        self.conversation.hang_up();
        self.batch = Batch::default();
        if let Some(Kept::Tuples { store, slot }) = self.kept.take() {
            // SAFETY: made by `store_all`, and not used again.
            unsafe {
                pg_sys::ExecDropSingleTupleTableSlot(slot);
                pg_sys::tuplestore_end(store);
            }
        }
    }
}
