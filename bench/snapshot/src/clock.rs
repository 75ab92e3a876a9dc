//! Time in ticks of the processor's time stamp counter. Reading the counter takes less time than the shortest action
//! that is measured.

#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A reading of the counter. Readings of all threads and processes of one machine can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    #[inline]
    pub fn now() -> Tick {
        Tick(counter())
    }

    pub fn from_raw(raw: u64) -> Tick {
        Tick(raw)
    }

    pub fn raw(self) -> u64 {
        self.0
    }

    /// The nanoseconds from this reading until now.
    #[inline]
    pub fn elapsed(self) -> f64 {
        Tick::now().since(self)
    }

    /// The nanoseconds from `earlier` to this reading; negative if `earlier` was in fact later.
    #[inline]
    pub fn since(self, earlier: Tick) -> f64 {
        self.0.wrapping_sub(earlier.0) as i64 as f64 * calibration().nanoseconds_per_tick
    }
}

/// The time that reading the counter takes, in nanoseconds. It is subtracted from times of single actions.
pub fn overhead() -> f64 {
    calibration().overhead
}

struct Calibration {
    nanoseconds_per_tick: f64,
    overhead: f64,
}

/// The length of a tick. It is found once, by comparing the counter with the system's clock for a while.
fn calibration() -> &'static Calibration {
    static FOUND: OnceLock<Calibration> = OnceLock::new();
    FOUND.get_or_init(|| {
        let start = both();
        std::thread::sleep(Duration::from_millis(20));
        let end = both();
        let nanoseconds_per_tick = end.0.duration_since(start.0).as_nanos() as f64 / (end.1 - start.1) as f64;
        let apart = (0..1000).map(|_| counter()).collect::<Vec<_>>();
        let least = apart.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(0);
        Calibration { nanoseconds_per_tick, overhead: least as f64 * nanoseconds_per_tick }
    })
}

/// Readings of the system's clock and the counter at nearly the same moment: the closest pair of several tries.
fn both() -> (Instant, u64) {
    let tries = (0..32).map(|_| {
        let (before, clock, after) = (counter(), Instant::now(), counter());
        (after - before, (clock, before + (after - before) / 2))
    });
    tries.min_by_key(|(apart, _)| *apart).map_or_else(|| (Instant::now(), counter()), |(_, both)| both)
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let count: u64;
    // SAFETY: reads the virtual counter, which Linux lets every process read.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_pass_like_time() {
        let (outer, start, inner) = (Instant::now(), Tick::now(), Instant::now());
        std::thread::sleep(Duration::from_millis(5));
        let (inner, end, outer) = (inner.elapsed(), Tick::now(), outer.elapsed());
        let range = inner.as_nanos() as f64 * 0.99..outer.as_nanos() as f64 * 1.01;
        assert!(range.contains(&end.since(start)), "{} ns, not {range:?}", end.since(start));
    }
}
