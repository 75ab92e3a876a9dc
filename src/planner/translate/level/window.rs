//! Window functions of subqueries. Window functions of the top-level query are translated here, too, if the query is
//! rewritten so that it becomes a subquery ([`crate::planner::rewrite::nested`]).

use pgrx::prelude::*;
use plan::{Bound, Exclude, Expr, Frame, Literal, Over, Rel, SortKey, Type, Unit, WindowCall};

use super::ordered::Targets;
use crate::pg::tree::{List, Node, Ref};
use crate::planner::translate::aggregate::window_function::unknown;
use crate::planner::translate::expr::compare::{require_known_equality, require_own_equality};
use crate::planner::translate::expr::numeric::comparable;
use crate::planner::translate::{Translator, Typed};
use crate::planner::words::query::has_order_of;
use crate::planner::words::reason::{Attempt, Why};

/// A window function of the level that is being translated, with its translated value.
#[derive(Clone)]
pub struct Computed<'a> {
    call: Node<'a>,
    value: Typed,
}

impl<'a> Translator<'a> {
    /// The value of a window function, which [`Translator::windowed`] has translated before.
    pub fn window_value(&self, node: Node<'a>) -> Attempt<Typed> {
        let found = self.scope().windows.iter().find(|computed| computed.call.equals(node));
        found
            .map(|computed| computed.value.clone())
            .ok_or_else(|| Why::WindowFunction.of("window function in an unusual place"))
    }

    /// The rows, with the values of all window functions in the select list and in ORDER BY. `arrival` is the order of
    /// arrival, which orders rows that are equal in a window's own order.
    pub fn windowed(
        &mut self,
        mut rel: Rel,
        query: Ref<'a, pg_sys::Query>,
        targets: &Targets<'a>,
        arrival: &[SortKey],
    ) -> Attempt<Rel> {
        let calls = self.window_functions(targets)?;
        let clauses: Vec<_> = query.windowClause().iter().collect();
        for (at, &first) in clauses.iter().enumerate() {
            if clauses[..at].iter().any(|before| has_order_of(*before, first)) {
                continue;
            }
            // Windows with the same keys are computed together, because each must see rows with equal keys in the same
            // order.
            let mut own: Vec<(Node<'a>, Ref<'a, pg_sys::WindowClause>)> = Vec::new();
            for &clause in clauses[at..].iter().filter(|clause| has_order_of(first, **clause)) {
                for call in &calls {
                    let is_own = call.cast::<pg_sys::WindowFunc>().is_some_and(|func| func.winref == clause.winref);
                    if is_own && !own.iter().any(|(known, _)| known.equals(*call)) {
                        own.push((*call, clause));
                    }
                }
            }
            if !own.is_empty() {
                rel = self.window(rel, first, targets, &own, arrival)?;
            }
        }
        Ok(rel)
    }

    fn window_functions(&self, targets: &Targets<'a>) -> Attempt<Vec<Node<'a>>> {
        let is_outer = |node: Node<'_>| node.cast::<pg_sys::Var>().is_some_and(|var| var.varlevelsup > 0);
        let mut all = Vec::new();
        for node in targets.expressions() {
            let simple = node.simplified();
            if simple.any(is_outer) {
                return Err(Why::WindowFunction.of("window function beside a column of an outer query"));
            }
            all.extend(simple.columns_and_calls().filter(|part| part.tag() == pg_sys::NodeTag::T_WindowFunc));
        }
        Ok(all)
    }

    /// Computes functions over windows with the same keys. Each function comes with its own window clause, because
    /// windows with the same keys may have different frames.
    fn window(
        &mut self,
        rel: Rel,
        clause: Ref<'a, pg_sys::WindowClause>,
        targets: &Targets<'a>,
        functions: &[(Node<'a>, Ref<'a, pg_sys::WindowClause>)],
        arrival: &[SortKey],
    ) -> Attempt<Rel> {
        let waiting = self.pending.len();
        let partition = self.keys_of(clause.partitionClause(), targets)?;
        let order = self.sort_keys(clause.orderClause(), targets, None)?;
        let mut calls = Vec::new();
        for &(function, clause) in functions {
            let range = self.range_frame(clause, targets);
            let frame = self.frame(clause);
            let func = function
                .cast::<pg_sys::WindowFunc>()
                .ok_or_else(|| Why::WindowFunction.of("unknown window function"))?;
            let (function_of, value) = self.window_function(func)?;
            // PostgreSQL evaluates a frame's offsets and edges even for a function that ignores its frame.
            let (range, bounds) = (range.as_ref().map_err(Clone::clone)?, frame.clone()?);
            let (frame, reach) = match (function_of.reads_frame(), range) {
                (true, Some(range)) => (bounds, Some(range.for_function(&function_of)?)),
                (true, None) => (bounds, None),
                (false, Some(range)) if range.may_raise() => {
                    return Err(
                        Why::WindowFunction.of("a window frame that is not read, but whose edges may raise an error")
                    );
                }
                (false, _) => (Frame::ALL, None),
            };
            let arguments: Vec<Type> = function_of.arguments().into_iter().map(|e| self.type_of(e)).collect();
            let types = function_of.types(&arguments).ok_or_else(|| unknown(func))?;
            let columns = types.into_iter().map(|ty| self.column(ty)).collect::<Attempt<Vec<_>>>()?;
            let value = value.of(&columns)?;
            self.scope_mut().windows.push(Computed { call: function, value });
            calls.push(WindowCall { columns, function: function_of, frame, reach });
        }
        let rel = self.with_pending(rel, waiting);
        let mut ties = arrival.to_vec();
        // If the rows are computed twice, each row must get the same number both times, so ties are broken by all
        // columns.
        if self.scope().is_repeated {
            ties.extend(super::ordered::by_columns(&self.columns_of(&rel)));
        }
        let over = Box::new(Over { partition, order, ties });
        Ok(Rel::Window { input: Box::new(rel), over, calls })
    }

    /// The expressions of PARTITION BY, or of another list of keys.
    pub fn keys_of(&mut self, clauses: List<'a, pg_sys::SortGroupClause>, targets: &Targets<'a>) -> Attempt<Vec<Expr>> {
        let mut keys = Vec::new();
        for clause in clauses {
            let node = targets.find(clause)?.0.expr();
            let typed = self.expression(node.simplified())?;
            require_known_equality(typed.ty, node)?;
            require_own_equality(clause, node)?;
            keys.push(comparable(&typed));
        }
        Ok(keys)
    }

    /// The value of an integer constant in the query.
    fn constant(&mut self, node: Node<'a>) -> Attempt<i64> {
        let is_value = node.tag() == pg_sys::NodeTag::T_Const;
        match is_value.then(|| self.expression(node)).transpose()?.map(|typed| typed.expr) {
            Some(Expr::Literal { value: Some(Literal::Int(number)), .. }) => Ok(number),
            _ => Err(Why::WindowFunction.of("window function with a number that is not constant")),
        }
    }

    /// The frame, or the reason why the engine cannot compute it. The reason is no error yet, because most functions
    /// ignore their frame.
    fn frame(&mut self, clause: Ref<'a, pg_sys::WindowClause>) -> Attempt<Frame> {
        let has = |option: u32| clause.frameOptions as u32 & option != 0;
        let by_range = !has(pg_sys::FRAMEOPTION_ROWS) && !has(pg_sys::FRAMEOPTION_GROUPS);
        let mut offset = |node: Option<Node<'a>>, bound: fn(u64) -> Bound| {
            if by_range {
                return Ok(Bound::Edge);
            }
            let node = node.ok_or_else(|| Why::WindowFunction.of("window frame without an offset"))?;
            u64::try_from(self.constant(node.simplified())?)
                .map(bound)
                .map_err(|_| Why::WindowFunction.of("window frame with a negative offset"))
        };
        let start = match () {
            _ if has(pg_sys::FRAMEOPTION_START_OFFSET_PRECEDING) => offset(clause.startOffset(), Bound::Preceding)?,
            _ if has(pg_sys::FRAMEOPTION_START_OFFSET_FOLLOWING) => offset(clause.startOffset(), Bound::Following)?,
            _ if has(pg_sys::FRAMEOPTION_START_CURRENT_ROW) => Bound::Current,
            _ => Bound::Unbounded,
        };
        let end = match () {
            _ if has(pg_sys::FRAMEOPTION_END_OFFSET_PRECEDING) => offset(clause.endOffset(), Bound::Preceding)?,
            _ if has(pg_sys::FRAMEOPTION_END_OFFSET_FOLLOWING) => offset(clause.endOffset(), Bound::Following)?,
            _ if has(pg_sys::FRAMEOPTION_END_CURRENT_ROW) => Bound::Current,
            _ => Bound::Unbounded,
        };
        let exclude = match () {
            _ if has(pg_sys::FRAMEOPTION_EXCLUDE_CURRENT_ROW) => Exclude::Current,
            _ if has(pg_sys::FRAMEOPTION_EXCLUDE_GROUP) => Exclude::Group,
            _ if has(pg_sys::FRAMEOPTION_EXCLUDE_TIES) => Exclude::Ties,
            _ => Exclude::Nothing,
        };
        let unit = match by_range && [start, end].contains(&Bound::Edge) {
            true => Unit::Values,
            false if has(pg_sys::FRAMEOPTION_ROWS) => Unit::Rows,
            // Without an offset, a RANGE frame begins and ends with whole groups of peers.
            false => Unit::Groups,
        };
        Ok(Frame { unit, start, end, exclude })
    }
}
