//! Powers of ten, and integer arithmetic with intermediate results of more than 128 bits.

const POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// 10^exponent; `None` if it does not fit 128 bits.
#[inline]
pub fn ten(exponent: u32) -> Option<u128> {
    POWERS.get(exponent as usize).copied()
}

/// a * b; `None` if it does not fit 128 bits.
#[inline]
pub fn multiply(a: i128, b: i128) -> Option<i128> {
    match (i64::try_from(a), i64::try_from(b)) {
        // The product of two numbers of 64 bits is a single instruction, and cannot overflow.
        (Ok(a), Ok(b)) => Some(a as i128 * b as i128),
        _ => a.checked_mul(b),
    }
}

/// value * 10^exponent; `None` if it does not fit 128 bits.
#[inline]
pub fn shift(value: i128, exponent: u32) -> Option<i128> {
    match ten(exponent).and_then(|power| i128::try_from(power).ok()) {
        Some(power) => multiply(value, power),
        None => (value == 0).then_some(0),
    }
}

#[inline]
pub fn signed(negative: bool, magnitude: u128) -> Option<i128> {
    if negative { 0i128.checked_sub_unsigned(magnitude) } else { i128::try_from(magnitude).ok() }
}

/// Quotient and remainder. A 64-bit division is used if both operands fit, because it is faster.
#[inline]
pub fn divide(a: u128, b: u128) -> (u128, u128) {
    match (u64::try_from(a), u64::try_from(b)) {
        (Ok(a), Ok(b)) => ((a / b) as u128, (a % b) as u128),
        _ => {
            let quotient = a / b;
            (quotient, a.wrapping_sub(quotient.wrapping_mul(b)))
        }
    }
}

/// Quotient and remainder of (high * 2^128 + low) / divisor. `high` must be less than `divisor`, so that the quotient
/// fits 128 bits.
pub fn divide_wide(high: u128, low: u128, divisor: u128) -> (u128, u128) {
    debug_assert!(high < divisor);
    if high == 0 {
        return divide(low, divisor);
    }
    // Long division with digits of 64 bits. Both operands are shifted, so that the divisor's highest bit is set. Then
    // an estimated digit of the quotient is at most two too large.
    const HALF: u32 = 64;
    const MASK: u128 = u64::MAX as u128;
    let places = divisor.leading_zeros();
    let divisor = divisor << places;
    let (first, second) = (divisor >> HALF, divisor & MASK);
    let high = if places == 0 { high } else { high << places | low >> (128 - places) };
    let low = low << places;
    let digit = |rest: u128, next: u128| {
        let (mut quotient, mut remainder) = (rest / first, rest % first);
        while quotient > MASK || quotient * second > (remainder << HALF | next) {
            quotient -= 1;
            remainder += first;
            if remainder > MASK {
                break;
            }
        }
        // The remainder is less than the divisor, so the wrapping operations lose only bits that the result does not
        // have.
        let rest = (rest << HALF | next).wrapping_sub(quotient.wrapping_mul(divisor));
        (quotient, rest)
    };
    let (upper, rest) = digit(high, low >> HALF);
    let (lower, rest) = digit(rest, low & MASK);
    (upper << HALF | lower, rest >> places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_division_gives_back_what_was_multiplied() {
        let mut state = 7u128;
        let mut random = move || {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
            let bits = (state >> 120) as u32 & 127;
            (state ^ state >> 64) >> bits
        };
        let edges =
            [1, 2, u64::MAX as u128, 1 << 64, (1 << 64) + 1, 1 << 127, u128::MAX, u128::MAX - 1, u128::MAX << 64];
        for i in 0..200_000 {
            let mut pick = || if random() % 4 == 0 { edges[random() as usize % edges.len()] } else { random() };
            let (quotient, divisor) = (pick(), pick().max(1));
            let remainder = if i % 3 == 0 { divisor - 1 } else { pick() % divisor };
            let (low, high) = quotient.carrying_mul(divisor, remainder);
            assert_eq!(divide_wide(high, low, divisor), (quotient, remainder));
        }
    }
}
