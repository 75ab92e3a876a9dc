//! What the mirror keeps of a relation, and the fingerprint under which that holds.
//!
//! Everything comes from the server's caches, so that backend (under its lock), loader (under its lock) and capture
//! worker (under the historic snapshot of decoding) compute the same from the same definition.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};

use pgrx::prelude::*;
use plan::{Identity, MirrorColumn, TableLayout, Type};

use crate::pg::compat;

/// A column that the mirror does not have.
#[derive(Clone, Debug)]
pub struct Excluded {
    pub attnum: i16,
    pub name: String,
    pub reason: String,
}

#[derive(Clone, Debug)]
pub struct Described {
    pub layout: TableLayout,
    pub excluded: Vec<Excluded>,
}

/// Why a relation cannot be mirrored, and what the user can do.
#[derive(Clone, Debug)]
pub struct NotMirrorable {
    pub message: String,
    pub hint: Option<String>,
}

/// Describes an open relation.
///
/// # Safety
///
/// `relation` is an open relation, within a transaction (or within decoding's historic snapshot).
pub unsafe fn describe(relation: pg_sys::Relation) -> Result<Described, NotMirrorable> {
    // SAFETY: an open relation has rd_rel and rd_att.
    let (form, relid) = unsafe { (&*(*relation).rd_rel, (*relation).rd_id) };
    let refuse = |message: &str| Err(NotMirrorable { message: message.to_string(), hint: None });
    match form.relkind as u8 {
        pg_sys::RELKIND_RELATION => {}
        pg_sys::RELKIND_PARTITIONED_TABLE => {
            return Err(NotMirrorable {
                message: "a partitioned table cannot be mirrored as a whole".into(),
                hint: Some("Mirror its partitions one by one.".into()),
            });
        }
        _ => return refuse("only ordinary tables can be mirrored"),
    }
    match form.relpersistence as u8 {
        pg_sys::RELPERSISTENCE_PERMANENT => {}
        pg_sys::RELPERSISTENCE_TEMP => return refuse("temporary tables cannot be mirrored"),
        _ => return refuse("unlogged tables cannot be mirrored: their changes are not in the WAL"),
    }
    if form.relam != pg_sys::HEAP_TABLE_AM_OID {
        return refuse("only tables with the access method heap can be mirrored");
    }
    if relid.to_u32() < pg_sys::FirstNormalObjectId {
        return refuse("system catalogs cannot be mirrored");
    }

    let mut columns = Vec::new();
    let mut excluded = Vec::new();
    // SAFETY: the relation is open.
    for attribute in unsafe { attributes(relation) }.filter(|a| !a.attisdropped) {
        match column_type(attribute) {
            Ok(ty) => columns.push(MirrorColumn { attnum: attribute.attnum, ty }),
            Err(reason) => {
                let name = name_of(&attribute.attname);
                excluded.push(Excluded { attnum: attribute.attnum, name, reason });
            }
        }
    }
    // SAFETY: the relation is open.
    let identity = unsafe { identity(relation, &columns, &excluded)? };
    // SAFETY: the relation is open.
    let fingerprint = unsafe { fingerprint(relation) };
    let layout = TableLayout { relid: relid.to_u32(), fingerprint, columns, identity };
    Ok(Described { layout, excluded })
}

/// Hash of all that must stay as it is for the mirror of the relation to stay right.
///
/// # Safety
///
/// As for [`describe`].
pub unsafe fn fingerprint(relation: pg_sys::Relation) -> u64 {
    // SAFETY: an open relation has rd_rel; the index list is computed in its own context.
    unsafe {
        let form = &*(*relation).rd_rel;
        let mut hash = DefaultHasher::new();
        (*relation).rd_id.to_u32().hash(&mut hash);
        form.relfilenode.to_u32().hash(&mut hash);
        (form.relkind, form.relpersistence).hash(&mut hash);
        // Which index it is does not matter: REINDEX CONCURRENTLY puts another in its place.
        (has_full_identity(form), identity_attributes(relation)).hash(&mut hash);
        for a in attributes(relation) {
            (a.attnum, a.attisdropped, a.atttypid.to_u32(), a.atttypmod, a.attcollation.to_u32()).hash(&mut hash);
            a.atthasmissing.hash(&mut hash);
        }
        hash.finish()
    }
}

/// The mirror's type of a column, or why there is none.
fn column_type(attribute: &pg_sys::FormData_pg_attribute) -> Result<Type, String> {
    match attribute.atttypid {
        pg_sys::BOOLOID => Ok(Type::Bool),
        pg_sys::INT2OID => Ok(Type::Int16),
        pg_sys::INT4OID => Ok(Type::Int32),
        pg_sys::INT8OID => Ok(Type::Int64),
        pg_sys::FLOAT8OID => Ok(Type::Float64),
        pg_sys::DATEOID => Ok(Type::Date),
        pg_sys::TIMESTAMPOID => Ok(Type::Timestamp),
        pg_sys::TIMESTAMPTZOID => Ok(Type::TimestampTz),
        pg_sys::NUMERICOID => match numeric_modifier(attribute.atttypmod) {
            Some((1..=18, scale @ 0..=18)) => Ok(Type::Decimal64 { scale: scale as u8 }),
            Some((1..=38, scale @ 0..=38)) => Ok(Type::Decimal128 { scale: scale as u8 }),
            Some(_) => Err("numeric beyond 38 digits".into()),
            None => Err("numeric without precision".into()),
        },
        pg_sys::TEXTOID | pg_sys::VARCHAROID if utf8() => Ok(Type::Text),
        pg_sys::BPCHAROID if attribute.atttypmod < pg_sys::VARHDRSZ as i32 => Err("character without length".into()),
        pg_sys::BPCHAROID if utf8() => Ok(Type::Char),
        pg_sys::TEXTOID | pg_sys::VARCHAROID | pg_sys::BPCHAROID => Err("text in a database that is not UTF-8".into()),
        other => Err(format!("type {}", type_name(other))),
    }
}

/// Precision and scale of a numeric type modifier.
pub fn numeric_modifier(typmod: i32) -> Option<(i32, i32)> {
    let header = pg_sys::VARHDRSZ as i32;
    (typmod >= header).then(|| {
        let m = typmod - header;
        // The scale is an 11-bit two's complement number.
        ((m >> 16) & 0xffff, ((m & 0x7ff) ^ 1024) - 1024)
    })
}

fn utf8() -> bool {
    // SAFETY: fixed for the life of a connected process.
    unsafe { pg_sys::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as i32 }
}

fn type_name(oid: pg_sys::Oid) -> String {
    // SAFETY: returns a palloc'd C string for any oid, "???" included.
    unsafe { CStr::from_ptr(pg_sys::format_type_be(oid)) }.to_string_lossy().into_owned()
}

unsafe fn identity(
    relation: pg_sys::Relation,
    columns: &[MirrorColumn],
    excluded: &[Excluded],
) -> Result<Identity, NotMirrorable> {
    // SAFETY: the relation is open by the caller's promise.
    let (form, keys) = unsafe { (&*(*relation).rd_rel, identity_attributes(relation)) };
    let table = name_of(&form.relname);
    if has_full_identity(form) {
        return match excluded.first() {
            None => Ok(Identity::Full),
            Some(column) => Err(NotMirrorable {
                message: format!(
                    "table \"{table}\" is identified by whole rows, but column \"{}\" cannot be mirrored ({})",
                    column.name, column.reason
                ),
                hint: Some("Give it a primary key and REPLICA IDENTITY DEFAULT.".into()),
            }),
        };
    }
    if keys.is_empty() {
        return Err(NotMirrorable {
            message: format!("table \"{table}\" has no replica identity, so its updates cannot be followed"),
            hint: Some(format!(
                "Add a primary key, or run: ALTER TABLE {} REPLICA IDENTITY FULL;",
                // SAFETY: the relation is open.
                unsafe { qualified_name(relation) }
            )),
        });
    }
    let mut positions = Vec::with_capacity(keys.len());
    for attnum in keys {
        let Some(position) = columns.iter().position(|c| c.attnum == attnum) else {
            let column = excluded.iter().find(|e| e.attnum == attnum);
            return Err(NotMirrorable {
                message: format!(
                    "column \"{}\" of the replica identity of table \"{table}\" cannot be mirrored ({})",
                    column.map_or("?", |c| &c.name),
                    column.map_or("?", |c| &c.reason)
                ),
                hint: None,
            });
        };
        positions.push(position as u16);
    }
    Ok(Identity::Key(positions))
}

fn has_full_identity(form: &pg_sys::FormData_pg_class) -> bool {
    form.relreplident as u8 == pg_sys::REPLICA_IDENTITY_FULL
}

/// Attribute numbers of the replica identity index, ascending; empty without one.
///
/// RelationGetIdentityKeyBitmap has them too, but may be called under a historic snapshot only.
unsafe fn identity_attributes(relation: pg_sys::Relation) -> Vec<i16> {
    // SAFETY: the relation is open by the caller's promise; the index's row is read before it is released.
    unsafe {
        let index = pg_sys::RelationGetReplicaIndex(relation);
        if index == pg_sys::InvalidOid {
            return Vec::new();
        }
        let cache = pg_sys::SysCacheIdentifier::INDEXRELID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, index.into());
        if tuple.is_null() {
            return Vec::new();
        }
        let form = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_index>();
        let mut attributes = form.indkey.values.as_slice(form.indnkeyatts as usize).to_vec();
        pg_sys::ReleaseSysCache(tuple);
        attributes.sort_unstable();
        attributes
    }
}

/// The columns of a table that the mirror does not have, without a lock on the table: as the catalog has it just now.
/// `None`: there is no such table.
pub fn excluded_columns(relid: pg_sys::Oid) -> Option<Vec<String>> {
    // SAFETY: look-ups in a transaction; each row is read before it is released.
    unsafe {
        let class = pg_sys::SearchSysCache1(pg_sys::SysCacheIdentifier::RELOID as i32, relid.into());
        if class.is_null() {
            return None;
        }
        let natts = (*pg_sys::GETSTRUCT(class).cast::<pg_sys::FormData_pg_class>()).relnatts;
        pg_sys::ReleaseSysCache(class);
        let mut excluded = Vec::new();
        for attnum in 1..=natts {
            let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
            let tuple = pg_sys::SearchSysCache2(cache, relid.into(), attnum.into());
            if tuple.is_null() {
                continue;
            }
            let attribute = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_attribute>();
            if !attribute.attisdropped && column_type(attribute).is_err() {
                excluded.push(name_of(&attribute.attname));
            }
            pg_sys::ReleaseSysCache(tuple);
        }
        Some(excluded)
    }
}

unsafe fn attributes<'a>(relation: pg_sys::Relation) -> impl Iterator<Item = &'a pg_sys::FormData_pg_attribute> {
    // SAFETY: an open relation's descriptor has natts attributes and outlives the use here.
    unsafe { compat::attributes((*relation).rd_att).iter() }
}

unsafe fn qualified_name(relation: pg_sys::Relation) -> String {
    // SAFETY: the relation is open; both calls return palloc'd C strings.
    unsafe {
        let form = &*(*relation).rd_rel;
        let schema = pg_sys::get_namespace_name(form.relnamespace);
        let name = pg_sys::quote_qualified_identifier(schema, form.relname.data.as_ptr());
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}

fn name_of(name: &pg_sys::NameData) -> String {
    pgrx::name_data_to_str(name).to_string()
}
