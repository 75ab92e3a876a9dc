//! Selects rows of a report by figure, subject or parameter, and makes tables and plots from these rows.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::page::{Grid, Heat, Plot, Scale, Series, order};
use crate::{Report, Row, median, percentile, rounded};

/// A selection of a report's rows.
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

    pub fn subject(&self, name: &str) -> Found<'a> {
        self.only(|row| row.subject.name() == name)
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

    /// The names of the rows' subjects: mechanisms in their fixed order, all others in the order in which they were
    /// measured.
    pub fn subjects(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let names = self.rows.iter().map(|row| row.subject.name());
        let mut names: Vec<_> = names.filter(|name| seen.insert(*name)).map(str::to_owned).collect();
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

    /// The number of rows with this value.
    pub fn with_value(&self, value: &Value) -> usize {
        self.rows.iter().filter(|row| row.value == *value).count()
    }

    /// Points of a plot: the parameter's value and the figure of each row.
    pub fn points(&self, param: &str) -> Vec<(f64, f64)> {
        self.rows.iter().filter_map(|row| Some((row.params[param].as_f64()?, row.number()?))).collect()
    }

    /// For each round, this value divided by the value in `others`. Rounds in which the latter is zero are left out,
    /// because a short time may be measured as zero.
    pub fn ratios(&self, others: &Found<'_>) -> Vec<f64> {
        let rounds = self.params("round").into_iter();
        let ratio = |round| Some(self.with("round", &round).value()? / others.with("round", &round).value()?);
        rounds.filter_map(ratio).filter(|ratio| ratio.is_finite()).collect()
    }

    /// The ratio of one subject's figure to the same figure of another, round by round.
    pub fn ratio(&self, this: &str, that: &str) -> Option<Ratio> {
        let mut ratios = self.subject(this).ratios(&self.subject(that));
        ratios.retain(|ratio| *ratio > 0.0);
        let (low, high) = (percentile(&ratios, 0.0), percentile(&ratios, 1.0));
        (!ratios.is_empty()).then(|| Ratio { median: median(&ratios), low, high, pairs: ratios.len() })
    }

    /// A table with a row for each subject and a column for each figure.
    pub fn by_figure(&self, title: &str, figures: &[(&str, &str)]) -> Grid {
        let mut grid = Grid::new(title);
        figures.iter().for_each(|(_, heading)| grid.column(heading));
        for name in self.subjects() {
            let of = self.subject(&name);
            grid.row(&name, figures.iter().map(|(figure, _)| of.figure(figure).value().map(rounded)).collect());
        }
        grid
    }

    /// A sentence part with the names of all subjects and their values.
    pub fn spoken(&self, unit: &str) -> String {
        let value = |name: String| Some(format!("{name} {}", rounded(self.subject(&name).value()?)));
        let values: Vec<_> = self.subjects().into_iter().filter_map(value).collect();
        format!("{} {unit}", values.join(", "))
    }

    /// A plot with a bar for each subject, on a logarithmic scale.
    pub fn bars(&self, title: &str) -> Plot {
        let value = |name: String| Some((name.clone(), self.subject(&name).value()?));
        Plot::bars(title, self.subjects().into_iter().filter_map(value).collect())
    }

    /// A heat map: for each value of `param`, the number of measured times in each bucket. Each bucket is twice as wide
    /// as the previous one.
    pub fn heat(&self, title: &str, (param, label): (&str, &str), bucket: &str) -> Plot {
        let cells = self
            .rows
            .iter()
            .filter_map(|row| Some((row.params[param].as_f64()?, row.params[bucket].as_f64()?, row.number()?)));
        let color_of = self.subjects().into_iter().next().unwrap_or_default();
        Plot::heat(title, label, Heat { color_of, cells: cells.collect() })
    }

    /// A plot with a line for each subject; `param` is on the x axis.
    pub fn lines(&self, title: &str, (param, label): (&str, &str), x: Scale, y: Scale) -> Plot {
        let mut plot = Plot::lines(title, label, x, y);
        for name in self.subjects() {
            plot.add(Series::new(&name, self.subject(&name).points(param)));
        }
        plot
    }
}

/// A text with the median of the ratios, and their first and third quartile.
pub fn middle(ratios: &[f64]) -> String {
    let at = |share| percentile(ratios, share);
    format!("{:.3} ({:.3} to {:.3})", median(ratios), at(0.25), at(0.75))
}

/// The ratio of two subjects' figures over the rounds, in which the subjects took turns: its median, and the ends of
/// its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2}", self.median)?;
        if self.pairs > 1 { write!(out, " ({:.2} to {:.2})", self.low, self.high) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Subject;

    #[test]
    fn ratios_are_of_runs_of_the_same_round() {
        let mut report = Report::new();
        for (config, round, value) in [("a", 0, 1.0), ("b", 0, 2.0), ("b", 1, 10.0), ("a", 1, 1.0), ("a", 2, 9.0)] {
            report.push(Row {
                experiment: "e".into(),
                figure: "f".into(),
                subject: Subject::Config(config.into()),
                params: json!({ "round": round }),
                value: json!(value),
                unit: String::new(),
            });
        }
        let found = Found::new(&report, "e").figure("f");
        let ratio = found.ratio("b", "a").unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high, ratio.pairs), (6.0, 2.0, 10.0, 2));
        assert_eq!(ratio.to_string(), "6.00 (2.00 to 10.00)");
        assert_eq!(found.ratio("a", "c"), None);
        assert_eq!(found.subjects(), ["a", "b"]);
    }
}
