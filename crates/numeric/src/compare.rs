//! The order of numerics: by value, without regard to display scales. NaN equals NaN and is greater than all other
//! values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::add::aligned;
use crate::value::{Numeric, Repr};

impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        if let (Repr::Small { mantissa: a, scale: s }, Repr::Small { mantissa: b, scale: t }) = (&self.0, &other.0)
            && let Some((a, b, _)) = aligned(*a, *s, *b, *t)
        {
            return a.cmp(&b);
        }
        match (self.long(), other.long()) {
            (Some(a), Some(b)) => self.direction().cmp(&other.direction()).then_with(|| match a.negative {
                false => a.compare_magnitude(&b),
                true => b.compare_magnitude(&a),
            }),
            _ => class(self).cmp(&class(other)),
        }
    }
}

fn class(value: &Numeric) -> u8 {
    match value.0 {
        Repr::Infinite { negative: true } => 0,
        Repr::Small { .. } | Repr::Long(_) => 1,
        Repr::Infinite { negative: false } => 2,
        Repr::NaN => 3,
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.trimmed().0 {
            Repr::Small { mantissa, scale } => (mantissa, scale).hash(state),
            Repr::Long(long) => (long.negative, long.weight, &long.digits[..]).hash(state),
            _ => class(self).hash(state),
        }
    }
}
