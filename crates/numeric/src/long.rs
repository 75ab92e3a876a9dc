//! Arithmetic with base-10000 digits, for values that do not fit an `i128`.

use std::cmp::Ordering;

use crate::digits::{BASE, DECIMALS, Digits};
use crate::value::{Error, Long, Numeric};

const WIDE_BASE: u64 = BASE as u64;

impl Long {
    /// The weight of the last digit.
    fn bottom(&self) -> i32 {
        self.weight - self.digits.len() as i32 + 1
    }

    pub fn compare_magnitude(&self, other: &Long) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (false, false) => self.weight.cmp(&other.weight).then_with(|| self.digits.cmp(&other.digits)),
            // The value zero has no digits. If only one of the values is zero, it has the smaller magnitude.
            (self_zero, other_zero) => other_zero.cmp(&self_zero),
        }
    }

    pub fn plus(&self, other: &Long) -> Numeric {
        let scale = self.scale.max(other.scale);
        if self.digits.is_empty() || other.digits.is_empty() {
            let one = if self.digits.is_empty() { other } else { self };
            return Numeric::from_digits(one.negative, one.weight, one.digits.clone(), scale);
        }
        let subtract = self.negative != other.negative;
        let (large, small) =
            if subtract && self.compare_magnitude(other) == Ordering::Less { (other, self) } else { (self, other) };
        // The sum may have one digit more than the larger value, because of a carry.
        let weight = large.weight.max(small.weight) + 1;
        let bottom = large.bottom().min(small.bottom());
        let mut digits = Digits::zeros((weight - bottom + 1) as usize);
        let at = (weight - large.weight) as usize;
        digits[at..at + large.digits.len()].copy_from_slice(&large.digits);
        let at = (weight - small.weight) as usize;
        let (front, rest) = digits.split_at_mut(at);
        let rest = &mut rest[..small.digits.len()];
        let mut carry = 0;
        for (digit, &addend) in rest.iter_mut().zip(small.digits.iter()).rev() {
            carry = if subtract { take(digit, addend + carry) } else { give(digit, addend + carry) };
        }
        for digit in front.iter_mut().rev() {
            if carry == 0 {
                break;
            }
            carry = if subtract { take(digit, carry) } else { give(digit, carry) };
        }
        Numeric::from_digits(large.negative, weight, digits, scale)
    }

    pub fn times(&self, other: &Long) -> Numeric {
        let scale = self.scale + other.scale;
        if self.digits.is_empty() || other.digits.is_empty() {
            return Numeric::small(0, scale);
        }
        let (long, short) = if self.digits.len() < other.digits.len() { (other, self) } else { (self, other) };
        let count = long.digits.len() + short.digits.len();
        // Products of digits are summed without carries. The sums cannot overflow, because there are fewer than 2^32
        // digits.
        let mut few = [0u64; 48];
        let mut many;
        let sums = if count <= few.len() {
            &mut few[..count]
        } else {
            many = vec![0u64; count];
            &mut many[..]
        };
        for (i, &a) in short.digits.iter().enumerate() {
            for (sum, &b) in sums[i + 1..].iter_mut().zip(long.digits.iter()) {
                *sum += (a as u32 * b as u32) as u64;
            }
        }
        let mut digits = Digits::zeros(count);
        let mut carry = 0;
        for (digit, &sum) in digits.iter_mut().zip(sums.iter()).rev() {
            let sum = sum + carry;
            *digit = (sum % WIDE_BASE) as u16;
            carry = sum / WIDE_BASE;
        }
        Numeric::from_digits(self.negative != other.negative, self.weight + other.weight + 1, digits, scale)
    }

    /// The quotient with display scale `scale`. If `round`, it is rounded half away from zero; otherwise it is
    /// truncated.
    pub fn over(&self, other: &Long, scale: u16, round: bool) -> Result<Numeric, Error> {
        if other.digits.is_empty() {
            return Err(Error::DivisionByZero);
        }
        // Rounding needs at least one more decimal digit than the scale.
        let behind = if round { scale as i32 / DECIMALS + 1 } else { (scale as i32 + DECIMALS - 1) / DECIMALS };
        let weight = self.weight - other.weight;
        let count = weight + 1 + behind;
        if self.digits.is_empty() || count <= 0 {
            return Ok(Numeric::small(0, scale));
        }
        let quotient = divide(&self.digits, &other.digits, count as usize);
        let negative = self.negative != other.negative;
        let (digits, zeros) = quotient.stripped();
        let quotient = Long { negative, digits, weight: weight - zeros as i32, scale };
        Ok(quotient.cut(scale as i32, round))
    }

    /// The value with `places` decimal digits behind the point. If `places` is negative, that many digits before the
    /// point become zero. If `round`, the value is rounded half away from zero; otherwise it is truncated.
    pub fn cut(&self, places: i32, round: bool) -> Numeric {
        let scale = places.max(0) as u16;
        // The number of decimal digits that remain, counted from the beginning of the first base-10000 digit.
        let stay = (self.weight + 1) * DECIMALS + places;
        if stay < 0 || self.digits.is_empty() {
            return Numeric::small(0, scale);
        }
        let (whole, part) = ((stay / DECIMALS) as usize, (stay % DECIMALS) as u32);
        let Some(&digit) = self.digits.get(whole) else {
            return Numeric::from_digits(self.negative, self.weight, self.digits.clone(), scale);
        };
        let unit = BASE / 10u16.pow(part);
        let lost = digit % unit;
        // There is a digit in front for a carry.
        let mut digits = Digits::zeros(whole + 2);
        digits[1..=whole].copy_from_slice(&self.digits[..whole]);
        digits[whole + 1] = digit - lost;
        let mut carry = if round && lost >= unit / 2 { unit } else { 0 };
        for digit in digits.iter_mut().rev() {
            if carry == 0 {
                break;
            }
            carry = give(digit, carry);
        }
        Numeric::from_digits(self.negative, self.weight + 1, digits, scale)
    }
}

/// Adds to a digit, and returns the carry.
#[inline]
fn give(digit: &mut u16, addend: u16) -> u16 {
    let sum = *digit + addend;
    let carry = sum >= BASE;
    *digit = if carry { sum - BASE } else { sum };
    carry as u16
}

/// Subtracts from a digit, and returns the borrow.
#[inline]
fn take(digit: &mut u16, subtrahend: u16) -> u16 {
    let borrow = *digit < subtrahend;
    *digit = if borrow { *digit + BASE - subtrahend } else { *digit - subtrahend };
    borrow as u16
}

/// The first `count` digits of a quotient. If the first digit of `divisor` has weight 0, the first digit of the
/// quotient has the weight of the first digit of `dividend`.
fn divide(dividend: &[u16], divisor: &[u16], count: usize) -> Digits {
    let mut quotient = Digits::zeros(count);
    if let [divisor] = *divisor {
        let mut rest = 0u32;
        for (i, digit) in quotient.iter_mut().enumerate() {
            rest = rest * BASE as u32 + dividend.get(i).copied().unwrap_or(0) as u32;
            *digit = (rest / divisor as u32) as u16;
            rest %= divisor as u32;
        }
        return quotient;
    }
    // Knuth's algorithm D. Both operands are multiplied by the same factor, so that the divisor's first digit is at
    // least half the base. Then an estimated digit of the quotient is at most two too large.
    let factor = BASE as u32 / (divisor[0] as u32 + 1);
    let divisor = scaled(divisor, divisor.len(), factor);
    // `scaled` puts a digit for a carry in front. The divisor has no carry, so that digit is zero.
    let divisor = &divisor[1..];
    let mut rest = scaled(dividend, count + divisor.len() - 1, factor);
    let (first, second) = (divisor[0] as i64, divisor[1] as i64);
    for (i, digit) in quotient.iter_mut().enumerate() {
        let rest = &mut rest[i..=i + divisor.len()];
        let front = rest[0] as i64 * BASE as i64 + rest[1] as i64;
        let (mut estimate, mut remainder) = (front / first, front % first);
        while estimate >= BASE as i64 || estimate * second > remainder * BASE as i64 + rest[2] as i64 {
            estimate -= 1;
            remainder += first;
            if remainder >= BASE as i64 {
                break;
            }
        }
        if estimate == 0 {
            continue;
        }
        if subtract_multiple(rest, divisor, estimate as i32) {
            estimate -= 1;
            let mut carry = 0;
            for (rest, &d) in rest[1..].iter_mut().zip(divisor).rev() {
                let sum = *rest + d + carry;
                carry = (sum >= BASE as i32) as i32;
                *rest = sum - carry * BASE as i32;
            }
            rest[0] += carry;
        }
        *digit = estimate as u16;
    }
    quotient
}

/// Multiplies digits by a factor below the base. The result has a digit for a carry, and then `count` digits. If there
/// are fewer digits than `count`, zeros follow; if there are more, they are cut off, because they cannot change the
/// digits of a quotient.
fn scaled(digits: &[u16], count: usize, factor: u32) -> Vec<i32> {
    let mut product = vec![0i32; count + 1];
    let used = digits.len().min(count);
    let mut carry = 0;
    for (product, &digit) in product[1..=used].iter_mut().zip(digits).rev() {
        let sum = digit as u32 * factor + carry;
        *product = (sum % BASE as u32) as i32;
        carry = sum / BASE as u32;
    }
    product[0] = carry as i32;
    product
}

/// Subtracts divisor * factor from `rest`. Returns whether the result is negative. If it is, the borrow has not been
/// taken from the first digit of `rest`.
fn subtract_multiple(rest: &mut [i32], divisor: &[i32], factor: i32) -> bool {
    let mut borrow = 0;
    for (rest, &d) in rest[1..].iter_mut().zip(divisor).rev() {
        let difference = *rest - d * factor - borrow;
        borrow = -difference.div_euclid(BASE as i32);
        *rest = difference.rem_euclid(BASE as i32);
    }
    rest[0] -= borrow;
    rest[0] < 0
}
