//! The integer types smallint, integer and bigint, and a fast divisor for many integers.

use protocol::request::FailureKind;

/// smallint, integer, bigint.
pub trait Integer: Copy + Default + PartialEq + Into<i64> {
    const OUT_OF_RANGE: FailureKind;

    /// Converts a number that is known to fit.
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
            /// The remainder of the smallest value modulo -1 is 0, not an overflow.
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

/// A divisor of many integers. For an integer of at most 32 bits, a remainder takes two multiplications and no division
/// (Lemire, Kaser, Kurz: Faster remainder by direct computation).
pub struct Divisor {
    divisor: i64,
    /// 2^64 / |divisor|, rounded up. The lower 64 bits of `inverse * value` are the fraction of the quotient of `value`
    /// and |divisor|.
    inverse: u64,
}

impl Divisor {
    /// The divisor; `None` if it is 0 or has more than 32 bits.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
