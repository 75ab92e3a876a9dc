//! A safe view of the node trees that parser and planner hand around.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;

use pgrx::prelude::*;

use super::{compat, make, walk};

/// Node types that can be told by their tag.
///
/// # Safety
///
/// A node with this tag is one of this type, which begins with the tag, and for which zeroes are valid otherwise.
pub unsafe trait Tagged: Copy {
    const TAG: pg_sys::NodeTag;
}

macro_rules! tagged {
    ($($node:ident => $tag:ident),* $(,)?) => {
        // SAFETY: PostgreSQL's node types, each with its own tag; they consist of numbers and pointers.
        $(unsafe impl Tagged for pg_sys::$node {
            const TAG: pg_sys::NodeTag = pg_sys::NodeTag::$tag;
        })*
    };
}

tagged! {
    Agg => T_Agg,
    Aggref => T_Aggref,
    Alias => T_Alias,
    AlterDatabaseStmt => T_AlterDatabaseStmt,
    AlterTableCmd => T_AlterTableCmd,
    AlterTableStmt => T_AlterTableStmt,
    Append => T_Append,
    ArrayExpr => T_ArrayExpr,
    BitmapIndexScan => T_BitmapIndexScan,
    BoolExpr => T_BoolExpr,
    BooleanTest => T_BooleanTest,
    CaseExpr => T_CaseExpr,
    CaseTestExpr => T_CaseTestExpr,
    CaseWhen => T_CaseWhen,
    CoalesceExpr => T_CoalesceExpr,
    CoerceViaIO => T_CoerceViaIO,
    CollateExpr => T_CollateExpr,
    CommonTableExpr => T_CommonTableExpr,
    Const => T_Const,
    CreateStmt => T_CreateStmt,
    CreatedbStmt => T_CreatedbStmt,
    CustomScan => T_CustomScan,
    DefElem => T_DefElem,
    DropdbStmt => T_DropdbStmt,
    ExecuteStmt => T_ExecuteStmt,
    ExplainStmt => T_ExplainStmt,
    FromExpr => T_FromExpr,
    FuncExpr => T_FuncExpr,
    FunctionScan => T_FunctionScan,
    Gather => T_Gather,
    GatherMerge => T_GatherMerge,
    GroupingFunc => T_GroupingFunc,
    IndexOnlyScan => T_IndexOnlyScan,
    IndexScan => T_IndexScan,
    JoinExpr => T_JoinExpr,
    Material => T_Material,
    MergeAppend => T_MergeAppend,
    MinMaxExpr => T_MinMaxExpr,
    NestLoop => T_NestLoop,
    NullTest => T_NullTest,
    OpExpr => T_OpExpr,
    Param => T_Param,
    PartitionCmd => T_PartitionCmd,
    PlannedStmt => T_PlannedStmt,
    PlannerGlobal => T_PlannerGlobal,
    PlannerInfo => T_PlannerInfo,
    Query => T_Query,
    RangeTblEntry => T_RangeTblEntry,
    RangeTblFunction => T_RangeTblFunction,
    RangeTblRef => T_RangeTblRef,
    RelabelType => T_RelabelType,
    RenameStmt => T_RenameStmt,
    RowCompareExpr => T_RowCompareExpr,
    ScalarArrayOpExpr => T_ScalarArrayOpExpr,
    SetOperationStmt => T_SetOperationStmt,
    SortGroupClause => T_SortGroupClause,
    String => T_String,
    SubLink => T_SubLink,
    SubPlan => T_SubPlan,
    SubqueryScan => T_SubqueryScan,
    SubscriptingRef => T_SubscriptingRef,
    TargetEntry => T_TargetEntry,
    TransactionStmt => T_TransactionStmt,
    Var => T_Var,
    WindowClause => T_WindowClause,
    WindowFunc => T_WindowFunc,
}

/// The type of an expression's values.
#[derive(Clone, Copy, PartialEq)]
pub struct Shape {
    pub ty: pg_sys::Oid,
    pub modifier: i32,
    pub collation: pg_sys::Oid,
}

impl Shape {
    /// Values of any length, without a collation.
    pub fn of(ty: pg_sys::Oid) -> Shape {
        Shape { ty, modifier: -1, collation: pg_sys::InvalidOid }
    }
}

/// A tree that PostgreSQL owns and that nobody changes during `'a`.
#[derive(Clone, Copy)]
pub struct Tree<'a>(PhantomData<&'a ()>);

/// A node of it.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    node: &'a pg_sys::Node,
}

impl<'a> Tree<'a> {
    /// # Safety
    ///
    /// Every pointer that is passed to this value's methods comes from fields of a well-formed tree that stays in place
    /// and unchanged during `'a`, and so does what is made in the current memory context.
    pub unsafe fn new() -> Tree<'a> {
        Tree(PhantomData)
    }

    pub fn node<T>(self, pointer: *mut T) -> Option<Node<'a>> {
        // SAFETY: null or a node, by the promise of `new`.
        unsafe { pointer.cast::<pg_sys::Node>().as_ref() }.map(|node| Node { node })
    }

    /// A node of ours as a part of the tree.
    pub fn placed<T: Tagged>(self, node: T) -> &'a T {
        // SAFETY: a new node, which nobody changes, in memory that lives as long as the tree, by the promise of `new`.
        unsafe { &*make::placed(node) }
    }

    pub fn of<T: Tagged>(self, node: &'a T) -> Node<'a> {
        // SAFETY: a node begins with its tag.
        Node { node: unsafe { &*ptr::from_ref(node).cast() } }
    }

    /// A node of a finished plan, of whatever kind.
    pub fn plan(self, pointer: *mut pg_sys::Plan) -> Option<&'a pg_sys::Plan> {
        // SAFETY: null or a plan's node, by the promise of `new`.
        unsafe { pointer.as_ref() }
    }

    /// A node of a finished plan, to be told by its tag.
    pub fn of_plan(self, plan: &'a pg_sys::Plan) -> Node<'a> {
        // SAFETY: a plan's node begins with its tag.
        Node { node: unsafe { &*ptr::from_ref(plan).cast() } }
    }

    /// A child that PostgreSQL never leaves out.
    pub fn required<T>(self, pointer: *mut T) -> Node<'a> {
        self.node(pointer).expect("a node where the tree must have one")
    }

    /// A name in it.
    pub fn name(self, pointer: *mut c_char) -> Option<&'a CStr> {
        // SAFETY: null or a C string, by the promise of `new`.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
    }

    /// The value of an option.
    pub fn option_value(self, option: &pg_sys::DefElem) -> Option<&'a CStr> {
        // SAFETY: an option of the tree; its value is not changed.
        self.name(unsafe { pg_sys::defGetString(ptr::from_ref(option).cast_mut()) })
    }

    /// The elements of a list of nodes.
    pub fn list(self, list: *mut pg_sys::List) -> impl ExactSizeIterator<Item = Node<'a>> + Clone {
        self.pointers(list).map(move |pointer| self.required(pointer))
    }

    /// The elements of a list of pointers to anything.
    pub fn pointers(self, list: *mut pg_sys::List) -> impl ExactSizeIterator<Item = *mut c_void> + Clone {
        // SAFETY: cells of a list of pointers hold pointers.
        self.cells(list).iter().map(|cell| unsafe { cell.ptr_value })
    }

    fn cells(self, list: *mut pg_sys::List) -> &'a [pg_sys::ListCell] {
        // SAFETY: null or a list, by the promise of `new`, which has `length` cells.
        unsafe { list.as_ref().map_or(&[], |list| std::slice::from_raw_parts(list.elements, list.length as usize)) }
    }

    /// The elements of a list of integers.
    pub fn integers(self, list: *mut pg_sys::List) -> impl ExactSizeIterator<Item = i32> + Clone {
        // SAFETY: cells of a list of integers hold integers.
        self.cells(list).iter().map(|cell| unsafe { cell.int_value })
    }

    /// The elements of a list of oids.
    pub fn oids(self, list: *mut pg_sys::List) -> impl ExactSizeIterator<Item = pg_sys::Oid> + Clone {
        // SAFETY: cells of a list of oids hold oids.
        self.cells(list).iter().map(|cell| unsafe { cell.oid_value })
    }

    /// The name of an item of FROM.
    pub fn name_of_item(self, entry: &pg_sys::RangeTblEntry) -> Option<&'a CStr> {
        self.name(self.node(entry.eref)?.cast::<pg_sys::Alias>()?.aliasname)
    }

    /// The names of the columns of an item of FROM.
    pub fn names_of_columns(self, entry: &pg_sys::RangeTblEntry) -> impl Iterator<Item = Node<'a>> + Clone {
        let alias = self.node(entry.eref).and_then(Node::cast::<pg_sys::Alias>);
        alias.into_iter().flat_map(move |alias| self.list(alias.colnames))
    }

    /// The functions that a query calls, behind its operators and aggregates too, each once.
    pub fn functions_of(self, query: &'a pg_sys::Query) -> Vec<pg_sys::Oid> {
        // SAFETY: a query of the tree, by the promise of `new`.
        unsafe { walk::functions_of(ptr::from_ref(query).cast_mut()) }
    }

    /// The sets of keys that a query groups by, as GROUP BY calls the keys; `None`: more than `limit`.
    pub fn grouping_sets(self, query: &'a pg_sys::Query, limit: i32) -> Option<Vec<Vec<u32>>> {
        // SAFETY: a query of the tree, by the promise of `new`; null or a list of lists of integers.
        let sets = unsafe { walk::expanded_grouping_sets(query, limit) };
        let set = |set: *mut c_void| self.integers(set.cast()).map(|key| key as u32).collect();
        (!sets.is_null()).then(|| self.pointers(sets).map(set).collect())
    }

    /// The query that an item of FROM is, if it is one.
    pub fn subquery(self, entry: &pg_sys::RangeTblEntry) -> Option<&'a pg_sys::Query> {
        self.node(entry.subquery)?.cast()
    }

    /// The elements of a list whose nodes are all of one type, to be changed.
    ///
    /// # Safety
    ///
    /// The caller owns them, and nobody else looks at them meanwhile.
    pub unsafe fn list_of_mut<T: Tagged + 'a>(self, list: *mut pg_sys::List) -> impl Iterator<Item = &'a mut T> {
        // SAFETY: the elements are nodes, whose tags tell their types; by the caller's promise nobody else has them.
        self.pointers(list).filter_map(|node| unsafe {
            (*node.cast::<pg_sys::Node>()).type_.eq(&T::TAG).then(|| &mut *node.cast::<T>())
        })
    }

    /// The elements of a list whose nodes are all of one type.
    pub fn list_of<T: Tagged + 'a>(self, list: *mut pg_sys::List) -> impl Iterator<Item = &'a T> + Clone {
        self.list(list).filter_map(Node::cast::<T>)
    }
}

impl<'a> Node<'a> {
    pub fn tag(self) -> pg_sys::NodeTag {
        self.node.type_
    }

    pub fn cast<T: Tagged>(self) -> Option<&'a T> {
        // SAFETY: the tag tells the type.
        (self.tag() == T::TAG).then(|| unsafe { &*ptr::from_ref(self.node).cast::<T>() })
    }

    pub fn as_ptr<T>(self) -> *mut T {
        ptr::from_ref(self.node).cast_mut().cast()
    }

    /// An operator with its operands, by whatever name.
    pub fn operator(self) -> Option<&'a pg_sys::OpExpr> {
        use pg_sys::NodeTag::{T_DistinctExpr, T_NullIfExpr, T_OpExpr};
        let is_operator = matches!(self.tag(), T_OpExpr | T_DistinctExpr | T_NullIfExpr);
        // SAFETY: the tag tells the type, of which the other two are but names.
        is_operator.then(|| unsafe { &*ptr::from_ref(self.node).cast() })
    }

    /// A copy, which shares nothing with it.
    pub fn copied(self) -> Node<'a> {
        // SAFETY: a valid node; what comes is a new tree in the planner's memory, which nobody else knows.
        let node = unsafe { pg_sys::copyObjectImpl(self.as_ptr()).cast::<pg_sys::Node>().as_ref() };
        Node { node: node.expect("a copy of a node") }
    }

    /// A copy that reads one item of FROM of its own level instead of another one.
    pub fn copied_for(self, item: i32, instead: i32) -> Node<'a> {
        let copy = self.copied();
        // SAFETY: a copy that nobody else knows.
        unsafe { pg_sys::ChangeVarNodes(copy.as_ptr(), item, instead, 0) };
        copy
    }

    pub fn shape(self) -> Shape {
        Shape { ty: self.sql_type(), modifier: self.type_modifier(), collation: self.collation() }
    }

    /// The items of FROM of its own level that it reads, as a set.
    fn items(self) -> *mut pg_sys::Bitmapset {
        // SAFETY: an expression of a query that is not planned yet, so that no planner state is needed.
        unsafe { pg_sys::pull_varnos(ptr::null_mut(), self.as_ptr()) }
    }

    /// How many items of FROM of its own level it reads.
    pub fn count_of_items(self) -> i32 {
        // SAFETY: a new set.
        unsafe { pg_sys::bms_num_members(self.items()) }
    }

    /// Whether it reads one item of FROM of its own level, this one.
    pub fn reads_only(self, item: i32) -> bool {
        // SAFETY: two new sets.
        unsafe { pg_sys::bms_equal(self.items(), pg_sys::bms_make_singleton(item)) }
    }

    /// The columns in it, and window functions and aggregates as a whole.
    pub fn columns_and_calls(self) -> impl ExactSizeIterator<Item = Node<'a>> {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES | pg_sys::PVC_INCLUDE_WINDOWFUNCS | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: an expression; the list is new.
        let parts = unsafe { pg_sys::pull_var_clause(self.as_ptr(), flags as i32) };
        Tree(PhantomData).list(parts)
    }

    /// Those elements of a list that are of one type.
    pub fn elements_of<T: Tagged + 'a>(self) -> impl Iterator<Item = &'a T> + Clone {
        Tree(PhantomData).list_of(self.as_ptr())
    }

    /// The text of a String node.
    pub fn string(self) -> Option<String> {
        let string = Tree::<'a>(PhantomData).name(self.cast::<pg_sys::String>()?.sval)?;
        Some(string.to_string_lossy().into_owned())
    }

    /// The expression, without columns of joins, as the planner sees it: a new tree with constants folded, negations
    /// pushed down, SQL functions inlined.
    pub fn simplified(self) -> Node<'a> {
        // SAFETY: a valid expression, or a list of such; what comes is a new tree in the planner's memory, which
        // nobody changes.
        let node = unsafe { pg_sys::eval_const_expressions(ptr::null_mut(), self.as_ptr()).as_ref() };
        Node { node: node.expect("an expression stays one") }
    }

    /// The same expression of `query`, with the columns of joins resolved: as the parser sees it when it looks for
    /// ungrouped columns.
    pub fn flattened(self, query: &'a pg_sys::Query) -> Node<'a> {
        // SAFETY: an expression, or a list of such; what comes is a new tree in the planner's memory.
        let node = unsafe { compat::flatten_join_columns(ptr::from_ref(query).cast_mut(), self.as_ptr()).as_ref() };
        Node { node: node.expect("an expression stays one") }
    }

    /// A condition with what is common to all branches of OR put before it.
    pub fn canonical(self) -> Node<'a> {
        // SAFETY: a simplified condition; what comes is a valid one, too.
        let node = unsafe { pg_sys::canonicalize_qual(self.as_ptr(), false).cast::<pg_sys::Node>().as_ref() };
        Node { node: node.expect("a condition stays one") }
    }

    /// The conditions that AND puts together; none of the constant that is true.
    pub fn conjuncts(self) -> impl ExactSizeIterator<Item = Node<'a>> + Clone {
        // SAFETY: an expression; the list is new, or the one that is in it.
        let list = unsafe { pg_sys::make_ands_implicit(self.as_ptr()) };
        Tree(PhantomData).list(list)
    }

    pub fn equals(self, other: Node<'_>) -> bool {
        // SAFETY: two valid nodes.
        unsafe { pg_sys::equal(self.as_ptr(), other.as_ptr()) }
    }

    /// Whether it reads columns of a query `levels_up` levels above.
    pub fn has_columns_of(self, levels_up: usize) -> bool {
        // SAFETY: a valid expression, query, or list of such.
        unsafe { pg_sys::contain_vars_of_level(self.as_ptr(), levels_up as i32) }
    }

    /// Whether it calls no functions but the server's own.
    pub fn calls_only_builtin(self) -> bool {
        // SAFETY: a valid expression.
        unsafe { walk::calls_only_builtin(self.as_ptr()) }
    }

    /// Whether this node or one below it is what `wanted` looks for.
    pub fn any(self, mut wanted: fn(Node<'_>) -> bool) -> bool {
        // SAFETY: a valid expression, and the context that the walker expects.
        unsafe { walk::walk(self.as_ptr(), find, (&raw mut wanted).cast()) }
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
/// `node` is null or a valid expression, `context` what [`Node::any`] looks for.
#[pg_guard]
unsafe extern "C-unwind" fn find(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: by the caller's promise, which the walker keeps.
    unsafe {
        let wanted = *context.cast::<fn(Node<'_>) -> bool>();
        node.as_ref().is_some_and(|node| {
            wanted(Node { node }) || walk::walk_children(ptr::from_ref(node).cast_mut(), find, context)
        })
    }
}
