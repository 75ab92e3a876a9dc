//! UNION, INTERSECT and EXCEPT.
//!
//! ```text
//!   a UNION ALL b      the rows of both operands
//!   a UNION b          these rows, but equal rows only once
//!   a INTERSECT b      groups of equal rows, with a count for each operand, if both counts are above 0
//!   a EXCEPT b         the same groups, if only the count of a is above 0
//!   … ALL              the same, after equal rows of each operand were numbered 1, 2, 3, …
//! ```

use pgrx::prelude::*;
use plan::catalogue::{self, Kind};
use plan::{
    Agg, Aggregation, BoolOp, CmpOp, ColumnId, Computed, Expr, Frame, Literal, Named, Over, Part, Rel, Type,
    WindowCall, WindowFunction,
};

use super::select::{Level, Use, whole_level};
use crate::pg::tree::{Node, Ref};
use crate::pg::types;
use crate::planner::translate::expr::compare::require_deterministic;
use crate::planner::translate::expr::functions::apply;
use crate::planner::translate::expr::numeric::{comparable, comparable_type, has_images};
use crate::planner::translate::{Translator, Typed, cast, exact};
use crate::planner::words::reason::{Attempt, Why};

/// The rows of one operand of a set operation.
struct Operand {
    rel: Rel,
    columns: Vec<Typed>,
}

impl<'a> Translator<'a> {
    /// Translates a query that consists of set operations. The result's columns are added to the innermost scope (the
    /// scope of `query`) as if they were the columns of the first operand, because the select list refers to that
    /// operand.
    pub fn set_operation(&mut self, query: Ref<'a, pg_sys::Query>, root: Node<'a>) -> Attempt<Rel> {
        let mut first = root;
        while let Some(operation) = first.cast::<pg_sys::SetOperationStmt>() {
            first = operation.larg();
        }
        let first =
            first.cast::<pg_sys::RangeTblRef>().ok_or_else(|| Why::SetOperation.of("unknown set operation"))?.rtindex;
        let entries: Vec<Ref<'a, pg_sys::RangeTblEntry>> = query.rtable().iter().collect();
        let Operand { rel, columns } = self.operand(root, &entries)?;
        self.scope_mut().add_subquery(first, columns.into_iter().map(Ok).collect());
        Ok(rel)
    }

    fn operand(&mut self, node: Node<'a>, entries: &[Ref<'a, pg_sys::RangeTblEntry>]) -> Attempt<Operand> {
        if let Some(reference) = node.cast::<pg_sys::RangeTblRef>() {
            let entry = entries
                .get(reference.rtindex as usize - 1)
                .ok_or_else(|| Why::SetOperation.of("unknown set operation"))?;
            let is_query = entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY;
            let query = entry.subquery().filter(|_| is_query);
            let query = query.ok_or_else(|| Why::SetOperation.of("unknown set operation"))?;
            let Level { rel, columns, .. } = whole_level(self, query, Use::Rows { ordered: false })?;
            return Ok(Operand { rel, columns: columns.into_iter().collect::<Attempt<_>>()? });
        }
        let operation =
            node.cast::<pg_sys::SetOperationStmt>().ok_or_else(|| Why::SetOperation.of("unknown set operation"))?;
        let left = self.operand(operation.larg(), entries)?;
        let right = self.operand(operation.rarg(), entries)?;
        let (left, right) = self.showing_digits(left, right)?;
        let types = common_types(&left.columns, &right.columns)?;
        if operation.op == pg_sys::SetOperation::SETOP_UNION && operation.all {
            return self.union(left, right, &types, []);
        }
        require_one_image(operation, &types)?;
        if operation.all {
            let width = types.len();
            let (left, right) = (self.numbered(left, &types)?, self.numbered(right, &types)?);
            let types = [&types[..], &[Type::Int64]].concat();
            let of_right = if operation.op == pg_sys::SetOperation::SETOP_INTERSECT { CmpOp::Gt } else { CmpOp::Eq };
            let mut both = self.compared(left, right, &types, of_right)?;
            both.columns.truncate(width);
            return Ok(both);
        }
        match operation.op {
            pg_sys::SetOperation::SETOP_UNION => {
                let both = self.union(left, right, &types, [])?;
                let (rel, columns, _) = self.groups(both, &types, &[])?;
                Ok(Operand { rel, columns })
            }
            pg_sys::SetOperation::SETOP_INTERSECT => self.compared(left, right, &types, CmpOp::Gt),
            pg_sys::SetOperation::SETOP_EXCEPT => self.compared(left, right, &types, CmpOp::Eq),
            _ => Err(Why::SetOperation.of("unknown set operation")),
        }
    }

    /// Converts the columns of both operands to common types. If one of two columns shows its own digits, or only one
    /// of them is a numeric, both become numerics. A time without zone gets the session's zone if the other side has a
    /// zone.
    fn showing_digits(&mut self, mut left: Operand, mut right: Operand) -> Attempt<(Operand, Operand)> {
        let is_numeric = |typed: &Typed| matches!(typed.ty.kind(), Kind::Decimal | Kind::Numeric);
        let is_number = |typed: &Typed| is_numeric(typed) || typed.ty.kind() == Kind::Integer;
        for (left, right) in left.columns.iter_mut().zip(&mut right.columns) {
            let alike = left.ty == right.ty && left.has_exact_scale() && right.has_exact_scale();
            let are_numbers = is_number(left) && is_number(right) && (is_numeric(left) || is_numeric(right));
            if !alike && are_numbers {
                *left = self.numeric(left.clone())?;
                *right = self.numeric(right.clone())?;
            }
            let (left_ty, right_ty) = (left.ty, right.ty);
            for (one, other) in [(left, right_ty), (right, left_ty)] {
                if matches!(one.ty, Type::Date | Type::Timestamp) && other == Type::TimestampTz {
                    let zone = self.session_zone();
                    let zoned = apply(Named::ToTimestampTz, vec![one.clone(), zone]);
                    *one = zoned.ok_or_else(|| Why::SetOperation.of("set operation of different types"))?;
                }
            }
        }
        Ok((left, right))
    }

    /// Adds a column to the rows of an operand that numbers equal rows: 1, 2, 3, and so on.
    fn numbered(&mut self, operand: Operand, types: &[Type]) -> Attempt<Operand> {
        let Operand { rel, columns } = operand;
        let key = |(column, ty): (&Typed, &Type)| comparable(&exact(cast(column.clone(), *ty), *ty));
        let keys: Vec<Expr> = columns.iter().zip(types).map(key).collect();
        let number = self.column(Type::Int64)?;
        let call =
            WindowCall { columns: vec![number], function: WindowFunction::RowNumber, frame: Frame::ALL, reach: None };
        let over = Box::new(Over { partition: keys, ..Over::default() });
        let rel = Rel::Window { input: Box::new(rel), over, calls: vec![call] };
        let number = exact(Expr::column(number), Type::Int64);
        Ok(Operand { rel, columns: columns.into_iter().chain([number]).collect() })
    }

    /// The rows of both operands. Each mark becomes one more column. Its value is 1 for the rows of one operand, and
    /// null for the rows of the other.
    fn union<const N: usize>(
        &mut self,
        left: Operand,
        right: Operand,
        types: &[Type],
        marks: [bool; N],
    ) -> Attempt<Operand> {
        let part = |operand: Operand, is_left: bool| {
            let mark = |of_left: &bool| Expr::Literal {
                ty: Type::Int16,
                value: (*of_left == is_left).then_some(Literal::Int(1)),
            };
            let columns = operand.columns.into_iter().zip(types).map(|(column, ty)| cast(column, *ty));
            Part { rel: operand.rel, exprs: columns.chain(marks.iter().map(mark)).collect() }
        };
        let inputs = vec![part(left, true), part(right, false)];
        let types: Vec<Type> = types.iter().copied().chain([Type::Int16; N]).collect();
        let ids = types.iter().map(|ty| self.column(*ty)).collect::<Attempt<Vec<ColumnId>>>()?;
        let columns = ids.iter().zip(types).map(|(id, ty)| exact(Expr::column(*id), ty));
        Ok(Operand { columns: columns.collect(), rel: Rel::Union { columns: ids, inputs } })
    }

    /// Groups equal rows into one. For each expression of `counted`, counts its values that are not null.
    fn groups(&mut self, rows: Operand, types: &[Type], counted: &[Expr]) -> Attempt<(Rel, Vec<Typed>, Vec<ColumnId>)> {
        let (mut keys, mut columns, mut aggregates, mut counts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (typed, ty) in rows.columns.into_iter().zip(types) {
            let mut id = self.column(comparable_type(*ty))?;
            keys.push(Computed { column: id, expr: comparable(&typed) });
            if has_images(*ty) {
                // The result may show any one of the equal values.
                id = self.column(*ty)?;
                let agg = Agg::Max(typed.expr.clone());
                aggregates.push(Aggregation { columns: vec![id], agg, distinct: false });
            }
            columns.push(Typed { expr: Expr::column(id), ..typed });
        }
        for expr in counted {
            let id = self.column(Type::Int64)?;
            aggregates.push(Aggregation { columns: vec![id], agg: Agg::Count(expr.clone()), distinct: false });
            counts.push(id);
        }
        Ok((Rel::Aggregate { input: Box::new(rows.rel), keys, aggregates }, columns, counts))
    }

    /// The rows of the left operand that the right operand also contains (`of_right` is `Gt`), or does not contain
    /// (`Eq`).
    fn compared(&mut self, left: Operand, right: Operand, types: &[Type], of_right: CmpOp) -> Attempt<Operand> {
        let both = self.union(left, right, types, [true, false])?;
        let marks: Vec<Expr> = both.columns[types.len()..].iter().map(|mark| mark.expr.clone()).collect();
        let (rel, columns, counts) = self.groups(both, types, &marks)?;
        let zero = || Box::new(Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(0)) });
        let is = |op, id: ColumnId| Expr::Cmp { op, left: Box::new(Expr::column(id)), right: zero() };
        let wanted = vec![is(CmpOp::Gt, counts[0]), is(of_right, counts[1])];
        Ok(Operand { rel: rel.filter(vec![Expr::Bool { op: BoolOp::And, args: wanted }]), columns })
    }
}

/// The types of the result's columns. If the types of two columns differ, the values of one side are converted to the
/// type of the other.
fn common_types(left: &[Typed], right: &[Typed]) -> Attempt<Vec<Type>> {
    let integer = |ty: Type| matches!(ty, Type::Int16 | Type::Int32 | Type::Int64);
    let common = |(left, right): (&Typed, &Typed)| match (left.ty, right.ty) {
        _ if !left.has_exact_scale() || !right.has_exact_scale() => {
            Err(Why::NumericDigits.of("set operation with a numeric parameter"))
        }
        (a, b) if a == b => Ok(a),
        (a, b) if integer(a) && integer(b) => Ok(if a.slot_bytes() > b.slot_bytes() { a } else { b }),
        (a, b) if becomes(a, b) => Ok(b),
        (a, b) if becomes(b, a) => Ok(a),
        // A common type would change the scale that each value shows.
        _ => Err(Why::SetOperation.of("set operation of different types")),
    };
    match left.len() == right.len() {
        true => left.iter().zip(right).map(common).collect(),
        false => Err(Why::SetOperation.of("unknown set operation")),
    }
}

/// Whether PostgreSQL, in a set operation, converts values of one type to the other, by a conversion that depends on
/// nothing but the value.
fn becomes(from: Type, to: Type) -> bool {
    let is_wider = match to {
        Type::Float64 => matches!(from, Type::Int16 | Type::Int32 | Type::Int64 | Type::Float32),
        Type::Float32 => matches!(from, Type::Int16 | Type::Int32 | Type::Int64),
        Type::Timestamp => from == Type::Date,
        _ => false,
    };
    is_wider && catalogue::cast(from, to).is_some()
}

/// Requires that equal values look the same in PostgreSQL, so that the result may show any one of several equal values.
fn require_one_image(operation: Ref<'_, pg_sys::SetOperationStmt>, types: &[Type]) -> Attempt<()> {
    let collations = operation.colTypes().iter().zip(operation.colCollations().iter());
    for (ty, (sql_type, collation)) in types.iter().zip(collations) {
        if *ty == Type::Opaque && !types::has_one_image(sql_type) {
            return Err(Why::SetOperation.of("set operation of values whose equality the engine does not know"));
        }
        if ty.is_text() {
            require_deterministic(collation)?;
        }
    }
    Ok(())
}
