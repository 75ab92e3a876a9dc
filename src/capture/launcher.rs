//! The launcher keeps one capture worker running for each database that has mirrored tables. It stops workers whose
//! slots hold back too much WAL.
//!
//! The launcher can read only shared catalogs, so it must probe for databases with mirrored tables. When it sees a
//! database for the first time, it starts a capture worker there, which ends at once if it has no work. Later,
//! `anker.mirror()` tells the launcher through shared memory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::time::{Duration, Instant};

use follow::End;
use pgrx::prelude::*;

use crate::client;
use crate::pg::process::{self, Worker};
use crate::pg::wait::WaitFor;
use crate::pg::{rows, transaction, wal};
use crate::settings::MAX_WAL_RETAINED_MB;
use crate::shared::{self, Database, DatabaseState, FixedText};

/// The interval at which the launcher checks retained WAL, and whatever else changes without waking the launcher.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The interval at which new databases are looked for. A copy of a template database has the template's mirrored
/// tables.
const LOOK_FOR_DATABASES_EVERY: Duration = Duration::from_secs(10);

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_launcher_main(_argument: pg_sys::Datum) {
    process::begin();
    shared::announce_launcher();
    remove_stale_sockets();
    process::connect(pg_sys::InvalidOid);
    if !wal::is_logical() {
        ereport!(
            PgLogLevel::LOG,
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "pg_anker mirrors nothing, because wal_level is not \"logical\"",
            "Set wal_level = logical in postgresql.conf and restart the server."
        );
        loop {
            process::sleep(60_000, WaitFor::Launcher);
            process::reload_settings();
        }
    }
    Launcher::default().run();
}

/// Removes the sockets that a crash has left. If workers have outlived an earlier launcher, their sockets are in use,
/// and nothing is removed.
fn remove_stale_sockets() {
    if shared::databases().iter().any(|database| database.worker_pid != 0) {
        return;
    }
    for socket in client::sockets() {
        // A socket that cannot be removed only prevents an engine from listening, and the engine reports that.
        let _ = fs::remove_file(socket);
    }
}

#[derive(Default)]
struct Launcher {
    /// The known databases. `looked` is the time at which they were read.
    known: HashSet<u32>,
    looked: Option<Instant>,
    /// The databases that have not been probed yet.
    to_probe: VecDeque<pg_sys::Oid>,
    probing: Option<pg_sys::Oid>,
    courses: HashMap<u32, Course>,
}

/// The worker of a database, and the history of earlier workers.
struct Course {
    worker: Option<Worker>,
    course: follow::Course,
}

/// Whether a worker can connect to a database.
enum Access {
    Open,
    /// `datallowconn` is off.
    Closed,
    /// The database was dropped, perhaps incompletely.
    Gone,
}

impl Access {
    fn of(form: &pg_sys::FormData_pg_database) -> Access {
        /// DATCONNLIMIT_INVALID_DB
        const HALF_DROPPED: i32 = -2;
        if form.datconnlimit == HALF_DROPPED {
            Access::Gone
        } else if form.datallowconn {
            Access::Open
        } else {
            Access::Closed
        }
    }
}

impl Launcher {
    fn run(&mut self) -> ! {
        loop {
            process::reload_settings();
            if self.looked.is_none_or(|at| at.elapsed() >= LOOK_FOR_DATABASES_EVERY) {
                self.looked = Some(Instant::now());
                self.find_databases();
            }
            self.probe_next();
            let databases = shared::databases();
            let entered: HashSet<u32> = databases.iter().map(|d| d.oid.to_u32()).collect();
            self.courses.retain(|oid, _| entered.contains(oid));
            let mut next = LOOK_EVERY;
            for database in &databases {
                next = next.min(self.look_after(database));
            }
            process::sleep(next.as_millis() as i64, WaitFor::Launcher);
        }
    }

    fn find_databases(&mut self) {
        // The directories are listed first, so that each belongs to a database that exists or was dropped.
        let mut left = client::databases_with_checkpoints();
        let mut found = HashSet::new();
        for_each_database(|form| {
            let access = Access::of(form);
            if matches!(access, Access::Open) {
                found.insert(form.oid.to_u32());
            }
            if !matches!(access, Access::Gone) {
                left.retain(|database| *database != form.oid.to_u32());
            }
        });
        left.into_iter().for_each(|dropped| client::remove_checkpoints(dropped.into()));
        self.to_probe.extend(found.difference(&self.known).map(|&oid| pg_sys::Oid::from(oid)));
        self.known = found;
    }

    /// Probes one database after the other, so that even many databases need few workers at a time.
    fn probe_next(&mut self) {
        if let Some(oid) = self.probing {
            let undecided = |d: Database| match d.state {
                DatabaseState::Wanted | DatabaseState::Idle => true,
                DatabaseState::Starting => d.worker_pid == 0,
                _ => false,
            };
            if shared::database(oid).is_some_and(undecided) {
                return;
            }
        }
        self.probing = self.to_probe.pop_front();
        if let Some(oid) = self.probing.filter(|&oid| shared::database(oid).is_none()) {
            want(oid);
        }
    }

    /// Does the work that is due for a database. Returns the time until more may be due.
    fn look_after(&mut self, database: &Database) -> Duration {
        let oid = database.oid;
        let now = Instant::now();
        let course = self
            .courses
            .entry(oid.to_u32())
            .or_insert_with(|| Course { worker: None, course: follow::Course::new(now) });
        let started = course.worker.as_ref().is_some_and(|w| !w.ended());
        if started || database.worker_pid != 0 {
            stop_if_it_retains_too_much(database, course.worker.as_ref());
            return LOOK_EVERY;
        }
        if course.worker.take().is_some() {
            // The worker has just ended. The state tells why, but only if it is read after the end.
            return self.take_note_of_end(oid, now);
        }
        match database.state {
            DatabaseState::Idle => {
                shared::remove_idle_database(oid);
                Duration::ZERO
            }
            DatabaseState::Backoff if !course.course.wait(now).is_zero() => course.course.wait(now),
            DatabaseState::Wanted | DatabaseState::Starting | DatabaseState::Running | DatabaseState::Backoff => {
                start(oid, course, now);
                LOOK_EVERY
            }
            DatabaseState::Suspended => {
                if !process::is_alive(database.suspended_by) {
                    // The process that suspended the database has died, so the launcher ends the suspension.
                    want(oid);
                }
                LOOK_EVERY
            }
        }
    }

    fn take_note_of_end(&mut self, oid: pg_sys::Oid, now: Instant) -> Duration {
        let Some(course) = self.courses.get_mut(&oid.to_u32()) else {
            return LOOK_EVERY;
        };
        // The worker ended in a failure, or before it could announce itself.
        if shared::database(oid).is_some_and(|d| matches!(d.state, DatabaseState::Backoff | DatabaseState::Starting)) {
            course.course.ended(now, End::Failed);
            shared::update_database(oid, |d| {
                d.state = DatabaseState::Backoff;
                d.restarts += 1;
            });
        } else {
            course.course.ended(now, End::Done);
        }
        Duration::ZERO
    }
}

fn start(oid: pg_sys::Oid, course: &mut Course, now: Instant) {
    match access(oid) {
        Access::Open => {}
        Access::Gone => {
            // A dropped database needs no worker, so its entry becomes idle. An idle entry is removed later.
            shared::update_database(oid, |d| d.state = DatabaseState::Idle);
            return;
        }
        Access::Closed => return postpone(oid, course, now, "the database does not allow connections"),
    }
    course.course.started(now);
    // The state is set before the start, because from the start on, only the worker sets it.
    if !shared::set_state(oid, DatabaseState::Starting, |_| ()) {
        return;
    }
    course.worker = Worker::start(process::CAPTURE, oid, &[0; 128]);
    if course.worker.is_none() {
        postpone(oid, course, now, "no free background worker: raise max_worker_processes");
    }
}

/// Records that no worker can be started now.
fn postpone(oid: pg_sys::Oid, course: &mut Course, now: Instant, reason: &str) {
    course.course.started(now);
    course.course.ended(now, End::Failed);
    shared::set_state(oid, DatabaseState::Backoff, |d| d.reason = FixedText::new(reason));
}

/// Stops a worker whose slot retains too much WAL. The temporary slot ends with its process, and so releases the WAL.
/// The launcher decides this, because the worker itself may be busy with a long transaction.
fn stop_if_it_retains_too_much(database: &Database, worker: Option<&Worker>) {
    let limit = (MAX_WAL_RETAINED_MB.get() as u64) << 20;
    if database.retained_lsn == 0 || database.worker_pid == 0 {
        return;
    }
    let retained = wal::insert_position().saturating_sub(database.retained_lsn);
    if retained <= limit {
        return;
    }
    let reason = format!(
        "the mirror held back {} MB of WAL, more than anker.max_wal_retained = {} MB",
        retained >> 20,
        limit >> 20
    );
    log!("pg_anker: {reason}; terminating the capture worker of database {}", database.oid.to_u32());
    shared::update_database(database.oid, |d| {
        d.state = DatabaseState::Backoff;
        d.reason = FixedText::new(&reason);
        d.retained_lsn = 0;
    });
    match worker {
        Some(worker) => worker.terminate(),
        // The pid belongs to a living worker, because a worker clears its pid when it ends.
        None => process::terminate(database.worker_pid),
    }
}

/// Makes the launcher start a worker for a database.
fn want(oid: pg_sys::Oid) {
    shared::update_database(oid, |d| d.state = DatabaseState::Wanted);
}

fn access(oid: pg_sys::Oid) -> Access {
    let mut found = Access::Gone;
    for_each_database(|form| {
        if form.oid == oid {
            found = Access::of(form);
        }
    });
    found
}

fn for_each_database(visit: impl FnMut(&pg_sys::FormData_pg_database)) {
    transaction::run(|| rows::for_each_database(visit));
}
