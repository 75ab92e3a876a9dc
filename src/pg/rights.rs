//! The current user's permissions to read.

use pgrx::prelude::*;

/// Whether the current user may read a column of an existing table in every row: the user has the privilege, and no row
/// security is active. Needs a transaction.
pub fn readable_columns(relid: pg_sys::Oid) -> impl Fn(i16) -> bool {
    use pg_sys::AclResult::ACLCHECK_OK;
    let right = pg_sys::ACL_SELECT as pg_sys::AclMode;
    // SAFETY: catalog look-ups.
    let (user, may_read_all, has_security) = unsafe {
        let (user, no_error) = (pg_sys::GetUserId(), true);
        let security = pg_sys::check_enable_rls(relid, pg_sys::InvalidOid, no_error);
        let security = security == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32;
        (user, pg_sys::pg_class_aclcheck(relid, user, right) == ACLCHECK_OK, security)
    };
    // SAFETY: as above.
    let may_read = move |attnum| unsafe { pg_sys::pg_attribute_aclcheck(relid, attnum, user, right) == ACLCHECK_OK };
    move |attnum| !has_security && (may_read_all || may_read(attnum))
}

/// Whether the current user may see what a role does, as in pg_stat_activity: the user is a member of the role, or may
/// see the statistics of all users.
pub fn may_see_activity_of(role: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups.
    may_read_all_statistics() || unsafe { pg_sys::has_privs_of_role(pg_sys::GetUserId(), role) }
}

/// Whether the current user may see the statistics of all users, as a member of `pg_read_all_stats` (`pg_monitor` is
/// one).
pub fn may_read_all_statistics() -> bool {
    // SAFETY: catalog look-ups.
    unsafe { pg_sys::has_privs_of_role(pg_sys::GetUserId(), pg_sys::ROLE_PG_READ_ALL_STATS.into()) }
}
