//! A loader's connection to the engine.
//!
//! While the loader waits, it holds a lock on the table and a snapshot. So it gives up the load if another process
//! waits for a lock on the table, or if the engine does nothing for too long.

use std::time::{Duration, Instant};

use pgrx::prelude::*;
use protocol::frame::{self, Kind};
use protocol::request::Refusal;

use crate::client::{Connection, Received};
use crate::pg::catalog::relation_name;
use crate::pg::relation;
use crate::pg::wait::WaitFor;

/// The time to wait for the engine. The engine takes rows and answers at once, unless it first has to apply earlier
/// parts of the stream.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which the loader checks whether another process waits for a lock on the table.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub struct Link {
    engine: Connection,
    relid: pg_sys::Oid,
    looked: Instant,
}

impl Link {
    pub fn connect(database: pg_sys::Oid, relid: pg_sys::Oid) -> Result<Link, String> {
        let mut engine = Connection::connect(database, PATIENCE)?;
        engine.waits_for = WaitFor::LoadRows;
        Ok(Link { engine, relid, looked: Instant::now() })
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (mut rest, mut progress) = (bytes, Instant::now());
        while !rest.is_empty() {
            match self.engine.send_some(rest, LOOK_EVERY)? {
                0 if progress.elapsed() > PATIENCE => return Err("the engine takes no rows".into()),
                0 => {}
                n => {
                    rest = &rest[n..];
                    progress = Instant::now();
                }
            }
            self.give_way()?;
        }
        Ok(())
    }

    /// Waits for the engine's answer, and returns its content. Any answer but `wanted` is an error.
    pub fn expect(&mut self, wanted: Kind) -> Result<Vec<u8>, String> {
        let start = Instant::now();
        loop {
            match self.engine.receive(Some(LOOK_EVERY))? {
                Received::Frame(kind, payload) if kind == wanted => return Ok(payload.to_vec()),
                Received::Frame(Kind::Refused, payload) => {
                    let refusal: Refusal = frame::parse(payload).map_err(|e| e.to_string())?;
                    return Err(refusal.reason(|relid| relation_name(relid.into())));
                }
                Received::Frame(kind, _) => return Err(format!("the engine answered a load with {kind:?}")),
                Received::TimedOut if start.elapsed() > PATIENCE => {
                    return Err("the engine did not answer in time".into());
                }
                Received::TimedOut => self.give_way()?,
            }
        }
    }

    /// Returns an error if another process waits for a lock on the table that conflicts with the loader's own lock.
    pub fn give_way(&mut self) -> Result<(), String> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        match relation::somebody_waits_for(self.relid) {
            true => Err("the load gave way to a lock on the table".into()),
            false => Ok(()),
        }
    }
}
