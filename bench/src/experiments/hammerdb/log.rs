//! Interprets HammerDB's output.
//!
//! HammerDB's virtual users are threads. A user that fails prints a line and ends, but the run goes on without this
//! user, and still prints a throughput. So each line that looks like a failure counts as a failure of the run. Some
//! failures print nothing, because HammerDB does not print errors that contain the word "index". So a run counts only
//! if each of its users, including the monitor, reports that it has finished.

use std::collections::BTreeSet;

use crate::Result;

/// The throughput of a run by HammerDB's own count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// New orders a minute.
    pub nopm: f64,
    /// Transactions a minute of all clients of the server. This includes an analytic stream, so it cannot be compared
    /// between runs with a stream and without.
    pub tpm: f64,
}

/// The meaning of a line of the output.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The users run transactions, and HammerDB counts them from now on.
    CountingBegins,
    CountingEnds,
    Achieved(Achieved),
    SchemaComplete,
    /// The virtual user of this number has done its work.
    Finished(u32),
    Failed(String),
}

impl Said {
    pub fn of(line: &str) -> Option<Said> {
        const FAILURES: [&str; 6] = [
            "Error in ",
            "Error:",
            "FINISHED FAILED",
            "Procedure Error set RAISEERROR",
            "Background Error",
            "a running Virtual User was terminated",
        ];
        // Lines of threads may begin with a carriage return, with which they overwrite the prompt in a terminal.
        let line = line.trim();
        if FAILURES.iter().any(|failure| line.contains(failure)) || line.starts_with("Failed to ") {
            return Some(Said::Failed(line.to_owned()));
        }
        if line.contains("Taking start Transaction Count") {
            return Some(Said::CountingBegins);
        }
        if line.contains("Taking end Transaction Count") {
            return Some(Said::CountingEnds);
        }
        if line.ends_with("SCHEMA COMPLETE") {
            return Some(Said::SchemaComplete);
        }
        if let Some(user) = line.strip_suffix(":FINISHED SUCCESS") {
            return Some(Said::Finished(user.strip_prefix("Vuser")?.trim().parse().ok()?));
        }
        line.split_once("TEST RESULT").and_then(|(_, result)| achieved(result)).map(Said::Achieved)
    }
}

/// Reads a line such as `System achieved 46123 NOPM from 107344 PostgreSQL TPM`. With one of HammerDB's options, the
/// two figures come in the reverse order.
fn achieved(result: &str) -> Option<Achieved> {
    let words: Vec<&str> = result.split_whitespace().collect();
    let number_before = |unit: &str| {
        let at = words.iter().position(|word| *word == unit)?;
        words[..at].iter().rev().find_map(|word| word.parse::<f64>().ok())
    };
    Some(Achieved { nopm: number_before("NOPM")?, tpm: number_before("TPM")? })
}

/// The whole output of a task.
#[derive(Debug, Default)]
pub struct Outcome {
    achieved: Option<Achieved>,
    schema_complete: bool,
    finished: BTreeSet<u32>,
}

impl Outcome {
    pub fn note(&mut self, said: &Said) -> Result<()> {
        match said {
            Said::Failed(why) => return Err(why.as_str().into()),
            Said::Achieved(achieved) => self.achieved = Some(*achieved),
            Said::SchemaComplete => self.schema_complete = true,
            Said::Finished(user) => _ = self.finished.insert(*user),
            Said::CountingBegins | Said::CountingEnds => {}
        }
        Ok(())
    }

    /// Checks the output of a build by `users` virtual users.
    pub fn built(&self, users: u32) -> Result<()> {
        self.all_finished(users)?;
        if self.schema_complete { Ok(()) } else { Err("the schema was not completed".into()) }
    }

    /// Checks the output of a run with `users` working virtual users and one that watches them.
    pub fn ran(&self, users: u32) -> Result<Achieved> {
        self.all_finished(users + 1)?;
        self.achieved.ok_or_else(|| "there is no result".into())
    }

    fn all_finished(&self, users: u32) -> Result<()> {
        let missing: Vec<String> =
            (1..=users).filter(|user| !self.finished.contains(user)).map(|user| user.to_string()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("virtual users that did not come to their end: {}", missing.join(", ")).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        text.lines().filter_map(Said::of).try_for_each(|said| outcome.note(&said))?;
        Ok(outcome)
    }

    const RUN: &str = "\
        Changed tpcc:pg_raiseerror from false to true for PostgreSQL\n\
        \rVuser 1 created MONITOR - WAIT IDLE\n\
        \rVuser 2:RUNNING\n\
        \rVuser 1:Rampup complete, Taking start Transaction Count.\n\
        \rVuser 1:Test complete, Taking end Transaction Count.\n\
        \rVuser 1:TEST RESULT : System achieved 4711 NOPM from 10815 PostgreSQL TPM\n\
        \rVuser 3:FINISHED SUCCESS\n\
        \rVuser 1:FINISHED SUCCESS\n\
        \rVuser 2:FINISHED SUCCESS\n\
        \rALL VIRTUAL USERS COMPLETE\n";

    #[test]
    fn a_run_has_figures_and_a_beginning_and_an_end() {
        assert_eq!(outcome(RUN).unwrap().ran(2).unwrap(), Achieved { nopm: 4711.0, tpm: 10815.0 });
        let said: Vec<Said> = RUN.lines().filter_map(Said::of).collect();
        assert_eq!(said[..2], [Said::CountingBegins, Said::CountingEnds]);
    }

    #[test]
    fn figures_of_parts_of_minutes_and_in_the_other_order() {
        let of = |line: &str| match Said::of(line) {
            Some(Said::Achieved(Achieved { nopm, tpm })) => (nopm, tpm),
            other => panic!("{other:?}"),
        };
        assert_eq!(of("Vuser 1:TEST RESULT : System achieved 20.5 NOPM from 47.25 PostgreSQL TPM"), (20.5, 47.25));
        assert_eq!(of("Vuser 1:TEST RESULT : System achieved 47 PostgreSQL TPM at 20 NOPM"), (20.0, 47.0));
        assert_eq!(Said::of("Vuser 1:TEST RESULT : System achieved nothing"), None);
    }

    #[test]
    fn a_failed_user_fails_the_run_whatever_it_achieved() {
        for failure in [
            "Error in Virtual User 3: no connection to the server",
            "\rVuser 3:FINISHED FAILED",
            "Vuser 2:New Order Procedure Error set RAISEERROR for Details",
            "Error: Virtual Users exist, destroy with vudestroy before creating",
            "Failed to create virtual users: no memory",
        ] {
            let error = outcome(&format!("{failure}\n{RUN}")).unwrap_err().to_string();
            assert!(failure.contains(&error), "{error}");
        }
    }

    #[test]
    fn a_user_that_is_silent_fails_the_run() {
        let error = outcome(RUN).unwrap().ran(4).unwrap_err().to_string();
        assert!(error.ends_with(": 4, 5"), "{error}");
        let unfinished = RUN.replace("TEST RESULT", "NOTHING");
        assert_eq!(outcome(&unfinished).unwrap().ran(2).unwrap_err().to_string(), "there is no result");
    }

    #[test]
    fn a_build_is_complete_or_not() {
        let build = "Vuser 1:CREATING TPCC INDEXES\nVuser 1:TPCC SCHEMA COMPLETE\nVuser 1:FINISHED SUCCESS\n";
        outcome(build).unwrap().built(1).unwrap();
        assert!(outcome(build).unwrap().built(2).is_err());
        assert!(outcome("Vuser 1:FINISHED SUCCESS").unwrap().built(1).is_err());
    }
}
