//! Views of many chunks share memory with the columns, and do not change after they are made.

use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_schema::DataType;
use plan::{Identity, Type};

use super::rig::{self, LIMITS, Rig, Row, Val, simple, simple_row};
use crate::{CHUNK_ROWS, Limits, Served, Sink, Undone};

fn many_rows(count: i64) -> Vec<Row> {
    (0..count).map(|key| simple_row(key, key % 100, &format!("the text of row {key}"))).collect()
}

#[test]
fn views_stay_what_they_are_while_the_store_goes_on() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    let count = 3 * CHUNK_ROWS as i64 + 100;
    let mut want = many_rows(count);
    rig.load(&layout, &want);
    let now = rig.now();
    let view = rig.serve(&layout, &now).unwrap();
    assert_eq!((view.chunk_count(), view.row_count()), (4, count as u64));
    assert!((0..4).all(|i| view.chunk(i).unwrap().live.is_none()));
    // Another thread reads the view again and again. Its arrays outlive the view.
    let reader = {
        let (view, want) = (view.clone(), want.clone());
        std::thread::spawn(move || {
            (0..20).for_each(|_| assert_eq!(rig::rows_of(&view), want));
            view.chunk(1).unwrap()
        })
    };
    for round in 0..20 {
        let mut bytes = Vec::new();
        for key in (round..count).step_by(50) {
            let row = simple_row(key, 1000 + round, &"new text ".repeat(round as usize));
            rig::update(&layout, &want[key as usize], &row, &[], &mut bytes);
            want[key as usize] = row;
        }
        rig.commit(&bytes);
        rig.gate();
    }
    assert_eq!(rig.store.status().live_snapshots, 1);
    assert_eq!(rig::rows_of(&view), many_rows(count));
    drop(view);
    let chunk = reader.join().unwrap();
    assert_eq!(rig.store.status().live_snapshots, 0);
    assert_eq!(rig.rows(&layout), want);
    rig.store.retire(1);
    let values = chunk.arrays[0].to_data();
    assert_eq!(values.buffers()[0].typed_data::<i64>()[..3], [8192, 8193, 8194]);
}

#[test]
fn arrays_outlive_their_view_and_the_store() {
    let layout = rig::layout(1, &[Type::Int64, Type::Bool, Type::Text, Type::Bytes], Identity::Key(vec![0]));
    let row = |key: i64, what: &str| {
        let text = format!("{what} text of row {key}");
        vec![Val::Int(key), Val::Bool(key < 0), Val::Text(text.clone()), Val::Bytes(text.into_bytes())]
    };
    let keys = [i64::MIN, -1, i64::MAX];
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &keys.map(|key| row(key, "the")));
    let now = rig.now();
    let arrays = rig.serve(&layout, &now).unwrap().chunk(0).unwrap().arrays;
    let mut bytes = Vec::new();
    keys.iter().for_each(|key| rig::update(&layout, &row(*key, "the"), &row(*key, "another"), &[], &mut bytes));
    rig.commit(&bytes);
    rig.gate();
    rig.store.retire(1);
    drop(rig);
    assert_eq!(arrays[0].as_primitive::<Int64Type>().values()[..], keys);
    assert!(arrays[1].as_boolean().iter().eq([true, true, false].map(Some)));
    let texts = keys.map(|key| format!("the text of row {key}"));
    assert!(arrays[2].as_string_view().iter().eq(texts.iter().map(|text| Some(&text[..]))));
    assert!(arrays[3].as_binary_view().iter().eq(texts.iter().map(|text| Some(text.as_bytes()))));
}

#[test]
fn what_is_written_as_arrow_has_it_is_not_copied() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    let mut rows = many_rows(20_000);
    // In each chunk, some values are at the ends of their type's range.
    for (number, row) in rows.iter_mut().enumerate() {
        match number % 1000 {
            0 => (row[0], row[1]) = (Val::Int(i64::MIN + number as i64), Val::Int(i32::MIN.into())),
            1 => (row[0], row[1]) = (Val::Int(i64::MAX - number as i64), Val::Int(i32::MAX.into())),
            // Too many distinct values to be listed.
            _ => row[1] = Val::Int(number as i64 * 99_991),
        }
        // A text with too many distinct characters to be packed.
        let character = |at: usize| char::from(b'!' + ((number * 7 + at * 13) % 90) as u8);
        row[2] = Val::Text((0..30).map(character).collect());
    }
    rig.load(&layout, &rows);
    let now = rig.now();
    let (one, two) = (rig.serve(&layout, &now).unwrap(), rig.serve(&layout, &now).unwrap());
    for index in 0..one.chunk_count() {
        for (a, b) in one.chunk(index).unwrap().arrays.iter().zip(&two.chunk(index).unwrap().arrays) {
            assert!(a.nulls().is_none());
            // The views of texts are made for each reader, but the bytes behind them are not copied.
            let made = usize::from(a.data_type() == &DataType::Utf8View);
            for (a, b) in a.to_data().buffers().iter().zip(b.to_data().buffers()).skip(made) {
                assert_eq!(a.as_ptr(), b.as_ptr());
                assert_eq!(a.as_ptr() as usize % 64, 0);
            }
        }
    }
    assert_eq!(rig.store.status().copied_bytes, 0);
}

#[test]
fn what_lies_below_nulls_is_no_value_of_a_list() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    let mut rows = many_rows(2 * CHUNK_ROWS as i64);
    for (number, row) in rows.iter_mut().enumerate() {
        // Nulls at first, then values that are far apart, then nulls for a long time.
        row[1] = match number % 4096 {
            7..1000 => Val::Int([5_000_000, 6_000_000, 700][number % 3]),
            _ => Val::Null,
        };
    }
    rig.load(&layout, &rows);
    let now = rig.now();
    let view = rig.serve(&layout, &now).unwrap();
    let values = view.distinct(0, 1).unwrap().expect("the chunk is full").values;
    let known: Vec<Option<i32>> = values.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(known, [Some(700), Some(5_000_000), Some(6_000_000), None]);
    rows.sort();
    assert_eq!(rig::rows_of(&view), rows);
}

#[test]
fn texts_among_nulls_come_to_rest() {
    let layout = simple(1);
    for nulls_in_ten in [1, 5, 9] {
        let mut rig = Rig::new(LIMITS);
        let mut rows = many_rows(3 * CHUNK_ROWS as i64);
        for (number, row) in rows.iter_mut().enumerate().filter(|(number, _)| number % 10 < nulls_in_ten) {
            row[2] = if number % 100 == 0 { Val::Text(String::new()) } else { Val::Null };
        }
        rig.load(&layout, &rows);
        let survey = rig.store.survey(layout.relid, layout.fingerprint).unwrap();
        for chunk in 0..2 {
            let coding = survey.chunk(2, chunk).unwrap().coding;
            assert!(!coding.starts_with("places"), "chunk {chunk}, {nulls_in_ten} nulls in ten: {coding}");
        }
        rows.sort();
        assert_eq!(rig.rows(&layout), rows);
    }
}

#[test]
fn chunks_say_which_rows_are_there() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    let count = 2 * CHUNK_ROWS as i64;
    rig.load(&layout, &many_rows(count));
    let before = rig.now();
    let mut bytes = Vec::new();
    (0..5).for_each(|key| rig::delete(&layout, &many_rows(count)[key], &mut bytes));
    rig::insert(&layout, &simple_row(-1, 0, "behind"), &mut bytes);
    rig.commit(&bytes);
    let now = rig.now();
    let after = rig.serve(&layout, &now).unwrap();
    assert_eq!((after.chunk_count(), after.row_count()), (3, count as u64 - 4));
    assert_eq!(after.chunk(0).unwrap().live.unwrap().count_set_bits(), CHUNK_ROWS - 5);
    assert!(after.chunk(1).unwrap().live.is_none());
    assert_eq!((after.chunk(2).unwrap().rows, after.chunk(2).unwrap().live), (1, None));
    let earlier = rig.serve(&layout, &before).unwrap();
    assert_eq!(earlier.row_count(), count as u64);
    assert!(earlier.chunk(0).unwrap().live.is_none() && earlier.chunk(1).unwrap().live.is_none());
    assert_eq!(rig::rows_of(&earlier), many_rows(count));
}

#[test]
fn columns_come_in_the_order_asked_for() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &[simple_row(1, 2, "three")]);
    let before = rig.now();
    let mut bytes = Vec::new();
    rig::update(&layout, &simple_row(1, 2, "three"), &simple_row(1, 5, "a text that is long"), &[], &mut bytes);
    rig.commit(&bytes);
    let now = rig.now();
    rig.serve(&layout, &now).unwrap();
    let served = rig.store.serve(&before, &[rig::request(&layout, &[2, 0, 2, 1]), rig::request(&layout, &[])]).unwrap();
    assert_eq!(served.undone, Undone { transactions: 2, changes: 2 });
    let text = || Val::Text("three".into());
    assert_eq!(rig::rows_of(&served.tables[0]), [vec![text(), Val::Int(1), text(), Val::Int(2)]]);
    assert_eq!(served.tables[0].types(), [Type::Text, Type::Int64, Type::Text, Type::Int32]);
    assert_eq!(rig::rows_of(&served.tables[1]), [vec![]]);
}

#[test]
fn nulls_come_and_go() {
    let layout = rig::layout(1, &[Type::Int32, Type::Bool, Type::Text], Identity::Key(vec![0]));
    let row = |key: i64, null: bool| match null {
        true => vec![Val::Int(key), Val::Null, Val::Null],
        false => vec![Val::Int(key), Val::Bool(key % 2 == 0), Val::Text(format!("text of the row {key}"))],
    };
    let mut rig = Rig::new(LIMITS);
    let count = CHUNK_ROWS as i64 + 10;
    rig.load(&layout, &(0..count).map(|key| row(key, false)).collect::<Vec<_>>());
    let mut snapshots = vec![(rig.now(), false)];
    for null in [true, false, true] {
        let mut bytes = Vec::new();
        rig::update(&layout, &row(3, !null), &row(3, null), &[], &mut bytes);
        rig.commit(&bytes);
        rig.gate();
        snapshots.push((rig.now(), null));
    }
    for (s, null) in &snapshots {
        let view = rig.serve(&layout, s).unwrap();
        let want: Vec<_> = (0..count).map(|key| row(key, *null && key == 3)).collect();
        assert_eq!(rig::rows_of(&view), want);
        assert_eq!(view.chunk(0).unwrap().arrays[1].null_count(), *null as usize);
        assert!(view.chunk(1).unwrap().arrays[1].nulls().is_none());
    }
}

#[test]
fn an_empty_table_has_no_chunks() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &[]);
    let now = rig.now();
    let view: Arc<_> = rig.serve(&layout, &now).unwrap();
    assert_eq!((view.chunk_count(), view.row_count()), (0, 0));
}

#[test]
fn a_transaction_counts_once_whatever_it_touches() {
    let (one, two) = (simple(1), simple(2));
    let mut rig = Rig::new(LIMITS);
    rig.load(&one, &[]);
    rig.load(&two, &[]);
    let mut bytes = Vec::new();
    rig::insert(&one, &simple_row(1, 1, ""), &mut bytes);
    rig::insert(&two, &simple_row(1, 1, ""), &mut bytes);
    rig::insert(&simple(99), &simple_row(1, 1, ""), &mut bytes);
    rig.commit(&bytes);
    assert_eq!(rig.store.status().pending_transactions, 2);
    rig.gate();
    let status = rig.store.status();
    assert_eq!((status.changes_applied, status.pending_transactions), (2, 0));
    let applied = rig.store.take_apply_delays();
    // By its commit time, the transaction committed in 2000; it is applied now.
    assert!(applied.micros.len() == 1 && applied.micros[0] > 20 * 365 * 86_400 * 1_000_000, "{applied:?}");
    let later = rig.store.take_apply_delays();
    assert_eq!((later.micros.len(), later.total), (0, applied.total));
    assert_eq!(applied.total, 1);
    assert_eq!(
        status.tables.iter().map(|t| (t.relid, t.rows, t.live)).collect::<Vec<_>>(),
        [(1, 1, true), (2, 1, true)]
    );
    assert!(status.tables[0].bytes > 0 && status.memory_bytes > status.tables[0].bytes);
}

/// Undo restores the old values, whatever happens to undo, slots and texts of the live table between request and
/// restoring.
#[test]
fn what_is_taken_back_later_is_what_was_there_before() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_bytes: 100 << 10, ..LIMITS });
    let rows = many_rows(10_000);
    rig.load(&layout, &rows);
    let before = rig.now();
    let change = |rig: &mut Rig, rows: &mut Vec<Row>, step: i64| {
        let (at, mut changes) = ((step * 7919) as usize % rows.len(), Vec::new());
        let new = simple_row(1_000_000 + step, step, &format!("a text of step {step}"));
        rig::delete(&layout, &rows[at], &mut changes);
        rig::insert(&layout, &new, &mut changes);
        rows[at] = new;
        let at = (step * 104_729) as usize % rows.len();
        let mut new = rows[at].clone();
        new[2] = Val::Text(format!("another text of step {step}"));
        rig::update(&layout, &rows[at], &new, &[], &mut changes);
        rows[at] = new;
        rig.commit(&changes);
        rig.gate();
    };
    let mut now = rows.clone();
    (0..200).for_each(|step| change(&mut rig, &mut now, step));
    let columns: Vec<usize> = (0..layout.columns.len()).collect();
    let snapshots = rig.store.bind(&before, &[rig::request(&layout, &columns)], None).unwrap();
    (200..5000).for_each(|step| change(&mut rig, &mut now, step));
    assert!(rig.serve(&layout, &before).is_err(), "the undo is gone");
    let served = Served::settled(snapshots).unwrap();
    assert_eq!(served.undone, Undone { transactions: 200, changes: 600 });
    let mut rows = rows;
    rows.sort();
    assert_eq!(rig::rows_of(&served.tables[0]), rows);
    now.sort();
    assert_eq!(rig.rows(&layout), now);
}
