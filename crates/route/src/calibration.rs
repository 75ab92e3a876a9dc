//! Costs of measured times. The heap's tell how long a unit takes; of the engine's each part is what the parts before it leave
//! to be explained.

use crate::{Costs, Work};

/// A query that was run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    pub work: Work,
    pub engine_ms: f64,
    pub heap_ms: f64,
    /// What the planner expected of the heap.
    pub heap_cost: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    pub unit_ms: f64,
    pub costs: Costs,
}

/// A cost that the measurement could not tell from zero is no reason to call something free.
const LEAST: f64 = 1e-6;

impl Calibration {
    /// `startup_ms`: of a query that does nothing. Of the runs the first ones tell the cost of `values`, and so on.
    pub fn of(startup_ms: f64, values: &[Run], rows: &[Run], results: &[Run]) -> Calibration {
        let all = || values.iter().chain(rows).chain(results);
        let (heap_ms, heap_cost): (f64, f64) =
            (all().map(|run| run.heap_ms).sum(), all().map(|run| run.heap_cost).sum());
        let unit_ms = (heap_ms / heap_cost.max(LEAST)).max(LEAST);
        // Of the engine in milliseconds first.
        let mut costs = Costs { startup: startup_ms, value: 0.0, row: 0.0, result: 0.0 };
        costs.value = left_over(&costs, values, |work| work.values);
        costs.row = left_over(&costs, rows, |work| work.rows);
        costs.result = left_over(&costs, results, |work| work.results);
        let in_units = |ms: f64| (ms / unit_ms).max(LEAST);
        let costs = Costs {
            startup: in_units(costs.startup),
            value: in_units(costs.value),
            row: in_units(costs.row),
            result: in_units(costs.result),
        };
        Calibration { unit_ms, costs }
    }
}

/// What is left of the runs' time when the known costs are taken off, for each of what there is so many of.
fn left_over(known: &Costs, runs: &[Run], number: impl Fn(&Work) -> f64) -> f64 {
    let time: f64 = runs.iter().map(|run| run.engine_ms - known.of(run.work)).sum();
    let number: f64 = runs.iter().map(|run| number(&run.work)).sum();
    time.max(0.0) / number.max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which a unit takes 0.01 ms.
    fn run(costs: Costs, work: Work, heap_cost: f64) -> Run {
        Run { work, engine_ms: costs.of(work) * 0.01, heap_ms: heap_cost * 0.01, heap_cost }
    }

    #[test]
    fn costs_are_found_again() {
        let costs = Costs { startup: 100.0, value: 0.0005, row: 0.002, result: 0.01 };
        let run = |work, heap_cost| run(costs, work, heap_cost);
        let values = [run(Work { values: 4e6, rows: 0.0, results: 1.0 }, 1e4)];
        let rows = [
            run(Work { values: 2e6, rows: 1e6, results: 1.0 }, 2e4),
            run(Work { values: 2e6, rows: 3e6, results: 1.0 }, 3e4),
        ];
        let results = [run(Work { values: 4e6, rows: 0.0, results: 5e6 }, 1e4)];
        let found = Calibration::of(1.0, &values, &rows, &results);
        assert!((found.unit_ms - 0.01).abs() < 1e-9);
        for (found, wanted) in [
            (found.costs.startup, costs.startup),
            (found.costs.value, costs.value),
            (found.costs.row, costs.row),
            (found.costs.result, costs.result),
        ] {
            assert!((found / wanted - 1.0).abs() < 0.01, "{found} is not {wanted}");
        }
    }

    #[test]
    fn noise_makes_nothing_free() {
        let run =
            Run { work: Work { values: 1e6, rows: 1e6, results: 1e6 }, engine_ms: 0.5, heap_ms: 10.0, heap_cost: 1e3 };
        let costs = Calibration::of(1.0, &[run], &[run], &[run]).costs;
        assert!(costs.value > 0.0 && costs.row > 0.0 && costs.result > 0.0);
    }
}
