//! Tests with locales whose order differs from the order of bytes. The locales are compiled if the machine can do that;
//! otherwise, the tests use those that exist.

use std::path::Path;
use std::process::Command;

use locale::Locale;
use plan::catalogue::Extreme;
use plan::{
    Agg, Bound, ColumnId, Exclude, Expr, Frame, Literal, Over, Plan, Range, Rel, SortKey, Type, Unit, WindowCall,
    WindowFunction,
};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::interpreter::Interpreter;
use crate::level::relation;
use crate::table::{Row, TestView, Value, engine, rows, tokio_runtime};

/// Locales with unusual orders, and one that exists on every machine.
const NAMES: [&str; 3] = ["cs_CZ.utf8", "sv_SE.utf8", "C.utf8"];

/// The locales that this process can use.
pub fn known() -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| Locale::named(name).is_some()).collect()
}

/// Runs a test again, in a new process in which all locales exist. Returns whether it did. In that new process, or if a
/// locale cannot be compiled, returns false.
pub fn tested_with_all(test: &str) -> bool {
    const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/locales");
    if std::env::var_os("LOCPATH").is_some() || NAMES.iter().any(|name| compile(name, Path::new(FOLDER)).is_none()) {
        return false;
    }
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("LOCPATH", FOLDER)
        .status();
    assert!(again.unwrap().success());
    true
}

/// Compiles a locale from its source, which comes with the C library.
fn compile(name: &str, folder: &Path) -> Option<()> {
    std::fs::create_dir_all(folder).ok()?;
    let (source, _) = name.split_once('.')?;
    let (made, compiled) = (folder.join(format!("{}-{name}", std::process::id())), folder.join(name));
    if !compiled.exists() {
        Command::new("localedef").args(["-c", "-i", source, "-f", "UTF-8"]).arg(&made).output().ok()?;
        // If another test has compiled the locale in the meantime, renaming fails. That does no harm.
        let _ = std::fs::rename(&made, &compiled);
    }
    compiled.exists().then_some(())
}

const LETTERS: &str = "aAbBcChHiIzZäÄåéñßøıčČŁαΣςжאあ中0179 -_.,'@#$%()+/:~\u{301}\u{200b}ﬀ😀";

fn word(rng: &mut StdRng) -> Value {
    let letters: Vec<char> = LETTERS.chars().collect();
    let length = if rng.random_bool(0.1) { 40 } else { rng.random_range(0..4) };
    let word: String = (0..length).filter_map(|_| letters.choose(rng)).collect();
    (!rng.random_bool(0.1)).then_some(Literal::Text(word))
}

/// A plan with a window that is ordered by a text, an integer, and another text. `first` and `second` are the locales
/// in which the texts are ordered.
fn numbered(first: Option<&str>, second: Option<&str>, directions: [bool; 4]) -> Plan {
    let types = [Type::Text, Type::Int32, Type::Char];
    let own = |from: u16, count: u16| (from..from + count).map(ColumnId).collect::<Vec<_>>();
    let key = |at: u16, locale: Option<&str>, descending, nulls_first| {
        let expr = Expr::column(ColumnId(at));
        SortKey { expr, locale: locale.map(str::to_owned), descending, nulls_first }
    };
    let [a, b, c, d] = directions;
    let order = vec![key(0, first, a, b), key(1, None, d, c), key(2, second, c, d)];
    let name = Expr::Literal { ty: Type::Text, value: Some(Literal::Text(first.unwrap_or("C.utf8").to_owned())) };
    let least = Agg::InLocale(Extreme::Min, Box::new([Expr::column(ColumnId(0)), name]));
    let frame =
        Frame { unit: Unit::Groups, start: Bound::Preceding(2), end: Bound::Following(1), exclude: Exclude::Current };
    let call = |at, function| WindowCall { columns: vec![ColumnId(at)], function, frame, reach: None };
    let calls = vec![call(3, WindowFunction::Rank), call(4, WindowFunction::Aggregate(least))];
    let over = Over { partition: vec![], order: order.clone(), ties: vec![] };
    let scan = Rel::Scan { relation: 0, columns: own(0, 3) };
    let window = Rel::Window { input: Box::new(scan), over: Box::new(over), calls };
    let few = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(300)) };
    let range = Range { offset: None, count: Some(few), ties: true };
    Plan {
        relations: vec![relation(0, &types)],
        columns: [&types[..], &[Type::Int64, Type::Text]].concat(),
        params: vec![],
        root: Rel::Top { input: Box::new(window), keys: vec![], order, range: Box::new(range) },
        output: own(0, 5).into_iter().map(Expr::column).collect(),
    }
}

#[test]
fn rows_are_put_in_the_order_of_locales() {
    if tested_with_all("locales::rows_are_put_in_the_order_of_locales") {
        return;
    }
    let mut rng = StdRng::seed_from_u64(1);
    let number = |rng: &mut StdRng| rng.random_bool(0.8).then(|| Literal::Int(rng.random_range(-1..2)));
    let table: Vec<Row> = (0..400).map(|_| vec![word(&mut rng), number(&mut rng), word(&mut rng)]).collect();
    let locales: Vec<Option<&str>> = known().into_iter().map(Some).chain([None]).collect();
    let runtime = tokio_runtime();
    for case in 0..60 {
        let directions = std::array::from_fn(|_| rng.random());
        let plan = numbered(locales[case % locales.len()], *locales.choose(&mut rng).unwrap(), directions);
        plan.check().unwrap();
        let views = [TestView::of_rows(&plan.relations[0].columns, &table)];
        let tables = std::slice::from_ref(&table);
        let interpreter = Interpreter { plan: &plan, params: &[], tables, largest_float: Default::default() };
        let mut told = runtime.block_on(rows(&engine(1 + case as u32 % 3), &plan, &[], &views)).unwrap();
        let mut expected = interpreter.run().unwrap();
        let text = |row: &Row| format!("{row:?}");
        told.sort_by_key(text);
        expected.sort_by_key(text);
        assert_eq!(told, expected, "{plan:#?}");
    }
}

#[test]
fn a_locale_is_for_texts_and_must_be_known() {
    let of = |locale| numbered(Some(locale), None, [false; 4]);
    let mut plan = of("C.utf8");
    let Rel::Top { order, .. } = &mut plan.root else { unreachable!() };
    order[1].locale = order[0].locale.clone();
    assert!(plan.check().unwrap_err().contains("a locale for Int32"));
    let plan = of("xx_XX.utf8");
    let views = [TestView::of_rows(&plan.relations[0].columns, &[])];
    let failure = tokio_runtime().block_on(rows(&engine(1), &plan, &[], &views)).unwrap_err();
    assert!(failure.message.contains("there is no locale \"xx_XX.utf8\""), "{failure:?}");
}
