//! The table that all tests use: `accounts (id bigint primary key, branch bigint, balance bigint, name text)`.

use plan::{
    Agg, Aggregation, CmpOp, ColumnId, Computed, Expr, Frame, Identity, JoinKind, Literal, MirrorColumn, Over, Plan,
    Rel, Relation, RelationColumn, SortKey, Source, TableLayout, Type, WindowCall, WindowFunction,
};
use protocol::change::{StreamMessage, Value, write_value};

pub const FINGERPRINT: u64 = 0xacc0;
pub const TYPES: [Type; 4] = [Type::Int64, Type::Int64, Type::Int64, Type::Text];
/// The positions of the columns.
pub const ID: u16 = 0;
pub const BRANCH: u16 = 1;
pub const BALANCE: u16 = 2;
pub const NAME: u16 = 3;

#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    pub id: i64,
    pub branch: i64,
    pub balance: i64,
    pub name: String,
}

/// Account `id` as it is loaded: in one of ten branches, with the balance 1000.
pub fn account(id: i64) -> Account {
    Account { id, branch: id % 10, balance: 1000, name: format!("account {id}") }
}

impl Account {
    pub fn write(&self, out: &mut Vec<u8>) {
        for (value, ty) in [self.id, self.branch, self.balance].into_iter().zip(TYPES) {
            write_value(out, ty, &Value::Int(value));
        }
        write_value(out, Type::Text, &Value::Text(self.name.as_bytes()));
        write_value(out, TableLayout::ADDRESS, &Value::Int(self.id));
    }

    pub fn insert(&self, relid: u32, out: &mut Vec<u8>) {
        let mut row = Vec::new();
        self.write(&mut row);
        StreamMessage::Insert { relid, row: &row }.encode(out);
    }

    pub fn update(&self, relid: u32, out: &mut Vec<u8>) {
        let mut row = Vec::new();
        self.write(&mut row);
        StreamMessage::Update { relid, old_key: None, row: &row }.encode(out);
    }
}

pub fn delete(relid: u32, id: i64, out: &mut Vec<u8>) {
    let mut key = Vec::new();
    write_value(&mut key, Type::Int64, &Value::Int(id));
    StreamMessage::Delete { relid, key: &key }.encode(out);
}

pub fn layout(relid: u32) -> TableLayout {
    TableLayout {
        relid,
        fingerprint: FINGERPRINT,
        columns: TYPES.iter().enumerate().map(|(i, &ty)| MirrorColumn { attnum: i as i16 + 1, ty }).collect(),
        identity: Identity::Key(vec![ID]),
    }
}

pub fn column(col: u16) -> Expr {
    Expr::column(ColumnId(col))
}

pub fn compare(op: CmpOp, col: u16, value: i64) -> Expr {
    let value = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(value)) };
    Expr::Cmp { op, left: Box::new(column(col)), right: Box::new(value) }
}

fn relation(relid: u32) -> Relation {
    let columns: Vec<_> = (1..).zip(TYPES).map(|(attnum, ty)| RelationColumn { attnum, ty }).collect();
    Relation::of_table(relid, &columns)
}

/// A scan of the table with filters. The plan's columns 0, 1, … are the columns of the table.
fn over(relid: u32, filters: Vec<Expr>) -> Plan {
    let scan = Rel::Scan { relation: 0, columns: (0..TYPES.len() as u16).map(ColumnId).collect() };
    Plan {
        relations: vec![relation(relid)],
        columns: TYPES.to_vec(),
        params: Vec::new(),
        root: scan.filter(filters),
        output: Vec::new(),
    }
}

/// `SELECT * FROM accounts WHERE …`
pub fn select(relid: u32, filters: Vec<Expr>) -> Plan {
    Plan { output: (0..TYPES.len() as u16).map(column).collect(), ..over(relid, filters) }
}

/// `SELECT keys…, aggregates… FROM accounts WHERE … GROUP BY keys…`
pub fn aggregate(relid: u32, filters: Vec<Expr>, keys: Vec<Expr>, aggregates: Vec<Agg>) -> Plan {
    let plan = over(relid, filters);
    group(plan, keys, aggregates)
}

/// Groups the plan's rows. The result has only the keys and the aggregates.
pub fn group(mut plan: Plan, keys: Vec<Expr>, aggregates: Vec<Agg>) -> Plan {
    let typed = plan.clone();
    let mut new = |ty: Type| {
        plan.columns.push(ty);
        ColumnId(plan.columns.len() as u16 - 1)
    };
    let keys = keys.into_iter().map(|expr| Computed { column: new(typed.type_of(&expr)), expr }).collect();
    let aggregation = |agg: Agg| {
        let argument = agg.argument().map_or(Type::Int64, |e| typed.type_of(e));
        let types: Vec<Type> = agg.aggregate().row().output_types(argument).collect();
        Aggregation { columns: types.into_iter().map(&mut new).collect(), agg, distinct: false }
    };
    let aggregates = aggregates.into_iter().map(aggregation).collect();
    let root = Rel::Aggregate { input: Box::new(typed.root), keys, aggregates };
    Plan { output: root.columns().into_iter().map(Expr::column).collect(), root, ..plan }
}

/// `SELECT count(DISTINCT column) FROM accounts`
pub fn distinct(relid: u32, col: u16) -> Plan {
    let mut plan = aggregate(relid, Vec::new(), Vec::new(), vec![Agg::Count(column(col))]);
    if let Rel::Aggregate { aggregates, .. } = &mut plan.root {
        aggregates.iter_mut().for_each(|aggregation| aggregation.distinct = true);
    }
    plan
}

/// `SELECT max(f) FROM (SELECT function OVER (ORDER BY id) AS f FROM accounts) s`, the function's type being bigint.
pub fn windowed(relid: u32, function: WindowFunction) -> Plan {
    let mut plan = over(relid, Vec::new());
    let made = ColumnId(plan.columns.len() as u16);
    plan.columns.push(Type::Int64);
    let call = WindowCall { columns: vec![made], function, frame: Frame::ALL, reach: None };
    let order = Over { order: vec![SortKey::ascending(column(ID))], ..Over::default() };
    plan.root = Rel::Window { input: Box::new(plan.root), over: Box::new(order), calls: vec![call] };
    group(plan, Vec::new(), vec![Agg::Max(Expr::column(made))])
}

/// `SELECT count(*), min(n), max(n)` over numbers that are sent along.
pub fn of_sent() -> Plan {
    let relation = Relation { source: Source::Sent, columns: vec![Type::Int64], visible_if: Vec::new() };
    let root = Rel::Scan { relation: 0, columns: vec![ColumnId(0)] };
    let (params, output) = (Vec::new(), Vec::new());
    let plan = Plan { relations: vec![relation], columns: vec![Type::Int64], params, root, output };
    group(plan, Vec::new(), vec![Agg::CountStar, Agg::Min(column(0)), Agg::Max(column(0))])
}

/// `SELECT count(*) FROM accounts a, accounts b WHERE a.id <> b.id`, which compares each row with every other row.
pub fn pairs(relid: u32) -> Plan {
    let width = TYPES.len() as u16;
    let scan =
        |first: u16| Rel::Scan { relation: first / width, columns: (first..first + width).map(ColumnId).collect() };
    let differ = Expr::Cmp { op: CmpOp::Ne, left: Box::new(column(ID)), right: Box::new(column(width + ID)) };
    let (left, right) = (Box::new(scan(0)), Box::new(scan(width)));
    let plan = Plan {
        relations: vec![relation(relid), relation(relid)],
        columns: [TYPES, TYPES].concat(),
        params: Vec::new(),
        root: Rel::Join { kind: JoinKind::Inner, left, right, conditions: vec![differ] },
        output: Vec::new(),
    };
    group(plan, Vec::new(), vec![Agg::CountStar])
}

/// `SELECT sum(balance), count(*) FROM accounts WHERE id > 0`, or the same `WHERE id = 0`.
pub fn totals(relid: u32, only_zero: bool) -> Plan {
    let filter = compare(if only_zero { CmpOp::Eq } else { CmpOp::Gt }, ID, 0);
    aggregate(relid, vec![filter], Vec::new(), vec![Agg::Sum(column(BALANCE)), Agg::CountStar])
}
