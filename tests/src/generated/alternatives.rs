//! Whether a difference is one that PostgreSQL's own plans show: which of equal numerics (0, 0.00) stands for a group, whether
//! a condition that raises an error meets a row that another one drops.

use bench::Result;
use postgres::Client;

use crate::flagged::{Answer, ask, unflagged};

/// Other plans for the same query.
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
/// query_canceled: the heap's plan takes too long to say anything.
const TIMEOUT: &str = "57014";

/// Whether the heap gives the answer of the flagged query by another plan, or none in time; `ordered`: in this order.
pub fn has_the_flagged_answer(client: &mut Client, sql: &str, ordered: bool) -> Result<bool> {
    let comparable = |answer| if ordered { answer } else { sorted(answer) };
    let flagged = comparable(ask(client, sql)?);
    let plain = unflagged(sql);
    if is_timeout(&ask(client, &plain)?) && !is_timeout(&flagged) {
        return Ok(true);
    }
    for settings in OTHER_PLANS {
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

fn is_timeout(answer: &Answer) -> bool {
    matches!(answer, Answer::Error { code, .. } if code == TIMEOUT)
}

fn sorted(answer: Answer) -> Answer {
    match answer {
        Answer::Rows(mut rows) => {
            rows.sort_unstable();
            Answer::Rows(rows)
        }
        error => error,
    }
}
