//! Results that the system calls of kernel-patch must reach: the time to create a snapshot of one column, compared with
//! other mechanisms.

use anker_report::{Report, rounded};
use serde_json::json;

use crate::experiments::turns;
use anker_report::found::Found;
use anker_report::page::Grid;

/// A table with a row for each requirement: the required value, the median of the rounds, and the first and third
/// quartile. `None` if nothing was measured, for example because the kernel has no vm_snapshot.
pub fn grid(report: &Report) -> Option<Grid> {
    let found = Found::new(report, turns::NAME).figure(turns::RATIO);
    let sizes = &found.row()?.params;
    let most = found.params("modified_pages").iter().filter_map(|pages| pages.as_u64()).find(|&pages| pages > 0);
    let ratio = |mechanism: &str, modified: Option<u64>| {
        let row = found.with("modified_pages", &json!(modified?)).subject(mechanism).row()?;
        let quartile = |name: &str| row.params[name].as_f64();
        Some([row.number()?, quartile("lower_quartile")?, quartile("upper_quartile")?])
    };

    let mut grid = Grid::new(&format!("One of {} columns of {} MB, by turns", sizes["columns"], sizes["column_mb"]));
    ["wanted", "found", "half of the rounds"].into_iter().for_each(|heading| grid.column(heading));
    let mut claim = |name: &str, limit: f64, more: bool, found: Option<[f64; 3]>| {
        let wanted = format!("{} {} ×", if more { "≥" } else { "≤" }, rounded(limit));
        let verdict = |found: f64| if (found >= limit) == more || found == limit { "" } else { " NOT met" };
        let median = found.map(|[median, ..]| format!("{} ×{}", rounded(median), verdict(median)));
        let between = found.map(|[_, low, high]| format!("{} to {}", rounded(low), rounded(high)));
        grid.row(name, vec![Some(wanted), median, between]);
    };
    let inverse = |[median, low, high]: [f64; 3]| [1.0 / median, 1.0 / high, 1.0 / low];
    claim("faster than whole-process fork", 30.0, true, ratio("fork", Some(0)));
    claim("faster than rewired, every page modified", 50.0, true, ratio("rewired", most));
    claim("time of mremap_cow", 1.2, false, ratio("mremap_cow", Some(0)).map(inverse));
    claim("the same, every page modified", 1.2, false, ratio("mremap_cow", most).map(inverse));
    Some(grid)
}

#[cfg(test)]
mod tests {
    use anker_report::{Row, Subject};

    use super::*;

    fn report(ratios: &[(&str, u64, f64)]) -> Report {
        let mut report = Report::new();
        for &(mechanism, modified, ratio) in ratios {
            report.push(Row {
                experiment: turns::NAME.to_owned(),
                figure: turns::RATIO.to_owned(),
                subject: Subject::Mechanism(mechanism.to_owned()),
                params: json!({
                    "columns": 50, "column_mb": 16, "modified_pages": modified,
                    "lower_quartile": ratio / 2.0, "upper_quartile": ratio * 2.0,
                }),
                value: ratio.into(),
                unit: "×".to_owned(),
            });
        }
        report
    }

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines().find(|line| line.trim_start().starts_with(start)).unwrap()
    }

    #[test]
    fn what_is_missed_is_said() {
        let found = [("fork", 0, 29.0), ("rewired", 4096, 50.0), ("mremap_cow", 0, 0.5), ("mremap_cow", 4096, 2.0)];
        let text = grid(&report(&found)).unwrap().text();
        assert!(line(&text, "faster than whole-process fork").contains("29 × NOT met"), "{text}");
        assert!(line(&text, "faster than rewired").contains("50 × ") && !text.contains("50 × NOT"), "{text}");
        // The call took twice as long as the other mechanism, but half as long is required.
        assert!(line(&text, "time of mremap_cow").contains("2.0 × NOT met"), "{text}");
        assert!(line(&text, "time of mremap_cow").contains("1.0 to 4.0"), "{text}");
        assert!(line(&text, "the same, every page").contains("0.50 ×"), "{text}");
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let text = grid(&report(&[("fork", 0, 31.0), ("rewired", 0, 60.0), ("mremap_cow", 0, 1.0)])).unwrap().text();
        for claim in ["faster than rewired", "the same, every page modified"] {
            assert_eq!(line(&text, claim).matches('–').count(), 2, "{text}");
        }
    }

    #[test]
    fn without_the_call_there_is_nothing_to_show() {
        assert!(grid(&report(&[])).is_none());
    }
}
