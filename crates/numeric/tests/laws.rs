//! Tests of laws that hold for all values, with random values of all sizes.

use std::cmp::Ordering;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use anker_numeric::{Error, Numeric, Total};

struct Random(u128);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
        (self.0 >> 64) as u64 % limit
    }

    fn digits(&mut self, count: u64) -> String {
        let groups = ["0000", "9999", "0001", "1000", "5000", "4999", "0009"];
        let mut digits = String::new();
        while (digits.len() as u64) < count {
            match self.below(3) {
                0 => digits.push_str(groups[self.below(groups.len() as u64) as usize]),
                _ => digits.push_str(&format!("{:04}", self.below(10_000))),
            }
        }
        digits.truncate(count as usize);
        digits
    }

    fn value(&mut self) -> Numeric {
        let (whole, fraction) = match self.below(10) {
            0 => return [Numeric::NAN, Numeric::INFINITY, Numeric::NEGATIVE_INFINITY][self.below(3) as usize].clone(),
            1..5 => (self.below(10), self.below(7)),
            5..8 => (self.below(30), self.below(30)),
            8 => (0, self.below(90)),
            _ => (self.below(200), self.below(200)),
        };
        let sign = ["", "-"][self.below(2) as usize];
        let (whole, fraction) = (self.digits(whole), self.digits(fraction));
        format!("{sign}0{whole}.{fraction}").parse().expect("a number")
    }

    fn finite(&mut self) -> Numeric {
        loop {
            let value = self.value();
            if value.is_finite() {
                return value;
            }
        }
    }
}

fn key(value: &Numeric) -> Vec<u8> {
    let mut key = Vec::new();
    value.write_key(&mut key);
    key
}

fn stored(value: &Numeric) -> Vec<u8> {
    let mut stored = Vec::new();
    value.write_stored(&mut stored);
    stored
}

fn hash(value: &Numeric) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Checks that two numerics have the same value and the same display scale.
fn same(a: &Numeric, b: &Numeric) {
    assert_eq!((a, a.scale()), (b, b.scale()));
    assert_eq!(a.to_string(), b.to_string());
    assert_eq!(stored(a), stored(b));
}

#[test]
fn every_form_gives_the_value_back() {
    let mut random = Random(1);
    for _ in 0..50_000 {
        let value = random.value();
        same(&Numeric::from_key(&key(&value)).expect("a key"), &value);
        same(&Numeric::from_stored(&stored(&value)).expect("well-formed"), &value);
        same(&value.to_string().parse().expect("a number"), &value);
        same(&value.neg().neg(), &value);
        let trimmed = value.trimmed();
        assert_eq!(trimmed, value);
        if let Some(scale) = trimmed.scale() {
            same(&trimmed.round(value.scale().unwrap_or(0) as i32), &value);
            assert!(scale == 0 || trimmed.trunc(scale as i32 - 1) != value, "{trimmed}");
        }
    }
}

#[test]
fn keys_have_the_order_of_values() {
    let mut random = Random(2);
    for i in 0..100_000 {
        let a = random.value();
        let b = match i % 4 {
            0 => a.round(random.below(40) as i32),
            1 => a.add(&random.value().round(-3).sign()).expect("fits"),
            _ => random.value(),
        };
        let order = a.cmp(&b);
        assert_eq!(key(&a.trimmed()).cmp(&key(&b.trimmed())), order, "{a} {b}");
        assert_eq!(b.cmp(&a), order.reverse());
        assert_eq!(order == Ordering::Equal, a == b);
        if a == b {
            assert_eq!(hash(&a), hash(&b), "{a} {b}");
        }
        if a.is_finite() && b.is_finite() {
            assert_eq!(a.sub(&b).expect("fits").cmp(&Numeric::ZERO), order, "{a} {b}");
        }
    }
}

#[test]
fn arithmetic_can_be_undone() {
    let mut random = Random(3);
    for _ in 0..50_000 {
        let (a, b, c) = (random.finite(), random.finite(), random.finite());
        let sum = a.add(&b).expect("fits");
        same(&sum, &b.add(&a).expect("fits"));
        assert_eq!(sum.sub(&b), Ok(a.clone()));
        let product = a.mul(&b).expect("fits");
        same(&product, &b.mul(&a).expect("fits"));
        // (a + b) * c = a * c + b * c
        let parts = a.mul(&c).and_then(|x| x.add(&b.mul(&c)?));
        assert_eq!(sum.mul(&c), parts);
        if b.is_zero() {
            assert_eq!((a.div(&b), a.rem(&b)), (Err(Error::DivisionByZero), Err(Error::DivisionByZero)));
            continue;
        }
        let (whole, rest) = (a.div_trunc(&b).expect("fits"), a.rem(&b).expect("fits"));
        assert_eq!(whole.mul(&b).and_then(|x| x.add(&rest)), Ok(a.clone()));
        assert!(rest.abs() < b.abs() && (rest.is_zero() || rest.sign() == a.sign()), "{a} {b}");
        // The quotient is rounded to the nearest number of its scale. So twice its error, times b, is at most one unit
        // of the scale, times b.
        let quotient = a.div(&b).expect("fits");
        let unit = format!("1e-{}", quotient.scale().unwrap_or(0)).parse::<Numeric>().expect("a number");
        let error = quotient.mul(&b).and_then(|x| a.sub(&x)).expect("fits").abs();
        assert!(error.add(&error).expect("fits") <= unit.mul(&b).expect("fits").abs(), "{a} {b}");
        assert_eq!(product.div_trunc(&b), Ok(a.trunc(0)), "{a} {b}");
    }
}

#[test]
fn rounding_is_near() {
    let mut random = Random(4);
    let one = Numeric::from_i64(1);
    for _ in 0..50_000 {
        let (a, digits) = (random.finite(), random.below(80) as i32 - 30);
        let unit = format!("1e{}", -digits).parse::<Numeric>().expect("a number");
        let error = a.round(digits).sub(&a).expect("fits").abs();
        assert!(error.add(&error).expect("fits") <= unit, "{a} {digits}");
        assert!(a.trunc(digits).abs() <= a.abs() && a.trunc(digits).sub(&a).expect("fits").abs() < unit);
        assert!(a.floor() <= a && a < a.floor().add(&one).expect("fits"));
        assert_eq!(a.ceil(), a.neg().floor().neg());
    }
}

#[test]
fn scaled_integers_are_the_values() {
    let mut random = Random(5);
    for _ in 0..50_000 {
        let (a, scale) = (random.value(), random.below(45) as u8);
        let rounded = a.round(scale as i32);
        let limit = format!("1e{}", 38 - scale as i32).parse::<Numeric>().expect("a number");
        let expected = (a.is_finite() && rounded.abs() < limit).then(|| rounded.clone());
        let decimal = a.to_decimal(scale);
        assert_eq!(decimal.map(|d| Numeric::from_decimal(d, scale)), expected, "{a} {scale}");
        assert_eq!(a.to_decimal_exact(scale), decimal.filter(|_| rounded == a), "{a} {scale}");
        let integer = a.to_i64();
        assert_eq!(integer.map(|i| i as i128), a.to_decimal(0).filter(|&d| i64::try_from(d).is_ok()));
    }
}

#[test]
fn totals_do_not_depend_on_the_order() {
    let mut random = Random(6);
    for _ in 0..3_000 {
        let values: Vec<Numeric> = (0..1 + random.below(30)).map(|_| random.finite()).collect();
        let mut expected = Numeric::ZERO;
        let (mut total, mut odd, mut even) = (Total::default(), Total::default(), Total::default());
        for (i, value) in values.iter().enumerate() {
            expected = expected.add(value).expect("fits");
            total.add(value);
            if i % 2 == 0 { even.add_times(value, 1) } else { odd.add(value) }
        }
        same(&total.sum().expect("addends").expect("fits"), &expected);
        odd.merge(&even);
        same(&odd.sum().expect("addends").expect("fits"), &expected);
        let count = values.len() as u64;
        assert_eq!((total.count(), odd.count()), (count, count));
        same(
            &odd.average().expect("addends").expect("fits"),
            &expected.div(&Numeric::from_i64(count as i64)).expect("fits"),
        );
        // Each value is added a great number of times. Then all are removed from the merged total, so that nothing is
        // left.
        for value in &values {
            total.add_times(value, u64::MAX / 64);
            total.add_times(value, 2);
        }
        let times = Numeric::from_decimal((u64::MAX / 64 + 3) as i128, 0);
        assert_eq!(total.sum(), Some(expected.mul(&times)));
        for value in &values {
            odd.remove(value);
        }
        assert!(odd.sum().is_none() && odd.average().is_none() && odd.count() == 0);
    }
}

#[test]
fn totals_of_what_is_not_finite() {
    let total = |values: &[&Numeric]| {
        let mut total = Total::default();
        values.iter().for_each(|value| total.add(value));
        total
    };
    let one = Numeric::from_i64(1);
    let mut both = total(&[&Numeric::INFINITY, &one, &Numeric::NEGATIVE_INFINITY]);
    assert_eq!((both.sum(), both.average(), both.count()), (Some(Ok(Numeric::NAN)), Some(Ok(Numeric::NAN)), 3));
    both.remove(&Numeric::INFINITY);
    assert_eq!(both.sum(), Some(Ok(Numeric::NEGATIVE_INFINITY)));
    both.remove(&Numeric::NEGATIVE_INFINITY);
    assert_eq!((both.sum(), both.average()), (Some(Ok(one.clone())), Some(Ok(one))));
}

#[test]
fn the_ends_of_the_format() {
    let value = |text: &str| text.parse::<Numeric>().expect("a number");
    let greatest = value(&"9".repeat(131_072));
    let overflow = Err(Error::Overflow);
    assert_eq!(greatest.add(&Numeric::from_i64(1)), overflow);
    assert_eq!(greatest.neg().sub(&Numeric::from_i64(1)), overflow);
    assert_eq!(greatest.mul(&value("1.1")), overflow);
    assert_eq!(greatest.div(&value("0.1")), overflow);
    assert_eq!(greatest.div_trunc(&value("0.1")), overflow);
    assert_eq!(greatest.round(-1).checked(), overflow);
    assert_eq!(value(&format!("{}.5", "9".repeat(131_072))).ceil().checked(), overflow);
    let mut total = Total::default();
    total.add_times(&greatest, 2);
    assert_eq!((total.sum(), total.average()), (Some(overflow.clone()), Some(overflow)));
    total.remove(&greatest);
    assert_eq!(total.sum(), Some(Ok(greatest.clone())));
    assert!("1e131072".parse::<Numeric>().is_err() && "1e-16384".parse::<Numeric>().is_err());
    // The smallest positive value. Products with it are rounded at its scale.
    let least = value("1e-16383");
    assert_eq!(least.scale(), Some(16_383));
    let half = least.mul(&value("0.5")).expect("fits");
    same(&half, &least);
    let nothing = least.mul(&value("-0.4")).expect("fits");
    assert!(nothing.is_zero() && nothing.scale() == Some(16_383));
    for value in [greatest, least, nothing] {
        same(&Numeric::from_key(&key(&value)).expect("a key"), &value);
        same(&Numeric::from_stored(&stored(&value)).expect("well-formed"), &value);
        assert!(key(&value) > key(&Numeric::NEGATIVE_INFINITY) && key(&value) < key(&Numeric::INFINITY));
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let mut random = Random(7);
    for _ in 0..300_000 {
        let mut bytes = if random.below(2) == 0 { key(&random.value()) } else { stored(&random.value()) };
        for _ in 0..random.below(3) {
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.push(random.below(256) as u8),
                _ if bytes.is_empty() => {}
                _ => {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.below(256) as u8;
                }
            }
        }
        // A value has only one key form, but several stored forms, because a stored form may have zeros at either end
        // of its digits.
        if let Some(value) = Numeric::from_key(&bytes) {
            assert_eq!(key(&value), bytes);
        }
        if let Some(value) = Numeric::from_stored(&bytes) {
            same(&Numeric::from_stored(&stored(&value)).expect("well-formed"), &value);
        }
    }
    for bytes in [&[][..], &[6], &[3], &[0, 0], &[2, 0], &[2, 0xff, 0xff]] {
        assert!(Numeric::from_key(bytes).is_none(), "{bytes:?}");
    }
    let words = |words: &[u16]| Numeric::from_stored(&words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>());
    // Malformed stored forms: no header, a digit too many, an unknown sign, an invalid digit, and digits beyond the
    // display scale.
    for wrong in [&[][..], &[0xC000, 1], &[0xE000], &[0x8000, 10_000], &[0x8000, 1, 1], &[0x8080, 1, 10], &[0x4000]] {
        assert!(words(wrong).is_none(), "{wrong:?}");
    }
    assert_eq!(words(&[0x8081, 0, 1, 5000, 0]).map(|v| v.to_string()), Some("1.5".to_string()));
}
