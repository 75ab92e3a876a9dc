//! A safe view of the node trees that parser and planner hand around.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
use std::ptr;

use pgrx::prelude::*;

use super::walk;

/// Node types that can be told by their tag.
pub trait Tagged {
    const TAG: pg_sys::NodeTag;
}

macro_rules! tagged {
    ($($node:ident => $tag:ident),* $(,)?) => {
        $(impl Tagged for pg_sys::$node {
            const TAG: pg_sys::NodeTag = pg_sys::NodeTag::$tag;
        })*
    };
}

tagged! {
    Agg => T_Agg,
    Aggref => T_Aggref,
    AlterDatabaseStmt => T_AlterDatabaseStmt,
    AlterTableCmd => T_AlterTableCmd,
    AlterTableStmt => T_AlterTableStmt,
    Append => T_Append,
    BitmapIndexScan => T_BitmapIndexScan,
    BoolExpr => T_BoolExpr,
    BooleanTest => T_BooleanTest,
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
    ScalarArrayOpExpr => T_ScalarArrayOpExpr,
    SetOperationStmt => T_SetOperationStmt,
    SortGroupClause => T_SortGroupClause,
    String => T_String,
    SubLink => T_SubLink,
    SubPlan => T_SubPlan,
    SubqueryScan => T_SubqueryScan,
    TargetEntry => T_TargetEntry,
    TransactionStmt => T_TransactionStmt,
    Var => T_Var,
    WindowClause => T_WindowClause,
    WindowFunc => T_WindowFunc,
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
    /// and unchanged during `'a`.
    pub unsafe fn new() -> Tree<'a> {
        Tree(PhantomData)
    }

    pub fn node<T>(self, pointer: *mut T) -> Option<Node<'a>> {
        // SAFETY: null or a node, by the promise of `new`.
        unsafe { pointer.cast::<pg_sys::Node>().as_ref() }.map(|node| Node { node })
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

/// A new, zeroed node.
pub fn make<T: Tagged>() -> &'static mut T {
    // SAFETY: zeroes are valid for every node type, which consist of numbers and pointers; the memory lives as long as
    // the memory context, which outlives the planning that the node is for.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>());
        *node.cast::<pg_sys::NodeTag>() = T::TAG;
        &mut *node.cast::<T>()
    }
}

/// Appends to a list that the caller owns.
pub fn push<T>(list: &mut *mut pg_sys::List, node: *mut T) {
    // SAFETY: null or a list of nodes that the caller owns.
    *list = unsafe { pg_sys::lappend(*list, node.cast()) };
}

/// A string in the current memory context.
pub fn text(s: &str) -> *mut c_char {
    // SAFETY: copies len bytes and adds the terminator.
    unsafe { pg_sys::pnstrdup(s.as_ptr().cast(), s.len()) }
}

/// A String node.
pub fn string_node(s: &str) -> *mut pg_sys::Node {
    let node = make::<pg_sys::String>();
    node.sval = text(s);
    ptr::from_mut(node).cast()
}
