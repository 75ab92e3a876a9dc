//! Subqueries: in FROM, behind WITH, and in expressions, where they become joins.
//!
//! ```text
//!   FROM (SELECT …)                      the rows themselves
//!   WHERE EXISTS (SELECT … WHERE t = o)  semi join on t = o; NOT EXISTS: anti join
//!   WHERE o IN (SELECT t …)              semi join on o = t
//!   WHERE o NOT IN (SELECT t …)          anti join on o = t; and none at all if there is a null
//!   o > (SELECT sum(t) … WHERE u = o)    left join with the sums by u, on u = o
//! ```

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::{Agg, Aggregation, BoolOp, CmpOp, Computed, Expr, JoinKind, Literal, Rel, Type};

use super::level::{Level, Use, whole_level};
use super::ordered::is_limited;
use super::reason::Attempt;
use super::translate::{Pending, Scale, Translator, Typed};
use crate::pg::tree::Node;

impl<'a> Translator<'a> {
    /// A subquery in FROM, which becomes item `index` of the innermost scope.
    pub fn subquery(&mut self, index: i32, query: &'a pg_sys::Query) -> Attempt<Rel> {
        let (rel, columns) = self.rows(query)?;
        self.scope_mut().add_subquery(index, columns);
        Ok(rel)
    }

    /// A reference to a query of WITH: its rows, computed for each reference.
    pub fn with_query(&mut self, index: i32, entry: &'a pg_sys::RangeTblEntry) -> Attempt<Rel> {
        let level = self.scopes.len().checked_sub(entry.ctelevelsup as usize + 1).ok_or("unknown WITH query")?;
        let named = |cte: &&'a pg_sys::CommonTableExpr| {
            // SAFETY: both names are C strings.
            unsafe { CStr::from_ptr(cte.ctename) == CStr::from_ptr(entry.ctename) }
        };
        let mut all = self.tree.list_of::<pg_sys::CommonTableExpr>(self.scopes[level].query.cteList);
        let cte = all.find(named).ok_or("unknown WITH query")?;
        if cte.cterecursive {
            return Err("WITH RECURSIVE".into());
        }
        let query = self.tree.required(cte.ctequery).cast::<pg_sys::Query>().ok_or("unknown WITH query")?;
        // It sees what is around the level that it belongs to.
        let inner = self.scopes.split_off(level + 1);
        let rows = self.repeating(cte.cterefcount > 1, |translator| translator.rows(query));
        self.scopes.extend(inner);
        let (rel, columns) = rows?;
        self.scope_mut().add_subquery(index, columns);
        Ok(rel)
    }

    /// The rows of a subquery. An outer join around it must find nulls where it has no row, so that what is no plain
    /// column becomes one here.
    fn rows(&mut self, query: &'a pg_sys::Query) -> Attempt<(Rel, Vec<Attempt<Typed>>)> {
        let Level { rel, columns, correlated } = whole_level(self, query, Use::Rows)?;
        let visible = self.columns_of(&rel);
        if !correlated.is_empty() {
            return Err("LATERAL".into());
        }
        let mut computed = Vec::new();
        let mut named = Vec::new();
        for column in columns {
            named.push(match column {
                Ok(typed) if !self.reads_only(&typed.expr, &visible) => Err("LATERAL".into()),
                Ok(typed) if !matches!(typed.expr, Expr::Column { .. }) => {
                    let mut name = |expr: Expr, ty: Type| -> Attempt<Expr> {
                        let column = self.column(ty)?;
                        computed.push(Computed { column, expr });
                        Ok(Expr::column(column))
                    };
                    let scale = match typed.scale {
                        Scale::Varies(scale) => Scale::Varies(name(scale, Type::Int32)?),
                        known => known,
                    };
                    Ok(Typed { expr: name(typed.expr, typed.ty)?, ty: typed.ty, scale })
                }
                other => other,
            });
        }
        Ok((rel.map(computed), named))
    }

    /// The rows with a subquery in a condition applied; `None`: it is another kind of condition.
    pub fn subquery_condition(&mut self, node: Node<'a>, rel: Rel) -> Attempt<Result<Rel, Rel>> {
        let (link, negated) = match node.cast::<pg_sys::BoolExpr>() {
            Some(not) if not.boolop == pg_sys::BoolExprType::NOT_EXPR => {
                (self.tree.list_of::<pg_sys::SubLink>(not.args).next(), true)
            }
            _ => (node.cast::<pg_sys::SubLink>(), false),
        };
        let Some(link) = link else { return Ok(Err(rel)) };
        let query = self.tree.required(link.subselect).cast::<pg_sys::Query>().ok_or("unknown subquery")?;
        match link.subLinkType {
            pg_sys::SubLinkType::EXISTS_SUBLINK => self.exists(query, negated, rel).map(Ok),
            pg_sys::SubLinkType::ANY_SUBLINK => self.any(link, query, negated, rel).map(Ok),
            pg_sys::SubLinkType::EXPR_SUBLINK => Ok(Err(rel)),
            _ => Err("subquery in an expression".into()),
        }
    }

    fn exists(&mut self, query: &'a pg_sys::Query, negated: bool, rel: Rel) -> Attempt<Rel> {
        let kind = if negated { JoinKind::Anti } else { JoinKind::Semi };
        let Level { rel: rows, correlated, .. } = whole_level(self, query, Use::List)?;
        if correlated.is_empty() {
            let one = self.one_if_any(rows)?;
            return self.join(rel, kind, one, Vec::new());
        }
        self.join(rel, kind, rows, correlated)
    }

    /// `IN`, or another comparison with ANY.
    fn any(&mut self, link: &'a pg_sys::SubLink, query: &'a pg_sys::Query, negated: bool, rel: Rel) -> Attempt<Rel> {
        // The list of NOT IN is looked at twice.
        let level = self.repeating(negated, |translator| whole_level(translator, query, Use::List));
        let Level { rel: rows, columns, correlated } = level?;
        let test = self.tree.required(link.testexpr);
        let waiting = self.pending.len();
        let outer = std::mem::replace(&mut self.compared, columns);
        let condition = self.condition(test);
        self.compared = outer;
        let condition = condition?;
        if self.pending.len() > waiting {
            return Err("subquery within a comparison with a subquery".into());
        }
        if !negated {
            return self.join(rel, JoinKind::Semi, rows, [correlated, vec![condition]].concat());
        }
        let Expr::Cmp { op: CmpOp::Eq, left, right } = &condition else {
            return Err("NOT of a comparison with a subquery".into());
        };
        let visible = self.columns_of(&rows);
        let reads = |e: &Expr| e.columns().iter().any(|id| visible.contains(id));
        let (outer, inner) = match (reads(left), reads(right)) {
            (false, true) => (left.as_ref(), right.as_ref()),
            (true, false) => (right.as_ref(), left.as_ref()),
            _ => return Err("NOT IN with an unusual comparison".into()),
        };
        if !correlated.is_empty() {
            let is_null = |e: &Expr| Expr::IsNull { arg: Box::new(e.clone()), negated: false };
            let maybe = vec![condition.clone(), is_null(outer), is_null(inner)];
            let maybe = Expr::Bool { op: BoolOp::Or, args: maybe };
            return self.join(rel, JoinKind::Anti, rows, [correlated, vec![maybe]].concat());
        }
        let (outer, condition) = (outer.clone(), condition.clone());
        let rel = self.join(rel, JoinKind::Anti, rows, vec![condition])?;
        // Nothing is known to be in no list that has a null, and of a null nothing is known unless the list is empty.
        let (totals, rows, not_null) = self.totals_of_list(query)?;
        let zero = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) };
        let unknown = vec![
            Expr::IsNull { arg: Box::new(outer), negated: false },
            Expr::Cmp { op: CmpOp::Lt, left: Box::new(not_null), right: Box::new(rows.clone()) },
        ];
        let some = Expr::Cmp { op: CmpOp::Gt, left: Box::new(rows), right: Box::new(zero) };
        self.join(rel, JoinKind::Anti, totals, vec![some, Expr::Bool { op: BoolOp::Or, args: unknown }])
    }

    /// A row that says how many rows the list of an `IN` has, and how many that are not null.
    fn totals_of_list(&mut self, query: &'a pg_sys::Query) -> Attempt<(Rel, Expr, Expr)> {
        let level = self.repeating(true, |translator| whole_level(translator, query, Use::List));
        let Level { rel, columns, .. } = level?;
        let value = columns.into_iter().next().ok_or("IN of nothing")??;
        let (rows, not_null) = (self.column(Type::Int64)?, self.column(Type::Int64)?);
        let aggregates = vec![
            Aggregation { columns: vec![rows], agg: Agg::CountStar, distinct: false },
            Aggregation { columns: vec![not_null], agg: Agg::Count(value.expr), distinct: false },
        ];
        let totals = Rel::Aggregate { input: Box::new(rel), keys: Vec::new(), aggregates };
        Ok((totals, Expr::column(rows), Expr::column(not_null)))
    }

    /// One row if there are any, otherwise none.
    fn one_if_any(&mut self, rows: Rel) -> Attempt<Rel> {
        let count = self.column(Type::Int64)?;
        let aggregates = vec![Aggregation { columns: vec![count], agg: Agg::CountStar, distinct: false }];
        let total = Rel::Aggregate { input: Box::new(rows), keys: Vec::new(), aggregates };
        let zero = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) };
        let some = Expr::Cmp { op: CmpOp::Gt, left: Box::new(Expr::column(count)), right: Box::new(zero) };
        Ok(total.filter(vec![some]))
    }

    /// A subquery that is one value, which is joined before it is used.
    pub fn scalar_subquery(&mut self, link: &'a pg_sys::SubLink) -> Attempt<Typed> {
        if link.subLinkType != pg_sys::SubLinkType::EXPR_SUBLINK {
            return Err("subquery in an expression".into());
        }
        let query = self.tree.required(link.subselect).cast::<pg_sys::Query>().ok_or("unknown subquery")?;
        if !query.hasAggs || !query.groupClause.is_null() || !query.groupingSets.is_null() {
            return Err("subquery in an expression that may have several rows".into());
        }
        let Level { rel, columns, correlated } = whole_level(self, query, Use::Value)?;
        let value = columns.into_iter().next().ok_or("subquery without a column")??;
        // Always one row; where it is looked up by a key there is none of an empty group.
        let always = correlated.is_empty() && query.havingQual.is_null() && !is_limited(query);
        let kind = if always { JoinKind::Inner } else { JoinKind::Left };
        if !query.havingQual.is_null() && !matches!(value.expr, Expr::Column { .. }) {
            return Err("HAVING in a subquery within an expression".into());
        }
        self.pending.push(Pending { kind, rel, conditions: correlated });
        Ok(value)
    }
}
