//! Latencies before and after the injected queries. Times count from the nearest injection, so that an average over all
//! injections of a run can be computed.

use std::time::Instant;

use anker_report::percentile;

/// The number of pieces into which the time around an injection is divided. This time is as long as the usual time
/// between two injections: a quarter of it lies before the injection, three quarters after it.
const PIECES: usize = 40;
const BEFORE: f64 = 0.25;
/// The part of the time between two injections that counts as "just after" an injection.
const AFTER: f64 = 0.1;

/// The latencies of a run's transactions, by the time from the nearest injection. Times are in seconds, latencies in
/// microseconds.
pub struct Course {
    period: f64,
    /// The start of each transaction, counted from its injection, and its duration.
    times: Vec<(f64, f64)>,
}

pub struct Piece {
    pub at: f64,
    pub mean: f64,
    pub p99: f64,
    /// The number of transactions in each bucket of latency, by the bucket's lower end. Each bucket is twice as wide as
    /// the one before.
    pub counts: Vec<(u64, u32)>,
}

impl Course {
    /// The course of latencies. `measured`: the start and duration of each transaction. `None` if there was no
    /// injection.
    pub fn around(injections: &[Instant], measured: impl Iterator<Item = (Instant, f64)>) -> Option<Course> {
        let seconds = |to: Instant, from: Instant| {
            to.checked_duration_since(from).map_or_else(|| -(from - to).as_secs_f64(), |later| later.as_secs_f64())
        };
        let measured: Vec<_> = measured.collect();
        let (first, last) = (injections.first()?, injections.last()?);
        let period = match injections.len() {
            1 => {
                let ends = measured.iter().map(|(at, _)| seconds(*at, *first));
                ends.fold(0.0, f64::max) / (1.0 - BEFORE)
            }
            count => seconds(*last, *first) / (count - 1) as f64,
        };
        let place = |at: Instant| {
            let next = injections.partition_point(|injected| *injected <= at);
            let after =
                next.checked_sub(1).map(|i| seconds(at, injections[i])).filter(|s| *s < (1.0 - BEFORE) * period);
            let before = injections.get(next).map(|next| seconds(at, *next)).filter(|s| *s >= -BEFORE * period);
            after.or(before)
        };
        let times = measured.into_iter().filter_map(|(at, took)| Some((place(at)?, took))).collect();
        (period > 0.0).then_some(Course { period, times })
    }

    /// The mean latency before the injections, and just after them.
    pub fn before_and_after(&self) -> (Option<f64>, Option<f64>) {
        let within = |from: f64, to: f64| {
            let range = from * self.period..to * self.period;
            mean(self.times.iter().filter(|(at, _)| range.contains(at)).map(|(_, took)| *took))
        };
        (within(-BEFORE, 0.0), within(0.0, AFTER))
    }

    /// The greatest latency after an injection.
    pub fn worst(&self) -> Option<f64> {
        self.times.iter().filter(|(at, _)| *at >= 0.0).map(|(_, took)| *took).reduce(f64::max)
    }

    pub fn pieces(&self) -> Vec<Piece> {
        let width = self.period / PIECES as f64;
        let mut pieces = vec![Vec::new(); PIECES];
        for (at, took) in &self.times {
            let piece = ((at + BEFORE * self.period) / width) as usize;
            pieces[piece.min(PIECES - 1)].push(*took);
        }
        let filled = pieces.into_iter().enumerate().filter(|(_, times)| !times.is_empty());
        let piece = |(number, times): (usize, Vec<f64>)| Piece {
            at: number as f64 * width - BEFORE * self.period,
            mean: mean(times.iter().copied()).unwrap_or(0.0),
            p99: percentile(&times, 0.99),
            counts: counts(&times),
        };
        filled.map(piece).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    (count > 0.0).then_some(sum / count)
}

fn counts(times: &[f64]) -> Vec<(u64, u32)> {
    let mut counts = std::collections::BTreeMap::new();
    for time in times {
        *counts.entry(1u64 << (*time as u64).max(1).ilog2()).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn injections_lie_over_each_other() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        // Injections are a second apart. Transactions take 100 us, but 1000 us in the hundred milliseconds after an
        // injection.
        let injections = [at(1000), at(2000)];
        let measured = (0..3000).step_by(10).map(|ms| {
            let after = ms >= 1000 && ms % 1000 < 100;
            (at(ms), if after && ms < 2100 { 1000.0 } else { 100.0 })
        });
        let course = Course::around(&injections, measured).unwrap();
        assert_eq!(course.before_and_after(), (Some(100.0), Some(1000.0)));
        assert_eq!(course.worst(), Some(1000.0));
        let pieces = course.pieces();
        assert_eq!(pieces.len(), PIECES);
        assert!((pieces[0].at + 0.25).abs() < 1e-9 && pieces[0].mean == 100.0);
        // The last piece of the spike may also contain a fast transaction.
        let spike = pieces.iter().filter(|piece| piece.mean > 500.0).count();
        assert_eq!(spike, PIECES / 10);
        assert_eq!(pieces[0].counts.iter().map(|(bucket, _)| *bucket).collect::<Vec<_>>(), [64]);
    }

    #[test]
    fn without_an_injection_there_is_nothing_to_see() {
        assert!(Course::around(&[], [(Instant::now(), 1.0)].into_iter()).is_none());
    }
}
