//! Window functions of subqueries; those of the query itself PostgreSQL computes.

use pgrx::prelude::*;
use plan::{Agg, Bound, Exclude, Expr, Frame, Literal, Over, Rel, Type, Unit, WindowCall, WindowFunction};

use super::aggregate::Translated;
use super::compare::require_known_equality;
use super::from::simplified;
use super::numeric::comparable;
use super::ordered::Targets;
use super::reason::{Attempt, Why};
use super::translate::{Scale, Translator, Typed};
use crate::pg::catalog::function_name;
use crate::pg::tree::{Node, make, push};

/// A window function of the level that is being translated, and its value.
#[derive(Clone)]
pub struct Computed<'a> {
    call: Node<'a>,
    value: Typed,
}

impl<'a> Translator<'a> {
    /// The value of a window function, once [`Translator::windowed`] has computed it.
    pub fn window_value(&self, node: Node<'a>) -> Attempt<Typed> {
        let found = self.windows.iter().find(|computed| computed.call.equals(node));
        found
            .map(|computed| computed.value.clone())
            .ok_or_else(|| Why::WindowFunction.of("window function in an unusual place"))
    }

    /// The rows with the values of all window functions in the select list and in what it is ordered by.
    pub fn windowed(&mut self, mut rel: Rel, query: &'a pg_sys::Query, targets: &Targets<'a>) -> Attempt<Rel> {
        let calls = self.window_functions(targets)?;
        for clause in self.tree.list_of::<pg_sys::WindowClause>(query.windowClause) {
            let mut own: Vec<Node<'a>> = Vec::new();
            for call in &calls {
                let is_own = call.cast::<pg_sys::WindowFunc>().is_some_and(|func| func.winref == clause.winref);
                if is_own && !own.iter().any(|known| known.equals(*call)) {
                    own.push(*call);
                }
            }
            if !own.is_empty() {
                rel = self.window(rel, clause, targets, &own)?;
            }
        }
        Ok(rel)
    }

    fn window_functions(&self, targets: &Targets<'a>) -> Attempt<Vec<Node<'a>>> {
        let is_outer = |node: Node<'_>| node.cast::<pg_sys::Var>().is_some_and(|var| var.varlevelsup > 0);
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_WINDOWFUNCS | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        let mut all = Vec::new();
        for node in targets.expressions() {
            // SAFETY: an expression; simplified it is a new tree, which nobody changes.
            let simple = self.tree.required(unsafe { simplified(self.tree.required(node).as_ptr()) });
            if simple.any(is_outer) {
                return Err(Why::WindowFunction.of("window function beside a column of an outer query"));
            }
            // SAFETY: an expression of its own level alone.
            let parts = unsafe { pg_sys::pull_var_clause(simple.as_ptr(), flags as i32) };
            all.extend(self.tree.list(parts).filter(|part| part.tag() == pg_sys::NodeTag::T_WindowFunc));
        }
        Ok(all)
    }

    fn window(
        &mut self,
        rel: Rel,
        clause: &'a pg_sys::WindowClause,
        targets: &Targets<'a>,
        functions: &[Node<'a>],
    ) -> Attempt<Rel> {
        let partition = self.keys_of(clause.partitionClause, targets)?;
        let order = self.sort_keys(clause.orderClause, targets, None)?;
        let range = self.range_frame(clause, targets);
        let frame = self.frame(clause);
        let mut calls = Vec::new();
        for function in functions {
            let func = function
                .cast::<pg_sys::WindowFunc>()
                .ok_or_else(|| Why::WindowFunction.of("unknown window function"))?;
            let (function_of, ty, scale) = self.window_function(func)?;
            // Of a function that reads no frame, too, PostgreSQL evaluates the offsets, and looks for the edges.
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
            let types = match &function_of {
                WindowFunction::Aggregate(agg) => self.result_types(agg),
                _ => vec![ty],
            };
            let columns = types.into_iter().map(|ty| self.column(ty)).collect::<Attempt<Vec<_>>>()?;
            let value = match (&function_of, &columns[..]) {
                (WindowFunction::Aggregate(Agg::Avg(_)), &[sum, count]) => super::columns::average(sum, count),
                (_, &[column]) => Typed { expr: Expr::column(column), ty, scale },
                _ => return Err(Why::WindowFunction.of("window function of an unknown form")),
            };
            self.windows.push(Computed { call: *function, value });
            calls.push(WindowCall { columns, function: function_of, frame, reach });
        }
        // Rows that are computed twice must have the same numbers.
        let ties = match self.repeated {
            true => super::ordered::by_columns(&self.columns_of(&rel)),
            false => Vec::new(),
        };
        let over = Box::new(Over { partition, order, ties });
        Ok(Rel::Window { input: Box::new(rel), over, calls })
    }

    /// Expressions by which rows are put together.
    pub fn keys_of(&mut self, clauses: *mut pg_sys::List, targets: &Targets<'a>) -> Attempt<Vec<Expr>> {
        let mut keys = Vec::new();
        for clause in self.tree.list_of::<pg_sys::SortGroupClause>(clauses) {
            let node = self.tree.required(targets.find(clause)?.0.expr);
            // SAFETY: an expression; simplified it is a new tree, which nobody changes.
            let typed = self.expression(self.tree.required(unsafe { simplified(node.as_ptr()) }))?;
            require_known_equality(typed.ty, node)?;
            keys.push(comparable(&typed));
        }
        Ok(keys)
    }

    /// What a function is, and type and scale of its value.
    fn window_function(&mut self, func: &'a pg_sys::WindowFunc) -> Attempt<(WindowFunction, Type, Scale)> {
        use WindowFunction::*;
        if func.winagg {
            let agg = self.window_aggregate(func)?;
            let ty = self
                .result_types(&agg)
                .first()
                .copied()
                .ok_or_else(|| Why::Aggregate.of("aggregate without a result"))?;
            return Ok((Aggregate(agg), ty, Scale::OfType));
        }
        let arguments: Vec<Node<'a>> = self.tree.list(func.args).collect();
        let (rank, share) = ((Type::Int64, Scale::OfType), (Type::Float64, Scale::OfType));
        let with = |function, (ty, scale)| Ok((function, ty, scale));
        let name = || Why::WindowFunction.of(format!("window function {}", function_name(func.winfnoid)));
        let shifted = |this: &mut Self, forth: bool| {
            let (&value, rest) = arguments.split_first().ok_or_else(name)?;
            let value = this.expression(value)?;
            let value = this.shown(value)?;
            let by = rest.first().map_or(Ok(1), |by| this.constant(*by))?;
            let otherwise = rest.get(1).map(|node| this.expression(*node)).transpose()?;
            let of_one_form = |other: &Typed| {
                let is_null = matches!(other.expr, Expr::Literal { value: None, .. });
                is_null || other.ty == value.ty && other.has_exact_scale() && value.has_exact_scale()
            };
            if !otherwise.iter().all(of_one_form) {
                return Err(Why::WindowFunction.of("lag or lead with another value of another form"));
            }
            let otherwise = otherwise.map(|other| match other.expr {
                Expr::Literal { value: None, .. } => Expr::Literal { ty: value.ty, value: None },
                expr => expr,
            });
            let by = if forth { by } else { -by };
            Ok((Shifted { value: value.expr, by, otherwise }, value.ty, value.scale))
        };
        match func.winfnoid.to_u32() {
            pg_sys::F_ROW_NUMBER => with(RowNumber, rank),
            pg_sys::F_RANK_ => with(Rank, rank),
            pg_sys::F_DENSE_RANK_ => with(DenseRank, rank),
            pg_sys::F_PERCENT_RANK_ => with(PercentRank, share),
            pg_sys::F_CUME_DIST_ => with(CumeDist, share),
            pg_sys::F_NTILE => {
                let buckets = self.constant(*arguments.first().ok_or_else(name)?)?;
                let buckets = u32::try_from(buckets).ok().filter(|buckets| *buckets > 0).ok_or_else(name)?;
                with(Ntile(buckets), (Type::Int32, Scale::OfType))
            }
            pg_sys::F_LAG_ANYELEMENT
            | pg_sys::F_LAG_ANYELEMENT_INT4
            | pg_sys::F_LAG_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE => shifted(self, false),
            pg_sys::F_LEAD_ANYELEMENT
            | pg_sys::F_LEAD_ANYELEMENT_INT4
            | pg_sys::F_LEAD_ANYCOMPATIBLE_INT4_ANYCOMPATIBLE => shifted(self, true),
            pg_sys::F_FIRST_VALUE | pg_sys::F_LAST_VALUE | pg_sys::F_NTH_VALUE => {
                let value = self.expression(*arguments.first().ok_or_else(name)?)?;
                let value = self.shown(value)?;
                let form = (value.ty, value.scale);
                match func.winfnoid.to_u32() {
                    pg_sys::F_FIRST_VALUE => with(First(value.expr), form),
                    pg_sys::F_LAST_VALUE => with(Last(value.expr), form),
                    _ => {
                        let number = self.constant(*arguments.get(1).ok_or_else(name)?)?;
                        let number = u32::try_from(number).ok().filter(|number| *number > 0).ok_or_else(name)?;
                        with(Nth(value.expr, number), form)
                    }
                }
            }
            _ => Err(name()),
        }
    }

    /// An aggregate over a frame.
    fn window_aggregate(&mut self, func: &'a pg_sys::WindowFunc) -> Attempt<Agg> {
        let aggref = make::<pg_sys::Aggref>();
        aggref.aggfnoid = func.winfnoid;
        aggref.aggtype = func.wintype;
        aggref.inputcollid = func.inputcollid;
        aggref.aggfilter = func.aggfilter;
        aggref.aggstar = func.winstar;
        aggref.aggkind = b'n' as _;
        for (number, argument) in (1..).zip(self.tree.list(func.args)) {
            // SAFETY: makes a node around an expression.
            let entry = unsafe { pg_sys::makeTargetEntry(argument.as_ptr(), number, std::ptr::null_mut(), false) };
            push(&mut aggref.args, entry);
        }
        match self.aggregate(aggref, Vec::new())? {
            Translated::Column(agg, distinct, _) if !distinct.0 && self.is_windowed(&agg) => Ok(agg),
            _ => Err(Why::WindowFunction.of(format!("window function {}", function_name(func.winfnoid)))),
        }
    }

    fn is_windowed(&self, agg: &Agg) -> bool {
        let arguments: Vec<Type> = agg.arguments().iter().map(|e| self.type_of(e)).collect();
        WindowFunction::Aggregate(agg.clone()).types(&arguments).is_some()
    }

    /// A number that is written down.
    fn constant(&mut self, node: Node<'a>) -> Attempt<i64> {
        let is_value = node.tag() == pg_sys::NodeTag::T_Const;
        match is_value.then(|| self.expression(node)).transpose()?.map(|typed| typed.expr) {
            Some(Expr::Literal { value: Some(Literal::Int(number)), .. }) => Ok(number),
            _ => Err(Why::WindowFunction.of("window function with a number that is not constant")),
        }
    }

    /// The frame, or why there is none: most functions do not look at it.
    fn frame(&mut self, clause: &'a pg_sys::WindowClause) -> Attempt<Frame> {
        let has = |option: u32| clause.frameOptions as u32 & option != 0;
        let by_range = !has(pg_sys::FRAMEOPTION_ROWS) && !has(pg_sys::FRAMEOPTION_GROUPS);
        let mut offset = |node: *mut pg_sys::Node, bound: fn(u64) -> Bound| {
            if by_range {
                return Ok(Bound::Edge);
            }
            // SAFETY: an expression of the query; simplified it is a new tree, which nobody changes.
            let node = self
                .tree
                .node(unsafe { simplified(node) })
                .ok_or_else(|| Why::WindowFunction.of("window frame without an offset"))?;
            u64::try_from(self.constant(node)?)
                .map(bound)
                .map_err(|_| Why::WindowFunction.of("window frame with a negative offset"))
        };
        let start = match () {
            _ if has(pg_sys::FRAMEOPTION_START_OFFSET_PRECEDING) => offset(clause.startOffset, Bound::Preceding)?,
            _ if has(pg_sys::FRAMEOPTION_START_OFFSET_FOLLOWING) => offset(clause.startOffset, Bound::Following)?,
            _ if has(pg_sys::FRAMEOPTION_START_CURRENT_ROW) => Bound::Current,
            _ => Bound::Unbounded,
        };
        let end = match () {
            _ if has(pg_sys::FRAMEOPTION_END_OFFSET_PRECEDING) => offset(clause.endOffset, Bound::Preceding)?,
            _ if has(pg_sys::FRAMEOPTION_END_OFFSET_FOLLOWING) => offset(clause.endOffset, Bound::Following)?,
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
            // Where no offset counts values, a range is one of groups of peers.
            false => Unit::Groups,
        };
        Ok(Frame { unit, start, end, exclude })
    }
}
