//! The offset of the session's time zone from UTC at a given time.

use std::ptr::null;

use pgrx::prelude::*;

use crate::pg::symbols;

/// The offset in one period without a change of the clocks. Most timestamps of a result lie in one period.
pub struct Offsets {
    zone: *const pg_sys::pg_tz,
    /// The bounds of the period, in seconds since 1970; the upper one is exclusive.
    from: i64,
    to: i64,
    east: i32,
}

impl Default for Offsets {
    fn default() -> Offsets {
        Offsets { zone: null(), from: 0, to: 0, east: 0 }
    }
}

/// Seconds from 1970 to 2000.
const TO_2000: i64 = 946_684_800;

impl Offsets {
    /// The offset in seconds at a time that is given in microseconds since 2000.
    #[inline]
    pub fn at(&mut self, micros: i64) -> Option<i32> {
        let seconds = micros.div_euclid(1_000_000) + TO_2000;
        // SAFETY: the server sets this variable before it runs any statement.
        let zone = unsafe { pg_sys::session_timezone };
        if std::ptr::eq(zone, self.zone) && self.from <= seconds && seconds < self.to {
            return Some(self.east);
        }
        self.look_up(seconds)
    }

    #[cold]
    fn look_up(&mut self, seconds: i64) -> Option<i32> {
        let (mut before, mut after, mut is_dst, mut boundary) = (0, 0, [0; 2], 0);
        // SAFETY: the zone is the session's, and the function fills local variables.
        unsafe {
            let zone = pg_sys::session_timezone;
            let local = symbols::pg_localtime(&seconds, zone);
            if local.is_null() {
                return None;
            }
            let east = i32::try_from((*local).tm_gmtoff).ok()?;
            let [dst_before, dst_after] = &mut is_dst;
            let found = symbols::pg_next_dst_boundary(
                &seconds,
                &mut before,
                dst_before,
                &mut boundary,
                &mut after,
                dst_after,
                zone,
            );
            let to = match found {
                1 => boundary,
                0 => i64::MAX,
                _ => seconds + 1,
            };
            // Timestamps of one period may come in any order, so the lower bound may also decrease.
            let from = if std::ptr::eq(zone, self.zone) && to == self.to { self.from.min(seconds) } else { seconds };
            *self = Offsets { zone, from, to, east };
            Some(east)
        }
    }
}
