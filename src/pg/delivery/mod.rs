//! Delivery: sends rows to the client, for plans whose topmost node is ours.
//!
//! PostgreSQL's own receiver calls a function for each value, and each call allocates its result. For a long result,
//! this is most of a backend's work. Our receiver replaces PostgreSQL's while such a plan runs (`run`). It writes
//! values of most types into the message itself, exactly as their functions would ([`form`]). It calls PostgreSQL's
//! functions for all other values, and under settings that change how values look.
//!
//! Errors of the server jump over the frames here. The frames own nothing, because everything belongs to a memory
//! context of the run.

mod form;
mod message;
mod offsets;

use std::marker::PhantomData;

use pgrx::prelude::*;

use self::form::Column;
use self::message::Message;
use self::offsets::Offsets;
use super::place::Place;
use super::{compat, symbols};

/// The run of a query whose rows go to the client through our receiver.
pub(super) struct Run {
    query: *mut pg_sys::QueryDesc,
    ours: *mut Receiver,
    theirs: *mut pg_sys::DestReceiver,
}

impl Run {
    /// Replaces PostgreSQL's receiver with ours; `None` if the rows do not go to the client.
    ///
    /// # Safety
    ///
    /// `query` was started, and is about to be run.
    pub(super) unsafe fn begin(query: *mut pg_sys::QueryDesc) -> Option<Run> {
        // SAFETY: by the caller's promise.
        unsafe {
            goes_to_client(query).then(|| {
                let (theirs, ours) = ((*query).dest, Receiver::new(query));
                (*query).dest = ours.cast();
                Run { query, ours, theirs }
            })
        }
    }

    /// The delivery that the topmost node may use until the run ends.
    pub(super) fn delivery(&self) -> Delivery {
        Delivery { receiver: self.ours, query: PhantomData }
    }

    /// # Safety
    ///
    /// The query has been run, and no delivery of this run is used any more.
    pub(super) unsafe fn end(self) {
        // SAFETY: by the caller's promise. All memory of the receiver belongs to its memory context.
        unsafe {
            (*self.query).dest = self.theirs;
            symbols::MemoryContextDelete((*self.ours).context);
        }
    }
}

/// A way for a node to send rows to the client past the executor. It exists only while the run wants all rows of the
/// query, and no EXPLAIN counts them.
pub struct Delivery {
    receiver: *mut Receiver,
    query: PhantomData<*const ()>,
}

impl Delivery {
    /// Sends rows to the client without storing them in the node's slot. Must not be called before
    /// [`has_begun`](Self::has_begun).
    ///
    /// # Safety
    ///
    /// `rows` are the values of the node's columns, or null. No caller up to the executor owns anything that must be
    /// dropped, because an error jumps over them.
    pub unsafe fn send<R>(&mut self, place: Place<'_>, rows: impl ExactSizeIterator<Item = R>)
    where
        R: Iterator<Item = (usize, bool)>,
    {
        let sent = rows.len() as u64;
        // SAFETY: the receiver lives as long as the run for which the node got this delivery.
        let receiver = unsafe { &mut *self.receiver };
        for row in rows {
            // SAFETY: by the caller's promise.
            unsafe { receiver.send(row.map(|(value, is_null)| (pg_sys::Datum::from(value), is_null))) };
        }
        place.count_rows(sent);
    }

    /// Whether a row was sent through the executor before, so that the forms of the columns are known.
    pub fn has_begun(&self) -> bool {
        // SAFETY: as above.
        unsafe { !(*self.receiver).descriptor.is_null() }
    }
}

/// Whether the query's rows go to the client through PostgreSQL's own receiver, and the running portal asks only for
/// formats that are known here.
unsafe fn goes_to_client(query: *const pg_sys::QueryDesc) -> bool {
    use pg_sys::CommandDest;
    // SAFETY: a started query has a receiver; a portal is null or alive.
    unsafe {
        let portal = pg_sys::ActivePortal;
        (*query).operation == pg_sys::CmdType::CMD_SELECT
            && matches!((*(*query).dest).mydest, CommandDest::DestRemote | CommandDest::DestRemoteExecute)
            && !portal.is_null()
            && std::ptr::eq((*portal).queryDesc, query)
            && has_known_formats(portal)
    }
}

/// Whether the client asks only for the text and binary formats. PostgreSQL raises an error for any other format.
unsafe fn has_known_formats(portal: pg_sys::Portal) -> bool {
    // SAFETY: the portal is running; it has one format for each of its columns, or no formats.
    unsafe {
        let (formats, rows) = ((*portal).formats, (*portal).tupDesc);
        formats.is_null()
            || rows.is_null()
            || std::slice::from_raw_parts(formats, (*rows).natts as usize).iter().all(|format| matches!(format, 0 | 1))
    }
}

/// Our receiver, which takes the place of PostgreSQL's.
#[repr(C)]
struct Receiver {
    head: pg_sys::DestReceiver,
    theirs: *mut pg_sys::DestReceiver,
    /// The formats of the columns; null if all columns are sent as text.
    formats: *const i16,
    /// The memory for the whole run, and below it the memory that is emptied after each row.
    context: pg_sys::MemoryContext,
    scratch: pg_sys::MemoryContext,
    /// The descriptor for which the columns were prepared. `encoding` is the client's encoding at that time, because a
    /// query may change the encoding while it runs.
    descriptor: pg_sys::TupleDesc,
    encoding: i32,
    columns: *mut Column,
    count: usize,
    message: Message,
    offsets: Offsets,
}

impl Receiver {
    unsafe fn new(query: *mut pg_sys::QueryDesc) -> *mut Receiver {
        // SAFETY: the query was started, and belongs to the running portal. Zeroed memory holds null pointers.
        unsafe {
            let context = new_context((*(*query).estate).es_query_cxt, c"anker rows");
            let receiver = symbols::MemoryContextAllocZero(context, size_of::<Receiver>()).cast::<Receiver>();
            let theirs = (*query).dest;
            (*receiver).head = pg_sys::DestReceiver {
                receiveSlot: Some(receive),
                rStartup: Some(start),
                rShutdown: Some(shut_down),
                rDestroy: None,
                mydest: (*theirs).mydest,
            };
            (*receiver).theirs = theirs;
            (*receiver).formats = (*pg_sys::ActivePortal).formats;
            (*receiver).context = context;
            (*receiver).scratch = new_context(context, c"anker row");
            (*receiver).offsets = Offsets::default();
            receiver
        }
    }

    /// Allocates the columns, and chooses the form of each. PostgreSQL's receiver also does this with the first row.
    unsafe fn prepare(&mut self, descriptor: pg_sys::TupleDesc) {
        // SAFETY: the descriptor describes the rows that follow.
        unsafe {
            self.count = (*descriptor).natts as usize;
            self.columns =
                symbols::MemoryContextAllocZero(self.context, self.count.max(1) * size_of::<Column>()).cast();
            self.message = Message::new(self.context);
            self.descriptor = descriptor;
            self.choose_forms();
        }
    }

    /// Chooses the forms of the columns, for the client's present encoding.
    unsafe fn choose_forms(&mut self) {
        // SAFETY: there is room for as many columns as the descriptor has, and as many formats unless `formats` is
        // null.
        unsafe {
            self.encoding = symbols::pg_get_client_encoding();
            let same_encoding = self.encoding == symbols::GetDatabaseEncoding();
            for at in 0..self.count {
                let is_binary = !self.formats.is_null() && *self.formats.add(at) == 1;
                let ty = (*compat::first_attribute(&*self.descriptor).add(at)).atttypid;
                Column::prepare(self.columns.add(at), ty, is_binary, same_encoding, self.context);
            }
        }
    }

    /// # Safety
    ///
    /// The values belong to the columns that were prepared.
    #[inline]
    unsafe fn send(&mut self, row: impl Iterator<Item = (pg_sys::Datum, bool)>) {
        // SAFETY: `count` columns were prepared, and by the caller's promise.
        unsafe {
            if symbols::pg_get_client_encoding() != self.encoding {
                self.choose_forms();
            }
            let columns = std::slice::from_raw_parts_mut(self.columns, self.count);
            let before = pg_sys::MemoryContextSwitchTo(self.scratch);
            self.message.begin(self.count as u16);
            let mut has_allocated = false;
            for (column, (value, is_null)) in columns.iter_mut().zip(row) {
                match is_null {
                    true => self.message.put_null(),
                    false => has_allocated |= column.put(value, &mut self.message, &mut self.offsets),
                }
            }
            self.message.send();
            pg_sys::MemoryContextSwitchTo(before);
            if has_allocated {
                symbols::MemoryContextReset(self.scratch);
            }
        }
    }
}

unsafe fn new_context(parent: pg_sys::MemoryContext, name: &'static std::ffi::CStr) -> pg_sys::MemoryContext {
    let [least, first, most] = [
        pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
        pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
        pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
    ];
    // SAFETY: the parent is alive, and the name static.
    unsafe { symbols::AllocSetContextCreateInternal(parent, name.as_ptr(), least, first, most) }
}

unsafe extern "C-unwind" fn start(receiver: *mut pg_sys::DestReceiver, operation: i32, rows: pg_sys::TupleDesc) {
    // SAFETY: the executor passes our receiver, which holds PostgreSQL's own.
    unsafe {
        let theirs = (*receiver.cast::<Receiver>()).theirs;
        (*theirs).rStartup.expect("a receiver's function")(theirs, operation, rows);
    }
}

unsafe extern "C-unwind" fn shut_down(receiver: *mut pg_sys::DestReceiver) {
    // SAFETY: as above.
    unsafe {
        let theirs = (*receiver.cast::<Receiver>()).theirs;
        (*theirs).rShutdown.expect("a receiver's function")(theirs);
    }
}

/// Sends a row to the client.
#[pg_guard]
unsafe extern "C-unwind" fn receive(slot: *mut pg_sys::TupleTableSlot, receiver: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: the executor calls this with our receiver and a row. An error jumps over this frame, which owns nothing.
    unsafe {
        let receiver = &mut *receiver.cast::<Receiver>();
        let descriptor = (*slot).tts_tupleDescriptor;
        if receiver.descriptor != descriptor {
            receiver.prepare(descriptor);
        }
        if ((*slot).tts_nvalid as usize) < receiver.count {
            symbols::slot_getsomeattrs_int(slot, receiver.count as i32);
        }
        let values = std::slice::from_raw_parts((*slot).tts_values, receiver.count);
        let nulls = std::slice::from_raw_parts((*slot).tts_isnull, receiver.count);
        receiver.send(values.iter().copied().zip(nulls.iter().copied()));
        true
    }
}
