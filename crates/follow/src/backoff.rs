//! Delays that double.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, next: first }
    }

    /// Called after a failure. Returns the time to wait before the next attempt.
    pub fn failed(&mut self) -> Duration {
        let delay = self.next;
        self.next = (delay * 2).min(self.longest);
        delay
    }

    /// Called after a success, so that the next failure counts as the first one.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_anew_after_success() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        assert_eq!([backoff.failed(), backoff.failed(), backoff.failed()], [1, 2, 4].map(seconds));
        assert_eq!([backoff.failed(), backoff.failed()], [5, 5].map(seconds));
        backoff.reset();
        assert_eq!(backoff.failed(), seconds(1));
    }
}
