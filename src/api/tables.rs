//! `anker.mirror_tables`, `anker.mirror_schema` and their opposites: the choice of many tables at once.
//!
//! A table that cannot be mirrored is no error here. Each table gets a row that says what was done with it, and why it
//! was refused.

use std::collections::HashSet;

use pgrx::prelude::*;

use super::mirror::{check_server, enlist, may_mirror, report, strike_out};
use crate::layout::NotMirrorable;
use crate::pg::catalog::{self, relation_name};
use crate::pg::relation::{self, Lock, OpenRelation};
use crate::pg::session;

/// A table, the outcome, and for a refused table the reason and a hint.
type Row = (pg_sys::Oid, String, Option<String>, Option<String>);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn mirror_tables(
    relations: Vec<Option<pg_sys::Oid>>,
) -> TableIterator<
    'static,
    (name!(relation, pg_sys::Oid), name!(outcome, String), name!(reason, Option<String>), name!(hint, Option<String>)),
> {
    check_server();
    TableIterator::new(mirror_all(&distinct(relations), &[]))
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn unmirror_tables(
    relations: Vec<Option<pg_sys::Oid>>,
) -> TableIterator<
    'static,
    (name!(relation, pg_sys::Oid), name!(outcome, String), name!(reason, Option<String>), name!(hint, Option<String>)),
> {
    TableIterator::new(unmirror_all(&distinct(relations)))
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn mirror_schema(
    schema: pg_sys::Oid,
    skip: Vec<Option<pg_sys::Oid>>,
) -> TableIterator<
    'static,
    (name!(relation, pg_sys::Oid), name!(outcome, String), name!(reason, Option<String>), name!(hint, Option<String>)),
> {
    check_server();
    TableIterator::new(mirror_all(&tables_of(schema), &distinct(skip)))
}

#[pg_extern]
#[allow(clippy::type_complexity)]
fn unmirror_schema(
    schema: pg_sys::Oid,
) -> TableIterator<
    'static,
    (name!(relation, pg_sys::Oid), name!(outcome, String), name!(reason, Option<String>), name!(hint, Option<String>)),
> {
    let mut tables = tables_of(schema);
    tables.retain(|table| is_listed(*table));
    TableIterator::new(unmirror_all(&tables))
}

/// Mirrors tables in this order, except those to skip.
fn mirror_all(relations: &[pg_sys::Oid], skip: &[pg_sys::Oid]) -> Vec<Row> {
    let mut new = HashSet::new();
    let mut rows = Vec::new();
    for &relid in relations {
        if skip.contains(&relid) {
            rows.push((relid, "skipped".into(), None, None));
            continue;
        }
        relation::lock(relid, Lock::Read);
        // A table that another session has dropped meanwhile gets no row.
        let Some(whole) = OpenRelation::try_locked(relid) else { continue };
        rows.push(match is_refused(relid).map_or_else(|| enlist(&whole), Err) {
            Ok(listed) => {
                new.extend(listed);
                // A child may have been listed by this call together with its parent.
                let outcome = if new.contains(&relid) { "mirrored" } else { "already mirrored" };
                (relid, outcome.into(), None, None)
            }
            Err(NotMirrorable { message, hint }) => (relid, "refused".into(), Some(message), hint),
        });
    }
    rows
}

/// Ends the mirrors of tables.
fn unmirror_all(relations: &[pg_sys::Oid]) -> Vec<Row> {
    // A child is removed together with its parent, so the list is read before the first removal.
    let listed: HashSet<pg_sys::Oid> = relations.iter().copied().filter(|relid| is_listed(*relid)).collect();
    let unmirror = |&relid: &pg_sys::Oid| match is_refused(relid) {
        _ if !listed.contains(&relid) => (relid, "not mirrored".into(), None, None),
        Some(NotMirrorable { message, hint }) => (relid, "refused".into(), Some(message), hint),
        None => {
            strike_out(relid);
            (relid, "unmirrored".into(), None, None)
        }
    };
    relations.iter().map(unmirror).collect()
}

/// The refusal to a user who does not own the table.
fn is_refused(relid: pg_sys::Oid) -> Option<NotMirrorable> {
    let refused = || NotMirrorable { message: format!("must be owner of table {}", relation_name(relid)), hint: None };
    (!may_mirror(relid)).then(refused)
}

/// The relations of an array, each once and in the array's order. NULL stands for no relation.
fn distinct(relations: Vec<Option<pg_sys::Oid>>) -> Vec<pg_sys::Oid> {
    let mut seen = HashSet::new();
    relations.into_iter().flatten().filter(|relid| seen.insert(*relid)).collect()
}

/// The tables of a schema, ordered by name. Partitions are left out if a table of the same schema contains them,
/// because they are mirrored together with that table.
fn tables_of(schema: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    if catalog::namespace(schema, |_| ()).is_none() {
        report(
            PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME,
            &format!("schema with OID {} does not exist", schema.to_u32()),
            None,
        );
    }
    let tables = "SELECT c.oid FROM pg_class c
        WHERE c.relnamespace = $1 AND c.relkind IN ('r', 'p', 'f') AND NOT (c.relispartition AND EXISTS (
            SELECT FROM pg_partition_ancestors(c.oid) a JOIN pg_class w ON w.oid = a.relid
            WHERE w.oid <> c.oid AND w.relnamespace = c.relnamespace))
        ORDER BY c.relname";
    relids(tables, schema)
}

/// Whether a table, a part of it or its parts to come are in a list.
fn is_listed(relid: pg_sys::Oid) -> bool {
    let listed = "SELECT m.relation::oid FROM anker.mirrored m
        WHERE m.relation = $1 OR m.relation IN (SELECT t.relid FROM pg_partition_tree($1) t)
        UNION ALL SELECT p.relation::oid FROM anker.mirrored_parents p WHERE p.relation = $1";
    !relids(listed, relid).is_empty()
}

/// The relations that a query with one parameter returns. Every name in it means PostgreSQL's own object.
fn relids(query: &str, parameter: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    let found = session::with_settings(&[(c"search_path", c"pg_catalog, pg_temp")], || {
        Spi::connect(|client| {
            let rows = client.select(query, None, &[parameter.into()])?;
            rows.map(|row| row.get::<pg_sys::Oid>(1)).collect::<Result<Vec<_>, _>>()
        })
    });
    match found {
        Ok(relids) => relids.into_iter().flatten().collect(),
        Err(e) => error!("could not read the catalog: {e}"),
    }
}
