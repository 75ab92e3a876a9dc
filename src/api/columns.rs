//! `anker.columns` and `anker.chunks` show the columns of a mirrored table, as the engine stores them.
//!
//! The contents of rows are shown only to users who may read all rows: they need the privilege, and no row security may
//! apply to them. The coding of a column also reveals something about its contents, so it is shown only to these users,
//! and to users who may read all statistics.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::JsonB;
use pgrx::prelude::*;
use plan::Type;
use protocol::frame::{self, Kind};
use protocol::request::{Refusal, Request};
use protocol::survey::{ColumnSurvey, SurveyRequest, TableSurvey};

use crate::client::{Connection, Received};
use crate::layout;
use crate::pg::catalog::{relation_name, text_of};
use crate::pg::error::Error;
use crate::pg::relation::OpenRelation;
use crate::pg::{catalog, rights, session, types};
use crate::shared::silence::{self, Asks};
use crate::shared::{self, TableState};

/// The time to wait for the answer of a busy engine about a table's columns. It is short, because the view asks for one
/// table after the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time to wait for the answer of a busy engine about all chunks of a table.
const LONG_PATIENCE: Duration = Duration::from_secs(60);

/// The reason why nothing is shown.
const NOT_PERMITTED: &str = "the current user may not read any whole column of it";

thread_local! {
    /// The start time of the statement in which the engine did not answer. Later calls in that statement do not ask the
    /// engine again.
    static GIVEN_UP: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The table as this session may see it.
struct Seen {
    fingerprint: u64,
    columns: Vec<SeenColumn>,
}

struct SeenColumn {
    attnum: i16,
    name: String,
    sql_type: String,
    is_readable: bool,
    shows_form: bool,
}

impl Seen {
    /// Whether there is anything to show. If not, the engine is not asked, because its answer would cost time.
    fn shows_any(&self) -> bool {
        self.columns.iter().any(|column| column.shows_form)
    }
}

type ColumnRow = (
    String,
    String,
    Option<JsonB>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn table_columns(
    relation: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(column_name, String),
        name!(data_type, String),
        name!(codings, Option<JsonB>),
        name!(bytes, Option<i64>),
        name!(rows, Option<i64>),
        name!(nulls, Option<i64>),
        name!(distinct_values, Option<i64>),
        name!(min, Option<String>),
        name!(max, Option<String>),
        name!(reason, Option<String>),
    ),
> {
    let rows: Vec<ColumnRow> = match look(relation) {
        // A table that cannot be examined shows no columns, because even their names are unknown.
        Err(_) => Vec::new(),
        Ok(seen) if !seen.shows_any() => seen.columns.iter().map(|column| unknown(column, NOT_PERMITTED)).collect(),
        Ok(seen) => match ask(relation, &seen, false, PATIENCE) {
            Ok(survey) => seen.columns.iter().map(|column| column_row(column, survey.of(column.attnum))).collect(),
            Err(reason) => seen.columns.iter().map(|column| unknown(column, &reason)).collect(),
        },
    };
    TableIterator::new(rows)
}

fn column_row(column: &SeenColumn, survey: Option<&ColumnSurvey>) -> ColumnRow {
    let Some(survey) = survey else { return unknown(column, "the mirror does not have this column") };
    let codings = survey.codings.iter().map(|(coding, chunks)| (coding.clone(), serde_json::Value::from(*chunks)));
    let readable = |number: u64| column.is_readable.then_some(number as i64);
    let (min, max) = bounds(column, survey.ty, survey.bounds);
    (
        column.name.clone(),
        column.sql_type.clone(),
        column.shows_form.then(|| JsonB(codings.collect())),
        column.shows_form.then_some(survey.bytes as i64),
        Some(survey.rows as i64),
        readable(survey.nulls),
        readable(survey.distinct),
        min,
        max,
        None,
    )
}

fn unknown(column: &SeenColumn, reason: &str) -> ColumnRow {
    let (name, sql_type) = (column.name.clone(), column.sql_type.clone());
    (name, sql_type, None, None, None, None, None, None, None, Some(reason.into()))
}

type ChunkRow =
    (i64, String, Option<String>, Option<i64>, i64, i64, Option<i64>, Option<i64>, Option<String>, Option<String>);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn chunks(
    relation: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(chunk, i64),
        name!(column_name, String),
        name!(coding, Option<String>),
        name!(bytes, Option<i64>),
        name!(slots, i64),
        name!(rows, i64),
        name!(nulls, Option<i64>),
        name!(distinct_values, Option<i64>),
        name!(min, Option<String>),
        name!(max, Option<String>),
    ),
> {
    let found = look(relation).and_then(|seen| match seen.shows_any() {
        true => Ok((ask(relation, &seen, true, LONG_PATIENCE)?, seen)),
        false => Err(NOT_PERMITTED.into()),
    });
    let (survey, seen) = found.unwrap_or_else(|reason| refuse(relation, &reason));
    let mut rows: Vec<ChunkRow> = Vec::new();
    for (of, chunks) in survey.columns.iter().zip(&survey.chunks) {
        let Some(column) = seen.columns.iter().find(|column| column.attnum == of.attnum) else { continue };
        let readable = |number: u64| column.is_readable.then_some(number as i64);
        for (number, chunk) in chunks.iter().enumerate() {
            let (min, max) = bounds(column, of.ty, chunk.bounds);
            rows.push((
                number as i64,
                column.name.clone(),
                column.shows_form.then(|| chunk.coding.clone()),
                column.shows_form.then_some(chunk.bytes as i64),
                chunk.slots as i64,
                chunk.rows as i64,
                readable(chunk.nulls),
                readable(chunk.distinct),
                min,
                max,
            ));
        }
        pgrx::check_for_interrupts!();
    }
    TableIterator::new(rows)
}

fn refuse(relation: pg_sys::Oid, reason: &str) -> ! {
    let code = match reason {
        NOT_PERMITTED => PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        _ => PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
    };
    Error::new(code, format!("the mirror of table \"{}\" cannot be shown", relation_name(relation)))
        .detail(format!("Reason: {reason}."))
        .raise()
}

/// The least and the greatest value of a column, if the session may see them.
fn bounds(column: &SeenColumn, ty: Type, bounds: Option<(i128, i128)>) -> (Option<String>, Option<String>) {
    let Some((low, high)) = bounds.filter(|_| column.is_readable) else { return (None, None) };
    (types::number_text(ty, low), types::number_text(ty, high))
}

/// Examines a table. Does not wait for a process that alters it, and keeps no lock on it.
fn look(relation: pg_sys::Oid) -> Result<Seen, String> {
    let seen = OpenRelation::glance(relation, |relation| {
        let readable = rights::readable_columns(relation.oid());
        let reads_statistics = rights::may_read_all_statistics();
        let (columns, _) = layout::columns(relation);
        let described = |column: plan::MirrorColumn| {
            let attribute = &relation.attributes()[column.attnum as usize - 1];
            SeenColumn {
                attnum: column.attnum,
                name: text_of(&attribute.attname),
                sql_type: catalog::type_with_modifier(attribute.atttypid, attribute.atttypmod),
                is_readable: readable(column.attnum),
                shows_form: reads_statistics || readable(column.attnum),
            }
        };
        Seen { fingerprint: layout::fingerprint(relation), columns: columns.into_iter().map(described).collect() }
    });
    seen.ok_or_else(|| "the table is locked, or is no more".into())
}

/// Asks the engine for the survey of a table.
fn ask(relation: pg_sys::Oid, seen: &Seen, by_chunk: bool, patience: Duration) -> Result<TableSurvey, String> {
    let database = session::database();
    match shared::table(database, relation) {
        None => return Err(shared::why_not_mirrored(database, relation).text),
        Some(table) if table.state != TableState::Live => {
            let (state, why) = (table.state.name(), table.reason.as_str());
            return Err(if why.is_empty() { format!("it is {state}") } else { format!("it is {state}: {why}") });
        }
        Some(_) => {}
    }
    let statement = session::statement_start();
    if GIVEN_UP.get() == Some(statement) {
        return Err("engine did not answer in time before".into());
    }
    let asks = silence::may_ask(database).map_err(silence::reason)?;
    let begun = Instant::now();
    let request = SurveyRequest { relid: relation.to_u32(), fingerprint: seen.fingerprint, by_chunk };
    let told = converse(database, request, patience, asks);
    let is_silent = matches!(told, Err(Unanswered::Silent(_)));
    if is_silent {
        silence::was_silent(database, asks);
    }
    if is_silent || told.is_err() && begun.elapsed() >= patience {
        GIVEN_UP.set(Some(statement));
    }
    told.map_err(|(Unanswered::Silent(why) | Unanswered::Other(why))| why)
}

/// The reason why there is no survey.
enum Unanswered {
    /// The engine has shown no sign of life for as long as a flagged query waits for it.
    Silent(String),
    Other(String),
}

impl From<String> for Unanswered {
    fn from(why: String) -> Unanswered {
        Unanswered::Other(why)
    }
}

fn converse(
    database: pg_sys::Oid,
    request: SurveyRequest,
    patience: Duration,
    asks: Asks,
) -> Result<TableSurvey, Unanswered> {
    let begun = Instant::now();
    let limit = silence::limit().min(patience);
    let mut engine = Connection::reach(database, limit).map_err(|why| match begun.elapsed() >= limit {
        true => Unanswered::Silent(why),
        false => Unanswered::Other(why),
    })?;
    engine.patience = limit.min(engine.patience);
    engine.request(frame::encode(Kind::Request, &Request::Survey(request)))?;
    let (kind, payload) = match engine.receive(Some(patience)) {
        Ok(Received::Frame(kind, payload)) => (kind, payload),
        lost => {
            let why = lost.map_or_else(String::from, |_| "engine did not answer in time".into());
            return Err(if engine.is_silent() { Unanswered::Silent(why) } else { Unanswered::Other(why) });
        }
    };
    if asks == Asks::Again {
        silence::has_answered(database);
    }
    let survey = match kind {
        Kind::Survey => frame::parse(payload).map_err(|e| e.to_string())?,
        Kind::Refused => {
            let refusal: Refusal = frame::parse(payload).map_err(|e| e.to_string())?;
            return Err(refusal.reason(|relid| relation_name(relid.into())).into());
        }
        kind => return Err(format!("the engine answered with {kind:?}").into()),
    };
    engine.keep();
    Ok(survey)
}
