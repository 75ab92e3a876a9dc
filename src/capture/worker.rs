//! The life of a capture worker: it looks for mirrored tables, starts the engine, creates a slot, and decodes WAL.
//!
//! When it decodes, the process has the flag PROC_IN_LOGICAL_DECODING, and vacuum ignores its xmin. So from then on, it
//! reads no user data, but only catalogs, under decoding's own snapshots.

use std::ffi::CString;
use std::time::{Duration, Instant};

use follow::Cause;
use pgrx::prelude::*;
use protocol::change::StreamMessage;
use protocol::control::{Settings, ToWorker};

use super::engine_process::EngineProcess;
use super::follower::Follower;
use super::outbox::Outbox;
use super::patience;
use super::registry::Registry;
use super::state::{give_up, give_up_on_setting, set_state};
use crate::client;
use crate::load::{self, AnchorOrder, ListOrder};
use crate::pg::decoding::{self, Advance, Decoder};
use crate::pg::process::{self, Worker};
use crate::pg::wait::{WaitFor, WaitSet};
use crate::pg::{session, transaction};
use crate::settings;
use crate::shared::{self, DatabaseState};

/// The time that the engine may take to report that it listens.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which WAL is decoded before positions, gates and messages get their turn.
const BATCH_TIME: Duration = Duration::from_millis(5);
/// The interval at which new WAL is looked for, because ordinary commits do not wake the worker.
const ACTIVE_WAIT: Duration = Duration::from_millis(10);
const IDLE_WAIT: Duration = Duration::from_millis(100);
const ACTIVE_FOR: Duration = Duration::from_secs(1);
const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which freed memory is returned to the system.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);
/// The time after which another reader of the list of tables is started if the first one has brought no list.
const LIST_RETRY: Duration = Duration::from_secs(5);
const OTHER_BUILD: &str = "the engine is of another build than the library that the server has loaded: install both from \
                           one package, and restart the server";

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn anker_capture_main(database: pg_sys::Datum) {
    let database = pg_sys::Oid::from(database.value() as u32);
    process::begin();
    // The worker must announce itself before it connects, because a process that needs the database for itself must
    // find and stop it.
    let Some(state) = shared::announce_worker(database) else {
        ereport!(
            PgLogLevel::LOG,
            PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            "pg_anker: too many databases have mirrored tables"
        );
        return;
    };
    process::at_exit(move || left(database));
    if state == DatabaseState::Suspended {
        return;
    }
    // Settings of roles and of the database apply from the connection on. The engine gets those of the whole server.
    let settings =
        Settings { system: session::system_identifier(), database: database.to_u32(), ..settings::engine_settings() };
    process::connect(database);
    let blame = move |reason: &str| set_state(database, DatabaseState::Backoff, reason);
    process::telling_errors(|| follow(database, &settings), blame);
}

/// Follows a database. Returns if no table is mirrored, or as soon as no table is mirrored any more.
fn follow(database: pg_sys::Oid, settings: &Settings) {
    // From here on, `anker.mirror()` marks the database as wanted, so another worker is started if the look-up below
    // misses a row that `anker.mirror()` adds.
    set_state(database, DatabaseState::Idle, "");
    // A list that another process has locked may contain tables, so it counts as a list with tables.
    let with_tables = || {
        let list = load::list_oid().filter(|&list| load::has_tables(list).unwrap_or(true))?;
        Some((list, load::anchor_oid().is_some()))
    };
    let Some((list, has_anchor)) = transaction::run(with_tables) else {
        client::remove_checkpoints(database);
        return;
    };
    let mut settings = settings.clone();
    if !has_anchor {
        // The database has the objects of an older release, which had no checkpoints.
        settings.checkpoint_seconds = 0;
    }
    if !decoding::is_plugin_allowed() {
        give_up_on_setting(
            "output_plugin_libraries does not allow pgoutput",
            "Add pgoutput to output_plugin_libraries in postgresql.conf and reload the settings.",
        );
    }
    set_state(database, DatabaseState::Starting, "starting the engine");
    let token = random_token();
    let registry = Registry::new(database, list, token);
    let (out, mut engine) = Outbox::open(database, &settings).unwrap_or_else(|reason| give_up(&reason));
    wait_for_hello(&mut engine);
    shared::update_database(database, |d| d.engine_pid = engine.pid());

    patience::wait_for_old_transactions(database, &mut engine);
    set_state(database, DatabaseState::Starting, "creating the slot: waiting for transactions that were running");
    let slot = CString::new(format!("pg_anker_{}_{}", database.to_u32(), session::pid())).expect("no NUL in it");
    let decoder = Decoder::create(&slot, Follower::new(registry, out, token));
    Capture { database, token, engine, decoder, list_reader: None, anchor: None, last_work: Instant::now() }.run();
}

struct Capture {
    database: pg_sys::Oid,
    token: u64,
    decoder: Decoder<Follower>,
    /// The engine's process. Messages from it are read here; messages to it go through the follower's outbox.
    engine: EngineProcess,
    /// The process that reads `anker.mirrored`, and its start time.
    list_reader: Option<(Worker, Instant)>,
    /// The process that writes the id of a checkpoint into the database.
    anchor: Option<Worker>,
    last_work: Instant,
}

impl Capture {
    /// Follows the stream. Returns when no table is mirrored any more.
    fn run(&mut self) {
        let wait_set = WaitSet::new(self.engine.control_fd());
        self.find_start(&wait_set);
        set_state(self.database, DatabaseState::Running, "");
        let mut sent_position = 0;
        let (mut confirmed, mut trimmed) = (Instant::now(), Instant::now());
        loop {
            process::reload_settings();
            self.decoder.follower().heed_settings();
            let outcome = self.advance();
            let position = self.decoder.position();
            if position != sent_position {
                sent_position = position;
                self.last_work = Instant::now();
                self.decoder.follower().out.send(&StreamMessage::Position { lsn: position });
                self.publish_position();
            }
            let follower = self.decoder.follower();
            if follower.gates.due_in().is_zero()
                && let Some((snapshot, around)) = follower.gates.take(position)
            {
                follower.out.send(&StreamMessage::Gate { snapshot, around });
            }
            follower.out.flush();
            self.hear_engine();
            let next = self.tend();
            if self.decoder.follower().list_dropped || self.decoder.follower().registry.is_empty() {
                return self.stop();
            }
            if confirmed.elapsed() >= CONFIRM_INTERVAL {
                confirmed = Instant::now();
                self.decoder.confirm();
                self.publish_position();
            }
            if trimmed.elapsed() >= TRIM_INTERVAL {
                if self.last_work >= trimmed {
                    self.decoder.follower().shrink();
                    process::return_free_memory();
                }
                trimmed = Instant::now();
            }
            if outcome == Advance::CaughtUp {
                wait_set.wait(self.pause(next), WaitFor::Changes);
            }
        }
    }

    fn advance(&mut self) -> Advance {
        let outcome = self.decoder.advance(BATCH_TIME);
        if let Advance::Stuck { record_bytes } = outcome {
            let (has, most) = (record_bytes >> 20, settings::MAX_ROW_MB.get());
            give_up(&format!("a record of the WAL has {has} MB, more than a row may have: anker.max_row = {most} MB"));
        }
        outcome
    }

    /// Reads WAL until the stream begins, without sending anything.
    fn find_start(&mut self, wait_set: &WaitSet) {
        self.publish_position();
        while !self.decoder.ready() {
            if self.advance() == Advance::CaughtUp {
                wait_set.wait(ACTIVE_WAIT, WaitFor::CaptureStart);
            }
            self.engine.hear();
        }
        self.decoder.confirm();
        self.publish_position();
    }

    /// Handles the engine's messages.
    fn hear_engine(&mut self) {
        self.engine.hear();
        let follower = self.decoder.follower();
        while let Some(message) = self.engine.next_message() {
            match message {
                // The engine sends these messages only when it starts.
                ToWorker::Hello { .. } | ToWorker::NoMechanism { .. } => {}
                ToWorker::Live { relid, generation, .. } => follower.registry.live(relid, generation),
                ToWorker::GatesWanted => follower.gates.hurry(),
                ToWorker::Checkpoint { id } => {
                    let order = AnchorOrder { token: self.token, id };
                    self.anchor = Worker::start(process::ANCHOR, self.database, &order.to_extra());
                    if self.anchor.is_none() {
                        // The next checkpoint tries again.
                        log!("pg_anker: no free background worker to name a checkpoint: raise max_worker_processes");
                    }
                }
                ToWorker::Broken { relid, generation, error, reason } => {
                    let cause = if error { Cause::Fault } else { Cause::Memory };
                    follower.registry.broken(relid, generation, cause, &reason, &mut follower.out);
                    follower.out.flush();
                }
            }
        }
    }

    /// Starts loaders and the reader of the list when they are due. Returns the time at which more will be due.
    fn tend(&mut self) -> Option<Instant> {
        self.anchor.take_if(|anchor| anchor.ended());
        let Follower { registry, out, .. } = self.decoder.follower();
        let next = registry.tend(out);
        if registry.list_was_seen() {
            if self.list_reader.take().is_some() {
                set_state(self.database, DatabaseState::Running, "");
            }
            return next;
        }
        let due = match &self.list_reader {
            None => true,
            Some((reader, started)) => reader.ended() && started.elapsed() > LIST_RETRY,
        };
        if due {
            let order = ListOrder { token: self.token, list: self.decoder.follower().registry.list().to_u32() };
            match Worker::start(process::LIST_READER, self.database, &order.to_extra()) {
                Some(reader) => self.list_reader = Some((reader, Instant::now())),
                None => {
                    let reason = "no free background worker: raise max_worker_processes";
                    set_state(self.database, DatabaseState::Running, reason);
                    return Some(Instant::now() + LIST_RETRY);
                }
            }
        }
        next
    }

    fn pause(&mut self, next: Option<Instant>) -> Duration {
        let wait = if self.last_work.elapsed() < ACTIVE_FOR { ACTIVE_WAIT } else { IDLE_WAIT };
        let until_next = next.map_or(wait, |n| n.saturating_duration_since(Instant::now()));
        wait.min(until_next).min(self.decoder.follower().gates.due_in())
    }

    fn publish_position(&self) {
        let (decoded, retained) = (self.decoder.position(), self.decoder.retained_from());
        shared::update_database(self.database, |d| {
            d.decoded_lsn = decoded;
            d.retained_lsn = retained;
        });
    }

    /// Ends the worker because there is nothing to mirror. If the worker has mirrored tables, it marks the database as
    /// wanted, so that another worker looks for tables that were listed meanwhile. If the list has tables but none can
    /// be mirrored, another worker must not be started at once, because it would find the same list.
    fn stop(&mut self) {
        let registry = &self.decoder.follower().registry;
        shared::retain_tables(self.database, |_| false);
        match registry.has_held_any() {
            true => set_state(self.database, DatabaseState::Wanted, ""),
            false => set_state(self.database, DatabaseState::Backoff, "no table of the list can be found"),
        }
    }
}

fn wait_for_hello(engine: &mut EngineProcess) {
    let deadline = Instant::now() + HELLO_TIMEOUT;
    loop {
        engine.hear();
        match engine.next_message() {
            Some(ToWorker::Hello { version, .. }) if version == protocol::VERSION => return,
            Some(ToWorker::Hello { .. }) => give_up(OTHER_BUILD),
            Some(ToWorker::NoMechanism { name, reason }) => give_up_on_setting(
                &format!("anker.mechanism = {name} does not work here: {reason}"),
                "Set anker.mechanism = auto in postgresql.conf and reload, or boot a kernel that has it.",
            ),
            Some(other) => give_up(&format!("the engine began with {other:?}")),
            None if Instant::now() > deadline => give_up("the engine did not start in time"),
            None => process::sleep(5, WaitFor::CaptureStart),
        }
    }
}

fn random_token() -> u64 {
    let bytes = session::random_bytes().unwrap_or_else(|| give_up("could not get random bytes"));
    u64::from_ne_bytes(bytes)
}

/// Called when the process has exited except for its place in the proc array: its slot is dropped, and its engine is
/// ending.
fn left(database: pg_sys::Oid) {
    // The loaders have lost their worker, and would block a process that needs the database for itself.
    process::terminate_started();
    // The socket is removed before another worker can start, because that worker's engine makes a new one.
    let _ = std::fs::remove_file(client::socket_path(database));
    shared::worker_left(database);
}
