//! Aggregates over an ordered list of a group's values: `string_agg`, `array_agg`, percentiles, `mode`.

use pgrx::prelude::*;
use plan::{Agg, Aggregation, Element, Expr, JoinKind, Listed, Listing, Literal, Named, Rel, SortKey, Type};

use super::call::{Translated, unknown, where_true};
use crate::pg::tree::{Node, Ref};
use crate::pg::types::{self, Form};
use crate::planner::translate::columns::{Distinct, conversion, plain};
use crate::planner::translate::level::arrival::unknown_order;
use crate::planner::translate::level::ordered::Targets;
use crate::planner::translate::level::select::{Level, Use, whole_level};
use crate::planner::translate::{Pending, Translator, Typed, exact};
use crate::planner::words::reason::{Attempt, Why};
use crate::spec::{Conversion, Source};

impl<'a> Translator<'a> {
    pub fn listed(
        &mut self,
        aggref: Ref<'a, pg_sys::Aggref>,
        of: Listing,
        arrival: Vec<SortKey>,
    ) -> Attempt<Translated> {
        let filter = aggref.aggfilter().map(|filter| self.condition(filter)).transpose()?;
        let filter = filter.as_ref();
        let targets = Targets::of(aggref.args().node());
        let distinct = !aggref.aggdistinct.is_null();
        // DISTINCT sorts by all arguments, beginning with the arguments that ORDER BY names.
        let clauses = if distinct { aggref.aggdistinct() } else { aggref.aggorder() };
        let mut order = if clauses.is_empty() { arrival } else { self.sort_keys(clauses, &targets, None)? };
        for key in order.iter_mut().filter(|key| !is_constant(&key.expr)) {
            let ty = self.type_of(&key.expr);
            key.expr = where_true(filter, key.expr.clone(), ty);
        }
        let mut own = aggref.args().iter().filter(|entry| !entry.resjunk);
        let node = own.next().ok_or_else(|| unknown(aggref))?.expr();
        let value = self.expression(node)?;
        let value = self.shown(value)?;
        let where_true = |typed: Typed| where_true(filter, typed.expr, typed.ty);
        let (arguments, element, conversion) = match of {
            Listing::Joined => {
                let delimiter = own.next().ok_or_else(|| unknown(aggref))?.expr();
                let delimiter = self.expression(delimiter)?;
                if value.ty != delimiter.ty {
                    return Err(unknown(aggref));
                }
                let conversion = plain(value.ty);
                // The delimiter is evaluated only where the value is not null, as in PostgreSQL.
                let delimiter = if is_constant(&delimiter.expr) { delimiter.expr } else { where_true(delimiter) };
                (vec![where_true(value), delimiter], None, conversion)
            }
            Listing::Array => {
                let element = element(self, aggref.aggtype, &value, node)?;
                let value = match value.ty {
                    Type::Numeric => stored(value),
                    _ => value,
                };
                let belongs = filter.cloned().unwrap_or_else(all);
                (vec![where_true(value), belongs], Some(element), Conversion::Kept(Form::Varlena))
            }
            Listing::Discrete | Listing::Continuous => {
                let conversion = conversion(self, value.ty, node)?;
                (vec![where_true(value), self.share(aggref)?], None, conversion)
            }
            Listing::Mode => {
                let conversion = conversion(self, value.ty, node)?;
                (vec![where_true(value)], None, conversion)
            }
        };
        let listed = Listed::new(of, arguments, order, element);
        let types: Vec<Type> = listed.arguments.iter().map(|e| self.type_of(e)).collect();
        if !listed.takes(&types, distinct) {
            return Err(unknown(aggref));
        }
        Ok(Translated::Column(Agg::Listed(Box::new(listed)), Distinct(distinct), conversion))
    }

    /// The fraction of a percentile. It must be the same for all groups.
    fn share(&mut self, aggref: Ref<'a, pg_sys::Aggref>) -> Attempt<Expr> {
        let share = aggref.aggdirectargs().iter().next().ok_or_else(|| unknown(aggref))?;
        match self.expression(share)?.expr {
            share if is_constant(&share) => Ok(share),
            _ => Err(Why::Aggregate.of("percentile that differs from group to group")),
        }
    }
}

impl<'a> Translator<'a> {
    /// Translates `ARRAY(SELECT …)`: an array of all rows in their order, or an empty array if there are no rows.
    pub fn array_of_rows(&mut self, link: Ref<'a, pg_sys::SubLink>) -> Attempt<Typed> {
        let query = link.subselect().cast::<pg_sys::Query>();
        let query = query.ok_or_else(|| Why::Subquery.of("unknown subquery"))?;
        let Level { rel, columns, order } = whole_level(self, query, Use::Array)?;
        if order.is_none() && (!query.sortClause.is_null() || self.has_sorted_rows(query)) {
            return Err(unknown_order("array"));
        }
        let mut entries = query.targetList().iter().filter(|entry| !entry.resjunk);
        let node = entries.next().ok_or_else(|| Why::Subquery.of("array of nothing"))?.expr();
        let value = columns.into_iter().next().ok_or_else(|| Why::Subquery.of("array of nothing"))??;
        let value = self.shown(value)?;
        let array = types::array_of(node.sql_type()).ok_or_else(|| Why::Type.of("array of arrays"))?;
        let element = element(self, array, &value, node)?;
        let arguments = vec![in_array(value), all()];
        let listed = Listed::new(Listing::Array, arguments, order.unwrap_or_default(), Some(element));
        let column = self.column(Type::Opaque)?;
        let agg = Agg::Listed(Box::new(listed));
        let aggregates = vec![Aggregation { columns: vec![column], agg, distinct: false }];
        let rel = Rel::Aggregate { input: Box::new(rel), keys: Vec::new(), aggregates };
        self.pending.push(Pending { kind: JoinKind::Inner, rel, conditions: Vec::new() });
        let empty = self.parameter(Type::Opaque, Source::Value, types::empty_array(self.memory, array));
        Ok(exact(Expr::Coalesce(vec![Expr::column(column), empty]), Type::Opaque))
    }
}

fn is_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal { .. } | Expr::Param { .. })
}

fn all() -> Expr {
    Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) }
}

/// A value in the form in which it becomes an element of an array.
fn in_array(value: Typed) -> Expr {
    if value.ty == Type::Numeric { stored(value).expr } else { value.expr }
}

/// A numeric in PostgreSQL's stored form.
fn stored(value: Typed) -> Typed {
    let expr = Expr::Call { function: Named::ToStored, ty: Type::Opaque, args: vec![value.expr] };
    Typed { expr, ty: Type::Opaque, scale: value.scale }
}

/// The element type of an array of these values.
fn element<'a>(translator: &Translator<'a>, array: pg_sys::Oid, value: &Typed, node: Node<'a>) -> Attempt<Element> {
    let element = types::element_of(array).ok_or_else(|| Why::Type.of("array of an unknown type"))?;
    match conversion(translator, value.ty, node)? {
        Conversion::Padded(characters) => Ok(Element { padded: characters, ..element }),
        _ => Ok(element),
    }
}
