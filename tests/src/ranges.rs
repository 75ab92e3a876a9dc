//! Random RANGE frames of window functions: heap and engine return the same rows, and the engine answers. The values
//! lie around ends of months, changes of clocks, and limits of types.

use std::time::Duration;

use bench::{Result, anker};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::{Answer, compare};
use crate::runner::{Context, ensure, tests};

tests![frames_of_a_range_of_values];

const LIVE: Duration = Duration::from_secs(60);

const TABLE: &str = "
    CREATE TABLE point (id integer PRIMARY KEY, part integer, small smallint, whole integer, big bigint, price numeric(6,2),
      single real, double double precision, day date, at timestamp, zoned timestamptz,
      lead interval, clock time, number numeric);
    INSERT INTO point SELECT i, i % 4,
      (ARRAY[32767, -32768, 0, i % 7, NULL])[i % 5 + 1], (ARRAY[2147483647, -2147483648, i % 11, NULL])[i % 4 + 1],
      (ARRAY[9223372036854775807, -9223372036854775808, i % 9, 3, NULL])[i % 5 + 1], nullif(i * 37 % 101, 7) * 0.25,
      (ARRAY['NaN', '-0', '3.4e38', '-Infinity', 'Infinity', NULL, '1.5']::real[])[i % 7 + 1] + i % 3,
      (ARRAY['NaN', '0', '-1.7e308', '1.7e308', '-Infinity', 'Infinity', NULL, '1.5']::float8[])[i % 8 + 1] + i % 3,
      (ARRAY[date '2024-01-27' + i % 40, 'infinity', '-infinity', NULL, '2023-12-29'])[least(i * 7 % 17, 5)],
      timestamp '2024-01-28 06:00' + nullif(i * 17 % 127, 5) * interval '5 hours 30 minutes',
      timestamptz '2024-10-25 00:00+00' + nullif(i * 29 % 131, 5) * interval '50 minutes',
      (ARRAY['1 mon', '30 days', '1 day', '25:00', '-1 mon', NULL, '59 days', '0']::interval[])[i % 8 + 1],
      time '00:00' + nullif(i * 37 % 67, 3) * interval '40 minutes',
      (ARRAY['NaN', '0.00', '0', '1.50', '-Infinity', 'Infinity', NULL, '1e50', '-2.5', '1e-30']::numeric[])[i % 10 + 1] + i % 3
    FROM generate_series(1, 200) i;
    ANALYZE point";

const NUMBERS: [&str; 6] = ["0", "1", "2", "5", "100", "32767"];
const DECIMALS: [&str; 6] = ["0", "0.5", "1.000", "1e50", "100", "1e-30"];
const FLOATS: [&str; 6] = ["0", "0.5", "1.7e308", "'inf'", "1e-300", "2"];
const INTERVALS: [&str; 9] = [
    "'0'",
    "'1 month'",
    "'1 month -1 day'",
    "'1 day'",
    "'1 day 2 hours'",
    "'30 minutes'",
    "'2 months -59 days -3 hours'",
    "'25 hours'",
    "'1 year'",
];

fn query(dice: &mut StdRng) -> String {
    let columns: [(&str, &[&str]); 12] = [
        ("small", &NUMBERS),
        ("whole", &NUMBERS),
        ("big", &NUMBERS),
        ("price", &NUMBERS),
        ("single", &FLOATS),
        ("double", &FLOATS),
        ("day", &INTERVALS),
        ("at", &INTERVALS),
        ("zoned", &INTERVALS),
        ("lead", &INTERVALS),
        ("clock", &INTERVALS),
        ("number", &DECIMALS),
    ];
    let pick = |dice: &mut StdRng, list: &[&'static str]| *list.choose(dice).expect("a list that is not empty");
    let (column, offsets) = columns[dice.random_range(0..columns.len())];
    let (from, to) = (pick(dice, offsets), pick(dice, offsets));
    let start = pick(dice, &["PRECEDING", "PRECEDING", "FOLLOWING"]);
    let end = pick(dice, if start == "FOLLOWING" { &["FOLLOWING"] } else { &["FOLLOWING", "PRECEDING"] });
    let bounds = match dice.random_range(0..8) {
        0 => format!("CURRENT ROW AND {to} FOLLOWING"),
        1 => format!("UNBOUNDED PRECEDING AND {to} {end}"),
        2 => format!("{from} {start} AND UNBOUNDED FOLLOWING"),
        _ => format!("{from} {start} AND {to} {end}"),
    };
    let exclude = pick(dice, &["", "", "EXCLUDE CURRENT ROW", "EXCLUDE GROUP", "EXCLUDE TIES"]);
    let direction = pick(dice, &["", "DESC", "NULLS FIRST", "DESC NULLS LAST"]);
    let part = pick(dice, &["", "PARTITION BY part"]);
    // `last_value` is missing here, because the engine leaves it to PostgreSQL if the bounds of a frame may move back
    // from one row to the next.
    let function = pick(dice, &["count(*)", "sum(id)", "min(id)", "count(price)", "sum(price)"]);
    format!(
        "SELECT * FROM (SELECT id, {function} OVER ({part} ORDER BY {column} {direction} RANGE BETWEEN {bounds} {exclude})
         FROM point) s WHERE anker.olap()"
    )
}

fn frames_of_a_range_of_values(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TABLE)?;
    anker::mirror(&mut client, &["point"], LIVE)?;
    let mut dice = StdRng::seed_from_u64(11);
    for number in 0..context.size(4000, 600) {
        let zone = ["UTC", "Europe/Berlin", "America/Los_Angeles"][number as usize % 3];
        client.batch_execute(&format!("SET TimeZone = '{zone}'"))?;
        let sql = query(&mut dice);
        // PostgreSQL may refuse the offset, too, so both sides may return an error.
        let is_answered = matches!(compare(&mut client, &sql, false)?, Answer::Rows(_));
        if number % 10 == 0 && is_answered {
            let by = anker::analyzed(&mut client, &sql)?;
            ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
        }
    }
    Ok(())
}
