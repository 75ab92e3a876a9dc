//! The order in which bounds compare a column's numbers. A number's position in that order is called its place. For all
//! types except floats, the place is the number itself. For floats, it is computed from the float's bits.

use plan::{Type, float_order};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Numbers,
    /// Floats of 64 bits. Codings treat their bits as signed integers.
    Floats,
    /// Numbers of 128 bits. Most of them do not fit 64 bits.
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

    /// The number of low bits that are cut off before a place is stored in bounds.
    pub fn unseen(self) -> u32 {
        if self == Order::Wide { 64 } else { 0 }
    }

    /// The place of a number in the order. A float is passed as its bits, in an integer; for floats, this function is
    /// its own inverse.
    #[inline]
    pub fn place(self, number: i128) -> i128 {
        match self {
            Order::Numbers | Order::Wide => number,
            Order::Floats => float_order::place(number as i64).into(),
        }
    }

    /// The number whose place is `place`: the inverse of [`Order::place`].
    #[inline]
    pub fn number(self, place: i128) -> i128 {
        self.place(place)
    }

    /// The least and the greatest number among all numbers whose places are from `low` to `high`. A float counts as its
    /// bits, read as a signed integer. `low` must not exceed `high`.
    #[inline]
    pub fn numbers(self, low: i128, high: i128) -> (i128, i128) {
        match self {
            Order::Numbers | Order::Wide => (low, high),
            // Negative floats come first in the order. Among them, the one with the greatest bits comes first.
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
