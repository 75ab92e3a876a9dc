//! CH-benCHmark: queries like those of TPC-H on TPC-C's tables, and three additional tables of TPC-H.

use std::fmt::Write as _;

use postgres::{Config, NoTls};

use super::Set;
use crate::Result;
use crate::rows::{Rows, copy};
use crate::tpcc::{self, Scale, Workload};

pub const SET: Set = Set {
    name: "ch",
    tables: &["customer", "new_order", "orders", "order_line", "item", "stock", "supplier", "nation", "region"],
    scale: 1.0,
    quick_scale: 1.0,
    scale_is: "warehouses",
    create,
    sql: |_| include_str!("ch.sql").to_owned(),
};

const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Middle East"];

/// The nations of each region. A nation's key is the code of a digit or letter, so there are as many nations as digits
/// and letters.
const NATIONS: [&[&str]; 5] = [
    &[
        "Algeria",
        "Angola",
        "Cameroon",
        "Egypt",
        "Ethiopia",
        "Ghana",
        "Kenya",
        "Madagascar",
        "Morocco",
        "Mozambique",
        "Namibia",
        "Senegal",
    ],
    &[
        "Argentina",
        "Bolivia",
        "Brazil",
        "Canada",
        "Chile",
        "Colombia",
        "Cuba",
        "Ecuador",
        "Mexico",
        "Peru",
        "United States",
        "Uruguay",
        "Venezuela",
    ],
    &[
        "Bangladesh",
        "Cambodia",
        "China",
        "India",
        "Indonesia",
        "Japan",
        "Malaysia",
        "Mongolia",
        "Nepal",
        "Pakistan",
        "Philippines",
        "Thailand",
        "Vietnam",
    ],
    &[
        "Austria",
        "Belgium",
        "Denmark",
        "Finland",
        "France",
        "Germany",
        "Greece",
        "Hungary",
        "Ireland",
        "Italy",
        "Netherlands",
        "Norway",
        "Poland",
        "Portugal",
        "Spain",
        "Sweden",
        "Switzerland",
    ],
    &["Iran", "Iraq", "Israel", "Jordan", "Lebanon", "Saudi Arabia", "Turkey"],
];

const SUPPLIERS: u32 = 10_000;

/// The number of transactions for each warehouse that run before any query. Without them no stock would be ordered, and
/// no customer would have a balance.
const TRANSACTIONS: u32 = 2000;

fn create(config: &Config, warehouses: f64) -> Result<()> {
    if warehouses.fract() != 0.0 {
        return Err(format!("{warehouses} warehouses: not a whole number").into());
    }
    populate(config, Scale::standard(warehouses as u32))
}

/// Fills the tables, at any scale.
pub fn populate(config: &Config, scale: Scale) -> Result<()> {
    tpcc::create(config, scale)?;
    let workload = Workload::of(scale, 1);
    tpcc::run_transactions(config, workload, TRANSACTIONS * scale.warehouses)?;

    let mut client = config.connect(NoTls)?;
    client.batch_execute(include_str!("ch_tables.sql"))?;
    let mut rows = Rows::seeded(0);
    copy(&mut client, "COPY region FROM STDIN", REGIONS.iter().enumerate(), |out, (key, name)| {
        writeln!(out, "{key}\t{name}\t{}", rows.text(30, 100))
    })?;
    let nations = NATIONS.iter().enumerate().flat_map(|(region, names)| names.iter().map(move |name| (region, name)));
    copy(&mut client, "COPY nation FROM STDIN", keys().zip(nations), |out, (key, (region, name))| {
        writeln!(out, "{key}\t{name}\t{region}\t{}", rows.text(30, 100))
    })?;
    let keys: Vec<u32> = keys().collect();
    copy(&mut client, "COPY supplier FROM STDIN", 0..SUPPLIERS, |out, supplier| {
        let nation = rows.one_of(&keys);
        let (address, phone, balance) = (rows.text(10, 40), rows.digits(15), rows.money(-999.99, 9999.99));
        let complaint = if rows.between(1, 100) == 1 { "bad" } else { "" };
        let comment = rows.text(25, 98);
        writeln!(
            out,
            "{supplier}\tSupplier#{supplier:09}\t{address}\t{nation}\t{phone}\t{balance}\t{comment}{complaint}"
        )
    })
}

/// The nations' keys.
fn keys() -> impl Iterator<Item = u32> {
    ('0'..='9').chain('A'..='Z').chain('a'..='z').map(u32::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_nation_for_each_character() {
        assert_eq!(NATIONS.iter().map(|names| names.len()).sum::<usize>(), 62);
        assert_eq!(keys().count(), 62);
    }
}
