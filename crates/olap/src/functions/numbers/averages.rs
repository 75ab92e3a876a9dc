//! The division of a sum by a count, as PostgreSQL's numeric does it.

use plan::AVERAGE_SCALE;

/// The number of decimal digits in one digit of PostgreSQL's numeric.
const DIGIT: u32 = 4;
const SIGNIFICANT: i32 = 16;

/// The average with [`AVERAGE_SCALE`] decimal places. Fails if PostgreSQL's average has more decimal places, or if the
/// result does not fit.
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
    // A half is rounded away from zero.
    let average = whole + u128::from(rest >= count - rest);
    let average = average.checked_mul(10u128.pow(missing.ok()?))?;
    i128::try_from(average).ok().filter(|average| *average < 10i128.pow(38))
}

/// The weight and the value of the first digit (to the base 10,000) that is not zero.
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

    /// The expected values are a server's answers to `SELECT avg(x) FROM …`.
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
