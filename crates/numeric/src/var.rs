//! Finite intermediate values of approximations. Products and quotients are rounded to a scale, as in PostgreSQL.
//!
//! The last digits of an approximation depend on how many digits were computed before. So all steps are done as in
//! PostgreSQL.

use std::cmp::Ordering;

use crate::digits::{BASE, DECIMALS, Digits};
use crate::value::{Error, Long, Numeric};

/// A product is computed with this many additional base-10000 digits, which are then rounded away. `QUOTIENT_GUARDS` is
/// the same for quotients.
const PRODUCT_GUARDS: i32 = 2;
const QUOTIENT_GUARDS: i32 = 4;

/// A finite value. Digit `i` is multiplied by 10000^(weight - i). There are no zeros at either end. Zero has no digits,
/// and its weight is 0.
#[derive(Clone, Debug)]
pub struct Var {
    pub negative: bool,
    pub digits: Vec<u16>,
    pub weight: i32,
    /// The number of known decimal digits behind the point. It may be negative for intermediate values of large
    /// numbers.
    pub scale: i32,
}

impl Var {
    pub fn zero(scale: i32) -> Var {
        Var { negative: false, digits: Vec::new(), weight: 0, scale }
    }

    pub fn small(value: u16) -> Var {
        Var { negative: false, digits: vec![value], weight: 0, scale: 0 }
    }

    /// The value whole + tenths / 10; `tenths` must be below ten.
    pub fn tenths(whole: u16, tenths: u16) -> Var {
        Var::new(false, 0, vec![whole, tenths * (BASE / 10)], 1)
    }

    pub fn of(long: &Long) -> Var {
        let weight = if long.digits.is_empty() { 0 } else { long.weight };
        Var { negative: long.negative, digits: long.digits.to_vec(), weight, scale: long.scale.into() }
    }

    pub fn new(negative: bool, weight: i32, mut digits: Vec<u16>, scale: i32) -> Var {
        let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
        digits.drain(..zeros);
        while digits.last() == Some(&0) {
            digits.pop();
        }
        match digits.is_empty() {
            true => Var::zero(scale),
            false => Var { negative, digits, weight: weight - zeros as i32, scale },
        }
    }

    /// The value as a numeric. The scale must be within the limits of numerics.
    pub fn numeric(self) -> Numeric {
        Numeric::from_digits(self.negative, self.weight, Digits::new(&self.digits), self.scale as u16)
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_whole(&self) -> bool {
        self.digits.len() as i32 <= self.weight + 1
    }

    /// Whether the value is odd. It must be an integer.
    pub fn is_odd(&self) -> bool {
        self.digits.len() as i32 == self.weight + 1 && self.digits.last().is_some_and(|digit| digit % 2 == 1)
    }

    /// The value in double precision, as `strtod` would read its text: infinite if the value is too large, zero if it
    /// is too small.
    pub fn to_f64(&self) -> f64 {
        let mut text = String::with_capacity(self.digits.len() * 4 + 16);
        if self.negative {
            text.push('-');
        }
        for digit in &self.digits {
            text.push_str(&format!("{digit:04}"));
        }
        let exponent = (self.weight + 1 - self.digits.len() as i32) * DECIMALS;
        format!("{text}0e{}", exponent - 1).parse().unwrap_or(0.0)
    }

    pub fn compare(&self, other: &Var) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
        }
    }

    fn compare_magnitude(&self, other: &Var) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (false, false) => self.weight.cmp(&other.weight).then_with(|| self.digits.cmp(&other.digits)),
            (self_zero, other_zero) => other_zero.cmp(&self_zero),
        }
    }

    pub fn plus(&self, other: &Var) -> Var {
        let scale = self.scale.max(other.scale);
        let subtract = self.negative != other.negative;
        let (large, small) = match self.compare_magnitude(other) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        if small.is_zero() {
            return Var { scale, ..large.clone() };
        }
        let bottom = |var: &Var| var.weight - var.digits.len() as i32 + 1;
        // The sum may have one digit more than the larger value, because of a carry.
        let (top, last) = (large.weight + 1, bottom(large).min(bottom(small)));
        let mut sum = vec![0i32; (top - last + 1) as usize];
        let at = |var: &Var| (top - var.weight) as usize;
        for (sum, &digit) in sum[at(large)..].iter_mut().zip(&large.digits) {
            *sum = digit.into();
        }
        for (sum, &digit) in sum[at(small)..].iter_mut().zip(&small.digits) {
            *sum += if subtract { -i32::from(digit) } else { digit.into() };
        }
        let mut carry = 0;
        let mut digits = vec![0; sum.len()];
        for (digit, sum) in digits.iter_mut().zip(&sum).rev() {
            let with = sum + carry;
            carry = with.div_euclid(BASE.into());
            *digit = with.rem_euclid(BASE.into()) as u16;
        }
        Var::new(large.negative, top, digits, scale)
    }

    pub fn minus(&self, other: &Var) -> Var {
        self.plus(&Var { negative: !other.negative, ..other.clone() })
    }

    /// The product, rounded to a scale. Digits of the operands that lie far beyond the scale are ignored.
    pub fn times(&self, other: &Var, scale: i32) -> Var {
        if self.is_zero() || other.is_zero() {
            return Var::zero(scale);
        }
        let weight = self.weight + other.weight + 2;
        let wanted = weight + 1 + (scale + DECIMALS - 1) / DECIMALS + PRODUCT_GUARDS;
        let count = (self.digits.len() as i32 + other.digits.len() as i32 + 1).min(wanted);
        if count < 3 {
            return Var::zero(scale);
        }
        let mut sums = vec![0u64; count as usize];
        for (i, &a) in self.digits.iter().enumerate().take(count as usize - 2) {
            // Products of later digits lie beyond the guard digits, so they are left out.
            for (sum, &b) in sums[i + 2..].iter_mut().zip(&other.digits) {
                *sum += u64::from(a) * u64::from(b);
            }
        }
        let mut carry = 0;
        let mut digits = vec![0; sums.len()];
        for (digit, sum) in digits.iter_mut().zip(&sums).rev() {
            let with = sum + carry;
            carry = with / u64::from(BASE);
            *digit = (with % u64::from(BASE)) as u16;
        }
        rounded(self.negative != other.negative, weight, digits, scale)
    }

    /// The quotient by a small integer, rounded to a scale.
    pub fn over_small(&self, divisor: u32, scale: i32) -> Var {
        self.over_digits(divisor, 0, scale)
    }

    /// The quotient by `divisor` * 10000^`divisor_weight`, rounded to a scale.
    fn over_digits(&self, divisor: u32, divisor_weight: i32, scale: i32) -> Var {
        if self.is_zero() {
            return Var::zero(scale);
        }
        let weight = self.weight - divisor_weight;
        let count = (weight + 1 + (scale + DECIMALS - 1) / DECIMALS).max(1) + 1;
        let mut rest = 0u64;
        let digit = |i: i32| {
            rest = rest * u64::from(BASE) + u64::from(self.digits.get(i as usize).copied().unwrap_or(0));
            let digit = rest / u64::from(divisor);
            rest %= u64::from(divisor);
            digit as u16
        };
        rounded(self.negative, weight, (0..count).map(digit).collect(), scale)
    }

    /// The quotient, rounded to a scale. The divisor must not be zero. The quotient's digits are estimated, a few more
    /// of them than the scale needs.
    pub fn over(&self, divisor: &Var, scale: i32) -> Var {
        let negative = self.negative != divisor.negative;
        match divisor.digits[..] {
            [one] => return self.over_digits(one.into(), divisor.weight, scale).signed(negative),
            [one, two] => {
                let both = u32::from(one) * u32::from(BASE) + u32::from(two);
                return self.over_digits(both, divisor.weight - 1, scale).signed(negative);
            }
            _ => {}
        }
        if self.is_zero() {
            return Var::zero(scale);
        }
        let weight = self.weight - divisor.weight + 1;
        let wanted = weight + 1 + (scale + DECIMALS - 1) / DECIMALS + QUOTIENT_GUARDS;
        let digits = estimated_quotient(&self.digits, &divisor.digits, wanted.max(QUOTIENT_GUARDS) as usize);
        rounded(negative, weight, digits, scale)
    }

    /// The reciprocal, exactly rounded to `scale`, which must be within the limits of numerics.
    pub fn inverse(&self, scale: i32) -> Result<Var, Error> {
        let long = |var: &Var| Long {
            negative: var.negative,
            digits: Digits::new(&var.digits),
            weight: var.weight,
            scale: var.scale as u16,
        };
        let quotient = long(&Var::small(1)).over(&long(self), scale as u16, true)?;
        Ok(quotient.long().map_or(Var::zero(scale), |quotient| Var::of(&quotient)))
    }

    pub fn signed(self, negative: bool) -> Var {
        Var { negative: negative && !self.is_zero(), ..self }
    }

    /// The value, rounded half away from zero to a scale.
    pub fn round(self, scale: i32) -> Var {
        rounded(self.negative, self.weight, self.digits, scale)
    }
}

/// Rounds half away from zero, to `scale` decimal digits behind the point.
fn rounded(negative: bool, weight: i32, mut digits: Vec<u16>, scale: i32) -> Var {
    // The number of decimal digits that remain, counted from the beginning of the first base-10000 digit.
    let stay = (weight + 1) * DECIMALS + scale;
    if stay < 0 {
        return Var::zero(scale);
    }
    let (whole, part) = ((stay / DECIMALS) as usize, (stay % DECIMALS) as u32);
    let Some(&digit) = digits.get(whole) else { return Var::new(negative, weight, digits, scale) };
    let unit = BASE / 10u16.pow(part);
    let lost = digit % unit;
    digits.truncate(whole + 1);
    digits[whole] = digit - lost;
    // There is a digit in front for a carry.
    digits.insert(0, 0);
    let mut carry = if lost >= unit / 2 { unit } else { 0 };
    for digit in digits.iter_mut().rev() {
        let sum = *digit + carry;
        carry = u16::from(sum >= BASE);
        *digit = if carry == 1 { sum - BASE } else { sum };
    }
    Var::new(negative, weight + 1, digits, scale)
}

/// The first `count` + 1 digits of the quotient of two numbers below one. Each digit is estimated with floats, and may
/// be too large or too small by one. The digits after it then compensate for that, so only the last digit is uncertain.
fn estimated_quotient(dividend: &[u16], divisor: &[u16], count: usize) -> Vec<u16> {
    const BASE: i32 = crate::digits::BASE as i32;
    /// The greatest sum of estimated digits for which no element of `rest` can overflow. When it is reached, carries
    /// are resolved.
    const LIMIT: i32 = (i32::MAX - i32::MAX / BASE - 1) / (BASE - 1);
    let mut rest = vec![0i32; count + 1];
    for (rest, &digit) in rest[1..].iter_mut().zip(dividend) {
        *rest = digit.into();
    }
    let first = |digits: &mut dyn Iterator<Item = f64>| {
        (0..4).fold(0.0, |value, _| value * f64::from(BASE) + digits.next().unwrap_or(0.0))
    };
    let inverse = 1.0 / first(&mut divisor.iter().map(|&digit| f64::from(digit)));
    let estimate = |rest: &[i32]| below(first(&mut rest.iter().map(|&digit| f64::from(digit))) * inverse);
    let mut largest = 1;
    for at in 0..count {
        let mut digit = estimate(&rest[at..]);
        if digit != 0 {
            largest += digit.abs();
            if largest > LIMIT {
                let touched = (at + divisor.len()).saturating_sub(2).min(count);
                let mut carry = 0;
                for rest in rest[at + 1..=touched.max(at)].iter_mut().rev() {
                    let sum = *rest + carry;
                    carry = sum.div_euclid(BASE);
                    *rest = sum.rem_euclid(BASE);
                }
                rest[at] += carry;
                digit = estimate(&rest[at..]);
                largest = 1 + digit.abs();
            }
            for (rest, &d) in rest[at..].iter_mut().zip(divisor) {
                *rest -= digit * i32::from(d);
            }
        }
        rest[at + 1] = rest[at + 1].wrapping_add(rest[at].wrapping_mul(BASE));
        rest[at] = digit;
    }
    rest[count] = estimate(&rest[count..]);
    let mut carry = 0;
    let mut digits = vec![0; rest.len()];
    for (digit, rest) in digits.iter_mut().zip(&rest).rev() {
        let sum = rest + carry;
        carry = sum.div_euclid(BASE);
        *digit = sum.rem_euclid(BASE) as u16;
    }
    digits
}

/// The integer below a value: rounds down, but decreases negative integers by one.
fn below(value: f64) -> i32 {
    if value >= 0.0 { value as i32 } else { value as i32 - 1 }
}
