//! CASE and COALESCE must not raise errors of operands that they do not evaluate. Malformed CASE and COALESCE are
//! refused.

use plan::{ArithOp, CmpOp, Expr, FailureKind, Named, Type};

use crate::build::{arith, boolean, call, cmp, column, int, integer, literal};
use crate::table::{Row, Value, plan_over, run};

const ROWS: [i64; 4] = [0, 2, 5, 0];

fn quotient() -> Expr {
    arith(ArithOp::Div, Type::Int32, integer(Type::Int32, 10), column(0, 0))
}

fn is_zero() -> Expr {
    cmp(CmpOp::Eq, column(0, 0), integer(Type::Int32, 0))
}

fn null(ty: Type) -> Expr {
    literal(ty, None)
}

fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr) -> Expr {
    Expr::Case { branches, otherwise: otherwise.into() }
}

fn values(expr: Expr) -> Result<Vec<Value>, FailureKind> {
    let mut plan = plan_over(&[&[Type::Int32]]);
    plan.output = vec![expr];
    let table: Vec<Row> = ROWS.iter().map(|i| vec![int(*i)]).collect();
    Ok(run(&plan, &table)?.into_iter().map(|mut row| row.remove(0)).collect())
}

#[test]
fn a_value_that_is_not_chosen_is_not_computed() {
    let guarded = case(vec![(is_zero(), integer(Type::Int32, -1))], quotient());
    assert_eq!(values(guarded), Ok(vec![int(-1), int(5), int(2), int(-1)]));
    let positive = cmp(CmpOp::Gt, column(0, 0), integer(Type::Int32, 0));
    let guarded = case(vec![(positive, quotient())], null(Type::Int32));
    assert_eq!(values(guarded), Ok(vec![None, int(5), int(2), None]));
    let unguarded = case(vec![(is_zero(), quotient())], integer(Type::Int32, 1));
    assert_eq!(values(unguarded), Err(FailureKind::DivisionByZero));
}

#[test]
fn a_condition_behind_one_that_holds_is_not_computed() {
    let large = cmp(CmpOp::Gt, quotient(), integer(Type::Int32, 3));
    let text = |i| integer(Type::Int32, i);
    let expr = case(vec![(is_zero(), text(0)), (large, text(1))], text(2));
    assert_eq!(values(expr), Ok(vec![int(0), int(1), int(2), int(0)]));
}

#[test]
fn coalesce_computes_only_what_it_needs() {
    let or_null = || case(vec![(is_zero(), integer(Type::Int32, 7))], null(Type::Int32));
    assert_eq!(values(Expr::Coalesce(vec![or_null(), quotient()])), Ok(vec![int(7), int(5), int(2), int(7)]));
    assert_eq!(values(Expr::Coalesce(vec![null(Type::Int32), quotient()])), Err(FailureKind::DivisionByZero));
    assert_eq!(values(Expr::Coalesce(vec![column(0, 0), quotient()])), Ok(ROWS.map(int).to_vec()));
}

#[test]
fn a_condition_that_is_null_does_not_hold() {
    let expr = case(vec![(null(Type::Bool), literal(Type::Bool, boolean(true)))], literal(Type::Bool, boolean(false)));
    assert_eq!(values(expr), Ok(vec![boolean(false); 4]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let one = || integer(Type::Int32, 1);
    let wrong = [
        case(vec![], one()),
        case(vec![(one(), one())], one()),
        case(vec![(is_zero(), integer(Type::Int64, 1))], one()),
        Expr::Coalesce(vec![]),
        Expr::Coalesce(vec![one(), null(Type::Int64)]),
        call(Named::Greatest, Type::Int32, vec![]),
        call(Named::Greatest, Type::Int32, vec![one(), null(Type::Int64)]),
        call(Named::Greatest, Type::Int64, vec![one()]),
        call(Named::Least, Type::Bool, vec![is_zero()]),
    ];
    for expr in wrong {
        assert_eq!(values(expr.clone()), Err(FailureKind::Internal), "{expr:?}");
    }
}
