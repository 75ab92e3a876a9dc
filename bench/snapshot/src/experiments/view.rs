//! Looking through a report's rows, and the pictures that several sections have.

use std::collections::BTreeSet;

use anker_report::{Report, Row, rounded};
use serde_json::Value;

use crate::page::{Grid, Plot, Scale, Series, order};
use crate::session::Session;

/// Some of a report's rows.
#[derive(Clone)]
pub struct Found<'a> {
    rows: Vec<&'a Row>,
}

impl<'a> Found<'a> {
    pub fn new(report: &'a Report, experiment: &str) -> Found<'a> {
        Found { rows: report.rows().iter().filter(|row| row.experiment == experiment).collect() }
    }

    fn only(&self, wanted: impl Fn(&Row) -> bool) -> Found<'a> {
        Found { rows: self.rows.iter().copied().filter(|row| wanted(row)).collect() }
    }

    pub fn figure(&self, figure: &str) -> Found<'a> {
        self.only(|row| row.figure == figure)
    }

    pub fn mechanism(&self, mechanism: &str) -> Found<'a> {
        self.only(|row| row.subject.name() == mechanism)
    }

    pub fn with(&self, param: &str, value: &Value) -> Found<'a> {
        self.only(|row| &row.params[param] == value)
    }

    /// A parameter's values, in the order in which they were measured.
    pub fn params(&self, param: &str) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        let values = self.rows.iter().map(|row| &row.params[param]);
        values.filter(|value| !value.is_null() && seen.insert(value.to_string())).cloned().collect()
    }

    /// In the order in which they are shown everywhere.
    pub fn mechanisms(&self) -> Vec<String> {
        let names: BTreeSet<_> = self.rows.iter().map(|row| row.subject.name()).collect();
        let mut names: Vec<_> = names.into_iter().map(str::to_owned).collect();
        names.sort_by_key(|name| order(name));
        names
    }

    pub fn row(&self) -> Option<&'a Row> {
        self.rows.first().copied()
    }

    pub fn value(&self) -> Option<f64> {
        self.row()?.number()
    }

    pub fn values(&self) -> Vec<f64> {
        self.rows.iter().filter_map(|row| row.number()).collect()
    }

    /// Values over a parameter.
    pub fn points(&self, param: &str) -> Vec<(f64, f64)> {
        self.rows.iter().filter_map(|row| Some((row.params[param].as_f64()?, row.number()?))).collect()
    }

    /// Mechanisms down, figures across.
    pub fn by_figure(&self, title: &str, figures: &[(&str, &str)]) -> Grid {
        let mut grid = Grid::new(title);
        figures.iter().for_each(|(_, heading)| grid.column(heading));
        for mechanism in self.mechanisms() {
            let of = self.mechanism(&mechanism);
            grid.row(&mechanism, figures.iter().map(|(figure, _)| of.figure(figure).value().map(rounded)).collect());
        }
        grid
    }

    /// Each mechanism's value, in a line.
    pub fn spoken(&self, unit: &str) -> String {
        let value = |mechanism: String| Some(format!("{mechanism} {}", rounded(self.mechanism(&mechanism).value()?)));
        let values: Vec<_> = self.mechanisms().into_iter().filter_map(value).collect();
        format!("{} {unit}", values.join(", "))
    }

    /// A bar for each mechanism, on a logarithmic scale.
    pub fn bars(&self, title: &str) -> Plot {
        let value = |mechanism: String| Some((mechanism.clone(), self.mechanism(&mechanism).value()?));
        Plot::bars(title, self.mechanisms().into_iter().filter_map(value).collect())
    }

    /// A line for each mechanism, over a parameter.
    pub fn lines(&self, title: &str, (param, label): (&str, &str), x: Scale, y: Scale) -> Plot {
        let mut plot = Plot::lines(title, label, x, y);
        for mechanism in self.mechanisms() {
            plot.add(Series::new(&mechanism, self.mechanism(&mechanism).points(param)));
        }
        plot
    }
}

/// "1 thread", "2 threads".
pub fn counted(number: &Value, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What all rows about columns have in common.
pub fn column_params(session: &Session) -> Value {
    serde_json::json!({
        "columns": session.options.columns,
        "column_mb": session.options.column_bytes() >> 20,
        "run_kb": session.options.run_kb,
    })
}
