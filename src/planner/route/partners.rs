//! How the engine would join the two sides of a nested loop of the heap's plan, by the same conditions: by a hash
//! table, by searching sorted rows, or by comparing all pairs.

use pgrx::prelude::*;
use plan::CmpOp;

use crate::pg::compat::ordered_by_bytes;
use crate::pg::tree::{List, Node};
use crate::planner::words::operators;

/// A comparison that is a condition of a join or of an index.
pub struct Compared<'a> {
    node: Node<'a>,
    op: CmpOp,
    collation: pg_sys::Oid,
    sides: [Node<'a>; 2],
}

/// The comparisons in a list of conditions. A comparison of whole rows counts as a comparison of their first values.
pub fn compared<'a>(conditions: List<'a, pg_sys::Node>) -> impl Iterator<Item = Compared<'a>> {
    conditions.iter().filter_map(|node| {
        let (operator, collation, sides) = if let Some(call) = node.cast::<pg_sys::OpExpr>() {
            let mut args = call.args().iter();
            (call.opno, call.inputcollid, [args.next()?, args.next()?])
        } else {
            let rows = node.cast::<pg_sys::RowCompareExpr>()?;
            let sides = [rows.largs().iter().next()?, rows.rargs().iter().next()?];
            (rows.opnos().iter().next()?, rows.inputcollids().iter().next()?, sides)
        };
        let (_, op) = operators::comparison(operator)?;
        Some(Compared { node, op, collation, sides })
    })
}

/// A way in which the engine finds the partners of a row, from the cheapest to the most expensive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The engine looks the partners up in a hash table.
    Table,
    /// The engine searches rows that it has sorted.
    Order,
    Pairs,
}

/// The best way that the comparisons allow; `None` if there are no comparisons.
pub fn way<'a>(comparisons: impl Iterator<Item = Compared<'a>>) -> Option<Way> {
    comparisons.map(|comparison| comparison.way()).min()
}

impl Compared<'_> {
    /// Whether one side of the comparison is a value of an outer row.
    pub fn reads_param(&self) -> bool {
        self.node.any(|node| node.cast::<pg_sys::Param>().is_some())
    }

    fn way(&self) -> Way {
        match self.op {
            CmpOp::Eq => Way::Table,
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge if self.has_ranks() && self.is_between_sides() => Way::Order,
            _ => Way::Pairs,
        }
    }

    /// Whether the engine can sort the values. It can sort text only if the collation orders by bytes.
    fn has_ranks(&self) -> bool {
        self.collation == pg_sys::InvalidOid || ordered_by_bytes(self.collation)
    }

    /// Whether each side of the comparison reads a different side of the join. In an index condition, the index's
    /// column is always compared with a value from outside.
    fn is_between_sides(&self) -> bool {
        let is_of = |node: Node<'_>, side: fn(Node<'_>) -> bool| node.any(side);
        let [left, right] = self.sides.map(|side| (is_of(side, is_outer), is_of(side, is_inner)));
        left.0 != left.1 && right.0 != right.1 && left.0 != right.0 || self.reads_param()
    }
}

fn is_outer(node: Node<'_>) -> bool {
    node.cast::<pg_sys::Var>().is_some_and(|var| var.varno == pg_sys::OUTER_VAR)
}

fn is_inner(node: Node<'_>) -> bool {
    node.cast::<pg_sys::Var>().is_some_and(|var| var.varno == pg_sys::INNER_VAR)
}
