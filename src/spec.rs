//! The agreement of planner and scan: the names of the two nodes, and the messages from one to the other. These
//! travel in the plan node, and so through plan caches.

use std::ffi::CStr;

use pgrx::prelude::*;
use plan::catalogue::Spread;
use plan::{Plan, Type};
use serde::{Deserialize, Serialize};

use crate::pg::tree::{Node, push, string_node};
use crate::pg::value::Form;
use crate::reason::{Reason, Why};

/// The node on top, which chooses between engine and heap.
pub const CHOOSER: &CStr = c"Anker";
/// The scan of the engine's result.
pub const ENGINE: &CStr = c"Anker Engine";

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

/// How a query calls what it reads, for EXPLAIN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RelationNames {
    pub alias: String,
    /// The table; `None`: rows that the backend computes.
    pub relid: Option<u32>,
    /// The columns of such rows; those of tables are in the catalog.
    pub columns: Vec<String>,
    /// There are rows that the user may not see. How many of them have what values nobody is told.
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

impl ScanSpec {
    /// As a list for `custom_private`, which may hold only nodes that can be copied and printed.
    pub fn to_list(&self) -> *mut pg_sys::List {
        // Serialising plain data into memory has no way to fail.
        let bytes = postcard::to_stdvec(self).expect("plain data serialises");
        let mut list = std::ptr::null_mut();
        push(&mut list, string_node(&hex(&bytes)));
        list
    }

    pub fn from_node(node: Node<'_>) -> Option<ScanSpec> {
        postcard::from_bytes(&unhex(&node.string()?)?).ok()
    }
}

/// A heap reason, for the `custom_private` of the node that chooses.
pub fn reason_to_list(reason: &Reason) -> *mut pg_sys::List {
    let mut list = std::ptr::null_mut();
    push(&mut list, string_node(reason.why.name()));
    push(&mut list, string_node(&reason.text));
    list
}

/// `None`: nothing is said.
pub fn reason_from<'a>(told: &mut impl Iterator<Item = Node<'a>>) -> Option<Reason> {
    let why = told.next().and_then(Node::string)?;
    let text = told.next().and_then(Node::string).unwrap_or_default();
    Some(Why::named(&why).unwrap_or(Why::Engine).of(text))
}

/// The heap's side of a query that has no plan for it yet.
pub struct UnplannedHeap<'a> {
    pub query: Node<'a>,
    /// As the planner was given them.
    pub options: i32,
}

impl<'a> UnplannedHeap<'a> {
    /// For the `custom_private` of the node that chooses.
    pub fn to_list(query: *mut pg_sys::Query, options: i32) -> *mut pg_sys::List {
        let mut list = std::ptr::null_mut();
        push(&mut list, query);
        push(&mut list, string_node(&options.to_string()));
        list
    }

    /// `None`: there is a plan.
    pub fn of(mut private: impl Iterator<Item = Node<'a>>) -> Option<UnplannedHeap<'a>> {
        let query = private.next().filter(|node| node.cast::<pg_sys::Query>().is_some())?;
        let options = private.next().and_then(Node::string)?.parse().ok()?;
        Some(UnplannedHeap { query, options })
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[(b >> 4) as usize] as char, DIGITS[(b & 15) as usize] as char]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
