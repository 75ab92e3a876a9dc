//! Two clocks: a steady one for the age of undo, and PostgreSQL's clock for the delay of apply.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time from 1970-01-01 to 2000-01-01, where PostgreSQL's timestamps begin.
const POSTGRES_EPOCH: Duration = Duration::from_secs(10_957 * 86_400);

/// The greatest number of delays that are kept until they are requested.
const MAX_DELAYS: usize = 4096;

#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// Time added to the clock by tests, so that things age without waiting.
    ahead: Duration,
}

impl Clock {
    pub fn new() -> Clock {
        Clock { start: Instant::now(), ahead: Duration::ZERO }
    }

    pub fn millis(&self) -> u64 {
        (self.start.elapsed() + self.ahead).as_millis() as u64
    }

    #[cfg(test)]
    pub fn advance(&mut self, by: Duration) {
        self.ahead += by;
    }
}

/// The newest delays from commit to apply, at most [`MAX_DELAYS`] of them, in microseconds of wall clock time.
#[derive(Debug, Default)]
pub struct Delays {
    micros: Vec<u64>,
    /// The index in `micros` at which the next delay is written, once `micros` has its greatest length.
    next: usize,
    total: u64,
}

/// The result of [`Delays::take`].
#[derive(Debug)]
pub struct ApplyDelays {
    /// The delays, oldest first. If more than [`MAX_DELAYS`] were recorded, the oldest are missing.
    pub micros: Vec<u64>,
    /// The number of delays that were ever recorded.
    pub total: u64,
}

impl Delays {
    /// Records the delays of transactions that are applied now, from their commit times.
    pub fn record(&mut self, committed: impl Iterator<Item = i64>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH + POSTGRES_EPOCH).unwrap_or_default();
        let now = since.as_micros() as i64;
        for time in committed {
            self.total += 1;
            let delay = now.saturating_sub(time).max(0) as u64;
            if self.micros.len() < MAX_DELAYS {
                self.micros.push(delay);
            } else {
                self.micros[self.next] = delay;
                self.next = (self.next + 1) % MAX_DELAYS;
            }
        }
    }

    /// Removes and returns the delays recorded since the last call.
    pub fn take(&mut self) -> ApplyDelays {
        self.micros.rotate_left(self.next);
        self.next = 0;
        ApplyDelays { micros: std::mem::take(&mut self.micros), total: self.total }
    }
}
