//! The order in which the bounds of a column compare its numbers. A number's position in that order is called its
//! place. It is the number itself, except for floats, where it is computed from the bits.

use plan::{Type, float_order};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Numbers,
    /// Floats of 64 bits. Codings treat their bits as signed integers.
    Floats,
    /// Numbers of 128 bits, most of which need more than 64 bits.
    Wide,
}

impl Order {
    pub fn of(ty: Type) -> Order {
        match ty {
            Type::Uuid => Order::Wide,
            _ if ty.is_float() => Order::Floats,
            _ => Order::Numbers,
        }
    }

    /// The number of low bits that bounds omit.
    pub fn unseen(self) -> u32 {
        if self == Order::Wide { 64 } else { 0 }
    }

    /// The place in the order of a number, which for a float is its bits as an integer. For floats, this function is
    /// its own inverse.
    #[inline]
    pub fn place(self, number: i128) -> i128 {
        match self {
            Order::Numbers | Order::Wide => number,
            Order::Floats => float_order::place(number as i64).into(),
        }
    }

    /// The number at a place: the inverse of [`Order::place`].
    #[inline]
    pub fn number(self, place: i128) -> i128 {
        self.place(place)
    }

    /// The range of numbers that covers all places from `low` to `high`. For floats, the numbers are bits as signed
    /// integers. `low` must not exceed `high`.
    #[inline]
    pub fn numbers(self, low: i128, high: i128) -> (i128, i128) {
        match self {
            Order::Numbers | Order::Wide => (low, high),
            // Negative floats come before all others, in the reverse order of their bits.
            Order::Floats if high < 0 => (self.number(high), self.number(low)),
            Order::Floats if low < 0 => (i64::MIN.into(), i64::MAX.into()),
            Order::Floats => (low, high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_between_two_places_have_bits_between_two_numbers() {
        let values = [f64::NEG_INFINITY, -7.5, -0.0, 0.0, 1e-300, 3.0, f64::INFINITY, f64::NAN];
        let bits = |value: f64| i128::from(value.to_bits() as i64);
        for (at, low) in values.into_iter().enumerate() {
            for (to, high) in values.into_iter().enumerate().skip(at) {
                let (first, last) =
                    Order::Floats.numbers(Order::Floats.place(bits(low)), Order::Floats.place(bits(high)));
                let held = |value: &f64| (first..=last).contains(&bits(*value));
                assert!(values[at..=to].iter().all(held), "{low} to {high}");
                if low.is_sign_positive() == high.is_sign_positive() {
                    assert_eq!(last - first, (bits(low) - bits(high)).abs());
                }
            }
        }
    }
}
