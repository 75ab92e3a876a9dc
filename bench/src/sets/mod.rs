//! Sets of analytic queries that others have defined, with their data: AnKer's eight, TPC-H, CH-benCHmark, the Star
//! Schema Benchmark.

mod anker;
mod ch;
pub mod peers;
mod ssb;
mod tpch;
mod whole;

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

pub use ch::populate as populate_ch;
pub use whole::{Answered, answered};

use crate::cluster::Options;
use crate::queries::{COMPARING, Compared};
use crate::{Result, anker as extension};

pub struct Set {
    pub name: &'static str,
    /// The tables that the set's queries read.
    pub tables: &'static [&'static str],
    /// The scale if none is given, and the scale of a quick run.
    pub scale: f64,
    pub quick_scale: f64,
    /// The unit of the scale, for the report.
    pub scale_is: &'static str,
    create: fn(&Config, f64) -> Result<()>,
    sql: fn(f64) -> String,
}

pub const SETS: [&Set; 4] = [&anker::SET, &tpch::SET, &ch::SET, &ssb::SET];

pub struct Query {
    pub name: String,
    pub sql: String,
}

impl Set {
    pub fn named(name: &str) -> Option<&'static Set> {
        SETS.into_iter().find(|set| set.name == name)
    }

    /// Creates tables with their rows, keys, indexes and statistics.
    pub fn create(&self, config: &Config, scale: f64) -> Result<()> {
        (self.create)(config, scale)?;
        Ok(config.connect(NoTls)?.batch_execute("VACUUM ANALYZE")?)
    }

    pub fn queries(&self, scale: f64) -> Vec<Query> {
        split(&(self.sql)(scale))
    }
}

/// Options of a server whose settings give the heap good plans. Databases have collation "C", so that both sides order
/// texts by bytes.
pub fn cluster_options() -> Options {
    let settings = [
        ("anker.memory", "8GB"),
        ("shared_buffers", "2GB"),
        ("effective_cache_size", "8GB"),
        ("work_mem", "64MB"),
        ("random_page_cost", "1.1"),
    ];
    settings.iter().fold(Options::default().locale("C", "UTF8"), |options, (name, value)| options.set(name, value))
}

/// The queries of a file: each stands below a line `-- Q1: title` and ends with a semicolon.
fn split(file: &str) -> Vec<Query> {
    let query = |part: &str| {
        let (title, sql) = part.split_once('\n').unwrap_or((part, ""));
        let name = title.split(':').next().unwrap_or(title);
        Query { name: format!("Q{name}"), sql: sql.trim().trim_end_matches(';').to_owned() }
    };
    file.split("\n-- Q").skip(1).map(query).collect()
}

/// Whether the queries of a session go to the engine if they can.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Off,
    Prefer,
    Auto,
}

impl Route {
    pub fn setting(self) -> &'static str {
        match self {
            Route::Off => "SET anker.route = off",
            Route::Prefer => "SET anker.route = prefer",
            Route::Auto => "SET anker.route = auto",
        }
    }
}

/// The answers of heap and mirror under one snapshot, for a query that the engine answers as a whole. `None` if
/// statement_timeout cancelled one of them.
pub fn compare(client: &mut Client, query: &Query) -> Result<Option<Compared>> {
    client.batch_execute(COMPARING)?;
    let mut rows = |route: Route| -> Result<Vec<String>> {
        client.batch_execute(route.setting())?;
        extension::text_rows(client, &query.sql)
    };
    let both = rows(Route::Off).and_then(|heap| Ok(Compared { heap, mirror: rows(Route::Prefer)? }));
    client.batch_execute("ROLLBACK")?;
    unless_timed_out(both)
}

/// The statement's result; `None` if statement_timeout has cancelled it.
pub fn unless_timed_out<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.downcast_ref::<postgres::Error>().and_then(postgres::Error::code) {
            Some(&SqlState::QUERY_CANCELED) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_has_its_queries() {
        let of = |set: &Set| set.queries(1.0).iter().map(|q| q.name.clone()).collect::<Vec<_>>();
        let numbered: Vec<String> = (1..=22).map(|n| format!("Q{n}")).collect();
        assert_eq!(of(&tpch::SET), numbered);
        assert_eq!(of(&ch::SET), numbered);
        assert_eq!(of(&anker::SET), numbered[..8]);
        assert_eq!(of(&ssb::SET).join(" "), "Q1.1 Q1.2 Q1.3 Q2.1 Q2.2 Q2.3 Q3.1 Q3.2 Q3.3 Q3.4 Q4.1 Q4.2 Q4.3");
        for query in SETS.iter().flat_map(|set| set.queries(1.0)) {
            assert!(query.sql.starts_with("SELECT") || query.sql.starts_with("WITH"), "{}", query.sql);
            assert!(!query.sql.contains([';', '{']), "{}", query.sql);
        }
    }
}
