//! A transaction changes a table's definition, changes rows, and changes the definition back. The mirror must still be
//! right.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::flagged::same;
use crate::runner::{Context, ensure, tests};

tests![an_identity_that_was_another_for_a_while_costs_the_mirror, ddl_that_leaves_the_identity_alone_costs_nothing,];

const LIVE: Duration = Duration::from_secs(60);

/// Statements that change the table's replica identity, change rows, and restore the identity. `5 - id` reverses the
/// keys of the four rows.
const REDEFINITIONS: [&str; 9] = [
    "ALTER TABLE pos DROP CONSTRAINT pos_pkey; UPDATE pos SET id = 5 - id; ALTER TABLE pos ADD PRIMARY KEY (id)",
    "SAVEPOINT a; ALTER TABLE pos DROP CONSTRAINT pos_pkey; RELEASE a; UPDATE pos SET id = 5 - id;
     SAVEPOINT b; ALTER TABLE pos ADD PRIMARY KEY (id); RELEASE b",
    "ALTER TABLE pos DROP CONSTRAINT pos_pkey; SAVEPOINT a; UPDATE pos SET id = 5 - id; RELEASE a;
     SAVEPOINT b; DELETE FROM pos; ROLLBACK TO b; ALTER TABLE pos ADD PRIMARY KEY (id)",
    "ALTER TABLE pos REPLICA IDENTITY NOTHING; UPDATE pos SET id = 15 - id; UPDATE pos SET id = id - 10;
     ALTER TABLE pos REPLICA IDENTITY DEFAULT",
    "ALTER TABLE pos REPLICA IDENTITY USING INDEX pos_other; UPDATE pos SET id = 15 - id; UPDATE pos SET id = id - 10;
     ALTER TABLE pos REPLICA IDENTITY DEFAULT",
    "ALTER TABLE pos REPLICA IDENTITY FULL; UPDATE pos SET id = 15 - id; UPDATE pos SET id = id - 10;
     ALTER TABLE pos REPLICA IDENTITY DEFAULT",
    "ALTER TABLE pos DROP CONSTRAINT pos_pkey; DELETE FROM pos WHERE id = 1; INSERT INTO pos VALUES (2, 9, 9, 'e');
     DELETE FROM pos WHERE other = 2; ALTER TABLE pos ADD PRIMARY KEY (id)",
    "ALTER TABLE pos SET UNLOGGED; UPDATE pos SET id = 15 - id; UPDATE pos SET id = id - 10; ALTER TABLE pos SET LOGGED",
    "ALTER TABLE whole DETACH PARTITION pos; ALTER TABLE pos DROP CONSTRAINT pos_pkey; UPDATE pos SET id = 5 - id;
     ALTER TABLE pos ADD PRIMARY KEY (id); ALTER TABLE whole ATTACH PARTITION pos DEFAULT",
];

/// Creates four rows, each with a value in the TOAST table. An update that does not change this value does not log it,
/// either.
fn create(client: &mut Client) -> Result<()> {
    client.batch_execute(
        "DROP TABLE IF EXISTS whole;
         CREATE TABLE whole (id integer NOT NULL, other integer NOT NULL, n integer, v text) PARTITION BY LIST (n);
         CREATE TABLE pos PARTITION OF whole DEFAULT;
         ALTER TABLE pos ADD PRIMARY KEY (id), ALTER COLUMN v SET STORAGE EXTERNAL;
         CREATE UNIQUE INDEX pos_other ON pos (other);
         INSERT INTO pos SELECT i, i, i, repeat(chr(96 + i), 5000) FROM generate_series(1, 4) i",
    )?;
    anker::mirror(client, &["pos"], LIVE)?;
    Ok(())
}

const ALL: &str = "SELECT id, other, n, left(v, 1) FROM pos WHERE anker.olap() ORDER BY id";

fn an_identity_that_was_another_for_a_while_costs_the_mirror(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    for sql in REDEFINITIONS {
        create(&mut client)?;
        client
            .batch_execute(&format!("BEGIN; {sql}; COMMIT"))
            .map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
        same(&mut client, ALL).map_err(|e| format!("right after {sql}: {e}"))?;
        anker::wait_live(&mut client, "pos", LIVE)?;
        same(&mut client, ALL).map_err(|e| format!("after {sql}: {e}"))?;
        let by = anker::analyzed(&mut client, ALL)?;
        ensure!(by.as_deref() == Some("engine"), "after {sql}: answered by {by:?}");
        ensure!(rebuilds(&mut client)? > 0, "{sql} did not cost the mirror");
    }
    Ok(())
}

fn ddl_that_leaves_the_identity_alone_costs_nothing(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    create(&mut client)?;
    for sql in [
        "CREATE TABLE beside (id integer); UPDATE pos SET id = id + 10; UPDATE pos SET id = 15 - id",
        "UPDATE pos SET n = n + 1; CREATE INDEX pos_n ON pos (n); UPDATE pos SET id = id + 10; UPDATE pos SET id = 15 - id",
        "SAVEPOINT a; ALTER TABLE pos DROP CONSTRAINT pos_pkey; UPDATE pos SET id = 5 - id; ROLLBACK TO a;
         UPDATE pos SET id = id + 10; UPDATE pos SET id = 15 - id",
        "SAVEPOINT a; ALTER TABLE pos REPLICA IDENTITY NOTHING; UPDATE pos SET id = id + 10; ROLLBACK TO a; DELETE FROM pos WHERE id = 2",
    ] {
        client
            .batch_execute(&format!("BEGIN; {sql}; COMMIT"))
            .map_err(|e| format!("{sql}: {}", bench::describe(&e)))?;
        same(&mut client, ALL).map_err(|e| format!("after {sql}: {e}"))?;
        let by = anker::analyzed(&mut client, ALL)?;
        ensure!(by.as_deref() == Some("engine"), "after {sql}: answered by {by:?}");
    }
    ensure!(rebuilds(&mut client)? == 0, "the mirror was rebuilt");
    Ok(())
}

/// The number of times that the table was loaded again after its first load.
fn rebuilds(client: &mut Client) -> Result<i64> {
    Ok(client.query_one("SELECT rebuilds::bigint FROM anker.tables WHERE relation = 'pos'::regclass", &[])?.get(0))
}
