//! Catalog look-ups: objects by name, names of objects, and rows from the server's caches. All of them need a
//! transaction.

use std::ffi::{CStr, CString, c_char};

use pgrx::prelude::*;

use super::compat;

macro_rules! by_name {
    ($($name:ident => $function:ident),* $(,)?) => {
        $(pub fn $name(name: &CStr) -> Option<pg_sys::Oid> {
            // SAFETY: the name is a C string; for an object that does not exist, the function returns an invalid oid.
            known(unsafe { pg_sys::$function(name.as_ptr(), true) })
        })*
    };
}

by_name! {
    extension => get_extension_oid,
    schema => get_namespace_oid,
    database => get_database_oid,
}

pub fn relation(schema: pg_sys::Oid, name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: the name is a C string; for an object that does not exist, the function returns an invalid oid.
    known(unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) })
}

/// The oid of a function without arguments.
pub fn function(schema: pg_sys::Oid, name: &CStr) -> Option<pg_sys::Oid> {
    let (cache, column) = (pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as _, pg_sys::Anum_pg_proc_oid as i16);
    let (name, schema, none) = (name.as_ptr().into(), schema.into(), pg_sys::Datum::null());
    // SAFETY: the cache's keys are a name, a vector of types and a schema. For a function that does not exist, the
    // result is an invalid oid.
    known(unsafe {
        let arguments = pg_sys::buildoidvector(std::ptr::null(), 0).into();
        pg_sys::GetSysCacheOid(cache, column, name, arguments, schema, none)
    })
}

/// Whether an object belongs to the extension. `class` is the oid of the catalog that lists the object.
pub fn belongs_to(extension: pg_sys::Oid, class: pg_sys::Oid, object: pg_sys::Oid) -> bool {
    // SAFETY: for an object of no extension, the function returns an invalid oid.
    known(unsafe { pg_sys::getExtensionOfObject(class, object) }) == Some(extension)
}

fn known(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    (oid != pg_sys::InvalidOid).then_some(oid)
}

macro_rules! names {
    ($($name:ident => $function:ident),* $(,)?) => {
        $(pub fn $name(oid: pg_sys::Oid) -> String {
            // SAFETY: the function returns a C string, or null if no object has this oid.
            unsafe { text(pg_sys::$function(oid)) }.unwrap_or_else(|| oid.to_u32().to_string())
        })*
    };
}

// Names for people to read. A function's name includes its arguments. An object that no longer exists is shown by its
// oid.
names! {
    relation_name => get_rel_name,
    type_name => format_type_be,
    function_name => format_procedure,
    operator_name => format_operator,
}

/// The name of a type with its length or its number of digits.
pub fn type_with_modifier(oid: pg_sys::Oid, modifier: i32) -> String {
    // SAFETY: the function returns a C string.
    unsafe { text(pg_sys::format_type_with_typemod(oid, modifier)) }.unwrap_or_default()
}

/// The name of a column, quoted for SQL where needed.
pub fn column_name(relid: pg_sys::Oid, attnum: i16) -> String {
    // SAFETY: the function returns a C string, or null if there is no such column.
    unsafe {
        let name = pg_sys::get_attname(relid, attnum, true);
        if name.is_null() { attnum.to_string() } else { quoted_text(CStr::from_ptr(name)) }
    }
}

/// A name, quoted for SQL where needed.
pub fn quoted_name(name: &str) -> String {
    CString::new(name).map_or_else(|_| name.to_owned(), |name| quoted_text(&name))
}

fn quoted_text(name: &CStr) -> String {
    // SAFETY: the function returns a C string.
    unsafe { text(pg_sys::quote_identifier(name.as_ptr())) }.unwrap_or_default()
}

pub fn database_name(database: pg_sys::Oid) -> Option<String> {
    cached([database.into()], |row: &pg_sys::FormData_pg_database| text_of(&row.datname))
}

/// Whether a database is a template, which users other than its owner may copy.
pub fn is_template(database: pg_sys::Oid) -> bool {
    cached([database.into()], |row: &pg_sys::FormData_pg_database| row.datistemplate).unwrap_or(false)
}

/// Whether a role was given the right to create databases.
pub fn creates_databases(role: pg_sys::Oid) -> bool {
    cached([role.into()], |row: &pg_sys::FormData_pg_authid| row.rolcreatedb).unwrap_or(false)
}

/// Whether a function's body is SQL, so that PostgreSQL may inline it.
pub fn is_written_in_sql(function: pg_sys::Oid) -> bool {
    const SQL: u32 = 14;
    cached([function.into()], |row: &pg_sys::FormData_pg_proc| row.prolang.to_u32() == SQL).unwrap_or(true)
}

/// The collations of the columns that a function in FROM returns, including dropped columns; `None` if the function
/// does not determine its columns.
///
/// # Safety
///
/// `call` is a valid function call.
pub unsafe fn collations_of_rows(call: *mut pg_sys::Node) -> Option<Vec<pg_sys::Oid>> {
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: the call is valid by the caller's promise. The descriptor is read only for a class of result that has a
    // descriptor.
    unsafe {
        match pg_sys::get_expr_result_type(call, std::ptr::null_mut(), &mut descriptor) {
            pg_sys::TypeFuncClass::TYPEFUNC_SCALAR => Some(vec![pg_sys::exprCollation(call)]),
            pg_sys::TypeFuncClass::TYPEFUNC_COMPOSITE => Some(
                super::descriptor::Descriptor::new(descriptor)
                    .attributes()
                    .iter()
                    .map(|attribute| attribute.attcollation)
                    .collect(),
            ),
            _ => None,
        }
    }
}

/// Whether an operator is the equality operator of a B-tree operator family.
pub fn is_equality(operator: pg_sys::Oid, family: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up, which returns 0 for an operator that does not belong to the family.
    unsafe { pg_sys::get_op_opfamily_strategy(operator, family) == pg_sys::BTEqualStrategyNumber as i32 }
}

/// A name as text for people to read. The name is in the database's encoding, which need not be UTF-8.
pub fn text_of(name: &pg_sys::NameData) -> String {
    let bytes: Vec<u8> = name.data.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name in the database's encoding, quoted for SQL where needed.
pub fn quoted(name: &pg_sys::NameData) -> Vec<u8> {
    // SAFETY: names end with a zero byte, and so does the result.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.data.as_ptr())) }.to_bytes().to_vec()
}

/// A C string of the server as text for people to read.
///
/// # Safety
///
/// `pointer` is null or a C string.
pub unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Raises the error that the current user does not own the relation.
pub fn refuse_to_who_is_not_owner(relid: pg_sys::Oid) {
    use pg_sys::{AclResult::ACLCHECK_NOT_OWNER, ObjectType::OBJECT_TABLE};
    // SAFETY: the name is a C string, or null if the relation is gone.
    unsafe { pg_sys::aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, pg_sys::get_rel_name(relid)) }
}

/// Rows of a catalog that the server caches.
///
/// # Safety
///
/// The type describes the rows of the cache, and the cache has as many keys as the implementation says.
unsafe trait Cached {
    type Keys: AsRef<[pg_sys::Datum]>;
    const CACHE: pg_sys::SysCacheIdentifier::Type;
}

// SAFETY: this cache holds rows of pg_proc, and its only key is the oid.
unsafe impl Cached for pg_sys::FormData_pg_proc {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::PROCOID;
}

// SAFETY: this cache holds rows of pg_class, and its only key is the oid.
unsafe impl Cached for pg_sys::FormData_pg_class {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::RELOID;
}

// SAFETY: this cache holds rows of pg_attribute, and its keys are the relation and the column's number.
unsafe impl Cached for pg_sys::FormData_pg_attribute {
    type Keys = [pg_sys::Datum; 2];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::ATTNUM;
}

// SAFETY: this cache holds rows of pg_namespace, and its only key is the oid.
unsafe impl Cached for pg_sys::FormData_pg_namespace {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::NAMESPACEOID;
}

// SAFETY: this cache holds rows of pg_database, and its only key is the oid.
unsafe impl Cached for pg_sys::FormData_pg_database {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::DATABASEOID;
}

// SAFETY: this cache holds rows of pg_authid, and its only key is the oid.
unsafe impl Cached for pg_sys::FormData_pg_authid {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::AUTHOID;
}

// SAFETY: this cache holds rows of pg_index, and its only key is the oid of the index.
unsafe impl Cached for pg_sys::FormData_pg_index {
    type Keys = [pg_sys::Datum; 1];
    const CACHE: pg_sys::SysCacheIdentifier::Type = pg_sys::SysCacheIdentifier::INDEXRELID;
}

/// Calls `look` with a relation's row of pg_class; `None` if the relation does not exist.
pub fn class<T>(relid: pg_sys::Oid, look: impl FnOnce(&pg_sys::FormData_pg_class) -> T) -> Option<T> {
    cached([relid.into()], look)
}

/// Calls `look` with the row of a relation's attribute.
pub fn attribute<T>(
    relid: pg_sys::Oid,
    attnum: i16,
    look: impl FnOnce(&pg_sys::FormData_pg_attribute) -> T,
) -> Option<T> {
    cached([relid.into(), attnum.into()], look)
}

/// Calls `look` with a schema's row.
pub fn namespace<T>(schema: pg_sys::Oid, look: impl FnOnce(&pg_sys::FormData_pg_namespace) -> T) -> Option<T> {
    cached([schema.into()], look)
}

/// Calls `look` with an index's row.
pub fn index<T>(index: pg_sys::Oid, look: impl FnOnce(&pg_sys::FormData_pg_index) -> T) -> Option<T> {
    cached([index.into()], look)
}

fn cached<T, F: Cached>(keys: F::Keys, look: impl FnOnce(&F) -> T) -> Option<T> {
    let key = |number: usize| keys.as_ref().get(number).copied().unwrap_or(pg_sys::Datum::null());
    // SAFETY: cache, keys and type belong together. The row is looked at before it is released; after an error the end
    // of the transaction releases it.
    unsafe {
        let tuple = pg_sys::SearchSysCache(F::CACHE as _, key(0), key(1), key(2), key(3));
        if tuple.is_null() {
            return None;
        }
        let seen = look(&*pg_sys::GETSTRUCT(tuple).cast::<F>());
        pg_sys::ReleaseSysCache(tuple);
        Some(seen)
    }
}

/// Copies of some columns of an object's catalog row, by their numbers; `None` for a null column. The whole result is
/// `None` if the object does not exist.
///
/// # Safety
///
/// The cache's only key is the oid, and its catalog has these columns.
pub(super) unsafe fn columns<const N: usize>(
    cache: pg_sys::SysCacheIdentifier::Type,
    object: pg_sys::Oid,
    columns: [u32; N],
) -> Option<[Option<pg_sys::Datum>; N]> {
    // SAFETY: by the caller's promise; the row is released before anybody sees the copies.
    unsafe {
        let none = pg_sys::Datum::null();
        let tuple = pg_sys::SearchSysCache(cache as _, object.into(), none, none, none);
        if tuple.is_null() {
            return None;
        }
        let copy = pg_sys::heap_copytuple(tuple);
        pg_sys::ReleaseSysCache(tuple);
        Some(columns.map(|number| {
            let mut is_null = false;
            let datum = pg_sys::SysCacheGetAttr(cache as _, copy, number as i16, &mut is_null);
            (!is_null).then_some(datum)
        }))
    }
}

/// The function that implements an operator.
pub fn function_of_operator(operator: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::get_opcode(operator) }
}

/// The negator of an operator; an invalid oid if it has none.
pub fn negator(operator: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a catalog look-up.
    unsafe { pg_sys::get_negator(operator) }
}

/// The array type whose elements have this type.
pub fn array_type(element: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog look-up.
    Some(unsafe { pg_sys::get_array_type(element) }).filter(|array| *array != pg_sys::InvalidOid)
}

/// The type of the elements of an array type.
pub fn element_type(array: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog look-up.
    Some(unsafe { pg_sys::get_element_type(array) }).filter(|element| *element != pg_sys::InvalidOid)
}

/// The operator that decides whether values of a type are equal; an invalid oid if the type has none.
pub fn equality(ty: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: an entry of the cache of types, which stays there.
    unsafe { (*pg_sys::lookup_type_cache(ty, pg_sys::TYPECACHE_EQ_OPR as i32)).eq_opr }
}

/// Whether texts that are equal under a collation always have equal bytes.
pub fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog look-up.
    collation != pg_sys::InvalidOid && unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// The operator families that contain an operator, with its strategy number in each.
pub fn meanings_of_operator(operator: pg_sys::Oid) -> Vec<(pg_sys::Oid, u32)> {
    // SAFETY: a catalog look-up; the list is new, and its elements are of that type.
    unsafe {
        let meanings = compat::meanings_of_operator(operator);
        let meaning = |at| &*pg_sys::list_nth(meanings, at).cast::<compat::MeaningOfOperator>();
        let meanings = (0..pg_sys::list_length(meanings)).map(meaning);
        meanings.map(|meaning| (meaning.opfamily_id, compat::strategy(meaning))).collect()
    }
}
