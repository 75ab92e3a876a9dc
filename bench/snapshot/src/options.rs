//! The command's options, and the sizes that follow from them.

use std::path::PathBuf;
use std::time::Duration;

use crate::table::Subject;

pub const USAGE: &str = "usage: bench/run snapshot [--quick | --full] [--mechanism M]... [--only EXPERIMENT]...
       [--json FILE] [--html FILE] [--docs DIRECTORY]
       [--column-mb N] [--columns N] [--run-kb N] [--memory-mb N] [--minutes N]
       bench/run snapshot --from FILE [--html FILE] [--docs DIRECTORY]    shows what an earlier run wrote

Without --mechanism all are measured; fork and physical always are. Without --only, all experiments are run.
--column-mb: of each column; those that take turns with the kernel's calls have 16 at least.
--minutes: nothing new is begun when the time is over; a quick run has two unless told.
--docs draws the plots into a directory and puts the tables into its snapshots.md.
";

const MIB: usize = 1 << 20;
/// The greatest number that options accept: a terabyte in MB.
const MOST: usize = MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// A run of two minutes, with 4 GB.
    Quick,
    Default,
    /// A run with the sizes of the papers.
    Full,
}

impl Effort {
    pub fn name(self) -> &'static str {
        match self {
            Effort::Quick => "quick",
            Effort::Default => "default",
            Effort::Full => "full",
        }
    }

    pub fn choose<T>(self, quick: T, default: T, full: T) -> T {
        match self {
            Effort::Quick => quick,
            Effort::Default => default,
            Effort::Full => full,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub effort: Effort,
    mechanisms: Vec<Subject>,
    pub only: Vec<String>,
    column_mb: Option<usize>,
    pub columns: usize,
    pub run_kb: usize,
    memory_mb: Option<u64>,
    minutes: Option<u64>,
    pub json: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub docs: Option<PathBuf>,
    pub from: Option<PathBuf>,
}

impl Options {
    pub fn parse(mut given: impl Iterator<Item = String>, experiments: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            effort: Effort::Default,
            mechanisms: Vec::new(),
            only: Vec::new(),
            column_mb: None,
            columns: 50,
            run_kb: 64,
            memory_mb: None,
            minutes: None,
            json: None,
            html: None,
            docs: None,
            from: None,
        };
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or(format!("{argument} wants a value"));
            let number = |text: String| {
                let parsed = text.parse::<usize>().ok().filter(|number| (1..=MOST).contains(number));
                parsed.ok_or(format!("{argument}: {text} is not a number from 1 to {MOST}"))
            };
            match argument.as_str() {
                "--quick" => options.effort = Effort::Quick,
                "--full" => options.effort = Effort::Full,
                "--mechanism" => options.mechanisms.push(value()?.try_into()?),
                "--only" => options.only.push(value()?),
                "--column-mb" => options.column_mb = Some(number(value()?)?),
                "--columns" => options.columns = number(value()?)?,
                "--run-kb" => options.run_kb = number(value()?)?,
                "--memory-mb" => options.memory_mb = Some(number(value()?)? as u64),
                "--minutes" => options.minutes = Some(number(value()?)? as u64),
                "--json" => options.json = Some(value()?.into()),
                "--html" => options.html = Some(value()?.into()),
                "--docs" => options.docs = Some(value()?.into()),
                "--from" => options.from = Some(value()?.into()),
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        if !options.run_kb.is_power_of_two() || !(16..=1024).contains(&options.run_kb) {
            return Err("--run-kb: a power of two from 16 to 1024".into());
        }
        let whole = options.effort == Effort::Default && options.mechanisms.is_empty() && options.column_mb.is_none();
        if options.docs.is_some() && options.from.is_none() && !(whole && options.columns == 50 && options.run_kb == 64)
        {
            return Err("--docs: the document has the figures of all mechanisms, in their usual sizes".into());
        }
        if let Some(unknown) = options.only.iter().find(|name| !experiments.contains(&name.as_str())) {
            return Err(format!("no experiment is called {unknown}; there are {}", experiments.join(", ")));
        }
        Ok(options)
    }

    /// The subjects to measure. Fork and physical come first, because all others are compared with them.
    pub fn subjects(&self) -> Vec<Subject> {
        let mut all = Subject::all();
        all.sort_by_key(|subject| !self.is_baseline(*subject));
        all.retain(|subject| {
            self.is_baseline(*subject) || self.mechanisms.is_empty() || self.mechanisms.contains(subject)
        });
        all
    }

    fn is_baseline(&self, subject: Subject) -> bool {
        ["fork", "physical"].contains(&subject.name())
    }

    pub fn column_bytes(&self) -> usize {
        self.column_mb.unwrap_or(self.effort.choose(8, 200, 200)) * MIB
    }

    /// The size of a column in experiments in which several processes take turns, and each process has all columns. It
    /// is at least 16 MB, because on an emulated machine the overhead would be a large part of a short call's time.
    pub fn column_bytes_by_turns(&self) -> usize {
        self.column_mb.unwrap_or(self.effort.choose(16, 64, 200)).max(16) * MIB
    }

    /// The size of a column that is measured alone.
    pub fn single_column_bytes(&self) -> usize {
        self.column_mb.unwrap_or(self.effort.choose(64, 200, 200)) * MIB
    }

    pub fn time_limit(&self) -> Option<Duration> {
        let minutes = self.minutes.or(self.effort.choose(Some(2), None, None));
        minutes.map(|minutes| Duration::from_secs(60 * minutes))
    }

    pub fn run_bytes(&self) -> usize {
        self.run_kb << 10
    }

    /// The most memory that may be used, if that much is available.
    pub fn memory_cap(&self) -> u64 {
        let mb = self.memory_mb.unwrap_or(self.effort.choose(4000, u64::MAX >> 20, u64::MAX >> 20));
        mb.saturating_mul(MIB as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &str) -> Result<Options, String> {
        Options::parse(arguments.split_whitespace().map(str::to_owned), &["table1"])
    }

    #[test]
    fn fork_and_physical_are_always_measured() {
        let names = |arguments| parse(arguments).unwrap().subjects().iter().map(|s| s.name()).collect::<Vec<_>>();
        assert!(names("--mechanism frames").contains(&"fork") && names("--mechanism frames").contains(&"frames"));
        assert!(!names("--mechanism frames").contains(&"fork_columns"));
        assert_eq!(names("").len(), Subject::all().len());
    }

    #[test]
    fn columns_that_take_turns_are_never_small() {
        let options = parse("--quick --column-mb 4").unwrap();
        assert_eq!((options.column_bytes(), options.column_bytes_by_turns()), (4 * MIB, 16 * MIB));
        assert_eq!(parse("--column-mb 400").unwrap().column_bytes_by_turns(), 400 * MIB);
    }

    #[test]
    fn nonsense_is_refused() {
        for arguments in [
            "--mechanism nonsense",
            "--only nothing",
            "--columns 0",
            "--run-kb 48",
            "--json",
            "file",
            "--quick --docs docs",
            "--columns 4000000000",
        ] {
            assert!(parse(arguments).is_err(), "{arguments}");
        }
    }
}
