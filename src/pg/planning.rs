//! Plans a query through all planner hooks: for the heap alone, or to learn where the rows of a table are.
//!
//! Another library may keep rows of a table outside its heap: Citus does so for distributed tables, TimescaleDB for
//! compressed chunks. A mirror of the heap lacks these rows. Such a library makes PostgreSQL plan something other than
//! a scan of the table. So the plan of a simple query on the table tells where its rows are, whichever library is
//! loaded.

use std::cell::RefCell;
use std::collections::HashSet;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::catalog::{text, text_of};
use super::changes::{self, Cache};
use super::compat::{self, Asking};
use super::relation::{self, Lock, OpenRelation};
use super::symbols;
use super::tree::Ref;
use super::{make, owner};

/// A bit in the planner's options, beside the server's own: the query must be planned for the heap. Neither the server
/// nor other extensions use this bit, and they pass the options on unchanged.
const FOR_HEAP: i32 = 1 << 30;

thread_local! {
    /// The relations whose rows PostgreSQL reads from the heap. A change of any relation clears the set, because
    /// another library may keep its knowledge of a table in tables of its own.
    static FROM_HEAP: RefCell<HashSet<u32>> = RefCell::default();
}

/// The options of a query that [`for_heap`] plans, without our own bit; `None` for any other query.
pub fn options_for_heap(options: i32) -> Option<i32> {
    (options & FOR_HEAP != 0).then_some(options & !FOR_HEAP)
}

/// Plans a query for the heap alone. Calls all planner hooks. Our own hook recognizes the query, and only calls the
/// hook before it.
///
/// # Safety
///
/// As for PostgreSQL's planner. An error jumps over all frames up to that of the caller.
pub unsafe extern "C-unwind" fn for_heap(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller has the planner's arguments, and owns nothing that must be dropped after an error.
    unsafe { compat::outermost_planner(query, asking.with_options(asking.options | FOR_HEAP)) }
}

/// Plans a query that was made from a part of another query. It gets no query id, so that extensions which count
/// queries count only the other query.
///
/// # Safety
///
/// As for [`for_heap`].
pub unsafe extern "C-unwind" fn part(query: *mut pg_sys::Query, asking: Asking) -> *mut pg_sys::PlannedStmt {
    // SAFETY: the caller owns the query. Its other promises are those of `for_heap`.
    unsafe {
        (*query).queryId = 0;
        for_heap(query, asking.for_part())
    }
}

/// The place where the rows of a table are.
pub enum Place {
    /// The table's heap has all its rows.
    Heap,
    /// The heap may lack rows, because another library reads the table in its own way, which the text describes.
    Elsewhere(String),
    /// The place cannot be found out without waiting, because another process has locked this index.
    Unknown(pg_sys::Oid),
}

/// Finds out where the rows of a locked table are. Keeps no lock, and waits for none.
pub fn place_of_rows(table: &OpenRelation) -> Place {
    let relid = table.oid();
    if !others_plan() || FROM_HEAP.with_borrow(|known| known.contains(&relid.to_u32())) {
        return Place::Heap;
    }
    let before = changes::count(&CACHE);
    let place = owner::keeping_nothing(|| {
        // The planner opens all indexes of a table, and would wait for their locks.
        match table.indexes().iter().find(|&&index| !relation::try_lock(index, Lock::Read)) {
            Some(locked) => Place::Unknown(*locked),
            None => other_reader(table).map_or(Place::Heap, Place::Elsewhere),
        }
    });
    if matches!(place, Place::Heap) && changes::count(&CACHE) == before {
        FROM_HEAP.with_borrow_mut(|known| known.insert(relid.to_u32()));
    }
    place
}

static CACHE: Cache = Cache { relation: |_| FROM_HEAP.with_borrow_mut(HashSet::clear), operators: || {} };

/// Whether another library takes part in planning.
fn others_plan() -> bool {
    // SAFETY: hooks are set while libraries are loaded.
    compat::others_have_planners() || unsafe { pg_sys::set_rel_pathlist_hook }.is_some()
}

fn other_reader(table: &OpenRelation) -> Option<String> {
    // SAFETY: the query is new, and its relation is locked; the plan is finished.
    unsafe {
        let query = rows_of(table);
        let asking = Asking::new(c"".as_ptr(), 0, std::ptr::null_mut());
        let statement = Ref::new(pg_guard_ffi_boundary(|| part(query, asking)));
        let (top, mut entries) = (statement.planTree(), statement.rtable().iter());
        match top.type_ {
            pg_sys::NodeTag::T_SeqScan | pg_sys::NodeTag::T_IndexScan | pg_sys::NodeTag::T_IndexOnlyScan => {
                // Each of these plan nodes begins with a `Scan`.
                let number = (*top.as_ptr::<pg_sys::Scan>()).scanrelid as usize;
                let is_it = entries.nth(number - 1).is_some_and(|entry| entry.relid == table.oid());
                (!is_it).then(|| "another extension reads another table in its place".into())
            }
            // For a hypertable, TimescaleDB plans no scan of the parent table, because it knows that the parent has no
            // rows.
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

/// Makes the query `SELECT true FROM table`, or FROM ONLY if other tables inherit from the table. The query is already
/// rewritten. A chunk of a hypertable is not read with ONLY, because TimescaleDB then leaves out the compressed rows.
fn rows_of(table: &OpenRelation) -> *mut pg_sys::Query {
    let names = make::strings(table.attributes().iter().map(|attribute| text_of(&attribute.attname)));
    let mut entry = pg_sys::RangeTblEntry {
        rtekind: pg_sys::RTEKind::RTE_RELATION,
        relid: table.oid(),
        relkind: table.class().relkind,
        rellockmode: pg_sys::AccessShareLock as i32,
        inh: !table.class().relhassubclass,
        inFromCl: true,
        eref: make::alias(&table.name(), names),
        ..make::blank()
    };
    let mut query = make::blank();
    compat::ask_no_permissions(&mut query, &mut entry);
    // SAFETY: the function makes a new constant.
    let constant = unsafe { symbols::makeBoolConst(true, false) };
    make::placed(pg_sys::Query {
        commandType: pg_sys::CmdType::CMD_SELECT,
        canSetTag: true,
        rtable: make::list([make::placed(entry)]),
        jointree: make::from_first(std::ptr::null_mut()),
        targetList: make::list([make::target(constant, 1)]),
        ..query
    })
}
