//! Thousands of tables, most of them without work. Their cost is measured as the number of tables that are visited.

use std::time::Duration;

use plan::{Identity, Type};

use super::rig::{self, LIMITS, Rig, Row, Val, simple, simple_row};
use crate::{Limits, Sink};

const TABLES: u32 = 10_000;

fn rig_of_many(limits: Limits) -> Rig {
    let mut rig = Rig::new(limits);
    (1..=TABLES).for_each(|relid| rig.load(&simple(relid), &[]));
    rig
}

/// The number of tables that are visited during `work`.
fn visits(rig: &mut Rig, work: impl FnOnce(&mut Rig)) -> u64 {
    let before = rig.store.visits;
    work(rig);
    rig.store.visits - before
}

fn insert(rig: &mut Rig, relids: impl Iterator<Item = u32>, key: i64) {
    let mut bytes = Vec::new();
    relids.for_each(|relid| rig::insert(&simple(relid), &simple_row(key, 0, ""), &mut bytes));
    rig.commit(&bytes);
}

#[test]
fn tables_at_rest_cost_a_gate_nothing() {
    let mut rig = rig_of_many(Limits { undo_seconds: 10, ..LIMITS });
    assert_eq!(visits(&mut rig, Rig::gate), 0);
    insert(&mut rig, [7].into_iter(), 1);
    // The first visit applies the transaction; the second one finds that nothing is left to apply.
    assert_eq!(visits(&mut rig, Rig::gate), 2);
    assert_eq!(visits(&mut rig, |rig| _ = rig.store.tidy()), 1);
    assert_eq!(visits(&mut rig, |rig| _ = rig.store.tidy()), 0);
    assert_eq!(visits(&mut rig, Rig::gate), 0);
    rig.store.clock.advance(Duration::from_secs(60));
    assert_eq!(visits(&mut rig, Rig::gate), 1, "undo that is too old");
    assert_eq!(rig.store.status().undo_transactions, 0);
}

#[test]
fn undo_that_is_too_old_goes_where_nothing_is_written_any_more() {
    let mut rig = rig_of_many(Limits { undo_seconds: 10, ..LIMITS });
    insert(&mut rig, [7].into_iter(), 1);
    rig.gate();
    rig.store.clock.advance(Duration::from_secs(5));
    while rig.store.tidy() {}
    assert_eq!(rig.store.status().undo_transactions, 1);
    rig.store.clock.advance(Duration::from_secs(6));
    while rig.store.tidy() {}
    assert_eq!(rig.store.status().undo_transactions, 0);
    // The chunk has been checked, so the table needs no further visit.
    rig.store.clock.advance(Duration::from_secs(60));
    while rig.store.tidy() {}
    assert_eq!(visits(&mut rig, |rig| _ = rig.store.tidy()), 0);
}

#[test]
fn a_transaction_on_all_tables_costs_so_many_looks_and_not_their_square() {
    let mut rig = rig_of_many(Limits { undo_bytes: 50_000, ..LIMITS });
    let changed = visits(&mut rig, |rig| {
        insert(rig, 1..=TABLES, 1);
        rig.gate();
    });
    assert!(changed <= 3 * TABLES as u64, "{changed}");
    let status = rig.store.status();
    assert!(status.undo_bytes <= 50_000);
    assert_eq!(status.undo_bytes, status.tables.iter().map(|table| table.undo_bytes).sum::<u64>());
}

#[test]
fn a_small_table_takes_little_memory_and_grows_to_a_large_one() {
    let layout =
        rig::layout(1, &[Type::Int64, Type::Bool, Type::Text, Type::Int16, Type::Int32], Identity::Key(vec![0]));
    let row = |key: i64| -> Row {
        let number = if key % 3 == 0 { Val::Null } else { Val::Int(key % 100) };
        let text = Val::Text(format!("{key} is the key"));
        vec![Val::Int(key), Val::Bool(key % 2 == 0), text, number, Val::Int(-key)]
    };
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &[row(0)]);
    assert!(rig.store.status().memory_bytes < 10_000, "{:?}", rig.store.status());
    let (mut key, mut views) = (1, Vec::new());
    for until in [2, 63, 64, 65, 256, 300, 1025, 4097, 8192, 8193, 20_000] {
        let mut bytes = Vec::new();
        (key..until).for_each(|key| rig::insert(&layout, &row(key), &mut bytes));
        key = until;
        rig.commit(&bytes);
        let now = rig.now();
        views.push((until, rig.serve(&layout, &now).unwrap()));
        rig.gate();
    }
    for (until, view) in views {
        assert_eq!(rig::rows_of(&view), (0..until).map(row).collect::<Vec<_>>());
    }
}

#[test]
fn tables_that_a_gate_does_not_see_are_looked_at_until_one_does() {
    let mut rig = rig_of_many(LIMITS);
    let early = rig.now();
    insert(&mut rig, 1..=5, 1);
    for _ in 0..3 {
        assert_eq!(visits(&mut rig, |rig| rig.store.gate(early.clone())), 5);
    }
    rig.store.retire(1);
    assert_eq!(visits(&mut rig, Rig::gate), 2 * 4);
    assert_eq!(visits(&mut rig, Rig::gate), 0);
    assert_eq!(rig.store.status().pending_transactions, 0);
}

#[test]
fn restless_tables_do_not_keep_a_quiet_one_waiting() {
    let mut rig = rig_of_many(LIMITS);
    insert(&mut rig, 1..=TABLES, 1);
    rig.gate();
    // All chunks were written to. In all except one of them, undo may still restore a deleted row, so they are not
    // checked.
    let mut bytes = Vec::new();
    rig::update(&simple(TABLES), &simple_row(1, 0, ""), &simple_row(1, 9, ""), &[], &mut bytes);
    (1..TABLES).for_each(|relid| rig::delete(&simple(relid), &simple_row(1, 0, ""), &mut bytes));
    rig.commit(&bytes);
    rig.gate();
    for _ in 0..6 {
        rig.store.clock.advance(Duration::from_secs(3));
        while rig.store.tidy() {}
    }
    // The table has three columns of numbers, with that of addresses. Each was checked once.
    assert_eq!(rig.store.looks, 3);
}
