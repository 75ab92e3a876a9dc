//! The key form of numerics: bytes that, compared as unsigned numbers, have the order of the values.
//!
//! The form starts with a byte for the class (negative, zero, …). If the value is finite and not zero, its weight and
//! its base-10000 digits follow, each as a word of 16 bits. The last bit of a digit's word tells whether another digit
//! follows. For negative values, all these words are inverted. A finite value ends with its display scale. All words
//! are big-endian. Equal values without trailing zeros have the same bytes.

use crate::digits::{BASE, Digits};
use crate::value::{GROUPS, Numeric, Repr, SCALE_LIMIT, spread};

const NEGATIVE_INFINITY: u8 = 0;
const NEGATIVE: u8 = 1;
const ZERO: u8 = 2;
const POSITIVE: u8 = 3;
const INFINITY: u8 = 4;
const NAN: u8 = 5;

/// An offset that makes every weight positive. The least weights are those of values with 16383 digits behind the
/// decimal point.
const WEIGHT_OFFSET: i32 = 0x4000;

impl Numeric {
    /// Reads the key form that `write_key` writes; `None` if the bytes are not in this form.
    pub fn from_key(bytes: &[u8]) -> Option<Numeric> {
        let (&class, rest) = bytes.split_first()?;
        let special = match class {
            NEGATIVE_INFINITY => Numeric::NEGATIVE_INFINITY,
            INFINITY => Numeric::INFINITY,
            NAN => Numeric::NAN,
            NEGATIVE | ZERO | POSITIVE => return finite(class, rest),
            _ => return None,
        };
        rest.is_empty().then_some(special)
    }

    /// Appends the key form.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Infinite { negative } => out.push(if *negative { NEGATIVE_INFINITY } else { INFINITY }),
            Repr::NaN => out.push(NAN),
            Repr::Small { mantissa: 0, scale } => {
                let scale = scale.to_be_bytes();
                out.extend([ZERO, scale[0], scale[1]]);
            }
            Repr::Small { mantissa, scale } => {
                let mut digits = [0; GROUPS];
                let (at, weight) = spread(mantissa.unsigned_abs(), *scale, &mut digits);
                let digits = &digits[at..];
                let zeros = digits.iter().take_while(|&&d| d == 0).count();
                let digits = &digits[zeros..];
                let used = digits.len() - digits.iter().rev().take_while(|&&d| d == 0).count();
                // The bytes are collected in an array first, so that the vector grows only once.
                let mut bytes = [[0u8; 2]; GROUPS + 3];
                let invert = if *mantissa < 0 { 0xffff } else { 0 };
                let words = words(weight - zeros as i32, &digits[..used], invert).chain([*scale]);
                let mut end = 0;
                for (place, word) in bytes.iter_mut().zip(words) {
                    *place = word.to_be_bytes();
                    end += 1;
                }
                out.reserve(2 * end + 1);
                out.push(if *mantissa < 0 { NEGATIVE } else { POSITIVE });
                out.extend_from_slice(bytes[..end].as_flattened());
            }
            Repr::Long(long) => {
                let invert = if long.negative { 0xffff } else { 0 };
                out.push(if long.negative { NEGATIVE } else { POSITIVE });
                let words = words(long.weight, &long.digits, invert).chain([long.scale]);
                out.extend(words.flat_map(u16::to_be_bytes));
            }
        }
    }
}

fn words(weight: i32, digits: &[u16], invert: u16) -> impl Iterator<Item = u16> {
    let last = digits.len() - 1;
    let digits = digits.iter().enumerate().map(move |(i, &d)| d << 1 | (i < last) as u16);
    [(weight + WEIGHT_OFFSET) as u16].into_iter().chain(digits).map(move |word| word ^ invert)
}

fn finite(class: u8, bytes: &[u8]) -> Option<Numeric> {
    let (words, []) = bytes.as_chunks::<2>() else { return None };
    let (&scale, words) = words.split_last()?;
    let scale = u16::from_be_bytes(scale);
    if scale > SCALE_LIMIT {
        return None;
    }
    if class == ZERO {
        return words.is_empty().then_some(Numeric::small(0, scale));
    }
    let invert = if class == NEGATIVE { 0xffff } else { 0 };
    let (&weight, words) = words.split_first()?;
    let weight = (u16::from_be_bytes(weight) ^ invert) as i32 - WEIGHT_OFFSET;
    let mut few = [0u16; GROUPS];
    if words.len() <= GROUPS {
        let digits = &mut few[..words.len()];
        fill(digits, words, invert)?;
        if let Some(mantissa) = crate::value::gather(digits, weight, scale)
            && let Some(mantissa) = crate::power::signed(class == NEGATIVE, mantissa)
        {
            return Some(Numeric::small(mantissa, scale));
        }
    }
    let mut digits = Digits::zeros(words.len());
    fill(&mut digits, words, invert)?;
    let value = Numeric::from_digits(class == NEGATIVE, weight, digits, scale);
    value.shows_all().then_some(value)
}

/// Reads the digits from their words. `None` if there are no digits, if a digit is too large, if the first or the last
/// digit is zero, or if the last bit of a word is wrong.
fn fill(digits: &mut [u16], words: &[[u8; 2]], invert: u16) -> Option<()> {
    let (mut wrong, mut follows) = (false, true);
    for (digit, &word) in digits.iter_mut().zip(words) {
        let word = u16::from_be_bytes(word) ^ invert;
        wrong |= !follows || word >> 1 >= BASE;
        follows = word & 1 != 0;
        *digit = word >> 1;
    }
    (!wrong && !follows && *digits.first()? != 0 && *digits.last()? != 0).then_some(())
}
