//! Test tools: values, rows and layouts, their encoding, and functions that read the rows of a view.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use plan::{Identity, MirrorColumn, Physical, RelationColumn, TableLayout, Type, float_order, text_order};
use protocol::Snapshot;
use protocol::change::{CHANGE_HEAD, StreamMessage, Value, changed_table, write_value};
use protocol::control::ToWorker;
use protocol::request::{LoadRequest, Refusal};

use crate::{Coded, Limits, Mechanism, Sink, Store, TableChanges, TableRequest, TableView};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Val {
    Null,
    Unholdable,
    Bool(bool),
    Int(i64),
    /// A float, as its bits.
    Float(u64),
    Decimal(i128),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of a row: of its columns, and its address. If a test leaves the address out, it is 0.
pub type Row = Vec<Val>;

impl Val {
    pub fn value(&self) -> Value<'_> {
        match self {
            Val::Null => Value::Null,
            Val::Unholdable => Value::Unholdable,
            Val::Bool(b) => Value::Bool(*b),
            Val::Int(i) => Value::Int(*i),
            Val::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Val::Decimal(d) => Value::Decimal(*d),
            Val::Text(t) => Value::Text(t.as_bytes()),
            Val::Bytes(b) => Value::Text(b),
        }
    }
}

pub fn layout(relid: u32, types: &[Type], identity: Identity) -> TableLayout {
    let columns = types.iter().enumerate().map(|(i, &ty)| MirrorColumn { attnum: i as i16 + 1, ty }).collect();
    TableLayout { relid, fingerprint: relid as u64 * 1000, columns, identity }
}

pub fn request(layout: &TableLayout, positions: &[usize]) -> TableRequest {
    let column = |&i: &usize| RelationColumn { attnum: layout.columns[i].attnum, ty: layout.columns[i].ty };
    TableRequest {
        relid: layout.relid,
        fingerprint: layout.fingerprint,
        columns: positions.iter().map(column).collect(),
    }
}

pub fn encode_row(layout: &TableLayout, row: &[Val]) -> Vec<u8> {
    encode_but(layout, row, &[])
}

/// Encodes a row without the values of the `unchanged` columns.
fn encode_but(layout: &TableLayout, row: &[Val], unchanged: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, ty) in layout.types().into_iter().enumerate() {
        let value = row.get(i).map_or(Value::Int(0), Val::value);
        write_value(&mut out, ty, if unchanged.contains(&i) { &Value::Unchanged } else { &value });
    }
    out
}

pub fn encode_key(layout: &TableLayout, row: &[Val]) -> Vec<u8> {
    let mut out = Vec::new();
    let types = layout.types();
    layout.key().into_iter().for_each(|i| write_value(&mut out, types[i], &row[i].value()));
    out
}

pub fn insert(layout: &TableLayout, row: &[Val], out: &mut Vec<u8>) {
    StreamMessage::Insert { relid: layout.relid, row: &encode_row(layout, row) }.encode(out);
}

pub fn delete(layout: &TableLayout, old: &[Val], out: &mut Vec<u8>) {
    StreamMessage::Delete { relid: layout.relid, key: &encode_key(layout, old) }.encode(out);
}

/// Appends an update message. `unchanged` are the columns whose values the message leaves out.
pub fn update(layout: &TableLayout, old: &[Val], new: &[Val], unchanged: &[usize], out: &mut Vec<u8>) {
    let key = encode_key(layout, old);
    let row = encode_but(layout, new, unchanged);
    let key_needed = layout.key().iter().any(|&i| old[i] != new[i] || unchanged.contains(&i));
    let old_key = key_needed.then_some(&key[..]);
    StreamMessage::Update { relid: layout.relid, old_key, row: &row }.encode(out);
}

/// Groups messages by table, as the stream does.
pub fn by_table(mut messages: &[u8]) -> Vec<TableChanges> {
    let mut tables: Vec<TableChanges> = Vec::new();
    while let Some((length, rest)) = messages.split_first_chunk::<4>() {
        let relid = rest.first_chunk::<CHANGE_HEAD>().and_then(|head| changed_table(*head)).unwrap();
        let (message, rest) = messages.split_at(4 + u32::from_le_bytes(*length) as usize);
        match tables.iter_mut().find(|table| table.relid == relid) {
            Some(table) => table.messages.extend(message),
            None => tables.push(TableChanges { relid, messages: message.to_vec() }),
        }
        messages = rest;
    }
    tables
}

/// All rows of a view, sorted.
pub fn rows_of(view: &Arc<dyn TableView>) -> Vec<Row> {
    let mut rows = Vec::new();
    for index in 0..view.chunk_count() {
        let chunk = view.chunk(index).unwrap();
        if index + 1 < view.chunk_count() {
            assert_eq!(chunk.rows, crate::CHUNK_ROWS);
        }
        for array in &chunk.arrays {
            array.to_data().validate_full().unwrap();
            assert_eq!(array.len(), chunk.rows);
        }
        // Rows that are picked from a chunk have the same values as in the whole array.
        let some: Vec<u32> = (index as u32 % 3..chunk.rows as u32).step_by(3).collect();
        for (column, (&ty, array)) in view.types().iter().zip(&chunk.arrays).enumerate() {
            let picked = view.picked(index, column, &some).unwrap().unwrap();
            picked.to_data().validate_full().unwrap();
            let same = |(at, row): (usize, &u32)| val_of(ty, &picked, at) == val_of(ty, array, *row as usize);
            assert!(picked.len() == some.len() && some.iter().enumerate().all(same));
            check_selection(view.as_ref(), index, column, array);
            check_coded(view.as_ref(), index, column, array);
            let number = |row: usize| in_order(&val_of(ty, array, row));
            if let Some((low, high)) = view.bounds(index, column) {
                let live = |row: &usize| chunk.live.as_ref().is_none_or(|live| live.value(*row));
                let mut numbers = (0..chunk.rows).filter(live).filter_map(number);
                assert!(numbers.all(|number| (low..=high).contains(&number)), "{ty:?} beyond {low} and {high}");
            }
        }
        for row in (0..chunk.rows).filter(|&row| chunk.live.as_ref().is_none_or(|live| live.value(row))) {
            rows.push(view.types().iter().zip(&chunk.arrays).map(|(&ty, array)| val_of(ty, array, row)).collect());
        }
    }
    assert_eq!(rows.len() as u64, view.row_count());
    rows.sort();
    rows
}

/// The number that stands for a value in bounds.
pub fn in_order(value: &Val) -> Option<i128> {
    match value {
        Val::Int(number) => Some((*number).into()),
        Val::Decimal(number) => Some(*number),
        Val::Float(bits) => Some(float_order::rank(f64::from_bits(*bits)).into()),
        Val::Bool(truth) => Some((*truth).into()),
        Val::Text(text) => Some(text_order::place(text.as_bytes())),
        Val::Bytes(bytes) => Some(text_order::place(bytes)),
        Val::Null | Val::Unholdable => None,
    }
}

/// Checks that rows selected by their codes are the rows with the right values.
fn check_selection(view: &dyn TableView, index: usize, column: usize, array: &ArrayRef) {
    let ty = view.types()[column];
    let rows = view.rows(index).unwrap();
    let is_live = |row: &usize| rows.live.as_ref().is_none_or(|live| live.value(*row));
    let values: Vec<Val> = (0..rows.count).map(|row| val_of(ty, array, row)).collect();
    let some: Vec<u32> = (0..rows.count as u32).filter(|row| row % 5 != 2).collect();
    if let Some((low, high)) = view.bounds(index, column).filter(|(low, high)| low <= high) {
        let number = |row: usize| in_order(&values[row]);
        let third = (high / 3).wrapping_sub(low / 3);
        for range in [low..=high, low + third..=high - third, low..=low, i128::MIN..=high - 1, high..=i128::MAX] {
            if let Some(found) = view.within(index, column, range.clone()).unwrap() {
                let same = |row: usize| found.value(row) == number(row).is_some_and(|number| range.contains(&number));
                assert!((0..rows.count).filter(is_live).all(same), "{ty:?} within {range:?}");
            }
        }
    }
    if let Some(distinct) = view.distinct(index, column).unwrap() {
        distinct.values.to_data().validate_full().unwrap();
        let known: Vec<Val> = (0..distinct.values.len()).map(|at| val_of(ty, &distinct.values, at)).collect();
        assert!(known.last() == Some(&Val::Null) && known.iter().filter(|value| **value == Val::Null).count() == 1);
        for odd in [0, 1] {
            let found = distinct.rows_of(&(0..known.len()).map(|at| at % 2 == odd).collect());
            let at = |row: usize| known.iter().position(|value| *value == values[row]);
            let same = |row: usize| at(row).is_some_and(|at| found.value(row) == (at % 2 == odd));
            assert!((0..rows.count).filter(is_live).all(same), "{ty:?} by its distinct values");
        }
        let (mut all, mut others) = (vec![7; rows.count], vec![7; some.len()]);
        distinct.places(None, &mut all);
        distinct.places(Some(&some), &mut others);
        let same = |row: usize| usize::from(all[row]) < distinct.count() && known[usize::from(all[row])] == values[row];
        assert!((0..rows.count).filter(is_live).all(same), "{ty:?} by places");
        assert!(some.iter().zip(others).all(|(row, place)| place == all[*row as usize]), "{ty:?} by some places");
    }
    if let Some(integers) = view.integers(index, column).unwrap() {
        let (mut all, mut others) = (vec![7; rows.count / 2], vec![7; some.len()]);
        integers.read(rows.count - all.len(), &mut all);
        integers.pick(&some, &mut others);
        let same = |row: usize, found: i64| match values[row] {
            Val::Int(number) => (integers.low..=integers.high).contains(&found) && number == found,
            Val::Decimal(number) => (integers.low..=integers.high).contains(&found) && number == found.into(),
            _ => integers.valid.as_ref().is_some_and(|valid| !valid.value(row)),
        };
        let all = (rows.count - all.len()..).zip(all).filter(|(row, _)| is_live(row));
        let some = some.iter().map(|row| *row as usize).zip(others).filter(|(row, _)| is_live(row));
        assert!(all.chain(some).all(|(row, found)| same(row, found)), "{ty:?} as integers");
    }
    let valid = view.valid(index, column).unwrap();
    let is_valid = |row: usize| valid.as_ref().is_none_or(|valid| valid.value(row));
    assert!((0..rows.count).filter(is_live).all(|row| is_valid(row) == (values[row] != Val::Null)));
}

/// Checks that a forked child would read the same values as the array has.
fn check_coded(view: &dyn TableView, index: usize, column: usize, array: &ArrayRef) {
    let ty = view.types()[column];
    let (coded, wanted) = (view.coded(index, column).unwrap(), Coded::of(ty, array));
    assert_eq!(coded.is_some(), !matches!(ty.physical(), Physical::Float64 | Physical::Bytes), "{ty:?}");
    let rows = view.rows(index).unwrap();
    let read = |coded: Coded| {
        let (mut values, mut valid) = (vec![0; rows.count], vec![false; rows.count]);
        coded.read(&mut values, &mut valid);
        // A row that does not exist may have any code, so it is not compared.
        let is_live = |row: usize| rows.live.as_ref().is_none_or(|live| live.value(row));
        let each = values.into_iter().zip(valid).enumerate().filter(|(row, _)| is_live(*row));
        each.map(|(_, (value, valid))| valid.then_some(value)).collect::<Vec<Option<i128>>>()
    };
    assert_eq!(coded.map(read), wanted.map(read), "{ty:?}");
}

fn val_of(ty: Type, array: &ArrayRef, row: usize) -> Val {
    if array.is_null(row) {
        return Val::Null;
    }
    match ty.physical() {
        Physical::Bit => Val::Bool(array.as_boolean().value(row)),
        Physical::Int16 => Val::Int(array.as_primitive::<Int16Type>().value(row) as i64),
        Physical::Int32 => Val::Int(array.as_primitive::<Int32Type>().value(row) as i64),
        Physical::Int64 => Val::Int(array.as_primitive::<Int64Type>().value(row)),
        Physical::Float64 => Val::Float(array.as_primitive::<Float64Type>().value(row).to_bits()),
        Physical::Int128 => {
            assert_eq!(array.data_type(), &arrow_schema::DataType::Decimal128(38, 0));
            Val::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        Physical::Text => Val::Text(array.as_string_view().value(row).to_string()),
        Physical::Bytes => Val::Bytes(array.as_binary_view().value(row).to_vec()),
    }
}

/// The mechanisms that this kernel supports. Miri supports only those without mappings and memory files.
pub fn mechanisms() -> impl Iterator<Item = Mechanism> {
    let is_there = |mechanism: &Mechanism| match mechanism {
        Mechanism::Physical | Mechanism::Frames | Mechanism::Epochs | Mechanism::Auto => true,
        others => !cfg!(miri) && others.probe().is_ok(),
    };
    Mechanism::ALL.into_iter().filter(is_there)
}

/// A store for tests. Its tables are loaded under a snapshot that sees the transactions below 10.
pub struct Rig {
    pub store: Store,
    pub xid: u64,
}

pub const LIMITS: Limits = Limits { memory_bytes: 1 << 30, undo_bytes: 1 << 30, undo_seconds: 3600 };

impl Rig {
    pub fn new(limits: Limits) -> Rig {
        Rig::on(Mechanism::BEST, limits)
    }

    pub fn on(mechanism: Mechanism, limits: Limits) -> Rig {
        Rig { store: Store::new(limits, mechanism), xid: 10 }
    }

    /// Watches a table.
    pub fn watch(&mut self, layout: &TableLayout) -> LoadRequest {
        self.store.watch(1, layout.clone());
        let snapshot = Snapshot::new(10, vec![]);
        LoadRequest { relid: layout.relid, generation: 1, fingerprint: layout.fingerprint, snapshot, anchor: None }
    }

    pub fn load(&mut self, layout: &TableLayout, rows: &[Row]) {
        let request = self.watch(layout);
        self.store.load_begin(&request).unwrap();
        let bytes: Vec<u8> = rows.iter().flat_map(|row| encode_row(layout, row)).collect();
        self.store.load_rows(layout.relid, 1, &bytes).unwrap();
        self.store.load_end(layout.relid, 1, rows.len() as u64).unwrap();
        assert_eq!(
            self.store.take_events(),
            [ToWorker::Live { relid: layout.relid, generation: 1, rows: rows.len() as u64 }]
        );
    }

    /// Commits a transaction. It is not applied yet.
    pub fn commit(&mut self, changes: &[u8]) -> u64 {
        let xid = self.xid;
        self.xid += 1;
        self.store.transaction(xid, 0, by_table(changes));
        xid
    }

    /// A snapshot that sees all transactions committed so far.
    pub fn now(&self) -> Snapshot {
        Snapshot::new(self.xid, vec![])
    }

    pub fn gate(&mut self) {
        self.store.gate(self.now());
    }

    pub fn serve(&mut self, layout: &TableLayout, s: &Snapshot) -> Result<Arc<dyn TableView>, Refusal> {
        let columns: Vec<usize> = (0..layout.columns.len()).collect();
        Ok(self.store.serve(s, &[request(layout, &columns)])?.tables.remove(0))
    }

    /// The rows that exist now.
    pub fn rows(&mut self, layout: &TableLayout) -> Vec<Row> {
        let now = self.now();
        rows_of(&self.serve(layout, &now).unwrap())
    }

    /// Takes the only event, which must be a broken table. Returns the table, whether it was an error, and the reason.
    pub fn broken(&mut self) -> (u32, bool, String) {
        let mut events = self.store.take_events();
        assert_eq!(events.len(), 1, "{events:?}");
        match events.remove(0) {
            ToWorker::Broken { relid, error, reason, .. } => (relid, error, reason),
            other => panic!("{other:?}"),
        }
    }
}

/// A table of a key, a number and a text.
pub fn simple(relid: u32) -> TableLayout {
    layout(relid, &[Type::Int64, Type::Int32, Type::Text], Identity::Key(vec![0]))
}

pub fn simple_row(key: i64, number: i64, text: &str) -> Row {
    vec![Val::Int(key), Val::Int(number), Val::Text(text.to_string())]
}
