//! TPC-C with the schema of HammerDB: columns have the same names and types, and transactions are functions in the
//! server.

mod clients;
mod load;
mod session;
mod workload;

pub use clients::{Clients, Totals, run_transactions};
pub use load::load;
pub use workload::{Access, Isolation, Kind, Mix, Pace, Workload};

use postgres::{Client, Config, NoTls};

use crate::Result;

/// Every table; `history` has no key.
pub const TABLES: [&str; 9] =
    ["warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"];

/// The amount of data. [`Scale::standard`] has the numbers of the specification.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub warehouses: u32,
    pub districts: u32,
    pub customers: u32,
    pub orders: u32,
    pub items: u32,
}

impl Scale {
    pub fn standard(warehouses: u32) -> Scale {
        Scale { warehouses, districts: 10, customers: 3000, orders: 3000, items: 100_000 }
    }

    /// An amount that is small enough for a test: some 30,000 order lines for a warehouse.
    pub fn small(warehouses: u32) -> Scale {
        Scale { warehouses, districts: 10, customers: 300, orders: 300, items: 10_000 }
    }
}

pub fn create_schema(client: &mut Client) -> Result<()> {
    Ok(client.batch_execute(include_str!("schema.sql"))?)
}

/// Creates keys and indexes, after the rows, and then the transactions.
pub fn finish_schema(client: &mut Client) -> Result<()> {
    client.batch_execute(include_str!("indexes.sql"))?;
    client.batch_execute(include_str!("transactions.sql"))?;
    Ok(client.batch_execute("VACUUM ANALYZE")?)
}

/// Creates a table for the numbers of transactions ([`Workload::numbered`]); clients add their rows.
pub fn numbers(client: &mut Client) -> Result<()> {
    Ok(client.batch_execute(include_str!("numbers.sql"))?)
}

/// Fills a database with TPC-C: tables, rows, keys, indexes and transactions.
pub fn create(config: &Config, scale: Scale) -> Result<()> {
    let mut client = config.connect(NoTls)?;
    create_schema(&mut client)?;
    load(config, scale)?;
    finish_schema(&mut client)
}
