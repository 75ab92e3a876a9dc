//! Exponentials, logarithms and powers.
//!
//! Their results are approximations, computed by series that end when further terms no longer matter. If a result is
//! nearly halfway between two roundings, its last digit depends on the number of digits in intermediate values. So each
//! step is done with as many digits as in PostgreSQL.

use std::cmp::Ordering;

use crate::digits::{BASE, DECIMALS};
use crate::root::{SHOWN_LIMIT, SIGNIFICANT};
use crate::value::{Error, Numeric, Repr, WEIGHT_LIMIT};
use crate::var::Var;

/// If e is raised to more than about three times this limit, the result is too large for PostgreSQL's format, or is
/// zero.
const EXPONENT_LIMIT: i32 = 2000;
/// The logarithms to base 10 of e and of 2, and the natural logarithm of 10. They have as many digits as in PostgreSQL.
#[allow(clippy::approx_constant)]
const DIGITS_OF_E: f64 = 0.434294481903252;
#[allow(clippy::approx_constant)]
const DIGITS_OF_2: f64 = 0.301029995663981;
#[allow(clippy::approx_constant)]
const LN_OF_10: f64 = 2.302585092994046;

impl Numeric {
    pub fn exp(&self) -> Result<Numeric, Error> {
        let Some(long) = self.long() else {
            return Ok(match self.0 {
                Repr::Infinite { negative: true } => Numeric::ZERO,
                _ => self.clone(),
            });
        };
        let value = Var::of(&long);
        let limit = f64::from(EXPONENT_LIMIT);
        let weight = (value.to_f64() * DIGITS_OF_E).clamp(-limit, limit);
        let scale = (SIGNIFICANT - weight as i32).max(value.scale).clamp(0, SHOWN_LIMIT);
        exp(&value, scale)?.numeric().checked()
    }

    pub fn ln(&self) -> Result<Numeric, Error> {
        let Some(long) = self.long() else {
            return match self.0 {
                Repr::Infinite { negative: true } => Err(Error::LogarithmOfNegative),
                _ => Ok(self.clone()),
            };
        };
        let value = Var::of(&long);
        let scale = (SIGNIFICANT - weight_of_ln(&value)).max(value.scale).clamp(0, SHOWN_LIMIT);
        ln(&value, scale)?.numeric().checked()
    }

    /// The logarithm of the value to base `base`.
    pub fn log(&self, base: &Numeric) -> Result<Numeric, Error> {
        match (base.long(), self.long()) {
            (Some(base), Some(number)) => log(&Var::of(&base), &Var::of(&number))?.numeric().checked(),
            _ => match (base.direction(), self.direction()) {
                (None, _) | (_, None) => Ok(Numeric::NAN),
                (Some(-1), _) | (_, Some(-1)) => Err(Error::LogarithmOfNegative),
                (Some(0), _) | (_, Some(0)) => Err(Error::LogarithmOfZero),
                _ if base.is_finite() => Ok(Numeric::INFINITY),
                _ if self.is_finite() => Ok(Numeric::ZERO),
                _ => Ok(Numeric::NAN),
            },
        }
    }

    /// The power as PostgreSQL 15 computes it.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric, Error> {
        self.power_by(exponent, |base, whole, _| whole_power(base, whole))
    }

    /// The power as PostgreSQL 16 and later versions compute it: if the exponent is an integer, a small result has more
    /// digits than before.
    pub fn power_since_16(&self, exponent: &Numeric) -> Result<Numeric, Error> {
        self.power_by(exponent, whole_power_since_16)
    }

    /// The power. `whole_power` computes it if the exponent is an integer, which it gets together with the exponent's
    /// scale.
    fn power_by(
        &self,
        exponent: &Numeric,
        whole_power: impl FnOnce(&Var, i32, i32) -> Result<Var, Error>,
    ) -> Result<Numeric, Error> {
        let (Some(base), Some(by)) = (self.long(), exponent.long()) else {
            return self.special_power(exponent);
        };
        let (base, by) = (Var::of(&base), Var::of(&by));
        if base.is_zero() && by.negative {
            return Err(Error::ZeroToNegativePower);
        }
        let power = match as_i32(&by) {
            Some(whole) => whole_power(&base, whole, by.scale),
            None => power(&base, &by),
        };
        power?.numeric().checked()
    }

    /// The power if the base or the exponent is not finite. The rules are those of POSIX.
    fn special_power(&self, exponent: &Numeric) -> Result<Numeric, Error> {
        let one = Numeric::small(1, 0);
        let finite_and = |number: &Numeric, other: &Numeric| number.is_finite() && number == other;
        if self.is_nan() {
            return Ok(if finite_and(exponent, &Numeric::ZERO) { one } else { Numeric::NAN });
        }
        if exponent.is_nan() {
            return Ok(if finite_and(self, &one) { one } else { Numeric::NAN });
        }
        let (of, by) = (self.direction().unwrap_or(0), exponent.direction().unwrap_or(0));
        let whole = exponent.long().is_none_or(|long| Var::of(&long).is_whole());
        if of == 0 && by < 0 {
            return Err(Error::ZeroToNegativePower);
        }
        if of < 0 && !whole {
            return Err(Error::ComplexPower);
        }
        if finite_and(self, &one) || by == 0 {
            return Ok(one);
        }
        if of == 0 {
            return Ok(Numeric::ZERO);
        }
        if !exponent.is_finite() {
            let grows = !self.is_finite() || self.abs() > one;
            return Ok(match () {
                _ if finite_and(self, &one.neg()) => one,
                _ if grows == (by > 0) => Numeric::INFINITY,
                _ => Numeric::ZERO,
            });
        }
        let odd = exponent.long().is_some_and(|long| Var::of(&long).is_odd());
        Ok(match (of > 0, by > 0) {
            (_, false) => Numeric::ZERO,
            (false, true) if odd => Numeric::NEGATIVE_INFINITY,
            _ => Numeric::INFINITY,
        })
    }
}

fn exp(value: &Var, scale: i32) -> Result<Var, Error> {
    let mut near = value.to_f64();
    if near.abs() >= f64::from(EXPONENT_LIMIT * 3) {
        return if near > 0.0 { Err(Error::Overflow) } else { Ok(Var::zero(scale)) };
    }
    let weight = (near * DIGITS_OF_E) as i32;
    // The exponent is halved until the series converges quickly. The result is then squared once for each halving.
    let mut halvings = 0;
    while near.abs() > 0.01 {
        halvings += 1;
        near /= 2.0;
    }
    let x = match halvings {
        0 => value.clone(),
        _ => value.over_small(1 << halvings, value.scale + halvings),
    };
    let significant = (1 + weight + scale + (f64::from(halvings) * DIGITS_OF_2) as i32).max(0) + 8;
    // 1 + x + x^2/2! + x^3/3! + …
    let local = significant - 1;
    let mut sum = Var::small(1).plus(&x);
    let mut term = x.times(&x, local).over_small(2, local);
    let mut number = 2;
    while !term.is_zero() {
        sum = sum.plus(&term);
        number += 1;
        term = term.times(&x, local).over_small(number, local);
    }
    for _ in 0..halvings {
        let local = (significant - sum.weight * 2 * DECIMALS).max(0);
        sum = sum.times(&sum, local);
    }
    Ok(sum.round(scale))
}

/// The approximate weight of the first decimal digit of a value's natural logarithm.
fn weight_of_ln(value: &Var) -> i32 {
    if value.negative {
        return 0;
    }
    if value.compare(&Var::tenths(0, 9)) != Ordering::Less && value.compare(&Var::tenths(1, 1)) != Ordering::Greater {
        let x = value.minus(&Var::small(1));
        return x.digits.first().map_or(0, |&first| x.weight * DECIMALS + f64::from(first).log10() as i32);
    }
    let (digits, weight) = match value.digits[..] {
        [] => return 0,
        [one] => (i32::from(one), value.weight * DECIMALS),
        [one, two, ..] => (i32::from(one) * i32::from(BASE) + i32::from(two), (value.weight - 1) * DECIMALS),
    };
    let ln = f64::from(digits).ln() + f64::from(weight) * LN_OF_10;
    ln.abs().log10() as i32
}

fn ln(value: &Var, scale: i32) -> Result<Var, Error> {
    if value.is_zero() {
        return Err(Error::LogarithmOfZero);
    }
    if value.negative {
        return Err(Error::LogarithmOfNegative);
    }
    // Square roots are taken until the value is near one. The logarithm is then doubled once for each root.
    let (mut x, mut factor, mut roots) = (value.clone(), Var::small(2), 0);
    let (least, greatest) = (Var::tenths(0, 9), Var::tenths(1, 1));
    while x.compare(&least) != Ordering::Greater || x.compare(&greatest) != Ordering::Less {
        x = x.sqrt(scale - x.weight * DECIMALS / 2 + 8)?;
        factor = factor.times(&Var::small(2), 0);
        roots += 1;
    }
    // z + z^3/3 + z^5/5 + …, where z = (x - 1) / (x + 1)
    let local = scale + (f64::from(roots + 1) * DIGITS_OF_2) as i32 + 8;
    let z = x.minus(&Var::small(1)).over(&x.plus(&Var::small(1)), local);
    let square = z.times(&z, local);
    let (mut sum, mut power, mut number) = (z.clone(), z, 1);
    loop {
        number += 2;
        power = power.times(&square, local);
        let term = power.over_small(number, local);
        if term.is_zero() {
            break;
        }
        sum = sum.plus(&term);
        if term.weight < sum.weight - local * 2 / DECIMALS {
            break;
        }
    }
    Ok(sum.times(&factor, scale))
}

fn log(base: &Var, number: &Var) -> Result<Var, Error> {
    let (weight_of_base, weight_of_number) = (weight_of_ln(base), weight_of_ln(number));
    let weight = weight_of_number - weight_of_base;
    let scale = (SIGNIFICANT - weight).max(base.scale).max(number.scale).clamp(0, SHOWN_LIMIT);
    let ln_of_base = ln(base, (scale + weight - weight_of_base + 8).max(0))?;
    let ln_of_number = ln(number, (scale + weight - weight_of_number + 8).max(0))?;
    if ln_of_base.is_zero() {
        return Err(Error::DivisionByZero);
    }
    Ok(ln_of_number.over(&ln_of_base, scale))
}

/// The power with an exponent that is no integer of 32 bits.
fn power(base: &Var, exponent: &Var) -> Result<Var, Error> {
    if base.is_zero() {
        return Ok(Var::zero(SIGNIFICANT));
    }
    if base.negative && !exponent.is_whole() {
        return Err(Error::ComplexPower);
    }
    let negative = base.negative && exponent.is_odd();
    let base = Var { negative: false, ..base.clone() };
    // The logarithm is first computed with few digits, which tell how many digits the result has.
    let weight_of_ln = weight_of_ln(&base);
    let local = (8 - weight_of_ln).max(0);
    let near = ln(&base, local)?.times(exponent, local).to_f64();
    if near.abs() > f64::from(EXPONENT_LIMIT) * 3.01 {
        return if near > 0.0 { Err(Error::Overflow) } else { Ok(Var::zero(SHOWN_LIMIT)) };
    }
    let weight = (near * DIGITS_OF_E) as i32;
    let scale = (SIGNIFICANT - weight).max(base.scale).max(exponent.scale).clamp(0, SHOWN_LIMIT);
    let local = ((scale + weight).max(0) - weight_of_ln + 8).max(0);
    Ok(exp(&ln(&base, local)?.times(exponent, local), scale)?.signed(negative))
}

/// The value as an integer of 32 bits; `None` if it is not one.
fn as_i32(value: &Var) -> Option<i32> {
    if !value.is_whole() || value.weight > 2 {
        return None;
    }
    let digits = (0..=value.weight).map(|i| value.digits.get(i as usize).copied().unwrap_or(0));
    let magnitude = digits.fold(0i64, |number, digit| number * i64::from(BASE) + i64::from(digit));
    i32::try_from(if value.negative { -magnitude } else { magnitude }).ok()
}

/// The power with an integer exponent.
fn whole_power(base: &Var, exponent: i32) -> Result<Var, Error> {
    let scale = SIGNIFICANT.max(base.scale).clamp(0, SHOWN_LIMIT);
    if let Some(power) = simple_power(base, exponent, scale) {
        return power;
    }
    let weight = weight_of_power(base, exponent);
    if weight > f64::from(3 * WEIGHT_LIMIT * DECIMALS) {
        return Err(Error::Overflow);
    }
    if weight + 1.0 < f64::from(-scale) || weight + 1.0 < f64::from(-SHOWN_LIMIT) {
        return Ok(Var::zero(scale));
    }
    squared(base, exponent, weight, scale)
}

/// The power with an integer exponent since PostgreSQL 16: the scale leaves room for the significant digits of a small
/// result.
fn whole_power_since_16(base: &Var, exponent: i32, scale_of_exponent: i32) -> Result<Var, Error> {
    let weight = weight_of_power(base, exponent);
    if weight > f64::from((WEIGHT_LIMIT + 1) * DECIMALS) {
        return Err(Error::Overflow);
    }
    if weight + 1.0 < f64::from(-SHOWN_LIMIT) {
        return Ok(Var::zero(SHOWN_LIMIT));
    }
    let scale = (SIGNIFICANT - weight as i32).max(base.scale).max(scale_of_exponent).clamp(0, SHOWN_LIMIT);
    simple_power(base, exponent, scale).unwrap_or_else(|| squared(base, exponent, weight, scale))
}

/// The power if no repeated squaring is needed.
fn simple_power(base: &Var, exponent: i32, scale: i32) -> Option<Result<Var, Error>> {
    Some(match exponent {
        0 => Ok(Var { scale, ..Var::small(1) }),
        1 => Ok(base.clone().round(scale)),
        -1 => base.inverse(scale),
        2 => Ok(base.times(base, scale)),
        _ if base.is_zero() => Ok(Var::zero(scale)),
        _ => return None,
    })
}

/// The estimated decimal logarithm of a power: 0 if the base is zero. It is computed from the base's first base-10000
/// digits, at most four of them.
fn weight_of_power(base: &Var, exponent: i32) -> f64 {
    let Some(&first) = base.digits.first() else { return 0.0 };
    let others = &base.digits[1..base.digits.len().min(4)];
    let leading = others.iter().fold(f64::from(first), |value, &digit| value * f64::from(BASE) + f64::from(digit));
    let behind = (base.weight - others.len() as i32) * DECIMALS;
    f64::from(exponent) * (leading.log10() + f64::from(behind))
}

/// The power with an integer exponent, by repeated squaring. `weight` is the result's estimated decimal logarithm.
fn squared(base: &Var, exponent: i32, weight: f64, scale: i32) -> Result<Var, Error> {
    let significant = 1 + scale + weight as i32 + f64::from(exponent).abs().ln() as i32 + 8;
    let mut bits = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = if bits & 1 == 1 { base.clone() } else { Var::small(1) };
    bits >>= 1;
    while bits > 0 {
        let local = (significant - 2 * square.weight * DECIMALS).min(2 * square.scale).max(0);
        square = square.times(&square, local);
        if bits & 1 == 1 {
            let local = significant - (square.weight + result.weight) * DECIMALS;
            result = square.times(&result, local.min(square.scale + result.scale).max(0));
        }
        // All further intermediate values would be even larger.
        if square.weight > WEIGHT_LIMIT || result.weight > WEIGHT_LIMIT {
            return if exponent > 0 { Err(Error::Overflow) } else { Ok(Var::zero(scale)) };
        }
        bits >>= 1;
    }
    match exponent {
        ..0 if result.is_zero() => Err(Error::DivisionByZero),
        ..0 => Ok(Var::small(1).over(&result, scale)),
        _ => Ok(result.round(scale)),
    }
}
