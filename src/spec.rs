//! The agreement between planner and scan: the names of the two nodes, and the planner's messages to them. The messages
//! are part of the plan nodes, so cached plans contain them.

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::{Plan, Type};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::pg::make;
use crate::pg::tree::Node;
use crate::pg::types::Form;
use crate::reason::Reason;

/// The top node, which chooses between engine and heap.
pub const CHOOSER: &CStr = c"Anker";
/// The scan of the engine's result.
pub const ENGINE: &CStr = c"Anker Engine";

/// The planner's message to the scan of the engine's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanSpec {
    pub plan: Plan,
    /// The way in which the value of each parameter is made.
    pub sources: Vec<Source>,
    /// The conversion of each column of the engine's result into a column of the scan.
    pub columns: Vec<Conversion>,
    /// The functions that the query calls. Its user must have the permission to execute them.
    pub functions: Vec<u32>,
    /// The names in the query of the relations whose rows the backend computes, in the order in which the plan lists
    /// these relations.
    pub sent: Vec<String>,
    /// The names of each relation of the plan.
    pub names: Vec<RelationNames>,
}

/// The names of a relation in the query, for EXPLAIN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationNames {
    pub alias: String,
    /// The table; `None` for rows that the backend computes.
    pub relid: Option<u32>,
    /// The names of the columns, if the backend computes the rows. The columns of tables are in the catalog.
    pub columns: Vec<String>,
    /// Whether the relation contains rows that the user may not see. EXPLAIN shows nobody their number or values.
    pub hides: bool,
}

/// The way in which a parameter's value is made from its expression's value when the query starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Value,
    /// The session's time zone; the expression does not matter.
    SessionZone,
    /// The time zone with this name.
    Zone,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Conversion {
    Plain(Type),
    /// A value whose type the engine does not know, in the form in which the engine keeps it.
    Kept(Form),
    /// A char(n), which is padded with blanks to this many characters.
    Padded(u32),
}

/// The planner's message to the node that chooses between the two sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChooserSpec {
    pub heap: HeapSide,
    /// The cost comparison, if the query did not ask for the engine. Running such a query on the heap is never an
    /// error.
    pub unasked: Option<Unasked>,
}

/// The heap's side of a query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HeapSide {
    /// The heap's plan exists, and stands after the engine's side. The flags say which of its expressions are compiled
    /// (JIT); they were removed from the statement.
    Planned { jit_flags: i32 },
    /// The heap's plan is made when it is needed, with these planner options. The query to plan follows this message in
    /// the plan node.
    Unplanned { options: i32 },
    /// The heap's plan is the only side, for this reason.
    Alone(Reason),
}

/// The planner's comparison for a query that did not ask for the engine: the cost of the side that was not chosen, if
/// known.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Unasked {
    pub other_cost: Option<f64>,
}

/// Turns plain data into a node that can be copied and printed, like all parts of a plan.
pub fn to_node(data: &impl Serialize) -> *mut pg_sys::Node {
    // Serializing plain data into memory cannot fail.
    let bytes = postcard::to_stdvec(data).expect("plain data serialises");
    make::string(&hex(&bytes))
}

/// The data that [`to_node`] was given; `None` if the node does not hold such data.
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
