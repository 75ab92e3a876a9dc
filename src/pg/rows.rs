//! Reads the rows of a table, and deletes a row.

use pgrx::prelude::*;

use super::compat;
use super::descriptor::Tuple;
use super::relation::{self, Lock, OpenRelation};
use super::snapshot;

/// The rows of an ordinary table, in the order in which they are stored.
pub struct Rows<'a> {
    relation: &'a OpenRelation,
    snapshot: pg_sys::Snapshot,
    scan: pg_sys::TableScanDesc,
    reached: Reached,
}

/// The place where a scan is.
#[derive(Clone, Copy)]
enum Reached {
    Nothing,
    Row,
    End,
}

impl<'a> Rows<'a> {
    /// The rows that the active snapshot sees.
    pub fn active(relation: &'a OpenRelation) -> Rows<'a> {
        check_kind(relation);
        // SAFETY: relation and snapshot live longer than the scan; the line above makes sure that there is a snapshot.
        unsafe {
            assert!(pg_sys::ActiveSnapshotSet(), "an active snapshot");
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot());
            let scan = compat::begin_scan(relation.as_ptr(), snapshot);
            Rows { relation, snapshot, scan, reached: Reached::Nothing }
        }
    }

    /// The rows of some consecutive blocks that the active snapshot sees.
    pub fn active_in(relation: &'a OpenRelation, first: u32, blocks: u32) -> Rows<'a> {
        check_kind(relation);
        // SAFETY: as in `active`. The scan has begun with the first of all blocks, and has read none yet.
        unsafe {
            assert!(pg_sys::ActiveSnapshotSet(), "an active snapshot");
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetActiveSnapshot());
            let scan = compat::begin_scan_alone(relation.as_ptr(), snapshot);
            pg_sys::heap_setscanlimits(scan, first, blocks);
            Rows { relation, snapshot, scan, reached: Reached::Nothing }
        }
    }

    /// The next row, valid until the following one is requested.
    pub fn next(&mut self) -> Option<Tuple<'_>> {
        // SAFETY: this value owns the scan. For a table with another access method than heap, the server raises an
        // error.
        unsafe {
            let tuple = pg_sys::heap_getnext(self.scan, pg_sys::ScanDirection::ForwardScanDirection);
            self.reached = if tuple.is_null() { Reached::End } else { Reached::Row };
            (!tuple.is_null()).then(|| Tuple::new(tuple, self.relation.descriptor()))
        }
    }

    /// The number of blocks that were read so far.
    pub fn blocks_read(&self) -> u32 {
        if matches!(self.reached, Reached::Nothing) {
            return 0;
        }
        // SAFETY: `next` was called, and raises an error for a scan of another access method than heap.
        let (all, start, current) = unsafe {
            let scan = &*self.scan.cast::<pg_sys::HeapScanDescData>();
            (scan.rs_nblocks, scan.rs_startblock, scan.rs_cblock)
        };
        match self.reached {
            // A scan may begin in the middle of the table, where another scan of it is.
            Reached::Row if current >= start => current - start + 1,
            Reached::Row => (all - start) + current + 1,
            _ => all,
        }
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // While an error unwinds, the scan is left to the end of the transaction.
        if !std::thread::panicking() {
            // SAFETY: begun by `active`, and ended once.
            unsafe {
                pg_sys::table_endscan(self.scan);
                pg_sys::UnregisterSnapshot(self.snapshot);
            }
        }
    }
}

/// Raises an error for relations that have no rows of their own.
fn check_kind(relation: &OpenRelation) {
    assert!(relation.class().relkind as u8 == pg_sys::RELKIND_RELATION, "an ordinary table");
}

/// Visits the rows that are visible now, until `visit` returns false. With `first`, visits only rows with this value in
/// the first column, whose type must be one of the oid types. Never waits for a lock on the index: if another process
/// has the index locked, all rows are searched.
pub fn visit_latest(relation: &OpenRelation, first: Option<pg_sys::Oid>, mut visit: impl FnMut(Tuple<'_>) -> bool) {
    check_kind(relation);
    let is_oid = |a: &pg_sys::FormData_pg_attribute| matches!(a.atttypid, pg_sys::OIDOID | pg_sys::REGCLASSOID);
    assert!(relation.attributes().first().is_some_and(is_oid), "a first column that is an oid");
    let index = relation.identity_index();
    let by_index = first.is_some() && index != pg_sys::InvalidOid && relation::try_lock(index, Lock::Read);
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: the key compares oids; snapshot and scan are closed again, or by the transaction's end.
    unsafe {
        if let Some(first) = first {
            let equal = pg_sys::BTEqualStrategyNumber as u16;
            pg_sys::ScanKeyInit(&mut key, 1, equal, pg_sys::F_OIDEQ.into(), first.into());
        }
        let (keys, relation_pointer) = (first.is_some() as i32, relation.as_ptr());
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let scan = pg_sys::systable_beginscan(relation_pointer, index, by_index, snapshot, keys, &mut key);
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() || !visit(Tuple::new(tuple, relation.descriptor())) {
                break;
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::UnregisterSnapshot(snapshot);
    }
    if by_index {
        relation::unlock(index, Lock::Read);
    }
}

/// Deletes a visible row of a relation that is locked for writing, unless another transaction is deleting it. No
/// trigger fires.
pub fn delete(relation: &OpenRelation, row: Tuple<'_>) {
    let mut failure = pg_sys::TM_FailureData::default();
    // SAFETY: the tuple is valid, and belongs to this relation, as the assertion checks. Its position is copied.
    unsafe {
        assert!((*row.as_ptr()).t_tableOid == relation.oid(), "a row of the relation");
        let (mut place, command) = ((*row.as_ptr()).t_self, pg_sys::GetCurrentCommandId(true));
        compat::delete_row(relation.as_ptr(), &mut place, command, &mut failure);
    }
}

/// Visits the rows of pg_database under a snapshot, because even rows of shared catalogs might otherwise be removed
/// meanwhile.
pub fn for_each_database(mut visit: impl FnMut(&pg_sys::FormData_pg_database)) {
    snapshot::with_active(|| {
        let relation = OpenRelation::lock(pg_sys::DatabaseRelationId);
        let mut rows = Rows::active(&relation);
        while let Some(row) = rows.next() {
            // SAFETY: rows of this catalog begin with this structure.
            visit(unsafe { &*pg_sys::GETSTRUCT(row.as_ptr()).cast() });
        }
    });
}
