//! How fast to follow.
//!
//! Where commits do not wait for the disk, WAL becomes readable in gulps, several times a second. Decoded and applied in one
//! go, each would take processors from the transactions around for some milliseconds; so a gulp is spread over a while, in
//! which they get theirs in between. Who waits for what is in it, and what is too much for that while, ends the rests.

use std::time::{Duration, Instant};

/// A gulp is through by then, if it can be.
const WHILE: Duration = Duration::from_millis(50);
/// What transactions have to wait for at most, if there is time to rest.
const PIECE: Duration = Duration::from_micros(100);
/// Between two of them; the least is the least that a wait takes.
const SHORT_REST: Duration = Duration::from_millis(1);
const LONG_REST: Duration = Duration::from_millis(5);
/// Where there is none: positions and messages get their turn between two.
const FULL_PIECE: Duration = Duration::from_millis(5);
const LONG_PIECE: Duration = Duration::from_millis(1);
/// Rests are of no use when there is work for more than this share of the while.
const MOST: f64 = 0.5;

/// Of a worker that takes pieces of work until nothing is left.
pub struct Pace {
    piece: Duration,
    gulp: Option<Gulp>,
    hurries: bool,
}

struct Gulp {
    begun: Instant,
    worked: Duration,
    /// Bytes.
    done: u64,
}

impl Pace {
    pub const fn new() -> Pace {
        Pace { piece: PIECE, gulp: None, hurries: false }
    }

    /// How long the next piece may take.
    pub fn piece(&self) -> Duration {
        self.piece
    }

    /// Somebody waits for what is there now.
    pub fn hurry(&mut self) {
        self.hurries = true;
        self.piece = FULL_PIECE;
    }

    /// Nothing is left.
    pub fn caught_up(&mut self) {
        *self = Pace::new();
    }

    /// A piece that began at `begun` and ended `now` has taken `done` bytes, and `left` are left: how long to rest before the
    /// next one.
    pub fn rest(&mut self, begun: Instant, now: Instant, done: u64, left: u64) -> Option<Duration> {
        let gulp = self.gulp.get_or_insert(Gulp { begun, worked: Duration::ZERO, done: 0 });
        gulp.worked += now - begun;
        gulp.done += done;
        let work = gulp.worked.as_secs_f64() * left as f64 / gulp.done.max(1) as f64;
        let time = WHILE.saturating_sub(now - gulp.begun).as_secs_f64();
        if self.hurries || work >= time * MOST {
            // Of a gulp's first moments it is not known yet whether it is large.
            self.piece = if self.hurries || time == 0.0 { FULL_PIECE } else { LONG_PIECE };
            return None;
        }
        // Pieces and rests in turns: pieces take the share of the time that the work has in it.
        let rests = (time - work) / work.max(f64::MIN_POSITIVE);
        let rest = PIECE.as_secs_f64() * rests;
        let rest = Duration::from_secs_f64(rest.clamp(SHORT_REST.as_secs_f64(), LONG_REST.as_secs_f64()));
        self.piece = rest.div_f64(rests).max(PIECE);
        Some(rest)
    }
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes gulps of so many bytes, each byte in a microsecond; what that took, and how much of it was rest.
    fn follow(pace: &mut Pace, bytes: u64) -> (Duration, Duration) {
        let start = Instant::now();
        let (mut now, mut left, mut rested) = (start, bytes, Duration::ZERO);
        loop {
            let done = left.min(pace.piece().as_micros() as u64);
            let begun = now;
            now += Duration::from_micros(done);
            left -= done;
            if left == 0 {
                pace.caught_up();
                return (now - start, rested);
            }
            let rest = pace.rest(begun, now, done, left).unwrap_or_default();
            now += rest;
            rested += rest;
        }
    }

    #[test]
    fn little_is_done_at_once() {
        assert_eq!(follow(&mut Pace::new(), 90), (Duration::from_micros(90), Duration::ZERO));
    }

    #[test]
    fn a_gulp_is_spread() {
        let mut pace = Pace::new();
        for gulp in [1_000, 5_000, 20_000, 5_000] {
            let (took, rested) = follow(&mut pace, gulp);
            assert_eq!(took - rested, Duration::from_micros(gulp));
            assert!(took <= WHILE + LONG_REST, "{gulp}: {took:?}");
            // The last rest is followed by a piece.
            assert!(took >= WHILE / 2, "{gulp}: {took:?}");
        }
    }

    #[test]
    fn a_backlog_is_worked_off_without_rests() {
        let (_, rested) = follow(&mut Pace::new(), 10_000_000);
        assert_eq!(rested, Duration::ZERO);
    }

    #[test]
    fn who_waits_ends_the_rests_until_nothing_is_left() {
        let mut pace = Pace::new();
        pace.hurry();
        assert_eq!(follow(&mut pace, 5_000).1, Duration::ZERO);
        assert_ne!(follow(&mut pace, 5_000).1, Duration::ZERO);
    }

    /// Of a piece that took no WAL, or of a clock that stood still.
    #[test]
    fn nothing_done_is_no_trouble() {
        let mut pace = Pace::new();
        let now = Instant::now();
        assert_eq!(pace.rest(now, now, 0, 0), Some(LONG_REST));
        assert_eq!(pace.rest(now, now + WHILE, 0, 1), None);
        assert_eq!(pace.piece(), FULL_PIECE);
    }
}
