//! Methods that follow a field of a node to another part of the tree. Each method has the name of its field.

use std::ffi::{CStr, c_char};

use pgrx::pg_sys::*;

use super::{Element, List, Ref};

/// Conversion of a pointer in a node's field to a safe type, such as a [`Ref`] or a [`List`].
trait Followed<P> {
    /// # Safety
    ///
    /// `pointer` is the value of a field in a tree that fulfills the conditions of [`Ref::new`], and in this field
    /// PostgreSQL stores what `Self` stands for.
    unsafe fn followed(pointer: P) -> Self;
}

/// A node in a field that PostgreSQL never leaves null.
impl<T, U> Followed<*mut U> for Ref<'_, T> {
    unsafe fn followed(pointer: *mut U) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { Ref::new(pointer.cast()) }
    }
}

impl<T, U> Followed<*mut U> for Option<Ref<'_, T>> {
    unsafe fn followed(pointer: *mut U) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { Ref::or_null(pointer.cast()) }
    }
}

impl<T: Element> Followed<*mut pgrx::pg_sys::List> for List<'_, T> {
    unsafe fn followed(pointer: *mut pgrx::pg_sys::List) -> Self {
        // SAFETY: by the caller's promise.
        unsafe { List::new(pointer) }
    }
}

impl Followed<*mut c_char> for Option<&CStr> {
    unsafe fn followed(pointer: *mut c_char) -> Self {
        // SAFETY: null or a C string, by the caller's promise.
        (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
    }
}

macro_rules! fields {
    ($($part:ident { $($field:ident $(in $($inner:ident).+)?: $what:ty,)* })*) => {
        $(impl<'a> Ref<'a, $part> {
            $(#[allow(non_snake_case)]
            pub fn $field(self) -> $what {
                // SAFETY: a field of a part of the tree, as PostgreSQL's headers describe it.
                unsafe { Followed::followed(self.get().$($($inner.)+)?$field) }
            })*
        })*
    };
}

fields! {
    Aggref {
        aggdirectargs: List<'a, Node>,
        aggdistinct: List<'a, SortGroupClause>,
        aggfilter: Option<Ref<'a, Node>>,
        aggorder: List<'a, SortGroupClause>,
        args: List<'a, TargetEntry>,
    }
    Alias {
        aliasname: Option<&'a CStr>,
        colnames: List<'a, Node>,
    }
    AlterDatabaseStmt {
        dbname: Option<&'a CStr>,
        options: List<'a, DefElem>,
    }
    AlterTableCmd {
        def: Option<Ref<'a, Node>>,
    }
    AlterTableStmt {
        cmds: List<'a, AlterTableCmd>,
        relation: Ref<'a, RangeVar>,
    }
    Append {
        appendplans: List<'a, Plan>,
    }
    ArrayExpr {
        elements: List<'a, Node>,
    }
    BitmapIndexScan {
        indexqual: List<'a, Node>,
    }
    BoolExpr {
        args: List<'a, Node>,
    }
    BooleanTest {
        arg: Ref<'a, Node>,
    }
    CaseExpr {
        arg: Option<Ref<'a, Node>>,
        args: List<'a, CaseWhen>,
        defresult: Option<Ref<'a, Node>>,
    }
    CaseWhen {
        expr: Ref<'a, Node>,
        result: Ref<'a, Node>,
    }
    CoalesceExpr {
        args: List<'a, Node>,
    }
    CoerceViaIO {
        arg: Ref<'a, Node>,
    }
    CollateExpr {
        arg: Ref<'a, Node>,
    }
    CommonTableExpr {
        ctename: Option<&'a CStr>,
        ctequery: Ref<'a, Node>,
    }
    CreateStmt {
        relation: Ref<'a, RangeVar>,
    }
    CreatedbStmt {
        options: List<'a, DefElem>,
    }
    CustomScan {
        custom_exprs: List<'a, Node>,
        custom_plans: List<'a, Node>,
        custom_private: List<'a, Node>,
    }
    DefElem {
        arg: Option<Ref<'a, Node>>,
        defname: Option<&'a CStr>,
    }
    DropdbStmt {
        dbname: Option<&'a CStr>,
    }
    ExplainStmt {
        query: Ref<'a, Node>,
    }
    FromExpr {
        fromlist: List<'a, Node>,
        quals: Option<Ref<'a, Node>>,
    }
    FuncExpr {
        args: List<'a, Node>,
    }
    GroupingFunc {
        refs: List<'a, i32>,
    }
    IndexOnlyScan {
        indexqual: List<'a, Node>,
    }
    IndexScan {
        indexqual: List<'a, Node>,
    }
    JoinExpr {
        larg: Ref<'a, Node>,
        quals: Option<Ref<'a, Node>>,
        rarg: Ref<'a, Node>,
    }
    MergeAppend {
        mergeplans: List<'a, Plan>,
    }
    MinMaxExpr {
        args: List<'a, Node>,
    }
    NestLoop {
        joinqual in join: List<'a, Node>,
    }
    NullTest {
        arg: Ref<'a, Node>,
    }
    OpExpr {
        args: List<'a, Node>,
    }
    PartitionCmd {
        name: Option<Ref<'a, RangeVar>>,
    }
    Plan {
        initPlan: List<'a, SubPlan>,
        lefttree: Option<Ref<'a, Plan>>,
        righttree: Option<Ref<'a, Plan>>,
        targetlist: List<'a, TargetEntry>,
    }
    PlannedStmt {
        planTree: Ref<'a, Plan>,
        rtable: List<'a, RangeTblEntry>,
        subplans: List<'a, Plan>,
        utilityStmt: Option<Ref<'a, Node>>,
    }
    Query {
        cteList: List<'a, CommonTableExpr>,
        distinctClause: List<'a, SortGroupClause>,
        groupClause: List<'a, SortGroupClause>,
        havingQual: Option<Ref<'a, Node>>,
        jointree: Option<Ref<'a, FromExpr>>,
        limitCount: Option<Ref<'a, Node>>,
        limitOffset: Option<Ref<'a, Node>>,
        rtable: List<'a, RangeTblEntry>,
        setOperations: Option<Ref<'a, Node>>,
        sortClause: List<'a, SortGroupClause>,
        targetList: List<'a, TargetEntry>,
        utilityStmt: Option<Ref<'a, Node>>,
        windowClause: List<'a, WindowClause>,
    }
    RangeTblEntry {
        ctename: Option<&'a CStr>,
        eref: Option<Ref<'a, Alias>>,
        functions: List<'a, RangeTblFunction>,
        joinaliasvars: List<'a, Node>,
        securityQuals: List<'a, Node>,
        subquery: Option<Ref<'a, Query>>,
        values_lists: List<'a, pgrx::pg_sys::List>,
    }
    RangeTblFunction {
        funcexpr: Ref<'a, Node>,
    }
    RelabelType {
        arg: Ref<'a, Node>,
    }
    RenameStmt {
        subname: Option<&'a CStr>,
    }
    RowCompareExpr {
        inputcollids: List<'a, Oid>,
        largs: List<'a, Node>,
        opnos: List<'a, Oid>,
        rargs: List<'a, Node>,
    }
    ScalarArrayOpExpr {
        args: List<'a, Node>,
    }
    SetOperationStmt {
        colCollations: List<'a, Oid>,
        colTypes: List<'a, Oid>,
        larg: Ref<'a, Node>,
        rarg: Ref<'a, Node>,
    }
    String {
        sval: Option<&'a CStr>,
    }
    SubLink {
        subselect: Ref<'a, Node>,
        testexpr: Option<Ref<'a, Node>>,
    }
    SubqueryScan {
        subplan: Option<Ref<'a, Plan>>,
    }
    SubscriptingRef {
        refexpr: Ref<'a, Node>,
        refupperindexpr: List<'a, Node>,
    }
    TargetEntry {
        expr: Ref<'a, Node>,
    }
    WindowClause {
        endOffset: Option<Ref<'a, Node>>,
        orderClause: List<'a, SortGroupClause>,
        partitionClause: List<'a, SortGroupClause>,
        startOffset: Option<Ref<'a, Node>>,
    }
    WindowFunc {
        aggfilter: Option<Ref<'a, Node>>,
        args: List<'a, Node>,
    }
}
