//! Tests of the programs over columns with which a forked child computes a query. They run in this process; other tests
//! run them in real child processes.

use std::sync::Arc;

use anker_olap::{Forking, Rest};
use colstore::{CHUNK_ROWS, Errand, TableView};
use plan::catalogue::Kind;
use plan::{Agg, ArithOp, CmpOp, Expr, FailureKind, Literal, Plan, Type};
use protocol::request::Failure;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::build::{and, arith, cast, cmp, column, decimal, int, integer, or};
use crate::generator::{Case, case};
use crate::interpreter::Interpreter;
use crate::level::{AsPlan, Level};
use crate::random::assert_alike;
use crate::table::{Row, TestView, Value, engine, grouping, plan_over, rows, tokio_runtime};

const DECIMAL: Type = Type::Decimal64 { scale: 2 };

/// Runs a plan as a child would; `None` if a child cannot run the plan.
fn run(plan: &Plan, params: &[Value], view: &Arc<dyn TableView>) -> Option<Result<Vec<Row>, Failure>> {
    let forking = Forking::of(plan, params).ok()?;
    let mut work = forking.work();
    if let Err(refusal) = work.read(&**view) {
        panic!("{refusal:?}");
    }
    let mut reply = vec![0xaa; forking.reply_bytes()];
    let said = work.run(&mut reply);
    let finish = |Rest { plan, groups, .. }: Rest| {
        let views = anker_olap::views(&plan, vec![], vec![groups])?;
        tokio_runtime().block_on(rows(&engine(1), &plan, params, &views))
    };
    Some(forking.rest(&reply[..said]).and_then(finish))
}

fn has_decimals(plan: &Plan) -> bool {
    let mut found = false;
    let mut look = |expr: &Expr| expr.visit(&mut |e| found |= plan.type_of(e).kind() == Kind::Decimal);
    plan.root.visit(&mut |rel| rel.expressions().into_iter().for_each(&mut look));
    plan.output.iter().for_each(look);
    found
}

fn sorted(rows: &[Row]) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

#[test]
fn random_plans_agree_with_the_interpreter() {
    let single = std::env::var("ANKER_SEED").ok().map(|s| s.parse().unwrap());
    let first = single.unwrap_or_else(rand::random::<u64>);
    println!("seeds from {first}");
    let (mut answers, mut given_up) = (0, 0);
    for seed in (0..if single.is_some() { 1 } else { 30_000 }).map(|i| first.wrapping_add(i)) {
        let Case { plan, params, tables, .. } = case(&mut StdRng::seed_from_u64(seed));
        if Forking::of(&plan, &params).is_err() {
            continue;
        }
        let view = TestView::of_pieces(&plan.relations[0].columns, &tables[0], 3);
        let told = run(&plan, &params, &view).unwrap();
        let interpreter = Interpreter { plan: &plan, params: &params, tables: &tables, largest_float: 0.0.into() };
        let context = || format!("ANKER_SEED={seed}\n{plan:#?}\n{params:?}\n{tables:?}");
        match (told, interpreter.run()) {
            (Ok(told), Ok(expected)) => {
                assert_alike(&told, &expected, &interpreter, context);
                answers += 1;
            }
            (Ok(told), Err(_)) => assert!(interpreter.errors_may_vanish(), "no error but {told:?}\n{}", context()),
            // A child may fail where the interpreter does not; then the query runs on the heap. The reason is that a
            // child computes values before it knows whether they are needed, and some of them exceed a decimal of 38
            // digits.
            (Err(failure), expected) => {
                assert_ne!(failure.kind, FailureKind::Internal, "{failure:?}\n{}", context());
                let alone = failure.message.contains("of more than") || has_decimals(&plan);
                assert!(alone || interpreter.may_raise(), "{failure:?}, not {expected:?}\n{}", context());
                given_up += 1;
            }
        }
    }
    println!("{answers} answers, {given_up} given up");
    assert!(single.is_some() || answers > 300);
}

/// Groups by a decimal, a date, a text and a boolean. The condition contains every kind of step of a program, and is
/// true for all rows.
#[test]
fn groups_of_every_kind_over_several_chunks() {
    let types = [Type::Int32, DECIMAL, Type::Date, Type::Char, Type::Bool, Type::Decimal128 { scale: 4 }, Type::Int64];
    let null_or = |null: bool, value: Literal| if null { None } else { Some(value) };
    let row = |i: i64| -> Row {
        vec![
            null_or(i % 11 == 0, Literal::Int(i % 7 - 3)),
            null_or(i % 13 == 0, Literal::Int(i % 5 * 100)),
            null_or(false, Literal::Int([i32::MIN as i64, 0, i32::MAX as i64][i as usize % 3])),
            null_or(i % 17 == 0, Literal::Text(["", "ab", "äöü"][i as usize % 3].into())),
            null_or(i % 19 == 0, Literal::Bool(i % 2 == 0)),
            null_or(i % 23 == 0, Literal::Decimal(i128::from(i) * 10_i128.pow(20) - 7)),
            null_or(i % 29 == 0, Literal::Int(i * i)),
        ]
    };
    let table: Vec<Row> = (0..2 * CHUNK_ROWS as i64 + 5).map(row).collect();
    let not = |e: Expr| Expr::Not(Box::new(e));
    let mut plan = plan_over(&[&types]);
    let wide = cast(Type::Decimal128 { scale: 4 }, column(0, 1));
    let sum = arith(ArithOp::Add, Type::Decimal128 { scale: 4 }, wide, column(0, 5));
    let known = not(Expr::IsNull { arg: column(0, 3).into(), negated: false });
    plan.filters = vec![or(vec![
        cmp(CmpOp::Ge, column(0, 0), integer(Type::Int32, 1)),
        and(vec![known, cmp(CmpOp::Ne, column(0, 3), text("ab")), column(0, 4)]),
    ])];
    plan.grouping = grouping(
        vec![column(0, 1), column(0, 2), column(0, 3), column(0, 4)],
        vec![
            Agg::CountStar,
            Agg::Count(column(0, 0)),
            Agg::Sum(column(0, 0)),
            Agg::Avg(sum.clone()),
            Agg::Min(sum),
            Agg::Max(column(0, 6)),
            Agg::Min(column(0, 2)),
        ],
    );
    check(&plan, &types, &table, 60);
    // All rows form one group.
    plan.grouping = grouping(vec![], vec![Agg::CountStar, Agg::Avg(column(0, 0)), Agg::Max(column(0, 5))]);
    check(&plan, &types, &table, 1);
    // Without rows, there is still one group.
    plan.filters = vec![cmp(CmpOp::Gt, column(0, 0), integer(Type::Int32, 100))];
    check(&plan, &types, &table, 1);
    check(&plan, &types, &[], 1);
}

fn text(text: &str) -> Expr {
    Expr::Literal { ty: Type::Char, value: Some(Literal::Text(text.into())) }
}

fn check(level: &Level, types: &[Type], table: &[Row], groups: usize) {
    let plan = level.plan();
    let view = TestView::of_pieces(types, table, CHUNK_ROWS);
    let told = run(&plan, &[], &view).expect("a child can do it").unwrap();
    let tables = [table.to_vec()];
    let interpreter = Interpreter { plan: &plan, params: &[], tables: &tables, largest_float: 0.0.into() };
    assert_eq!(sorted(&told), sorted(&interpreter.run().unwrap()));
    assert!(told.len() >= groups, "{} groups", told.len());
}

#[test]
fn what_a_child_cannot_answer_is_given_up() {
    let answer = |level: &Level, table: &[Row]| {
        let view = TestView::of_pieces(&level.tables[0], table, CHUNK_ROWS);
        run(&level.plan(), &[], &view).expect("a child can begin it")
    };
    let kind = |level: &Level, table: &[Row]| answer(level, table).unwrap_err().kind;
    // The table that a child uses for groups has no room for so many.
    let mut plan = plan_over(&[&[Type::Int64]]);
    plan.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    let many: Vec<Row> = (0..70_000).map(|i| vec![int(i)]).collect();
    assert_eq!(kind(&plan, &many), FailureKind::Forked);
    assert_eq!(answer(&plan, &many[..60_000]).unwrap().len(), 60_000);
    // Sums that do not fit a bigint, and sums that do not fit a decimal.
    plan.grouping = grouping(vec![], vec![Agg::Sum(column(0, 0))]);
    let mut wide = plan_over(&[&[Type::Decimal128 { scale: 0 }]]);
    wide.grouping = plan.grouping.clone();
    let most = 10_i128.pow(38) - 1;
    assert_eq!(kind(&wide, &[vec![decimal(most)], vec![decimal(1)]]), FailureKind::DecimalTooWide);
    assert_eq!(kind(&wide, &[vec![decimal(most)], vec![decimal(most)], vec![decimal(most)]]), FailureKind::Forked);
    assert_eq!(answer(&wide, &[vec![decimal(most)], vec![decimal(-1)]]).unwrap(), [[decimal(most - 1)]]);
    // Computing a row's value raises an error: first for a row that passes the condition, and then for a row that does
    // not.
    let mut sums = plan_over(&[&[Type::Int32]]);
    let more = arith(ArithOp::Add, Type::Int32, column(0, 0), integer(Type::Int32, 1));
    sums.grouping = grouping(vec![], vec![Agg::Max(more)]);
    let table = [vec![int(i32::MAX.into())], vec![int(1)]];
    assert_eq!(kind(&sums, &table), FailureKind::Forked);
    sums.filters = vec![cmp(CmpOp::Lt, column(0, 0), integer(Type::Int32, 5))];
    assert_eq!(answer(&sums, &table).unwrap(), [[int(2)]]);
    // A group's key is a text that is too long for a child.
    let mut texts = plan_over(&[&[Type::Char]]);
    texts.grouping = grouping(vec![column(0, 0)], vec![Agg::CountStar]);
    let table = |text: &str| vec![vec![Some(Literal::Text(text.into()))]];
    assert_eq!(kind(&texts, &table("0123456789abcdef")), FailureKind::Forked);
    assert_eq!(answer(&texts, &table("0123456789abcde")).unwrap().len(), 1);
    // A child cannot return such a long text, but it can tell that the text differs from a shorter one.
    texts.grouping = grouping(vec![], vec![Agg::CountStar]);
    texts.filters = vec![cmp(CmpOp::Ne, column(0, 0), text("0123456789abcde"))];
    assert_eq!(answer(&texts, &table("0123456789abcdef")).unwrap(), [[int(1)]]);
}

#[test]
fn what_no_child_can_begin_has_a_reason() {
    let why = |level: &Level| Forking::of(&level.plan(), &[]).err().expect("a child could");
    let mut plan = plan_over(&[&[Type::Int64]]);
    plan.output = vec![column(0, 0)];
    assert_eq!(why(&plan), "its rows are not grouped");
    let mut joined = plan_over(&[&[Type::Int64], &[Type::Int64]]);
    joined.filters = vec![cmp(CmpOp::Eq, column(0, 0), column(1, 0))];
    joined.grouping = grouping(vec![], vec![Agg::CountStar]);
    assert_eq!(why(&joined), "it reads several tables");
    let mut floats = plan_over(&[&[Type::Float64]]);
    floats.grouping = grouping(vec![], vec![Agg::Count(column(0, 0))]);
    assert!(why(&floats).starts_with("a column that is neither"));
    let mut texts = plan_over(&[&[Type::Text, Type::Text]]);
    texts.filters = vec![cmp(CmpOp::Eq, column(0, 0), column(0, 1))];
    texts.grouping = grouping(vec![], vec![Agg::CountStar]);
    assert!(why(&texts).starts_with("a comparison of texts"));
    texts.filters = vec![];
    texts.grouping = grouping(vec![], vec![Agg::Min(column(0, 0))]);
    assert!(why(&texts).starts_with("an aggregate"));
}
