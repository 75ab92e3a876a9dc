//! The mirror follows all kinds of changes of its tables: writes, DDL, TRUNCATE and others.

use std::io::Write;
use std::time::{Duration, Instant};

use bench::cluster::Cluster;
use bench::{Result, anker};
use postgres::Client;
use rand::Rng;

use crate::chaos::{self, Values, Writers};
use crate::flagged::{Answer, same};
use crate::runner::{Context, ensure, tests};

tests![
    mirror_equals_heap_after_random_changes_and_ddl,
    mirror_equals_heap_while_it_changes,
    large_transactions_and_copy,
    unchanged_long_values_are_kept,
    long_values_that_only_postgresql_knows_are_kept,
    every_kind_of_ddl_is_noticed,
    a_prepared_transaction_appears_when_it_commits,
    reindex_of_the_primary_key_keeps_the_mirror,
    a_key_that_is_not_a_number_is_followed,
];

const LIVE: Duration = Duration::from_secs(60);

/// Waits until the tables are live, and compares them with their mirrors.
pub fn verify_all(client: &mut Client, tables: &[&str]) -> Result<()> {
    for table in tables {
        anker::wait_live(client, table, LIVE)?;
        let differences = anker::verify(client, table)?;
        ensure!(differences.is_empty(), "{table}: {} differences, first {:?}", differences.len(), differences[0]);
    }
    let errors: i64 = client.query_one("SELECT coalesce(sum(errors), 0)::bigint FROM anker.tables", &[])?.get(0);
    ensure!(errors == 0, "{errors} changes could not be applied");
    Ok(())
}

fn mirror_equals_heap_after_random_changes_and_ddl(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let writers = Writers::start(&cluster, 4, "", Duration::from_millis(1))?;
    let ddl_ends = Instant::now() + context.seconds(60, 8);
    let mut changes = Ddl::default();
    while Instant::now() < ddl_ends {
        std::thread::sleep(context.seconds(60, 8) / 24);
        changes.next(&mut client)?;
    }
    ensure!(writers.stop()? > 100, "the writers got hardly anything done");
    verify_all(&mut client, &chaos::TABLES)
}

/// Runs one DDL statement after the other. The statements of the writers stay valid whichever of them have run.
#[derive(Default)]
struct Ddl {
    done: usize,
}

impl Ddl {
    fn next(&mut self, client: &mut Client) -> Result<()> {
        const CHANGES: [&str; 12] = [
            "TRUNCATE bag",
            "ALTER TABLE kinds ADD COLUMN added integer DEFAULT 7",
            "ALTER TABLE pairs ADD COLUMN other text",
            "VACUUM FULL facts",
            "ALTER TABLE kinds ALTER COLUMN i4 TYPE bigint",
            "ALTER TABLE pairs RENAME COLUMN other TO renamed; ALTER TABLE bag RENAME TO sack; ALTER TABLE sack RENAME TO bag",
            "ALTER TABLE kinds DROP COLUMN added",
            "BEGIN; TRUNCATE coded; INSERT INTO coded VALUES ('a', 1, 1), ('b', 2, 2); COMMIT",
            "ALTER TABLE kinds ALTER COLUMN i4 TYPE integer USING (i4 % 1000000)::integer",
            "ALTER TABLE pairs DROP COLUMN renamed",
            "BEGIN; ALTER TABLE facts ADD COLUMN never integer; UPDATE facts SET kid = 1 WHERE fid < 100; ROLLBACK",
            "CLUSTER pairs USING pairs_pkey",
        ];
        let sql = CHANGES[self.done % CHANGES.len()];
        self.done += 1;
        loop {
            match client.batch_execute(sql) {
                // A deadlock with the writers. The statement is repeated, because later ones depend on it.
                Err(e) if e.code().is_some_and(|c| c.code() == "40P01") => client.batch_execute("ROLLBACK")?,
                // A writer has written values that are too large for the new type.
                Err(e) if e.code().is_some_and(|c| c.code() == "22003") => return Ok(()),
                other => return Ok(other.map_err(|e| format!("{sql}: {}", bench::describe(&e)))?),
            }
        }
    }
}

fn mirror_equals_heap_while_it_changes(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let writers = Writers::start(&cluster, 3, "", Duration::from_millis(1))?;
    for round in 0..context.size(60, 8) as usize {
        let table = chaos::TABLES[round % chaos::TABLES.len()];
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "round {round}, {table}: {:?}", &differences[..differences.len().min(4)]);
    }
    writers.stop()?;
    verify_all(&mut client, &chaos::TABLES)
}

fn large_transactions_and_copy(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let rows = context.size(400_000, 60_000);
    // This transaction is larger than logical_decoding_work_mem, so that decoding spills to disk.
    client.batch_execute(&format!(
        "BEGIN;
         INSERT INTO facts SELECT 10000 + i, i % 1500, i / 7.0, now() FROM generate_series(1, {rows}) i;
         UPDATE facts SET amount = amount + 1 WHERE fid % 3 = 0;
         DELETE FROM facts WHERE fid % 10 = 7;
         COMMIT"
    ))?;
    copy_bag(&cluster, 20_000)?;
    // On a busy machine, decoding the changes may take long.
    client.batch_execute("SET anker.max_wait = '60s'")?;
    let count = "SELECT count(*), sum(amount) FROM facts WHERE anker.olap()";
    ensure!(matches!(same(&mut client, count)?, Answer::Rows(_)), "no rows from {count}");
    verify_all(&mut client, &["facts", "bag"])
}

fn copy_bag(cluster: &Cluster, rows: u32) -> Result<()> {
    let mut client = cluster.connect()?;
    let mut values = Values::seeded(7);
    let mut copy = client.copy_in("COPY bag (k, v, n) FROM STDIN")?;
    for _ in 0..rows {
        let (k, n) = (values.random().random_range(0..1000), values.random().random_range(-100..100));
        writeln!(copy, "{k}\tcopied\t{n}.25")?;
    }
    copy.finish()?;
    Ok(())
}

fn unchanged_long_values_are_kept(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE long_values (id integer PRIMARY KEY, n integer, v text, w text);
         ALTER TABLE long_values ALTER COLUMN v SET STORAGE EXTERNAL;
         INSERT INTO long_values SELECT i, 0, repeat(md5(i::text), 200), repeat(chr(64 + i % 26), 9000)
         FROM generate_series(1, 200) i",
    )?;
    anker::mirror(&mut client, &["long_values"], LIVE)?;
    client.batch_execute(
        "UPDATE long_values SET n = n + 1;
         UPDATE long_values SET v = repeat(md5(n::text), 300) WHERE id % 5 = 0;
         UPDATE long_values SET n = n + 1 WHERE id % 2 = 0;
         UPDATE long_values SET id = id + 1000 WHERE id % 3 = 0;
         UPDATE long_values SET w = NULL WHERE id % 7 = 0;
         UPDATE long_values SET n = n + 1",
    )?;
    same(&mut client, "SELECT id, n, v, w FROM long_values WHERE anker.olap()")?;
    verify_all(&mut client, &["long_values"])
}

fn long_values_that_only_postgresql_knows_are_kept(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute("CREATE TYPE pair AS (a integer, b text)")?;
    for (table, identity) in [("keyed", "DEFAULT"), ("whole", "FULL")] {
        client.batch_execute(&format!(
            "CREATE TABLE {table} (u uuid PRIMARY KEY, n integer, j jsonb, b bytea, a text[], p pair, w numeric);
             ALTER TABLE {table} REPLICA IDENTITY {identity}, ALTER COLUMN j SET STORAGE EXTERNAL,
                 ALTER COLUMN b SET STORAGE EXTERNAL;
             INSERT INTO {table} SELECT md5(i::text)::uuid, i, jsonb_build_object('k', repeat(md5(i::text), i % 3 * 100)),
                 decode(repeat(md5(i::text), i % 5 * 100), 'hex'), ARRAY[repeat('long', 3000), NULL, md5(i::text)],
                 (i, repeat('x', i * 50))::pair, i::numeric ^ 500 FROM generate_series(1, 200) i"
        ))?;
    }
    anker::mirror(&mut client, &["keyed", "whole"], LIVE)?;
    for table in ["keyed", "whole"] {
        client.batch_execute(&format!(
            "UPDATE {table} SET n = n + 1;
             UPDATE {table} SET j = jsonb_set(j, '{{more}}', to_jsonb(repeat(md5(n::text), 200))) WHERE n % 5 = 0;
             UPDATE {table} SET u = md5(u::text)::uuid WHERE n % 3 = 0;
             UPDATE {table} SET b = b || b, a = a || a WHERE n % 4 = 0;
             UPDATE {table} SET p.b = 'short', w = NULL WHERE n % 7 = 0;
             UPDATE {table} SET w = w + 0.000, j = j || '{{}}' WHERE n % 11 = 0;
             DELETE FROM {table} WHERE n % 13 = 0;
             BEGIN; UPDATE {table} SET a[2] = 'undone'; ROLLBACK;
             UPDATE {table} SET n = n + 1"
        ))?;
        same(&mut client, &format!("SELECT * FROM {table} WHERE anker.olap()"))?;
        let read = format!("SELECT n, j ->> 'more', length(b), array_length(a, 1), (p).b, scale(w) FROM {table} WHERE");
        same(&mut client, &format!("{read} p IS NOT NULL AND anker.olap()"))?;
        let by = anker::analyzed(&mut client, &format!("{read} anker.olap()"))?;
        ensure!(by.as_deref() == Some("engine"), "answered by {by:?}");
    }
    let rebuilt = anker::text_rows(&mut client, "SELECT relation, rebuilds FROM anker.tables WHERE rebuilds > 0")?;
    ensure!(rebuilt.is_empty(), "rebuilt: {rebuilt:?}");
    verify_all(&mut client, &["keyed", "whole"])
}

fn every_kind_of_ddl_is_noticed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, a integer, b numeric(8,2), c text COLLATE \"C\");
         INSERT INTO t SELECT i, i % 10, i / 3.0, 'row ' || i FROM generate_series(1, 2000) i",
    )?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let changes = [
        "ALTER TABLE t ADD COLUMN d integer",
        "ALTER TABLE t ADD COLUMN e text DEFAULT 'there before'",
        "UPDATE t SET d = id WHERE id < 500",
        "ALTER TABLE t DROP COLUMN a",
        "ALTER TABLE t ALTER COLUMN b TYPE numeric(12,4)",
        "ALTER TABLE t RENAME COLUMN b TO renamed",
        "ALTER TABLE t ALTER COLUMN id TYPE bigint",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (c)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "DELETE FROM t WHERE id % 4 = 1",
        "TRUNCATE t",
        "INSERT INTO t (id, c, renamed) VALUES (1, 'one', 1), (2, 'two', 2)",
        "ALTER TABLE t SET TABLESPACE pg_default",
        "VACUUM FULL t",
        "BEGIN; TRUNCATE t; INSERT INTO t (id, c) VALUES (3, 'three'); ROLLBACK",
        "CREATE INDEX ON t (renamed)",
        "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t",
        "ANALYZE t",
        "DROP TABLE t; CREATE TABLE t (id integer PRIMARY KEY, renamed text); INSERT INTO t VALUES (1, 'new')",
    ];
    for sql in changes {
        client.batch_execute(sql).map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
        // Runs the query twice: at once, when most likely the heap answers, and again when the mirror is live.
        let all = "SELECT * FROM t WHERE anker.olap()";
        same(&mut client, all).map_err(|e| format!("right after {sql}: {e}"))?;
        if sql.starts_with("DROP TABLE") {
            client.batch_execute("SELECT anker.mirror('t')")?;
        }
        anker::wait_live(&mut client, "t", LIVE).map_err(|e| format!("after {sql}: {e}"))?;
        same(&mut client, all).map_err(|e| format!("after {sql}: {e}"))?;
        let by = anker::analyzed(&mut client, all)?;
        ensure!(by.as_deref() == Some("engine"), "after {sql}: answered by {by:?}");
    }
    verify_all(&mut client, &["t"])
}

fn a_prepared_transaction_appears_when_it_commits(context: &Context) -> Result<()> {
    let options = bench::cluster::Options::default().set("max_prepared_transactions", "5");
    let cluster = context.cluster_with(&options)?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    client.batch_execute("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1)")?;
    anker::mirror(&mut client, &["t"], LIVE)?;
    let all = "SELECT id FROM t WHERE anker.olap()";
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'two'")?;
    client.batch_execute("BEGIN; INSERT INTO t VALUES (3); PREPARE TRANSACTION 'three'")?;
    client.batch_execute("INSERT INTO t VALUES (4)")?;
    same(&mut client, all)?;
    client.batch_execute("COMMIT PREPARED 'two'")?;
    ensure!(same(&mut client, all)? == Answer::Rows(vec!["1".into(), "2".into(), "4".into()]), "after COMMIT PREPARED");
    client.batch_execute("ROLLBACK PREPARED 'three'")?;
    same(&mut client, all)?;
    verify_all(&mut client, &["t"])
}

fn reindex_of_the_primary_key_keeps_the_mirror(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer, v integer, PRIMARY KEY (v, id)); INSERT INTO t SELECT i, i FROM generate_series(1, 5000) i;
         CREATE TABLE named (id integer NOT NULL, v integer); CREATE UNIQUE INDEX by_id ON named (id);
         ALTER TABLE named REPLICA IDENTITY USING INDEX by_id",
    )?;
    anker::mirror(&mut client, &["t", "named"], LIVE)?;
    for sql in [
        "REINDEX INDEX CONCURRENTLY t_pkey",
        "REINDEX TABLE CONCURRENTLY named",
        "UPDATE t SET v = v + 10000",
        "INSERT INTO named SELECT i, i FROM generate_series(1, 100) i; UPDATE named SET id = id + 100",
    ] {
        client.batch_execute(sql)?;
    }
    for table in ["t", "named"] {
        let all = format!("SELECT * FROM {table} WHERE anker.olap()");
        same(&mut client, &all)?;
        let by = anker::analyzed(&mut client, &all)?;
        ensure!(by.as_deref() == Some("engine"), "{table} is answered by {by:?}");
    }
    let rebuilt = anker::text_rows(&mut client, "SELECT relation, rebuilds FROM anker.tables WHERE rebuilds > 0")?;
    ensure!(rebuilt.is_empty(), "rebuilt: {rebuilt:?}");
    verify_all(&mut client, &["t", "named"])
}

fn a_key_that_is_not_a_number_is_followed(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE k (k numeric(8,2) PRIMARY KEY, v integer); INSERT INTO k VALUES (1, 1), ('NaN', 1);
         CREATE TABLE f (k numeric(8,2), v integer); ALTER TABLE f REPLICA IDENTITY FULL;
         INSERT INTO f VALUES (1, 1), ('NaN', 1), ('NaN', 1)",
    )?;
    anker::mirror(&mut client, &["k", "f"], LIVE)?;
    for table in ["k", "f"] {
        client.batch_execute(&format!(
            "UPDATE {table} SET v = v + 1; UPDATE {table} SET k = 5 WHERE k = 'NaN'; UPDATE {table} SET k = 'NaN' WHERE k = 5;
             BEGIN; DELETE FROM {table} WHERE k = 'NaN'; INSERT INTO {table} VALUES ('NaN', 7); COMMIT;
             DELETE FROM {table} WHERE k = 'NaN'"
        ))?;
        same(&mut client, &format!("SELECT k, v FROM {table} WHERE anker.olap()"))?;
    }
    let rebuilt = anker::text_rows(&mut client, "SELECT relation, rebuilds FROM anker.tables WHERE rebuilds > 0")?;
    ensure!(rebuilt.is_empty(), "rebuilt: {rebuilt:?}");
    verify_all(&mut client, &["k", "f"])
}
