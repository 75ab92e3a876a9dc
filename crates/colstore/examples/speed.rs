//! Measures how fast the store loads, applies, serves, and makes a table again from its images: `cargo run --release -p
//! anker-colstore --example speed [rows] [mechanism]`.
//!
//! Throughput is given per second of CPU time, so that other load on the machine does not matter much.

use std::time::{Duration, Instant};

use anker_colstore::{ChunkImage, Limits, Mechanism, Sink, Store, TableChanges, TableRequest};
use plan::{Identity, MirrorColumn, RelationColumn, TableLayout, Type};
use protocol::Snapshot;
use protocol::change::{StreamMessage, Value, write_value};
use protocol::request::LoadRequest;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const RELID: u32 = 1;

fn layout(types: &[Type]) -> TableLayout {
    let columns = types.iter().enumerate().map(|(i, &ty)| MirrorColumn { attnum: i as i16 + 1, ty }).collect();
    TableLayout { relid: RELID, fingerprint: 0, columns, identity: Identity::Key(vec![0]) }
}

fn request(layout: &TableLayout, columns: usize) -> TableRequest {
    let column = |c: &MirrorColumn| RelationColumn { attnum: c.attnum, ty: c.ty };
    TableRequest { relid: RELID, fingerprint: 0, columns: layout.columns[..columns].iter().map(column).collect() }
}

fn row(types: &[Type], key: i64, seed: i64, out: &mut Vec<u8>) {
    for (i, &ty) in types.iter().enumerate() {
        let n = if i == 0 { key } else { key ^ seed };
        let text;
        let value = match ty {
            Type::Text => {
                text = format!("text number {n} is somewhat long");
                Value::Text(text.as_bytes())
            }
            // A text of random letters, as long as a text in TPC-C's stock. Updates do not change it.
            Type::Name => {
                text = letters(key.wrapping_mul(31) + i as i64);
                Value::Text(text.as_bytes())
            }
            Type::Char => Value::Text(b"short"),
            Type::Float64 => Value::Float(n as f64),
            _ => Value::Int(n),
        };
        write_value(out, ty, &value);
    }
    write_value(out, TableLayout::ADDRESS, &Value::Int(key));
}

fn letters(seed: i64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .";
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(LETTERS[(state >> 40) as usize % 64])
    };
    (0..24).map(|_| letter()).collect()
}

/// CPU time of this thread (Linux).
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with schedstat");
    let nanos = text.split(' ').next().and_then(|field| field.parse().ok()).expect("time on CPU comes first");
    Duration::from_nanos(nanos)
}

fn load(store: &mut Store, layout: &TableLayout, rows: u64) -> Duration {
    let types: Vec<Type> = layout.columns.iter().map(|c| c.ty).collect();
    store.watch(1, layout.clone());
    let snapshot = Snapshot::new(1, vec![]);
    let request = LoadRequest { relid: RELID, generation: 1, fingerprint: 0, snapshot, anchor: None };
    store.load_begin(&request).expect("watched");
    let mut busy = Duration::ZERO;
    for first in (0..rows).step_by(500_000) {
        let mut batches = Vec::new();
        for start in (first..(first + 500_000).min(rows)).step_by(2000) {
            let mut bytes = Vec::new();
            (start..(start + 2000).min(rows)).for_each(|key| row(&types, key as i64, 0, &mut bytes));
            batches.push(bytes);
        }
        let start = cpu();
        batches.iter().for_each(|bytes| store.load_rows(RELID, 1, bytes).expect("rows fit"));
        busy += cpu() - start;
    }
    store.load_end(RELID, 1, rows).expect("complete");
    busy
}

/// Updates random rows, one row per transaction, with a gate after each `per_gate` updates.
fn updates(store: &mut Store, layout: &TableLayout, rows: u64, first_xid: u64, count: u64, per_gate: u64) -> Duration {
    let types: Vec<Type> = layout.columns.iter().map(|c| c.ty).collect();
    let mut rnd = StdRng::seed_from_u64(first_xid);
    let (mut changes, mut ends, mut message) = (Vec::new(), Vec::new(), Vec::new());
    for xid in first_xid..first_xid + count {
        message.clear();
        row(&types, rnd.random_range(0..rows as i64), xid as i64, &mut message);
        StreamMessage::Update { relid: RELID, old_key: None, row: &message }.encode(&mut changes);
        ends.push(changes.len());
    }
    let start = cpu();
    let mut at = 0;
    for (xid, end) in (first_xid..).zip(ends) {
        store.transaction(xid, 0, vec![TableChanges { relid: RELID, messages: changes[at..end].to_vec() }]);
        at = end;
        if (xid - first_xid + 1).is_multiple_of(per_gate) {
            store.gate(Snapshot::new(xid + 1, vec![]));
        }
    }
    cpu() - start
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

/// Writes the image of a table, and makes another table from it.
fn images(name: &str, store: &mut Store, layout: &TableLayout, limits: Limits, mechanism: Mechanism) {
    let start = cpu();
    let image = store.image(RELID, None).expect("live");
    let (mut columns, mut live) = (Vec::new(), Vec::new());
    for chunk in 0..image.chunk_count() {
        let mut bytes = vec![Vec::new(); image.column_count()];
        for (column, bytes) in bytes.iter_mut().enumerate() {
            image.encode(chunk, column, bytes).expect("memory");
        }
        columns.push(bytes);
        live.push(Vec::new());
        image.encode_live(chunk, &mut live[chunk]).expect("memory");
    }
    let bytes: usize = columns.iter().flatten().map(Vec::len).sum();
    let gigabytes = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let rows = image.rows();
    println!(
        "{name}: image written, {:.2} GB/s, {:.1} bytes a row",
        gigabytes(cpu() - start),
        bytes as f64 / rows as f64
    );
    let mut again = Store::new(limits, mechanism);
    again.watch(1, layout.clone());
    let snapshot = Snapshot::new(1, vec![]);
    again
        .load_begin(&LoadRequest { relid: RELID, generation: 1, fingerprint: 0, snapshot, anchor: None })
        .expect("watched");
    let start = cpu();
    again.load_expect(RELID, 1, rows).expect("memory");
    for (chunk, (columns, live)) in columns.iter().zip(&live).enumerate() {
        let columns = columns.iter().map(|bytes| &bytes[..]).collect();
        let image = ChunkImage { slots: image.slots_of(chunk), live, columns };
        again.load_chunk(RELID, 1, &image, |_| false).expect("a good image");
    }
    let time = cpu() - start;
    again.load_end(RELID, 1, 0).expect("complete");
    println!("{name}: made from its image, {:.2} GB/s, {:.2} M rows/s", gigabytes(time), per_second(rows, time));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(6_000_000, |text| text.parse().expect("a number of rows"));
    let mechanism = arguments.next().map_or(Mechanism::BEST, |text| text.parse().expect("a mechanism"));
    let stock = [&[Type::Int64, Type::Int32, Type::Int16][..], &[Type::Name; 11]].concat();
    let shapes: [(&str, &[Type]); 3] = [
        ("stock", &stock),
        ("narrow", &[Type::Int64, Type::Int32, Type::Decimal64 { scale: 2 }, Type::Date]),
        ("wide", &[Type::Int64, Type::Int32, Type::Text, Type::Char, Type::Float64, Type::Timestamp, Type::Text]),
    ];
    for (name, types) in shapes {
        let layout = layout(types);
        let limits = Limits { memory_bytes: 16 << 30, undo_bytes: 256 << 20, undo_seconds: 300 };
        let mut store = Store::new(limits, mechanism);
        let loaded = load(&mut store, &layout, rows);
        images(name, &mut store, &layout, limits, mechanism);
        let status = store.status();
        let bytes = status.memory_bytes as f64 / rows as f64;
        println!("{name}: {rows} rows loaded, {:.2} M/s, {bytes:.1} bytes a row", per_second(rows, loaded));

        let count = 500_000;
        let mut xid = 1;
        for per_gate in [1000, 10] {
            let time = updates(&mut store, &layout, rows, xid, count, per_gate);
            xid += count;
            println!("{name}: one-row updates, a gate every {per_gate}: {:.2} M/s", per_second(count, time));
        }
        let request = [request(&layout, 3)];
        let before = Snapshot::new(xid, vec![]);
        let start = Instant::now();
        let views: Vec<_> = (0..100).map(|_| store.serve(&before, &request).expect("served")).collect();
        println!("{name}: serve 3 columns, nothing to undo: {:.0} us", start.elapsed().as_secs_f64() * 1e6 / 100.0);
        let time = updates(&mut store, &layout, rows, xid, 100_000, 1000);
        println!("{name}: updates while views are alive: {:.2} M/s", per_second(100_000, time));
        drop(views);
        let time = updates(&mut store, &layout, rows, xid + 100_000, 100_000, 1000);
        println!("{name}: updates after views are gone: {:.2} M/s", per_second(100_000, time));
        xid += 200_000;
        for count in [10, 1000, 100_000] {
            updates(&mut store, &layout, rows, xid, count, count);
            let start = Instant::now();
            let served = store.serve(&Snapshot::new(xid, vec![]), &request).expect("served");
            let time = start.elapsed().as_secs_f64() * 1e6;
            println!("{name}: serve with {} changes to take back: {time:.0} us", served.undone.changes);
            xid += count;
        }
    }
}
