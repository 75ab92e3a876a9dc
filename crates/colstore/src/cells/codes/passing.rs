//! Bitmaps of the rows whose codes pass a test. The results of 64 codes form one word of 64 bits.

use arrow_buffer::{BooleanBuffer, Buffer};

/// The rows whose codes pass the test, as a bitmap.
#[inline]
pub fn where_code<const N: usize>(codes: &[u8], rows: usize, passes: impl Fn([u8; N]) -> bool) -> BooleanBuffer {
    where_sixteen(codes, rows, &passes, |codes| {
        let mut flags = [0_u8; 16];
        flags.iter_mut().zip(codes).for_each(|(flag, code)| *flag = passes(*code).into());
        let (eights, _) = flags.as_chunks();
        u16::from_le_bytes([packed(eights[0]), packed(eights[1])])
    })
}

/// Like [`where_code`], for a test of sixteen codes at once. The test returns one bit per code, with the first code's
/// bit lowest.
#[inline]
pub fn where_sixteen<const N: usize>(
    codes: &[u8],
    rows: usize,
    passes: impl Fn([u8; N]) -> bool,
    sixteen: impl Fn(&[[u8; N]; 16]) -> u16,
) -> BooleanBuffer {
    where_word(codes, rows, passes, |codes| {
        let (parts, _) = codes.as_chunks::<16>();
        (0..4).fold(0, |word, part| word | u64::from(sixteen(&parts[part])) << (16 * part))
    })
}

/// Like [`where_code`], for a test of 64 codes at once.
#[inline(always)]
pub fn where_word<const N: usize>(
    codes: &[u8],
    rows: usize,
    passes: impl Fn([u8; N]) -> bool,
    word: impl Fn(&[[u8; N]; 64]) -> u64,
) -> BooleanBuffer {
    let codes = &codes.as_chunks::<N>().0[..rows];
    let mut words: Vec<u64> = Vec::with_capacity(rows.div_ceil(64));
    let (whole, rest) = codes.as_chunks::<64>();
    words.extend(whole.iter().map(word));
    if !rest.is_empty() {
        words.push(rest.iter().rev().fold(0, |word, code| word << 1 | u64::from(passes(*code))));
    }
    BooleanBuffer::new(Buffer::from_vec(words), 0, rows)
}

/// Packs eight flags, each a byte of 0 or 1, into the bits of one byte.
#[inline]
fn packed(flags: [u8; 8]) -> u8 {
    // Flag i is bit 8i. The factor's bit 56 - 7i shifts it to bit 56 + i, which is bit i of the result.
    (u64::from_le_bytes(flags).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_bits() {
        for byte in 0..=u8::MAX {
            assert_eq!(packed(std::array::from_fn(|bit| byte >> bit & 1)), byte);
        }
    }
}
