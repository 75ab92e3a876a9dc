//! Rows that PostgreSQL computes for the engine. They come from tables that are not mirrored or that this transaction
//! has written, from functions, or from other items of FROM that the engine cannot compute. They must not depend on
//! other rows of the query.
//!
//! ```text
//!   FROM t JOIN colours c USING (id) WHERE c.name <> 'red'      colours is not mirrored
//!
//!   PostgreSQL   SELECT c.id FROM colours c WHERE c.name <> 'red'
//!   engine       FROM t JOIN (these rows) USING (id)
//! ```
//!
//! If there are too many of these rows, the query runs on the heap. This is decided by PostgreSQL's estimate when the
//! query is planned, and by `anker.max_sent` when it runs.

use pgrx::prelude::*;
use plan::{Expr, Rel, Relation, Source, Type};

use super::select::Level;
use crate::pg::catalog::relation_name;
use crate::pg::compat;
use crate::pg::make;
use crate::pg::planning::{self, Place};
use crate::pg::relation::{Lock, OpenRelation};
use crate::pg::session;
use crate::pg::tree::{List, Memory, Node, Ref, Shape};
use crate::pg::types;
use crate::planner::translate::scope::{alias, keyed};
use crate::planner::translate::{Asked, Scale, Translator, Typed, exact};
use crate::planner::words::reason::{Attempt, Reason, Why, type_reason};
use crate::settings;
use crate::shared;
use crate::spec::RelationNames;
use plan::numeric_modifier;

/// The item number that stands for a subquery in an expression, which is no item of FROM.
const NO_ITEM: i32 = 0;

/// An item of FROM whose rows PostgreSQL computes.
#[derive(Clone)]
pub struct Sent<'a> {
    /// The relation of the plan that stands for the rows.
    relation: u16,
    /// The item's number in its level.
    index: i32,
    /// The item's name in the query.
    pub name: String,
    /// The reason why the engine does not compute the rows.
    pub reason: Reason,
    entry: Ref<'a, pg_sys::RangeTblEntry>,
    /// The level to which the item belongs. The next field is the level whose WITH queries the item may read.
    query: Ref<'a, pg_sys::Query>,
    with: Option<Ref<'a, pg_sys::Query>>,
    /// The columns that the engine needs, each with the expression that PostgreSQL computes for it.
    targets: Vec<(Asked, Node<'a>)>,
    /// The conditions that read only this item, so that PostgreSQL can apply them.
    quals: Vec<Node<'a>>,
}

impl<'a> Translator<'a> {
    /// The reason why PostgreSQL must compute the rows of a table; `None` if the engine has them.
    pub fn not_in_mirror(&mut self, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<Reason> {
        let database = session::database();
        let family = match self.family(entry) {
            Ok(family) => family,
            Err(reason) => return Some(reason),
        };
        family.into_iter().find_map(|relid| {
            let part = OpenRelation::locked(relid);
            if shared::table(database, relid).is_none() {
                Some(shared::why_not_mirrored(database, relid))
            } else if part.is_locked_by_me(Lock::Write) {
                Some(Why::Written.of(format!("this transaction may have written to table \"{}\"", part.name())))
            } else {
                let name = part.name();
                match planning::place_of_rows(&part) {
                    Place::Heap => None,
                    Place::Elsewhere(how) => {
                        Some(Why::Elsewhere.of(format!("heap of table \"{name}\" may lack rows: {how}")))
                    }
                    Place::Unknown(index) => {
                        let index = relation_name(index);
                        Some(Why::Definition.of(format!("somebody has index \"{index}\" of table \"{name}\" locked")))
                    }
                }
            }
        })
    }

    /// Translates an item of FROM. If the engine cannot compute its rows, PostgreSQL does.
    pub fn or_sent(
        &mut self,
        index: i32,
        entry: Ref<'a, pg_sys::RangeTblEntry>,
        translate: impl FnOnce(&mut Self) -> Attempt<Rel>,
    ) -> Attempt<Rel> {
        self.attempt(translate).or_else(|reason| {
            let scope = self.scope_mut();
            scope.remove(index);
            scope.order = None;
            self.send(index, entry, reason)
        })
    }

    /// Makes PostgreSQL compute the rows of a subquery in an expression.
    pub fn send_subquery(&mut self, query: Ref<'a, pg_sys::Query>, reason: Reason) -> Attempt<Level> {
        let targets = query.targetList().iter().filter(|target| !target.resjunk);
        let names = make::strings(targets.clone().map(|_| "column"));
        let entry = pg_sys::RangeTblEntry {
            rtekind: pg_sys::RTEKind::RTE_SUBQUERY,
            subquery: query.as_ptr(),
            eref: make::alias("subquery", names),
            ..make::blank()
        };
        // SAFETY: the query is a part of the tree, and the list of names is new.
        let entry = unsafe { self.memory.placed(entry) };
        let rel = self.send(NO_ITEM, entry, reason)?;
        let Rel::Scan { relation, .. } = rel else { return Err(Why::Expression.of("rows of an unknown sender")) };
        let mut columns = Vec::new();
        for (number, target) in (1..).zip(targets) {
            let column = self.memory.column(NO_ITEM, number, target.expr().shape());
            columns.push(self.sent_column(relation, column));
        }
        self.scope_mut().remove(NO_ITEM);
        Ok(Level { rel, columns, order: None })
    }

    /// Makes PostgreSQL compute the rows of an item of the innermost level. If that is not possible, returns `reason`
    /// as the error.
    fn send(&mut self, index: i32, entry: Ref<'a, pg_sys::RangeTblEntry>, reason: Reason) -> Attempt<Rel> {
        let query = self.scope_mut().query;
        let with = self.with_around(entry)?;
        let wanted = settings::MAX_SENT_KB.get() > 0 && is_known(entry);
        // If the query runs on the heap after all, the rows are computed twice, and so must have no side effects.
        if !wanted || self.reads_around(entry) || is_volatile(entry, with) {
            return Err(reason);
        }
        let is_query = matches!(entry.rtekind, pg_sys::RTEKind::RTE_SUBQUERY | pg_sys::RTEKind::RTE_CTE);
        if is_query && (self.scope().is_repeated || self.is_used_again(with)) && !gives_same_rows(entry, with) {
            // A second computation of the rows could return other rows.
            return Err(reason);
        }
        let name = alias(entry);
        let names = RelationNames { alias: name.clone(), ..RelationNames::default() };
        let relation = self.add_relation(Relation::new(Source::Sent, Vec::new()), names)?;
        let is_table = entry.rtekind == pg_sys::RTEKind::RTE_RELATION;
        self.scope_mut().add_sent(index, relation, if is_table { keyed(entry) } else { None });
        let (targets, quals) = (Vec::new(), Vec::new());
        self.sent.push(Sent { relation, index, name, reason, entry, query, with, targets, quals });
        Ok(Rel::Scan { relation, columns: Vec::new() })
    }

    /// The level whose WITH queries an item may read. It becomes the outer level of the query with which PostgreSQL
    /// computes the rows.
    fn with_around(&self, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Attempt<Option<Ref<'a, pg_sys::Query>>> {
        let up = match entry.rtekind {
            pg_sys::RTEKind::RTE_CTE => entry.ctelevelsup as usize,
            pg_sys::RTEKind::RTE_SUBQUERY => 0,
            _ => return Ok(None),
        };
        let level = self.scopes.len().checked_sub(up + 1).ok_or_else(|| Why::Expression.of("unknown WITH query"))?;
        let query = self.scopes[level].query;
        let reads_around = |node: Node<'_>| (1..=level + 1).any(|up| node.has_columns_of(up));
        let mut all = query.cteList().iter();
        match all.any(|cte| reads_around(cte.ctequery())) {
            true => Err(Why::Subquery.of("WITH query that reads the rows around it")),
            false => Ok(Some(query)),
        }
    }

    /// Whether a WITH query of a level has several references. If so, another reference may be in the engine's part of
    /// the query.
    fn is_used_again(&self, with: Option<Ref<'a, pg_sys::Query>>) -> bool {
        with.is_some_and(|query| query.cteList().iter().any(|cte| cte.cterefcount > 1))
    }

    /// Whether an item reads columns of other items of its own level, or of an outer level.
    fn reads_around(&self, entry: Ref<'_, pg_sys::RangeTblEntry>) -> bool {
        let levels = self.scopes.len();
        let (inner, nodes) = match entry.rtekind {
            pg_sys::RTEKind::RTE_SUBQUERY => (1, [entry.subquery().map(Ref::node), entry.securityQuals().node()]),
            _ => (0, [entry.functions().node(), entry.values_lists().node()]),
        };
        nodes.into_iter().flatten().any(|node| (inner..=levels + inner).any(|up| node.has_columns_of(up)))
    }

    /// The engine's value for a column of rows that PostgreSQL computes.
    pub fn sent_column(&mut self, relation: u16, var: Ref<'_, pg_sys::Var>) -> Attempt<Typed> {
        // In the query with which PostgreSQL computes the rows, the item has the number 1.
        let shape = Shape { ty: var.vartype, modifier: var.vartypmod, collation: var.varcollid };
        let memory = self.memory;
        let column = || memory.column(1, var.varattno, shape).node();
        let (value, digits_of) = (Asked::Column(var.varattno), Asked::ScaleOf(var.varattno));
        let (sql_type, modifier) = types::without_domain(var.vartype, var.vartypmod);
        if sql_type == pg_sys::NUMERICOID && numeric_modifier(modifier).is_none() {
            let ty = Type::Decimal128 { scale: types::PARAMETER_SCALE };
            let number = self.asked_of_sender(relation, value, ty, column())?;
            let digits = self.asked_of_sender(relation, digits_of, Type::Int32, digits(memory, column()))?;
            return Ok(Typed { expr: number, ty, scale: Scale::Varies(digits) });
        }
        let ty = match (sql_type, numeric_modifier(modifier)) {
            (pg_sys::NUMERICOID, Some((1..=38, scale @ 0..=38))) => Type::Decimal128 { scale: scale as u8 },
            (pg_sys::NUMERICOID, _) => return Err(Why::NumericDigits.of("numeric beyond 38 digits")),
            _ => types::type_or_kept(sql_type).ok_or_else(|| type_reason(sql_type))?,
        };
        Ok(exact(self.asked_of_sender(relation, value, ty, column())?, ty))
    }

    fn asked_of_sender(&mut self, relation: u16, asked: Asked, ty: Type, target: Node<'a>) -> Attempt<Expr> {
        let id = self.scanned_column(relation, asked, ty, &[])?;
        let sent = self
            .sent
            .iter_mut()
            .find(|sent| sent.relation == relation)
            .ok_or_else(|| Why::Expression.of("rows of an unknown sender"))?;
        if sent.targets.iter().all(|(known, _)| *known != asked) {
            sent.targets.push((asked, target));
            self.names[relation as usize].columns.push(sent.name_of(asked));
        }
        Ok(Expr::column(id))
    }

    /// Moves a condition into the query with which PostgreSQL computes an item's rows, if the condition reads only that
    /// item. Returns whether the condition was moved. `among` are the relations of the inner joins to which the
    /// condition applies.
    pub fn leave_to_sender(&mut self, condition: Node<'a>, among: &[u16]) -> bool {
        let levels = self.scopes.len();
        let mut all = self.sent.iter_mut().filter(|sent| among.contains(&sent.relation));
        let Some(sent) = all.find(|sent| is_about(condition, sent.index, levels)) else { return false };
        // All columns in the condition belong to this item, which becomes item 1.
        sent.quals.push(condition.copied_for(sent.index, 1));
        true
    }
}

impl Sent<'_> {
    /// The same rows, computed once more for another relation of the plan; `None` if these are not the rows of
    /// `relation`.
    pub fn again(&self, relation: u16, other: u16) -> Option<Self> {
        (self.relation == relation).then(|| Sent { relation: other, ..self.clone() })
    }

    /// Whether the engine may be able to compute the rows in another transaction.
    pub fn is_momentary(&self) -> bool {
        self.reason.why.is_momentary()
    }

    /// The relation of these rows in the plan, if `entry` is the item.
    pub fn relation_of(&self, entry: Ref<'_, pg_sys::RangeTblEntry>) -> Option<u16> {
        self.entry.is(entry).then_some(self.relation)
    }

    /// The name of a column.
    fn name_of(&self, asked: Asked) -> String {
        let name = |number: i16| {
            let mut names = self.entry.names_of_columns();
            names.nth(usize::try_from(number - 1).unwrap_or(0)).and_then(Node::string).unwrap_or_default()
        };
        match asked {
            Asked::Column(number) => name(number),
            Asked::ScaleOf(number) => format!("scale({})", name(number)),
        }
    }

    /// The query with which PostgreSQL computes the rows: `SELECT columns FROM item WHERE conditions`.
    pub fn query(&self) -> *mut pg_sys::Query {
        let copied = self.entry.node().copied();
        let mut entry = *copied.cast::<pg_sys::RangeTblEntry>().expect("a copy of an entry");
        entry.ctelevelsup = 0;
        // The conditions of row security policies refer to the item by its number, which becomes 1 in this query.
        let policies = self.entry.securityQuals().node().map(|all| all.copied_for(self.index, 1));
        entry.securityQuals = policies.map_or(std::ptr::null_mut(), Node::as_ptr);
        let quals = match self.quals.is_empty() {
            true => std::ptr::null_mut(),
            false => make::all_of(self.quals.iter().map(|qual| qual.as_ptr::<pg_sys::Node>())),
        };
        let with = self.with.and_then(|with| with.cteList().node());
        let targets =
            (1..).zip(&self.targets).map(|(number, (_, target))| make::target::<pg_sys::Node>(target.as_ptr(), number));
        let mut query = pg_sys::Query {
            commandType: pg_sys::CmdType::CMD_SELECT,
            canSetTag: true,
            hasSubLinks: self.query.hasSubLinks,
            hasRowSecurity: self.query.hasRowSecurity,
            cteList: with.map_or(std::ptr::null_mut(), |with| with.copied().as_ptr()),
            hasRecursive: self.with.is_some_and(|with| with.hasRecursive),
            jointree: make::from_first(quals),
            targetList: make::list(targets),
            ..make::blank()
        };
        // The user's permissions were checked for the whole query. SAFETY: a new query, whose list of permissions is
        // empty, and a copy of an entry of the original query.
        unsafe { compat::without_checks(&mut query, &self.query, &mut entry) };
        query.rtable = make::list([make::placed(entry)]);
        make::placed(query)
    }

    /// The reason for the heap if there are too many rows to be sent.
    pub fn too_many(&self) -> Reason {
        self.reason.clone().and(", and what it has is too much to be sent along (anker.max_sent)")
    }
}

/// The number of digits that a numeric shows behind the point.
fn digits<'a>(memory: Memory<'a>, numeric: Node<'a>) -> Node<'a> {
    memory.call(pg_sys::F_SCALE, pg_sys::INT4OID, pg_sys::InvalidOid, [numeric])
}

/// Whether a condition reads columns of one item of its level, and no other values that differ from row to row.
fn is_about(condition: Node<'_>, index: i32, levels: usize) -> bool {
    let is_subquery = |node: Node<'_>| matches!(node.tag(), pg_sys::NodeTag::T_SubLink | pg_sys::NodeTag::T_SubPlan);
    let is_column = |node: Node<'_>| node.cast::<pg_sys::Var>().is_some();
    if condition.is_volatile() || condition.any(is_subquery) || !condition.any(is_column) {
        return false;
    }
    condition.reads_only(index) && (1..=levels).all(|up| !condition.has_columns_of(up))
}

/// Whether items of this kind can be computed by PostgreSQL. TABLESAMPLE is excluded, because its rows may depend on
/// other rows.
fn is_known(entry: Ref<'_, pg_sys::RangeTblEntry>) -> bool {
    use pg_sys::RTEKind::*;
    let known = matches!(entry.rtekind, RTE_RELATION | RTE_SUBQUERY | RTE_FUNCTION | RTE_VALUES | RTE_CTE);
    known && entry.tablesample.is_null()
}

/// Whether an item's rows are certainly the same each time that they are computed under one snapshot. Such rows neither
/// depend on the order of other rows, nor are they chosen from equal values that look different.
fn gives_same_rows(entry: Ref<'_, pg_sys::RangeTblEntry>, with: Option<Ref<'_, pg_sys::Query>>) -> bool {
    entry.subquery().is_none_or(is_settled) && with.is_none_or(|query| are_settled(query.cteList()))
}

fn are_settled(with: List<'_, pg_sys::CommonTableExpr>) -> bool {
    with.iter().all(|cte| cte.ctequery().cast::<pg_sys::Query>().is_some_and(is_settled))
}

fn is_settled(query: Ref<'_, pg_sys::Query>) -> bool {
    let chooses = query.hasAggs
        || query.hasWindowFuncs
        || query.hasSubLinks
        || query.hasDistinctOn
        || !query.limitCount.is_null()
        || !query.limitOffset.is_null()
        || !query.groupClause.is_null()
        || !query.groupingSets.is_null();
    let one_of_equal = |entry: Ref<'_, pg_sys::TargetEntry>| {
        let (ty, _) = types::without_domain(entry.expr().sql_type(), -1);
        types::type_of(ty).is_some_and(|ty| ty.is_float() || matches!(ty, Type::Interval | Type::Decimal128 { .. }))
            || types::type_of(ty).is_none() && !types::has_one_image(ty)
    };
    let is_union = !query.setOperations.is_null() || !query.distinctClause.is_null();
    let mut targets = query.targetList().iter();
    let mut entries = query.rtable().iter();
    let chooses = chooses || is_union && targets.any(one_of_equal);
    !chooses
        && are_settled(query.cteList())
        && entries.all(|entry| entry.tablesample.is_null() && entry.subquery().is_none_or(|query| is_settled(query)))
}

fn is_volatile(entry: Ref<'_, pg_sys::RangeTblEntry>, with: Option<Ref<'_, pg_sys::Query>>) -> bool {
    let parts = [
        entry.functions().node(),
        entry.values_lists().node(),
        entry.subquery().map(Ref::node),
        entry.securityQuals().node(),
        with.and_then(|query| query.cteList().node()),
    ];
    parts.into_iter().flatten().any(Node::is_volatile)
}
