//! Differences that are no fault of the engine, because PostgreSQL's own plans differ in the same way. Two plans may
//! show different ones of several equal numbers (0, 0.00, -0) for a group. They may differ in whether they raise an
//! error for a row that another condition drops, and in which of two errors they raise first.

use bench::Result;
use postgres::Client;

use crate::flagged::{Answer, ask, unflagged};

/// Settings that make PostgreSQL choose other plans for the same query.
const OTHER_PLANS: [&str; 8] = [
    "SET enable_hashagg = off",
    "SET enable_sort = off",
    "SET enable_nestloop = off",
    "SET enable_hashjoin = off; SET enable_mergejoin = off",
    "SET enable_hashjoin = off; SET enable_nestloop = off",
    "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off",
    "SET join_collapse_limit = 1; SET from_collapse_limit = 1",
    "SET enable_seqscan = off; SET enable_hashagg = off; SET enable_material = off; SET enable_memoize = off",
];
const BACK: &str = "RESET enable_hashagg; RESET enable_sort; RESET enable_nestloop; RESET enable_hashjoin;
    RESET enable_mergejoin; RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan;
    RESET join_collapse_limit; RESET from_collapse_limit; RESET enable_seqscan; RESET enable_material; RESET enable_memoize";
/// SQLSTATE of `query_canceled`. If the timeout cancels the query on the heap, there is no answer to compare.
const TIMEOUT: &str = "57014";

/// Whether the heap gives the flagged query's answer with one of the other plans, or the timeout cancels it. `ordered`:
/// the order of rows must be the same, too.
pub fn has_the_flagged_answer(client: &mut Client, sql: &str, ordered: bool) -> Result<bool> {
    let comparable = |answer: Answer| if ordered { answer } else { answer.normal() };
    let flagged = comparable(ask(client, sql)?);
    let plain = unflagged(sql);
    if is_timeout(&ask(client, &plain)?) && !is_timeout(&flagged) {
        return Ok(true);
    }
    let spelled_otherwise = (takes_nulls_for_constants(sql), "", equalities_as_lists(&plain));
    let others = OTHER_PLANS.map(|settings| (true, settings, plain.clone()));
    for (_, settings, plain) in others.into_iter().chain([spelled_otherwise]).filter(|(tried, ..)| *tried) {
        client.batch_execute(settings)?;
        let heap = ask(client, &plain);
        client.batch_execute(BACK)?;
        let heap = comparable(heap?);
        let alike = match (&flagged, &heap) {
            (Answer::Error { code: a, .. }, Answer::Error { code: b, .. }) => a == b,
            _ => flagged == heap,
        };
        if alike && !is_timeout(&heap) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the query may have rows in which a grouping set makes a column NULL, while a condition says that the column
/// is a constant. Until PostgreSQL 18 the heap orders such rows as if the column had that constant.
fn takes_nulls_for_constants(sql: &str) -> bool {
    ["ROLLUP", "CUBE", "GROUPING SETS"].iter().any(|sets| sql.contains(sets)) && sql.contains("ORDER BY")
}

/// The query with each `= 'a'` replaced by `= ANY (ARRAY['a'])`. PostgreSQL's planner does not conclude from this form
/// that the column is a constant.
fn equalities_as_lists(sql: &str) -> String {
    let mut pieces = sql.split(" = ");
    let mut spelled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find([')', ' ', ',']).unwrap_or(piece.len());
        let (value, rest) = piece.split_at(end);
        let is_literal = value.starts_with(|first: char| first == '\'' || first.is_ascii_digit());
        spelled += &if is_literal { format!(" = ANY (ARRAY[{value}]){rest}") } else { format!(" = {piece}") };
    }
    spelled
}

/// Whether both sides raise an error of a value. The errors may differ, because the plan decides which of several is
/// raised first.
pub fn are_errors_of_values(client: &mut Client, sql: &str) -> Result<bool> {
    Ok(is_of_a_value(&ask(client, sql)?) && is_of_a_value(&ask(client, &unflagged(sql))?))
}

fn is_of_a_value(answer: &Answer) -> bool {
    matches!(answer, Answer::Error { code, .. } if code.starts_with("22"))
}

/// Whether one side raises an error of a value, and the other side returns rows. The plan decides which of several
/// conditions is evaluated first, and so whether a row with that value is dropped before.
pub fn is_an_error_of_one_plan(client: &mut Client, sql: &str) -> Result<bool> {
    let is_rows = |answer: &Answer| matches!(answer, Answer::Rows(_));
    let (flagged, heap) = (ask(client, sql)?, ask(client, &unflagged(sql))?);
    Ok(is_of_a_value(&flagged) && is_rows(&heap) || is_rows(&flagged) && is_of_a_value(&heap))
}

/// Whether the flagged query's answer differs from the heap's only as [`differ_in_zeros`] allows.
pub fn is_a_matter_of_zeros(client: &mut Client, sql: &str) -> Result<bool> {
    let (flagged, heap) = (ask(client, sql)?, ask(client, &unflagged(sql))?);
    Ok(differ_in_zeros(sql, &flagged, &heap))
}

/// Whether the answers differ only in trailing zeros of numerics or in the sign of a zero, and the query contains
/// something that chooses among equal values. For a group, `min` or `max`, any of several equal values may be shown.
pub fn differ_in_zeros(sql: &str, one: &Answer, other: &Answer) -> bool {
    let chooses = ["GROUP BY", "DISTINCT", "max(", "min(", "UNION", "INTERSECT", "EXCEPT"];
    match (one, other) {
        (Answer::Rows(one), Answer::Rows(other)) => {
            chooses.iter().any(|choice| sql.contains(choice)) && without_zeros(one) == without_zeros(other)
        }
        _ => false,
    }
}

fn without_zeros(rows: &[String]) -> Vec<String> {
    let value = |value: &str| match value.split_once('.') {
        Some((whole, digits)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            let digits = digits.trim_end_matches('0');
            if digits.is_empty() { whole.to_owned() } else { format!("{whole}.{digits}") }
        }
        None if value == "-0" => "0".to_owned(),
        _ => value.to_owned(),
    };
    let row = |row: &String| row.split('|').map(value).collect::<Vec<String>>().join("|");
    let mut rows: Vec<String> = rows.iter().map(row).collect();
    rows.sort_unstable();
    rows
}

fn is_timeout(answer: &Answer) -> bool {
    matches!(answer, Answer::Error { code, .. } if code == TIMEOUT)
}
