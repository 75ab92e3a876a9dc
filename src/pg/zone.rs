//! Descriptions of the server's time zones for the engine. To describe a zone, this module asks the server for each
//! change of the clocks, one after the other.

use std::cell::RefCell;
use std::ffi::{CString, c_long};

use pgrx::prelude::*;
use plan::{CYCLE, Clock, Zone};

use super::compat;
use super::plain::variable;

const DAY: i64 = 86_400;
/// 2000-01-01, the server's epoch, in seconds since 1970-01-01.
const FROM_UNIX: i64 = 10_957 * DAY;
/// A time some days before the first timestamp, in seconds since 2000.
const START: i64 = -(2_451_545 + 3) * DAY;
/// The beginnings of three cycles of the calendar. All irregular changes of clocks lie between the cycles that begin at
/// `EARLY` and `LATE`. `LAST` begins the last cycle that contains timestamps.
const EARLY: i64 = START + 15 * CYCLE;
const LATE: i64 = START + 20 * CYCLE;
const LAST: i64 = START + 747 * CYCLE;
/// The greatest number of changes that are read, more than any zone's rules make in this time.
const MOST_CHANGES: usize = 50_000;
/// The number of characters that the server keeps of an abbreviation.
const LONGEST_NAME: usize = 60;

/// A time zone of the server. The server keeps it for the life of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ServerZone(*mut pg_sys::pg_tz);

/// The present zone of the session.
pub fn of_session() -> ServerZone {
    ServerZone(variable!(session_timezone))
}

/// The description of the zone that `AT TIME ZONE` finds by this name. An error is a reason to run on the heap, which
/// may never need the zone.
pub fn named(name: &str) -> Result<String, String> {
    let usual = name.is_ascii() && name.len() < LONGEST_NAME;
    let c_name = CString::new(name).ok().filter(|_| usual).ok_or("a time zone of an unusual name")?;
    match compat::zone_named(&c_name) {
        compat::ZoneName::Offset(offset) => Ok(Zone::fixed(offset).to_string()),
        compat::ZoneName::Zone(zone) => ServerZone(zone).description(),
        compat::ZoneName::Dynamic => Err(format!("time zone \"{name}\", an abbreviation whose offset has changed")),
        compat::ZoneName::None => Err(format!("time zone \"{name}\", which is not known")),
    }
}

thread_local! {
    /// Descriptions that were made before. They stay valid, because zones do not change while a process lives.
    static DESCRIBED: RefCell<Vec<(ServerZone, String)>> = const { RefCell::new(Vec::new()) };
}

impl ServerZone {
    pub fn description(self) -> Result<String, String> {
        let known = |all: &RefCell<Vec<(ServerZone, String)>>| {
            all.borrow().iter().find(|(zone, _)| *zone == self).map(|(_, text)| text.clone())
        };
        if let Some(text) = DESCRIBED.with(known) {
            return Ok(text);
        }
        let zone = self.describe()?;
        let text = zone.to_string();
        if Zone::parse(&text).as_ref() != Some(&zone) || !self.agrees_with(&zone)? {
            return Err(irregular());
        }
        DESCRIBED.with(|all| all.borrow_mut().push((self, text.clone())));
        Ok(text)
    }

    fn describe(self) -> Result<Zone, String> {
        let (first_local, change) = self.after(START)?;
        let mut zone = Zone { first: self.offset(START)?, first_local, ..Zone::default() };
        let Some((first, _)) = change else {
            return Ok(zone);
        };
        // PostgreSQL has no records from so early, so the change comes from a rule that holds for the whole past.
        zone.repeats_back = first <= START + CYCLE;
        if zone.repeats_back && self.cycle(START)? != self.cycle(EARLY)? {
            return Err(irregular());
        }
        let begin = if zone.repeats_back { EARLY } else { START };
        zone.changes = self.changes(begin, LATE + CYCLE)?;
        let last = zone.changes.last().map_or(START, |(at, _)| *at);
        zone.repeats_ahead = self.after(last)?.1.is_some();
        if zone.repeats_ahead {
            let cycle = self.cycle(LATE)?;
            if cycle.is_empty() || self.cycle(LATE - CYCLE)? != cycle || self.cycle(LAST)? != cycle {
                return Err(irregular());
            }
            cut_to_one_cycle(&mut zone.changes, cycle.len());
        }
        Ok(zone)
    }

    /// Whether the server's local times agree with the description, around its changes and at samples between them.
    /// They do not agree if the server counts leap seconds, or if clocks were put forward and never put back.
    fn agrees_with(self, zone: &Zone) -> Result<bool, String> {
        const YEAR: i64 = CYCLE / 400;
        let clock = Clock::of(zone);
        let around = zone.changes.iter().flat_map(|(at, _)| [at - 1, *at, at + 1]);
        // The samples come twice a year for some centuries, and then in steps that reach all seasons.
        let recent = (-300..300).map(|half| half * YEAR / 2 + DAY / 3);
        let far = (0..1000).map(|n| START + n * (7 * YEAR + 11 * DAY) + n * 3607);
        for at in around.chain(recent).chain(far) {
            let (offset, second) = self.shown(at)?;
            if i64::from(offset) != clock.offset(at) || (at + i64::from(offset)).rem_euclid(60) != second {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The changes of one cycle, with times relative to the beginning of the cycle.
    fn cycle(self, begin: i64) -> Result<Vec<(i64, i32)>, String> {
        let changes = self.changes(begin, begin + CYCLE)?;
        Ok(changes.into_iter().map(|(at, offset)| (at - begin, offset)).collect())
    }

    /// The changes after `begin`, up to and including `end`.
    fn changes(self, begin: i64, end: i64) -> Result<Vec<(i64, i32)>, String> {
        let (mut changes, mut at) = (Vec::new(), begin);
        while let Some(change) = self.after(at)?.1.filter(|(next, _)| *next <= end) {
            if change.0 <= at || changes.len() == MOST_CHANGES {
                return Err(irregular());
            }
            at = change.0;
            changes.push(change);
        }
        Ok(changes)
    }

    /// The offset of local time after `at`, and the next change, if there is one.
    fn after(self, at: i64) -> Result<(i32, Option<(i64, i32)>), String> {
        match self.asked(at)? {
            // At the time of the last change in its table, the server does not find the later changes, which come from
            // rules. Asked for a time one second later, it finds them.
            (offset, None) => Ok((offset, self.asked(at + 1)?.1)),
            found => Ok(found),
        }
    }

    fn asked(self, at: i64) -> Result<(i32, Option<(i64, i32)>), String> {
        let at = at + FROM_UNIX;
        let (mut before, mut after): (c_long, c_long) = (0, 0);
        let (mut before_dst, mut after_dst, mut change) = (0, 0, 0);
        // SAFETY: the server keeps the zone, and the function fills local variables.
        let found = unsafe {
            pg_sys::pg_next_dst_boundary(
                &at,
                &mut before,
                &mut before_dst,
                &mut change,
                &mut after,
                &mut after_dst,
                self.0,
            )
        };
        match found {
            0 => Ok((before as i32, None)),
            1 => Ok((before as i32, Some((change - FROM_UNIX, after as i32)))),
            _ => Err(irregular()),
        }
    }

    fn offset(self, at: i64) -> Result<i32, String> {
        Ok(self.shown(at)?.0)
    }

    /// The offset of local time from UTC, and the second within the minute.
    fn shown(self, at: i64) -> Result<(i32, i64), String> {
        let at = at + FROM_UNIX;
        // SAFETY: the server keeps the zone. The result is null, or a variable of the server that is read before the
        // next call changes it.
        let local = unsafe { pg_sys::pg_localtime(&at, self.0).as_ref() };
        local.map(|local| (local.tm_gmtoff as i32, i64::from(local.tm_sec))).ok_or_else(irregular)
    }
}

/// Removes the changes at the end that only repeat the cycle before them. A cycle has `length` changes.
fn cut_to_one_cycle(changes: &mut Vec<(i64, i32)>, length: usize) {
    let mut begin = changes.len() - length;
    let repeats = |at: usize| changes.get(at + length) == Some(&(changes[at].0 + CYCLE, changes[at].1));
    while begin > 0 && repeats(begin - 1) {
        begin -= 1;
    }
    changes.truncate(begin + length + 1);
}

fn irregular() -> String {
    "time zone whose rules do not repeat".into()
}
