//! Names of time zones.

use std::ffi::CStr;

use pgrx::prelude::*;

/// The kind of time zone that a name stands for.
pub enum ZoneName {
    /// An abbreviation for a fixed offset from UTC, in seconds; east is positive.
    Offset(i32),
    /// An abbreviation whose offset depends on the time.
    Dynamic,
    Zone(*mut pg_sys::pg_tz),
    None,
}

/// Looks up a name. Abbreviations have precedence, as in `AT TIME ZONE`.
pub fn zone_named(name: &CStr) -> ZoneName {
    let (mut east, mut zone) = (0, std::ptr::null_mut());
    // SAFETY: the name is a C string, and the functions fill local variables.
    unsafe {
        #[cfg(not(feature = "since_16"))]
        {
            let lower = pg_sys::pstrdup(name.as_ptr());
            for i in 0..name.to_bytes().len() {
                (*lower.cast::<u8>().add(i)).make_ascii_lowercase();
            }
            match pg_sys::DecodeTimezoneAbbrev(0, lower, &mut east, &mut zone) as u32 {
                pg_sys::TZ | pg_sys::DTZ => return ZoneName::Offset(east),
                pg_sys::DYNTZ => return ZoneName::Dynamic,
                _ => zone = pg_sys::pg_tzset(name.as_ptr()),
            }
        }
        #[cfg(feature = "since_16")]
        match pg_sys::DecodeTimezoneName(name.as_ptr(), &mut east, &mut zone) as u32 {
            pg_sys::TZNAME_FIXED_OFFSET => return ZoneName::Offset(east),
            pg_sys::TZNAME_DYNTZ => return ZoneName::Dynamic,
            _ => {}
        }
    }
    if zone.is_null() { ZoneName::None } else { ZoneName::Zone(zone) }
}
