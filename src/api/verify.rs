//! `anker.verify` compares the rows of a mirror with those of the heap.
//!
//! Both sides are read under the snapshot of the calling statement. Memory stays constant, however large the table is:
//! each row is hashed into a bucket, which holds only a number of rows and a sum of hashes. Rows of the heap are added
//! to these figures, and rows of the mirror are subtracted. So equal rows cancel out, in any order of the rows. Only
//! the rows of buckets that differ are read again and listed.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hasher};
use std::ptr;

use pgrx::prelude::*;

use super::{partitions, require_library};
use crate::layout;
use crate::pg::catalog::relation_name;
use crate::pg::error::Error;
use crate::pg::relation::{Lock, OpenRelation};
use crate::pg::session;
use crate::shared::{self, TableState};
use crate::verifying;

const BUCKETS: usize = 1 << 16;
/// The greatest number of differing buckets whose rows are listed.
const LISTED: usize = 256;
const FETCH: i64 = 1000;

#[derive(Clone, Copy, Default, PartialEq)]
struct Bucket {
    rows: i64,
    hashes: u128,
}

#[derive(Clone, Copy)]
enum Side {
    Heap,
    Mirror,
}

/// Compares a table with its mirror. A table that consists of parts is compared part by part.
#[pg_extern]
fn verify(relation: pg_sys::Oid) -> TableIterator<'static, (name!(side, String), name!(row_data, String))> {
    require_library();
    let tables = partitions::parts(relation, Lock::Read).unwrap_or_else(|| vec![relation]);
    tables.iter().for_each(|table| check_state(*table));
    TableIterator::new(tables.into_iter().flat_map(differences).collect::<Vec<_>>())
}

fn differences(relation: pg_sys::Oid) -> Vec<(String, String)> {
    let query = rows_query(relation);
    let mut buckets = vec![Bucket::default(); BUCKETS];
    read(&query, Side::Heap, |row| {
        let hash = hash(row);
        let bucket = &mut buckets[hash as usize % BUCKETS];
        bucket.rows += 1;
        bucket.hashes = bucket.hashes.wrapping_add(hash);
    });
    read(&query, Side::Mirror, |row| {
        let hash = hash(row);
        let bucket = &mut buckets[hash as usize % BUCKETS];
        bucket.rows -= 1;
        bucket.hashes = bucket.hashes.wrapping_sub(hash);
    });
    let differs: Vec<usize> = (0..BUCKETS).filter(|&b| buckets[b] != Bucket::default()).collect();
    if differs.len() > LISTED {
        notice!("heap and mirror differ in {} of {BUCKETS} parts; rows of {LISTED} are listed", differs.len());
    }
    differing_rows(&query, &differs[..differs.len().min(LISTED)])
}

fn check_state(relation: pg_sys::Oid) {
    let table = shared::table(session::database(), relation);
    if table.is_some_and(|table| table.state == TableState::Live) {
        return;
    }
    let (state, hint) = match table {
        None => ("not there".to_string(), "Call anker.mirror() first."),
        Some(table) => (table.state.name().to_string(), "anker.wait_for_mirror() waits until it serves queries."),
    };
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the mirror of table \"{}\" is {state}", relation_name(relation)),
    )
    .hint(hint)
    .raise()
}

fn differing_rows(query: &CStr, buckets: &[usize]) -> Vec<(String, String)> {
    if buckets.is_empty() {
        return Vec::new();
    }
    let mut rows: HashMap<String, i64> = HashMap::new();
    for (side, step) in [(Side::Heap, 1), (Side::Mirror, -1)] {
        read(query, side, |row| {
            if buckets.binary_search(&(hash(row) as usize % BUCKETS)).is_ok() {
                *rows.entry(String::from_utf8_lossy(row).into_owned()).or_default() += step;
            }
        });
    }
    let mut listed = Vec::new();
    for (row, surplus) in rows {
        let side = if surplus > 0 { "heap" } else { "mirror" };
        for _ in 0..surplus.unsigned_abs() {
            listed.push((side.to_string(), row.clone()));
        }
    }
    listed.sort();
    listed
}

fn hash(row: &[u8]) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(row);
        hasher.finish() as u128
    };
    half(1) << 64 | half(2)
}

/// A query that returns the mirrored columns of each row as text. The table stays locked until the end of the
/// transaction, so that its columns cannot change.
fn rows_query(relid: pg_sys::Oid) -> CString {
    let relation = OpenRelation::lock(relid);
    let described = layout::describe(&relation).unwrap_or_else(|e| error!("{}", e.message));
    let columns: Vec<Vec<u8>> =
        described.layout.columns.iter().map(|column| relation.quoted_column(column.attnum)).collect();
    // Every name has its schema, so that nothing depends on the search path. Names are in the database's encoding.
    let query = [
        b"SELECT (ROW(",
        &columns.join(&b", "[..])[..],
        b")::pg_catalog.record)::pg_catalog.text FROM ONLY ",
        &relation.qualified_name(),
        b" WHERE anker.olap()",
    ];
    CString::new(query.concat()).unwrap_or_else(|_| error!("a name contains a zero byte"))
}

/// Reads the rows of one side, under the snapshot of the calling statement.
fn read(query: &CStr, side: Side, mut each: impl FnMut(&[u8])) {
    let route = match side {
        Side::Heap => c"off",
        Side::Mirror => c"hint",
    };
    // The fallback is off, so that a query that the mirror cannot answer raises an error. With the fallback, the heap
    // would answer for the mirror, and the two sides would seem to be equal.
    let settings = [(c"anker.route", route), (c"anker.fallback", c"off"), (c"extra_float_digits", c"3")];
    Spi::connect(|_| {
        let ask = || {
            // SAFETY: called within SPI. `read_only` makes the cursor use the active snapshot instead of one of its
            // own. Each batch of rows is read before its tuple table is freed.
            unsafe {
                let options = pg_sys::CURSOR_OPT_NO_SCROLL as i32;
                let plan = pg_sys::SPI_prepare_cursor(query.as_ptr(), 0, ptr::null_mut(), options);
                if plan.is_null() {
                    error!("could not prepare the comparison");
                }
                let portal = pg_sys::SPI_cursor_open(ptr::null(), plan, ptr::null_mut(), ptr::null(), true);
                loop {
                    pg_sys::SPI_cursor_fetch(portal, true, FETCH);
                    let count = pg_sys::SPI_processed as usize;
                    let table = pg_sys::SPI_tuptable;
                    for row in 0..count {
                        let mut is_null = false;
                        let tuple = *(*table).vals.add(row);
                        let value = pg_sys::SPI_getbinval(tuple, (*table).tupdesc, 1, &mut is_null);
                        let text = pg_sys::pg_detoast_datum_packed(value.cast_mut_ptr());
                        each(pgrx::varlena::varlena_to_byte_slice(text));
                    }
                    pg_sys::SPI_freetuptable(table);
                    if count == 0 {
                        break;
                    }
                }
                pg_sys::SPI_cursor_close(portal);
            }
        };
        verifying::during(|| session::with_settings(&settings, ask));
    });
}
