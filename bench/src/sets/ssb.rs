//! The Star Schema Benchmark: TPC-H's orders and lines as one fact table, with four dimension tables.

use std::fmt::{self, Write as _};

use postgres::{Client, Config, NoTls};

use super::Set;
use crate::Result;
use crate::rows::{Rows, copy};

pub const SET: Set = Set {
    name: "ssb",
    tables: &["customer", "supplier", "part", "date", "lineorder"],
    scale: 1.0,
    quick_scale: 0.05,
    scale_is: "scale factor",
    create,
    sql: |_| include_str!("ssb.sql").to_owned(),
};

/// TPC-H's nations and their regions.
const NATIONS: [(&str, &str); 25] = [
    ("ALGERIA", "AFRICA"),
    ("ARGENTINA", "AMERICA"),
    ("BRAZIL", "AMERICA"),
    ("CANADA", "AMERICA"),
    ("EGYPT", "MIDDLE EAST"),
    ("ETHIOPIA", "AFRICA"),
    ("FRANCE", "EUROPE"),
    ("GERMANY", "EUROPE"),
    ("INDIA", "ASIA"),
    ("INDONESIA", "ASIA"),
    ("IRAN", "MIDDLE EAST"),
    ("IRAQ", "MIDDLE EAST"),
    ("JAPAN", "ASIA"),
    ("JORDAN", "MIDDLE EAST"),
    ("KENYA", "AFRICA"),
    ("MOROCCO", "AFRICA"),
    ("MOZAMBIQUE", "AFRICA"),
    ("PERU", "AMERICA"),
    ("CHINA", "ASIA"),
    ("ROMANIA", "EUROPE"),
    ("SAUDI ARABIA", "MIDDLE EAST"),
    ("VIETNAM", "ASIA"),
    ("RUSSIA", "EUROPE"),
    ("UNITED KINGDOM", "EUROPE"),
    ("UNITED STATES", "AMERICA"),
];
const SEGMENTS: [&str; 5] = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"];
const COLORS: [&str; 8] = ["almond", "azure", "coral", "forest", "green", "ivory", "plum", "turquoise"];
const TYPES: [&str; 6] = ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"];
const METALS: [&str; 5] = ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"];
const CONTAINERS: [&str; 4] = ["SM CASE", "MED BOX", "LG PACK", "JUMBO JAR"];
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW"];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// The number of rows of each kind; an order has four lines on average.
struct Counts {
    customers: u32,
    suppliers: u32,
    parts: u32,
    orders: u32,
}

impl Counts {
    fn of(scale: f64) -> Counts {
        let times = |rows: f64| ((rows * scale) as u32).max(1);
        // At scales from 1 on, the number of parts grows with the logarithm of the scale. At smaller scales it is
        // proportional to the scale.
        let parts = if scale >= 1.0 { (200e3 * (1.0 + scale.log2().floor())) as u32 } else { times(200e3) };
        Counts { customers: times(30e3), suppliers: times(2e3), parts, orders: times(1.5e6) }
    }
}

fn create(config: &Config, scale: f64) -> Result<()> {
    let counts = Counts::of(scale);
    let mut client = config.connect(NoTls)?;
    client.batch_execute(include_str!("ssb_tables.sql"))?;
    dimensions(&mut client, &counts)?;
    facts(&mut client, &counts)?;
    Ok(client.batch_execute(include_str!("ssb_indexes.sql"))?)
}

fn dimensions(client: &mut Client, counts: &Counts) -> Result<()> {
    let mut rows = Rows::seeded(1);
    copy(client, "COPY customer FROM STDIN", 1..=counts.customers, |out, key| {
        let (place, segment) = (place(&mut rows), rows.one_of(&SEGMENTS));
        writeln!(out, "{key}\tCustomer#{key:09}\t{}\t{place}\t{}\t{segment}", rows.text(15, 25), rows.digits(15))
    })?;
    copy(client, "COPY supplier FROM STDIN", 1..=counts.suppliers, |out, key| {
        let place = place(&mut rows);
        writeln!(out, "{key}\tSupplier#{key:09}\t{}\t{place}\t{}", rows.text(15, 25), rows.digits(15))
    })?;
    copy(client, "COPY part FROM STDIN", 1..=counts.parts, |out, key| {
        let category = format!("MFGR#{}{}", rows.between(1, 5), rows.between(1, 5));
        let (maker, brand) = (&category[..6], rows.between(1, 40));
        let (color, other, kind, metal) =
            (rows.one_of(&COLORS), rows.one_of(&COLORS), rows.one_of(&TYPES), rows.one_of(&METALS));
        let (size, container) = (rows.between(1, 50), rows.one_of(&CONTAINERS));
        writeln!(
            out,
            "{key}\t{color} {other}\t{maker}\t{category}\t{category}{brand}\t{color}\t{kind} {metal}\t{size}\t{container}"
        )
    })
}

/// A random city with its nation and region. A nation has ten cities; a city's name is the nation's name and a digit.
fn place(rows: &mut Rows) -> String {
    let (nation, region) = rows.one_of(&NATIONS);
    format!("{nation:<9.9}{}\t{nation}\t{region}", rows.between(0, 9))
}

fn facts(client: &mut Client, counts: &Counts) -> Result<()> {
    let days: Vec<i32> =
        client.query("SELECT d_datekey FROM date ORDER BY d_datekey", &[])?.iter().map(|row| row.get(0)).collect();
    // As in TPC-H the last orders are 151 days older than the last day.
    let last = days.len() as u32 - 152;
    let mut rows = Rows::seeded(2);
    copy(client, "COPY lineorder FROM STDIN", 1..=counts.orders, |out, order| {
        let (customer, day) = (rows.between(1, counts.customers), rows.between(0, last));
        let (priority, date) = (rows.one_of(&PRIORITIES), days[day as usize]);
        let lines: Vec<Line> = (0..rows.between(1, 7)).map(|_| Line::random(&mut rows, counts)).collect();
        let total: u32 = lines.iter().map(|line| line.revenue() * (100 + line.tax) / 100).sum();
        for (number, line) in (1..).zip(&lines) {
            let commit = days[(day + rows.between(30, 90)) as usize];
            write!(out, "{order}\t{number}\t{customer}\t{}\t{}\t{date}\t{priority}\t0\t", line.part, line.supplier)?;
            line.figures(out, total)?;
            writeln!(out, "\t{commit}\t{}", rows.one_of(&MODES))?;
        }
        Ok(())
    })
}

struct Line {
    part: u32,
    supplier: u32,
    quantity: u32,
    /// The price of one piece in cents.
    price: u32,
    /// The discount in percent; `tax` is in percent, too.
    discount: u32,
    tax: u32,
}

impl Line {
    fn random(rows: &mut Rows, counts: &Counts) -> Line {
        let part = rows.between(1, counts.parts);
        Line {
            part,
            supplier: rows.between(1, counts.suppliers),
            quantity: rows.between(1, 50),
            price: 90_000 + part / 10 % 20_001 + 100 * (part % 1000),
            discount: rows.between(0, 10),
            tax: rows.between(0, 8),
        }
    }

    fn revenue(&self) -> u32 {
        self.quantity * self.price * (100 - self.discount) / 100
    }

    /// Appends the columns from lo_quantity to lo_tax.
    fn figures(&self, out: &mut String, total: u32) -> fmt::Result {
        let (extended, cost) = (self.quantity * self.price, self.price * 6 / 10);
        write!(
            out,
            "{}\t{extended}\t{total}\t{}\t{}\t{cost}\t{}",
            self.quantity,
            self.discount,
            self.revenue(),
            self.tax
        )
    }
}
