//! PostgreSQL's numerics, computed with PostgreSQL's own functions.

use std::cmp::Ordering;
use std::ffi::CStr;

use pgrx::prelude::*;

/// A numeric in memory of the server.
pub struct Numeric(*mut pg_sys::varlena);

impl Numeric {
    /// The numeric with these digits. A text that is no number raises an error.
    pub fn of_text(text: &CStr) -> Numeric {
        let (no_type, no_modifier) = (pg_sys::Datum::from(0usize), pg_sys::Datum::from(-1i32));
        // SAFETY: a function of text; a numeric is a fresh varlena, here and below.
        unsafe {
            let function = pg_sys::Oid::from(pg_sys::F_NUMERIC_IN);
            let text = pg_sys::Datum::from(text.as_ptr());
            let datum = pg_sys::OidFunctionCall3Coll(function, pg_sys::InvalidOid, text, no_type, no_modifier);
            Numeric(datum.cast_mut_ptr())
        }
    }

    /// The numeric with this content, given without its varlena header.
    pub fn of_bytes(bytes: &[u8]) -> Numeric {
        let size = pg_sys::VARHDRSZ + bytes.len();
        // SAFETY: a fresh varlena of this size, which is filled.
        unsafe {
            let varlena = pg_sys::palloc(size).cast::<pg_sys::varlena>();
            pgrx::varlena::set_varsize_4b(varlena, size as i32);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), varlena.cast::<u8>().add(pg_sys::VARHDRSZ), bytes.len());
            Numeric(varlena)
        }
    }

    /// The digits as text.
    pub fn text(&self) -> String {
        // SAFETY: the output function of a numeric, which returns a C string.
        unsafe {
            let text = pg_sys::OidOutputFunctionCall(pg_sys::F_NUMERIC_OUT.into(), self.datum());
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// The quotient, with the scale that PostgreSQL chooses.
    pub fn divided_by(&self, other: &Numeric) -> Numeric {
        Numeric(self.call(pg_sys::F_NUMERIC_DIV, other.datum()).cast_mut_ptr())
    }

    pub fn times(&self, other: &Numeric) -> Numeric {
        Numeric(self.call(pg_sys::F_NUMERIC_MUL, other.datum()).cast_mut_ptr())
    }

    pub fn minus(&self, other: &Numeric) -> Numeric {
        Numeric(self.call(pg_sys::F_NUMERIC_SUB, other.datum()).cast_mut_ptr())
    }

    /// The square root of a value that is not negative.
    pub fn square_root(&self) -> Numeric {
        // SAFETY: a function of one numeric.
        let root =
            unsafe { pg_sys::OidFunctionCall1Coll(pg_sys::F_NUMERIC_SQRT.into(), pg_sys::InvalidOid, self.datum()) };
        Numeric(root.cast_mut_ptr())
    }

    pub fn rounded(&self, scale: i32) -> Numeric {
        Numeric(self.call(pg_sys::F_ROUND_NUMERIC_INT4, pg_sys::Datum::from(scale)).cast_mut_ptr())
    }

    pub fn truncated(&self, scale: i32) -> Numeric {
        Numeric(self.call(pg_sys::F_TRUNC_NUMERIC_INT4, pg_sys::Datum::from(scale)).cast_mut_ptr())
    }

    pub fn compared_with(&self, other: &Numeric) -> Ordering {
        (self.call(pg_sys::F_NUMERIC_CMP, other.datum()).value() as i32).cmp(&0)
    }

    /// The number of digits behind the decimal point.
    pub fn scale(&self) -> i32 {
        // SAFETY: a function of one numeric.
        let scale = unsafe { pg_sys::OidFunctionCall1Coll(pg_sys::F_SCALE.into(), pg_sys::InvalidOid, self.datum()) };
        scale.value() as i32
    }

    /// The content without the varlena header.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a varlena, which is there as long as this is.
        unsafe { pgrx::varlena::varlena_to_byte_slice(self.0) }
    }

    fn call(&self, function: u32, second: pg_sys::Datum) -> pg_sys::Datum {
        // SAFETY: functions of a numeric and a second argument, which their callers above know.
        unsafe { pg_sys::OidFunctionCall2Coll(function.into(), pg_sys::InvalidOid, self.datum(), second) }
    }

    fn datum(&self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.0)
    }
}

impl Drop for Numeric {
    fn drop(&mut self) {
        // SAFETY: memory of the server's, and nobody else's.
        unsafe { pg_sys::pfree(self.0.cast()) };
    }
}
