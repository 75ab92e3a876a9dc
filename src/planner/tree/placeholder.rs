//! The placeholder: a function in FROM that stands for the engine's result while PostgreSQL plans the upper query.

use pgrx::prelude::*;

use crate::pg::make;
use crate::planner::translate::columns::ScanColumn;

/// The placeholder as an item of FROM: `function() AS engine(columns)`.
pub fn entry(function: pg_sys::Oid, columns: &[ScanColumn]) -> *mut pg_sys::RangeTblEntry {
    let call = make::call(function, pg_sys::RECORDOID, pg_sys::InvalidOid, [] as [*mut pg_sys::Node; 0]);
    let names = || make::strings(columns.iter().map(|column| &column.name));
    let result = pg_sys::RangeTblFunction {
        funcexpr: make::placed(pg_sys::FuncExpr { funcretset: true, ..call }).cast(),
        funccolcount: columns.len() as i32,
        funccolnames: names(),
        funccoltypes: make::oids(columns.iter().map(|column| column.shape.ty)),
        funccoltypmods: make::integers(columns.iter().map(|column| column.shape.modifier)),
        funccolcollations: make::oids(columns.iter().map(|column| column.shape.collation)),
        ..make::blank()
    };
    make::placed(pg_sys::RangeTblEntry {
        rtekind: pg_sys::RTEKind::RTE_FUNCTION,
        functions: make::list([make::placed(result)]),
        eref: make::alias("engine", names()),
        inFromCl: true,
        ..make::blank()
    })
}
