//! PostgreSQL's numeric, straight from its stored form to a scaled integer.
//!
//! Stored: a header (sign, display scale, weight) and base-10000 digits, most significant first; digit `i` counts
//! 10000^(weight - i). Trailing zero digits are not stored, so the digits behind the scale are all there is to check.

/// 10^38: what a Decimal128 can hold ends here.
const LIMIT_128: i128 = 10i128.pow(38);
const LIMIT_64: i128 = 10i128.pow(18);

const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT_MASK: u16 = 0x003F;

/// value * 10^scale, if it is finite, has no digits behind the scale, and at most 38 in all.
///
/// `bytes`: a numeric's content, behind its length header.
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
    // Power of ten of the digit at hand, once the value is scaled.
    let mut exponent = weight * 4 + scale as i32;
    for digit in digits.chunks_exact(2) {
        let digit = u16::from_ne_bytes([digit[0], digit[1]]) as i128;
        if exponent >= 0 {
            value = value.checked_mul(10_000)?.checked_add(digit)?;
        } else {
            // The scale cuts through this group of four, or lies before it.
            let kept = (4 + exponent).max(0) as u32;
            let cut = 10i128.pow(4 - kept);
            if digit % cut != 0 {
                return None;
            }
            value = value.checked_mul(10i128.pow(kept))?.checked_add(digit / cut)?;
        }
        exponent -= 4;
    }
    // Groups that were not stored because they are zero.
    let missing = exponent + 4;
    if missing > 0 && value != 0 {
        value = value.checked_mul(10i128.checked_pow(missing as u32)?)?;
    }
    (value < LIMIT_128).then_some(if negative { -value } else { value })
}

/// As [`scaled`], with at most 18 digits.
pub fn scaled_64(bytes: &[u8], scale: u8) -> Option<i64> {
    scaled(bytes, scale).filter(|v| v.abs() < LIMIT_64).map(|v| v as i64)
}
