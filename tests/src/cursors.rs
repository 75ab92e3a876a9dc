//! Flagged queries behind cursors that stay open.

use std::time::Duration;

use bench::{Result, anker};
use postgres::Client;

use crate::runner::{Context, ensure, tests};

tests![ddl_under_an_open_cursor_is_refused];

const LIVE: Duration = Duration::from_secs(60);

/// SQLSTATE and message of a statement's error; `None` if it raises none. It changes nothing.
fn attempt(client: &mut Client, sql: &str) -> Result<Option<(String, String)>> {
    client.batch_execute("SAVEPOINT attempt")?;
    let error = client.simple_query(sql).err();
    client.batch_execute("ROLLBACK TO attempt; RELEASE attempt")?;
    let said = error.as_ref().map(|e| e.as_db_error().ok_or_else(|| bench::describe(e)));
    Ok(said.transpose()?.map(|e| (e.code().code().to_owned(), e.message().to_owned())))
}

fn ddl_under_an_open_cursor_is_refused(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY, g integer, x text);
         CREATE TABLE u (id integer PRIMARY KEY, g integer);
         INSERT INTO t SELECT i, i % 7, 'x' || i FROM generate_series(1, 20000) i;
         INSERT INTO u SELECT i, i FROM generate_series(1, 7) i; CREATE INDEX by_g ON t (g); ANALYZE t, u",
    )?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    let statements = [
        "TRUNCATE t",
        "TRUNCATE u, t",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN extra integer",
        "ALTER TABLE t ALTER COLUMN g TYPE bigint",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t RENAME COLUMN x TO y",
        "ALTER TABLE t SET UNLOGGED",
        "CREATE INDEX another ON t (x)",
        "CREATE TRIGGER before BEFORE INSERT ON t EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CLUSTER t USING t_pkey",
        "REINDEX TABLE t",
        "DROP INDEX by_g",
        "DELETE FROM t WHERE id = 1",
    ];
    let queries = [
        "SELECT * FROM t WHERE anker.olap()",
        "SELECT g, count(*) FROM t WHERE anker.olap() GROUP BY g",
        "SELECT t.id, u.id FROM t, u WHERE t.g = u.g AND anker.olap()",
    ];
    // So that on the heap no index is open.
    client.batch_execute("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off")?;
    for query in queries {
        for fetch in ["", "FETCH 3 FROM c;"] {
            let by = anker::analyzed(&mut client, query)?;
            ensure!(by.as_deref() == Some("engine"), "{query}: answered by {by:?}");
            client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {query}; {fetch}"))?;
            let flagged: Vec<_> = statements.iter().map(|sql| attempt(&mut client, sql)).collect::<Result<_>>()?;
            // The cursor goes on.
            let rows = anker::text_rows(&mut client, "FETCH 2 FROM c")?;
            ensure!(rows.len() == 2, "{query}: {} rows after the refusals", rows.len());
            client.batch_execute("CLOSE c")?;
            for sql in statements {
                let said = attempt(&mut client, sql)?;
                ensure!(said.is_none(), "{sql} after CLOSE: {said:?}");
            }
            client.batch_execute("ROLLBACK")?;

            let plain = crate::flagged::unflagged(query);
            client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {plain}; {fetch}"))?;
            for (sql, flagged) in statements.iter().zip(flagged) {
                let heap = attempt(&mut client, sql)?;
                ensure!(heap == flagged, "{sql} under a cursor for {query}: heap {heap:?}, flagged {flagged:?}");
            }
            client.batch_execute("ROLLBACK")?;
        }
    }
    Ok(())
}
