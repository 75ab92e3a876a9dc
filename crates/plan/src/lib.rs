//! The analytic plan: what a backend asks the engine to compute, and nothing about how.
//!
//! A plan is one SELECT level over mirrored tables: scan, filter, inner join, group, aggregate. Everything above
//! (projection of arbitrary expressions, HAVING, DISTINCT, ORDER BY, LIMIT) stays with PostgreSQL, which reads the
//! plan's `output` columns as if they were a table.
//!
//! The crate knows neither PostgreSQL nor DataFusion, so that the extension's library and the engine can share it.
//! Every operation in it is *typed exactly as PostgreSQL typed it*: the translator in `src/planner` writes a
//! [`Expr`] only where the engine's result is PostgreSQL's, bit for bit, or an error.

pub mod catalogue;
mod expr;
mod failure;
mod named;
pub mod numeric;
mod types;

pub use catalogue::{Agg, Named};
pub use expr::{ArithOp, BoolOp, CmpOp, Expr, Literal};
pub use failure::FailureKind;
pub use named::Field;
pub use types::{Identity, MirrorColumn, Physical, TableLayout, Type};

use serde::{Deserialize, Serialize};

/// One SELECT level.
///
/// Rows are the inner join of all `relations` restricted by all `filters` (equi-join conditions are filters too:
/// `Cmp(Eq, Column(0, 1), Column(1, 0))`). If `grouping` is present the rows are grouped and `output` refers to the
/// groups, otherwise `output` refers to the rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub relations: Vec<Relation>,
    /// Conjuncts, each of type [`Type::Bool`]; a row passes if all are true (not null, not false).
    pub filters: Vec<Expr>,
    pub grouping: Option<Grouping>,
    /// Without `grouping`: the expressions to return for each row, often plain columns. May be empty: then only the
    /// number of rows counts. With `grouping` this list is empty and the output is the keys, then the aggregates,
    /// where [`Agg::Avg`] takes two output columns (see [`Plan::output_types`]).
    pub output: Vec<Expr>,
    /// Types of the parameters that expressions refer to by [`Expr::Param`]; their values travel with the request.
    pub params: Vec<Type>,
}

/// A mirrored table as the query sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    pub relid: u32,
    /// The columns that the plan touches: `Expr::Column { rel, col }` counts in this list.
    pub columns: Vec<RelationColumn>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationColumn {
    /// PostgreSQL's attribute number.
    pub attnum: i16,
    pub ty: Type,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grouping {
    /// Empty for an aggregate without GROUP BY, which returns exactly one row.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Agg>,
}

impl Plan {
    /// The type of an expression of this plan.
    pub fn type_of(&self, expr: &Expr) -> Type {
        expr.ty(&self.relations, &self.params)
    }

    /// Levels of the most deeply nested expression.
    pub fn depth(&self) -> usize {
        let grouped =
            self.grouping.iter().flat_map(|g| g.keys.iter().chain(g.aggregates.iter().filter_map(Agg::argument)));
        self.filters.iter().chain(&self.output).chain(grouped).map(Expr::depth).max().unwrap_or(0)
    }

    /// Types of the result's columns, in order, as they travel.
    pub fn output_types(&self) -> Vec<Type> {
        match &self.grouping {
            None => self.output.iter().map(|e| self.type_of(e)).collect(),
            Some(g) => {
                let mut types: Vec<Type> = g.keys.iter().map(|e| self.type_of(e)).collect();
                for agg in &g.aggregates {
                    let argument = agg.argument().map_or(Type::Int64, |e| self.type_of(e));
                    types.extend(agg.aggregate().row().output_types(argument));
                }
                types
            }
        }
    }
}
