//! A command's arguments, one after the other.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::str::FromStr;

use anker_report::Report;
use anker_report::page::Page;

use crate::Result;
use crate::sets::Set;

pub type Parsed<T> = std::result::Result<T, String>;

pub struct Arguments<I> {
    given: I,
    /// The option that was read last, for error messages.
    option: String,
}

/// The files that a report is written to.
#[derive(Default)]
pub struct Output {
    pub json: Option<PathBuf>,
    pub html: Option<PathBuf>,
    /// The directory to which plots for documents are written, each as a file of its own.
    pub svg_dir: Option<PathBuf>,
}

/// The options of [`Output`], for usages.
pub const OUTPUT: &str = "OUTPUT: [--json FILE] [--html FILE] [--svg-dir DIRECTORY]";

impl Output {
    /// Tests whether the files can be written. So an error is reported before anything is measured.
    pub fn check(&self) -> Result<()> {
        for path in self.json.iter().chain(&self.html) {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
            }
            let is_new = !path.exists();
            let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            opened.map_err(|e| format!("{}: {e}", path.display()))?;
            // Removes the file that the test has created, so that a failed run leaves no empty report.
            if is_new {
                fs::remove_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
            }
        }
        match &self.svg_dir {
            Some(directory) => Ok(fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?),
            None => Ok(()),
        }
    }

    pub fn write(&self, page: &Page, report: &mut Report) -> Result<()> {
        page.write(report, self.json.as_deref(), self.html.as_deref())?;
        self.svg_dir.as_ref().map_or(Ok(()), |directory| Ok(page.write_plots(directory)?))
    }
}

impl<I: Iterator<Item = String>> Arguments<I> {
    pub fn new(given: I) -> Arguments<I> {
        Arguments { given, option: String::new() }
    }

    pub fn option(&mut self) -> Option<String> {
        self.option = self.given.next()?;
        Some(self.option.clone())
    }

    pub fn value(&mut self) -> Parsed<String> {
        self.given.next().ok_or(format!("{} wants a value", self.option))
    }

    /// A number above 0.
    pub fn number<T: FromStr + PartialOrd + Default>(&mut self) -> Parsed<T> {
        let value = self.value()?;
        self.positive(&value)
    }

    /// A list such as `1,2,3`.
    pub fn numbers<T: FromStr + PartialOrd + Default>(&mut self) -> Parsed<Vec<T>> {
        let value = self.value()?;
        value.split(',').map(|one| self.positive(one)).collect()
    }

    /// The name of a set of queries.
    pub fn set(&mut self) -> Parsed<&'static Set> {
        let name = self.value()?;
        Set::named(&name).ok_or(format!("{}: there is no {name}", self.option))
    }

    fn positive<T: FromStr + PartialOrd + Default>(&self, value: &str) -> Parsed<T> {
        let number = value.parse().ok().filter(|number| *number > T::default());
        number.ok_or(format!("{}: {value} is not a number above 0", self.option))
    }

    /// Reads an option that all commands with reports have. Returns `false` if the present option is none of these.
    pub fn output(&mut self, output: &mut Output) -> Parsed<bool> {
        match self.option.as_str() {
            "--json" => output.json = Some(self.value()?.into()),
            "--html" => output.html = Some(self.value()?.into()),
            "--svg-dir" => output.svg_dir = Some(self.value()?.into()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &str) -> Arguments<std::vec::IntoIter<String>> {
        Arguments::new(words.split(' ').map(str::to_owned).collect::<Vec<_>>().into_iter())
    }

    #[test]
    fn lists_are_of_numbers_above_zero() {
        let mut arguments = given("--warehouses 1,40");
        assert_eq!(arguments.option().as_deref(), Some("--warehouses"));
        assert_eq!(arguments.numbers(), Ok(vec![1, 40]));
        assert!(given("1,0").numbers::<u32>().is_err() && given("1,").numbers::<u32>().is_err());
        assert_eq!(given("2.5").number::<f64>(), Ok(2.5));
    }
}
