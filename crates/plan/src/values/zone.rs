//! Time zones: the times at which a zone's offset from UTC changes, with the new offsets.
//!
//! A zone is sent to the engine as a parameter, in text form. The backend makes the text by asking PostgreSQL, so that
//! every offset computed here is PostgreSQL's. This includes local times that the clocks skip or show twice, times
//! before the first change, and times so far ahead that only the zone's rules apply.
//!
//! Times are seconds since 2000-01-01, offsets seconds east of UTC.

use std::cell::Cell;
use std::fmt;

/// The length of a cycle, 400 years, in seconds. After a cycle the calendar repeats, and so do the rules of a zone.
pub const CYCLE: i64 = 146_097 * DAY;

const DAY: i64 = 86_400;
/// A bound for times and offsets, so that sums of them do not overflow.
const LATEST: i64 = 1 << 50;
const LARGEST_OFFSET: i32 = 1 << 24;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Zone {
    /// The offset before the first change.
    pub first: i32,
    /// The offset with which local times before the first change are converted.
    pub first_local: i32,
    /// The time of each change, with the offset from then on. The offset may be the same as before.
    pub changes: Vec<(i64, i32)>,
    /// Whether the changes of a later cycle repeat in earlier cycles, before the first change.
    pub repeats_back: bool,
    /// Whether the changes of the last cycle repeat in later cycles, after the last change.
    pub repeats_ahead: bool,
}

impl Zone {
    /// A zone whose offset never changes.
    pub fn fixed(offset: i32) -> Zone {
        Zone { first: offset, first_local: offset, ..Zone::default() }
    }

    /// A zone from its text form, which [`fmt::Display`] writes; `None` if the text is no zone.
    pub fn parse(text: &str) -> Option<Zone> {
        let mut numbers = text.split(' ').map(|number| number.parse::<i64>().ok());
        let mut next = || numbers.next().flatten();
        let offset = |number: i64| i32::try_from(number).ok().filter(|o| (-LARGEST_OFFSET..LARGEST_OFFSET).contains(o));
        let (first, first_local) = (offset(next()?)?, offset(next()?)?);
        let (back, ahead, count) = (next()?, next()?, next()?);
        let mut changes = Vec::new();
        let mut at = 0i64;
        for _ in 0..count {
            at = at.checked_add(next()?)?;
            changes.push((at, offset(next()?)?));
        }
        let zone = Zone { first, first_local, changes, repeats_back: back == 1, repeats_ahead: ahead == 1 };
        zone.is_well_formed().then_some(zone)
    }

    fn is_well_formed(&self) -> bool {
        let (Some((first, _)), Some((last, _))) = (self.changes.first(), self.changes.last()) else {
            return !self.repeats_back && !self.repeats_ahead;
        };
        let repeats = self.repeats_back || self.repeats_ahead;
        *first > -LATEST
            && *last < LATEST
            && self.changes.is_sorted_by(|(a, _), (b, _)| a < b)
            && (!repeats || last - first >= CYCLE)
    }

    /// The span of time around `at` in which the offset does not change.
    fn span(&self, at: i64) -> Span {
        let (Some(&(first, _)), Some(&(last, _))) = (self.changes.first(), self.changes.last()) else {
            return Span { offset: self.first, local: self.first_local, ..Span::EVER };
        };
        let cycles = |seconds: i64| (seconds + CYCLE - 1) / CYCLE * CYCLE;
        let shift = if self.repeats_back && at < first {
            cycles(first - at)
        } else if self.repeats_ahead && at >= last {
            -cycles(at - last + 1)
        } else {
            0
        };
        let next = self.changes.partition_point(|(change, _)| *change <= at + shift);
        let (offset, local, from) = match next.checked_sub(1).map(|before| self.changes[before]) {
            Some((from, offset)) => (offset, offset, from - shift),
            None => (self.first, self.first_local, i64::MIN),
        };
        let (until, after) = match self.changes.get(next) {
            Some((until, after)) => (until - shift, *after),
            None => (i64::MAX, local),
        };
        Span { from, until, offset, local, after }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (back, ahead) = (u8::from(self.repeats_back), u8::from(self.repeats_ahead));
        write!(f, "{} {} {back} {ahead} {}", self.first, self.first_local, self.changes.len())?;
        let mut before = 0;
        for (at, offset) in &self.changes {
            write!(f, " {} {offset}", at - before)?;
            before = *at;
        }
        Ok(())
    }
}

/// The time between two successive changes, and the offset in that time.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: i64,
    until: i64,
    offset: i32,
    /// The offset with which local times are converted.
    local: i32,
    /// The offset after the span.
    after: i32,
}

impl Span {
    const EVER: Span = Span { from: i64::MIN, until: i64::MAX, offset: 0, local: 0, after: 0 };
    const NEVER: Span = Span { until: i64::MIN, ..Span::EVER };
}

/// Looks up a zone's offsets. It remembers the last span, because successive times are often close together.
pub struct Clock<'a> {
    zone: &'a Zone,
    last: Cell<Span>,
}

impl<'a> Clock<'a> {
    pub fn of(zone: &'a Zone) -> Clock<'a> {
        Clock { zone, last: Cell::new(Span::NEVER) }
    }

    fn span(&self, at: i64) -> Span {
        let last = self.last.get();
        if last.from <= at && at < last.until {
            return last;
        }
        let span = self.zone.span(at);
        self.last.set(span);
        span
    }

    /// The offset at a point in time.
    pub fn offset(&self, at: i64) -> i64 {
        self.span(at).offset.into()
    }

    /// The offset with which a local time is converted. A time that the clocks skip is converted with the offset before
    /// the change. A time that the clocks show twice is taken for the second one.
    pub fn offset_of_local(&self, local: i64) -> i64 {
        // As in PostgreSQL, only one change counts: the first after the time one day before `local`, even if another
        // follows.
        let Span { until, local: before, after, .. } = self.span(local - DAY);
        let (before, after) = (i64::from(before), i64::from(after));
        if until == i64::MAX {
            return before;
        }
        let (by_before, by_after) = (local - before, local - after);
        if by_before < until && by_after < until {
            before
        } else if by_before > until && by_after >= until {
            after
        } else if by_before > by_after {
            before
        } else {
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone whose clocks are two hours ahead of UTC between the times 1000 and 2,000,000, and otherwise one hour.
    fn summer() -> Zone {
        Zone { first: 3600, first_local: 3000, changes: vec![(1000, 7200), (2_000_000, 3600)], ..Zone::default() }
    }

    #[test]
    fn offsets_hold_from_the_change_on() {
        let zone = summer();
        let clock = Clock::of(&zone);
        let told: Vec<i64> = [-5, 999, 1000, 1_999_999, 2_000_000, 999].map(|at| clock.offset(at)).into();
        assert_eq!(told, [3600, 3600, 7200, 7200, 3600, 3600]);
    }

    #[test]
    fn local_times_that_are_passed_over_or_come_twice() {
        let zone = Zone { first_local: 3600, ..summer() };
        let clock = Clock::of(&zone);
        let forward = [4599, 4600, 8199, 8200].map(|local| clock.offset_of_local(local));
        assert_eq!(forward, [3600, 3600, 3600, 7200]);
        let back = [2_003_599, 2_003_600, 2_007_199, 2_007_200].map(|local| clock.offset_of_local(local));
        assert_eq!(back, [7200, 3600, 3600, 3600]);
        assert_eq!(Clock::of(&summer()).offset_of_local(-100_000), 3000);
    }

    #[test]
    fn rules_repeat_beyond_the_table() {
        let changes = vec![(0, 60), (DAY * 9, 0), (CYCLE, 60), (CYCLE + DAY * 9, 0)];
        let zone = Zone { changes, repeats_back: true, repeats_ahead: true, ..Zone::default() };
        let clock = Clock::of(&zone);
        for cycle in [-7, -2, -1, 0, 1, 2, 3, 700] {
            let at = |seconds: i64| clock.offset(cycle * CYCLE + seconds);
            assert_eq!([at(-1), at(0), at(DAY * 9 - 1), at(DAY * 9), at(DAY * 10)], [0, 60, 60, 0, 0], "cycle {cycle}");
            assert_eq!(clock.offset_of_local(cycle * CYCLE + DAY * 9 + 60), 0, "cycle {cycle}");
        }
    }

    #[test]
    fn a_zone_is_its_text() {
        let zone = Zone { repeats_ahead: true, changes: vec![(-5, 1), (CYCLE, -2)], ..Zone::fixed(-17_762) };
        assert_eq!(Zone::parse(&zone.to_string()), Some(zone));
        assert_eq!(Zone::parse(&Zone::fixed(7).to_string()), Some(Zone::fixed(7)));
        for wrong in ["", "0", "0 0 0 0", "0 0 0 0 1 5", "0 0 0 0 2 5 0 0 0", "0 0 1 0 0", "0 0 0 1 2 0 0 5 0", "x"] {
            assert_eq!(Zone::parse(wrong), None, "{wrong}");
        }
    }
}
