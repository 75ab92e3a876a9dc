//! Tests of laws for roots, logarithms and powers. Results of PostgreSQL are tested in `vectors.rs`.

use anker_numeric::{Error, Numeric};

fn value(text: &str) -> Numeric {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn roots_are_the_largest_whose_squares_are_not_larger() {
    let mut text = String::new();
    for i in 1..400u32 {
        // The numbers have different lengths, and their digits include nines and zeros.
        text.push(char::from(b'0' + (i * i * 7 + i / 3) as u8 % 10));
        for (number, scale) in [(format!("{i}{text}"), 0), (format!("{i}.{text}"), text.len() as i32)] {
            let number = value(&number);
            let root = number.sqrt().expect("not negative");
            assert!(root.scale().is_some_and(|shown| i32::from(shown) >= scale));
            // The number must lie between the squares of two values: the root minus half a unit, and the root plus half
            // a unit.
            let unit = value(&format!("5e-{}", root.scale().expect("finite") + 1));
            let (below, above) = (root.sub(&unit).expect("short"), root.add(&unit).expect("short"));
            assert!(
                below.mul(&below).expect("short") <= number && number <= above.mul(&above).expect("short"),
                "{number}"
            );
        }
    }
}

#[test]
fn what_is_not_defined_is_an_error() {
    assert_eq!(value("-1").sqrt().unwrap_err(), Error::NegativeSquareRoot);
    assert_eq!(value("-Infinity").sqrt().unwrap_err(), Error::NegativeSquareRoot);
    assert_eq!(value("0").ln().unwrap_err(), Error::LogarithmOfZero);
    assert_eq!(value("-2").ln().unwrap_err(), Error::LogarithmOfNegative);
    assert_eq!(value("2").log(&value("1")).unwrap_err(), Error::DivisionByZero);
    assert_eq!(value("0").power(&value("-1")).unwrap_err(), Error::ZeroToNegativePower);
    assert_eq!(value("-2").power(&value("0.5")).unwrap_err(), Error::ComplexPower);
    assert_eq!(value("10").power(&value("200000")).unwrap_err(), Error::Overflow);
    assert_eq!(value("7000").exp().unwrap_err(), Error::Overflow);
}

#[test]
fn powers_of_postgresql_16() {
    let mut differ_from_15 = 0;
    for line in include_str!("powers.tsv").lines() {
        let [base, exponent, power] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (base, exponent) = (value(base), value(exponent));
        let shown = |result: Result<Numeric, Error>| result.expect("no error").to_string();
        assert_eq!(shown(base.power_since_16(&exponent)), power, "{base} {exponent}");
        differ_from_15 += usize::from(shown(base.power(&exponent)) != power);
    }
    assert!(differ_from_15 > 50, "{differ_from_15}");
}
