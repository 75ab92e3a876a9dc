//! Compares the measured results of an experiment with required ones.

use anker_report::found::{Found, Ratio};
use anker_report::page::Grid;
use anker_report::{median, percentile};
use serde_json::Value;

/// A required result, and the measured one.
pub struct Must {
    pub what: String,
    pub bound: Bound,
    /// The measured result; `None` if it was not measured.
    pub found: Option<Ratio>,
}

#[derive(Clone, Copy)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(least) => value >= least,
            Bound::AtMost(most) => value <= most,
        }
    }

    fn told(self) -> String {
        match self {
            Bound::AtLeast(least) => format!("at least {least}"),
            Bound::AtMost(most) => format!("at most {most}"),
        }
    }
}

impl Must {
    pub fn new(what: impl Into<String>, bound: Bound, found: Option<Ratio>) -> Must {
        Must { what: what.into(), bound, found }
    }
}

/// The table of required results. A requirement is met if the median meets it.
pub fn grid(musts: Vec<Must>) -> Grid {
    let mut grid = Grid::new("Medians of pairs of runs of the same round, with the least and the largest");
    ["must be", "is", "pairs", ""].iter().for_each(|heading| grid.column(heading));
    for Must { what, bound, found } in musts {
        let verdict = found.map(|ratio| if bound.holds(ratio.median) { "met" } else { "NOT met" }.to_owned());
        let pairs = found.map(|ratio| ratio.pairs.to_string());
        grid.row(&what, vec![Some(bound.told()), found.map(|ratio| ratio.to_string()), pairs, verdict]);
    }
    grid
}

/// A result that is no ratio, but a percentile of the values of several runs. `share` 0 gives the least value.
pub fn alone(values: &[f64], share: f64) -> Option<Ratio> {
    let at = |share| percentile(values, share);
    (!values.is_empty()).then(|| Ratio { median: at(share), low: at(0.0), high: at(1.0), pairs: values.len() })
}

/// The slowdown of one configuration from the first to the last value of a parameter, divided by the slowdown of
/// another configuration, round by round. For the figure, larger values must be better.
pub fn relative_slowdown(found: &Found, param: &str, values: &[Value], this: &str, that: &str) -> Option<Ratio> {
    let (first, last) = (found.with(param, values.first()?), found.with(param, values.last()?));
    let at = |found: &Found, config: &str, round: &Value| {
        found.subject(config).with("round", round).value().filter(|value| *value > 0.0)
    };
    let slowdown = |config: &str, round: &Value| Some(at(&first, config, round)? / at(&last, config, round)?);
    let pairs = found.params("round").into_iter();
    let ratios: Vec<f64> = pairs.filter_map(|round| Some(slowdown(this, &round)? / slowdown(that, &round)?)).collect();
    alone(&ratios, 0.5).map(|ratio| Ratio { median: median(&ratios), ..ratio })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::Findings;

    #[test]
    fn what_is_not_reached_is_said() {
        let ratio = |median| Some(Ratio { median, low: median, high: median, pairs: 1 });
        let text = grid(vec![
            Must::new("a", Bound::AtLeast(0.85), ratio(0.9)),
            Must::new("b", Bound::AtMost(1.2), ratio(1.3)),
            Must::new("c", Bound::AtMost(1.2), None),
        ])
        .text();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].ends_with("  met") && lines[1].ends_with("NOT met") && lines[2].ends_with("–"), "{text}");
    }

    #[test]
    fn slowdowns_are_set_against_each_other() {
        let mut findings = Findings::new("e");
        for (config, round, warehouses, rate) in
            [("a", 1, 1, 100.0), ("a", 1, 40, 50.0), ("b", 1, 1, 100.0), ("b", 1, 40, 80.0), ("a", 2, 1, 9.0)]
        {
            findings.row("f", config, &json!({"round": round, "warehouses": warehouses}), rate, "");
        }
        let found = Found::new(&findings.report, "e");
        let ratio = relative_slowdown(&found, "warehouses", &[json!(1), json!(40)], "a", "b").unwrap();
        assert_eq!((ratio.median, ratio.pairs), (1.6, 1));
        assert!(relative_slowdown(&found, "warehouses", &[json!(1), json!(40)], "a", "c").is_none());
    }
}
