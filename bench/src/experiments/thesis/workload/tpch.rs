//! TPC-H's three largest tables, with the thesis' nine transactions that change them.

use std::sync::Arc;

use postgres::{Client, Config, NoTls, Statement};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Transactions;
use crate::Result;
use crate::sets::{Query, Set};

const TRANSACTIONS: usize = 9;

pub fn load(config: &Config, scale: f64) -> Result<()> {
    set()?.create(config, scale)?;
    Ok(config.connect(NoTls)?.batch_execute(include_str!("tpch.sql"))?)
}

pub fn query(scale: f64, name: &str) -> Result<Query> {
    let found = set()?.queries(scale).into_iter().find(|query| query.name == name);
    Ok(found.ok_or(format!("TPC-H has no {name}"))?)
}

fn set() -> Result<&'static Set> {
    Ok(Set::named("tpch").ok_or("no TPC-H")?)
}

/// The rows that transactions can change: the number of lines of each order, and the number of parts.
pub struct Lines {
    orders: Vec<(i64, i32)>,
    parts: i32,
}

impl Lines {
    pub fn read(client: &mut Client) -> Result<Lines> {
        use postgres::fallible_iterator::FallibleIterator;
        let orders = "SELECT l_orderkey, max(l_linenumber) FROM lineitem GROUP BY l_orderkey ORDER BY l_orderkey";
        let rows = client.query_raw(orders, std::iter::empty::<i32>())?;
        let orders: Vec<(i64, i32)> = rows.map(|row| Ok((row.get(0), row.get(1)))).collect()?;
        let parts: i32 = client.query_one("SELECT count(*)::integer FROM part", &[])?.get(0);
        if orders.is_empty() || parts == 0 {
            return Err("there are no orders, or no parts".into());
        }
        Ok(Lines { orders, parts })
    }
}

pub struct Updates {
    statements: Vec<Statement>,
    lines: Arc<Lines>,
    random: StdRng,
}

impl Updates {
    pub fn begin(client: &mut Client, lines: Arc<Lines>, seed: u64) -> Result<Updates> {
        let prepare = |number| client.prepare(&format!("SELECT tpch_update_{number}($1, $2, $3, $4, $5, $6)"));
        let statements = (1..=TRANSACTIONS).map(prepare).collect::<std::result::Result<_, _>>()?;
        Ok(Updates { statements, lines, random: StdRng::seed_from_u64(seed) })
    }

    /// Draws an order, one of its lines, and a part.
    fn draw(&mut self) -> (i64, i32, i32) {
        let (order, lines) = self.lines.orders[self.random.random_range(0..self.lines.orders.len())];
        (order, self.random.random_range(1..=lines), self.random.random_range(1..=self.lines.parts))
    }
}

impl Transactions for Updates {
    fn one(&mut self, client: &mut Client) -> std::result::Result<bool, postgres::Error> {
        let (to, from) = (self.draw(), self.draw());
        let statement = &self.statements[self.random.random_range(0..TRANSACTIONS)];
        client.execute(statement, &[&to.0, &to.1, &to.2, &from.0, &from.1, &from.2]).map(|_| true)
    }
}
