//! Roots, logarithms and powers of numerics and floats of all sizes, and trigonometric functions: the engine returns
//! the same digits as PostgreSQL.

use std::time::Duration;

use bench::{Result, anker};

use crate::flagged::compare;
use crate::runner::{Context, ensure, tests};

tests![roots_logarithms_and_powers];

const LIVE: Duration = Duration::from_secs(60);

/// Creates numbers close to one and far from one, with few digits and many. Column `b` is an exponent. Powers with more
/// digits than the engine computes are left out.
const NUMBERS: &str = "
    CREATE TABLE number (id integer PRIMARY KEY, a numeric, b numeric, f float8, g float8);
    INSERT INTO number SELECT i, abs(a), CASE WHEN abs(a) > 0 AND abs(b * log(abs(a))) < 400 THEN b END, abs(a), b FROM (
        SELECT i, CASE (random() * 9)::int
            WHEN 0 THEN round((random() * 10 ^ (random() * 12)::int)::numeric, (random() * 10)::int)
            WHEN 1 THEN round(1 + ((random() - 0.5) * 10 ^ (-(random() * 14)::int))::numeric, 16)
            WHEN 2 THEN (random() * 1000)::int::numeric
            WHEN 3 THEN round((random() * 1e15)::numeric * (random() * 1e15)::numeric / 10::numeric ^ (random() * 40)::int,
                (random() * 30)::int)
            WHEN 4 THEN 10::numeric ^ (random() * 20 - 10)::int
            WHEN 5 THEN round((random() * 10)::numeric, (random() * 6)::int)
            WHEN 6 THEN round((random() * 10 ^ (-(random() * 12)::int))::numeric, 15 + (random() * 10)::int)
            WHEN 7 THEN round((random() * 1e9)::numeric, 0) ^ 2
            ELSE round((random() * 100)::numeric, 2) END + 1e-25 AS a,
        CASE (random() * 6)::int
            WHEN 0 THEN (random() * 40 - 20)::int::numeric
            WHEN 1 THEN round((random() * 20 - 10)::numeric, (random() * 8)::int)
            WHEN 2 THEN round((random() * 2 - 1)::numeric, (random() * 20)::int)
            WHEN 3 THEN 0.5
            WHEN 4 THEN round((random() * 200 - 100)::numeric, (random() * 3)::int)
            ELSE round((random() * 1e-6)::numeric, 16) END AS b
        FROM generate_series(1, $rows) i
    ) numbers;
    ANALYZE number";

const ASKED: [&str; 17] = [
    "sqrt(a)",
    "ln(a)",
    "exp(b)",
    "power(a, b)",
    "log(a)",
    "log(a + 2, a)",
    "ln(f)",
    "CASE WHEN abs(g * log(f)) < 300 THEN power(f, g) END",
    "cbrt(f)",
    "log(f)",
    "CASE WHEN abs(g) < 600 THEN exp(g) END",
    "sin(g)",
    "tan(g)",
    "atan(f)",
    "atan2(g, f)",
    // Floats that lie exactly between two decimal numbers of the shown length: their text forms must be rounded as
    // PostgreSQL rounds them.
    "(900000000000000::float8 + id % 1000 + 0.125 * (id % 8))::text",
    "(2000000::real + id % 1000 + 0.25::real * (id % 4))::text",
];

fn roots_logarithms_and_powers(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(&format!("SELECT setseed({})", context.seed as f64 % 1000.0 / 1000.0))?;
    client.batch_execute(&NUMBERS.replace("$rows", &context.size(200_000, 10_000).to_string()))?;
    anker::mirror(&mut client, &["number"], LIVE)?;
    for asked in ASKED {
        // The expression is inside an aggregate, so the engine must compute it, not PostgreSQL.
        let sql = format!("SELECT id, max({asked}) FROM number WHERE anker.olap() GROUP BY id");
        compare(&mut client, &sql, false)?;
        let by = anker::analyzed(&mut client, &sql)?;
        ensure!(by.as_deref() == Some("engine"), "{asked}: answered by {by:?}");
    }
    Ok(())
}
