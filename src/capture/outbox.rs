//! Messages to the engine. They are collected in a buffer, and then written to the ring. If the engine reads more
//! slowly than the worker writes, the worker waits for room in the ring.

use pgrx::prelude::*;
use protocol::change::StreamMessage;
use protocol::control::Settings;
use protocol::ring::Producer;

use super::engine_process::{EngineProcess, Pulse};
use crate::pg::process;
use crate::pg::wait::WaitFor;

/// The size of the ring: some tens of milliseconds of changes at full speed. If the engine is slower, the worker waits
/// instead of using more memory.
pub const RING_BYTES: usize = 8 << 20;
/// The buffer is written to the ring when it has this length.
const BATCH_BYTES: usize = 64 << 10;
/// The time of one wait for room in the ring. The engine does not signal that there is room, but it needs far less
/// time than this to empty the ring.
const FULL_WAIT_MS: i64 = 1;

pub struct Outbox {
    ring: Producer,
    buffer: Vec<u8>,
    pulse: Pulse,
}

impl Outbox {
    /// Creates the ring, and starts the engine that reads it.
    pub fn open(database: pg_sys::Oid, settings: &Settings) -> Result<(Outbox, EngineProcess), String> {
        let (ring, fd) = Producer::create(RING_BYTES).map_err(|e| format!("could not create the ring: {e}"))?;
        let engine = EngineProcess::start(database, settings, &fd)?;
        let outbox = Outbox { ring, buffer: Vec::with_capacity(2 * BATCH_BYTES), pulse: engine.pulse()? };
        Ok((outbox, engine))
    }

    pub fn send(&mut self, message: &StreamMessage<'_>) {
        message.encode(&mut self.buffer);
        self.flush_if_full();
    }

    /// Sends a row change, which `append` writes directly into the buffer.
    pub fn send_change<E>(&mut self, append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        append(&mut self.buffer)?;
        self.flush_if_full();
        Ok(())
    }

    fn flush_if_full(&mut self) {
        if self.buffer.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    /// Writes to the ring everything that was sent so far.
    pub fn flush(&mut self) {
        let mut written = self.ring.write(&self.buffer);
        while written < self.buffer.len() {
            self.pulse.check();
            process::sleep(FULL_WAIT_MS, WaitFor::Ring);
            written += self.ring.write(&self.buffer[written..]);
        }
        self.buffer.clear();
    }

    /// Frees the memory that a long message has needed. To be called after `flush`.
    pub fn shrink(&mut self) {
        self.buffer.shrink_to(2 * BATCH_BYTES);
    }
}
