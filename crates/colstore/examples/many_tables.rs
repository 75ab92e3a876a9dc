//! The cost of thousands of small tables: `cargo run --release -p anker-colstore --example many_tables [rows]
//! [tables] [mechanism]`.

use std::time::Instant;

use anker_colstore::{Limits, Mechanism, Sink, Store};
use plan::{Identity, MirrorColumn, TableLayout, Type};
use protocol::Snapshot;
use protocol::change::{Value, write_value};
use protocol::request::LoadRequest;

const TYPES: [Type; 10] = [
    Type::Int64,
    Type::Int32,
    Type::Int32,
    Type::Text,
    Type::Text,
    Type::Bool,
    Type::Decimal64 { scale: 2 },
    Type::Float64,
    Type::Date,
    Type::TimestampTz,
];
const GATES: u64 = 100;

fn layout(relid: u32) -> TableLayout {
    let columns = TYPES.iter().enumerate().map(|(i, &ty)| MirrorColumn { attnum: i as i16 + 1, ty }).collect();
    TableLayout { relid, fingerprint: 0, columns, identity: Identity::Key(vec![0]) }
}

fn row(key: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ty in TYPES {
        let value = match ty {
            Type::Bool => Value::Bool(true),
            Type::Float64 => Value::Float(0.5),
            _ if ty.is_text() => Value::Text(b"a text of some length"),
            _ => Value::Int(key),
        };
        write_value(&mut bytes, ty, &value);
    }
    write_value(&mut bytes, TableLayout::ADDRESS, &Value::Int(key));
    bytes
}

fn load(store: &mut Store, relid: u32, rows: i64) {
    store.watch(1, layout(relid));
    let snapshot = Snapshot::new(1, vec![]);
    store.load_begin(&LoadRequest { relid, generation: 1, fingerprint: 0, snapshot, anchor: None }).expect("watched");
    (0..rows).for_each(|key| store.load_rows(relid, 1, &row(key)).expect("fits"));
    store.load_end(relid, 1, rows as u64).expect("complete");
}

/// The resident memory of this process in bytes (Linux).
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages come second");
    pages * 4096
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual| arguments.next().map_or(usual, |text| text.parse::<u32>().expect("a number"));
    let (rows, tables) = (number(0), number(10_000));
    let mechanism = arguments.next().map_or(Mechanism::BEST, |text| text.parse().expect("a mechanism"));
    let before = resident();
    let limits = Limits { memory_bytes: 64 << 30, undo_bytes: 256 << 20, undo_seconds: 300 };
    let mut store = Store::new(limits, mechanism);
    (1..=tables).for_each(|relid| load(&mut store, relid, rows as i64));
    let each = |bytes: u64| bytes as f64 / tables as f64 / 1024.0;
    let (resident, counted) = (each(resident() - before), each(store.status().memory_bytes));
    println!("{tables} tables of {rows} rows: {resident:.1} KB each, of which {counted:.1} KB are counted");
    let start = Instant::now();
    for gate in 0..GATES {
        store.gate(Snapshot::new(2 + gate, vec![]));
        while store.tidy() {}
    }
    println!("a gate while all rest: {:.1} us", start.elapsed().as_secs_f64() * 1e6 / GATES as f64);
}
