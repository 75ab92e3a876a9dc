//! The thesis' six characteristics of a snapshot mechanism (section 4.1): three are measured, three are properties of
//! the mechanism.

use anker_report::{Report, rounded};
use serde_json::json;

use anker_report::found::Found;
use anker_report::page::{Grid, order};

/// For each mechanism: its granularity (the unit that is snapshotted; the unit that is copied), portability, usability.
const QUALITIES: [(&str, &str, &str, &str); 10] = [
    ("fork", "the process; pages", "any Unix", "another process: reads are handed over, threads are lost"),
    ("fork_columns", "columns; pages", "Linux", "another process: reads are handed over, threads are lost"),
    ("physical", "columns; all of them", "anywhere", "plain memory"),
    ("rewired", "columns; pages", "Linux; vm.max_map_count must be raised", "writes by call"),
    ("scoot", "columns; pages", "Linux", "writes by call"),
    ("vm_snapshot", "columns; pages", "a patched kernel", "plain memory"),
    ("mremap_cow", "columns; pages", "a patched kernel", "plain memory"),
    ("frames", "columns; runs", "anywhere", "writes by call"),
    ("epochs", "columns; lines of 64 bytes, then runs", "anywhere", "writes by call"),
    ("auto", "columns; lines of 64 bytes or runs", "anywhere", "writes by call"),
];

pub fn grid(report: &Report) -> Grid {
    let create = Found::new(report, "table1").figure("create_1_of_n").with("modified_pages", &json!(0));
    let write = Found::new(report, "first_write").figure("first_write");
    let throughput = Found::new(report, "ycsb").figure("throughput").with("reads", &json!(0.4));
    let largest = throughput.params("size_mb").pop().unwrap_or_default();
    let throughput = throughput.with("size_mb", &largest);
    let mut grid = Grid::new("").named("characteristics");
    for heading in [
        "execution time: one column, µs",
        "latency: first write, µs",
        "throughput: YCSB, 1,000/s",
        "granularity: taken; copied",
        "portability",
        "usability",
    ] {
        grid.column(heading);
    }
    let mut qualities = QUALITIES;
    qualities.sort_by_key(|(name, ..)| order(name));
    for (name, granularity, portability, usability) in qualities {
        let measured = |of: &Found, per: f64| of.subject(name).value().map(|value| rounded(value / per));
        let mut cells = vec![measured(&create, 1e-3), measured(&write, 1.0), measured(&throughput, 1e3)];
        cells.extend([granularity, portability, usability].map(|quality| Some(quality.to_owned())));
        grid.row(name, cells);
    }
    grid
}
