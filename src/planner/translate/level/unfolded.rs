//! Functions in FROM that make rows from values of other rows: from an array, a document, a text, or numbers. If a
//! function reads no other rows, PostgreSQL computes it (see [`super::sent`]).

use pgrx::prelude::*;
use plan::{ArithOp, BoolOp, CmpOp, Document, Element, Expr, List, Literal, Named, Rel, Type, Unfold};

use crate::pg::tree::{Node, Ref};
use crate::pg::types;
use crate::planner::translate::expr::functions::apply;
use crate::planner::translate::{Translator, Typed, cast, exact};
use crate::planner::words::reason::{Attempt, Reason, Why, function_reason};

impl<'a> Translator<'a> {
    /// Translates a call of a function in FROM that makes rows for each outer row.
    pub fn function_rows(&mut self, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>) -> Attempt<Rel> {
        let unknown = || Why::FromItem.of("function in FROM");
        let mut functions = entry.functions().iter();
        let (Some(function), None) = (functions.next(), functions.next()) else { return Err(unknown()) };
        let node = function.funcexpr();
        let call = node.cast::<pg_sys::FuncExpr>().ok_or_else(unknown)?;
        if !self.contains_more_than_values(node) || !function.funccolnames.is_null() || function.funccolcount != 1 {
            return Err(unknown());
        }
        let reason = || function_reason(call.funcid).and(" in FROM");
        let arguments: Vec<Node<'a>> = call.args().iter().collect();
        let (list, arguments, ty) = self.list_of_rows(call.funcid, &arguments, reason)?;
        let types: Vec<Type> = arguments.iter().map(|e| self.type_of(e)).collect();
        if !list.takes(&types, ty) {
            return Err(reason());
        }
        let column = self.column(ty)?;
        let number = entry.funcordinality.then(|| self.column(Type::Int64)).transpose()?;
        let columns = [exact(Expr::column(column), ty)].into_iter();
        let columns = columns.chain(number.map(|number| exact(Expr::column(number), Type::Int64))).map(Ok);
        self.scope_mut().add_subquery(index, columns.collect());
        let unfold = Box::new(Unfold { list, arguments, column, number, outer: false });
        Ok(Rel::Unfold { input: Box::new(Rel::Row), unfold })
    }

    fn list_of_rows(
        &mut self,
        function: pg_sys::Oid,
        arguments: &[Node<'a>],
        reason: impl Fn() -> Reason,
    ) -> Attempt<(List, Vec<Expr>, Type)> {
        let mut document = |list: List, ty: Type| -> Attempt<(List, Vec<Expr>, Type)> {
            let document = self.expression(*arguments.first().ok_or_else(&reason)?)?;
            Ok((list, vec![document.expr], ty))
        };
        match function.to_u32() {
            pg_sys::F_JSONB_ARRAY_ELEMENTS => document(List::Documents(Document::Jsonb), Type::Opaque),
            pg_sys::F_JSONB_ARRAY_ELEMENTS_TEXT => document(List::Texts(Document::Jsonb), Type::Text),
            pg_sys::F_JSON_ARRAY_ELEMENTS => document(List::Documents(Document::Json), Type::Opaque),
            pg_sys::F_JSON_ARRAY_ELEMENTS_TEXT => document(List::Texts(Document::Json), Type::Text),
            pg_sys::F_GENERATE_SERIES_INT4_INT4
            | pg_sys::F_GENERATE_SERIES_INT4_INT4_INT4
            | pg_sys::F_GENERATE_SERIES_INT8_INT8
            | pg_sys::F_GENERATE_SERIES_INT8_INT8_INT8 => self.series(arguments, reason),
            pg_sys::F_UNNEST_ANYARRAY => self.elements_of(*arguments.first().ok_or_else(&reason)?, reason),
            pg_sys::F_STRING_TO_TABLE_TEXT_TEXT => self.fields(arguments, reason),
            _ => Err(reason()),
        }
    }

    fn series(&mut self, arguments: &[Node<'a>], reason: impl Fn() -> Reason) -> Attempt<(List, Vec<Expr>, Type)> {
        let numbers = arguments.iter().map(|argument| self.expression(*argument)).collect::<Attempt<Vec<Typed>>>()?;
        let ty = numbers.first().ok_or_else(&reason)?.ty;
        let mut exprs: Vec<Expr> = numbers.into_iter().map(|number| number.expr).collect();
        if exprs.len() == 2 {
            exprs.push(Expr::Literal { ty, value: Some(Literal::Int(1)) });
        }
        match exprs.last() {
            // PostgreSQL raises an error for a step of zero.
            Some(Expr::Literal { value: Some(Literal::Int(step)), .. }) if *step != 0 => Ok((List::Series, exprs, ty)),
            _ => Err(reason().and(" with a step that is not constant")),
        }
    }

    fn elements_of(&mut self, array: Node<'a>, reason: impl Fn() -> Reason) -> Attempt<(List, Vec<Expr>, Type)> {
        if let Some(call) = array.cast::<pg_sys::FuncExpr>()
            && call.funcid.to_u32() == pg_sys::F_STRING_TO_ARRAY_TEXT_TEXT
        {
            let arguments: Vec<Node<'a>> = call.args().iter().collect();
            return self.fields(&arguments, reason);
        }
        let (element, ty) = element_of(array).ok_or_else(&reason)?;
        let array = self.expression(array)?;
        Ok((List::Elements(element), vec![array.expr], ty))
    }

    /// The parts of a text between delimiters. The delimiter must be constant. If it is null, each character is a part.
    fn fields(&mut self, arguments: &[Node<'a>], reason: impl Fn() -> Reason) -> Attempt<(List, Vec<Expr>, Type)> {
        let &[text, delimiter] = arguments else { return Err(reason()) };
        let (text, delimiter) = (self.expression(text)?, self.expression(delimiter)?);
        match &delimiter.expr {
            Expr::Literal { value: Some(_), .. } => Ok((List::Fields, vec![text.expr, delimiter.expr], Type::Text)),
            _ => Err(reason().and(" with a delimiter that is not constant")),
        }
    }
}

impl<'a> Translator<'a> {
    /// Translates `array[place]`.
    pub fn element_at(&mut self, node: Ref<'a, pg_sys::SubscriptingRef>) -> Attempt<Typed> {
        let unknown = || Why::Expression.of("array");
        // Only one element is read here: a slice has two bounds, and either may be missing.
        if !node.reflowerindexpr.is_null() || !node.refassgnexpr.is_null() {
            return Err(unknown());
        }
        let mut places = node.refupperindexpr().iter();
        let (Some(place), None) = (places.next(), places.next()) else { return Err(unknown()) };
        let array = node.refexpr();
        if let Some(call) = array.cast::<pg_sys::FuncExpr>()
            && call.funcid.to_u32() == pg_sys::F_STRING_TO_ARRAY_TEXT_TEXT
        {
            let arguments: Vec<Node<'a>> = call.args().iter().collect();
            return self.field_at(&arguments, place);
        }
        let (element, ty) = element_of(array).ok_or_else(unknown)?;
        let (array, place) = (self.expression(array)?, self.expression(place)?);
        let length = element.length.map_or(-1, i64::from);
        let args = vec![array, place, integer(element.align.into()), integer(length), exact(example(ty), ty)];
        apply(Named::ElementAt, args).ok_or_else(unknown)
    }

    /// Translates `(string_to_array(text, delimiter))[place]`, which is null if the text has fewer parts.
    fn field_at(&mut self, arguments: &[Node<'a>], place: Node<'a>) -> Attempt<Typed> {
        let unknown = || Why::Expression.of("array of parts of a text");
        let &[text, delimiter] = arguments else { return Err(unknown()) };
        let (text, delimiter) = (self.expression(text)?, self.expression(delimiter)?);
        let parts = match (&delimiter.expr, self.expression(place)?.expr) {
            (
                Expr::Literal { value: Some(Literal::Text(by)), .. },
                Expr::Literal { value: Some(Literal::Int(at @ 1..)), .. },
            ) if !by.is_empty() => (by.len() as i64, at),
            _ => return Err(unknown()),
        };
        let call = |function, args: Vec<Typed>| apply(function, args).ok_or_else(unknown);
        let empty = exact(Expr::Literal { ty: Type::Text, value: Some(Literal::Text(String::new())) }, Type::Text);
        let without = call(Named::Replace, vec![text.clone(), delimiter.clone(), empty.clone()])?;
        let (all, left) = (call(Named::OctetLength, vec![text.clone()])?, call(Named::OctetLength, vec![without])?);
        let (l, r) = (Box::new(all.expr), Box::new(left.expr));
        let removed = Expr::Arith { op: ArithOp::Sub, ty: Type::Int32, left: l, right: r };
        let (length, at) = parts;
        let least = i32::try_from(length.saturating_mul(at - 1)).map_err(|_| unknown())?;
        let compared = |op, left, right| Expr::Cmp { op, left: Box::new(left), right: Box::new(right) };
        let is_there = vec![
            compared(CmpOp::Ne, text.expr.clone(), empty.expr),
            compared(CmpOp::Ge, removed, integer(least.into()).expr),
        ];
        let is_there = Expr::Bool { op: BoolOp::And, args: is_there };
        let part = call(Named::SplitPart, vec![text, delimiter, integer(at)])?;
        let otherwise = Box::new(Expr::Literal { ty: Type::Text, value: None });
        Ok(exact(Expr::Case { branches: vec![(is_there, part.expr)], otherwise }, Type::Text))
    }
}

fn integer(number: i64) -> Typed {
    exact(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(number)) }, Type::Int32)
}

/// An arbitrary value of a type.
fn example(ty: Type) -> Expr {
    use plan::Physical::*;
    let value = match ty.physical() {
        Bit => Literal::Bool(false),
        Int16 | Int32 | Int64 => Literal::Int(0),
        Float64 => Literal::Float(0.0),
        Int128 => Literal::Decimal(0),
        Text => Literal::Text(String::new()),
        Bytes if ty == Type::Numeric => {
            let zero = exact(Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(0)) }, Type::Int32);
            return cast(zero, ty);
        }
        Bytes => Literal::Bytes(Vec::new()),
    };
    Expr::Literal { ty, value: Some(value) }
}

/// The stored form of an array's elements, and the engine's type for them. `None` if the expression is no array, or if
/// the engine cannot read its elements.
pub fn element_of(array: Node<'_>) -> Option<(Element, Type)> {
    let (array, _) = types::without_domain(array.sql_type(), -1);
    let element = types::element_of(array)?;
    let ty = match types::type_or_kept(pg_sys::Oid::from(element.oid))? {
        Type::Decimal128 { .. } => Type::Numeric,
        ty => ty,
    };
    List::has_elements(ty).then_some((element, ty))
}
