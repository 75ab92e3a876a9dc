//! What the calls of kernel-patch/ must show: creation times of Table 1 set against each other.

use anker_report::{Report, rounded};
use serde_json::json;

use crate::experiments::view::Found;
use crate::page::Grid;

/// A row for each claim, with what is wanted and what was found. None if this kernel has no vm_snapshot.
pub fn grid(report: &Report) -> Option<Grid> {
    let create = Found::new(report, "table1").figure("create_1_of_n");
    let time =
        |mechanism: &str, modified: u64| create.with("modified_pages", &json!(modified)).mechanism(mechanism).value();
    let most = create.params("modified_pages").iter().filter_map(|pages| pages.as_u64()).max()?;
    let calls = ["vm_snapshot", "mremap_cow"].map(|call| (time(call, 0), time(call, most)));
    let [(Some(call), Some(call_written)), cow] = calls else { return None };

    let mut grid = Grid::new("");
    ["wanted", "found"].into_iter().for_each(|heading| grid.column(heading));
    let mut claim = |name: &str, limit: f64, more: bool, found: Option<f64>| {
        let wanted = format!("{} {} ×", if more { "≥" } else { "≤" }, rounded(limit));
        let verdict = |found: f64| if (found >= limit) == more || found == limit { "" } else { " NOT met" };
        grid.row(name, vec![Some(wanted), found.map(|found| format!("{} ×{}", rounded(found), verdict(found)))]);
    };
    claim("faster than whole-process fork", 30.0, true, time("fork", 0).map(|fork| fork / call));
    let rewired = time("rewired", most).map(|rewired| rewired / call_written);
    claim(&format!("faster than rewired with {most} pages modified"), 50.0, true, rewired);
    claim("time of mremap_cow", 1.2, false, cow.0.map(|cow| call / cow));
    claim("the same after those writes", 1.2, false, cow.1.map(|cow| call_written / cow));
    Some(grid)
}
