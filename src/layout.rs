//! The mirror's layout of a relation, and the fingerprint of the relation's definition.
//!
//! All information comes from the server's caches. So three processes compute the same layout from the same definition:
//! a backend and a loader under their locks, and a capture worker under decoding's historic snapshot.

use std::ffi::CStr;
use std::hash::{DefaultHasher, Hash, Hasher};

use pgrx::prelude::*;
use plan::{Identity, MirrorColumn, TableLayout, Type, numeric_modifier};

use crate::pg::catalog::{self, text_of};
use crate::pg::descriptor::is_virtual;
use crate::pg::relation::OpenRelation;
use crate::pg::session;
use crate::pg::types::{self, Form};

pub const EXTENSION: &CStr = c"pg_anker";

/// A column that the mirror leaves out.
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

/// The reason why a relation cannot be mirrored, with a hint for the user.
#[derive(Clone, Debug)]
pub struct NotMirrorable {
    pub message: String,
    pub hint: Option<String>,
}

/// Describes an open relation that is to be mirrored from now on.
pub fn describe_new(relation: &OpenRelation) -> Result<Described, NotMirrorable> {
    let is_ours = |ours| catalog::belongs_to(ours, pg_sys::RelationRelationId, relation.oid());
    // The mirror follows the extension's own tables itself, to learn which tables are mirrored.
    if catalog::extension(EXTENSION).is_some_and(is_ours) {
        return Err(NotMirrorable { message: "pg_anker's own tables cannot be mirrored".into(), hint: None });
    }
    describe(relation)
}

/// Describes an open relation.
pub fn describe(relation: &OpenRelation) -> Result<Described, NotMirrorable> {
    let (form, relid) = (relation.class(), relation.oid());
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

    let (columns, excluded) = columns(relation);
    if columns.is_empty() {
        return refuse("a table without columns cannot be mirrored");
    }
    let identity = identity(relation, &columns);
    let layout = TableLayout { relid: relid.to_u32(), fingerprint: fingerprint(relation), columns, identity };
    Ok(Described { layout, excluded })
}

/// The columns that the relation's mirror has, and the columns that it leaves out. The relation may have partitions or
/// children.
pub fn columns(relation: &OpenRelation) -> (Vec<MirrorColumn>, Vec<Excluded>) {
    let (mut columns, mut excluded) = (Vec::new(), Vec::new());
    for attribute in relation.attributes().iter().filter(|a| !a.attisdropped) {
        match column_type(attribute) {
            Ok(ty) => columns.push(MirrorColumn { attnum: attribute.attnum, ty }),
            Err(reason) => {
                let name = text_of(&attribute.attname);
                excluded.push(Excluded { attnum: attribute.attnum, name, reason });
            }
        }
    }
    (columns, excluded)
}

/// A hash of everything about the relation that must not change while it is mirrored.
pub fn fingerprint(relation: &OpenRelation) -> u64 {
    let form = relation.class();
    let mut hash = DefaultHasher::new();
    relation.oid().to_u32().hash(&mut hash);
    form.relfilenode.to_u32().hash(&mut hash);
    (form.relkind, form.relpersistence).hash(&mut hash);
    // The identity index is not hashed, only its columns, because REINDEX CONCURRENTLY replaces the index.
    (relation.has_full_identity(), relation.identity_attributes()).hash(&mut hash);
    for a in relation.attributes() {
        (a.attnum, a.attisdropped, a.atttypid.to_u32(), a.atttypmod, a.attcollation.to_u32()).hash(&mut hash);
        a.atthasmissing.hash(&mut hash);
    }
    hash.finish()
}

/// The mirror's type of a column, or the reason why the column cannot be mirrored. Values of a type that the engine
/// cannot compute with are kept unchanged.
fn column_type(attribute: &pg_sys::FormData_pg_attribute) -> Result<Type, String> {
    // Each query computes the column from other columns.
    if is_virtual(attribute) {
        return Err("virtual generated column".into());
    }
    let (sql_type, modifier) = types::without_domain(attribute.atttypid, attribute.atttypmod);
    let known = match types::type_of(sql_type) {
        Some(Type::Decimal128 { .. }) => match numeric_modifier(modifier) {
            Some((1..=18, scale @ 0..=18)) => Some(Type::Decimal64 { scale: scale as u8 }),
            Some((1..=38, scale @ 0..=38)) => Some(Type::Decimal128 { scale: scale as u8 }),
            _ => None,
        },
        // An interval is kept in PostgreSQL's form until something is computed from it.
        Some(Type::Interval) => None,
        Some(ty) if ty.is_text() && !session::is_utf8() => None,
        Some(Type::Char) if modifier < pg_sys::VARHDRSZ as i32 => None,
        known => known,
    };
    let kept = Form::of(attribute.attlen, attribute.attbyval).map(|_| Type::Opaque);
    known.or(kept).ok_or_else(|| format!("type {}", catalog::type_name(sql_type)))
}

/// Rows are identified by the replica identity index if the mirror has its columns, otherwise by their addresses.
fn identity(relation: &OpenRelation, columns: &[MirrorColumn]) -> Identity {
    let keys = relation.identity_attributes();
    let position = |attnum: i16| columns.iter().position(|c| c.attnum == attnum).map(|position| position as u16);
    match keys.into_iter().map(position).collect::<Option<Vec<u16>>>() {
        Some(positions) if !positions.is_empty() => Identity::Key(positions),
        _ => Identity::Address,
    }
}

/// The names of the columns that a table's mirror leaves out, according to the present catalog, without a lock on the
/// table. `None` if the table does not exist.
pub fn excluded_columns(relid: pg_sys::Oid) -> Option<Vec<String>> {
    let natts = catalog::class(relid, |class| class.relnatts)?;
    let excluded = |attribute: &pg_sys::FormData_pg_attribute| {
        (!attribute.attisdropped && column_type(attribute).is_err()).then(|| text_of(&attribute.attname))
    };
    Some((1..=natts).filter_map(|attnum| catalog::attribute(relid, attnum, excluded)?).collect())
}
