//! Random queries on "hostile" data: every type with its extreme and unusual values, and arithmetic that overflows.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;
use rand::Rng;
use rand::seq::IndexedRandom;

use super::expressions::Kind::{Bool, Date, Enum, Integer, Numeric, Text, Uuid};
use super::expressions::{Column, Scope};
use super::select::From;
use crate::chaos::{self, Values};

const LIVE: Duration = Duration::from_secs(60);

/// Columns of table `kinds`, by the operations that their types allow.
const INTEGERS: [&str; 3] = ["i2", "i4", "i8"];
const NUMBERS: [&str; 6] = ["i2", "i4", "i8", "n9", "n30", "f8"];
const ORDERED: [&str; 16] = ["i2", "i4", "i8", "f8", "n9", "n30", "t", "v", "c", "d", "ts", "tz", "tm", "o", "dm", "r"];
const KEYS: [&str; 18] =
    ["b", "i2", "i4", "i8", "f8", "n9", "n30", "t", "v", "c", "d", "ts", "tz", "u", "m", "tm", "o", "y"];
const ALL: [&str; 23] = [
    "id", "b", "i2", "i4", "i8", "f8", "n9", "n30", "t", "v", "c", "d", "ts", "tz", "u", "r", "m", "tm", "o", "y",
    "dm", "j", "a",
];

/// Creates tables with every odd value of [`Values::value`], and a few more. The tables are small, so that queries are
/// fast.
pub fn create(client: &mut Client) -> Result<()> {
    chaos::create(client)?;
    client.batch_execute(
        "DELETE FROM kinds WHERE id >= 700;
         UPDATE kinds SET t = repeat('long ', 3000) || id WHERE id % 50 = 3;
         UPDATE kinds SET v = E'tab\\tand\\nline', c = 'ﬀ' WHERE id % 60 = 1;
         UPDATE kinds SET f8 = '4.9e-324' WHERE id % 70 = 2;
         UPDATE kinds SET n30 = 99999999999999999999.9999999999 WHERE id % 80 = 5;
         UPDATE kinds SET n30 = -99999999999999999999.9999999999 WHERE id % 80 = 6;
         DELETE FROM facts WHERE fid > 900; ANALYZE",
    )?;
    anker::mirror(client, &chaos::TABLES, LIVE)
}

/// A FROM clause with table `kinds`, for queries that group by expressions.
pub fn from() -> From {
    let columns = [
        ("id", Integer, &["0", "100", "650"][..]),
        ("b", Bool, &["true", "false"]),
        ("i2", Integer, &["-32768", "32767", "0", "1", "12"]),
        ("i4", Integer, &["-2147483648", "2147483647", "0", "-500", "500"]),
        ("i8", Integer, &["-9223372036854775808", "9223372036854775807", "0"]),
        ("n9", Numeric, &["9999999.99", "0.00", "-1.5", "3"]),
        ("n30", Numeric, &["99999999999999999999.9999999999", "0", "-500000"]),
        ("t", Text, &["'a1'", "''", "'été3'"]),
        ("v", Text, &["'plain'", "'trailing'", "''"]),
        ("c", Text, &["'pad'", "'pad  '", "'ﬀ'"]),
        ("u", Uuid, &["'c4ca4238-a0b9-2382-0dcc-509a6f75849b'::uuid", "NULL::uuid"]),
        ("m", Enum, &["'calm'::mood", "'odd'::mood"]),
        ("d", Date, &["date '2020-01-01'", "date 'infinity'", "date '4713-01-01 BC'"]),
        ("ts", Date, &["timestamp '2020-01-01 12:00'", "timestamp '-infinity'", "date '2020-01-01'"]),
        ("tz", Date, &["timestamptz '2020-01-01 12:00+00'", "timestamptz 'infinity'", "timestamp '2020-01-01 12:00'"]),
    ];
    let columns = columns.map(|(name, kind, literals)| Column { name: name.into(), kind, literals });
    let scope = Scope { columns: columns.into(), extreme: true };
    let keyed = vec![(vec!["id".into()], scope.clone())];
    From { sql: "kinds".into(), conditions: Vec::new(), with: Vec::new(), scope, keyed }
}

/// Statements over every column of `kinds`.
pub struct Queries {
    values: Values,
    /// Whether queries may have joins. If conditions can raise errors, queries have none, because the plan decides
    /// whether a condition is evaluated for a row that a join drops.
    joins: bool,
}

impl Queries {
    pub fn seeded(seed: u64) -> Queries {
        Queries { values: Values::seeded(seed), joins: false }
    }

    pub fn query(&mut self) -> String {
        self.joins = self.values.chance(5);
        let from = if self.joins { "kinds JOIN facts ON id = kid" } else { "kinds" };
        let filter = self.filter(2);
        match self.values.random().random_range(0..3) {
            0 => {
                let columns: Vec<String> =
                    (0..self.values.random().random_range(1..5)).map(|_| self.scalar()).collect();
                format!("SELECT {} FROM {from} WHERE {filter} AND anker.olap()", columns.join(", "))
            }
            1 => format!("SELECT {} FROM {from} WHERE {filter} AND anker.olap()", self.aggregates()),
            _ => {
                let keys: Vec<&str> = (0..self.values.random().random_range(1..3)).map(|_| self.pick(&KEYS)).collect();
                let keys = keys.join(", ");
                format!(
                    "SELECT {keys}, {} FROM {from} WHERE {filter} AND anker.olap() GROUP BY {keys}",
                    self.aggregates()
                )
            }
        }
    }

    fn aggregates(&mut self) -> String {
        let list: Vec<String> = (0..self.values.random().random_range(1..4)).map(|_| self.aggregate()).collect();
        list.join(", ")
    }

    fn aggregate(&mut self) -> String {
        match self.values.random().random_range(0..8) {
            6 => format!("{}(f8)", self.pick(&["sum", "avg", "stddev", "var_pop"])),
            7 => format!("{}({})", self.pick(&["stddev", "variance", "var_pop"]), self.pick(&NUMBERS[..5])),
            0 => "count(*)".into(),
            1 => format!("count({}{})", self.pick(&["", "DISTINCT "]), self.pick(&ALL[..21])),
            2 => format!("sum({})", self.number(1)),
            3 => format!("avg({})", self.number(0)),
            4 => format!("min({})", self.scalar()),
            _ => format!("max({})", self.scalar()),
        }
    }

    /// An expression whose type has the aggregates min and max.
    fn scalar(&mut self) -> String {
        if self.values.chance(3) { self.number(1) } else { self.pick(&ORDERED).into() }
    }

    fn number(&mut self, depth: u32) -> String {
        if depth == 0 || self.values.chance(2) {
            return self.pick(&NUMBERS[..5]).into();
        }
        let constant = self.pick(&["1", "-2", "3", "0.5", "10", "7::smallint", "100000::bigint"]);
        let operator = self.pick(&["+", "-", "*", "+", "-"]);
        let column = self.pick(&NUMBERS[..5]);
        if self.values.chance(10) {
            format!("({} % {constant}::integer)", self.pick(&INTEGERS))
        } else {
            format!("({column} {operator} {constant})")
        }
    }

    fn filter(&mut self, depth: u32) -> String {
        if depth == 0 || self.values.chance(3) {
            return self.condition();
        }
        let (left, right) = (self.filter(depth - 1), self.filter(depth - 1));
        match self.values.random().random_range(0..4) {
            0 => format!("({left} AND {right})"),
            1 => format!("NOT ({left})"),
            _ => format!("({left} OR {right})"),
        }
    }

    fn condition(&mut self) -> String {
        let operator = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        let column = self.pick(&ALL[1..]);
        match self.values.random().random_range(0..6) {
            0 => format!("{column} IS NULL"),
            1 => format!("{column} IS NOT NULL"),
            2 => format!("{} {operator} {}", self.pick(&NUMBERS), self.number(u32::from(!self.joins))),
            3 => "b".into(),
            _ if column == "b" => "b = true".into(),
            _ if column == "j" || column == "a" => format!("{column} IS NULL"),
            _ => {
                let operator = if column == "m" { self.pick(&["=", "<>"]) } else { operator };
                let cast = match column {
                    "d" => "::date",
                    "ts" => "::timestamp",
                    "tz" => "::timestamptz",
                    _ => "",
                };
                format!("{column} {operator} ({}){cast}", self.values.value(column))
            }
        }
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        *list.choose(self.values.random()).expect("a list to pick from is not empty")
    }
}
