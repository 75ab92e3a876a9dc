//! Finds out whether the engine answers a query as a whole.

use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;

use crate::Result;

/// The side that answered a query.
pub enum Answered {
    /// The engine answered. Above its scan, PostgreSQL only sorts, limits or projects rows.
    ByTheEngine,
    /// PostgreSQL has computed a part of the query or all of it, for this reason.
    Otherwise(String),
}

/// Nodes that PostgreSQL may put above the engine's rows while the engine still counts as having answered the query.
const ABOVE: [&str; 5] = ["Sort", "Incremental Sort", "Limit", "Result", "Subquery Scan"];

/// Runs the query with the session's settings, and returns the side that answered it.
pub fn answered(client: &mut Client, sql: &str) -> Result<Answered> {
    let mut text = String::new();
    for message in client.simple_query(&format!("EXPLAIN (ANALYZE, COSTS off, TIMING off, FORMAT json) {sql}"))? {
        if let SimpleQueryMessage::Row(row) = message {
            text += row.get(0).unwrap_or_default();
        }
    }
    let explained: Value = serde_json::from_str(&text)?;
    Ok(judged(&explained[0]["Plan"]))
}

fn judged(plan: &Value) -> Answered {
    match plan["Anker"].as_str() {
        Some("engine") => {}
        Some(reason) => return Answered::Otherwise(reason.to_owned()),
        None => return Answered::Otherwise("heap, the planner saw nothing for the engine".to_owned()),
    }
    let mut node = plan;
    loop {
        let below = node["Plans"].as_array().map(Vec::as_slice).unwrap_or_default();
        let [next] = below else {
            return Answered::Otherwise(format!("partly the engine, below {}", name(node)));
        };
        node = next;
        if node["Custom Plan Provider"] == "Anker Engine" {
            return Answered::ByTheEngine;
        }
        if !ABOVE.contains(&name(node)) {
            return Answered::Otherwise(format!("partly the engine, below {}", name(node)));
        }
    }
}

fn name(node: &Value) -> &str {
    node["Node Type"].as_str().unwrap_or("a node without a name")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_of_the_engines_rows_is_not_the_engines_answer() {
        let engine = json!({"Node Type": "Custom Scan", "Custom Plan Provider": "Anker Engine"});
        let below = |node: &str| {
            let plans = json!([{"Node Type": node, "Plans": [engine]}]);
            judged(&json!({"Node Type": "Custom Scan", "Anker": "engine", "Plans": plans}))
        };
        assert!(matches!(below("Limit"), Answered::ByTheEngine));
        assert!(matches!(below("Aggregate"), Answered::Otherwise(reason) if reason.ends_with("below Aggregate")));
    }
}
