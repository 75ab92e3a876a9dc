//! Chooses the moment at which the slot is created.
//!
//! The server keeps WAL for a slot from its creation on. The slot is usable only once every transaction that was
//! running at its creation has ended. So the slot is created only when the oldest running transaction is young, and no
//! prepared transaction waits.

use std::time::Duration;

use pgrx::prelude::*;

use super::engine_process::EngineProcess;
use crate::pg::wait::WaitFor;
use crate::pg::{compat, process, session, snapshot};
use crate::shared::{self, FixedText};

/// The slot is not created while the oldest writing transaction has at least this age.
const OLD: Duration = Duration::from_secs(10);
const LOOK_EVERY_MS: i64 = 200;

pub fn wait_for_old_transactions(database: pg_sys::Oid, engine: &mut EngineProcess) {
    while let Some(oldest) = oldest_writer().filter(Writer::is_old) {
        shared::update_database(database, |d| d.reason = FixedText::new(&oldest.describe()));
        engine.hear();
        process::sleep(LOOK_EVERY_MS, WaitFor::CaptureStart);
    }
}

struct Writer {
    xid: u32,
    /// The process of the transaction; `None` if the transaction is prepared.
    pid: Option<i32>,
    age: Duration,
}

impl Writer {
    /// Whether the transaction is old. A prepared one always counts as old, because it may wait for days.
    fn is_old(&self) -> bool {
        self.pid.is_none() || self.age >= OLD
    }

    fn describe(&self) -> String {
        match self.pid {
            Some(pid) => format!("waiting for the transaction of process {pid} to end before the slot is created"),
            None => {
                format!("waiting for prepared transaction {} to end before the slot is created", self.xid)
            }
        }
    }
}

/// The oldest transaction with an id, in any database.
fn oldest_writer() -> Option<Writer> {
    let xid = u32::from(compat::oldest_running());
    if xid == snapshot::next_full_xid() as u32 {
        return None;
    }
    let mut writer = Writer { xid, pid: None, age: Duration::ZERO };
    process::for_each_backend(|backend| {
        if u32::from(backend.backend_xid) == xid {
            let age = session::now() - backend.backendStatus.st_xact_start_timestamp;
            writer.pid = Some(backend.backendStatus.st_procpid);
            writer.age = Duration::from_micros(age.max(0) as u64);
        }
    });
    Some(writer)
}
