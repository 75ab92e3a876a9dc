//! The page of a report: one HTML file with all tables and plots in it.

mod axis;
mod grid;
mod groups;
pub mod index;
mod plot;
mod style;

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::Report;

pub use self::axis::Scale;
pub use self::grid::Grid;
pub use self::groups::Groups;
pub use self::plot::{Heat, Plot, Series, stacked};
pub use self::style::order;

/// One experiment's part of a page.
pub struct Section {
    pub id: &'static str,
    pub title: String,
    /// The paper's result. The next field, `here`, has the result of this run.
    pub claim: String,
    pub here: String,
    /// Sentences that say how the experiment was measured.
    pub notes: Vec<String>,
    pub grids: Vec<Grid>,
    pub plots: Vec<Plot>,
}

/// The content of a report's page.
#[derive(Default)]
pub struct Page {
    pub title: String,
    /// The machine and the circumstances of the measurement.
    pub about: Vec<String>,
    pub overview: Vec<(String, Grid)>,
    pub sections: Vec<Section>,
    /// Measurements that are missing, each with its reason.
    pub left_out: Vec<String>,
}

impl Page {
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut page = head(&title);
        for line in &self.about {
            let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(line));
        }
        for (heading, grid) in &self.overview {
            let _ = writeln!(page, "<h2>{}</h2>", escaped(heading));
            page += &grid.html();
        }
        for section in &self.sections {
            let _ = writeln!(page, "<h2 id=\"{}\">{}</h2>", section.id, escaped(&section.title));
            let said: Vec<_> =
                [&section.claim, &section.here].iter().filter(|s| !s.is_empty()).map(|s| escaped(s)).collect();
            if !said.is_empty() {
                let _ = writeln!(page, "<p class=\"claim\">{}</p>", said.join("<br>"));
            }
            section.notes.iter().for_each(|note| page += &format!("<p class=\"note\">{}</p>\n", escaped(note)));
            section.grids.iter().for_each(|grid| page += &grid.html());
            let plots = section.plots.iter().filter(|plot| !plot.is_empty()).map(Plot::svg).collect::<String>();
            let _ = writeln!(page, "<div class=\"plots\">{plots}</div>");
        }
        if !self.left_out.is_empty() {
            let lines: String = self.left_out.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
            let _ = writeln!(page, "<h2>Not measured</h2>\n<ul class=\"note\">\n{lines}</ul>");
        }
        page + "</body></html>\n"
    }

    /// Writes report and page to the given files. Before that, adds to the report what an index of reports shows about
    /// it.
    pub fn write(&self, report: &mut Report, json: Option<&Path>, html: Option<&Path>) -> io::Result<()> {
        let told = self.sections.iter().filter(|section| !section.here.is_empty());
        report.set_meta("title", self.title.as_str());
        report.set_meta("headlines", told.map(|section| section.here.as_str()).collect::<Vec<_>>());
        if let Some(path) = json {
            report.write(path)?;
        }
        html.map_or(Ok(()), |path| write(path, &self.html()))
    }

    /// Writes each plot that has a name to a file of its own.
    pub fn write_plots(&self, directory: &Path) -> io::Result<()> {
        for plot in self.sections.iter().flat_map(|section| &section.plots).filter(|plot| !plot.is_empty()) {
            let Some(name) = &plot.name else { continue };
            write(&directory.join(format!("{name}.svg")), &plot.standalone_svg())?;
        }
        Ok(())
    }

    /// Texts and tables of the page, for a terminal.
    pub fn text(&self) -> String {
        let mut text = self.about.join("\n") + "\n";
        for (heading, grid) in &self.overview {
            let _ = write!(text, "\n{heading}\n{}\n", grid.titled());
        }
        for section in &self.sections {
            let said = [&section.title, &section.claim, &section.here].into_iter().filter(|said| !said.is_empty());
            text += &said.map(|said| format!("\n{said}")).collect::<String>();
            text.push('\n');
            section.grids.iter().for_each(|grid| text += &format!("\n{}", grid.titled()));
            section.notes.iter().for_each(|note| text += &format!("\n{note}\n"));
        }
        self.left_out.iter().for_each(|line| text += &format!("\nNot measured: {line}\n"));
        text
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::write(path, text).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// The beginning of every page. `title` is HTML, so it must be escaped already.
fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{}{}{}</style></head>\n<body>\n\
         <h1>{title}</h1>\n",
        style::COLORS,
        style::PAGE,
        style::PLOT,
    )
}

pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_with_a_name_become_files() {
        let directory = std::env::temp_dir().join(format!("anker-plots-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let bars = || Plot::bars("t", vec![("a".into(), 1.0)]);
        let plots = vec![bars().named("one"), bars(), Plot::bars("empty", vec![]).named("two")];
        let section = Section {
            id: "s",
            title: "a title".into(),
            claim: String::new(),
            here: String::new(),
            notes: Vec::new(),
            grids: Vec::new(),
            plots,
        };
        let page = Page { sections: vec![section], ..Page::default() };
        page.write_plots(&directory).unwrap();
        let files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().file_name()).collect();
        let below = stacked(&page.sections[0].plots.iter().take(2).collect::<Vec<_>>());
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(files, ["one.svg"]);
        assert!(!page.html().contains("claim\">"), "an empty claim");
        assert_eq!(below.matches("<svg").count(), 1);
        assert_eq!(below.matches("<g ").count(), 2);
    }
}
