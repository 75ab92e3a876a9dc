//! Undo is bounded in bytes and in time, the floor moves as undo is discarded, slots are reused, and texts are
//! compacted.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use plan::{Identity, TableLayout, Type};
use protocol::Snapshot;
use protocol::request::Refusal;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rig::{self, LIMITS, Rig, Val, simple, simple_row};
use crate::{Lease, Limits, Mechanism, Served, Sink};

fn change_number(rig: &mut Rig, key: i64, number: i64) {
    let layout = simple(1);
    let mut bytes = Vec::new();
    rig::update(&layout, &simple_row(key, 0, ""), &simple_row(key, number, ""), &[], &mut bytes);
    rig.commit(&bytes);
}

#[test]
fn undo_ends_after_its_time() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_seconds: 10, ..LIMITS });
    rig.load(&layout, &[simple_row(1, 0, "")]);
    let mut snapshots = vec![rig.now()];
    for second in 1..=30 {
        change_number(&mut rig, 1, second);
        rig.gate();
        snapshots.push(rig.now());
        rig.store.clock.advance(Duration::from_secs(1));
    }
    rig.gate();
    for (number, s) in snapshots.iter().enumerate() {
        let result = rig.serve(&layout, s);
        match number {
            0..=18 => assert_eq!(result.unwrap_err(), Refusal::SnapshotTooOld { relid: 1 }, "{number}"),
            21..=30 => assert_eq!(rig::rows_of(&result.unwrap()), [simple_row(1, number as i64, "")]),
            _ => {}
        }
    }
    let status = rig.store.status();
    assert!(status.undo_transactions <= 12, "{status:?}");
    // Nothing more is written. The remaining undo is discarded, too, and the newest snapshot is still served.
    rig.store.clock.advance(Duration::from_secs(60));
    rig.gate();
    assert_eq!((rig.store.status().undo_bytes, rig.store.status().undo_transactions), (0, 0));
    assert_eq!(rig.rows(&layout), [simple_row(1, 30, "")]);
}

#[test]
fn undo_is_bounded_over_all_tables_together() {
    let (one, two) = (simple(1), simple(2));
    let mut rig = Rig::new(Limits { undo_bytes: 20_000, ..LIMITS });
    rig.load(&one, &[simple_row(1, 0, "")]);
    rig.load(&two, &[simple_row(1, 0, "")]);
    // The first table's changes are older than the second's, so the first table's undo is discarded first.
    for layout in [&one, &two] {
        for number in 1..=200 {
            let mut bytes = Vec::new();
            rig::update(layout, &simple_row(1, 0, ""), &simple_row(1, number, ""), &[], &mut bytes);
            rig.commit(&bytes);
            rig.store.clock.advance(Duration::from_millis(300));
            rig.gate();
            assert!(rig.store.status().undo_bytes <= 20_000);
        }
    }
    let status = rig.store.status();
    assert!(status.tables[0].undo_bytes < status.tables[1].undo_bytes, "{status:?}");
    assert!(status.tables[1].undo_bytes > 10_000);
    let recent = Snapshot::new(rig.xid - 50, vec![]);
    assert_eq!(rig::rows_of(&rig.serve(&two, &recent).unwrap()), [simple_row(1, 150, "")]);
    let old = Snapshot::new(20, vec![]);
    assert_eq!(rig.serve(&one, &old).unwrap_err(), Refusal::SnapshotTooOld { relid: 1 });
}

#[test]
fn a_long_backlog_is_applied_within_the_undo_limit() {
    let layout = simple(1);
    let text = "text ".repeat(2000);
    let mut rig = Rig::new(Limits { undo_bytes: 1 << 20, memory_bytes: 100 << 20, ..LIMITS });
    rig.load(&layout, &[simple_row(1, 0, "")]);
    for number in 1..=6000 {
        let mut bytes = Vec::new();
        rig::update(
            &layout,
            &simple_row(1, 0, ""),
            &simple_row(1, number, &format!("{number}{text}")),
            &[],
            &mut bytes,
        );
        rig.commit(&bytes);
    }
    rig.gate();
    assert_eq!(rig.rows(&layout), [simple_row(1, 6000, &format!("6000{text}"))]);
    assert!(rig.store.status().undo_bytes <= 1 << 20);
}

#[test]
fn nothing_is_discarded_that_no_gate_has_seen() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_bytes: 0, ..LIMITS });
    rig.load(&layout, &[simple_row(1, 0, ""), simple_row(2, 0, "")]);
    change_number(&mut rig, 1, 1);
    let gate = rig.now();
    change_number(&mut rig, 2, 2);
    // A request sees both transactions, so both are applied. Then a gate arrives that sees only the first transaction.
    assert_eq!(rig.rows(&layout), [simple_row(1, 1, ""), simple_row(2, 2, "")]);
    rig.store.gate(gate.clone());
    assert_eq!(rig.store.status().undo_transactions, 1);
    assert_eq!(rig::rows_of(&rig.serve(&layout, &gate).unwrap()), [simple_row(1, 1, ""), simple_row(2, 0, "")]);
    rig.gate();
    assert_eq!(rig.store.status().undo_transactions, 0);
    assert_eq!(rig.serve(&layout, &gate).unwrap_err(), Refusal::SnapshotTooOld { relid: 1 });
}

#[test]
fn slots_are_used_again_only_when_their_undo_is_gone() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_seconds: 10, ..LIMITS });
    rig.load(&layout, &[]);
    let (mut memory, mut later) = (0, 0);
    for round in 0..60 {
        let mut bytes = Vec::new();
        for key in 0..1000 {
            if round > 0 {
                rig::delete(&layout, &simple_row(key, 0, ""), &mut bytes);
            }
            rig::insert(&layout, &simple_row(key, round, &format!("a text of round {round} and {key}")), &mut bytes);
        }
        let before = rig.now();
        rig.commit(&bytes);
        rig.gate();
        assert_eq!(rig.rows(&layout).len(), 1000);
        if round > 0 {
            let view = rig.serve(&layout, &before).unwrap();
            let text = format!("a text of round {} and ", round - 1);
            let is_old = |val: &Val| matches!(val, Val::Text(found) if found.starts_with(&text));
            assert!(rig::rows_of(&view).iter().all(|row| is_old(&row[2])));
        }
        rig.store.clock.advance(Duration::from_secs(2));
        // The number of rows goes up and down.
        let most = if round < 20 {
            &mut 0
        } else if round < 40 {
            &mut memory
        } else {
            &mut later
        };
        *most = rig.store.status().memory_bytes.max(*most);
    }
    let grown = later as f64 / memory as f64;
    assert!(grown < 1.1, "{grown}");
    let full = rig.store.status().tables[0].bytes;
    let mut bytes = Vec::new();
    (0..1000).for_each(|key| rig::delete(&layout, &simple_row(key, 0, ""), &mut bytes));
    rig.commit(&bytes);
    rig.gate();
    rig.store.clock.advance(Duration::from_secs(20));
    rig.gate();
    assert!(rig.store.status().tables[0].bytes + 10_000 < full, "text of rows that are gone");
}

#[test]
fn endless_updates_of_long_text_need_bounded_memory() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_bytes: 100_000, ..LIMITS });
    let mut rnd = StdRng::seed_from_u64(5);
    let text = |rnd: &mut StdRng| "0123456789".repeat(rnd.random_range(2..40));
    let rows: Vec<_> = (0..2000).map(|key| simple_row(key, 0, &text(&mut rnd))).collect();
    rig.load(&layout, &rows);
    let mut want = rows;
    let (mut memory, mut views) = (0, Vec::new());
    for round in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..200 {
            let key = rnd.random_range(0..2000);
            let row = simple_row(key, round, &text(&mut rnd));
            rig::update(&layout, &want[key as usize], &row, &[], &mut bytes);
            want[key as usize] = row;
        }
        rig.commit(&bytes);
        rig.gate();
        // Views share blocks of texts, so the writer has to begin new ones.
        let now = rig.now();
        views.push((rig.serve(&layout, &now).unwrap(), want.clone()));
        if views.len() > 3 {
            let (view, rows) = views.remove(0);
            assert_eq!(rig::rows_of(&view), rows);
        }
        if round == 100 {
            memory = rig.store.status().memory_bytes;
        }
    }
    let (view, _) = &views[0];
    for array in (0..view.chunk_count()).flat_map(|i| view.chunk(i).unwrap().arrays) {
        assert!(array.to_data().buffers().len() < 40, "few blocks to a chunk");
    }
    views.clear();
    let status = rig.store.status();
    assert!(status.memory_bytes < memory + (1 << 20), "{} {memory}", status.memory_bytes);
    assert_eq!(rig.rows(&layout), want);
}

#[test]
fn a_million_equal_rows_are_no_burden() {
    let layout = rig::layout(1, &[Type::Int32], Identity::Address);
    let mut rig = Rig::new(LIMITS);
    let row = |number, address| vec![Val::Int(number), Val::Int(address)];
    rig.load(&layout, &(0..500_000).map(|address| row(7, address)).collect::<Vec<_>>());
    let start = std::time::Instant::now();
    let mut bytes = Vec::new();
    for address in 0..100_000 {
        let [second, third] = [address + 100_000, address + 1_000_000];
        rig::delete(&layout, &row(7, address), &mut bytes);
        rig::insert(&layout, &row(7, address), &mut bytes);
        rig::update(&layout, &row(7, second), &row(8, third), &[], &mut bytes);
    }
    rig.commit(&bytes);
    let rows = rig.rows(&layout);
    assert_eq!((rows.len(), rows.partition_point(|r| *r == [Val::Int(7)])), (500_000, 400_000));
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// A reader that holds a view until its lease is revoked.
fn hold(rig: &mut Rig, layout: &TableLayout) -> (Arc<Lease>, Arc<Mutex<Option<Served>>>) {
    let (lease, now) = (Arc::<Lease>::default(), rig.now());
    let request = rig::request(layout, &[0, 1, 2]);
    let served = Served::settled(rig.store.bind(&now, &[request], Some(lease.clone())).unwrap()).unwrap();
    let held = Arc::new(Mutex::new(Some(served)));
    let leaves = held.clone();
    lease.when_revoked(move || drop(leaves.lock().take()));
    (lease, held)
}

#[test]
fn snapshots_are_given_up_before_tables_the_dearest_first() {
    const KEYS: i64 = 2000;
    // Two mechanisms: with epochs, readers drop a snapshot without a lock; with rewiring, they need one.
    let both = |mechanism: &Mechanism| matches!(mechanism, Mechanism::Epochs | Mechanism::Rewired);
    for mechanism in rig::mechanisms().filter(both) {
        let (one, two) = (simple(1), simple(2));
        let mut rig = Rig::on(mechanism, Limits { memory_bytes: 3 << 20, undo_bytes: 200 << 10, ..LIMITS });
        let rows: Vec<_> = (0..KEYS).map(|key| simple_row(key, 0, "some text")).collect();
        rig.load(&one, &rows);
        rig.load(&two, &rows);
        // A snapshot of a table that does not change keeps no memory.
        let (quiet, quiet_view) = hold(&mut rig, &two);
        let (mut leases, mut round) = (Vec::<(Arc<Lease>, _)>::new(), 0);
        while leases.iter().filter(|(lease, _)| lease.is_revoked()).count() < 3 {
            round += 1;
            assert!(round < 1000, "{mechanism}: all snapshots find room");
            leases.push(hold(&mut rig, &one));
            for part in 0..10 {
                let mut bytes = Vec::new();
                for key in (part..KEYS).step_by(10) {
                    let row = |number| simple_row(key, number, &format!("some text {number}"));
                    rig::update(&one, &row(round - 1), &row(round), &[], &mut bytes);
                }
                rig.commit(&bytes);
                rig.gate();
            }
        }
        assert_eq!(rig.store.take_events(), [], "{mechanism}");
        assert_eq!(rig.rows(&one).len() as i64, KEYS);
        let revoked = leases.iter().filter(|(lease, _)| lease.is_revoked()).count();
        let left = leases.len() - revoked;
        assert!(left > 0, "{mechanism}: all {revoked} were revoked");
        assert!(
            leases[..revoked].iter().all(|(lease, _)| lease.is_revoked()),
            "{mechanism}: a younger one was revoked"
        );
        assert!(!quiet.is_revoked(), "{mechanism}: nothing was written beside it");
        // The views whose leases were not revoked are unchanged.
        let is_of = |view: &Option<Served>, number: i64| {
            let rows = rig::rows_of(&view.as_ref().unwrap().tables[0]);
            rows.len() as i64 == KEYS && rows.iter().all(|row| row[1] == Val::Int(number))
        };
        assert!(is_of(&quiet_view.lock(), 0));
        for (round, (_, view)) in leases.iter().enumerate().skip(revoked) {
            assert!(is_of(&view.lock(), round as i64), "{mechanism}: round {round}");
        }
    }
}

#[test]
fn images_are_given_up_before_tables() {
    const KEYS: i64 = 2000;
    let layout = simple(1);
    let mut rig = Rig::new(Limits { memory_bytes: 2 << 20, undo_bytes: 200 << 10, ..LIMITS });
    rig.load(&layout, &(0..KEYS).map(|key| simple_row(key, 0, "some text")).collect::<Vec<_>>());
    let (mut held, mut round) = (Vec::<Arc<Lease>>::new(), 0);
    while !held.iter().any(|lease| lease.is_revoked()) {
        round += 1;
        assert!(round < 1000, "all images find room");
        let lease = Arc::<Lease>::default();
        let image = Mutex::new(Some(rig.store.image(1, Some(lease.clone())).unwrap()));
        lease.when_revoked(move || drop(image.lock().take()));
        held.push(lease);
        let mut bytes = Vec::new();
        for key in 0..KEYS {
            let row = |number| simple_row(key, number, &format!("some text {number}"));
            rig::update(&layout, &row(round - 1), &row(round), &[], &mut bytes);
        }
        rig.commit(&bytes);
        rig.gate();
    }
    assert_eq!(rig.store.take_events(), []);
    assert_eq!(rig.rows(&layout).len() as i64, KEYS);
}

fn has_room(rig: &Rig, relids: &[u32], bytes: usize) -> bool {
    rig.store.has_room(relids.iter().copied(), bytes)
}

#[test]
fn who_is_told_late_leaves_at_once() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { memory_bytes: 1 << 20, undo_bytes: 10_000, ..LIMITS });
    rig.load(&layout, &(0..1000).map(|key| simple_row(key, 0, "")).collect::<Vec<_>>());
    let (lease, view) = hold(&mut rig, &layout);
    change_number(&mut rig, 1, 1);
    rig.gate();
    // More memory than the limit can never be freed, so no lease is revoked for such a request. For slightly less than
    // the limit, the lease is revoked.
    assert!(!has_room(&rig, &[1], 1 << 30) && !lease.is_revoked());
    assert!(!has_room(&rig, &[1], (1 << 20) - 1) && lease.is_revoked() && view.lock().is_none());
    let told = Arc::new(Mutex::new(false));
    lease.when_revoked({
        let told = told.clone();
        move || *told.lock() = true
    });
    assert!(*told.lock());
}

#[test]
fn a_load_without_room_takes_no_snapshot_away() {
    let (one, two) = (simple(1), simple(2));
    let mut rig = Rig::new(Limits { memory_bytes: 1 << 20, undo_bytes: 10_000, ..LIMITS });
    rig.load(&one, &(0..1000).map(|key| simple_row(key, 0, "")).collect::<Vec<_>>());
    let (lease, _view) = hold(&mut rig, &one);
    change_number(&mut rig, 1, 1);
    rig.gate();
    let request = rig.watch(&two);
    // A transaction that changes only a table which is not live yet is as little worth as a load.
    let refused = |rig: &Rig, relids: &[u32]| !has_room(rig, relids, (1 << 20) - 1);
    assert!(refused(&rig, &[2]) && !lease.is_revoked());
    rig.store.load_begin(&request).unwrap();
    assert!(refused(&rig, &[2]) && !lease.is_revoked());
    let row = |key| rig::encode_row(&two, &simple_row(key, 0, &format!("text number {key}")));
    let rows: Vec<u8> = (0..50_000).flat_map(row).collect();
    assert!(matches!(rig.store.load_rows(2, 1, &rows), Err(Refusal::OutOfMemory { .. })));
    assert!(!lease.is_revoked());
    assert!(refused(&rig, &[2, 1]) && lease.is_revoked());
}

#[test]
fn the_writer_waits_for_a_holder_that_leaves_late() {
    let (layout, other) = (simple(1), simple(2));
    let mut rig = Rig::new(Limits { memory_bytes: 1 << 20, undo_bytes: 10_000, ..LIMITS });
    rig.load(&layout, &(0..1000).map(|key| simple_row(key, 0, "")).collect::<Vec<_>>());
    rig.load(&other, &[]);
    let (lease, now) = (Arc::<Lease>::default(), rig.now());
    let served =
        Served::settled(rig.store.bind(&now, &[rig::request(&layout, &[0])], Some(lease.clone())).unwrap()).unwrap();
    let held = Arc::new(Mutex::new(Some(served)));
    let leaves = held.clone();
    lease.when_revoked(move || {
        thread::spawn(move || {
            // This is longer than the time that one holder gets before the next lease is revoked.
            thread::sleep(Duration::from_millis(2500));
            drop(leaves.lock().take());
        });
    });
    // Only the snapshot keeps the rows of the retired table, so revoking its lease frees them.
    rig.store.retire(1);
    let free = (1 << 20) - rig.store.status().memory_bytes as usize;
    assert!(has_room(&rig, &[2], free + 1) && lease.is_revoked() && held.lock().is_none());
}
