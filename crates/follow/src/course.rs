//! The restart state of a database's capture worker: when the next worker may be started.

use std::time::{Duration, Instant};

use crate::Backoff;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// A worker that lived at least this long was healthy. After a healthy worker, the delays begin with the shortest one
/// again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

/// The way in which a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The worker ended because all its work was done.
    Done,
    Failed,
}

#[derive(Debug)]
pub struct Course {
    backoff: Backoff,
    /// The time at which the last worker was started, whether it still runs or not.
    started: Instant,
    not_before: Instant,
}

impl Course {
    pub fn new(now: Instant) -> Course {
        Course { backoff: Backoff::new(FIRST_DELAY, LONGEST_DELAY), started: now, not_before: now }
    }

    /// The time to wait until a worker may be started.
    pub fn wait(&self, now: Instant) -> Duration {
        self.not_before.saturating_duration_since(now)
    }

    pub fn started(&mut self, now: Instant) {
        self.started = now;
    }

    /// Called when the worker has ended, or could not be started.
    pub fn ended(&mut self, now: Instant, end: End) {
        if end == End::Done || now.saturating_duration_since(self.started) >= HEALTHY_AFTER {
            self.backoff.reset();
        }
        if end == End::Failed {
            self.not_before = now + self.backoff.failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_fails_again_and_again_is_started_ever_more_rarely() {
        let mut now = Instant::now();
        let mut course = Course::new(now);
        assert_eq!(course.wait(now), Duration::ZERO);
        let mut waits = Vec::new();
        for _ in 0..8 {
            course.started(now);
            course.ended(now, End::Failed);
            waits.push(course.wait(now).as_secs());
            now += course.wait(now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_worker_that_did_its_work_or_lived_for_long_clears_the_record() {
        let mut now = Instant::now();
        let mut course = Course::new(now);
        for _ in 0..4 {
            course.started(now);
            course.ended(now, End::Failed);
        }
        course.started(now);
        now += HEALTHY_AFTER;
        course.ended(now, End::Failed);
        assert_eq!(course.wait(now), FIRST_DELAY);
        course.started(now);
        course.ended(now, End::Failed);
        now += course.wait(now);
        course.started(now);
        course.ended(now, End::Done);
        assert_eq!(course.wait(now), Duration::ZERO);
        course.ended(now, End::Failed);
        assert_eq!(course.wait(now), FIRST_DELAY);
    }
}
