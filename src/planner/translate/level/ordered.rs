//! ORDER BY. With LIMIT, OFFSET or DISTINCT ON, only the first rows are kept.
//!
//! In a subquery, the engine must know which rows are the first. In the top-level query, PostgreSQL sorts and counts
//! the rows itself, but the engine may drop the rows that LIMIT excludes. Without LIMIT, the engine sorts all rows.

use pgrx::pg_sys::LimitOption::LIMIT_OPTION_WITH_TIES;
use pgrx::prelude::*;
use plan::{Agg, CmpOp, ColumnId, Expr, Literal, Range, Rel, SortKey, Type};

use super::select::Opened;
use crate::pg::catalog;
use crate::pg::tree::{List, Node, Ref};
use crate::pg::types::{self, Form};
use crate::planner::translate::columns::ScanColumn;
use crate::planner::translate::expr::compare::{TextOrder, require_known_equality, require_own_equality};
use crate::planner::translate::expr::numeric::{comparable, comparable_type, has_images};
use crate::planner::translate::scope::Scope;
use crate::planner::translate::{Translator, Typed, exact};
use crate::planner::words::operators;
use crate::planner::words::query::is_true;
use crate::planner::words::reason::{Attempt, Reason, Why};

/// The type that stands for numerics when the operator of a sort key is checked, because numerics have the operators of
/// decimals.
const DECIMAL: Type = Type::Decimal128 { scale: 0 };

/// The greatest LIMIT for which the engine sorts the rows. The limit exists because PostgreSQL sorts the engine's rows
/// again.
const MOST_ROWS: i64 = 100_000;

/// The engine sorts all rows only if no text column may be longer than this many characters.
const LONGEST_SORTED: i32 = 1024;

/// The part of the query's ORDER BY, OFFSET and LIMIT that the engine carries out.
#[derive(Clone, Copy, PartialEq)]
pub enum Arranged {
    Not,
    /// The engine returns all rows, sorted.
    Sorted,
    /// The engine skips the rows of OFFSET, and returns no more rows than LIMIT asks for. PostgreSQL still sorts the
    /// returned rows.
    Limited,
}

/// The entries of a select list, to which ORDER BY and DISTINCT refer by number.
pub struct Targets<'a> {
    entries: Vec<Ref<'a, pg_sys::TargetEntry>>,
}

impl<'a> Targets<'a> {
    /// The entries of a target list; `None` stands for an empty list.
    pub fn of(list: Option<Node<'a>>) -> Targets<'a> {
        Targets { entries: list.into_iter().flat_map(Node::elements_of).collect() }
    }

    pub fn entries(&self) -> impl Iterator<Item = Ref<'a, pg_sys::TargetEntry>> {
        self.entries.iter().copied()
    }

    pub fn expressions(&self) -> impl Iterator<Item = Node<'a>> {
        self.entries.iter().map(|entry| entry.expr())
    }

    /// The entry to which a clause refers, and its position among the columns. There is no position if the entry exists
    /// only for the order.
    pub fn find(
        &self,
        clause: Ref<'_, pg_sys::SortGroupClause>,
    ) -> Attempt<(Ref<'a, pg_sys::TargetEntry>, Option<usize>)> {
        let mut columns = 0;
        for &entry in &self.entries {
            if entry.ressortgroupref == clause.tleSortGroupRef {
                return Ok((entry, (!entry.resjunk).then_some(columns)));
            }
            columns += usize::from(!entry.resjunk);
        }
        Err(Why::Expression.of("order of an unknown expression"))
    }
}

impl<'a> Translator<'a> {
    /// The rows of a subquery that LIMIT and OFFSET keep. `columns` are the translated columns of its select list.
    pub fn first_rows(
        &mut self,
        rel: Rel,
        query: Ref<'a, pg_sys::Query>,
        targets: &Targets<'a>,
        columns: &[Attempt<Typed>],
    ) -> Attempt<Rel> {
        let range = self.range(query)?;
        let waiting = self.pending.len();
        let mut order = self.sort_keys(query.sortClause(), targets, Some(columns))?;
        if !range.ties {
            self.break_ties(&mut order, columns)?;
        }
        let rel = self.with_pending(rel, waiting);
        Ok(Rel::Top { input: Box::new(rel), keys: Vec::new(), order, range: Box::new(range) })
    }

    /// The first row of each group of DISTINCT ON, by the subquery's order and then by the order of arrival.
    pub fn first_of_each(
        &mut self,
        rel: Rel,
        query: Ref<'a, pg_sys::Query>,
        targets: &Targets<'a>,
        columns: Vec<Attempt<Typed>>,
        arrival: Vec<SortKey>,
    ) -> Attempt<(Rel, Vec<Attempt<Typed>>)> {
        let waiting = self.pending.len();
        let keys = self.keys_of(query.distinctClause(), targets)?;
        let mut order = self.sort_keys(query.sortClause(), targets, None)?;
        order.extend(arrival);
        self.break_ties(&mut order, &columns)?;
        let rel = self.with_pending(rel, waiting);
        // PostgreSQL computes these expressions for all rows, so the engine must not skip one that may raise an error.
        let mut computed = Vec::new();
        let columns = columns.into_iter().map(|column| match column {
            Ok(typed) if typed.expr.can_raise() => self.as_column(typed, &mut computed),
            column => column,
        });
        let columns = columns.collect();
        let rel = rel.map(computed);
        let one = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(1)) };
        let range = Range { offset: None, count: Some(one), ties: false };
        Ok((Rel::Top { input: Box::new(rel), keys, order, range: Box::new(range) }, columns))
    }

    /// Translates DISTINCT: keeps one of several equal rows.
    pub fn distinct_rows<'b>(
        &mut self,
        rel: Rel,
        query: Ref<'_, pg_sys::Query>,
        columns: Vec<Attempt<Typed>>,
        entries: impl Iterator<Item = Ref<'b, pg_sys::TargetEntry>>,
    ) -> Attempt<(Rel, Vec<Attempt<Typed>>)> {
        let (mut keys, mut aggregates) = (Vec::new(), Vec::new());
        let mut distinct = Vec::new();
        for (column, entry) in columns.into_iter().zip(entries.filter(|entry| !entry.resjunk)) {
            let typed = self.shown(column?)?;
            require_known_equality(typed.ty, entry.expr())?;
            let mut clauses = query.distinctClause().iter();
            if let Some(clause) = clauses.find(|clause| clause.tleSortGroupRef == entry.ressortgroupref) {
                require_own_equality(clause, entry.expr())?;
            }
            let id = self.column(comparable_type(typed.ty))?;
            keys.push(plan::Computed { column: id, expr: comparable(&typed) });
            if has_images(typed.ty) {
                let any = self.column(typed.ty)?;
                let agg = Agg::Max(typed.expr.clone());
                aggregates.push(plan::Aggregation { columns: vec![any], agg, distinct: false });
                distinct.push(Ok(Typed { expr: Expr::column(any), ..typed }));
                continue;
            }
            distinct.push(Ok(Typed { expr: Expr::column(id), ..typed }));
        }
        if keys.is_empty() {
            return Err(Why::Grouping.of("DISTINCT of nothing"));
        }
        Ok((Rel::Aggregate { input: Box::new(rel), keys, aggregates }, distinct))
    }

    /// If the rows are computed twice, makes the order unique, because both computations must return the same rows.
    fn break_ties(&self, order: &mut Vec<SortKey>, columns: &[Attempt<Typed>]) -> Attempt<()> {
        if self.scope().is_repeated {
            for column in columns {
                order.push(SortKey::ascending(column.as_ref().map_err(Reason::clone)?.expr.clone()));
            }
        }
        Ok(())
    }

    /// The rows that LIMIT and OFFSET ask for.
    fn range(&mut self, query: Ref<'a, pg_sys::Query>) -> Attempt<Range> {
        let ties = query.limitOption == LIMIT_OPTION_WITH_TIES;
        Ok(Range { offset: self.number(query.limitOffset())?, count: self.number(query.limitCount())?, ties })
    }

    fn number(&mut self, node: Option<Node<'a>>) -> Attempt<Option<Expr>> {
        let Some(node) = node.map(Node::simplified) else { return Ok(None) };
        if node.has_columns() {
            return Err(Why::Limit.of("LIMIT that refers to an outer query"));
        }
        match self.expression(node)? {
            Typed { expr: expr @ (Expr::Literal { .. } | Expr::Param { .. }), ty: Type::Int64, .. } => Ok(Some(expr)),
            _ => Err(Why::Limit.of("LIMIT of an unknown form")),
        }
    }

    /// The sort keys of an order. A key that is also a column reads the computed column.
    pub fn sort_keys(
        &mut self,
        clauses: List<'a, pg_sys::SortGroupClause>,
        targets: &Targets<'a>,
        columns: Option<&[Attempt<Typed>]>,
    ) -> Attempt<Vec<SortKey>> {
        let mut keys = Vec::new();
        for clause in clauses {
            let (entry, column) = targets.find(clause)?;
            let node = entry.expr();
            let typed = match columns.zip(column) {
                Some((columns, at)) => columns[at].clone()?,
                None => self.expression(node.simplified())?,
            };
            if typed.ty == Type::Opaque {
                // For this type, the engine knows only that equal values have equal bytes, but not their order.
                return Err(Why::Type.of(format!("order of {}", catalog::type_name(node.sql_type()))));
            }
            let descending = match typed.ty {
                Type::Numeric => is_descending(clause.sortop, &exact(typed.expr.clone(), DECIMAL))?,
                _ => is_descending(clause.sortop, &typed)?,
            };
            let locale = match typed.ty.is_text() {
                true => TextOrder::of(node.collation())?.locale(),
                false => None,
            };
            let expr = match typed.ty {
                Type::Enum => self.rank(typed, node.sql_type()).expr,
                _ => comparable(&typed),
            };
            keys.push(SortKey { expr, locale, descending, nulls_first: clause.nulls_first });
        }
        Ok(keys)
    }

    /// Makes the engine sort the top-level query's rows, and return no more rows than LIMIT asks for. The engine does
    /// neither if a node above it removes rows or needs further rows.
    pub fn arrange(&mut self, query: Ref<'a, pg_sys::Query>, opened: &mut Opened<'a>) -> Arranged {
        let filtered = opened.quals.is_some_and(|quals| !is_true(quals));
        let rows_change = query.hasWindowFuncs || query.hasTargetSRFs || !query.distinctClause.is_null() || filtered;
        if rows_change || query.limitCount.is_null() && query.sortClause.is_null() {
            return Arranged::Not;
        }
        let columns = opened.columns.read_by_engine();
        self.enter(Scope::above(query, columns));
        let waiting = self.pending.len();
        let targets = Targets::of(opened.targets);
        let mut top = match query.limitCount.is_null() {
            true => Err(Why::Limit.of("no LIMIT")),
            false => self.attempt(|translator| translator.top_of_query(query, &targets)),
        };
        // For WITH TIES, PostgreSQL must sort itself.
        let may_sort = !query.sortClause.is_null() && query.limitOption != LIMIT_OPTION_WITH_TIES;
        if top.is_err() && may_sort && opened.columns.described().iter().all(is_short) {
            top = self
                .attempt(|translator| translator.order_of_all(query, &targets))
                .map(|order| (order, Range::default()));
        }
        self.scopes.pop();
        let Ok((order, range)) = top else { return Arranged::Not };
        let arranged = if range.is_all() { Arranged::Sorted } else { Arranged::Limited };
        let input = std::mem::replace(&mut opened.rel, Rel::Union { columns: Vec::new(), inputs: Vec::new() });
        let input = self.with_pending(input, waiting);
        opened.rel = Rel::Top { input: Box::new(input), keys: Vec::new(), order, range: Box::new(range) };
        arranged
    }

    fn order_of_all(&mut self, query: Ref<'a, pg_sys::Query>, targets: &Targets<'a>) -> Attempt<Vec<SortKey>> {
        let order = self.sort_keys(query.sortClause(), targets, None)?;
        // The engine's value may raise an error where PostgreSQL's would not, for example an average with more digits
        // than the engine has.
        match order.iter().any(|key| key.expr.can_raise()) {
            true => Err(Why::Expression.of("ORDER BY what may be an error")),
            false => Ok(order),
        }
    }

    fn top_of_query(&mut self, query: Ref<'a, pg_sys::Query>, targets: &Targets<'a>) -> Attempt<(Vec<SortKey>, Range)> {
        let range = self.range(query)?;
        let number = |expr: &Option<Expr>| match expr {
            Some(Expr::Literal { value: Some(Literal::Int(number)), .. }) => *number,
            _ => 0,
        };
        let many = number(&range.offset).saturating_add(number(&range.count)) > MOST_ROWS;
        if many && !query.sortClause.is_null() || matches!(range.count, Some(Expr::Literal { value: None, .. })) {
            return Err(Why::Limit.of("too many rows"));
        }
        Ok((self.sort_keys(query.sortClause(), targets, None)?, range))
    }
}

/// Whether the values of a column are short. The engine would hold long values in memory while it sorts them, but
/// PostgreSQL uses a file.
fn is_short(column: &ScanColumn) -> bool {
    let (ty, modifier) = types::without_domain(column.shape.ty, column.shape.modifier);
    match ty {
        pg_sys::NUMERICOID => true,
        pg_sys::VARCHAROID | pg_sys::BPCHAROID => (0..=LONGEST_SORTED).contains(&(modifier - pg_sys::VARHDRSZ as i32)),
        _ => matches!(Form::of_type(ty), Some(Form::Fixed(_) | Form::Inline(_))),
    }
}

/// An order by all these columns, in which only equal rows may have any position.
pub fn by_columns(columns: &[ColumnId]) -> Vec<SortKey> {
    columns.iter().map(|id| SortKey::ascending(Expr::column(*id))).collect()
}

/// Whether an operator sorts in descending order. The operator must belong to the order of the type's own values.
fn is_descending(operator: pg_sys::Oid, typed: &Typed) -> Attempt<bool> {
    let (family, op) =
        operators::comparison(operator).ok_or_else(|| Why::Operator.of("ORDER BY an operator that is not known"))?;
    if operators::common_type(family, typed.ty, typed.ty) != Some((typed.ty, typed.ty)) {
        return Err(Why::Operator.of("ORDER BY an operator of another type"));
    }
    match op {
        CmpOp::Lt => Ok(false),
        CmpOp::Gt => Ok(true),
        _ => Err(Why::Operator.of("ORDER BY an operator that is no order")),
    }
}
