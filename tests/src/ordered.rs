//! Random ORDER BY clauses on a partitioned table. The engine must return the same rows in the same order as the heap.
//! The sort keys have types whose order differs from the order of their bytes.

use std::time::Duration;

use bench::{Result, anker};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::{Answer, compare};
use crate::runner::{Context, ensure, tests};

tests![the_outermost_order];

const LIVE: Duration = Duration::from_secs(60);

/// One partition has its columns in another order. The enum has a value that was added later, but sorts before an older
/// one.
const TABLES: &str = "
    CREATE TYPE size AS ENUM ('small', 'large', 'huge');
    ALTER TYPE size ADD VALUE 'medium' AFTER 'small';
    CREATE DOMAIN price AS numeric(8,2);
    CREATE DOMAIN anything AS numeric;
    CREATE DOMAIN label AS varchar(12);
    CREATE TABLE item (id integer, small smallint, big bigint, cost price, number anything, single real, double double precision,
      word varchar(12), name label, padded char(6), note text, size size, flag boolean, day date, at timestamp,
      zoned timestamptz, span interval, clock time, key uuid, bytes bytea, PRIMARY KEY (id)) PARTITION BY RANGE (id);
    CREATE TABLE item_low PARTITION OF item FOR VALUES FROM (MINVALUE) TO (100);
    CREATE TABLE item_high (gone text, LIKE item_low INCLUDING ALL);
    ALTER TABLE item_high DROP COLUMN gone, DROP COLUMN size, DROP COLUMN bytes;
    ALTER TABLE item_high ADD size size, ADD bytes bytea;
    ALTER TABLE item ATTACH PARTITION item_high FOR VALUES FROM (100) TO (250);
    CREATE TABLE item_rest PARTITION OF item DEFAULT";

const ROWS: &str = "
    INSERT INTO item SELECT i,
      (ARRAY[32767, -32768, 0, NULL])[i % 4 + 1], (ARRAY[9223372036854775807, -9223372036854775808, i % 5, NULL])[i * 3 % 4 + 1],
      (ARRAY[999999.99, -999999.99, 0, NULL, 1.50])[i % 5 + 1],
      (ARRAY['NaN', '0.00', '0', '1.50', '1.5', '-Infinity', 'Infinity', NULL, '1e50', '-2.5', '1e-30']::numeric[])[i * 7 % 11 + 1],
      (ARRAY['NaN', '-0', '0', '3.4e38', '-Infinity', 'Infinity', NULL, '1e-45']::real[])[i % 8 + 1],
      (ARRAY['NaN', '-0', '0', '1.7e308', '-Infinity', 'Infinity', NULL, '5e-324']::float8[])[i * 5 % 8 + 1],
      (ARRAY['', ' ', 'a', 'B', 'a ', 'ä', 'z', NULL, '日本', chr(65535), chr(65536), 'Zz'])[i % 12 + 1],
      (ARRAY['b', 'a', NULL, 'aa', 'ab', E'a\\t'])[i % 6 + 1],
      (ARRAY['b', 'a', NULL, 'a b', E'a\\t', 'ß'])[i * 5 % 6 + 1],
      (ARRAY['x', 'y', '', NULL])[i % 4 + 1] || repeat('é', i % 3 * 20),
      (ARRAY['small', 'medium', 'large', 'huge', NULL]::size[])[i % 5 + 1], (ARRAY[true, false, NULL])[i % 3 + 1],
      (ARRAY['infinity', '-infinity', NULL, '2024-02-29', '4713-01-01 BC', '5874897-12-31']::date[])[i % 6 + 1],
      (ARRAY['infinity', '-infinity', NULL, '2024-02-29 00:00:00.000001', '2024-02-29']::timestamp[])[i % 5 + 1],
      (ARRAY['infinity', NULL, '2024-10-27 02:30+02', '2024-10-27 02:30+01']::timestamptz[])[i % 4 + 1],
      (ARRAY['1 mon', '30 days', '720:00', '-1 mon', NULL, '1 day -24:00', '0', '170000 years']::interval[])[i % 8 + 1],
      (ARRAY['24:00', '00:00', NULL, '12:00:00.000001']::time[])[i % 4 + 1],
      (ARRAY['ffffffff-0000-0000-0000-000000000000', '00000000-0000-0000-0000-0000000000ff', NULL]::uuid[])[i % 3 + 1],
      (ARRAY['\\x', '\\x00', '\\xff', '\\x0000', NULL]::bytea[])[i % 5 + 1]
    FROM generate_series(-20, 320) i;
    CREATE TABLE kind (no integer PRIMARY KEY, name label, size size);
    INSERT INTO kind SELECT i, (ARRAY['b', 'a', 'aa', NULL])[i % 4 + 1], (ARRAY['huge', 'medium', NULL]::size[])[i % 3 + 1]
    FROM generate_series(1, 9) i;
    ANALYZE item, kind";

const COLUMNS: [&str; 20] = [
    "id", "small", "big", "cost", "number", "single", "double", "word", "name", "padded", "note", "size", "flag",
    "day", "at", "zoned", "span", "clock", "key", "bytes",
];

/// Computed sort keys. None of them raises an error for any row of the table. The engine cannot compute some of them,
/// so PostgreSQL does.
const COMPUTED: [&str; 10] = [
    "-i.small::integer",
    "i.cost IS NULL",
    "coalesce(i.word, i.name, 'm')",
    "i.note COLLATE \"C\"",
    "lower(i.word)",
    "i.size > 'medium'",
    "CASE WHEN i.id % 2 = 0 THEN i.double END",
    "length(i.note)",
    "i.span > '30 days'",
    "upper(i.padded)",
];

fn query(dice: &mut StdRng) -> String {
    let pick = |dice: &mut StdRng, list: &[&'static str]| *list.choose(dice).expect("a list that is not empty");
    let number = dice.random_range(0..4);
    let mut keys: Vec<String> = (0..number)
        .map(|_| {
            let key = match dice.random_range(0..4) {
                0 => pick(dice, &COMPUTED).to_owned(),
                _ => format!("i.{}", pick(dice, &COLUMNS)),
            };
            let direction = pick(dice, &["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
            format!("{key}{direction}")
        })
        .collect();
    // The last key is unique, because the order of rows with equal keys would not be defined.
    keys.push(format!("i.id{}", pick(dice, &["", " DESC"])));
    let returned: Vec<String> = (0..dice.random_range(1..5)).map(|_| format!("i.{}", pick(dice, &COLUMNS))).collect();
    let (from, tie) = match dice.random_range(0..5) {
        0 => ("item i JOIN kind k ON k.size = i.size", ", k.no DESC"),
        1 => ("item i LEFT JOIN kind k ON k.name = i.name AND k.no > 3", ", k.no NULLS FIRST"),
        2 => ("(SELECT * FROM item WHERE id % 3 <> 1) i", ""),
        3 => ("(SELECT * FROM item ORDER BY id DESC LIMIT 200) i", ""),
        _ => ("item i", ""),
    };
    let filter =
        pick(dice, &["true", "true", "i.id > 0", "i.size IN ('medium', 'huge')", "i.id < -100", "i.note LIKE '%é%'"]);
    let part = pick(
        dice,
        &["", "", "", " LIMIT 7", " OFFSET 5", " LIMIT 1000 OFFSET 3", " FETCH FIRST 9 ROWS WITH TIES", " LIMIT 0"],
    );
    format!(
        "SELECT i.id, {} FROM {from} WHERE {filter} AND anker.olap() ORDER BY {}{tie}{part}",
        returned.join(", "),
        keys.join(", ")
    )
}

fn the_outermost_order(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    client.batch_execute(ROWS)?;
    anker::mirror(&mut client, &["item", "kind"], LIVE)?;
    let mut dice = StdRng::seed_from_u64(23);
    for number in 0..context.size(4000, 400) {
        let sql = query(&mut dice);
        let answer = compare(&mut client, &sql, true)?;
        ensure!(matches!(answer, Answer::Rows(_)), "{sql}: {answer:?}");
        if number % 10 == 0 {
            let by = anker::analyzed(&mut client, &sql)?;
            ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
        }
    }
    Ok(())
}
