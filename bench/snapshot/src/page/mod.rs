//! The page: one HTML file with everything in it.

mod axis;
pub mod document;
mod grid;
mod plot;
mod style;

use std::fmt::Write;

use anker_report::Report;
use serde_json::Value;

pub use self::axis::Scale;
pub use self::grid::Grid;
pub use self::plot::{Heat, Plot, Series};
pub use self::style::order;

/// What one experiment shows.
pub struct Section {
    pub id: &'static str,
    pub title: String,
    /// What the paper says, and what was found here.
    pub claim: String,
    pub here: String,
    /// How it was measured.
    pub notes: Vec<String>,
    pub grids: Vec<Grid>,
    pub plots: Vec<Plot>,
}

pub fn html(report: &Report, overview: &[(&str, Grid)], sections: &[Section]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Snapshots</title>\n<style>{}{}{}</style></head>\n<body>\n\
         <h1>Snapshots of memory, by mechanism</h1>\n",
        style::COLORS,
        style::PAGE,
        style::PLOT,
    );
    for line in about(report) {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(&line));
    }
    for (heading, grid) in overview {
        let _ = writeln!(page, "<h2>{}</h2>", escaped(heading));
        page += &grid.html();
    }
    for section in sections {
        let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", section.id, escaped(&section.title));
        let _ = writeln!(page, "<p class=\"claim\">{}<br>{}</p>", escaped(&section.claim), escaped(&section.here));
        section.notes.iter().for_each(|note| page += &format!("<p class=\"note\">{}</p>\n", escaped(note)));
        section.grids.iter().for_each(|grid| page += &grid.html());
        let plots = section.plots.iter().filter(|plot| !plot.is_empty()).map(Plot::svg).collect::<String>();
        let _ = writeln!(page, "<div class=\"plots\">{plots}</div>");
    }
    page += &not_measured(report);
    page + "</body></html>\n"
}

/// Where and how this was measured, and how quiet it was.
pub fn about(report: &Report) -> Vec<String> {
    let meta = report.meta();
    let words = |key: &str| match &meta[key] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let noise = meta["noise"].as_array().map_or(&[][..], Vec::as_slice);
    let spreads =
        noise.iter().filter_map(|noise| Some(format!("{} {}", noise["experiment"].as_str()?, noise["spread"])));
    let emulated = words("cpu").contains("TCG").then_some(
        "Measured in a machine emulated in software: times are no times of any real machine, and mean something only as \
         ratios to each other.",
    );
    let about = [
        format!(
            "{}, {} cores, Linux {}, vm.max_map_count {}, transparent huge pages {}. {} run of {} s with runs of {} KiB; {} \
             columns of {} MB.",
            words("cpu"),
            words("cores"),
            words("kernel"),
            words("max_map_count"),
            words("transparent_huge_pages"),
            words("effort"),
            words("seconds"),
            words("run_kb"),
            words("columns"),
            words("column_mb"),
        ),
        format!(
            "Noise: others used {} of the CPUs; load {} at the start. The same piece of arithmetic took, in its slowest \
             hundredth, so many times its least time before each experiment: {}.",
            words("others_cpu_share"),
            words("load_at_start"),
            spreads.collect::<Vec<_>>().join(", "),
        ),
    ];
    emulated.map(str::to_owned).into_iter().chain(about).collect()
}

fn not_measured(report: &Report) -> String {
    let skipped = report.meta()["skipped"].as_array().map_or(&[][..], Vec::as_slice);
    if skipped.is_empty() {
        return String::new();
    }
    let line = |skipped: &Value| {
        let text = |key: &str| skipped[key].as_str().unwrap_or_default().to_owned();
        let what = if skipped["params"].as_object().is_some_and(|params| !params.is_empty()) {
            format!("{}, {} {}", text("experiment"), text("mechanism"), skipped["params"])
        } else {
            format!("{}, {}", text("experiment"), text("mechanism"))
        };
        format!("<li>{}: {}</li>\n", escaped(&what), escaped(&text("reason")))
    };
    format!("<h2>Not measured</h2>\n<ul class=\"note\">\n{}</ul>\n", skipped.iter().map(line).collect::<String>())
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
