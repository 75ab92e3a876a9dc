//! Products. They are exact. Their display scale is the sum of the operands' display scales, limited by the format.

use crate::power;
use crate::value::{Error, Numeric, Repr, SCALE_LIMIT};

impl Numeric {
    pub fn mul(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) = (&self.0, &other.0)
            && let scale = s + t
            && scale <= SCALE_LIMIT
            && let Some(product) = power::multiply(*a, *b)
        {
            return Ok(Numeric::small(product, scale));
        }
        let product = self.times(other);
        match product.scale() {
            Some(scale) if scale > SCALE_LIMIT => product.round(SCALE_LIMIT as i32).checked(),
            _ => product.checked(),
        }
    }

    /// The product, even if it exceeds the limits of PostgreSQL's format.
    pub(crate) fn times(&self, other: &Numeric) -> Numeric {
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => a.times(&b),
            _ => match (self.direction(), other.direction()) {
                // Zero times an infinity is NaN.
                (None, _) | (_, None) | (Some(0), _) | (_, Some(0)) => Numeric::NAN,
                (Some(a), Some(b)) => Numeric::infinite(a != b),
            },
        }
    }
}
