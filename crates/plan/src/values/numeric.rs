//! Conversion between PostgreSQL's stored numerics and scaled integers.
//!
//! The stored form, after the length of a varlena, is a header word (sign, display scale, weight) and base-10000
//! digits. The most significant digit comes first, and each is in the machine's byte order; digit `i` is multiplied by
//! 10000^(weight - i). Zero digits at either end are not stored. 38 decimal digits always fit the short form of the
//! header.

/// 10^38, which exceeds every Decimal128.
const LIMIT_128: i128 = 10i128.pow(38);
const LIMIT_64: i128 = 10i128.pow(18);

const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT_MASK: u16 = 0x003F;

/// The greatest number of base-10000 digits that 39 decimal digits can touch.
const GROUPS: usize = 11;

/// value * 10^scale. `None` if the value is not finite, has more decimal places than `scale`, or more than 38 digits in
/// total.
///
/// `bytes` is a numeric's content after its length.
pub fn scaled(bytes: &[u8], scale: u8) -> Option<i128> {
    let word = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let header = word(0)?;
    let (negative, weight, digits) = match header & SIGN_MASK {
        SPECIAL => return None,
        SHORT => {
            let magnitude = (header & SHORT_WEIGHT_MASK) as i32;
            let weight = if header & SHORT_WEIGHT_SIGN != 0 { magnitude - 64 } else { magnitude };
            (header & SHORT_NEGATIVE != 0, weight, &bytes[2..])
        }
        sign => (sign == NEGATIVE, word(2)? as i16 as i32, bytes.get(4..)?),
    };
    let mut value: i128 = 0;
    // The power of ten by which the current base-10000 digit is multiplied in the scaled value.
    let mut exponent = weight * 4 + scale as i32;
    for digit in digits.chunks_exact(2) {
        let digit = u16::from_ne_bytes([digit[0], digit[1]]) as i128;
        if exponent >= 0 {
            value = value.checked_mul(10_000)?.checked_add(digit)?;
        } else {
            // Some or all of the four decimal digits in this base-10000 digit lie beyond the scale.
            let kept = (4 + exponent).max(0) as u32;
            let cut = 10i128.pow(4 - kept);
            if digit % cut != 0 {
                return None;
            }
            value = value.checked_mul(10i128.pow(kept))?.checked_add(digit / cut)?;
        }
        exponent -= 4;
    }
    // The base-10000 digits at the end are zero, so PostgreSQL did not store them.
    let missing = exponent + 4;
    if missing > 0 && value != 0 {
        value = value.checked_mul(10i128.checked_pow(missing as u32)?)?;
    }
    (value < LIMIT_128).then_some(if negative { -value } else { value })
}

/// Like [`scaled`], but `None` if the value has more than 18 digits.
pub fn scaled_64(bytes: &[u8], scale: u8) -> Option<i64> {
    scaled(bytes, scale).filter(|v| v.abs() < LIMIT_64).map(|v| v as i64)
}

/// A numeric without its varlena header.
pub struct Encoded {
    words: [[u8; 2]; GROUPS + 1],
    used: usize,
}

impl Encoded {
    pub fn bytes(&self) -> &[u8] {
        self.words[..self.used].as_flattened()
    }
}

/// The numeric `value` / 10^`scale`, with display scale `scale`.
pub fn encode(value: i128, scale: u8) -> Encoded {
    let mut digits = [0u16; GROUPS];
    let (first, last, weight) = match u64::try_from(value.unsigned_abs()) {
        Ok(small) => split_small(small, scale, &mut digits),
        Err(_) => split(value.unsigned_abs(), scale, &mut digits),
    };
    let mut header = SHORT | (scale as u16) << SHORT_SCALE_SHIFT;
    if first < last {
        if value < 0 {
            header |= SHORT_NEGATIVE;
        }
        if weight < 0 {
            header |= SHORT_WEIGHT_SIGN;
        }
        header |= weight as u16 & SHORT_WEIGHT_MASK;
    }
    let mut encoded = Encoded { words: [[0; 2]; GROUPS + 1], used: 1 + last - first };
    encoded.words[0] = header.to_ne_bytes();
    for (word, digit) in encoded.words[1..].iter_mut().zip(&digits[first..last]) {
        *word = digit.to_ne_bytes();
    }
    encoded
}

macro_rules! splitter {
    ($name:ident, $int:ty) => {
        /// Splits a number into base-10000 digits, right-aligned in `digits`. Returns the range of the digits without
        /// the zeros at either end, and the weight of the range's first digit.
        fn $name(mut rest: $int, scale: u8, digits: &mut [u16; GROUPS]) -> (usize, usize, i32) {
            let mut at = GROUPS;
            // If the scale is not a multiple of four, zeros fill the last base-10000 digit up to four decimal digits.
            let odd = scale % 4;
            if odd != 0 {
                let unit = (10 as $int).pow(odd as u32);
                at -= 1;
                digits[at] = (rest % unit) as u16 * 10u16.pow(4 - odd as u32);
                rest /= unit;
            }
            while rest != 0 {
                at -= 1;
                digits[at] = (rest % 10_000) as u16;
                rest /= 10_000;
            }
            let fraction_groups = scale.div_ceil(4) as i32;
            let weight = (GROUPS - at) as i32 - fraction_groups - 1;
            let zeros = digits[at..].iter().take_while(|&&d| d == 0).count();
            let last = GROUPS - digits[at..].iter().rev().take_while(|&&d| d == 0).count();
            (at + zeros, last.max(at + zeros), weight - zeros as i32)
        }
    };
}

splitter!(split_small, u64);
splitter!(split, u128);

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn known_values_have_postgresqls_bytes() {
        // Header word, then the digits, packed as the server packs them.
        assert_eq!(encode(12345, 2).bytes(), words(&[0x8100, 123, 4500]));
        assert_eq!(encode(-12345, 2).bytes(), words(&[0xA100, 123, 4500]));
        assert_eq!(encode(0, 3).bytes(), words(&[0x8180]));
        assert_eq!(encode(5, 6).bytes(), words(&[0x8300 | 0x40 | 0x3e, 500]));
        assert_eq!(encode(10_000, 0).bytes(), words(&[0x8001, 1]));
    }

    #[test]
    fn the_long_header_is_read_too() {
        assert_eq!(scaled(&words(&[NEGATIVE | 2, 0, 123, 4500]), 2), Some(-12345));
        assert_eq!(scaled(&words(&[2, 0xffff, 4500]), 2), Some(45));
    }

    #[test]
    fn what_is_stored_is_read_back() {
        let mut state = 1u128;
        let mut random = move || {
            state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
            state ^ state >> 64
        };
        for i in 0..200_000u32 {
            let digits = i % 39;
            let scale = (random() % 39) as u8;
            let mut value = (random() % 10u128.pow(digits).max(2)) as i128;
            if random() % 4 == 0 {
                value -= value % 10i128.pow(digits / 2);
            }
            let value = if random() % 2 == 0 { value } else { -value };
            assert_eq!(scaled(encode(value, scale).bytes(), scale), Some(value), "{value} scale {scale}");
        }
        for value in [LIMIT_128 - 1, 1 - LIMIT_128, 1, -1, 9999, 10_000, 99_999_999] {
            for scale in 0..=38 {
                assert_eq!(scaled(encode(value, scale).bytes(), scale), Some(value), "{value} scale {scale}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(scaled(&words(&[SPECIAL]), 2), None);
        assert_eq!(scaled(encode(LIMIT_128, 0).bytes(), 0), None);
        assert_eq!(scaled(encode(LIMIT_128 / 10, 0).bytes(), 1), None);
        assert_eq!(scaled(encode(125, 2).bytes(), 1), None);
        assert_eq!(scaled_64(encode(LIMIT_64, 4).bytes(), 4), None);
        assert_eq!(scaled_64(encode(1 - LIMIT_64, 4).bytes(), 4), Some((1 - LIMIT_64) as i64));
        assert_eq!(scaled(&[], 0), None);
    }
}
