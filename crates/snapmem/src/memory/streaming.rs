//! Copying that bypasses the caches.
//!
//! An ordinary store first reads the line that it overwrites into the cache, and pushes another line out. For copies
//! larger than the cache, both are a waste: stores that bypass the cache take two thirds of the time.

#![allow(unsafe_code)]

/// Copies to memory that will not be read soon.
///
/// # Panics
///
/// If the lengths differ.
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    let streamed = stream_lines(to, from);
    to[streamed..].copy_from_slice(&from[streamed..]);
}

/// Copies whole lines, if the target begins at the start of a line. Returns the number of copied bytes.
#[cfg(target_arch = "x86_64")]
fn stream_lines(to: &mut [u8], from: &[u8]) -> usize {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;

    if !to.as_ptr().addr().is_multiple_of(LINE) {
        return 0;
    }
    let lines = to.chunks_exact_mut(LINE).zip(from.chunks_exact(LINE));
    let copied = lines.len() * LINE;
    for (to, from) in lines {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: both have the four times 16 bytes of a line, and the target is aligned; every x86-64 has SSE2.
        unsafe {
            let parts = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
            (0..4).for_each(|i| _mm_stream_si128(to.add(i), parts[i]));
        }
    }
    // Streaming stores are not ordered with other stores, so a fence is needed before another thread gets the copy.
    // SAFETY: every x86-64 has SSE.
    unsafe { _mm_sfence() };
    copied
}

#[cfg(not(target_arch = "x86_64"))]
fn stream_lines(_to: &mut [u8], _from: &[u8]) -> usize {
    0
}

#[cfg(test)]
mod tests {
    #[test]
    fn copies_whatever_the_length_and_the_alignment() {
        let from: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
        for start in [0, 1, 63, 64] {
            for bytes in [0, 1, 63, 64, 65, 200, 500] {
                let mut to = vec![0; 1000];
                let first = to.as_ptr().align_offset(64) + start;
                super::copy(&mut to[first..first + bytes], &from[start..start + bytes]);
                assert!(to[first..first + bytes] == from[start..start + bytes]);
                assert!(to[..first].iter().chain(&to[first + bytes..]).all(|&byte| byte == 0));
            }
        }
    }
}
