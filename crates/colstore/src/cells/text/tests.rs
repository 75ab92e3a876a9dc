//! Compares a text column with a plain vector.

use std::collections::HashSet;

use arrow_array::BinaryViewArray;
use plan::text_order;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::base::pick::Pick;
use crate::tests::rig::mechanisms;

type Model = Vec<Vec<u8>>;

fn read(snapshot: &TextSnapshot, chunk: usize, pick: Pick<'_>) -> BinaryViewArray {
    let (views, blocks) = snapshot.texts(chunk, pick).unwrap();
    // Unlike the tested code, this constructor checks that every view is valid.
    BinaryViewArray::try_new(arrow_buffer::ScalarBuffer::new(views, 0, pick.len()), blocks, None).unwrap()
}

fn text_of(column: &TextColumn, slot: usize) -> Vec<u8> {
    column.stored(slot as u32).read(&mut b"anything".to_vec()).to_vec()
}

fn check(snapshot: &TextSnapshot, model: &Model) {
    for (chunk, want) in model.chunks(CHUNK_ROWS).enumerate() {
        let found = read(snapshot, chunk, Pick::First(want.len()));
        let first = want.iter().enumerate().position(|(row, want)| found.value(row) != want);
        assert_eq!(first, None, "chunk {chunk}");
        let some: Vec<u32> = (chunk as u32 % 5..want.len() as u32).step_by(7).collect();
        let found = read(snapshot, chunk, Pick::Rows(&some));
        let first = some.iter().enumerate().position(|(at, row)| found.value(at) != want[*row as usize]);
        assert_eq!(first, None, "chunk {chunk}, some rows");
    }
}

/// All texts except the forgotten ones lie between the edges of their chunk.
fn check_edges(snapshot: &TextSnapshot, model: &Model, forgotten: &HashSet<usize>) {
    for (slot, text) in model.iter().enumerate().filter(|(slot, _)| !forgotten.contains(slot)) {
        let (low, high) = snapshot.bounds(slot / CHUNK_ROWS);
        assert!((low..=high).contains(&text_order::place(text)), "slot {slot}: {text:?}");
    }
}

/// A random text. The number of distinct texts, and their lengths, change from slot to slot.
fn some_text(rnd: &mut StdRng, slot: usize) -> Vec<u8> {
    let kind = slot / CHUNK_ROWS % 4;
    let distinct = match kind {
        0 | 1 => [1, 3, 200, 257, 1000, 3000, u32::MAX][(slot / 4000 + rnd.random_range(0..2)) % 7],
        _ => u32::MAX,
    };
    let number = rnd.random_range(0..distinct);
    let length = match kind {
        3 => 24,
        _ => [0, 5, 12, 13, 100, 1000][number as usize % 6],
    };
    let mut text = number.to_le_bytes().repeat(length / 4 + 1);
    text.truncate(length.max(usize::from(distinct > 6) * 4));
    if kind > 0 {
        // A text with few distinct characters.
        text.iter_mut().for_each(|byte| *byte = b"0123456789abcdefghijkl-xyzABCDEF"[usize::from(*byte) % 32]);
    }
    if kind == 2 && rnd.random_bool(0.01) {
        text.extend("ž§".bytes());
    }
    if kind < 2 && rnd.random_bool(0.0005) {
        text = text.repeat(2000);
    }
    text
}

#[test]
fn texts_equal_a_plain_vector() {
    let best = [Mechanism::BEST; 5].into_iter();
    let mut codings = HashSet::new();
    for (seed, mechanism) in (0..).zip(best.chain(mechanisms())) {
        let pool = Pool::new(4 << 30);
        let mut rnd = StdRng::seed_from_u64(seed);
        let (mut column, mut model) = (TextColumn::new(&pool, mechanism, true), Model::new());
        let (mut room, mut held, mut now_ms) = (0, Vec::new(), 0);
        let mut forgotten = HashSet::new();
        for _ in 0..60_000 {
            let slot = match rnd.random_range(0..5) {
                0..3 => model.len(),
                // Most writes go to the first chunk, so that other chunks come to rest; a few go anywhere.
                _ if rnd.random_bool(0.001) => rnd.random_range(0..=model.len()),
                _ => rnd.random_range(0..=model.len().min(CHUNK_ROWS)),
            };
            if slot == room {
                room = if room < CHUNK_ROWS { (room * 4).clamp(64, CHUNK_ROWS) } else { room + CHUNK_ROWS };
                column.grow(room, None).unwrap();
            }
            let text = some_text(&mut rnd, slot);
            column.put(slot as u32, &text).unwrap();
            forgotten.remove(&slot);
            assert_eq!(text_of(&column, slot), text);
            assert!(column.stored(slot as u32).is(&text) && !column.stored(slot as u32).is(b"another text"));
            match model.get_mut(slot) {
                Some(old) => *old = text,
                None => model.push(text),
            }
            if rnd.random_bool(0.02) {
                let slot = rnd.random_range(0..model.len().min(CHUNK_ROWS));
                column.forget(slot as u32).unwrap();
                forgotten.insert(slot);
                // The slot may contain anything now, so the model takes over the slot's content.
                model[slot] = text_of(&column, slot);
            }
            now_ms += 20;
            if rnd.random_bool(0.05) {
                column.tidy_rest(now_ms, None);
            }
            if rnd.random_bool(0.001) {
                let (mut snapshot, mut seen) = (column.snapshot().unwrap(), model.clone());
                let mut unseen = forgotten.clone();
                for _ in 0..rnd.random_range(0..50) {
                    let slot = rnd.random_range(0..seen.len());
                    unseen.remove(&slot);
                    seen[slot] = some_text(&mut rnd, slot);
                    snapshot.patch(slot as u32, &seen[slot]).unwrap();
                }
                snapshot.seal();
                held.push((snapshot, seen, unseen));
            }
            if held.len() > 4 {
                let (snapshot, seen, unseen) = held.swap_remove(rnd.random_range(0..held.len()));
                check(&snapshot, &seen);
                check_edges(&snapshot, &seen, &unseen);
                codings.extend((0..seen.len() / CHUNK_ROWS).map(|chunk| snapshot.coding(chunk).unwrap()));
            }
        }
        check(&column.snapshot().unwrap(), &model);
        check_edges(&column.snapshot().unwrap(), &model, &forgotten);
        for (snapshot, seen, unseen) in &held {
            check(snapshot, seen);
            check_edges(snapshot, seen, unseen);
        }
        drop((held, column));
        assert_eq!(pool.used(), 0);
    }
    let forms = ["places", "dictionary", "in rows, lengths", "in rows, of one length"];
    assert!(forms.iter().all(|form| codings.iter().any(|coding| coding.starts_with(form))), "{codings:?}");
    assert!(codings.iter().any(|coding| coding.ends_with("bits a character")), "{codings:?}");
}

/// A column with these texts, appended in order.
fn column_of(texts: impl Iterator<Item = String>) -> TextColumn {
    let mut column = TextColumn::new(&Pool::new(1 << 30), Mechanism::BEST, true);
    for (slot, text) in texts.enumerate() {
        if slot % CHUNK_ROWS == 0 {
            column.grow(slot + CHUNK_ROWS, None).unwrap();
        }
        column.put(slot as u32, text.as_bytes()).unwrap();
    }
    // Making room for one more chunk tells the column that the last chunk is full.
    column.grow(column.rows + CHUNK_ROWS, None).unwrap();
    column
}

fn bytes_a_text(texts: impl Iterator<Item = String>) -> f64 {
    let column = column_of(texts);
    column.bytes() as f64 / (column.rows - CHUNK_ROWS) as f64
}

#[test]
fn texts_take_the_bytes_that_they_need() {
    let rows = 4 * CHUNK_ROWS;
    assert!(bytes_a_text((0..rows).map(|_| "the same text, and a long one".into())) < 0.1);
    assert!(bytes_a_text((0..rows).map(|i| format!("one of seven texts: {}", i % 7))) < 1.1);
    // Among the first rows of a chunk, nearly all texts differ; in the full chunk, each text occurs several times.
    assert!(bytes_a_text((0..rows).map(|i| format!("Clerk#{:09}", i % 1000))) < 6.0);
    // In each of these columns, all texts differ. The first two have few characters, in texts of one length and of two
    // lengths; the third has many characters.
    assert!(bytes_a_text((0..rows).map(|i| format!("{i:027}"))) < 14.1);
    assert!(bytes_a_text((0..rows).map(|i| format!("{i:027}{}", "x".repeat(i % 2)))) < 14.5 + 1.6);
    let mixed =
        |i: usize| (32..127).map(|c: u8| char::from(32 + (c as usize * 7 + i * 31) as u8 % 95)).collect::<String>();
    assert!(bytes_a_text((0..rows).map(|i| format!("{}{i:07}", &mixed(i)[..20]))) < 27.1);
}

#[test]
fn updates_do_not_write_a_chunk_anew_each_time() {
    let mut column = column_of((0..CHUNK_ROWS).map(|i| format!("text {}", i % 100)));
    let (mut forms, mut rewritten, mut blocks) = (Vec::new(), 0, std::ptr::null());
    for i in 0..20_000 {
        let text = match i % 2 {
            0 => format!("text {}", i % 100),
            _ => format!("another text, which is there once: {i}"),
        };
        column.put((i * 7919 % 300) as u32, text.as_bytes()).unwrap();
        let chunk = &column.chunks[0];
        if forms.last() != Some(&chunk.form) {
            forms.push(chunk.form);
        }
        let first = chunk.heap.blocks()[0].bytes().as_ptr();
        rewritten += usize::from(std::mem::replace(&mut blocks, first) != first);
    }
    // The chunk is rewritten rarely. Each rewrite finds that at least half of the 2048 texts in the dictionary are new,
    // or that there are as many dead bytes as live ones.
    assert!(forms.len() <= 2 * rewritten && rewritten <= 20, "{forms:?}, written anew {rewritten} times");
}

#[test]
fn many_long_texts_need_wider_places() {
    let place = |block, offset| Some(Place { block, offset });
    for form in [Form::Places(4), Form::Places(8)] {
        for place in [None, place(0, 0), place(0xffe, (1 << 20) - 1)] {
            assert_eq!(form.read(form.write(place).unwrap()), place);
        }
    }
    assert_eq!(Form::Places(4).write(place(0xfff, 0)), None);
    let far = place(u32::MAX - 1, u32::MAX);
    assert_eq!(Form::Places(8).read(Form::Places(8).write(far).unwrap()), far);
    let mut column = column_of((0..300).map(|i| format!("some text {i}")));
    column.give_up_codes(0).unwrap();
    let before: Vec<Vec<u8>> = (0..300).map(|slot| text_of(&column, slot)).collect();
    column.widen(0, Form::Places(8)).unwrap();
    column.put(7, b"after").unwrap();
    (0..300).filter(|slot| *slot != 7).for_each(|slot| assert_eq!(text_of(&column, slot), before[slot]));
    assert_eq!((text_of(&column, 7), column.chunks[0].form), (b"after".to_vec(), Form::Places(8)));
}

#[test]
fn rows_share_a_long_text_when_the_dictionary_is_given_up() {
    let text = |i: usize| format!("{:05}", i % 200).repeat(200);
    let mut column = column_of((0..CHUNK_ROWS).map(text));
    let before = column.bytes();
    // Writes more distinct texts than a dictionary has room for.
    for i in 0..4000 {
        column.put(i as u32, format!("other {i}").as_bytes()).unwrap();
    }
    let chunk = &column.chunks[0];
    assert_eq!(chunk.form, Form::Places(4));
    assert!(column.bytes() < 3 * before, "{} bytes, {before} before", column.bytes());
    (4000..CHUNK_ROWS).for_each(|i| assert_eq!(text_of(&column, i), text(i).as_bytes()));
    // The memory does not grow when texts are overwritten again, either.
    (4000..8000).for_each(|i| column.put(i, b"short").unwrap());
    assert!(column.bytes() < 3 * before, "{} bytes, {before} before", column.bytes());
    (8000..CHUNK_ROWS).for_each(|i| assert_eq!(text_of(&column, i), text(i).as_bytes()));
    (0..4000).for_each(|i| assert_eq!(text_of(&column, i), format!("other {i}").as_bytes()));
}

#[test]
fn texts_that_nobody_has_any_more_do_not_pile_up() {
    let long = |i: usize| format!("{i:07}").repeat(3000);
    for (rows, distinct) in [(10, 10), (CHUNK_ROWS, 3), (CHUNK_ROWS, 1), (CHUNK_ROWS, 500)] {
        let mut column = column_of((0..rows).map(|i| long(i % distinct)));
        let before = column.bytes() as usize;
        let mut most = 0;
        for i in 0..3000 {
            column.put(7, long(1000 + i).as_bytes()).unwrap();
            most = most.max(column.bytes() as usize);
            assert_eq!(text_of(&column, 7), long(1000 + i).as_bytes());
        }
        // The memory may hold the original texts, as many bytes of texts that have come since, and a copy of both while
        // they are rewritten.
        assert!(most < 5 * before + (1 << 20), "{rows} rows, {distinct} distinct: {before} bytes, then up to {most}");
        // The same limit holds if rows share texts, and then get texts of their own one by one.
        if rows == CHUNK_ROWS {
            column.give_up_codes(0).unwrap();
            for i in 0..3000 {
                column.put(i as u32, long(if i % 10 == 0 { 5000 + i } else { i % distinct }).as_bytes()).unwrap();
                most = most.max((column.bytes() as usize).saturating_sub(2 * i * record_bytes(21_000)));
            }
            assert!(
                most < 5 * before + (1 << 20),
                "{rows} rows, {distinct} distinct: {before} bytes, then up to {most}"
            );
        }
    }
}

/// A column of two chunks at rest, its texts, and the time.
fn at_rest() -> (TextColumn, Vec<String>, u64) {
    let texts: Vec<String> = (0..2 * CHUNK_ROWS).map(|i| format!("text of the row {i}, {:x}", i * i)).collect();
    let column = column_of(texts.iter().cloned());
    assert!((0..2).all(|chunk| column.chunks[chunk].form == Form::Rows(1)));
    (column, texts, 0)
}

fn rounds(column: &mut TextColumn, now_ms: &mut u64, rounds: u64) -> usize {
    let mut written = 0;
    for _ in 0..rounds {
        *now_ms += 2500;
        while column.tidy_rest(*now_ms, None) {
            written += 1;
        }
    }
    written
}

fn is_packed(column: &TextColumn, chunk: usize) -> bool {
    column.chunks[chunk].sequence.as_ref().is_some_and(|sequence| sequence.packing.is_some())
}

#[test]
fn a_chunk_that_is_written_to_rests_again_when_it_is_quiet() {
    let (mut column, mut texts, mut now_ms) = at_rest();
    let before = column.bytes();
    assert!(column.is_tidy() && rounds(&mut column, &mut now_ms, 10) == 0);
    let mut waited = Vec::new();
    for turn in 0..4 {
        texts[77] = format!("another {turn}");
        column.put(77, texts[77].as_bytes()).unwrap();
        assert!(matches!(column.chunks[0].form, Form::Places(_)) && column.chunks[1].form == Form::Rows(1));
        assert!(!column.is_tidy() && column.bytes() > before);
        waited.push((1..1000).find(|_| rounds(&mut column, &mut now_ms, 1) > 0).unwrap());
        assert!(is_packed(&column, 0) && column.is_tidy() && column.bytes() < before + 1000);
    }
    assert!(waited.is_sorted() && waited[3] > 2 * waited[0], "{waited:?}");
    // A chunk that is written to again and again does not rest.
    for turn in 0..100 {
        texts[77] = format!("once more {turn}");
        column.put(77, texts[77].as_bytes()).unwrap();
        assert_eq!(rounds(&mut column, &mut now_ms, 1), 0);
    }
    (0..texts.len()).for_each(|slot| assert_eq!(text_of(&column, slot), texts[slot].as_bytes()));
    check(&column.snapshot().unwrap(), &texts.into_iter().map(String::into_bytes).collect());
}

#[test]
fn chunks_that_are_read_often_are_not_packed() {
    let (mut column, texts, mut now_ms) = at_rest();
    let model: Model = texts.into_iter().map(String::into_bytes).collect();
    // Reading a few rows does not unpack a chunk.
    let snapshot = column.snapshot().unwrap();
    snapshot.texts(0, Pick::Rows(&[7])).unwrap();
    assert!(!column.is_tidy());
    assert!(rounds(&mut column, &mut now_ms, 1) == 0 && is_packed(&column, 0));
    check(&snapshot, &model);
    assert_eq!(rounds(&mut column, &mut now_ms, 1), 2);
    assert!(!is_packed(&column, 0) && !is_packed(&column, 1) && !column.is_tidy());
    check(&column.snapshot().unwrap(), &model);
    check(&snapshot, &model);
    // Unpacked chunks stay unpacked while queries read them now and then.
    for _ in 0..50 {
        column.snapshot().unwrap().texts(0, Pick::Rows(&[7])).unwrap();
        assert_eq!(rounds(&mut column, &mut now_ms, 1), 0);
    }
    assert_eq!(rounds(&mut column, &mut now_ms, 40), 2);
    assert!(is_packed(&column, 0) && is_packed(&column, 1) && column.is_tidy());
    check(&column.snapshot().unwrap(), &model);
}

#[test]
fn where_memory_is_scarce_what_is_read_often_stays_packed() {
    let (mut column, texts, mut now_ms) = at_rest();
    let model: Model = texts.into_iter().map(String::into_bytes).collect();
    let mut others = column.pool.charge();
    others.set(column.pool.room() - (200 << 20)).unwrap();
    check(&column.snapshot().unwrap(), &model);
    assert!(rounds(&mut column, &mut now_ms, 2) == 0 && is_packed(&column, 0));
    others.set(0).unwrap();
    check(&column.snapshot().unwrap(), &model);
    assert!(rounds(&mut column, &mut now_ms, 1) == 2 && !is_packed(&column, 0));
    // Unpacked chunks are packed again when little memory is free.
    others.set(column.pool.room() - (200 << 20)).unwrap();
    assert!(rounds(&mut column, &mut now_ms, 1) == 2 && is_packed(&column, 0));
}

#[test]
fn keys_never_rest() {
    let mut column = TextColumn::new(&Pool::new(1 << 30), Mechanism::BEST, false);
    column.grow(CHUNK_ROWS, None).unwrap();
    (0..CHUNK_ROWS).for_each(|slot| column.put(slot as u32, format!("key {slot}").as_bytes()).unwrap());
    column.grow(2 * CHUNK_ROWS, None).unwrap();
    assert_eq!(column.chunks[0].form, Form::Places(4));
    (0..CHUNK_ROWS).for_each(|slot| assert_eq!(column.get(slot as u32), format!("key {slot}").as_bytes()));
}

#[test]
fn long_texts_are_moved_a_few_at_a_time() {
    let long = |i: usize| format!("{i:09}").repeat(4000);
    let rows = 1000;
    let mut column = column_of((0..rows).map(long));
    let before = column.bytes();
    let mut held = column.snapshot().unwrap();
    let (mut model, mut longest): (Vec<usize>, _) = ((0..rows).collect(), 0);
    for i in 0..5 * rows {
        let row = i * 7919 % rows;
        model[row] = i + rows;
        let blocks: HashSet<_> = column.chunks[0].heap.blocks().iter().map(|block| block.bytes().as_ptr()).collect();
        column.put(row as u32, long(model[row]).as_bytes()).unwrap();
        let moved = column.chunks[0].heap.blocks();
        let moved: usize =
            moved.iter().filter(|b| !blocks.contains(&b.bytes().as_ptr())).map(|b| b.bytes().len()).sum();
        longest = longest.max(moved);
        assert!(column.bytes() < 3 * before, "{} bytes, {before} before", column.bytes());
        if i % 500 == 0 {
            (0..rows).for_each(|row| assert_eq!(text_of(&column, row), long(model[row]).as_bytes()));
            check(&held, &(0..rows).map(|row| held_text(&held, row)).collect());
            held = column.snapshot().unwrap();
        }
    }
    assert!(longest < 4 << 20, "{longest} bytes in one go");
}

fn held_text(snapshot: &TextSnapshot, row: usize) -> Vec<u8> {
    read(snapshot, 0, Pick::Rows(&[row as u32])).value(0).to_vec()
}

#[test]
fn edges_are_those_of_the_texts_that_are_left() {
    let bounds = |column: &mut TextColumn| column.snapshot().unwrap().bounds(0);
    let places = |low: &str, high: &str| (text_order::place(low.as_bytes()), text_order::place(high.as_bytes()));
    // The first chunk has a dictionary, the second has places, and the third is at rest. In each chunk, one slot has no
    // text.
    let empty = |of: fn(usize) -> String| {
        let mut column = TextColumn::new(&Pool::new(1 << 30), Mechanism::BEST, true);
        column.grow(CHUNK_ROWS, None).unwrap();
        assert_eq!(bounds(&mut column), (i128::MAX, i128::MIN));
        for slot in (0..CHUNK_ROWS).filter(|slot| *slot != 5) {
            column.put(slot as u32, of(slot).as_bytes()).unwrap();
        }
        column.grow(2 * CHUNK_ROWS, None).unwrap();
        column
    };
    let kinds: [fn(usize) -> String; 3] =
        [|i| format!("k{}", i % 7), |i| format!("k{:04}", i % 1000), |i| format!("k{i:07}")];
    let (mut forms, mut now_ms) = (HashSet::new(), 0);
    for of in kinds {
        let mut column = empty(of);
        forms.insert(column.chunks[0].form.in_words());
        let least = if of(1).len() == 2 { "k0".into() } else { of(0) };
        let greatest = (0..CHUNK_ROWS).map(of).max().unwrap();
        assert_eq!(bounds(&mut column), places(&least, &greatest));
        let before = column.snapshot().unwrap();
        column.put(9, b"zzz").unwrap();
        assert_eq!(bounds(&mut column), places(&least, "zzz"));
        column.put(9, of(9).as_bytes()).unwrap();
        // The slot had no text; now it has an empty one.
        column.put(5, b"").unwrap();
        assert_eq!(bounds(&mut column), places("", "zzz"));
        column.put(5, of(9).as_bytes()).unwrap();
        rounds(&mut column, &mut now_ms, 20);
        if column.chunks[0].sequence.is_some() {
            assert_eq!(bounds(&mut column), places(&least, &greatest));
        }
        assert_eq!(before.bounds(0), places(&least, &greatest));
        let mut patched = before;
        patched.patch(3, b"a").unwrap();
        assert_eq!(patched.bounds(0), places("a", &greatest));
    }
    assert_eq!(forms.len(), 3, "{forms:?}");
}
