//! Results that the mechanisms must reach ("bars"), and the figures of a run to compare with them.

use anker_report::{Report, rounded};
use serde_json::json;

use anker_report::found::Found;
use anker_report::page::Grid;

/// Mechanisms that work on a stock kernel, without fork and physical, with which all others are compared.
const STOCK: [&str; 5] = ["rewired", "scoot", "frames", "epochs", "auto"];

const BARS_COLUMNS: u64 = 50;
const BARS_COLUMN_MB: u64 = 200;

struct Bar {
    name: String,
    bar: f64,
    aim: f64,
    better: Better,
    unit: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

impl Bar {
    fn reaches(&self, value: f64, wanted: f64) -> bool {
        if self.better == Better::More { value >= wanted } else { value <= wanted }
    }

    fn shown(&self, value: f64) -> String {
        if self.unit == "×" { format!("{} ×", rounded(value)) } else { format!("{value:.2}{}", self.unit) }
    }
}

/// A row for each bar, a column for each mechanism, and the best figure of the row.
pub fn grid(report: &Report) -> Grid {
    let mechanisms: Vec<_> =
        STOCK.into_iter().filter(|name| report.rows().iter().any(|row| row.subject.name() == *name)).collect();
    let (columns, mb) = (&report.meta()["columns"], &report.meta()["column_mb"]);
    let sizes = (columns != BARS_COLUMNS || mb != BARS_COLUMN_MB).then(|| {
        format!("The bars are meant for {BARS_COLUMNS} columns of {BARS_COLUMN_MB} MB; this run had {columns} of {mb}.")
    });
    let mut grid = Grid::new(&sizes.unwrap_or_default()).named("bars");
    ["bar", "aim"].into_iter().chain(mechanisms.iter().copied()).chain(["best"]).for_each(|name| grid.column(name));
    for (bar, value) in bars(report) {
        let values: Vec<_> = mechanisms.iter().map(|mechanism| value(mechanism)).collect();
        let order = |a: &f64, b: &f64| if bar.better == Better::More { a.total_cmp(b) } else { b.total_cmp(a) };
        let best = values.iter().flatten().copied().max_by(order);
        let verdict = best.map(|best| match () {
            _ if bar.reaches(best, bar.aim) => "aim met".to_owned(),
            _ if bar.reaches(best, bar.bar) => "bar met".to_owned(),
            _ => "NOT met".to_owned(),
        });
        let mut cells = vec![Some(bar.shown(bar.bar)), Some(bar.shown(bar.aim))];
        cells.extend(values.into_iter().map(|value| value.map(|value| bar.shown(value))));
        cells.push(verdict);
        grid.row(&bar.name, cells);
    }
    let singles = Found::new(report, "writes").figure("single_write_worst");
    let mut cells = vec![None, None];
    cells.extend(mechanisms.iter().map(|name| singles.subject(name).value().map(|us| format!("{} µs", rounded(us)))));
    cells.push(None);
    grid.row("worst single of those writes", cells);
    grid
}

type ValueOf<'a> = Box<dyn Fn(&str) -> Option<f64> + 'a>;

fn bars(report: &Report) -> Vec<(Bar, ValueOf<'_>)> {
    let create = Found::new(report, "table1").figure("create_1_of_n").with("modified_pages", &json!(0));
    let (fork, fork_columns) = (create.subject("fork").value(), create.subject("fork_columns").value());
    let write = Found::new(report, "writes").figure("write_10000");
    let write_forked = write.subject("fork_columns").value();
    let read = Found::new(report, "read").figure("read_rate");
    let read_written = read.with("snapshot", &json!("after_10000_writes"));
    let read = read.with("snapshot", &json!("fresh"));
    let memory = Found::new(report, "memory").figure("memory_10000");
    let cycle = Found::new(report, "cycle").figure("cycle_ratio");
    let distributions = cycle.params("distribution").len();
    let more = |name: &str, bar, aim| Bar { name: name.to_owned(), bar, aim, better: Better::More, unit: "×" };
    let share = |name: &str| Bar { name: name.to_owned(), bar: 0.9, aim: 1.0, better: Better::More, unit: "" };
    let creation = create.clone();
    vec![
        (
            more("one column: faster than whole-process fork", 1000.0, 10_000.0),
            Box::new(move |name| Some(fork? / creation.subject(name).value()?)),
        ),
        (
            more("one column: faster than column-granular fork", 50.0, 500.0),
            Box::new(move |name| Some(fork_columns? / create.subject(name).value()?)),
        ),
        (
            more("snapshot and 10,000 writes: faster than column-granular fork", 2.0, 5.0),
            Box::new(move |name| Some(write_forked? / write.subject(name).value()?)),
        ),
        (share("read rate of a plain array's"), Box::new(move |name| read.subject(name).value())),
        (
            share("the same, 10,000 writes since an older snapshot"),
            Box::new(move |name| read_written.subject(name).value()),
        ),
        (
            Bar {
                name: "memory added by 10,000 writes".to_owned(),
                bar: 170.0,
                aim: 45.0,
                better: Better::Less,
                unit: " MB",
            },
            Box::new(move |name| memory.subject(name).value()),
        ),
        (
            Bar {
                name: format!("cycle, worst of {distributions} distributions: of the better of physical and fork"),
                bar: 1.15,
                aim: 1.0,
                better: Better::Less,
                unit: "",
            },
            Box::new(move |name| cycle.subject(name).values().into_iter().reduce(f64::max)),
        ),
    ]
}
