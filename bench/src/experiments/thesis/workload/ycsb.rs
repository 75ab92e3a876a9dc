//! YCSB: records of ten fields. A transaction reads a record, or changes a field of a record.

use std::fmt::Write;

use postgres::{Config, NoTls, Statement};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Transactions;
use super::keys::Keys;
use crate::Result;
use crate::arguments::Parsed;
use crate::rows::{self, Rows};
use crate::sets::Query;

const FIELDS: usize = 10;
const FIELD: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    pub name: String,
    /// The share of transactions that only read.
    reads: f64,
    /// Whether a transaction that changes a record reads it first.
    read_first: bool,
}

impl Mix {
    /// One of YCSB's letters, or a share of reads beside updates, as the thesis has them.
    pub fn parse(name: &str) -> Parsed<Mix> {
        let (reads, read_first) = match name {
            "A" => (0.5, false),
            "B" => (0.95, false),
            "C" => (1.0, false),
            "F" => (0.5, true),
            share => {
                let reads = share.parse().ok().filter(|reads| (0.0..=1.0).contains(reads));
                (reads.ok_or(format!("--mixes: {share} is not A, B, C, F or a share of reads from 0 to 1"))?, false)
            }
        };
        Ok(Mix { name: name.to_owned(), reads, read_first })
    }
}

pub fn load(config: &Config, records: u32) -> Result<()> {
    let mut client = config.connect(NoTls)?;
    client.batch_execute(include_str!("ycsb.sql"))?;
    let mut random = Rows::seeded(0);
    rows::copy(&mut client, "COPY usertable FROM STDIN", 0..records, |out, key| {
        write!(out, "{key}")?;
        (0..FIELDS).try_for_each(|_| write!(out, "\t{}", random.text(FIELD, FIELD)))?;
        writeln!(out)
    })?;
    client.batch_execute("ALTER TABLE usertable ADD PRIMARY KEY (ycsb_key)")?;
    Ok(client.batch_execute("VACUUM ANALYZE")?)
}

/// The analytic query, which reads all fields of all records.
pub fn query() -> Query {
    let lengths: Vec<_> = (0..FIELDS).map(|field| format!("length(field{field})")).collect();
    let sql = format!("SELECT count(*), sum({}) FROM usertable", lengths.join(" + "));
    Query { name: "scan".into(), sql }
}

pub struct Client {
    mix: Mix,
    keys: Keys,
    random: StdRng,
    text: Rows,
    read: Statement,
    updates: Vec<Statement>,
}

impl Client {
    pub fn begin(mix: &Mix, client: &mut postgres::Client, records: u32, seed: u64) -> Result<Client> {
        let update = |field| client.prepare(&format!("UPDATE usertable SET field{field} = $2 WHERE ycsb_key = $1"));
        let updates = (0..FIELDS).map(update).collect::<std::result::Result<_, _>>()?;
        Ok(Client {
            mix: mix.clone(),
            keys: Keys::new(records.into()),
            random: StdRng::seed_from_u64(seed),
            text: Rows::seeded(seed),
            read: client.prepare("SELECT * FROM usertable WHERE ycsb_key = $1")?,
            updates,
        })
    }
}

impl Transactions for Client {
    fn one(&mut self, client: &mut postgres::Client) -> std::result::Result<bool, postgres::Error> {
        let key = self.keys.next(&mut self.random) as i64;
        if self.random.random::<f64>() < self.mix.reads {
            return client.query_one(&self.read, &[&key]).map(|_| false);
        }
        let update = &self.updates[self.random.random_range(0..FIELDS)];
        let value = self.text.text(FIELD, FIELD);
        if self.mix.read_first {
            let mut transaction = client.transaction()?;
            transaction.query_one(&self.read, &[&key])?;
            transaction.execute(update, &[&key, &value])?;
            transaction.commit()?;
        } else {
            client.execute(update, &[&key, &value])?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_letters_or_shares() {
        let reads = |name| Mix::parse(name).map(|mix| (mix.reads, mix.read_first));
        assert_eq!((reads("A"), reads("F"), reads("0.4")), (Ok((0.5, false)), Ok((0.5, true)), Ok((0.4, false))));
        assert!(["E", "1.5", "-1", ""].into_iter().all(|name| reads(name).is_err()));
    }
}
