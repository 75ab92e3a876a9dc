//! Splits a SELECT: what the engine computes, and what PostgreSQL does with it.
//!
//! ```text
//!   SELECT d, avg(x) + 1 FROM t WHERE y > 2 GROUP BY d HAVING count(*) > 3 ORDER BY 2
//!
//!   engine   keys: d; aggregates: avg(x), count(*); filters: y > 2
//!   above    SELECT c1, c2 + 1 FROM anker.engine_result() AS (c1 …, c2 …, c3 …) WHERE c3 > 3 ORDER BY 2
//! ```
//!
//! The upper query keeps everything else of the original: window functions, DISTINCT, ORDER BY, LIMIT. Its one
//! function scan is what [`super::nodes`] replaces by ours.
//!
//! Keys and aggregates are found again in select list and HAVING as they were written, for only then it is certain that
//! they are found: the parser saw to it that every column outside of aggregates stands in an expression that equals a
//! key, or depends on a primary key among them. Simplified, `NOT (x < 5)` is `x >= 5`, and the key `x < 5` is not in it.
//! What goes to the engine is simplified then; the upper query is when it is planned.

use std::ffi::c_void;

use pgrx::prelude::*;
use plan::{Expr, Grouping, Type};

use super::aggregate::Translated;
use super::columns::{Columns, Computed, ScanColumn, conversion};
use super::compare::require_deterministic;
use super::level::{Source, flattened, simplified};
use super::operators;
use super::placeholder;
use super::reason::{Attempt, Reason};
use super::translate::Translator;
use crate::pg::compat;
use crate::pg::tree::{Node, Tree, make, push};
use crate::pg::walk;
use crate::spec::ScanSpec;

pub struct Split {
    pub spec: ScanSpec,
    /// Expressions of the plan's parameters.
    pub params: *mut pg_sys::List,
    /// The upper query, over the placeholder.
    pub upper: *mut pg_sys::Query,
    /// The placeholder's columns.
    pub columns: Vec<ScanColumn>,
}

struct Splitter<'a> {
    tree: Tree<'a>,
    translator: Translator<'a>,
    grouped: bool,
    columns: Columns<'a>,
    /// The expressions of GROUP BY.
    keys: *mut pg_sys::List,
    failed: Option<Reason>,
}

/// # Safety
///
/// `query` is a rewritten SELECT that belongs to `tree` and whose relations are locked; `function` is the placeholder's.
pub unsafe fn split<'a>(tree: Tree<'a>, query: &'a pg_sys::Query, function: pg_sys::Oid) -> Attempt<Split> {
    check_shape(query)?;
    // SAFETY: by the caller's promise.
    let (source, conjuncts) = unsafe { Source::open(tree, query)? };
    let mut splitter = Splitter {
        tree,
        translator: Translator::new(tree, source),
        grouped: query.hasAggs || !query.groupClause.is_null(),
        columns: Columns::default(),
        keys: std::ptr::null_mut(),
        failed: None,
    };
    // SAFETY: target list (null if it is empty) and HAVING belong to the query.
    let (target_list, having) =
        unsafe { (flattened(query, query.targetList.cast()), flattened(query, query.havingQual)) };

    let (filters, residual) = splitter.filters(&conjuncts)?;
    splitter.keys(query, target_list.cast())?;
    let upper_targets = splitter.above(target_list)?;
    let upper_quals = if splitter.grouped {
        splitter.above(having)?
    } else {
        // SAFETY: a list of expressions.
        splitter.above(unsafe { pg_sys::make_ands_explicit(residual).cast() })?
    };

    let columns = splitter.columns.described();
    let upper = upper_query(query, placeholder::entry(function, &columns), upper_targets, upper_quals);
    let (spec, params) = splitter.finish(filters);
    Ok(Split { spec, params, upper, columns })
}

/// What is left of the query, over the placeholder.
fn upper_query(
    query: &pg_sys::Query,
    placeholder: *mut pg_sys::RangeTblEntry,
    targets: *mut pg_sys::Node,
    quals: *mut pg_sys::Node,
) -> *mut pg_sys::Query {
    let upper = make::<pg_sys::Query>();
    *upper = *query;
    upper.rtable = std::ptr::null_mut();
    push(&mut upper.rtable, placeholder);
    let reference = make::<pg_sys::RangeTblRef>();
    reference.rtindex = 1;
    let from = make::<pg_sys::FromExpr>();
    push(&mut from.fromlist, reference);
    from.quals = quals;
    upper.jointree = from;
    upper.targetList = targets.cast();
    compat::without_grouping(upper);
    upper.havingQual = std::ptr::null_mut();
    upper.constraintDeps = std::ptr::null_mut();
    upper
}

fn check_shape(query: &pg_sys::Query) -> Attempt<()> {
    let reasons = [
        (!query.rowMarks.is_null() || query.hasForUpdate, "row locks"),
        (!query.cteList.is_null(), "WITH"),
        (!query.setOperations.is_null(), "set operation"),
        (query.hasSubLinks, "subquery in an expression"),
        (!query.groupingSets.is_null(), "grouping sets"),
        (query.hasRowSecurity, "row-level security"),
        (query.hasTargetSRFs, "set-returning function in the select list"),
        (
            !query.havingQual.is_null() && !query.hasAggs && query.groupClause.is_null(),
            "HAVING without grouping or aggregate",
        ),
    ];
    match reasons.iter().find(|(applies, _)| *applies) {
        Some((_, reason)) => Err(reason.to_string()),
        None => Ok(()),
    }
}

impl<'a> Splitter<'a> {
    /// Conditions for the engine, and those that it leaves to PostgreSQL: possible without grouping, where they only
    /// take away rows. A join condition left above would make the engine compute a cross product: no.
    fn filters(&mut self, conjuncts: &[Node<'a>]) -> Attempt<(Vec<Expr>, *mut pg_sys::List)> {
        let mut filters = Vec::new();
        let mut residual = std::ptr::null_mut();
        for &conjunct in conjuncts {
            match self.translator.condition(conjunct) {
                Ok(filter) => filters.push(filter),
                Err(reason) => {
                    let stays =
                        self.grouped || conjunct.is_volatile() || !self.translator.source.concerns_one_table(conjunct);
                    if stays {
                        return Err(reason);
                    }
                    push(&mut residual, conjunct.as_ptr::<pg_sys::Node>());
                }
            }
        }
        Ok((filters, residual))
    }

    /// The GROUP BY expressions become the first columns.
    fn keys(&mut self, query: &'a pg_sys::Query, target_list: *mut pg_sys::List) -> Attempt<()> {
        for clause in self.tree.list_of::<pg_sys::SortGroupClause>(query.groupClause) {
            let wanted = clause.tleSortGroupRef;
            let entry = self
                .tree
                .list_of::<pg_sys::TargetEntry>(target_list)
                .find(|entry| entry.ressortgroupref == wanted)
                .ok_or("GROUP BY of an unknown expression")?;
            let node = self.tree.required(entry.expr);
            let simple = self.simple(node);
            if !simple.has_columns() {
                return Err("GROUP BY a constant".into());
            }
            let typed = self.translator.expression(simple)?;
            if !typed.has_exact_scale() {
                return Err("GROUP BY numeric values of different scales".into());
            }
            if typed.ty == Type::Float64 {
                return Err("GROUP BY double precision: which zero represents a group depends on row order".into());
            }
            if typed.ty.is_text() {
                require_deterministic(simple.collation())?;
            }
            let conversion = conversion(typed.ty, simple.type_modifier())?;
            self.columns.add(node, simple, Computed::Value(typed.expr), conversion);
            push(&mut self.keys, node.as_ptr::<pg_sys::Node>());
        }
        Ok(())
    }

    /// What the engine gets of an expression.
    fn simple(&self, node: Node<'a>) -> Node<'a> {
        // SAFETY: an expression; simplified it is a new tree, which nobody changes.
        self.tree.required(unsafe { simplified(node.as_ptr()) })
    }

    /// A tree of the original query, rewritten for the upper one.
    fn above(&mut self, node: *mut pg_sys::Node) -> Attempt<*mut pg_sys::Node> {
        if self.tree.node(node).is_some_and(|node| self.simple(node).any(operators::looks_at_storage)) {
            return Err("function that looks at how a value is stored".into());
        }
        let context = std::ptr::from_mut(self).cast();
        // SAFETY: null or an expression (or a list of them) of the query; the context is ours.
        let rewritten = unsafe { rewrite(node, context) };
        match self.failed.take() {
            Some(reason) => Err(reason),
            None => Ok(rewritten),
        }
    }

    /// What takes a node's place in the upper query; `None`: itself, with rewritten children.
    fn replacement(&mut self, node: Node<'a>) -> Attempt<Option<*mut pg_sys::Node>> {
        if let Some(found) = self.columns.find(node) {
            return Ok(Some(found));
        }
        if node.cast::<pg_sys::Aggref>().is_some() {
            let simple = self.simple(node);
            let aggref = simple.cast::<pg_sys::Aggref>().ok_or("aggregate that is none once simplified")?;
            return Ok(Some(match self.translator.aggregate(aggref)? {
                Translated::Column(agg, conversion) => {
                    self.columns.add(node, simple, Computed::Aggregate(agg), conversion)
                }
                Translated::Scaled { sum, ty, scale, count } => self.columns.add_scaled(node, (sum, ty), scale, count),
            }));
        }
        if let Some(var) = node.cast::<pg_sys::Var>() {
            // One more key makes no more groups if it depends on the others.
            if self.grouped && !self.translator.source.depends_on(var, self.keys) {
                return Err("column that is not grouped".into());
            }
            let typed = self.translator.expression(node)?;
            let conversion = conversion(typed.ty, node.type_modifier())?;
            return Ok(Some(self.columns.add(node, node, Computed::Value(typed.expr), conversion)));
        }
        match node.tag() {
            pg_sys::NodeTag::T_GroupingFunc => Err("GROUPING".into()),
            pg_sys::NodeTag::T_SubLink => Err("subquery in an expression".into()),
            _ => Ok(None),
        }
    }

    fn finish(self, filters: Vec<Expr>) -> (ScanSpec, *mut pg_sys::List) {
        let can_raise = filters.iter().any(Expr::can_raise);
        let result = self.columns.lay_out();
        let (mut plan, params) = self.translator.finish();
        plan.filters = filters;
        if self.grouped {
            plan.grouping = Some(Grouping { keys: result.values, aggregates: result.aggregates });
        } else {
            plan.output = result.values;
        }
        (ScanSpec { plan, columns: result.columns, can_raise }, params)
    }
}

/// # Safety
///
/// `node` is null or a node of the tree that the [`Splitter`] behind `context` works on.
#[pg_guard]
unsafe extern "C-unwind" fn rewrite(node: *mut pg_sys::Node, context: *mut c_void) -> *mut pg_sys::Node {
    // SAFETY: by the caller's promise, which `mutate_children` keeps.
    unsafe {
        let splitter = &mut *context.cast::<Splitter>();
        let Some(found) = splitter.tree.node(node) else {
            return node;
        };
        if splitter.failed.is_some() {
            return node;
        }
        let is_list = matches!(found.tag(), pg_sys::NodeTag::T_List | pg_sys::NodeTag::T_TargetEntry);
        let replacement = if is_list { Ok(None) } else { splitter.replacement(found) };
        match replacement {
            Ok(Some(found)) => found,
            Ok(None) => walk::mutate_children(node, rewrite, context),
            Err(reason) => {
                splitter.failed = Some(reason);
                node
            }
        }
    }
}
