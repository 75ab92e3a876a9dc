//! Translates one SELECT level: FROM and WHERE, grouping, and the expressions computed from the grouped rows.
//!
//! The parts of the select list and of HAVING that the engine computes become [`Columns`], and the expressions are
//! rewritten to read these columns. In the top-level query, PostgreSQL computes the remainder of each expression
//! ([`crate::planner::tree::split`]). In a subquery, the engine computes it ([`whole_level`]).

use std::ffi::c_void;

use pgrx::prelude::*;
use plan::{Agg, Expr, Rel, SortKey, Type};

use super::arrival::{depends_on_order, has_sorted_rows, reads_one_item, sorts_for_aggregates, unknown_order};
use super::from::{From, from};
use super::grouping_sets::{Sets, reads_keys_alone};
use super::ordered::Targets;
use crate::pg::tree::{Node, Ref, all_of};
use crate::pg::walk;
use crate::planner::translate::aggregate::value::average;
use crate::planner::translate::aggregate::{self, Translated};
use crate::planner::translate::columns::{Column, Columns, Distinct, conversion, plain};
use crate::planner::translate::expr::compare::{require_known_equality, require_own_equality};
use crate::planner::translate::expr::numeric::{comparable, comparable_type, has_images};
use crate::planner::translate::scope::Scope;
use crate::planner::translate::{Pending, Scale, Translator, Typed, exact};
use crate::planner::words::operators;
use crate::planner::words::query::{is_grouped, is_limited};
use crate::planner::words::reason::{Attempt, Reason, Why};

/// The purpose for which a level is translated.
#[derive(Clone, Copy, PartialEq)]
pub enum Use {
    /// The query itself.
    Top,
    /// The query itself, if the engine only returns rows, and PostgreSQL groups them.
    TopUngrouped,
    /// A subquery in FROM, or a WITH query. `ordered` says that the order of its rows may be needed.
    Rows { ordered: bool },
    /// A list of rows in which EXISTS or IN looks up values.
    List,
    /// A subquery that returns a single value.
    Value,
    /// A subquery whose rows become an array.
    Array,
}

impl Use {
    fn is_query(self) -> bool {
        matches!(self, Use::Top | Use::TopUngrouped)
    }

    fn asks_for_order(self) -> bool {
        matches!(self, Use::Rows { ordered: true } | Use::Array)
    }
}

/// A level whose expressions have been rewritten to read the engine's columns.
pub struct Opened<'a> {
    pub rel: Rel,
    pub columns: Columns<'a>,
    /// The rewritten select list. The next fields hold the rewritten conditions.
    pub targets: Option<Node<'a>>,
    pub quals: Option<Node<'a>>,
    /// HAVING, if PostgreSQL groups the rows.
    pub having: Option<Node<'a>>,
    /// The order in which the input rows arrive, if a subquery has sorted them and window functions or DISTINCT ON
    /// depend on it.
    pub arrival: Vec<SortKey>,
}

/// The rows of a subquery, and its translated columns. Both may read columns of outer levels.
pub struct Level {
    pub rel: Rel,
    pub columns: Vec<Attempt<Typed>>,
    /// The order in which PostgreSQL returns the rows, if that order was needed and is known.
    pub order: Option<Vec<SortKey>>,
}

struct Reader<'a, 't> {
    translator: &'t mut Translator<'a>,
    query: Ref<'a, pg_sys::Query>,
    purpose: Use,
    /// Whether the engine groups the rows.
    grouped: bool,
    /// Whether the argument of an aggregate is being rewritten.
    in_aggregate: bool,
    columns: Columns<'a>,
    /// The expressions by which the query groups.
    keys: Vec<Node<'a>>,
    /// The keys whose equal values may look different, as 1.0 and 1.00 do. Each comes with the value that a group shows
    /// for it.
    shown: Vec<(Expr, Expr)>,
    sets: Option<Sets>,
    /// The number of pending joins that belong to outer levels.
    waiting: usize,
    /// The pending joins of subqueries whose values belong to groups, not to rows.
    above_groups: Vec<Pending>,
    failed: Option<Reason>,
}

/// Translates the rows, groups and columns of a level. PostgreSQL or [`whole_level`] then computes the remainder of the
/// level's expressions. The level is a rewritten SELECT whose relations are locked.
pub fn open_level<'a>(
    translator: &mut Translator<'a>,
    query: Ref<'a, pg_sys::Query>,
    purpose: Use,
) -> Attempt<Opened<'a>> {
    check_shape(query, purpose)?;
    // PostgreSQL could compute any other expression in these places. But for a subquery, it would have to read tables.
    let places = [query.limitCount(), query.limitOffset(), query.windowClause().node()];
    if places.into_iter().flatten().any(has_subquery) {
        return Err(Why::Limit.of("subquery in LIMIT or in a window's frame"));
    }
    if matches!(purpose, Use::Rows { .. }) && query.targetList().node().is_some_and(Node::is_volatile) {
        // PostgreSQL calls the function for each row, even if no one reads the result.
        return Err(Why::Volatile.of("volatile function in a subquery"));
    }
    if let Some(reason) = depends_on_order(query) {
        return Err(reason);
    }
    translator.enter(Scope::of(query));
    let opened = Reader::open(translator, query, purpose);
    translator.scopes.pop();
    opened
}

/// Translates a subquery in an expression. If the engine cannot compute its rows, PostgreSQL does.
pub fn level_or_sent<'a>(
    translator: &mut Translator<'a>,
    query: Ref<'a, pg_sys::Query>,
    purpose: Use,
) -> Attempt<Level> {
    let translated = translator.attempt(|translator| whole_level(translator, query, purpose));
    translated.or_else(|reason| translator.send_subquery(query, reason))
}

/// Translates a subquery that the engine computes completely.
pub fn whole_level<'a>(translator: &mut Translator<'a>, query: Ref<'a, pg_sys::Query>, purpose: Use) -> Attempt<Level> {
    let opened = open_level(translator, query, purpose)?;
    let columns = opened.columns.read_by_engine();
    translator.enter(Scope::above(query, columns));
    let level = closed(translator, opened, query, purpose);
    translator.scopes.pop();
    level
}

/// Translates the expressions that read a level's columns. These columns are in scope.
fn closed<'a>(
    translator: &mut Translator<'a>,
    opened: Opened<'a>,
    query: Ref<'a, pg_sys::Query>,
    purpose: Use,
) -> Attempt<Level> {
    let Opened { mut rel, targets, quals, arrival, .. } = opened;
    let conjuncts = quals.map_or_else(Vec::new, |quals| quals.simplified().conjuncts().collect());
    for conjunct in subqueries_last(&conjuncts) {
        rel = translator.restricted(rel, conjunct)?;
    }
    let (limited, ordered) = (is_limited(&query), Targets::of(targets));
    let waiting = translator.pending.len();
    if query.hasWindowFuncs {
        rel = translator.windowed(rel, query, &ordered, &arrival)?;
    }
    let mut columns = Vec::new();
    for entry in ordered.entries().filter(|entry| !entry.resjunk) {
        columns.push(translator.expression(entry.expr().simplified()));
    }
    rel = translator.with_pending(rel, waiting);
    // A list for EXISTS or IN may contain the same row several times.
    if query.hasDistinctOn {
        (rel, columns) = translator.first_of_each(rel, query, &ordered, columns, arrival)?;
    } else if !query.distinctClause.is_null() && (purpose != Use::List || limited) {
        (rel, columns) = translator.distinct_rows(rel, query, columns, ordered.entries())?;
    }
    if limited {
        rel = translator.first_rows(rel, query, &ordered, &columns)?;
    }
    let order = if purpose.asks_for_order() { translator.arrival(query, &ordered, &columns) } else { None };
    Ok(Level { rel, columns, order })
}

fn check_shape(query: Ref<'_, pg_sys::Query>, purpose: Use) -> Attempt<()> {
    let reasons = [
        (query.commandType != pg_sys::CmdType::CMD_SELECT, Why::Statement, "WITH query that changes data"),
        (!query.rowMarks.is_null() || query.hasForUpdate, Why::Statement, "row locks"),
        (query.hasModifyingCTE, Why::Statement, "WITH query that changes data"),
        (query.hasTargetSRFs && !purpose.is_query(), Why::Function, "set-returning function in the select list"),
        (
            !query.havingQual.is_null()
                && !query.hasAggs
                && query.groupClause.is_null()
                && query.groupingSets.is_null(),
            Why::Grouping,
            "HAVING without grouping or aggregate",
        ),
    ];
    match reasons.iter().find(|(applies, ..)| *applies) {
        Some((_, why, what)) => Err(why.of(*what)),
        None => Ok(()),
    }
}

impl<'a, 't> Reader<'a, 't> {
    fn open(translator: &'t mut Translator<'a>, query: Ref<'a, pg_sys::Query>, purpose: Use) -> Attempt<Opened<'a>> {
        let waiting = translator.pending.len();
        let ungrouped = purpose == Use::TopUngrouped;
        let sets = if ungrouped { None } else { Sets::of(translator, query)? };
        // The rows are read once for each grouping set, and must be the same each time.
        let scope = translator.scope_mut();
        scope.is_repeated |= sets.is_some();
        let depends_on_order = query.hasAggs || query.hasWindowFuncs || query.hasDistinctOn;
        scope.order_matters = depends_on_order && query.setOperations.is_null() && reads_one_item(query);
        let From { rel, conjuncts } = match query.setOperations() {
            None => from(translator, query)?,
            Some(root) => From { rel: translator.set_operation(query, root)?, conjuncts: Vec::new() },
        };
        let flattened = |node: Option<Node<'a>>| node.map(|node| node.flattened(query));
        let (target_list, having) = (flattened(query.targetList().node()), flattened(query.havingQual()));
        let mut reader = Reader {
            translator,
            query,
            purpose,
            grouped: !ungrouped && is_grouped(&query),
            in_aggregate: false,
            sets,
            columns: Columns::default(),
            keys: Vec::new(),
            shown: Vec::new(),
            waiting,
            above_groups: Vec::new(),
            failed: None,
        };
        let (rel, residual) = reader.restricted(rel, &conjuncts)?;
        if reader.grouped {
            reader.keys(target_list, having)?;
        }
        let targets = reader.above(target_list)?;
        let quals = reader.above(if reader.grouped { having } else { all_of(residual) })?;
        let having = if ungrouped { reader.above(having)? } else { None };
        let rel = reader.translator.with_pending(rel, waiting);
        let rel = reader.assembled(rel)?;
        let arrival = reader.translator.kept_order(query)?;
        Ok(Opened { rel, columns: reader.columns, targets, quals, having, arrival })
    }

    /// Applies the conditions, and returns those that are left to PostgreSQL. A condition may be left only if there is
    /// no grouping, and if it reads only one table. A join condition is never left, because without it the engine would
    /// compute a cross product.
    fn restricted(&mut self, mut rel: Rel, conjuncts: &[Node<'a>]) -> Attempt<(Rel, Vec<Node<'a>>)> {
        let mut residual = Vec::new();
        for conjunct in subqueries_last(conjuncts) {
            let may_stay = self.purpose.is_query()
                && !self.grouped
                && !has_subquery(conjunct)
                && !conjunct.is_volatile()
                && concerns_one_table(conjunct);
            if !may_stay {
                rel = self.translator.restricted(rel, conjunct)?;
                continue;
            }
            // The condition may need joins that are made before it, for example with the elements of an array
            // parameter.
            let waiting = self.translator.pending.len();
            match self.translator.attempt(|translator| translator.row_condition(conjunct)) {
                Ok(condition) => rel = self.translator.with_pending(rel, waiting).filter_by(condition),
                Err(_) => residual.push(conjunct),
            }
        }
        Ok((rel, residual))
    }

    /// The groups of a grouped query, joined with the subqueries whose values belong to the groups.
    fn assembled(&mut self, rel: Rel) -> Attempt<Rel> {
        if !self.grouped {
            return Ok(rel);
        }
        let keys = self.columns.keys();
        let key = key_of(keys, &self.shown);
        for Pending { rel, conditions, .. } in &mut self.above_groups {
            conditions.iter_mut().for_each(|c| c.replace(&key));
            rel.visit_mut(&mut |rel| rel.expressions_mut().into_iter().for_each(|e| e.replace(&key)));
        }
        let (keys, aggregates) = (keys.to_vec(), self.columns.aggregates().to_vec());
        let groups = match &self.sets {
            None => Rel::Aggregate { input: Box::new(rel), keys, aggregates },
            Some(sets) => sets.groups(rel, keys, aggregates),
        };
        self.translator.pending.append(&mut self.above_groups);
        Ok(self.translator.with_pending(groups, self.waiting))
    }

    /// Makes the expressions of GROUP BY the first columns.
    fn keys(&mut self, target_list: Option<Node<'a>>, having: Option<Node<'a>>) -> Attempt<()> {
        let entries: Vec<Ref<'a, pg_sys::TargetEntry>> = target_list.into_iter().flat_map(Node::elements_of).collect();
        let mut simple_keys = Vec::new();
        for clause in self.query.groupClause().iter() {
            let wanted = clause.tleSortGroupRef;
            let entry = entries.iter().find(|entry| entry.ressortgroupref == wanted);
            let entry = entry.ok_or_else(|| Why::Grouping.of("GROUP BY of an unknown expression"))?;
            let node = entry.expr();
            let simple = node.simplified();
            simple_keys.push(simple);
            if !simple.has_columns() && self.sets.is_some() {
                return Err(Why::Grouping.of("grouping sets of a constant"));
            }
            let typed = self.translator.expression(simple)?;
            let typed = self.translator.shown(typed)?;
            require_known_equality(typed.ty, simple)?;
            require_own_equality(clause, node)?;
            if has_images(typed.ty) {
                self.key_of_images(wanted, node, simple, typed)?;
                continue;
            }
            let conversion = conversion(self.translator, typed.ty, simple)?;
            let key = self.columns.key(self.translator, typed)?;
            self.columns.add(self.translator.memory, node, Column::of(simple, key, conversion));
            self.keys.push(node);
        }
        let is_column = |key: &Node<'_>| key.cast::<pg_sys::Var>().is_some();
        if self.sets.is_some() && !simple_keys.iter().all(is_column) {
            let shown = entries.iter().map(|entry| entry.expr());
            let above: Vec<Node<'a>> = shown.chain(having).collect();
            if !above.into_iter().all(|node| reads_keys_alone(node.simplified(), &simple_keys)) {
                return Err(Why::Grouping.of("grouping sets of an expression that stands otherwise elsewhere"));
            }
        }
        Ok(())
    }

    /// Adds a key whose equal values may look different. Each group shows the value of one of its rows.
    fn key_of_images(&mut self, clause: u32, node: Node<'a>, simple: Node<'a>, typed: Typed) -> Attempt<()> {
        let ty = typed.ty;
        self.columns.key(self.translator, exact(comparable(&typed), comparable_type(ty)))?;
        let of_rows = typed.expr.clone();
        let any = self.columns.single(self.translator, Agg::Max(typed.expr), Distinct(false))?;
        let of_group = match &self.sets {
            None => any,
            Some(sets) => exact(sets.where_set_has(clause, any.expr, ty), ty),
        };
        self.shown.push((of_rows, of_group.expr.clone()));
        self.columns.add(self.translator.memory, node, Column::of(simple, of_group, plain(ty)));
        self.keys.push(node);
        Ok(())
    }

    /// Rewrites an expression of the original query for the upper query.
    fn above(&mut self, node: Option<Node<'a>>) -> Attempt<Option<Node<'a>>> {
        let Some(node) = node else { return Ok(None) };
        if node.simplified().any(operators::looks_at_storage) {
            return Err(Why::Function.of("function that looks at how a value is stored"));
        }
        let context = std::ptr::from_mut(self).cast();
        // SAFETY: the node is an expression, or a list of expressions; the context is this reader.
        let rewritten = unsafe { Node::or_null(walk::mutate(node.as_ptr(), rewrite, context)) };
        match self.failed.take() {
            Some(reason) => Err(reason),
            None => Ok(rewritten),
        }
    }

    /// The node that replaces this one in the upper query; `None` if the node stays, and only its children are
    /// rewritten.
    fn replacement(&mut self, node: Node<'a>) -> Attempt<Option<Node<'a>>> {
        if let Some(found) = self.columns.find(node) {
            return Ok(Some(found));
        }
        if self.purpose == Use::TopUngrouped
            && let Some(aggref) = node.cast::<pg_sys::Aggref>()
        {
            return self.left_aggregate(node, aggref).map(Some);
        }
        if node.cast::<pg_sys::Aggref>().is_some() {
            let simple = node.simplified();
            let aggref = simple
                .cast::<pg_sys::Aggref>()
                .ok_or_else(|| Why::Aggregate.of("aggregate that is none once simplified"))?;
            if aggref.agglevelsup != 0 {
                return Err(Why::Aggregate.of("aggregate of an outer query"));
            }
            let arrival = match aggregate::may_show_row_order(aggref) {
                true if sorts_for_aggregates(self.query) => {
                    return Err(Why::RowOrder.of("aggregate without an order beside one that states an order"));
                }
                true => self.translator.order_of_rows(self.query)?,
                false => Vec::new(),
            };
            let translated = self.translator.aggregate(aggref, arrival)?;
            let column = self.aggregated(simple, translated)?;
            return Ok(Some(self.columns.add(self.translator.memory, node, column)));
        }
        if let Some(var) = node.cast::<pg_sys::Var>() {
            if var.varlevelsup > 0 {
                return Ok(None);
            }
            // If a column depends on the keys, adding it as a key does not change the groups.
            if self.grouped && !self.translator.scope_mut().depends_on(var, &self.keys) {
                return Err(Why::Grouping.of("column that is not grouped"));
            }
            let typed = self.translator.expression(node)?;
            // A grouping key and a column of the top-level query must show as many digits as in PostgreSQL. Columns of
            // an ungrouped subquery may get their digits later.
            if !typed.has_exact_scale() && (self.grouped || self.purpose.is_query()) {
                return self.column_of_digits(node, typed, self.grouped).map(Some);
            }
            let conversion = conversion(self.translator, typed.ty, node)?;
            let value = if self.grouped { self.columns.key(self.translator, typed)? } else { typed };
            return Ok(Some(self.columns.add(self.translator.memory, node, Column::of(node, value, conversion))));
        }
        match node.tag() {
            pg_sys::NodeTag::T_GroupingFunc if self.grouped => {
                let sets = self.sets.as_ref().ok_or_else(|| Why::Grouping.of("GROUPING without grouping sets"))?;
                let typed = sets.grouping(node)?;
                let conversion = conversion(self.translator, typed.ty, node)?;
                Ok(Some(self.columns.add(self.translator.memory, node, Column::of(node, typed, conversion))))
            }
            pg_sys::NodeTag::T_SubLink => self.subquery(node).map(Some),
            _ => Ok(None),
        }
    }

    /// Rewrites an aggregate that PostgreSQL computes from the engine's rows.
    fn left_aggregate(&mut self, node: Node<'a>, aggref: Ref<'_, pg_sys::Aggref>) -> Attempt<Node<'a>> {
        aggregate::check_row_order(aggref)?;
        if aggregate::may_show_row_order(aggref) && has_sorted_rows(self.query) {
            return Err(unknown_order("aggregate"));
        }
        let around = std::mem::replace(&mut self.in_aggregate, true);
        let context = std::ptr::from_mut(self).cast();
        // SAFETY: the node is an expression of the query; the context is this reader.
        let rewritten = unsafe { Node::new(walk::mutate_children(node.as_ptr(), rewrite, context)) };
        self.in_aggregate = around;
        Ok(rewritten)
    }

    /// Translates a subquery in the select list or HAVING that returns one value.
    fn subquery(&mut self, node: Node<'a>) -> Attempt<Node<'a>> {
        // The engine returns the subquery's value in each of its rows. Without GROUP BY, PostgreSQL makes a group even
        // if the engine returns no row, and would then lack the value.
        let may_be_without_rows = self.query.groupClause.is_null() || !self.query.groupingSets.is_null();
        if self.purpose == Use::TopUngrouped && !self.in_aggregate && may_be_without_rows {
            return Err(Why::Subquery.of("subquery beside an aggregate that PostgreSQL computes"));
        }
        let of_groups =
            |node: Node<'_>| matches!(node.tag(), pg_sys::NodeTag::T_Aggref | pg_sys::NodeTag::T_GroupingFunc);
        let compares_groups = self.grouped && node.any(of_groups);
        let about_groups = if compares_groups { self.about_groups(node)? } else { None };
        let waiting = self.translator.pending.len();
        let mut typed = match about_groups {
            Some(link) => {
                let groups = self.columns.read_by_engine();
                self.translator.subquery_value_of_groups(link, &groups)?
            }
            None => self.translator.expression(node)?,
        };
        if self.grouped {
            self.above_groups.extend(self.translator.pending.split_off(waiting));
            let (keys, all) = (self.columns.keys(), typed);
            let grouped = |mut expr: Expr| {
                expr.replace(&key_of(keys, &self.shown));
                expr
            };
            let scale = all.scale.named(|expr, _| Ok(grouped(expr)))?;
            typed = Typed { expr: grouped(all.expr), ty: all.ty, scale };
        }
        if !typed.has_exact_scale() {
            return self.column_of_digits(node, typed, false);
        }
        let conversion = conversion(self.translator, typed.ty, node)?;
        Ok(self.columns.add(self.translator.memory, node, Column::of(node, typed, conversion)))
    }

    /// A copy of a subquery with which an aggregate is compared. In the copy, the comparison reads the columns of the
    /// groups.
    fn about_groups(&mut self, node: Node<'a>) -> Attempt<Option<Ref<'a, pg_sys::SubLink>>> {
        let Some(link) = node.cast::<pg_sys::SubLink>() else { return Ok(None) };
        let test = self.above(link.testexpr())?;
        let testexpr = test.map_or(std::ptr::null_mut(), |test| test.simplified().as_ptr());
        // SAFETY: the new node's other fields are copied from `link`.
        Ok(Some(unsafe { self.translator.memory.placed(pg_sys::SubLink { testexpr, ..*link }) }))
    }

    /// Adds a column for a numeric that shows fewer digits than its type has.
    fn column_of_digits(&mut self, node: Node<'a>, mut typed: Typed, is_key: bool) -> Attempt<Node<'a>> {
        // Numerics with a varying scale get their digits later, where the query returns them.
        let is_shown_later = matches!(typed.scale, Scale::Varies(_)) && !self.grouped && self.purpose.is_query();
        if !is_shown_later {
            typed = self.translator.numeric(typed)?;
        }
        if is_key {
            typed = self.columns.key(self.translator, typed)?;
        }
        Ok(self.columns.add(self.translator.memory, node, Column::of(node, typed, plain(Type::Numeric))))
    }

    /// Makes the column of an aggregate. Its value is computed from one column of the groups, or from several.
    fn aggregated(&mut self, simple: Node<'a>, translated: Translated) -> Attempt<Column> {
        let (columns, translator, all) = (&mut self.columns, &mut *self.translator, Distinct(false));
        let (name, value, conversion) = match translated {
            Translated::Column(agg, distinct, conversion) => {
                (agg.aggregate().row().name, columns.single(translator, agg, distinct)?, conversion)
            }
            Translated::Finished(agg, distinct, value) => {
                let name = agg.aggregate().row().name;
                let value = value.of(&columns.aggregate(translator, agg, distinct)?)?;
                let shown = if value.ty == Type::Interval { Type::Interval } else { Type::Numeric };
                (name, value, plain(shown))
            }
            Translated::Scaled { value, digits, averaged } => {
                let sum = columns.single(translator, Agg::Sum(value.clone()), all)?;
                let digits = columns.single(translator, Agg::Max(digits), all)?;
                let sum = Typed { scale: Scale::Varies(digits.expr), ..sum };
                let value = match averaged {
                    false => sum,
                    true => {
                        let count = columns.single(translator, Agg::Count(value), all)?;
                        average(Type::Numeric, translator.numeric(sum)?.expr, count.expr)
                    }
                };
                (if averaged { "avg" } else { "sum" }, value, plain(Type::Numeric))
            }
        };
        Ok(Column { name, ..Column::of(simple, value, conversion) })
    }
}

impl<'a> Translator<'a> {
    /// The rows for which a condition is true.
    pub fn restricted(&mut self, rel: Rel, conjunct: Node<'a>) -> Attempt<Rel> {
        let rel = match self.subquery_condition(conjunct, rel)? {
            Ok(restricted) => return Ok(restricted),
            Err(rel) => rel,
        };
        let waiting = self.pending.len();
        let condition = self.row_condition(conjunct)?;
        Ok(self.with_pending(rel, waiting).filter_by(condition))
    }
}

/// Finds the column of the groups for an expression that is a key. The only values of the grouped rows that a group's
/// subquery may read are keys. An expression without columns needs no replacement.
fn key_of(keys: &[plan::Computed], shown: &[(Expr, Expr)]) -> impl Fn(&Expr) -> Option<Expr> {
    move |read| {
        if read.columns().is_empty() {
            return None;
        }
        let key = keys.iter().find(|key| key.expr == *read).map(|key| Expr::column(key.column));
        key.or_else(|| shown.iter().find(|(of_rows, _)| of_rows == read).map(|(_, of_group)| of_group.clone()))
    }
}

/// The conditions, those without subqueries first, so that subqueries are computed only for the rows that remain.
pub fn subqueries_last<'a>(conjuncts: &[Node<'a>]) -> Vec<Node<'a>> {
    let (mut last, mut all): (Vec<_>, Vec<_>) = conjuncts.iter().copied().partition(|conjunct| has_subquery(*conjunct));
    all.append(&mut last);
    all
}

fn has_subquery(node: Node<'_>) -> bool {
    node.any(|node| node.cast::<pg_sys::SubLink>().is_some())
}

/// Whether a condition reads at most one table.
fn concerns_one_table(condition: Node<'_>) -> bool {
    let columns = condition.columns_and_calls().filter_map(|node| node.cast::<pg_sys::Var>());
    let mut items = columns.map(|column| column.varno);
    let first = items.next();
    items.all(|item| Some(item) == first)
}

/// # Safety
///
/// `node` is null or a node of the tree that the [`Reader`] behind `context` rewrites.
#[pg_guard]
unsafe extern "C-unwind" fn rewrite(node: *mut pg_sys::Node, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: `above` and `left_aggregate` pass the reader as the context, and nobody else uses it meanwhile. The
    // mutator passes null or a node below theirs.
    unsafe {
        let reader = &mut *context.cast::<Reader>();
        let Some(found) = Node::or_null(node) else {
            return node;
        };
        if reader.failed.is_some() {
            return node;
        }
        let is_list = matches!(found.tag(), pg_sys::NodeTag::T_List | pg_sys::NodeTag::T_TargetEntry);
        let replacement = if is_list { Ok(None) } else { reader.replacement(found) };
        match replacement {
            Ok(Some(found)) => found.as_ptr(),
            Ok(None) => walk::mutate_children(node, rewrite, context),
            Err(reason) => {
                reader.failed = Some(reason);
                node
            }
        }
    }
}
