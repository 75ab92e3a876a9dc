//! Tables of several chunks, whose columns have every encoding that the mirror knows. In some columns each chunk has
//! its own range of values, in others all chunks have the same range. Some columns have few distinct values, others
//! many. Some chunks of a column hold a single value or only NULLs. Rows of some chunks have been deleted, and all rows
//! of one chunk.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::generated::dice::Dice;

/// The number of rows in a chunk of the mirror.
pub const CHUNK: u32 = 8192;

const LIVE: Duration = Duration::from_secs(120);

pub const TABLES: [&str; 3] = ["piece", "event", "sort"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Integer,
    Decimal,
    Float,
    Date,
    Timestamp,
    Text,
    Uuid,
    Bytes,
}

pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    ty: &'static str,
    /// The SQL expression for the value of a row. `{i}` stands for the row's number, `{h}` for a bigint that differs
    /// from row to row.
    fill: &'static str,
    /// A constant to compare the column with. It equals the value of some row, or lies between values.
    pub value: fn(&mut Dice) -> String,
    /// Values that no row has at first. When writers insert them, the engine must widen a chunk's codes, dictionary and
    /// bounds.
    pub odd: &'static [&'static str],
    /// Whether the column has few distinct values, so that queries can group by it.
    pub few: bool,
}

const fn column(
    name: &'static str,
    kind: Kind,
    ty: &'static str,
    fill: &'static str,
    value: fn(&mut Dice) -> String,
    odd: &'static [&'static str],
    few: bool,
) -> Column {
    Column { name, kind, ty, fill, value, odd, few }
}

fn below(dice: &mut Dice, end: u32) -> String {
    dice.below(end).to_string()
}

fn row(dice: &mut Dice) -> i64 {
    dice.below(7 * CHUNK).into()
}

use Kind::*;

/// All columns of table `piece` except its key `id`.
#[rustfmt::skip]
pub const PIECE: &[Column] = &[
    column("id", Integer, "integer", "{i}", |d| row(d).to_string(), &["-1", "2147483647"], false),
    column("tiny", Integer, "smallint", "{i} % 7", |d| below(d, 8), &["300", "-32768", "NULL"], true),
    column("small", Integer, "smallint", "({h} % 32768)::smallint", |d| (i64::from(d.below(65536)) - 32768).to_string(), &["NULL"], false),
    column("step", Integer, "integer", "{i} / 100", |d| below(d, 600), &["-5", "70000", "2147483647"], false),
    column("hop", Integer, "integer", "({h} % 100000)::integer", |d| (i64::from(d.below(200_000)) - 100_000).to_string(), &["2147483647", "-2147483648"], false),
    column("big", Integer, "bigint", "5000000000 + 4 * {i}", |d| (5_000_000_000 + 4 * row(d)).to_string(), &["0", "9223372036854775807", "-9223372036854775808"], false),
    column("wild", Integer, "bigint", "{h}", |d| format!("{}{}", d.pick(&["", "-"]), u64::from(d.below(u32::MAX)) << 31), &["NULL"], false),
    // In `same`, the second chunk has only one value; in `gone`, the third chunk has only NULLs.
    column("same", Integer, "integer", "CASE WHEN {i} / 8192 = 1 THEN 77 ELSE {i} / 8192 * 1000 + abs({h} % 50) END", |d| (d.below(7) * 1000 + d.below(90)).to_string(), &["77", "-1000000"], false),
    column("gone", Integer, "integer", "CASE WHEN {i} / 8192 <> 2 THEN nullif({i} % 11, 5) END", |d| below(d, 12), &["100000", "NULL"], true),
    column("flag", Bool, "boolean", "nullif({i} % 5, 0) < 3", |d| d.pick(&["true", "false"]).into(), &["NULL"], true),
    column("day", Date, "date", "date '2023-01-01' + {i} / 50", |d| format!("date '2023-01-01' + {}", row(d) / 50), &["'infinity'", "'-infinity'", "'1900-02-28'", "'5874897-12-31'"], false),
    column("at", Timestamp, "timestamp", "timestamp '2023-01-01' + {i} * interval '77 seconds'", |d| format!("timestamp '2023-01-01' + {} * interval '77 seconds'", row(d)), &["'infinity'", "'294276-12-31 23:59:59.999999'", "NULL"], false),
    column("zoned", Timestamp, "timestamptz", "timestamptz '2023-01-01 00:00+00' + abs({h} % 31536000) * interval '1 second'", |d| format!("timestamptz '2023-01-01 00:00+00' + {} * interval '1 second'", d.below(31_536_000)), &["'-infinity'", "'1969-07-20 20:17:40+00'"], false),
    column("price", Decimal, "numeric(8,2)", "{i} * 0.25 % 5000", |d| format!("{}.{}", d.below(5000), d.pick(&["25", "5", "005", "999"])), &["999999.99", "-999999.99", "NULL"], false),
    column("exact", Decimal, "numeric(30,6)", "{h} / 1000000.0", |d| format!("{}.5", i64::from(d.below(u32::MAX)) * 2000 - 4_000_000_000_000), &["99999999999999999999999.999999", "0.000001"], false),
    // These numbers have no trailing zeros, so that equal numbers are shown in the same form.
    column("free", Decimal, "numeric", "trim_scale({i} % 500 / 8.0)", |d| format!("{}.125", d.below(70)), &["'NaN'", "1e40", "-0.00000000000000000000000000000000000000000000001"], false),
    column("double", Float, "double precision", "{h} / 1e15", |d| format!("{}e-3", i64::from(d.below(20_000)) - 10_000), &["'NaN'", "'-Infinity'", "1.7e308"], false),
    column("single", Float, "real", "({i} % 1000) / 8.0", |d| format!("{}.125::real", d.below(130)), &["'Infinity'", "NULL"], false),
    // In most chunks, all values of `offside` have the same sign.
    column("offside", Float, "double precision", "({i} - 20000) / 8.0", |d| format!("{}.125", i64::from(d.below(8000)) - 3000), &["'NaN'", "'-Infinity'", "-1e-300"], false),
    column("warm", Float, "real", "({i} / 100 - 200) / 4.0", |d| format!("{}.25::real", i64::from(d.below(150)) - 60), &["'-Infinity'", "'NaN'", "NULL"], false),
    column("sort", Text, "text", "'sort ' || {i} % 9", |d| format!("'sort {}'", d.below(10)), &["'odd'", "''", "repeat('long ', 100)"], true),
    column("word", Text, "text", "'word' || abs({h} % 400)", |d| format!("'word{}'", d.below(420)), &["'x'", "NULL", "'ein längeres Wort'"], false),
    column("name", Text, "text", "md5({h}::text)", |d| format!("'{:x}'", d.below(1 << 20)), &["'z'", "repeat('0', 3000)", "''"], false),
    column("code", Text, "char(6)", "'c' || {i} / 1000", |d| format!("'c{}'", d.below(60)), &["'ßß'", "'zz zz'"], false),
    column("late", Text, "varchar(40)", "CASE WHEN {i} / 8192 > 2 THEN 'late ' || {i} % 300 END", |d| format!("'late {}'", d.below(310)), &["'early'", "NULL"], false),
    column("token", Uuid, "uuid", "md5(({h} % 5000)::text)::uuid", |d| format!("md5('{}')::uuid", d.below(5000)), &["'00000000-0000-0000-0000-000000000000'"], false),
    // A few values that lie far apart.
    column("tenant", Uuid, "uuid", "md5((abs({h}) % 40 + {i} / 20000 * 20)::text)::uuid", |d| format!("md5('{}')::uuid", d.below(80)), &["'00000000-0000-0000-0000-000000000000'", "NULL"], true),
    column("far", Integer, "bigint", "({h} % 300) * 1000000000007", |d| format!("{}", (i64::from(d.below(640)) - 320) * 1_000_000_000_007), &["1", "-9223372036854775808", "NULL"], false),
    column("moment", Timestamp, "timestamptz", "timestamptz '2024-01-01 00:00+00' + {i} / 40 % 100 * interval '1 hour'", |d| format!("timestamptz '2024-01-01 00:00+00' + {} * interval '1 hour'", d.below(101)), &["'infinity'", "'2024-01-01 00:00:00.000001+00'", "NULL"], true),
    column("level", Float, "double precision", "({h} % 4) * 12345.678", |d| format!("{} * 12345.678::float8", i64::from(d.below(8)) - 4), &["'-0'", "'NaN'", "0.1"], true),
    // Values grow with the row's number, like keys that are generated from the time.
    column("stamp", Text, "text COLLATE \"C\"", "to_char(timestamp '2023-01-01' + {i} * interval '77 seconds', 'YYYY-MM-DD HH24:MI:SS')", |d| format!("to_char(timestamp '2023-01-01' + {} * interval '77 seconds', 'YYYY-MM-DD HH24:MI:SS')", row(d)), &["''", "'2023'", "repeat('2023-02-0', 50)", "NULL"], false),
    column("address", Text, "text", "'https://' || {i} / 500 || '.example.com/' || {h}", |d| format!("'https://{}.example.com/'", row(d) / 500), &["''", "'http://'", "'https://ž'"], false),
    column("born", Uuid, "uuid", "(lpad(to_hex({i} / 3), 8, '0') || '-0000-7000-8000-' || lpad(to_hex({h} & 281474976710655), 12, '0'))::uuid", |d| format!("(lpad(to_hex({}), 8, '0') || '-0000-7000-8000-000000000000')::uuid", row(d) / 3), &["'ffffffff-ffff-ffff-ffff-ffffffffffff'", "NULL"], false),
    column("mark", Bytes, "bytea", "int4send({i}::integer) || '\\x00'", |d| format!("(int4send({}) || '\\x00')", row(d)), &["'\\x'", "'\\x0000'", "'\\xffffffffffffffffffffffffffffffffff'", "NULL"], false),
];

/// The columns of a table with up to three rows for each row of `piece`. Its key is (`piece`, `no`).
#[rustfmt::skip]
pub const EVENT: &[Column] = &[
    column("piece", Integer, "integer", "{i} * 3 % 40009", |d| below(d, 40_009), &["-7"], false),
    column("no", Integer, "smallint", "{i} % 3", |d| below(d, 4), &["9"], true),
    column("amount", Decimal, "numeric(12,2)", "abs({h} % 100000) / 100.0", |d| format!("{}.{}", d.below(1000), d.below(100)), &["9999999999.99", "NULL"], false),
    column("quantity", Integer, "integer", "abs({h} % 20)::integer", |d| below(d, 21), &["1000000", "NULL"], true),
    column("done", Date, "date", "date '2024-01-01' + {i} / 100", |d| format!("date '2024-01-01' + {}", d.below(400)), &["'2500-01-01'", "NULL"], false),
    column("label", Text, "text", "'label ' || {i} / 4000 || '/' || {i} % 12", |d| format!("'label {}/{}'", d.below(9), d.below(12)), &["'none'", "NULL"], false),
];

pub const SORT: &[Column] = &[
    column("sort", Text, "text", "'sort ' || {i}", |d| format!("'sort {}'", d.below(10)), &[], true),
    column("grade", Integer, "integer", "{i} % 4", |d| below(d, 5), &["1000"], true),
];

pub fn columns_of(table: &str) -> &'static [Column] {
    match table {
        "piece" => PIECE,
        "event" => EVENT,
        _ => SORT,
    }
}

impl Column {
    pub fn ty(&self) -> &'static str {
        self.ty
    }

    /// The column's expression for new rows. `row` is an SQL expression for the row's number.
    pub fn made(&self, row: &str, salt: u32) -> String {
        let own = format!("hashint8extended({row}, {salt})");
        self.fill.replace("{i}", row).replace("{h}", &own)
    }
}

/// A statement that inserts the rows with numbers `from` to `to`, except those that exist already.
pub fn rows(table: &str, from: u32, to: u32, salt: u32) -> String {
    let values: Vec<String> = columns_of(table).iter().map(|column| column.made("i", salt)).collect();
    format!(
        "INSERT INTO {table} SELECT {} FROM generate_series({from}, {to}) i ON CONFLICT DO NOTHING",
        values.join(", ")
    )
}

/// Creates the tables and mirrors them, then deletes some of their rows.
pub fn create(client: &mut Client, chunks: u32) -> Result<()> {
    client.batch_execute("DROP TABLE IF EXISTS piece, event, sort")?;
    for (table, key) in [("piece", "id"), ("event", "piece, no"), ("sort", "sort")] {
        let columns: Vec<String> =
            columns_of(table).iter().map(|column| format!("{} {}", column.name, column.ty)).collect();
        client.batch_execute(&format!("CREATE TABLE {table} ({}, PRIMARY KEY ({key}))", columns.join(", ")))?;
    }
    let last = chunks * CHUNK - 1;
    for rows in [rows("piece", 0, last, 0), rows("event", 0, last * 4 / 5, 0), rows("sort", 0, 8, 0)] {
        client.batch_execute(&rows)?;
    }
    client.batch_execute("ANALYZE piece, event, sort")?;
    anker::mirror(client, &TABLES, LIVE)?;
    client.batch_execute(&format!(
        "DELETE FROM piece WHERE id / {CHUNK} = 3 AND id % 3 > 0; DELETE FROM piece WHERE id / {CHUNK} = {}",
        chunks - 1
    ))?;
    Ok(())
}
