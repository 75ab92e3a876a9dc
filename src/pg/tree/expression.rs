//! Questions about expressions, and functions that make other forms of them.

use std::ffi::{CStr, c_void};
use std::ptr;

use pgrx::prelude::*;

use super::{List, Node, Ref, Shape};
use crate::pg::{compat, walk};

impl<'a> Node<'a> {
    /// An operator with its operands: `OpExpr`, or one of the two node types that differ from it only by name.
    pub fn operator(self) -> Option<Ref<'a, pg_sys::OpExpr>> {
        use pg_sys::NodeTag::{T_DistinctExpr, T_NullIfExpr, T_OpExpr};
        let is_operator = matches!(self.tag(), T_OpExpr | T_DistinctExpr | T_NullIfExpr);
        // SAFETY: the tag tells the type. DistinctExpr and NullIfExpr are other names for the structure OpExpr.
        is_operator.then(|| unsafe { self.seen_as() })
    }

    /// A copy of the expression, which shares nothing with it.
    pub fn copied(self) -> Node<'a> {
        // SAFETY: the node is valid. The result is a new tree in the planner's memory, to which nobody else refers.
        unsafe { Ref::new(pg_sys::copyObjectImpl(self.as_ptr()).cast()) }
    }

    /// A copy in which references to the item `item` of the expression's own query level become references to the item
    /// `instead`.
    pub fn copied_for(self, item: i32, instead: i32) -> Node<'a> {
        let copy = self.copied();
        // SAFETY: nobody else refers to the copy.
        unsafe { pg_sys::ChangeVarNodes(copy.as_ptr(), item, instead, 0) };
        copy
    }

    pub fn shape(self) -> Shape {
        Shape { ty: self.sql_type(), modifier: self.type_modifier(), collation: self.collation() }
    }

    /// The set of items that the expression reads in FROM of its own level.
    fn items(self) -> *mut pg_sys::Bitmapset {
        // SAFETY: an expression of a query that is not planned yet, so that no planner state is needed.
        unsafe { pg_sys::pull_varnos(ptr::null_mut(), self.as_ptr()) }
    }

    /// Whether the expression reads `item`, and no other item of its own level's FROM.
    pub fn reads_only(self, item: i32) -> bool {
        // SAFETY: both sets are new.
        unsafe { pg_sys::bms_equal(self.items(), pg_sys::bms_make_singleton(item)) }
    }

    /// The columns in the expression, and its window functions and aggregates, whose arguments are not searched.
    pub fn columns_and_calls(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_WINDOWFUNCS | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: the expression is valid, and the list is new.
        unsafe { List::<pg_sys::Node>::new(pg_sys::pull_var_clause(self.as_ptr(), flags as i32)) }.iter()
    }

    /// The text of a String node.
    pub fn string(self) -> Option<String> {
        Some(self.cast::<pg_sys::String>()?.sval()?.to_string_lossy().into_owned())
    }

    /// A simplified copy, as the planner makes it: constants are folded, negations pushed down, and SQL functions
    /// inlined. The expression must contain no columns of joins.
    pub fn simplified(self) -> Node<'a> {
        // SAFETY: the argument is a valid expression, or a list of expressions. The result is a new tree in the
        // planner's memory, which nobody changes.
        unsafe { Ref::new(pg_sys::eval_const_expressions(ptr::null_mut(), self.as_ptr())) }
    }

    /// A copy of an expression of `query`, in which each column of a join is replaced by the column of its input. The
    /// parser compares expressions in this form when it looks for ungrouped columns.
    pub fn flattened(self, query: Ref<'a, pg_sys::Query>) -> Node<'a> {
        // SAFETY: the argument is an expression, or a list of expressions. The result is a new tree in the planner's
        // memory.
        unsafe { Ref::new(compat::flatten_join_columns(query.as_ptr(), self.as_ptr())) }
    }

    /// The condition, with conditions that all branches of an OR share moved in front of the OR: `(a AND b) OR (a AND
    /// c)` becomes `a AND (b OR c)`.
    pub fn canonical(self) -> Node<'a> {
        // SAFETY: the condition is simplified, and the result is a valid condition, too.
        unsafe { Ref::new(pg_sys::canonicalize_qual(self.as_ptr(), false).cast()) }
    }

    /// The conditions that AND combines; none for the constant true.
    pub fn conjuncts(self) -> impl ExactSizeIterator<Item = Node<'a>> + Clone {
        // SAFETY: the expression is valid. The list is new, or is a part of the expression.
        unsafe { List::<pg_sys::Node>::new(pg_sys::make_ands_implicit(self.as_ptr())) }.iter()
    }

    pub fn equals(self, other: Node<'_>) -> bool {
        // SAFETY: two valid nodes.
        unsafe { pg_sys::equal(self.as_ptr(), other.as_ptr()) }
    }

    /// Whether the expression reads columns of the query `levels_up` levels above.
    pub fn has_columns_of(self, levels_up: usize) -> bool {
        // SAFETY: the node is a valid expression or query, or a list of them.
        unsafe { pg_sys::contain_vars_of_level(self.as_ptr(), levels_up as i32) }
    }

    /// Whether the expression calls only functions of the server itself.
    pub fn calls_only_builtin(self) -> bool {
        // SAFETY: a valid expression.
        unsafe { walk::calls_only_builtin(self.as_ptr()) }
    }

    /// Whether `wanted` returns true for this node or for a node below it.
    pub fn any(self, mut wanted: fn(Node<'_>) -> bool) -> bool {
        // SAFETY: a valid expression, and the context that the walker expects.
        unsafe { walk::walk(self.as_ptr(), find, (&raw mut wanted).cast()) }
    }
}

impl<'a> Ref<'a, pg_sys::Query> {
    /// Whether the query itself reads a column of an entry of its range table. Column 0 stands for the whole row.
    pub fn reads(self, entry: Ref<'_, pg_sys::RangeTblEntry>, column: i16) -> bool {
        // SAFETY: the query is valid, and the entry is one of its entries.
        unsafe { compat::selects(&self, entry.as_ptr(), column) }
    }

    /// The functions that a query calls, including the functions of its operators and aggregates, each once.
    pub fn functions(self) -> Vec<pg_sys::Oid> {
        // SAFETY: a valid query.
        unsafe { walk::functions_of(self.as_ptr()) }
    }

    /// The sets of keys by which a query groups, as lists of the numbers that GROUP BY gives to the keys. `None` if
    /// there are more than `limit` sets.
    pub fn expanded_grouping_sets(self, limit: i32) -> Option<Vec<Vec<u32>>> {
        // SAFETY: the query is valid. The result is null, or a new list of lists of integers.
        unsafe {
            let sets = walk::expanded_grouping_sets(self.as_ptr(), limit);
            // PostgreSQL represents a set without keys by a null list.
            let keys = |at| List::<i32>::new(pg_sys::list_nth(sets, at).cast());
            let set = |at| keys(at).iter().map(|key| key as u32).collect();
            (!sets.is_null()).then(|| (0..pg_sys::list_length(sets)).map(set).collect())
        }
    }
}

impl<'a> Ref<'a, pg_sys::RangeTblEntry> {
    /// The name of an item of FROM.
    pub fn name(self) -> Option<&'a CStr> {
        self.eref()?.aliasname()
    }

    /// The expressions for which the columns of an entry stand, if the entry represents the keys of the groups. Queries
    /// have such an entry since PostgreSQL 18. Empty for any other entry.
    pub fn group_keys(self) -> List<'a, pg_sys::Node> {
        // SAFETY: null, or a list that is a part of the tree.
        unsafe { List::new(compat::group_keys(&self)) }
    }

    /// The names of the item's columns.
    pub fn names_of_columns(self) -> impl Iterator<Item = Node<'a>> + Clone {
        self.eref().into_iter().flat_map(|alias| alias.colnames())
    }
}

impl<'a> Ref<'a, pg_sys::DefElem> {
    /// The value of an option; `None` if there is none, as in `TEMPLATE DEFAULT`.
    pub fn value(self) -> Option<&'a CStr> {
        self.arg()?;
        // SAFETY: the option is a part of the tree, which does not change. Its value is a part of the option, or new.
        unsafe {
            let value = pg_sys::defGetString(self.as_ptr());
            (!value.is_null()).then(|| CStr::from_ptr(value))
        }
    }
}

macro_rules! questions {
    ($($name:ident => $function:ident() -> $answer:ty;)*) => {
        impl Node<'_> {
            $(pub fn $name(self) -> $answer {
                // SAFETY: a valid expression.
                unsafe { pg_sys::$function(self.as_ptr()) }
            })*
        }
    };
}

questions! {
    sql_type => exprType() -> pg_sys::Oid;
    type_modifier => exprTypmod() -> i32;
    collation => exprCollation() -> pg_sys::Oid;
    is_volatile => contain_volatile_functions() -> bool;
    has_columns => contain_var_clause() -> bool;
    returns_set => expression_returns_set() -> bool;
}

/// # Safety
///
/// `node` is null or a valid expression. `context` points to the function that [`Node::any`] was given.
#[pg_guard]
unsafe extern "C-unwind" fn find(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise, which the walker keeps.
    unsafe {
        let wanted = *context.cast::<fn(Node<'_>) -> bool>();
        Ref::or_null(node).is_some_and(|node| wanted(node) || walk::walk_children(node.as_ptr(), find, context))
    }
}
