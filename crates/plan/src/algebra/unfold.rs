//! Functions that make several rows from one: the elements of a list.

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::listed::Element;
use crate::base::ops::ColumnId;
use crate::base::types::Type;
use crate::functions::Document;

/// A column that an operator adds to its rows; each row is repeated for each element of its own list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unfold {
    pub list: List,
    pub arguments: Vec<Expr>,
    /// The column of the element; the next one, if any, is its number from 1, an Int64.
    pub column: ColumnId,
    pub number: Option<ColumnId>,
    /// Whether a row with an empty list is returned once, with nulls.
    pub outer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum List {
    /// The integers from the first argument up or down to the second one, in steps of the third, which is a constant
    /// other than zero.
    Series,
    /// The elements of an array of PostgreSQL, with its nulls.
    Elements(Element),
    /// The elements of an array in a document, as documents or as texts.
    Documents(Document),
    Texts(Document),
    /// The parts of a text between delimiters.
    Fields,
}

impl List {
    /// Whether it makes elements of type `column` from arguments of these types.
    pub fn takes(self, arguments: &[Type], column: Type) -> bool {
        use Type::*;
        match (self, arguments) {
            (List::Series, [from, to, by]) => {
                [from, to, by].into_iter().all(|ty| *ty == column) && matches!(column, Int32 | Int64)
            }
            (List::Elements(_), [Opaque]) => List::has_elements(column),
            (List::Documents(_), [Opaque]) => column == Opaque,
            (List::Texts(_), [Opaque]) => column == Text,
            (List::Fields, [Text, Text]) => column == Text,
            _ => false,
        }
    }

    /// Whether elements of arrays can have this type.
    pub fn has_elements(ty: Type) -> bool {
        use Type::*;
        matches!(
            ty,
            Bool | Int16
                | Int32
                | Int64
                | Float64
                | Date
                | Timestamp
                | TimestampTz
                | Time
                | Oid
                | Enum
                | Uuid
                | Text
                | Bytes
                | Numeric
                | Opaque
        )
    }

    /// Whether a value that is no list raises an error.
    pub fn can_raise(self) -> bool {
        matches!(self, List::Documents(_) | List::Texts(_))
    }
}
