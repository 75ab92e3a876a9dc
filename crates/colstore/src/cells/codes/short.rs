//! Range tests of many short codes at once, with instructions of AVX-512 or SSE2 that compilers do not choose by
//! themselves.

use arrow_buffer::BooleanBuffer;

#[cfg(target_arch = "x86_64")]
pub use x86::{bytes, longs, words};

#[cfg(not(target_arch = "x86_64"))]
pub use portable::{bytes, longs, words};

/// Tests without special instructions. Each function returns the rows whose codes are at least `first`, and exceed it
/// by at most `span`, modulo the number of codes.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::BooleanBuffer;
    use crate::cells::codes::passing::where_code;

    pub fn bytes(codes: &[u8], rows: usize, first: u8, span: u8) -> BooleanBuffer {
        where_code(codes, rows, |[code]: [u8; 1]| code.wrapping_sub(first) <= span)
    }

    pub fn words(codes: &[u8], rows: usize, first: u16, span: u16) -> BooleanBuffer {
        where_code(codes, rows, |code| u16::from_le_bytes(code).wrapping_sub(first) <= span)
    }

    pub fn longs(codes: &[u8], rows: usize, first: u32, span: u32) -> BooleanBuffer {
        where_code(codes, rows, |code| u32::from_le_bytes(code).wrapping_sub(first) <= span)
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::is_x86_feature_detected as has;
    use std::arch::x86_64::*;

    use super::BooleanBuffer;
    use crate::cells::codes::passing::{where_code, where_sixteen, where_word};

    pub fn bytes(codes: &[u8], rows: usize, first: u8, span: u8) -> BooleanBuffer {
        let passes = |[code]: [u8; 1]| code.wrapping_sub(first) <= span;
        if has!("avx512f") && has!("avx512bw") {
            // SAFETY: the processor has these instructions.
            return unsafe { wide::bytes(codes, rows, first, span) };
        }
        // SAFETY: every x86-64 has SSE2.
        where_sixteen(codes, rows, passes, |codes| unsafe { sixteen_bytes(codes.as_flattened(), first, span) })
    }

    pub fn words(codes: &[u8], rows: usize, first: u16, span: u16) -> BooleanBuffer {
        let passes = |code| u16::from_le_bytes(code).wrapping_sub(first) <= span;
        if has!("avx512f") && has!("avx512bw") {
            // SAFETY: the processor has these instructions.
            return unsafe { wide::words(codes, rows, first, span) };
        }
        // SAFETY: every x86-64 has SSE2.
        where_sixteen(codes, rows, passes, |codes| unsafe { sixteen_words(codes.as_flattened(), first, span) })
    }

    pub fn longs(codes: &[u8], rows: usize, first: u32, span: u32) -> BooleanBuffer {
        let passes = |code| u32::from_le_bytes(code).wrapping_sub(first) <= span;
        if has!("avx512f") && has!("avx512bw") {
            // SAFETY: the processor has these instructions.
            return unsafe { wide::longs(codes, rows, first, span) };
        }
        where_code(codes, rows, passes)
    }

    /// Tests 64 codes at once. The caller has checked that the processor has the instructions.
    mod wide {
        use super::*;

        #[target_feature(enable = "avx512f,avx512bw")]
        pub fn bytes(codes: &[u8], rows: usize, first: u8, span: u8) -> BooleanBuffer {
            let passes = |[code]: [u8; 1]| code.wrapping_sub(first) <= span;
            where_word(codes, rows, passes, |codes| {
                let from_first = _mm512_sub_epi8(load(codes.as_flattened(), 0), _mm512_set1_epi8(first as i8));
                _mm512_cmple_epu8_mask(from_first, _mm512_set1_epi8(span as i8))
            })
        }

        #[target_feature(enable = "avx512f,avx512bw")]
        pub fn words(codes: &[u8], rows: usize, first: u16, span: u16) -> BooleanBuffer {
            let passes = |code| u16::from_le_bytes(code).wrapping_sub(first) <= span;
            let part = |codes: &[[u8; 2]; 64], at: usize| {
                let from_first = _mm512_sub_epi16(load(codes.as_flattened(), at), _mm512_set1_epi16(first as i16));
                u64::from(_mm512_cmple_epu16_mask(from_first, _mm512_set1_epi16(span as i16)))
            };
            where_word(codes, rows, passes, |codes| part(codes, 0) | part(codes, 64) << 32)
        }

        #[target_feature(enable = "avx512f,avx512bw")]
        pub fn longs(codes: &[u8], rows: usize, first: u32, span: u32) -> BooleanBuffer {
            let passes = |code| u32::from_le_bytes(code).wrapping_sub(first) <= span;
            let part = |codes: &[[u8; 4]; 64], at: usize| {
                let from_first = _mm512_sub_epi32(load(codes.as_flattened(), at), _mm512_set1_epi32(first as i32));
                u64::from(_mm512_cmple_epu32_mask(from_first, _mm512_set1_epi32(span as i32)))
            };
            where_word(codes, rows, passes, |codes| {
                part(codes, 0) | part(codes, 64) << 16 | part(codes, 128) << 32 | part(codes, 192) << 48
            })
        }

        /// 64 bytes, from index `from` on.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn load(bytes: &[u8], from: usize) -> __m512i {
            let bytes = &bytes[from..from + 64];
            // SAFETY: the slice has 64 bytes, and the instruction needs no alignment.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn sixteen_bytes(codes: &[u8], first: u8, span: u8) -> u16 {
        let from_first = _mm_sub_epi8(load(codes), _mm_set1_epi8(first as i8));
        let passed = _mm_cmpeq_epi8(_mm_min_epu8(from_first, _mm_set1_epi8(span as i8)), from_first);
        _mm_movemask_epi8(passed) as u16
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub fn sixteen_words(codes: &[u8], first: u16, span: u16) -> u16 {
        let (low, high) = codes.split_at(16);
        let eight = |codes: &[u8]| {
            let from_first = _mm_sub_epi16(load(codes), _mm_set1_epi16(first as i16));
            let beyond = _mm_subs_epu16(from_first, _mm_set1_epi16(span as i16));
            _mm_cmpeq_epi16(beyond, _mm_setzero_si128())
        };
        _mm_movemask_epi8(_mm_packs_epi16(eight(low), eight(high))) as u16
    }

    /// The first sixteen bytes.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8]) -> __m128i {
        let half = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        _mm_set_epi64x(half(8), half(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Miri, which is a thousand times as slow, tests fewer cases.
    const ENDS: &[u32] = if cfg!(miri) { &[0, 128, 255] } else { &[0, 1, 77, 127, 128, 254, 255] };

    #[test]
    fn every_set_of_instructions_finds_the_same_rows() {
        let codes: Vec<u8> = (0..4 * 200_u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for (first, span) in ENDS.iter().flat_map(|first| ENDS.iter().map(|span| (*first, *span))) {
            for rows in [0, 1, 63, 64, 65, 200] {
                let (byte, word, long) = (first as u8, (first * 257) as u16, first * 0x0101_0101);
                let spans = (span as u8, (span * 257) as u16, span * 0x0101_0101);
                assert_eq!(bytes(&codes, rows, byte, spans.0), portable::bytes(&codes, rows, byte, spans.0));
                assert_eq!(words(&codes, rows, word, spans.1), portable::words(&codes, rows, word, spans.1));
                assert_eq!(longs(&codes, rows, long, spans.2), portable::longs(&codes, rows, long, spans.2));
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    #[allow(unsafe_code)]
    fn sixteen_codes_are_those_one_by_one() {
        let codes: [u8; 32] = std::array::from_fn(|at| (at * 41 % 256) as u8);
        for (first, span) in ENDS.iter().flat_map(|first| ENDS.iter().map(|span| (*first, *span))) {
            let mask = portable::bytes(&codes, 16, first as u8, span as u8);
            let flags = u16::from_le_bytes([mask.values()[0], mask.values()[1]]);
            // SAFETY: every x86-64 has SSE2.
            assert_eq!(unsafe { x86::sixteen_bytes(&codes[..16], first as u8, span as u8) }, flags);
            let (first, span) = ((first * 257) as u16, (span * 257) as u16);
            let mask = portable::words(&codes, 16, first, span);
            let flags = u16::from_le_bytes([mask.values()[0], mask.values()[1]]);
            // SAFETY: every x86-64 has SSE2.
            assert_eq!(unsafe { x86::sixteen_words(&codes, first, span) }, flags);
        }
    }
}
