//! Dates and timestamps as text in DateStyle ISO. As in PostgreSQL, they are counted from the beginning of 2000.

use crate::days::civil;
use crate::integer::{four, pair, unsigned};

/// The number of bytes that any date or timestamp needs.
pub const ROOM: usize = 64;

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

#[inline]
pub fn date(days: i32, out: &mut [u8]) -> usize {
    match days {
        i32::MAX => put(out, 0, b"infinity"),
        i32::MIN => put(out, 0, b"-infinity"),
        _ => {
            let (is_bc, end) = day(i64::from(days), out);
            era(is_bc, out, end)
        }
    }
}

/// Writes a timestamp. For a timestamptz, `east` is the offset of the session's zone from UTC at that time, in seconds.
#[inline]
pub fn timestamp(micros: i64, east: Option<i32>, out: &mut [u8]) -> usize {
    match micros {
        i64::MAX => return put(out, 0, b"infinity"),
        i64::MIN => return put(out, 0, b"-infinity"),
        _ => {}
    }
    let local = micros + east.map_or(0, |east| i64::from(east) * SECOND);
    let (is_bc, end) = day(local.div_euclid(DAY), out);
    let end = put(out, end, b" ");
    let end = time(local.rem_euclid(DAY), out, end);
    let end = east.map_or(end, |east| zone(east, out, end));
    era(is_bc, out, end)
}

/// Writes a date without BC. Returns whether the date is before Christ, and the number of bytes written.
#[inline]
fn day(days: i64, out: &mut [u8]) -> (bool, usize) {
    let (year, month, day) = civil(days);
    let is_bc = year <= 0;
    let year = if is_bc { 1 - year } else { year } as u64;
    let end = if year < 10_000 { put(out, 0, &four(year as u32)) } else { unsigned(year, out) };
    let ([a, b], [c, d]) = (pair(month), pair(day));
    (is_bc, put(out, end, &[b'-', a, b, b'-', c, d]))
}

#[inline]
fn time(micros: i64, out: &mut [u8], at: usize) -> usize {
    let (seconds, fraction) = ((micros / SECOND) as u32, (micros % SECOND) as u32);
    let ([a, b], [c, d], [e, f]) = (pair(seconds / 3600), pair(seconds / 60 % 60), pair(seconds % 60));
    let end = put(out, at, &[a, b, b':', c, d, b':', e, f]);
    if fraction == 0 {
        return end;
    }
    let ([a, b], [c, d], [e, f]) = (pair(fraction / 10_000), pair(fraction / 100 % 100), pair(fraction % 100));
    let mut end = put(out, end, &[b'.', a, b, c, d, e, f]);
    while out[end - 1] == b'0' {
        end -= 1;
    }
    end
}

#[inline]
fn zone(east: i32, out: &mut [u8], at: usize) -> usize {
    let seconds = east.unsigned_abs();
    let [a, b] = pair(seconds / 3600);
    let mut end = put(out, at, &[if east < 0 { b'-' } else { b'+' }, a, b]);
    if !seconds.is_multiple_of(3600) {
        let [a, b] = pair(seconds / 60 % 60);
        end = put(out, end, &[b':', a, b]);
    }
    if !seconds.is_multiple_of(60) {
        let [a, b] = pair(seconds % 60);
        end = put(out, end, &[b':', a, b]);
    }
    end
}

#[inline]
fn era(is_bc: bool, out: &mut [u8], at: usize) -> usize {
    if is_bc { put(out, at, b" BC") } else { at }
}

#[inline]
fn put(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: impl FnOnce(&mut [u8]) -> usize) -> String {
        let mut out = [0; ROOM];
        let length = write(&mut out);
        String::from_utf8(out[..length].to_vec()).unwrap()
    }

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "2000-01-01"),
            (-1, "1999-12-31"),
            (59, "2000-02-29"),
            (i32::MAX, "infinity"),
            (i32::MIN, "-infinity"),
            (-730_119, "0001-01-01"),
            (-730_120, "0001-12-31 BC"),
            (-2_451_545, "4714-11-24 BC"),
            (2_145_031_948, "5874897-12-31"),
        ] {
            assert_eq!(shown(|out| date(days, out)), text);
        }
    }

    #[test]
    fn timestamps() {
        for (micros, east, text) in [
            (0, None, "2000-01-01 00:00:00"),
            (-1, None, "1999-12-31 23:59:59.999999"),
            (1_500_000, None, "2000-01-01 00:00:01.5"),
            (10, None, "2000-01-01 00:00:00.00001"),
            (i64::MAX, Some(0), "infinity"),
            (i64::MIN, None, "-infinity"),
            (0, Some(0), "2000-01-01 00:00:00+00"),
            (0, Some(-12_600), "1999-12-31 20:30:00-03:30"),
            (0, Some(3 * 3600 + 7), "2000-01-01 03:00:07+03:00:07"),
            (0, Some(-561), "1999-12-31 23:50:39-00:09:21"),
            (-211_813_488_000_000_000, None, "4714-11-24 00:00:00 BC"),
            (9_223_371_331_199_999_999, Some(50_400), "294277-01-01 13:59:59.999999+14"),
        ] {
            assert_eq!(shown(|out| timestamp(micros, east, out)), text);
        }
    }
}
