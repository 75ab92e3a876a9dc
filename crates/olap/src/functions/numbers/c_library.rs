//! Functions on numbers as PostgreSQL computes them, with the machine's C library. Rust's functions with the same names
//! may have another source, and differ in the last digit.

#![allow(unsafe_code)]

use std::mem;
use std::sync::LazyLock;

// SAFETY: as math.h declares them; they take numbers and return one.
unsafe extern "C" {
    pub safe fn acos(x: f64) -> f64;
    pub safe fn asin(x: f64) -> f64;
    pub safe fn atan(x: f64) -> f64;
    pub safe fn atan2(y: f64, x: f64) -> f64;
    pub safe fn cos(x: f64) -> f64;
    pub safe fn exp(x: f64) -> f64;
    pub safe fn log(x: f64) -> f64;
    pub safe fn log10(x: f64) -> f64;
    pub safe fn pow(x: f64, y: f64) -> f64;
    pub safe fn sin(x: f64) -> f64;
    pub safe fn tan(x: f64) -> f64;
}

/// Rust's runtime contains a `cbrt` that the linker would find first.
pub fn cbrt(x: f64) -> f64 {
    static CBRT: LazyLock<extern "C" fn(f64) -> f64> = LazyLock::new(|| {
        // SAFETY: a C string; it looks for a symbol of the libraries that are loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cbrt".as_ptr()) };
        assert!(!found.is_null(), "the C library has no cbrt");
        // SAFETY: as math.h declares it; it takes a number and returns one.
        unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn(f64) -> f64>(found) }
    });
    CBRT(x)
}
