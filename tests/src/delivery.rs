//! A client gets the same messages, byte for byte, whether engine or heap answers. This is tested for every type, as
//! text and in binary, and with settings that change how values are shown.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::Cluster;
use bench::wire::{BINARY, Form, Message, TEXT, Wire};
use bench::{Result, anker};
use postgres::Client;

use crate::runner::{Context, ensure, tests};

tests![
    values_of_every_type,
    a_zero_byte_ends_a_text,
    settings_that_change_how_values_look,
    another_encoding_of_the_clients,
    an_encoding_that_the_query_changes,
    a_format_that_there_is_not,
    rows_in_portions,
    errors_behind_the_first_row,
];

const LIVE: Duration = Duration::from_secs(60);

const FORMS: [Form; 3] =
    [Form::Simple, Form::Portal { format: TEXT, rows: 0 }, Form::Portal { format: BINARY, rows: 0 }];

/// Columns of all types that pg_anker writes into messages itself, and of some that it leaves to PostgreSQL's output
/// functions.
const TABLE: &str = r#"
    CREATE DOMAIN small AS integer CHECK (VALUE < 2000000000);
    CREATE DOMAIN price AS numeric(12,2);
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE v (
        id integer PRIMARY KEY, b boolean, i2 smallint, i4 integer, i8 bigint, o oid, f4 real, f8 double precision,
        n numeric, n2 numeric(12,3), n30 numeric(30,10), t text, vc varchar(20), c char(7), na name, d date, ti time,
        ts timestamp, tz timestamptz, iv interval, u uuid, by bytea, j jsonb, js json, ar integer[], ip inet,
        s small, p price, m mood
    );
    SELECT setseed(0.25);
    INSERT INTO v SELECT i, random() < 0.5,
        (random() * 65535 - 32768)::smallint, ((random() - 0.5) * power(10, i % 10))::integer,
        ((random() - 0.5) * power(10, i % 19))::bigint, (random() * 4294967295)::bigint::oid,
        ((random() - 0.5) * power(10, i % 60 - 30))::real, (random() - 0.5) * power(10, i % 300 - 150),
        ((random() - 0.5) * power(10, i % 12))::numeric * power(10::numeric, i % 40 - 20),
        (random() - 0.5) * power(10, i % 9), (random() - 0.5)::numeric * power(10::numeric, i % 19),
        repeat('x€ä', i % 9), left(md5(i::text), i % 20), left(md5(i::text), i % 8), left(md5(i::text), i % 30),
        date '2000-01-01' + ((random() - 0.5) * power(10, i % 7))::integer,
        time '00:00' + random() * interval '24 h',
        timestamp '2000-01-01' + (random() - 0.5) * power(10, i % 11) * interval '1 s',
        timestamptz '2000-01-01' + (random() - 0.5) * power(10, i % 11) * interval '1 s',
        (random() - 0.5) * power(10, i % 6) * interval '1 day 1 s', md5(i::text)::uuid, decode(md5(i::text), 'hex'),
        jsonb_build_object('k', i, 't', repeat('y', i % 5)), '{"a" : 1}', ARRAY[i, NULL, -i], '10.0.0.1',
        i % 100, i / 7.0, (ARRAY['sad', 'ok', 'happy']::mood[])[i % 3 + 1]
    FROM generate_series(1, 1000) i;
    INSERT INTO v(id) VALUES (0);
    INSERT INTO v(id, i2, i4, i8, o, f4, f8, n, d, ts, tz, t) VALUES
        (-1, -32768, -2147483648, -9223372036854775808, 4294967295, 'NaN', 'NaN', 'NaN', 'infinity', 'infinity',
         'infinity', ''),
        (-2, 32767, 2147483647, 9223372036854775807, 0, 'Infinity', '-Infinity', 'Infinity', '-infinity', '-infinity',
         '-infinity', repeat('long', 100000)),
        (-3, 0, 0, 0, 1, '-0', '-0', '-Infinity', '4714-11-24 BC', '4714-11-24 00:00:00 BC', '4714-11-24 00:00:00+00 BC',
         'x'),
        (-4, -1, -1, -1, 2, 1e-45, 5e-324, 0.000, '5874897-12-31', '294276-12-31 23:59:59.999999',
         '294276-12-31 23:59:59.999999+00', 'x'),
        (-5, 1, 1, 1, 3, 3.4e38, 1.7e308, 1e-100, '0001-01-01', '0001-12-31 23:59:59.9 BC', '0001-12-31 12:00:00+00 BC',
         'x'),
        (-6, 10, 10, 10, 4, 1, 1, -1e130, '9999-12-31', '10000-01-01', '10000-01-01 00:00:00+00', 'x'),
        (-7, 100, 100, 100, 5, 0.1, 0.1, 100000000, '1883-11-18', '1883-11-18 12:03:58', '1883-11-18 12:03:58+00', 'x')
"#;

const QUERIES: [&str; 5] = [
    "SELECT * FROM v WHERE anker.olap() ORDER BY id",
    "SELECT * FROM v WHERE anker.olap()",
    "SELECT id, n * 3, n2 + 1, n30 * n2, i8 * 2::numeric, tz - interval '1 month', ts + interval '1 us', d + 1
     FROM v WHERE id > 0 AND anker.olap()",
    "SELECT i2, count(*), sum(i8), avg(n2), min(tz), max(d), sum(f8 * 0), string_agg(vc, ',' ORDER BY id)
     FROM v WHERE anker.olap() GROUP BY i2 ORDER BY i2 LIMIT 100",
    "SELECT FROM v WHERE anker.olap()",
];

fn with_table(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute("SET TimeZone = 'UTC'")?;
    client.batch_execute(TABLE)?;
    client.batch_execute("ANALYZE v")?;
    anker::mirror(&mut client, &["v"], LIVE)?;
    Ok((cluster, client))
}

/// Sorts the rows, because without ORDER BY their order is not defined.
fn normal(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_by_key(|message| (message.kind != b'D').then(Vec::new).unwrap_or_else(|| message.content.clone()));
    messages
}

/// Runs a query on the heap and in the engine, and fails if the messages differ in more than the order of rows. Returns
/// the number of rows.
fn same(wire: &mut Wire, sql: &str, form: Form) -> Result<usize> {
    compared(wire, sql, form, normal)
}

/// Like `same`, but the rows must also come in the same order.
fn same_in_order(wire: &mut Wire, sql: &str, form: Form) -> Result<usize> {
    compared(wire, sql, form, |messages| messages)
}

fn compared(wire: &mut Wire, sql: &str, form: Form, arrange: fn(Vec<Message>) -> Vec<Message>) -> Result<usize> {
    wire.run("SET anker.route = off")?;
    let heap = arrange(wire.ask(sql, form)?);
    wire.run("SET anker.route = force")?;
    let engine = arrange(wire.ask(sql, form)?);
    let shown = |message: Option<&Message>| {
        message.map(|message| (char::from(message.kind), String::from_utf8_lossy(&message.content).into_owned()))
    };
    for at in 0..heap.len().max(engine.len()) {
        let (a, b) = (heap.get(at), engine.get(at));
        ensure!(a == b, "{sql} ({form:?}): {:?} on the heap, {:?} by the engine", shown(a), shown(b));
    }
    Ok(heap.iter().filter(|message| message.kind == b'D').count())
}

fn values_of_every_type(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    let before = anker::counter(&mut client, "queries_served")?;
    let mut wire = Wire::connect(&cluster.config())?;
    for sql in QUERIES {
        for form in FORMS {
            let rows = same(&mut wire, sql, form)?;
            ensure!(rows >= 100, "{sql}: {rows} rows");
        }
    }
    let served = anker::counter(&mut client, "queries_served")? - before;
    ensure!(served == (QUERIES.len() * FORMS.len()) as i64, "{served} by the engine");
    Ok(())
}

/// `''::"char"::char(n)` contains a zero byte, and so do texts made of it. PostgreSQL reads such a text only up to the
/// zero byte when it sends it as text, and when it counts characters to add blanks. In binary form it sends all bytes.
fn a_zero_byte_ends_a_text(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE z (id integer PRIMARY KEY, c char(1), f char(4), x text);
         INSERT INTO z VALUES (1, ''::\"char\", ''::\"char\", 'a' || ''::\"char\"::char(1) || 'b'), (2, '', '', ''), (3, 'a', 'a', 'a'),
            (4, 'b', ''::\"char\", ''::\"char\"::char(1)::text), (5, ' ', 'ü', 'ab'), (6, NULL, NULL, NULL)",
    )?;
    anker::mirror(&mut client, &["z"], LIVE)?;
    let mut wire = Wire::connect(&cluster.config())?;
    for select in [
        "id, c, f, x, ''::\"char\"::char(4)",
        "id, x || 'q', left(x, 2), substr(x, 2), replace(x, 'b', 'c'), upper(x), x::varchar(2), c::text || x, coalesce(x, c)",
        "id, length(c), length(f), length(x), octet_length(x), c = '', x LIKE 'a%b', x > 'a', c IN ('a', 'b')",
        "CASE WHEN id < 3 THEN f ELSE ''::\"char\"::char(4) END, rank() OVER (ORDER BY x, f), id",
        "max(c), max(x), string_agg(x, ',' ORDER BY id)",
    ] {
        let order = if select.contains("max(") { "" } else { "ORDER BY id" };
        for form in FORMS {
            same_in_order(&mut wire, &format!("SELECT {select} FROM z WHERE anker.olap() {order}"), form)?;
        }
    }
    Ok(())
}

fn settings_that_change_how_values_look(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    let mut wire = Wire::connect(&cluster.config())?;
    let zones = [
        "UTC",
        "America/New_York",
        "Europe/Amsterdam",
        "Asia/Kolkata",
        "Africa/Monrovia",
        "Pacific/Apia",
        "<+03>-3",
        "<-0730>7:30",
        "CCC4DDD,J60/0,J300/25:30",
    ];
    for zone in zones {
        wire.run(&format!("SET TimeZone = '{zone}'"))?;
        same(&mut wire, QUERIES[1], Form::Simple)?;
        same(&mut wire, "SELECT tz FROM v WHERE anker.olap() ORDER BY tz DESC, id", Form::Simple)?;
    }
    for setting in [
        "DateStyle = 'SQL, DMY'",
        "DateStyle = 'SQL, MDY'",
        "DateStyle = 'Postgres, DMY'",
        "DateStyle = 'German'",
        "DateStyle = 'ISO, DMY'",
        "IntervalStyle = 'iso_8601'",
        "extra_float_digits = -5",
        "extra_float_digits = 0",
        "bytea_output = 'escape'",
    ] {
        wire.run(&format!("SET {setting}"))?;
        for form in FORMS {
            same(&mut wire, QUERIES[0], form)?;
        }
    }
    Ok(())
}

fn another_encoding_of_the_clients(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    client.batch_execute("CREATE TABLE w AS SELECT id, repeat('ä', id) AS t, 'ü'::char(3) AS c FROM v WHERE id > 0; ALTER TABLE w ADD PRIMARY KEY (id)",
    )?;
    anker::mirror(&mut client, &["w"], LIVE)?;
    let mut wire = Wire::connect(&cluster.config())?;
    for encoding in ["LATIN1", "WIN1252", "SJIS", "SQL_ASCII", "UTF8"] {
        wire.run(&format!("SET client_encoding = '{encoding}'"))?;
        for form in FORMS {
            // A character that the client's encoding lacks raises PostgreSQL's error.
            same(&mut wire, "SELECT * FROM w WHERE anker.olap()", form)?;
            same(&mut wire, "SELECT id, t, vc, c, na FROM v WHERE anker.olap() ORDER BY id", form)?;
        }
    }
    Ok(())
}

fn an_encoding_that_the_query_changes(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    let mut wire = Wire::connect(&cluster.config())?;
    for form in FORMS {
        for (id, encoding) in [(3, "LATIN1"), (900, "UTF8"), (5, "WIN1252")] {
            // The setting holds until the end of the transaction.
            let sql = format!(
                "SELECT 'é' || id, CASE WHEN id = {id} THEN set_config('client_encoding', '{encoding}', true) END
                 FROM v WHERE id > 0 AND anker.olap() ORDER BY id"
            );
            same_in_order(&mut wire, &sql, form)?;
        }
    }
    Ok(())
}

fn a_format_that_there_is_not(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    let mut wire = Wire::connect(&cluster.config())?;
    for format in [2, u16::MAX] {
        for sql in [QUERIES[1], QUERIES[4]] {
            same(&mut wire, sql, Form::Portal { format, rows: 0 })?;
        }
        let answer = wire.ask(QUERIES[1], Form::Portal { format, rows: 0 })?;
        ensure!(answer.iter().any(|message| message.kind == b'E'), "rows in format {format}");
    }
    Ok(())
}

fn rows_in_portions(context: &Context) -> Result<()> {
    let (cluster, _client) = with_table(context)?;
    let mut wire = Wire::connect(&cluster.config())?;
    for rows in [1, 7, 500, 5000] {
        for format in [TEXT, BINARY] {
            same(&mut wire, QUERIES[0], Form::Portal { format, rows })?;
            // This query has a sort, and most portals are not read to their end. Nevertheless no memory or file must
            // remain.
            same(&mut wire, QUERIES[3], Form::Portal { format, rows })?;
        }
    }
    for sql in [
        "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM v WHERE anker.olap() ORDER BY id",
        "FETCH 10 FROM c",
        "FETCH ALL FROM c",
        "CLOSE c",
    ] {
        wire.run(sql)?;
    }
    Ok(())
}

fn errors_behind_the_first_row(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_table(context)?;
    // PostgreSQL computes this function above the engine's rows. It raises an error after rows were sent, and the
    // session must be usable after that.
    client.batch_execute(
        "CREATE FUNCTION f(integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS
         $$ BEGIN IF $1 = 900 THEN RAISE EXCEPTION 'nine hundred' USING HINT = 'less'; END IF; RETURN $1; END $$",
    )?;
    let mut wire = Wire::connect(&cluster.config())?;
    for form in FORMS {
        let sql = "SELECT f(id), t, n FROM v WHERE anker.olap() ORDER BY id";
        let messages = wire.ask(sql, form)?;
        let last = messages.last().ok_or("no answer")?;
        ensure!(last.kind == b'E', "{:?}", char::from(last.kind));
        let text = String::from_utf8_lossy(&last.content).into_owned();
        ensure!(
            text.contains("nine hundred") && text.contains("less") && text.contains("PL/pgSQL function f"),
            "{text}"
        );
        same(&mut wire, QUERIES[0], form)?;
    }
    Ok(())
}
