//! One client's session: its transactions, with random parameters.

use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::load::last_name;
use super::workload::{Access, Kind, Workload};
use crate::Result;

type Done = std::result::Result<(), postgres::Error>;

pub struct Session {
    pub client: Client,
    random: StdRng,
    workload: Workload,
    number: i32,
    /// The number of transactions that have written their number to the database.
    pub numbered: i64,
    new_order: Statement,
    payment: Statement,
    order_status: Statement,
    delivery: Statement,
    stock_level: Statement,
}

/// The district that a transaction uses.
#[derive(Clone, Copy)]
struct Place {
    warehouse: i32,
    district: i32,
}

impl Session {
    pub fn open(config: &Config, workload: Workload, number: u32) -> Result<Session> {
        let mut client = config.clone().application_name("tpcc").connect(NoTls)?;
        let mode = if workload.synchronous_commit { "on" } else { "off" };
        let isolation = workload.isolation.name();
        // The client counts errors itself, so the server need not log them. One new order in a hundred is meant to
        // fail.
        client.batch_execute(&format!(
            "SET synchronous_commit = {mode}; SET log_min_messages = fatal;
             SET default_transaction_isolation = '{isolation}'"
        ))?;
        if workload.numbered {
            let from_zero = "INSERT INTO tpcc_numbers VALUES ($1, 0) ON CONFLICT (client) DO UPDATE SET number = 0";
            client.execute(from_zero, &[&(number as i32)])?;
        }
        let mut writing = |call: &str, parameters: usize| {
            let (client_at, number_at) = (parameters + 1, parameters + 2);
            let number =
                if workload.numbered { format!(", tpcc_number(${client_at}, ${number_at})") } else { "".into() };
            client.prepare(&format!("SELECT {call}{number}"))
        };
        Ok(Session {
            random: StdRng::seed_from_u64(u64::from(number) + 1),
            workload,
            number: number as i32,
            numbered: 0,
            new_order: writing("tpcc_new_order($1, $2, $3, $4, $5, $6)", 6)?,
            payment: writing("tpcc_payment($1, $2, $3, $4, $5, $6, $7::text::numeric)", 7)?,
            delivery: writing("tpcc_delivery($1, $2)", 2)?,
            order_status: client.prepare("SELECT item, quantity FROM tpcc_order_status($1, $2, $3, $4)")?,
            stock_level: client.prepare("SELECT tpcc_stock_level($1, $2, $3)")?,
            client,
        })
    }

    /// Draws the next transaction of the mix.
    pub fn draw(&mut self) -> Kind {
        let shares = self.workload.mix.shares();
        let mut drawn = self.random.random_range(0..shares.iter().map(|(_, share)| share).sum());
        for (kind, share) in shares {
            if drawn < *share {
                return *kind;
            }
            drawn -= share;
        }
        Kind::NewOrder
    }

    /// The state of the random generator for the next transaction's parameters. If it is restored, the same parameters
    /// are drawn again.
    pub fn randomness(&self) -> StdRng {
        self.random.clone()
    }

    pub fn repeat(&mut self, randomness: StdRng) {
        self.random = randomness;
    }

    pub fn run(&mut self, kind: Kind) -> Done {
        match kind {
            Kind::NewOrder => self.new_order(),
            Kind::Payment => self.payment(),
            Kind::OrderStatus => self.order_status(),
            Kind::Delivery => self.delivery(),
            Kind::StockLevel => self.stock_level(),
        }
    }

    fn new_order(&mut self) -> Done {
        let (Place { warehouse: w, district: d }, c) = (self.place(), self.customer());
        let mut items: Vec<i32> = (0..self.between(5, 15)).map(|_| self.item()).collect();
        items.sort_unstable();
        if self.between(1, 100) == 1 {
            items.push(self.workload.scale.items as i32 + 1);
        }
        let supplies: Vec<i32> =
            items.iter().map(|_| if self.between(1, 100) == 1 { self.warehouse() } else { w }).collect();
        let quantities: Vec<i32> = items.iter().map(|_| self.between(1, 10)).collect();
        self.write(&self.new_order.clone(), &[&w, &d, &c, &items, &supplies, &quantities])
    }

    fn payment(&mut self) -> Done {
        let (Place { warehouse: w, district: d }, c) = (self.place(), self.customer());
        let (c_w, c_d) = if self.between(1, 100) <= 85 { (w, d) } else { (self.warehouse(), self.district()) };
        let (name, amount) = (self.name(), format!("{:.2}", self.random.random_range(1.0..5000.0)));
        self.write(&self.payment.clone(), &[&w, &d, &c_w, &c_d, &c, &name, &amount])
    }

    fn delivery(&mut self) -> Done {
        let (w, carrier) = (self.place().warehouse, self.between(1, 10));
        self.write(&self.delivery.clone(), &[&w, &carrier])
    }

    fn order_status(&mut self) -> Done {
        let (place, c, name) = (self.place(), self.customer(), self.name());
        self.client.query(&self.order_status, &[&place.warehouse, &place.district, &c, &name]).map(drop)
    }

    fn stock_level(&mut self) -> Done {
        let (place, threshold) = (self.place(), self.between(10, 20));
        self.client.query(&self.stock_level, &[&place.warehouse, &place.district, &threshold]).map(drop)
    }

    /// Runs a transaction that writes. If transactions are numbered, it also writes its number.
    fn write(&mut self, statement: &Statement, parameters: &[&(dyn ToSql + Sync)]) -> Done {
        if !self.workload.numbered {
            return self.client.execute(statement, parameters).map(drop);
        }
        let next = self.numbered + 1;
        let number: [&(dyn ToSql + Sync); 2] = [&self.number, &next];
        self.client.execute(statement, &[parameters, &number].concat())?;
        self.numbered = next;
        Ok(())
    }

    fn between(&mut self, low: i32, high: i32) -> i32 {
        self.random.random_range(low..=high)
    }

    fn place(&mut self) -> Place {
        const HOT: i32 = 5;
        let scale = self.workload.scale;
        if self.workload.access == Access::Skewed && self.between(0, 1) == 1 {
            let hot = self.between(0, HOT - 1);
            return Place {
                warehouse: 1 + hot * scale.warehouses as i32 / HOT,
                district: 1 + 2 * hot % scale.districts as i32,
            };
        }
        Place { warehouse: self.warehouse(), district: self.district() }
    }

    fn warehouse(&mut self) -> i32 {
        self.between(1, self.workload.scale.warehouses as i32)
    }

    fn district(&mut self) -> i32 {
        self.between(1, self.workload.scale.districts as i32)
    }

    fn customer(&mut self) -> i32 {
        self.skewed(1023, self.workload.scale.customers as i32)
    }

    fn item(&mut self) -> i32 {
        self.skewed(8191, self.workload.scale.items as i32)
    }

    /// In six of ten cases, a last name by which to choose the customer. `None` means that the customer is chosen by
    /// number. If a district has fewer than a thousand customers, only that many last names exist.
    fn name(&mut self) -> Option<String> {
        let names = self.workload.scale.customers.min(1000) as i32;
        (self.between(1, 100) <= 60).then(|| last_name((self.skewed(255, names) - 1) as u32))
    }

    /// The specification's non-uniform choice from 1 to `high`: NURand(a, 1, high) with a constant of 0.
    fn skewed(&mut self, a: i32, high: i32) -> i32 {
        (self.between(0, a) | self.between(1, high)) % high + 1
    }
}
