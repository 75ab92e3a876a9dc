//! Tests on the patched kernel of kernel-patch/. The script `kernel-patch/run` starts them in a virtual machine.
//! Transactions and queries run at the same time, and the patched kernel's system calls take the snapshots.

use std::time::{Duration, Instant};

use bench::cluster::Options;
use bench::{Result, anker, os};

use crate::chaos::{self, Writers};
use crate::flagged::same;
use crate::mechanisms::{LIVE, QUESTIONS, answers_as_the_heap, mechanisms};
use crate::runner::{Context, Skipped, ensure, tests};

tests![vm_snapshot_answers_as_the_heap, mremap_cow_answers_as_the_heap, an_engine_by_vm_snapshot_may_be_killed,];

fn require_it() -> Result<()> {
    match os::has_vm_snapshot() {
        true => Ok(()),
        false => Err(Skipped("this kernel has no vm_snapshot: see kernel-patch/").into()),
    }
}

fn vm_snapshot_answers_as_the_heap(context: &Context) -> Result<()> {
    require_it()?;
    answers_as_the_heap(context, "vm_snapshot")
}

fn mremap_cow_answers_as_the_heap(context: &Context) -> Result<()> {
    require_it()?;
    answers_as_the_heap(context, "mremap_cow")
}

/// After the engine is killed, the heap answers until the next engine has loaded the whole mirror.
fn an_engine_by_vm_snapshot_may_be_killed(context: &Context) -> Result<()> {
    require_it()?;
    let cluster = context.cluster_with(&Options::default().set("anker.mechanism", "vm_snapshot"))?;
    let mut client = cluster.connect()?;
    anker::create_extension(&mut client)?;
    chaos::create(&mut client)?;
    anker::mirror(&mut client, &chaos::TABLES, LIVE)?;
    let writers = Writers::start(&cluster, 2, "", Duration::from_millis(20))?;
    for _ in 0..2 {
        let engine = anker::engine_pid(&mut client)?;
        os::kill(engine, os::SIGKILL)?;
        let end = Instant::now() + context.seconds(10, 2);
        while Instant::now() < end {
            for question in QUESTIONS {
                same(&mut client, question)?;
            }
        }
        for table in chaos::TABLES {
            anker::wait_live(&mut client, table, LIVE)?;
        }
        ensure!(anker::engine_pid(&mut client)? != engine, "the killed engine is still there");
    }
    ensure!(writers.stop()? > 20, "the writers got hardly anything done");
    client.batch_execute("SET anker.max_wait = '60s'; SET anker.fallback = off")?;
    for question in QUESTIONS {
        same(&mut client, question)?;
    }
    ensure!(mechanisms(&mut client, QUESTIONS[0])? == ["vm_snapshot"], "another mechanism");
    for table in chaos::TABLES {
        let differences = anker::verify(&mut client, table)?;
        ensure!(differences.is_empty(), "{table}: {:?}", &differences[..differences.len().min(4)]);
    }
    Ok(())
}
