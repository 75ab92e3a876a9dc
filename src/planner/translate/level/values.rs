//! VALUES in FROM: rows whose values stand in the query.

use pgrx::prelude::*;
use plan::catalogue::Kind;
use plan::{Expr, Literal, Part, Rel, Type};

use crate::pg::tree::{Node, Ref};
use crate::planner::translate::{Scale, Translator, Typed, cast};
use crate::planner::words::reason::{Attempt, Why};

/// The greatest number of rows, because each row becomes an operator of its own.
const MAX_ROWS: usize = 200;

impl<'a> Translator<'a> {
    /// Translates VALUES, which becomes the item `index` of the innermost scope.
    pub fn values(&mut self, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>) -> Attempt<Rel> {
        // The list of rows has no entry for a row without values.
        let rows: Vec<_> = entry.values_lists().iter().collect();
        if rows.len() > MAX_ROWS {
            return Err(Why::TooLarge.of(format!("VALUES of more than {MAX_ROWS} rows")));
        }
        let mut typed: Vec<Vec<Typed>> = Vec::new();
        for row in rows {
            let waiting = self.pending.len();
            let row: Vec<Node<'a>> = row.iter().map(Node::simplified).collect();
            typed.push(row.into_iter().map(|node| self.expression(node)).collect::<Attempt<_>>()?);
            if self.pending.len() > waiting {
                return Err(Why::Subquery.of("subquery in VALUES"));
            }
        }
        let width = typed.first().map_or(0, Vec::len);
        let mut parts: Vec<Part> = typed.iter().map(|_| Part { rel: Rel::Row, exprs: Vec::new() }).collect();
        let (mut columns, mut ids) = (Vec::new(), Vec::new());
        for at in 0..width {
            let column: Vec<Typed> = typed.iter().map(|row| row[at].clone()).collect();
            let (ty, scales) = common(&column)?;
            let id = self.column(ty)?;
            ids.push(id);
            for (part, typed) in parts.iter_mut().zip(column) {
                let value = if is_null(&typed) { Expr::Literal { ty, value: None } } else { cast(typed, ty) };
                part.exprs.push(value);
            }
            let scale = match scales {
                None => Scale::OfType,
                Some(scales) => {
                    let id = self.column(Type::Int32)?;
                    ids.push(id);
                    for (part, scale) in parts.iter_mut().zip(scales) {
                        let value = scale.map(|scale| Literal::Int(scale.into()));
                        part.exprs.push(Expr::Literal { ty: Type::Int32, value });
                    }
                    Scale::Varies(Expr::column(id))
                }
            };
            columns.push(Ok(Typed { expr: Expr::column(id), ty, scale }));
        }
        self.scope_mut().add_subquery(index, columns);
        Ok(Rel::Union { columns: ids, inputs: parts })
    }
}

/// The common type of a column's values. If the values show different numbers of digits, also returns the number for
/// each value. A null fits every type, and shows no digits.
fn common(column: &[Typed]) -> Attempt<(Type, Option<Vec<Option<u8>>>)> {
    let mut known = column.iter().filter(|typed| !is_null(typed));
    let first = known.clone().chain(column).next().ok_or_else(|| Why::Expression.of("VALUES of nothing"))?.ty;
    if column.iter().any(|typed| !typed.has_exact_scale()) {
        return Err(Why::NumericDigits.of("VALUES with a numeric that is not constant"));
    }
    if known.clone().all(|typed| typed.ty == first) {
        return Ok((first, None));
    }
    if known.any(|typed| typed.ty.kind() != Kind::Decimal) {
        return Err(Why::Expression.of("VALUES of different types"));
    }
    let scales: Vec<_> = column.iter().map(|typed| (!is_null(typed)).then(|| typed.ty.scale())).collect();
    let scale = scales.iter().copied().flatten().max().unwrap_or(0);
    Ok((Type::Decimal128 { scale }, Some(scales)))
}

fn is_null(typed: &Typed) -> bool {
    matches!(typed.expr, Expr::Literal { value: None, .. })
}
