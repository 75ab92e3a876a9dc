//! The form in which PostgreSQL stores numerics, without the varlena's length. All words have the machine's byte order.
//! The form begins with a header word for sign, display scale and weight; if these do not fit one word, with two words.
//! The base-10000 digits follow, the most significant first.

use crate::digits::{BASE, DECIMALS, Digits};
use crate::value::{GROUPS, Long, Numeric, Repr, spread};

const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;

const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

const SCALE_MASK: u16 = 0x3FFF;

const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_SCALE_MASK: u16 = 0x003F;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT_MASK: u16 = 0x003F;

impl Numeric {
    /// Reads PostgreSQL's stored form, without the varlena's length. `None` if it is malformed.
    pub fn from_stored(bytes: &[u8]) -> Option<Numeric> {
        let (words, []) = bytes.as_chunks::<2>() else { return None };
        let (&header, words) = words.split_first()?;
        let header = u16::from_ne_bytes(header);
        let (negative, scale, weight, words) = match header & SIGN_MASK {
            SPECIAL if !words.is_empty() => return None,
            SPECIAL => {
                return match header {
                    NAN => Some(Numeric::NAN),
                    INFINITY => Some(Numeric::INFINITY),
                    NEGATIVE_INFINITY => Some(Numeric::NEGATIVE_INFINITY),
                    _ => None,
                };
            }
            SHORT => {
                let magnitude = (header & SHORT_WEIGHT_MASK) as i32;
                let weight = if header & SHORT_WEIGHT_SIGN != 0 { magnitude - 64 } else { magnitude };
                let scale = header >> SHORT_SCALE_SHIFT & SHORT_SCALE_MASK;
                (header & SHORT_NEGATIVE != 0, scale, weight, words)
            }
            sign => {
                let (&weight, words) = words.split_first()?;
                (sign == NEGATIVE, header & SCALE_MASK, i16::from_ne_bytes(weight) as i32, words)
            }
        };
        let mut few = [0u16; GROUPS];
        if words.len() <= GROUPS {
            let digits = &mut few[..words.len()];
            fill(digits, words)?;
            // Nearly all values fit this form; the code below handles the other values.
            if let Some(mantissa) = crate::value::gather(digits, weight, scale)
                && let Some(mantissa) = crate::power::signed(negative, mantissa)
            {
                return Some(Numeric::small(mantissa, scale));
            }
        }
        let mut digits = Digits::zeros(words.len());
        fill(&mut digits, words)?;
        let value = Numeric::from_digits(negative, weight, digits, scale);
        value.shows_all().then_some(value)
    }

    /// Whether the display scale shows all digits of the value.
    pub(crate) fn shows_all(&self) -> bool {
        let Repr::Long(long) = &self.0 else { return true };
        let Some(&last) = long.digits.last() else { return true };
        let behind = (long.digits.len() as i32 - 1 - long.weight) * DECIMALS - long.scale as i32;
        behind <= 0 || (behind < DECIMALS && last % 10u16.pow(behind as u32) == 0)
    }

    /// Appends PostgreSQL's stored form, without the varlena's length.
    pub fn write_stored(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::NaN => out.extend(NAN.to_ne_bytes()),
            Repr::Infinite { negative: false } => out.extend(INFINITY.to_ne_bytes()),
            Repr::Infinite { negative: true } => out.extend(NEGATIVE_INFINITY.to_ne_bytes()),
            Repr::Small { mantissa, scale } => {
                let mut digits = [0; GROUPS];
                let (at, weight) = spread(mantissa.unsigned_abs(), *scale, &mut digits);
                let digits = &digits[at..];
                let first = digits.iter().take_while(|&&d| d == 0).count();
                let digits = &digits[first..];
                let used = digits.len() - digits.iter().rev().take_while(|&&d| d == 0).count();
                write(*mantissa < 0, *scale, weight - first as i32, &digits[..used], out);
            }
            Repr::Long(Long { negative, digits, weight, scale }) => write(*negative, *scale, *weight, digits, out),
        }
    }
}

fn fill(digits: &mut [u16], words: &[[u8; 2]]) -> Option<()> {
    let mut wrong = false;
    for (digit, &word) in digits.iter_mut().zip(words) {
        *digit = u16::from_ne_bytes(word);
        wrong |= *digit >= BASE;
    }
    (!wrong).then_some(())
}

fn write(negative: bool, scale: u16, weight: i32, digits: &[u16], out: &mut Vec<u8>) {
    let weight = if digits.is_empty() { 0 } else { weight };
    if scale <= SHORT_SCALE_MASK && (-64..64).contains(&weight) {
        let mut header = SHORT | scale << SHORT_SCALE_SHIFT | weight as u16 & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT_MASK);
        if negative {
            header |= SHORT_NEGATIVE;
        }
        out.extend(header.to_ne_bytes());
    } else {
        debug_assert!(i16::try_from(weight).is_ok() && scale <= SCALE_MASK, "see Numeric::checked");
        let header = scale & SCALE_MASK | if negative { NEGATIVE } else { 0 };
        out.extend(header.to_ne_bytes());
        out.extend((weight as i16).to_ne_bytes());
    }
    out.extend(digits.iter().flat_map(|d| d.to_ne_bytes()));
}
