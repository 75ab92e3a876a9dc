//! Planning by way of all hooks: for the heap alone, and to learn where the rows of a table are.
//!
//! Another library may keep the rows of a table elsewhere than in its heap: Citus those of distributed tables,
//! TimescaleDB those of compressed chunks. A mirror of the heap lacks them. Such a library has PostgreSQL plan
//! something else than a scan of the table. So the plan of a bare query tells where the rows are, whichever library it
//! is.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::c_char;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::catalog::{text, text_of};
use super::changes::{self, Cache};
use super::hooks;
use super::make;
use super::relation::OpenRelation;
use super::symbols::{self, Planner};
use super::tree::Ref;

/// A planning option beside the server's own: the query is to be planned for the heap. Neither the server nor other
/// extensions use this bit, and they pass on the options that they get.
const FOR_HEAP: i32 = 1 << 30;

static mut PREVIOUS: pg_sys::planner_hook_type = None;
static mut OURS: Option<Planner> = None;

thread_local! {
    /// The relations that PostgreSQL reads from their heaps. A change of a relation takes it out.
    static FROM_HEAP: RefCell<HashSet<u32>> = RefCell::default();
}

/// Puts our planner before the one that is there. While the library is preloaded.
pub fn install(ours: Planner) {
    hooks::install!(planner_hook, PREVIOUS, ours);
    // SAFETY: on the one thread, before anybody reads it.
    unsafe { OURS = Some(ours) };
}

/// PostgreSQL's planner, or the hook that was there before ours.
pub fn previous() -> Planner {
    // SAFETY: written when the library was loaded.
    unsafe { PREVIOUS }.unwrap_or(symbols::standard_planner)
}

/// The options of a query that [`for_heap`] plans, without its own; `None`: it is another one's.
pub fn options_for_heap(options: i32) -> Option<i32> {
    (options & FOR_HEAP != 0).then_some(options & !FOR_HEAP)
}

/// Plans a query for the heap alone. It calls every planner hook except ours.
///
/// # Safety
///
/// As for PostgreSQL's planner. An error jumps over all frames up to the caller's.
pub unsafe extern "C-unwind" fn for_heap(
    query: *mut pg_sys::Query,
    source: *const c_char,
    options: i32,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller has the planner's arguments, and owns nothing that must be dropped after an error.
    unsafe { pg_sys::planner_hook.unwrap_or(symbols::standard_planner)(query, source, options | FOR_HEAP, params) }
}

/// Plans a query that was made from a part of another one. Extensions that count queries count the other one.
///
/// # Safety
///
/// As for [`for_heap`].
pub unsafe extern "C-unwind" fn part(
    query: *mut pg_sys::Query,
    source: *const c_char,
    options: i32,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the query is the caller's own, and the rest as above.
    unsafe {
        (*query).queryId = 0;
        for_heap(query, source, options, params)
    }
}

/// Why the heap of a table, which is locked, may lack rows of it: another library reads it in a way of its own.
pub fn read_elsewhere(table: &OpenRelation) -> Option<String> {
    let relid = table.oid();
    if !others_plan() || FROM_HEAP.with_borrow(|known| known.contains(&relid.to_u32())) {
        return None;
    }
    let before = changes::count(&CACHE);
    let reader = other_reader(table);
    if reader.is_none() && changes::count(&CACHE) == before {
        FROM_HEAP.with_borrow_mut(|known| known.insert(relid.to_u32()));
    }
    reader
}

static CACHE: Cache = Cache { relation: forget, operators: || {} };

/// Forgets a relation that has changed; without an oid, all of them.
fn forget(relid: pg_sys::Oid) {
    FROM_HEAP.with_borrow_mut(|known| match relid {
        pg_sys::InvalidOid => known.clear(),
        _ => _ = known.remove(&relid.to_u32()),
    });
}

/// Whether any other library has a part in planning.
fn others_plan() -> bool {
    let place = |planner: Option<Planner>| planner.map(|planner| planner as usize);
    // SAFETY: hooks are set while libraries are loaded.
    let (previous, outer, ours, of_relations) =
        unsafe { (PREVIOUS, pg_sys::planner_hook, OURS, pg_sys::set_rel_pathlist_hook) };
    previous.is_some() || place(outer) != place(ours) || of_relations.is_some()
}

fn other_reader(table: &OpenRelation) -> Option<String> {
    // SAFETY: a new query of a relation that is locked; the plan is a finished one.
    unsafe {
        let query = rows_of(table);
        let none = std::ptr::null_mut();
        let statement = Ref::new(pg_guard_ffi_boundary(|| part(query, c"".as_ptr(), 0, none)));
        let (top, mut entries) = (statement.planTree(), statement.rtable().iter());
        match top.type_ {
            pg_sys::NodeTag::T_SeqScan | pg_sys::NodeTag::T_IndexScan | pg_sys::NodeTag::T_IndexOnlyScan => {
                // Each of them begins with it.
                let number = (*top.as_ptr::<pg_sys::Scan>()).scanrelid as usize;
                let is_it = entries.nth(number - 1).is_some_and(|entry| entry.relid == table.oid());
                (!is_it).then(|| "another extension reads another table in its place".into())
            }
            // TimescaleDB knows that the table which its chunks inherit from has none.
            pg_sys::NodeTag::T_Result if top.lefttree.is_null() && table.has_no_pages() => None,
            pg_sys::NodeTag::T_CustomScan => {
                let methods = (*top.as_ptr::<pg_sys::CustomScan>()).methods;
                let name = text((*methods).CustomName).unwrap_or_default();
                Some(format!("another extension reads it by Custom Scan ({name})"))
            }
            _ => Some("another extension reads it in a way of its own".into()),
        }
    }
}

/// `SELECT true FROM table`, rewritten; of a table that others inherit from, FROM ONLY. TimescaleDB leaves compressed
/// rows out of ONLY a chunk.
fn rows_of(table: &OpenRelation) -> *mut pg_sys::Query {
    let names = make::strings(table.attributes().iter().map(|attribute| text_of(&attribute.attname)));
    let entry = make::placed(pg_sys::RangeTblEntry {
        rtekind: pg_sys::RTEKind::RTE_RELATION,
        relid: table.oid(),
        relkind: table.class().relkind,
        rellockmode: pg_sys::AccessShareLock as i32,
        inh: !table.class().relhassubclass,
        inFromCl: true,
        eref: make::alias(&table.name(), names),
        ..make::blank()
    });
    // SAFETY: makes a constant.
    let constant = unsafe { symbols::makeBoolConst(true, false) };
    make::placed(pg_sys::Query {
        commandType: pg_sys::CmdType::CMD_SELECT,
        canSetTag: true,
        rtable: make::list([entry]),
        jointree: make::from_first(std::ptr::null_mut()),
        targetList: make::list([make::target(constant, 1)]),
        ..make::blank()
    })
}
