//! Random expressions of intervals, for which heap and engine must return the same rows. Some intervals are equal, but
//! are shown differently. Others have fractions, or fields of both signs, or are at the limits of the type.
//!
//! If a query may return any of several equal intervals, it applies `justify_interval`, which gives equal intervals the
//! same form. So the answers can be compared.

use std::time::Duration;

use bench::{Result, anker};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::{Answer, compare};
use crate::runner::{Context, ensure, tests};

tests![random_expressions_of_intervals];

const LIVE: Duration = Duration::from_secs(60);

/// Columns `v` and `u` contain only intervals that the engine can represent. Column `w` also contains longer ones.
const TABLE: &str = "
    SET TimeZone = 'UTC';
    CREATE DOMAIN lead AS interval;
    CREATE TABLE span (id integer PRIMARY KEY, v interval, u lead, w interval, n integer, f float8, d date, tm time, tm2 time,
      ts timestamp, ts2 timestamp, tz timestamptz, tz2 timestamptz);
    INSERT INTO span SELECT i,
      (ARRAY['1 mon', '30 days', '29 days 24:00', '720:00:00', '0', '-1 mon', '-30 days', '1 mon -30 days', '1 day -24:00:00.000001',
        '13 mons 29 days 23:59:59.999999', NULL, '-1 year 2 mons -3 days 04:05:06.789', '00:00:00.000001']::interval[])[i % 13 + 1],
      (ARRAY['1 mon', '30 days', '12:34:56.789', '1 mon -1 day', '-2 days -03:04:05', '100 years', '365 days 06:00', '1 year',
        NULL, '0']::interval[])[i * 7 % 10 + 1] * (i % 3),
      (ARRAY['2147483647 months', '-2147483648 months', '2147483647 days', '1 mon', '178000000 years', '2562047788:00:54.775807',
        '-2562047788:00:54.775807', '134217727 days', '134217728 days']::interval[])[i % 9 + 1],
      nullif(i * 37 % 41 - 20, 3),
      (ARRAY[0, 0.5, -1.5, 1e-3, 7, 3.3333, 0.1, 1e5, -0.3, NULL]::float8[])[i * 3 % 10 + 1],
      date '2024-01-29' + i % 70, time '00:00' + i * interval '7 hours 13 minutes 17.5 seconds', nullif(time '24:00', '12:00'),
      timestamp '2024-01-29 05:00' + i * interval '11 days 5 hours 0.25 seconds', timestamp '2023-02-28' + i % 17 * interval '31 days',
      timestamptz '2024-03-30 22:30+00' + i % 29 * interval '50 minutes', timestamptz '2024-10-26 22:30+00' - i * interval '50 minutes'
    FROM generate_series(1, 300) i;
    UPDATE span SET tm2 = tm + interval '5 hours' WHERE id % 3 > 0;
    ANALYZE span";

const FIELDS: [&str; 13] = [
    "millennium",
    "century",
    "decade",
    "year",
    "quarter",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "milliseconds",
    "microseconds",
    "epoch",
];

struct Queries {
    dice: StdRng,
    /// The column that expressions read: one with ordinary intervals, or one with extreme ones.
    column: &'static str,
}

impl Queries {
    fn below(&mut self, limit: u32) -> u32 {
        self.dice.random_range(0..limit)
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list.choose(&mut self.dice).expect("a list that is not empty")
    }

    fn simple(&mut self) -> String {
        let constants = [
            "'1 mon'",
            "'30 days'",
            "'-1 day 25:00:00.5'",
            "'0'",
            "'1 year -1 mon'",
            "'0.000001 seconds'",
            "'7 hours'",
        ];
        match self.below(12) {
            0..=3 => self.column.into(),
            4 | 5 => "u".into(),
            6 => format!("interval {}", self.pick(&constants)),
            7 => self.pick(&["ts - ts2", "ts2 - ts", "tz - tz2", "(ts - d)"]).into(),
            8 => self.pick(&["tm - tm2", "tm2 - tm"]).into(),
            9 => self.pick(&["age(ts, ts2)", "age(ts2, ts)", "age(d, ts2)"]).into(),
            10 => self.pick(&["age(tz, tz2)", "age(tz2, tz)", "age(tz, ts)"]).into(),
            _ => "make_interval(n % 3, n, 1, n % 50, n / 3, 7, f)".into(),
        }
    }

    fn interval(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.simple();
        }
        let (a, b) = (self.interval(depth - 1), self.simple());
        match self.below(13) {
            0 => format!("({a} + {b})"),
            1 => format!("({b} - {a})"),
            2 => format!("(- {a})"),
            3 => format!("({a} * {})", self.pick(&["f", "n", "0.3", "1.5", "-7", "1e-6"])),
            4 => format!("({} * {a})", self.pick(&["n", "f", "2.5"])),
            5 => format!("({a} / {})", self.pick(&["nullif(f, 0)", "nullif(n, 0)", "7", "0.25", "f"])),
            6 => format!("justify_{}({a})", self.pick(&["hours", "days", "interval"])),
            7 => format!("(CASE WHEN {a} > {b} THEN {a} ELSE {b} END)"),
            8 => format!("coalesce({a}, {b})"),
            9 => format!("nullif({a}, {b})"),
            _ => a,
        }
    }

    fn value(&mut self) -> String {
        let (a, b) = (self.interval(2), self.interval(1));
        let comparison = self.pick(&["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]);
        match self.below(10) {
            0 | 1 => format!("extract({} FROM {a})", self.pick(&FIELDS)),
            2 => format!("date_part('{}', {a})", self.pick(&FIELDS)),
            3 => format!("{a} {comparison} {b}"),
            4 => format!("{} {} {a}", self.pick(&["ts", "tz", "d", "tm"]), self.pick(&["+", "-"])),
            5 => format!("{a} + {}", self.pick(&["ts", "tz", "d", "tm"])),
            6 => format!("{a} IN ('1 mon', '-720 hours', {b})"),
            7 => format!("{a} BETWEEN '-1 mon' AND {b}"),
            _ => a,
        }
    }

    fn query(&mut self) -> String {
        self.column = if self.below(8) == 0 { "w" } else { "v" };
        let (e, v) = (self.interval(1), self.column);
        match self.below(14) {
            0 => format!(
                "SELECT justify_interval(k), c, s FROM (SELECT {e} AS k, count(*) AS c, sum(id) AS s FROM span GROUP BY 1
                 OFFSET 0) x WHERE anker.olap()"
            ),
            1 => format!("SELECT justify_interval({e}), count(*), sum(id) FROM span WHERE anker.olap() GROUP BY {e}"),
            2 => format!(
                "SELECT justify_interval(min({e})), justify_interval(max({e})), count(DISTINCT {e}), count({e})
                 FROM span WHERE anker.olap()"
            ),
            3 => format!(
                "SELECT n % 3, sum({v}), avg({v}), avg(u) FILTER (WHERE f > 0), sum(u) FROM span WHERE anker.olap() GROUP BY 1"
            ),
            4 => format!("SELECT * FROM (SELECT n % 4, avg({e}), sum({e}) FROM span GROUP BY 1 OFFSET 0) x WHERE anker.olap()"),
            5 => format!("SELECT a.id, b.id FROM span a JOIN (SELECT id, {e} AS e FROM span) b ON a.u = b.e WHERE anker.olap()"),
            6 => format!(
                "SELECT * FROM (SELECT id, {v} FROM span ORDER BY {e} {}, id LIMIT 23) x WHERE anker.olap()",
                self.pick(&["", "DESC", "NULLS FIRST"])
            ),
            7 => format!("SELECT id FROM span WHERE {v} IN (SELECT {e} FROM span) AND anker.olap()"),
            8 => format!(
                "SELECT justify_interval(k) FROM (SELECT {v} AS k FROM span {} SELECT {e} FROM span) x WHERE anker.olap()",
                self.pick(&["UNION", "INTERSECT", "EXCEPT", "UNION ALL"])
            ),
            9 => format!(
                "SELECT id, (SELECT count(*) FROM span i WHERE i.u > o.{v}), (SELECT justify_interval(max({e})) FROM span
                 WHERE {v} = o.u) FROM span o WHERE anker.olap()"
            ),
            10 => format!(
                "SELECT * FROM (SELECT id, rank() OVER (PARTITION BY n % 3 ORDER BY {e}),
                 justify_interval(max(u) OVER (PARTITION BY {e})) FROM span) x WHERE anker.olap()"
            ),
            _ => format!(
                "SELECT * FROM (SELECT id, {} AS a, {} AS b FROM span OFFSET 0) x WHERE anker.olap()",
                self.value(),
                self.value()
            ),
        }
    }
}

fn random_expressions_of_intervals(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TABLE)?;
    anker::mirror(&mut client, &["span"], LIVE)?;
    let mut queries = Queries { dice: StdRng::seed_from_u64(context.seed), column: "v" };
    let (mut errors, mut looked, mut by_engine) = (0, 0, 0);
    let count = context.size(6000, 800);
    for number in 0..count {
        let zone = ["UTC", "Europe/Berlin", "America/Los_Angeles"][number as usize % 3];
        client.batch_execute(&format!("SET TimeZone = '{zone}'"))?;
        let sql = queries.query();
        match compare(&mut client, &sql, false)? {
            Answer::Error { .. } => errors += 1,
            Answer::Rows(_) if number % 5 == 0 && queries.column == "v" => {
                looked += 1;
                let by = anker::analyzed(&mut client, &sql)?;
                by_engine += i32::from(by.as_deref() == Some("engine"));
            }
            Answer::Rows(_) => {}
        }
    }
    println!("       {errors} errors, {by_engine} of {looked} by the engine");
    ensure!(errors < count / 4, "{errors} of {count} queries raised errors");
    ensure!(by_engine * 20 >= looked * 19, "the engine answered {by_engine} of {looked} queries");
    Ok(())
}
