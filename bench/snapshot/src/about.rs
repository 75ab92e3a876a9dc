//! The machine and the circumstances of a report's measurements.

use anker_report::Report;
use serde_json::Value;

/// Lines about the machine, the run, and how quiet the machine was.
pub fn lines(report: &Report) -> Vec<String> {
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

/// Measurements that are missing, each with its reason.
pub fn not_measured(report: &Report) -> Vec<String> {
    let skipped = report.meta()["skipped"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |skipped: &Value| {
        let text = |key: &str| skipped[key].as_str().unwrap_or_default().to_owned();
        let what = if skipped["params"].as_object().is_some_and(|params| !params.is_empty()) {
            format!("{}, {} {}", text("experiment"), text("mechanism"), skipped["params"])
        } else {
            format!("{}, {}", text("experiment"), text("mechanism"))
        };
        format!("{what}: {}", text("reason"))
    };
    skipped.iter().map(line).collect()
}
