//! Arithmetic in double and single precision. For finite operands, the result must be finite and must not underflow to
//! zero.

use protocol::request::FailureKind;

/// The precision of a result.
pub trait Precision {
    fn rounded(result: f64) -> f64;
}

pub struct Double;
/// Arithmetic on reals. They are held as doubles, which have more than twice as many digits. So a result in double
/// precision that is then rounded to a real is exactly the result of real arithmetic.
pub struct Single;

impl Precision for Double {
    fn rounded(result: f64) -> f64 {
        result
    }
}

impl Precision for Single {
    fn rounded(result: f64) -> f64 {
        result as f32 as f64
    }
}

pub fn add<P: Precision>(a: f64, b: f64) -> (f64, bool) {
    let sum = P::rounded(a + b);
    (sum, sum.is_infinite() & !a.is_infinite() & !b.is_infinite())
}

pub fn sub<P: Precision>(a: f64, b: f64) -> (f64, bool) {
    add::<P>(a, -b)
}

pub fn mul<P: Precision>(a: f64, b: f64) -> (f64, bool) {
    let product = P::rounded(a * b);
    let overflow = product.is_infinite() & !a.is_infinite() & !b.is_infinite();
    (product, overflow | ((product == 0.0) & (a != 0.0) & (b != 0.0)))
}

/// NaN divided by zero is NaN; a finite value divided by an infinite one is zero.
pub fn div<P: Precision>(a: f64, b: f64) -> (f64, bool) {
    let quotient = P::rounded(a / b);
    let by_zero = (b == 0.0) & !a.is_nan();
    let overflow = quotient.is_infinite() & !a.is_infinite();
    let underflow = (quotient == 0.0) & (a != 0.0) & !b.is_infinite();
    (quotient, by_zero | overflow | underflow)
}

/// The nearest real.
pub fn to_real(a: f64) -> (f64, bool) {
    mul::<Single>(a, 1.0)
}

/// The kind of failure of an operation with this result, other than a division by zero.
pub fn why(result: f64) -> FailureKind {
    if result == 0.0 { FailureKind::FloatUnderflow } else { FailureKind::FloatOverflow }
}

/// A form in which floats that PostgreSQL considers equal have equal bits. Arrow's total order is then PostgreSQL's.
pub fn canonical(a: f64) -> f64 {
    plan::float_order::canonical(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_overflow_and_vanish() {
        let (add, sub) = (add::<Double>, sub::<Double>);
        let (mul, div) = (mul::<Double>, div::<Double>);
        assert!(add(f64::MAX, f64::MAX).1);
        assert_eq!(add(f64::INFINITY, 1.0), (f64::INFINITY, false));
        assert_eq!(sub(1.0, f64::INFINITY), (f64::NEG_INFINITY, false));
        assert!(add(f64::INFINITY, f64::NEG_INFINITY).0.is_nan());
        assert!(mul(1e-300, 1e-300).1 && mul(1e300, 1e300).1);
        assert!(!mul(0.0, 1e-300).1);
        assert!(div(1.0, 0.0).1 && div(f64::INFINITY, 0.0).1 && div(0.0, -0.0).1);
        assert!(!div(f64::NAN, 0.0).1);
        assert_eq!(div(1.0, f64::INFINITY), (0.0, false));
        assert!(div(1e-300, 1e300).1 && div(1e300, 1e-300).1);
        assert_eq!(div(f64::INFINITY, 2.0), (f64::INFINITY, false));
        assert_eq!(canonical(-0.0).to_bits(), 0);
        assert_eq!(canonical(-f64::NAN).to_bits(), f64::NAN.to_bits());
        assert!(f64::NAN.total_cmp(&f64::INFINITY).is_gt());
        let tenth = 0.1f32 as f64;
        assert_eq!(super::add::<Single>(tenth, tenth * 2.0), ((0.1f32 + 0.2f32) as f64, false));
        assert!(super::mul::<Single>(1e30, 1e30).1 && super::div::<Single>(1e-30, 1e30).1);
        assert_eq!(to_real(0.1), (tenth, false));
        assert!(to_real(1e39).1 && to_real(1e-60).1 && !to_real(f64::INFINITY).1);
    }
}
