//! The columns of the engine's result, as the upper query sees them.

use pgrx::prelude::*;
use plan::{Agg, Expr, Type};

use super::reason::Attempt;
use crate::pg::tree::{Node, push};
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

struct Column {
    ty: pg_sys::Oid,
    modifier: i32,
    collation: pg_sys::Oid,
    computed: Computed,
    conversion: Conversion,
}

/// What the upper query has instead of an expression.
struct Replacement<'a> {
    /// The expression of the original query, as it was written.
    stands_for: Node<'a>,
    by: *mut pg_sys::Node,
}

#[derive(Default)]
pub struct Columns<'a> {
    columns: Vec<Column>,
    replacements: Vec<Replacement<'a>>,
}

/// What the engine is asked for, and where in its result each column is found.
pub struct Layout {
    pub values: Vec<Expr>,
    pub aggregates: Vec<Agg>,
    pub columns: Vec<ResultColumn>,
}

impl<'a> Columns<'a> {
    /// What takes the place of this expression.
    pub fn find(&self, node: Node<'a>) -> Option<*mut pg_sys::Node> {
        let found = self.replacements.iter().find(|replacement| replacement.stands_for.equals(node))?;
        // SAFETY: copies a node.
        Some(unsafe { pg_sys::copyObjectImpl(found.by.cast()) }.cast())
    }

    /// One more column; a reference to it. `simple` is the expression, simplified: what is computed.
    pub fn add(
        &mut self,
        stands_for: Node<'a>,
        simple: Node<'a>,
        computed: Computed,
        conversion: Conversion,
    ) -> *mut pg_sys::Node {
        let (ty, modifier, collation) = (simple.sql_type(), simple.type_modifier(), simple.collation());
        let var = self.column(Column { ty, modifier, collation, computed, conversion });
        self.replace(stands_for, var)
    }

    /// A sum, or with a count an average, of numerics that show different numbers of digits.
    pub fn add_scaled(
        &mut self,
        stands_for: Node<'a>,
        (sum, ty): (Agg, Type),
        scale: Agg,
        count: Option<Agg>,
    ) -> *mut pg_sys::Node {
        let sum = self.plain(pg_sys::NUMERICOID, ty, sum);
        let scale = self.plain(pg_sys::INT4OID, Type::Int32, scale);
        let mut result = call(pg_sys::F_ROUND_NUMERIC_INT4, &[sum, scale]);
        if let Some(count) = count {
            let count = self.plain(pg_sys::INT8OID, Type::Int64, count);
            result = call(pg_sys::F_NUMERIC_DIV, &[result, call(pg_sys::F_NUMERIC_INT8, &[count])]);
        }
        self.replace(stands_for, result)
    }

    fn replace(&mut self, stands_for: Node<'a>, by: *mut pg_sys::Node) -> *mut pg_sys::Node {
        self.replacements.push(Replacement { stands_for, by });
        by
    }

    fn plain(&mut self, sql_type: pg_sys::Oid, ty: Type, agg: Agg) -> *mut pg_sys::Node {
        let (computed, conversion) = (Computed::Aggregate(agg), Conversion::Plain(ty));
        self.column(Column { ty: sql_type, modifier: -1, collation: pg_sys::InvalidOid, computed, conversion })
    }

    fn column(&mut self, column: Column) -> *mut pg_sys::Node {
        self.columns.push(column);
        let (position, column) = (self.columns.len() as i16, &self.columns[self.columns.len() - 1]);
        // SAFETY: makes a node. The placeholder is the one entry of the upper query's range table.
        unsafe { pg_sys::makeVar(1, position, column.ty, column.modifier, column.collation, 0) }.cast()
    }

    pub fn described(&self) -> Vec<ScanColumn> {
        let describe = |(position, column): (usize, &Column)| ScanColumn {
            name: match &column.computed {
                Computed::Value(_) => format!("c{}", position + 1),
                Computed::Aggregate(agg) => format!("{}{}", agg.aggregate().row().name, position + 1),
            },
            ty: column.ty,
            modifier: column.modifier,
            collation: column.collation,
        };
        self.columns.iter().enumerate().map(describe).collect()
    }

    /// The engine's result holds keys (or plain values) first, then the aggregates.
    pub fn lay_out(self) -> Layout {
        let is_value = |column: &&Column| matches!(column.computed, Computed::Value(_));
        let (mut next_value, mut next_aggregate) = (0, self.columns.iter().filter(is_value).count() as u16);
        let mut layout = Layout { values: Vec::new(), aggregates: Vec::new(), columns: Vec::new() };
        for Column { computed, conversion, .. } in self.columns {
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

/// A call of a function of numerics.
fn call(function: u32, arguments: &[*mut pg_sys::Node]) -> *mut pg_sys::Node {
    let mut list = std::ptr::null_mut();
    for argument in arguments {
        push(&mut list, *argument);
    }
    let (none, form) = (pg_sys::InvalidOid, pg_sys::CoercionForm::COERCE_EXPLICIT_CALL);
    // SAFETY: makes a node.
    unsafe { pg_sys::makeFuncExpr(function.into(), pg_sys::NUMERICOID, list, none, none, form) }.cast()
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
