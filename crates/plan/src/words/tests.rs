use super::*;
use crate::algebra::listed::Element;
use crate::algebra::rel::{Computed, Range};
use crate::functions::Field;

/// Names for tests: columns are letters, and parameters are numbered, except for one that belongs to the session.
struct Letters;

impl Names for Letters {
    fn column(&self, scan: Scan, at: u16) -> String {
        let number = if scan.number > 0 { scan.number.to_string() } else { String::new() };
        format!("{}{number}.{}", ["t", "u"][scan.relation as usize], char::from(b'a' + at as u8))
    }

    fn parameter(&self, index: u16) -> Option<String> {
        (index != 9).then(|| format!("${}", index + 1))
    }

    fn constant(&self, _: Type, value: &Literal) -> String {
        format!("<{value:?}>")
    }
}

fn column(id: u16) -> Expr {
    Expr::column(ColumnId(id))
}

fn int(value: i64) -> Expr {
    Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(value)) }
}

fn text(value: &str) -> Expr {
    Expr::Literal { ty: Type::Text, value: Some(Literal::Text(value.to_owned())) }
}

fn cmp(op: CmpOp, left: Expr, right: Expr) -> Expr {
    Expr::Cmp { op, left: Box::new(left), right: Box::new(right) }
}

fn call(function: Named, args: Vec<Expr>) -> Expr {
    Expr::Call { function, ty: Type::Text, args }
}

/// The columns of a plan: columns 0 to 3 are scanned from `t`, and column 6 is twice column 0. Columns 4 and 5 are the
/// sum and the count of the distinct values in column 6.
fn columns() -> Vec<(ColumnId, Meaning)> {
    let scan = Rel::Scan { relation: 0, columns: (0..4).map(ColumnId).collect() };
    let twice = Expr::Arith { op: ArithOp::Mul, ty: Type::Int32, left: Box::new(column(0)), right: Box::new(int(2)) };
    let map = scan.map(vec![Computed { column: ColumnId(6), expr: twice }]);
    let average = Aggregation { columns: vec![ColumnId(4), ColumnId(5)], agg: Agg::Avg(column(6)), distinct: true };
    meanings(&Rel::Aggregate { input: Box::new(map), keys: vec![], aggregates: vec![average] })
}

fn says(expr: &Expr) -> String {
    let columns = columns();
    Words::new(&columns, &Letters).expression(expr)
}

#[test]
fn expressions_read_as_sql() {
    for (expr, expected) in [
        (cmp(CmpOp::Ge, column(0), int(-5)), "(t.a >= -5)"),
        (cmp(CmpOp::Eq, column(6), Expr::Param { index: 0 }), "((t.a * 2) = $1)"),
        (cmp(CmpOp::Gt, column(4), column(5)), "(sum(DISTINCT (t.a * 2)) > count(DISTINCT (t.a * 2)))"),
        (cmp(CmpOp::Lt, call(Named::CompareIn, vec![column(1), text("x"), text("de_DE")]), int(0)), "(t.b < 'x')"),
        (call(Named::Like, vec![column(1), text("it's%")]), "(t.b LIKE 'it''s%')"),
        (call(Named::Position, vec![column(1), text("x")]), "strpos(t.b, 'x')"),
        (call(Named::SplitPart, vec![column(1), text(","), int(2)]), "split_part(t.b, ',', 2)"),
        (call(Named::ToInt64, vec![column(1)]), "(t.b)::bigint"),
        (call(Named::Extract(Field::Year), vec![column(2)]), "EXTRACT(year FROM t.c)"),
        (call(Named::DateTrunc(Field::Month), vec![column(2)]), "date_trunc('month', t.c)"),
        (call(Named::ToTimestamp, vec![column(2), Expr::Param { index: 9 }]), "(t.c)::timestamp"),
        (call(Named::ToTimestamp, vec![column(2), Expr::Param { index: 1 }]), "(t.c AT TIME ZONE $2)"),
        (call(Named::MinusInterval, vec![column(2), column(0)]), "(t.c - t.a)"),
        (call(Named::PlusIntervalIn, [2, 3, 4].map(|index| Expr::Param { index }).into_iter().collect()), "($3 + $4)"),
        (call(Named::Span, vec![call(Named::IntervalOfStored, vec![column(0)])]), "t.a"),
        (Expr::Literal { ty: Type::Decimal64 { scale: 3 }, value: Some(Literal::Int(-5)) }, "-0.005"),
        (Expr::Literal { ty: Type::Decimal128 { scale: 0 }, value: Some(Literal::Decimal(70)) }, "70"),
        (Expr::Literal { ty: Type::Date, value: Some(Literal::Int(7)) }, "<Int(7)>"),
        (Expr::Literal { ty: Type::Date, value: None }, "NULL"),
        (Expr::Not(Box::new(Expr::IsNull { arg: Box::new(column(3)), negated: true })), "(NOT (t.d IS NOT NULL))"),
        (
            Expr::Case { branches: vec![(column(0), int(1))], otherwise: Box::new(int(2)) },
            "CASE WHEN t.a THEN 1 ELSE 2 END",
        ),
        (Expr::Coalesce(vec![column(0), int(0)]), "COALESCE(t.a, 0)"),
        (column(77), "..."),
    ] {
        assert_eq!(says(&expr), expected);
    }
}

#[test]
fn conditions_and_orders_are_told() {
    let columns = columns();
    let words = Words::new(&columns, &Letters);
    let conditions = [cmp(CmpOp::Eq, column(0), int(1)), column(1)];
    assert_eq!(words.conditions(&conditions), "((t.a = 1) AND t.b)");
    assert_eq!(words.conditions(&conditions[..1]), "(t.a = 1)");
    let key = |descending, nulls_first| SortKey { descending, nulls_first, ..SortKey::ascending(column(0)) };
    assert_eq!(words.sort_key(&key(false, false)), "t.a");
    assert_eq!(words.sort_key(&key(true, true)), "t.a DESC");
    assert_eq!(words.sort_key(&key(true, false)), "t.a DESC NULLS LAST");
    let lag = WindowFunction::Shifted { value: column(0), by: int(2), back: true, otherwise: Some(int(7)) };
    assert_eq!(words.window_function(&lag), "lag(t.a, 2, 7) OVER (...)");
    assert_eq!(words.window_function(&WindowFunction::Ntile(int(4))), "ntile(4) OVER (...)");
    let locale = Agg::InLocale(crate::algebra::aggregates::Extreme::Min, Box::new([column(1), text("C.utf8")]));
    let min = Aggregation { columns: vec![ColumnId(20)], agg: locale, distinct: false };
    assert_eq!(words.aggregate(&min), "min(t.b)");
    let told = |of, arguments: Vec<Expr>, order, element, distinct| {
        let agg = Agg::Listed(Box::new(Listed::new(of, arguments, order, element)));
        words.aggregate(&Aggregation { columns: vec![ColumnId(20)], agg, distinct })
    };
    let element = Some(Element { oid: 23, align: 4, length: Some(4), padded: 0 });
    let all = Expr::Literal { ty: Type::Bool, value: Some(Literal::Bool(true)) };
    let half = Expr::Literal { ty: Type::Float64, value: Some(Literal::Float(0.5)) };
    let joined =
        told(Listing::Joined, vec![column(1), text(", ")], vec![key(true, false), key(false, false)], None, true);
    assert_eq!(joined, "string_agg(DISTINCT t.b, ', ' ORDER BY t.a DESC NULLS LAST, t.a)");
    assert_eq!(told(Listing::Joined, vec![column(1), text("")], vec![], None, false), "string_agg(t.b, '')");
    assert_eq!(told(Listing::Array, vec![column(0), all], vec![], element, false), "array_agg(t.a)");
    let filtered = told(Listing::Array, vec![column(0), column(3)], vec![key(false, false)], element, false);
    assert_eq!(filtered, "array_agg(t.a ORDER BY t.a) FILTER (WHERE t.d)");
    let median = told(Listing::Continuous, vec![column(0), half], vec![key(false, false)], None, false);
    assert_eq!(median, "percentile_cont(0.5) WITHIN GROUP (ORDER BY t.a)");
    let most = told(Listing::Mode, vec![column(0)], vec![key(true, true)], None, false);
    assert_eq!(most, "mode() WITHIN GROUP (ORDER BY t.a DESC)");
}

#[test]
fn joins_that_join_nulls_say_so() {
    let scan = |first: u16| Rel::Scan { relation: 0, columns: (first..first + 2).map(ColumnId).collect() };
    let columns = meanings(&scan(0).join(JoinKind::Inner, scan(2), vec![]));
    let words = Words::new(&columns, &Letters);
    let plain = (column(1), column(3));
    assert_eq!(words.equalities(std::slice::from_ref(&plain)), "(t.b = t1.b)");
    let or = |id| Expr::Coalesce(vec![column(id), int(0)]);
    let is_null = |id| Expr::IsNull { arg: Box::new(column(id)), negated: false };
    let values = (or(0), or(2));
    assert_eq!(words.equalities(std::slice::from_ref(&values)), "(COALESCE(t.a, 0) = COALESCE(t1.a, 0))");
    let nulls = (is_null(0), is_null(2));
    assert_eq!(words.equalities(&[values.clone(), nulls.clone()]), "(t.a IS NOT DISTINCT FROM t1.a)");
    let all = [nulls, plain, values];
    assert_eq!(words.equalities(&all), "((t.b = t1.b) AND (t.a IS NOT DISTINCT FROM t1.a))");
}

#[test]
fn unions_are_called_as_their_first_part() {
    let values = |exprs| crate::Part { rel: Rel::Row, exprs };
    let scan = Rel::Scan { relation: 0, columns: vec![ColumnId(0)] };
    let first = crate::Part { rel: scan, exprs: vec![column(0), int(1)] };
    let columns = vec![ColumnId(1), ColumnId(2)];
    let columns = meanings(&Rel::Union { columns, inputs: vec![first, values(vec![int(2), int(3)])] });
    let words = Words::new(&columns, &Letters);
    assert_eq!(words.expression(&cmp(CmpOp::Eq, column(1), column(2))), "(t.a = column2)");
}

/// Each column is twice the column before it, so the text of the last column would be extremely long.
#[test]
fn what_is_too_long_is_cut_off() {
    let mut rel = Rel::Scan { relation: 0, columns: vec![ColumnId(0)] };
    for id in 0..60 {
        let twice =
            Expr::Arith { op: ArithOp::Add, ty: Type::Int32, left: Box::new(column(id)), right: Box::new(column(id)) };
        rel = rel.map(vec![Computed { column: ColumnId(id + 1), expr: twice }]);
    }
    let top = Rel::Top { input: Box::new(rel), keys: vec![], order: vec![], range: Box::<Range>::default() };
    let columns = meanings(&top);
    let words = Words::new(&columns, &Letters);
    let said = words.expression(&column(60));
    assert!(said.starts_with("((((") && said.ends_with("...") && said.len() < LONGEST + 10, "{said}");
    let said = words.expression(&text(&"é".repeat(5000)));
    assert!(said.ends_with("é...'") && said.len() < LONGEST, "{said}");
    let long = vec![text(&"é'".repeat(400)); 9];
    assert!(words.expression(&Expr::Coalesce(long)).len() < LONGEST + 10);
}
