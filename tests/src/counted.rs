//! `anker.statements`: which side answered which statement, beside pg_stat_statements, within a limit.

use std::time::Duration;

use bench::cluster::{Options, Stop, wait_until};
use bench::{Result, anker, os};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, ask};
use crate::runner::{Context, ensure, tests};

tests![
    statements_are_counted_beside_pg_stat_statements,
    functions_cursors_and_explain_are_counted_as_they_run,
    figures_of_the_engine_are_kept,
    sessions_lose_no_counts,
    few_statements_are_kept,
    statements_survive_a_restart_but_no_crash,
    none_are_counted_without_room_or_ids,
];

const LIVE: Duration = Duration::from_secs(60);

const TABLE: &str = "CREATE TABLE t (id integer PRIMARY KEY, v text);
    INSERT INTO t SELECT i, md5(i::text) || repeat('x', 100) FROM generate_series(1, 100000) i;
    CREATE TABLE u (id integer PRIMARY KEY)";

const COUNT: &str = "SELECT count(*) FROM anker.statements";

fn rows(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    anker::text_rows(client, sql)
}

/// A cluster with these options, whose table `t` is mirrored and `u` is not, and nothing counted.
fn prepared(context: &Context, options: Options) -> Result<(std::sync::Arc<bench::cluster::Cluster>, Client)> {
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute(TABLE)?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    client.batch_execute("SELECT anker.statements_reset()")?;
    Ok((cluster, client))
}

fn statements_are_counted_beside_pg_stat_statements(context: &Context) -> Result<()> {
    let preloaded = Options::default().set("shared_preload_libraries", "pg_stat_statements, pg_anker");
    let (cluster, mut client) = prepared(context, preloaded)?;
    client.batch_execute(
        "CREATE EXTENSION pg_stat_statements; CREATE ROLE reader LOGIN; GRANT SELECT, INSERT ON t, u TO reader;
         CREATE ROLE nobody LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats;
         CREATE ROLE member LOGIN IN ROLE reader",
    )?;
    let mut reader = cluster.connect_as("reader")?;
    client.batch_execute("SELECT anker.statements_reset(); SELECT pg_stat_statements_reset()")?;

    for below in [10, 20, 30] {
        rows(&mut reader, &format!("SELECT id FROM t WHERE id <= {below} AND anker.olap()"))?;
    }
    reader.batch_execute("PREPARE p (integer) AS SELECT max(id) FROM t WHERE id < $1 AND anker.olap()")?;
    (0..7).try_for_each(|n| reader.batch_execute(&format!("EXECUTE p ({n})")))?;
    let by_protocol = reader.prepare("SELECT min(id) FROM t WHERE id > $1 AND anker.olap()")?;
    for n in 0..8i32 {
        ensure!(reader.query_one(&by_protocol, &[&n])?.get::<_, i32>(0) == n + 1, "a wrong answer");
    }
    rows(&mut reader, "SELECT count(*) FROM t")?;
    for _ in 0..2 {
        rows(&mut reader, "SELECT count(*), 1 FROM u WHERE anker.olap()")?;
    }
    reader.batch_execute("INSERT INTO u SELECT id FROM t WHERE id <= 9 AND anker.olap()")?;
    reader
        .batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT id FROM t WHERE id <= 5 AND anker.olap(); COMMIT")?;
    // Executions that fail or are cancelled are not counted, here as there.
    ensure!(
        matches!(ask(&mut reader, "SELECT sum(1 / (id - 1)) FROM t WHERE anker.olap()")?, Answer::Error { .. }),
        "no error"
    );
    reader.batch_execute("SET statement_timeout = 200")?;
    let long = "SELECT count(*) FROM t a, t b WHERE (a.id + b.id) % 1000 = 7 AND anker.olap()";
    ensure!(matches!(ask(&mut reader, long)?, Answer::Error { .. }), "no timeout");
    reader.batch_execute("RESET statement_timeout")?;

    let joined = "SELECT substr(p.query, 1, 36), a.calls, a.calls = p.calls, a.engine_calls, a.heap_calls,
             a.top_heap_reason, a.heap_reasons, a.last_heap_reason, a.rows, a.rows = p.rows, a.stats_since <= now(),
             a.min_engine_time <= a.mean_engine_time AND a.mean_engine_time <= a.max_engine_time
                 AND a.max_engine_time <= a.total_engine_time,
             a.min_heap_time <= a.mean_heap_time AND a.mean_heap_time <= a.max_heap_time
                 AND a.max_heap_time <= a.total_heap_time,
             a.total_engine_time + a.total_heap_time BETWEEN p.total_exec_time - 1 AND 2 * p.total_exec_time + 1000
         FROM anker.statements a JOIN pg_stat_statements p USING (userid, dbid, queryid)
         WHERE userid = 'reader'::regrole AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
         ORDER BY p.query COLLATE \"C\"";
    let found = rows(&mut client, joined)?;
    let expected = [
        r"INSERT INTO u SELECT id FROM t WHERE|1|t|1|0|\N|{}|\N|9|t|t|t|\N|t",
        r"PREPARE p (integer) AS SELECT max(id|7|t|7|0|\N|{}|\N|7|t|t|t|\N|t",
        r#"SELECT count(*), $1 FROM u WHERE ank|2|t|0|2|not_mirrored|{"not_mirrored": 2}|not_mirrored|2|t|t|\N|t|t"#,
        r#"SELECT id FROM t WHERE id <= $1 AND |4|t|3|1|serializable|{"serializable": 1}|serializable|65|t|t|t|t|t"#,
        r"SELECT min(id) FROM t WHERE id > $1 |8|t|8|0|\N|{}|\N|8|t|t|t|\N|t",
    ];
    ensure!(found == expected, "found {found:#?}");
    let all = rows(
        &mut client,
        &format!("{COUNT}; SELECT last_heap_detail FROM anker.statements WHERE queryid <> 0 AND heap_calls = 2"),
    )?;
    ensure!(all == ["5", r#"table "u" is not mirrored"#], "all statements, and a reason: {all:?}");

    // Who may see the activity of a user may see the user's statements.
    for (user, sees) in [("reader", "5"), ("member", "5"), ("watcher", "5"), ("nobody", "0")] {
        let mut session = cluster.config().user(user).connect(NoTls)?;
        let seen = rows(&mut session, COUNT)?;
        ensure!(seen == [sees], "{user} sees {seen:?}");
        let answer = ask(&mut session, "SELECT anker.statements_reset()")?;
        ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "{user} resets: {answer:?}");
    }
    let before: String = client.query_one("SELECT stats_reset::text FROM anker.statements_info", &[])?.get(0);
    client.batch_execute(
        "SELECT anker.statements_reset(userid, dbid, queryid) FROM anker.statements WHERE heap_reasons ? 'serializable'",
    )?;
    ensure!(rows(&mut client, COUNT)? == ["4"], "one statement was not reset");
    client.batch_execute("SELECT anker.statements_reset(userid => 10), anker.statements_reset(dbid => 1)")?;
    ensure!(rows(&mut client, COUNT)? == ["4"], "statements of others were reset");
    let info = format!("SELECT dealloc, stats_reset::text = '{before}' FROM anker.statements_info");
    ensure!(rows(&mut client, &info)? == ["0|t"], "{:?}", rows(&mut client, &info)?);
    client.batch_execute("SELECT anker.statements_reset()")?;
    ensure!(rows(&mut client, COUNT)? == ["0"], "statements are left after the reset");
    ensure!(rows(&mut client, &info)? == ["0|f"], "the time of the reset stays");
    Ok(())
}

fn functions_cursors_and_explain_are_counted_as_they_run(context: &Context) -> Result<()> {
    let (_cluster, mut client) = prepared(context, Options::default())?;
    client.batch_execute(
        "CREATE FUNCTION two() RETURNS bigint LANGUAGE sql AS
             'SELECT count(*) FROM t WHERE id > 3 AND anker.olap(); SELECT sum(id) FROM u WHERE anker.olap()';
         CREATE FUNCTION each() RETURNS bigint LANGUAGE plpgsql AS $$
             DECLARE one record; n bigint := 0;
             BEGIN
                 FOR one IN SELECT v, id FROM t WHERE id <= 200 AND anker.olap() LOOP n := n + 1; END LOOP;
                 RETURN n;
             END $$",
    )?;
    let version: i32 = client.query_one("SELECT current_setting('server_version_num')::int", &[])?.get(0);
    let has_cursor_ids = version >= 180_000;
    let mut figures = |sql: &str, expected: &[&str]| -> Result<()> {
        client.batch_execute("SELECT anker.statements_reset()")?;
        client.batch_execute(sql)?;
        let found = rows(
            &mut client,
            "SELECT calls, engine_calls, heap_calls, rows FROM anker.statements ORDER BY rows, engine_calls",
        )?;
        ensure!(found == expected, "{sql}: {found:?} instead of {expected:?}");
        Ok(())
    };
    figures("SELECT two(), two()", &["2|0|2|2", "2|2|0|2"])?;
    figures("SELECT each()", &["1|1|0|200"])?;
    figures("SELECT each() FROM generate_series(1, 3)", &["3|3|0|600"])?;
    let cursor = "DECLARE c CURSOR FOR SELECT id FROM t WHERE id <= 500 AND anker.olap()";
    // Before PostgreSQL 18, the query of a declared cursor has no id.
    let of_cursor = |expected| if has_cursor_ids { vec![expected] } else { vec![] };
    figures(&format!("BEGIN; {cursor}; FETCH 10 FROM c; FETCH 15 FROM c; COMMIT"), &of_cursor("1|1|0|25"))?;
    figures(&format!("BEGIN; {cursor}; FETCH ALL FROM c; CLOSE c; COMMIT"), &of_cursor("1|1|0|500"))?;
    figures(&format!("BEGIN; {cursor}; COMMIT"), &[])?;
    let on_heap = "DECLARE c CURSOR FOR SELECT id FROM u WHERE anker.olap()";
    figures(&format!("BEGIN; {on_heap}; FETCH 10 FROM c; COMMIT"), &of_cursor("1|0|1|0"))?;
    figures(&format!("BEGIN; {on_heap}; COMMIT"), &[])?;
    figures("EXPLAIN SELECT count(*) FROM t WHERE anker.olap()", &[])?;
    figures("EXPLAIN ANALYZE SELECT count(*) FROM t WHERE anker.olap()", &["1|1|0|1"])?;
    figures("EXPLAIN ANALYZE SELECT count(*) FROM u WHERE anker.olap()", &["1|0|1|1"])?;
    // Rows that are sent along belong to the statement. What is left to the heap because of its costs does not count.
    figures("SELECT count(*) FROM t JOIN u USING (id) WHERE anker.olap()", &["1|1|0|1"])?;
    figures("SET anker.route = auto; SELECT v FROM t WHERE id = 7; RESET anker.route", &[])?;
    figures("SET anker.route = prefer; SELECT sum(id) FROM t; RESET anker.route", &["1|1|0|1"])?;
    figures("SET anker.route = off; SELECT sum(id) FROM t WHERE anker.olap(); RESET anker.route", &[])
}

fn figures_of_the_engine_are_kept(context: &Context) -> Result<()> {
    let (cluster, mut client) =
        prepared(context, Options::default().set("anker.query_memory", "8MB").set("anker.max_queries", "1"))?;
    // PostgreSQL itself sorts the rows of a query above the engine, but not those of a window.
    let sorting =
        "SELECT sum(n) FROM (SELECT row_number() OVER (ORDER BY v COLLATE \"C\") n FROM t) s WHERE anker.olap()";
    rows(&mut client, sorting)?;
    let figures = "SELECT rows, spilled_bytes > 1000000, peak_memory_bytes BETWEEN 100000 AND 8 << 20,
            total_wait_time > 0, total_queue_time < 100 FROM anker.statements";
    let found = rows(&mut client, figures)?;
    ensure!(found == ["1|t|t|t|t"], "a sort on disk: {found:?}");

    // One query waits for the place of another.
    client.batch_execute("SELECT anker.statements_reset()")?;
    let (mut first, mut second) = (cluster.connect()?, cluster.connect()?);
    first.batch_execute("SET statement_timeout = 5000")?;
    let queued = std::thread::scope(|scope| {
        let long = "SELECT count(*) FROM t a, t b WHERE (a.id + b.id) % 1000 = 7 AND anker.olap()";
        let long = scope.spawn(move || first.batch_execute(long));
        let running = "SELECT phase FROM anker.activity";
        wait_until(LIVE, || Ok(rows(&mut client, running)? == ["running"]))?;
        rows(&mut second, "SELECT count(*) FROM t WHERE anker.olap()")?;
        long.join().map_err(|_| "the first session panicked")?.expect_err("a timeout");
        rows(
            &mut client,
            "SELECT calls, total_queue_time > 100, total_engine_time >= total_queue_time, total_wait_time < total_queue_time
             FROM anker.statements",
        )
    })?;
    ensure!(queued == ["1|t|t|t"], "a query that has queued: {queued:?}");
    Ok(())
}

fn sessions_lose_no_counts(context: &Context) -> Result<()> {
    const SESSIONS: usize = 6;
    const TURNS: usize = 100;
    let (cluster, mut client) = prepared(context, Options::default())?;
    std::thread::scope(|scope| -> Result<()> {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let mut session = cluster.connect()?;
                Ok(scope.spawn(move || -> std::result::Result<(), postgres::Error> {
                    for _ in 0..TURNS {
                        session.batch_execute("SELECT count(*) FROM t WHERE id < 10 AND anker.olap()")?;
                        session.batch_execute("SELECT count(*) FROM u WHERE anker.olap()")?;
                    }
                    Ok(())
                }))
            })
            .collect::<Result<_>>()?;
        for session in sessions {
            session.join().map_err(|_| "a session panicked")??;
        }
        Ok(())
    })?;
    let found = rows(&mut client, "SELECT engine_calls, heap_calls, rows FROM anker.statements ORDER BY engine_calls")?;
    let all = SESSIONS * TURNS;
    ensure!(found == [format!("0|{all}|{all}"), format!("{all}|0|{all}")], "{found:?}");
    Ok(())
}

fn few_statements_are_kept(context: &Context) -> Result<()> {
    let (_cluster, mut client) = prepared(context, Options::default().set("anker.max_statements", "30"))?;
    let often = "SELECT count(*), 'often' FROM t WHERE anker.olap()";
    for number in 1..100 {
        rows(&mut client, often)?;
        rows(&mut client, &format!("SELECT {} FROM t WHERE anker.olap()", vec!["max(id)"; number].join(", ")))?;
    }
    let kept = rows(&mut client, "SELECT calls FROM anker.statements ORDER BY calls DESC")?;
    ensure!((28..=30).contains(&kept.len()), "{} statements are kept", kept.len());
    ensure!(kept[0] == "99" && kept[1..].iter().all(|calls| calls == "1"), "calls: {kept:?}");
    let evicted = rows(&mut client, "SELECT dealloc FROM anker.statements_info")?;
    ensure!(evicted == [(100 - kept.len()).to_string()], "{evicted:?} were evicted, and {} kept", kept.len());
    client.batch_execute("SELECT anker.statements_reset()")?;
    ensure!(rows(&mut client, "SELECT dealloc FROM anker.statements_info")? == ["0"], "evictions stay after a reset");
    Ok(())
}

fn none_are_counted_without_room_or_ids(context: &Context) -> Result<()> {
    let id = "SELECT query_id IS NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    for (setting, value) in [("anker.max_statements", "0"), ("compute_query_id", "off")] {
        let (_cluster, mut client) = prepared(context, Options::default().set(setting, value))?;
        rows(&mut client, "SELECT count(*) FROM t WHERE anker.olap()")?;
        ensure!(rows(&mut client, COUNT)? == ["0"], "{setting}: statements are counted");
        ensure!(rows(&mut client, id)? == ["t"], "{setting}: ids are computed for nobody");
    }
    Ok(())
}

fn statements_survive_a_restart_but_no_crash(context: &Context) -> Result<()> {
    let (cluster, mut client) = prepared(context, Options::default().set("anker.max_statements", "10"))?;
    let everything = "SELECT to_jsonb(s) FROM anker.statements s ORDER BY queryid";
    let history = "SELECT * FROM anker.statements_info";
    for number in 1..=12 {
        for _ in 0..number {
            rows(&mut client, &format!("SELECT {} FROM t WHERE anker.olap()", vec!["max(id)"; number].join(", ")))?;
        }
    }
    rows(&mut client, "SELECT count(*) FROM u WHERE anker.olap()")?;
    let (before, info) = (rows(&mut client, everything)?, rows(&mut client, history)?);
    ensure!(before.len() == 10 && info[0].starts_with("3|"), "before the restart: {before:#?}, {info:?}");
    ensure!(before.iter().any(|row| row.contains("is not mirrored")), "no reason among {before:#?}");
    let file = cluster.data().join("pg_stat/pg_anker.stat");
    cluster.restart()?;
    let mut client = cluster.connect()?;
    ensure!(rows(&mut client, everything)? == before, "after the restart: {:#?}", rows(&mut client, everything)?);
    ensure!(rows(&mut client, history)? == info, "after the restart: {:?}", rows(&mut client, history)?);
    ensure!(!file.exists(), "the file stays while the server runs");

    // With less room, those stay that were used most.
    cluster.alter_system(&[("anker.max_statements", "2")])?;
    cluster.restart()?;
    let mut client = cluster.connect()?;
    let calls = rows(&mut client, "SELECT calls FROM anker.statements ORDER BY calls")?;
    ensure!(calls == ["11", "12"], "with room for two: {calls:?}");

    // Broken files, and those of other versions, are ignored.
    cluster.stop(Stop::Fast)?;
    let whole = std::fs::read(&file)?;
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let mut other = whole.clone();
    other[8] += 1;
    for (content, expected, message) in [
        (&whole[..], "2", ""),
        (&flipped, "0", "is ignored: its checksum is wrong"),
        (&whole[..whole.len() - 1], "0", "is ignored: its checksum is wrong"),
        (&whole[..9], "0", "is ignored: it is too short"),
        (&other, "0", "is ignored: it is of another version"),
        (b"", "0", "is ignored: it is too short"),
    ] {
        std::fs::write(&file, content)?;
        let logged = cluster.log().len();
        cluster.resume()?;
        let found = rows(&mut cluster.connect()?, COUNT)?;
        let log = cluster.log()[logged..].to_owned();
        ensure!(found == [expected], "{found:?} after {} bytes, {message}", content.len());
        ensure!(log.contains(message) && log.contains("ignored") != message.is_empty(), "{message}: {log}");
        cluster.stop(Stop::Fast)?;
    }

    // The figures of a server that was stopped do not come back after a crash of the next.
    std::fs::write(&file, &whole)?;
    cluster.resume()?;
    ensure!(rows(&mut cluster.connect()?, COUNT)? == ["2"], "the file was not read again");
    context.expect_crash(&cluster);
    let mut client = cluster.connect()?;
    let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    os::kill(backend as u32, os::SIGKILL)?;
    let is_back = || Ok(cluster.log().contains("all server processes terminated") && cluster.connect().is_ok());
    ensure!(wait_until(LIVE, is_back)?, "the server does not come back");
    ensure!(rows(&mut cluster.connect()?, COUNT)? == ["0"], "statements are there after a crash");

    cluster.alter_system(&[("anker.statements_save", "off")])?;
    let mut client = cluster.connect()?;
    rows(&mut client, "SELECT count(*) FROM u WHERE anker.olap()")?;
    ensure!(rows(&mut client, COUNT)? == ["1"], "the statement was not counted");
    client.batch_execute("SELECT pg_reload_conf()")?;
    cluster.restart()?;
    ensure!(rows(&mut cluster.connect()?, COUNT)? == ["0"], "statements were saved");
    Ok(())
}
