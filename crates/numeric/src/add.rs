//! Sums and differences. Their display scale is the larger of the operands' display scales.

use crate::power;
use crate::value::{Error, Numeric, Repr};

impl Numeric {
    pub fn add(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) = (&self.0, &other.0)
            && let Some((a, b, scale)) = aligned(*a, *s, *b, *t)
            && let Some(sum) = a.checked_add(b)
        {
            return Ok(Numeric::small(sum, scale));
        }
        self.plus(other).checked()
    }

    pub fn sub(&self, other: &Numeric) -> Result<Numeric, Error> {
        if let (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) = (&self.0, &other.0)
            && let Some((a, b, scale)) = aligned(*a, *s, *b, *t)
            && let Some(difference) = a.checked_sub(b)
        {
            return Ok(Numeric::small(difference, scale));
        }
        self.plus(&other.neg()).checked()
    }

    /// The sum, even if it exceeds the limits of PostgreSQL's format.
    pub(crate) fn plus(&self, other: &Numeric) -> Numeric {
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => a.plus(&b),
            (Some(_), None) => other.clone(),
            (None, Some(_)) => self.clone(),
            (None, None) if self.direction() == other.direction() => self.clone(),
            (None, None) => Numeric::NAN,
        }
    }
}

/// Both mantissas, converted to the larger of the two scales; `None` if a converted mantissa does not fit.
#[inline]
pub(crate) fn aligned(a: i128, s: u16, b: i128, t: u16) -> Option<(i128, i128, u16)> {
    if s == t {
        Some((a, b, s))
    } else if s < t {
        Some((power::shift(a, (t - s) as u32)?, b, t))
    } else {
        Some((a, power::shift(b, (s - t) as u32)?, s))
    }
}
