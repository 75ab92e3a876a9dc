//! A fault breaks its own table and no other. Requests that cannot be served are refused.

use plan::{RelationColumn, Type};
use protocol::Snapshot;
use protocol::change::StreamMessage;
use protocol::control::ToWorker;
use protocol::request::Refusal;
use snapmem::faults;

use super::rig::{self, LIMITS, Rig, Val, simple, simple_row};
use crate::{Limits, Mechanism, Sink, TableChanges};

/// Makes two tables, the first of which has a long row among others. Applies `changes`, which break the first table.
fn breaks(changes: impl Fn(&mut Vec<u8>), wanted: &str) {
    let (one, two) = (simple(1), simple(2));
    let mut rig = Rig::new(LIMITS);
    let rows = [simple_row(1, 1, "x"), simple_row(50, 0, &"long ".repeat(2000))];
    rig.load(&one, &rows);
    rig.load(&two, &[simple_row(1, 1, "x")]);
    let now = rig.now();
    let view = rig.serve(&one, &now).unwrap();
    let memory = rig.store.status().memory_bytes;
    let mut bytes = Vec::new();
    rig::insert(&two, &simple_row(2, 2, "y"), &mut bytes);
    rig::insert(&one, &simple_row(3, 3, "z"), &mut bytes);
    changes(&mut bytes);
    rig.commit(&bytes);
    rig.gate();
    let (relid, error, reason) = rig.broken();
    assert!(relid == 1 && error && reason.contains(wanted), "{reason}");
    assert!(!rig.store.wants(1) && rig.store.wants(2));
    let now = rig.now();
    assert_eq!(rig.serve(&one, &now).unwrap_err(), Refusal::NotMirrored { relid: 1 });
    assert_eq!(rig.rows(&two).len(), 2);
    assert_eq!(rig::rows_of(&view), rows);
    drop(view);
    assert!(rig.store.status().memory_bytes < memory, "a broken table gives its memory back");
    // A table of a later generation begins empty.
    rig.load(&one, &[simple_row(7, 7, "seven")]);
    assert_eq!(rig.rows(&one), [simple_row(7, 7, "seven")]);
}

#[test]
fn a_change_that_does_not_fit_breaks_the_table() {
    let one = simple(1);
    let row = simple_row(9, 9, "nine");
    breaks(|out| rig::update(&one, &row, &row, &[], out), "no row");
    breaks(|out| rig::delete(&one, &row, out), "no row");
    breaks(|out| rig::insert(&one, &simple_row(1, 5, "again"), out), "found its key");
    // The update changes the key to one that another row has.
    breaks(|out| rig::update(&one, &simple_row(1, 1, "x"), &simple_row(3, 1, "x"), &[], out), "found its key");
}

#[test]
fn bytes_that_cannot_be_decoded_break_the_table() {
    /// The length of the encoded address at the end of each row.
    const ADDRESS: usize = 9;
    let one = simple(1);
    breaks(|out| StreamMessage::Insert { relid: 1, row: &[3, 0] }.encode(out), "too early");
    breaks(|out| StreamMessage::Delete { relid: 1, key: &[77] }.encode(out), "tag 77");
    let mut row = rig::encode_row(&one, &simple_row(5, 5, "xyz"));
    row.push(0);
    breaks(|out| StreamMessage::Insert { relid: 1, row: &row }.encode(out), "longer");
    let mut row = rig::encode_row(&one, &simple_row(5, 5, "xyz"));
    let last_letter = row.len() - ADDRESS - 1;
    row[last_letter] = 0xff;
    breaks(|out| StreamMessage::Insert { relid: 1, row: &row }.encode(out), "UTF-8");
    let row = rig::encode_row(&one, &simple_row(5, 5, ""));
    let (columns, address) = row.split_at(row.len() - ADDRESS);
    let unchanged = [&columns[..columns.len() - 5], &[1], address].concat();
    breaks(|out| StreamMessage::Insert { relid: 1, row: &unchanged }.encode(out), "lacks a value");
}

#[test]
fn messages_that_cannot_be_told_apart_break_their_table() {
    for messages in [&[1u8, 2][..], &[9, 0, 0, 0, 1], &[1, 0, 0, 0, 99]] {
        let mut rig = Rig::new(LIMITS);
        rig.load(&simple(1), &[]);
        rig.load(&simple(2), &[]);
        rig.store.transaction(10, 0, vec![TableChanges { relid: 1, messages: messages.to_vec() }]);
        rig.store.gate(Snapshot::new(11, vec![]));
        let (relid, error, reason) = rig.broken();
        assert!(relid == 1 && error && reason.contains("cannot be decoded"), "{reason}");
        assert!(!rig.store.wants(1) && rig.store.wants(2));
    }
}

#[test]
fn loads_are_checked() {
    let layout = simple(1);
    let row = rig::encode_row(&layout, &simple_row(1, 1, "one"));
    let load = |rows: &[u8], announced| {
        let mut rig = Rig::new(LIMITS);
        let request = rig.watch(&layout);
        rig.store.load_begin(&request).unwrap();
        let refusal = rig.store.load_rows(1, 1, rows).and_then(|()| rig.store.load_end(1, 1, announced)).unwrap_err();
        assert!(matches!(refusal, Refusal::Protocol { .. }));
        rig.broken().2
    };
    assert!(load(&[&row[..], &row].concat(), 2).contains("found its key"));
    assert!(load(&row, 2).contains("announced 2 rows and sent 1"));
    assert!(load(&row[..row.len() - 1], 1).contains("too early"));

    let mut rig = Rig::new(LIMITS);
    let request = rig.watch(&layout);
    let mut wrong = request.clone();
    wrong.generation = 2;
    assert_eq!(rig.store.load_begin(&wrong), Err(Refusal::NotMirrored { relid: 1 }));
    wrong = request.clone();
    wrong.fingerprint += 1;
    assert_eq!(rig.store.load_begin(&wrong), Err(Refusal::FingerprintDiffers { relid: 1 }));
    assert!(rig.store.load_rows(1, 1, &row).is_err(), "not begun");
    rig.store.load_begin(&request).unwrap();
    assert!(rig.store.load_begin(&request).is_err(), "begun twice");
    rig.store.load_rows(1, 1, &row).unwrap();
    rig.store.load_abort(1, 1);
    assert!(rig.store.load_end(1, 1, 1).is_err(), "aborted");
    let now = rig.now();
    assert_eq!(rig.serve(&layout, &now).unwrap_err(), Refusal::Loading { relid: 1 });
    rig.store.load_begin(&request).unwrap();
    rig.store.load_rows(1, 1, &row).unwrap();
    rig.store.load_end(1, 1, 1).unwrap();
    assert_eq!(rig.store.take_events(), [ToWorker::Live { relid: 1, generation: 1, rows: 1 }]);
    assert_eq!(rig.rows(&layout), [simple_row(1, 1, "one")]);
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &[simple_row(1, 1, "x")]);
    let now = rig.now();
    let mut serve = |request| rig.store.serve(&now, &[request]).map(|_| ()).unwrap_err();
    let good = rig::request(&layout, &[0]);
    let mut wrong = good.clone();
    wrong.relid = 2;
    assert_eq!(serve(wrong), Refusal::NotMirrored { relid: 2 });
    let mut wrong = good.clone();
    wrong.fingerprint += 1;
    assert_eq!(serve(wrong), Refusal::FingerprintDiffers { relid: 1 });
    for (attnum, ty) in [(9, Type::Int64), (1, Type::Int32), (2, Type::Date)] {
        let mut wrong = good.clone();
        wrong.columns = vec![RelationColumn { attnum, ty }];
        assert_eq!(serve(wrong), Refusal::ColumnMissing { relid: 1, attnum });
    }
    assert_eq!(rig.serve(&layout, &Snapshot::new(9, vec![])).unwrap_err(), Refusal::SnapshotTooOld { relid: 1 });
    assert_eq!(rig.serve(&layout, &Snapshot::new(11, vec![8])).unwrap_err(), Refusal::SnapshotTooOld { relid: 1 });
    rig.store.retire(1);
    let now = rig.now();
    assert_eq!(rig.serve(&layout, &now).unwrap_err(), Refusal::NotMirrored { relid: 1 });
}

#[test]
fn an_unholdable_value_refuses_its_column_as_long_as_it_is_visible() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &[simple_row(1, 1, "x"), simple_row(2, 2, "y")]);
    let before = rig.now();
    let unholdable = vec![Val::Int(1), Val::Unholdable, Val::Text("x".into())];
    let mut bytes = Vec::new();
    rig::update(&layout, &simple_row(1, 1, "x"), &unholdable, &[], &mut bytes);
    rig.commit(&bytes);
    let during = rig.now();
    let refusal = Refusal::Unholdable { relid: 1, attnum: 2 };
    assert_eq!(rig.serve(&layout, &during).unwrap_err(), refusal);
    assert!(rig.store.serve(&during, &[rig::request(&layout, &[0, 2])]).is_ok());
    assert_eq!(rig::rows_of(&rig.serve(&layout, &before).unwrap()).len(), 2);
    for healing in [false, true] {
        let mut bytes = Vec::new();
        match healing {
            true => rig::update(&layout, &unholdable, &simple_row(1, 3, "x"), &[], &mut bytes),
            false => rig::update(&layout, &unholdable, &unholdable, &[], &mut bytes),
        }
        rig.commit(&bytes);
        let now = rig.now();
        assert_eq!(rig.serve(&layout, &now).is_ok(), healing);
    }
    assert_eq!(rig.serve(&layout, &during).unwrap_err(), refusal);
    let mut bytes = Vec::new();
    rig::delete(&layout, &simple_row(1, 3, "x"), &mut bytes);
    rig::insert(&layout, &unholdable, &mut bytes);
    rig::delete(&layout, &unholdable, &mut bytes);
    rig.commit(&bytes);
    assert_eq!(rig.rows(&layout), [simple_row(2, 2, "y")]);
    assert_eq!(rig.serve(&layout, &during).unwrap_err(), refusal);
}

#[test]
fn beyond_the_memory_limit_a_table_breaks_without_an_error() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { memory_bytes: 4 << 20, ..LIMITS });
    rig.load(&layout, &[]);
    rig.load(&simple(2), &[simple_row(1, 1, "x")]);
    let mut key = 0;
    while rig.store.wants(1) {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            key += 1;
            rig::insert(&layout, &simple_row(key, 1, &format!("long text {key} ").repeat(10)), &mut bytes);
        }
        rig.commit(&bytes);
        rig.gate();
        assert!(rig.store.status().memory_bytes <= 4 << 20);
        assert!(key < 100_000);
    }
    let (relid, error, reason) = rig.broken();
    assert!(relid == 1 && !error && reason.contains("limit"), "{reason}");
    assert_eq!(rig.rows(&simple(2)), [simple_row(1, 1, "x")]);
    assert!(rig.store.status().memory_bytes < 2 << 20);

    // A load that does not fit into memory.
    let request = rig.watch(&layout);
    rig.store.load_begin(&request).unwrap();
    let refusal = (0..100_000).find_map(|key| {
        let row = rig::encode_row(&layout, &simple_row(key, 1, &format!("long text {key} ").repeat(10)));
        rig.store.load_rows(1, 1, &row).err()
    });
    assert!(matches!(refusal, Some(Refusal::OutOfMemory { .. })));
    assert!(!rig.broken().1);

    // A backlog that does not fit into memory.
    rig.watch(&layout);
    let mut bytes = Vec::new();
    rig::insert(&layout, &simple_row(1, 1, &"long text ".repeat(100)), &mut bytes);
    (0..5000).for_each(|_| _ = rig.commit(&bytes));
    assert!(!rig.broken().1);
    assert!(rig.store.status().memory_bytes < 2 << 20);
}

/// If the system refuses a call that a mechanism needs, because there are too many mappings or files, the table is
/// given up without an error, or the query is refused. Everything works again later.
#[test]
fn a_call_that_the_system_refuses_a_mechanism_costs_a_table_or_a_query() {
    let (layout, rows) = (simple(1), [simple_row(1, 1, "one"), simple_row(2, 2, "two")]);
    for mechanism in [Mechanism::Rewired, Mechanism::Scoot] {
        let (mut tables, mut queries) = (0, 0);
        for call in 0..100 {
            let mut rig = Rig::on(mechanism, LIMITS);
            let request = rig.watch(&layout);
            rig.store.load_begin(&request).unwrap();
            let bytes: Vec<u8> = rows.iter().flat_map(|row| rig::encode_row(&layout, row)).collect();
            let armed = faults::fail_call(call);
            let loaded = rig.store.load_rows(1, 1, &bytes).and_then(|()| rig.store.load_end(1, 1, 2));
            let now = rig.now();
            let served = loaded.is_ok().then(|| rig.serve(&layout, &now));
            drop(armed);
            match (loaded, served) {
                (Err(refusal), _) => {
                    tables += 1;
                    let (_, error, reason) = rig.broken();
                    assert!(!error && reason.contains("failed: Cannot allocate memory"), "{reason}");
                    assert_eq!(refusal, Refusal::OutOfMemory { what: reason });
                    assert_eq!(rig.store.status().memory_bytes, 0);
                    rig.load(&layout, &rows);
                }
                (Ok(_), Some(Err(Refusal::OutOfMemory { what }))) => {
                    queries += 1;
                    assert!(what.contains("failed: Cannot allocate memory"), "{what}");
                }
                (Ok(_), Some(Err(other))) => panic!("{other:?}"),
                (Ok(_), _) => {}
            }
            assert_eq!(rig.rows(&layout), rows);
        }
        assert!(tables > 5 && queries > 2, "{mechanism}: {tables} tables, {queries} queries");
    }
}
