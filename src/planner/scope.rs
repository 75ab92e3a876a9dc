//! What the expressions of a SELECT level may refer to: the items of its FROM, by their place in the range table.

use pgrx::prelude::*;

use super::reason::{Attempt, type_reason};
use super::translate::{Translator, Typed, exact};
use crate::layout::{self, Described};
use crate::pg::catalog::relation_name;
use crate::pg::relation::{OpenRelation, has_children, keys_determine};
use plan::{Expr, Relation, RelationColumn};

/// A level; those around it come before it in [`Translator`]'s list.
pub struct Scope<'a> {
    pub query: &'a pg_sys::Query,
    items: Vec<Item>,
}

struct Item {
    /// Position in the range table, from 1.
    index: i32,
    rows: Rows,
}

enum Rows {
    Table(Table),
    /// The columns of a subquery, or why there is none.
    Subquery(Vec<Attempt<Typed>>),
}

struct Table {
    name: String,
    relid: pg_sys::Oid,
    described: Described,
    /// Its place in the plan's list.
    relation: u16,
}

impl<'a> Scope<'a> {
    pub fn of(query: &'a pg_sys::Query) -> Scope<'a> {
        Scope { query, items: Vec::new() }
    }

    pub fn add_subquery(&mut self, index: i32, columns: Vec<Attempt<Typed>>) {
        self.items.push(Item { index, rows: Rows::Subquery(columns) });
    }

    /// Whether a column of a grouped query needs no grouping: its table's primary key is among the keys.
    pub fn depends_on(&self, column: &pg_sys::Var, keys: *mut pg_sys::List) -> bool {
        let item = self.items.iter().find(|item| item.index == column.varno && column.varlevelsup == 0);
        match item.map(|item| &item.rows) {
            Some(Rows::Table(table)) => keys_determine(table.relid, column, keys),
            _ => false,
        }
    }
}

impl<'a> Translator<'a> {
    /// Makes a table of FROM part of the innermost scope; its number in the plan.
    pub fn open_table(&mut self, index: i32, entry: &pg_sys::RangeTblEntry) -> Attempt<u16> {
        let name = relation_name(entry.relid);
        if entry.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE {
            return Err(format!("table \"{name}\" is partitioned"));
        }
        if !entry.tablesample.is_null() {
            return Err("TABLESAMPLE".into());
        }
        if entry.inh && has_children(entry.relid) {
            return Err(format!("table \"{name}\" has child tables"));
        }
        // The query holds a lock on its relations.
        let open = OpenRelation::locked(entry.relid);
        if open.has_row_security() || !entry.securityQuals.is_null() {
            return Err(format!("table \"{name}\" has row-level security"));
        }
        let described = layout::describe(&open).map_err(|e| e.message)?;
        let relation = self.add_relation(Relation { relid: entry.relid.to_u32(), columns: Vec::new() })?;
        let table = Table { name, relid: entry.relid, described, relation };
        self.scope_mut().items.push(Item { index, rows: Rows::Table(table) });
        Ok(relation)
    }

    /// What a column of this level, or of one around it, is.
    pub fn variable(&mut self, var: &pg_sys::Var) -> Attempt<Typed> {
        match var.varattno {
            0 => return Err("whole row".into()),
            ..0 => return Err("system column".into()),
            _ => {}
        }
        let level = self.scopes.len().checked_sub(var.varlevelsup as usize + 1).ok_or("column of an unknown query")?;
        let item = self.scopes[level].items.iter().find(|item| item.index == var.varno);
        let table = match &item.ok_or("column of something that is not a table")?.rows {
            Rows::Subquery(columns) => {
                let typed = columns.get(var.varattno as usize - 1).cloned().ok_or("column that is not there")??;
                return self.seen_from(var, typed);
            }
            Rows::Table(table) => table,
        };
        let layout = &table.described.layout;
        let Some(column) = layout.position(var.varattno).map(|at| &layout.columns[at]) else {
            let excluded = table.described.excluded.iter().find(|e| e.attnum == var.varattno);
            return Err(match excluded {
                Some(e) => format!("column \"{}\" of table \"{}\" is not mirrored: {}", e.name, table.name, e.reason),
                None => type_reason(var.vartype),
            });
        };
        let (relation, ty) = (table.relation, column.ty);
        let id = self.scanned_column(relation, RelationColumn { attnum: var.varattno, ty })?;
        self.seen_from(var, exact(Expr::column(id), ty))
    }

    /// Of equal values a subquery may get any, which shows where two zeros are equal.
    fn seen_from(&self, var: &pg_sys::Var, typed: Typed) -> Attempt<Typed> {
        if var.varlevelsup > 0 && typed.ty.is_float() && !self.is_operand {
            return Err("subquery that computes with a double precision value of the rows around it".into());
        }
        Ok(typed)
    }
}
