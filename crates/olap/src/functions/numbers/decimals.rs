//! Decimals as scaled integers.

use std::cmp::Ordering;

/// 10^38, which exceeds the magnitude of every decimal.
const LIMIT: u128 = 10u128.pow(38);

/// The slot of a decimal or an integer.
pub trait Slot: Copy {
    /// Whether the product of two such values always fits.
    const NARROW: bool;
    fn wide(self) -> i128;
}

macro_rules! slot {
    ($ty:ty, $narrow:literal) => {
        impl Slot for $ty {
            const NARROW: bool = $narrow;
            fn wide(self) -> i128 {
                self as i128
            }
        }
    };
}
slot!(i16, true);
slot!(i32, true);
slot!(i64, true);
slot!(i128, false);

/// 10^digits; `None` for 39 or more digits, because only zero fits after a multiplication by such a power.
pub fn power(digits: u8) -> Option<i128> {
    10i128.checked_pow(digits as u32)
}

fn bounded(value: i128, overflow: bool) -> (i128, bool) {
    (value, overflow | (value.unsigned_abs() >= LIMIT))
}

/// The product. Usually both factors fit 64 bits. Then the product takes one instruction, and always fits.
#[inline(always)]
fn product(a: i128, b: i128) -> (i128, bool) {
    let (short_a, short_b) = (a as i64, b as i64);
    match i128::from(short_a) == a && i128::from(short_b) == b {
        true => (i128::from(short_a) * i128::from(short_b), false),
        false => a.overflowing_mul(b),
    }
}

/// `a * 10^digits`, given `power(digits)`.
pub fn rescale<A: Slot>(a: A, power: Option<i128>) -> (i128, bool) {
    match power {
        Some(1) => (a.wide(), false),
        Some(p) => product(a.wide(), p),
        None => (0, a.wide() != 0),
    }
}

pub fn to_decimal128<A: Slot>(a: A, power: Option<i128>) -> (i128, bool) {
    let (value, overflow) = rescale(a, power);
    bounded(value, overflow)
}

pub fn to_decimal64<A: Slot>(a: A, power: Option<i128>) -> (i64, bool) {
    let (value, overflow) = rescale(a, power);
    (value as i64, overflow | (i64::try_from(value).is_err()))
}

pub fn add<A: Slot, B: Slot>(a: A, b: B, powers: [Option<i128>; 2]) -> (i128, bool) {
    let ((a, over_a), (b, over_b)) = (rescale(a, powers[0]), rescale(b, powers[1]));
    let (sum, over) = a.overflowing_add(b);
    bounded(sum, over | over_a | over_b)
}

pub fn sub<A: Slot, B: Slot>(a: A, b: B, powers: [Option<i128>; 2]) -> (i128, bool) {
    let ((a, over_a), (b, over_b)) = (rescale(a, powers[0]), rescale(b, powers[1]));
    let (difference, over) = a.overflowing_sub(b);
    bounded(difference, over | over_a | over_b)
}

pub fn mul<A: Slot, B: Slot>(a: A, b: B) -> (i128, bool) {
    if A::NARROW && B::NARROW {
        // The product is at most 2^126, which has 38 digits.
        return (a.wide() * b.wide(), false);
    }
    let (product, over) = product(a.wide(), b.wide());
    bounded(product, over)
}

pub fn neg<A: Slot>(a: A) -> (i128, bool) {
    a.wide().overflowing_neg()
}

/// Compares `a * 10^da` with `b * 10^db`, where one of the powers is 1. The result is exact for any size.
pub fn order<A: Slot, B: Slot>(a: A, b: B, powers: [Option<i128>; 2]) -> Ordering {
    match (rescale(a, powers[0]), rescale(b, powers[1])) {
        // A product that overflows lies beyond every value of the other side, so its sign decides.
        ((_, true), _) => a.wide().cmp(&0),
        (_, (_, true)) => 0.cmp(&b.wide()),
        ((a, false), (b, false)) => a.cmp(&b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_any_width_are_exact_or_fail() {
        let edges = [0, 1, -1, 7, i64::MAX as i128, i64::MIN as i128, i64::MAX as i128 + 1, i64::MIN as i128 - 1];
        let large = [10i128.pow(19), -(10i128.pow(19)), 10i128.pow(37), 10i128.pow(38) - 1, i128::MAX, i128::MIN];
        let all: Vec<i128> = edges.into_iter().chain(large).collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            let exact = a.checked_mul(b).filter(|product| product.unsigned_abs() < 10u128.pow(38));
            let (product, failed) = mul(a, b);
            assert_eq!((!failed).then_some(product), exact, "{a} * {b}");
        }
    }

    #[test]
    fn decimals_beyond_38_digits() {
        let max = 10i128.pow(38) - 1;
        assert_eq!(add(max, 0i64, [power(0); 2]), (max, false));
        assert!(add(max, 1i64, [power(0); 2]).1 && sub(-max, 1i64, [power(0); 2]).1);
        assert!(add(max, 0i64, [power(1), power(0)]).1);
        assert_eq!(mul(i64::MIN, i64::MIN), (1 << 126, false));
        assert!(mul(10i128.pow(19), 10i128.pow(19)).1);
        assert!(to_decimal64(i64::MAX, power(1)).1 && !to_decimal64(922_337_203_685_477_580i64, power(1)).1);
        assert!(to_decimal128(1i64, power(38)).1 && !to_decimal128(1i64, power(37)).1);
        assert_eq!(to_decimal128(0i64, power(200)), (0, false));
        assert!(neg(i128::MIN).1);
    }

    #[test]
    fn decimals_compare_across_scales_whatever_their_size() {
        assert_eq!(order(1i64, 100i64, [power(2), power(0)]), Ordering::Equal);
        assert_eq!(order(i128::MAX, i128::MAX, [power(1), power(0)]), Ordering::Greater);
        assert_eq!(order(i128::MIN, i128::MIN, [power(0), power(9)]), Ordering::Greater);
        assert_eq!(order(-1i64, i128::MIN, [power(60), power(0)]), Ordering::Less);
        assert_eq!(order(0i64, 0i128, [power(60), power(0)]), Ordering::Equal);
    }
}
