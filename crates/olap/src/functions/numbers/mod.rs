//! PostgreSQL's arithmetic on single values: each function returns the result and whether it is an error.
//!
//! They accept every input, since null slots hold anything; a failed result is arbitrary.

#[doc(hidden)]
pub mod c_library;
pub mod maths;
pub mod spread;

use protocol::request::FailureKind;

/// smallint, integer, bigint.
pub trait Integer: Copy + Default + PartialEq + Into<i64> {
    const OUT_OF_RANGE: FailureKind;

    /// Of a number that is known to fit.
    fn of(value: i64) -> Self;

    fn add(self, other: Self) -> (Self, bool);
    fn sub(self, other: Self) -> (Self, bool);
    fn mul(self, other: Self) -> (Self, bool);
    fn div(self, other: Self) -> (Self, bool);
    fn rem(self, other: Self) -> (Self, bool);
    fn neg(self) -> (Self, bool);
}

macro_rules! integer {
    ($ty:ty, $out_of_range:ident) => {
        impl Integer for $ty {
            const OUT_OF_RANGE: FailureKind = FailureKind::$out_of_range;

            fn of(value: i64) -> Self {
                value as $ty
            }
            fn add(self, other: Self) -> (Self, bool) {
                self.overflowing_add(other)
            }
            fn sub(self, other: Self) -> (Self, bool) {
                self.overflowing_sub(other)
            }
            fn mul(self, other: Self) -> (Self, bool) {
                self.overflowing_mul(other)
            }
            fn div(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { self.overflowing_div(other) }
            }
            /// The smallest value modulo -1 is 0, not an overflow.
            fn rem(self, other: Self) -> (Self, bool) {
                if other == 0 { (0, true) } else { (self.wrapping_rem(other), false) }
            }
            fn neg(self) -> (Self, bool) {
                self.overflowing_neg()
            }
        }
    };
}

integer!(i16, SmallintOutOfRange);
integer!(i32, IntegerOutOfRange);
integer!(i64, BigintOutOfRange);

/// What many integers are divided by: the remainder of one of at most 32 bits takes two multiplications, not a division
/// (Lemire, Kaser, Kurz: Faster remainder by direct computation).
pub struct Divisor {
    divisor: i64,
    /// 2^64 / |divisor|, rounded up: a product with it has the fraction of the quotient in its lower half.
    inverse: u64,
}

impl Divisor {
    /// Unless it is 0 or has more than 32 bits.
    pub fn new(divisor: i64) -> Option<Divisor> {
        let magnitude = i32::try_from(divisor).ok().filter(|divisor| *divisor != 0)?.unsigned_abs() as u64;
        Some(Divisor { divisor, inverse: (u64::MAX / magnitude).wrapping_add(1) })
    }

    pub fn remainder(&self, value: i64) -> i64 {
        let Ok(narrow) = i32::try_from(value) else { return value.wrapping_rem(self.divisor) };
        let fraction = self.inverse.wrapping_mul(narrow.unsigned_abs() as u64);
        let remainder = ((fraction as u128 * self.divisor.unsigned_abs() as u128) >> 64) as i64;
        if narrow < 0 { -remainder } else { remainder }
    }
}

/// double precision: the result of finite operands must be finite, and must not vanish.
pub mod floats {
    use protocol::request::FailureKind;

    /// How many digits a result has.
    pub trait Precision {
        fn rounded(result: f64) -> f64;
    }

    pub struct Double;
    /// A real is held as a double, which has more than twice its digits: its result, rounded once more, is the real's own.
    pub struct Single;

    impl Precision for Double {
        fn rounded(result: f64) -> f64 {
            result
        }
    }

    impl Precision for Single {
        fn rounded(result: f64) -> f64 {
            result as f32 as f64
        }
    }

    pub fn add<P: Precision>(a: f64, b: f64) -> (f64, bool) {
        let sum = P::rounded(a + b);
        (sum, sum.is_infinite() & !a.is_infinite() & !b.is_infinite())
    }

    pub fn sub<P: Precision>(a: f64, b: f64) -> (f64, bool) {
        add::<P>(a, -b)
    }

    pub fn mul<P: Precision>(a: f64, b: f64) -> (f64, bool) {
        let product = P::rounded(a * b);
        let overflow = product.is_infinite() & !a.is_infinite() & !b.is_infinite();
        (product, overflow | ((product == 0.0) & (a != 0.0) & (b != 0.0)))
    }

    /// NaN divided by zero is NaN; a finite value divided by an infinite one is zero.
    pub fn div<P: Precision>(a: f64, b: f64) -> (f64, bool) {
        let quotient = P::rounded(a / b);
        let by_zero = (b == 0.0) & !a.is_nan();
        let overflow = quotient.is_infinite() & !a.is_infinite();
        let underflow = (quotient == 0.0) & (a != 0.0) & !b.is_infinite();
        (quotient, by_zero | overflow | underflow)
    }

    /// The nearest real.
    pub fn to_real(a: f64) -> (f64, bool) {
        mul::<Single>(a, 1.0)
    }

    /// The failure of an operation that failed, other than a division by zero.
    pub fn why(result: f64) -> FailureKind {
        if result == 0.0 { FailureKind::FloatUnderflow } else { FailureKind::FloatOverflow }
    }

    /// Equal floats, in PostgreSQL's sense, get equal bits, and Arrow's total order is then PostgreSQL's.
    pub fn canonical(a: f64) -> f64 {
        plan::float_order::canonical(a)
    }
}

/// Decimals as scaled integers.
pub mod decimals {
    use std::cmp::Ordering;

    /// 10^38: decimals are smaller in magnitude.
    const LIMIT: u128 = 10u128.pow(38);

    /// A decimal's or integer's slot.
    pub trait Slot: Copy {
        /// Whether the product of two such always fits.
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

    /// 10^digits; with 39 digits and more only zero keeps within any limit.
    pub fn power(digits: u8) -> Option<i128> {
        10i128.checked_pow(digits as u32)
    }

    fn bounded(value: i128, overflow: bool) -> (i128, bool) {
        (value, overflow | (value.unsigned_abs() >= LIMIT))
    }

    /// Mostly both have 64 bits: their product is one instruction, and there is room for it.
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
            // At most 2^126, which has 38 digits.
            return (a.wide() * b.wide(), false);
        }
        let (product, over) = product(a.wide(), b.wide());
        bounded(product, over)
    }

    pub fn neg<A: Slot>(a: A) -> (i128, bool) {
        a.wide().overflowing_neg()
    }

    /// Compares `a * 10^da` with `b * 10^db`, where one of the powers is 1: exact whatever the size.
    pub fn order<A: Slot, B: Slot>(a: A, b: B, powers: [Option<i128>; 2]) -> Ordering {
        match (rescale(a, powers[0]), rescale(b, powers[1])) {
            // What overflows lies beyond every value of the other side.
            ((_, true), _) => a.wide().cmp(&0),
            (_, (_, true)) => 0.cmp(&b.wide()),
            ((a, false), (b, false)) => a.cmp(&b),
        }
    }
}

/// numeric's division of a sum by a count.
pub mod averages {
    use plan::AVERAGE_SCALE;

    /// PostgreSQL's digits of a numeric are four decimal ones each.
    const DIGIT: u32 = 4;
    const SIGNIFICANT: i32 = 16;

    /// The average with [`AVERAGE_SCALE`] digits behind the point, of which PostgreSQL's has as many or fewer; otherwise, and
    /// without room, it is a failure.
    pub fn average(sum: i128, scale: u8, count: i64) -> (i128, bool) {
        match rounded(sum.unsigned_abs(), scale, count) {
            Some(average) if sum < 0 => (-average, false),
            Some(average) => (average, false),
            None => (0, true),
        }
    }

    fn rounded(sum: u128, scale: u8, count: i64) -> Option<i128> {
        let count = u128::try_from(count).ok().filter(|&count| count > 0)?;
        let (weight, first) = leading(sum, scale as u32)?;
        let (count_weight, count_first) = leading(count, 0)?;
        let quotient_weight = weight - count_weight - i32::from(first <= count_first);
        let digits = (SIGNIFICANT - quotient_weight * DIGIT as i32).max(scale as i32);
        let missing = u32::try_from(AVERAGE_SCALE as i32 - digits);
        if sum == 0 {
            return Some(0);
        }
        let more = u32::try_from(digits - scale as i32).ok()?;
        let dividend = sum.checked_mul(10u128.checked_pow(more)?)?;
        let (whole, rest) = (dividend / count, dividend % count);
        // Half is rounded away from zero.
        let average = whole + u128::from(rest >= count - rest);
        let average = average.checked_mul(10u128.pow(missing.ok()?))?;
        i128::try_from(average).ok().filter(|average| *average < 10i128.pow(38))
    }

    /// The first digit that is not zero, and its weight: the power of 10,000 that it stands for.
    fn leading(value: u128, scale: u32) -> Option<(i32, u128)> {
        let behind = scale.div_ceil(DIGIT);
        let aligned = value.checked_mul(10u128.checked_pow(behind * DIGIT - scale)?)?;
        let (mut weight, mut first) = (0, aligned);
        while first >= 10u128.pow(DIGIT) {
            first /= 10u128.pow(DIGIT);
            weight += 1;
        }
        Some(if value == 0 { (0, 0) } else { (weight - behind as i32, first) })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn shown(sum: i128, scale: u8, count: i64) -> Option<String> {
            let (average, failed) = average(sum, scale, count);
            let (sign, digits) = (if average < 0 { "-" } else { "" }, average.unsigned_abs());
            (!failed).then(|| format!("{sign}{}.{:020}", digits / 10u128.pow(20), digits % 10u128.pow(20)))
        }

        /// As a server has answered: `SELECT avg(x) FROM …`.
        #[test]
        fn averages_are_rounded_where_postgresql_rounds() {
            assert_eq!(shown(10, 0, 3).unwrap(), "3.33333333333333330000");
            assert_eq!(shown(2, 0, 3).unwrap(), "0.66666666666666666667");
            assert_eq!(shown(20_000, 0, 3).unwrap(), "6666.66666666666666670000");
            assert_eq!(shown(200_000, 0, 3).unwrap(), "66666.66666666666700000000");
            assert_eq!(shown(100, 2, 3).unwrap(), "0.33333333333333333333");
            assert_eq!(shown(-7, 1, 3).unwrap(), "-0.23333333333333333333");
            assert_eq!(shown(0, 2, 5).unwrap(), "0.00000000000000000000");
            assert_eq!(shown(1, 8, 3), None, "more digits than there are");
        }
    }
}

/// Days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.
pub mod dates {
    /// Julian day 0, and the day behind the last.
    const FIRST: i32 = -2_451_545;
    const END: i32 = 2_147_483_494 - 2_451_545;
    /// The day behind the last timestamp's.
    const TIMESTAMP_END: i32 = 109_203_528 - 2_451_545;
    const MICROSECONDS: i64 = 86_400_000_000;

    fn infinite(date: i32) -> bool {
        (date == i32::MIN) | (date == i32::MAX)
    }

    fn shifted(date: i32, (result, overflow): (i32, bool)) -> (i32, bool) {
        if infinite(date) { (date, false) } else { (result, overflow | !(FIRST..END).contains(&result)) }
    }

    pub fn plus_days(date: i32, days: i32) -> (i32, bool) {
        shifted(date, date.overflowing_add(days))
    }

    pub fn minus_days(date: i32, days: i32) -> (i32, bool) {
        shifted(date, date.overflowing_sub(days))
    }

    pub fn difference(a: i32, b: i32) -> (i32, bool) {
        let (days, overflow) = a.overflowing_sub(b);
        (days, overflow | infinite(a) | infinite(b))
    }

    pub fn to_timestamp(date: i32) -> (i64, bool) {
        match date {
            i32::MIN => (i64::MIN, false),
            i32::MAX => (i64::MAX, false),
            _ => (date as i64 * MICROSECONDS, !(FIRST..TIMESTAMP_END).contains(&date)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn products_of_any_width_are_exact_or_fail() {
        let edges = [0, 1, -1, 7, i64::MAX as i128, i64::MIN as i128, i64::MAX as i128 + 1, i64::MIN as i128 - 1];
        let large = [10i128.pow(19), -(10i128.pow(19)), 10i128.pow(37), 10i128.pow(38) - 1, i128::MAX, i128::MIN];
        let all: Vec<i128> = edges.into_iter().chain(large).collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            let exact = a.checked_mul(b).filter(|product| product.unsigned_abs() < 10u128.pow(38));
            let (product, failed) = decimals::mul(a, b);
            assert_eq!((!failed).then_some(product), exact, "{a} * {b}");
        }
    }

    #[test]
    fn integers() {
        assert!(Integer::div(i32::MIN, -1).1);
        assert_eq!(Integer::rem(i32::MIN, -1), (0, false));
        assert_eq!(Integer::div(-7i64, 2), (-3, false));
        assert_eq!(Integer::rem(-7i64, 2), (-1, false));
        assert!(Integer::div(1i16, 0).1 && Integer::rem(1i16, 0).1);
        assert!(Integer::add(i16::MAX, 1).1 && Integer::sub(i16::MIN, 1).1 && Integer::mul(i64::MAX, 2).1);
        assert!(Integer::neg(i16::MIN).1);
    }

    #[test]
    fn floats_overflow_and_vanish() {
        use floats::{Double, Single, canonical, to_real};
        let (add, sub) = (floats::add::<Double>, floats::sub::<Double>);
        let (mul, div) = (floats::mul::<Double>, floats::div::<Double>);
        assert!(add(f64::MAX, f64::MAX).1);
        assert_eq!(add(f64::INFINITY, 1.0), (f64::INFINITY, false));
        assert_eq!(sub(1.0, f64::INFINITY), (f64::NEG_INFINITY, false));
        assert!(add(f64::INFINITY, f64::NEG_INFINITY).0.is_nan());
        assert!(mul(1e-300, 1e-300).1 && mul(1e300, 1e300).1);
        assert!(!mul(0.0, 1e-300).1);
        assert!(div(1.0, 0.0).1 && div(f64::INFINITY, 0.0).1 && div(0.0, -0.0).1);
        assert!(!div(f64::NAN, 0.0).1);
        assert_eq!(div(1.0, f64::INFINITY), (0.0, false));
        assert!(div(1e-300, 1e300).1 && div(1e300, 1e-300).1);
        assert_eq!(div(f64::INFINITY, 2.0), (f64::INFINITY, false));
        assert_eq!(canonical(-0.0).to_bits(), 0);
        assert_eq!(canonical(-f64::NAN).to_bits(), f64::NAN.to_bits());
        assert!(f64::NAN.total_cmp(&f64::INFINITY).is_gt());
        let tenth = 0.1f32 as f64;
        assert_eq!(floats::add::<Single>(tenth, tenth * 2.0), ((0.1f32 + 0.2f32) as f64, false));
        assert!(floats::mul::<Single>(1e30, 1e30).1 && floats::div::<Single>(1e-30, 1e30).1);
        assert_eq!(to_real(0.1), (tenth, false));
        assert!(to_real(1e39).1 && to_real(1e-60).1 && !to_real(f64::INFINITY).1);
    }

    #[test]
    fn remainders_are_those_of_a_division() {
        let edges = [0, 1, 2, 3, 7, 10, 9_999, 10_000, 1 << 16, i32::MAX as i64 - 1, i32::MAX as i64, 1 << 31, 1 << 32];
        let numbers: Vec<i64> = edges.into_iter().flat_map(|n| [n, -n]).chain([i64::MIN, i64::MAX]).collect();
        for &divisor in &numbers {
            let Some(by) = Divisor::new(divisor) else {
                assert!(divisor == 0 || i32::try_from(divisor).is_err(), "{divisor}");
                continue;
            };
            let multiples = (-50..50).flat_map(|n| (-1..2).map(move |off| n * 65_537 * divisor + off));
            for value in numbers.iter().copied().chain(multiples) {
                assert_eq!(by.remainder(value), value.wrapping_rem(divisor), "{value} % {divisor}");
            }
        }
    }

    #[test]
    fn decimals_beyond_38_digits() {
        use decimals::*;
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
        use decimals::*;
        assert_eq!(order(1i64, 100i64, [power(2), power(0)]), Ordering::Equal);
        assert_eq!(order(i128::MAX, i128::MAX, [power(1), power(0)]), Ordering::Greater);
        assert_eq!(order(i128::MIN, i128::MIN, [power(0), power(9)]), Ordering::Greater);
        assert_eq!(order(-1i64, i128::MIN, [power(60), power(0)]), Ordering::Less);
        assert_eq!(order(0i64, 0i128, [power(60), power(0)]), Ordering::Equal);
    }

    #[test]
    fn dates_end_where_postgresql_ends_them() {
        use dates::*;
        assert_eq!(plus_days(i32::MAX, -5), (i32::MAX, false));
        assert_eq!(minus_days(i32::MIN, 5), (i32::MIN, false));
        assert_eq!(minus_days(-2_451_544, 1), (-2_451_545, false));
        assert!(minus_days(-2_451_545, 1).1 && plus_days(2_145_031_948, 1).1 && plus_days(0, i32::MAX).1);
        assert!(minus_days(0, i32::MIN).1);
        assert_eq!(difference(5, 7), (-2, false));
        assert!(difference(i32::MAX, 1).1 && difference(1, i32::MIN).1);
        assert_eq!(to_timestamp(i32::MIN), (i64::MIN, false));
        assert_eq!(to_timestamp(-2_451_545), (-211_813_488_000_000_000, false));
        assert!(to_timestamp(106_751_983).1 && !to_timestamp(106_751_982).1);
    }
}
