//! Who may read, own and call what. From PostgreSQL 16 on, the permissions that a query needs stand in a list of their
//! own. Before, they stand in the entries of the range table.

use pgrx::prelude::*;

/// Whether the current user may call the function. Needs a transaction.
pub fn may_execute(function: pg_sys::Oid) -> bool {
    let right = pg_sys::ACL_EXECUTE as pg_sys::AclMode;
    // SAFETY: a catalog look-up.
    let answer = unsafe {
        #[cfg(not(feature = "since_16"))]
        let answer = pg_sys::pg_proc_aclcheck(function, pg_sys::GetUserId(), right);
        #[cfg(feature = "since_16")]
        let answer = pg_sys::object_aclcheck(pg_sys::ProcedureRelationId, function, pg_sys::GetUserId(), right);
        answer
    };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether the current user owns the relation. Needs a transaction.
pub fn owns_relation(relid: pg_sys::Oid) -> bool {
    owns(pg_sys::RelationRelationId, relid)
}

/// Whether the current user owns the database. Needs a transaction.
pub fn owns_database(database: pg_sys::Oid) -> bool {
    owns(pg_sys::DatabaseRelationId, database)
}

fn owns(class: pg_sys::Oid, object: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    unsafe {
        #[cfg(not(feature = "since_16"))]
        return match class {
            pg_sys::DatabaseRelationId => pg_sys::pg_database_ownercheck(object, pg_sys::GetUserId()),
            _ => pg_sys::pg_class_ownercheck(object, pg_sys::GetUserId()),
        };
        #[cfg(feature = "since_16")]
        return pg_sys::object_ownercheck(class, object, pg_sys::GetUserId());
    }
}

/// Whether a query reads a column of an entry of its range table, according to the permissions that it needs. Column 0
/// stands for the whole row.
///
/// # Safety
///
/// `query` is valid, and `entry` is one of its entries.
pub unsafe fn selects(query: &pg_sys::Query, entry: *mut pg_sys::RangeTblEntry, column: i16) -> bool {
    let member = i32::from(column) - pg_sys::FirstLowInvalidHeapAttributeNumber;
    // SAFETY: by the caller's promise; the number of the entry says which element of the query's list belongs to it.
    unsafe {
        #[cfg(not(feature = "since_16"))]
        let columns = {
            let _ = query;
            (*entry).selectedCols
        };
        #[cfg(feature = "since_16")]
        let columns = match (*entry).perminfoindex {
            0 => return false,
            _ => (*pg_sys::getRTEPermissionInfo(query.rteperminfos, entry)).selectedCols,
        };
        pg_sys::bms_is_member(member, columns)
    }
}

/// Appends the range table of another query, together with the permissions that must be checked for its entries.
///
/// # Safety
///
/// Both are valid queries that the caller owns.
pub unsafe fn append_range_table(query: &mut pg_sys::Query, other: &pg_sys::Query) {
    // SAFETY: by the caller's promise.
    unsafe {
        #[cfg(not(feature = "since_16"))]
        (query.rtable = pg_sys::list_concat(query.rtable, other.rtable));
        #[cfg(feature = "since_16")]
        pg_sys::CombineRangeTables(&mut query.rtable, &mut query.rteperminfos, other.rtable, other.rteperminfos);
    }
}

/// Removes the permission checks of an entry that was copied from `original` into `query`. The entry keeps the user
/// with whose rights a view reads it.
///
/// # Safety
///
/// Both queries are valid, and the list of permissions of `query` is empty.
pub unsafe fn without_checks(query: &mut pg_sys::Query, original: &pg_sys::Query, entry: &mut pg_sys::RangeTblEntry) {
    #[cfg(not(feature = "since_16"))]
    {
        let _ = (query, original);
        entry.requiredPerms = 0;
    }
    // SAFETY: by the caller's promise; the number of the entry says which element of the original's list belongs to it.
    #[cfg(feature = "since_16")]
    unsafe {
        if entry.perminfoindex != 0 {
            let own = pg_sys::getRTEPermissionInfo(original.rteperminfos, entry);
            let copy: *mut pg_sys::RTEPermissionInfo = pg_sys::copyObjectImpl(own.cast()).cast();
            (*copy).requiredPerms = 0;
            query.rteperminfos = pg_sys::lappend(query.rteperminfos, copy.cast());
            entry.perminfoindex = 1;
        }
    }
}

/// Makes an entry for a relation that a new query reads without any permission. From PostgreSQL 16 on, the planner
/// requires that the query has an element for the entry in its list of permissions.
pub fn ask_no_permissions(query: &mut pg_sys::Query, entry: &mut pg_sys::RangeTblEntry) {
    #[cfg(not(feature = "since_16"))]
    let _ = (query, entry);
    // SAFETY: the list is the query's own. A new element asks for no permission.
    #[cfg(feature = "since_16")]
    unsafe {
        pg_sys::addRTEPermissionInfo(&mut query.rteperminfos, entry);
    }
}

/// Copies to the entry `own` the permissions that another entry of `query` needs. From PostgreSQL 16 on, they stand in
/// a separate list.
///
/// # Safety
///
/// `query` is valid, and `entry` is one of its entries.
pub unsafe fn with_permissions_of(
    query: &pg_sys::Query,
    entry: *mut pg_sys::RangeTblEntry,
    own: &mut pg_sys::RangeTblEntry,
    permissions: &mut *mut pg_sys::List,
) {
    #[cfg(not(feature = "since_16"))]
    {
        let _ = (query, permissions);
        // SAFETY: by the caller's promise.
        let entry = unsafe { &*entry };
        (own.requiredPerms, own.checkAsUser) = (entry.requiredPerms, entry.checkAsUser);
        (own.selectedCols, own.insertedCols) = (entry.selectedCols, entry.insertedCols);
        (own.updatedCols, own.extraUpdatedCols) = (entry.updatedCols, entry.extraUpdatedCols);
    }
    // SAFETY: by the caller's promise; the number of the entry says which element of the query's list belongs to it.
    #[cfg(feature = "since_16")]
    unsafe {
        if (*entry).perminfoindex != 0 {
            let asked = pg_sys::getRTEPermissionInfo(query.rteperminfos, entry);
            *permissions = pg_sys::lappend(*permissions, asked.cast());
            own.perminfoindex = pg_sys::list_length(*permissions) as pg_sys::Index;
        }
    }
}

/// Whether the current user has the permissions that these entries need.
///
/// # Safety
///
/// The entries are relations whose permissions were set by [`with_permissions_of`].
pub unsafe fn are_permitted(entries: *mut pg_sys::List, permissions: *mut pg_sys::List) -> bool {
    /// Removes other extensions' hooks for a moment, because they take a permission check for the start of a statement.
    struct Unwatched(pg_sys::ExecutorCheckPerms_hook_type);
    impl Drop for Unwatched {
        fn drop(&mut self) {
            // SAFETY: hooks are read and written on the main thread alone.
            unsafe { pg_sys::ExecutorCheckPerms_hook = self.0 };
        }
    }
    // SAFETY: by the caller's promise; a missing permission raises no error.
    unsafe {
        let _unwatched = Unwatched(pg_sys::ExecutorCheckPerms_hook);
        pg_sys::ExecutorCheckPerms_hook = None;
        #[cfg(not(feature = "since_16"))]
        let are_permitted = |_: *mut pg_sys::List| pg_sys::ExecCheckRTPerms(entries, false);
        #[cfg(feature = "since_16")]
        let are_permitted = |permissions| pg_sys::ExecCheckPermissions(entries, permissions, false);
        are_permitted(permissions)
    }
}

/// Removes all permission checks of a finished statement. Errors may jump over this function, because it owns nothing.
///
/// # Safety
///
/// The statement is finished, and the caller owns it.
pub unsafe fn without_rights(statement: *mut pg_sys::PlannedStmt) {
    // SAFETY: by the caller's promise; the range table is a part of the statement, and so are its entries.
    unsafe {
        let entries = (*statement).rtable;
        for at in 0..pg_sys::list_length(entries) {
            let entry = pg_sys::list_nth(entries, at).cast::<pg_sys::RangeTblEntry>();
            #[cfg(not(feature = "since_16"))]
            {
                (*entry).requiredPerms = 0;
            }
            #[cfg(feature = "since_16")]
            {
                (*entry).perminfoindex = 0;
            }
        }
        set_permissions(&mut *statement, std::ptr::null_mut());
    }
}

/// Sets the list of permissions that the entries of a statement need.
pub fn set_permissions(statement: &mut pg_sys::PlannedStmt, permissions: *mut pg_sys::List) {
    #[cfg(not(feature = "since_16"))]
    let _ = (statement, permissions);
    #[cfg(feature = "since_16")]
    {
        statement.permInfos = permissions;
    }
}
