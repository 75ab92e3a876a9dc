//! Surveys agree with the rows after any updates.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Identity, TableLayout, Type};
use protocol::request::Refusal;
use protocol::survey::{ChunkSurvey, ColumnSurvey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::rig::{self, LIMITS, Rig, Row, Val};
use crate::{CHUNK_ROWS, OutOfMemory, Survey};

fn layout() -> TableLayout {
    use Type::*;
    let types = [Int64, Int32, Text, Bool, Decimal128 { scale: 2 }, Float64, Date, Char, Opaque];
    rig::layout(10, &types, Identity::Key(vec![0]))
}

fn row(key: i64, rnd: &mut StdRng) -> Row {
    let mut row = vec![
        Val::Int(key),
        Val::Int(rnd.random_range(-50..50)),
        Val::Text(format!("text {}", rnd.random::<u32>())),
        Val::Bool(rnd.random()),
        Val::Decimal(rnd.random_range(-1_000_000..1_000_000)),
        Val::Float(f64::from(rnd.random_range(-1500..1500)).to_bits()),
        Val::Int(7),
        Val::Text(["one", "two", "three"][rnd.random_range(0..3)].into()),
        Val::Bytes(vec![rnd.random_range(0..20)]),
    ];
    for column in row.iter_mut().skip(1) {
        if rnd.random_bool(0.1) {
            *column = Val::Null;
        }
    }
    row
}

fn survey(rig: &mut Rig, layout: &TableLayout) -> (Survey, Vec<ColumnSurvey>, Vec<Vec<ChunkSurvey>>) {
    let survey = rig.store.survey(layout.relid, layout.fingerprint).unwrap();
    let columns = (0..survey.column_count()).map(|column| {
        let told: Result<_, ()> = survey.column(column, || Ok(()));
        told.unwrap().unwrap()
    });
    let columns = columns.collect();
    let chunks = |column| (0..survey.chunk_count()).map(|chunk| survey.chunk(column, chunk)).collect();
    let chunks: Result<_, OutOfMemory> = (0..survey.column_count()).map(chunks).collect();
    (survey, columns, chunks.unwrap())
}

fn close(found: u64, exact: usize) -> bool {
    found.abs_diff(exact as u64) as f64 <= 1.0 + 0.02 * exact as f64
}

#[test]
fn what_is_told_is_what_the_rows_say() {
    let layout = layout();
    let mut rnd = StdRng::seed_from_u64(7);
    let mut rig = Rig::new(LIMITS);
    let mut rows: BTreeMap<i64, Row> = (0..20_000).map(|key| (key, row(key, &mut rnd))).collect();
    rig.load(&layout, &rows.values().cloned().collect::<Vec<_>>());
    for _ in 0..4 {
        for _ in 0..300 {
            let mut changes = Vec::new();
            let key = rnd.random_range(0..22_000);
            let new = row(key, &mut rnd);
            match rows.get(&key).cloned() {
                Some(old) if rnd.random_bool(0.3) => {
                    rig::delete(&layout, &old, &mut changes);
                    rows.remove(&key);
                }
                Some(old) => {
                    rig::update(&layout, &old, &new, &[], &mut changes);
                    rows.insert(key, new);
                }
                None => {
                    rig::insert(&layout, &new, &mut changes);
                    rows.insert(key, new);
                }
            }
            rig.commit(&changes);
        }
        rig.gate();
        let (survey, columns, chunks) = survey(&mut rig, &layout);
        assert!(survey.chunk_count() >= 3);
        let status = &rig.store.status().tables[0];
        let others = status.index_bytes + survey.chunk_count() as u64 * CHUNK_ROWS as u64 / 8;
        let bytes: u64 = columns.iter().map(|column| column.bytes).sum();
        assert!(bytes + others <= status.bytes && status.bytes < bytes + others + 8192, "{status:?} of {bytes}");
        for (at, (column, parts)) in columns.iter().zip(&chunks).enumerate() {
            let values: Vec<&Val> = rows.values().map(|row| &row[at]).collect();
            let nulls = values.iter().filter(|value| ***value == Val::Null).count() as u64;
            let total = |of: fn(&ChunkSurvey) -> u64| parts.iter().map(of).sum::<u64>();
            assert_eq!((column.rows, column.nulls), (rows.len() as u64, nulls), "column {at}");
            assert_eq!((total(|part| part.rows), total(|part| part.nulls)), (column.rows, nulls));
            assert_eq!(total(|part| part.bytes), column.bytes);
            assert_eq!(column.codings.iter().map(|(_, chunks)| chunks).sum::<u64>(), parts.len() as u64);
            let distinct: BTreeSet<&&Val> = values.iter().filter(|value| ***value != Val::Null).collect();
            // There are so few rows that all of them are sampled, so the number is exact.
            assert_eq!(column.distinct, distinct.len() as u64, "column {at}");
            let ordered = layout.columns[at].ty != Type::Opaque;
            assert_eq!(column.bounds.is_some(), ordered, "column {at}");
            if let Some((low, high)) = column.bounds {
                assert!(
                    values.iter().filter_map(|value| rig::in_order(value)).all(|number| (low..=high).contains(&number))
                );
            }
        }
        let known = |at: usize| chunks[at].iter().map(|part| part.distinct).collect::<Vec<_>>();
        assert!(known(0).iter().zip(&chunks[0]).all(|(distinct, part)| close(*distinct, part.rows as usize)));
        assert!(known(1).iter().all(|distinct| *distinct == 100));
        assert!(known(3).iter().chain(&known(7)).all(|distinct| (2..=3).contains(distinct)));
        assert!(known(6).iter().all(|distinct| *distinct == 1));
        assert_eq!(columns[6].codings, [("constant".into(), chunks[6].len() as u64)]);
    }
}

#[test]
fn many_distinct_values_are_guessed_from_some() {
    let layout = rig::layout(11, &[Type::Int64, Type::Int32, Type::Int32], Identity::Key(vec![0]));
    let mut rig = Rig::new(LIMITS);
    let rows = 200_000;
    let values = (0..rows).map(|key| vec![Val::Int(key), Val::Int(key % 5000), Val::Int(key / 2)]);
    rig.load(&layout, &values.collect::<Vec<_>>());
    let (_, columns, _) = survey(&mut rig, &layout);
    let within = |found: u64, exact: f64, share: f64| (found as f64 - exact).abs() < share * exact;
    assert_eq!(columns[0].distinct, rows as u64, "a key");
    let index = rig.store.status().tables[0].index_bytes;
    // The index takes five bytes for each place in its hash tables. At most half of the places are empty, except
    // perhaps in one shard of eight.
    assert!(index < 12 * rows as u64, "{index} bytes");
    assert!(within(columns[1].distinct, 5000.0, 0.05), "{} of 5000", columns[1].distinct);
    assert!(within(columns[2].distinct, 100_000.0, 0.3), "{} of 100000", columns[2].distinct);
}

#[test]
fn an_empty_table_has_columns_without_values() {
    let layout = layout();
    let mut rig = Rig::new(LIMITS);
    let request = rig.watch(&layout);
    assert_eq!(rig.store.survey(10, layout.fingerprint).err(), Some(Refusal::Loading { relid: 10 }));
    rig.store.load_begin(&request).unwrap();
    rig.store.load_end(10, 1, 0).unwrap();
    let (survey, columns, _) = survey(&mut rig, &layout);
    assert_eq!((survey.chunk_count(), columns.len()), (0, layout.columns.len()));
    assert!(columns.iter().all(|column| column.rows == 0 && column.distinct == 0 && column.bounds.is_none()));
    assert_eq!(rig.store.survey(10, 1).err(), Some(Refusal::FingerprintDiffers { relid: 10 }));
    assert_eq!(rig.store.survey(99, 1).err(), Some(Refusal::NotMirrored { relid: 99 }));
}

#[test]
fn an_asker_who_goes_away_ends_it() {
    let layout = layout();
    let mut rig = Rig::new(LIMITS);
    let mut rnd = StdRng::seed_from_u64(1);
    rig.load(&layout, &(0..30_000).map(|key| row(key, &mut rnd)).collect::<Vec<_>>());
    let survey = rig.store.survey(10, layout.fingerprint).unwrap();
    let mut asked = 0;
    let told = survey.column(0, || {
        asked += 1;
        if asked == 3 { Err("gone") } else { Ok(()) }
    });
    assert_eq!((told.err(), asked), (Some("gone"), 3));
}
