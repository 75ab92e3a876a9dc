//! Aggregates over all values of a group in an order: lists of the values, or the value at a certain place.

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::rel::SortKey;
use crate::base::types::Type;

/// The kind of a list aggregate. Rows that are equal in the order may come in any sequence, which is the same for all
/// aggregates with the same order over the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Listing {
    /// The concatenated texts or byte strings that are not null. Each except the first comes after its row's delimiter.
    Joined,
    /// An array of all values, with the nulls.
    Array,
    /// The first value, in the order of those that are not null, that has at least this share of them up to itself.
    Discrete,
    /// The float or interval at this share of the way from the first value to the last.
    Continuous,
    /// The most frequent value; if there are several, the first.
    Mode,
}

/// A [`Listing`] of expressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    pub of: Listing,
    /// The arguments, as many as [`Listing::arguments`] returns, followed by the keys of the order.
    pub arguments: Vec<Expr>,
    pub order: Vec<Direction>,
    /// The element of an array.
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
    /// The alignment of an element, in bytes.
    pub align: u8,
    /// The length of an element in bytes; `None` if it varies, and each element contains its own.
    pub length: Option<u16>,
    /// The number of characters to which a text is padded with blanks.
    pub padded: u32,
}

impl Listing {
    /// The number of arguments. The first is the value. The second is the delimiter of [`Listing::Joined`], or the
    /// share of percentiles, which is the same for all rows. For [`Listing::Array`], it is whether the row is listed.
    pub fn arguments(self) -> usize {
        match self {
            Listing::Joined | Listing::Array | Listing::Discrete | Listing::Continuous => 2,
            Listing::Mode => 1,
        }
    }

    /// Whether it is one for arguments of these types.
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

    /// The arguments, and the keys of the order.
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

    /// Whether the aggregate is well-formed with arguments of these types.
    pub fn takes(&self, arguments: &[Type], distinct: bool) -> bool {
        let Some((own, order)) = arguments.split_at_checked(self.of.arguments()) else { return false };
        let are_texts = |(ty, direction): (&Type, &Direction)| direction.locale.is_none() || ty.is_text();
        self.of.takes(own)
            && order.len() == self.order.len()
            && order.iter().zip(&self.order).all(are_texts)
            && self.element.is_some() == (self.of == Listing::Array)
            && self.element.is_none_or(|element| [1, 2, 4, 8].contains(&element.align))
            // Values that are equal in the order are the same value.
            && !(distinct && order.is_empty())
    }
}
