//! The columns of the engine's result, as the upper query sees them.

use pgrx::prelude::*;
use plan::{Agg, Aggregation, ColumnId, Expr, Named, Type};

use super::translator::{Translator, Typed, exact};
use crate::pg::tree::{Memory, Node, Shape};
use crate::pg::types::{self, Form};
use crate::planner::words::reason::{Attempt, Why, type_reason};
use crate::spec::Conversion;

/// A column of the placeholder and, later, of the scan.
pub struct ScanColumn {
    pub name: String,
    pub shape: Shape,
}

/// A column of the engine's result.
pub struct Column {
    /// The placeholder's name for the column, without the column's number.
    pub name: &'static str,
    pub shape: Shape,
    /// The expression that computes the column from a row of FROM. In a grouped query, it computes the column from a
    /// group and the rows joined to the group.
    pub value: Typed,
    /// The conversion of the value, with the digits that it shows, to PostgreSQL's value.
    pub conversion: Conversion,
}

impl Column {
    /// The column for a simplified expression.
    pub fn of(simple: Node<'_>, value: Typed, conversion: Conversion) -> Column {
        Column { name: "c", shape: simple.shape(), value, conversion }
    }
}

/// Whether an aggregate takes each distinct value once.
#[derive(Clone, Copy)]
pub struct Distinct(pub bool);

/// The node of the upper query that replaces an expression.
struct Replacement<'a> {
    /// The expression as it stands in the original query.
    stands_for: Node<'a>,
    by: Node<'a>,
}

/// The columns of the engine's result, with the groups' keys and aggregates from which they are computed.
#[derive(Default)]
pub struct Columns<'a> {
    columns: Vec<Column>,
    keys: Vec<plan::Computed>,
    aggregates: Vec<Aggregation>,
    replacements: Vec<Replacement<'a>>,
}

impl<'a> Columns<'a> {
    /// The node that replaces this expression; `None` if none does yet.
    pub fn find(&self, node: Node<'a>) -> Option<Node<'a>> {
        let found = self.replacements.iter().find(|replacement| replacement.stands_for.equals(node))?;
        Some(found.by.copied())
    }

    /// Adds a column, and returns a reference to it.
    pub fn add(&mut self, memory: Memory<'a>, stands_for: Node<'a>, column: Column) -> Node<'a> {
        let shape = column.shape;
        self.columns.push(column);
        // The placeholder is the only entry of the upper query's range table.
        let by = memory.column(1, self.columns.len() as i16, shape).node();
        self.replacements.push(Replacement { stands_for, by });
        by
    }

    /// Adds a key of the groups, and returns its value.
    pub fn key(&mut self, translator: &mut Translator<'a>, key: Typed) -> Attempt<Typed> {
        let Typed { expr, ty, scale } = key;
        let column = translator.column(ty)?;
        self.keys.push(plan::Computed { column, expr });
        Ok(Typed { expr: Expr::column(column), ty, scale })
    }

    /// Adds an aggregate of the groups, and returns its columns.
    pub fn aggregate(
        &mut self,
        translator: &mut Translator<'a>,
        agg: Agg,
        distinct: Distinct,
    ) -> Attempt<Vec<ColumnId>> {
        let types = translator.result_types(&agg);
        let columns = types.into_iter().map(|ty| translator.column(ty)).collect::<Attempt<Vec<_>>>()?;
        self.aggregates.push(Aggregation { columns: columns.clone(), agg, distinct: distinct.0 });
        Ok(columns)
    }

    /// Adds an aggregate that has one column, and returns its value.
    pub fn single(&mut self, translator: &mut Translator<'a>, agg: Agg, distinct: Distinct) -> Attempt<Typed> {
        match self.aggregate(translator, agg, distinct)?[..] {
            [column] => Ok(exact(Expr::column(column), translator.type_of(&Expr::column(column)))),
            _ => Err(Why::Aggregate.of("aggregate of an unknown form")),
        }
    }

    pub fn described(&self) -> Vec<ScanColumn> {
        let describe = |(number, column): (usize, &Column)| ScanColumn {
            name: format!("{}{number}", column.name),
            shape: column.shape,
        };
        (1..).zip(&self.columns).map(describe).collect()
    }

    pub fn keys(&self) -> &[plan::Computed] {
        &self.keys
    }

    pub fn aggregates(&self) -> &[Aggregation] {
        &self.aggregates
    }

    /// The engine's output, and the conversion of each of its columns to PostgreSQL's values.
    pub fn returned(&self, translator: &mut Translator<'a>) -> Attempt<(Vec<Expr>, Vec<Conversion>)> {
        let mut returned = |Column { value, conversion, .. }: &Column| {
            if let Some((stored, form)) = stored(&value.expr) {
                return Ok((stored.clone(), Conversion::Kept(form)));
            }
            let Typed { expr, ty, .. } = translator.shown(value.clone())?;
            let expr = match ty {
                Type::Numeric => Expr::Call { function: Named::ToStored, ty: Type::Opaque, args: vec![expr] },
                _ => expr,
            };
            Ok((expr, *conversion))
        };
        self.columns.iter().map(&mut returned).collect()
    }

    /// The values of the columns, for expressions that the engine computes from them.
    pub fn read_by_engine(&self) -> Vec<Attempt<Typed>> {
        self.columns.iter().map(|column| Ok(column.value.clone())).collect()
    }
}

/// The operand of an expression that only converts a value from the form in which PostgreSQL stores it, with that form.
/// The engine can then return the stored value itself. `None` for any other expression.
fn stored(expr: &Expr) -> Option<(&Expr, Form)> {
    let Expr::Call { function, args, .. } = expr else { return None };
    let form = match function {
        Named::FromStored => Form::Varlena,
        Named::IntervalOfStored => Form::Fixed(size_of::<pg_sys::Interval>()),
        _ => return None,
    };
    args.first().filter(|stored| matches!(stored, Expr::Column { .. })).zip(Some(form))
}

/// The conversion to PostgreSQL's value, for a type that needs nothing but the value.
pub fn plain(ty: Type) -> Conversion {
    if ty == Type::Numeric { Conversion::Kept(Form::Varlena) } else { Conversion::Plain(ty) }
}

/// The conversion of an expression's value to PostgreSQL's value. char(n) travels without its blanks, and the
/// conversion knows n.
pub fn conversion<'a>(translator: &Translator<'a>, ty: Type, node: Node<'a>) -> Attempt<Conversion> {
    match ty {
        Type::Char => match translator.char_length(node) {
            Some(length) => Ok(Conversion::Padded(length)),
            None => Err(Why::Type.of("character without length")),
        },
        Type::Opaque => {
            let (sql_type, _) = types::without_domain(node.sql_type(), node.type_modifier());
            Form::of_type(sql_type).map(Conversion::Kept).ok_or_else(|| type_reason(sql_type))
        }
        other => Ok(plain(other)),
    }
}
