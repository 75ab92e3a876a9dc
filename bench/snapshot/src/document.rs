//! Fills the measured parts of a document: writes plots to files in the document's directory, and tables into its text.
//!
//! The text between `<!-- measured: NAME -->` and `<!-- end -->` is replaced by the table of that name.

use std::fs;
use std::path::Path;

use anker_report::Report;
use anker_report::page::Page;

use crate::Result;
use crate::experiments::complete;

const DOCUMENT: &str = "snapshots.md";
const OPEN: &str = "<!-- measured: ";
const CLOSE: &str = " -->\n";
const END: &str = "<!-- end -->";

pub fn update(directory: &Path, report: &Report, page: &Page) -> Result<()> {
    let path = directory.join(DOCUMENT);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    for plot in page.sections.iter().flat_map(|section| &section.plots).filter(|plot| !plot.is_empty()) {
        let file = plot.name.as_ref().map(|name| format!("snapshots-{name}.svg"));
        if let Some(file) = file.filter(|file| text.contains(file)) {
            fs::write(directory.join(&file), plot.standalone_svg()).map_err(|e| format!("{file}: {e}"))?;
        }
    }
    // The overview is about all experiments, so it stays unchanged if only some of them ran.
    let overview = if complete(report) { &page.overview[..] } else { &[] };
    let measured = |name: &str| match name {
        "about" => (!overview.is_empty()).then(|| page.about.join("\n\n") + "\n"),
        _ => {
            let all = page.sections.iter().flat_map(|section| &section.grids);
            let mut grids = overview.iter().map(|(_, grid)| grid).chain(all);
            Some(grids.find(|grid| grid.name.as_deref() == Some(name))?.markdown())
        }
    };
    Ok(fs::write(&path, filled(&text, measured)?)?)
}

/// The document, in which the tables that this run has measured are replaced. Other tables stay unchanged.
fn filled(text: &str, measured: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut parts = text.split(OPEN);
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(CLOSE).ok_or("a mark that does not end")?;
        let (old, rest) = rest.split_once(END).ok_or_else(|| format!("{name}: {END} is missing"))?;
        let table = measured(name).unwrap_or_else(|| old.trim_matches('\n').to_owned() + "\n");
        filled += &format!("{OPEN}{name}{CLOSE}\n{table}\n{END}{rest}");
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_marks_changes() {
        let text = "a\n<!-- measured: x -->\nold\n<!-- end -->\nb <!-- measured: y -->\nkept\n<!-- end --> c";
        let once = filled(text, |name| (name == "x").then(|| "new\n".to_owned())).unwrap();
        assert_eq!(
            once,
            "a\n<!-- measured: x -->\n\nnew\n\n<!-- end -->\nb <!-- measured: y -->\n\nkept\n\n<!-- end --> c"
        );
        assert_eq!(filled(&once, |_| None).unwrap(), once);
        assert!(filled("<!-- measured: x -->\n", |_| None).is_err());
    }
}
