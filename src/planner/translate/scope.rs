//! The names that the expressions of a SELECT level may use: the columns of the items of its FROM. An item is known by
//! its number in the range table.

use pgrx::prelude::*;

use super::level::window::Computed;
use super::translator::{Ask, Asked, Translator, Typed, exact};
use crate::layout::{self, Excluded};
use crate::pg::catalog::relation_name;
use crate::pg::relation::{self, OpenRelation, has_children, keys_determine};
use crate::pg::tree::{Node, Ref, Shape};
use crate::pg::types;
use crate::planner::words::reason::{Attempt, Why, type_reason};
use crate::spec::RelationNames;
use plan::{Expr, MirrorColumn, Named, Relation, SortKey, Source, Type};

/// The scope of one level. In [`Translator`]'s list, the scopes of outer levels come before it.
pub struct Scope<'a> {
    pub query: Ref<'a, pg_sys::Query>,
    /// Whether the scope's only item holds the columns computed from the query's level, instead of the items of FROM.
    is_above: bool,
    items: Vec<Item>,
    /// Whether the result depends on the order in which the rows of FROM's only item arrive.
    pub order_matters: bool,
    /// The order of the only item's rows, if a subquery has sorted them and the order matters.
    pub order: Option<Vec<SortKey>>,
    /// Whether the level is computed a second time. It must then return the same rows both times.
    pub is_repeated: bool,
    /// The window functions of the level that were translated already.
    pub windows: Vec<Computed<'a>>,
    /// The operands of the simple CASE expressions that are being translated, the innermost last.
    pub case_values: Vec<Typed>,
    /// The columns of the subquery whose comparison is being translated.
    pub compared: Vec<Attempt<Typed>>,
}

struct Item {
    /// The item's number in the range table, from 1.
    index: i32,
    rows: Rows,
}

enum Rows {
    Table(Table),
    /// The columns of a subquery. An error says why a column cannot be used.
    Subquery(Vec<Attempt<Typed>>),
    /// Rows that PostgreSQL computes.
    Sent {
        /// The index of the relation in the plan's list.
        relation: u16,
        /// The table whose primary key is unique among the rows, if all rows come from one table.
        keyed: Option<pg_sys::Oid>,
    },
}

struct Table {
    name: String,
    /// The table whose primary key is unique among the rows. `None` if other tables inherit from it.
    keyed: Option<pg_sys::Oid>,
    columns: Vec<MirrorColumn>,
    excluded: Vec<Excluded>,
    /// The index of the relation in the plan's list.
    relation: u16,
    /// The attribute numbers of `columns`, for each mirrored table that holds rows of the relation.
    numbers: Vec<Vec<i16>>,
}

impl<'a> Scope<'a> {
    pub fn of(query: Ref<'a, pg_sys::Query>) -> Scope<'a> {
        Scope {
            query,
            is_above: false,
            items: Vec::new(),
            order_matters: false,
            order: None,
            is_repeated: false,
            windows: Vec::new(),
            case_values: Vec::new(),
            compared: Vec::new(),
        }
    }

    /// The scope of expressions that read the columns computed from a level.
    pub fn above(query: Ref<'a, pg_sys::Query>, columns: Vec<Attempt<Typed>>) -> Scope<'a> {
        let mut scope = Scope { is_above: true, ..Scope::of(query) };
        scope.add_subquery(1, columns);
        scope
    }

    /// The query to whose items columns refer; `None` if they refer to computed columns instead.
    pub fn own_query(&self) -> Option<Ref<'a, pg_sys::Query>> {
        (!self.is_above).then_some(self.query)
    }

    pub fn add_subquery(&mut self, index: i32, columns: Vec<Attempt<Typed>>) {
        self.items.push(Item { index, rows: Rows::Subquery(columns) });
    }

    pub fn add_sent(&mut self, index: i32, relation: u16, keyed: Option<pg_sys::Oid>) {
        self.items.push(Item { index, rows: Rows::Sent { relation, keyed } });
    }

    /// Removes an item whose translation failed.
    pub fn remove(&mut self, index: i32) {
        self.items.retain(|item| item.index != index);
    }

    /// Whether a column of a grouped query may stand outside aggregates, because the keys contain the primary key of
    /// its table.
    pub fn depends_on(&self, column: Ref<'_, pg_sys::Var>, keys: &[Node<'_>]) -> bool {
        let item = self.items.iter().find(|item| item.index == column.varno && column.varlevelsup == 0);
        match item.map(|item| &item.rows) {
            Some(Rows::Table(Table { keyed: Some(relid), .. }) | Rows::Sent { keyed: Some(relid), .. }) => {
                keys_determine(*relid, &column, keys)
            }
            _ => false,
        }
    }
}

/// The name that the query gives to an item of FROM.
pub fn alias(entry: Ref<'_, pg_sys::RangeTblEntry>) -> String {
    entry.name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

impl<'a> Translator<'a> {
    /// Adds a table in FROM to the innermost scope. Returns its index in the plan's list of relations.
    pub fn open_table(&mut self, index: i32, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Attempt<u16> {
        let name = relation_name(entry.relid);
        if !entry.tablesample.is_null() {
            return Err(Why::FromItem.of("TABLESAMPLE"));
        }
        // The query holds a lock on its relations.
        let open = OpenRelation::locked(entry.relid);
        let (columns, excluded) = layout::columns(&open);
        let relids = self.family(entry)?;
        // A unique key of a partitioned table contains the partition key, so it is unique among the rows of all
        // partitions.
        let key = if open.is_partitioned() { open.identity_attributes() } else { Vec::new() };
        let mut apart = !key.is_empty() || relids.len() == 1;
        let (mut tables, mut numbers) = (Vec::new(), Vec::new());
        for relid in relids {
            let member = OpenRelation::locked(relid);
            layout::describe(&member).map_err(|e| match relid == entry.relid {
                true => Why::NotLive.of(e.message),
                false => Why::NotLive.of(format!("table \"{}\", a part of \"{name}\": {}", member.name(), e.message)),
            })?;
            let number = |attnum: i16| match relid == entry.relid {
                true => Some(attnum),
                false => member.column_named_as(&open.attributes()[attnum as usize - 1]),
            };
            let mut same_key = key.iter().map(|attnum| number(*attnum)).collect::<Option<Vec<_>>>().unwrap_or_default();
            same_key.sort_unstable();
            apart &= relid == entry.relid || same_key == member.identity_attributes();
            let all = columns.iter().map(|column| number(column.attnum)).collect::<Option<_>>();
            numbers.push(all.ok_or_else(|| Why::FromItem.of(format!("table \"{name}\" has a part of another form")))?);
            tables.push(plan::Table { relid: relid.to_u32(), attnums: Vec::new() });
        }
        let relid = Some(entry.relid.to_u32());
        let names = RelationNames { alias: alias(entry), relid, ..RelationNames::default() };
        let source = Source::Tables { tables, apart };
        let relation = self.add_relation(Relation::new(source, Vec::new()), names)?;
        let keyed = keyed(entry);
        let table = Table { name, keyed, columns, excluded, relation, numbers };
        self.scope_mut().items.push(Item { index, rows: Rows::Table(table) });
        Ok(relation)
    }

    /// A table with its partitions or children. The first answer is kept during the translation, even if tables are
    /// attached or detached meanwhile.
    pub fn family(&mut self, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Attempt<Vec<pg_sys::Oid>> {
        if !entry.inh {
            return Ok(vec![entry.relid]);
        }
        if let Some((_, known)) = self.families.iter().find(|(whole, _)| *whole == entry.relid) {
            return Ok(known.clone());
        }
        // The heap's plan has locked only the tables that it reads. Another process may be altering a partition or
        // child that the heap's plan does not read.
        let found = relation::family_at_hand(entry.relid).map_err(|locked| {
            let (part, whole) = (relation_name(locked), relation_name(entry.relid));
            Why::Definition.of(match locked == entry.relid {
                true => format!("parts of table \"{whole}\" come and go"),
                false => format!("somebody has table \"{part}\" locked, a part of \"{whole}\""),
            })
        })?;
        self.families.push((entry.relid, found.clone()));
        Ok(found)
    }

    /// An arbitrary column of a table of the innermost scope.
    pub fn any_column(&mut self, index: i32) -> Attempt<Expr> {
        let item = self.scope_mut().items.iter().find(|item| item.index == index);
        let attnum = item.and_then(|item| match &item.rows {
            Rows::Table(table) => table.columns.first().map(|column| column.attnum),
            _ => None,
        });
        let attnum = attnum.ok_or_else(|| Why::Expression.of("table without a column"))?;
        let column = self.memory.column(index, attnum, Shape::of(pg_sys::InvalidOid));
        Ok(self.variable(column, Ask::default())?.expr)
    }

    /// The value of a column of this level or of an outer level.
    pub fn variable(&mut self, var: Ref<'_, pg_sys::Var>, ask: Ask) -> Attempt<Typed> {
        match var.varattno {
            0 => return Err(Why::Expression.of("whole row")),
            ..0 => return Err(Why::Expression.of("system column")),
            _ => {}
        }
        let level = self
            .scopes
            .len()
            .checked_sub(var.varlevelsup as usize + 1)
            .ok_or_else(|| Why::Expression.of("column of an unknown query"))?;
        let item = self.scopes[level].items.iter().find(|item| item.index == var.varno);
        let table = match &item.ok_or_else(|| Why::Expression.of("column of something that is not a table"))?.rows {
            Rows::Subquery(columns) => {
                let typed = columns
                    .get(var.varattno as usize - 1)
                    .cloned()
                    .ok_or_else(|| Why::Expression.of("column that is not there"))??;
                return seen_by(ask, var, typed);
            }
            Rows::Sent { relation, .. } => {
                let typed = self.sent_column(*relation, var)?;
                return seen_by(ask, var, typed);
            }
            Rows::Table(table) => table,
        };
        let Some(at) = table.columns.iter().position(|column| column.attnum == var.varattno) else {
            let excluded = table.excluded.iter().find(|e| e.attnum == var.varattno);
            return Err(match excluded {
                Some(e) => {
                    let (column, table, why) = (&e.name, &table.name, &e.reason);
                    Why::Type.of(format!("column \"{column}\" of table \"{table}\" is not mirrored: {why}"))
                }
                None => type_reason(var.vartype),
            });
        };
        let (relation, ty) = (table.relation, table.columns[at].ty);
        let numbers: Vec<i16> = table.numbers.iter().map(|columns| columns[at]).collect();
        let id = self.scanned_column(relation, Asked::Column(var.varattno), ty, &numbers)?;
        let form = match (ty, types::without_domain(var.vartype, -1).0) {
            (Type::Opaque, pg_sys::NUMERICOID) => Some((Named::FromStored, Type::Numeric)),
            (Type::Opaque, pg_sys::INTERVALOID) => Some((Named::IntervalOfStored, Type::Interval)),
            _ => None,
        };
        let column = Expr::column(id);
        seen_by(
            ask,
            var,
            match form {
                Some((function, ty)) => exact(Expr::Call { function, ty, args: vec![column] }, ty),
                None => exact(column, ty),
            },
        )
    }
}

/// Checks an outer column that a subquery reads. The engine may compute the subquery once for several equal outer
/// values. 0 and -0 are equal, but the result could show which of the two the engine has used. So a column of floats is
/// refused unless the subquery only compares it.
fn seen_by(ask: Ask, var: Ref<'_, pg_sys::Var>, typed: Typed) -> Attempt<Typed> {
    if var.varlevelsup > 0 && typed.ty.is_float() && !ask.only_compared {
        return Err(Why::RowOrder.of("subquery that computes with a double precision value of the rows around it"));
    }
    Ok(typed)
}

/// The table of an entry, if the table's primary key is unique among all rows of the entry.
pub fn keyed(entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<pg_sys::Oid> {
    let is_partitioned = entry.relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE;
    (is_partitioned || !entry.inh || !has_children(entry.relid)).then_some(entry.relid)
}
