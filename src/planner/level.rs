//! FROM and WHERE of a SELECT level: which tables, joined how, restricted by what.
//!
//! Whether the tables are mirrored right now is asked when the query runs: a plan may live longer than that.

use pgrx::prelude::*;
use plan::{Expr, Relation, RelationColumn};

use super::reason::{Attempt, type_reason};
use super::translate::{Typed, exact};
use crate::layout::{self, Described};
use crate::pg::compat;
use crate::pg::relation::{OpenRelation, has_children, keys_determine, relation_name};
use crate::pg::tree::{Node, Tree, push};

/// The tables of a level, and which of their columns are used.
pub struct Source {
    tables: Vec<Table>,
}

struct Table {
    /// Position in the range table, from 1.
    index: i32,
    name: String,
    relid: pg_sys::Oid,
    described: Described,
    touched: Vec<RelationColumn>,
}

impl Source {
    /// Opens the tables of FROM; its conditions (ON, WHERE) come back as conjuncts, simplified as the planner does.
    ///
    /// # Safety
    ///
    /// `query` belongs to `tree`, and its relations are locked.
    pub unsafe fn open<'a>(tree: Tree<'a>, query: &'a pg_sys::Query) -> Attempt<(Source, Vec<Node<'a>>)> {
        let mut source = Source { tables: Vec::new() };
        let mut quals = std::ptr::null_mut();
        let range_table: Vec<&pg_sys::RangeTblEntry> = tree.list_of(query.rtable).collect();
        source.add(tree, &range_table, tree.required(query.jointree), &mut quals)?;
        if source.tables.is_empty() {
            return Err("no table in FROM".into());
        }
        // SAFETY: `quals` is a list of expressions of this query; each step returns a valid expression.
        let conjuncts = unsafe {
            let all = simplified(flattened(query, pg_sys::make_ands_explicit(quals).cast()));
            pg_sys::make_ands_implicit(pg_sys::canonicalize_qual(all.cast(), false))
        };
        Ok((source, tree.list(conjuncts).collect()))
    }

    fn add<'a>(
        &mut self,
        tree: Tree<'a>,
        range_table: &[&'a pg_sys::RangeTblEntry],
        item: Node<'a>,
        quals: &mut *mut pg_sys::List,
    ) -> Attempt<()> {
        if let Some(from) = item.cast::<pg_sys::FromExpr>() {
            for child in tree.list(from.fromlist) {
                self.add(tree, range_table, child, quals)?;
            }
            add_qual(from.quals, quals);
        } else if let Some(join) = item.cast::<pg_sys::JoinExpr>() {
            if join.jointype != pg_sys::JoinType::JOIN_INNER {
                return Err("outer join".into());
            }
            self.add(tree, range_table, tree.required(join.larg), quals)?;
            self.add(tree, range_table, tree.required(join.rarg), quals)?;
            add_qual(join.quals, quals);
        } else if let Some(reference) = item.cast::<pg_sys::RangeTblRef>() {
            let entry = range_table.get(reference.rtindex as usize - 1).ok_or("unknown item in FROM")?;
            self.tables.push(Table::open(reference.rtindex, entry)?);
        } else {
            return Err("unknown item in FROM".into());
        }
        Ok(())
    }

    pub fn column(&mut self, var: &pg_sys::Var) -> Attempt<Typed> {
        if var.varlevelsup != 0 {
            return Err("column of an outer query".into());
        }
        let found = self.tables.iter_mut().enumerate().find(|(_, t)| t.index == var.varno);
        let (rel, table) = found.ok_or("column of something that is not a table")?;
        match var.varattno {
            0 => return Err("whole row".into()),
            ..0 => return Err("system column".into()),
            _ => {}
        }
        let layout = &table.described.layout;
        let Some(column) = layout.position(var.varattno).map(|at| &layout.columns[at]) else {
            let excluded = table.described.excluded.iter().find(|e| e.attnum == var.varattno);
            return Err(match excluded {
                Some(e) => format!("column \"{}\" of table \"{}\" is not mirrored: {}", e.name, table.name, e.reason),
                None => type_reason(var.vartype),
            });
        };
        let ty = column.ty;
        let col = table.touched.iter().position(|c| c.attnum == var.varattno).unwrap_or_else(|| {
            table.touched.push(RelationColumn { attnum: var.varattno, ty });
            table.touched.len() - 1
        });
        Ok(exact(Expr::Column { rel: rel as u16, col: col as u16 }, ty))
    }

    /// Whether a column of a grouped query needs no grouping: its table's primary key is among the keys.
    pub fn depends_on(&self, column: &pg_sys::Var, keys: *mut pg_sys::List) -> bool {
        let table = self.tables.iter().find(|table| table.index == column.varno);
        table.is_some_and(|table| keys_determine(table.relid, column, keys))
    }

    /// Whether a condition looks at one table only.
    pub fn concerns_one_table(&self, condition: Node<'_>) -> bool {
        // SAFETY: a valid expression without sublinks above its own level, so that no planner state is needed.
        let members = unsafe { pg_sys::bms_num_members(pg_sys::pull_varnos(std::ptr::null_mut(), condition.as_ptr())) };
        members <= 1
    }

    pub fn into_relations(self) -> Vec<Relation> {
        self.tables.into_iter().map(|t| Relation { relid: t.relid.to_u32(), columns: t.touched }).collect()
    }
}

impl Table {
    fn open(index: i32, entry: &pg_sys::RangeTblEntry) -> Attempt<Table> {
        match entry.rtekind {
            pg_sys::RTEKind::RTE_RELATION => {}
            pg_sys::RTEKind::RTE_SUBQUERY => return Err("subquery or view in FROM".into()),
            pg_sys::RTEKind::RTE_FUNCTION => return Err("function in FROM".into()),
            pg_sys::RTEKind::RTE_CTE => return Err("WITH query in FROM".into()),
            pg_sys::RTEKind::RTE_VALUES => return Err("VALUES in FROM".into()),
            _ => return Err("something that is not a table in FROM".into()),
        }
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
        let relation = OpenRelation::locked(entry.relid);
        if relation.has_row_security() || !entry.securityQuals.is_null() {
            return Err(format!("table \"{name}\" has row-level security"));
        }
        let described = layout::describe(&relation).map_err(|e| e.message)?;
        Ok(Table { index, name, relid: entry.relid, described, touched: Vec::new() })
    }
}

/// An expression of `query` with the columns of joins resolved: a new tree, as the parser sees it when it looks for
/// ungrouped columns.
///
/// # Safety
///
/// `node` is null or an expression, or list of expressions, of `query`.
pub unsafe fn flattened(query: &pg_sys::Query, node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { compat::flatten_join_columns(std::ptr::from_ref(query).cast_mut(), node) }
}

/// A flattened expression as the planner sees it: a new tree with constants folded, negations pushed down, SQL functions
/// inlined.
///
/// # Safety
///
/// `node` is null or an expression, or list of expressions.
pub unsafe fn simplified(node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise.
    unsafe { pg_sys::eval_const_expressions(std::ptr::null_mut(), node) }
}

fn add_qual(qual: *mut pg_sys::Node, quals: &mut *mut pg_sys::List) {
    if !qual.is_null() {
        push(quals, qual);
    }
}
