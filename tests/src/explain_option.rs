//! `EXPLAIN (ANKER)`, since PostgreSQL 18: which side would run any query, and why.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;
use serde_json::Value;

use crate::runner::{Context, ensure, tests};

tests![a_query_is_explained_whatever_its_route, the_option_has_the_other_forms, a_prepared_query_has_its_plan];

const LIVE: Duration = Duration::from_secs(60);

/// A session with mirrored tables and others; `None` if the server is older than the option.
fn with_tables(context: &Context) -> Result<Option<Client>> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, x text);
         INSERT INTO t SELECT i, i % 7, 'x' || i FROM generate_series(1, 20000) i;
         CREATE TABLE u (k integer PRIMARY KEY); INSERT INTO u SELECT generate_series(1, 10);
         CREATE TABLE p (id integer PRIMARY KEY, v integer) PARTITION BY RANGE (id);
         CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
         CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
         CREATE VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g; ANALYZE;
         SET max_parallel_workers_per_gather = 0",
    )?;
    anker::mirror(&mut client, &["t", "p"], LIVE)?;
    let version = anker::text_rows(&mut client, "SELECT current_setting('server_version_num')::integer >= 180000")?;
    if version == ["t"] {
        return Ok(Some(client));
    }
    let error = client.simple_query("EXPLAIN (ANKER) SELECT count(*) FROM t").err().ok_or("the option is known")?;
    ensure!(error.to_string().contains("anker") || error.as_db_error().is_some(), "{error}");
    Ok(None)
}

/// The lines below `Anker:`, without those of costs, whose numbers differ.
fn told(client: &mut Client, options: &str, sql: &str) -> Result<Vec<String>> {
    let lines = anker::text_rows(client, &format!("EXPLAIN (ANKER{options}) {sql}"))?;
    let mut below = lines.iter().skip_while(|line| *line != "Anker:");
    below.next().ok_or_else(|| format!("nothing was told:\n{}", lines.join("\n")))?;
    Ok(below.take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect())
}

fn a_query_is_explained_whatever_its_route(context: &Context) -> Result<()> {
    let Some(mut client) = with_tables(context)? else { return Ok(()) };
    let groups = "SELECT g, count(*) FROM t GROUP BY g";
    let hint = "no, because anker.route is hint, and the query does not call anker.olap()";
    let can = "can run the query";
    for (route, sql, asked, engine, tables) in [
        ("hint", groups, hint, can, "t (live)"),
        ("hint", "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g", "yes", can, "t (live)"),
        ("hint", "SELECT sum(n) FROM v", hint, can, "t (live)"),
        ("hint", "SELECT count(*) FROM p JOIN u ON id = k", hint, can, "p (live), u (not mirrored)"),
        (
            "hint",
            "SELECT count(*) FROM u",
            hint,
            "cannot run the query, because table \"u\" is not mirrored",
            "u (not mirrored)",
        ),
        (
            "hint",
            "SELECT count(*) FROM t TABLESAMPLE system (10)",
            hint,
            "cannot run the query, because TABLESAMPLE",
            "t (live)",
        ),
        ("off", groups, "no, because anker.route is off", can, "t (live)"),
        ("prefer", groups, "yes", can, "t (live)"),
        ("prefer", "SELECT * FROM t FOR UPDATE", "no, because it locks rows", "", "t (live)"),
        ("prefer", "SELECT count(*) FROM u", "no, because no table of it is mirrored", "", "u (not mirrored)"),
        ("auto", "SELECT x FROM t WHERE id = 5", "no, because it reads one row by its primary key", can, "t (live)"),
        ("auto", groups, "yes", can, "t (live)"),
        (
            "prefer",
            "UPDATE t SET g = 1",
            "no, because the statement only changes rows, or reads none",
            "cannot run the query, because the statement only changes rows, or reads none",
            "",
        ),
        ("prefer", "INSERT INTO u SELECT id + 100 FROM t", "yes", can, "t (live)"),
        ("prefer", "CREATE TABLE made AS SELECT g FROM t", "yes", can, "t (live)"),
        (
            "prefer",
            "DECLARE c CURSOR FOR SELECT g FROM t",
            "no, because it is a cursor, which may be used to update rows",
            can,
            "t (live)",
        ),
    ] {
        client.batch_execute(&format!("SET anker.route = {route}"))?;
        let found = told(&mut client, ", COSTS off", sql)?;
        let of = |label: &str| found.iter().find_map(|line| line.strip_prefix(&format!("{label}: ")));
        ensure!(of("Route") == Some(route) && of("Asked") == Some(asked), "{sql}: {found:?}");
        ensure!(of("Engine").is_some_and(|shown| shown.starts_with(engine)), "{sql}: {found:?}");
        ensure!(of("Tables").unwrap_or_default() == tables, "{sql}: {found:?}");
        ensure!(of("Engine Cost").is_none(), "{sql}: costs without COSTS: {found:?}");
        // Nothing was computed or changed.
        ensure!(anker::text_rows(&mut client, "SELECT count(*) FROM u")? == ["10"], "{sql} was run");
    }
    client.batch_execute("SET anker.route = hint")?;
    let found = told(&mut client, "", groups)?;
    let cost = |label: &str| found.iter().find_map(|line| line.strip_prefix(label)?.parse::<f64>().ok());
    let plan = anker::text_rows(&mut client, &format!("EXPLAIN {groups}"))?;
    let heap = cost("Heap Cost: ").ok_or("no heap's cost")?;
    ensure!(plan[0].contains(&format!("..{heap:.2} ")), "the heap's cost is {heap}, its plan {}", plan[0]);
    ensure!(cost("Engine Cost: ").is_some_and(|engine| engine > 0.0), "{found:?}");
    // With ANALYZE, the option is below the plan, too, and without it nothing is told.
    let analyzed = told(&mut client, ", ANALYZE", groups)?;
    ensure!(analyzed == found, "with ANALYZE {analyzed:?}");
    for options in ["ANKER off", "COSTS off"] {
        let plain = anker::text_rows(&mut client, &format!("EXPLAIN ({options}) {groups}"))?;
        ensure!(!plain.iter().any(|line| line.contains("Anker")), "{options}: {plain:?}");
    }
    Ok(())
}

fn the_option_has_the_other_forms(context: &Context) -> Result<()> {
    let Some(mut client) = with_tables(context)? else { return Ok(()) };
    let explain = "EXPLAIN (ANKER, FORMAT json) SELECT count(*) FROM u";
    let shown = anker::text_rows(&mut client, explain)?.join("\n");
    let json: Value = serde_json::from_str(&shown)?;
    let told = &json[0]["Anker"];
    let is_told = |label: &str, value: &str| told[label].as_str() == Some(value);
    ensure!(is_told("Route", "hint") && is_told("Heap Reason", "not_mirrored"), "{shown}");
    ensure!(told["Tables"] == serde_json::json!(["u (not mirrored)"]), "{shown}");
    for format in ["xml", "yaml"] {
        let explain = format!("EXPLAIN (ANKER, FORMAT {format}) SELECT count(*) FROM t");
        let shown = anker::text_rows(&mut client, &explain)?.join("\n");
        ensure!(shown.contains("can run the query"), "{shown}");
    }
    Ok(())
}

fn a_prepared_query_has_its_plan(context: &Context) -> Result<()> {
    let Some(mut client) = with_tables(context)? else { return Ok(()) };
    client.batch_execute("PREPARE q AS SELECT g, count(*) FROM t GROUP BY g")?;
    let found = told(&mut client, "", "EXECUTE q")?;
    ensure!(found == ["Asked: when the statement was planned", "Tables: t (live)"], "{found:?}");
    // A query in a function is explained like any other, and an error leaves nothing behind.
    client.batch_execute("DO $$ BEGIN EXECUTE 'EXPLAIN (ANKER) SELECT count(*) FROM t'; END $$")?;
    ensure!(client.batch_execute("EXPLAIN (ANKER) SELECT nonsense FROM t").is_err(), "no error");
    let plain = anker::text_rows(&mut client, "EXPLAIN SELECT count(*) FROM t")?;
    ensure!(!plain.iter().any(|line| line.contains("Anker")), "{plain:?}");
    Ok(())
}
