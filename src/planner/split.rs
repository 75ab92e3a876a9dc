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
use plan::{Agg, Expr, Grouping, Type};

use super::level::{Source, flattened, simplified};
use super::operators;
use super::translate::{Attempt, Reason, Translator, Typed, require_deterministic};
use crate::pg::tree::{Node, Tree, make, push, string_node, text};
use crate::pg::walk;
use crate::spec::{Conversion, ResultColumn, ScanSpec};

pub struct Split {
    pub spec: ScanSpec,
    /// Expressions of the plan's parameters.
    pub params: *mut pg_sys::List,
    /// The upper query, over the placeholder.
    pub upper: *mut pg_sys::Query,
    /// The placeholder's columns.
    pub columns: Vec<ScanColumn>,
}

/// A column of the placeholder, and later of the scan.
pub struct ScanColumn {
    pub name: String,
    pub ty: pg_sys::Oid,
    pub modifier: i32,
    pub collation: pg_sys::Oid,
}

/// A column of the placeholder: what the upper query sees of the engine's result.
struct Column<'a> {
    /// The expression of the original query that it stands for, as it was written.
    stands_for: Node<'a>,
    /// The same, simplified: what is computed.
    simple: Node<'a>,
    computed: Computed,
    name: String,
}

enum Computed {
    /// Without grouping: an output expression; with it: a key.
    Value(Typed),
    Aggregate(Agg, Option<Typed>),
}

struct Splitter<'a> {
    tree: Tree<'a>,
    translator: Translator<'a>,
    grouped: bool,
    columns: Vec<Column<'a>>,
    /// The expressions of GROUP BY.
    keys: *mut pg_sys::List,
    failed: Option<Reason>,
}

/// # Safety
///
/// `query` is a rewritten SELECT that belongs to `tree` and whose relations are locked.
pub unsafe fn split<'a>(tree: Tree<'a>, query: &'a pg_sys::Query, placeholder: pg_sys::Oid) -> Attempt<Split> {
    check_shape(query)?;
    // SAFETY: by the caller's promise.
    let (source, conjuncts) = unsafe { Source::open(tree, query)? };
    let mut splitter = Splitter {
        tree,
        translator: Translator::new(tree, source),
        grouped: query.hasAggs || !query.groupClause.is_null(),
        columns: Vec::new(),
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

    let upper = make::<pg_sys::Query>();
    *upper = *query;
    upper.rtable = std::ptr::null_mut();
    push(&mut upper.rtable, placeholder_entry(placeholder, &splitter.scan_columns()));
    let reference = make::<pg_sys::RangeTblRef>();
    reference.rtindex = 1;
    let from = make::<pg_sys::FromExpr>();
    push(&mut from.fromlist, reference);
    from.quals = upper_quals;
    upper.jointree = from;
    upper.targetList = upper_targets.cast();
    upper.hasAggs = false;
    upper.groupClause = std::ptr::null_mut();
    upper.groupDistinct = false;
    upper.havingQual = std::ptr::null_mut();
    upper.constraintDeps = std::ptr::null_mut();

    let columns = splitter.scan_columns();
    let (spec, params) = splitter.finish(filters);
    Ok(Split { spec, params, upper, columns })
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
            if typed.ty == Type::Float64 {
                return Err("GROUP BY double precision: which zero represents a group depends on row order".into());
            }
            if typed.ty.is_text() {
                require_deterministic(simple.collation())?;
            }
            require_width(&typed, simple)?;
            self.column(node, simple, Computed::Value(typed));
            push(&mut self.keys, node.as_ptr::<pg_sys::Node>());
        }
        Ok(())
    }

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
    fn replacement(&mut self, node: Node<'a>) -> Attempt<Option<*mut pg_sys::Var>> {
        let position = self.columns.iter().position(|column| column.stands_for.equals(node));
        if let Some(position) = position {
            return Ok(Some(self.var(position)));
        }
        if node.cast::<pg_sys::Aggref>().is_some() {
            let simple = self.simple(node);
            let aggref = simple.cast::<pg_sys::Aggref>().ok_or("aggregate that is none once simplified")?;
            let (agg, argument) = self.translator.aggregate(aggref)?;
            if let (Agg::Min(_) | Agg::Max(_), Some(typed)) = (&agg, &argument) {
                require_width(typed, argument_node(self.tree, aggref).ok_or("aggregate without argument")?)?;
            }
            let position = self.column(node, simple, Computed::Aggregate(agg, argument));
            return Ok(Some(self.var(position)));
        }
        if let Some(var) = node.cast::<pg_sys::Var>() {
            // One more key makes no more groups if it depends on the others.
            if self.grouped && !self.translator.source.depends_on(var, self.keys) {
                return Err("column that is not grouped".into());
            }
            let typed = self.translator.expression(node)?;
            let position = self.column(node, node, Computed::Value(typed));
            return Ok(Some(self.var(position)));
        }
        match node.tag() {
            pg_sys::NodeTag::T_GroupingFunc => Err("GROUPING".into()),
            pg_sys::NodeTag::T_SubLink => Err("subquery in an expression".into()),
            _ => Ok(None),
        }
    }

    fn column(&mut self, stands_for: Node<'a>, simple: Node<'a>, computed: Computed) -> usize {
        let name = match &computed {
            Computed::Value(_) => format!("c{}", self.columns.len() + 1),
            Computed::Aggregate(agg, _) => format!("{}{}", aggregate_name(agg), self.columns.len() + 1),
        };
        self.columns.push(Column { stands_for, simple, computed, name });
        self.columns.len() - 1
    }

    /// A reference to a column of the placeholder.
    fn var(&self, position: usize) -> *mut pg_sys::Var {
        let node = self.columns[position].simple;
        let (ty, modifier, collation) = (node.sql_type(), node.type_modifier(), node.collation());
        // SAFETY: makes a node.
        unsafe { pg_sys::makeVar(1, (position + 1) as i16, ty, modifier, collation, 0) }
    }

    fn scan_columns(&self) -> Vec<ScanColumn> {
        let describe = |column: &Column<'a>| ScanColumn {
            name: column.name.clone(),
            ty: column.simple.sql_type(),
            modifier: column.simple.type_modifier(),
            collation: column.simple.collation(),
        };
        self.columns.iter().map(describe).collect()
    }

    /// Lays out the engine's result: keys (or plain values) first, then the aggregates.
    fn finish(self, filters: Vec<Expr>) -> (ScanSpec, *mut pg_sys::List) {
        let (mut values, mut aggregates) = (Vec::new(), Vec::new());
        let mut columns = vec![None; self.columns.len()];
        for (position, column) in self.columns.iter().enumerate() {
            if let Computed::Value(typed) = &column.computed {
                let conversion = conversion(typed.ty, column.simple.type_modifier());
                columns[position] = Some(ResultColumn { at: values.len() as u16, conversion });
                values.push(typed.expr.clone());
            }
        }
        let mut at = values.len() as u16;
        for (position, column) in self.columns.iter().enumerate() {
            if let Computed::Aggregate(agg, argument) = &column.computed {
                let aggref = column.simple.cast::<pg_sys::Aggref>();
                let node = aggref.and_then(|aggref| argument_node(self.tree, aggref));
                let modifier = node.map_or(-1, Node::type_modifier);
                let (conversion, width) = aggregate_conversion(agg, argument.as_ref(), modifier);
                columns[position] = Some(ResultColumn { at, conversion });
                at += width;
                aggregates.push(agg.clone());
            }
        }
        let grouped = self.grouped;
        let (mut plan, params) = self.translator.finish();
        let can_raise = filters.iter().any(Expr::can_raise);
        plan.filters = filters;
        if grouped {
            plan.grouping = Some(Grouping { keys: values, aggregates });
        } else {
            plan.output = values;
        }
        // Every column is a value or an aggregate, so that none is left out.
        let columns = columns.into_iter().flatten().collect();
        (ScanSpec { plan, columns, can_raise }, params)
    }
}

/// `anker.engine_result() AS engine(columns)`
fn placeholder_entry(placeholder: pg_sys::Oid, columns: &[ScanColumn]) -> *mut pg_sys::RangeTblEntry {
    let function = make::<pg_sys::RangeTblFunction>();
    let mut names = std::ptr::null_mut();
    for column in columns {
        push(&mut names, string_node(&column.name));
        push(&mut function.funccolnames, string_node(&column.name));
        // SAFETY: lists that only we know.
        unsafe {
            function.funccoltypes = pg_sys::lappend_oid(function.funccoltypes, column.ty);
            function.funccoltypmods = pg_sys::lappend_int(function.funccoltypmods, column.modifier);
            function.funccolcollations = pg_sys::lappend_oid(function.funccolcollations, column.collation);
        }
    }
    function.funccolcount = columns.len() as i32;
    let entry = make::<pg_sys::RangeTblEntry>();
    // SAFETY: makes nodes out of valid parts.
    unsafe {
        let call = pg_sys::makeFuncExpr(
            placeholder,
            pg_sys::RECORDOID,
            std::ptr::null_mut(),
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        );
        (*call).funcretset = true;
        function.funcexpr = call.cast();
        entry.eref = pg_sys::makeAlias(text("engine"), names);
    }
    entry.rtekind = pg_sys::RTEKind::RTE_FUNCTION;
    push(&mut entry.functions, std::ptr::from_mut(function));
    entry.inFromCl = true;
    entry
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
            Ok(Some(var)) => var.cast(),
            Ok(None) => walk::mutate_children(node, rewrite, context),
            Err(reason) => {
                splitter.failed = Some(reason);
                node
            }
        }
    }
}

fn conversion(ty: Type, modifier: i32) -> Conversion {
    match ty {
        Type::Char => Conversion::Padded((modifier - pg_sys::VARHDRSZ as i32).max(0) as u32),
        other => Conversion::Plain(other),
    }
}

/// How an aggregate's result is made, and how many columns of the engine's result it takes.
fn aggregate_conversion(agg: &Agg, argument: Option<&Typed>, modifier: i32) -> (Conversion, u16) {
    let argument = argument.map_or(Type::Int64, |typed| typed.ty);
    match agg {
        Agg::CountStar | Agg::Count(_) => (Conversion::Plain(Type::Int64), 1),
        Agg::Sum(_) if matches!(argument, Type::Int16 | Type::Int32) => (Conversion::Plain(Type::Int64), 1),
        Agg::Sum(_) => (Conversion::Plain(Type::Decimal128 { scale: argument.scale() }), 1),
        Agg::Avg(_) => (Conversion::Average { scale: argument.scale() }, 2),
        Agg::Min(_) | Agg::Max(_) => (conversion(argument, modifier), 1),
    }
}

fn argument_node<'a>(tree: Tree<'a>, aggref: &'a pg_sys::Aggref) -> Option<Node<'a>> {
    let argument = tree.list_of::<pg_sys::TargetEntry>(aggref.args).next()?;
    Some(tree.required(argument.expr))
}

/// char(n) travels without its blanks: who shows it must know n.
fn require_width(typed: &Typed, node: Node<'_>) -> Attempt<()> {
    if typed.ty == Type::Char && node.type_modifier() < pg_sys::VARHDRSZ as i32 {
        return Err("character without length".into());
    }
    Ok(())
}

fn aggregate_name(agg: &Agg) -> &'static str {
    match agg {
        Agg::CountStar | Agg::Count(_) => "count",
        Agg::Sum(_) => "sum",
        Agg::Avg(_) => "avg",
        Agg::Min(_) => "min",
        Agg::Max(_) => "max",
    }
}
