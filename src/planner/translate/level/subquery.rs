//! Translates subqueries in FROM, WITH queries, and subqueries in expressions, which become joins.
//!
//! ```text
//!   FROM (SELECT …)                      the rows themselves
//!   WHERE EXISTS (SELECT … WHERE t = o)  semi join on t = o; NOT EXISTS: anti join
//!   WHERE o IN (SELECT t …)              semi join on o = t
//!   WHERE o NOT IN (SELECT t …)          anti join on o = t; no row if the list contains a null
//!   WHERE (o, p) NOT IN (SELECT t, u …)  anti join on o = t and p = u; further anti joins for nulls on either side
//!   o IN (SELECT t …) OR …               mark join, whose column says whether there is a partner
//!   o > (SELECT sum(t) … WHERE u = o)    application (dependent join): one row for each outer row
//! ```

use std::ops::Deref;

use pgrx::prelude::*;
use plan::{Agg, Aggregation, BoolOp, CmpOp, Computed, Expr, JoinKind, Literal, Named, Rel, Type};

use super::select::{Level, Use, level_or_sent, whole_level};
use crate::pg::catalog;
use crate::pg::tree::{Node, Ref};
use crate::planner::translate::expr::functions::negation;
use crate::planner::translate::scope::Scope;
use crate::planner::translate::{Ask, Pending, Scale, Translator, Typed, boolean};
use crate::planner::words::operators;
use crate::planner::words::query::is_limited;
use crate::planner::words::reason::{Attempt, Why};

/// The WITH query to which an item of FROM refers, with its parsed query.
pub fn named_query<'a>(
    level: Ref<'a, pg_sys::Query>,
    entry: Ref<'_, pg_sys::RangeTblEntry>,
) -> Attempt<(Ref<'a, pg_sys::CommonTableExpr>, Ref<'a, pg_sys::Query>)> {
    let named = |cte: &Ref<'a, pg_sys::CommonTableExpr>| cte.ctename() == entry.ctename();
    let unknown = || Why::Expression.of("unknown WITH query");
    let cte = level.cteList().iter().find(named).ok_or_else(unknown)?;
    if cte.cterecursive {
        return Err(Why::Recursion.of("WITH RECURSIVE"));
    }
    Ok((cte, cte.ctequery().cast::<pg_sys::Query>().ok_or_else(unknown)?))
}

impl<'a> Translator<'a> {
    /// Translates a subquery in FROM, which becomes the item `index` of the innermost scope.
    pub fn subquery(&mut self, index: i32, query: Ref<'a, pg_sys::Query>) -> Attempt<Rel> {
        let level = self.rows(query, self.scope().order_matters)?;
        Ok(self.add_rows(index, level))
    }

    /// Translates a reference to a WITH query. The query's rows are computed once for each reference.
    pub fn with_query(&mut self, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>) -> Attempt<Rel> {
        let level = self
            .scopes
            .len()
            .checked_sub(entry.ctelevelsup as usize + 1)
            .ok_or_else(|| Why::Expression.of("unknown WITH query"))?;
        let (cte, query) = named_query(self.scopes[level].query, entry)?;
        let Scope { order_matters, is_repeated, .. } = *self.scope();
        // A WITH query may read only its own level and outer levels, so the scopes of inner levels are removed while it
        // is translated.
        let inner = self.scopes.split_off(level + 1);
        let rows =
            self.repeating(is_repeated || cte.cterefcount > 1, |translator| translator.rows(query, order_matters));
        self.scopes.extend(inner);
        Ok(self.add_rows(index, rows?))
    }

    fn add_rows(&mut self, index: i32, Level { rel, columns, order }: Level) -> Rel {
        let scope = self.scope_mut();
        scope.add_subquery(index, columns);
        scope.order = order;
        rel
    }

    /// Translates the rows of a subquery in FROM. For a row without a partner, an outer join makes columns null, but it
    /// would not do so with values computed above the join. So every computed value becomes a column here.
    fn rows(&mut self, query: Ref<'a, pg_sys::Query>, ordered: bool) -> Attempt<Level> {
        let Level { rel, columns, order } = whole_level(self, query, Use::Rows { ordered })?;
        let visible = self.columns_of(&rel);
        let mut computed = Vec::new();
        let mut named = Vec::new();
        for column in columns {
            named.push(match column {
                Ok(typed) if !matches!(&typed.expr, Expr::Column { id } if visible.contains(id)) => {
                    Ok(self.as_column(typed, &mut computed)?)
                }
                other => other,
            });
        }
        Ok(Level { rel: rel.map(computed), columns: named, order })
    }

    /// Converts a parameter that shows its own digits to a numeric. The digits of a parameter do not become null where
    /// an outer join makes the value null.
    fn with_own_digits(&mut self, typed: Typed) -> Attempt<Typed> {
        match typed.scale {
            Scale::Parameter(_) => self.numeric(typed),
            _ => Ok(typed),
        }
    }

    /// Makes a value a column.
    pub fn as_column(&mut self, typed: Typed, computed: &mut Vec<Computed>) -> Attempt<Typed> {
        let typed = self.with_own_digits(typed)?;
        let mut name = |expr: Expr, ty: Type| -> Attempt<Expr> {
            let column = self.column(ty)?;
            computed.push(Computed { column, expr });
            Ok(Expr::column(column))
        };
        let scale = typed.scale.named(&mut name)?;
        Ok(Typed { expr: name(typed.expr, typed.ty)?, ty: typed.ty, scale })
    }

    /// Applies a condition that is a subquery (EXISTS, IN, ANY, ALL) to the rows. For any other condition, the inner
    /// error returns the rows unchanged.
    pub fn subquery_condition(&mut self, node: Node<'a>, rel: Rel) -> Attempt<Result<Rel, Rel>> {
        let (link, negated) = match node.cast::<pg_sys::BoolExpr>() {
            Some(not) if not.boolop == pg_sys::BoolExprType::NOT_EXPR => (not.args().iter().find_map(Node::cast), true),
            _ => (node.cast::<pg_sys::SubLink>(), false),
        };
        let Some(link) = link else { return Ok(Err(rel)) };
        let (link, negated) = self.not_any(link).map_or((link, negated), |any| (any, !negated));
        let link = Link { link, groups: None };
        let (kind, condition): (_, fn(Expr) -> Expr) = match (link.subLinkType, negated) {
            (pg_sys::SubLinkType::EXISTS_SUBLINK, false) => (JoinKind::Semi, true_only),
            (pg_sys::SubLinkType::EXISTS_SUBLINK, true) => (JoinKind::Anti, true_only),
            (pg_sys::SubLinkType::ANY_SUBLINK, false) => (JoinKind::Semi, true_only),
            (pg_sys::SubLinkType::ANY_SUBLINK, true) => (JoinKind::Anti, not_false),
            (pg_sys::SubLinkType::ALL_SUBLINK, false) => (JoinKind::Anti, not_true),
            (pg_sys::SubLinkType::ALL_SUBLINK, true) => (JoinKind::Semi, false_only),
            _ => return Ok(Err(rel)),
        };
        let waiting = self.pending.len();
        let list = self.list(link)?;
        let rel = self.with_pending(rel, waiting);
        if let (JoinKind::Anti, Some(test)) = (kind, &list.test)
            && link.subLinkType == pg_sys::SubLinkType::ANY_SUBLINK
            && let Some(outer) = self.outer_side(test, &list.rel)
        {
            return self.in_no_row(rel, list, outer).map(Ok);
        }
        if let (JoinKind::Anti, true) = (kind, self.has_equal_rows(link, &list)) {
            let again = self.again(&list)?;
            let rel = self.join(rel, JoinKind::Anti, list.rel, list.test.map_or_else(Vec::new, conjuncts));
            let [rows, others] = self.unknown_rows(again)?;
            let rel = self.join(rel, JoinKind::Anti, rows.0, rows.1);
            return Ok(Ok(self.join(rel, JoinKind::Anti, others.0, others.1)));
        }
        let conditions = list.test.map_or_else(Vec::new, |test| conjuncts(condition(test)));
        Ok(Ok(self.join(rel, kind, list.rel, conditions)))
    }

    /// Turns `x <> ALL (list)` into `x = ANY (list)`, its negation, because an equality can use a hash table. Returns
    /// `None` for any other comparison.
    fn not_any(&self, link: Ref<'a, pg_sys::SubLink>) -> Option<Ref<'a, pg_sys::SubLink>> {
        let test = link.testexpr()?.cast::<pg_sys::OpExpr>()?;
        let is_all = link.subLinkType == pg_sys::SubLinkType::ALL_SUBLINK;
        if !is_all || !matches!(operators::comparison(test.opno), Some((_, CmpOp::Ne))) {
            return None;
        }
        let equality = catalog::negator(test.opno);
        if !matches!(operators::comparison(equality), Some((_, CmpOp::Eq))) {
            return None;
        }
        let opfuncid = catalog::function_of_operator(equality);
        // SAFETY: the operands are parts of the tree, and so is the link's list.
        unsafe {
            let equal = self.memory.placed(pg_sys::OpExpr { opno: equality, opfuncid, ..*test });
            let any = pg_sys::SubLinkType::ANY_SUBLINK;
            Some(self.memory.placed(pg_sys::SubLink { subLinkType: any, testexpr: equal.as_ptr(), ..*link }))
        }
    }

    /// Translates the rows of a subquery in which values are looked up, with the condition on each row.
    fn list(&mut self, link: Link<'a, '_>) -> Attempt<List> {
        let query = link.subselect().cast::<pg_sys::Query>();
        let query = query.ok_or_else(|| Why::Subquery.of("unknown subquery"))?;
        // The list may be computed a second time, to find out for which values the result is null.
        let repeated = link.subLinkType != pg_sys::SubLinkType::EXISTS_SUBLINK;
        let level = self.repeating(repeated, |translator| level_or_sent(translator, query, Use::List));
        let Level { rel, columns, .. } = level?;
        if link.subLinkType == pg_sys::SubLinkType::EXISTS_SUBLINK {
            // For EXISTS, one row is enough.
            let rel = if self.is_closed(&rel) { self.one_if_any(rel)? } else { rel };
            return Ok(List { rel, value: None, test: None });
        }
        let value = columns.first().and_then(|first| Some(first.as_ref().ok()?.expr.clone()));
        let test = link.testexpr().ok_or_else(|| Why::Subquery.of("unknown subquery"))?;
        let condition = self.comparing(columns, link.groups, |translator| translator.condition(test));
        Ok(List { rel, value, test: Some(condition?) })
    }

    /// The same list, computed once more. The looked-up values stay the same. The subquery is not translated again,
    /// because nested lists would then be translated exponentially often.
    fn again(&mut self, list: &List) -> Attempt<List> {
        let (rel, copies) = self.copied(&list.rel)?;
        let of_copy = |expr: &Option<Expr>| expr.clone().map(|expr| copies.of(expr));
        Ok(List { rel, value: of_copy(&list.value), test: of_copy(&list.test) })
    }

    /// Translates an expression that compares a subquery's columns with the rows around it, or with groups of those
    /// rows.
    fn comparing<T>(
        &mut self,
        columns: Vec<Attempt<Typed>>,
        groups: Option<&[Attempt<Typed>]>,
        translate: impl FnOnce(&mut Self) -> Attempt<T>,
    ) -> Attempt<T> {
        let compare = |translator: &mut Self| {
            let around = std::mem::replace(&mut translator.scope_mut().compared, columns);
            let translated = translate(translator);
            translator.scope_mut().compared = around;
            translated
        };
        match groups {
            None => compare(self),
            Some(groups) => self.above(groups.to_vec(), compare),
        }
    }

    /// Translates an expression that reads the columns computed from the innermost level, but does not read that
    /// level's FROM.
    fn above<T>(&mut self, columns: Vec<Attempt<Typed>>, translate: impl FnOnce(&mut Self) -> T) -> T {
        let Scope { query, is_repeated, .. } = *self.scope();
        let rows = self.scopes.pop();
        let mut above = Scope::above(query, columns);
        above.is_repeated = is_repeated;
        self.enter(above);
        let translated = translate(self);
        self.scopes.pop();
        self.scopes.extend(rows);
        translated
    }

    /// Whether the rows can be computed without columns of outer rows.
    pub fn is_closed(&self, rel: &Rel) -> bool {
        let (mut made, mut read) = (Vec::new(), Vec::new());
        rel.visit(&mut |rel| {
            made.extend(match rel {
                Rel::Scan { .. } => self.columns_of(rel),
                rel => rel.made(),
            });
            read.extend(rel.expressions().into_iter().flat_map(Expr::columns));
        });
        read.iter().all(|id| made.contains(id))
    }

    /// The outer side of an equality between a list's row and an outer row; `None` if the test is of another form.
    fn outer_side(&self, test: &Expr, rows: &Rel) -> Option<Expr> {
        let Expr::Cmp { op: CmpOp::Eq, left, right } = test else { return None };
        let visible = self.columns_of(rows);
        let reads = |e: &Expr| e.columns().iter().any(|id| visible.contains(id));
        match (reads(left), reads(right)) {
            (false, true) => Some((**left).clone()),
            (true, false) => Some((**right).clone()),
            _ => None,
        }
    }

    /// Translates `NOT IN`. A value that is not found has a null result if the list contains a null. A null value has a
    /// null result unless the list is empty. Both depend only on two counts of the list, its rows and its nulls, so no
    /// row needs a search.
    fn in_no_row(&mut self, rel: Rel, list: List, outer: Expr) -> Attempt<Rel> {
        let again = self.again(&list)?;
        let rel = self.join(rel, JoinKind::Anti, list.rel, list.test.into_iter().collect());
        let (totals, unknown) = self.unknown_in_list(again, outer)?;
        Ok(self.join(rel, JoinKind::Anti, totals, vec![unknown]))
    }

    /// One row with two counts of the list, and a condition on that row. The condition says whether the result is null
    /// for a value that is not in the list.
    fn unknown_in_list(&mut self, list: List, outer: Expr) -> Attempt<(Rel, Expr)> {
        let (totals, rows, not_null) = self.totals_of_list(list)?;
        let zero = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) };
        let either = vec![
            Expr::IsNull { arg: Box::new(outer), negated: false },
            Expr::Cmp { op: CmpOp::Lt, left: Box::new(not_null), right: Box::new(rows.clone()) },
        ];
        let some = Expr::Cmp { op: CmpOp::Gt, left: Box::new(rows), right: Box::new(zero) };
        let either = Expr::Bool { op: BoolOp::Or, args: either };
        Ok((totals, Expr::Bool { op: BoolOp::And, args: vec![some, either] }))
    }

    /// Whether several values are looked up, each by an equality with a value of the list's row.
    fn has_equal_rows(&self, link: Link<'a, '_>, list: &List) -> bool {
        let Some(Expr::Bool { op: BoolOp::And, args }) = &list.test else { return false };
        link.subLinkType == pg_sys::SubLinkType::ANY_SUBLINK
            && args.iter().all(|equal| self.outer_side(equal, &list.rel).is_some())
    }

    /// The rows of the list that make the result null, in two parts, each with its join conditions. The first part is
    /// the rows that contain a null. The second part is all rows, if a looked-up value is null.
    fn unknown_rows(&mut self, list: List) -> Attempt<[(Rel, Vec<Expr>); 2]> {
        let is_null = |arg: Expr| Expr::IsNull { arg: Box::new(arg), negated: false };
        let again = self.again(&list)?;
        let with_null = {
            let EqualRows { rel, test, sides } = self.equal_rows(list)?;
            let nulls = sides.into_iter().map(|(_, inner)| is_null(inner)).collect();
            (rel.filter(vec![Expr::Bool { op: BoolOp::Or, args: nulls }]), vec![null_only(test)])
        };
        let EqualRows { rel, test, sides } = self.equal_rows(again)?;
        // The left side is true if one of the looked-up values is null, and is null otherwise. The right side is true
        // for each row. An equality of the two sides can use a hash table.
        let unknown = Expr::Literal { ty: Type::Bool, value: None };
        let some_null = sides.iter().map(|(outer, _)| is_null(outer.clone())).chain([unknown]).collect();
        let always = sides.into_iter().next().map(|(_, inner)| is_null(is_null(inner)));
        let always = Expr::Not(Box::new(always.ok_or_else(|| Why::Subquery.of("IN of nothing"))?));
        let for_nulls = Expr::Cmp {
            op: CmpOp::Eq,
            left: Box::new(Expr::Bool { op: BoolOp::Or, args: some_null }),
            right: Box::new(always),
        };
        Ok([with_null, (rel, vec![for_nulls, null_only(test)])])
    }

    fn equal_rows(&self, list: List) -> Attempt<EqualRows> {
        let List { rel, test, .. } = list;
        let test = test.ok_or_else(|| Why::Subquery.of("IN of nothing"))?;
        let sides = conjuncts(test.clone()).into_iter().filter_map(|equal| {
            let outer = self.outer_side(&equal, &rel)?;
            let Expr::Cmp { left, right, .. } = equal else { return None };
            Some(if *left == outer { (outer, *right) } else { (outer, *left) })
        });
        let sides = sides.collect();
        Ok(EqualRows { rel, test, sides })
    }

    /// Adds a mark join, whose column says whether a row of the list meets the condition. The join is made before the
    /// column is used.
    fn mark(&mut self, list: List, condition: fn(Expr) -> Expr) -> Attempt<Expr> {
        let conditions = list.test.map_or_else(Vec::new, |test| conjuncts(condition(test)));
        self.mark_of(list.rel, conditions)
    }

    fn mark_of(&mut self, rel: Rel, conditions: Vec<Expr>) -> Attempt<Expr> {
        let mark = self.column(Type::Bool)?;
        self.pending.push(Pending { kind: JoinKind::Mark(mark), rel, conditions });
        Ok(Expr::column(mark))
    }

    /// The value of a subquery in an expression. It comes from a join that is made before the value is used.
    pub fn subquery_value(&mut self, link: Ref<'a, pg_sys::SubLink>, ask: Ask) -> Attempt<Typed> {
        self.value_of_link(Link { link, groups: None }, ask)
    }

    /// Like [`subquery_value`](Self::subquery_value), for a subquery that is compared with values of groups.
    pub fn subquery_value_of_groups(
        &mut self,
        link: Ref<'a, pg_sys::SubLink>,
        groups: &[Attempt<Typed>],
    ) -> Attempt<Typed> {
        self.value_of_link(Link { link, groups: Some(groups) }, Ask::default())
    }

    fn value_of_link(&mut self, link: Link<'a, '_>, ask: Ask) -> Attempt<Typed> {
        if let Some(any) = self.not_any(*link) {
            return Ok(negation(self.value_of_link(Link { link: any, ..link }, Ask::default())?));
        }
        let (decisive, found): (fn(Expr) -> Expr, bool) = match link.subLinkType {
            pg_sys::SubLinkType::EXPR_SUBLINK => return self.scalar_subquery(link),
            pg_sys::SubLinkType::ROWCOMPARE_SUBLINK => return self.compared_row(link),
            pg_sys::SubLinkType::ARRAY_SUBLINK => return self.array_of_rows(*link),
            pg_sys::SubLinkType::EXISTS_SUBLINK => {
                let list = self.list(link)?;
                return Ok(boolean(self.mark(list, true_only)?));
            }
            pg_sys::SubLinkType::ANY_SUBLINK => (true_only, true),
            pg_sys::SubLinkType::ALL_SUBLINK if ask.null_may_be_false => {
                let list = self.list(link)?;
                return Ok(boolean(Expr::Not(Box::new(self.mark(list, not_true)?))));
            }
            pg_sys::SubLinkType::ALL_SUBLINK => (false_only, false),
            _ => return Err(Why::Subquery.of("subquery in an expression")),
        };
        let list = self.list(link)?;
        let outer = list.test.as_ref().and_then(|test| self.outer_side(test, &list.rel));
        let of_rows = self.has_equal_rows(link, &list);
        if ask.null_may_be_false {
            return Ok(boolean(self.mark(list, decisive)?));
        }
        let again = self.again(&list)?;
        let decided = self.mark(list, decisive)?;
        let unknown = match outer {
            Some(outer) if found => {
                let (totals, unknown) = self.unknown_in_list(again, outer)?;
                self.pending.push(Pending { kind: JoinKind::Inner, rel: totals, conditions: Vec::new() });
                unknown
            }
            _ if of_rows => {
                let [rows, others] = self.unknown_rows(again)?;
                let either = vec![self.mark_of(rows.0, rows.1)?, self.mark_of(others.0, others.1)?];
                Expr::Bool { op: BoolOp::Or, args: either }
            }
            _ => self.mark(again, null_only)?,
        };
        let constant = |value: Option<bool>| Expr::Literal { ty: Type::Bool, value: value.map(Literal::Bool) };
        let branches = vec![(decided, constant(Some(found))), (unknown, constant(None))];
        Ok(boolean(Expr::Case { branches, otherwise: Box::new(constant(Some(!found))) }))
    }

    /// One row with two counts for the list of an `IN`: the number of its rows, and the number of its rows that are not
    /// null.
    fn totals_of_list(&mut self, List { rel, value, .. }: List) -> Attempt<(Rel, Expr, Expr)> {
        let value = value.ok_or_else(|| Why::Subquery.of("IN of nothing"))?;
        let (rows, not_null) = (self.column(Type::Int64)?, self.column(Type::Int64)?);
        let aggregates = vec![
            Aggregation { columns: vec![rows], agg: Agg::CountStar, distinct: false },
            Aggregation { columns: vec![not_null], agg: Agg::Count(value), distinct: false },
        ];
        let totals = Rel::Aggregate { input: Box::new(rel), keys: Vec::new(), aggregates };
        Ok((totals, Expr::column(rows), Expr::column(not_null)))
    }

    /// One row if `rows` has any rows, otherwise no row.
    fn one_if_any(&mut self, rows: Rel) -> Attempt<Rel> {
        let count = self.column(Type::Int64)?;
        let aggregates = vec![Aggregation { columns: vec![count], agg: Agg::CountStar, distinct: false }];
        let total = Rel::Aggregate { input: Box::new(rows), keys: Vec::new(), aggregates };
        let zero = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) };
        let some = Expr::Cmp { op: CmpOp::Gt, left: Box::new(Expr::column(count)), right: Box::new(zero) };
        Ok(total.filter(vec![some]))
    }

    /// Translates a subquery that returns one value.
    fn scalar_subquery(&mut self, link: Link<'a, '_>) -> Attempt<Typed> {
        let mut row = self.row_of(link)?.into_iter();
        row.next().ok_or_else(|| Why::Subquery.of("subquery without a column"))
    }

    /// Translates `(a, b) = (SELECT …)`, or another comparison of rows.
    fn compared_row(&mut self, link: Link<'a, '_>) -> Attempt<Typed> {
        let row = self.row_of(link)?.into_iter().map(Ok).collect();
        let test = link.testexpr().ok_or_else(|| Why::Subquery.of("unknown subquery"))?;
        self.comparing(row, link.groups, |translator| translator.expression(test))
    }

    /// The columns of a subquery that returns one row; nulls if it returns no row.
    fn row_of(&mut self, link: Link<'a, '_>) -> Attempt<Vec<Typed>> {
        let query = link.subselect().cast::<pg_sys::Query>();
        let query = query.ok_or_else(|| Why::Subquery.of("unknown subquery"))?;
        let Level { rel, columns, .. } = level_or_sent(self, query, Use::Value)?;
        let values = columns.into_iter().collect::<Attempt<Vec<Typed>>>()?;
        if matches!(rel, Rel::Row) {
            return Ok(values);
        }
        let is_total = query.hasAggs && query.groupClause.is_null() && query.groupingSets.is_null();
        if !is_total || is_limited(&query) || query.hasTargetSRFs {
            return self.only_row(rel, values);
        }
        if query.havingQual.is_null() {
            self.pending.push(Pending { kind: JoinKind::Inner, rel, conditions: Vec::new() });
            return Ok(values);
        }
        let mut computed = Vec::new();
        let values = values.into_iter().map(|value| self.as_column(value, &mut computed));
        let values = values.collect::<Attempt<Vec<Typed>>>()?;
        self.pending.push(Pending { kind: JoinKind::Left, rel: rel.map(computed), conditions: Vec::new() });
        Ok(values)
    }

    /// The values of the only row; nulls if there is no row. A second row is an error, but only where a value is used.
    fn only_row(&mut self, rel: Rel, row: Vec<Typed>) -> Attempt<Vec<Typed>> {
        let row = row.into_iter().map(|value| self.with_own_digits(value)).collect::<Attempt<Vec<Typed>>>()?;
        let mut aggregates = Vec::new();
        let mut least = |expr: Expr, ty: Type| -> Attempt<Expr> {
            let column = self.column(ty)?;
            aggregates.push(Aggregation { columns: vec![column], agg: Agg::Min(expr), distinct: false });
            Ok(Expr::column(column))
        };
        let number = |n| Expr::Literal { ty: Type::Int16, value: Some(Literal::Int(n)) };
        let mut values = Vec::with_capacity(row.len());
        for Typed { expr, ty, scale } in row {
            let scale = scale.named(&mut least)?;
            let value = match ty {
                // There is no minimum of booleans, so they are converted to numbers.
                Type::Bool => {
                    let branches = vec![(expr.clone(), number(1)), (Expr::Not(Box::new(expr)), number(0))];
                    let otherwise = Box::new(Expr::Literal { ty: Type::Int16, value: None });
                    Expr::equal(least(Expr::Case { branches, otherwise }, Type::Int16)?, number(1))
                }
                ty => least(expr, ty)?,
            };
            values.push(Typed { expr: value, ty, scale });
        }
        let rows = self.column(Type::Int64)?;
        aggregates.push(Aggregation { columns: vec![rows], agg: Agg::CountStar, distinct: false });
        let rel = Rel::Aggregate { input: Box::new(rel), keys: Vec::new(), aggregates };
        self.pending.push(Pending { kind: JoinKind::Inner, rel, conditions: Vec::new() });
        let one = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(1)) };
        let only = Expr::Call { function: Named::OnlyRow, ty: Type::Int64, args: vec![Expr::column(rows)] };
        let is_there = Expr::equal(only, one);
        for Typed { expr, ty, .. } in &mut values {
            let otherwise = Box::new(Expr::Literal { ty: *ty, value: None });
            *expr = Expr::Case { branches: vec![(is_there.clone(), expr.clone())], otherwise };
        }
        Ok(values)
    }
}

/// A subquery in an expression.
#[derive(Clone, Copy)]
struct Link<'a, 'g> {
    link: Ref<'a, pg_sys::SubLink>,
    /// The columns of the groups, if the subquery is compared with values of groups; `None` if with values of rows.
    groups: Option<&'g [Attempt<Typed>]>,
}

impl<'a> Deref for Link<'a, '_> {
    type Target = Ref<'a, pg_sys::SubLink>;

    fn deref(&self) -> &Ref<'a, pg_sys::SubLink> {
        &self.link
    }
}

/// The rows of a subquery in which values are looked up.
struct List {
    rel: Rel,
    /// The first column; `None` for EXISTS, or if the engine cannot compute it.
    value: Option<Expr>,
    /// The condition on each row; `None` for EXISTS.
    test: Option<Expr>,
}

/// The conditions that AND combines.
fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::Bool { op: BoolOp::And, args } => args.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// The rows of a subquery in which several values are looked up, each by an equality.
struct EqualRows {
    rel: Rel,
    /// The condition on each row.
    test: Expr,
    /// The two sides of each equality: an expression of the outer row, and an expression of the list's row.
    sides: Vec<(Expr, Expr)>,
}

fn true_only(test: Expr) -> Expr {
    test
}

fn false_only(test: Expr) -> Expr {
    Expr::Not(Box::new(test))
}

fn null_only(test: Expr) -> Expr {
    Expr::IsNull { arg: Box::new(test), negated: false }
}

fn not_false(test: Expr) -> Expr {
    Expr::Bool { op: BoolOp::Or, args: vec![test.clone(), null_only(test)] }
}

fn not_true(test: Expr) -> Expr {
    Expr::Bool { op: BoolOp::Or, args: vec![false_only(test.clone()), null_only(test)] }
}
