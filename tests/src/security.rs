//! Row security and security barrier views must work in the engine as on the heap. Each query also runs as a user who
//! may see fewer rows. No expression may raise an error for a row that is hidden from this user.

use std::sync::Arc;
use std::time::Duration;

use bench::cluster::Cluster;
use bench::{Result, anker};
use postgres::{Client, NoTls};

use crate::flagged::{Answer, same};
use crate::runner::{Context, ensure, tests};

tests![
    policies_hide_rows,
    hidden_rows_raise_nothing,
    whom_policies_concern,
    plans_follow_role_and_policies,
    barriers_hide_rows,
    policies_of_parts_and_of_views,
    wrapped_barriers_hide_rows,
    nothing_is_counted_of_hidden_rows,
    a_policy_with_effects_has_them_once,
];

const LIVE: Duration = Duration::from_secs(60);

/// A third of the documents belongs to `ann`, a third to `bob`, and a third to nobody known. The column `secret` is
/// zero in bob's documents.
const TABLES: &str = "
    CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE auditor LOGIN BYPASSRLS;
    CREATE TABLE document (id integer PRIMARY KEY, owner name, tenant integer, secret integer, words text, size numeric(8,2));
    INSERT INTO document SELECT i, (ARRAY['ann', 'bob'])[i % 3], i % 3, CASE i % 3 WHEN 2 THEN 0 ELSE i END,
        CASE WHEN i % 7 > 0 THEN i || ' words' END, i / 8.0 FROM generate_series(1, 9000) i;
    CREATE TABLE member (who name, tenant integer, PRIMARY KEY (who, tenant));
    INSERT INTO member VALUES ('ann', 1), ('bob', 2), ('clerk', 0), ('clerk', 1);
    GRANT SELECT ON document, member TO ann, bob, clerk, auditor;
    ALTER TABLE document ENABLE ROW LEVEL SECURITY";

fn with_documents(context: &Context) -> Result<(Arc<Cluster>, Client)> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    anker::mirror(&mut client, &["document", "member"], LIVE)?;
    Ok((cluster, client))
}

fn as_user(cluster: &Cluster, user: &str) -> Result<Client> {
    let mut session = cluster.config().user(user).connect(NoTls)?;
    // With `anker.max_sent = 0` no rows are sent along, so the engine reads all rows from the mirror.
    session.batch_execute("SET anker.max_sent = 0; SET app.tenant = '1'")?;
    Ok(session)
}

/// Checks that heap and engine give the same answer, and that the engine answers the flagged query.
fn engine(session: &mut Client, sql: &str) -> Result<Answer> {
    let answer = same(session, sql)?;
    let by = anker::analyzed(session, sql)?;
    ensure!(by.as_deref() == Some("engine"), "{sql}: answered by {by:?}");
    Ok(answer)
}

fn heap(session: &mut Client, sql: &str, because: &str) -> Result<()> {
    same(session, sql)?;
    let by = anker::explained(session, sql)?;
    ensure!(by.as_deref().is_some_and(|by| by.starts_with("heap") && by.contains(because)), "{sql}: {by:?}");
    Ok(())
}

const COUNT: &str = "SELECT count(*), count(words), sum(secret), min(size) FROM document WHERE anker.olap()";

fn policies_hide_rows(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    let mut ann = as_user(&cluster, "ann")?;
    // If row security is enabled and there is no policy, a user sees no rows.
    ensure!(engine(&mut ann, COUNT)? == Answer::Rows(vec!["0|0|\\N|\\N".into()]), "rows are seen without a policy");
    for using in [
        "owner = current_user",
        "tenant = current_setting('app.tenant')::integer",
        "tenant = (SELECT current_setting('app.tenant')::integer)",
        "tenant = ANY (ARRAY[(SELECT current_setting('app.tenant', true)::integer), 2]) AND id <> 7",
        "tenant IN (1, 2) AND words LIKE '%0 words'",
        "size BETWEEN 10 AND 20.5 OR words IS NULL",
        "secret IS NOT NULL AND true",
        "false",
        "NULL::boolean",
    ] {
        client.batch_execute(&format!("CREATE POLICY one ON document TO ann USING ({using})"))?;
        for sql in [
            COUNT,
            "SELECT tenant, count(*), max(words) FROM document WHERE anker.olap() GROUP BY tenant",
            "SELECT * FROM document WHERE id % 100 = 1 AND anker.olap()",
            "SELECT count(*) FROM document a JOIN document b ON a.id = b.id + 3 WHERE anker.olap()",
            "SELECT m.who, count(d.id) FROM member m LEFT JOIN document d USING (tenant) WHERE anker.olap() GROUP BY 1",
            "SELECT who FROM member m WHERE NOT EXISTS (SELECT FROM document d WHERE d.tenant = m.tenant) AND anker.olap()",
            "SELECT who, (SELECT max(id) FROM document d WHERE d.tenant = m.tenant) FROM member m WHERE anker.olap()",
            "SELECT id FROM document WHERE secret > (SELECT avg(secret) FROM document) AND anker.olap()",
            "SELECT tenant FROM member WHERE anker.olap() EXCEPT SELECT tenant FROM document",
        ] {
            engine(&mut ann, sql).map_err(|e| format!("{using}: {e}"))?;
        }
        client.batch_execute("DROP POLICY one ON document")?;
    }
    // A row must pass one of the permissive policies, and all restrictive ones.
    client.batch_execute(
        "CREATE POLICY one ON document USING (tenant = 1); CREATE POLICY two ON document TO ann USING (tenant = 2);
         CREATE POLICY three ON document AS RESTRICTIVE USING (words IS NOT NULL)",
    )?;
    let all = engine(&mut ann, COUNT)?;
    let mut bob = as_user(&cluster, "bob")?;
    ensure!(engine(&mut bob, COUNT)? != all, "a policy for another role holds");
    Ok(())
}

fn hidden_rows_raise_nothing(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute("CREATE POLICY mine ON document USING (owner = current_user)")?;
    let mut ann = as_user(&cluster, "ann")?;
    for sql in [
        "SELECT count(*) FROM document WHERE 100 / secret >= 0 AND anker.olap()",
        "SELECT sum(100 / secret) FROM document WHERE anker.olap()",
        "SELECT 100 / secret, count(*) FROM document WHERE anker.olap() GROUP BY 1",
        "SELECT count(*) FROM document d JOIN member m ON d.tenant = m.tenant WHERE 100 / secret >= 0 AND anker.olap()",
        "SELECT count(*) FROM document d JOIN member m ON 100 / d.secret = m.tenant WHERE anker.olap()",
        "SELECT count(*) FROM member m LEFT JOIN document d ON d.tenant = m.tenant AND 100 / secret > 1 WHERE anker.olap()",
        "SELECT who FROM member m WHERE EXISTS (SELECT FROM document d WHERE d.tenant = m.tenant AND 9 / secret > 3) AND anker.olap()",
        "SELECT who, (SELECT sum(9 / secret) FROM document d WHERE d.tenant = m.tenant) FROM member m WHERE anker.olap()",
        "SELECT count(*) FROM (SELECT 100 / secret AS q FROM document OFFSET 0) s WHERE q > 1 AND anker.olap()",
        "SELECT max(words::integer) FROM document WHERE secret < 0 AND anker.olap()",
    ] {
        let answer = engine(&mut ann, sql)?;
        ensure!(matches!(answer, Answer::Rows(_)), "{sql}: {answer:?}");
    }
    // Bob may see rows for which the condition divides by zero, so for bob it raises the error.
    let mut bob = as_user(&cluster, "bob")?;
    let answer = same(&mut bob, "SELECT count(*) FROM document WHERE 100 / secret >= 0 AND anker.olap()")?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "22012"), "{answer:?}");

    // If a policy could raise an error or reads other tables, the query runs on the heap.
    for (using, because) in [
        ("100 / id > 0", "a policy of table \"document\" may raise an error"),
        (
            "EXISTS (SELECT FROM member m WHERE m.tenant = document.tenant AND who = current_user)",
            "a policy of table \"document\" has a subquery",
        ),
        ("tenant = (SELECT max(tenant) FROM member)", "a policy of table \"document\" has a subquery"),
    ] {
        client.batch_execute(&format!("ALTER POLICY mine ON document USING ({using})"))?;
        heap(&mut ann, "SELECT count(*) FROM document WHERE 9000 / (id + 1) >= 0 AND anker.olap()", because)?;
    }
    Ok(())
}

fn whom_policies_concern(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute("CREATE POLICY mine ON document USING (owner = current_user); SET anker.max_sent = 0")?;
    ensure!(anker::verify(&mut client, "document")?.is_empty(), "heap and mirror differ");
    let all = engine(&mut client, COUNT)?;
    let mut auditor = as_user(&cluster, "auditor")?;
    ensure!(engine(&mut auditor, COUNT)? == all, "who bypasses policies sees less");
    client.batch_execute(
        "ALTER TABLE document OWNER TO clerk; CREATE POLICY own ON document TO clerk USING (tenant = 0)",
    )?;
    let mut clerk = as_user(&cluster, "clerk")?;
    ensure!(engine(&mut clerk, COUNT)? == all, "the owner sees less");
    client.batch_execute("ALTER TABLE document FORCE ROW LEVEL SECURITY")?;
    ensure!(engine(&mut clerk, COUNT)? != all, "the owner sees all");
    clerk.batch_execute("SET row_security = off")?;
    let answer = same(&mut clerk, COUNT)?;
    ensure!(matches!(&answer, Answer::Error { code, .. } if code == "42501"), "row_security = off: {answer:?}");
    Ok(())
}

fn plans_follow_role_and_policies(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute("CREATE POLICY mine ON document USING (owner = current_user); GRANT ann, bob TO clerk")?;
    client.batch_execute(
        "CREATE FUNCTION seen() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM document WHERE anker.olap()); END $$;
         CREATE FUNCTION seen_by_owner() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS
             $$ BEGIN RETURN (SELECT count(*) FROM document WHERE anker.olap()); END $$;",
    )?;
    let mut clerk = as_user(&cluster, "clerk")?;
    clerk.batch_execute(
        "SET plan_cache_mode = force_generic_plan;
         PREPARE seen AS SELECT count(*), min(owner) FROM document WHERE anker.olap()",
    )?;
    let mut seen = |role: &str| -> Result<Vec<String>> {
        clerk.batch_execute(&format!("SET ROLE {role}"))?;
        let mut rows = anker::text_rows(&mut clerk, "EXECUTE seen")?;
        rows.extend(anker::text_rows(&mut clerk, "SELECT seen(), seen_by_owner()")?);
        Ok(rows)
    };
    for _ in 0..3 {
        ensure!(seen("ann")? == ["3000|ann", "3000|9000"], "ann: {:?}", seen("ann")?);
        ensure!(seen("bob")? == ["3000|bob", "3000|9000"], "bob: {:?}", seen("bob")?);
        ensure!(seen("none")? == ["0|\\N", "0|9000"], "clerk: {:?}", seen("none")?);
    }
    client.batch_execute("ALTER POLICY mine ON document USING (owner = current_user AND id <= 30)")?;
    ensure!(seen("ann")? == ["10|ann", "10|9000"], "after ALTER POLICY: {:?}", seen("ann")?);
    client.batch_execute("ALTER TABLE document DISABLE ROW LEVEL SECURITY")?;
    ensure!(seen("ann")? == ["9000|ann", "9000|9000"], "without row security: {:?}", seen("ann")?);
    client.batch_execute("ALTER TABLE document ENABLE ROW LEVEL SECURITY")?;
    ensure!(seen("bob")? == ["10|bob", "10|9000"], "again with it: {:?}", seen("bob")?);
    let served = anker::counter(&mut client, "queries_served")?;
    seen("ann")?;
    ensure!(anker::counter(&mut client, "queries_served")? >= served + 3, "the heap answered");
    Ok(())
}

fn barriers_hide_rows(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute(
        "CREATE VIEW guarded WITH (security_barrier) AS SELECT id, 7 / secret AS part, secret, size * 2 AS double, tenant FROM document WHERE tenant <> 2;
         CREATE VIEW twice WITH (security_barrier) AS SELECT * FROM guarded WHERE id % 10 <> 1;
         CREATE VIEW joined WITH (security_barrier) AS SELECT d.* FROM document d JOIN member m USING (tenant) WHERE m.who = 'ann';
         CREATE VIEW raising WITH (security_barrier) AS SELECT * FROM document WHERE 10 / id >= 0;
         CREATE VIEW top WITH (security_barrier) AS SELECT * FROM document ORDER BY id LIMIT 10;
         GRANT SELECT ON guarded, twice, joined, raising, top TO ann",
    )?;
    let mut ann = as_user(&cluster, "ann")?;
    for view in ["guarded", "twice"] {
        for sql in [
            format!("SELECT count(*), sum(part), sum(double) FROM {view} WHERE 100 / secret >= 0 AND anker.olap()"),
            format!("SELECT count(*) FROM {view} g JOIN {view} h ON 100 / g.secret = h.id WHERE anker.olap()"),
            format!(
                "SELECT g.id, h.part FROM {view} g LEFT JOIN {view} h ON h.id = g.secret AND 9 / h.secret > 0 WHERE g.id < 50 AND anker.olap()"
            ),
            format!(
                "SELECT (SELECT sum(1 / secret) FROM {view} h WHERE h.tenant = m.tenant) FROM member m WHERE anker.olap()"
            ),
        ] {
            let answer = engine(&mut ann, &sql)?;
            ensure!(matches!(answer, Answer::Rows(_)), "{sql}: {answer:?}");
        }
    }
    // The view's condition reads a column that an inner view computes. The engine would evaluate it after the query's
    // own conditions, so the heap answers.
    client.batch_execute(
        "CREATE VIEW around WITH (security_barrier) AS SELECT id, secret FROM guarded WHERE double > 10;
         CREATE VIEW late WITH (security_barrier) AS
             SELECT id, secret FROM (SELECT id, secret, 10 / secret AS q, upper(owner) AS u FROM document) d WHERE u = 'ANN' AND q < 100;
         GRANT SELECT ON around, late TO ann",
    )?;
    for view in ["joined", "raising", "top", "around", "late"] {
        heap(
            &mut ann,
            &format!("SELECT count(*) FROM {view} WHERE 100 / id >= 0 AND anker.olap()"),
            "security barrier",
        )?;
    }
    Ok(())
}

fn policies_of_parts_and_of_views(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE ROLE ann LOGIN;
         CREATE TABLE whole (k integer, gone integer, owner name, v integer, PRIMARY KEY (k)) PARTITION BY RANGE (k);
         CREATE TABLE low PARTITION OF whole FOR VALUES FROM (0) TO (500);
         CREATE TABLE high (v integer, owner name, k integer NOT NULL, gone integer);
         ALTER TABLE whole DROP COLUMN gone; ALTER TABLE high DROP COLUMN gone;
         ALTER TABLE whole ATTACH PARTITION high FOR VALUES FROM (500) TO (1000);
         INSERT INTO whole SELECT i, CASE i % 2 WHEN 0 THEN 'ann' ELSE 'bob' END, i % 2 * 7 FROM generate_series(0, 999) i;
         ALTER TABLE whole ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON whole USING (owner = current_user);
         ALTER TABLE low ENABLE ROW LEVEL SECURITY; CREATE POLICY low ON low USING (k < 100);
         CREATE VIEW invoked AS SELECT * FROM whole; CREATE VIEW filtered AS SELECT k, v FROM whole WHERE v < 5;
         GRANT SELECT ON whole, low, high, invoked, filtered TO ann",
    )?;
    anker::mirror(&mut client, &["whole"], LIVE)?;
    let mut ann = as_user(&cluster, "ann")?;
    for (sql, rows) in [
        ("SELECT count(*), sum(v) FROM whole WHERE anker.olap()", "500|0"),
        ("SELECT count(*), sum(v) FROM low WHERE anker.olap()", "100|350"),
        ("SELECT count(*), sum(v) FROM high WHERE anker.olap()", "500|1750"),
        ("SELECT count(*), sum(v) FROM invoked WHERE anker.olap()", "1000|3500"),
        ("SELECT count(*), sum(v) FROM filtered WHERE anker.olap()", "500|0"),
    ] {
        let answer = engine(&mut ann, sql)?;
        ensure!(answer == Answer::Rows(vec![rows.into()]), "{sql}: {answer:?}");
    }
    Ok(())
}

/// A query around a view with a security barrier is not merged into the view, however small the view is.
fn wrapped_barriers_hide_rows(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute(
        "CREATE TABLE loose AS SELECT id, tenant, secret FROM document WHERE id < 100;
         CREATE FUNCTION nosy(integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE COST 0.0000001 AS
             $$ BEGIN IF $1 = 0 THEN RAISE EXCEPTION 'a row was seen that is hidden'; END IF; RETURN true; END $$;
         CREATE VIEW sorted WITH (security_barrier) AS SELECT d.* FROM document d JOIN member m USING (tenant) WHERE m.who = 'ann' ORDER BY d.id;
         CREATE VIEW half WITH (security_barrier) AS
             SELECT l.* FROM loose l JOIN member m USING (tenant) WHERE m.who = 'ann' ORDER BY l.id;
         CREATE VIEW top WITH (security_barrier) AS SELECT * FROM document WHERE tenant = 1 ORDER BY id LIMIT 50;
         CREATE VIEW around_sorted AS SELECT * FROM sorted; CREATE VIEW around_half AS SELECT * FROM half;
         CREATE VIEW around_top AS SELECT * FROM top;
         GRANT SELECT ON sorted, half, top, around_sorted, around_half, around_top TO ann",
    )?;
    let mut ann = as_user(&cluster, "ann")?;
    ann.batch_execute("RESET anker.max_sent")?;
    for view in ["sorted", "half", "top"] {
        for look in ["100 / secret > 0", "nosy(secret)"] {
            for sql in [
                format!("SELECT count(*) FROM (SELECT * FROM {view}) s WHERE {look} AND anker.olap()"),
                format!("SELECT id FROM around_{view} WHERE {look} AND anker.olap()"),
                format!(
                    "WITH s AS (SELECT * FROM {view}) SELECT id FROM s WHERE id IN (1, 2, 3, 4) AND {look} AND anker.olap()"
                ),
                format!(
                    "SELECT count(*) FROM member m JOIN (SELECT * FROM {view}) s ON s.id > 0 WHERE {look} AND anker.olap()"
                ),
                format!(
                    "SELECT who FROM member WHERE EXISTS (SELECT FROM around_{view} WHERE {look}) AND anker.olap()"
                ),
            ] {
                let answer = same(&mut ann, &sql)?;
                ensure!(matches!(answer, Answer::Rows(_)), "{sql}: {answer:?}");
                let by = anker::analyzed(&mut ann, &sql)?;
                ensure!(!by.as_deref().is_some_and(|by| by.contains("the engine reports")), "{sql}: {by:?}");
            }
        }
    }
    Ok(())
}

/// `EXPLAIN` shows the same text whatever values hidden rows have.
fn nothing_is_counted_of_hidden_rows(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute(
        "CREATE POLICY mine ON document USING (owner = current_user);
         CREATE TABLE asked (id integer PRIMARY KEY, secret integer); INSERT INTO asked VALUES (1, 3), (2, 6), (3, 9);
         CREATE TABLE not_there (id integer PRIMARY KEY, secret integer); INSERT INTO not_there VALUES (1, -3), (2, -6), (3, -9);
         CREATE TABLE closed (id integer PRIMARY KEY, secret text); INSERT INTO closed SELECT i, 'alpha' || i FROM generate_series(1, 9000) i;
         ALTER TABLE closed ENABLE ROW LEVEL SECURITY; CREATE POLICY all_or_none ON closed USING (current_setting('app.tenant') = '7');
         CREATE VIEW guarded WITH (security_barrier) AS SELECT * FROM document WHERE tenant = 1;
         GRANT SELECT ON asked, not_there, closed, guarded TO ann",
    )?;
    anker::mirror(&mut client, &["asked", "not_there", "closed"], LIVE)?;
    let mut ann = as_user(&cluster, "ann")?;
    let mut shown = |options: &str, sql: &str| -> Result<Vec<String>> {
        let mut lines = anker::text_rows(&mut ann, &format!("EXPLAIN ({options}) {sql}"))?;
        ensure!(lines.iter().any(|line| line.contains("Anker: engine")), "{sql}: {lines:?}");
        // One query asks for a value that hidden rows have, the other for one that no row has. Their names and
        // constants are replaced, so that their plans can be compared.
        lines.iter_mut().for_each(|line| {
            *line = line.replace("not_there", "asked").replace("-3", "3").replace("zeta", "alpha");
            *line = line.replace("= 0)", "= 3)").replace("= 34)", "= 33)");
            for word in ["Memory Usage", "Snapshot Time", "Wait:"] {
                if line.contains(word) {
                    line.clear();
                }
            }
        });
        Ok(lines)
    };
    let analyze = "ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off";
    for (options, one, other) in [
        (
            analyze,
            "SELECT count(*) FROM asked JOIN document d ON asked.secret = d.secret WHERE anker.olap()",
            "SELECT count(*) FROM not_there JOIN document d ON not_there.secret = d.secret WHERE anker.olap()",
        ),
        (
            analyze,
            "SELECT count(*) FROM asked JOIN guarded d ON asked.secret = d.secret WHERE anker.olap()",
            "SELECT count(*) FROM not_there JOIN guarded d ON not_there.secret = d.secret WHERE anker.olap()",
        ),
        (
            analyze,
            "SELECT count(*) FROM document WHERE secret = 3 AND anker.olap()",
            "SELECT count(*) FROM document WHERE secret = -3 AND anker.olap()",
        ),
        (
            "COSTS on",
            "SELECT * FROM closed WHERE secret LIKE '%alpha%' AND anker.olap()",
            "SELECT * FROM closed WHERE secret LIKE '%zeta%' AND anker.olap()",
        ),
        (
            "COSTS on",
            "SELECT * FROM document WHERE 1 / (CASE WHEN id = 33 AND secret = 33 THEN 0 ELSE 1 END) > 0 AND anker.olap()",
            "SELECT * FROM document WHERE 1 / (CASE WHEN id = 33 AND secret = 34 THEN 0 ELSE 1 END) > 0 AND anker.olap()",
        ),
        (
            "COSTS on",
            "SELECT * FROM (SELECT * FROM document LIMIT 100000) q, asked WHERE q.secret = 0 AND anker.olap()",
            "SELECT * FROM (SELECT * FROM document LIMIT 100000) q, asked WHERE q.secret = -3 AND anker.olap()",
        ),
        (
            "COSTS on",
            "SELECT * FROM (SELECT *, row_number() OVER () FROM guarded) q, asked WHERE q.secret = 0 AND anker.olap()",
            "SELECT * FROM (SELECT *, row_number() OVER () FROM guarded) q, asked WHERE q.secret = -3 AND anker.olap()",
        ),
    ] {
        let (one, other) = (shown(options, one)?, shown(options, other)?);
        ensure!(one == other, "{}\n{}", one.join("\n"), other.join("\n"));
    }
    // A policy that reads no column also becomes a condition of its table's scan.
    let sql =
        "SELECT count(*) FROM asked, closed WHERE asked.id = closed.id AND closed.secret::integer > 0 AND anker.olap()";
    let answer = engine(&mut ann, sql)?;
    ensure!(answer == Answer::Rows(vec!["0".into()]), "{answer:?}");
    let plan = anker::text_rows(&mut ann, &format!("EXPLAIN (COSTS off) {sql}"))?.join("\n");
    ensure!(plan.contains("Filter: CASE WHEN (closed."), "{plan}");
    Ok(())
}

/// The policy of a small table calls a function that writes. If the table's rows were sent along and the engine then
/// refused the query, the heap would compute them again, and the function would write twice.
fn a_policy_with_effects_has_them_once(context: &Context) -> Result<()> {
    let (cluster, mut client) = with_documents(context)?;
    client.batch_execute(
        "CREATE TABLE seen (id integer); CREATE TABLE few (id integer); INSERT INTO few VALUES (1), (2), (3);
         CREATE FUNCTION audit(id integer) RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS
             'BEGIN INSERT INTO public.seen VALUES (id); RETURN true; END';
         CREATE POLICY audited ON few USING (audit(id)); ALTER TABLE few ENABLE ROW LEVEL SECURITY;
         GRANT SELECT ON few TO ann",
    )?;
    let mut ann = as_user(&cluster, "ann")?;
    ann.batch_execute("SET anker.max_sent = '1MB'; SET anker.max_wait = 0")?;
    let sql = "SELECT count(*) FROM few JOIN member m ON m.tenant = few.id WHERE anker.olap()";
    let by = anker::explained(&mut ann, sql)?;
    ensure!(by.as_deref().is_some_and(|by| by.starts_with("heap")), "{by:?}");
    ann.batch_execute(sql)?;
    let seen = anker::text_rows(&mut client, "SELECT id, count(*) FROM seen GROUP BY id ORDER BY id")?;
    ensure!(seen == ["1|1", "2|1", "3|1"], "audited: {seen:?}");
    Ok(())
}
