//! Compares the engine's time zones with PostgreSQL's, for every zone that the server knows and for times from all
//! centuries.

use std::time::Duration;

use bench::cluster::wait_until;
use bench::{Result, anker};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::flagged::compare;
use crate::runner::{Context, ensure, tests};

tests![every_zone_at_random_times];

const LIVE: Duration = Duration::from_secs(60);

/// Zones with unusual rules, and zones in POSIX notation, which no file describes.
const ODD: [&str; 20] = [
    "UTC",
    "Europe/Dublin",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "Africa/El_Aaiun",
    "America/Caracas",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Manila",
    "Australia/Lord_Howe",
    "Europe/Moscow",
    "EST5EDT",
    "<+03>-3",
    "<-0730>7:30",
    "AAA3BBB",
    "AAA-10BBB-11,M10.1.0,M4.1.0/3",
    "CCC4DDD,J60/0,J300/25:30",
];

/// Numeric expressions that depend on the time zone. The test computes a sum of each over all rows, in which every row
/// has another weight. So a difference in a single row changes the sum.
const ASKED: [&str; 9] = [
    "extract(epoch FROM tz::timestamp)",
    "extract(epoch FROM ts::timestamptz)",
    "extract(epoch FROM d::timestamptz)",
    "(tz::date - date '2000-01-01')::bigint",
    "extract(timezone FROM tz)",
    "extract(epoch FROM date_trunc('week', tz))",
    "extract(epoch FROM date_trunc('minute', tz))",
    "extract(epoch FROM tz + interval '5 months -3 days 7 hours')",
    "CASE WHEN ts < tz THEN 1 WHEN d > tz THEN 2 ELSE 3 END",
];

/// Times from all centuries, and times around the changes of clocks, some of them a microsecond before a change.
const TIMES: &str = "
    CREATE TABLE moment (id integer PRIMARY KEY, tz timestamptz, ts timestamp, d date);
    SELECT setseed(0.5);
    SET TimeZone = 'UTC';
    INSERT INTO moment SELECT i, t AT TIME ZONE 'UTC', t, t::date FROM (
        SELECT row_number() OVER () AS i, t - (random() < 0.2)::integer * interval '1 microsecond' AS t FROM (
            SELECT to_timestamp(900 * (-4000000 + random() * 8600000)::bigint) AT TIME ZONE 'UTC' AS t
            FROM generate_series(1, 6000)
            UNION ALL
            SELECT to_timestamp(900 * (-233000000 + random() * 10457000000)::bigint) AT TIME ZONE 'UTC'
            FROM generate_series(1, 6000)
            UNION ALL
            SELECT timestamp '1969-12-28' + day * interval '7 days' + hour * interval '30 minutes'
            FROM generate_series(0, 3500) day, generate_series(0, 7) hour
        ) x
    ) y;
    ANALYZE";

fn every_zone_at_random_times(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TIMES)?;
    anker::mirror(&mut client, &["moment"], LIVE)?;
    let names = "SELECT name FROM pg_timezone_names WHERE name NOT LIKE 'posix%' ORDER BY name";
    let names: Vec<String> = client.query(names, &[])?.iter().map(|row| row.get(0)).collect();
    ensure!(names.len() > 300, "the server knows only {} zones", names.len());
    let mut random = StdRng::seed_from_u64(context.seed);
    let chosen = names.choose_multiple(&mut random, context.size(2000, 60) as usize).cloned();
    let zones: Vec<String> = ODD.iter().map(|zone| zone.to_string()).chain(chosen).collect();
    let sums: Vec<String> = ASKED.iter().map(|asked| format!("sum({asked} * (id % 1009))")).collect();
    let query = format!("SELECT {} FROM moment WHERE anker.olap()", sums.join(", "));
    let served = anker::counter(&mut client, "queries_served")?;
    for zone in &zones {
        client.batch_execute(&format!("SET TimeZone = '{zone}'"))?;
        if let Err(difference) = compare(&mut client, &query, false) {
            return Err(format!("{zone}: {difference}").into());
        }
        // Queries the zone by name (AT TIME ZONE), in a session with another zone.
        let hour = random.random_range(-12..12);
        let named = format!(
            "SELECT sum(extract(epoch FROM tz AT TIME ZONE '{zone}') * (id % 1009)),
                sum(extract(epoch FROM ts AT TIME ZONE '{zone}') * (id % 1009)) FROM moment WHERE anker.olap()"
        );
        client.batch_execute(&format!("SET TimeZone = {hour}"))?;
        if let Err(difference) = compare(&mut client, &named, false) {
            return Err(format!("by its name, {zone}: {difference}").into());
        }
    }
    let wanted = 2 * zones.len() as i64;
    let mut by_engine = 0;
    wait_until(Duration::from_secs(10), || {
        by_engine = anker::counter(&mut client, "queries_served")? - served;
        Ok(by_engine >= wanted)
    })?;
    ensure!(by_engine >= wanted, "the engine answered {by_engine} of {wanted} queries");
    println!("       {} zones", zones.len());
    Ok(())
}
