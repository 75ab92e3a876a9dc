//! The kinds of PostgreSQL's plan nodes above the engine's scan.

use pgrx::pg_sys::{self, NodeTag::*};

use crate::pg::tree::Ref;

/// The number of nodes of each kind that the engine could replace. Nodes of other kinds cost the same on both sides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Above {
    pub groups: usize,
    /// The number of nodes that keep only one of several equal rows.
    pub uniques: usize,
    pub windows: usize,
    /// Whether the rows are sorted, by one of these nodes or by the engine.
    pub sorts: bool,
}

impl Above {
    /// Counts the nodes in a chain of left children.
    pub fn of(mut plan: Option<Ref<'_, pg_sys::Plan>>) -> Above {
        let mut above = Above::default();
        while let Some(node) = plan {
            match node.type_ {
                T_Agg | T_Group => above.groups += 1,
                T_Unique => above.uniques += 1,
                T_WindowAgg => above.windows += 1,
                T_Sort | T_IncrementalSort => above.sorts = true,
                _ => {}
            }
            plan = node.lefttree();
        }
        above
    }
}
