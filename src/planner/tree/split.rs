//! Divides a SELECT into the engine's part and PostgreSQL's part above it.
//!
//! ```text
//!   SELECT d, avg(x) + 1 FROM t WHERE y > 2 GROUP BY d HAVING count(*) > 3 ORDER BY 2
//!
//!   engine   keys: d; aggregates: avg(x), count(*); filters: y > 2, of groups count(*) > 3
//!   above    SELECT c1, c2 + 1 FROM anker.engine_result() AS (c1 …, c2 …, c3 …) ORDER BY 2
//! ```
//!
//! The upper query keeps whatever the engine does not do: ORDER BY, LIMIT, and window functions and DISTINCT if
//! [`crate::planner::rewrite::nested`] does not apply. It also keeps conditions of HAVING that the engine cannot
//! compute. If the engine can return only rows, the upper query keeps the grouping, too. [`super::nodes`] replaces its
//! only function scan by our scan. If nothing above removes rows, the engine returns no more rows than LIMIT asks for,
//! or sorts all rows ([`crate::planner::translate::level::ordered`]).
//!
//! Keys and aggregates are searched for in the select list and in HAVING before these are simplified, because only
//! written forms are certain to match. The parser has ensured that every column outside aggregates is part of an
//! expression that equals a key, or depends on a primary key among the keys. Simplification turns `NOT (x < 5)` into
//! `x >= 5`, which no longer contains the key `x < 5`. So expressions for the engine are simplified after the search,
//! and the upper query is simplified when it is planned.

use pgrx::prelude::*;
use plan::{Rel, Relation};

use super::placeholder;
use crate::pg::compat;
use crate::pg::make;
use crate::pg::relation::expected_rows;
use crate::pg::tree::{Node, Ref, all_of};
use crate::planner::rewrite::nested::{Nested, nested};
use crate::planner::translate::columns::ScanColumn;
use crate::planner::translate::level::ordered::{Arranged, Targets};
use crate::planner::translate::level::select::{Opened, Use, open_level};
use crate::planner::translate::level::sent::Sent;
use crate::planner::translate::scope::Scope;
use crate::planner::translate::{Finished, Translator};
use crate::planner::words::query::is_grouped;
use crate::planner::words::reason::{Attempt, Why};
use crate::settings;
use crate::spec::ScanSpec;

pub struct Split<'a> {
    pub spec: ScanSpec,
    /// The items of FROM whose rows PostgreSQL computes and sends along.
    pub sent: Vec<Sent<'a>>,
    /// The expressions whose values the plan's parameters get.
    pub params: Vec<Node<'a>>,
    /// The upper query, which reads the placeholder.
    pub upper: *mut pg_sys::Query,
    /// The placeholder's columns.
    pub columns: Vec<ScanColumn>,
}

/// Divides a rewritten SELECT whose relations are locked. `function` is the oid of the placeholder.
pub fn split<'a>(query: Ref<'a, pg_sys::Query>, function: pg_sys::Oid) -> Attempt<Split<'a>> {
    let mut translator = Translator::new(query.memory());
    let functions = query.functions();
    let Top { query, mut level, ungrouped } = top(&mut translator, query)?;
    if !ungrouped && is_grouped(&query) {
        restrict_groups(&mut translator, query, &mut level);
    }
    let arranged = if ungrouped { Arranged::Not } else { translator.arrange(query, &mut level) };
    if !level.arrival.is_empty() {
        // PostgreSQL computes window functions or DISTINCT ON from the rows, and their results depend on the order of
        // arrival.
        let (input, order) =
            (Box::new(std::mem::replace(&mut level.rel, Rel::Row)), std::mem::take(&mut level.arrival));
        level.rel = Rel::Top { input, keys: Vec::new(), order, range: Box::default() };
    }
    let columns = level.columns.described();
    let mut upper = upper_query(query, placeholder::entry(function, &columns), &level, ungrouped);
    match arranged {
        Arranged::Not => {}
        Arranged::Sorted => without_order(&mut upper, level.targets),
        Arranged::Limited => upper.limitOffset = std::ptr::null_mut(),
    }
    let (output, conversions) = level.columns.returned(&mut translator)?;
    let Finished { plan, params, sources, sent, names } = translator.finish(level.rel, output)?;
    let sent_names = sent.iter().map(|sent| sent.name.clone()).collect();
    let functions = functions.into_iter().map(|function| function.to_u32()).collect();
    let spec = ScanSpec { plan, sources, columns: conversions, functions, sent: sent_names, names };
    Ok(Split { spec, sent, params, upper: make::placed(upper), columns })
}

/// The level whose columns the engine returns to PostgreSQL.
struct Top<'a> {
    query: Ref<'a, pg_sys::Query>,
    level: Opened<'a>,
    /// Whether PostgreSQL groups the rows.
    ungrouped: bool,
}

fn top<'a>(translator: &mut Translator<'a>, query: Ref<'a, pg_sys::Query>) -> Attempt<Top<'a>> {
    let has_windows = query.hasWindowFuncs;
    if let Some(Nested { query, item }) = nested(query) {
        let level = translator.attempt(|translator| {
            let level = open_level(translator, query, Use::Top)?;
            // If PostgreSQL computed the whole subquery and sent its rows along, the engine would do no work, so this
            // form is not used then.
            let sent = translator.sent.iter().find(|sent| sent.relation_of(item).is_some());
            if has_windows && !fits_into_memory(&translator.relations) {
                return Err(Why::TooLarge.of("window functions of too many rows"));
            }
            sent.map_or(Ok(level), |sent| Err(sent.reason.clone()))
        });
        if let Ok(level) = level {
            return Ok(Top { query, level, ungrouped: false });
        }
    }
    match translator.attempt(|translator| open_level(translator, query, Use::Top)) {
        Err(reason) if is_grouped(&query) => {
            let level = translator.attempt(|translator| {
                let level = open_level(translator, query, Use::TopUngrouped)?;
                if can_be_grouped_above(query, &level) { Ok(level) } else { Err(reason.clone()) }
            });
            Ok(Top { query, level: level.map_err(|_| reason)?, ungrouped: true })
        }
        level => Ok(Top { query, level: level?, ungrouped: false }),
    }
}

/// Whether PostgreSQL can group the engine's rows. The upper query has no entry for the keys of grouping sets. Without
/// the entry, the planner takes conditions and expressions of keys for those of the rows.
fn can_be_grouped_above(query: Ref<'_, pg_sys::Query>, level: &Opened<'_>) -> bool {
    if !compat::HAS_GROUP_ENTRY || query.groupingSets.is_null() {
        return true;
    }
    let targets = Targets::of(level.targets);
    let mut keys = query.groupClause().iter().map(|clause| targets.find(clause));
    let is_column = |entry: Ref<'_, pg_sys::TargetEntry>| entry.expr().cast::<pg_sys::Var>().is_some();
    level.having.is_none() && level.quals.is_none() && keys.all(|key| key.is_ok_and(|(entry, _)| is_column(entry)))
}

/// Whether the engine has enough memory for all values that are read. PostgreSQL's window functions would use files.
fn fits_into_memory(relations: &[Relation]) -> bool {
    let bytes = relations.iter().map(|relation| {
        let rows: f64 = relation.tables().iter().map(|table| expected_rows(table.relid.into())).sum();
        rows * 8.0 * relation.columns.iter().map(|ty| route::weight(*ty)).sum::<f64>()
    });
    bytes.sum::<f64>() * 2.0 <= f64::from(settings::QUERY_MEMORY_MB.get()) * f64::from(1 << 20)
}

/// Makes the engine drop the groups that HAVING excludes, by those conditions that it can compute.
fn restrict_groups<'a>(translator: &mut Translator<'a>, query: Ref<'a, pg_sys::Query>, level: &mut Opened<'a>) {
    let columns = level.columns.read_by_engine();
    translator.enter(Scope::above(query, columns));
    let mut left = Vec::new();
    for conjunct in level.quals.into_iter().flat_map(Node::conjuncts) {
        let waiting = translator.pending.len();
        match translator.attempt(|translator| translator.row_condition(conjunct.simplified())) {
            Ok(condition) => {
                let groups = std::mem::replace(&mut level.rel, Rel::Row);
                level.rel = translator.with_pending(groups, waiting).filter_by(condition);
            }
            Err(_) => left.push(conjunct),
        }
    }
    translator.scopes.pop();
    level.quals = all_of(left);
}

/// The upper query: the remainder of the query, which reads the placeholder. `groups` says that the upper query also
/// groups the rows.
fn upper_query(
    query: Ref<'_, pg_sys::Query>,
    placeholder: *mut pg_sys::RangeTblEntry,
    level: &Opened<'_>,
    groups: bool,
) -> pg_sys::Query {
    let pointer = |node: Option<Node<'_>>| node.map_or(std::ptr::null_mut(), Node::as_ptr);
    let mut upper = pg_sys::Query {
        rtable: make::list([placeholder]),
        jointree: make::from_first(pointer(level.quals)),
        targetList: pointer(level.targets).cast(),
        hasSubLinks: false,
        cteList: std::ptr::null_mut(),
        setOperations: std::ptr::null_mut(),
        havingQual: pointer(level.having),
        constraintDeps: std::ptr::null_mut(),
        ..*query
    };
    compat::without_group_entry(&mut upper);
    if !groups {
        upper.hasAggs = false;
        upper.groupClause = std::ptr::null_mut();
        upper.groupingSets = std::ptr::null_mut();
        upper.groupDistinct = false;
    }
    upper
}

/// Removes ORDER BY and the columns that exist only for it.
fn without_order(upper: &mut pg_sys::Query, targets: Option<Node<'_>>) {
    upper.sortClause = std::ptr::null_mut();
    let targets = targets.into_iter().flat_map(Node::elements_of::<pg_sys::TargetEntry>);
    upper.targetList = make::list(targets.filter(|entry| !entry.resjunk).map(Ref::as_ptr::<pg_sys::Node>));
}
