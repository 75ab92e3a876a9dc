//! Loops that are compiled once for each set of instructions. At run time, the best version for the processor is used.
//!
//! ```text
//!   fastest(Sum(values)) -> AVX-512, AVX2 or what every processor has: the same loop, compiled three times
//! ```
//!
//! The compiler chooses the instructions; none is written by hand.

#![allow(unsafe_code)]

/// A loop as a value: its fields are everything that the loop reads and writes. `run` must be `#[inline(always)]`, so
/// that the loop is compiled anew for each set of instructions.
pub trait Loop {
    type Result;

    fn run(self) -> Self::Result;
}

/// Runs a loop in the version compiled for the best instructions that the processor has.
#[inline]
pub fn fastest<L: Loop>(work: L) -> L::Result {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        // These tests are cheap, because the standard library caches which instructions the processor has.
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            // SAFETY: the processor has these instructions.
            return unsafe { x86::avx512(work) };
        }
        if has!("avx2") {
            // SAFETY: the processor has these instructions.
            return unsafe { x86::avx2(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Loop;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub fn avx512<L: Loop>(work: L) -> L::Result {
        work.run()
    }

    #[target_feature(enable = "avx2")]
    pub fn avx2<L: Loop>(work: L) -> L::Result {
        work.run()
    }
}
