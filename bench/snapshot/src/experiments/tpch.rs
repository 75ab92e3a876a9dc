//! The thesis' experiments on TPC-H: Figures 5.1, 5.5, 5.6 and 5.8.

use anker_report::Report;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::oltp::{self, Course};
use super::thesis;
use crate::Result;
use crate::query::{LINE_STATUSES, Query, RETURN_FLAGS, SHIP_DATES, lineitem};
use crate::session::Session;
use crate::table::Table;
use crate::worker::{Job, Work, Worker};
use anker_report::page::Section;

pub const NAME: &str = "tpch";

const ORDERS: usize = 1_500_000;
/// The number of line items of each order, as in the thesis.
const LINE_ITEMS: usize = 5;
const PARTS: usize = 200_000;

/// Indexes of the columns of orders and part, which follow the columns of lineitem.
const ORDER_PRIORITY: usize = 7;
const ORDER_STATUS: usize = 8;
const TOTAL_PRICE: usize = 9;
const BRAND: usize = 10;
const RETAIL_PRICE: usize = 11;
const COLUMNS: usize = 12;

/// For each column, the number of possible values. The values are 0, 1, 2 and so on.
const DOMAINS: [u64; COLUMNS] =
    [50, 10_000_000, 11, 9, RETURN_FLAGS, LINE_STATUSES, SHIP_DATES, 5, 3, 50_000_000, 25, 200_000];

/// The table that a column belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    LineItem,
    Order,
    Part,
}

fn of(column: usize) -> Of {
    match column {
        0..ORDER_PRIORITY => Of::LineItem,
        ORDER_PRIORITY..BRAND => Of::Order,
        _ => Of::Part,
    }
}

/// The nine transactions, each given by the columns that it sets in one row of each table. They are Sharma et al.'s, as
/// in the thesis.
const TRANSACTIONS: [&[usize]; 9] = [
    &[lineitem::RETURN_FLAG],
    &[lineitem::LINE_STATUS, lineitem::DISCOUNT],
    &[lineitem::EXTENDED_PRICE, lineitem::SHIP_DATE],
    &[ORDER_PRIORITY, ORDER_STATUS],
    &[ORDER_PRIORITY],
    &[TOTAL_PRICE],
    &[lineitem::EXTENDED_PRICE, ORDER_STATUS],
    &[BRAND, RETAIL_PRICE],
    &[lineitem::RETURN_FLAG, TOTAL_PRICE, RETAIL_PRICE],
];

pub struct Tpch {
    table: Table,
    orders: usize,
    parts: usize,
}

#[derive(Serialize, Deserialize)]
pub struct Request {
    transactions: usize,
}

/// The rows that a transaction uses: an order, one of its line items, and a part.
#[derive(Clone, Copy)]
struct Rows {
    order: usize,
    item: usize,
    part: usize,
}

impl Rows {
    fn offset(self, column: usize) -> usize {
        8 * match of(column) {
            Of::LineItem => self.order * LINE_ITEMS + self.item,
            Of::Order => self.order,
            Of::Part => self.part,
        }
    }
}

fn lengths(scale: f64) -> Vec<usize> {
    let scaled = |rows: usize| (rows as f64 * scale) as usize;
    let rows = |of: Of| match of {
        Of::LineItem => scaled(ORDERS) * LINE_ITEMS,
        Of::Order => scaled(ORDERS),
        Of::Part => scaled(PARTS),
    };
    (0..COLUMNS).map(|column| rows(of(column)) * 8).collect()
}

impl Work for Tpch {
    const NAME: &'static str = NAME;
    type Request = Request;
    type Answer = Course;

    fn begin(job: &Job) -> Result<Tpch> {
        let mut table = Table::new(job.subject, &job.pool(), job.run_bytes, &job.columns)?;
        let mut random = StdRng::seed_from_u64(6);
        for (column, domain) in DOMAINS.into_iter().enumerate() {
            for offset in (0..table.len(column)).step_by(8) {
                table.write(column, offset, &random.random_range(0..domain).to_le_bytes())?;
            }
        }
        Ok(Tpch { orders: job.columns[ORDER_STATUS] / 8, parts: job.columns[BRAND] / 8, table })
    }

    fn answer(&mut self, Request { transactions }: Request) -> Result<Course> {
        let mut random = StdRng::seed_from_u64(7);
        let plan: Vec<_> = (0..transactions)
            .map(|_| {
                let mut rows = || Rows {
                    order: random.random_range(0..self.orders),
                    item: random.random_range(0..LINE_ITEMS),
                    part: random.random_range(0..self.parts),
                };
                (rows(), rows(), TRANSACTIONS[random.random_range(0..TRANSACTIONS.len())])
            })
            .collect();
        oltp::course(&mut self.table, Query::PricingSummary, transactions, |table, i| {
            let (from, to, columns) = plan[i];
            let mut value = [0; 8];
            columns.iter().try_for_each(|&column| {
                table.read(column, from.offset(column), &mut value);
                table.write(column, to.offset(column), &value)
            })
        })
    }
}

pub fn run(session: &mut Session) {
    let scales: &[f64] = session.options.effort.choose(&[0.1, 0.2], &[0.5, 1.0, 2.0], &[1.0, 2.0, 4.0, 8.0]);
    let transactions = session.options.effort.choose(100_000, 300_000, 300_000);
    for &scale in scales {
        for subject in session.subjects() {
            session.progress(&format!("{NAME}: {}, scale factor {scale}", subject.name()));
            let columns = lengths(scale);
            let params = json!({
                "scale_factor": scale, "size_mb": columns.iter().sum::<usize>() >> 20,
                "run_kb": session.options.run_kb, "transactions": transactions,
            });
            let more = columns.iter().sum();
            let worker = session.job(subject, columns, more).and_then(|job| Worker::<Tpch>::start(&job));
            let course = worker.and_then(|mut worker| worker.ask(Request { transactions }));
            if let Some(course) = session.or_skip(NAME, subject.name(), params.clone(), course) {
                thesis::rows(session, NAME, subject.name(), &params, &course, scales.last() == Some(&scale));
            }
        }
    }
}

pub fn section(report: &Report) -> Section {
    let mut section = thesis::section(report, NAME, "scale_factor");
    section.title = "The thesis, Figures 5.1, 5.5, 5.6 and 5.8: TPC-H".into();
    section.claim =
        "The thesis: fork's analytic queries take 300 % longer than scoot's and 24 % longer than mremap's; \
                     scoot's transactions are slowed most after the snapshot."
            .into();
    section.notes.push(
        "An analogue: twelve columns of 8 bytes of lineitem, orders and part, rows found by position instead of by an \
         index; the nine transactions copy values from one random row to another; the analytic query is Q1's aggregates."
            .into(),
    );
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_of_a_table_have_as_many_rows() {
        let lengths = lengths(0.1);
        for (column, len) in lengths.iter().enumerate() {
            let first = (0..COLUMNS).find(|other| of(*other) == of(column)).unwrap();
            assert_eq!(*len, lengths[first]);
        }
        assert_eq!(lengths[0], LINE_ITEMS * lengths[ORDER_STATUS]);
    }
}
