//! Queries whose heap plan is made only if it is needed, because PostgreSQL may take longer to plan a short query than
//! the engine takes to answer it.
//!
//! The statement lists the relations that it reads, and the user as whom it reads them, as a statement with the heap's
//! plan would. So permissions are checked, locks are taken, and changes of relations are noticed.

use std::ffi::c_void;

use pgrx::prelude::*;

use super::modifiers;
use crate::pg::catalog;
use crate::pg::compat::{self, Asking};
use crate::pg::make;
use crate::pg::session;
use crate::pg::symbols;
use crate::pg::tree::{List, Ref};
use crate::pg::walk;
use crate::shared::{self, TableState};

/// Whether the heap's plan can be made later, when the query runs.
///
/// # Safety
///
/// `query` is a rewritten query; `asking` has the arguments with which PostgreSQL called the planner hook.
pub unsafe fn can_wait(query: *mut pg_sys::Query, asking: Asking) -> bool {
    // A cursor needs the heap's plan to decide whether it can scroll, and EXPLAIN shows that plan.
    let usual = pg_sys::CURSOR_OPT_PARALLEL_OK | pg_sys::CURSOR_OPT_CUSTOM_PLAN;
    // SAFETY: the caller's query; the walker gets the context that it expects.
    unsafe {
        if (*query).commandType != pg_sys::CmdType::CMD_SELECT
            || asking.options & !(usual as i32) != 0
            || session::is_explaining()
            || session::in_parallel_mode()
        {
            return false;
        }
        // A statement whose plan is cached gets the heap's plan at once, for all later runs on the heap. Cached
        // statements are recognized by their parameters, or because they come from a function or from PREPARE.
        let mut is_general = asking.params.is_null();
        (!is_general || session::is_clients(asking.source))
            && !walk::walk(query.cast(), binds_planner, (&raw mut is_general).cast())
            && modifiers::are_known(Ref::new(query))
    }
}

/// Whether a node, or a node below it, requires that PostgreSQL plans the query now. One such node is a parameter
/// without a value, if the plan must be general. Others are nodes that PostgreSQL's planner replaces and records as
/// dependencies: calls of functions whose body is SQL, and domains without conditions. The function owns nothing, so
/// errors may jump over it.
unsafe extern "C-unwind" fn binds_planner(node: *mut pg_sys::Node, is_general: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node, and the context of `can_wait`; tags tell types.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            pg_sys::NodeTag::T_Query => {
                return compat::query_tree_walker(node.cast(), binds_planner, is_general, 0);
            }
            pg_sys::NodeTag::T_CoerceToDomain => return true,
            // Parameters of other kinds stand for the values with which a subquery is compared.
            pg_sys::NodeTag::T_Param
                if (*node.cast::<pg_sys::Param>()).paramkind == pg_sys::ParamKind::PARAM_EXTERN =>
            {
                return *is_general.cast::<bool>();
            }
            // The input and output functions of a type are not written in SQL, so the planner cannot inline them.
            pg_sys::NodeTag::T_CoerceViaIO => {}
            _ if symbols::check_functions_in_node(node, Some(has_body_in_sql), std::ptr::null_mut()) => return true,
            _ => {}
        }
        compat::expression_tree_walker(node, binds_planner, is_general)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn has_body_in_sql(function: pg_sys::Oid, _context: *mut c_void) -> bool {
    // The server's own functions never change, so plans need not depend on them.
    function.to_u32() >= pg_sys::FirstUnpinnedObjectId && catalog::is_written_in_sql(function)
}

/// The relations that a query reads, listed as in a finished statement.
pub struct Reads {
    query: *mut pg_sys::Query,
    entries: *mut pg_sys::List,
    permissions: *mut pg_sys::List,
}

impl Reads {
    /// # Safety
    ///
    /// `query` is a rewritten query.
    pub unsafe fn of(query: *mut pg_sys::Query) -> Reads {
        let mut reads = Reads { query, entries: std::ptr::null_mut(), permissions: std::ptr::null_mut() };
        // SAFETY: the query is rewritten, and the walker gets the context that it expects.
        unsafe { walk::walk(query.cast(), collect, (&raw mut reads).cast()) };
        reads
    }

    /// Whether the engine can serve all mirrored relations now, as far as this process knows. If not, the heap's plan
    /// will be needed at once, and for a cached statement perhaps many times.
    pub fn are_there(&self) -> bool {
        // SAFETY: `add` has made the entries.
        let entries = unsafe { List::<pg_sys::RangeTblEntry>::new(self.entries) };
        let database = session::database();
        let is_there = |table: shared::Table| table.state == TableState::Live;
        !session::in_recovery()
            && !session::must_be_serialized()
            && entries.iter().filter_map(|entry| shared::table(database, entry.relid)).all(is_there)
    }

    /// Whether the user may read all relations. If not, the heap's plan is made at once, because PostgreSQL's planner
    /// may remove a relation that a condition makes superfluous. The query then needs no permission for that relation.
    pub fn are_permitted(&self) -> bool {
        // SAFETY: the entries are complete, and `add` has set their permissions.
        unsafe { compat::are_permitted(self.entries, self.permissions) }
    }

    fn add(&mut self, query: Ref<'_, pg_sys::Query>) {
        let is_relation = |entry: &Ref<'_, pg_sys::RangeTblEntry>| {
            let is_view = entry.rtekind == pg_sys::RTEKind::RTE_SUBQUERY && entry.relid != pg_sys::InvalidOid;
            is_view || entry.rtekind == pg_sys::RTEKind::RTE_RELATION
        };
        for entry in query.rtable().iter().filter(is_relation) {
            let mut own: pg_sys::RangeTblEntry = make::blank();
            (own.rtekind, own.relid, own.relkind) = (entry.rtekind, entry.relid, entry.relkind);
            (own.rellockmode, own.inh, own.inFromCl) = (entry.rellockmode, entry.inh, entry.inFromCl);
            (own.alias, own.eref) = (entry.alias, entry.eref);
            // SAFETY: `entry` belongs to the query, `own` is new, and the list belongs to this value.
            unsafe {
                compat::with_permissions_of(&query, entry.as_ptr(), &mut own, &mut self.permissions);
                make::append(&mut self.entries, make::placed(own));
            }
        }
    }

    /// Adds these relations to the list of relations that a statement reads.
    ///
    /// # Safety
    ///
    /// The caller owns `statement`, which is finished and reads no relation yet. The query has not changed since
    /// [`Reads::of`].
    pub unsafe fn hand_to(self, statement: &mut pg_sys::PlannedStmt) {
        let (mut relations, mut others) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut has_policies = false;
        // SAFETY: the caller owns the statement; the lists are those that `add` has made.
        unsafe {
            pg_sys::extract_query_dependencies(self.query.cast(), &mut relations, &mut others, &mut has_policies);
            statement.relationOids = pg_sys::list_concat_unique_oid(statement.relationOids, relations);
            statement.invalItems = pg_sys::list_concat(statement.invalItems, others);
            let first = pg_sys::list_length(statement.rtable) as usize + 1;
            statement.rtable = pg_sys::list_concat(statement.rtable, self.entries);
            (first..pg_sys::list_length(statement.rtable) as usize + 1)
                .for_each(|n| compat::is_always_read(statement, n));
            compat::set_permissions(statement, self.permissions);
            // Another role may lack a permission that this role has. That role needs a plan of its own, from which
            // PostgreSQL's planner may remove the relation as superfluous.
            statement.dependsOnRole = true;
        }
    }
}

/// Collects the relations of a query. The function owns nothing, so errors may jump over it.
unsafe extern "C-unwind" fn collect(node: *mut pg_sys::Node, reads: *mut c_void) -> bool {
    // SAFETY: called with null or a valid node, and the context of `Reads::of`; tags tell types.
    unsafe {
        let Some(tag) = node.as_ref().map(|node| node.type_) else { return false };
        match tag {
            pg_sys::NodeTag::T_Query => {
                add_query(node.cast(), reads);
                compat::query_tree_walker(node.cast(), collect, reads, 0)
            }
            // Nothing refers to this WITH query, so its relations are not read.
            pg_sys::NodeTag::T_CommonTableExpr if (*node.cast::<pg_sys::CommonTableExpr>()).cterefcount == 0 => false,
            _ => compat::expression_tree_walker(node, collect, reads),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_query(query: *mut pg_sys::Query, reads: *mut c_void) {
    // SAFETY: a valid query, and the context of `Reads::of`.
    unsafe { (*reads.cast::<Reads>()).add(Ref::new(query)) };
}
