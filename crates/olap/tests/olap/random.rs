//! Random plans over random tables. The engine's and the interpreter's results must agree.

use std::cell::Cell;

use anker_olap::{JoinOrder, Manner};
use plan::catalogue::{self, Call};
use plan::{Expr, FailureKind, Literal, Plan, Rel, SortKey, Type, WindowFunction};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::floats;
use crate::generator::{Case, case};
use crate::interpreter::Interpreter;
use crate::locales;
use crate::ordered::compare;
use crate::stored::stored;
use crate::table::{Row, TestView, Value, engine, rows_as, spilling_engine, tokio_runtime};

/// The number of cases if `ANKER_CASES` is not set.
const CASES: u64 = 12_000;

/// A guard that prints the number of the present case if the test panics.
struct Current(u64);

impl Drop for Current {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("ANKER_SEED={}", self.0);
        }
    }
}

/// Runs many random cases. `ANKER_SEED` runs only the case with that number; if `ANKER_CASES` is set, too, it is the
/// first of that many cases.
#[test]
fn random_plans_agree_with_the_interpreter() {
    if locales::tested_with_all("random::random_plans_agree_with_the_interpreter") {
        return;
    }
    let given = |name: &str| std::env::var(name).ok().map(|s| s.parse::<u64>().unwrap());
    let first = given("ANKER_SEED").unwrap_or_else(rand::random::<u64>);
    let count = given("ANKER_CASES").unwrap_or(if given("ANKER_SEED").is_some() { 1 } else { CASES });
    let is_single = count == 1;
    println!("seeds from {first}");
    let runtime = tokio_runtime();
    let engines = [engine(1), engine(3), spilling_engine(1), engine(2), spilling_engine(3)];
    let (mut answers, mut errors, mut unsure) = (0, 0, 0);
    let (mut answered_rows, mut sorted_rows, mut summed_floats) = (0, 0, 0);
    for seed in (0..count).map(|i| first.wrapping_add(i)) {
        let _current = Current(seed);
        let Case { plan, params, tables, views } = case(&mut StdRng::seed_from_u64(seed));
        let largest_float = Cell::new(0.0);
        let interpreter = Interpreter { plan: &plan, params: &params, tables: &tables, largest_float };
        let expected = interpreter.run();
        // Some of the engines with several threads join in a random order.
        let random = JoinOrder::Random(seed);
        let orders = [JoinOrder::Cheapest, random, JoinOrder::Cheapest, JoinOrder::Cheapest, random];
        // The tables are split into small chunks. So an operator that already has rows in memory may have to put later
        // rows on disk.
        let relations = plan.relations.iter().zip(&tables);
        let in_pieces = relations.map(|(relation, rows)| TestView::of_pieces(&relation.columns, rows, 3)).collect();
        let mut rng = StdRng::seed_from_u64(seed);
        let relations = plan.relations.iter().zip(&tables);
        let in_store = relations.map(|(relation, rows)| stored(&mut rng, &relation.columns, rows, 0.1)).collect();
        let views = [&views, &views, &in_pieces, &in_store, &in_pieces];
        for ((engine, order), views) in engines.iter().zip(orders).zip(views) {
            let manner = Manner { order, ..Manner::default() };
            let told = runtime.block_on(rows_as(engine, &plan, &params, views, manner));
            let context = || format!("ANKER_SEED={seed}\n{plan:#?}\n{params:?}\n{tables:?}");
            match (&told, &expected) {
                (Ok(told), Ok(expected)) => {
                    assert_alike(told, expected, &interpreter, context);
                    sorted_rows += assert_in_order(told, &plan, context);
                    summed_floats += usize::from(floats::are_summed(&plan));
                    answers += 1;
                    answered_rows += told.len();
                }
                (Ok(_), Err(_)) if interpreter.errors_may_vanish() => unsure += 1,
                (Ok(told), Err(_)) => panic!("no error but {told:?}\n{}", context()),
                (Err(failure), _) => {
                    assert!(interpreter.may_raise(), "{failure:?} out of nothing\n{}", context());
                    assert!(raises(&plan).contains(&failure.kind), "{failure:?}\n{}", context());
                    errors += 1;
                }
            }
        }
    }
    assert!(is_single || engines[2].spilled_bytes() > 0);
    println!(
        "{answers} answers with {answered_rows} rows, {sorted_rows} of them sorted, {errors} errors, {unsure} unsure, \
         {summed_floats} with sums of floats"
    );
    assert!(is_single || (answers > errors && answered_rows > answers && unsure < errors / 10));
    assert!(is_single || (summed_floats > answers / 50 && sorted_rows > answers / 50));
}

/// Checks that the engine's rows equal the interpreter's, as far as the plan determines the result.
pub fn assert_alike(told: &[Row], expected: &[Row], interpreter: &Interpreter, context: impl Fn() -> String) {
    let plan = interpreter.plan;
    let grouped = operators(plan).iter().any(|rel| {
        matches!(rel, Rel::Aggregate { .. } | Rel::Top { .. } | Rel::Window { .. } | Rel::GroupingSets { .. })
    });
    if floats::are_summed(plan) {
        let largest = interpreter.largest_float.get();
        assert!(floats::alike(told, expected, largest), "{told:?}\n{expected:?}\n{}", context());
    } else {
        assert_eq!(multiset(told, grouped), multiset(expected, grouped), "{}", context());
    }
}

/// Checks that the rows of a sorting plan are in order, as far as the sort keys are in the output. Returns the number
/// of rows that were compared.
fn assert_in_order(told: &[Row], plan: &Plan, context: impl Fn() -> String) -> usize {
    let Some((order, _)) = plan.order() else { return 0 };
    let shown = |key: &SortKey| plan.output.iter().position(|output| *output == key.expr);
    let places: Vec<usize> = order.iter().map_while(shown).collect();
    let by = &order[..places.len()];
    let values = |row: &Row| places.iter().map(|at| row[*at].clone()).collect::<Row>();
    for pair in told.windows(2) {
        assert!(compare(by, &values(&pair[0]), &values(&pair[1])).is_le(), "{pair:?}\n{}", context());
    }
    if by.is_empty() { 0 } else { told.len() }
}

/// The errors that, according to the catalogue, the plan's functions and aggregates can raise.
fn raises(plan: &Plan) -> Vec<FailureKind> {
    let mut kinds = Vec::new();
    let operators = operators(plan);
    for rel in &operators {
        rel.aggregates().iter().for_each(|aggregation| kinds.extend(aggregation.agg.aggregate().row().raises));
        if let Rel::Window { calls, .. } = rel {
            for call in calls {
                match &call.function {
                    WindowFunction::Aggregate(agg) => kinds.extend(agg.aggregate().row().raises),
                    WindowFunction::SumOfReals(_) => kinds.push(FailureKind::FloatOverflow),
                    _ => {}
                }
            }
        }
        if let Rel::Top { .. } = rel {
            kinds.extend([FailureKind::NegativeLimit, FailureKind::NegativeOffset]);
        }
    }
    for expr in operators.iter().flat_map(|rel| rel.expressions()).chain(&plan.output) {
        expr.visit(&mut |e| {
            let row = match e {
                Expr::Arith { op, left, right, .. } => {
                    catalogue::function(Call::Arith(*op), &[plan.type_of(left), plan.type_of(right)])
                }
                Expr::Neg(arg) => catalogue::function(Call::Neg, &[plan.type_of(arg)]),
                Expr::Cast { to, arg } => catalogue::cast(plan.type_of(arg), *to),
                Expr::Call { function, args, .. } => {
                    let types: Vec<Type> = args.iter().map(|arg| plan.type_of(arg)).collect();
                    catalogue::function(Call::Named(*function), &types)
                }
                _ => None,
            };
            kinds.extend(row.map_or(&[][..], |row| row.raises));
        });
    }
    kinds
}

fn operators(plan: &Plan) -> Vec<&Rel> {
    let mut all = Vec::new();
    plan.root.visit(&mut |rel| all.push(rel));
    all
}

/// The rows as texts, sorted. For groups, 0 and -0 get the same text, because a group may show either.
fn multiset(rows: &[Row], grouped: bool) -> Vec<String> {
    let show = |value: &Value| match value {
        Some(Literal::Float(f)) if f.is_nan() => "NaN".into(),
        Some(Literal::Float(f)) if grouped => format!("{:?}", f + 0.0),
        other => format!("{other:?}"),
    };
    let mut all: Vec<String> = rows.iter().map(|r| r.iter().map(show).collect::<Vec<_>>().join("|")).collect();
    all.sort();
    all
}
