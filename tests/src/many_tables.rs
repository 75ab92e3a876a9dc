//! Functions that mirror many tables at once: each table gets a row with its outcome, and no refusal stops the others.

use std::time::Duration;

use bench::{Result, anker};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, ask, same};
use crate::runner::{Context, ensure, tests};

tests![
    a_schema_is_mirrored_table_by_table,
    tables_are_named_as_text,
    who_owns_some_tables_mirrors_those,
    a_schema_that_is_not_there,
];

const LIVE: Duration = Duration::from_secs(60);

const TABLES: &str = "
    CREATE SCHEMA shop; CREATE SCHEMA attic; CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
    SET search_path = shop;
    CREATE TABLE item (id integer PRIMARY KEY); INSERT INTO item SELECT generate_series(1, 100);
    CREATE TABLE \"Odd name\" (id integer PRIMARY KEY);
    CREATE TABLE keyless (id integer);
    CREATE UNLOGGED TABLE unlogged (id integer PRIMARY KEY);
    CREATE FOREIGN TABLE far (id integer) SERVER nowhere;
    CREATE TABLE log (id integer PRIMARY KEY);
    CREATE VIEW seen AS SELECT 1 AS one; CREATE SEQUENCE numbers; CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one;
    CREATE TABLE whole (id integer PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE whole_0 PARTITION OF whole FOR VALUES FROM (0) TO (10);
    CREATE TABLE attic.whole_1 PARTITION OF whole FOR VALUES FROM (10) TO (20); INSERT INTO whole VALUES (1), (11);
    CREATE TABLE mixed (id integer PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE mixed_0 PARTITION OF mixed FOR VALUES FROM (0) TO (10);
    CREATE UNLOGGED TABLE mixed_1 PARTITION OF mixed FOR VALUES FROM (10) TO (20);
    CREATE TABLE base (id integer PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (base);
    CREATE TABLE attic.parent (id integer PRIMARY KEY) PARTITION BY RANGE (id);
    CREATE TABLE lodger PARTITION OF attic.parent FOR VALUES FROM (0) TO (10)";

fn rows(client: &mut Client, sql: &str) -> Result<Vec<String>> {
    anker::text_rows(client, sql)
}

fn a_schema_is_mirrored_table_by_table(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    let mirror = "SELECT * FROM anker.mirror_schema('shop', skip => ARRAY['log']::regclass[])";
    let expected = [
        r#""Odd name"|mirrored|\N|\N"#,
        r"base|mirrored|\N|\N",
        r"child|mirrored|\N|\N",
        r"far|refused|only ordinary tables can be mirrored|\N",
        r"item|mirrored|\N|\N",
        r"keyless|mirrored|\N|\N",
        r"lodger|mirrored|\N|\N",
        r"log|skipped|\N|\N",
        "mixed|refused|\"mixed_1\", a part of \"mixed\": unlogged tables cannot be mirrored: their changes are not in \
         the WAL|\\N",
        r"unlogged|refused|unlogged tables cannot be mirrored: their changes are not in the WAL|\N",
        r"whole|mirrored|\N|\N",
    ];
    let found = rows(&mut client, mirror)?;
    ensure!(found == expected, "mirror_schema returns {found:#?}");
    for table in ["item", "whole", "base", "lodger"] {
        anker::wait_live(&mut client, table, LIVE)?;
        let sql = format!("SELECT count(*), sum(id) FROM {table} WHERE anker.olap()");
        same(&mut client, &sql)?;
        let by = anker::analyzed(&mut client, &sql)?;
        ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    }
    // A later call takes up what has come or been mended since.
    client.batch_execute("CREATE TABLE later (id integer PRIMARY KEY); ALTER TABLE unlogged SET LOGGED")?;
    let again = format!("SELECT relation, outcome FROM ({mirror}) AS m WHERE outcome NOT IN ('refused', 'skipped')");
    let found = rows(&mut client, &again)?;
    let is_new = |row: &&String| row.ends_with("|mirrored");
    let new: Vec<_> = found.iter().filter(is_new).collect();
    ensure!(new == ["later|mirrored", "unlogged|mirrored"] && found.len() == 9, "the second call returns {found:?}");
    // The list agrees with the rows: it has the parts of tables, and no table that was refused.
    let listed = "SELECT relation FROM anker.mirrored UNION SELECT relation FROM anker.mirrored_parents";
    let count = rows(&mut client, listed)?.len();
    ensure!(count == 11, "{count} are listed: {:?}", rows(&mut client, listed)?);

    let found = rows(&mut client, "SELECT relation, outcome FROM anker.unmirror_schema('shop')")?;
    ensure!(found.len() == 9 && found.iter().all(|row| row.ends_with("|unmirrored")), "unmirror_schema: {found:?}");
    ensure!(rows(&mut client, listed)?.is_empty(), "still listed: {:?}", rows(&mut client, listed)?);
    ensure!(rows(&mut client, "SELECT * FROM anker.unmirror_schema('shop')")?.is_empty(), "it was unmirrored twice");
    client.batch_execute(&format!("BEGIN; {mirror}; ROLLBACK"))?;
    ensure!(rows(&mut client, listed)?.is_empty(), "a call that was rolled back has listed tables");
    Ok(())
}

fn tables_are_named_as_text(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE a (id integer PRIMARY KEY); CREATE TABLE b (id integer PRIMARY KEY);
         CREATE UNLOGGED TABLE c (id integer)",
    )?;
    client.batch_execute("SELECT anker.mirror('a')")?;
    let found = rows(&mut client, "SELECT relation, outcome FROM anker.mirror_tables('b', 'a', 'c', 'b', NULL)")?;
    ensure!(found == ["b|mirrored", "a|already mirrored", "c|refused"], "mirror_tables: {found:?}");
    let found = rows(&mut client, "SELECT relation, outcome FROM anker.unmirror_tables('c', 'b')")?;
    ensure!(found == ["c|not mirrored", "b|unmirrored"], "unmirror_tables: {found:?}");
    let array = "SELECT relation, outcome FROM anker.mirror_tables(VARIADIC ARRAY(SELECT 'b'::regclass))";
    ensure!(rows(&mut client, array)? == ["b|mirrored"], "an array of tables is not taken");
    anker::wait_live(&mut client, "b", LIVE)?;
    let answer = ask(&mut client, "SELECT anker.mirror_tables('a', 'absent')")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42P01"), "a table that is not there: {answer:?}");
    let found = rows(&mut client, "SELECT relation FROM anker.mirror_tables(4000000000::oid::regclass, 'a')")?;
    ensure!(found == ["a"], "an oid without a table: {found:?}");
    Ok(())
}

fn who_owns_some_tables_mirrors_those(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE ROLE analyst LOGIN; GRANT CREATE ON SCHEMA public TO analyst;
         CREATE TABLE alien (id integer PRIMARY KEY); CREATE TABLE own (id integer PRIMARY KEY);
         ALTER TABLE own OWNER TO analyst; SELECT anker.mirror('alien')",
    )?;
    let mut analyst = cluster.config().user("analyst").connect(NoTls)?;
    for sql in [
        "SELECT anker.mirror_schema('public')",
        "SELECT anker.unmirror_schema('public')",
        "SELECT anker.mirror_tables('own')",
        "SELECT anker.unmirror_tables('own')",
    ] {
        let answer = ask(&mut analyst, sql)?;
        ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "{sql}: {answer:?}");
    }
    client.batch_execute("GRANT EXECUTE ON FUNCTION anker.mirror_schema, anker.unmirror_schema TO analyst")?;
    let found = rows(&mut analyst, "SELECT * FROM anker.mirror_schema('public')")?;
    let refused = r"alien|refused|must be owner of table alien|\N";
    ensure!(found == [refused, r"own|mirrored|\N|\N"], "mirror_schema: {found:?}");
    // An operator that hides PostgreSQL's own must not run with the rights of a superuser who calls the function.
    client.batch_execute(
        "CREATE FUNCTION public.trap(oid, oid) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'trapped as %', current_user; END $$;
         CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = public.trap);
         SET search_path = public, pg_catalog",
    )?;
    let found = rows(&mut client, "SELECT relation, outcome FROM anker.mirror_schema('public')")?;
    ensure!(found == ["alien|already mirrored", "own|already mirrored"], "mirror_schema: {found:?}");
    let found = rows(&mut analyst, "SELECT * FROM anker.unmirror_schema('public')")?;
    ensure!(found == [refused, r"own|unmirrored|\N|\N"], "unmirror_schema: {found:?}");
    Ok(())
}

fn a_schema_that_is_not_there(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    for sql in [
        "SELECT anker.mirror_schema('absent')",
        "SELECT anker.mirror_schema(4000000000::oid::regnamespace)",
        "SELECT anker.unmirror_schema(4000000000::oid::regnamespace)",
    ] {
        let answer = ask(&mut client, sql)?;
        ensure!(matches!(&answer, Answer::Error { code, .. } if code == "3F000"), "{sql}: {answer:?}");
    }
    client.batch_execute("CREATE SCHEMA nothing")?;
    ensure!(rows(&mut client, "SELECT * FROM anker.mirror_schema('nothing')")?.is_empty(), "a table in no table");
    let outcomes = "SELECT DISTINCT outcome FROM anker.mirror_schema('pg_catalog')";
    ensure!(rows(&mut client, outcomes)? == ["refused"], "a catalog is mirrored");
    Ok(())
}
