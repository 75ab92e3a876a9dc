//! Relations, which are opened, examined, and closed when the value is dropped.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;

use super::catalog::{self, text_of};
use super::descriptor::Descriptor;
use super::tree::{List, Memory, Node, Ref};
use super::{compat, make, session, symbols};

/// Locks on relations, named after the actions that they allow. They need a transaction, and its end releases them.
#[derive(Clone, Copy)]
pub enum Lock {
    None,
    Read,
    Write,
}

impl Lock {
    const fn mode(self) -> i32 {
        (match self {
            Lock::None => pg_sys::NoLock,
            Lock::Read => pg_sys::AccessShareLock,
            Lock::Write => pg_sys::RowExclusiveLock,
        }) as i32
    }
}

/// The number of rows that the planner expects in a relation, which must be locked.
pub fn expected_rows(relid: pg_sys::Oid) -> f64 {
    OpenRelation::try_locked(relid).map_or(0.0, |relation| relation.expected_rows())
}

/// Locks a relation, and waits for the lock if need be.
pub fn lock(relid: pg_sys::Oid, lock: Lock) {
    // SAFETY: in a transaction.
    unsafe { pg_sys::LockRelationOid(relid, lock.mode()) };
}

/// Locks a relation if that is possible without waiting. Returns whether it is locked.
pub fn try_lock(relid: pg_sys::Oid, lock: Lock) -> bool {
    // SAFETY: in a transaction.
    unsafe { pg_sys::ConditionalLockRelationOid(relid, lock.mode()) }
}

/// Releases a lock before the transaction ends.
pub fn unlock(relid: pg_sys::Oid, lock: Lock) {
    // SAFETY: the server only warns about a lock that is not held.
    unsafe { pg_sys::UnlockRelationOid(relid, lock.mode()) };
}

/// Locks of ours on what a list says about a relation. They need a transaction, and its end releases them.
#[derive(Clone, Copy)]
pub enum Within {
    /// Several processes may hold this lock.
    Together,
    Alone,
}

/// Locks what `list`, a table of ours, says about a relation. Excludes only other calls of this function.
pub fn lock_within(list: pg_sys::Oid, relid: pg_sys::Oid, lock: Within) {
    let mode = match lock {
        Within::Together => pg_sys::ShareLock,
        Within::Alone => pg_sys::ExclusiveLock,
    };
    // SAFETY: in a transaction. The server takes the two oids as a class of objects and an object of it, and does not
    // look for them.
    unsafe { pg_sys::LockDatabaseObject(list, relid, 0, mode as i32) };
}

/// A proof that catalog look-ups see the catalog as of the stream's position.
#[derive(Clone, Copy)]
pub struct Historic<'a>(PhantomData<&'a ()>);

impl Historic<'_> {
    /// # Safety
    ///
    /// During `'a`, a transaction is open and decoding's historic snapshot is set.
    pub(super) unsafe fn new() -> Self {
        Historic(PhantomData)
    }
}

/// Whether a process waits for a lock on the relation that not even readers may share. LockHasWaiters cannot tell this
/// for an AccessShareLock that was taken by the fast path, because that lock is not in the lock table.
pub fn somebody_waits_for(relid: pg_sys::Oid) -> bool {
    let exclusive = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
    let database = session::database().to_u32();
    // SAFETY: the PGPROCs and the locks that they wait for lie in shared memory that stays mapped. They are read
    // without a lock: at worst, the answer is out of date.
    unsafe {
        let processes = &*pg_sys::ProcGlobal;
        (0..processes.allProcCount as usize).any(|i| {
            let process = processes.allProcs.add(i);
            let lock = (&raw const (*process).waitLock).read_volatile();
            let mode = (&raw const (*process).waitLockMode).read_volatile();
            let tag = lock.as_ref().map(|lock| (&raw const lock.tag).read_volatile());
            tag.is_some_and(|tag| {
                mode == exclusive
                    && tag.locktag_type as u32 == pg_sys::LockTagType::LOCKTAG_RELATION
                    && tag.locktag_field1 == database
                    && tag.locktag_field2 == relid.to_u32()
            })
        })
    }
}

/// A column of a primary key.
#[derive(Clone, Copy)]
pub struct KeyColumn {
    pub number: i16,
    /// The operator family that orders this column of the key.
    pub family: pg_sys::Oid,
}

/// An open relation. Dropping it closes the relation, but keeps a lock until the transaction ends, as is PostgreSQL's
/// rule for tables.
pub struct OpenRelation(pg_sys::Relation);

impl OpenRelation {
    /// Locks and opens a relation. Raises an error if the relation does not exist.
    fn open(relid: pg_sys::Oid, lock: Lock) -> OpenRelation {
        // SAFETY: in a transaction.
        OpenRelation(unsafe { pg_sys::relation_open(relid, lock.mode()) })
    }

    /// Opens a relation that the transaction has locked already.
    pub fn locked(relid: pg_sys::Oid) -> OpenRelation {
        OpenRelation::open(relid, Lock::None)
    }

    /// Opens a relation, and locks it so that it can neither be altered nor dropped.
    pub fn lock(relid: pg_sys::Oid) -> OpenRelation {
        OpenRelation::open(relid, Lock::Read)
    }

    /// Like [`locked`](Self::locked); `None` if the relation does not exist (any more).
    pub fn try_locked(relid: pg_sys::Oid) -> Option<OpenRelation> {
        // SAFETY: in a transaction.
        OpenRelation::unless_null(unsafe { pg_sys::try_relation_open(relid, Lock::None.mode()) })
    }

    /// Calls `look` with a relation, without waiting, and keeps no lock. `None` if another process's lock prevents
    /// that, or if the relation does not exist (any more).
    pub fn glance<T>(relid: pg_sys::Oid, look: impl FnOnce(&OpenRelation) -> T) -> Option<T> {
        if !try_lock(relid, Lock::Read) {
            return None;
        }
        let seen = OpenRelation::try_locked(relid).map(|relation| look(&relation));
        unlock(relid, Lock::Read);
        seen
    }

    /// Opens a relation with its definition at a position of the WAL. No lock is needed, because present changes do not
    /// affect that definition.
    pub fn historic(relid: pg_sys::Oid, _catalog: Historic<'_>) -> Option<OpenRelation> {
        // SAFETY: the value `_catalog` proves that the historic snapshot is set.
        OpenRelation::unless_null(unsafe { pg_sys::RelationIdGetRelation(relid) })
    }

    fn unless_null(relation: pg_sys::Relation) -> Option<OpenRelation> {
        // An `OpenRelation` exists only if there is a relation, because dropping it closes the relation.
        if relation.is_null() { None } else { Some(OpenRelation(relation)) }
    }

    /// A relation that the caller does not own. The code that opened the relation closes it.
    ///
    /// # Safety
    ///
    /// The relation stays open for longer than the value is used.
    pub unsafe fn borrowed(relation: pg_sys::Relation) -> ManuallyDrop<OpenRelation> {
        ManuallyDrop::new(OpenRelation(relation))
    }

    pub(super) fn as_ptr(&self) -> pg_sys::Relation {
        self.0
    }

    /// The relation's row of pg_class.
    pub fn class(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: the relation is open as long as the value lives, and an open relation has a row.
        unsafe { &*(*self.0).rd_rel }
    }

    pub fn oid(&self) -> pg_sys::Oid {
        self.class().oid
    }

    pub fn descriptor(&self) -> Descriptor<'_> {
        // SAFETY: as above.
        unsafe { Descriptor::new((*self.0).rd_att) }
    }

    /// All attributes, including dropped ones.
    pub fn attributes(&self) -> &[pg_sys::FormData_pg_attribute] {
        self.descriptor().attributes()
    }

    /// The table's indexes.
    pub fn indexes(&self) -> Vec<pg_sys::Oid> {
        // SAFETY: an open relation; the list is one of oids.
        unsafe { List::<pg_sys::Oid>::new(pg_sys::RelationGetIndexList(self.0)).iter().collect() }
    }

    pub fn name(&self) -> String {
        text_of(&self.class().relname)
    }

    /// The name with its schema, quoted for SQL where needed, in the database's encoding.
    pub fn qualified_name(&self) -> Vec<u8> {
        let class = self.class();
        let schema = catalog::namespace(class.relnamespace, |schema| catalog::quoted(&schema.nspname));
        [schema.unwrap_or_default(), catalog::quoted(&class.relname)].join(&b'.')
    }

    /// The name of a column, quoted for SQL where needed, in the database's encoding.
    pub fn quoted_column(&self, attnum: i16) -> Vec<u8> {
        catalog::quoted(&self.attributes()[attnum as usize - 1].attname)
    }

    /// The expression that computes a virtual generated column from columns of item 1 of FROM.
    pub fn generation_expression<'a>(&self, _memory: Memory<'a>, attnum: i16) -> Node<'a> {
        // SAFETY: the relation is open. The expression is a new tree in the current memory.
        unsafe { Node::new(compat::generation_expression(self.0, attnum)) }
    }

    /// The expression or list of expressions, with each virtual generated column of item 1 of FROM, which must be this
    /// relation, replaced by the expression that computes the column.
    pub fn without_virtual_columns<'a>(&self, expression: Node<'a>) -> Node<'a> {
        // SAFETY: the relation is open. The result is a new tree, or `expression` itself.
        unsafe { Node::new(compat::without_virtual_columns(self.0, expression.as_ptr())) }
    }

    pub fn is_partitioned(&self) -> bool {
        self.class().relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE
    }

    /// The number of the column of this relation that has the same name as `column` of another relation.
    pub fn column_named_as(&self, column: &pg_sys::FormData_pg_attribute) -> Option<i16> {
        let named = |a: &&pg_sys::FormData_pg_attribute| !a.attisdropped && a.attname.data == column.attname.data;
        self.attributes().iter().find(named).map(|a| a.attnum)
    }

    /// Whether this transaction holds this lock on the relation, or a stronger one.
    pub fn is_locked_by_me(&self, lock: Lock) -> bool {
        // SAFETY: the relation is open.
        unsafe { pg_sys::CheckRelationLockedByMe(self.0, lock.mode(), true) }
    }

    /// Whether changes of rows are logged with the whole old row (REPLICA IDENTITY FULL).
    pub fn has_full_identity(&self) -> bool {
        self.class().relreplident as u8 == pg_sys::REPLICA_IDENTITY_FULL
    }

    /// The relation's file (`relfilenode`).
    pub fn file(&self) -> u32 {
        self.class().relfilenode.to_u32()
    }

    /// The index that is the replica identity; an invalid oid if there is none.
    pub fn identity_index(&self) -> pg_sys::Oid {
        // SAFETY: the relation is open.
        unsafe { pg_sys::RelationGetReplicaIndex(self.0) }
    }

    /// The number of rows that the planner expects in the relation.
    fn expected_rows(&self) -> f64 {
        let (mut pages, mut rows, mut all_visible) = (0, 0.0, 0.0);
        // SAFETY: the relation is open. Without a pointer for the columns' widths, the function does not compute these.
        unsafe {
            let widths = std::ptr::null_mut();
            pg_sys::estimate_rel_size(self.0, widths, &mut pages, &mut rows, &mut all_visible);
        }
        rows
    }

    /// Whether the relation's file is empty.
    pub(super) fn has_no_pages(&self) -> bool {
        self.blocks() == 0
    }

    /// The number of blocks of the relation's file.
    pub fn blocks(&self) -> u32 {
        // SAFETY: the relation is open.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.0, pg_sys::ForkNumber::MAIN_FORKNUM) }
    }

    /// The columns of the primary key; empty without a key. They are also empty if other tables inherit from this
    /// table, because the key does not cover the children's rows.
    pub(super) fn primary_key(&self) -> Vec<KeyColumn> {
        if self.class().relhassubclass && !self.is_partitioned() {
            return Vec::new();
        }
        // SAFETY: the relation is open; its index exists as long as the relation does, and has that many columns.
        unsafe {
            let key = compat::primary_key_index(self.0);
            if key == pg_sys::InvalidOid {
                return Vec::new();
            }
            let Some(index) = OpenRelation::unless_null(pg_sys::RelationIdGetRelation(key)) else { return Vec::new() };
            let row = &*(*index.0).rd_index;
            let columns = row.indkey.values.as_slice(row.indnkeyatts as usize);
            let families = std::slice::from_raw_parts((*index.0).rd_opfamily, columns.len());
            columns.iter().zip(families).map(|(&number, &family)| KeyColumn { number, family }).collect()
        }
    }

    /// The attribute numbers of the replica identity index in ascending order; empty without such an index.
    ///
    /// RelationGetIdentityKeyBitmap returns the same numbers, but may be called only under a historic snapshot.
    pub fn identity_attributes(&self) -> Vec<i16> {
        let key_columns = |row: &pg_sys::FormData_pg_index| {
            // SAFETY: the vector has at least that many elements.
            unsafe { row.indkey.values.as_slice(row.indnkeyatts as usize) }.to_vec()
        };
        let mut attributes = catalog::index(self.identity_index(), key_columns).unwrap_or_default();
        attributes.sort_unstable();
        attributes
    }
}

impl Drop for OpenRelation {
    fn drop(&mut self) {
        // While an error unwinds, the relation is left to the end of the transaction.
        if !std::thread::panicking() {
            // SAFETY: opened by one of the functions above, and closed once.
            unsafe { pg_sys::RelationClose(self.0) };
        }
    }
}

/// Makes PostgreSQL plan cached queries on the relation again, once the transaction has ended.
pub fn make_plans_anew(relid: pg_sys::Oid) {
    // A relation that does not exist would raise an error.
    if catalog::class(relid, |_| ()).is_some() {
        // SAFETY: in a transaction, whose end sends the message.
        unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relid) };
    }
}

/// Whether tables inherit from this relation, which must be locked.
pub fn has_children(relation: pg_sys::Oid) -> bool {
    // SAFETY: catalog look-ups. The flag that the first one reads may be left over from children that are gone.
    unsafe {
        pg_guard_ffi_boundary(|| {
            symbols::has_subclass(relation)
                && !symbols::find_inheritance_children(relation, pg_sys::NoLock as i32).is_null()
        })
    }
}

/// The relation, which must be locked, and all relations that inherit from it, locked with `lock`. Partitioned tables
/// are left out, because they have no rows of their own. Temporary tables of other sessions are left out, because no
/// query of this session reads their rows.
pub fn family(relation: pg_sys::Oid, lock: Lock) -> Vec<pg_sys::Oid> {
    let has_rows = |class: &pg_sys::FormData_pg_class| {
        let is_temporary = class.relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
        // SAFETY: looks up the session's own schema.
        let is_of_others = is_temporary && !unsafe { pg_sys::isTempOrTempToastNamespace(class.relnamespace) };
        class.relkind as u8 != pg_sys::RELKIND_PARTITIONED_TABLE && !is_of_others
    };
    inheritors(relation, lock).into_iter().filter(|relid| catalog::class(*relid, has_rows) == Some(true)).collect()
}

fn inheritors(relation: pg_sys::Oid, lock: Lock) -> Vec<pg_sys::Oid> {
    // SAFETY: catalog lookups, and locks; the list is one of oids.
    unsafe {
        let parents = std::ptr::null_mut();
        let found = pg_guard_ffi_boundary(|| symbols::find_all_inheritors(relation, lock.mode(), parents));
        List::<pg_sys::Oid>::new(found).iter().collect()
    }
}

/// Like [`family`], with locks for reading, but never waits for a lock. The error is a relation that another process
/// has locked.
pub fn family_at_hand(relation: pg_sys::Oid) -> Result<Vec<pg_sys::Oid>, pg_sys::Oid> {
    let all = inheritors(relation, Lock::None);
    if let Some(locked) = all.iter().find(|&&relid| !try_lock(relid, Lock::Read)) {
        return Err(*locked);
    }
    // A child may have been detached or dropped before it was locked. Then it is no child any more.
    match inheritors(relation, Lock::None) == all {
        true => Ok(family(relation, Lock::None)),
        false => Err(relation),
    }
}

/// All relations from which a relation inherits, directly or indirectly, according to the present catalog.
pub fn ancestors(relation: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    let mut found = parents(relation);
    let mut seen = 0;
    while let Some(&next) = found.get(seen) {
        seen += 1;
        for parent in parents(next) {
            if !found.contains(&parent) {
                found.push(parent);
            }
        }
    }
    found
}

fn parents(relation: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // The columns of pg_inherits: the child comes first, then the parent.
    const INHERITS: u32 = 2611;
    const BY_CHILD: u32 = 2680;
    const CHILD: i16 = 1;
    let mut parents = Vec::new();
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: in a transaction. The key compares oids, and the rows belong to the catalog. Everything that is opened is
    // closed here, or by the transaction's end.
    unsafe {
        let equal = pg_sys::BTEqualStrategyNumber as u16;
        pg_sys::ScanKeyInit(&mut key, CHILD, equal, pg_sys::F_OIDEQ.into(), relation.into());
        let inherits = OpenRelation::lock(INHERITS.into());
        let latest = std::ptr::null_mut();
        let scan = pg_sys::systable_beginscan(inherits.as_ptr(), BY_CHILD.into(), true, latest, 1, &mut key);
        loop {
            let row = pg_sys::systable_getnext(scan);
            if row.is_null() {
                break;
            }
            let [_child, parent] = *pg_sys::GETSTRUCT(row).cast::<[pg_sys::Oid; 2]>();
            parents.push(parent);
        }
        pg_sys::systable_endscan(scan);
    }
    parents
}

/// The oid of the relation that a statement names, if it exists. Needs a transaction.
pub fn named(name: Ref<'_, pg_sys::RangeVar>) -> Option<pg_sys::Oid> {
    let (lock, missing_ok) = (Lock::None.mode(), pg_sys::RVROption::RVR_MISSING_OK);
    // SAFETY: the name is a part of a statement's tree.
    let found =
        unsafe { pg_sys::RangeVarGetRelidExtended(name.as_ptr(), lock, missing_ok, None, std::ptr::null_mut()) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// Whether `keys` contains all primary key columns of the relation to which `column` belongs.
pub fn keys_determine(relation: pg_sys::Oid, column: &pg_sys::Var, keys: &[Node<'_>]) -> bool {
    let keys = make::list(keys.iter().map(|key| key.as_ptr::<pg_sys::Node>()));
    let mut constraints = std::ptr::null_mut();
    let (entry, levels_up) = (column.varno as pg_sys::Index, column.varlevelsup);
    // SAFETY: catalog lookups; the keys are a list of expressions.
    unsafe {
        pg_guard_ffi_boundary(|| {
            symbols::check_functional_grouping(relation, entry, levels_up, keys, &raw mut constraints)
        })
    }
}
