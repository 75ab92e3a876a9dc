//! The order of arrival: the order in which the rows of a subquery in FROM arrive. SQL promises no order, but
//! PostgreSQL keeps the order of the subquery's ORDER BY, and queries rely on that: `string_agg(x, ',') FROM (SELECT …
//! ORDER BY …)`.

use pgrx::prelude::*;
use plan::SortKey;

use super::ordered::Targets;
use crate::pg::compat;
use crate::pg::tree::{Node, Ref};
use crate::planner::rewrite::unwrap::{only_item, reads_in_order};
use crate::planner::translate::{Translator, Typed};
use crate::planner::words::query::{is_grouped, is_limited};
use crate::planner::words::reason::{Attempt, Reason, Why};

impl<'a> Translator<'a> {
    /// The sort keys of a level with ORDER BY; `None` without one. `columns` are the level's translated columns.
    pub fn arrival(
        &mut self,
        query: Ref<'a, pg_sys::Query>,
        targets: &Targets<'a>,
        columns: &[Attempt<Typed>],
    ) -> Option<Vec<SortKey>> {
        let waiting = self.pending.len();
        let keys = self.attempt(|translator| {
            let keys = translator.sort_keys(query.sortClause(), targets, Some(columns))?;
            match translator.pending.len() == waiting {
                true => Ok(keys),
                false => Err(Why::RowOrder.of("ORDER BY a subquery")),
            }
        });
        keys.ok().filter(|keys| !keys.is_empty())
    }
}

impl<'a> Translator<'a> {
    /// The order in which the rows of the innermost level, `query`, arrive. It is empty if the order does not matter.
    pub fn order_of_rows(&mut self, query: Ref<'_, pg_sys::Query>) -> Attempt<Vec<SortKey>> {
        match self.scope_mut().order.clone() {
            Some(order) => Ok(order),
            None if self.has_sorted_rows(query) => Err(unknown_order("aggregate")),
            None => Ok(Vec::new()),
        }
    }

    /// The order of arrival for an ungrouped level with window functions or DISTINCT ON, because their results may
    /// depend on it. For any other level, and for a level that does not read sorted rows, it is empty.
    pub fn kept_order(&mut self, query: Ref<'a, pg_sys::Query>) -> Attempt<Vec<SortKey>> {
        if !query.hasWindowFuncs && !query.hasDistinctOn || is_grouped(&query) {
            return Ok(Vec::new());
        }
        match self.order_of_rows(query) {
            Err(reason) if self.reads_sorted_item(query) => Err(reason),
            order => Ok(order.unwrap_or_default()),
        }
    }

    /// Whether the level reads sorted rows: the only item of FROM is a subquery or a WITH query that has an ORDER BY,
    /// or whose own only item is such a query.
    fn reads_sorted_item(&self, query: Ref<'a, pg_sys::Query>) -> bool {
        let mut levels: Vec<Ref<'_, pg_sys::Query>> = self.scopes.iter().map(|scope| scope.query).collect();
        let mut query = query;
        loop {
            let Some(below) = self.read_subquery(query, &mut levels) else { return false };
            if !below.sortClause.is_null() {
                return true;
            }
            if is_grouped(&below) || !below.distinctClause.is_null() || !below.setOperations.is_null() {
                return false;
            }
            query = below;
        }
    }

    /// The query that is the only item of FROM. `levels` are the levels around `query`, the innermost last. On return,
    /// `levels` are the levels around the returned query.
    fn read_subquery(
        &self,
        query: Ref<'a, pg_sys::Query>,
        levels: &mut Vec<Ref<'a, pg_sys::Query>>,
    ) -> Option<Ref<'a, pg_sys::Query>> {
        let at = usize::try_from(only_item(query)? - 1).ok()?;
        let entry = query.rtable().iter().nth(at)?;
        let found = match entry.rtekind {
            pg_sys::RTEKind::RTE_CTE => {
                let level = levels.len().checked_sub(entry.ctelevelsup as usize + 1)?;
                levels.truncate(level + 1);
                let mut all = levels[level].cteList().iter();
                let cte = all.find(|cte| cte.ctename() == entry.ctename())?;
                cte.ctequery().cast::<pg_sys::Query>()?
            }
            _ => entry.subquery()?,
        };
        levels.push(found);
        Some(found)
    }

    /// Like the function [`has_sorted_rows`], for a level that may refer to WITH queries of the levels around it.
    pub fn has_sorted_rows(&self, query: Ref<'_, pg_sys::Query>) -> bool {
        let is_with = |entry: Ref<'_, pg_sys::RangeTblEntry>| entry.rtekind == pg_sys::RTEKind::RTE_CTE;
        let refers = query.rtable().iter().any(is_with);
        has_sorted_rows(query) || refers && self.scopes.iter().any(|scope| has_sorted_rows(scope.query))
    }
}

pub fn unknown_order(what: &str) -> Reason {
    Why::RowOrder.of(format!("{what} of rows that a subquery has put in order"))
}

/// Whether PostgreSQL may sort the query's rows for an aggregate that states an order. The other aggregates then get
/// the rows in this order, too.
pub fn sorts_for_aggregates(query: Ref<'_, pg_sys::Query>) -> bool {
    let states_order = |node: Node<'_>| {
        node.cast::<pg_sys::Aggref>().is_some_and(|call| !call.aggorder.is_null() || !call.aggdistinct.is_null())
    };
    let mut places = [query.targetList().node(), query.havingQual()].into_iter().flatten();
    compat::SORTS_FOR_AGGREGATES && places.any(|place| place.any(states_order))
}

/// Whether FROM has only one item.
pub fn reads_one_item(query: Ref<'_, pg_sys::Query>) -> bool {
    only_item(query).is_some()
}

/// The reason for the heap, if the query's result depends on the order in which a subquery's rows arrive.
pub fn depends_on_order(query: Ref<'_, pg_sys::Query>) -> Option<Reason> {
    if !reads_in_order(query) {
        return None;
    }
    let mut windows = query.windowClause().iter();
    if windows.any(|window| window.orderClause.is_null()) {
        return Some(Why::RowOrder.of("window function without an order over rows that a subquery has put in order"));
    }
    let takes_first = is_limited(&query) && query.sortClause.is_null() && !is_grouped(&query);
    takes_first.then(|| Why::Limit.of("LIMIT of rows that a subquery has put in order"))
}

/// Whether a subquery or WITH query of this level, at any depth, sorts its rows by ORDER BY or for a window function.
/// PostgreSQL happens to keep such an order.
pub fn has_sorted_rows(query: Ref<'_, pg_sys::Query>) -> bool {
    let items = query.rtable().iter().filter_map(|entry| entry.subquery());
    let with = query.cteList().iter();
    let with = with.filter_map(|with| with.ctequery().cast::<pg_sys::Query>());
    let is_sorted = |query: Ref<'_, pg_sys::Query>| !query.sortClause.is_null() || !query.windowClause.is_null();
    items.chain(with).any(|query| is_sorted(query) || has_sorted_rows(query))
}
