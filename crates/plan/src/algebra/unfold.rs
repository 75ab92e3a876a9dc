//! Functions that make several rows from one: the elements of a list.

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::listed::Element;
use crate::base::ops::ColumnId;
use crate::base::types::Type;
use crate::functions::Document;

/// A list that is computed for each row. The operator repeats the row once for each element of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unfold {
    pub list: List,
    pub arguments: Vec<Expr>,
    /// The new column with the element. If `number` is set, that column has the element's number in the list, from 1,
    /// as Int64.
    pub column: ColumnId,
    pub number: Option<ColumnId>,
    /// Whether a row with an empty list is returned once, with nulls in the new columns.
    pub outer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum List {
    /// The integers from the first argument up or down to the second argument. The third argument is the step, a
    /// constant other than zero.
    Series,
    /// The elements of a PostgreSQL array, including nulls.
    Elements(Element),
    /// The elements of an array in a json or jsonb document: as documents, or as texts.
    Documents(Document),
    Texts(Document),
    /// The parts of a text between delimiters.
    Fields,
}

impl List {
    /// Whether this kind of list can have arguments of these types, and elements of type `column`.
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

    /// Whether it is an error if the argument contains no list.
    pub fn can_raise(self) -> bool {
        matches!(self, List::Documents(_) | List::Texts(_))
    }
}
