//! Square roots.

use crate::digits::{BASE, DECIMALS, Digits};
use crate::value::{Error, Numeric, Repr};
use crate::var::Var;

/// Significant digits that a result has at least.
pub const SIGNIFICANT: i32 = 16;
/// Digits that a result shows at most behind its point.
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
    /// Rounded to a scale, which may be less than none: one digit more is exact.
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
        // Each digit of the root is made of two: all before the point, and as many behind it.
        let taken = (self.weight + 1 + (count - weight - 1) * 2).max(1) as usize;
        let mut digits = self.digits.clone();
        digits.resize(taken, 0);
        Ok(Var::new(false, weight, whole_root(&digits), scale).round(scale))
    }
}

/// What fits 128 bits.
const FEW: usize = 8;

/// The root of a whole number, without what is behind the point.
fn whole_root(digits: &[u16]) -> Vec<u16> {
    let (root, _) = root_and_rest(digits);
    let long = root.long().map(|long| (long.weight, long.digits.to_vec()));
    let (weight, mut root) = long.unwrap_or_default();
    root.resize(weight as usize + 1, 0);
    root
}

/// The root, and what it is too small by when it is squared (Zimmermann, "Karatsuba Square Root"): that of the upper half of
/// the digits, and then the other half by a division by twice that.
fn root_and_rest(digits: &[u16]) -> (Numeric, Numeric) {
    if digits.len() <= FEW {
        let number = digits.iter().fold(0u128, |number, &digit| number * u128::from(BASE) + u128::from(digit));
        let root = number.isqrt();
        return (Numeric::small(root as i128, 0), Numeric::small((number - root * root) as i128, 0));
    }
    // The upper part has to be at least a quarter of the power of the base that each of the other parts stays below.
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
        // It is too large by one.
        let one = Numeric::small(1, 0);
        rest = rest.plus(&root);
        root = root.plus(&one.neg());
        rest = rest.plus(&root);
    }
    (root, rest)
}

impl Numeric {
    /// Whole quotient and remainder of whole numbers.
    fn split_by(&self, divisor: &Numeric) -> (Numeric, Numeric) {
        let quotient = match (self.long(), divisor.long()) {
            (Some(a), Some(b)) => a.over(&b, 0, false).unwrap_or(Numeric::ZERO),
            _ => Numeric::ZERO,
        };
        let remainder = self.plus(&quotient.times(divisor).neg());
        (quotient, remainder)
    }
}
