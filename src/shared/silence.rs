//! Engines that did not answer in time.
//!
//! A query that has waited for an engine in vain records that in shared memory. For a while, no other query asks that
//! engine. Then one query asks again, and the other queries use the heap until that query has its answer. If it waits
//! in vain, too, the next pause is twice as long.

use std::time::Duration;

use pgrx::prelude::*;

use super::DATABASES;
use crate::pg::session;
use crate::settings;

/// The time that an answer of the engine may take in addition to `anker.max_wait`.
const GRACE: Duration = Duration::from_secs(2);
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);

/// The silence of one engine. It does not count against a later engine of the same database.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Silence {
    engine_pid: i32,
    /// The number of times in a row that a query has waited for the engine in vain.
    times: u32,
    /// The time, by the server's clock, from which on the engine may be asked again.
    until: i64,
}

impl Silence {
    pub const NONE: Silence = Silence { engine_pid: 0, times: 0, until: 0 };

    fn is_of(&self, engine_pid: i32) -> bool {
        self.times > 0 && self.engine_pid == engine_pid
    }

    /// The time for which the engine must not be asked; `None` if it may be asked.
    fn left(&self, now: i64) -> Option<Duration> {
        let left = Duration::from_micros(u64::try_from(self.until - now).ok()?);
        // If the clock was set back, the time left could exceed [`LONGEST`]. The engine may then be asked at once.
        (!left.is_zero() && left <= LONGEST).then_some(left)
    }
}

/// The way in which a query asks the engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    AsUsual,
    /// The query is the first one after a silence. If the engine answers it, the query ends the silence.
    Again,
}

/// The longest time to wait for the first sign of the engine after a request.
pub fn limit() -> Duration {
    Duration::from_millis(settings::MAX_WAIT_MS.get() as u64) + GRACE
}

/// The reason why an engine is not asked that must not be asked for this time.
pub fn reason(left: Duration) -> String {
    format!("engine did not answer before, and is asked again in {} s", left.as_secs_f64().ceil())
}

/// The time for which the engine of a database must not be asked; `None` if it may be asked.
pub fn pause(database: pg_sys::Oid) -> Option<Duration> {
    let entry = DATABASES.get(database).filter(|entry| entry.silence.is_of(entry.engine_pid))?;
    entry.silence.left(session::now())
}

/// Whether a query may ask the engine of a database. The error is the time for which the query may not ask. If the
/// query asks, it will wait for at most [`limit`].
pub fn may_ask(database: pg_sys::Oid) -> Result<Asks, Duration> {
    let is_silent = DATABASES.get(database).is_some_and(|entry| entry.silence.is_of(entry.engine_pid));
    if !is_silent {
        return Ok(Asks::AsUsual);
    }
    let now = session::now();
    let asks = DATABASES.change(database, |entry| match entry.silence.left(now) {
        Some(left) => Err(left),
        None => {
            entry.silence.until = now + limit().as_micros() as i64;
            Ok(Asks::Again)
        }
    });
    asks.unwrap_or(Ok(Asks::AsUsual))
}

/// Records that a query has waited for the engine in vain.
pub fn was_silent(database: pg_sys::Oid, asks: Asks) {
    let now = session::now();
    DATABASES.change(database, |entry| {
        let is_known = entry.silence.is_of(entry.engine_pid);
        if is_known && asks == Asks::AsUsual {
            // The query has asked before the silence became known, so it reports the same silence.
            return;
        }
        let times = if is_known { entry.silence.times } else { 0 };
        let pause = LONGEST.min(FIRST * (1 << times.min(8)));
        entry.silence =
            Silence { engine_pid: entry.engine_pid, times: times + 1, until: now + pause.as_micros() as i64 };
    });
}

pub fn has_answered(database: pg_sys::Oid) {
    DATABASES.change(database, |entry| entry.silence = Silence::NONE);
}
