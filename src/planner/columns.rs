//! The columns of the engine's result, as the upper query sees them.

use pgrx::prelude::*;
use plan::{Agg, Expr, Type};

use super::reason::Attempt;
use crate::pg::tree::Node;
use crate::spec::{Conversion, ResultColumn};

/// A column of the placeholder, and later of the scan.
pub struct ScanColumn {
    pub name: String,
    pub ty: pg_sys::Oid,
    pub modifier: i32,
    pub collation: pg_sys::Oid,
}

pub enum Computed {
    /// Without grouping: an output expression; with it: a key.
    Value(Expr),
    Aggregate(Agg),
}

struct Column<'a> {
    /// The expression of the original query that it stands for, as it was written.
    stands_for: Node<'a>,
    /// The same, simplified: what is computed.
    simple: Node<'a>,
    computed: Computed,
    conversion: Conversion,
}

#[derive(Default)]
pub struct Columns<'a>(Vec<Column<'a>>);

/// What the engine is asked for, and where in its result each column is found.
pub struct Layout {
    pub values: Vec<Expr>,
    pub aggregates: Vec<Agg>,
    pub columns: Vec<ResultColumn>,
}

impl<'a> Columns<'a> {
    /// A reference to the column that stands for this expression.
    pub fn find(&self, node: Node<'a>) -> Option<*mut pg_sys::Var> {
        let position = self.0.iter().position(|column| column.stands_for.equals(node));
        position.map(|position| self.var(position))
    }

    /// One more column; a reference to it.
    pub fn add(
        &mut self,
        stands_for: Node<'a>,
        simple: Node<'a>,
        computed: Computed,
        conversion: Conversion,
    ) -> *mut pg_sys::Var {
        self.0.push(Column { stands_for, simple, computed, conversion });
        self.var(self.0.len() - 1)
    }

    fn var(&self, position: usize) -> *mut pg_sys::Var {
        let node = self.0[position].simple;
        let (ty, modifier, collation) = (node.sql_type(), node.type_modifier(), node.collation());
        // SAFETY: makes a node. The placeholder is the one entry of the upper query's range table.
        unsafe { pg_sys::makeVar(1, (position + 1) as i16, ty, modifier, collation, 0) }
    }

    pub fn described(&self) -> Vec<ScanColumn> {
        let describe = |(position, column): (usize, &Column<'a>)| ScanColumn {
            name: match &column.computed {
                Computed::Value(_) => format!("c{}", position + 1),
                Computed::Aggregate(agg) => format!("{}{}", agg.aggregate().row().name, position + 1),
            },
            ty: column.simple.sql_type(),
            modifier: column.simple.type_modifier(),
            collation: column.simple.collation(),
        };
        self.0.iter().enumerate().map(describe).collect()
    }

    /// The engine's result holds keys (or plain values) first, then the aggregates.
    pub fn lay_out(self) -> Layout {
        let is_value = |column: &&Column<'a>| matches!(column.computed, Computed::Value(_));
        let (mut next_value, mut next_aggregate) = (0, self.0.iter().filter(is_value).count() as u16);
        let mut layout = Layout { values: Vec::new(), aggregates: Vec::new(), columns: Vec::new() };
        for Column { computed, conversion, .. } in self.0 {
            let next = match computed {
                Computed::Value(expr) => {
                    layout.values.push(expr);
                    &mut next_value
                }
                Computed::Aggregate(agg) => {
                    layout.aggregates.push(agg);
                    &mut next_aggregate
                }
            };
            layout.columns.push(ResultColumn { at: *next, conversion });
            *next += width(conversion);
        }
        layout
    }
}

/// How many columns of the engine's result it takes.
fn width(conversion: Conversion) -> u16 {
    match conversion {
        Conversion::Average { .. } => 2,
        Conversion::Plain(_) | Conversion::Padded(_) => 1,
    }
}

/// How a value becomes PostgreSQL's again. char(n) travels without its blanks: who shows it must know n.
pub fn conversion(ty: Type, modifier: i32) -> Attempt<Conversion> {
    match (ty, modifier - pg_sys::VARHDRSZ as i32) {
        (Type::Char, ..0) => Err("character without length".into()),
        (Type::Char, length) => Ok(Conversion::Padded(length as u32)),
        (other, _) => Ok(Conversion::Plain(other)),
    }
}
