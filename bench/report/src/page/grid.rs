//! A table, which can be written as text for the terminal, as HTML for the page, and as Markdown for documents.

use std::fmt::Write;

use super::escaped;

pub struct Grid {
    pub title: String,
    /// The name under which a document may show it.
    pub name: Option<String>,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<String>>)>,
}

/// The text of a figure that was not measured.
const NOTHING: &str = "–";

impl Grid {
    pub fn new(title: &str) -> Grid {
        Grid { title: title.to_owned(), name: None, columns: Vec::new(), rows: Vec::new() }
    }

    pub fn named(mut self, name: &str) -> Grid {
        self.name = Some(name.to_owned());
        self
    }

    pub fn column(&mut self, heading: &str) {
        self.columns.push(heading.to_owned());
    }

    pub fn row(&mut self, name: &str, cells: Vec<Option<String>>) {
        self.rows.push((name.to_owned(), cells));
    }

    /// Adds a cell to each row.
    pub fn extend(&mut self, cell: impl Fn(&str) -> Option<String>) {
        self.rows.iter_mut().for_each(|(name, cells)| cells.push(cell(name)));
    }

    /// The grid as text, aligned by spaces.
    pub fn text(&self) -> String {
        let lines = self.lines();
        let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for line in lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(i, (cell, width))| {
                if i == 0 { format!("  {cell:<width$}") } else { format!("  {cell:>width$}") }
            });
            text += cells.collect::<String>().trim_end();
            text.push('\n');
        }
        text
    }

    /// Like `text`, with the title in the line above.
    pub fn titled(&self) -> String {
        if self.title.is_empty() { self.text() } else { format!("{}\n{}", self.title, self.text()) }
    }

    pub fn html(&self) -> String {
        let mut html = String::new();
        if !self.title.is_empty() {
            let _ = write!(html, "<h3>{}</h3>", escaped(&self.title));
        }
        html += "<div class=\"scroll\"><table>";
        for (i, line) in self.lines().iter().enumerate() {
            let tag = |column| if i == 0 || column == 0 { "th" } else { "td" };
            let cell = |(column, cell): (usize, &String)| format!("<{0}>{1}</{0}>", tag(column), escaped(cell));
            let _ = writeln!(html, "<tr>{}</tr>", line.iter().enumerate().map(cell).collect::<String>());
        }
        html + "</table></div>\n"
    }

    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (i, line) in self.lines().iter().enumerate() {
            let _ = writeln!(text, "| {} |", line.join(" | "));
            if i == 0 {
                let _ = writeln!(text, "|---|{}", "---:|".repeat(self.columns.len()));
            }
        }
        text
    }

    /// The headings, then the rows.
    fn lines(&self) -> Vec<Vec<String>> {
        let head = std::iter::once(String::new()).chain(self.columns.iter().cloned()).collect();
        let cell = |cell: &Option<String>| cell.as_deref().unwrap_or(NOTHING).to_owned();
        let rows =
            self.rows.iter().map(|(name, cells)| std::iter::once(name.clone()).chain(cells.iter().map(cell)).collect());
        std::iter::once(head).chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new("a <title>");
        grid.column("µs");
        grid.row("frames", vec![Some("12".to_owned())]);
        grid.row("x", vec![None]);
        grid
    }

    #[test]
    fn text_is_aligned() {
        assert_eq!(grid().text(), "          µs\n  frames  12\n  x        –\n");
    }

    #[test]
    fn markup_is_escaped_and_headed() {
        assert!(grid().html().contains("<h3>a &lt;title&gt;</h3>") && grid().html().contains("<td>12</td>"));
        assert_eq!(grid().markdown(), "|  | µs |\n|---|---:|\n| frames | 12 |\n| x | – |\n");
    }
}
