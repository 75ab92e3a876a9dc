//! The eight queries of AnKer's Figure 5 on TPC-C's tables, some of whose columns are nullable and have a few NULLs.

use postgres::{Config, NoTls};

use super::Set;
use crate::Result;
use crate::queries;
use crate::tpcc::{self, Scale};

pub const SET: Set = Set {
    name: "anker",
    tables: &queries::TABLES,
    // At this scale there are six million order lines and half a million rows of stock.
    scale: 5.0,
    quick_scale: 1.0,
    scale_is: "warehouses",
    create,
    sql: |_| queries::ANKER.iter().map(|query| format!("\n-- {}\n{};\n", query.name, query.heap())).collect(),
};

/// The number of orders in a district, chosen so that the tables are as large as in the paper.
const ORDERS: u32 = 12_000;

fn create(config: &Config, warehouses: f64) -> Result<()> {
    if warehouses.fract() != 0.0 {
        return Err(format!("{warehouses} warehouses: not a whole number").into());
    }
    tpcc::create(config, Scale { orders: ORDERS, ..Scale::standard(warehouses as u32) })?;
    let nulls = "UPDATE order_line SET ol_amount = NULL WHERE ol_o_id % 1000 = 0 AND ol_number = 1;
                 UPDATE stock SET s_quantity = NULL WHERE s_i_id % 1000 = 0";
    Ok(config.connect(NoTls)?.batch_execute(nulls)?)
}
