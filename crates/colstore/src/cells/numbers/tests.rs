//! Compares the column with a plain vector, and tests bounds and codings.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::base::pick::Pick;
use crate::tests::rig::mechanisms;

/// The bytes of each slot's value; bytes beyond the column's width are zero.
type Model = Vec<u128>;

fn image_of(value: i128, width: usize) -> u128 {
    value as u128 & (u128::MAX >> (128 - 8 * width))
}

/// A random value. The range of the values changes from slot to slot, so that every coding occurs.
fn some_value(rnd: &mut StdRng, slot: usize, width: usize) -> i128 {
    let bits = 8 * width as u32;
    // Every third chunk has few distinct numbers, far apart.
    if slot / CHUNK_ROWS % 3 == 1 && !rnd.random_bool(0.0002) {
        let count = [2_u128, 200, 300, 2000][slot / (CHUNK_ROWS * 3) % 4];
        let number = rnd.random_range(0..count).wrapping_mul(0x5851_f42d_4c95_7f2d_1405_7b7e_f767_814f);
        return (number as i128) >> (128 - bits);
    }
    let size = [1, 7, 8, 15, 16, 31, 33, 63, 64, 100, 127][(slot / 3000 + rnd.random_range(0..2)) % 11].min(bits - 1);
    let shift = [0, 1 << 20, i64::MAX as i128 - 1000, -(1 << 62)][slot / 9000 % 4];
    let value = (rnd.random::<i128>() >> (128 - size)).wrapping_add(shift);
    if rnd.random_bool(0.01) { rnd.random() } else { value }
}

/// Checks that a snapshot equals the model, and returns the number of chunks that are coded as lists.
fn check(snapshot: &NumbersSnapshot, model: &Model, width: usize) -> usize {
    let mut lists = 0;
    for (chunk, want) in model.chunks(CHUNK_ROWS).enumerate() {
        let CodedChunk { codes, form, patches } = snapshot.chunk(chunk).unwrap();
        let mut found = form.decode::<i128>(&codes, Pick::First(want.len()));
        patches.iter().for_each(|(row, image)| found[*row as usize] = i128::from_le_bytes(*image));
        let (low, high) = snapshot.bounds(chunk);
        let mut places = want.iter().map(|image| snapshot.order.place(value_of(*image, width)));
        assert!(places.all(|place| (low..=high).contains(&place)), "beyond the bounds of chunk {chunk}");
        let found = found.into_iter().map(|value| image_of(value, width));
        let first = found.zip(want).position(|(found, want)| found != *want);
        assert_eq!(first, None, "{form:?} of chunk {chunk}, width {width}");
        lists += usize::from(matches!(form, Form::Listed(_)));
    }
    lists
}

#[test]
fn numbers_equal_a_plain_vector() {
    let numbers = [2, 4, 8, 16].map(|width| (Order::Numbers, width));
    let kinds = || numbers.into_iter().chain([(Order::Floats, 8)]);
    let best = [Mechanism::BEST; 2].into_iter();
    let cases = best.chain(mechanisms()).flat_map(|mechanism| kinds().map(move |kind| (kind, mechanism)));
    for (seed, ((order, width), mechanism)) in cases.enumerate() {
        let pool = Pool::new(1 << 30);
        let mut rnd = StdRng::seed_from_u64(seed as u64);
        let (mut numbers, mut model) = (Numbers::new(&pool, mechanism, order, width), Model::new());
        let (mut room, mut held, mut lists) = (0, Vec::new(), 0);
        for _ in 0..60_000 {
            let slot = match rnd.random_range(0..5) {
                0..3 => model.len(),
                _ => rnd.random_range(0..=model.len()),
            };
            if slot == room {
                room = if room < CHUNK_ROWS { (room * 4).clamp(64, CHUNK_ROWS) } else { room + CHUNK_ROWS };
                numbers.grow(room, None).unwrap();
            }
            if slot == model.len() && rnd.random_bool(0.2) {
                // Write several values at once.
                let most = (room - slot).min(CHUNK_ROWS - slot % CHUNK_ROWS).min(200);
                let count = rnd.random_range(1..=most);
                let mut some = || rnd.random_bool(0.9).then(|| image_of(some_value(&mut rnd, slot, width), width));
                let images: Vec<Option<u128>> = (0..count).map(|_| some()).collect();
                numbers.put_all(slot as u32, images.iter().copied()).unwrap();
                let known = |(at, image): (usize, &Option<u128>)| {
                    let found = numbers.get((slot + at) as u32);
                    assert!(image.is_none_or(|image| image == found));
                    found
                };
                model.extend(images.iter().enumerate().map(known));
                continue;
            }
            let image = image_of(some_value(&mut rnd, slot, width), width);
            numbers.put(slot as u32, image).unwrap();
            match model.get_mut(slot) {
                Some(old) => *old = image,
                None => model.push(image),
            }
            assert_eq!(numbers.get(slot as u32), image);
            if rnd.random_bool(0.001) {
                let chunk = rnd.random_range(0..=(model.len() - 1) / CHUNK_ROWS);
                let of_chunk = chunk * CHUNK_ROWS..model.len().min((chunk + 1) * CHUNK_ROWS);
                let kept: Vec<bool> = of_chunk.clone().map(|_| rnd.random_bool(0.9)).collect();
                let rows = mask((0..kept.len()).filter(|row| kept[*row]));
                numbers.look_at(chunk, kept.len(), &rows).unwrap();
                // A row that is not kept may have any value now, so the model takes over the present value.
                let lost = |slot: &usize| !kept[slot % CHUNK_ROWS];
                of_chunk.filter(lost).for_each(|slot| model[slot] = numbers.get(slot as u32));
            }
            if rnd.random_bool(0.001) {
                let mut snapshot = numbers.snapshot().unwrap();
                let mut seen = model.clone();
                for _ in 0..rnd.random_range(0..50) {
                    let slot = rnd.random_range(0..seen.len());
                    seen[slot] = image_of(some_value(&mut rnd, slot, width), width);
                    snapshot.patch(slot as u32, seen[slot]).unwrap();
                }
                held.push((snapshot, seen));
            }
            if held.len() > 4 {
                let (snapshot, seen) = held.swap_remove(rnd.random_range(0..held.len()));
                lists += check(&snapshot, &seen, width);
            }
        }
        check(&numbers.snapshot().unwrap(), &model, width);
        lists += held.iter().map(|(snapshot, seen)| check(snapshot, seen, width)).sum::<usize>();
        assert!(lists > 0 || width == 2, "width {width}");
        drop((held, numbers));
        assert_eq!(pool.used(), 0);
    }
}

#[test]
fn a_list_is_given_up_for_a_number_that_it_does_not_have_and_comes_back() {
    for mechanism in mechanisms() {
        let pool = Pool::new(1 << 30);
        let mut numbers = Numbers::new(&pool, mechanism, Order::Wide, 16);
        numbers.grow(CHUNK_ROWS, None).unwrap();
        let tenant = |of: usize| (of as u128 % 30 + 1) << 100 | 0xabcd;
        let mut model: Model = (0..CHUNK_ROWS).map(tenant).collect();
        numbers.put_all(0, model.iter().copied().map(Some)).unwrap();
        let plain = numbers.bytes_of(0);
        numbers.grow(2 * CHUNK_ROWS, None).unwrap();
        let listed = numbers.bytes_of(0);
        assert_eq!((plain, listed), (16 * CHUNK_ROWS as u64, 2 * CHUNK_ROWS as u64));
        let before = (numbers.snapshot().unwrap(), model.clone());
        // Writing a number that is in the list keeps the list. Writing any other number makes the chunk be recoded as
        // offsets.
        model[7] = tenant(8);
        numbers.put(7, model[7]).unwrap();
        assert_eq!((numbers.bytes_of(0), numbers.get(7)), (listed, model[7]));
        let between = (numbers.snapshot().unwrap(), model.clone());
        model[9] = 77;
        numbers.put(9, 77).unwrap();
        assert_eq!((numbers.bytes_of(0), numbers.get(9), numbers.get(7)), (plain, 77, tenant(8)));
        // Row 4711 is not kept, so its number is not added to the list, and the row gets another value.
        model[4711] = 1 << 126;
        numbers.put(4711, model[4711]).unwrap();
        let (mut now, past) = (numbers.snapshot().unwrap(), model.clone());
        numbers.look_at(0, CHUNK_ROWS, &mask((0..CHUNK_ROWS).filter(|row| *row != 4711))).unwrap();
        assert_eq!(numbers.bytes_of(0), listed);
        model[4711] = numbers.get(4711);
        assert_ne!(model[4711], past[4711]);
        let (low, high) = numbers.snapshot().unwrap().bounds(0);
        assert!(low <= 77 && high >= tenant(29) as i128 && high < 1 << 126);
        // A second check finds nothing to do.
        numbers.look_at(0, CHUNK_ROWS, &mask(0..CHUNK_ROWS)).unwrap();
        assert_eq!(check(&numbers.snapshot().unwrap(), &model, 16), 1);
        assert_eq!([&before, &between].map(|(snapshot, model)| check(snapshot, model, 16)), [1, 1]);
        assert_eq!(check(&now, &past, 16), 0);
        now.patch(5, 5).unwrap();
        let (mut patched, mut seen) = (numbers.snapshot().unwrap(), model.clone());
        (seen[3], seen[4]) = (12_345, tenant(1));
        patched.patch(3, seen[3]).unwrap();
        patched.patch(4, seen[4]).unwrap();
        assert_eq!(check(&patched, &seen, 16), 1);
        // If all rows have the same number, codes have no bytes.
        for row in 0..CHUNK_ROWS as u32 {
            numbers.put(row, tenant(5)).unwrap();
        }
        numbers.look_at(0, CHUNK_ROWS, &mask(0..CHUNK_ROWS)).unwrap();
        assert_eq!(check(&numbers.snapshot().unwrap(), &vec![tenant(5); CHUNK_ROWS], 16), 1);
        assert_eq!(numbers.bytes_of(0), SHORTEST as u64);
        drop((before, between, now, patched, numbers));
        assert_eq!(pool.used(), 0);
    }
}

#[test]
fn equal_floats_of_other_bits_are_not_listed() {
    let image = |value: f64| Some(u128::from(value.to_bits()));
    let hostile = [-0.0, f64::from_bits(0xfff8_0000_0000_0000), f64::from_bits(0x7ff8_0000_0000_0001)];
    for (odd, is_listed) in
        [(1.5, true), (f64::NAN, true), (f64::NEG_INFINITY, true)].into_iter().chain(hostile.map(|odd| (odd, false)))
    {
        let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Floats, 8);
        numbers.grow(CHUNK_ROWS, None).unwrap();
        let values = (0..CHUNK_ROWS).map(|row| if row == 99 { odd } else { [0.0, 0.25, 1e300][row % 3] });
        numbers.put_all(0, values.clone().map(image)).unwrap();
        numbers.grow(2 * CHUNK_ROWS, None).unwrap();
        let model: Model = values.map(|value| value.to_bits().into()).collect();
        assert_eq!(check(&numbers.snapshot().unwrap(), &model, 8), usize::from(is_listed), "{odd}");
    }
}

/// The number of bytes per value after rows with these values were appended in this order.
fn bytes_a_value(values: impl Iterator<Item = i128>) -> f64 {
    let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Numbers, 8);
    let mut count = 0;
    for (slot, value) in values.enumerate() {
        if slot % CHUNK_ROWS == 0 {
            numbers.grow(slot + CHUNK_ROWS, None).unwrap();
        }
        numbers.put(slot as u32, image_of(value, 8)).unwrap();
        count += 1;
    }
    numbers.bytes() as f64 / count as f64
}

#[test]
fn values_take_the_bytes_that_their_range_needs() {
    let rows = 8 * CHUNK_ROWS as i128;
    assert!(bytes_a_value((0..rows).map(|_| 77)) < 0.02);
    assert_eq!(bytes_a_value((0..rows).map(|i| i % 50 * 5)), 1.0);
    // Numbers that increase or decrease in steps.
    assert_eq!(bytes_a_value((0..rows).map(|i| 1_000_000_007 + 4 * i)), 2.0);
    assert_eq!(bytes_a_value((0..rows).map(|i| -4 * i)), 2.0);
    assert_eq!(bytes_a_value((0..rows).map(|i| i * 7919 % 1_000_003 * 100)), 4.0);
    assert_eq!(bytes_a_value((0..rows).map(|i| (i % 5000) << 40)), 8.0);
    // Few distinct numbers that are far apart.
    let all_but_one_chunk = |bytes: f64| (7.0 * bytes + 8.0) / 8.0;
    assert_eq!(bytes_a_value((0..rows).map(|i| (i % 2) << 40)), all_but_one_chunk(2.0));
    assert_eq!(bytes_a_value((0..rows).map(|i| (i % 300) << 40)), all_but_one_chunk(4.0));
}

/// A mask with a bit for each of these rows.
fn mask(rows: impl Iterator<Item = usize>) -> Mask {
    let mut mask = [0; CHUNK_ROWS / 64];
    rows.for_each(|row| mask[row / 64] |= 1 << (row % 64));
    mask
}

#[test]
fn what_is_not_there_any_more_takes_no_bytes_and_widens_no_bounds() {
    for mechanism in mechanisms() {
        let pool = Pool::new(1 << 30);
        let mut numbers = Numbers::new(&pool, mechanism, Order::Numbers, 8);
        numbers.grow(CHUNK_ROWS, None).unwrap();
        let mut model: Model = (0..CHUNK_ROWS as u128).map(|row| row % 100).collect();
        numbers.put_all(0, model.iter().copied().map(Some)).unwrap();
        let look = |numbers: &mut Numbers, kept: &Mask| {
            numbers.look_at(0, CHUNK_ROWS, kept).unwrap();
            (numbers.bytes_of(0) as usize / CHUNK_ROWS, numbers.snapshot().unwrap().bounds(0))
        };
        let all = mask(0..CHUNK_ROWS);
        assert_eq!(look(&mut numbers, &all), (1, (0, 99)));

        // Values far beyond all others. One of them stays in row 4711, which is not kept.
        let (low, high) = (image_of(-5, 8), 1 << 60);
        for (row, image) in [(17, low), (4711, high), (42, high)] {
            numbers.put(row, image).unwrap();
        }
        let (mut before, mut past) = (numbers.snapshot().unwrap(), model.clone());
        (past[17], past[4711], past[42]) = (low, high, high);
        assert_eq!(look(&mut numbers, &all), (2, (-5, 1 << 60)));
        numbers.put(17, 50).unwrap();
        numbers.put(4711, 50).unwrap();
        (model[17], model[4711]) = (50, 50);
        let others = mask((0..CHUNK_ROWS).filter(|row| *row != 42));
        assert_eq!(look(&mut numbers, &others), (1, (0, 99)));

        // An old snapshot still sees its old values. Patches with older values widen its bounds.
        check(&before, &past, 8);
        assert_eq!(before.bounds(0), (-5, 1 << 60));
        before.patch(1, image_of(-77, 8)).unwrap();
        assert_eq!(before.bounds(0), (-77, 1 << 60));
        let mut now = numbers.snapshot().unwrap();
        model[42] = numbers.get(42);
        check(&now, &model, 8);
        now.patch(4711, high).unwrap();
        model[4711] = high;
        check(&now, &model, 8);
        assert_eq!(now.bounds(0), (0, 1 << 60));

        // One value in all kept rows, and then no kept row.
        (0..CHUNK_ROWS as u32).filter(|row| row % 2 == 0).for_each(|row| numbers.put(row, 7).unwrap());
        assert_eq!(look(&mut numbers, &mask((0..CHUNK_ROWS).step_by(2))), (0, (7, 7)));
        assert_eq!(numbers.get(2), 7);
        let (width, (low, high)) = look(&mut numbers, &mask(0..0));
        assert!(width == 0 && low > high);
        numbers.put(3, 123_456_789).unwrap();
        assert_eq!((numbers.get(3), numbers.snapshot().unwrap().bounds(0)), (123_456_789, (123_456_789, 123_456_789)));
        drop((before, now, numbers));
        assert_eq!(pool.used(), 0);
    }
}

#[test]
fn bounds_of_floats_are_those_of_their_order() {
    let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Floats, 8);
    numbers.grow(CHUNK_ROWS, None).unwrap();
    let image = |value: f64| u128::from(value.to_bits());
    let bounds = |numbers: &mut Numbers| {
        let (low, high) = numbers.snapshot().unwrap().bounds(0);
        (float_order::of_rank(low as i64), float_order::of_rank(high as i64))
    };
    numbers.put_all(0, (0..CHUNK_ROWS).map(|row| Some(image(row as f64 - 100.5)))).unwrap();
    assert_eq!(bounds(&mut numbers), (-100.5, 8091.0 - 0.5));
    numbers.put(17, image(f64::NEG_INFINITY)).unwrap();
    numbers.put(4711, image(1e300)).unwrap();
    assert_eq!(bounds(&mut numbers), (f64::NEG_INFINITY, 1e300));
    // Kept rows with positive floats only, with negative ones only, and with both.
    for rows in [200..300, 0..50, 50..150] {
        let ends = (rows.start as f64 - 100.5, rows.end as f64 - 101.5);
        let kept = mask(rows.filter(|row| *row != 17));
        numbers.look_at(0, CHUNK_ROWS, &kept).unwrap();
        assert_eq!(bounds(&mut numbers), ends);
        numbers.put_all(0, (0..CHUNK_ROWS).map(|row| Some(image(row as f64 - 100.5)))).unwrap();
    }
}

#[test]
fn a_chunk_is_coded_anew_a_few_times_only() {
    let mut numbers = Numbers::new(&Pool::new(1 << 30), Mechanism::BEST, Order::Numbers, 8);
    numbers.grow(CHUNK_ROWS, None).unwrap();
    let mut codings = std::collections::HashSet::new();
    let mut changes = 0;
    for i in 0..10_000_i128 {
        // Values alternate in sign, and each is a little farther from 0 than the value before. Every hundredth value is
        // far away.
        let value = if i % 100 == 99 { 1 << (i % 61) } else { (i * i) * if i % 2 == 0 { 1 } else { -1 } };
        numbers.put((i % 8192) as u32, image_of(value, 8)).unwrap();
        let form = numbers.chunks[0].form;
        changes += usize::from(codings.insert((form.label(), numbers.chunks[0].moved)));
    }
    assert!(changes <= 10, "coded {changes} times");
}
