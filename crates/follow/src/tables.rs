//! The mirrored tables of a database: which of them are followed, since when, and which actions are due for those that
//! are not.
//!
//! ```text
//!   registered --watched--> load due -> loading -> live
//!        |                     |  DDL, TRUNCATE: retired, and watched again at once (next generation)
//!        |                     |  broken (reported by the engine): looked at again after a while
//!        |--no_room--> waits for room in shared memory
//!        `--unsupported--> looked at again when DDL touches the table
//! ```
//!
//! To look at a table means to check whether it can be mirrored and, if so, to watch it. `E` is the type of the encoder
//! for a watched table's rows.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::Backoff;

/// The delays after loads that failed.
const LOAD_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(64));
/// The delays after faults of a table.
const FAULT_DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(64));
/// The delays after a table did not fit into the memory limit.
const MEMORY_DELAYS: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(240));
/// The delays after a row was too long. They are long, because the row may stay for a while.
const WIDE_DELAYS: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(3600));
/// If a table was live for this long, its earlier faults no longer count.
const SOUND_AFTER: Duration = Duration::from_secs(60);
/// The time after which a requested look is requested again. A request is a note in the stream, and normally arrives
/// within moments.
const LOOK_RETRY: Duration = Duration::from_secs(10);
/// The interval at which tables without room in shared memory ask for room.
const ROOM_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Tables<E> {
    tables: HashMap<u32, Table<E>>,
    /// Loads by the time at which they are due. `looks` has the tables to be looked at again, also by time. A table is
    /// in at most one of these two sets, at the time in its `due`.
    loads: BTreeSet<(Instant, u32)>,
    looks: BTreeSet<(Instant, u32)>,
    without_room: BTreeSet<u32>,
    look_for_room: Option<Instant>,
    /// Tables that were unregistered before the list of mirrored tables was read.
    removed: HashSet<u32>,
    list_read: bool,
    held: bool,
}

#[derive(Debug)]
struct Table<E> {
    generation: u64,
    phase: Phase<E>,
    /// Whether the table has ever been watched.
    followed: bool,
    due: Option<Instant>,
    faults: Backoff,
    memory: Backoff,
    wide: Backoff,
}

#[derive(Debug)]
enum Phase<E> {
    Watched(Box<Watched<E>>),
    /// The table is not watched, but will be looked at again.
    Unwatched,
    /// There is no room in shared memory for the table's state.
    WithoutRoom,
    Unsupported,
}

#[derive(Debug)]
struct Watched<E> {
    fingerprint: u64,
    load: Load,
    failed_loads: Backoff,
    encoder: E,
}

#[derive(Debug)]
enum Load {
    Due,
    Running,
    Live { since: Instant },
}

/// An order to a loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    pub relid: u32,
    pub generation: u64,
}

/// The action that is needed after DDL on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recheck {
    Nothing,
    /// The mirror must be rebuilt, unless the table still has this fingerprint.
    UnlessStill(u64),
    /// The table must be looked at, because the DDL may have made it possible to mirror it.
    Always,
}

/// The reason why a table was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The engine found an inconsistency, for example an update of a row that does not exist.
    Fault,
    /// The table does not fit into the engine's memory.
    Memory,
    /// A row is too long.
    Wide,
}

impl<E> Default for Tables<E> {
    fn default() -> Self {
        Tables {
            tables: HashMap::new(),
            loads: BTreeSet::new(),
            looks: BTreeSet::new(),
            without_room: BTreeSet::new(),
            look_for_room: None,
            removed: HashSet::new(),
            list_read: false,
            held: false,
        }
    }
}

impl<E> Tables<E> {
    // -- the list of tables ------------------------------------------------------------------------------------------

    /// Registers a table. Returns whether it is new and therefore has to be watched.
    pub fn register(&mut self, relid: u32) -> bool {
        self.removed.remove(&relid);
        !self.tables.contains_key(&relid)
    }

    /// Takes over the list of mirrored tables as a snapshot saw it, and returns the tables to register. The stream may
    /// already have brought changes to the list; these take precedence.
    pub fn list_was_read(&mut self, relids: &[u32]) -> Vec<u32> {
        if std::mem::replace(&mut self.list_read, true) {
            return Vec::new();
        }
        let removed = std::mem::take(&mut self.removed);
        relids.iter().copied().filter(|relid| !removed.contains(relid)).collect()
    }

    /// Whether the list of mirrored tables is known.
    pub fn list_is_known(&self) -> bool {
        self.list_read
    }

    /// Whether the list is known, and no table is mirrored.
    pub fn is_empty(&self) -> bool {
        self.list_read && self.tables.is_empty()
    }

    /// Whether any table has ever been registered.
    pub fn has_held_any(&self) -> bool {
        self.held
    }

    pub fn contains(&self, relid: u32) -> bool {
        self.tables.contains_key(&relid)
    }

    pub fn relids(&self) -> impl Iterator<Item = u32> {
        self.tables.keys().copied()
    }

    /// Removes a table that is no longer on the list of mirrored tables. Returns whether it was watched.
    pub fn unregister(&mut self, relid: u32) -> bool {
        if !self.list_read {
            self.removed.insert(relid);
        }
        let was_watched = self.retire(relid);
        self.tables.remove(&relid);
        was_watched
    }

    // -- watching ----------------------------------------------------------------------------------------------------

    pub fn encoder(&mut self, relid: u32) -> Option<&mut E> {
        match &mut self.tables.get_mut(&relid)?.phase {
            Phase::Watched(watched) => Some(&mut watched.encoder),
            _ => None,
        }
    }

    pub fn recheck(&self, relid: u32) -> Recheck {
        match self.tables.get(&relid).map(|table| &table.phase) {
            Some(Phase::Watched(watched)) => Recheck::UnlessStill(watched.fingerprint),
            Some(Phase::Unsupported) => Recheck::Always,
            Some(Phase::Unwatched | Phase::WithoutRoom) | None => Recheck::Nothing,
        }
    }

    /// Whether the table has ever been watched.
    pub fn was_watched(&self, relid: u32) -> bool {
        self.tables.get(&relid).is_some_and(|table| table.followed)
    }

    /// The generation of the table's mirror, if the table is watched.
    pub fn generation(&self, relid: u32) -> Option<u64> {
        let table = self.tables.get(&relid)?;
        matches!(table.phase, Phase::Watched(_)).then_some(table.generation)
    }

    /// The load of this table that a loader is doing, if there is one.
    pub fn loading(&self, relid: u32) -> Option<LoadOrder> {
        let table = self.tables.get(&relid)?;
        match &table.phase {
            Phase::Watched(watched) if matches!(watched.load, Load::Running) => {
                Some(LoadOrder { relid, generation: table.generation })
            }
            _ => None,
        }
    }

    /// Whether the table is not watched, but may be later.
    pub fn is_given_up(&self, relid: u32) -> bool {
        matches!(self.tables.get(&relid).map(|t| &t.phase), Some(Phase::Unwatched | Phase::WithoutRoom))
    }

    /// Records that the table is watched from now on, so that its load is due.
    pub fn watched(&mut self, relid: u32, generation: u64, fingerprint: u64, encoder: E, load_from: Instant) {
        let watched = Watched { fingerprint, load: Load::Due, failed_loads: LOAD_DELAYS, encoder };
        self.enter(relid, generation, Phase::Watched(Box::new(watched)));
        self.load_at(relid, load_from);
    }

    pub fn unsupported(&mut self, relid: u32) {
        self.enter(relid, 0, Phase::Unsupported);
    }

    pub fn without_room(&mut self, relid: u32, now: Instant) {
        self.enter(relid, 0, Phase::WithoutRoom);
        self.without_room.insert(relid);
        self.look_for_room.get_or_insert(now + ROOM_INTERVAL);
    }

    fn enter(&mut self, relid: u32, generation: u64, phase: Phase<E>) {
        self.held = true;
        self.forget_due(relid);
        let table = self.tables.entry(relid).or_insert(Table {
            generation,
            phase: Phase::Unwatched,
            followed: false,
            due: None,
            faults: FAULT_DELAYS,
            memory: MEMORY_DELAYS,
            wide: WIDE_DELAYS,
        });
        table.generation = generation;
        table.followed |= matches!(phase, Phase::Watched(_));
        table.phase = phase;
    }

    /// Stops watching a table, and cancels the action that is due for it. Returns whether the table was watched.
    pub fn retire(&mut self, relid: u32) -> bool {
        self.forget_due(relid);
        let Some(table) = self.tables.get_mut(&relid) else { return false };
        matches!(std::mem::replace(&mut table.phase, Phase::Unwatched), Phase::Watched(_))
    }

    /// Gives up a table until a later look. Returns the time until that look; `None` if this generation of the table is
    /// not watched.
    pub fn broken(&mut self, relid: u32, generation: u64, cause: Cause, now: Instant) -> Option<Duration> {
        let table = self.tables.get_mut(&relid).filter(|t| t.generation == generation)?;
        let Phase::Watched(watched) = &table.phase else { return None };
        if matches!(watched.load, Load::Live { since } if now.saturating_duration_since(since) > SOUND_AFTER) {
            table.faults.reset();
            table.memory.reset();
            table.wide.reset();
        }
        let delay = match cause {
            Cause::Fault => table.faults.failed(),
            Cause::Memory => table.memory.failed(),
            Cause::Wide => table.wide.failed(),
        };
        self.retire(relid);
        self.look_at(relid, now + delay);
        Some(delay)
    }

    // -- loading -----------------------------------------------------------------------------------------------------

    /// The number of due loads, but at most `most`.
    pub fn due_loads(&self, now: Instant, most: usize) -> usize {
        due(&self.loads, now).take(most).count()
    }

    /// Returns at most `most` due loads, which count as running from now on.
    pub fn take_due_loads(&mut self, now: Instant, most: usize) -> Vec<LoadOrder> {
        let due: Vec<u32> = due(&self.loads, now).take(most).collect();
        let mut orders = Vec::with_capacity(due.len());
        for relid in due {
            self.forget_due(relid);
            if let Some(Table { generation, phase: Phase::Watched(watched), .. }) = self.tables.get_mut(&relid) {
                watched.load = Load::Running;
                orders.push(LoadOrder { relid, generation: *generation });
            }
        }
        orders
    }

    /// Called when the engine reports that a table serves queries. Returns whether the report concerns the table's
    /// present generation.
    pub fn live(&mut self, relid: u32, generation: u64, now: Instant) -> bool {
        let table = self.tables.get_mut(&relid).filter(|t| t.generation == generation);
        let Some(Phase::Watched(watched)) = table.map(|t| &mut t.phase) else { return false };
        watched.load = Load::Live { since: now };
        self.forget_due(relid);
        true
    }

    /// Called when the loader with this order has ended. If the table is not live by then, the load is repeated. If the
    /// loader has tried to load, that happens after a delay, otherwise at once.
    pub fn load_ended(&mut self, order: LoadOrder, tried: bool, now: Instant) {
        let Some(table) = self.tables.get_mut(&order.relid).filter(|t| t.generation == order.generation) else {
            return;
        };
        if let Phase::Watched(watched) = &mut table.phase
            && matches!(watched.load, Load::Running)
        {
            watched.load = Load::Due;
            let delay = if tried { watched.failed_loads.failed() } else { Duration::ZERO };
            self.load_at(order.relid, now + delay);
        }
    }

    // -- what is due -------------------------------------------------------------------------------------------------

    /// Returns the tables that are due for a look; the caller must request these looks now. `room` returns for how many
    /// more tables there is room in shared memory.
    pub fn take_due_looks(&mut self, now: Instant, room: impl FnOnce() -> usize) -> Vec<u32> {
        let mut looks: Vec<u32> = due(&self.looks, now).collect();
        if self.look_for_room.is_some_and(|at| at <= now) {
            let found: Vec<u32> = self.without_room.iter().copied().take(room()).collect();
            looks.extend(found);
            self.look_for_room = Some(now + ROOM_INTERVAL);
        }
        for &relid in &looks {
            self.look_at(relid, now + LOOK_RETRY);
        }
        looks
    }

    /// The time at which the next action is due. Loads are ignored unless `may_load`.
    pub fn next(&self, may_load: bool) -> Option<Instant> {
        let load = self.loads.first().filter(|_| may_load).map(|(at, _)| *at);
        let look = self.looks.first().map(|(at, _)| *at);
        [load, look, self.look_for_room].into_iter().flatten().min()
    }

    fn load_at(&mut self, relid: u32, at: Instant) {
        self.forget_due(relid);
        self.loads.insert((at, relid));
        self.tables.get_mut(&relid).into_iter().for_each(|t| t.due = Some(at));
    }

    fn look_at(&mut self, relid: u32, at: Instant) {
        self.forget_due(relid);
        self.looks.insert((at, relid));
        self.tables.get_mut(&relid).into_iter().for_each(|t| t.due = Some(at));
    }

    fn forget_due(&mut self, relid: u32) {
        if let Some(at) = self.tables.get_mut(&relid).and_then(|table| table.due.take()) {
            self.loads.remove(&(at, relid));
            self.looks.remove(&(at, relid));
        }
        if self.without_room.remove(&relid) && self.without_room.is_empty() {
            self.look_for_room = None;
        }
    }
}

fn due(agenda: &BTreeSet<(Instant, u32)>, now: Instant) -> impl Iterator<Item = u32> {
    agenda.range(..=(now, u32::MAX)).map(|&(_, relid)| relid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_ROOM: fn() -> usize = || 0;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn order(relid: u32, generation: u64) -> LoadOrder {
        LoadOrder { relid, generation }
    }

    /// A single table, which is watched and live.
    fn live_table(now: Instant) -> Tables<()> {
        let mut tables = Tables::default();
        assert_eq!(tables.list_was_read(&[1]), [1]);
        assert!(tables.register(1));
        tables.watched(1, 10, 77, (), now);
        assert_eq!(tables.take_due_loads(now, 5), [order(1, 10)]);
        assert!(tables.live(1, 10, now));
        tables
    }

    #[test]
    fn what_the_stream_said_before_the_list_was_read_is_newer() {
        let mut tables: Tables<()> = Tables::default();
        tables.unregister(1);
        tables.unregister(2);
        assert!(tables.register(2));
        assert!(!tables.is_empty(), "nothing is known yet");
        assert_eq!(tables.list_was_read(&[1, 2, 3]), [2, 3]);
        assert_eq!(tables.list_was_read(&[1]), [] as [u32; 0]);
        assert!(tables.is_empty() && !tables.has_held_any());
    }

    #[test]
    fn a_table_is_loaded_once_and_then_nothing_is_due() {
        let now = Instant::now();
        let mut tables = live_table(now);
        assert_eq!(tables.next(true), None);
        assert!(tables.encoder(1).is_some() && tables.encoder(2).is_none());
        assert_eq!(tables.recheck(1), Recheck::UnlessStill(77));
        assert!(!tables.live(1, 9, now), "an older mirror of the table");
        assert!(tables.unregister(1));
        assert!(tables.is_empty() && tables.has_held_any());
    }

    #[test]
    fn loads_that_come_to_nothing_are_tried_ever_more_rarely() {
        let mut now = Instant::now();
        let mut tables = Tables::default();
        tables.watched(1, 10, 0, (), now);
        for delay in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(tables.take_due_loads(now, 5), [order(1, 10)]);
            assert_eq!(tables.next(true), None, "while the loader is at work");
            tables.load_ended(order(1, 10), true, now);
            assert_eq!(tables.next(true), Some(now + seconds(delay)));
            assert_eq!(tables.next(false), None, "no loader may start");
            assert!(tables.take_due_loads(now, 5).is_empty());
            now += seconds(delay);
        }
        tables.take_due_loads(now, 5);
        tables.load_ended(order(1, 10), false, now);
        assert_eq!(tables.take_due_loads(now, 5), [order(1, 10)], "not tried yet: at once");
        tables.live(1, 10, now);
        tables.load_ended(order(1, 10), true, now);
        assert_eq!(tables.next(true), None, "live, so the loader's end is no failure");
    }

    #[test]
    fn loads_are_taken_in_order_and_only_as_many_as_asked_for() {
        let now = Instant::now();
        let mut tables = Tables::default();
        (1..=5).for_each(|relid| tables.watched(relid, relid as u64, 0, (), now + seconds(10 - relid as u64)));
        assert_eq!((tables.due_loads(now + seconds(8), 9), tables.due_loads(now, 9)), (4, 0));
        let taken = tables.take_due_loads(now + seconds(8), 2);
        assert_eq!(taken, [order(5, 5), order(4, 4)]);
        assert_eq!(tables.take_due_loads(now + seconds(8), 2), [order(3, 3), order(2, 2)]);
        assert_eq!(tables.next(true), Some(now + seconds(9)));
    }

    #[test]
    fn a_loader_of_an_earlier_mirror_means_nothing() {
        let now = Instant::now();
        let mut tables = Tables::default();
        tables.watched(1, 10, 0, (), now);
        tables.take_due_loads(now, 5);
        assert_eq!(tables.loading(1), Some(order(1, 10)));
        assert!(tables.retire(1) && tables.was_watched(1));
        assert_eq!(tables.loading(1), None);
        tables.watched(1, 11, 0, (), now);
        assert!(!tables.live(1, 10, now), "it was retired");
        assert_eq!(tables.take_due_loads(now, 5), [order(1, 11)]);
        tables.load_ended(order(1, 10), true, now);
        assert_eq!(tables.next(true), None, "the new load still runs");
    }

    #[test]
    fn a_table_that_breaks_again_and_again_rests_ever_longer() {
        let mut now = Instant::now();
        let mut tables = live_table(now);
        for (generation, delay) in (10..).zip([1, 2, 4]) {
            assert_eq!(tables.broken(1, generation, Cause::Fault, now), Some(seconds(delay)));
            assert!(tables.is_given_up(1) && tables.encoder(1).is_none());
            assert_eq!(tables.broken(1, generation, Cause::Fault, now), None, "told twice");
            assert!(tables.take_due_looks(now, NO_ROOM).is_empty());
            now += seconds(delay);
            assert_eq!(tables.take_due_looks(now, NO_ROOM), [1]);
            assert_eq!(tables.next(true), Some(now + LOOK_RETRY), "asked for again if nothing comes of it");
            tables.watched(1, generation + 1, 0, (), now);
            tables.take_due_loads(now, 1);
            tables.live(1, generation + 1, now);
        }
        now += SOUND_AFTER + seconds(1);
        assert_eq!(tables.broken(1, 13, Cause::Fault, now), Some(seconds(1)), "it was sound for long");
    }

    #[test]
    fn a_table_that_does_not_fit_is_not_loaded_every_moment() {
        let now = Instant::now();
        let mut tables = live_table(now);
        assert_eq!(tables.broken(1, 10, Cause::Memory, now), Some(seconds(30)));
        tables.watched(1, 11, 0, (), now);
        assert_eq!(tables.broken(1, 11, Cause::Memory, now), Some(seconds(60)));
        assert_eq!(tables.recheck(1), Recheck::Nothing, "it is looked at anyway");
    }

    #[test]
    fn a_table_with_a_row_that_is_too_long_rests_for_minutes() {
        let now = Instant::now();
        let mut tables = live_table(now);
        assert_eq!(tables.generation(1), Some(10));
        assert_eq!(tables.broken(1, 10, Cause::Wide, now), Some(seconds(60)));
        assert_eq!((tables.generation(1), tables.is_given_up(1)), (None, true));
        tables.watched(1, 11, 0, (), now);
        assert_eq!(tables.broken(1, 11, Cause::Wide, now), Some(seconds(120)));
    }

    #[test]
    fn tables_without_room_are_taken_up_when_there_is_some() {
        let mut now = Instant::now();
        let mut tables: Tables<()> = Tables::default();
        (1..=3).for_each(|relid| tables.without_room(relid, now));
        assert!(tables.take_due_looks(now, || 3).is_empty(), "not at every moment");
        now += ROOM_INTERVAL;
        assert!(tables.take_due_looks(now, NO_ROOM).is_empty());
        assert_eq!(tables.next(true), Some(now + ROOM_INTERVAL));
        now += ROOM_INTERVAL;
        assert_eq!(tables.take_due_looks(now, || 2), [1, 2]);
        assert!(tables.is_given_up(1));
        tables.watched(1, 5, 0, (), now);
        tables.without_room(2, now);
        now += ROOM_INTERVAL;
        assert_eq!(tables.take_due_looks(now, || 9), [2, 3]);
        assert_eq!(tables.next(false), Some(now + LOOK_RETRY), "nobody waits for room any more");
        tables.unregister(2);
        tables.unregister(3);
        assert_eq!(tables.next(false), None);
    }

    #[test]
    fn an_unsupported_table_waits_for_ddl() {
        let mut tables: Tables<()> = Tables::default();
        tables.unsupported(1);
        assert_eq!(tables.recheck(1), Recheck::Always);
        assert_eq!(tables.recheck(2), Recheck::Nothing);
        assert_eq!(tables.next(true), None);
        assert!(!tables.retire(1));
    }
}
