//! Aggregates over a group's values in an order: `string_agg`, `array_agg`, percentiles, `mode`.

use pgrx::prelude::*;
use plan::{Agg, Element, Expr, Listed, Listing, Literal, Named, Type};

use super::aggregate::{Translated, unknown, where_true};
use super::columns::{Distinct, conversion, plain};
use super::ordered::Targets;
use super::reason::{Attempt, Why};
use super::translate::{Translator, Typed};
use crate::pg::tree::Node;
use crate::pg::value::{self, Form};
use crate::spec::Conversion;

impl<'a> Translator<'a> {
    pub fn listed(&mut self, aggref: &'a pg_sys::Aggref, of: Listing) -> Attempt<Translated> {
        let filter = self.tree.node(aggref.aggfilter).map(|filter| self.condition(filter)).transpose()?;
        let filter = filter.as_ref();
        let targets = Targets::of(self.tree, aggref.args.cast());
        let distinct = !aggref.aggdistinct.is_null();
        // What is distinct is put in order by all arguments: those of ORDER BY come first.
        let clauses = if distinct { aggref.aggdistinct } else { aggref.aggorder };
        let mut order = self.sort_keys(clauses, &targets, None)?;
        for key in &mut order {
            let ty = self.type_of(&key.expr);
            key.expr = where_true(filter, key.expr.clone(), ty);
        }
        let mut own = self.tree.list_of::<pg_sys::TargetEntry>(aggref.args).filter(|entry| !entry.resjunk);
        let node = self.tree.required(own.next().ok_or_else(|| unknown(aggref))?.expr);
        let value = self.expression(node)?;
        let value = self.shown(value)?;
        let where_true = |typed: Typed| where_true(filter, typed.expr, typed.ty);
        let (arguments, element, conversion) = match of {
            Listing::Joined => {
                let delimiter = self.tree.required(own.next().ok_or_else(|| unknown(aggref))?.expr);
                let delimiter = self.expression(delimiter)?;
                if value.ty != delimiter.ty {
                    return Err(unknown(aggref));
                }
                let conversion = plain(value.ty);
                // A delimiter is looked at only where there is a value.
                let delimiter = match delimiter.expr {
                    constant @ (Expr::Literal { .. } | Expr::Param { .. }) => constant,
                    _ => where_true(delimiter),
                };
                (vec![where_true(value), delimiter], None, conversion)
            }
            Listing::Array => {
                let element = element(aggref.aggtype, &value, node)?;
                let value = match value.ty {
                    Type::Numeric => stored(value),
                    _ => value,
                };
                let all = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) };
                let belongs = filter.cloned().unwrap_or(all);
                (vec![where_true(value), belongs], Some(element), Conversion::Kept(Form::Varlena))
            }
            Listing::Discrete | Listing::Continuous => {
                let conversion = conversion(value.ty, node)?;
                (vec![where_true(value), self.share(aggref)?], None, conversion)
            }
            Listing::Mode => {
                let conversion = conversion(value.ty, node)?;
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

    /// Of a percentile: the same for all groups.
    fn share(&mut self, aggref: &'a pg_sys::Aggref) -> Attempt<Expr> {
        let share = self.tree.list(aggref.aggdirectargs).next().ok_or_else(|| unknown(aggref))?;
        match self.expression(share)?.expr {
            share @ (Expr::Literal { .. } | Expr::Param { .. }) => Ok(share),
            _ => Err(Why::Aggregate.of("percentile that differs from group to group")),
        }
    }
}

/// A numeric as PostgreSQL keeps it.
fn stored(value: Typed) -> Typed {
    let expr = Expr::Call { function: Named::ToStored, ty: Type::Opaque, args: vec![value.expr] };
    Typed { expr, ty: Type::Opaque, scale: value.scale }
}

/// What an array of these values is one of.
fn element(array: pg_sys::Oid, value: &Typed, node: Node<'_>) -> Attempt<Element> {
    let element = value::element_of(array).ok_or_else(|| Why::Type.of("array of an unknown type"))?;
    match conversion(value.ty, node)? {
        Conversion::Padded(characters) => Ok(Element { padded: characters, ..element }),
        _ => Ok(element),
    }
}
