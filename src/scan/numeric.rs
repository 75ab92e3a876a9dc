//! Scaled integers as PostgreSQL's numeric, byte for byte what PostgreSQL makes of the same value and scale.
//!
//! A numeric is a sign, a display scale, a weight (of the first digit, in base 10,000, 0 standing left of the point)
//! and digits in base 10,000 without zeros at either end. 38 decimal digits always fit the short header.

const DIGITS: usize = 11;
const SHORT: u16 = 0x8000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT: u16 = 0x003f;

/// A numeric without its varlena header.
pub struct Encoded {
    words: [u16; DIGITS + 1],
    used: usize,
}

impl Encoded {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: u16 has no padding and any byte may be read.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.used * 2) }
    }
}

/// `value` / 10^`scale`, shown with `scale` digits behind the point.
pub fn encode(value: i128, scale: u8) -> Encoded {
    let mut digits = [0u16; DIGITS];
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
        header |= weight as u16 & SHORT_WEIGHT;
    }
    let mut encoded = Encoded { words: [0; DIGITS + 1], used: 1 + last - first };
    encoded.words[0] = header;
    encoded.words[1..1 + last - first].copy_from_slice(&digits[first..last]);
    encoded
}

macro_rules! splitter {
    ($name:ident, $int:ty) => {
        /// Digits in base 10,000, right-aligned; returns the range without zeros at either end, and its weight.
        fn $name(mut rest: $int, scale: u8, digits: &mut [u16; DIGITS]) -> (usize, usize, i32) {
            let mut at = DIGITS;
            // The last group behind the point may have less than four decimal digits: it is filled up with zeros.
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
            let weight = (DIGITS - at) as i32 - fraction_groups - 1;
            let zeros = digits[at..].iter().take_while(|&&d| d == 0).count();
            let last = DIGITS - digits[at..].iter().rev().take_while(|&&d| d == 0).count();
            (at + zeros, last.max(at + zeros), weight - zeros as i32)
        }
    };
}

splitter!(split_small, u64);
splitter!(split, u128);
