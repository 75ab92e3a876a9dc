//! A table that is made from images has the same rows, and goes on like the table that the images were taken from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plan::{Identity, Physical, TableLayout, Type};
use protocol::control::ToWorker;
use protocol::request::Refusal;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::rig::{self, LIMITS, Rig, Row, Val, simple, simple_row};
use crate::{CHUNK_ROWS, ChunkImage, Limits, Mechanism, TableImage};

/// A chunk in a file.
#[derive(Clone, Default)]
struct Part {
    slots: usize,
    live: Vec<u8>,
    columns: Vec<Vec<u8>>,
}

impl Part {
    fn image(&self) -> ChunkImage<'_> {
        let columns = self.columns.iter().map(|column| &column[..]).collect();
        ChunkImage { slots: self.slots, live: &self.live, columns }
    }
}

/// The file of a table. Only parts that have changed since `stamp` are written again.
#[derive(Clone, Default)]
struct File {
    parts: Vec<Part>,
    stamp: Option<u32>,
    rows: u64,
}

impl File {
    /// Returns the number of pieces that were written.
    fn write(&mut self, image: &TableImage) -> usize {
        let mut written = 0;
        self.parts.resize_with(image.chunk_count(), Part::default);
        for (chunk, part) in self.parts.iter_mut().enumerate() {
            part.slots = image.slots_of(chunk);
            part.columns.resize_with(image.column_count(), Vec::new);
            let changed = |stamp: u32| self.stamp.is_none_or(|before| stamp > before);
            if changed(image.live_stamp(chunk)) {
                part.live.clear();
                image.encode_live(chunk, &mut part.live).unwrap();
                let count: u32 = part.live.iter().map(|byte| byte.count_ones()).sum();
                assert_eq!(count, image.rows_of(chunk));
                written += 1;
            }
            for (column, bytes) in part.columns.iter_mut().enumerate() {
                if changed(image.column_stamp(chunk, column)) {
                    bytes.clear();
                    image.encode(chunk, column, bytes).unwrap();
                    written += 1;
                }
            }
        }
        (self.stamp, self.rows) = (Some(image.stamp()), image.rows());
        written
    }

    fn of(rig: &mut Rig, relid: u32) -> File {
        let mut file = File::default();
        file.write(&rig.store.image(relid, None).unwrap());
        file
    }

    /// Loads a table from the file, without rows at dropped addresses, and with some other rows.
    fn load(
        &self,
        rig: &mut Rig,
        layout: &TableLayout,
        dropped: &BTreeSet<i64>,
        others: &[Row],
    ) -> Result<(), Refusal> {
        let request = rig.watch(layout);
        rig.store.load_begin(&request)?;
        rig.store.load_expect(layout.relid, 1, self.rows)?;
        for part in &self.parts {
            rig.store.load_chunk(layout.relid, 1, &part.image(), |at| dropped.contains(&at))?;
        }
        for row in others {
            rig.store.load_rows(layout.relid, 1, &rig::encode_row(layout, row))?;
        }
        let rows = rig.store.load_end(layout.relid, 1, others.len() as u64)?;
        assert_eq!(rig.store.take_events(), [ToWorker::Live { relid: layout.relid, generation: 1, rows }]);
        Ok(())
    }
}

/// How the values of a column are distributed.
#[derive(Clone, Copy, Debug)]
struct Style {
    kind: u8,
    nulls: f64,
}

fn styles(layout: &TableLayout, rnd: &mut StdRng) -> Vec<Style> {
    let style = |_| Style { kind: rnd.random_range(0..5), nulls: [0.0, 0.0, 0.1, 0.5, 1.0][rnd.random_range(0..5)] };
    layout.columns.iter().map(style).collect()
}

fn value(ty: Type, style: Style, key: i64, rnd: &mut StdRng) -> Val {
    if rnd.random_bool(style.nulls) {
        return Val::Null;
    }
    let number: i64 = match style.kind {
        0 => 7,
        1 => rnd.random_range(0..20) * 1_000_003,
        2 => key,
        3 => rnd.random(),
        _ => [i64::MIN, i64::MAX, 0, -1, rnd.random_range(-100..100)][rnd.random_range(0..5)],
    };
    let text = |number: i64| match style.kind {
        0 | 1 => ["", "one", "zwölf", "a text that is longer than twelve bytes"][number as usize % 4].to_string(),
        2 => format!("text {number} that may be packed"),
        3 => format!("{number:x}日本{}", "é".repeat(number as usize % 9)),
        _ => "long ".repeat([0, 1, 3, 50, 4000][number.rem_euclid(5) as usize]),
    };
    match ty.physical() {
        Physical::Bit => Val::Bool(number % 2 == 0),
        Physical::Int16 => Val::Int((number as i16).into()),
        Physical::Int32 => Val::Int((number as i32).into()),
        Physical::Int64 if matches!(ty, Type::Decimal64 { .. }) && number == i64::MIN => Val::Unholdable,
        Physical::Int64 => Val::Int(number),
        Physical::Float64 => Val::Float(match style.kind {
            4 => [0.0, -0.0, f64::NAN, f64::NEG_INFINITY, 1e300][number.rem_euclid(5) as usize].to_bits(),
            _ => (number as f64 / 8.0).to_bits(),
        }),
        Physical::Int128 => Val::Decimal(match style.kind {
            3 | 4 => i128::from(number) << [0, 40, 63][rnd.random_range(0..3)],
            _ => number.into(),
        }),
        Physical::Text => Val::Text(text(number)),
        Physical::Bytes => Val::Bytes(match style.kind {
            3 => number.to_le_bytes()[..rnd.random_range(0..8)].to_vec(),
            _ => text(number).into_bytes(),
        }),
    }
}

fn layouts() -> Vec<TableLayout> {
    use Type::*;
    let first = [Int64, Int32, Text, Text, Bool, Decimal128 { scale: 2 }, Float64, Date, Opaque, Uuid, Int16];
    vec![
        rig::layout(10, &first, Identity::Key(vec![0])),
        rig::layout(11, &[Text, Decimal64 { scale: 3 }, Bytes, Float32, Char], Identity::Key(vec![0])),
        rig::layout(12, &[Int32, Text, Bool, Float64, Bytes, Text], Identity::Address),
    ]
}

/// A row whose address is `key`, and its key, if the table has one.
fn row(layout: &TableLayout, styles: &[Style], key: i64, rnd: &mut StdRng) -> Row {
    let columns = layout.columns.iter().zip(styles);
    let mut row: Row = columns.map(|(column, style)| value(column.ty, *style, key, rnd)).collect();
    match (&layout.identity, layout.columns[0].ty) {
        (Identity::Address, _) => {}
        (Identity::Key(_), Type::Text) => row[0] = Val::Text(format!("key {key}")),
        (Identity::Key(_), _) => row[0] = Val::Int(key),
    }
    row.push(Val::Int(key));
    row
}

/// Random changes, as one transaction.
fn change(rig: &mut Rig, layout: &TableLayout, styles: &[Style], rows: &mut BTreeMap<i64, Row>, rnd: &mut StdRng) {
    let mut changes = Vec::new();
    let last = rows.last_key_value().map_or(0, |(key, _)| *key);
    for _ in 0..rnd.random_range(0..200) {
        let key = rnd.random_range(0..last + 100);
        let mut new = row(layout, styles, key, rnd);
        match rows.get(&key).cloned() {
            Some(old) if rnd.random_bool(0.4) => {
                rig::delete(layout, &old, &mut changes);
                rows.remove(&key);
                continue;
            }
            Some(old) => {
                for at in 0..new.len() {
                    if rnd.random_bool(0.7) {
                        new[at] = old[at].clone();
                    }
                }
                rig::update(layout, &old, &new, &[], &mut changes);
            }
            None => rig::insert(layout, &new, &mut changes),
        }
        rows.insert(key, new);
    }
    rig.commit(&changes);
    rig.gate();
}

fn idle(rig: &mut Rig) {
    for _ in 0..40 {
        rig.store.clock.advance(Duration::from_secs(4));
        (0..200).find(|_| !rig.store.tidy());
    }
}

fn compare(rig: &mut Rig, layout: &TableLayout, rows: &BTreeMap<i64, Row>) {
    let now = rig.now();
    let is_unholdable = rows.values().flatten().any(|value| *value == Val::Unholdable);
    match rig.serve(layout, &now) {
        Ok(view) => {
            let columns = layout.columns.len();
            let mut want: Vec<Row> = rows.values().map(|row| row[..columns].to_vec()).collect();
            want.sort();
            assert!(rig::rows_of(&view) == want && !is_unholdable);
        }
        Err(refusal) => assert!(is_unholdable && matches!(refusal, Refusal::Unholdable { .. })),
    }
}

fn run(seed: u64, mechanism: Mechanism) {
    let rnd = &mut StdRng::seed_from_u64(seed);
    let layout = layouts().choose(rnd).unwrap().clone();
    let styles = styles(&layout, rnd);
    let count = *[0, 1, 63, 64, 65, 700, 8191, 8192, 8193, 17_000].choose(rnd).unwrap();
    let mut rows: BTreeMap<i64, Row> = (0..count).map(|key| (key, row(&layout, &styles, key, rnd))).collect();
    // Without undo, slots of deleted rows become free at once.
    let undo_bytes = *[0, 1 << 30].choose(rnd).unwrap();
    let limits = Limits { undo_bytes, ..LIMITS };
    let mut rig = Rig::on(mechanism, limits);
    rig.load(&layout, &rows.values().cloned().collect::<Vec<_>>());
    let mut file = File::default();
    for _ in 0..4 {
        for _ in 0..rnd.random_range(0..3) {
            change(&mut rig, &layout, &styles, &mut rows, rnd);
            if rnd.random_bool(0.3) {
                idle(&mut rig);
            }
        }
        let image = rig.store.image(layout.relid, None).unwrap();
        assert_eq!((image.rows(), image.column_count()), (rows.len() as u64, layout.types().len()));
        // The image stays what it is while the table changes.
        let mut later = rows.clone();
        change(&mut rig, &layout, &styles, &mut later, rnd);
        file.write(&image);
        drop(image);
        let mut again = Rig::on(mechanism, limits);
        let (mut dropped, mut others) = (BTreeSet::new(), Vec::new());
        if rnd.random() {
            // Rows at these addresses come from the heap instead, perhaps with other values.
            let share = *[0.01, 0.5].choose(rnd).unwrap();
            for (key, old) in &mut rows {
                if rnd.random_bool(share) {
                    dropped.insert(*key);
                    *old = row(&layout, &styles, *key, rnd);
                    others.push(old.clone());
                }
            }
        }
        file.load(&mut again, &layout, &dropped, &others).unwrap();
        compare(&mut again, &layout, &rows);
        if !dropped.is_empty() || rnd.random_bool(0.4) {
            // The new table goes on in place of the old one, and so does its file.
            again.xid = 11;
            (rig, file.stamp) = (again, Some(0));
        } else {
            rows = later;
        }
        compare(&mut rig, &layout, &rows);
    }
}

/// `ANKER_IMAGE_RUNS` sets the number of seeds.
#[test]
fn a_table_from_its_images_is_the_same_and_goes_on() {
    let runs = std::env::var("ANKER_IMAGE_RUNS").ok().and_then(|text| text.parse().ok());
    for seed in 0..runs.unwrap_or(if cfg!(miri) { 1 } else { 50 }) {
        for mechanism in rig::mechanisms().filter(|mechanism| *mechanism == Mechanism::BEST || seed % 20 == 0) {
            let result = std::panic::catch_unwind(|| run(seed, mechanism));
            assert!(result.is_ok(), "seed {seed} on {mechanism}");
        }
    }
}

/// A row of a simple table whose address is its key.
fn at(key: i64, number: i64, text: &str) -> Row {
    let mut row = simple_row(key, number, text);
    row.push(Val::Int(key));
    row
}

/// The pieces of an image with stamps above `before`: the chunk, and the column or none for liveness.
fn changed(image: &TableImage, before: u32) -> Vec<(usize, Option<usize>)> {
    let chunks = 0..image.chunk_count();
    let pieces = chunks.flat_map(|chunk| {
        let columns = (0..image.column_count()).map(move |column| (chunk, Some(column)));
        std::iter::once((chunk, None)).chain(columns)
    });
    let stamp = |(chunk, column): &(usize, Option<usize>)| match *column {
        Some(column) => image.column_stamp(*chunk, column),
        None => image.live_stamp(*chunk),
    };
    pieces.filter(|piece| stamp(piece) > before).collect()
}

#[test]
fn stamps_tell_which_pieces_have_changed() {
    let layout = simple(1);
    let mut rig = Rig::new(Limits { undo_bytes: 0, ..LIMITS });
    let text = |key: i64| format!("the text of row {key}");
    let rows: Vec<Row> = (0..20_000).map(|key| at(key, key as i32 as i64 % 7, &text(key))).collect();
    rig.load(&layout, &rows);
    let mut stamp = rig.store.image(1, None).unwrap().stamp();
    let mut step = |rig: &mut Rig, changes: &[u8], want: &[(usize, Option<usize>)]| {
        rig.commit(changes);
        rig.gate();
        let image = rig.store.image(1, None).unwrap();
        assert_eq!(changed(&image, stamp), want);
        stamp = image.stamp();
        idle(rig);
        assert_eq!(changed(&rig.store.image(1, None).unwrap(), stamp), [], "idle work leaves values as they are");
        stamp += 1;
    };
    step(&mut rig, &[], &[]);
    let mut changes = Vec::new();
    rig::update(&layout, &rows[9000], &at(9000, 1 << 40 >> 12, &text(9000)), &[], &mut changes);
    step(&mut rig, &changes, &[(1, Some(1)), (1, Some(3))]);
    changes.clear();
    rig::update(&layout, &rows[3], &at(3, 3, "another text"), &[], &mut changes);
    step(&mut rig, &changes, &[(0, Some(2)), (0, Some(3))]);
    changes.clear();
    rig::update(&layout, &rows[4], &rows[4], &[], &mut changes);
    step(&mut rig, &changes, &[(0, Some(3))]);
    changes.clear();
    rig::delete(&layout, &rows[17_000], &mut changes);
    step(&mut rig, &changes, &[(2, None)]);
    changes.clear();
    rig::insert(&layout, &at(-1, 5, ""), &mut changes);
    step(&mut rig, &changes, &[(2, None), (2, Some(0)), (2, Some(1)), (2, Some(2)), (2, Some(3))]);
    // Nothing has changed in a table that was just made from its file. A dropped row changes liveness only.
    let file = File::of(&mut rig, 1);
    let mut again = Rig::new(LIMITS);
    file.load(&mut again, &layout, &BTreeSet::from([9001]), &[]).unwrap();
    assert_eq!(changed(&again.store.image(1, None).unwrap(), 0), [(1, None)]);
    let keys: BTreeSet<i64> = (-1..20_000).filter(|key| ![9001, 17_000].contains(key)).collect();
    let found: BTreeSet<i64> = again
        .rows(&layout)
        .into_iter()
        .map(|row| match row[0] {
            Val::Int(key) => key,
            _ => panic!("{row:?}"),
        })
        .collect();
    assert_eq!(found, keys);
}

#[test]
fn chunks_keep_their_forms_and_change_them_like_others() {
    let layout = rig::layout(1, &[Type::Int64, Type::Text, Type::Text, Type::Uuid], Identity::Key(vec![0]));
    let row = |key: i64| {
        let texts = [format!("text {key} is packed"), format!("one of {}", key % 3)].map(Val::Text);
        let [packed, few] = texts;
        vec![Val::Int(key), packed, few, Val::Decimal((i128::from(key) % 9) << 90)]
    };
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &(0..20_000).map(row).collect::<Vec<_>>());
    let file = File::of(&mut rig, 1);
    let mut again = Rig::new(LIMITS);
    file.load(&mut again, &layout, &BTreeSet::new(), &[]).unwrap();
    let codings = |rig: &mut Rig| {
        let survey = rig.store.survey(1, layout.fingerprint).unwrap();
        let column = |column| survey.column(column, || Ok::<_, ()>(())).unwrap().unwrap().codings;
        (0..4).map(column).collect::<Vec<_>>()
    };
    let is_packed = |rig: &mut Rig| codings(rig)[1].iter().any(|(coding, _)| coding.contains("bits a character"));
    assert_eq!(codings(&mut again), codings(&mut rig));
    assert!(is_packed(&mut again));
    // Texts that are read often are unpacked.
    for rig in [&mut rig, &mut again] {
        for _ in 0..3 {
            rig.rows(&layout);
            rig.store.clock.advance(Duration::from_secs(3));
            (0..200).find(|_| !rig.store.tidy());
        }
        assert!(!is_packed(rig));
    }
    assert_eq!(codings(&mut again), codings(&mut rig));
}

#[test]
fn rows_from_the_heap_take_the_slots_of_dropped_ones() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    let rows: Vec<Row> = (0..16_384).map(|key| at(key, 0, "from the file")).collect();
    rig.load(&layout, &rows);
    let file = File::of(&mut rig, 1);
    for (every, slots) in [(2, 16_384), (100, 16_548)] {
        let dropped: BTreeSet<i64> = (0..16_384).filter(|key| key % every == 0).collect();
        let others: Vec<Row> = dropped.iter().map(|key| at(*key, 1, "from the heap")).collect();
        let mut again = Rig::new(LIMITS);
        file.load(&mut again, &layout, &dropped, &others).unwrap();
        let mut want: Vec<Row> =
            rows.iter().filter(|row| !others.iter().any(|other| other[0] == row[0])).cloned().collect();
        want.extend(others);
        want.iter_mut().for_each(|row| row.truncate(3));
        want.sort();
        assert_eq!(again.rows(&layout), want);
        let used = again.store.image(1, None).unwrap().slots();
        assert!(used <= slots + 2048 && (every > 2 || used < 18_500), "{used} slots");
    }
}

#[test]
fn a_key_that_is_there_twice_is_found() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &(0..100).map(|key| at(key, 0, "")).collect::<Vec<_>>());
    let file = File::of(&mut rig, 1);
    let mut again = Rig::new(LIMITS);
    let refused = file.load(&mut again, &layout, &BTreeSet::new(), &[at(50, 1, "")]);
    assert!(matches!(&refused, Err(Refusal::Protocol { what }) if what == "an insert found its key"), "{refused:?}");
    assert!(again.broken().1);
    assert_eq!(again.store.status().memory_bytes, 0, "the table is gone");
}

#[test]
fn chunks_come_in_order_and_whole() {
    let layout = simple(1);
    let mut rig = Rig::new(LIMITS);
    rig.load(&layout, &(0..8292).map(|key| at(key, 0, "")).collect::<Vec<_>>());
    let file = File::of(&mut rig, 1);
    let swapped = File { parts: file.parts.iter().rev().cloned().collect(), ..file.clone() };
    let mut narrow = file.clone();
    narrow.parts[0].columns.pop();
    let mut short = file.clone();
    short.parts[1].live.pop();
    let mut mixed = file.clone();
    mixed.parts[0].columns.swap(0, 1);
    let empty = File { parts: vec![Part { slots: 0, ..file.parts[1].clone() }], ..File::default() };
    for file in [swapped, narrow, short, mixed, empty] {
        let mut again = Rig::new(LIMITS);
        let refused = file.load(&mut again, &layout, &BTreeSet::new(), &[]);
        assert!(matches!(refused, Err(Refusal::Protocol { .. })), "{refused:?}");
        assert!(again.broken().2.starts_with("image of a chunk is not usable"));
    }
}

/// Loads a damaged file. If no rule is broken, the table must be one that can be read and changed.
fn damaged(layout: &TableLayout, file: &File, rnd: &mut StdRng) -> bool {
    let mut rig = Rig::new(Limits { undo_bytes: 0, ..LIMITS });
    if file.load(&mut rig, layout, &BTreeSet::new(), &[]).is_err() {
        return false;
    }
    let now = rig.now();
    if let Ok(view) = rig.serve(layout, &now) {
        rig::rows_of(&view);
    }
    let styles = styles(layout, rnd);
    let mut changes = Vec::new();
    for key in 100_000..100_010 {
        rig::insert(layout, &row(layout, &styles, key, rnd), &mut changes);
    }
    rig.commit(&changes);
    rig.gate();
    idle(&mut rig);
    if let Ok(view) = rig.serve(layout, &now) {
        rig::rows_of(&view);
    }
    let events = rig.store.take_events();
    assert!(events.is_empty(), "{events:?}");
    File::of(&mut rig, layout.relid);
    true
}

#[test]
fn damaged_images_are_refused_or_give_some_rows() {
    let rnd = &mut StdRng::seed_from_u64(5);
    let (mut refused, mut taken) = (0, 0);
    for (round, layout) in layouts().iter().cycle().take(if cfg!(miri) { 1 } else { 12 }).enumerate() {
        let styles = styles(layout, rnd);
        let count = if round % 2 == 0 { 20 } else { CHUNK_ROWS as i64 + 5 };
        let mut rig = Rig::new(LIMITS);
        rig.load(layout, &(0..count).map(|key| row(layout, &styles, key, rnd)).collect::<Vec<_>>());
        let file = File::of(&mut rig, layout.relid);
        let tries = if count > 20 { 150 } else { 3000 };
        for at in 0..tries {
            let mut bad = file.clone();
            let column = rnd.random_range(0..bad.parts[0].columns.len());
            let bytes = &mut bad.parts[0].columns[column];
            // The first bytes decide on everything else, so they are damaged more often.
            let place = rnd.random_range(0..if at % 2 == 0 { bytes.len().min(60) } else { bytes.len() });
            match at % 3 {
                0 => bytes.truncate(place),
                1 => bytes[place] ^= 1 << rnd.random_range(0..8),
                _ => bytes[place] = rnd.random(),
            }
            if damaged(layout, &bad, rnd) { taken += 1 } else { refused += 1 }
        }
    }
    assert!(refused > 1000 && taken > 1000 || cfg!(miri), "{refused} refused, {taken} taken");
}
