//! The representation of a numeric, and functions that need no arithmetic.

use std::borrow::Cow;
use std::fmt;

use crate::digits::{BASE, DECIMALS, Digits};
use crate::power;

/// A value of type numeric.
#[derive(Clone, Debug)]
pub struct Numeric(pub(crate) Repr);

#[derive(Clone, Debug)]
pub(crate) enum Repr {
    /// The value mantissa / 10^scale, with display scale `scale`. Every finite value whose mantissa and scale fit has
    /// this form.
    Small {
        mantissa: i128,
        scale: u16,
    },
    Long(Long),
    Infinite {
        negative: bool,
    },
    NaN,
}

/// A finite value in PostgreSQL's form: digit `i` is multiplied by 10000^(weight - i).
#[derive(Clone, Debug)]
pub(crate) struct Long {
    pub negative: bool,
    /// The digits, without zeros at either end. The value zero has no digits.
    pub digits: Digits,
    pub weight: i32,
    /// The display scale. The value has no digits behind the point beyond it.
    pub scale: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    DivisionByZero,
    /// The result exceeds the limits of the format (PostgreSQL's "value overflows numeric format").
    Overflow,
    NegativeSquareRoot,
    LogarithmOfZero,
    LogarithmOfNegative,
    ZeroToNegativePower,
    /// A negative number raised to a power that is no integer.
    ComplexPower,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::DivisionByZero => "division by zero",
            Error::Overflow => "value overflows numeric format",
            Error::NegativeSquareRoot => "cannot take square root of a negative number",
            Error::LogarithmOfZero => "cannot take logarithm of zero",
            Error::LogarithmOfNegative => "cannot take logarithm of a negative number",
            Error::ZeroToNegativePower => "zero raised to a negative power is undefined",
            Error::ComplexPower => "a negative number raised to a non-integer power yields a complex result",
        })
    }
}

impl std::error::Error for Error {}

/// The greatest weight of a value. PostgreSQL stores it in 16 bits, which allows 131072 digits before the point.
pub(crate) const WEIGHT_LIMIT: i32 = i16::MAX as i32;
/// The greatest display scale of a value.
pub(crate) const SCALE_LIMIT: u16 = 0x3FFF;

/// The greatest number of base-10000 digits that the decimal digits of an `i128` can touch.
pub(crate) const GROUPS: usize = 11;

impl Numeric {
    pub const NAN: Numeric = Numeric(Repr::NaN);
    pub const INFINITY: Numeric = Numeric(Repr::Infinite { negative: false });
    pub const NEGATIVE_INFINITY: Numeric = Numeric(Repr::Infinite { negative: true });
    pub const ZERO: Numeric = Numeric::small(0, 0);

    #[inline]
    pub(crate) const fn small(mantissa: i128, scale: u16) -> Numeric {
        Numeric(Repr::Small { mantissa, scale })
    }

    pub(crate) const fn infinite(negative: bool) -> Numeric {
        Numeric(Repr::Infinite { negative })
    }

    /// A value from base-10000 digits, where `digits[0]` is multiplied by 10000^weight. There may be zeros at either
    /// end.
    pub(crate) fn from_digits(negative: bool, weight: i32, digits: Digits, scale: u16) -> Numeric {
        let (digits, zeros) = digits.stripped();
        let weight = weight - zeros as i32;
        match gather(&digits, weight, scale).and_then(|m| power::signed(negative, m)) {
            Some(mantissa) => Numeric::small(mantissa, scale),
            None => Numeric(Repr::Long(Long { negative, digits, weight, scale })),
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    pub fn is_finite(&self) -> bool {
        !matches!(self.0, Repr::NaN | Repr::Infinite { .. })
    }

    pub fn is_zero(&self) -> bool {
        matches!(self.0, Repr::Small { mantissa: 0, .. })
    }

    /// The sign as -1, 0, or 1; `None` for NaN.
    pub(crate) fn direction(&self) -> Option<i32> {
        match &self.0 {
            Repr::Small { mantissa, .. } => Some(mantissa.signum() as i32),
            Repr::Long(Long { negative, .. }) | Repr::Infinite { negative } => Some(if *negative { -1 } else { 1 }),
            Repr::NaN => None,
        }
    }

    /// The display scale; `None` for NaN and the infinities.
    #[inline]
    pub fn scale(&self) -> Option<u16> {
        match &self.0 {
            Repr::Small { scale, .. } | Repr::Long(Long { scale, .. }) => Some(*scale),
            _ => None,
        }
    }

    /// PostgreSQL's `trim_scale`: the same value with the least display scale that shows all of its digits.
    pub fn trimmed(&self) -> Numeric {
        match &self.0 {
            Repr::Small { mantissa: 0, .. } => Numeric::ZERO,
            Repr::Small { mantissa, scale } => {
                let (mantissa, scale) = trim(*mantissa, *scale);
                Numeric::small(mantissa, scale)
            }
            Repr::Long(long) => {
                let last =
                    long.digits.last().map_or(0, |d| (1..DECIMALS).filter(|&n| d % 10u16.pow(n as u32) == 0).count());
                let behind = (long.digits.len() as i32 - 1 - long.weight) * DECIMALS - last as i32;
                Numeric::from_digits(long.negative, long.weight, long.digits.clone(), behind.max(0) as u16)
            }
            _ => self.clone(),
        }
    }

    pub fn neg(&self) -> Numeric {
        match &self.0 {
            Repr::Small { mantissa, scale } => match mantissa.checked_neg() {
                Some(mantissa) => Numeric::small(mantissa, *scale),
                None => Numeric(Repr::Long(Long { negative: false, ..split(*mantissa, *scale) })),
            },
            Repr::Long(long) => Numeric::from_digits(!long.negative, long.weight, long.digits.clone(), long.scale),
            Repr::Infinite { negative } => Numeric::infinite(!negative),
            Repr::NaN => Numeric::NAN,
        }
    }

    pub fn abs(&self) -> Numeric {
        if self.direction() == Some(-1) { self.neg() } else { self.clone() }
    }

    /// The sign as -1, 0, 1, or NaN.
    pub fn sign(&self) -> Numeric {
        self.direction().map_or(Numeric::NAN, |direction| Numeric::small(direction as i128, 0))
    }

    /// The value, or an error if it exceeds the limits of PostgreSQL's format. Operations that return an `Error` have
    /// already checked this. `ceil`, `floor` and `round` have not: their result may have one digit too many before the
    /// point.
    pub fn checked(self) -> Result<Numeric, Error> {
        match &self.0 {
            Repr::Long(long) if long.weight > WEIGHT_LIMIT || long.scale > SCALE_LIMIT => Err(Error::Overflow),
            Repr::Small { scale, .. } if *scale > SCALE_LIMIT => Err(Error::Overflow),
            _ => Ok(self),
        }
    }

    /// The bytes that the value has allocated on the heap.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Long(Long { digits: Digits::Heap(digits), .. }) => digits.capacity() * size_of::<u16>(),
            _ => 0,
        }
    }

    /// The value in base-10000 digits; `None` if it is not finite.
    pub(crate) fn long(&self) -> Option<Cow<'_, Long>> {
        match &self.0 {
            Repr::Small { mantissa, scale } => Some(Cow::Owned(split(*mantissa, *scale))),
            Repr::Long(long) => Some(Cow::Borrowed(long)),
            _ => None,
        }
    }
}

/// Removes trailing zeros behind the point. The value must not be zero.
fn trim(mut mantissa: i128, mut scale: u16) -> (i128, u16) {
    // A multiple of 10^4 is also a multiple of 2^4. This is tested first, because it needs no division.
    while i64::try_from(mantissa).is_err() && scale >= 4 && mantissa.trailing_zeros() >= 4 && mantissa % 10_000 == 0 {
        mantissa /= 10_000;
        scale -= 4;
    }
    let Ok(mut small) = i64::try_from(mantissa) else {
        while scale > 0 && mantissa % 10 == 0 {
            mantissa /= 10;
            scale -= 1;
        }
        return (mantissa, scale);
    };
    while scale >= 4 && small % 10_000 == 0 {
        small /= 10_000;
        scale -= 4;
    }
    while scale > 0 && small % 10 == 0 {
        small /= 10;
        scale -= 1;
    }
    (small as i128, scale)
}

/// The value of digits times 10^scale, if that is an integer that fits 128 bits. The last digit must not be zero,
/// unless the display scale shows it. Otherwise the result may be `None` although the integer fits.
#[inline]
pub(crate) fn gather(digits: &[u16], weight: i32, scale: u16) -> Option<u128> {
    let Some((&last, front)) = digits.split_last() else { return Some(0) };
    if digits.len() > GROUPS {
        return None;
    }
    // The power of ten by which the last digit is multiplied in the scaled value.
    let exponent = (weight - front.len() as i32) * DECIMALS + scale as i32;
    let (head, tail) = front.split_at(front.len().min(4));
    let head = head.iter().fold(0u64, |value, &d| value * BASE as u64 + d as u64);
    let mut value = head as u128;
    for &digit in tail {
        value = value.checked_mul(BASE as u128)?.checked_add(digit as u128)?;
    }
    if exponent >= 0 {
        value = value.checked_mul(BASE as u128)?.checked_add(last as u128)?;
        if exponent == 0 { Some(value) } else { value.checked_mul(power::ten(exponent as u32)?) }
    } else {
        // The display scale ends within the four decimal digits of the last base-10000 digit.
        if exponent <= -DECIMALS {
            return None;
        }
        let cut = 10u16.pow(exponent.unsigned_abs());
        if last % cut != 0 {
            return None;
        }
        value.checked_mul((BASE / cut) as u128)?.checked_add((last / cut) as u128)
    }
}

/// Splits magnitude / 10^scale into base-10000 digits, right-aligned in `digits`; there may be zeros at either end.
/// Returns the index and the weight of the first digit.
#[inline]
pub(crate) fn spread(magnitude: u128, scale: u16, digits: &mut [u16; GROUPS]) -> (usize, i32) {
    let mut at = GROUPS;
    let odd = scale as u32 % DECIMALS as u32;
    let mut rest = magnitude;
    // If the scale is not a multiple of four, zeros fill the last base-10000 digit up to four decimal digits.
    if odd != 0 {
        let unit = 10u16.pow(odd);
        let last;
        (rest, last) = match u64::try_from(rest) {
            Ok(rest) => ((rest / unit as u64) as u128, (rest % unit as u64) as u16),
            Err(_) => (rest / unit as u128, (rest % unit as u128) as u16),
        };
        at -= 1;
        digits[at] = last * (BASE / unit);
    }
    const FOUR: u64 = (BASE as u64).pow(4);
    while rest > u64::MAX as u128 {
        let (upper, lower) = power::divide(rest, FOUR as u128);
        let mut lower = lower as u64;
        for _ in 0..4 {
            at -= 1;
            digits[at] = (lower % BASE as u64) as u16;
            lower /= BASE as u64;
        }
        rest = upper;
    }
    let mut rest = rest as u64;
    while rest != 0 {
        at -= 1;
        digits[at] = (rest % BASE as u64) as u16;
        rest /= BASE as u64;
    }
    (at, (GROUPS - at) as i32 - (scale as i32 + DECIMALS - 1) / DECIMALS - 1)
}

pub(crate) fn split(mantissa: i128, scale: u16) -> Long {
    let mut digits = [0; GROUPS];
    let (at, weight) = spread(mantissa.unsigned_abs(), scale, &mut digits);
    let (digits, zeros) = Digits::new(&digits[at..]).stripped();
    Long { negative: mantissa < 0, digits, weight: weight - zeros as i32, scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_mantissas_are_the_same_values() {
        let mantissas = [0, 1, -1, 9999, 10_000, 123_456_789, 10i128.pow(38), i128::MAX, i128::MIN, 500, -10_001];
        for mantissa in mantissas {
            for scale in [0u16, 1, 2, 3, 4, 5, 7, 8, 20, 38, 39, 40, 41, 200, 16_383] {
                let long = split(mantissa, scale);
                assert!(long.digits.first() != Some(&0) && long.digits.last() != Some(&0));
                assert_eq!(
                    gather(&long.digits, long.weight, scale),
                    Some(mantissa.unsigned_abs()),
                    "{mantissa} {scale}"
                );
                let again = Numeric::from_digits(long.negative, long.weight, long.digits, scale);
                assert!(matches!(again.0, Repr::Small { mantissa: m, scale: s } if m == mantissa && s == scale));
            }
        }
    }

    #[test]
    fn the_ends_of_128_bits() {
        let least = Numeric::small(i128::MIN, 3);
        assert_eq!(least.neg().to_string(), "170141183460469231731687303715884105.728");
        assert_eq!(least.neg().neg().to_string(), least.to_string());
        assert!(matches!(least.neg().neg().0, Repr::Small { .. }));
        assert_eq!(least.abs().to_string(), least.neg().to_string());
    }
}
