//! TPC-H. The crate `tpchgen` generates the same rows as the specification's own generator.

use std::fmt::{Display, Write as _};

use postgres::{Client, Config, NoTls};
use tpchgen::csv::{CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use super::Set;
use crate::{Result, rows};

pub const SET: Set = Set {
    name: "tpch",
    tables: &["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"],
    scale: 1.0,
    quick_scale: 0.05,
    scale_is: "scale factor",
    create,
    sql: queries,
};

fn queries(scale: f64) -> String {
    // Clause 2.4.11.3: the fraction is smaller at greater scales, so that the same number of parts qualifies.
    include_str!("tpch.sql").replace("{fraction}", &format!("{:.10}", 0.0001 / scale))
}

fn create(config: &Config, scale: f64) -> Result<()> {
    let mut client = config.connect(NoTls)?;
    client.batch_execute(include_str!("tpch_tables.sql"))?;
    // There are more lines than all other rows together, so they are loaded in a thread of their own.
    std::thread::scope(|scope| {
        let lines = scope.spawn(|| -> Result<()> {
            let rows = LineItemGenerator::new(scale, 1, 1);
            copy(&mut config.connect(NoTls)?, "lineitem", rows.iter().map(LineItemCsv::new))
        });
        others(&mut client, scale)?;
        lines.join().map_err(|_| "a loader panicked")?
    })?;
    Ok(client.batch_execute(include_str!("tpch_indexes.sql"))?)
}

fn others(client: &mut Client, scale: f64) -> Result<()> {
    copy(client, "region", RegionGenerator::new(scale, 1, 1).iter().map(RegionCsv::new))?;
    copy(client, "nation", NationGenerator::new(scale, 1, 1).iter().map(NationCsv::new))?;
    copy(client, "part", PartGenerator::new(scale, 1, 1).iter().map(PartCsv::new))?;
    copy(client, "supplier", SupplierGenerator::new(scale, 1, 1).iter().map(SupplierCsv::new))?;
    copy(client, "partsupp", PartSuppGenerator::new(scale, 1, 1).iter().map(PartSuppCsv::new))?;
    copy(client, "customer", CustomerGenerator::new(scale, 1, 1).iter().map(CustomerCsv::new))?;
    copy(client, "orders", OrderGenerator::new(scale, 1, 1).iter().map(OrderCsv::new))
}

fn copy<R: Display>(client: &mut Client, table: &str, rows: impl Iterator<Item = R>) -> Result<()> {
    let statement = format!("COPY {table} FROM STDIN (FORMAT csv)");
    rows::copy(client, &statement, rows, |out, row| writeln!(out, "{row}"))
}
