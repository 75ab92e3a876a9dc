//! EXPLAIN shows the right plan of the engine, and a session never hangs because it asks the engine for that plan.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::cluster::{Cluster, Options, wait_until};
use bench::{Result, anker, os};
use postgres::Client;
use postgres::error::SqlState;
use serde_json::Value;

use crate::runner::{Context, ensure, needs, tests};

tests![
    plans_as_text,
    plans_in_the_other_forms,
    rows_that_were_counted_are_right,
    chunks_are_left_out_whatever_the_type,
    options_are_followed,
    rows_that_are_sent_along_have_their_name,
    what_is_read_twice_is_computed_once,
    what_was_not_read_to_its_end_has_no_plan,
    a_stopped_engine_is_not_waited_for,
    an_engine_that_is_gone_is_a_reason,
    nothing_is_run_for_a_plan,
    plans_of_tables_that_change,
    queries_that_are_logged_with_their_plan,
    nothing_is_compiled_for_the_engine,
];

const LIVE: Duration = Duration::from_secs(60);

fn with_tables(context: &Context, options: Options) -> Result<(Arc<Cluster>, Client)> {
    let cluster = context.cluster_with(&options.set("anker.max_wait", "30s"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, n numeric(8,2), x text COLLATE \"C\", at timestamptz, d date);
         INSERT INTO t SELECT i, i % 7, i / 8.0, 'x' || i % 50, timestamptz '2024-01-01 UTC' + i * interval '1 hour',
            date '2024-01-01' + i % 100 FROM generate_series(1, 20000) i;
         CREATE TABLE u (k integer PRIMARY KEY, \"Name\" text);
         INSERT INTO u SELECT i, 'u' || i FROM generate_series(0, 4) i;
         CREATE TABLE loose (k integer, word text); INSERT INTO loose VALUES (1, 'a'), (2, 'b'), (NULL, 'c');
         ANALYZE t, u, loose; SET TimeZone = 'UTC'; SET max_parallel_workers_per_gather = 0",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    Ok((cluster, client))
}

fn what_is_read_twice_is_computed_once(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let twice = "WITH w AS (SELECT g, sum(n) AS s FROM t GROUP BY g)
        SELECT count(*) FROM w a JOIN w b ON a.s <= b.s WHERE anker.olap()";
    let sets = "SELECT g, count(*) FROM t JOIN u ON t.g = u.k WHERE anker.olap() GROUP BY ROLLUP (g)";
    for (sql, scans, shared) in [(twice, 1, 1), (sets, 2, 1)] {
        for options in ["COSTS off", "ANALYZE"] {
            let shown = explained(&mut client, options, sql)?;
            let count = |what: &str| shown.matches(what).count();
            ensure!(count("Scan on ") == scans, "{shown}");
            ensure!(count("->  Materialized Scan") == shared, "{shown}");
            ensure!(count("->  Materialize") == 1 + shared, "{shown}");
            ensure!(count("Shared Rows: 1") == 2, "{shown}");
        }
        let json = explained(&mut client, "FORMAT json", sql)?;
        ensure!(json.matches("\"Shared Rows\": 1").count() == 2, "{json}");
    }
    Ok(())
}

/// A cluster in which EXPLAIN waits long for the engine, because the machine may be busy with other tests.
fn patient(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    with_tables(context, Options::default().set("anker.explain_wait", "30s"))
}

fn explained(client: &mut Client, options: &str, sql: &str) -> Result<String> {
    Ok(anker::text_rows(client, &format!("EXPLAIN ({options}) {sql}"))?.join("\n"))
}

/// The lines below the heading `Engine Plan:`, without the heading's indentation.
fn tree(shown: &str) -> Result<Vec<String>> {
    let mut lines = shown.lines().skip_while(|line| line.trim() != "Engine Plan:");
    let heading = lines.next().ok_or_else(|| format!("no engine plan:\n{shown}"))?;
    let depth = |line: &str| line.len() - line.trim_start().len();
    let inside = lines.take_while(|line| depth(line) > depth(heading));
    Ok(inside.map(|line| line[depth(heading) + 2..].to_owned()).collect())
}

fn plans_as_text(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    for (sql, expected) in [
        (
            "SELECT g, count(*), avg(n) FROM t WHERE id > 5 AND d < date '2024-02-01' AND anker.olap() GROUP BY g",
            "->  Aggregate
                   Group Key: g
                   ->  Filter
                         Filter: ((id > 5) AND (d < '2024-02-01'::date))
                         ->  Scan on t",
        ),
        (
            "SELECT count(*) FROM t a JOIN t b ON a.id = b.id LEFT JOIN u ON u.k = b.g AND u.\"Name\" <> 'u2'
             WHERE a.x LIKE 'x1%' AND a.at > timestamptz '2024-02-01' AND anker.olap()",
            "->  Aggregate
                   ->  Hash Left Join
                         Hash Cond: (b.g = u.k)
                         ->  Hash Join
                               Hash Cond: (b.id = a.id)
                               ->  Scan on t b
                               ->  Hash
                                     ->  Filter
                                           Filter: ((a.x LIKE 'x1%') AND (a.at > '2024-02-01 00:00:00+00'::timestamptz))
                                           ->  Scan on t a
                         ->  Hash
                               ->  Filter
                                     Filter: (u.\"Name\" <> 'u2')
                                     ->  Scan on u",
        ),
        (
            "SELECT id FROM t WHERE g IN (SELECT k FROM u WHERE k > 2) AND anker.olap() ORDER BY id DESC LIMIT 5",
            "->  Top-N
                   Sort Key: t.id DESC
                   Limit: 5
                   ->  Hash Semi Join
                         Hash Cond: (t.g = u.k)
                         ->  Scan on t
                         ->  Hash
                               ->  Filter
                                     Filter: (u.k > 2)
                                     ->  Scan on u",
        ),
        (
            "SELECT count(*) FROM t WHERE n > (SELECT avg(n) FROM t i WHERE i.g = t.g) AND anker.olap()",
            "->  Aggregate
                   ->  Filter
                         Filter: (t.n > (sum(i.n) / COALESCE(count(i.n), 0)))
                         ->  Hash Left Join
                               Hash Cond: (t.g = i.g)
                               ->  Scan on t
                               ->  Hash
                                     ->  Aggregate
                                           Group Key: i.g
                                           ->  Scan on t i",
        ),
        (
            "SELECT count(*) FROM (SELECT rank() OVER (PARTITION BY g ORDER BY at DESC) AS r FROM t) s
             WHERE r < 3 AND anker.olap()",
            "->  Aggregate
                   ->  Filter
                         Filter: (rank() OVER (...) < 3)
                         ->  Window
                               Partition Key: g
                               Sort Key: at DESC
                               ->  Scan on t",
        ),
        (
            "SELECT count(*) FROM (SELECT k FROM u UNION ALL SELECT id FROM t) s, (VALUES (1), (2)) v(a)
             WHERE a = k AND anker.olap()",
            "->  Aggregate
                   ->  Hash Join
                         Hash Cond: (u.k = column1)
                         ->  Union
                               ->  Scan on u
                               ->  Scan on t
                         ->  Hash
                               ->  Values",
        ),
        ("SELECT max(date_trunc('month', at)) FROM t WHERE anker.olap()", "->  Aggregate\n->  Scan on t"),
    ] {
        let shown = tree(&explained(&mut client, "COSTS OFF", sql)?)?;
        let expected: Vec<&str> = expected.lines().map(str::trim).collect();
        let trimmed: Vec<&str> = shown.iter().map(|line| line.trim()).collect();
        ensure!(trimmed == expected, "{sql}:\n{}", shown.join("\n"));
        // Each level is indented further than the one above, as in PostgreSQL's own plans.
        ensure!(shown[0].starts_with("->") && shown[1].starts_with("      "), "{sql}:\n{}", shown.join("\n"));
        // EXPLAIN ANALYZE shows the same operators.
        let ran = tree(&explained(&mut client, "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF", sql)?)?;
        let told = ["Memory Usage: ", "Chunks Read: ", "Rows Removed by Join Filter: "];
        let counted = |line: &&str| !told.iter().any(|told| line.starts_with(told));
        let ran: Vec<&str> = ran.iter().map(|line| line.trim()).filter(counted).collect();
        let ran: Vec<&str> = ran.iter().map(|line| line.split("  (actual rows=").next().unwrap_or(line)).collect();
        ensure!(ran == expected, "{sql} was run otherwise:\n{}", ran.join("\n"));
    }
    let verbose =
        explained(&mut client, "COSTS OFF, VERBOSE", "SELECT g, sum(n) FROM t WHERE anker.olap() GROUP BY g")?;
    for line in ["Aggregates: sum(t.n)", "Columns: t.g, t.n", "Group Key: t.g"] {
        ensure!(verbose.contains(line), "VERBOSE does not say {line}:\n{verbose}");
    }
    Ok(())
}

/// The engine's plan in JSON.
fn json_plan(client: &mut Client, options: &str, sql: &str) -> Result<Value> {
    let shown = explained(client, &format!("{options}, FORMAT JSON"), sql)?;
    let all: Value = serde_json::from_str(&shown)?;
    fn find(value: &Value) -> Option<&Value> {
        let node = value.as_object()?;
        let below = node.get("Plans").and_then(Value::as_array);
        node.get("Engine Plan").or_else(|| below?.iter().find_map(find))
    }
    find(&all[0]["Plan"]).cloned().ok_or_else(|| format!("no engine plan:\n{shown}").into())
}

/// All nodes of this type.
fn nodes<'a>(plan: &'a Value, node_type: &str) -> Vec<&'a Value> {
    let own = (plan["Node Type"] == node_type).then_some(plan);
    let below = plan["Plans"].as_array().map_or(&[][..], |plans| plans);
    own.into_iter().chain(below.iter().flat_map(|plan| nodes(plan, node_type))).collect()
}

fn plans_in_the_other_forms(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let sql = "SELECT t.g, count(*) FROM t JOIN u ON k = t.g WHERE id > 15000 AND anker.olap() GROUP BY t.g";
    let plan = json_plan(&mut client, "COSTS ON", sql)?;
    ensure!(plan["Node Type"] == "Aggregate" && plan["Group Key"] == serde_json::json!(["t.g"]), "{plan:#}");
    let join = &plan["Plans"][0];
    let is_join = join["Node Type"] == "Hash Join" && join["Join Type"] == "Inner";
    ensure!(is_join && join["Hash Cond"] == "(t.g = u.k)", "{plan:#}");
    ensure!(join["Plans"][0]["Filter"] == "(id > 15000)" || join["Plans"][0]["Filter"] == "(t.id > 15000)", "{plan:#}");
    ensure!(join["Plans"][1]["Node Type"] == "Hash", "{plan:#}");
    let scans = nodes(&plan, "Scan");
    ensure!(scans.len() == 2 && scans[0]["Relation Name"] == "t" && scans[1]["Alias"] == "u", "{plan:#}");
    ensure!(scans[0]["Plan Rows"] == 20000 && scans[1]["Plan Rows"] == 5, "{plan:#}");
    let expected = nodes(&plan, "Filter")[0]["Plan Rows"].as_u64().unwrap_or(0);
    ensure!((3000..8000).contains(&expected), "{expected} rows of 5000 are expected");
    ensure!(plan["Actual Rows"].is_null(), "not run, but counted: {plan:#}");

    for options in ["COSTS OFF", "ANALYZE", "VERBOSE", "ANALYZE, VERBOSE"] {
        let xml = explained(&mut client, &format!("{options}, FORMAT XML"), sql)?;
        let opened = xml.matches("<Plan>").count();
        ensure!(opened == xml.matches("</Plan>").count() && opened >= 6, "XML:\n{xml}");
        ensure!(xml.contains("<Engine-Plan>") && xml.contains("<Hash-Cond>(t.g = u.k)</Hash-Cond>"), "XML:\n{xml}");
        let yaml = explained(&mut client, &format!("{options}, FORMAT YAML"), sql)?;
        ensure!(yaml.contains("Engine Plan:") && yaml.contains("- Node Type: \"Hash Join\""), "YAML:\n{yaml}");
        let json = json_plan(&mut client, options, sql)?;
        ensure!(nodes(&json, "Scan").len() == 2, "{json:#}");
    }
    Ok(())
}

/// The table has five chunks of rows in the order of time. With each condition, scans skip some of them.
fn chunks_are_left_out_whatever_the_type(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    client.batch_execute(
        "CREATE TABLE ordered (id text COLLATE \"C\" PRIMARY KEY, i integer, day date, f float8, n numeric(8,2), name varchar(40),
           code char(8), born uuid, mark bytea);
         INSERT INTO ordered SELECT 'key ' || to_char(i, 'FM00000'), i, date '2000-01-01' + i, i / 8.0, i, 'name ' || to_char(i / 1000, 'FM00'),
           'c' || to_char(i, 'FM00000'), (lpad(to_hex(i), 8, '0') || '-0000-7000-8000-000000000000')::uuid, int4send(i)
           FROM generate_series(0, 5 * 8192 - 1) i;
         INSERT INTO ordered (id) VALUES ('key 50000'); ANALYZE ordered",
    )?;
    anker::mirror(&mut client, &["ordered"], LIVE)?;
    for (condition, read) in [
        ("i = 10000", 1),
        ("day < date '2000-01-01' + 9000", 2),
        ("f >= 4096", 1),
        ("n BETWEEN 9000.5 AND 9001", 1),
        ("id = 'key 10000'", 1),
        ("id IN ('key 10000', 'key 10077', 'key 30000')", 3),
        ("id < 'key 10000'", 2),
        ("id LIKE 'key 1%'", 2),
        ("id LIKE 'no key%'", 0),
        ("starts_with(id, 'key 3')", 2),
        ("name LIKE 'name 12%'", 1),
        ("name = 'name 12'", 1),
        ("code = 'c10000'", 1),
        ("born = '00002710-0000-7000-8000-000000000000'", 1),
        ("born >= '00007000-0000-7000-8000-000000000000'", 2),
        ("mark = '\\x00002710'", 1),
        ("mark > '\\x00007fff'", 2),
    ] {
        let sql = format!("SELECT count(*) FROM ordered WHERE {condition}");
        let plan = json_plan(&mut client, "ANALYZE", &format!("{sql} AND anker.olap()"))?;
        let scan = nodes(&plan, "Scan")[0];
        ensure!(scan["Chunks"] == 6 && scan["Chunks Read"] == read, "{condition}:\n{plan:#}");
        let count = |client: &mut Client, sql: &str| Ok(client.query_one(sql, &[])?.get::<_, i64>(0));
        let answers: Result<Vec<i64>> =
            [&sql, &format!("{sql} AND anker.olap()")].map(|sql| count(&mut client, sql)).into_iter().collect();
        let answers = answers?;
        ensure!(answers[0] == answers[1], "{condition}: {answers:?}");
    }
    Ok(())
}

fn rows_that_were_counted_are_right(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let count = |client: &mut Client, sql: &str| -> Result<u64> {
        Ok(client.query_one(&format!("SELECT count(*) FROM {sql}"), &[])?.get::<_, i64>(0) as u64)
    };
    let rows = |node: &Value| node["Actual Rows"].as_u64();
    for condition in ["id > 5", "x LIKE 'x1%'", "n * 2 < 500.5", "d = date '2024-01-09' AND g <> 3", "id < 0"] {
        let wanted = count(&mut client, &format!("t WHERE {condition}"))?;
        let groups = count(&mut client, &format!("(SELECT x FROM t WHERE {condition} GROUP BY x) s"))?;
        let sql = format!("SELECT x, count(*) FROM t WHERE {condition} AND anker.olap() GROUP BY x");
        let plan = json_plan(&mut client, "ANALYZE", &sql)?;
        let filter = nodes(&plan, "Filter").first().and_then(|node| rows(node));
        ensure!(filter == Some(wanted), "{condition}: {wanted} rows, but\n{plan:#}");
        ensure!(rows(&plan) == Some(groups), "{condition}: {groups} groups, but\n{plan:#}");
        // The engine does not read chunks in which no id is below zero.
        let scan = nodes(&plan, "Scan")[0];
        let read = if condition == "id < 0" { 0 } else { 20_000 };
        ensure!(rows(scan) == Some(read) && scan["Chunks"].as_u64() > Some(0), "{plan:#}");
        ensure!(scan["Chunks Read"].as_u64() == if read == 0 { Some(0) } else { scan["Chunks"].as_u64() }, "{plan:#}");
        ensure!(plan["Own Time"].is_number() && plan["Plan Rows"].is_number(), "{plan:#}");
    }
    let wanted = count(&mut client, "t a JOIN t b ON a.g = b.g AND a.id < 100 AND b.id < 200 JOIN u ON k = a.g")?;
    let sql = "SELECT count(*) FROM t a JOIN t b ON a.g = b.g AND a.id < 100 AND b.id < 200 JOIN u ON k = a.g WHERE anker.olap()";
    let plan = json_plan(&mut client, "ANALYZE", sql)?;
    ensure!(rows(nodes(&plan, "Hash Join")[0]) == Some(wanted), "{wanted} pairs, but\n{plan:#}");
    ensure!(nodes(&plan, "Hash").iter().all(|hash| rows(hash) == rows(&hash["Plans"][0])), "{plan:#}");
    ensure!(nodes(&plan, "Hash").iter().all(|hash| hash["Memory Usage"].as_u64() > Some(0)), "{plan:#}");

    let kinds = [("EXISTS", "Semi"), ("NOT EXISTS", "Anti")];
    for (word, kind) in kinds {
        let sql = format!("t WHERE {word} (SELECT FROM u WHERE k = g)");
        let wanted = count(&mut client, &sql)?;
        let plan = json_plan(&mut client, "ANALYZE", &format!("SELECT count(*) FROM {sql} AND anker.olap()"))?;
        let join = nodes(&plan, "Hash Join")[0];
        ensure!(join["Join Type"] == kind && rows(join) == Some(wanted), "{wanted} rows, but\n{plan:#}");
    }
    let sql = "SELECT id, n FROM (SELECT id, n FROM t ORDER BY n DESC LIMIT 7) s WHERE id % 2 = 0 AND anker.olap()";
    let plan = json_plan(&mut client, "ANALYZE", sql)?;
    let top = nodes(&plan, "Top-N")[0];
    ensure!(rows(top) == Some(7) && top["Limit"] == "7" && top["Memory Usage"].is_number(), "{plan:#}");
    let sql = "SELECT g, d, count(*) FROM t WHERE anker.olap() GROUP BY GROUPING SETS ((g), (d), ())";
    let plan = json_plan(&mut client, "ANALYZE", sql)?;
    ensure!(plan["Node Type"] == "Grouping Sets" && rows(&plan) == Some(7 + 100 + 1), "{plan:#}");
    ensure!(nodes(&plan, "Aggregate").len() == 3, "{plan:#}");
    // Counts of rows start from zero in each run.
    for _ in 0..3 {
        let plan = json_plan(&mut client, "ANALYZE", "SELECT id FROM t WHERE id <= 10 AND anker.olap()")?;
        ensure!(rows(&plan) == Some(10), "{plan:#}");
    }
    Ok(())
}

fn options_are_followed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let sql = "SELECT g, count(*) FROM t WHERE id > 5 AND anker.olap() GROUP BY g";
    for (options, costs, rows, times) in [
        ("COSTS ON", true, false, false),
        ("COSTS OFF", false, false, false),
        ("ANALYZE", true, true, true),
        ("ANALYZE, TIMING OFF", true, true, false),
        ("ANALYZE, COSTS OFF", false, true, true),
        ("ANALYZE, COSTS OFF, TIMING OFF", false, true, false),
    ] {
        let shown = tree(&explained(&mut client, options, sql)?)?.join("\n");
        let has = |word: &str| shown.contains(word);
        ensure!(
            (has("  (rows="), has("(actual rows="), has(" own time=")) == (costs, rows, times),
            "{options}:\n{shown}"
        );
        let json = json_plan(&mut client, options, sql)?.to_string();
        let has = |word: &str| json.contains(word);
        let found = (has("Plan Rows"), has("Actual Rows"), has("Own Time"));
        ensure!(found == (costs, rows, times), "{options}:\n{json}");
    }
    client.batch_execute("SET anker.explain_wait = 0")?;
    let shown = explained(&mut client, "COSTS OFF", sql)?;
    ensure!(shown.contains("No Engine Plan: anker.explain_wait is 0"), "{shown}");
    // If the heap answers, there is no engine plan.
    let shown = explained(&mut client, "ANALYZE", "SELECT count(*) FROM loose WHERE anker.olap()")?;
    ensure!(!shown.contains("Engine Plan"), "{shown}");
    Ok(())
}

fn rows_that_are_sent_along_have_their_name(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let sql = "SELECT count(*) FROM t JOIN loose AS l ON l.k = g AND l.word <> 'c' WHERE anker.olap()";
    for options in ["COSTS OFF", "ANALYZE"] {
        let shown = explained(&mut client, options, sql)?;
        for line in ["Sent Along: l", "->  Sent Along Scan on l", "Hash Cond: (t.g = l.k)"] {
            ensure!(shown.contains(line), "no {line}:\n{shown}");
        }
    }
    let plan = json_plan(&mut client, "ANALYZE", sql)?;
    let sent = nodes(&plan, "Sent Along Scan")[0];
    ensure!(sent["Alias"] == "l" && sent["Actual Rows"] == 2 && sent["Relation Name"].is_null(), "{plan:#}");
    // This is the number of rows that PostgreSQL estimates.
    let plan = json_plan(&mut client, "COSTS ON", sql)?;
    ensure!(nodes(&plan, "Sent Along Scan")[0]["Plan Rows"] == 2, "{plan:#}");
    Ok(())
}

fn what_was_not_read_to_its_end_has_no_plan(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    client
        .batch_execute("INSERT INTO t (id, x) SELECT i, repeat('y', 100) || i FROM generate_series(20001, 60000) i")?;
    let shown = explained(&mut client, "ANALYZE", "SELECT id, x FROM t WHERE anker.olap() LIMIT 5")?;
    ensure!(shown.contains("No Engine Plan: the result was not read to its end"), "{shown}");
    let shown = explained(&mut client, "COSTS OFF", "SELECT id, x FROM t WHERE anker.olap() LIMIT 5")?;
    ensure!(shown.contains("->  Scan on t"), "{shown}");
    Ok(())
}

/// EXPLAIN waits for the engine as long as `anker.explain_wait` says, only once in a statement, and can be cancelled.
fn a_stopped_engine_is_not_waited_for(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context, Options::default())?;
    let engine = anker::engine_pid(&mut client)?;
    let sql = "SELECT count(*) FROM t WHERE anker.olap()";
    os::kill(engine, os::SIGSTOP)?;
    let mut look = || -> Result<()> {
        for (options, sql) in [("COSTS OFF", sql.to_owned()), ("FORMAT JSON", format!("{sql} UNION ALL {sql} LIMIT 3"))]
        {
            let start = Instant::now();
            let shown = explained(&mut client, options, &sql)?;
            let took = start.elapsed();
            ensure!(shown.contains("No Engine Plan") && shown.contains("anker.explain_wait"), "{shown}");
            ensure!((Duration::from_millis(1900)..Duration::from_secs(8)).contains(&took), "took {took:?}");
        }
        // The statement has two queries for the engine, but waits only once.
        let start = Instant::now();
        let twice = format!("SELECT (SELECT count(*) FROM u WHERE anker.olap()), k FROM loose WHERE k < ({sql})");
        explained(&mut client, "COSTS OFF", &twice)?;
        ensure!(start.elapsed() < Duration::from_secs(8), "took {:?}", start.elapsed());

        client.batch_execute("SET anker.explain_wait = '60s'; SET statement_timeout = '1s'")?;
        let start = Instant::now();
        let error = explained(&mut client, "COSTS OFF", sql).err();
        let took = start.elapsed();
        let code = error.as_ref().and_then(|e| e.downcast_ref::<postgres::Error>()).and_then(|e| e.code().cloned());
        ensure!(code == Some(SqlState::QUERY_CANCELED) && took < Duration::from_secs(10), "after {took:?}: {error:?}");
        client.batch_execute("RESET statement_timeout")?;
        Ok(())
    };
    let looked = look();
    os::kill(engine, os::SIGCONT)?;
    looked?;
    let shown = explained(&mut client, "COSTS OFF", sql)?;
    ensure!(shown.contains("->  Scan on t"), "afterwards:\n{shown}");
    Ok(())
}

fn an_engine_that_is_gone_is_a_reason(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    let sql = "SELECT count(*) FROM t WHERE anker.olap()";
    let engine = anker::engine_pid(&mut client)?;
    os::kill(engine, os::SIGKILL)?;
    let mut seen = String::new();
    // Until the engine is back, EXPLAIN says so or shows the heap's plan.
    let back = wait_until(LIVE, || {
        let shown = explained(&mut client, "COSTS OFF", sql)?;
        let reason = shown.lines().find(|line| line.contains("No Engine Plan") || line.contains("Anker: heap"));
        seen = reason.unwrap_or_default().to_owned();
        Ok(shown.contains("->  Scan on t"))
    })?;
    ensure!(back, "the plan does not come back: {seen}");
    Ok(())
}

fn nothing_is_run_for_a_plan(context: &Context) -> Result<()> {
    let (_cluster, mut client) = patient(context)?;
    client.batch_execute(
        "CREATE TABLE seen (i integer); CREATE SEQUENCE calls;
         CREATE FUNCTION limit_now(i integer) RETURNS integer STABLE LANGUAGE plpgsql AS
            $$ BEGIN IF i > 0 THEN RAISE 'called'; END IF; RETURN i; END $$;
         CREATE FUNCTION listed() RETURNS SETOF integer STABLE LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'listed'; RETURN NEXT 1; END $$",
    )?;
    // EXPLAIN calls no user-defined function: like PostgreSQL, it does not evaluate an expression that depends on a
    // parameter of a generic plan.
    client.batch_execute(
        "SET plan_cache_mode = force_generic_plan;
         PREPARE p(integer) AS SELECT count(*) FROM t WHERE id > limit_now($1) AND anker.olap()",
    )?;
    let shown = explained(&mut client, "COSTS OFF", "EXECUTE p(1)")?;
    ensure!(shown.contains("No Engine Plan: it depends on values that are computed when the query runs"), "{shown}");
    // EXPLAIN does not call a function for rows that would be sent along, either.
    let sql = "SELECT count(*) FROM t JOIN listed() AS l ON l = g WHERE anker.olap()";
    let shown = explained(&mut client, "COSTS OFF", sql)?;
    ensure!(shown.contains("->  Sent Along Scan on l"), "{shown}");
    // If computing a value raises an error, EXPLAIN shows the error as the reason why there is no engine plan.
    client.batch_execute("PREPARE q(integer) AS SELECT count(*) FROM t WHERE id > 1 / $1 AND anker.olap()")?;
    let shown = explained(&mut client, "COSTS OFF", "EXECUTE q(0)")?;
    ensure!(shown.contains("No Engine Plan: a value in it raises: division by zero"), "{shown}");
    let shown = explained(&mut client, "COSTS OFF", "EXECUTE q(1)")?;
    ensure!(shown.contains("Filter: (id > (1 / $1))"), "{shown}");
    // EXPLAIN does not count as a query that the engine has served.
    let before = anker::counter(&mut client, "queries_served")?;
    explained(&mut client, "COSTS OFF", "EXECUTE q(1)")?;
    ensure!(anker::counter(&mut client, "queries_served")? == before, "EXPLAIN counts as a query");
    Ok(())
}

/// For EXPLAIN the engine takes the statement's snapshot, as for a query, and releases it afterwards.
fn plans_of_tables_that_change(context: &Context) -> Result<()> {
    let (cluster, mut client) = patient(context)?;
    let sql = "SELECT count(*) FROM t WHERE g = 1 AND anker.olap()";
    let mut writer = cluster.connect()?;
    for round in 0..10 {
        let insert =
            format!("INSERT INTO t (id, g) SELECT 100000 * {round} + 100000 + i, 1 FROM generate_series(1, 1000) i");
        writer.batch_execute(&insert)?;
        let plan = json_plan(&mut client, "COSTS ON", sql)?;
        ensure!(nodes(&plan, "Scan")[0]["Plan Rows"] == 20_000 + 1000 * (round + 1), "round {round}: {plan:#}");
    }
    // If the mirror can no longer serve a snapshot because it is too old, EXPLAIN shows no engine plan under this
    // snapshot.
    let mut old = cluster.connect()?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM loose")?;
    writer.batch_execute("DELETE FROM t WHERE id > 50000")?;
    let plan = json_plan(&mut old, "COSTS ON", sql)?;
    ensure!(nodes(&plan, "Scan")[0]["Plan Rows"] == 30_000, "{plan:#}");
    old.batch_execute("ROLLBACK")?;
    let released = wait_until(Duration::from_secs(5), || Ok(anker::counter(&mut client, "live_snapshots")? == 0))?;
    ensure!(released, "EXPLAIN holds snapshots");
    Ok(())
}

/// auto_explain logs the plan of a query after the query has run.
fn queries_that_are_logged_with_their_plan(context: &Context) -> Result<()> {
    needs("auto_explain")?;
    let (cluster, _client) = patient(context)?;
    let mut client = cluster.connect()?;
    client.batch_execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on",
    )?;
    for analyze in ["off", "on"] {
        client.batch_execute(&format!("SET auto_explain.log_analyze = {analyze}"))?;
        for sql in [
            "SELECT g, count(*) FROM t WHERE id > 5 AND anker.olap() GROUP BY g",
            "SELECT id FROM t WHERE anker.olap() LIMIT 3",
        ] {
            let rows = anker::text_rows(&mut client, sql)?.len();
            ensure!(rows == 7 || rows == 3, "{sql}: {rows} rows");
        }
    }
    let log = cluster.log();
    ensure!(log.contains("Group Key: g") && log.contains("(actual rows=7"), "the log has no plan that was run");
    Ok(())
}

/// PostgreSQL's JIT does not compile nodes above the engine's rows, although the heap's plan is expensive. If the
/// heap's plan runs after all, JIT compiles that plan.
fn nothing_is_compiled_for_the_engine(context: &Context) -> Result<()> {
    let (_cluster, mut client) = with_tables(context, Options::default())?;
    client.batch_execute(
        "SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;
         PREPARE p AS SELECT g, json_agg(n + 1) FROM t WHERE id < (SELECT max(k) + 90 FROM u) AND anker.olap() GROUP BY g",
    )?;
    let shown = explained(&mut client, "ANALYZE", "EXECUTE p")?;
    ensure!(shown.contains("Anker: engine") && !shown.contains("JIT:"), "{shown}");
    client.batch_execute("BEGIN; INSERT INTO t (id) VALUES (0)")?;
    let shown = explained(&mut client, "ANALYZE", "EXECUTE p")?;
    ensure!(shown.contains("Anker: heap, because this transaction may have written"), "{shown}");
    let is_available = anker::text_rows(&mut client, "SELECT pg_jit_available()")? == ["t"];
    ensure!(shown.contains("JIT:") == is_available, "compiled, if it can be: {is_available}\n{shown}");
    Ok(client.batch_execute("ROLLBACK")?)
}
