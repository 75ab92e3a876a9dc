//! Finds the n of a char(n) for an expression that PostgreSQL does not label with n. PostgreSQL loses n if one of the
//! values is a null, as in `CASE WHEN … THEN code END` or `SELECT code … UNION SELECT NULL …`.

use std::collections::BTreeSet;

use pgrx::prelude::*;

use super::origins::{self, Judge, Verdict};
use crate::pg::tree::Node;
use crate::pg::types;
use crate::planner::translate::Translator;
use crate::planner::translate::scope::Scope;

impl<'a> Translator<'a> {
    /// The n that all values of the expression have, except nulls; `None` if they have several.
    pub fn char_length(&self, node: Node<'a>) -> Option<u32> {
        let levels: Vec<_> = self.scopes.iter().map(Scope::own_query).collect();
        let mut lengths = Lengths(BTreeSet::new());
        if !origins::follow(&mut lengths, node, &levels) {
            return None;
        }
        let length = lengths.0.pop_first()?;
        lengths.0.is_empty().then_some(length)
    }
}

/// The lengths found so far.
struct Lengths(BTreeSet<u32>);

impl<'a> Judge<'a> for Lengths {
    /// Sources that cannot be followed may have values of any length.
    const OTHERS: bool = false;

    fn judge(&mut self, node: Node<'a>) -> Verdict {
        let (_, modifier) = types::without_domain(node.sql_type(), node.type_modifier());
        if let length @ 1.. = modifier - pg_sys::VARHDRSZ as i32 {
            self.0.insert(length as u32);
            return Verdict::Fine;
        }
        match node.cast::<pg_sys::Const>() {
            Some(constant) if constant.constisnull => Verdict::Fine,
            Some(_) => Verdict::Wrong,
            None => Verdict::Follow,
        }
    }
}
