//! Tests of the disk store alone.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::error::DataFusionError;
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use futures::{StreamExt, TryStreamExt};

use super::disk::{Inflow, Outflow, PAGE};
use super::testing::path;
use super::{Account, Disk, FIRST_PHASE, FreedMemory, Pool, Quota, Room, Share, Sink};

fn account(pages: usize) -> Account {
    Account { disk: Arc::new(Disk::new(path(), (pages * PAGE) as u64)), quota: None, tally: None }
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * 31 + seed) ^ (i >> 8)) as u8).collect()
}

#[test]
fn bytes_come_back_and_their_space_is_used_again() {
    let account = account(40);
    for round in 0..50 {
        let mut flows: Vec<Outflow> = (0..3).map(|_| Outflow::new(account.clone())).collect();
        let lengths = [0, 7 * PAGE, 11 * PAGE + 5].map(|length| length + round % 2);
        // Writers take turns, so that their pages alternate.
        for at in (0..12 * PAGE).step_by(1000) {
            for (flow, length) in flows.iter_mut().zip(lengths).filter(|(_, length)| at < *length) {
                flow.write_all(&bytes(length, length)[at..length.min(at + 1000)]).unwrap();
            }
        }
        for (flow, length) in flows.into_iter().zip(lengths) {
            let mut all = Vec::new();
            Inflow::new(flow.finish().unwrap()).read_to_end(&mut all).unwrap();
            assert!(all == bytes(length, length), "round {round}: {length} bytes");
        }
        assert_eq!(account.disk.pages_in_use(), 0);
    }
    assert!(account.disk.written_bytes() > 50 * 18 * PAGE as u64);
}

#[test]
fn there_is_no_file_and_what_nobody_needs_is_given_back() {
    let path = path();
    let account = Account { disk: Arc::new(Disk::new(path.clone(), 1 << 30)), quota: None, tally: None };
    let mut kept = Outflow::new(account.clone());
    kept.write_all(&bytes(1, 5 * PAGE)).unwrap();
    assert!(!path.exists());
    let mut half_read = Inflow::new(kept.finish().unwrap());
    half_read.read_exact(&mut [0; PAGE + 1]).unwrap();
    assert!(account.disk.pages_in_use() > 0);
    drop(half_read);
    assert_eq!(account.disk.pages_in_use(), 0);
    let nowhere = Account { disk: Arc::new(Disk::new("/nowhere/at/all".into(), 1 << 30)), quota: None, tally: None };
    let mut flow = Outflow::new(nowhere);
    assert_eq!(flow.write_all(&bytes(1, 2 * PAGE)).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_quota_holds_for_one_query_and_leaves_others_alone() {
    let others = account(10);
    let account = Account { quota: Some(Arc::new(Quota::new(3 * PAGE as u64))), ..others.clone() };
    for _ in 0..2 {
        let (mut first, mut second) = (Outflow::new(account.clone()), Outflow::new(account.clone()));
        first.write_all(&bytes(1, 3 * PAGE)).unwrap();
        let error = second.write_all(&bytes(1, 3 * PAGE)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert!(error.to_string().contains("temp_file_limit"), "{error}");
        let mut third = Outflow::new(others.clone());
        third.write_all(&bytes(1, 7 * PAGE)).unwrap();
    }
    assert_eq!(account.disk.pages_in_use(), 0);
}

#[test]
fn a_limit_holds_for_all_and_ends_when_others_do() {
    let account = account(10);
    let (mut first, mut second) = (Outflow::new(account.clone()), Outflow::new(account.clone()));
    first.write_all(&bytes(1, 7 * PAGE)).unwrap();
    let error = second.write_all(&bytes(1, 7 * PAGE)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("anker.query_disk"), "{error}");
    drop((first, second));
    let mut third = Outflow::new(account.clone());
    third.write_all(&bytes(1, 10 * PAGE)).unwrap();
    drop(third.finish().unwrap());
    assert_eq!(account.disk.pages_in_use(), 0);
}

fn batch(schema: &SchemaRef, from: i64, rows: i64) -> RecordBatch {
    let range = from..from + rows;
    let floats = [0.0, -0.0, f64::NAN, f64::INFINITY, 1.5];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(range.clone().map(|i| (i % 3 != 0).then_some(i)))),
        Arc::new(Float64Array::from_iter_values(range.clone().map(|i| floats[i as usize % 5]))),
        Arc::new(StringViewArray::from_iter(range.map(|i| (i % 7 != 0).then(|| "é".repeat(i as usize % 40))))),
    ];
    RecordBatch::try_new(schema.clone(), columns).unwrap()
}

fn schema() -> SchemaRef {
    let field = |name: &str, ty, nullable| Field::new(name, ty, nullable);
    Arc::new(Schema::new(vec![
        field("i", DataType::Int64, true),
        field("f", DataType::Float64, false),
        field("t", DataType::Utf8View, true),
    ]))
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_come_back_bit_by_bit() {
    let (account, schema) = (account(1000), schema());
    let whole = batch(&schema, 0, 5000);
    let mut sink = Sink::new(account.clone(), &schema).unwrap();
    for (start, rows) in [(0, 0), (0, 1), (1, 999), (1000, 4000)] {
        sink.write(&whole.slice(start, rows)).unwrap();
    }
    let stored = sink.finish().unwrap();
    assert!(account.disk.pages_in_use() > 0);
    let back: Vec<_> = stored.batches(600).try_collect().await.unwrap();
    assert_eq!(back.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1000, 4000]);
    let bits = |batches: &[RecordBatch]| format!("{batches:?}");
    assert_eq!(bits(&back), bits(&[whole.slice(0, 1000), whole.slice(1000, 4000)]));
    assert_eq!(back[0].schema(), schema);
    assert_eq!(account.disk.pages_in_use(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_read_as_often_as_wanted() {
    let (account, schema) = (account(1000), schema());
    let whole = batch(&schema, 0, 5000);
    let mut sink = Sink::new(account.clone(), &schema).unwrap();
    (0..50).for_each(|at| sink.write(&whole.slice(at * 100, 100)).unwrap());
    let kept = sink.finish().unwrap().kept();
    let pages = account.disk.pages_in_use();
    // A batch with this many bytes has enough rows.
    for (bytes, least) in [(usize::MAX, 8), (12_000, 9)] {
        let back: Vec<_> = kept.batches_within(640, bytes).try_collect().await.unwrap();
        assert!(back.len() >= least && back.len() < 50, "{}", back.len());
        let (mut from, bits) = (0, |batch: &RecordBatch| format!("{batch:?}"));
        for batch in &back {
            assert_eq!(bits(batch), bits(&whole.slice(from, batch.num_rows())));
            from += batch.num_rows();
        }
        assert_eq!((from, account.disk.pages_in_use()), (5000, pages));
    }
    let mut half_read = std::pin::pin!(kept.batches_within(100, usize::MAX));
    half_read.next().await.unwrap().unwrap();
    drop(kept);
    assert_eq!(half_read.try_collect::<Vec<_>>().await.unwrap().len(), 49);
    assert_eq!(account.disk.pages_in_use(), 0);
}

#[tokio::test]
async fn rows_without_columns_and_no_rows_are_kept_too() {
    let (account, schema) = (account(10), Arc::new(Schema::empty()));
    let options = RecordBatchOptions::new().with_row_count(Some(77));
    let rows = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    let mut sink = Sink::new(account.clone(), &schema).unwrap();
    sink.write(&rows).unwrap();
    let mut back = std::pin::pin!(sink.finish().unwrap().batches(1));
    assert_eq!(back.next().await.unwrap().unwrap().num_rows(), 77);
    assert!(back.next().await.is_none());
    let nothing = Sink::new(account, &schema).unwrap().finish().unwrap();
    assert!(std::pin::pin!(nothing.batches(1)).next().await.is_none());
}

#[test]
fn a_full_disk_is_out_of_memory() {
    let (account, schema) = (account(2), schema());
    let mut sink = Sink::new(account.clone(), &schema).unwrap();
    let error = (0..100).find_map(|i| sink.write(&batch(&schema, i, 5000)).err()).unwrap();
    assert!(matches!(&error, DataFusionError::ResourcesExhausted(m) if m.contains("anker.query_disk")), "{error}");
    drop(sink);
    assert_eq!(account.disk.pages_in_use(), 0);
}

#[test]
fn one_operator_leaves_room_for_others() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
    let share = Arc::new(Share::new(600, 50));
    let room = || Room::new(MemoryConsumer::new("test").register(&pool), share.clone());
    let (mut first, mut second) = (room(), room());
    assert!(first.try_resize(650) && !first.try_resize(651));
    assert!(second.try_resize(50) && !second.try_resize(51));
    assert_eq!(pool.reserved(), 700);
    // `resize` may exceed the share, so that `try_resize` gets less of it.
    second.resize(300).unwrap();
    assert!(second.resize(351).is_err());
    assert_eq!(pool.reserved(), 950);
    assert!(first.try_resize(100) && second.try_resize(310) && !first.try_resize(700));
    drop((first, second));
    assert_eq!(pool.reserved(), 0);
    assert!(room().try_resize(650));
}

#[test]
fn first_phases_have_a_part_of_their_own() {
    let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(1000, None));
    let phase = || MemoryConsumer::new("PartialGroups").register(&pool);
    let (first, second) = (phase(), phase());
    first.try_grow(100).unwrap();
    assert!(second.try_grow(51).is_err());
    second.try_grow(50).unwrap();
    let other = MemoryConsumer::new("HashJoinInput").register(&pool);
    other.try_grow(800).unwrap();
    drop(first);
    second.try_grow(100).unwrap();
    drop((second, other));
    assert_eq!(pool.reserved(), 0);
}

#[test]
fn a_query_with_a_limit_leaves_the_rest_to_others() {
    let pool = Pool::new(2000, None);
    let limited: Arc<dyn MemoryPool> = Arc::new(pool.for_query(Some(1000)));
    let consumer = |name: &str, pool| MemoryConsumer::new(name).register(pool);
    let (phase, other) = (consumer(FIRST_PHASE, &limited), consumer("Groups", &limited));
    phase.try_grow(150).unwrap();
    assert!(phase.try_grow(1).is_err(), "a first phase takes the memory of the query's other operators");
    other.try_grow(850).unwrap();
    let error = other.try_grow(1).unwrap_err().to_string();
    assert!(error.contains("anker.max_query_memory"), "{error}");
    let free: Arc<dyn MemoryPool> = Arc::new(pool.for_query(None));
    let others = consumer("Groups", &free);
    others.try_grow(1000).unwrap();
    let error = others.try_grow(1).unwrap_err().to_string();
    assert!(!error.contains("anker.max_query_memory"), "{error}");
    drop((phase, other, others));
    assert_eq!(pool.reserved(), 0);
    consumer("Groups", &limited).try_grow(1000).unwrap();
}

#[test]
fn a_part_of_a_share_is_taken_from_the_whole() {
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
    let whole = Arc::new(Share::new(600, 50));
    let part = Arc::new(whole.part(200, 20));
    let room = |share: &Arc<Share>| Room::new(MemoryConsumer::new("test").register(&pool), share.clone());
    let (mut limited, mut free) = (room(&part), room(&whole));
    assert!(limited.try_resize(220) && !limited.try_resize(221));
    assert!(free.try_resize(450) && !free.try_resize(451));
    assert!(limited.try_resize(120) && free.try_resize(550) && !limited.try_resize(121));
    // Bytes that did not fit into the whole were not taken from the part either.
    drop(free);
    assert!(limited.try_resize(220));
    drop(limited);
    assert!(room(&whole).try_resize(650));
}

/// An allocator that keeps a fixed amount of memory until it is told to give it back.
#[derive(Debug, Default)]
struct Freed {
    bytes: AtomicUsize,
    given_back: AtomicUsize,
}

impl FreedMemory for Freed {
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn give_back(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn freed_memory_counts_against_the_limit() {
    const MB: usize = 1 << 20;
    let freed = Arc::new(Freed::default());
    let pool: Arc<dyn MemoryPool> = Arc::new(Pool::new(100 * MB, Some(freed.clone())));
    let given_back = || freed.given_back.load(Ordering::Relaxed);
    for consumer in ["Groups", FIRST_PHASE] {
        let (before, operator) = (given_back(), MemoryConsumer::new(consumer).register(&pool));
        operator.try_grow(10 * MB).unwrap();
        freed.bytes.store(85 * MB, Ordering::Relaxed);
        operator.try_grow(4 * MB).unwrap();
        operator.shrink(4 * MB);
        assert_eq!(given_back(), before, "{consumer}: there was room for what the allocator keeps");
        freed.bytes.store(95 * MB, Ordering::Relaxed);
        operator.try_grow(1).unwrap();
        assert_eq!(given_back(), before, "{consumer}: the allocator was looked at for every byte");
        operator.try_grow(2 * MB).unwrap();
        assert_eq!((given_back(), freed.bytes()), (before + 1, 0), "{consumer}");
        // Released memory may be more than the allocator may keep.
        freed.bytes.store(95 * MB, Ordering::Relaxed);
        operator.shrink(2 * MB);
        assert_eq!(given_back(), before + 2, "{consumer}");
        freed.bytes.store(0, Ordering::Relaxed);
    }
}
