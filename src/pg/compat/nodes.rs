//! The fields of the nodes that the planner translates. A field that nobody knows could change what a query means. So
//! each node is taken apart here, with all its fields, and the extension does not compile for a version that has
//! another one. Before a field is added here, the translator must handle it, or refuse what the engine does not do.

use pgrx::prelude::*;

/// Checks while compiling that each node has exactly these fields.
macro_rules! known {
    ($($node:ident { $($(#[$since:meta])? $field:ident),+ $(,)? })+) => {
        $(const _: fn(&pg_sys::$node) = |node| {
            let pg_sys::$node { $($(#[$since])? $field: _),+ } = node;
        };)+
    };
}

known! {
    Aggref {
        xpr, aggfnoid, aggtype, aggcollid, inputcollid, aggtranstype, aggargtypes, aggdirectargs, args, aggorder,
        aggdistinct, aggfilter, aggstar, aggvariadic, aggkind, agglevelsup, aggsplit, aggno, aggtransno, location,
        #[cfg(feature = "since_16")] aggpresorted,
    }
    ArrayExpr {
        xpr, array_typeid, array_collid, element_typeid, elements, multidims, location,
        #[cfg(feature = "since_18")] list_start,
        #[cfg(feature = "since_18")] list_end,
    }
    BoolExpr { xpr, boolop, args, location }
    BooleanTest { xpr, arg, booltesttype, location }
    CaseExpr { xpr, casetype, casecollid, arg, args, defresult, location }
    CaseTestExpr { xpr, typeId, typeMod, collation }
    CaseWhen { xpr, expr, result, location }
    CoalesceExpr { xpr, coalescetype, coalescecollid, args, location }
    CoerceViaIO { xpr, arg, resulttype, resultcollid, coerceformat, location }
    CollateExpr { xpr, arg, collOid, location }
    CommonTableExpr {
        type_, ctename, aliascolnames, ctematerialized, ctequery, search_clause, cycle_clause, location, cterecursive,
        cterefcount, ctecolnames, ctecoltypes, ctecoltypmods, ctecolcollations,
    }
    Const { xpr, consttype, consttypmod, constcollid, constlen, constvalue, constisnull, constbyval, location }
    FromExpr { type_, fromlist, quals }
    FuncExpr {
        xpr, funcid, funcresulttype, funcretset, funcvariadic, funcformat, funccollid, inputcollid, args, location,
    }
    GroupingFunc { xpr, args, refs, cols, agglevelsup, location }
    JoinExpr { type_, jointype, isNatural, larg, rarg, usingClause, join_using_alias, quals, alias, rtindex }
    MinMaxExpr { xpr, minmaxtype, minmaxcollid, inputcollid, op, args, location }
    NullTest { xpr, arg, nulltesttype, argisrow, location }
    OpExpr { xpr, opno, opfuncid, opresulttype, opretset, opcollid, inputcollid, args, location }
    Param { xpr, paramkind, paramid, paramtype, paramtypmod, paramcollid, location }
    Query {
        type_, commandType, querySource, queryId, canSetTag, utilityStmt, resultRelation, hasAggs, hasWindowFuncs,
        hasTargetSRFs, hasSubLinks, hasDistinctOn, hasRecursive, hasModifyingCTE, hasForUpdate, hasRowSecurity,
        isReturn, cteList, rtable, jointree, mergeActionList, targetList, override_, onConflict, returningList,
        groupClause, groupDistinct, groupingSets, havingQual, windowClause, distinctClause, sortClause, limitOffset,
        limitCount, limitOption, rowMarks, setOperations, constraintDeps, withCheckOptions, stmt_location, stmt_len,
        #[cfg(feature = "since_18")] hasGroupRTE,
        #[cfg(feature = "since_16")] rteperminfos,
        #[cfg(not(feature = "since_17"))] mergeUseOuterJoin,
        #[cfg(feature = "since_17")] mergeTargetRelation,
        #[cfg(feature = "since_17")] mergeJoinCondition,
        #[cfg(feature = "since_18")] returningOldAlias,
        #[cfg(feature = "since_18")] returningNewAlias,
    }
    RangeTblEntry {
        type_, alias, eref, rtekind, relid, inh, relkind, rellockmode, tablesample, subquery, security_barrier,
        jointype, joinmergedcols, joinaliasvars, joinleftcols, joinrightcols, join_using_alias, functions,
        funcordinality, tablefunc, values_lists, ctename, ctelevelsup, self_reference, coltypes, coltypmods,
        colcollations, enrname, enrtuples, lateral, inFromCl, securityQuals,
        #[cfg(feature = "since_16")] perminfoindex,
        #[cfg(feature = "since_18")] groupexprs,
        #[cfg(not(feature = "since_16"))] requiredPerms,
        #[cfg(not(feature = "since_16"))] checkAsUser,
        #[cfg(not(feature = "since_16"))] selectedCols,
        #[cfg(not(feature = "since_16"))] insertedCols,
        #[cfg(not(feature = "since_16"))] updatedCols,
        #[cfg(not(feature = "since_16"))] extraUpdatedCols,
    }
    RangeTblFunction {
        type_, funcexpr, funccolcount, funccolnames, funccoltypes, funccoltypmods, funccolcollations, funcparams,
    }
    RangeTblRef { type_, rtindex }
    RelabelType { xpr, arg, resulttype, resulttypmod, resultcollid, relabelformat, location }
    RowCompareExpr {
        xpr, opnos, opfamilies, inputcollids, largs, rargs,
        #[cfg(not(feature = "since_18"))] rctype,
        #[cfg(feature = "since_18")] cmptype,
    }
    ScalarArrayOpExpr { xpr, opno, opfuncid, hashfuncid, negfuncid, useOr, inputcollid, args, location }
    SetOperationStmt { type_, op, all, larg, rarg, colTypes, colTypmods, colCollations, groupClauses }
    SortGroupClause {
        type_, tleSortGroupRef, eqop, sortop, nulls_first, hashable,
        #[cfg(feature = "since_18")] reverse_sort,
    }
    SubLink { xpr, subLinkType, subLinkId, testexpr, operName, subselect, location }
    SubscriptingRef {
        xpr, refcontainertype, refelemtype, refrestype, reftypmod, refcollid, refupperindexpr, reflowerindexpr,
        refexpr, refassgnexpr,
    }
    TargetEntry { xpr, expr, resno, resname, ressortgroupref, resorigtbl, resorigcol, resjunk }
    Var {
        xpr, varno, varattno, vartype, vartypmod, varcollid, varlevelsup, varnosyn, varattnosyn, location,
        #[cfg(feature = "since_16")] varnullingrels,
        #[cfg(feature = "since_18")] varreturningtype,
    }
    WindowClause {
        type_, name, refname, partitionClause, orderClause, frameOptions, startOffset, endOffset, startInRangeFunc,
        endInRangeFunc, inRangeColl, inRangeAsc, inRangeNullsFirst, winref, copiedOrder,
        #[cfg(not(feature = "since_17"))] runCondition,
    }
    WindowFunc {
        xpr, winfnoid, wintype, wincollid, inputcollid, args, aggfilter, winref, winstar, winagg, location,
        #[cfg(feature = "since_17")] runCondition,
        #[cfg(feature = "since_19")] ignore_nulls,
    }
}
