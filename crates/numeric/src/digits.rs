//! Base-10000 digits. They are stored without a heap allocation unless there are very many.

use std::ops::{Deref, DerefMut};

/// The base of a digit.
pub const BASE: u16 = 10_000;
/// The number of decimal digits in one base-10000 digit.
pub const DECIMALS: i32 = 4;

const INLINE: usize = 20;

#[derive(Clone, Debug)]
pub enum Digits {
    Inline { used: u8, digits: [u16; INLINE] },
    Heap(Vec<u16>),
}

impl Digits {
    #[inline]
    pub fn zeros(count: usize) -> Digits {
        if count <= INLINE {
            Digits::Inline { used: count as u8, digits: [0; INLINE] }
        } else {
            Digits::Heap(vec![0; count])
        }
    }

    #[inline]
    pub fn new(from: &[u16]) -> Digits {
        if from.len() <= INLINE {
            let mut digits = [0; INLINE];
            digits[..from.len()].copy_from_slice(from);
            Digits::Inline { used: from.len() as u8, digits }
        } else {
            Digits::Heap(from.to_vec())
        }
    }

    /// The digits without zeros at either end, and the number of zeros in front.
    pub fn stripped(self) -> (Digits, usize) {
        let first = self.iter().take_while(|&&d| d == 0).count();
        let last = self.len() - self[first..].iter().rev().take_while(|&&d| d == 0).count();
        match self {
            Digits::Heap(mut digits) if last - first > INLINE => {
                digits.truncate(last);
                digits.drain(..first);
                (Digits::Heap(digits), first)
            }
            whole if first == 0 && last == whole.len() => (whole, 0),
            other => (Digits::new(&other[first..last]), first),
        }
    }
}

impl Deref for Digits {
    type Target = [u16];

    #[inline]
    fn deref(&self) -> &[u16] {
        match self {
            Digits::Inline { used, digits } => &digits[..*used as usize],
            Digits::Heap(digits) => digits,
        }
    }
}

impl DerefMut for Digits {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u16] {
        match self {
            Digits::Inline { used, digits } => &mut digits[..*used as usize],
            Digits::Heap(digits) => digits,
        }
    }
}
