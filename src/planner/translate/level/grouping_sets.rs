//! GROUPING SETS, ROLLUP and CUBE: several sets of keys by which the rows are grouped.

use std::ffi::c_void;

use pgrx::prelude::*;
use plan::{Aggregation, BoolOp, CmpOp, ColumnId, Computed, Expr, GroupingSets, Literal, Rel, Type};

use crate::pg::tree::{Node, Ref};
use crate::pg::walk::{mutate, mutate_children};
use crate::planner::translate::{Translator, Typed, exact};
use crate::planner::words::reason::{Attempt, Why};

/// The greatest number of sets, because the input is read once for each set.
const MOST_SETS: i32 = 64;

pub struct Sets {
    /// The keys of each set, as numbers of clauses of GROUP BY.
    sets: Vec<Vec<u32>>,
    /// The numbers of all clauses of GROUP BY, in the order of the keys' columns.
    clauses: Vec<u32>,
    number: ColumnId,
}

impl Sets {
    /// The grouping sets of a query; `None` if it has a plain GROUP BY.
    pub fn of<'a>(translator: &mut Translator<'a>, query: Ref<'a, pg_sys::Query>) -> Attempt<Option<Sets>> {
        if query.groupingSets.is_null() {
            return Ok(None);
        }
        let sets = query.expanded_grouping_sets(MOST_SETS);
        let sets = sets.ok_or_else(|| Why::Grouping.of("more than 64 grouping sets"))?;
        let clauses = query.groupClause().iter();
        let clauses = clauses.map(|clause| clause.tleSortGroupRef).collect();
        Ok(Some(Sets { sets, clauses, number: translator.column(Type::Int32)? }))
    }

    /// The groups of all sets. Keys that follow the keys of GROUP BY are functionally dependent on keys that every set
    /// contains, so they belong to every set.
    pub fn groups(&self, rel: Rel, keys: Vec<Computed>, aggregates: Vec<Aggregation>) -> Rel {
        let positions = |set: &Vec<u32>| {
            let own = (0..keys.len()).filter(|at| self.clauses.get(*at).is_none_or(|clause| set.contains(clause)));
            own.map(|at| at as u16).collect()
        };
        let sets = self.sets.iter().map(positions).collect();
        let grouping = GroupingSets { keys, sets, number: self.number, aggregates };
        Rel::GroupingSets { input: Box::new(rel), grouping: Box::new(grouping) }
    }

    /// Translates GROUPING(): one bit for each argument, which is 1 if the row's set does not contain that key.
    pub fn grouping(&self, node: Node<'_>) -> Attempt<Typed> {
        let function =
            node.cast::<pg_sys::GroupingFunc>().ok_or_else(|| Why::Grouping.of("GROUPING of an unknown form"))?;
        let integer = |number: i64| Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(number)) };
        let bits = |set: &Vec<u32>| {
            let missing = |clause: i32| i64::from(!set.contains(&(clause as u32)));
            function.refs().iter().fold(0, |bits, clause| bits << 1 | missing(clause))
        };
        let branch = |(number, set): (i64, &Vec<u32>)| {
            let (left, right) = (Box::new(Expr::column(self.number)), Box::new(integer(number)));
            (Expr::Cmp { op: CmpOp::Eq, left, right }, integer(bits(set)))
        };
        let branches = (0..).zip(&self.sets).map(branch).collect();
        Ok(exact(Expr::Case { branches, otherwise: Box::new(integer(0)) }, Type::Int32))
    }
}

impl Sets {
    /// The value in the groups of those sets that contain a key; null in all other groups.
    pub fn where_set_has(&self, clause: u32, value: Expr, ty: Type) -> Expr {
        let is_number = |(number, _): (i64, &Vec<u32>)| Expr::Cmp {
            op: CmpOp::Eq,
            left: Box::new(Expr::column(self.number)),
            right: Box::new(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(number)) }),
        };
        let having = (0..).zip(&self.sets).filter(|(_, set)| set.contains(&clause));
        let has = Expr::Bool { op: BoolOp::Or, args: having.map(is_number).collect() };
        Expr::Case { branches: vec![(has, value)], otherwise: Box::new(Expr::Literal { ty, value: None }) }
    }
}

/// Whether PostgreSQL will recognize every key in an expression above the groups, after it has simplified the
/// expression. A key that it does not recognize would not become null in the sets without that key.
pub fn reads_keys_alone(node: Node<'_>, keys: &[Node<'_>]) -> bool {
    let context = (&raw const keys).cast_mut().cast();
    // SAFETY: an expression, which is copied; the context has the type that `without_keys` expects.
    unsafe { !pg_sys::contain_var_clause(mutate(node.as_ptr(), without_keys, context)) }
}

/// A copy of an expression in which nulls replace the keys, and the values that are computed from a group's rows.
///
/// # Safety
///
/// `node` is null or a valid expression, and `context` points to the keys.
#[pg_guard]
unsafe extern "C-unwind" fn without_keys(node: *mut pg_sys::Node, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: `reads_keys_alone` gives the keys as the context; the mutator comes with null or a node below its own.
    unsafe {
        if node.is_null() {
            return node;
        }
        let keys = *context.cast::<&[Node<'_>]>();
        let is_of_group = matches!((*node).type_, pg_sys::NodeTag::T_Aggref | pg_sys::NodeTag::T_GroupingFunc);
        if is_of_group || keys.iter().any(|key| pg_sys::equal(key.as_ptr(), node.cast())) {
            return pg_sys::makeNullConst(pg_sys::exprType(node), -1, pg_sys::InvalidOid).cast();
        }
        mutate_children(node, without_keys, context)
    }
}
