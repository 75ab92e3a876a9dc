//! The initial rows, generated here and sent by COPY, two warehouses at a time.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};

use postgres::{Client, Config, NoTls};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::Scale;
use crate::Result;
use crate::rows::{self, Rows};

const LOADERS: u32 = 2;
const STARTED: &str = "2024-01-01 00:00:00+00";

/// Fills the tables of [`super::create_schema`].
pub fn load(config: &Config, scale: Scale) -> Result<()> {
    let mut client = config.connect(NoTls)?;
    let mut rows = Rows::seeded(0);
    copy(&mut client, "item", scale.items, |out, i| {
        let (name, data) = (rows.text(14, 24), rows.data());
        writeln!(out, "{i}\t{}\t{name}\t{}\t{data}", rows.between(1, 10_000), rows.money(1.0, 100.0))
    })?;
    let next = AtomicU32::new(1);
    std::thread::scope(|scope| {
        let loader = || -> Result<()> {
            let mut client = config.connect(NoTls)?;
            client.batch_execute("SET synchronous_commit = off")?;
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    w if w > scale.warehouses => return Ok(()),
                    w => warehouse(&mut client, scale, w)?,
                }
            }
        };
        let loaders: Vec<_> = (0..LOADERS.min(scale.warehouses)).map(|_| scope.spawn(loader)).collect();
        loaders.into_iter().try_for_each(|l| l.join().map_err(|_| "a loader panicked")?)
    })
}

fn warehouse(client: &mut Client, scale: Scale, w: u32) -> Result<()> {
    let mut rows = Rows::seeded(u64::from(w));
    copy(client, "warehouse", 1, |out, _| {
        let (name, address, tax) = (rows.text(6, 10), rows.address(), rows.fraction(0, 2000));
        writeln!(out, "{w}\t{name}\t{address}\t{tax}\t300000.00")
    })?;
    copy(client, "district", scale.districts, |out, d| {
        let (tax, name, address) = (rows.fraction(0, 2000), rows.text(6, 10), rows.address());
        writeln!(out, "{w}\t{}\t{d}\t30000.00\t{tax}\t{name}\t{address}", scale.orders + 1)
    })?;
    copy(client, "stock", scale.items, |out, i| {
        write!(out, "{i}\t{w}\t0\t{}\t0\t0", rows.between(10, 100))?;
        for _ in 0..10 {
            write!(out, "\t{}", rows.text(24, 24))?;
        }
        writeln!(out, "\t{}", rows.data())
    })?;
    let per_district = |n: u32| move |i: u32| ((i - 1) / n + 1, (i - 1) % n + 1);
    let place = per_district(scale.customers);
    copy(client, "customer", scale.districts * scale.customers, |out, i| {
        let (d, c) = place(i);
        let (first, address, phone) = (rows.text(8, 16), rows.address(), rows.digits(16));
        let credit = if rows.between(1, 10) == 1 { "BC" } else { "GC" };
        let (last, discount, data) =
            (last_name(last_number(&mut rows.random, c)), rows.fraction(0, 5000), rows.text(300, 500));
        writeln!(
            out,
            "{STARTED}\t{c}\t{w}\t{d}\t1\t0\t{first}\tOE\t{last}\t{address}\t{phone}\t{credit}\t50000.00\t{discount}\t\
             -10.00\t10.00\t{data}"
        )
    })?;
    copy(client, "history", scale.districts * scale.customers, |out, i| {
        let (d, c) = place(i);
        writeln!(out, "{STARTED}\t{c}\t{w}\t{w}\t{d}\t{d}\t10.00\t{}", rows.text(12, 24))
    })?;
    orders(client, scale, w, &mut rows)
}

/// Loads a warehouse's orders, of which three in ten are not delivered yet.
fn orders(client: &mut Client, scale: Scale, w: u32, rows: &mut Rows) -> Result<()> {
    let undelivered_from = scale.orders - scale.orders * 3 / 10 + 1;
    for d in 1..=scale.districts {
        let mut customers: Vec<u32> = (0..scale.orders).map(|i| i % scale.customers + 1).collect();
        customers.shuffle(&mut rows.random);
        let lines: Vec<u32> = customers.iter().map(|_| rows.between(5, 15)).collect();
        let delivered = |o: u32| o < undelivered_from;
        copy(client, "orders", scale.orders, |out, o| {
            let (c, count) = (customers[o as usize - 1], lines[o as usize - 1]);
            let carrier = if delivered(o) { rows.between(1, 10).to_string() } else { "\\N".into() };
            writeln!(out, "{STARTED}\t{o}\t{w}\t{c}\t{d}\t{carrier}\t{count}\t1")
        })?;
        copy(client, "order_line", scale.orders, |out, o| {
            for number in 1..=lines[o as usize - 1] {
                let date = if delivered(o) { STARTED } else { "\\N" };
                let (item, amount, info) = (rows.between(1, scale.items), rows.money(0.01, 9999.99), rows.text(24, 24));
                writeln!(out, "{date}\t{o}\t{w}\t{item}\t{w}\t{d}\t{number}\t5\t{amount}\t{info}")?;
            }
            Ok(())
        })?;
        copy(client, "new_order", scale.orders - undelivered_from + 1, |out, i| {
            writeln!(out, "{w}\t{}\t{d}", undelivered_from + i - 1)
        })?;
    }
    Ok(())
}

/// Runs a COPY of the rows that `row` writes for 1 to `count`.
fn copy(
    client: &mut Client,
    table: &str,
    count: u32,
    row: impl FnMut(&mut String, u32) -> std::fmt::Result,
) -> Result<()> {
    rows::copy(client, &format!("COPY {table} FROM STDIN"), 1..=count, row)
}

/// A customer's last name, made from a number as clause 4.3.2.3 of the specification says.
pub(super) fn last_name(number: u32) -> String {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10, number].iter().map(|n| SYLLABLES[(n % 10) as usize]).collect()
}

/// The number for a customer's last name. Each of the thousand names occurs once among the first thousand customers of
/// a district.
fn last_number(random: &mut StdRng, customer: u32) -> u32 {
    if customer <= 1000 { customer - 1 } else { random.random_range(0..1000) }
}
