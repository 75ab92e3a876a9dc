//! Why a query stays on the heap: a name that does not change, to be counted and looked up (docs/operations.md has them
//! all), and a text for EXPLAIN.

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
    // -- the query is not the engine's, whenever it runs
    /// An operator that the engine does not know, of these types.
    Operator "operator",
    Function "function",
    /// A type that it does not compute with.
    Type "type",
    /// An expression of another kind.
    Expression "expression",
    /// The order, case or equality of text in a collation that it does not know.
    Collation "collation",
    Aggregate "aggregate",
    WindowFunction "window_function",
    /// Grouping sets, and keys that it does not group by.
    Grouping "grouping",
    /// An item of FROM.
    FromItem "from_item",
    /// A subquery in a place where it cannot be joined.
    Subquery "subquery",
    SetOperation "set_operation",
    Recursion "recursion",
    /// The answer shows in which order the rows come.
    RowOrder "row_order",
    /// How many digits of a numeric are shown.
    NumericDigits "numeric_digits",
    Interval "interval",
    TimeZone "time_zone",
    Volatile "volatile",
    Limit "limit",
    /// More tables, rows or values than it takes, or a plan that would grow too large.
    TooLarge "too_large",
    /// Rows that would have to be sent along are too many.
    RowsSent "rows_sent",
    /// A condition that hides rows from the user might not come first.
    RowSecurity "row_security",
    /// The statement is no query alone.
    Statement "statement",
    /// PostgreSQL's plan of what is above the engine is of an unknown shape.
    PlanShape "plan_shape",

    /// Under `anker.route = auto`: the heap is cheaper.
    Cost "cost",

    // -- this time
    RouteOff "route_off",
    Parallel "parallel",
    Recovery "recovery",
    Serializable "serializable",
    /// A row is checked again after a concurrent update.
    Recheck "recheck",
    Privilege "privilege",
    /// The transaction may have written to a table.
    Written "written",
    NotMirrored "not_mirrored",
    /// A table's mirror is not there, or not any more.
    NotLive "not_live",
    /// A table was changed by DDL, and its mirror was not yet.
    Definition "definition",
    OldSnapshot "old_snapshot",
    /// The mirror did not catch up in time.
    Lag "lag",
    Busy "busy",
    /// `anker.mechanism = fork`, and a forked process cannot answer it.
    Mechanism "mechanism",
    Memory "memory",
    /// A value that the mirror or the engine cannot hold.
    Value "value",
    /// The engine met an error, which the heap raises if it is one.
    Error "error",
    /// The engine cannot be reached, was lost, or was not understood.
    Engine "engine",
}

impl Why {
    pub fn of(self, text: impl Into<String>) -> Reason {
        Reason { why: self, text: text.into() }
    }

    /// Whether it holds for this transaction at most, though it is found when the query is planned.
    pub fn is_momentary(self) -> bool {
        matches!(self, Why::Written | Why::Parallel | Why::Definition)
    }

    /// How to find it among [`Why::ALL`].
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
    /// With more text.
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
