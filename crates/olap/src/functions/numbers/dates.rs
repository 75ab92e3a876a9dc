//! Dates are days since 2000-01-01; `i32::MIN` and `i32::MAX` are the infinities.

/// The first date, which has the Julian day number 0. `END` is the day after the last date.
const FIRST: i32 = -2_451_545;
const END: i32 = 2_147_483_494 - 2_451_545;
/// The day after the last timestamp.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_end_where_postgresql_ends_them() {
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
