//! Shows the engine's plan in EXPLAIN's formats, with the names that the query uses.
//!
//! ```text
//!   Engine Plan:
//!     ->  Aggregate  (rows=7) (actual rows=7 own time=0.214 ms)
//!           Group Key: t.g
//!           ->  Filter  (rows=19995) (actual rows=19995 own time=0.101 ms)
//!                 Filter: (t.id > 5)
//!                 ->  Scan on t  (rows=20000) (actual rows=20000 own time=0.012 ms)
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::CStr;
use std::time::Duration;

use pgrx::prelude::*;
use plan::words::{Names, Scan, Words};
use plan::{ColumnId, Expr, JoinKind, Literal, Meaning, Source, Type};
use protocol::tree::{Actual, EnginePlan, Join, Method, Operator, Step};

use crate::pg::catalog::{column_name, quoted_name, relation_name};
use crate::pg::explain::Explain;
use crate::pg::place::Place;
use crate::pg::types;
use crate::spec::{self, ScanSpec};

/// Shows the plan, or the reason why there is no plan.
pub fn show(plan: Result<&EnginePlan, &str>, spec: &ScanSpec, place: Place<'_>, out: &Explain<'_>) {
    match plan {
        Err(reason) => out.property(c"No Engine Plan", reason),
        Ok(plan) => {
            let names = QueryNames { spec, aliases: unique(plan, spec), place, out };
            let words = Words::new(&plan.columns, &names);
            let scans = scanned_columns(plan).collect();
            let tree = Tree { scans, words, names: &names, out };
            let root = &plan.root;
            out.group(c"Engine Plan", || match out.is_text() {
                true => out.node(&tree.heading(root), || tree.inside(root)),
                false => tree.inside(root),
            });
        }
    }
}

/// Unique names for the scans. The first scan of each relation stands in the query itself, so it is the first to get
/// the query's name for the relation. Further scans were added by the optimizer.
fn unique(plan: &EnginePlan, spec: &ScanSpec) -> BTreeMap<Scan, String> {
    let own = (0..spec.names.len() as u16).map(|relation| Scan { number: 0, relation });
    let scans: BTreeSet<Scan> = own.chain(scanned_columns(plan).map(|(_, scan)| scan)).collect();
    let mut all: BTreeMap<Scan, String> = BTreeMap::new();
    let (mut taken, mut tried) = (HashSet::new(), HashMap::new());
    for scan in scans {
        let Some(names) = spec.names.get(scan.relation as usize) else { continue };
        // A large plan scans a table hundreds of times, so the search goes on after the last number.
        let tried = tried.entry(&names.alias).or_insert(0_u32);
        let alias = loop {
            let alias = if *tried == 0 { names.alias.clone() } else { format!("{}_{tried}", names.alias) };
            *tried += 1;
            if taken.insert(alias.clone()) {
                break alias;
            }
        };
        all.insert(scan, alias);
    }
    all
}

/// The columns that scans make, each with its scan.
fn scanned_columns(plan: &EnginePlan) -> impl Iterator<Item = (ColumnId, Scan)> {
    plan.columns.iter().filter_map(|(id, meaning)| match meaning {
        Meaning::Column { scan, .. } => Some((*id, *scan)),
        _ => None,
    })
}

struct QueryNames<'a> {
    spec: &'a ScanSpec,
    aliases: BTreeMap<Scan, String>,
    place: Place<'a>,
    out: &'a Explain<'a>,
}

impl QueryNames<'_> {
    fn column_alone(&self, relation: u16, at: u16) -> String {
        let (relation, at) = (relation as usize, at as usize);
        let of_table = self.spec.plan.relations.get(relation).and_then(|relation| relation.tables().first());
        if let Some((relid, Some(attnum))) = of_table.map(|table| (table.relid, table.attnums.get(at))) {
            return column_name(pg_sys::Oid::from(relid), *attnum);
        }
        match self.spec.names.get(relation).and_then(|names| names.columns.get(at)) {
            // A column that holds another column's number of digits has a name like a call, which needs no quotes.
            Some(name) if name.ends_with(')') => name.clone(),
            Some(name) => quoted_name(name),
            None => "?".into(),
        }
    }
}

impl Names for QueryNames<'_> {
    fn column(&self, scan: Scan, at: u16) -> String {
        let column = self.column_alone(scan.relation, at);
        let qualified = self.aliases.len() > 1 || self.out.is_verbose();
        match self.aliases.get(&scan) {
            Some(alias) if qualified => format!("{}.{column}", quoted_name(alias)),
            _ => column,
        }
    }

    fn parameter(&self, index: u16) -> Option<String> {
        let index = index as usize;
        if self.spec.sources.get(index) == Some(&spec::Source::SessionZone) {
            return None;
        }
        Some(self.place.expressions().nth(index).map_or("?".into(), |node| self.out.expression(node)))
    }

    fn constant(&self, ty: Type, literal: &Literal) -> String {
        types::shown(ty, literal)
    }
}

struct Tree<'a> {
    scans: HashMap<ColumnId, Scan>,
    words: Words<'a>,
    names: &'a QueryNames<'a>,
    out: &'a Explain<'a>,
}

impl Tree<'_> {
    /// The first line of an operator in text format.
    fn heading(&self, operator: &Operator) -> String {
        let node_type = self.node_type(&operator.step);
        let mut heading = match &operator.step {
            Step::Join(join) => match (join_type(join), join.method) {
                ("Inner", _) => node_type.to_owned(),
                (kind, Method::Hash) => format!("Hash {kind} Join"),
                (kind, Method::Range) => format!("Range {kind} Join"),
                (kind, Method::NestedLoop) => format!("{node_type} {kind} Join"),
            },
            Step::Scan { .. } => match self.scanned(&operator.step) {
                (Some(table), alias) if table != alias => format!("{node_type} on {table} {alias}"),
                (_, alias) => format!("{node_type} on {alias}"),
            },
            _ => node_type.to_owned(),
        };
        if let Some(rows) = operator.expected_rows.filter(|_| self.out.shows_costs()) {
            heading.push_str(&format!("  (rows={})", whole(rows)));
        }
        if let Some(Actual { rows, nanoseconds, .. }) = self.counted(operator) {
            let space = if heading.ends_with(')') { " " } else { "  " };
            let time = nanoseconds
                .filter(|_| self.out.shows_times())
                .map(|time| format!(" own time={:.3} ms", Duration::from_nanos(time).as_secs_f64() * 1000.0));
            heading.push_str(&format!("{space}(actual rows={rows}{})", time.unwrap_or_default()));
        }
        heading
    }

    /// The properties of an operator: in text format, the lines below its heading; in the other formats, all of them.
    fn inside(&self, operator: &Operator) {
        if !self.out.is_text() {
            self.told(operator);
        }
        self.details(operator);
        if let Some(Actual { memory_bytes, disk_bytes, chunks, without_partner, .. }) = &operator.actual {
            let hides = self.hides(operator);
            if *without_partner > 0 && !hides {
                self.out.number(c"Rows Removed by Join Filter", *without_partner);
            }
            if *memory_bytes > 0 {
                self.out.memory(c"Memory Usage", *memory_bytes);
            }
            if *disk_bytes > 0 {
                self.out.memory(if self.out.is_text() { c"Disk" } else { c"Disk Usage" }, *disk_bytes);
            }
            match chunks {
                _ if hides || self.is_sent(&operator.step) => {}
                Some(chunks) if self.out.is_text() => {
                    self.out.property(c"Chunks Read", &format!("{} of {}", chunks.read, chunks.of));
                }
                Some(chunks) => {
                    self.out.number(c"Chunks Read", chunks.read);
                    self.out.number(c"Chunks", chunks.of);
                }
                None => {}
            }
        }
        if operator.inputs.is_empty() {
            return;
        }
        self.out.nodes(|| {
            for input in &operator.inputs {
                self.out.node(&self.heading(input), || self.inside(input));
            }
        });
    }

    /// The properties that the text format shows in the heading.
    fn told(&self, operator: &Operator) {
        self.out.property(c"Node Type", self.node_type(&operator.step));
        match &operator.step {
            Step::Scan { .. } => {
                let (table, alias) = self.scanned(&operator.step);
                if let Some(table) = table {
                    self.out.property(c"Relation Name", &table);
                }
                self.out.property(c"Alias", &alias);
            }
            Step::Join(join) => self.out.property(c"Join Type", join_type(join)),
            _ => {}
        }
        if let Some(rows) = operator.expected_rows.filter(|_| self.out.shows_costs()) {
            self.out.number(c"Plan Rows", whole(rows));
        }
        if let Some(Actual { rows, nanoseconds, .. }) = self.counted(operator) {
            self.out.number(c"Actual Rows", *rows);
            if let Some(time) = nanoseconds {
                self.out.time(c"Own Time", Duration::from_nanos(*time));
            }
        }
    }

    fn details(&self, operator: &Operator) {
        match &operator.step {
            step @ Step::Scan { read, .. } => {
                if let Some(scan) = self.scan(step).filter(|_| self.out.is_verbose()) {
                    self.list(c"Columns", read.iter().map(|at| self.names.column(scan, *at)));
                }
            }
            Step::Row | Step::Hash | Step::Union | Step::GroupingSets | Step::Values { .. } => {}
            Step::Shared { number, .. } => self.out.number(c"Shared Rows", u64::from(*number)),
            Step::Filter { conditions } => self.conditions(c"Filter", conditions),
            Step::Join(Join { keys, limits, conditions, .. }) => {
                if !keys.is_empty() {
                    self.out.property(c"Hash Cond", &self.words.equalities(keys));
                }
                self.conditions(c"Range Cond", limits);
                self.conditions(c"Join Filter", conditions);
            }
            Step::Aggregate { keys, aggregates } => {
                self.list(c"Group Key", keys.iter().map(|key| self.words.expression(&key.expr)));
                if self.out.is_verbose() {
                    self.list(c"Aggregates", aggregates.iter().map(|aggregate| self.words.aggregate(aggregate)));
                }
            }
            Step::Top { keys, order, range } => {
                self.list(c"Group Key", keys.iter().map(|key| self.words.expression(key)));
                self.list(c"Sort Key", order.iter().map(|key| self.words.sort_key(key)));
                let ties = if range.ties { " with ties" } else { "" };
                for (label, number, ties) in [(c"Limit", &range.count, ties), (c"Offset", &range.offset, "")] {
                    if let Some(number) = number {
                        self.out.property(label, &format!("{}{ties}", self.words.expression(number)));
                    }
                }
            }
            Step::Unfold { list } => {
                self.out.property(c"Function Call", &self.words.list(list));
            }
            Step::Window { over, functions } => {
                self.list(c"Partition Key", over.partition.iter().map(|key| self.words.expression(key)));
                self.list(c"Sort Key", over.order.iter().map(|key| self.words.sort_key(key)));
                if self.out.is_verbose() {
                    self.list(c"Functions", functions.iter().map(|function| self.words.window_function(function)));
                }
            }
        }
    }

    fn node_type(&self, step: &Step) -> &'static str {
        match step {
            Step::Scan { .. } if self.is_sent(step) => "Sent Along Scan",
            Step::Scan { .. } => "Scan",
            Step::Row => "Result",
            Step::Values { .. } => "Values",
            Step::Filter { .. } => "Filter",
            Step::Join(Join { method: Method::Hash, .. }) => "Hash Join",
            Step::Join(Join { method: Method::Range, .. }) => "Range Join",
            Step::Join(Join { method: Method::NestedLoop, .. }) => "Nested Loop",
            Step::Hash => "Hash",
            Step::Union => "Union",
            Step::Shared { is_first: true, .. } => "Materialize",
            Step::Shared { is_first: false, .. } => "Materialized Scan",
            Step::Aggregate { .. } => "Aggregate",
            Step::GroupingSets => "Grouping Sets",
            Step::Top { keys, .. } if !keys.is_empty() => "Top-N per Group",
            Step::Top { order, .. } if order.is_empty() => "Limit",
            Step::Top { range, .. } if range.count.is_none() => "Sort",
            Step::Top { .. } => "Top-N",
            Step::Unfold { list } if list.outer => "Unfold Left",
            Step::Unfold { .. } => "Unfold",
            Step::Window { .. } => "Window",
        }
    }

    /// The scan of a scan step; `None` for any other step.
    fn scan(&self, step: &Step) -> Option<Scan> {
        let Step::Scan { relation, first, .. } = step else { return None };
        let scan = first.and_then(|first| self.scans.get(&first).copied());
        Some(scan.unwrap_or(Scan { number: 0, relation: *relation }))
    }

    /// The measured figures of a step; `None` for a scan that leaves out rows which the user may not see.
    fn counted<'o>(&self, operator: &'o Operator) -> Option<&'o Actual> {
        let is_scan = matches!(operator.step, Step::Scan { .. });
        operator.actual.as_ref().filter(|_| !is_scan || !self.hides(operator))
    }

    /// Whether a scan, or a filter above a scan, leaves out rows that the user may not see.
    fn hides(&self, operator: &Operator) -> bool {
        match &operator.step {
            Step::Scan { relation, .. } => {
                self.names.spec.names.get(*relation as usize).is_some_and(|names| names.hides)
            }
            Step::Filter { .. } => operator.inputs.iter().any(|input| self.hides(input)),
            _ => false,
        }
    }

    /// Whether a step reads rows that PostgreSQL has computed and sent along.
    fn is_sent(&self, step: &Step) -> bool {
        let relation = self.scan(step).and_then(|scan| self.names.spec.plan.relations.get(scan.relation as usize));
        relation.is_some_and(|relation| relation.source == Source::Sent)
    }

    /// The name of the table, if the scan reads one, and the name of the scan itself.
    fn scanned(&self, step: &Step) -> (Option<String>, String) {
        let scan = self.scan(step);
        let names = scan.and_then(|scan| self.names.spec.names.get(scan.relation as usize));
        let alias = scan.and_then(|scan| self.names.aliases.get(&scan)).map_or("?".into(), |alias| quoted_name(alias));
        (names.and_then(|names| names.relid).map(|relid| quoted_name(&relation_name(pg_sys::Oid::from(relid)))), alias)
    }

    fn conditions(&self, label: &CStr, all: &[Expr]) {
        if !all.is_empty() {
            self.out.property(label, &self.words.conditions(all));
        }
    }

    fn list(&self, label: &CStr, all: impl ExactSizeIterator<Item = String>) {
        if all.len() > 0 {
            self.out.list(label, all);
        }
    }
}

/// The type of a join, as PostgreSQL names it. If the join keeps the rows of its second side instead of the first, the
/// name is reversed: Right instead of Left.
fn join_type(join: &Join) -> &'static str {
    match (join.kind, join.keeps_second) {
        (JoinKind::Inner, _) => "Inner",
        (JoinKind::Left, false) => "Left",
        (JoinKind::Left, true) => "Right",
        (JoinKind::Full, _) => "Full",
        (JoinKind::Semi, false) => "Semi",
        (JoinKind::Semi, true) => "Right Semi",
        (JoinKind::Anti, false) => "Anti",
        (JoinKind::Anti, true) => "Right Anti",
        (JoinKind::Mark(_), false) => "Mark",
        (JoinKind::Mark(_), true) => "Right Mark",
    }
}

/// Rounds a number of rows, to at least one, because a small estimate does not promise that there are none.
fn whole(rows: f64) -> u64 {
    rows.round().max(1.0) as u64
}
