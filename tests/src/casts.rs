//! Tests every cast that the server knows, with ordinary values and with values at the limits of a type. Engine and
//! heap must give the same answers.

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask, compare, unflagged};
use crate::runner::{Context, ensure, tests};

tests![every_cast_gives_what_the_heap_gives];

const LIVE: std::time::Duration = std::time::Duration::from_secs(60);

/// Types of the table's columns, each with a list of values. Row n of the table has the n-th value of each list.
const VALUES: &[(&str, &[&str])] = &[
    ("boolean", &["true", "false"]),
    ("smallint", &["-32768", "-1", "0", "1", "32767"]),
    ("integer", &["-2147483648", "-1", "0", "1", "97", "32768", "2147483647"]),
    ("bigint", &["-9223372036854775808", "-1", "0", "1", "32768", "2147483648", "4294967295", "9223372036854775807"]),
    ("real", &["-Infinity", "NaN", "-0", "0.5", "1.5", "32767.5", "-32768.4", "2147483648", "3.4e38", "1e-45"]),
    (
        "double precision",
        &["Infinity", "NaN", "-0", "2.5", "-0.5", "2147483647.5", "9223372036854775807", "1e308", "1e-310"],
    ),
    (
        "numeric",
        &["NaN", "-Infinity", "0.5", "-2.50", "32767.49", "2147483647.5", "9223372036854775807.5", "1e40", "0.000"],
    ),
    ("numeric(12,2)", &["0.50", "-2.50", "32767.49", "2147483647.50", "9999999999.99", "0.00"]),
    ("oid", &["0", "1", "23", "1259", "2147483647", "2147483648", "4294967295"]),
    ("regclass", &["pg_class", "pg_type", "0", "4294967295"]),
    ("regproc", &["now", "0", "4294967295"]),
    ("regprocedure", &["now()", "0", "4294967295"]),
    ("regoper", &["0", "4294967295"]),
    ("regoperator", &["=(integer,integer)", "0", "4294967295"]),
    ("regtype", &["integer", "0", "4294967295"]),
    ("regrole", &["pg_monitor", "0", "4294967295"]),
    ("regnamespace", &["pg_catalog", "0", "4294967295"]),
    ("regconfig", &["simple", "0", "4294967295"]),
    ("regdictionary", &["simple", "0", "4294967295"]),
    ("regcollation", &["\"C\"", "0", "4294967295"]),
    ("\"char\"", &["", "a", "~", " "]),
    ("name", &["", "a", "ab  ", "pg_class", "1259"]),
    ("text", &["", "a", "ab  ", "pg_class", "1259", "true"]),
    ("varchar(8)", &["", "a", "ab  ", "pg_class", "1259", " t "]),
    ("char(8)", &["", "a", "ab  ", "pg_class", "1259", "12345678"]),
    ("bpchar", &["", "a", "ab  ", "pg_class", "1259"]),
    ("bytea", &["", "\\x00", "\\x6162"]),
    ("date", &["-infinity", "infinity", "4713-01-01 BC", "2000-02-29", "5874897-12-31"]),
    ("timestamp", &["-infinity", "infinity", "4713-01-01 BC", "2000-02-29 23:59:59.999999", "294276-12-31 23:59:59.5"]),
    (
        "timestamptz",
        &["-infinity", "infinity", "4713-01-02 BC", "2000-02-29 23:59:59.999999+00", "294276-12-31 12:00+00"],
    ),
    ("time", &["00:00", "12:34:56.789012", "24:00"]),
    ("timetz", &["00:00+15:59", "12:34:56.789012-01", "24:00-15:59"]),
    ("interval", &["0", "1 day", "-1 mon 30 days -24:00", "100 years 23:59:59.999999", "-00:00:00.000001"]),
    ("money", &["0", "-92233720368547758.08", "92233720368547758.07", "0.50"]),
    ("bit(4)", &["0000", "1111", "1000"]),
    ("varbit", &["", "1", "11111111111111111111111111111111", "000"]),
    ("uuid", &["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]),
    ("json", &["null", "1", "\"a\"", "{\"a\": [1]}"]),
    ("jsonb", &["null", "1", "-1.50", "1e20", "\"a\"", "true", "{\"a\": [1]}"]),
    ("cidr", &["10.0.0.0/8", "::/0", "192.168.1.1/32"]),
    ("inet", &["10.1.2.3/8", "::1", "192.168.1.1"]),
    ("macaddr", &["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"]),
    ("macaddr8", &["00:00:00:ff:fe:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff"]),
    ("pg_lsn", &["0/0", "FFFFFFFF/FFFFFFFF"]),
    ("point", &["(0,-0)", "(1.5,NaN)"]),
    ("lseg", &["[(0,0),(1,1)]"]),
    ("path", &["[(0,0),(1,1)]", "((0,0),(1,1))"]),
    ("box", &["(0,0),(1,1)"]),
    ("polygon", &["((0,0),(1,1),(2,0))"]),
    ("circle", &["<(0,0),1.5>"]),
    ("int4range", &["empty", "[-2147483648,5)", "(,)"]),
    ("int8range", &["empty", "[1,5)"]),
    ("numrange", &["empty", "[1.0,5)"]),
    ("daterange", &["empty", "[2000-01-01,)"]),
    ("tsrange", &["empty", "[2000-01-01,infinity]"]),
    ("tstzrange", &["empty", "[2000-01-01,)"]),
    ("mood", &["sad", "fine"]),
    ("small", &["-1", "32767"]),
    ("code", &["a", "ab  "]),
];

/// Types with a modifier. A cast to one of them shortens, rounds or refuses values.
const WITH_MODIFIER: &[&str] = &[
    "char(2)",
    "varchar(2)",
    "numeric(5,1)",
    "numeric(40,2)",
    "time(0)",
    "timetz(3)",
    "timestamp(0)",
    "timestamptz(3)",
    "interval(0)",
    "interval day to hour",
    "bit(2)",
    "varbit(3)",
    "code",
];

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'fine'); CREATE DOMAIN small AS smallint; CREATE DOMAIN code AS char(4);
    CREATE CAST (integer AS date) WITHOUT FUNCTION AS IMPLICIT; CREATE CAST (bigint AS timestamp) WITHOUT FUNCTION;
    CREATE CAST (smallint AS date) WITH FUNCTION int4(smallint)";

fn every_cast_gives_what_the_heap_gives(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    with_values(&mut client)?;
    let (mut by_engine, mut differences) = (0, Vec::new());
    for (column, (source, values)) in VALUES.iter().enumerate() {
        for target in targets(&mut client, source)? {
            let cast = format!("c{column}::{target}");
            for sql in questions(&mut client, &cast, column, values.len())? {
                match compare(&mut client, &sql, true) {
                    Err(difference) => differences.push(format!("{source}: {difference}")),
                    // Values of some types cannot be ordered, so the query's ORDER BY raises an error.
                    Ok(Answer::Error { .. }) => {}
                    Ok(Answer::Rows(_)) => {
                        by_engine += u32::from(anker::explained(&mut client, &sql)?.is_some_and(|who| who == "engine"));
                    }
                }
            }
        }
    }
    ensure!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    ensure!(by_engine >= 300, "the engine has answered no more than {by_engine}");
    let failures = anker::failures(&mut client)?;
    ensure!(failures == 0, "the engine has met {failures} plans that it should not have");
    Ok(())
}

fn with_values(client: &mut Client) -> Result<()> {
    client.batch_execute(MADE)?;
    let columns: Vec<String> = (VALUES.iter().enumerate()).map(|(at, (ty, _))| format!("c{at} {ty}")).collect();
    client.batch_execute(&format!("CREATE TABLE t (id integer PRIMARY KEY, {})", columns.join(", ")))?;
    let rows = VALUES.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    for row in 0..rows {
        let value = |(_, values): &(&str, &[&str])| match values.get(row) {
            Some(value) => format!("'{value}'"),
            None => "NULL".into(),
        };
        let values: Vec<String> = VALUES.iter().map(value).collect();
        client.batch_execute(&format!("INSERT INTO t VALUES ({row}, {})", values.join(", ")))?;
    }
    client.batch_execute("ANALYZE t")?;
    anker::mirror(client, &["t"], LIVE)
}

/// The types to which values of `source` are cast: targets in the catalog, targets of a cast through text, and types
/// with a modifier.
fn targets(client: &mut Client, source: &str) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT DISTINCT format_type(casttarget, -1) FROM pg_cast
         WHERE castsource = (SELECT coalesce(nullif(typbasetype, 0), oid) FROM pg_type WHERE oid = '{source}'::regtype)
         ORDER BY 1"
    );
    let by_catalog = anker::text_rows(client, &sql)?;
    let through_text = ["text", "varchar"].into_iter().map(str::to_owned).chain([format!("text::{source}")]);
    Ok(by_catalog.into_iter().chain(through_text).chain(WITH_MODIFIER.iter().copied().map(str::to_owned)).collect())
}

/// Queries that test a cast. Values that can be cast are returned, ordered, grouped and compared. Each value for which
/// the cast raises an error has a query of its own.
fn questions(client: &mut Client, cast: &str, column: usize, values: usize) -> Result<Vec<String>> {
    let rows = |ids: &str| format!("FROM t WHERE anker.olap() AND id IN ({ids})");
    let shown = |ids: &str| format!("SELECT {cast}, ({cast})::text {} ORDER BY id", rows(ids));
    if let Answer::Error { .. } = ask(client, &format!("EXPLAIN {}", unflagged(&shown("0"))))? {
        return Ok(Vec::new());
    }
    let (mut taken, mut questions) = (Vec::new(), Vec::new());
    for id in (0..values).map(|id| id.to_string()) {
        match ask(client, &unflagged(&shown(&id)))? {
            Answer::Rows(_) => taken.push(id),
            Answer::Error { .. } => questions.push(shown(&id)),
        }
    }
    if let Some(first) = taken.first() {
        let rows = rows(&taken.join(", "));
        questions.push(shown(&taken.join(", ")));
        questions.push(format!("SELECT {cast} {rows} AND c{column} IS NOT NULL ORDER BY {cast} DESC, id"));
        questions.push(format!("SELECT {cast}, min(id) {rows} GROUP BY {cast} ORDER BY 2"));
        // The cast stands in the select list, not in a condition, because PostgreSQL may evaluate conditions in any
        // order.
        questions.push(format!("SELECT id, {cast} >= (SELECT {cast} FROM t WHERE id = {first}) {rows} ORDER BY id"));
    }
    Ok(questions)
}
