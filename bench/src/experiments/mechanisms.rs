//! Finds the snapshot mechanisms of the engine that work on this machine, so that they can be compared.

use std::sync::Arc;
use std::time::Duration;

use crate::arguments::Parsed;
use crate::cluster::{Cluster, Options, wait_until};
use crate::server::Server;
use crate::{Result, anker};

/// The value of `--mechanisms`.
#[derive(Clone, PartialEq, Debug)]
pub enum Wanted {
    All,
    These(Vec<String>),
}

/// The mechanism that works on every kernel and need not be tried.
const USUAL: &str = "epochs";
/// The part of the engine's message by which a mechanism that the kernel lacks is recognized.
const MISSING: &str = "does not work here";

/// The error if `--mechanisms` is combined with `--dsn`.
pub const NOT_GIVEN: &str =
    "--mechanisms needs servers of its own: that of --dsn has the mechanism that it was started with";

/// The mechanisms that work on this machine, and those that do not, each with the reason.
pub struct Mechanisms {
    pub there: Vec<String>,
    pub missing: Vec<(String, String)>,
}

impl Wanted {
    pub fn usual() -> Wanted {
        Wanted::These(vec![USUAL.to_owned()])
    }

    pub fn parse(value: &str) -> Parsed<Wanted> {
        match value {
            "all" => Ok(Wanted::All),
            names if names.split(',').any(str::is_empty) => Err(format!("--mechanisms: {names} has an empty name")),
            names => {
                let mut wanted = Vec::new();
                for name in names.split(',').map(str::to_owned) {
                    if wanted.contains(&name) {
                        return Err(format!("--mechanisms: {name} stands there twice"));
                    }
                    wanted.push(name);
                }
                Ok(Wanted::These(wanted))
            }
        }
    }

    pub fn find(&self, server: &Arc<Server>) -> Result<Mechanisms> {
        let mut mechanisms = Mechanisms { there: Vec::new(), missing: Vec::new() };
        if *self == Wanted::usual() {
            mechanisms.there.push(USUAL.to_owned());
            return Ok(mechanisms);
        }
        let known = known(server)?;
        let wanted = match self {
            Wanted::All => known.clone(),
            Wanted::These(names) => names.clone(),
        };
        if let Some(name) = wanted.iter().find(|name| !known.contains(name)) {
            return Err(format!("--mechanisms: {name} is none of {}, or all", known.join(", ")).into());
        }
        for name in wanted {
            eprintln!("looking whether {name} works here");
            match reason_against(server, &name)? {
                None => mechanisms.there.push(name),
                Some(reason) => mechanisms.missing.push((name, reason)),
            }
        }
        Ok(mechanisms)
    }
}

impl Mechanisms {
    /// The only mechanism of an existing server: the one that its engine was started with.
    pub fn given() -> Mechanisms {
        Mechanisms { there: vec!["mirror".into()], missing: Vec::new() }
    }

    /// The missing mechanisms with their reasons, for a report.
    pub fn left_out(&self) -> Vec<String> {
        self.missing.iter().map(|(name, reason)| format!("{name}: {reason}")).collect()
    }
}

/// The values that `anker.mechanism` allows.
fn known(server: &Arc<Server>) -> Result<Vec<String>> {
    let cluster = Cluster::start(server, &Options::default())?;
    let names = "SELECT unnest(enumvals) FROM pg_settings WHERE name = 'anker.mechanism'";
    let names = anker::text_rows(&mut cluster.connect()?, names)?;
    cluster.discard()?;
    Ok(names.into_iter().filter(|name| name != "auto").collect())
}

fn reason_against(server: &Arc<Server>, mechanism: &str) -> Result<Option<String>> {
    let cluster = Cluster::start(server, &Options::default().set("anker.mechanism", mechanism))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE tried (id integer PRIMARY KEY)")?;
    client.batch_execute("SELECT anker.mirror('tried')")?;
    let mut told = String::new();
    let decided = wait_until(Duration::from_secs(60), || {
        told = anker::text_rows(&mut client, "SELECT state, coalesce(reason, '') FROM anker.tables")?.concat();
        Ok(told.starts_with("live|") || told.contains(MISSING))
    })?;
    drop(client);
    cluster.discard()?;
    match told.split_once('|') {
        Some(("live", _)) => Ok(None),
        Some((_, reason)) if decided => Ok(Some(reason.to_owned())),
        _ => Err(format!("{mechanism}: a table with nothing in it is not mirrored: {told}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_list_or_all() {
        assert_eq!(Wanted::parse("all"), Ok(Wanted::All));
        assert_eq!(Wanted::parse("epochs"), Ok(Wanted::usual()));
        assert_eq!(Wanted::parse("scoot,frames"), Ok(Wanted::These(vec!["scoot".into(), "frames".into()])));
        assert!(
            Wanted::parse("scoot,").is_err() && Wanted::parse("scoot,scoot").is_err() && Wanted::parse("").is_err()
        );
    }
}
