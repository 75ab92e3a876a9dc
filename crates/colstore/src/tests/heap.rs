//! A model of the parts of PostgreSQL on which exactness depends: transaction ids, row locks, snapshots, and a heap of
//! row versions. A commit writes its WAL record, flushes it, and leaves the proc array, with arbitrary delays between
//! these steps.

use std::collections::{BTreeMap, HashMap};

use plan::{Identity, TableLayout, Type};
use protocol::Snapshot;
use rand::Rng;
use rand::rngs::StdRng;

use super::rig::{self, Row, Val};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proc {
    Running,
    Committing,
}

struct Version {
    row: Row,
    xmin: u64,
    xmax: Option<u64>,
}

pub struct Transaction {
    pub xid: u64,
    pub changes: Vec<u8>,
}

pub struct Pg {
    pub layouts: Vec<TableLayout>,
    heaps: Vec<Vec<Version>>,
    next_address: i64,
    next_xid: u64,
    latest_completed: u64,
    pub procs: BTreeMap<u64, Proc>,
    writes: HashMap<u64, Vec<u8>>,
    pub committed: HashMap<u64, bool>,
    /// The transactions in the order of their commit records. A transaction's position is its index + 1.
    pub wal: Vec<Transaction>,
    pub flushed: usize,
}

impl Pg {
    pub fn new(layouts: Vec<TableLayout>) -> Pg {
        Pg {
            heaps: layouts.iter().map(|_| Vec::new()).collect(),
            layouts,
            next_address: 0,
            next_xid: 1,
            latest_completed: 0,
            procs: BTreeMap::new(),
            writes: HashMap::new(),
            committed: HashMap::new(),
            wal: Vec::new(),
            flushed: 0,
        }
    }

    pub fn begin(&mut self) -> u64 {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.procs.insert(xid, Proc::Running);
        self.writes.insert(xid, Vec::new());
        xid
    }

    pub fn in_state(&self, state: Proc) -> Vec<u64> {
        self.procs.iter().filter(|(_, s)| **s == state).map(|(xid, _)| *xid).collect()
    }

    fn aborted(&self, xid: u64) -> bool {
        self.committed.get(&xid) == Some(&false)
    }

    /// Whether a transaction has committed and left the proc array, or is `own`.
    fn settled(&self, xid: u64, own: u64) -> bool {
        xid == own || !self.procs.contains_key(&xid)
    }

    /// Executes one random statement. It does nothing if PostgreSQL would wait or raise an error.
    pub fn write(&mut self, xid: u64, rnd: &mut StdRng) {
        let table = rnd.random_range(0..self.layouts.len());
        let address = self.free_address(table, rnd);
        let current: Vec<usize> = (0..self.heaps[table].len())
            .filter(|&i| {
                let v = &self.heaps[table][i];
                let born = !self.aborted(v.xmin) && self.settled(v.xmin, xid);
                born && v.xmax.is_none_or(|x| self.aborted(x))
            })
            .collect();
        let mut changes = Vec::new();
        let layout = self.layouts[table].clone();
        let pick = |rnd: &mut StdRng| current[rnd.random_range(0..current.len())];
        match rnd.random_range(0..10) {
            0..4 if !current.is_empty() => {
                let i = pick(rnd);
                let old = self.heaps[table][i].row.clone();
                let new = change_row(&layout, &old, address, rnd);
                self.heaps[table][i].xmax = Some(xid);
                if !self.may_exist(table, &new, xid) {
                    self.heaps[table][i].xmax = None;
                    return;
                }
                let unchanged: Vec<usize> =
                    (0..new.len()).filter(|&c| is_long(&new[c]) && new[c] == old[c]).filter(|_| rnd.random()).collect();
                rig::update(&layout, &old, &new, &unchanged, &mut changes);
                self.heaps[table].push(Version { row: new, xmin: xid, xmax: None });
            }
            4..6 if !current.is_empty() => {
                let i = pick(rnd);
                rig::delete(&layout, &self.heaps[table][i].row, &mut changes);
                self.heaps[table][i].xmax = Some(xid);
            }
            _ => {
                let row = new_row(&layout, address, rnd);
                if !self.may_exist(table, &row, xid) {
                    return;
                }
                rig::insert(&layout, &row, &mut changes);
                self.heaps[table].push(Version { row, xmin: xid, xmax: None });
            }
        }
        self.writes.get_mut(&xid).unwrap().extend(changes);
    }

    /// An address for a new row of a table. It may be the address that an aborted transaction has used.
    fn free_address(&mut self, table: usize, rnd: &mut StdRng) -> i64 {
        let aborted = |version: &Version| self.committed.get(&version.xmin) == Some(&false);
        let dead = self.heaps[table].iter().position(aborted).filter(|_| rnd.random());
        if let Some(Val::Int(address)) = dead.and_then(|i| self.heaps[table].swap_remove(i).row.pop()) {
            return address;
        }
        self.next_address += 1;
        self.next_address
    }

    /// Whether the unique index lets `xid` write this row now.
    fn may_exist(&self, table: usize, row: &Row, xid: u64) -> bool {
        let Identity::Key(key) = &self.layouts[table].identity else { return true };
        let same_key = |v: &&Version| key.iter().all(|&k| v.row[k as usize] == row[k as usize]);
        self.heaps[table].iter().filter(same_key).all(|v| {
            let gone = |x: u64| !self.aborted(x) && self.settled(x, xid);
            self.aborted(v.xmin) || (self.settled(v.xmin, xid) && v.xmax.is_some_and(gone))
        })
    }

    pub fn commit_record(&mut self, xid: u64) {
        self.wal.push(Transaction { xid, changes: self.writes[&xid].clone() });
        self.committed.insert(xid, true);
        self.procs.insert(xid, Proc::Committing);
    }

    pub fn abort(&mut self, xid: u64) {
        self.committed.insert(xid, false);
        self.leave_proc_array(xid);
    }

    /// Lets a transaction leave the proc array once its commit record is flushed, and sometimes before
    /// (synchronous_commit = off).
    pub fn leave(&mut self, xid: u64, rnd: &mut StdRng) {
        let position = 1 + self.wal.iter().position(|t| t.xid == xid).unwrap();
        if position <= self.flushed || rnd.random_bool(0.3) {
            self.leave_proc_array(xid);
        }
    }

    fn leave_proc_array(&mut self, xid: u64) {
        self.procs.remove(&xid);
        self.latest_completed = self.latest_completed.max(xid);
    }

    pub fn snapshot(&self) -> Snapshot {
        let xmax = self.latest_completed + 1;
        Snapshot::new(xmax, self.procs.keys().copied().filter(|&x| x < xmax).collect())
    }

    /// The rows that a heap scan under S returns, sorted.
    pub fn scan(&self, table: usize, s: &Snapshot) -> Vec<Row> {
        let sees = |xid: u64| self.committed.get(&xid) == Some(&true) && s.sees(xid);
        let visible = |v: &&Version| sees(v.xmin) && !v.xmax.is_some_and(sees);
        let mut rows: Vec<Row> = self.heaps[table].iter().filter(visible).map(|v| v.row.clone()).collect();
        rows.sort();
        rows
    }
}

fn new_row(layout: &TableLayout, address: i64, rnd: &mut StdRng) -> Row {
    let (key, keyless) = (layout.key(), layout.identity == Identity::Address);
    let columns = layout.columns.iter().enumerate();
    let values = columns.map(|(i, column)| random_val(column.ty, key.contains(&i), keyless, rnd));
    values.chain([Val::Int(address)]).collect()
}

fn change_row(layout: &TableLayout, old: &Row, address: i64, rnd: &mut StdRng) -> Row {
    let fresh = new_row(layout, address, rnd);
    let change_key = rnd.random_bool(0.15);
    let is_key = |i: usize| matches!(&layout.identity, Identity::Key(key) if key.contains(&(i as u16)));
    let is_address = |i: usize| i == layout.columns.len();
    (0..old.len())
        .map(|i| {
            if is_address(i) || if is_key(i) { change_key } else { rnd.random_bool(0.4) } {
                fresh[i].clone()
            } else {
                old[i].clone()
            }
        })
        .collect()
}

/// Whether PostgreSQL stores the value out of line (TOAST), or may do so.
fn is_long(val: &Val) -> bool {
    matches!(val, Val::Text(text) if text.len() > 20) || matches!(val, Val::Bytes(bytes) if bytes.len() > 20)
}

/// A random value. Keys have few possible values, so that they collide. So do columns in tables without a
/// key, so that rows repeat.
fn random_val(ty: Type, key: bool, small: bool, rnd: &mut StdRng) -> Val {
    if !key && rnd.random_bool(0.15) {
        return Val::Null;
    }
    let one_of = |texts: &[&str], rnd: &mut StdRng| Val::Text(texts[rnd.random_range(0..texts.len())].to_string());
    match ty {
        _ if !key && rnd.random_bool(0.01) && matches!(ty, Type::Decimal64 { .. } | Type::Decimal128 { .. }) => {
            Val::Unholdable
        }
        Type::Bool => Val::Bool(rnd.random()),
        Type::Text | Type::Name | Type::Char if key || small => {
            one_of(&["a", "ä", "twelve bytes", "thirteen bytes"], rnd)
        }
        Type::Text | Type::Name | Type::Char => match rnd.random_range(0..4) {
            0 => one_of(&["", "x", "Straße", "日本語", "🦀 crab"], rnd),
            1 => Val::Text("é".repeat(rnd.random_range(0..8))),
            2 => Val::Text(format!("{:0>width$}", rnd.random::<u32>(), width = rnd.random_range(1..60))),
            _ => Val::Text("long text ".repeat(rnd.random_range(2..200))),
        },
        Type::Bytes | Type::Opaque if key || small => {
            Val::Bytes([&b""[..], b"\xff\0", b"twelve bytes", b"thirteen byte\xc3"][rnd.random_range(0..4)].to_vec())
        }
        Type::Bytes | Type::Opaque => Val::Bytes((0..rnd.random_range(0..60)).map(|_| rnd.random()).collect()),
        Type::Float32 => Val::Float([0.0f64, -0.0, 0.5][rnd.random_range(0..3)].to_bits()),
        Type::Float64 if small => Val::Float([0.0f64, -0.0][rnd.random_range(0..2)].to_bits()),
        Type::Float64 => {
            Val::Float([0.0, -0.0, f64::NAN, f64::INFINITY, 1.5, f64::MIN_POSITIVE][rnd.random_range(0..6)].to_bits())
        }
        Type::Decimal128 { .. } | Type::Uuid => {
            Val::Decimal([i128::MIN, i128::MAX, -1, 0, 1 << 70][rnd.random_range(0..5)])
        }
        Type::Int16 if !key && !small => Val::Int(rnd.random::<i16>() as i64),
        Type::Int32 | Type::Date | Type::Enum if !key && !small => {
            Val::Int([i32::MIN, i32::MAX, rnd.random()][rnd.random_range(0..3)] as i64)
        }
        _ if key || small => Val::Int(rnd.random_range(-2..4)),
        _ => Val::Int([i64::MIN, i64::MAX, -1, rnd.random()][rnd.random_range(0..4)]),
    }
}
