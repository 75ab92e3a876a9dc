//! An installation of HammerDB. Each task, such as building the schema or a run, is a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::log::{Outcome, Said};
use crate::Result;
use crate::cluster::tail;
use crate::server::run;

const SCRIPT: &str = include_str!("../../../hammerdb/drive.tcl");
const HINT: &str = "bench/hammerdb/README.md says how to get HammerDB and what it needs";

/// A setting of HammerDB's command line: a name of `drive.tcl`, and a value.
pub type Setting = (&'static str, String);

pub struct Installation {
    home: PathBuf,
    tclsh: PathBuf,
    /// The directory for HammerDB's temporary files. HammerDB also keeps settings and results of runs there.
    scratch: PathBuf,
    /// Versions of HammerDB, Tcl and its client library.
    pub versions: String,
}

impl Installation {
    /// The installation in `HAMMERDB_HOME`; its output goes below `scratch`.
    pub fn find(scratch: &Path) -> Result<Installation> {
        let home = std::env::var_os("HAMMERDB_HOME").ok_or_else(|| format!("HAMMERDB_HOME is not set: {HINT}"))?;
        Installation::at(Path::new(&home), scratch)
    }

    pub fn at(home: &Path, scratch: &Path) -> Result<Installation> {
        let command_line = home.join("hammerdbcli");
        let source = fs::read_to_string(&command_line)
            .map_err(|e| format!("{}: {e}: HAMMERDB_HOME is not a HammerDB: {HINT}", command_line.display()))?;
        let home = fs::canonicalize(home)?;
        let tclsh = tclsh(&home, &source);
        fs::create_dir_all(scratch)?;
        fs::write(scratch.join("drive.tcl"), SCRIPT)?;
        let mut installation = Installation { home, tclsh, scratch: scratch.to_owned(), versions: String::new() };
        let libraries = run(installation.command("check").stdin(Stdio::null()))
            .map_err(|e| format!("HammerDB cannot run: {HINT}\n{e}"))?;
        let version = source.lines().find_map(|line| line.strip_prefix("set hdb_version ")).unwrap_or("?");
        installation.versions = format!("HammerDB {}, {}", version.trim_matches('"'), libraries.trim());
        Ok(installation)
    }

    fn command(&self, task: &str) -> Command {
        let mut command = Command::new(&self.tclsh);
        command.arg(self.scratch.join("drive.tcl")).arg(task).current_dir(&self.home);
        command.env("TMP", &self.scratch);
        if self.tclsh.starts_with(&self.home) {
            command.env("LD_LIBRARY_PATH", self.home.join("lib"));
        }
        command
    }

    /// Builds the schema with a few virtual users, but not with more users than warehouses, because additional users
    /// would have nothing to do.
    pub fn build(&self, settings: &[Setting], warehouses: u32) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let builders = cores.min(warehouses);
        let mut settings = settings.to_vec();
        settings.push(("count_ware", warehouses.to_string()));
        settings.push(("num_vu", builders.to_string()));
        let task = Task::start(self, "build", &settings, Duration::from_secs(300 + 60 * u64::from(warehouses)))?;
        // A single virtual user builds the schema alone. If there are several, HammerDB adds one that monitors them.
        let users = if builders > 1 { builders + 1 } else { 1 };
        task.finish(|outcome| outcome.built(users))
    }

    /// A timed run with `users` working users.
    pub fn run(&self, settings: &[Setting], users: u32, limit: Duration) -> Result<Task> {
        let mut settings = settings.to_vec();
        settings.push(("users", users.to_string()));
        Task::start(self, "run", &settings, limit)
    }
}

/// The Tcl interpreter that the first lines of HammerDB's command line program name. It is in HammerDB's directory
/// `bin`, or is found by PATH.
fn tclsh(home: &Path, source: &str) -> PathBuf {
    let asked = source.split_once("exec ./bin/").and_then(|(_, rest)| rest.split_whitespace().next());
    let asked = asked.unwrap_or("tclsh");
    let own = home.join("bin").join(asked);
    if own.exists() { own } else { asked.into() }
}

/// A process of HammerDB. It is killed when this value is dropped.
pub struct Task {
    child: Child,
    said: Receiver<Said>,
    outcome: Outcome,
    log: PathBuf,
    deadline: Instant,
}

impl Task {
    fn start(installation: &Installation, name: &str, settings: &[Setting], limit: Duration) -> Result<Task> {
        let log = installation.scratch.join(format!("{name}.log"));
        let (reader, writer) = std::io::pipe()?;
        let mut command = installation.command(name);
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}: {HINT}", installation.tclsh.display()))?;
        // Closes our copies of the task's pipe ends. Otherwise the end of its output would not be noticed.
        drop(command);
        let (sender, said) = mpsc::channel();
        let copy = fs::File::create(&log)?;
        std::thread::spawn(move || listen(reader, copy, &sender));
        let given: String = settings.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let mut stdin = child.stdin.take().ok_or("a process without the input that it was given")?;
        let task = Task { child, said, outcome: Outcome::default(), log, deadline: Instant::now() + limit };
        // If the process has ended already, writing fails. Its output then contains the reason.
        let _ = stdin.write_all(given.as_bytes());
        Ok(task)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process prints a line with this meaning. Returns an error if the process reports a failure
    /// before.
    pub fn wait_for(&mut self, wanted: &Said) -> Result<()> {
        loop {
            match self.next()? {
                Some(said) if said == *wanted => return Ok(()),
                Some(_) => {}
                None => return Err(self.error("it ended too soon")),
            }
        }
    }

    /// Waits for the end of the process, and returns the result of `conclude` for its whole output.
    pub fn finish<T>(mut self, conclude: impl FnOnce(&Outcome) -> Result<T>) -> Result<T> {
        while self.next()?.is_some() {}
        let status = self.child.wait()?;
        if !status.success() {
            return Err(self.error(&status.to_string()));
        }
        conclude(&self.outcome).map_err(|why| self.error(&why.to_string()))
    }

    fn next(&mut self) -> Result<Option<Said>> {
        match self.said.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
            Ok(said) => {
                self.outcome.note(&said).map_err(|why| self.error(&why.to_string()))?;
                Ok(Some(said))
            }
            Err(RecvTimeoutError::Timeout) => Err(self.error("it does not come to an end")),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }

    fn error(&self, why: &str) -> crate::Error {
        let log = fs::read(&self.log).unwrap_or_default();
        format!("HammerDB: {why}\n{}", tail(&String::from_utf8_lossy(&log), 15)).into()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(reader: PipeReader, mut copy: fs::File, said: &Sender<Said>) {
    for line in BufReader::new(reader).split(b'\n') {
        let Ok(line) = line else { return };
        let line = String::from_utf8_lossy(&line);
        // The copy of the output is only for people who want to read it, so a failure to write it does not matter.
        let _ = writeln!(copy, "{}", line.trim());
        if let Some(what) = Said::of(&line)
            && said.send(what).is_err()
        {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_at(home: &str) -> String {
        Installation::at(Path::new(home), &std::env::temp_dir()).err().expect("nothing is there").to_string()
    }

    #[test]
    fn what_is_no_installation_is_told_with_a_hint() {
        let error = error_at("/nowhere");
        assert!(error.contains("/nowhere/hammerdbcli") && error.contains("README"), "{error}");
    }

    #[test]
    fn the_shell_is_the_one_that_the_command_line_asks_for() {
        let source = "#!/bin/sh\n## \\\nexec ./bin/tclsh8.6 \"$0\"\n";
        assert_eq!(tclsh(Path::new("/nowhere"), source), Path::new("tclsh8.6"));
    }
}
