//! Against a plain vector.

use arrow_array::BinaryViewArray;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::view::Pick;

type Model = Vec<Vec<u8>>;

fn read(snapshot: &TextSnapshot, chunk: usize, rows: usize) -> BinaryViewArray {
    let views = snapshot.views(chunk, Pick::First(rows)).unwrap();
    // As Arrow checks them.
    BinaryViewArray::try_new(arrow_buffer::ScalarBuffer::new(views, 0, rows), snapshot.buffers(chunk), None).unwrap()
}

fn check(snapshot: &TextSnapshot, model: &Model) {
    for (chunk, want) in model.chunks(CHUNK_ROWS).enumerate() {
        let found = read(snapshot, chunk, want.len());
        let first = want.iter().enumerate().position(|(row, want)| found.value(row) != want);
        assert_eq!(first, None, "chunk {chunk}");
    }
}

/// How many distinct texts there are, and how long they are, changes by and by.
fn some_text(rnd: &mut StdRng, slot: usize) -> Vec<u8> {
    let distinct = [1, 3, 200, 257, 1000, 3000, u32::MAX][(slot / 4000 + rnd.random_range(0..2)) % 7];
    let number = rnd.random_range(0..distinct);
    let length = [0, 5, 12, 13, 100, 1000][number as usize % 6];
    let mut text = number.to_le_bytes().repeat(length / 4 + 1);
    text.truncate(length.max(usize::from(distinct > 6) * 4));
    if rnd.random_bool(0.0005) {
        text = text.repeat(2000);
    }
    text
}

#[test]
fn texts_equal_a_plain_vector() {
    for seed in 0..6 {
        let pool = Pool::new(4 << 30);
        let mut rnd = StdRng::seed_from_u64(seed);
        let (mut column, mut model) = (TextColumn::new(&pool), Model::new());
        let (mut room, mut held) = (0, Vec::new());
        for _ in 0..60_000 {
            let slot = match rnd.random_range(0..5) {
                0..3 => model.len(),
                _ => rnd.random_range(0..=model.len()),
            };
            if slot == room {
                room = if room < CHUNK_ROWS { (room * 4).clamp(64, CHUNK_ROWS) } else { room + CHUNK_ROWS };
                column.grow(room).unwrap();
            }
            let text = some_text(&mut rnd, slot);
            column.put(slot as u32, &text).unwrap();
            assert_eq!(column.get(slot as u32), &text);
            match model.get_mut(slot) {
                Some(old) => *old = text,
                None => model.push(text),
            }
            if rnd.random_bool(0.02) {
                let slot = rnd.random_range(0..model.len());
                column.forget(slot as u32).unwrap();
                // What it holds then is nobody's business.
                model[slot] = column.get(slot as u32).to_vec();
            }
            if rnd.random_bool(0.001) {
                let (mut snapshot, mut seen) = (column.snapshot().unwrap(), model.clone());
                for _ in 0..rnd.random_range(0..50) {
                    let slot = rnd.random_range(0..seen.len());
                    seen[slot] = some_text(&mut rnd, slot);
                    snapshot.patch(slot as u32, &seen[slot]).unwrap();
                }
                snapshot.seal();
                held.push((snapshot, seen));
            }
            if held.len() > 4 {
                let (snapshot, seen) = held.swap_remove(rnd.random_range(0..held.len()));
                check(&snapshot, &seen);
            }
        }
        let forms: std::collections::HashSet<usize> = column.chunks.iter().map(|chunk| chunk.form.width()).collect();
        assert!(forms.contains(&4) && forms.len() > 1, "{forms:?}");
        check(&column.snapshot().unwrap(), &model);
        held.iter().for_each(|(snapshot, seen)| check(snapshot, seen));
        drop((held, column));
        assert_eq!(pool.used(), 0);
    }
}

/// Of texts that were written one after the other.
fn column_of(texts: impl Iterator<Item = String>) -> TextColumn {
    let mut column = TextColumn::new(&Pool::new(1 << 30));
    for (slot, text) in texts.enumerate() {
        if slot % CHUNK_ROWS == 0 {
            column.grow(slot + CHUNK_ROWS).unwrap();
        }
        column.put(slot as u32, text.as_bytes()).unwrap();
    }
    // The last chunk is done, too.
    column.grow(column.rows + CHUNK_ROWS).unwrap();
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
    // At first nearly all of them differ.
    assert!(bytes_a_text((0..rows).map(|i| format!("Clerk#{:09}", i % 1000))) < 6.0);
    // All of them: the place and the length beside each.
    assert!(bytes_a_text((0..rows).map(|i| format!("{i:027}"))) < 27.0 + 5.1);
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
    // Of 2048 texts in the dictionary at least half are new each time, and of dead bytes there are as many as of live ones.
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
    let before: Vec<Vec<u8>> = (0..300).map(|slot| column.get(slot).to_vec()).collect();
    column.widen(0, Form::Places(8)).unwrap();
    column.put(7, b"after").unwrap();
    (0..300).filter(|slot| *slot != 7).for_each(|slot| assert_eq!(column.get(slot), before[slot as usize]));
    assert_eq!((column.get(7), column.chunks[0].form), (&b"after"[..], Form::Places(8)));
}

#[test]
fn rows_share_a_long_text_when_the_dictionary_is_given_up() {
    let text = |i: usize| format!("{:05}", i % 200).repeat(200);
    let mut column = column_of((0..CHUNK_ROWS).map(text));
    let before = column.bytes();
    // So many others that there is no room for them.
    for i in 0..4000 {
        column.put(i as u32, format!("other {i}").as_bytes()).unwrap();
    }
    let chunk = &column.chunks[0];
    assert_eq!(chunk.form, Form::Places(4));
    assert!(column.bytes() < 3 * before, "{} bytes, {before} before", column.bytes());
    (4000..CHUNK_ROWS).for_each(|i| assert_eq!(column.get(i as u32), text(i).as_bytes()));
    // Nor when it is written anew.
    (4000..8000).for_each(|i| column.put(i, b"short").unwrap());
    assert!(column.bytes() < 3 * before, "{} bytes, {before} before", column.bytes());
    (8000..CHUNK_ROWS).for_each(|i| assert_eq!(column.get(i as u32), text(i).as_bytes()));
    (0..4000).for_each(|i| assert_eq!(column.get(i), format!("other {i}").as_bytes()));
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
            assert_eq!(column.get(7), long(1000 + i).as_bytes());
        }
        // The texts of before, those that came since as many were there, and while they are written anew as much again.
        assert!(most < 5 * before + (1 << 20), "{rows} rows, {distinct} distinct: {before} bytes, then up to {most}");
        // Also when they share what they had, and lose it row by row.
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
