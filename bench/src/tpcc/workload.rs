//! The workload of clients: kinds of transactions, the rows that they use, isolation and rate.

use super::Scale;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

pub const KINDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// The specification's five transactions, of which 45 % are new orders.
    Full,
    /// AnKer's three transactions, in equal shares.
    Anker,
}

impl Mix {
    /// Kinds of transactions, with their shares.
    pub fn shares(self) -> &'static [(Kind, u32)] {
        match self {
            Mix::Full => &[
                (Kind::NewOrder, 45),
                (Kind::Payment, 43),
                (Kind::OrderStatus, 4),
                (Kind::Delivery, 4),
                (Kind::StockLevel, 4),
            ],
            Mix::Anker => &[(Kind::NewOrder, 1), (Kind::Payment, 1), (Kind::OrderStatus, 1)],
        }
    }
}

/// The warehouses and districts that transactions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Uniform,
    /// Half of the transactions are in five pairs of warehouse and district.
    Skewed,
}

impl Access {
    pub fn name(self) -> &'static str {
        match self {
            Access::Uniform => "uniform",
            Access::Skewed => "skewed",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The next transaction begins when the last one is done.
    Closed,
    /// All clients together should begin this many transactions a second. If they cannot keep up, transactions begin
    /// late, but their time counts from when they were due.
    Rate(f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub scale: Scale,
    pub clients: u32,
    pub synchronous_commit: bool,
    pub mix: Mix,
    pub access: Access,
    pub isolation: Isolation,
    pub pace: Pace,
    /// Whether every transaction that writes also writes its number to the database ([`super::numbers`]).
    pub numbered: bool,
}

impl Workload {
    /// The full mix as fast as possible, without waiting for the disk.
    pub fn of(scale: Scale, clients: u32) -> Workload {
        Workload {
            scale,
            clients,
            synchronous_commit: false,
            mix: Mix::Full,
            access: Access::Uniform,
            isolation: Isolation::ReadCommitted,
            pace: Pace::Closed,
            numbered: false,
        }
    }
}
