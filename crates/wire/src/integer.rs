//! The text of integers.

/// The number of bytes that any integer needs.
pub const ROOM: usize = 20;

/// The digits of 0 to 99.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut pair = 0;
    while pair < 100 {
        pairs[pair] = [b'0' + (pair / 10) as u8, b'0' + (pair % 10) as u8];
        pair += 1;
    }
    pairs
};

/// The two digits of a number below 100.
#[inline]
pub(crate) fn pair(number: u32) -> [u8; 2] {
    PAIRS[number as usize]
}

/// The four digits of a number below 10,000.
#[inline]
pub(crate) fn four(number: u32) -> [u8; 4] {
    let ([a, b], [c, d]) = (pair(number / 100), pair(number % 100));
    [a, b, c, d]
}

#[inline]
pub fn signed(value: i64, out: &mut [u8]) -> usize {
    if value < 0 {
        out[0] = b'-';
        return 1 + unsigned(value.unsigned_abs(), &mut out[1..]);
    }
    unsigned(value as u64, out)
}

#[inline]
pub fn unsigned(mut value: u64, out: &mut [u8]) -> usize {
    if value < 10 {
        out[0] = b'0' + value as u8;
        return 1;
    }
    let length = value.ilog10() as usize + 1;
    let mut end = length;
    while value >= 100 {
        out[end - 2..end].copy_from_slice(&pair((value % 100) as u32));
        value /= 100;
        end -= 2;
    }
    match end {
        1 => out[0] = b'0' + value as u8,
        _ => out[..2].copy_from_slice(&pair(value as u32)),
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: i64) -> String {
        let mut out = [0; ROOM];
        let length = signed(value, &mut out);
        String::from_utf8(out[..length].to_vec()).unwrap()
    }

    #[test]
    fn numbers_of_every_length() {
        let mut power = 1i64;
        loop {
            for value in [power - 1, power, power + 1, power / 3 * 2] {
                for value in [value, -value] {
                    assert_eq!(shown(value), value.to_string());
                }
            }
            match power.checked_mul(10) {
                Some(next) => power = next,
                None => break,
            }
        }
        for value in [i64::MAX, i64::MIN] {
            assert_eq!(shown(value), value.to_string());
        }
        let mut out = [0; ROOM];
        assert_eq!(unsigned(u64::MAX, &mut out), ROOM);
        assert_eq!(&out[..], u64::MAX.to_string().as_bytes());
    }
}
