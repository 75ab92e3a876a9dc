//! Runs the whole benchmark with sizes too small for meaningful times, and tests the form of its output.

use std::path::PathBuf;
use std::process::Command;

use anker_report::{Report, Row};

/// Runs with these arguments and returns the report and the page.
fn run(name: &str, arguments: &str) -> (Report, String) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let [json, html] = ["run.json", "run.html"].map(|file| directory.join(file));
    let output = Command::new(env!("CARGO_BIN_EXE_snapshot-bench"))
        .args("--quick --columns 3 --column-mb 1 --run-kb 16 --minutes 30".split(' '))
        .args(arguments.split(' '))
        .args(["--json".as_ref(), json.as_os_str(), "--html".as_ref(), html.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (Report::read(&json).unwrap(), std::fs::read_to_string(html).unwrap())
}

fn figures<'a>(report: &'a Report, figure: &str) -> Vec<&'a Row> {
    report.rows().iter().filter(|row| row.figure == figure).collect()
}

#[test]
fn every_figure_stands_beside_fork_and_physical() {
    let (report, html) =
        run("all", "--only table1 --only first_write --only read --only memory --only sequence --mechanism epochs");
    for figure in ["create_1_of_n", "create_3_of_n", "first_write", "write_10000", "read_rate", "memory_10000"] {
        let rows = figures(&report, figure);
        for mechanism in ["fork", "physical", "epochs"] {
            let of: Vec<_> = rows.iter().filter(|row| row.subject.name() == mechanism).collect();
            assert!(!of.is_empty(), "{figure} of {mechanism}");
            assert!(of.iter().all(|row| row.number().is_some_and(|value| value >= 0.0)), "{figure} of {mechanism}");
        }
        assert!(rows.iter().all(|row| row.subject.name() != "frames"), "{figure}: nobody asked for frames");
    }
    assert_eq!(report.meta()["skipped"].as_array().map(Vec::len), Some(0), "{}", report.meta()["skipped"]);
    // A physical copy is as large as the column. With the other mechanisms, pages that nobody has written to cost
    // nothing.
    let memory = |figure, mechanism| {
        let row = figures(&report, figure).into_iter().find(|row| row.subject.name() == mechanism);
        row.and_then(Row::number).unwrap()
    };
    assert!(memory("memory_0", "physical") >= 1.04 && memory("memory_0", "epochs") < 0.5);
    stands_alone(&html);
}

fn stands_alone(html: &str) {
    let outside = html.matches("http").count();
    assert_eq!(outside, html.matches("xmlns=\"http://www.w3.org/2000/svg\"").count(), "the page needs nothing else");
    assert!(html.contains("<svg") && !html.contains("<script") && html.ends_with("</html>\n"));
}

#[test]
fn what_there_is_no_room_for_is_left_out_with_the_reason() {
    let (report, html) = run("room", "--only table1 --mechanism epochs --memory-mb 3");
    let skipped = report.meta()["skipped"].as_array().unwrap();
    assert!(skipped.iter().any(|skipped| skipped["reason"].as_str().is_some_and(|why| why.contains("can be had"))));
    assert!(figures(&report, "create_1_of_n").is_empty() && html.contains("Not measured"));
}

#[test]
fn an_earlier_run_can_be_shown_again() {
    let (report, html) = run("first", "--only copy_rate --only fork_size");
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("first");
    let (again, same) = run("again", &format!("--from {}", directory.join("run.json").display()));
    assert_eq!((again.rows().len(), same), (report.rows().len(), html));
    assert!(figures(&again, "copy_rate").len() > 5 && figures(&again, "fork_ready").len() > 5);
}
