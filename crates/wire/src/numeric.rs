//! The text of numerics, from the form in which PostgreSQL stores them (described in `plan::numeric`).

use crate::integer::{four, unsigned};

const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const SCALE_MASK: u16 = 0x3FFF;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_MASK: u16 = 0x1F80;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT_MASK: u16 = 0x003F;

/// A stored numeric whose value is finite.
pub struct Stored<'a> {
    negative: bool,
    /// The weight of the first digit: it is multiplied by 10000^weight.
    weight: i16,
    /// The number of decimal digits that are shown behind the point.
    scale: u16,
    /// The base-10000 digits, each in the machine's byte order.
    digits: &'a [[u8; 2]],
}

impl<'a> Stored<'a> {
    /// Reads a stored numeric without its length. `None` if it is NaN, infinite, or incomplete.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Stored<'a>> {
        let (words, _) = bytes.as_chunks::<2>();
        let (&header, rest) = words.split_first()?;
        let header = u16::from_ne_bytes(header);
        Some(match header & SIGN_MASK {
            SPECIAL => return None,
            SHORT => {
                let magnitude = (header & SHORT_WEIGHT_MASK) as i16;
                Stored {
                    negative: header & SHORT_NEGATIVE != 0,
                    weight: if header & SHORT_WEIGHT_SIGN != 0 { magnitude - 64 } else { magnitude },
                    scale: (header & SHORT_SCALE_MASK) >> SHORT_SCALE_SHIFT,
                    digits: rest,
                }
            }
            sign => {
                let (&weight, digits) = rest.split_first()?;
                Stored {
                    negative: sign == NEGATIVE,
                    weight: i16::from_ne_bytes(weight),
                    scale: header & SCALE_MASK,
                    digits,
                }
            }
        })
    }

    /// The digit with an index, counted from the first stored digit; 0 if there is no stored digit with that index.
    #[inline]
    fn digit(&self, at: i32) -> u32 {
        usize::try_from(at).ok().and_then(|at| self.digits.get(at)).map_or(0, |&digit| u16::from_ne_bytes(digit).into())
    }

    pub fn text_room(&self) -> usize {
        // The sign, four decimal digits for each base-10000 digit before the point (at least one), the point, and the
        // decimal digits behind it. The last base-10000 digit is written completely, so three more decimal digits may
        // come.
        1 + 4 * (i32::from(self.weight) + 1).max(1) as usize + 1 + usize::from(self.scale) + 3
    }

    #[inline]
    pub fn text(&self, out: &mut [u8]) -> usize {
        let mut end = 0;
        if self.negative {
            out[0] = b'-';
            end = 1;
        }
        let weight = i32::from(self.weight);
        end += unsigned(if weight < 0 { 0 } else { self.digit(0).into() }, &mut out[end..]);
        for at in 1..=weight {
            out[end..end + 4].copy_from_slice(&four(self.digit(at)));
            end += 4;
        }
        if self.scale == 0 {
            return end;
        }
        out[end] = b'.';
        end += 1;
        let last = end + usize::from(self.scale);
        let mut at = weight + 1;
        while end < last {
            out[end..end + 4].copy_from_slice(&four(self.digit(at)));
            end += 4;
            at += 1;
        }
        last
    }

    pub fn binary_room(&self) -> usize {
        2 * (4 + self.digits.len())
    }

    #[inline]
    pub fn binary(&self, out: &mut [u8]) -> usize {
        let sign = if self.negative { NEGATIVE } else { 0 };
        let head = [self.digits.len() as u16, self.weight as u16, sign, self.scale];
        let (words, _) = out.as_chunks_mut::<2>();
        let digits = self.digits.iter().map(|&digit| u16::from_ne_bytes(digit));
        for (word, value) in words.iter_mut().zip(head.into_iter().chain(digits)) {
            *word = value.to_be_bytes();
        }
        self.binary_room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(words: &[u16]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn short(negative: bool, scale: u16, weight: i16, digits: &[u16]) -> Vec<u8> {
        let sign = if negative { SHORT_NEGATIVE } else { 0 };
        let below = if weight < 0 { SHORT_WEIGHT_SIGN } else { 0 };
        let header = SHORT | sign | scale << SHORT_SCALE_SHIFT | below | weight as u16 & SHORT_WEIGHT_MASK;
        stored(&[&[header], digits].concat())
    }

    fn text(bytes: &[u8]) -> String {
        let stored = Stored::new(bytes).unwrap();
        let mut out = vec![0; stored.text_room()];
        let length = stored.text(&mut out);
        String::from_utf8(out[..length].to_vec()).unwrap()
    }

    #[test]
    fn as_text() {
        for (bytes, shown) in [
            (short(false, 0, 0, &[]), "0"),
            (short(false, 2, 0, &[]), "0.00"),
            (short(false, 5, 0, &[]), "0.00000"),
            (short(false, 0, 0, &[42]), "42"),
            (short(true, 2, 0, &[42, 5000]), "-42.50"),
            (short(false, 0, 1, &[1]), "10000"),
            (short(false, 1, 2, &[7, 0, 9, 5000]), "700000009.5"),
            (short(false, 4, -1, &[1]), "0.0001"),
            (short(true, 10, -2, &[1234, 5600]), "-0.0000123456"),
            (short(false, 9, -2, &[1234]), "0.000012340"),
            (stored(&[NEGATIVE | 3, 1, 12, 3456, 7890]), "-123456.789"),
            (stored(&[100, 0, 1]), &format!("1.{}", "0".repeat(100))),
        ] {
            assert_eq!(text(&bytes), shown);
        }
    }

    #[test]
    fn in_binary() {
        let bytes = short(true, 2, 1, &[1, 2, 5000]);
        let stored = Stored::new(&bytes).unwrap();
        let mut out = vec![0; stored.binary_room()];
        assert_eq!(stored.binary(&mut out), out.len());
        assert_eq!(out, [0, 3, 0, 1, 0x40, 0, 0, 2, 0, 1, 0, 2, 0x13, 0x88]);
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for bytes in [stored(&[0xC000]), stored(&[0xD000]), stored(&[0xF000]), vec![], stored(&[3])] {
            assert!(Stored::new(&bytes).is_none());
        }
    }
}
