//! PostgreSQL's node types, and the tags that distinguish them.

use pgrx::prelude::*;

/// The types that begin with a node's tag.
///
/// # Safety
///
/// A value of the type begins with a tag.
pub unsafe trait Headed: Copy + 'static {}

// SAFETY: every plan node begins with a `Plan`, and a `Plan` begins with the tag.
unsafe impl Headed for pg_sys::Plan {}

/// Node types that a tag identifies.
///
/// # Safety
///
/// A node with this tag has this type. Behind the tag, zeros are valid values.
pub unsafe trait Tagged: Headed {
    const TAG: pg_sys::NodeTag;
}

macro_rules! tagged {
    ($($node:ident => $tag:ident),* $(,)?) => {
        $(
            // SAFETY: every node type of PostgreSQL begins with a tag.
            unsafe impl Headed for pg_sys::$node {}

            // SAFETY: each node type has its own tag, and consists of numbers and pointers.
            unsafe impl Tagged for pg_sys::$node {
                const TAG: pg_sys::NodeTag = pg_sys::NodeTag::$tag;
            }
        )*
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
