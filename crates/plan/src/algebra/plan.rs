//! A whole plan: the relations that it reads, its operators, and its output.

use serde::{Deserialize, Serialize};

use crate::algebra::expr::Expr;
use crate::algebra::rel::{Rel, SortKey};
use crate::base::types::Type;

/// A query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The relations that the plan reads. A table that is read twice appears twice.
    pub relations: Vec<Relation>,
    /// The types of all columns, by [`ColumnId`].
    pub columns: Vec<Type>,
    /// The types of the parameters, to which [`Expr::Param`] refers. Their values are sent with the request.
    pub params: Vec<Type>,
    pub root: Rel,
    /// The values that are returned for each of the root's rows, often plain columns. If the list is empty, only the
    /// number of rows matters.
    pub output: Vec<Expr>,
}

/// A relation that the query reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    pub source: Source,
    /// The types of the columns that the plan reads.
    pub columns: Vec<Type>,
    /// Conditions for the rows that the user may see. The plan's operators test these conditions as well. They are
    /// listed here so that estimates count only visible rows.
    pub visible_if: Vec<Expr>,
}

/// The source of a relation's rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Mirrored tables, whose rows are concatenated: one table, or all partitions of a partitioned table.
    Tables {
        tables: Vec<Table>,
        /// Whether the tables' keys are disjoint: no key of one table occurs in another table.
        apart: bool,
    },
    /// Rows that the backend has computed, and sends with the request.
    Sent,
}

/// A mirrored table as the query sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub relid: u32,
    /// PostgreSQL's attribute number for each of the relation's columns.
    pub attnums: Vec<i16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationColumn {
    /// PostgreSQL's attribute number.
    pub attnum: i16,
    pub ty: Type,
}

impl Relation {
    /// A relation of which the user may see all rows.
    pub fn new(source: Source, columns: Vec<Type>) -> Relation {
        Relation { source, columns, visible_if: Vec::new() }
    }

    /// A relation with the rows of one table.
    pub fn of_table(relid: u32, columns: &[RelationColumn]) -> Relation {
        let table = Table { relid, attnums: columns.iter().map(|column| column.attnum).collect() };
        let source = Source::Tables { tables: vec![table], apart: true };
        Relation::new(source, columns.iter().map(|column| column.ty).collect())
    }

    /// The mirrored tables that this relation reads.
    pub fn tables(&self) -> &[Table] {
        match &self.source {
            Source::Tables { tables, .. } => tables,
            Source::Sent => &[],
        }
    }

    pub(super) fn tables_mut(&mut self) -> &mut [Table] {
        match &mut self.source {
            Source::Tables { tables, .. } => tables,
            Source::Sent => &mut [],
        }
    }
}

impl Plan {
    /// The mirrored tables of all relations, in order.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.relations.iter().flat_map(Relation::tables)
    }

    /// The type of an expression of this plan.
    pub fn type_of(&self, expr: &Expr) -> Type {
        expr.ty(&self.columns, &self.params)
    }

    /// The greatest depth of nesting in expressions and operators.
    pub fn depth(&self) -> usize {
        let mut deepest = self.root.depth();
        let mut look = |e: &Expr| deepest = deepest.max(e.depth());
        self.output.iter().for_each(&mut look);
        self.root.visit(&mut |rel| rel.expressions().into_iter().for_each(&mut look));
        deepest
    }

    /// The types of the result's columns, in order, in the form in which they are sent.
    pub fn output_types(&self) -> Vec<Type> {
        self.output.iter().map(|e| self.type_of(e)).collect()
    }

    /// If the root only sorts the rows: its sort keys, and its input.
    pub fn order(&self) -> Option<(&[SortKey], &Rel)> {
        match &self.root {
            Rel::Top { input, keys, order, range } if keys.is_empty() && !order.is_empty() && range.is_all() => {
                Some((order, input))
            }
            _ => None,
        }
    }

    /// Whether an expression can raise an error after some rows were returned. Grouping and sorting read all of their
    /// input before they return a row, so an error in their input comes before the first row.
    pub fn may_fail_late(&self) -> bool {
        let raises = |rel: &Rel| rel.expressions().iter().any(|e| e.can_raise());
        if self.output.iter().any(Expr::can_raise) {
            return true;
        }
        if self.order().is_some() {
            return false;
        }
        let mut rel = &self.root;
        loop {
            match rel {
                _ if is_complete_first(rel) => return false,
                Rel::Filter { input, .. } | Rel::Map { input, .. } | Rel::Top { input, .. } if !raises(rel) => {
                    rel = input;
                }
                _ => break,
            }
        }
        let mut any = false;
        let is_complete = |rel: &Rel| {
            matches!(rel, Rel::Aggregate { .. } | Rel::Window { .. } | Rel::GroupingSets { .. } | Rel::Apply { .. })
        };
        let unfolds = |rel: &Rel| matches!(rel, Rel::Unfold { unfold, .. } if unfold.list.can_raise());
        rel.visit(&mut |rel| any |= raises(rel) || is_complete(rel) || unfolds(rel));
        any
    }

    /// Whether the result's rows are groups, or are sorted. In both cases, all rows are read before the first row is
    /// returned.
    pub fn ends_with_groups(&self) -> bool {
        if self.order().is_some() {
            return true;
        }
        let mut rel = &self.root;
        while let Rel::Filter { input, .. } | Rel::Map { input, .. } = rel {
            rel = input;
        }
        is_complete_first(rel)
    }
}

/// Whether an operator has read all of its input before it returns its first row.
fn is_complete_first(rel: &Rel) -> bool {
    match rel {
        Rel::Aggregate { .. } | Rel::GroupingSets { .. } => true,
        // Without a limit, the operator returns all rows, so it need not collect them first.
        Rel::Top { keys, order, range, .. } => {
            let counted = matches!(range.count, Some(Expr::Literal { value: Some(_), .. }));
            counted && !(keys.is_empty() && order.is_empty())
        }
        Rel::Scan { .. }
        | Rel::Row
        | Rel::Filter { .. }
        | Rel::Map { .. }
        | Rel::Join { .. }
        | Rel::Apply { .. }
        | Rel::Union { .. }
        | Rel::Unfold { .. }
        | Rel::Window { .. } => false,
    }
}
