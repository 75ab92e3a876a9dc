//! Rounding.

use crate::power;
use crate::value::{Numeric, Repr, SCALE_LIMIT, WEIGHT_LIMIT};

impl Numeric {
    /// The value rounded half away from zero to `digits` digits behind the point. If `digits` is negative, that many
    /// digits before the point become zero, and the display scale is 0; otherwise the display scale is `digits`.
    pub fn round(&self, digits: i32) -> Numeric {
        self.cut(digits, true)
    }

    /// Like `round`, but rounds towards zero.
    pub fn trunc(&self, digits: i32) -> Numeric {
        self.cut(digits, false)
    }

    pub fn ceil(&self) -> Numeric {
        self.whole(1)
    }

    pub fn floor(&self) -> Numeric {
        self.whole(-1)
    }

    fn cut(&self, places: i32, round: bool) -> Numeric {
        // PostgreSQL limits the number of places in the same way.
        let places = places.clamp(-(WEIGHT_LIMIT + 1) * 4 - 1, SCALE_LIMIT as i32);
        if let Repr::Small { mantissa, scale } = self.0
            && let Some(value) = cut_small(mantissa, scale, places, round)
        {
            return value;
        }
        self.long().map_or_else(|| self.clone(), |long| long.cut(places, round))
    }

    /// The least integer that is not below the value (if `direction` is 1), or the greatest integer that is not above
    /// it (if `direction` is -1).
    fn whole(&self, direction: i32) -> Numeric {
        let cut = self.trunc(0);
        if self.direction() == Some(direction) && cut != *self {
            cut.plus(&Numeric::small(direction as i128, 0))
        } else {
            cut
        }
    }
}

fn cut_small(mantissa: i128, scale: u16, places: i32, round: bool) -> Option<Numeric> {
    let shown = places.max(0) as u16;
    let lost = scale as i32 - places;
    if lost <= 0 {
        return Some(Numeric::small(power::shift(mantissa, lost.unsigned_abs())?, shown));
    }
    let Some(unit) = power::ten(lost as u32) else {
        // `unit` would not fit 128 bits. So the mantissa is less than half of it, and the rounded value is zero.
        return Some(Numeric::small(0, shown));
    };
    let (mut kept, rest) = power::divide(mantissa.unsigned_abs(), unit);
    if round && rest >= unit - rest {
        kept += 1;
    }
    let kept = power::signed(mantissa < 0, kept)?;
    Some(Numeric::small(power::shift(kept, (-places).max(0) as u32)?, shown))
}
