//! The order and the labels of enums. Both come from the catalog, as parameters whose values are determined when the
//! query starts. They stay valid while it runs: no row that it sees can have a newer label, and labels never change
//! their order.

use pgrx::prelude::*;
use plan::{Agg, Expr, Listed, Listing, Literal, Named, SortKey, Type};

use crate::pg::tree::{Memory, Node};
use crate::pg::{catalog, types};
use crate::planner::translate::{Translator, Typed, exact};
use crate::spec::Source;

/// The separator between labels. Almost no label contains this character, and a query that needs a label with it runs
/// on the heap.
const BETWEEN_LABELS: &str = "\u{1}";

impl Translator<'_> {
    /// The position of an enum's value in the order of its type.
    pub fn rank(&mut self, value: Typed, ty: pg_sys::Oid) -> Typed {
        let all = self.parameter(Type::Opaque, Source::Value, all_values(self.memory, ty));
        exact(Expr::Call { function: Named::Rank, ty: Type::Int32, args: vec![value.expr, all] }, Type::Int32)
    }

    /// The label of an enum's value.
    pub fn label(&mut self, value: Typed, ty: pg_sys::Oid) -> Typed {
        let all = self.parameter(Type::Opaque, Source::Value, all_values(self.memory, ty));
        let labels = joined_labels(self.memory, all_values(self.memory, ty));
        let labels = self.parameter(Type::Text, Source::Value, labels);
        let between = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(BETWEEN_LABELS.into())) };
        let args = vec![value.expr, all, labels, between];
        exact(Expr::Call { function: Named::Label, ty: Type::Text, args }, Type::Text)
    }

    /// The aggregate that returns the first of all values in the enum's order or, if `last`, the last one.
    pub fn first_label(&mut self, value: Typed, ty: pg_sys::Oid, last: bool) -> Agg {
        let rank = self.rank(value.clone(), ty);
        let order = vec![SortKey { descending: last, ..SortKey::ascending(rank.expr) }];
        let share = Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(0.0)) };
        Agg::Listed(Box::new(Listed::new(Listing::Discrete, vec![value.expr, share], order, None)))
    }
}

/// `enum_range(NULL::ty)`.
fn all_values(memory: Memory<'_>, ty: pg_sys::Oid) -> Node<'_> {
    let (ty, _) = types::without_domain(ty, -1);
    let array = catalog::array_type(ty).unwrap_or(pg_sys::InvalidOid);
    memory.call(pg_sys::F_ENUM_RANGE_ANYENUM, array, pg_sys::InvalidOid, [memory.null(ty)])
}

/// `array_to_string(all, between)`.
fn joined_labels<'a>(memory: Memory<'a>, all: Node<'a>) -> Node<'a> {
    let arguments = [all, memory.text(BETWEEN_LABELS)];
    memory.call(pg_sys::F_ARRAY_TO_STRING_ANYARRAY_TEXT, pg_sys::TEXTOID, pg_sys::InvalidOid, arguments)
}
