//! Functions that make several rows of one: the elements of a list.

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
    /// The element, and its number from 1, an Int64.
    pub column: ColumnId,
    pub number: Option<ColumnId>,
    /// A row whose list has no elements is given once, with nulls.
    pub outer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum List {
    /// Integers from the first argument up or down to the second one, in steps of the third, a constant that is not
    /// zero.
    Series,
    /// The elements of an array of PostgreSQL's, with its nulls.
    Elements(Element),
    /// The elements of an array in a document, as documents or as texts.
    Documents(Document),
    Texts(Document),
    /// The parts of a text between delimiters.
    Fields,
}

impl List {
    /// Whether it is one of elements of type `column` for arguments of these types.
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

    /// Whether elements of arrays become values of this type.
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

    /// Whether what is no list raises an error.
    pub fn can_raise(self) -> bool {
        matches!(self, List::Documents(_) | List::Texts(_))
    }
}
