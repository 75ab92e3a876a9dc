//! The table that all tests use: `accounts (id bigint primary key, branch bigint, balance bigint, name text)`.

use plan::{
    Agg, CmpOp, Expr, Grouping, Identity, Literal, MirrorColumn, Plan, Relation, RelationColumn, TableLayout, Type,
};
use protocol::change::{StreamMessage, Value, write_value};

pub const FINGERPRINT: u64 = 0xacc0;
pub const TYPES: [Type; 4] = [Type::Int64, Type::Int64, Type::Int64, Type::Text];
/// Columns by position.
pub const ID: u16 = 0;
pub const BRANCH: u16 = 1;
pub const BALANCE: u16 = 2;

#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    pub id: i64,
    pub branch: i64,
    pub balance: i64,
    pub name: String,
}

/// Account `id` as it is loaded: of ten branches, with the balance 1000.
pub fn account(id: i64) -> Account {
    Account { id, branch: id % 10, balance: 1000, name: format!("account {id}") }
}

impl Account {
    pub fn write(&self, out: &mut Vec<u8>) {
        for (value, ty) in [self.id, self.branch, self.balance].into_iter().zip(TYPES) {
            write_value(out, ty, Value::Int(value));
        }
        write_value(out, Type::Text, Value::Text(self.name.as_bytes()));
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
    write_value(&mut key, Type::Int64, Value::Int(id));
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
    Expr::Column { rel: 0, col }
}

pub fn compare(op: CmpOp, col: u16, value: i64) -> Expr {
    let value = Expr::Literal { ty: Type::Int64, value: Some(Literal::Int(value)) };
    Expr::Cmp { op, left: Box::new(column(col)), right: Box::new(value) }
}

fn relation(relid: u32) -> Relation {
    let columns = TYPES.iter().enumerate().map(|(i, &ty)| RelationColumn { attnum: i as i16 + 1, ty }).collect();
    Relation { relid, columns }
}

/// `SELECT * FROM accounts WHERE …`
pub fn select(relid: u32, filters: Vec<Expr>) -> Plan {
    let output = (0..TYPES.len() as u16).map(column).collect();
    Plan { relations: vec![relation(relid)], filters, grouping: None, output, params: Vec::new() }
}

/// `SELECT keys…, aggregates… FROM accounts WHERE … GROUP BY keys…`
pub fn aggregate(relid: u32, filters: Vec<Expr>, keys: Vec<Expr>, aggregates: Vec<Agg>) -> Plan {
    let grouping = Some(Grouping { keys, aggregates });
    Plan { relations: vec![relation(relid)], filters, grouping, output: Vec::new(), params: Vec::new() }
}

/// `SELECT sum(balance), count(*) FROM accounts WHERE id > 0`, and of account 0 the balance.
pub fn totals(relid: u32, only_zero: bool) -> Plan {
    let filter = compare(if only_zero { CmpOp::Eq } else { CmpOp::Gt }, ID, 0);
    aggregate(relid, vec![filter], Vec::new(), vec![Agg::Sum(column(BALANCE)), Agg::CountStar])
}
