//! A test against the model of PostgreSQL's heap: for every snapshot S that the store serves, it returns the rows that
//! the heap shows under S.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plan::{Identity, TableLayout, Type};
use protocol::Snapshot;
use protocol::control::ToWorker;
use protocol::request::{LoadRequest, Refusal};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::heap::{Pg, Proc};
use super::rig::{self, Row, Val};
use crate::{Limits, Mechanism, Sink, Store, TableView};

const TABLES: usize = 5;

fn layouts() -> Vec<TableLayout> {
    use Type::*;
    vec![
        rig::layout(10, &[Int32, Text, Int64, Bool, Decimal128 { scale: 2 }, Float64, Opaque], Identity::Key(vec![0])),
        rig::layout(11, &[Decimal64 { scale: 2 }, Text, Int16, Char, Date], Identity::Key(vec![2, 1])),
        rig::layout(12, &[Int32, Char, Float64, Bool, Bytes], Identity::Address),
        rig::layout(14, &[Uuid, Opaque, Time, Oid, Enum, Float32, Name], Identity::Key(vec![0, 1])),
        // Two columns with few values, so that most rows repeat.
        rig::layout(13, &[Int32, Bool], Identity::Address),
    ]
}

/// A model of the capture worker and the loader.
struct Capture {
    store: Store,
    sent: usize,
    /// For each table, the position in the WAL from which it is watched.
    watched: Vec<Option<usize>>,
    loaded: Vec<bool>,
}

impl Capture {
    fn send_upto(&mut self, pg: &Pg, position: usize) {
        while self.sent < position.min(pg.flushed) {
            let t = &pg.wal[self.sent];
            self.sent += 1;
            self.store.transaction(t.xid, 0, rig::by_table(&t.changes));
        }
    }

    /// Does one step of watching and loading a table.
    fn load(&mut self, pg: &mut Pg, table: usize, rnd: &mut StdRng) {
        let layout = &pg.layouts[table];
        let Some(from) = self.watched[table] else {
            let layout = layout.clone();
            pg.flushed = pg.wal.len();
            self.send_upto(pg, pg.flushed);
            self.store.watch(1, layout);
            self.watched[table] = Some(self.sent);
            return;
        };
        let s = pg.snapshot();
        let committed = |x: &u64| pg.committed.get(x) == Some(&true);
        if s.xip().iter().any(committed) || pg.wal[..from].iter().any(|t| !s.sees(t.xid)) {
            return;
        }
        let request = LoadRequest {
            relid: layout.relid,
            generation: 1,
            fingerprint: layout.fingerprint,
            snapshot: s.clone(),
            anchor: None,
        };
        let rows = pg.scan(table, &s);
        self.store.load_begin(&request).unwrap();
        if rnd.random_bool(0.2) {
            self.store
                .load_rows(layout.relid, 1, &rows.first().map_or(vec![], |r| rig::encode_row(layout, r)))
                .unwrap();
            self.store.load_abort(layout.relid, 1);
            return;
        }
        for batch in rows.chunks(3) {
            let bytes: Vec<u8> = batch.iter().flat_map(|row| rig::encode_row(layout, row)).collect();
            self.store.load_rows(layout.relid, 1, &bytes).unwrap();
        }
        self.store.load_end(layout.relid, 1, rows.len() as u64).unwrap();
        self.loaded[table] = true;
    }
}

#[derive(Default)]
struct Outcome {
    served: usize,
    undone: u64,
    too_old: usize,
    unholdable: usize,
    looks: u64,
}

/// A view that is held for a while, with the rows that it must show until the end.
struct Kept {
    view: Arc<dyn TableView>,
    s: Snapshot,
    table: usize,
    columns: Vec<usize>,
}

impl Kept {
    fn check(&self, pg: &Pg) {
        let mut want: Vec<Row> = pg.scan(self.table, &self.s);
        want.iter_mut().for_each(|row| *row = self.columns.iter().map(|&c| row[c].clone()).collect());
        want.sort();
        assert_eq!(rig::rows_of(&self.view), want, "table {} under {:?}", self.table, self.s);
    }
}

fn run(seed: u64, steps: usize, mechanism: Mechanism) -> Outcome {
    let mut rnd = StdRng::seed_from_u64(seed);
    let rnd = &mut rnd;
    let undo_bytes = if rnd.random_bool(0.5) { 1 << 30 } else { rnd.random_range(0..4000) };
    let undo_seconds = if rnd.random_bool(0.5) { 3600 } else { rnd.random_range(0..20) };
    let store = Store::new(Limits { memory_bytes: 1 << 30, undo_bytes, undo_seconds }, mechanism);
    let mut pg = Pg::new(layouts());
    let mut capture = Capture { store, sent: 0, watched: vec![None; TABLES], loaded: vec![false; TABLES] };
    let mut held: Vec<(Snapshot, usize)> = Vec::new();
    let mut kept: Vec<Kept> = Vec::new();
    let mut gates = VecDeque::new();
    let mut outcome = Outcome::default();
    for _ in 0..steps {
        let running = pg.in_state(Proc::Running);
        let committing = pg.in_state(Proc::Committing);
        match rnd.random_range(0..104) {
            0..12 if pg.procs.len() < 6 => {
                pg.begin();
            }
            12..42 => running.choose(rnd).into_iter().for_each(|&x| pg.write(x, rnd)),
            42..54 => running.choose(rnd).into_iter().for_each(|&x| pg.commit_record(x)),
            54..56 => running.choose(rnd).into_iter().for_each(|&x| pg.abort(x)),
            56..66 => committing.choose(rnd).into_iter().for_each(|&x| pg.leave(x, rnd)),
            66..71 => pg.flushed = rnd.random_range(pg.flushed..=pg.wal.len()),
            71..75 => gates.push_back(pg.snapshot()),
            75..79 if !gates.is_empty() => {
                let gate = gates.pop_front().unwrap();
                let upto = rnd.random_range(capture.sent..=pg.flushed.max(capture.sent));
                capture.send_upto(&pg, upto);
                capture.store.clock.advance(Duration::from_millis(rnd.random_range(0..3000)));
                capture.store.gate(gate);
            }
            79..84 => {
                let table = rnd.random_range(0..TABLES);
                if !capture.loaded[table] {
                    capture.load(&mut pg, table, rnd);
                }
            }
            84..89 => held.push((pg.snapshot(), pg.wal.len())),
            100..104 => {
                capture.store.clock.advance(Duration::from_millis(rnd.random_range(0..9000)));
                (0..100).find(|_| !capture.store.tidy());
            }
            _ if !held.is_empty() => {
                let (s, l) = held.swap_remove(rnd.random_range(0..held.len()));
                pg.flushed = pg.flushed.max(l);
                capture.send_upto(&pg, l.max(capture.sent));
                let mut tables: Vec<usize> = (0..TABLES).filter(|&t| capture.loaded[t] && rnd.random()).collect();
                tables.extend(tables.first().copied().filter(|_| rnd.random_bool(0.1)));
                let columns: Vec<Vec<usize>> = tables.iter().map(|&t| random_columns(&pg.layouts[t], rnd)).collect();
                let requests: Vec<_> =
                    tables.iter().zip(&columns).map(|(&t, c)| rig::request(&pg.layouts[t], c)).collect();
                match capture.store.serve(&s, &requests) {
                    Ok(served) => {
                        outcome.served += 1;
                        outcome.undone += served.undone.changes;
                        for ((&table, columns), view) in tables.iter().zip(columns).zip(&served.tables) {
                            let view = Kept { view: view.clone(), s: s.clone(), table, columns };
                            view.check(&pg);
                            kept.push(view);
                        }
                    }
                    Err(Refusal::SnapshotTooOld { .. }) => outcome.too_old += 1,
                    Err(Refusal::Unholdable { relid, attnum }) => {
                        let table = (relid - 10) as usize;
                        let unholdable = |row: &Row| row[attnum as usize - 1] == Val::Unholdable;
                        assert!(pg.scan(table, &s).iter().any(unholdable), "refused without a reason");
                        outcome.unholdable += 1;
                    }
                    Err(other) => panic!("{other:?}"),
                }
                if rnd.random() {
                    held.push((s, l));
                }
            }
            _ => {}
        }
        if held.len() > 8 {
            held.remove(0);
        }
        if kept.len() > 6 {
            kept.swap_remove(rnd.random_range(0..kept.len()));
        }
        let broken = capture.store.take_events().into_iter().find(|e| matches!(e, ToWorker::Broken { .. }));
        assert_eq!(broken, None);
    }
    outcome.looks = capture.store.looks;
    // Views held until now still show the same rows.
    kept.iter().for_each(|view| view.check(&pg));
    outcome
}

fn random_columns(layout: &TableLayout, rnd: &mut StdRng) -> Vec<usize> {
    let count = layout.columns.len();
    if rnd.random_bool(0.3) {
        return (0..count).collect();
    }
    (0..rnd.random_range(0..=count)).map(|_| rnd.random_range(0..count)).collect()
}

/// Runs the model with many seeds. `ANKER_MODEL_SEED` replays one seed. `ANKER_MODEL_RUNS` sets the number of seeds for
/// the engine's usual mechanism; every other mechanism gets a tenth of that number. Under Miri, there are fewer seeds,
/// because Miri is a thousand times as slow.
#[test]
fn every_served_snapshot_equals_the_heap() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ANKER_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ANKER_MODEL_RUNS").unwrap_or(if cfg!(miri) { 2 } else { 3000 }),
    };
    let tenth = seeds.start..seeds.end.min(seeds.start + (seeds.end - seeds.start).div_ceil(10));
    let others = rig::mechanisms().filter(|mechanism| *mechanism != Mechanism::BEST);
    let others = others.flat_map(|mechanism| tenth.clone().map(move |seed| (mechanism, seed)));
    let mut total = Outcome::default();
    for (mechanism, seed) in seeds.clone().map(|seed| (Mechanism::BEST, seed)).chain(others) {
        let result = std::panic::catch_unwind(|| run(seed, if cfg!(miri) { 100 } else { 400 }, mechanism));
        let outcome = result.unwrap_or_else(|panic| {
            eprintln!("on {mechanism}, replay with ANKER_MODEL_SEED={seed}");
            std::panic::resume_unwind(panic)
        });
        total.served += outcome.served;
        total.undone += outcome.undone;
        total.too_old += outcome.too_old;
        total.unholdable += outcome.unholdable;
        total.looks += outcome.looks;
    }
    eprintln!(
        "{} served, {} changes taken back, {} too old, {} unholdable, {} looks at quiet chunks",
        total.served, total.undone, total.too_old, total.unholdable, total.looks
    );
    let is_much = total.undone > 1000 && total.too_old > 100 && total.unholdable > 10 && total.looks > 1000;
    assert!(seeds.end - seeds.start < 100 || is_much);
}
