//! Fits the cost factors to measurements.

use crate::{Costs, Work};

/// A measured query.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub work: Work,
    /// The time, in any unit. The costs will have the same unit.
    pub time: f64,
}

/// The greatest number of rounds. Further rounds do not change the result measurably.
const ROUNDS: usize = 20_000;

/// The costs with the least sum of squared *relative* errors. Relative errors make short queries count as much as long
/// ones. No cost is negative. A cost is 0 if no query had work of its kind.
pub fn fit(observed: &[Observed]) -> Costs {
    let relative = |observed: &Observed| {
        let Work { values, rows, results } = observed.work;
        [1.0, values, rows, results].map(|amount| amount / observed.time)
    };
    let lines: Vec<[f64; 4]> = observed.iter().filter(|observed| observed.time > 0.0).map(relative).collect();
    let mut costs = [0.0; 4];
    for _ in 0..ROUNDS {
        let before = costs;
        for which in 0..costs.len() {
            let (mut wanted, mut square) = (0.0, 0.0);
            for line in &lines {
                let others: f64 = (0..costs.len()).filter(|i| *i != which).map(|i| line[i] * costs[i]).sum();
                wanted += line[which] * (1.0 - others);
                square += line[which] * line[which];
            }
            costs[which] = if square > 0.0 { (wanted / square).max(0.0) } else { 0.0 };
        }
        let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
        if costs.iter().zip(&before).all(same) {
            break;
        }
    }
    let [startup, value, row, result] = costs;
    Costs { startup, value, row, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUE: Costs = Costs { startup: 0.4, value: 2e-6, row: 3e-5, result: 1e-4 };

    fn works() -> Vec<Work> {
        let amounts = [1e3, 1e5, 1e6];
        let mut works = Vec::new();
        for size in amounts {
            works.push(Work { values: size, rows: 0.0, results: 2.0 });
            works.push(Work { values: 2.0 * size, rows: size, results: 2.0 });
            works.push(Work { values: 2.0 * size, rows: 3.0 * size, results: 100.0 });
            works.push(Work { values: size, rows: 0.0, results: 2.0 * size });
        }
        works
    }

    fn is_near(found: f64, wanted: f64, relative: f64) {
        assert!((found / wanted - 1.0).abs() < relative, "{found} instead of {wanted}");
    }

    #[test]
    fn exact_measurements_give_the_costs_back() {
        let found = fit(&works().into_iter().map(|work| Observed { work, time: TRUE.of(work) }).collect::<Vec<_>>());
        is_near(found.startup, TRUE.startup, 1e-3);
        is_near(found.value, TRUE.value, 1e-3);
        is_near(found.row, TRUE.row, 1e-3);
        is_near(found.result, TRUE.result, 1e-3);
    }

    #[test]
    fn a_fifth_of_noise_is_a_fifth_of_error() {
        let noisy = |(at, work): (usize, Work)| {
            let noise = if at % 2 == 0 { 1.2 } else { 0.85 };
            Observed { work, time: TRUE.of(work) * noise }
        };
        let found = fit(&works().into_iter().enumerate().map(noisy).collect::<Vec<_>>());
        is_near(found.startup, TRUE.startup, 0.5);
        is_near(found.value, TRUE.value, 0.5);
        is_near(found.row, TRUE.row, 0.5);
        is_near(found.result, TRUE.result, 0.5);
    }

    #[test]
    fn none_is_negative_and_what_nobody_asked_for_is_nothing() {
        let time = |values: f64| 10.0 - values / 1e3;
        let works = [0.0, 1e3, 2e3].map(|values| Work { values, ..Work::default() });
        let found = fit(&works.map(|work| Observed { work, time: time(work.values) }));
        assert!(found.startup > 0.0 && found.value >= 0.0, "{found:?}");
        assert_eq!((found.row, found.result), (0.0, 0.0));
        assert_eq!(fit(&[]), Costs { startup: 0.0, value: 0.0, row: 0.0, result: 0.0 });
    }
}
