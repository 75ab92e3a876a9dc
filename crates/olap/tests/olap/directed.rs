//! Tests of the promises in the documentation of plans, one by one.

use plan::{Agg, ArithOp, CmpOp, ColumnId, Computed, Expr, JoinKind, Plan, Rel, Type};
use protocol::request::FailureKind::{self, *};

use crate::build::*;
use crate::level::{AsPlan, Level, id};
use crate::table::{Row, TestView, Value, engine, grouping, plan_over, rows, run, tokio_runtime};

const D2: Type = Type::Decimal64 { scale: 2 };
const W2: Type = Type::Decimal128 { scale: 2 };

/// The value of an expression over the columns of one row.
fn eval(types: &[Type], row: &[Value], expr: Expr) -> Result<Value, FailureKind> {
    let mut plan = plan_over(&[types]);
    plan.output = vec![expr];
    Ok(run(&plan, &[row.to_vec()])?.remove(0).remove(0))
}

/// Computes `left op right` three times: with both operands in columns, and with either operand as a constant. All
/// results must be equal.
fn arithmetic(op: ArithOp, ty: Type, types: [Type; 2], left: Value, right: Value) -> Result<Value, FailureKind> {
    let row = [left.clone(), right.clone()];
    let constants = [literal(types[0], left), literal(types[1], right)];
    let columns = [column(0, 0), column(0, 1)];
    let result = eval(&types, &row, arith(op, ty, columns[0].clone(), columns[1].clone()));
    for (l, r) in [(&columns[0], &constants[1]), (&constants[0], &columns[1]), (&constants[0], &constants[1])] {
        assert_eq!(eval(&types, &row, arith(op, ty, l.clone(), r.clone())), result);
    }
    result
}

fn compare(op: CmpOp, types: [Type; 2], left: Value, right: Value) -> Value {
    let row = [left.clone(), right.clone()];
    let result = eval(&types, &row, cmp(op, column(0, 0), column(0, 1))).unwrap();
    let constants = [literal(types[0], left), literal(types[1], right)];
    assert_eq!(eval(&types, &row, cmp(op, constants[0].clone(), column(0, 1))).unwrap(), result);
    assert_eq!(eval(&types, &row, cmp(op, column(0, 0), constants[1].clone())).unwrap(), result);
    result
}

fn aggregate(ty: Type, values: Vec<Value>, agg: Agg) -> Result<Row, FailureKind> {
    let mut plan = plan_over(&[&[ty]]);
    plan.grouping = grouping(vec![], vec![agg.clone()]);
    let table: Vec<Row> = values.into_iter().map(|v| vec![v]).collect();
    let ungrouped = run(&plan, &table).map(|mut rows| rows.remove(0));
    // With a key, the same aggregate is computed by other code. The result must be the same.
    plan.grouping = grouping(vec![integer(Type::Int32, 7)], vec![agg]);
    let grouped = run(&plan, &table).map(|rows| rows.into_iter().next());
    match (&ungrouped, grouped) {
        // Results are compared as text, because NaN does not equal itself.
        (Ok(row), Ok(Some(grouped))) => assert_eq!(format!("{:?}", &grouped[1..]), format!("{row:?}")),
        (Err(kind), grouped) => assert_eq!(grouped, Err(*kind)),
        (Ok(_), grouped) => assert!(table.is_empty() && grouped == Ok(None), "{grouped:?}"),
    }
    ungrouped
}

#[test]
fn integers_are_checked_with_the_error_of_their_type() {
    use ArithOp::*;
    for (ty, min, max, kind) in [
        (Type::Int16, i16::MIN as i64, i16::MAX as i64, SmallintOutOfRange),
        (Type::Int32, i32::MIN as i64, i32::MAX as i64, IntegerOutOfRange),
        (Type::Int64, i64::MIN, i64::MAX, BigintOutOfRange),
    ] {
        let of = |op, l, r| arithmetic(op, ty, [ty, ty], int(l), int(r));
        assert_eq!(of(Add, max, 1), Err(kind));
        assert_eq!(of(Add, max, -1), Ok(int(max - 1)));
        assert_eq!(of(Sub, min, 1), Err(kind));
        assert_eq!(of(Mul, max, 2), Err(kind));
        assert_eq!(of(Mul, min, -1), Err(kind));
        assert_eq!(of(Div, min, -1), Err(kind));
        assert_eq!(of(Div, -7, 2), Ok(int(-3)));
        assert_eq!(of(Div, 1, 0), Err(DivisionByZero));
        assert_eq!(of(Mod, -7, 2), Ok(int(-1)));
        assert_eq!(of(Mod, 7, -2), Ok(int(1)));
        assert_eq!(of(Mod, min, -1), Ok(int(0)));
        assert_eq!(of(Mod, min, 0), Err(DivisionByZero));
        assert_eq!(eval(&[ty], &[int(min)], Expr::Neg(column(0, 0).into())), Err(kind));
        assert_eq!(eval(&[ty], &[int(max)], Expr::Neg(column(0, 0).into())), Ok(int(-max)));
    }
}

#[test]
fn floats_neither_overflow_nor_vanish_nor_divide_by_zero() {
    use ArithOp::*;
    let f = Type::Float64;
    let of = |op, l, r| arithmetic(op, f, [f, f], float(l), float(r));
    let infinity = f64::INFINITY;
    assert_eq!(of(Add, f64::MAX, f64::MAX), Err(FloatOverflow));
    assert_eq!(of(Sub, f64::MIN, f64::MAX), Err(FloatOverflow));
    assert_eq!(of(Add, infinity, 1.0), Ok(float(infinity)));
    assert_eq!(of(Mul, 1e200, 1e200), Err(FloatOverflow));
    assert_eq!(of(Mul, 1e-200, 1e-200), Err(FloatUnderflow));
    assert_eq!(of(Mul, 0.0, 1e-200), Ok(float(0.0)));
    assert_eq!(of(Mul, infinity, -2.0), Ok(float(-infinity)));
    assert_eq!(of(Div, 1.0, 0.0), Err(DivisionByZero));
    assert_eq!(of(Div, 0.0, -0.0), Err(DivisionByZero));
    assert_eq!(of(Div, infinity, 0.0), Err(DivisionByZero));
    assert_eq!(of(Div, 1e200, 1e-200), Err(FloatOverflow));
    assert_eq!(of(Div, 1e-200, 1e200), Err(FloatUnderflow));
    assert_eq!(of(Div, 1.0, infinity), Ok(float(0.0)));
    assert_eq!(eval(&[f], &[float(0.0)], Expr::Neg(column(0, 0).into())), Ok(float(-0.0)));
    // NaN divided by zero is NaN, and not an error.
    let nan = eval(&[f, f], &[float(f64::NAN), float(0.0)], arith(Div, f, column(0, 0), column(0, 1)));
    assert!(matches!(nan, Ok(Some(plan::Literal::Float(x))) if x.is_nan()));
}

#[test]
fn decimals_keep_38_digits_and_their_scale() {
    use ArithOp::*;
    let nines = 10i128.pow(38) - 1;
    let d0 = Type::Decimal64 { scale: 0 };
    let w = |scale| Type::Decimal128 { scale };
    assert_eq!(arithmetic(Add, w(2), [D2, d0], int(150), int(2)), Ok(decimal(350)));
    assert_eq!(arithmetic(Sub, w(2), [d0, W2], int(2), decimal(150)), Ok(decimal(50)));
    assert_eq!(arithmetic(Mul, w(4), [D2, W2], int(150), decimal(-150)), Ok(decimal(-22500)));
    assert_eq!(arithmetic(Mul, w(4), [D2, D2], int(i64::MIN), int(i64::MIN)), Ok(decimal(1 << 126)));
    assert_eq!(arithmetic(Add, w(2), [W2, W2], decimal(nines), decimal(1)), Err(DecimalTooWide));
    assert_eq!(arithmetic(Sub, w(2), [W2, W2], decimal(-nines), decimal(1)), Err(DecimalTooWide));
    assert_eq!(arithmetic(Mul, w(4), [W2, W2], decimal(1 << 64), decimal(1 << 64)), Err(DecimalTooWide));
    assert_eq!(arithmetic(Add, w(9), [W2, w(9)], decimal(nines), decimal(0)), Err(DecimalTooWide));
    assert_eq!(eval(&[D2], &[int(i64::MIN)], Expr::Neg(column(0, 0).into())), Ok(decimal(1 << 63)));
}

#[test]
fn dates_have_infinities_and_ends() {
    use ArithOp::*;
    let (d, i) = (Type::Date, Type::Int32);
    let (never, always) = (i32::MIN as i64, i32::MAX as i64);
    assert_eq!(arithmetic(Add, d, [d, i], int(10), int(5)), Ok(int(15)));
    assert_eq!(arithmetic(Sub, d, [d, i], int(10), int(15)), Ok(int(-5)));
    assert_eq!(arithmetic(Add, d, [d, i], int(always), int(-9)), Ok(int(always)));
    assert_eq!(arithmetic(Sub, d, [d, i], int(never), int(9)), Ok(int(never)));
    assert_eq!(arithmetic(Add, d, [d, i], int(2_145_031_948), int(1)), Err(DateOutOfRange));
    assert_eq!(arithmetic(Sub, d, [d, i], int(-2_451_545), int(1)), Err(DateOutOfRange));
    assert_eq!(arithmetic(Add, d, [d, i], int(5), int(always)), Err(DateOutOfRange));
    assert_eq!(arithmetic(Sub, i, [d, d], int(5), int(8)), Ok(int(-3)));
    assert_eq!(arithmetic(Sub, i, [d, d], int(always), int(8)), Err(DateOutOfRange));
    assert_eq!(arithmetic(Sub, i, [d, d], int(8), int(never)), Err(DateOutOfRange));
}

#[test]
fn casts_keep_the_value() {
    let of = |from, value: Value, to| eval(&[from], &[value], cast(to, column(0, 0)));
    assert_eq!(of(Type::Int16, int(-7), Type::Int64), Ok(int(-7)));
    assert_eq!(of(Type::Int32, int(i32::MIN as i64), Type::Int64), Ok(int(i32::MIN as i64)));
    assert_eq!(of(Type::Int64, int((1 << 53) + 1), Type::Float64), Ok(float(9007199254740992.0)));
    assert_eq!(of(Type::Int64, int(i64::MAX), Type::Decimal128 { scale: 3 }), Ok(decimal(i64::MAX as i128 * 1000)));
    assert_eq!(of(Type::Int16, int(12), D2), Ok(int(1200)));
    assert_eq!(of(Type::Int64, int(i64::MAX), D2), Err(DecimalTooWide));
    assert_eq!(of(D2, int(150), Type::Decimal128 { scale: 4 }), Ok(decimal(15000)));
    assert_eq!(of(W2, decimal(10i128.pow(37)), Type::Decimal128 { scale: 3 }), Err(DecimalTooWide));
    assert_eq!(of(Type::Date, int(1), Type::Timestamp), Ok(int(86_400_000_000)));
    assert_eq!(of(Type::Date, int(i32::MAX as i64), Type::Timestamp), Ok(int(i64::MAX)));
    assert_eq!(of(Type::Date, int(i32::MIN as i64), Type::Timestamp), Ok(int(i64::MIN)));
    assert_eq!(of(Type::Date, int(106_751_983), Type::Timestamp), Err(TimestampOutOfRange));
}

#[test]
fn floats_compare_as_in_postgresql() {
    let f = [Type::Float64; 2];
    let negative_nan = f64::from_bits(0xfff8_0000_0000_0007);
    for (l, r, order) in [
        (-0.0, 0.0, 0),
        (f64::NAN, negative_nan, 0),
        (f64::INFINITY, negative_nan, -1),
        (negative_nan, f64::NEG_INFINITY, 1),
        (-1.0, -0.0, -1),
    ] {
        let holds = |op| compare(op, f, float(l), float(r));
        assert_eq!(holds(CmpOp::Eq), boolean(order == 0), "{l} {r}");
        assert_eq!(holds(CmpOp::Ne), boolean(order != 0));
        assert_eq!(holds(CmpOp::Lt), boolean(order < 0));
        assert_eq!(holds(CmpOp::Le), boolean(order <= 0));
        assert_eq!(holds(CmpOp::Gt), boolean(order > 0));
        assert_eq!(holds(CmpOp::Ge), boolean(order >= 0));
    }
}

#[test]
fn decimals_compare_by_value_across_scales_and_widths() {
    let d5 = Type::Decimal64 { scale: 5 };
    let w30 = Type::Decimal128 { scale: 30 };
    assert_eq!(compare(CmpOp::Eq, [D2, d5], int(150), int(150_000)), boolean(true));
    assert_eq!(compare(CmpOp::Lt, [D2, d5], int(150), int(150_001)), boolean(true));
    assert_eq!(compare(CmpOp::Gt, [D2, d5], int(i64::MAX), int(i64::MAX)), boolean(true));
    assert_eq!(compare(CmpOp::Lt, [D2, d5], int(i64::MIN), int(i64::MIN)), boolean(true));
    assert_eq!(compare(CmpOp::Gt, [W2, w30], decimal(i128::MAX), decimal(i128::MAX)), boolean(true));
    assert_eq!(compare(CmpOp::Eq, [D2, W2], int(-5), decimal(-5)), boolean(true));
    assert_eq!(compare(CmpOp::Ne, [D2, W2], int(i64::MIN), decimal(i128::MIN)), boolean(true));
    assert_eq!(compare(CmpOp::Eq, [D2, d5], int(i64::MIN), int(3)), boolean(false));
    assert_eq!(compare(CmpOp::Ne, [D2, d5], None, int(3)), None);
    assert_eq!(compare(CmpOp::Ge, [w30, D2], decimal(10i128.pow(30) * 3 / 2), int(150)), boolean(true));
}

#[test]
fn text_compares_by_bytes() {
    let t = [Type::Text; 2];
    assert_eq!(compare(CmpOp::Lt, t, text("B"), text("a")), boolean(true));
    assert_eq!(compare(CmpOp::Lt, t, text("z"), text("ä")), boolean(true));
    assert_eq!(compare(CmpOp::Lt, t, text(""), text("a")), boolean(true));
    assert_eq!(compare(CmpOp::Lt, t, text("the same thirteen, a"), text("the same thirteen, b")), boolean(true));
    assert_eq!(compare(CmpOp::Eq, [Type::Char; 2], text("ab"), text("ab")), boolean(true));
}

#[test]
fn logic_is_three_valued() {
    let values = [boolean(true), boolean(false), None];
    let of = |l: &Value, r: &Value, e: fn(Vec<Expr>) -> Expr| {
        eval(&[Type::Bool; 2], &[l.clone(), r.clone()], e(vec![column(0, 0), column(0, 1)])).unwrap()
    };
    for l in &values {
        for r in &values {
            let (f, t) = (boolean(false), boolean(true));
            let both = if *l == f || *r == f {
                f.clone()
            } else if l.is_none() || r.is_none() {
                None
            } else {
                t.clone()
            };
            let either = if *l == t || *r == t {
                t
            } else if l.is_none() || r.is_none() {
                None
            } else {
                f
            };
            assert_eq!(of(l, r, and), both, "{l:?} AND {r:?}");
            assert_eq!(of(l, r, or), either, "{l:?} OR {r:?}");
            // If an operand could raise an error, AND and OR are evaluated by other code, even if no error occurs.
            let one = || integer(Type::Int32, 1);
            let risky =
                || or(vec![column(0, 1), cmp(CmpOp::Lt, arith(ArithOp::Div, Type::Int32, one(), one()), one())]);
            let guarded = |e: fn(Vec<Expr>) -> Expr| {
                eval(&[Type::Bool; 2], &[l.clone(), r.clone()], e(vec![column(0, 0), risky()])).unwrap()
            };
            assert_eq!(guarded(and), both, "{l:?} AND {r:?}");
            assert_eq!(guarded(or), either, "{l:?} OR {r:?}");
        }
    }
    let not = |v: Value| eval(&[Type::Bool], &[v], Expr::Not(column(0, 0).into())).unwrap();
    assert_eq!([not(boolean(true)), not(boolean(false)), not(None)], [boolean(false), boolean(true), None]);
    let null = |v: Value, negated| eval(&[D2], &[v], Expr::IsNull { arg: column(0, 0).into(), negated }).unwrap();
    assert_eq!([null(None, false), null(int(1), false)], [boolean(true), boolean(false)]);
    assert_eq!([null(None, true), null(int(1), true)], [boolean(false), boolean(true)]);
    assert_eq!(eval(&[], &[], and(vec![])), Ok(boolean(true)));
    assert_eq!(eval(&[], &[], or(vec![])), Ok(boolean(false)));
}

#[test]
fn an_earlier_operand_guards_a_later_one() {
    let types = [Type::Int32; 2];
    let quotient =
        || cmp(CmpOp::Gt, arith(ArithOp::Div, Type::Int32, column(0, 0), column(0, 1)), integer(Type::Int32, 1));
    let not_zero = || cmp(CmpOp::Ne, column(0, 1), integer(Type::Int32, 0));
    let zero = || equal(column(0, 1), integer(Type::Int32, 0));
    let table: Vec<Row> = (0..100).map(|i| vec![int(10), int(i % 10)]).collect();
    let count = |filters: Vec<Expr>| {
        let mut plan = plan_over(&[&types]);
        plan.filters = filters;
        run(&plan, &table).map(|rows| rows.len())
    };
    assert_eq!(count(vec![and(vec![not_zero(), quotient()])]), Ok(50));
    assert_eq!(count(vec![not_zero(), quotient()]), Ok(50));
    assert_eq!(count(vec![or(vec![zero(), quotient()])]), Ok(60));
    assert_eq!(count(vec![quotient()]), Err(DivisionByZero));
    assert_eq!(count(vec![and(vec![quotient(), not_zero()])]), Err(DivisionByZero));
    let null_guard = equal(column(0, 1), literal(Type::Int32, None));
    assert_eq!(count(vec![and(vec![null_guard, not_zero(), quotient()])]), Ok(0));
}

#[test]
fn null_slots_raise_nothing() {
    // In the test's tables, the bytes behind a null are values with which any arithmetic would raise an error.
    let arithmetic = [
        (Type::Int16, vec![ArithOp::Sub, ArithOp::Mul, ArithOp::Add]),
        (Type::Int64, vec![ArithOp::Sub, ArithOp::Mul, ArithOp::Add]),
        (Type::Float64, vec![ArithOp::Add, ArithOp::Mul]),
        (W2, vec![ArithOp::Add, ArithOp::Sub]),
    ];
    for (ty, ops) in arithmetic {
        for op in ops {
            let expr = arith(op, ty, column(0, 0), column(0, 1));
            assert_eq!(eval(&[ty, ty], &[None, None], expr), Ok(None), "{op:?} {ty:?}");
        }
    }
    let shift = arith(ArithOp::Add, Type::Date, column(0, 0), integer(Type::Int32, 5));
    assert_eq!(eval(&[Type::Date], &[None], shift), Ok(None));
    assert_eq!(eval(&[Type::Int64], &[None], cast(D2, column(0, 0))), Ok(None));
    assert_eq!(eval(&[Type::Int64], &[None], Expr::Neg(column(0, 0).into())), Ok(None));
    assert_eq!(aggregate(W2, vec![None, None], Agg::Sum(column(0, 0))), Ok(vec![None]));
}

#[test]
fn sums_are_exact_and_typed() {
    let sum = |ty, values: Vec<Value>| aggregate(ty, values, Agg::Sum(column(0, 0))).map(|mut row| row.remove(0));
    let i64s = |n: usize, v: i64| vec![int(v); n];
    assert_eq!(sum(Type::Int16, vec![int(32767), None, int(32767)]), Ok(int(65534)));
    assert_eq!(sum(Type::Int32, i64s(3, i32::MIN as i64)), Ok(int(3 * i32::MIN as i64)));
    assert_eq!(sum(Type::Int64, i64s(3, i64::MAX)), Ok(decimal(3 * i64::MAX as i128)));
    assert_eq!(sum(Type::Int64, i64s(3, i64::MIN)), Ok(decimal(3 * i64::MIN as i128)));
    assert_eq!(sum(Type::Int64, vec![int(-1), int(1), int(-5)]), Ok(decimal(-5)));
    assert_eq!(sum(D2, vec![int(i64::MAX), int(1), None]), Ok(decimal(1 << 63)));
    assert_eq!(sum(W2, vec![decimal(i128::MAX), decimal(-1)]), Ok(decimal(i128::MAX - 1)));
    assert_eq!(sum(W2, vec![decimal(i128::MAX), decimal(1)]), Err(DecimalTooWide));
    assert_eq!(sum(W2, vec![]), Ok(None));
    assert_eq!(sum(Type::Int16, vec![None]), Ok(None));
}

#[test]
fn averages_travel_as_sum_and_count() {
    let avg = |ty, values| aggregate(ty, values, Agg::Avg(column(0, 0)));
    assert_eq!(avg(Type::Int16, vec![int(1), int(2), None]), Ok(vec![decimal(3), int(2)]));
    assert_eq!(avg(D2, vec![int(150), int(-50)]), Ok(vec![decimal(100), int(2)]));
    assert_eq!(avg(Type::Int64, vec![]), Ok(vec![None, int(0)]));
}

#[test]
fn extremes_of_every_type() {
    let both = |ty, values: Vec<Value>| {
        let of = |agg: fn(Expr) -> Agg| aggregate(ty, values.clone(), agg(column(0, 0))).unwrap().remove(0);
        (of(Agg::Min), of(Agg::Max))
    };
    assert_eq!(both(Type::Int16, vec![int(3), None, int(-2)]), (int(-2), int(3)));
    assert_eq!(both(Type::Timestamp, vec![int(i64::MIN), int(i64::MAX)]), (int(i64::MIN), int(i64::MAX)));
    assert_eq!(both(W2, vec![decimal(i128::MIN), decimal(i128::MAX)]), (decimal(i128::MIN), decimal(i128::MAX)));
    assert_eq!(both(Type::Text, vec![text("b"), text(""), None, text("ä")]), (text(""), text("ä")));
    assert_eq!(both(Type::Date, vec![None]), (None, None));
    assert_eq!(both(Type::Float64, vec![float(-0.0)]), (float(-0.0), float(-0.0)));
    let (min, max) = both(Type::Float64, vec![float(1.0), float(f64::NAN), float(f64::NEG_INFINITY), None]);
    assert_eq!(min, float(f64::NEG_INFINITY));
    assert!(matches!(max, Some(plan::Literal::Float(f)) if f.is_nan()));
}

#[test]
fn counts() {
    assert_eq!(aggregate(D2, vec![int(1), None, int(1)], Agg::CountStar), Ok(vec![int(3)]));
    assert_eq!(aggregate(D2, vec![int(1), None, int(1)], Agg::Count(column(0, 0))), Ok(vec![int(2)]));
    assert_eq!(aggregate(D2, vec![], Agg::CountStar), Ok(vec![int(0)]));
}

#[test]
fn groups_of_equal_floats_show_a_member() {
    let mut plan = plan_over(&[&[Type::Float64]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    let bits = |rows: Vec<Row>| match &rows[..] {
        [row] => match row[0] {
            Some(plan::Literal::Float(f)) => (f.to_bits(), row[1].clone()),
            _ => panic!("{row:?}"),
        },
        _ => panic!("{rows:?}"),
    };
    let negative_zero = vec![float(-0.0)];
    assert_eq!(bits(run(&plan, &[negative_zero.clone(), negative_zero]).unwrap()), ((-0.0f64).to_bits(), int(2)));
    let (_, count) = bits(run(&plan, &[vec![float(-0.0)], vec![float(0.0)]]).unwrap());
    assert_eq!(count, int(2));
    let (_, count) = bits(run(&plan, &[vec![float(f64::NAN)], vec![float(-f64::NAN)]]).unwrap());
    assert_eq!(count, int(2));
}

#[test]
fn grouping_treats_nulls_as_equal() {
    let mut plan = plan_over(&[&[Type::Text, Type::Int32]]);
    plan.grouping = grouping(vec![column(0, 0), column(0, 1)], vec![Agg::CountStar]);
    let table = vec![vec![None, int(1)], vec![text("x"), None], vec![None, int(1)], vec![None, None]];
    let mut told = run(&plan, &table).unwrap();
    told.sort_by_key(|row| format!("{row:?}"));
    let mut expected = vec![vec![None, int(1), int(2)], vec![text("x"), None, int(1)], vec![None, None, int(1)]];
    expected.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(told, expected);
}

#[test]
fn without_keys_there_is_exactly_one_row() {
    let mut plan = plan_over(&[&[Type::Int32]]);
    plan.grouping = grouping(vec![], vec![Agg::CountStar, Agg::Sum(column(0, 0)), Agg::Min(column(0, 0))]);
    assert_eq!(run(&plan, &[]), Ok(vec![vec![int(0), None, None]]));
    plan.filters = vec![literal(Type::Bool, None)];
    assert_eq!(run(&plan, &[vec![int(1)]]), Ok(vec![vec![int(0), None, None]]));
    plan.grouping = grouping(vec![], vec![]);
    assert_eq!(run(&plan, &[vec![int(1)]]), Ok(vec![vec![]]));
    plan.grouping = grouping(vec![column(0, 0)], vec![]);
    assert_eq!(run(&plan, &[]), Ok(vec![]));
}

#[test]
fn without_output_only_the_number_of_rows_counts() {
    let mut plan = plan_over(&[&[Type::Int32]]);
    let table: Vec<Row> = (0..10).map(|i| vec![int(i)]).collect();
    assert_eq!(run(&plan, &table).unwrap().len(), 10);
    plan.filters = vec![cmp(CmpOp::Lt, column(0, 0), integer(Type::Int32, 4))];
    assert_eq!(run(&plan, &table).unwrap(), vec![Row::new(); 4]);
}

#[test]
fn nulls_join_nothing_and_keys_join_across_widths_and_scales() {
    let d5 = Type::Decimal128 { scale: 5 };
    let mut plan = plan_over(&[&[D2], &[d5]]);
    plan.filters = vec![equal(column(0, 0), column(1, 0))];
    plan.output = vec![column(0, 0), column(1, 0)];
    let left: Vec<Row> = vec![vec![int(150)], vec![None], vec![int(i64::MAX)]];
    let right: Vec<Row> =
        vec![vec![decimal(150_000)], vec![None], vec![decimal(i64::MAX as i128 * 1000)], vec![decimal(150_001)]];
    let views = [TestView::of_rows(&[D2], &left), TestView::of_rows(&[d5], &right)];
    let mut told = tokio_runtime().block_on(rows(&engine(2), &plan, &[], &views)).unwrap();
    told.sort_by_key(|row| format!("{row:?}"));
    assert_eq!(told, vec![vec![int(150), decimal(150_000)], vec![int(i64::MAX), decimal(i64::MAX as i128 * 1000)]]);
}

#[test]
fn parameters_are_constants() {
    let mut plan = plan_over(&[&[Type::Int32]]);
    plan.params = vec![Type::Int32, Type::Text];
    plan.filters = vec![cmp(CmpOp::Lt, column(0, 0), Expr::Param { index: 0 })];
    plan.output = vec![Expr::Param { index: 1 }];
    let views = [TestView::of_rows(&[Type::Int32], &[vec![int(1)], vec![int(2)]])];
    let told = |params: &[Value]| tokio_runtime().block_on(rows(&engine(1), &plan, params, &views));
    assert_eq!(told(&[int(2), text("x")]).unwrap(), vec![vec![text("x")]]);
    assert_eq!(told(&[None, text("x")]).unwrap(), Vec::<Row>::new());
    assert_eq!(told(&[int(2)]).unwrap_err().kind, Internal);
    assert_eq!(told(&[text("2"), text("x")]).unwrap_err().kind, Internal);
}

#[test]
fn plans_that_are_not_well_formed_are_refused() {
    let types = [Type::Int32, D2, Type::Bool, Type::Text];
    let refused_plan = |plan: &Plan| {
        let views = [TestView::of_rows(&types, &[])];
        let failure = tokio_runtime().block_on(rows(&engine(1), plan, &[], &views)).unwrap_err();
        assert_eq!(failure.kind, Internal, "{plan:?}");
    };
    let refused = |change: &dyn Fn(&mut Level)| {
        let mut level = plan_over(&[&types]);
        change(&mut level);
        refused_plan(&level.plan());
    };
    let outputs = [
        column(0, 9),
        column(5, 0),
        Expr::Param { index: 0 },
        equal(column(0, 0), column(0, 1)),
        arith(ArithOp::Add, Type::Int64, column(0, 0), column(0, 0)),
        arith(ArithOp::Div, W2, column(0, 1), column(0, 1)),
        arith(ArithOp::Add, Type::Text, column(0, 3), column(0, 3)),
        cast(Type::Int16, column(0, 0)),
        cast(Type::Decimal64 { scale: 1 }, column(0, 1)),
        literal(Type::Int16, int(40_000)),
        literal(Type::Text, int(1)),
        Expr::Neg(column(0, 3).into()),
        Expr::Not(column(0, 0).into()),
        and(vec![column(0, 0)]),
    ];
    for output in outputs {
        refused(&|plan| plan.output = vec![output.clone()]);
    }
    refused(&|plan| plan.filters = vec![column(0, 0)]);
    refused(&|plan| plan.grouping = grouping(vec![], vec![Agg::Sum(column(0, 3))]));
    refused(&|plan| plan.grouping = grouping(vec![], vec![Agg::Max(column(0, 2))]));
    refused(&|plan| plan.grouping = grouping(vec![column(0, 9)], vec![]));

    let changed = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan_over(&[&types]).plan().into_owned();
        change(&mut plan);
        refused_plan(&plan);
    };
    changed(&|plan| plan.relations.clear());
    changed(&|plan| plan.relations[0].columns[0] = Type::Int64);
    changed(&|plan| plan.columns.clear());
    let key = |id| Computed { column: id, expr: column(0, 0) };
    let grouped = |plan: &Plan, keys| Rel::Aggregate { input: plan.root.clone().into(), keys, aggregates: vec![] };
    changed(&|plan| {
        plan.columns.push(Type::Int32);
        plan.root = grouped(plan, vec![key(ColumnId(16))]);
        plan.output = vec![column(0, 0)];
    });
    changed(&|plan| plan.root = grouped(plan, vec![key(id(0, 0))]));
    changed(&|plan| plan.root = plan.root.clone().map(vec![key(id(0, 3))]));
    changed(&|plan| plan.root = plan.root.clone().join(JoinKind::Inner, plan.root.clone(), vec![]));
    let nested = |rel: Rel, _| Rel::Filter { input: rel.into(), conditions: vec![column(0, 2)] };
    changed(&|plan| plan.root = (0..200).fold(plan.root.clone(), nested));
}

#[test]
fn joins_that_are_not_inner() {
    use JoinKind::*;
    // The tables a (id, x) and b (id, y). The row of a with id 2 has two partners in b. Rows with a null id have none.
    let (left, right) = (
        [[Some(1), Some(10)], [Some(2), Some(20)], [None, Some(30)]],
        [[Some(2), Some(200)], [Some(2), Some(300)], [Some(4), None], [None, Some(500)]],
    );
    let table =
        |rows: &[[Option<i64>; 2]]| -> Vec<Row> { rows.iter().map(|r| r.map(|v| v.and_then(int)).to_vec()).collect() };
    let joined = |kind: JoinKind, condition: &[Expr]| {
        let mut plan = plan_over(&[&[Type::Int64; 2], &[Type::Int64; 2]]).plan().into_owned();
        let Rel::Join { left: l, right: r, .. } = plan.root else { panic!("{plan:?}") };
        plan.root = l.join(kind, *r, condition.to_vec());
        plan.output = plan.root.columns().into_iter().map(Expr::column).collect();
        let views = [&left[..], &right].map(|rows| TestView::of_rows(&[Type::Int64; 2], &table(rows)));
        let mut told: Vec<String> = tokio_runtime()
            .block_on(rows(&engine(2), &plan, &[], &views))
            .unwrap()
            .iter()
            .map(|row| {
                row.iter()
                    .map(|v| v.as_ref().map_or("-".into(), |v| crate::table::int(v).to_string()))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        told.sort();
        told
    };
    let same = equal(column(0, 0), column(1, 0));
    let pairs = ["2 20 2 200", "2 20 2 300"];
    let alone = ["- 30 - -", "1 10 - -"];
    assert_eq!(joined(Inner, std::slice::from_ref(&same)), pairs);
    assert_eq!(joined(Left, std::slice::from_ref(&same)), [&alone[..], &pairs].concat());
    assert_eq!(joined(Full, std::slice::from_ref(&same)), [&["- - - 500", "- - 4 -"], &alone[..], &pairs].concat());
    assert_eq!(joined(Semi, std::slice::from_ref(&same)), ["2 20"]);
    assert_eq!(joined(Anti, std::slice::from_ref(&same)), ["- 30", "1 10"]);
    // Whether rows are partners also depends on conditions other than the key. Left rows without a partner are still
    // returned.
    let small = cmp(CmpOp::Lt, column(1, 1), integer(Type::Int64, 250));
    let later = cmp(CmpOp::Gt, column(0, 1), integer(Type::Int64, 25));
    assert_eq!(joined(Left, &[same.clone(), small.clone()]), [&alone[..], &pairs[..1]].concat());
    assert_eq!(joined(Left, &[same.clone(), later.clone()]), ["- 30 - -", "1 10 - -", "2 20 - -"]);
    assert_eq!(joined(Anti, &[same.clone(), later.clone()]), ["- 30", "1 10", "2 20"]);
    // Joins without a key.
    assert_eq!(joined(Semi, &[later.clone(), small.clone()]), ["- 30"]);
    assert_eq!(joined(Anti, &[]), Vec::<String>::new());
    assert_eq!(joined(Left, &[later, small]), ["- 30 2 200", "1 10 - -", "2 20 - -"]);
}

#[test]
fn long_lists_are_no_deep_trees_and_deep_trees_are_refused() {
    let mut plan = plan_over(&[&[Type::Int32]]);
    let any_of = |n: i64| or((0..n).map(|i| equal(column(0, 0), integer(Type::Int32, 2 * i))).collect());
    plan.filters = (0..5000).map(|_| cmp(CmpOp::Ge, column(0, 0), integer(Type::Int32, 0))).collect();
    plan.filters.push(any_of(20_000));
    let table: Vec<Row> = (0..100).map(|i| vec![int(i)]).collect();
    assert_eq!(run(&plan, &table).unwrap().len(), 50);

    let sum_of = |n| (0..n).fold(column(0, 0), |sum, _| arith(ArithOp::Add, Type::Int32, sum, integer(Type::Int32, 1)));
    let of = |n| eval(&[Type::Int32], &[int(7)], sum_of(n));
    assert_eq!(of(90), Ok(int(97)));
    assert_eq!(of(1000), Err(Internal));
}
