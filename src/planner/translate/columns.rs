//! The columns of the engine's result, as the upper query sees them.

use pgrx::prelude::*;
use plan::catalogue::Spread;
use plan::{AVERAGE_SCALE, Agg, Aggregation, ArithOp, ColumnId, Expr, Literal, Named, Type};

use super::translator::{Scale, Translator, Typed, exact};
use crate::pg::make;
use crate::pg::tree::{Node, Shape};
use crate::pg::types::{self, Form};
use crate::planner::words::reason::{Attempt, Why, type_reason};
use crate::spec::{Conversion, ResultColumn};

/// A column of the placeholder, and later of the scan.
pub struct ScanColumn {
    pub name: String,
    pub shape: Shape,
}

/// The engine's computation for a column.
pub enum Computed {
    /// A value of a row; in a grouped query, of a group with the columns joined to it.
    Value(Typed),
    Key(Typed),
    /// Over all values, or each once.
    Aggregate(Agg, Distinct),
}

/// Whether an aggregate takes each value once.
#[derive(Clone, Copy)]
pub struct Distinct(pub bool);

struct Column {
    shape: Shape,
    computed: Computed,
    /// The plan's columns that hold it: none for a value.
    ids: Vec<ColumnId>,
    conversion: Conversion,
    /// It has a form that PostgreSQL does not know.
    is_numeric: bool,
}

/// The upper query's node in place of an expression.
struct Replacement<'a> {
    /// The expression of the original query, as it was written.
    stands_for: Node<'a>,
    by: Node<'a>,
}

#[derive(Default)]
pub struct Columns<'a> {
    columns: Vec<Column>,
    replacements: Vec<Replacement<'a>>,
}

impl<'a> Columns<'a> {
    /// The replacement of this expression.
    pub fn find(&self, node: Node<'a>) -> Option<*mut pg_sys::Node> {
        let found = self.replacements.iter().find(|replacement| replacement.stands_for.equals(node))?;
        Some(found.by.copied().as_ptr())
    }

    /// Adds a column and returns a reference to it. `simple` is the simplified expression, which is computed.
    pub fn add(
        &mut self,
        translator: &mut Translator<'a>,
        stands_for: Node<'a>,
        simple: Node<'a>,
        computed: Computed,
        conversion: Conversion,
    ) -> Attempt<*mut pg_sys::Node> {
        let ids = ids(translator, &computed)?;
        let is_numeric = is_numeric(translator, &computed);
        let var = self.column(Column { shape: simple.shape(), computed, ids, conversion, is_numeric });
        Ok(self.replace(translator, stands_for, var))
    }

    /// A sum, or with a count an average, of numerics that show different numbers of digits.
    pub fn add_scaled(
        &mut self,
        translator: &mut Translator<'a>,
        stands_for: Node<'a>,
        (sum, ty): (Agg, Type),
        scale: Agg,
        count: Option<Agg>,
    ) -> Attempt<*mut pg_sys::Node> {
        let total = |agg| Computed::Aggregate(agg, Distinct(false));
        let sum = self.plain(translator, pg_sys::NUMERICOID, ty, total(sum))?;
        let scale = self.plain(translator, pg_sys::INT4OID, Type::Int32, total(scale))?;
        let mut result = call(pg_sys::F_ROUND_NUMERIC_INT4, pg_sys::NUMERICOID, &[sum, scale]);
        if let Some(count) = count {
            let count = self.plain(translator, pg_sys::INT8OID, Type::Int64, total(count))?;
            result = quotient(result, count);
        }
        Ok(self.replace(translator, stands_for, result))
    }

    /// A numeric of a row that shows as many digits as another value says.
    pub fn add_varying(
        &mut self,
        translator: &mut Translator<'a>,
        stands_for: Node<'a>,
        number: Typed,
        digits: Typed,
    ) -> Attempt<*mut pg_sys::Node> {
        let number = self.plain(translator, pg_sys::NUMERICOID, number.ty, Computed::Value(number))?;
        let digits = self.plain(translator, pg_sys::INT4OID, digits.ty, Computed::Value(digits))?;
        let rounded = call(pg_sys::F_ROUND_NUMERIC_INT4, pg_sys::NUMERICOID, &[number, digits]);
        Ok(self.replace(translator, stands_for, rounded))
    }

    /// An average of numerics, or of intervals.
    pub fn add_average(
        &mut self,
        translator: &mut Translator<'a>,
        stands_for: Node<'a>,
        ty: Type,
        (sum, count): (Agg, Agg),
    ) -> Attempt<*mut pg_sys::Node> {
        let total = |agg| Computed::Aggregate(agg, Distinct(false));
        let sql_type = if ty == Type::Interval { pg_sys::INTERVALOID } else { pg_sys::NUMERICOID };
        let sum = self.plain(translator, sql_type, ty, total(sum))?;
        let count = self.plain(translator, pg_sys::INT8OID, Type::Int64, total(count))?;
        let average = match ty {
            Type::Interval => {
                let count = call(pg_sys::F_FLOAT8_INT8, pg_sys::FLOAT8OID, &[count]);
                call(pg_sys::F_INTERVAL_DIV, pg_sys::INTERVALOID, &[sum, count])
            }
            _ => quotient(sum, count),
        };
        Ok(self.replace(translator, stands_for, average))
    }

    /// Adds a key that the query does not return.
    pub fn add_hidden_key(&mut self, translator: &mut Translator<'a>, key: Typed) -> Attempt<()> {
        self.plain(translator, pg_sys::NUMERICOID, key.ty, Computed::Key(key)).map(drop)
    }

    /// An aggregate that other columns are computed of.
    pub fn add_hidden_aggregate(
        &mut self,
        translator: &mut Translator<'a>,
        sql_type: pg_sys::Oid,
        ty: Type,
        agg: Agg,
    ) -> Attempt<ColumnId> {
        self.plain(translator, sql_type, ty, Computed::Aggregate(agg, Distinct(false)))?;
        self.last_id().ok_or_else(|| Why::Aggregate.of("aggregate of an unknown form"))
    }

    /// The plan's column that was added last, if it was one.
    pub fn last_id(&self) -> Option<ColumnId> {
        self.columns.last().and_then(|column| column.ids.first().copied())
    }

    fn replace(
        &mut self,
        translator: &Translator<'a>,
        stands_for: Node<'a>,
        by: *mut pg_sys::Node,
    ) -> *mut pg_sys::Node {
        self.replacements.push(Replacement { stands_for, by: translator.tree.required(by) });
        by
    }

    fn plain(
        &mut self,
        translator: &mut Translator<'a>,
        sql_type: pg_sys::Oid,
        ty: Type,
        computed: Computed,
    ) -> Attempt<*mut pg_sys::Node> {
        let conversion = plain(ty);
        let ids = ids(translator, &computed)?;
        let is_numeric = is_numeric(translator, &computed);
        Ok(self.column(Column { shape: Shape::of(sql_type), computed, ids, conversion, is_numeric }))
    }

    fn column(&mut self, column: Column) -> *mut pg_sys::Node {
        let shape = column.shape;
        self.columns.push(column);
        // The placeholder is the one entry of the upper query's range table.
        make::placed(make::column(1, self.columns.len() as i16, shape)).cast()
    }

    pub fn described(&self) -> Vec<ScanColumn> {
        let describe = |(position, column): (usize, &Column)| ScanColumn {
            name: match &column.computed {
                Computed::Value(_) | Computed::Key(_) => format!("c{}", position + 1),
                Computed::Aggregate(agg, _) => format!("{}{}", agg.aggregate().row().name, position + 1),
            },
            shape: column.shape,
        };
        self.columns.iter().enumerate().map(describe).collect()
    }

    pub fn keys(&self) -> Vec<plan::Computed> {
        let key = |column: &Column| match &column.computed {
            Computed::Key(typed) => Some(plan::Computed { column: column.ids[0], expr: typed.expr.clone() }),
            Computed::Value(_) | Computed::Aggregate(..) => None,
        };
        self.columns.iter().filter_map(key).collect()
    }

    pub fn aggregates(&self) -> Vec<Aggregation> {
        let aggregation = |column: &Column| match &column.computed {
            Computed::Aggregate(agg, distinct) => {
                Some(Aggregation { columns: column.ids.clone(), agg: agg.clone(), distinct: distinct.0 })
            }
            Computed::Value(_) | Computed::Key(_) => None,
        };
        self.columns.iter().filter_map(aggregation).collect()
    }

    /// The engine's output, and the place of each column in it.
    pub fn returned(&self) -> (Vec<Expr>, Vec<ResultColumn>) {
        let (mut output, mut columns) = (Vec::new(), Vec::new());
        for column in &self.columns {
            let at = output.len() as u16;
            if let Some((stored, form)) = stored(&column.computed) {
                columns.push(ResultColumn { at, conversion: Conversion::Kept(form) });
                output.push(stored.clone());
                continue;
            }
            columns.push(ResultColumn { at, conversion: column.conversion });
            let returned = |expr: Expr| match column.is_numeric {
                true => Expr::Call { function: Named::ToStored, ty: Type::Opaque, args: vec![expr] },
                false => expr,
            };
            match &column.computed {
                Computed::Value(typed) => output.push(returned(typed.expr.clone())),
                Computed::Key(_) | Computed::Aggregate(..) => {
                    output.extend(column.ids.iter().copied().map(Expr::column).map(returned));
                }
            }
        }
        (output, columns)
    }

    /// The same for expressions that the engine computes, too.
    pub fn read_by_engine(&self, translator: &Translator<'a>) -> Vec<Attempt<Typed>> {
        let read = |column: &Column| match (&column.computed, &column.ids[..]) {
            (Computed::Value(typed), _) => Ok(typed.clone()),
            (Computed::Key(typed), &[id]) => Ok(Typed { expr: Expr::column(id), ..typed.clone() }),
            (Computed::Aggregate(agg, _), &[id]) => Ok(exact(Expr::column(id), translator.result_types(agg)[0])),
            (Computed::Aggregate(Agg::Avg(_), _), &[sum, count]) => Ok(average(sum, count)),
            (Computed::Aggregate(Agg::Spread(_), _), &[difference, count]) => match column.conversion {
                Conversion::Spread { of, scale } => Ok(spread(of, scale, difference, count)),
                _ => Err(Why::Aggregate.of("aggregate of an unknown form")),
            },
            _ => Err(Why::Aggregate.of("aggregate of an unknown form")),
        };
        self.columns.iter().map(read).collect()
    }
}

/// The average as a value to compare. Its display scale depends on its value, which does not matter for comparisons.
/// Nor does a count of zero: the sum is null then.
pub fn average(sum: ColumnId, count: ColumnId) -> Typed {
    let ty = Type::Decimal128 { scale: AVERAGE_SCALE };
    let args = vec![Expr::column(sum), Expr::column(count)];
    let numeric = |id| Box::new(Expr::Cast { to: Type::Numeric, arg: Box::new(Expr::column(id)) });
    let (left, right) = (numeric(sum), numeric(count));
    let quotient = Expr::Arith { op: ArithOp::Div, ty: Type::Numeric, left, right };
    Typed { expr: Expr::Call { function: Named::Average, ty, args }, ty, scale: Scale::Shown(quotient) }
}

/// Variance or standard deviation of integers, or of numerics with `scale` digits behind the point.
pub fn spread(of: Spread, scale: u8, difference: ColumnId, count: ColumnId) -> Typed {
    let scale = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(2 * i64::from(scale))) };
    let args = vec![Expr::column(difference), Expr::column(count), scale];
    exact(Expr::Call { function: Named::Spread(of), ty: Type::Numeric, args }, Type::Numeric)
}

/// The plan's columns that hold the computed values.
fn ids(translator: &mut Translator<'_>, computed: &Computed) -> Attempt<Vec<ColumnId>> {
    match computed {
        Computed::Value(_) => Ok(Vec::new()),
        Computed::Key(typed) => Ok(vec![translator.column(typed.ty)?]),
        Computed::Aggregate(agg, _) => {
            translator.result_types(agg).into_iter().map(|ty| translator.column(ty)).collect()
        }
    }
}

/// A sum by a count.
fn quotient(sum: *mut pg_sys::Node, count: *mut pg_sys::Node) -> *mut pg_sys::Node {
    let count = call(pg_sys::F_NUMERIC_INT8, pg_sys::NUMERICOID, &[count]);
    call(pg_sys::F_NUMERIC_DIV, pg_sys::NUMERICOID, &[sum, count])
}

/// A call of a function with a result of this type.
fn call(function: u32, ty: pg_sys::Oid, arguments: &[*mut pg_sys::Node]) -> *mut pg_sys::Node {
    make::placed(make::call(function.into(), ty, pg_sys::InvalidOid, arguments.iter().copied())).cast()
}

fn is_numeric(translator: &Translator<'_>, computed: &Computed) -> bool {
    match computed {
        Computed::Value(typed) | Computed::Key(typed) => typed.ty == Type::Numeric,
        Computed::Aggregate(agg, _) => translator.result_types(agg)[..] == [Type::Numeric],
    }
}

/// The stored value, if the column is nothing more than that, and PostgreSQL's form of it.
fn stored(computed: &Computed) -> Option<(&Expr, Form)> {
    let Computed::Value(Typed { expr: Expr::Call { function, args, .. }, .. }) = computed else { return None };
    let form = match function {
        Named::FromStored => Form::Varlena,
        Named::IntervalOfStored => Form::Fixed(size_of::<pg_sys::Interval>()),
        _ => return None,
    };
    args.first().filter(|stored| matches!(stored, Expr::Column { .. })).zip(Some(form))
}

/// How a value of a type that needs no more than itself becomes PostgreSQL's again.
pub fn plain(ty: Type) -> Conversion {
    if ty == Type::Numeric { Conversion::Kept(Form::Varlena) } else { Conversion::Plain(ty) }
}

/// How a value of an expression becomes PostgreSQL's again. char(n) travels without its blanks; the conversion knows
/// n.
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
