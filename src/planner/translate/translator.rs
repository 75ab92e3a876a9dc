//! Translates PostgreSQL's expressions into [`plan::Expr`], or finds the reason why that is not possible.
//!
//! An expression that has no columns and is not volatile becomes a literal, or a parameter that the backend evaluates
//! when the query starts. All other expressions must be on the whitelist of [`crate::planner::words::operators`].

use pgrx::prelude::*;
use plan::catalogue::{self, Call, Kind};
use plan::{Agg, BoolOp, ColumnId, Expr, JoinKind, Literal, Named, Plan, Rel, Relation, Type};

use super::scope::Scope;
use crate::pg::tree::{Memory, Node, Ref};
use crate::pg::{catalog, types};
use crate::planner::translate::expr::compare::{Comparison, truth_test};
use crate::planner::translate::level::sent::Sent;
use crate::planner::words::operators::{self, Called};
use crate::planner::words::reason::{Attempt, Reason, Why, function_reason, operator_reason, type_reason};
use crate::spec::{RelationNames, Source};

/// The greatest number of relations that the optimizer can order. A WITH query counts once for each reference.
const MAX_RELATIONS: usize = 64;

#[derive(Clone, Debug)]
pub struct Typed {
    pub expr: Expr,
    pub ty: Type,
    pub scale: Scale,
}

/// The number of digits that a numeric shows behind the point: 2 for 1.50. It does not matter for values that are only
/// compared.
#[derive(Clone, Debug)]
pub enum Scale {
    /// The scale of the type.
    OfType,
    /// The scale is unknown, but smaller than the scale of the type.
    Unknown,
    /// The scale is the value of this integer expression. The expression is null if the value is null.
    Varies(Expr),
    /// This numeric expression has the same value, and shows the right number of digits.
    Shown(Expr),
    /// The value is this parameter, and it shows as many digits as the parameter's expression.
    Parameter(u16),
}

impl Scale {
    /// The same scale, with each of its expressions replaced by the result of `name`, which gets the expression and its
    /// type.
    pub fn named(self, mut name: impl FnMut(Expr, Type) -> Attempt<Expr>) -> Attempt<Scale> {
        Ok(match self {
            Scale::Varies(digits) => Scale::Varies(name(digits, Type::Int32)?),
            Scale::Shown(numeric) => Scale::Shown(name(numeric, Type::Numeric)?),
            known => known,
        })
    }
}

impl Typed {
    pub fn has_exact_scale(&self) -> bool {
        matches!(self.scale, Scale::OfType)
    }
}

/// The state of a translation. The plan is built level by level.
pub struct Translator<'a> {
    /// The memory in which new nodes are made.
    pub memory: Memory<'a>,
    pub relations: Vec<Relation>,
    /// The names of each relation, as the query uses them.
    pub names: Vec<RelationNames>,
    /// The columns that are needed of each relation.
    pub(super) scanned: Vec<Vec<Scanned>>,
    /// The items of FROM whose rows PostgreSQL computes for the engine.
    pub sent: Vec<Sent<'a>>,
    /// The tables that were examined so far, with their partitions or children.
    pub families: Vec<(pg_sys::Oid, Vec<pg_sys::Oid>)>,
    pub(super) columns: Vec<Type>,
    params: Vec<Type>,
    /// The expressions whose values the parameters get.
    param_exprs: Vec<Node<'a>>,
    sources: Vec<Source>,
    /// The scopes of the outer levels, and then the scope of the level that is being translated.
    pub scopes: Vec<Scope<'a>>,
    /// The joins that must be made before the translated expressions can be computed.
    pub pending: Vec<Pending>,
}

/// The result of a whole translation.
pub struct Finished<'a> {
    pub plan: Plan,
    /// The expressions whose values the plan's parameters get.
    pub params: Vec<Node<'a>>,
    pub sources: Vec<Source>,
    /// The items whose rows PostgreSQL computes for the plan.
    pub sent: Vec<Sent<'a>>,
    pub names: Vec<RelationNames>,
}

/// A column of a relation that a scan returns.
#[derive(Clone, Copy)]
pub(super) struct Scanned {
    pub(super) asked: Asked,
    pub(super) id: ColumnId,
}

/// A column of a relation, by its attribute number, or the number of digits that its values show.
#[derive(Clone, Copy, PartialEq)]
pub enum Asked {
    Column(i16),
    ScaleOf(i16),
}

/// How much the reader of an expression needs to know, if less than the exact value is enough. The operands of the
/// expression are not included in this.
#[derive(Clone, Copy, Default)]
pub struct Ask {
    /// The reader accepts false instead of null.
    pub null_may_be_false: bool,
    /// The reader only compares the value, so any one of several equal values is enough.
    pub only_compared: bool,
}

/// A join that translated expressions need, and that is still to be made. It usually comes from a subquery.
pub struct Pending {
    pub kind: JoinKind,
    pub rel: Rel,
    pub conditions: Vec<Expr>,
}

impl<'a> Translator<'a> {
    pub fn new(memory: Memory<'a>) -> Self {
        Translator {
            memory,
            relations: Vec::new(),
            names: Vec::new(),
            scanned: Vec::new(),
            sent: Vec::new(),
            families: Vec::new(),
            columns: Vec::new(),
            params: Vec::new(),
            param_exprs: Vec::new(),
            sources: Vec::new(),
            scopes: Vec::new(),
            pending: Vec::new(),
        }
    }

    pub fn finish(self, mut root: Rel, output: Vec<Expr>) -> Attempt<Finished<'a>> {
        if self.relations.iter().all(|relation| relation.tables().is_empty()) {
            return Err(self
                .sent
                .into_iter()
                .next()
                .map_or_else(|| Why::FromItem.of("no table in FROM"), |sent| sent.reason));
        }
        if plan::twice::may_differ(&root) {
            return Err(Why::RowOrder.of("subquery about a value that depends on the order of rows"));
        }
        root.visit_mut(&mut |rel| {
            if let Rel::Scan { relation, columns } = rel {
                *columns = ids(&self.scanned[*relation as usize]);
            }
        });
        let mut plan = Plan { relations: self.relations, columns: self.columns, params: self.params, root, output };
        plan.scan_alike();
        plan.check().map_err(|what| match what.contains(plan::TOO_DEEP) {
            true => Why::TooLarge.of(what),
            false => Why::Engine.of(format!("its plan is not well-formed: {what}")),
        })?;
        let Translator { param_exprs: params, sources, sent, names, .. } = self;
        Ok(Finished { plan, params, sources, sent, names })
    }

    /// Enters a level. If the outer level is computed again, so is this one.
    pub fn enter(&mut self, mut scope: Scope<'a>) {
        scope.is_repeated |= self.scopes.last().is_some_and(|around| around.is_repeated);
        self.scopes.push(scope);
    }

    pub fn scope(&self) -> &Scope<'a> {
        self.scopes.last().expect("a level is being translated")
    }

    pub fn scope_mut(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("a level is being translated")
    }

    /// A new column.
    pub fn column(&mut self, ty: Type) -> Attempt<ColumnId> {
        let id = u16::try_from(self.columns.len()).map_err(|_| Why::TooLarge.of("too many columns"))?;
        self.columns.push(ty);
        Ok(ColumnId(id))
    }

    /// Runs `translate`. `repeated` says that the same levels will be computed a second time, so that both computations
    /// must return the same rows.
    pub fn repeating<T>(&mut self, repeated: bool, translate: impl FnOnce(&mut Self) -> T) -> T {
        let own = self.scope().is_repeated;
        self.scope_mut().is_repeated |= repeated;
        let translated = translate(self);
        self.scope_mut().is_repeated = own;
        translated
    }

    /// The parameter for an expression's value. An equal parameter is used again.
    pub fn parameter(&mut self, ty: Type, source: Source, node: Node<'a>) -> Expr {
        let is_known = |(at, known): (usize, &Node<'_>)| {
            let same = (self.params[at], self.sources[at]) == (ty, source) && known.equals(node);
            same.then_some(Expr::Param { index: at as u16 })
        };
        if let Some(known) = self.param_exprs.iter().enumerate().find_map(is_known) {
            return known;
        }
        let index = self.params.len() as u16;
        self.params.push(ty);
        self.sources.push(source);
        self.param_exprs.push(node);
        Expr::Param { index }
    }

    /// A parameter with the same value, in PostgreSQL's stored form.
    pub fn stored_parameter(&mut self, index: u16) -> Expr {
        self.parameter(Type::Opaque, Source::Value, self.param_exprs[index as usize])
    }

    /// The parameter for the session's time zone, if there is one already.
    pub fn session_zone_so_far(&self) -> Option<Expr> {
        let index = self.sources.iter().position(|source| *source == Source::SessionZone)?;
        Some(Expr::Param { index: index as u16 })
    }

    /// Removes the parameters after the first `known` ones.
    pub fn forget_params(&mut self, known: usize) {
        self.params.truncate(known);
        self.sources.truncate(known);
        self.param_exprs.truncate(known);
    }

    /// Tries a translation. If it fails, restores the state, except that columns which it has requested from outer
    /// levels stay requested.
    pub fn attempt<T>(&mut self, translate: impl FnOnce(&mut Self) -> Attempt<T>) -> Attempt<T> {
        let (relations, sent, params) = (self.relations.len(), self.sent.len(), self.params.len());
        let pending = self.pending.len();
        let translated = translate(self);
        if translated.is_err() {
            self.relations.truncate(relations);
            self.names.truncate(relations);
            self.scanned.truncate(relations);
            self.sent.truncate(sent);
            self.forget_params(params);
            self.pending.truncate(pending);
        }
        translated
    }

    /// Adds a relation without columns. They are added when they are needed.
    pub fn add_relation(&mut self, relation: Relation, names: RelationNames) -> Attempt<u16> {
        if self.relations.len() == MAX_RELATIONS {
            return Err(Why::TooLarge.of(format!("more than {MAX_RELATIONS} tables")));
        }
        self.relations.push(relation);
        self.names.push(names);
        self.scanned.push(Vec::new());
        Ok(self.relations.len() as u16 - 1)
    }

    /// A column of a relation. `numbers` are its attribute numbers in the mirrored tables of the relation.
    pub fn scanned_column(&mut self, relation: u16, asked: Asked, ty: Type, numbers: &[i16]) -> Attempt<ColumnId> {
        let known = self.scanned[relation as usize].iter().find(|scanned| scanned.asked == asked);
        if let Some(scanned) = known {
            return Ok(scanned.id);
        }
        let id = self.column(ty)?;
        let Relation { source, columns, .. } = &mut self.relations[relation as usize];
        columns.push(ty);
        if let plan::Source::Tables { tables, .. } = source {
            tables.iter_mut().zip(numbers).for_each(|(table, number)| table.attnums.push(*number));
        }
        self.scanned[relation as usize].push(Scanned { asked, id });
        Ok(id)
    }

    /// The columns of an operator's rows. A table has only those columns that were requested so far.
    pub fn columns_of(&self, rel: &Rel) -> Vec<ColumnId> {
        match rel {
            Rel::Scan { relation, .. } => ids(&self.scanned[*relation as usize]),
            Rel::Filter { input, .. } | Rel::Top { input, .. } => self.columns_of(input),
            Rel::Unfold { input, unfold } => {
                let made = [unfold.column].into_iter().chain(unfold.number);
                self.columns_of(input).into_iter().chain(made).collect()
            }
            Rel::Window { input, calls, .. } => {
                let computed = calls.iter().flat_map(|call| call.columns.iter().copied());
                self.columns_of(input).into_iter().chain(computed).collect()
            }
            Rel::Map { input, computed } => {
                let computed = computed.iter().map(|computed| computed.column);
                self.columns_of(input).into_iter().chain(computed).collect()
            }
            Rel::Join { kind, left, right, .. } | Rel::Apply { kind, left, right, .. } => {
                let more = match kind {
                    JoinKind::Mark(mark) => vec![*mark],
                    JoinKind::Inner | JoinKind::Left | JoinKind::Full => self.columns_of(right),
                    JoinKind::Semi | JoinKind::Anti => Vec::new(),
                };
                [self.columns_of(left), more].concat()
            }
            Rel::Row | Rel::Union { .. } | Rel::Aggregate { .. } | Rel::GroupingSets { .. } => rel.columns(),
        }
    }

    /// The rows, joined with the pending joins from index `from` on, so that the translated expressions can be
    /// computed.
    pub fn with_pending(&mut self, rel: Rel, from: usize) -> Rel {
        let pending = self.pending.split_off(from);
        pending
            .into_iter()
            .fold(rel, |rel, Pending { kind, rel: right, conditions }| self.join(rel, kind, right, conditions))
    }

    /// A join. If the right side reads columns of the left side, the join is dependent.
    pub fn join(&self, left: Rel, kind: JoinKind, right: Rel, conditions: Vec<Expr>) -> Rel {
        let visible = self.columns_of(&left);
        let reads = |e: &Expr| e.columns().iter().any(|id| visible.contains(id));
        let mut is_correlated = false;
        right.visit(&mut |rel| is_correlated = is_correlated || rel.expressions().into_iter().any(reads));
        if is_correlated { left.apply(kind, right, conditions) } else { left.join(kind, right, conditions) }
    }

    pub fn type_of(&self, expr: &Expr) -> Type {
        expr.ty(&self.columns, &self.params)
    }

    /// The types of an aggregate's columns.
    pub fn result_types(&self, agg: &Agg) -> Vec<Type> {
        let argument = agg.argument().map_or(Type::Int64, |e| self.type_of(e));
        agg.aggregate().row().output_types(argument).collect()
    }

    /// Translates a condition that only selects rows. For it, null counts as false.
    pub fn row_condition(&mut self, node: Node<'a>) -> Attempt<Expr> {
        self.condition_for(node, Ask { null_may_be_false: true, ..Ask::default() })
    }

    /// Translates a condition whose null may matter.
    pub fn condition(&mut self, node: Node<'a>) -> Attempt<Expr> {
        self.condition_for(node, Ask::default())
    }

    fn condition_for(&mut self, node: Node<'a>, ask: Ask) -> Attempt<Expr> {
        let typed = self.expression_for(node, ask)?;
        if typed.ty == Type::Bool { Ok(typed.expr) } else { Err(Why::Expression.of("a condition is not boolean")) }
    }

    pub fn expression(&mut self, node: Node<'a>) -> Attempt<Typed> {
        self.expression_for(node, Ask::default())
    }

    fn expression_for(&mut self, node: Node<'a>, ask: Ask) -> Attempt<Typed> {
        if let Some(var) = node.cast::<pg_sys::Var>() {
            self.variable(var, ask)
        } else if let Some(param) = node.cast::<pg_sys::Param>().filter(|param| is_compared(*param)) {
            let column = self.scope().compared.get(param.paramid as usize - 1);
            column.cloned().ok_or_else(|| Why::Subquery.of("column of an unknown subquery"))?
        } else if let Some(link) = node.cast::<pg_sys::SubLink>() {
            self.subquery_value(link, ask)
        } else if node.tag() == pg_sys::NodeTag::T_WindowFunc {
            self.window_value(node)
        } else if !self.contains_more_than_values(node) {
            self.value(node)
        } else if let Some(op) = node.cast::<pg_sys::OpExpr>() {
            self.operator(op)
        } else if let Some(call) = node.cast::<pg_sys::FuncExpr>() {
            self.function_call(call)
        } else if let Some(logic) = node.cast::<pg_sys::BoolExpr>() {
            self.logic(logic, ask)
        } else if let Some(test) = node.cast::<pg_sys::NullTest>() {
            self.null_test(test)
        } else if let Some(test) = node.cast::<pg_sys::BooleanTest>() {
            let arg = self.condition(test.arg())?;
            Ok(boolean(truth_test(test.booltesttype, arg)))
        } else if let Some(relabel) = node.cast::<pg_sys::RelabelType>() {
            self.relabelled(relabel)
        } else if let Some(collate) = node.cast::<pg_sys::CollateExpr>() {
            self.expression(collate.arg())
        } else if let Some(conversion) = node.cast::<pg_sys::CoerceViaIO>() {
            self.converted(node, conversion)
        } else if let Some(list) = node.cast::<pg_sys::ScalarArrayOpExpr>() {
            self.list_comparison(list, ask)
        } else {
            self.conditional(node)
        }
    }

    fn operator(&mut self, op: Ref<'a, pg_sys::OpExpr>) -> Attempt<Typed> {
        let arguments: Vec<Node<'a>> = op.args().iter().collect();
        let comparison = arguments.first().and_then(|left| Comparison::of(op.opno, op.inputcollid, *left));
        match (comparison, &arguments[..]) {
            (Some(comparison), &[left, right]) => {
                let (left, right) = (self.compared_operand(left)?, self.compared_operand(right)?);
                comparison.between(self, left, right)
            }
            // Simplification may have inserted an operator whose function is not known yet.
            _ => self.function(catalog::function_of_operator(op.opno), op.inputcollid, &arguments, || {
                operator_reason(op.opno)
            }),
        }
    }

    /// Translates an operand of a comparison.
    pub fn compared_operand(&mut self, node: Node<'a>) -> Attempt<Typed> {
        self.expression_for(node, Ask { only_compared: true, ..Ask::default() })
    }

    fn function(
        &mut self,
        function: pg_sys::Oid,
        collation: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Attempt<Typed> {
        match operators::function(function) {
            Some(called) => self.call(called, arguments, reason),
            None => (self.of_time(function, arguments, &reason))
                .or_else(|| self.named(function, collation, arguments, &reason))
                .or_else(|| self.of_document(function, arguments, &reason))
                .unwrap_or_else(|| Err(reason())),
        }
    }

    /// Translates a function call. The function of a cast may have another result type with the same bytes:
    /// `smallint::oid` calls `int4(smallint)`.
    fn function_call(&mut self, call: Ref<'a, pg_sys::FuncExpr>) -> Attempt<Typed> {
        let arguments: Vec<Node<'a>> = call.args().iter().collect();
        let result = self.function(call.funcid, call.inputcollid, &arguments, || function_reason(call.funcid))?;
        if is_value_of(&result, call.funcresulttype) { Ok(result) } else { Err(type_reason(call.funcresulttype)) }
    }

    fn logic(&mut self, logic: Ref<'a, pg_sys::BoolExpr>, ask: Ask) -> Attempt<Typed> {
        // For an operand of NOT, null must not be taken for false, because NOT turns false into true, but null into
        // null.
        let is_not = logic.boolop == pg_sys::BoolExprType::NOT_EXPR;
        let of_operands = Ask { null_may_be_false: ask.null_may_be_false && !is_not, ..Ask::default() };
        let mut args = Vec::new();
        for argument in logic.args().iter() {
            args.push(self.condition_for(argument, of_operands)?);
        }
        Ok(boolean(match logic.boolop {
            pg_sys::BoolExprType::AND_EXPR => Expr::Bool { op: BoolOp::And, args },
            pg_sys::BoolExprType::OR_EXPR => Expr::Bool { op: BoolOp::Or, args },
            _ => Expr::Not(Box::new(args.pop().ok_or_else(|| Why::Expression.of("NOT without an operand"))?)),
        }))
    }

    fn null_test(&mut self, test: Ref<'a, pg_sys::NullTest>) -> Attempt<Typed> {
        if test.argisrow {
            return Err(Why::Expression.of("IS NULL of a row"));
        }
        let arg = self.expression(test.arg())?.expr;
        let negated = test.nulltesttype == pg_sys::NullTestType::IS_NOT_NULL;
        Ok(boolean(Expr::IsNull { arg: Box::new(arg), negated }))
    }

    /// Translates a change of type that keeps the value: between text and varchar, a domain and its base type, or
    /// collations.
    fn relabelled(&mut self, relabel: Ref<'a, pg_sys::RelabelType>) -> Attempt<Typed> {
        let arg = self.expression(relabel.arg())?;
        if is_value_of(&arg, relabel.resulttype) { Ok(arg) } else { Err(type_reason(relabel.resulttype)) }
    }

    /// Whether the expression contains columns, aggregates or similar nodes, so that its value may differ from row to
    /// row.
    pub fn contains_more_than_values(&self, node: Node<'_>) -> bool {
        let reads = |node: Node<'_>| {
            use pg_sys::NodeTag::*;
            let more = matches!(node.tag(), T_Var | T_Aggref | T_GroupingFunc | T_WindowFunc | T_SubLink | T_SubPlan);
            more || node.cast::<pg_sys::Param>().is_some_and(is_compared)
        };
        let is_case_value = |node: Node<'_>| node.tag() == pg_sys::NodeTag::T_CaseTestExpr;
        node.any(reads) || !self.scope().case_values.is_empty() && node.any(is_case_value)
    }

    /// Translates an expression without columns into a literal or a parameter.
    fn value(&mut self, node: Node<'a>) -> Attempt<Typed> {
        if node.is_volatile() {
            return Err(Why::Volatile.of("volatile function"));
        }
        if node.returns_set() {
            return Err(Why::Function.of("set-returning function"));
        }
        let sql_type = node.sql_type();
        if let Some(constant) = node.cast::<pg_sys::Const>().filter(|_| sql_type == pg_sys::UNKNOWNOID) {
            // A function that accepts any type may get a constant of type unknown. SAFETY: the constant has the type
            // unknown.
            let text = (!constant.constisnull).then(|| unsafe { types::unknown(constant.constvalue) });
            let value = text.transpose().map_err(|what| Why::Value.of(what))?.map(Literal::Text);
            return Ok(exact(Expr::Literal { ty: Type::Text, value }, Type::Text));
        }
        let ty = match types::type_of(sql_type) {
            Some(ty) => ty,
            None if node.cast::<pg_sys::Const>().is_some_and(|constant| constant.constisnull) => Type::Opaque,
            None => {
                let ty = types::type_or_kept(sql_type).ok_or_else(|| type_reason(sql_type))?;
                return Ok(exact(self.parameter(ty, Source::Value, node), ty));
            }
        };
        let Some(constant) = node.cast::<pg_sys::Const>() else {
            let is_numeric = types::without_domain(sql_type, -1).0 == pg_sys::NUMERICOID;
            let expr = self.parameter(ty, Source::Value, node);
            let scale = match expr {
                Expr::Param { index } if is_numeric => Scale::Parameter(index),
                _ => Scale::OfType,
            };
            return Ok(Typed { expr, ty, scale });
        };
        if constant.constisnull {
            return Ok(exact(Expr::Literal { ty, value: None }, ty));
        }
        constant_literal(constant)
    }

    fn call(&mut self, called: Called, arguments: &[Node<'a>], reason: impl Fn() -> Reason) -> Attempt<Typed> {
        let mut operands = Vec::with_capacity(arguments.len());
        for argument in arguments {
            operands.push(self.expression(*argument)?);
        }
        let mut operands = operands.into_iter();
        let (first, second) = (operands.next().ok_or_else(&reason)?, operands.next());
        match (called, second) {
            // PostgreSQL uses the casts of oid for types that are stored like oid, such as regclass. The engine only
            // keeps values of those types, so the argument's type is checked here.
            (Called::CastTo(ty), None) if first.ty == ty || catalogue::cast(first.ty, ty).is_some() => {
                Ok(exact(cast(first, ty), ty))
            }
            (Called::Negate, None) => {
                let first = match first.scale {
                    Scale::Parameter(_) => self.numeric(first)?,
                    _ => first,
                };
                let ty = catalogue::result_type(Call::Neg, &[first.ty]).ok_or_else(reason)?;
                let scale = match first.scale {
                    Scale::Shown(numeric) => Scale::Shown(Expr::Neg(Box::new(numeric))),
                    scale => scale,
                };
                Ok(Typed { expr: Expr::Neg(Box::new(first.expr)), ty, scale })
            }
            (Called::Arith(op, common), Some(second)) => self.arithmetic(op, common, first, second, reason),
            _ => Err(reason()),
        }
    }
}

fn ids(scanned: &[Scanned]) -> Vec<ColumnId> {
    scanned.iter().map(|scanned| scanned.id).collect()
}

pub fn exact(expr: Expr, ty: Type) -> Typed {
    Typed { expr, ty, scale: Scale::OfType }
}

pub fn boolean(expr: Expr) -> Typed {
    exact(expr, Type::Bool)
}

pub fn cast(typed: Typed, to: Type) -> Expr {
    let integers = matches!(to, Type::Int16 | Type::Int32 | Type::Int64);
    match typed.expr {
        expr if typed.ty == to => expr,
        Expr::Literal { value: value @ (None | Some(Literal::Int(_))), .. } if integers => {
            Expr::Literal { ty: to, value }
        }
        expr => Expr::Cast { to, arg: Box::new(expr) },
    }
}

/// The literal for a constant of the tree. A numeric gets the scale that it shows.
pub fn constant_literal(constant: Ref<'_, pg_sys::Const>) -> Attempt<Typed> {
    let ty = types::type_of(constant.consttype).ok_or_else(|| type_reason(constant.consttype))?;
    if constant.constisnull {
        return Ok(exact(Expr::Literal { ty, value: None }, ty));
    }
    // SAFETY: the constant's value has the type for which `type_of` was called.
    let literal = |ty| unsafe { types::literal(constant.constvalue, ty) }.map_err(|what| Why::Value.of(what));
    if let Type::Decimal128 { .. } = ty {
        // SAFETY: the constant is a numeric.
        let Ok((value, scale)) = (unsafe { types::numeric(constant.constvalue) }) else {
            let args = vec![Expr::Literal { ty: Type::Opaque, value: Some(literal(Type::Opaque)?) }];
            return Ok(exact(Expr::Call { function: Named::FromStored, ty: Type::Numeric, args }, Type::Numeric));
        };
        let ty = Type::Decimal128 { scale };
        return Ok(exact(Expr::Literal { ty, value: Some(Literal::Decimal(value)) }, ty));
    }
    Ok(exact(Expr::Literal { ty, value: Some(literal(ty)?) }, ty))
}

/// Whether the engine's value represents a value of this SQL type.
fn is_value_of(typed: &Typed, sql_type: pg_sys::Oid) -> bool {
    match types::type_of(sql_type) {
        Some(Type::Decimal128 { .. }) => matches!(typed.ty.kind(), Kind::Decimal | Kind::Numeric),
        Some(ty) => typed.ty == ty,
        None => typed.ty == Type::Opaque,
    }
}

/// Whether the parameter stands for a column of a subquery with which something is compared.
fn is_compared(param: Ref<'_, pg_sys::Param>) -> bool {
    param.paramkind == pg_sys::ParamKind::PARAM_SUBLINK
}
