//! The two workloads: their tables, their transactions, and the analytic query.

mod keys;
mod tpch;
mod ycsb;

use std::sync::Arc;

use postgres::{Client, Config};
use serde_json::{Value, json};

use crate::Result;
use crate::arguments::Parsed;
use crate::sets::Query;

pub use tpch::Lines;

/// One of the workloads at one size.
#[derive(Clone)]
pub enum Workload {
    /// YCSB with that many records.
    Ycsb { records: u32 },
    /// TPC-H at this scale factor, with one of its queries.
    Tpch { scale: f64, query: String },
}

/// The mix from which a client's transactions are drawn.
#[derive(Clone)]
pub enum Mix {
    Ycsb(ycsb::Mix),
    /// One of the nine transactions, drawn evenly.
    Nine,
}

/// Data that transactions need to choose their rows. All clients share these data.
#[derive(Clone)]
pub enum Rows {
    Records(u32),
    Lines(Arc<Lines>),
}

/// A client's transactions.
pub trait Transactions: Send {
    /// Runs the next transaction; returns whether it has changed anything.
    fn one(&mut self, client: &mut Client) -> std::result::Result<bool, postgres::Error>;
}

impl Workload {
    pub fn name(&self) -> &'static str {
        match self {
            Workload::Ycsb { .. } => "ycsb",
            Workload::Tpch { .. } => "tpch",
        }
    }

    /// The number of records, or the scale factor.
    pub fn size(&self) -> Value {
        match self {
            Workload::Ycsb { records } => json!(records),
            Workload::Tpch { scale, .. } => json!(scale),
        }
    }

    pub fn tables(&self) -> &'static [&'static str] {
        match self {
            Workload::Ycsb { .. } => &["usertable"],
            Workload::Tpch { .. } => &["lineitem", "orders", "part"],
        }
    }

    pub fn load(&self, config: &Config) -> Result<()> {
        match self {
            Workload::Ycsb { records } => ycsb::load(config, *records),
            Workload::Tpch { scale, .. } => tpch::load(config, *scale),
        }
    }

    pub fn rows(&self, client: &mut Client) -> Result<Rows> {
        Ok(match self {
            Workload::Ycsb { records } => Rows::Records(*records),
            Workload::Tpch { .. } => Rows::Lines(Arc::new(Lines::read(client)?)),
        })
    }

    /// The query that is injected.
    pub fn query(&self) -> Result<Query> {
        match self {
            Workload::Ycsb { .. } => Ok(ycsb::query()),
            Workload::Tpch { scale, query } => tpch::query(*scale, query),
        }
    }
}

impl Mix {
    pub fn parse(name: &str) -> Parsed<Mix> {
        ycsb::Mix::parse(name).map(Mix::Ycsb)
    }

    pub fn name(&self) -> String {
        match self {
            Mix::Ycsb(mix) => mix.name.clone(),
            Mix::Nine => "nine updates".into(),
        }
    }

    /// A client's transactions. The same seed gives the same transactions.
    pub fn begin(&self, client: &mut Client, rows: &Rows, seed: u64) -> Result<Box<dyn Transactions>> {
        match (self, rows) {
            (Mix::Ycsb(mix), Rows::Records(records)) => Ok(Box::new(ycsb::Client::begin(mix, client, *records, seed)?)),
            (Mix::Nine, Rows::Lines(lines)) => Ok(Box::new(tpch::Updates::begin(client, lines.clone(), seed)?)),
            _ => Err("a mix of another workload".into()),
        }
    }
}
