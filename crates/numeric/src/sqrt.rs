//! Exactly rounded square roots with any number of digits.

use crate::value::Numeric;

/// The number of additional digits with which a root is approximated before it is rounded.
const GUARDS: u16 = 2;
/// The greatest number of steps of Newton's method. The first step starts with a float, which has sixteen right digits.
/// Each step doubles the number of right digits.
const MOST_STEPS: usize = 2000;

impl Numeric {
    /// The square root, rounded half away from zero to `scale` digits behind the point; `None` if the value is negative
    /// or not finite.
    pub fn root(&self, scale: u16) -> Option<Numeric> {
        match self.direction()? {
            _ if !self.is_finite() => None,
            0 => Some(Numeric::small(0, scale)),
            1 => self.approximated(scale + GUARDS).map(|root| self.corrected(&root, scale)),
            _ => None,
        }
    }

    /// The approximate square root, by Newton's method.
    fn approximated(&self, scale: u16) -> Option<Numeric> {
        let (unit, half, value) = (Numeric::small(1, scale), Numeric::small(5, 1), self.long()?);
        let guess = self.to_f64().map(|float| Numeric::from_f64(float.sqrt()).round(scale.into()));
        let mut root = guess.filter(|guess| *guess > unit).unwrap_or_else(|| unit.clone());
        for _ in 0..MOST_STEPS {
            let other = value.over(&*root.long()?, scale, true).ok()?;
            let better = root.plus(&other).times(&half).round(scale.into());
            let is_near = better.plus(&root.neg()).abs() <= unit;
            root = better;
            if is_near {
                break;
            }
        }
        Some(root)
    }

    /// The exactly rounded square root, from an approximation `near`.
    fn corrected(&self, near: &Numeric, scale: u16) -> Numeric {
        let (unit, half) = (Numeric::small(1, scale), Numeric::small(5, scale + 1));
        let is_above = |root: &Numeric| root.times(root) > *self;
        let mut root = near.trunc(scale.into());
        while is_above(&root) {
            root = root.plus(&unit.neg());
        }
        while !is_above(&root.plus(&unit)) {
            root = root.plus(&unit);
        }
        if is_above(&root.plus(&half)) { root } else { root.plus(&unit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(value: &str, scale: u16) -> String {
        value.parse::<Numeric>().unwrap().root(scale).unwrap().to_string()
    }

    #[test]
    fn roots_are_rounded_to_their_scale() {
        for (value, scale, expected) in [
            ("0", 3, "0.000"),
            ("4", 0, "2"),
            ("2", 20, "1.41421356237309504880"),
            ("2", 0, "1"),
            ("3", 0, "2"),
            ("0.25", 0, "1"),
            ("0.24999", 0, "0"),
            ("2.25", 1, "1.5"),
            ("0.0000000000000000000000000000000000000001", 20, "0.00000000000000000001"),
            ("0.0000000000000000000000000000000000000001", 4, "0.0000"),
            ("152415787532388367501905199875019052100", 0, "12345678901234567890"),
            ("152415787532388367501905199875019052099", 0, "12345678901234567890"),
            ("99999999999999999999999999999999999999999999999999", 5, "10000000000000000000000000.00000"),
        ] {
            assert_eq!(root(value, scale), expected, "{value} {scale}");
        }
        assert!(Numeric::small(-1, 0).root(3).is_none());
        assert!(Numeric::NAN.root(3).is_none());
        assert!(Numeric::INFINITY.root(3).is_none());
    }

    #[test]
    fn no_root_is_off_by_a_digit() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for _ in 0..500 {
            let digits: String = (0..1 + next() % 9).map(|_| next().to_string()).collect();
            let (whole, behind) = digits.split_at(next() as usize % digits.len() + 1);
            let value: Numeric = format!("{whole}.{behind}0").parse().unwrap();
            let scale = (next() % 40) as u16;
            let root = value.root(scale).unwrap();
            let half = Numeric::small(5, scale + 1);
            let (below, above) = (root.plus(&half.neg()), root.plus(&half));
            assert!(below.times(&below) <= value && value < above.times(&above), "{value} {root}");
        }
    }
}
