//! Validation of plans: checks everything that the documentation of [`Rel`] and [`Expr`] promises about columns,
//! indexes and types.
//!
//! A plan that passes can be run without further checks.

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::{Expr, Literal};
use crate::algebra::plan::Plan;
use crate::algebra::rel::{Aggregation, JoinKind, Rel, SortKey};
use crate::algebra::unfold::List;
use crate::algebra::window::{Bound, Frame, Over, Unit, WindowCall};
use crate::base::ops::ColumnId;
use crate::base::types::{Kind, Physical, Type};
use crate::functions::{self, Call};

/// The greatest depth to which expressions and operators may be nested. Deeper nesting could exhaust the stack of a
/// thread.
pub const MAX_DEPTH: usize = 100;
/// The error of a plan with too much nesting.
pub const TOO_DEEP: &str = "nested too deeply";

impl Plan {
    /// Checks the plan. The error describes its first defect, for developers.
    pub fn check(&self) -> Result<(), String> {
        let mut checker = Checker { plan: self, made: vec![false; self.columns.len()], outer: Vec::new() };
        let visible = checker.rel(&self.root, MAX_DEPTH)?;
        self.output.iter().try_for_each(|e| checker.type_of(e, &visible).map(drop))
    }
}

struct Checker<'a> {
    plan: &'a Plan,
    /// Whether each column of the plan is made by an operator visited so far.
    made: Vec<bool>,
    /// The columns of left sides of [`Rel::Apply`] that the operators being visited may read, because they are on the
    /// right side.
    outer: Vec<ColumnId>,
}

impl Checker<'_> {
    /// Checks an operator, and returns the columns of its rows.
    fn rel(&mut self, rel: &Rel, depth: usize) -> Result<Vec<ColumnId>, String> {
        let depth = depth.checked_sub(1).ok_or_else(|| format!("operators are {TOO_DEEP}"))?;
        match rel {
            Rel::Scan { relation, columns } => {
                let relation = self.plan.relations.get(*relation as usize).ok_or("no such relation")?;
                if relation.columns.len() != columns.len() {
                    return Err("a scan has other columns than its relation".into());
                }
                if relation.tables().iter().any(|table| table.attnums.len() != columns.len()) {
                    return Err("a table has other columns than its relation".into());
                }
                for (column, ty) in columns.iter().zip(&relation.columns) {
                    self.make(*column, *ty)?;
                }
            }
            Rel::Row => {}
            Rel::Filter { input, conditions } => {
                let visible = self.rel(input, depth)?;
                self.conditions(conditions, &visible)?;
            }
            Rel::Map { input, computed } => {
                let visible = self.rel(input, depth)?;
                for computed in computed {
                    let ty = self.type_of(&computed.expr, &visible)?;
                    self.make(computed.column, ty)?;
                }
            }
            Rel::Join { kind, left, right, conditions } => {
                let mut visible = self.rel(left, depth)?;
                visible.extend(self.rel(right, depth)?);
                self.conditions(conditions, &visible)?;
                self.mark(*kind)?;
            }
            Rel::Apply { kind: JoinKind::Full, .. } => return Err("a full join with rows for each row".into()),
            Rel::Apply { kind, left, right, conditions } => {
                let mut visible = self.rel(left, depth)?;
                let around = self.outer.len();
                self.outer.extend(&visible);
                let right = self.rel(right, depth);
                self.outer.truncate(around);
                visible.extend(right?);
                self.conditions(conditions, &visible)?;
                self.mark(*kind)?;
            }
            Rel::Union { columns, inputs } => {
                for part in inputs {
                    let visible = self.rel(&part.rel, depth)?;
                    let types: Vec<Type> =
                        part.exprs.iter().map(|e| self.type_of(e, &visible)).collect::<Result<_, _>>()?;
                    let wanted = columns.iter().map(|id| self.plan.columns.get(id.0 as usize).copied());
                    if !wanted.eq(types.into_iter().map(Some)) {
                        return Err("a union of rows of other types".into());
                    }
                }
                for column in columns {
                    let ty = self.plan.columns.get(column.0 as usize).ok_or("no such column")?;
                    self.make(*column, *ty)?;
                }
            }
            Rel::Aggregate { input, keys, aggregates } => {
                let visible = self.rel(input, depth)?;
                for key in keys {
                    let ty = self.type_of(&key.expr, &visible)?;
                    self.make(key.column, ty)?;
                }
                self.aggregates(aggregates, &visible)?;
            }
            Rel::GroupingSets { input, grouping } => {
                let visible = self.rel(input, depth)?;
                for key in &grouping.keys {
                    let ty = self.type_of(&key.expr, &visible)?;
                    self.make(key.column, ty)?;
                }
                self.make(grouping.number, Type::Int32)?;
                self.aggregates(&grouping.aggregates, &visible)?;
                if grouping.sets.iter().flatten().any(|at| *at as usize >= grouping.keys.len()) {
                    return Err("a set of unknown keys".into());
                }
            }
            Rel::Top { input, keys, order, range } => {
                let visible = self.rel(input, depth)?;
                for expr in keys {
                    self.type_of(expr, &visible)?;
                }
                self.order(order, &visible)?;
                for number in range.offset.iter().chain(&range.count) {
                    let is_value = matches!(number, Expr::Literal { .. } | Expr::Param { .. });
                    if !is_value || self.type_of(number, &[])? != Type::Int64 {
                        return Err(format!("not a number of rows: {number:?}"));
                    }
                }
            }
            Rel::Unfold { input, unfold } => {
                let visible = self.rel(input, depth)?;
                let arguments = unfold.arguments.iter().map(|e| self.type_of(e, &visible));
                let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                let ty = *self.plan.columns.get(unfold.column.0 as usize).ok_or("no such column")?;
                let is_zero = |e: &Expr| matches!(e, Expr::Literal { value: Some(Literal::Int(0)) | None, .. });
                let has_step = |e: &Expr| matches!(e, Expr::Literal { .. }) && !is_zero(e);
                if !unfold.list.takes(&arguments, ty)
                    || unfold.list == List::Series && !unfold.arguments.last().is_some_and(has_step)
                {
                    return Err("a list of other values".into());
                }
                self.make(unfold.column, ty)?;
                if let Some(number) = unfold.number {
                    self.make(number, Type::Int64)?;
                }
            }
            Rel::Window { input, over, calls } => {
                let visible = self.rel(input, depth)?;
                for expr in &over.partition {
                    self.type_of(expr, &visible)?;
                }
                self.order(&over.order, &visible)?;
                self.order(&over.ties, &visible)?;
                for call in calls {
                    self.frame(call, over, &visible)?;
                    let arguments = call.function.arguments().into_iter().map(|e| self.type_of(e, &visible));
                    let types = call.function.types(&arguments.collect::<Result<Vec<_>, _>>()?);
                    let types = types.filter(|types| types.len() == call.columns.len());
                    for (column, ty) in call.columns.iter().zip(types.ok_or("no such window function")?) {
                        self.make(*column, ty)?;
                    }
                }
            }
        }
        Ok(rel.columns())
    }

    fn mark(&mut self, kind: JoinKind) -> Result<(), String> {
        match kind {
            JoinKind::Mark(mark) => self.make(mark, Type::Bool),
            _ => Ok(()),
        }
    }

    fn aggregates(&mut self, aggregates: &[Aggregation], visible: &[ColumnId]) -> Result<(), String> {
        for aggregation in aggregates {
            let row = aggregation.agg.aggregate().row();
            let arguments = aggregation.agg.arguments().iter().map(|e| self.type_of(e, visible));
            let arguments: Vec<Type> = arguments.collect::<Result<_, _>>()?;
            let fits = match &aggregation.agg {
                Agg::Listed(listed) => listed.takes(&arguments, aggregation.distinct),
                _ => !(aggregation.distinct && arguments.len() > 1) && arguments.iter().all(|ty| row.takes(*ty)),
            };
            if !fits {
                return Err(format!("no such aggregate: {aggregation:?}"));
            }
            let argument = arguments.first().copied().unwrap_or(Type::Int64);
            let types: Vec<Type> = row.output_types(argument).collect();
            if types.len() != aggregation.columns.len() {
                return Err(format!("an aggregate with other columns than its results: {aggregation:?}"));
            }
            for (column, ty) in aggregation.columns.iter().zip(types) {
                self.make(*column, ty)?;
            }
        }
        Ok(())
    }

    fn make(&mut self, column: ColumnId, ty: Type) -> Result<(), String> {
        let at = column.0 as usize;
        if self.plan.columns.get(at) != Some(&ty) {
            return Err(format!("{column:?} is not of type {ty:?}"));
        }
        match std::mem::replace(&mut self.made[at], true) {
            true => Err(format!("{column:?} is made twice")),
            false => Ok(()),
        }
    }

    fn conditions(&self, conditions: &[Expr], visible: &[ColumnId]) -> Result<(), String> {
        for condition in conditions {
            if self.type_of(condition, visible)? != Type::Bool {
                return Err(format!("a condition that is not Bool: {condition:?}"));
            }
        }
        Ok(())
    }

    fn order(&self, keys: &[SortKey], visible: &[ColumnId]) -> Result<(), String> {
        for key in keys {
            let ty = self.type_of(&key.expr, visible)?;
            if key.locale.is_some() && !ty.is_text() {
                return Err(format!("a locale for {ty:?}: {key:?}"));
            }
        }
        Ok(())
    }

    fn frame(&self, call: &WindowCall, over: &Over, visible: &[ColumnId]) -> Result<(), String> {
        let Frame { unit, start, end, .. } = call.frame;
        let reach = match (unit, &call.reach) {
            (Unit::Values, Some(reach)) if call.function.reads_frame() => reach,
            (Unit::Rows | Unit::Groups, None) if ![start, end].contains(&Bound::Edge) => return Ok(()),
            _ => return Err(format!("a frame without its edges, or edges without a frame: {call:?}")),
        };
        let ty = self.type_of(&reach.value, visible)?;
        if over.order.len() != 1 {
            return Err(format!("a frame of values in another order than one of values: {call:?}"));
        }
        for (bound, edge) in [(start, &reach.start), (end, &reach.end)] {
            let fits = match (bound, edge) {
                (Bound::Edge, Some(edge)) => self.type_of(edge, visible)? == ty,
                (Bound::Unbounded | Bound::Current, None) => true,
                _ => false,
            };
            if !fits {
                return Err(format!("an edge of another form than its frame: {call:?}"));
            }
        }
        Ok(())
    }

    /// The type of an expression, after checking the expression and that it reads only `visible` or outer columns.
    fn type_of(&self, expr: &Expr, visible: &[ColumnId]) -> Result<Type, String> {
        self.type_within(expr, visible, MAX_DEPTH)
    }

    fn type_within(&self, expr: &Expr, visible: &[ColumnId], depth: usize) -> Result<Type, String> {
        let depth = depth.checked_sub(1).ok_or_else(|| format!("expression is {TOO_DEEP}"))?;
        let type_of = |expr: &Expr| self.type_within(expr, visible, depth);
        let expect_bool = |expr: &Expr| match type_of(expr)? {
            Type::Bool => Ok(()),
            other => Err(format!("{other:?} where Bool is expected: {expr:?}")),
        };
        let wrong = |what: &str| format!("{what}: {expr:?}");
        Ok(match expr {
            Expr::Column { id } => {
                let ty =
                    self.plan.columns.get(id.0 as usize).filter(|_| visible.contains(id) || self.outer.contains(id));
                *ty.ok_or_else(|| wrong("no such column"))?
            }
            Expr::Param { index } => {
                *self.plan.params.get(*index as usize).ok_or_else(|| wrong("no such parameter"))?
            }
            Expr::Literal { ty, value } => match value {
                Some(value) if !belongs(value, *ty) => return Err(wrong("a constant of another type")),
                _ => *ty,
            },
            Expr::Cmp { left, right, .. } => {
                let (l, r) = (type_of(left)?, type_of(right)?);
                if l != r && !(l.kind() == Kind::Decimal && r.kind() == Kind::Decimal) {
                    return Err(wrong("comparison across types"));
                }
                Type::Bool
            }
            Expr::Arith { op, ty, left, right } => {
                let (l, r) = (type_of(left)?, type_of(right)?);
                if functions::result_type(Call::Arith(*op), &[l, r]) != Some(*ty) {
                    return Err(wrong("operands and result do not fit"));
                }
                *ty
            }
            Expr::Neg(arg) => {
                functions::result_type(Call::Neg, &[type_of(arg)?]).ok_or_else(|| wrong("no unary minus"))?
            }
            Expr::Cast { to, arg } => {
                let from = type_of(arg)?;
                if from != *to && functions::cast(from, *to).is_none() {
                    return Err(wrong("no such cast"));
                }
                *to
            }
            Expr::Bool { args, .. } => {
                args.iter().try_for_each(expect_bool)?;
                Type::Bool
            }
            Expr::Not(arg) => {
                expect_bool(arg)?;
                Type::Bool
            }
            Expr::IsNull { arg, .. } => {
                type_of(arg)?;
                Type::Bool
            }
            Expr::Call { function, ty, args } => {
                let types = args.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
                if functions::result_type(Call::Named(*function), &types) != Some(*ty) {
                    return Err(wrong("operands and result do not fit"));
                }
                let is_constant = |arg: &Expr| matches!(arg, Expr::Param { .. } | Expr::Literal { .. });
                if function.takes_regular() && !args[1..].iter().all(is_constant) {
                    return Err(wrong("a regular expression that is not constant"));
                }
                if function.takes_zone() && !args.last().is_some_and(is_constant) {
                    return Err(wrong("a zone that is not constant"));
                }
                *ty
            }
            Expr::Case { branches, otherwise } => {
                let ty = type_of(otherwise)?;
                if branches.is_empty() {
                    return Err(wrong("CASE without branches"));
                }
                for (when, then) in branches {
                    expect_bool(when)?;
                    if type_of(then)? != ty {
                        return Err(wrong("branches of different types"));
                    }
                }
                ty
            }
            Expr::Coalesce(args) => {
                let types = args.iter().map(type_of).collect::<Result<Vec<_>, _>>()?;
                match types.first() {
                    Some(ty) if types.iter().all(|other| other == ty) => *ty,
                    _ => return Err(wrong("values of different types")),
                }
            }
        })
    }
}

/// Whether a constant is a value of the type.
fn belongs(value: &Literal, ty: Type) -> bool {
    match (ty.physical(), value) {
        (Physical::Int16, Literal::Int(i)) => i16::try_from(*i).is_ok(),
        (Physical::Int32, Literal::Int(i)) => i32::try_from(*i).is_ok(),
        (Physical::Bit, Literal::Bool(_))
        | (Physical::Int64, Literal::Int(_))
        | (Physical::Float64, Literal::Float(_))
        | (Physical::Int128, Literal::Decimal(_))
        | (Physical::Text, Literal::Text(_))
        | (Physical::Bytes, Literal::Bytes(_)) => true,
        _ => false,
    }
}
