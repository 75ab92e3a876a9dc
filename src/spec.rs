//! The agreement of planner and scan: the names of the two nodes, and the messages from one to the other. These
//! travel in the plan node, and so through plan caches.

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::catalogue::Spread;
use plan::{Plan, Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pg::make;
use crate::pg::tree::Node;
use crate::pg::types::Form;
use crate::reason::Reason;

/// The node on top, which chooses between engine and heap.
pub const CHOOSER: &CStr = c"Anker";
/// The scan of the engine's result.
pub const ENGINE: &CStr = c"Anker Engine";

/// The planner's message to the scan of the engine's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanSpec {
    pub plan: Plan,
    /// How the value of each of the plan's parameters is made.
    pub sources: Vec<Source>,
    /// How each column of the scan is made of the columns of the engine's result.
    pub columns: Vec<ResultColumn>,
    /// The functions that the query calls, which its user must have the right to execute.
    pub functions: Vec<u32>,
    /// The query's names for the rows that the backend computes, one for each of the plan's relations of that kind.
    pub sent: Vec<String>,
    /// For each of the plan's relations.
    pub names: Vec<RelationNames>,
}

/// The query's names for the relations that it reads, for EXPLAIN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationNames {
    pub alias: String,
    /// The table; `None`: rows that the backend computes.
    pub relid: Option<u32>,
    /// The columns of such rows; those of tables are in the catalog.
    pub columns: Vec<String>,
    /// Whether there are rows that the user may not see. Their number and values are shown to nobody.
    pub hides: bool,
}

/// How a parameter's value follows from its expression's when the query starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Value,
    /// The session's time zone, whatever the expression.
    SessionZone,
    /// The time zone of this name.
    Zone,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultColumn {
    /// Position in the engine's result; an average and a variance take this one and the next.
    pub at: u16,
    pub conversion: Conversion,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Conversion {
    Plain(Type),
    /// A value of a type that the engine does not know, kept in this form.
    Kept(Form),
    /// char(n): padded to this many characters.
    Padded(u32),
    /// Decimal sum and count, divided by PostgreSQL.
    Average {
        scale: u8,
    },
    /// The result of `Agg::Spread` over numbers of this scale, finished by PostgreSQL.
    Spread {
        of: Spread,
        scale: u8,
    },
}

/// The planner's message to the node that chooses between the two sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChooserSpec {
    pub heap: HeapSide,
    /// The query did not ask for the engine, so that the heap is never an error.
    pub unasked: Option<Unasked>,
}

/// The heap's side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HeapSide {
    /// It is planned, and the engine's side is before it. Its flags for compilation, which the statement has no more.
    Planned { jit_flags: i32 },
    /// It is planned when it is needed, with the planner's options. The query stands behind the spec.
    Unplanned { options: i32 },
    /// It is the only side.
    Alone(Reason),
}

/// The cost of the side that was not chosen, if it is known.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Unasked {
    pub other_cost: Option<f64>,
}

/// Plain data as a node that can be copied and printed, as those of a plan must be.
pub fn to_node(data: &impl Serialize) -> *mut pg_sys::Node {
    // Serialising plain data into memory has no way to fail.
    let bytes = postcard::to_stdvec(data).expect("plain data serialises");
    make::string(&hex(&bytes))
}

/// The data that [`to_node`] was given; `None`: another node.
pub fn from_node<T: DeserializeOwned>(node: Node<'_>) -> Option<T> {
    postcard::from_bytes(&unhex(&node.string()?)?).ok()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[(b >> 4) as usize] as char, DIGITS[(b & 15) as usize] as char]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
