//! Compares with results of PostgreSQL 15.20, which `vectors.sql` has written to `vectors.tsv`.

use std::cmp::Ordering;

use anker_numeric::{Error, Numeric, ParseError, Total};

const VECTORS: &str = include_str!("vectors.tsv");

fn value(text: &str) -> Numeric {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn shown(result: Result<Numeric, Error>) -> String {
    result.map_or_else(|e| format!("E{e}"), |value| value.to_string())
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

/// The lines of `vectors.tsv` that begin with `kind`, without this first field.
fn lines(kind: &str) -> Vec<Vec<&'static str>> {
    let lines = VECTORS.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = lines.filter(|line| line[0] == kind).map(|line| line[1..].to_vec()).collect();
    assert!(lines.len() > 10, "{kind}");
    lines
}

#[test]
fn two_values() {
    for line in lines("pair") {
        let (a, b) = (value(line[0]), value(line[1]));
        let results = [a.add(&b), a.sub(&b), a.mul(&b), a.div(&b), a.rem(&b), a.div_trunc(&b)];
        for (i, (result, expected)) in results.into_iter().zip(&line[2..8]).enumerate() {
            assert_eq!(shown(result), *expected, "operation {i} of {} and {}", line[0], line[1]);
        }
        let order = match line[8] {
            "-1" => Ordering::Less,
            "0" => Ordering::Equal,
            _ => Ordering::Greater,
        };
        assert_eq!(a.cmp(&b), order, "{} {}", line[0], line[1]);
        let key = |value: Numeric| {
            let mut key = Vec::new();
            value.trimmed().write_key(&mut key);
            key
        };
        assert_eq!(key(a).cmp(&key(b)), order, "{} {}", line[0], line[1]);
    }
}

#[test]
fn one_value() {
    for line in lines("one") {
        let (a, digits) = (value(line[0]), line[1].parse().expect("a number"));
        let results = [
            a.round(digits).to_string(),
            a.trunc(digits).to_string(),
            a.ceil().to_string(),
            a.floor().to_string(),
            a.abs().to_string(),
            a.sign().to_string(),
            a.neg().to_string(),
            a.trimmed().to_string(),
            a.scale().map_or("none".to_string(), |scale| scale.to_string()),
        ];
        assert_eq!(results, line[2..11], "{} {digits}", line[0]);
        let float = match line[11] {
            error if error.starts_with('E') => None,
            bits => Some(f64::from_bits(u64::from_str_radix(bits, 16).expect("hex"))),
        };
        assert_eq!(a.to_f64().map(f64::to_bits), float.map(f64::to_bits), "{}", line[0]);
        assert_eq!(a.to_i64(), line[12].parse().ok(), "{}", line[0]);
    }
}

#[test]
fn stored_bytes() {
    for line in lines("stored") {
        // The value is short, so its length takes one byte. The words in the file are little-endian.
        let stored = bytes(line[1]);
        let words = stored[1..].as_chunks::<2>().0;
        let stored: Vec<u8> = words.iter().flat_map(|&word| u16::from_le_bytes(word).to_ne_bytes()).collect();
        assert_eq!(Numeric::from_stored(&stored).expect("well-formed").to_string(), line[0]);
        let mut written = Vec::new();
        value(line[0]).write_stored(&mut written);
        assert_eq!(written, stored, "{}", line[0]);
    }
}

#[test]
fn texts() {
    for line in lines("text") {
        let expected = match line[1] {
            "Evalue overflows numeric format" => Err(ParseError::Overflow),
            // Later versions of PostgreSQL refuse it, so it is left to the heap.
            _ if line[0] == "1e 5" => Err(ParseError::Syntax),
            error if error.starts_with('E') => Err(ParseError::Syntax),
            text => Ok(text.to_string()),
        };
        assert_eq!(line[0].parse().map(|v: Numeric| v.to_string()), expected, "{:?}", line[0]);
    }
}

#[test]
fn double_precision() {
    for line in lines("float") {
        let float = f64::from_bits(u64::from_str_radix(line[0], 16).expect("hex"));
        assert_eq!(Numeric::from_f64(float).to_string(), line[1], "{float:e}");
    }
}

#[test]
fn sums_and_averages() {
    for line in lines("sum") {
        let values: Vec<Numeric> = line[0].split(' ').map(value).collect();
        let mut total = Total::default();
        values.iter().for_each(|value| total.add(value));
        let mut backwards = Total::default();
        values.iter().rev().for_each(|value| backwards.add(value));
        for total in [total, backwards] {
            assert_eq!(shown(total.sum().expect("addends")), line[1], "{}", line[0]);
            assert_eq!(shown(total.average().expect("addends")), line[2], "{}", line[0]);
        }
    }
}

#[test]
fn roots_logarithms_and_powers() {
    for line in lines("power") {
        let (a, b) = (value(line[0]), value(line[1]));
        let results = [a.sqrt(), a.exp(), a.ln(), a.log(&b), a.power(&b)].map(shown);
        assert_eq!(results, line[2..7], "{} and {}", line[0], line[1]);
    }
}
