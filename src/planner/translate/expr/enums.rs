//! The order and the labels of enums. Both come from the catalog, and travel as parameters, whose values are determined
//! when the query starts. No row can have a newer label, and labels never change their places.

use pgrx::prelude::*;
use plan::{Agg, Expr, Listed, Listing, Literal, Named, SortKey, Type};

use crate::pg::{catalog, make, types};
use crate::planner::translate::{Translator, Typed, exact};
use crate::spec::Source;

/// A separator that labels hardly ever contain. A query with a label that contains it runs on the heap.
const BETWEEN_LABELS: &str = "\u{1}";

impl Translator<'_> {
    /// The place of an enum's value in the order of its type.
    pub fn rank(&mut self, value: Typed, ty: pg_sys::Oid) -> Typed {
        let all = self.parameter(Type::Opaque, Source::Value, all_values(ty));
        exact(Expr::Call { function: Named::Rank, ty: Type::Int32, args: vec![value.expr, all] }, Type::Int32)
    }

    /// The label of a value.
    pub fn label(&mut self, value: Typed, ty: pg_sys::Oid) -> Typed {
        let all = self.parameter(Type::Opaque, Source::Value, all_values(ty));
        let labels = self.parameter(Type::Text, Source::Value, joined_labels(all_values(ty)));
        let between = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(BETWEEN_LABELS.into())) };
        let args = vec![value.expr, all, labels, between];
        exact(Expr::Call { function: Named::Label, ty: Type::Text, args }, Type::Text)
    }

    /// The first of all values in the enum's order, or the last.
    pub fn first_label(&mut self, value: Typed, ty: pg_sys::Oid, last: bool) -> Agg {
        let rank = self.rank(value.clone(), ty);
        let order = vec![SortKey { descending: last, ..SortKey::ascending(rank.expr) }];
        let share = Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(0.0)) };
        Agg::Listed(Box::new(Listed::new(Listing::Discrete, vec![value.expr, share], order, None)))
    }
}

/// `enum_range(NULL::ty)`.
fn all_values(ty: pg_sys::Oid) -> *mut pg_sys::Node {
    let (ty, _) = types::without_domain(ty, -1);
    let array = catalog::array_type(ty).unwrap_or(pg_sys::InvalidOid);
    let function = pg_sys::F_ENUM_RANGE_ANYENUM.into();
    make::placed(make::call(function, array, pg_sys::InvalidOid, [make::null(ty)])).cast()
}

/// `array_to_string(all, between)`.
fn joined_labels(all: *mut pg_sys::Node) -> *mut pg_sys::Node {
    let function = pg_sys::F_ARRAY_TO_STRING_ANYARRAY_TEXT.into();
    let arguments = [all, make::text_constant(BETWEEN_LABELS).cast()];
    make::placed(make::call(function, pg_sys::TEXTOID, pg_sys::InvalidOid, arguments)).cast()
}
