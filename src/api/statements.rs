//! `anker.statements` shows how often each statement was answered by the engine, and by the heap for which reason.

use pgrx::JsonB;
use pgrx::prelude::*;

use crate::pg::rights;
use crate::reason::Why;
use crate::shared::statements::{self, Statement, Times};

/// The milliseconds of all executions of one side, and of the shortest, the longest and the average one.
type Milliseconds = (f64, Option<f64>, Option<f64>, Option<f64>);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn statements_counted() -> TableIterator<
    'static,
    (
        name!(userid, pg_sys::Oid),
        name!(dbid, pg_sys::Oid),
        name!(queryid, i64),
        name!(calls, i64),
        name!(engine_calls, i64),
        name!(heap_calls, i64),
        name!(top_heap_reason, Option<&'static str>),
        name!(heap_reasons, JsonB),
        name!(last_heap_reason, Option<&'static str>),
        name!(last_heap_detail, Option<String>),
        name!(total_engine_time, f64),
        name!(min_engine_time, Option<f64>),
        name!(max_engine_time, Option<f64>),
        name!(mean_engine_time, Option<f64>),
        name!(total_heap_time, f64),
        name!(min_heap_time, Option<f64>),
        name!(max_heap_time, Option<f64>),
        name!(mean_heap_time, Option<f64>),
        name!(rows, i64),
        name!(total_wait_time, f64),
        name!(total_queue_time, f64),
        name!(peak_memory_bytes, i64),
        name!(spilled_bytes, i64),
        name!(stats_since, Option<TimestampWithTimeZone>),
    ),
> {
    // Rights are looked up after the lock on the statements was released.
    let visible = statements::all().into_iter().filter(|statement| rights::may_see_activity_of(statement.key.user));
    let rows = visible.map(|statement| {
        let Statement { key, engine, heap, figures, .. } = statement;
        let (engine_total, engine_min, engine_max, engine_mean) = milliseconds(&engine);
        let (heap_total, heap_min, heap_max, heap_mean) = milliseconds(&heap);
        let met = || Why::ALL.iter().zip(statement.reasons).filter(|(_, calls)| *calls > 0);
        let reasons = met().map(|(why, calls)| (why.name().to_owned(), serde_json::Value::from(calls)));
        (
            key.user,
            key.database,
            key.query_id,
            (engine.calls + heap.calls) as i64,
            engine.calls as i64,
            heap.calls as i64,
            met().max_by_key(|(_, calls)| *calls).map(|(why, _)| why.name()),
            JsonB(reasons.collect()),
            statement.last_reason.map(Why::name),
            statement.last_reason.map(|_| statement.last_text.as_str().to_owned()),
            engine_total,
            engine_min,
            engine_max,
            engine_mean,
            heap_total,
            heap_min,
            heap_max,
            heap_mean,
            statement.rows as i64,
            in_milliseconds(figures.wait_us),
            in_milliseconds(figures.queue_us),
            figures.peak_memory_bytes as i64,
            figures.spilled_bytes as i64,
            TimestampWithTimeZone::try_from(statement.since).ok(),
        )
    });
    TableIterator::new(rows.collect::<Vec<_>>())
}

fn milliseconds(side: &Times) -> Milliseconds {
    let total = in_milliseconds(side.total_us);
    let of_one = |value: f64| (side.calls > 0).then_some(value);
    let (min, max) = (in_milliseconds(side.min_us), in_milliseconds(side.max_us));
    (total, of_one(min), of_one(max), of_one(total / side.calls as f64))
}

fn in_milliseconds(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

#[pg_extern]
fn statements_info() -> TableIterator<'static, (name!(dealloc, i64), name!(stats_reset, Option<TimestampWithTimeZone>))>
{
    super::require_library();
    let (evicted, reset) = statements::history();
    TableIterator::once((evicted as i64, TimestampWithTimeZone::try_from(reset).ok()))
}

/// Forgets statements. An argument that is 0 stands for any user, database or id.
#[pg_extern]
fn statements_reset(userid: pg_sys::Oid, dbid: pg_sys::Oid, queryid: i64) {
    super::require_library();
    let is_any = |oid: pg_sys::Oid| oid == pg_sys::InvalidOid;
    if is_any(userid) && is_any(dbid) && queryid == 0 {
        return statements::reset_all();
    }
    statements::reset(|key| {
        (is_any(userid) || userid == key.user)
            && (is_any(dbid) || dbid == key.database)
            && (queryid == 0 || queryid == key.query_id)
    });
}
