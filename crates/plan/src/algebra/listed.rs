//! Aggregates over a group's values in an order. The result is a list of all values, or one value chosen by its
//! position or its frequency.

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::rel::SortKey;
use crate::base::types::Type;

/// The kind of a list aggregate. The order may leave open which of two equal rows comes first. All aggregates with the
/// same order over the same rows agree on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Listing {
    /// The concatenation of the texts or byte strings that are not null. Each value except the first is preceded by the
    /// delimiter that its own row has.
    Joined,
    /// An array of all values, including nulls.
    Array,
    /// The percentile without interpolation. In the order of the values that are not null, it is the first value for
    /// which at least this share of the values come no later.
    Discrete,
    /// The percentile with interpolation. It is a float or interval, at this share of the way from the first value to
    /// the last.
    Continuous,
    /// The most frequent value. If several values are equally frequent, it is the first of them in the order.
    Mode,
}

/// A [`Listing`] with its arguments and its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    pub of: Listing,
    /// The arguments, as many as [`Listing::arguments`] says, followed by the sort keys of the order.
    pub arguments: Vec<Expr>,
    pub order: Vec<Direction>,
    /// The form of the elements, for [`Listing::Array`].
    pub element: Option<Element>,
}

/// A [`SortKey`] without its expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direction {
    pub locale: Option<String>,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The form in which PostgreSQL stores the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Element {
    pub oid: u32,
    /// The alignment of an element in PostgreSQL's array, in bytes.
    pub align: u8,
    /// The length of an element in bytes; `None` if each element contains its own length.
    pub length: Option<u16>,
    /// The number of characters to which a char(n) is padded with blanks.
    pub padded: u32,
}

impl Listing {
    /// The number of arguments. The first argument is the value. The second argument depends on the kind: the delimiter
    /// for [`Listing::Joined`]; the share for percentiles, which is the same in all rows; and for [`Listing::Array`],
    /// whether the row's value is listed.
    pub fn arguments(self) -> usize {
        match self {
            Listing::Joined | Listing::Array | Listing::Discrete | Listing::Continuous => 2,
            Listing::Mode => 1,
        }
    }

    /// Whether this kind of aggregate can have arguments of these types.
    fn takes(self, arguments: &[Type]) -> bool {
        match (self, arguments) {
            (Listing::Joined, [value, delimiter]) => value == delimiter && matches!(value, Type::Text | Type::Bytes),
            (Listing::Array, [value, belongs]) => *value != Type::Numeric && *belongs == Type::Bool,
            (Listing::Discrete, [_, share]) => *share == Type::Float64,
            (Listing::Continuous, [value, share]) => {
                matches!(value, Type::Float64 | Type::Interval) && *share == Type::Float64
            }
            (Listing::Mode, [_]) => true,
            _ => false,
        }
    }
}

impl Listed {
    pub fn new(of: Listing, mut arguments: Vec<Expr>, order: Vec<SortKey>, element: Option<Element>) -> Listed {
        let mut directions = Vec::with_capacity(order.len());
        for SortKey { expr, locale, descending, nulls_first } in order {
            arguments.push(expr);
            directions.push(Direction { locale, descending, nulls_first });
        }
        Listed { of, arguments, order: directions, element }
    }

    /// The aggregate's own arguments, and the sort keys of the order.
    pub fn parts(&self) -> (&[Expr], &[Expr]) {
        self.arguments.split_at(self.of.arguments())
    }

    /// The keys of the order with their expressions.
    pub fn sort_keys(&self) -> Vec<SortKey> {
        let with = |(expr, direction): (&Expr, &Direction)| {
            let Direction { locale, descending, nulls_first } = direction.clone();
            SortKey { expr: expr.clone(), locale, descending, nulls_first }
        };
        self.parts().1.iter().zip(&self.order).map(with).collect()
    }

    /// Whether the aggregate is well-formed, given the types of its arguments.
    pub fn takes(&self, arguments: &[Type], distinct: bool) -> bool {
        let Some((own, order)) = arguments.split_at_checked(self.of.arguments()) else { return false };
        let are_texts = |(ty, direction): (&Type, &Direction)| direction.locale.is_none() || ty.is_text();
        self.of.takes(own)
            && order.len() == self.order.len()
            && order.iter().zip(&self.order).all(are_texts)
            && self.element.is_some() == (self.of == Listing::Array)
            && self.element.is_none_or(|element| [1, 2, 4, 8].contains(&element.align))
            // With DISTINCT, an order is needed, because the order says which values are equal.
            && !(distinct && order.is_empty())
    }
}
