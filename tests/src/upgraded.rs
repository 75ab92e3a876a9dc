//! Versions of the extension's SQL objects: an older version works with the present library, and an update makes it the
//! same as the present version.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::{Answer, ask, same};
use crate::runner::{Context, ensure, tests};

tests![an_older_version_works_and_is_updated_under_its_mirror, an_updated_version_is_as_a_new_one];

const LIVE: Duration = Duration::from_secs(60);

const OLD: &str = "CREATE EXTENSION pg_anker VERSION '0.1.0'";
const UPDATE: &str = "ALTER EXTENSION pg_anker UPDATE";

fn an_older_version_works_and_is_updated_under_its_mirror(context: &Context) -> Result<()> {
    let cluster = context.cluster()?;
    let mut client = cluster.connect()?;
    client.batch_execute(OLD)?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, v text);
         INSERT INTO t SELECT i, i::text FROM generate_series(1, 1000) i;
         CREATE TABLE whole (id integer PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (10); INSERT INTO whole VALUES (1)",
    )?;
    anker::mirror(&mut client, &["t", "whole"], LIVE)?;
    works(&mut client)?;
    let answer = ask(&mut client, "SELECT anker.mirror_schema('public')")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42883"), "0.1.0 has a new function: {answer:?}");

    let mut other = cluster.connect()?;
    let flagged = "SELECT count(*), max(id) FROM t WHERE anker.olap()";
    other.batch_execute(&format!("PREPARE p AS {flagged}; EXECUTE p; BEGIN; DECLARE c CURSOR FOR {flagged}"))?;
    let before = anker::processes(&mut client)?;
    let generations = "SELECT relation, state, generation, rebuilds FROM anker.tables ORDER BY relation";
    let tables = anker::text_rows(&mut client, generations)?;
    client.batch_execute(UPDATE)?;
    let rows = anker::text_rows(&mut other, "FETCH ALL FROM c")?;
    ensure!(rows == ["1000|1000"], "the open cursor returns {rows:?}");
    other.batch_execute("COMMIT")?;
    ensure!(anker::text_rows(&mut other, "EXECUTE p")? == ["1000|1000"], "the prepared statement has lost its rows");

    client.batch_execute("INSERT INTO t VALUES (1001, 'new'); INSERT INTO whole VALUES (2)")?;
    works(&mut client)?;
    ensure!(anker::processes(&mut client)? == before, "the update has ended worker or engine");
    let after = anker::text_rows(&mut client, generations)?;
    ensure!(after == tables, "mirrors before the update: {tables:?}, after it: {after:?}");
    let rows = anker::text_rows(&mut client, "SELECT relation, outcome FROM anker.mirror_schema('public')")?;
    ensure!(rows == ["t|already mirrored", "whole|already mirrored"], "mirror_schema: {rows:?}");
    Ok(())
}

/// Each function and each view of version 0.1.0 answers, and so does the engine.
fn works(client: &mut Client) -> Result<()> {
    for sql in [
        "SELECT count(*), max(v) FROM t WHERE anker.olap()",
        "SELECT count(*) FROM whole JOIN t USING (id) WHERE anker.olap()",
    ] {
        same(client, sql)?;
        let by = anker::analyzed(client, sql)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    for (sql, rows) in [
        ("SELECT * FROM anker.tables WHERE state = 'live'", 2),
        ("SELECT * FROM anker.columns WHERE reason IS NULL", 3),
        ("SELECT * FROM anker.chunks('t')", 2),
        ("SELECT * FROM anker.engine WHERE state = 'running'", 1),
        ("SELECT * FROM anker.latest_delays()", 1),
        ("SELECT * FROM anker.verify('t')", 0),
        ("SELECT relation FROM anker.mirrored UNION ALL SELECT relation FROM anker.mirrored_parents", 3),
    ] {
        let found = anker::text_rows(client, sql)?;
        ensure!(found.len() == rows, "{sql}: {found:?}");
    }
    Ok(())
}

fn an_updated_version_is_as_a_new_one(context: &Context) -> Result<()> {
    let (cluster, mut new) = context.anker()?;
    new.batch_execute("CREATE DATABASE updated")?;
    let mut updated = cluster.connect_to("updated")?;
    updated.batch_execute(&format!("{OLD}; {UPDATE}"))?;
    let (expected, found) = (described(&mut new)?, described(&mut updated)?);
    ensure!(expected.len() > 25, "only {expected:?} were found");
    let missing: Vec<_> = expected.iter().filter(|object| !found.contains(object)).collect();
    let surplus: Vec<_> = found.iter().filter(|object| !expected.contains(object)).collect();
    ensure!(missing.is_empty() && surplus.is_empty(), "the update lacks {missing:#?}, and has {surplus:#?}");
    let undescribed: Vec<_> =
        found.iter().filter(|row| row.starts_with("0.2.0|") && row.ends_with("|no comment")).collect();
    ensure!(undescribed.is_empty(), "objects without a comment: {undescribed:?}");
    Ok(())
}

/// The extension's objects, each with its definition, its privileges and its comment.
fn described(client: &mut Client) -> Result<Vec<String>> {
    anker::text_rows(
        client,
        "SELECT e.extversion, pg_describe_object(d.classid, d.objid, 0) AS object,
             CASE d.classid
                 WHEN 'pg_proc'::regclass THEN (SELECT pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '')
                     || p.proowner::regrole FROM pg_proc p WHERE p.oid = d.objid)
                 WHEN 'pg_class'::regclass THEN (SELECT concat(c.relkind, c.relacl, c.relowner::regrole, c.reloptions,
                     CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END,
                     (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, attacl,
                         pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
                      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                      WHERE attrelid = c.oid AND attnum > 0),
                     (SELECT string_agg(concat(pg_get_triggerdef(t.oid), t.tgenabled), '; ' ORDER BY tgname)
                      FROM pg_trigger t WHERE tgrelid = c.oid AND NOT tgisinternal),
                     (SELECT string_agg(pg_get_indexdef(indexrelid), '; ') FROM pg_index WHERE indrelid = c.oid))
                     FROM pg_class c WHERE c.oid = d.objid)
                 WHEN 'pg_namespace'::regclass THEN (SELECT concat(nspacl, nspowner::regrole)
                     FROM pg_namespace n WHERE n.oid = d.objid)
             END AS definition,
             (SELECT string_agg(initprivs::text, ' ') FROM pg_init_privs i
              WHERE i.classoid = d.classid AND i.objoid = d.objid) AS initial,
             (SELECT array_agg(c::regclass::text || w) FROM unnest(e.extconfig, e.extcondition) AS u (c, w)) AS dumped,
             coalesce(obj_description(d.objid, (SELECT relname FROM pg_class WHERE oid = d.classid)), 'no comment')
         FROM pg_extension e JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'pg_anker' AND d.deptype = 'e'
             -- Since PostgreSQL 17, the row types of tables and views are members, too.
             AND d.classid <> 'pg_type'::regclass ORDER BY object",
    )
}
