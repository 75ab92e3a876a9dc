//! Adds the results of a run to the report, as rows.

use serde_json::{Value, json};

use super::measured::Run;
use crate::queries;
use crate::report::Findings;

pub fn rows(run: &Run, config: &str, round: u32, findings: &mut Findings) {
    let params = json!({ "round": round });
    let mut row = |figure: &str, value: Value, unit: &str| findings.row(figure, config, &params, value, unit);
    row("nopm", json!(run.nopm), "1/min");
    row("tpm", json!(run.tpm), "1/min, of all sessions");
    if let Some(cpu) = run.cpu {
        for (of, seconds) in [
            ("users", cpu.users),
            ("stream's session", cpu.stream),
            ("capture worker", cpu.worker),
            ("engine", cpu.engine),
            ("server", cpu.server),
            ("HammerDB", cpu.hammerdb),
        ] {
            row(&format!("cpu, {of}"), json!(seconds), "CPU s/min");
        }
        row("cpu per new order", json!(cpu.server * 1e6 / run.nopm), "us");
    }
    let Some(stream) = &run.stream else { return };
    row("asked", json!(stream.asked), "queries");
    if let Some(answered) = stream.answered {
        row("served", json!(answered.served), "queries");
        row("fallbacks", json!(answered.fallbacks), "queries");
    }
    for one in &stream.counted {
        let params = json!({ "round": round, "query": queries::ANKER[one.query].name });
        findings.row("query", config, &params, one.ms(), "ms");
    }
}
