//! The page that leads to all reports of a directory.

use std::fmt::Write;
use std::io;
use std::path::Path;

use super::{escaped, head};
use crate::Report;

/// A report with its name, its file, and whether it has a page.
struct Listed {
    name: String,
    file: String,
    report: Report,
    has_page: bool,
}

/// Writes `index.html` beside the reports (JSON, perhaps compressed) of a directory, and returns how many reports it
/// links to. Other files are ignored.
pub fn write(directory: &Path) -> io::Result<usize> {
    let mut reports = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = file.strip_suffix(".gz").unwrap_or(&file).strip_suffix(".json")
            && let Ok(report) = Report::read(&path)
        {
            let (name, has_page) = (name.to_owned(), directory.join(format!("{name}.html")).exists());
            reports.push(Listed { name, file, report, has_page });
        }
    }
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    std::fs::write(directory.join("index.html"), html(&reports))?;
    Ok(reports.len())
}

fn html(reports: &[Listed]) -> String {
    let mut page = head("Benchmarks of pg_anker");
    for Listed { name, file, report, has_page } in reports {
        let title = escaped(report.meta()["title"].as_str().unwrap_or(name));
        let (name, file) = (escaped(name), escaped(file));
        let title = if *has_page { format!("<a href=\"{name}.html\">{title}</a>") } else { title };
        let _ = writeln!(page, "<h2>{title}</h2>");
        let headlines = report.meta()["headlines"].as_array().map_or(&[][..], Vec::as_slice);
        for line in headlines.iter().filter_map(|line| line.as_str()) {
            let _ = writeln!(page, "<p class=\"claim\">{}</p>", escaped(line));
        }
        let _ = writeln!(
            page,
            "<p class=\"note\">{} {} figures: <a href=\"{file}\">{file}</a></p>",
            escaped(&report.machine()),
            report.rows().len()
        );
    }
    page + "</body></html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_and_other_files_left_out() {
        let directory = std::env::temp_dir().join(format!("anker-index-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut report = Report::new();
        report.set_meta("title", "a <title>");
        report.set_meta("headlines", vec!["twice as fast"]);
        report.write(&directory.join("one.json")).unwrap();
        std::fs::write(directory.join("one.html"), "").unwrap();
        Report::new().write(&directory.join("two.json")).unwrap();
        assert!(std::process::Command::new("gzip").arg(directory.join("two.json")).status().unwrap().success());
        std::fs::write(directory.join("other.json"), "[]").unwrap();
        assert_eq!(write(&directory).unwrap(), 2);
        let html = std::fs::read_to_string(directory.join("index.html")).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(html.contains("<a href=\"one.html\">a &lt;title&gt;</a>") && html.contains("twice as fast"), "{html}");
        assert!(html.contains("<h2>two</h2>") && html.contains("\"two.json.gz\"") && !html.contains("other"));
    }
}
