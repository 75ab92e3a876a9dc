//! Tables in a real store. Their views contain coded chunks, bounds, deleted rows, and old values of rows that were
//! changed later.

use std::sync::Arc;

use colstore::{Limits, Mechanism, Sink, Store, TableChanges, TableRequest, TableView};
use plan::{Identity, Literal, MirrorColumn, RelationColumn, TableLayout, Type};
use protocol::Snapshot;
use protocol::change::{StreamMessage, Value as Written, write_value};
use protocol::request::LoadRequest;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::table::{Row, Value};

const RELID: u32 = 1;

fn written(value: &Value) -> Written<'_> {
    match value {
        None => Written::Null,
        Some(Literal::Bool(b)) => Written::Bool(*b),
        Some(Literal::Int(i)) => Written::Int(*i),
        Some(Literal::Float(f)) => Written::Float(*f),
        Some(Literal::Decimal(d)) => Written::Decimal(*d),
        Some(Literal::Text(t)) => Written::Text(t.as_bytes()),
        Some(Literal::Bytes(b)) => Written::Text(b),
    }
}

/// A row in the encoding of the change stream. An additional key comes before its values, its address behind them.
fn encoded(types: &[Type], key: i64, row: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    write_value(&mut out, Type::Int64, &Written::Int(key));
    types.iter().zip(row).for_each(|(ty, value)| write_value(&mut out, *ty, &written(value)));
    write_value(&mut out, TableLayout::ADDRESS, &Written::Int(key));
    out
}

/// A view of exactly these rows. The store also had other rows between them, which were deleted. After the view was
/// taken, the share `changed` of the rows is changed; the view must not show that.
pub fn stored(rng: &mut StdRng, types: &[Type], rows: &[Row], changed: f64) -> Arc<dyn TableView> {
    let column = |(at, ty): (usize, &Type)| MirrorColumn { attnum: at as i16 + 1, ty: *ty };
    let columns: Vec<MirrorColumn> = [Type::Int64].iter().chain(types).enumerate().map(column).collect();
    let wanted = columns[1..].iter().map(|c| RelationColumn { attnum: c.attnum, ty: c.ty }).collect();
    let request = TableRequest { relid: RELID, fingerprint: 0, columns: wanted };
    let limits = Limits { memory_bytes: 1 << 30, undo_bytes: 1 << 30, undo_seconds: 1000 };
    let mut store = Store::new(limits, Mechanism::BEST);
    store.watch(1, TableLayout { relid: RELID, fingerprint: 0, columns, identity: Identity::Key(vec![0]) });
    let snapshot = Snapshot::new(1, vec![]);
    store.load_begin(&LoadRequest { relid: RELID, generation: 1, fingerprint: 0, snapshot, anchor: None }).unwrap();
    let (mut bytes, mut loaded, mut deleted, mut later) = (Vec::new(), 0, Vec::new(), Vec::new());
    for (key, row) in rows.iter().enumerate() {
        bytes.extend(encoded(types, key as i64, row));
        loaded += 1;
        let other = rows.choose(rng).unwrap();
        if rng.random_bool(0.05) {
            let key = -(key as i64) - 1;
            bytes.extend(encoded(types, key, other));
            loaded += 1;
            let mut old = Vec::new();
            write_value(&mut old, Type::Int64, &Written::Int(key));
            StreamMessage::Delete { relid: RELID, key: &old }.encode(&mut deleted);
        }
        if rng.random_bool(changed) {
            let row = encoded(types, key as i64, other);
            StreamMessage::Update { relid: RELID, old_key: None, row: &row }.encode(&mut later);
        }
    }
    store.load_rows(RELID, 1, &bytes).unwrap();
    store.load_end(RELID, 1, loaded).unwrap();
    for (xid, messages) in [(5, deleted), (10, later)] {
        if !messages.is_empty() {
            store.transaction(xid, 0, vec![TableChanges { relid: RELID, messages }]);
        }
    }
    store.gate(Snapshot::new(20, vec![]));
    let served = store.serve(&Snapshot::new(10, vec![]), &[request]).unwrap();
    let view = served.tables.into_iter().next().unwrap();
    assert_eq!(view.row_count(), rows.len() as u64);
    view
}
