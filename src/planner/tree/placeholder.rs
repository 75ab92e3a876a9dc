//! The placeholder: a function in FROM that stands for the engine's result while PostgreSQL plans the upper query.

use pgrx::prelude::*;

use crate::pg::tree::{make, push, string_node, text};
use crate::planner::translate::columns::ScanColumn;

/// `function() AS engine(columns)`
pub fn entry(function: pg_sys::Oid, columns: &[ScanColumn]) -> *mut pg_sys::RangeTblEntry {
    let result = make::<pg_sys::RangeTblFunction>();
    let mut names = std::ptr::null_mut();
    for column in columns {
        push(&mut names, string_node(&column.name));
        push(&mut result.funccolnames, string_node(&column.name));
        // SAFETY: lists that only we know.
        unsafe {
            result.funccoltypes = pg_sys::lappend_oid(result.funccoltypes, column.ty);
            result.funccoltypmods = pg_sys::lappend_int(result.funccoltypmods, column.modifier);
            result.funccolcollations = pg_sys::lappend_oid(result.funccolcollations, column.collation);
        }
    }
    result.funccolcount = columns.len() as i32;
    let entry = make::<pg_sys::RangeTblEntry>();
    // SAFETY: makes nodes out of valid parts.
    unsafe {
        let call = pg_sys::makeFuncExpr(
            function,
            pg_sys::RECORDOID,
            std::ptr::null_mut(),
            pg_sys::InvalidOid,
            pg_sys::InvalidOid,
            pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
        );
        (*call).funcretset = true;
        result.funcexpr = call.cast();
        entry.eref = pg_sys::makeAlias(text("engine"), names);
    }
    entry.rtekind = pg_sys::RTEKind::RTE_FUNCTION;
    push(&mut entry.functions, std::ptr::from_mut(result));
    entry.inFromCl = true;
    entry
}
