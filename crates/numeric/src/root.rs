//! Square roots.

use crate::digits::{BASE, DECIMALS, Digits};
use crate::value::{Error, Numeric, Repr};
use crate::var::Var;

/// The least number of significant decimal digits in a result.
pub const SIGNIFICANT: i32 = 16;
/// The greatest display scale that is chosen for a result.
pub const SHOWN_LIMIT: i32 = 1000;

impl Numeric {
    pub fn sqrt(&self) -> Result<Numeric, Error> {
        let Some(long) = self.long() else {
            return match self.0 {
                Repr::Infinite { negative: true } => Err(Error::NegativeSquareRoot),
                _ => Ok(self.clone()),
            };
        };
        let value = Var::of(&long);
        let weight = (value.weight + 1) * DECIMALS / 2 - 1;
        let scale = (SIGNIFICANT - weight).max(value.scale).clamp(0, SHOWN_LIMIT);
        value.sqrt(scale)?.numeric().checked()
    }
}

impl Var {
    /// The square root, rounded to `scale`, which may be negative. It is computed with at least one more digit.
    pub fn sqrt(&self, scale: i32) -> Result<Var, Error> {
        if self.is_zero() {
            return Ok(Var::zero(scale));
        }
        if self.negative {
            return Err(Error::NegativeSquareRoot);
        }
        let weight = self.weight.div_euclid(2);
        let behind = match scale + 1 {
            0.. => (scale + DECIMALS) / DECIMALS,
            _ => -((-scale - 1) / DECIMALS),
        };
        let count = (weight + 1 + behind).max(1);
        // Each digit of the root needs two digits of the value. So all digits before the point are taken, and twice as
        // many digits behind it as the root will have there.
        let taken = (self.weight + 1 + (count - weight - 1) * 2).max(1) as usize;
        let mut digits = self.digits.clone();
        digits.resize(taken, 0);
        Ok(Var::new(false, weight, whole_root(&digits), scale).round(scale))
    }
}

/// The greatest number of base-10000 digits that always fit 128 bits.
const FEW: usize = 8;
/// The greatest number of base-10000 digits for which root and remainder still fit 128 bits while a further digit is
/// added to the root.
const SOME: usize = 14;

/// The integer part of the square root of an integer. The integer and the root are given as base-10000 digits.
fn whole_root(digits: &[u16]) -> Vec<u16> {
    let (root, _) = root_and_rest(digits);
    let long = root.long().map(|long| (long.weight, long.digits.to_vec()));
    let (weight, mut root) = long.unwrap_or_default();
    root.resize(weight as usize + 1, 0);
    root
}

/// Root and remainder of an integer of [`FEW`] to [`SOME`] digits. The root is computed digit by digit: the remainder
/// is divided by twice the root so far.
fn root_by_digits(digits: &[u16]) -> Option<(u128, u128)> {
    const BASE: u128 = crate::digits::BASE as u128;
    let (first, pairs) = digits.split_at(FEW - digits.len() % 2);
    let number = first.iter().fold(0, |number, &digit| number * BASE + u128::from(digit));
    let mut root = number.isqrt();
    let mut rest = number - root * root;
    for pair in pairs.as_chunks::<2>().0 {
        let upper = rest * BASE + u128::from(pair[0]);
        let all = upper * BASE + u128::from(pair[1]);
        // The estimated digit may be a little too large, so it is decreased until it fits.
        let mut digit = upper.checked_div(2 * root)?.min(BASE - 1);
        let taken = |digit: u128| digit * (2 * root * BASE + digit);
        while taken(digit) > all {
            digit -= 1;
        }
        (root, rest) = (root * BASE + digit, all - taken(digit));
    }
    Some((root, rest))
}

/// Root and remainder of an integer (Zimmermann, "Karatsuba Square Root"). The upper half of the integer's digits
/// yields the first half of the root. A division by twice that half yields the second half.
fn root_and_rest(digits: &[u16]) -> (Numeric, Numeric) {
    if digits.len() <= FEW {
        let number = digits.iter().fold(0u128, |number, &digit| number * u128::from(BASE) + u128::from(digit));
        let root = number.isqrt();
        return (Numeric::small(root as i128, 0), Numeric::small((number - root * root) as i128, 0));
    }
    if digits.len() <= SOME
        && let Some((root, rest)) = root_by_digits(digits)
    {
        return (Numeric::small(root as i128, 0), Numeric::small(rest as i128, 0));
    }
    // With b = BASE^length, the algorithm requires that `upper` is at least b²/4.
    let quarter = digits.len() / 4;
    let length = if quarter * 4 == digits.len() && digits[0] < BASE / 4 { quarter - 1 } else { quarter };
    let (upper, lower) = digits.split_at(digits.len() - 2 * length);
    let whole = |digits: &[u16]| Numeric::from_digits(false, digits.len() as i32 - 1, Digits::new(digits), 0);
    let shifted = |number: &Numeric| match number.long() {
        Some(long) => Numeric::from_digits(long.negative, long.weight + length as i32, long.digits.clone(), 0),
        None => number.clone(),
    };
    let (root, rest) = root_and_rest(upper);
    let dividend = shifted(&rest).plus(&whole(&lower[..length]));
    let (quotient, remainder) = dividend.split_by(&root.plus(&root));
    let mut root = shifted(&root).plus(&quotient);
    let mut rest = shifted(&remainder).plus(&whole(&lower[length..])).plus(&quotient.times(&quotient).neg());
    if rest.direction() == Some(-1) {
        // The estimated root is too large by one.
        let one = Numeric::small(1, 0);
        rest = rest.plus(&root);
        root = root.plus(&one.neg());
        rest = rest.plus(&root);
    }
    (root, rest)
}

impl Numeric {
    /// Quotient and remainder of a division of integers.
    fn split_by(&self, divisor: &Numeric) -> (Numeric, Numeric) {
        let quotient = match (self.long(), divisor.long()) {
            (Some(a), Some(b)) => a.over(&b, 0, false).unwrap_or(Numeric::ZERO),
            _ => Numeric::ZERO,
        };
        let remainder = self.plus(&quotient.times(divisor).neg());
        (quotient, remainder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_squared_and_the_rest_are_the_number() {
        // A linear congruential generator of pseudo-random numbers.
        let mut state = 9u64;
        let mut below = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % end
        };
        for case in 0..20_000 {
            let length = 1 + below(23);
            let mut digits: Vec<u16> =
                (0..length).map(|_| [0, 1, 9999, BASE / 2, below(BASE as usize) as u16][below(5)]).collect();
            digits[0] = digits[0].max(1);
            let number = Numeric::from_digits(false, length as i32 - 1, Digits::new(&digits), 0);
            let (root, rest) = root_and_rest(&digits);
            let twice = root.plus(&root);
            assert_eq!(root.times(&root).plus(&rest), number, "case {case}: {digits:?}");
            assert!(rest.direction() != Some(-1) && rest.plus(&twice.neg()).direction() != Some(1), "{digits:?}");
        }
    }
}
