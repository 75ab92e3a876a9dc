//! Tests of the test harness itself: its servers, its data and its clients.

use std::time::Duration;

use bench::Result;
use bench::cluster::Options;
use bench::tpcc::{self, Clients, Scale, Workload};

use crate::runner::{Context, ensure, tests};

tests![tpcc_rows_agree_with_each_other_before_and_after_clients, a_dead_backend_is_noticed];

/// A query for the number of districts that violate one of TPC-C's consistency conditions 1 to 4 (clause 3.3.2).
const INCONSISTENT: &str = "
    SELECT count(*) FROM district, LATERAL (
        SELECT max(o_id) AS o, sum(o_ol_cnt) AS lines FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id) AS ordered, LATERAL (
        SELECT max(no_o_id) AS o, max(no_o_id) - min(no_o_id) + 1 AS range, count(*) AS rows
        FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) AS waiting, LATERAL (
        SELECT count(*) AS lines FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id) AS listed
    WHERE d_next_o_id - 1 <> ordered.o OR ordered.o <> waiting.o OR waiting.range <> waiting.rows
        OR ordered.lines <> listed.lines";

fn tpcc_rows_agree_with_each_other_before_and_after_clients(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().unset("shared_preload_libraries"))?;
    let scale = Scale::small(2);
    tpcc::create(&cluster.config(), scale)?;
    let mut client = cluster.connect()?;
    let mut inconsistent = || client.query_one(INCONSISTENT, &[]).map(|row| row.get::<_, i64>(0));
    ensure!(inconsistent()? == 0, "loaded rows are inconsistent");
    let clients = Clients::start(&cluster.config(), Workload::of(scale, 4))?;
    std::thread::sleep(Duration::from_secs(2));
    let totals = clients.stop();
    ensure!(totals.errors.is_empty(), "errors: {:?}", totals.errors);
    ensure!(totals.new_orders > 50, "hardly any work: {totals:?}");
    ensure!(inconsistent()? == 0, "clients left inconsistent rows");
    Ok(())
}

fn a_dead_backend_is_noticed(context: &Context) -> Result<()> {
    let cluster = context.cluster_with(&Options::default().unset("shared_preload_libraries"))?;
    ensure!(cluster.crashes().is_empty(), "a fresh server has crashed: {:?}", cluster.crashes());
    let mut victim = cluster.connect()?;
    let pid: i32 = victim.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    bench::os::kill(pid as u32, bench::os::SIGKILL)?;
    let noticed = bench::cluster::wait_until(Duration::from_secs(10), || Ok(!cluster.crashes().is_empty()))?;
    ensure!(noticed, "the server's restart was not noticed");
    context.expect_crash(&cluster);
    Ok(())
}
