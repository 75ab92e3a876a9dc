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

/// The C library's cube root. It is looked up at run time, because the linker would take the `cbrt` of Rust's runtime.
pub fn cbrt(x: f64) -> f64 {
    static CBRT: LazyLock<extern "C" fn(f64) -> f64> = LazyLock::new(|| {
        // SAFETY: the name is a C string, and `dlsym` only looks it up in the loaded libraries.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"cbrt".as_ptr()) };
        assert!(!found.is_null(), "the C library has no cbrt");
        // SAFETY: math.h declares `cbrt` with this type; it takes a number and returns one.
        unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn(f64) -> f64>(found) }
    });
    CBRT(x)
}
