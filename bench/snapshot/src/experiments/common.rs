//! Texts and parameters that several experiments use.

use serde_json::{Value, json};

use crate::session::Session;

/// "1 thread", "2 threads".
pub fn counted(number: &Value, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Parameters that all rows about columns share.
pub fn column_params(session: &Session) -> Value {
    json!({
        "columns": session.options.columns,
        "column_mb": session.options.column_bytes() >> 20,
        "run_kb": session.options.run_kb,
    })
}
