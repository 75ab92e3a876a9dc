//! Reasons why a query runs on the heap. Each has a text for EXPLAIN, and a name that never changes. Reasons are
//! counted by their names, and docs/operations.md explains each name.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pg::attempt::Raised;

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Why {
            $($(#[$doc])* $variant,)*
        }

        impl Why {
            pub const ALL: &[Why] = &[$(Why::$variant,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Why::$variant => $name,)*
                }
            }
        }
    };
}

reasons! {
    // -- reasons that hold whenever the query runs
    /// The engine does not know an operator for values of these types.
    Operator "operator",
    Function "function",
    /// A type that the engine does not compute with.
    Type "type",
    /// An expression of a kind that the engine does not know.
    Expression "expression",
    /// A collation whose order, case or equality of text the engine does not know.
    Collation "collation",
    Aggregate "aggregate",
    WindowFunction "window_function",
    /// Grouping sets that the engine does not compute, or keys that it cannot group by.
    Grouping "grouping",
    /// An item of FROM that the engine does not read.
    FromItem "from_item",
    /// A subquery in a place where it cannot be joined.
    Subquery "subquery",
    SetOperation "set_operation",
    Recursion "recursion",
    /// The result depends on the order in which the rows are read.
    RowOrder "row_order",
    /// The engine does not know how many digits a numeric shows.
    NumericDigits "numeric_digits",
    Interval "interval",
    TimeZone "time_zone",
    Volatile "volatile",
    Limit "limit",
    /// More tables, rows or values than the engine takes, or a plan that would grow too large.
    TooLarge "too_large",
    /// Too many rows would have to be sent along.
    RowsSent "rows_sent",
    /// A condition that hides rows from the user might be evaluated after other conditions, which could then raise
    /// errors for hidden rows.
    RowSecurity "row_security",
    /// The statement does more than read rows.
    Statement "statement",
    /// PostgreSQL's plan for the part of the query above the engine has a shape that the planner does not know.
    PlanShape "plan_shape",

    /// The heap is cheaper, under `anker.route = auto`.
    Cost "cost",

    // -- reasons that hold only for this run of the query
    RouteOff "route_off",
    Parallel "parallel",
    Recovery "recovery",
    Serializable "serializable",
    /// A row would be read again after a concurrent update (EvalPlanQual).
    Recheck "recheck",
    Privilege "privilege",
    /// The transaction may have written to a table that the query reads, and the mirror does not know these rows.
    Written "written",
    NotMirrored "not_mirrored",
    /// Another extension keeps rows of a table in a place other than its heap.
    Elsewhere "elsewhere",
    /// A table has no mirror that serves queries yet, or any more.
    NotLive "not_live",
    /// DDL has changed a table, and its mirror has not followed yet.
    Definition "definition",
    OldSnapshot "old_snapshot",
    /// The mirror did not catch up in time.
    Lag "lag",
    Busy "busy",
    /// A forked process (`anker.mechanism = fork`) cannot answer the query.
    Mechanism "mechanism",
    Memory "memory",
    /// A value that the mirror or the engine cannot hold.
    Value "value",
    /// The engine met an error. If the query itself is wrong, the heap raises the error.
    Error "error",
    /// The engine could not be reached, was lost, or sent something unknown.
    Engine "engine",
}

impl Why {
    pub fn of(self, text: impl Into<String>) -> Reason {
        Reason { why: self, text: text.into() }
    }

    pub fn named(name: &str) -> Option<Why> {
        Why::ALL.iter().copied().find(|why| why.name() == name)
    }

    /// Whether the reason may disappear with this transaction, although it is found when the query is planned.
    pub fn is_momentary(self) -> bool {
        matches!(self, Why::Written | Why::Parallel | Why::Definition)
    }

    /// The index of the reason in [`Why::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl From<Raised> for Reason {
    fn from(raised: Raised) -> Reason {
        Why::Error.of(raised.0)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reason {
    pub why: Why,
    pub text: String,
}

impl Reason {
    /// The same reason, with this text appended.
    pub fn and(mut self, more: impl AsRef<str>) -> Reason {
        self.text.push_str(more.as_ref());
        self
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
