//! Checks documents against a server: the commands in docs/getting-started.md work as written, and docs/settings.md
//! lists the settings that the library has.

use std::fmt::Write;
use std::fs;

use bench::{Result, server};

use crate::runner::{Context, ensure, tests};

tests![getting_started_runs_as_written, settings_are_documented];

/// A block of SQL, and the output that follows it in the document, if there is one.
struct Block<'a> {
    line: usize,
    sql: &'a str,
    output: Option<&'a str>,
}

fn getting_started_runs_as_written(context: &Context) -> Result<()> {
    let blocks = blocks(include_str!("../../docs/getting-started.md"));
    let shown = blocks.iter().filter(|block| block.output.is_some()).count();
    ensure!(shown > 10, "only {shown} blocks with output were found");
    let cluster = context.cluster()?;
    let mut script = String::new();
    for block in &blocks {
        write!(script, "{}\n\\echo {}\n", block.sql, end_of(block))?;
    }
    let file = cluster.directory().join("getting-started.sql");
    fs::write(&file, script)?;
    cluster.server().own(&file)?;
    let mut psql = cluster.server().command("psql");
    psql.args(["-X", "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-h"]).arg(cluster.directory());
    psql.arg("-p").arg(cluster.port().to_string()).arg("-f").arg(&file);
    let output = server::run(&mut psql)?;
    let mut rest = output.as_str();
    for block in &blocks {
        let (found, after) = rest.split_once(&end_of(block)).ok_or("psql has left blocks out")?;
        rest = after.trim_start_matches('\n');
        if let Some(expected) = block.output {
            ensure!(is_as_shown(found, expected), "the block of line {} returns:\n{found}", block.line);
        }
    }
    Ok(())
}

fn end_of(block: &Block<'_>) -> String {
    format!("end of the block of line {}", block.line)
}

/// The blocks of SQL in a document. If a block marked as text follows directly, it is the output of the SQL block.
fn blocks(document: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut line) = (Vec::new(), 1);
    let mut parts = document.split("```").peekable();
    while let Some(prose) = parts.next() {
        line += prose.matches('\n').count();
        let Some(code) = parts.next() else { break };
        if let Some(sql) = code.strip_prefix("sql\n") {
            blocks.push(Block { line, sql, output: None });
        } else if let (Some(text), true, Some(block)) =
            (code.strip_prefix("text\n"), prose.trim().is_empty(), blocks.last_mut())
        {
            block.output = Some(text);
        }
        line += code.matches('\n').count();
    }
    blocks
}

/// Whether an output matches the one in the document, where `…` stands for any text within a line. Ignores blanks at
/// the ends of lines, the width of a plan's heading, and the decimal places that PostgreSQL 18 shows of rows.
fn is_as_shown(found: &str, shown: &str) -> bool {
    let found = &found.replace(".00 loops=", " loops=");
    let (found, shown) = (normalized_lines(found), normalized_lines(shown));
    found.len() == shown.len() && found.iter().zip(&shown).all(|(found, shown)| matches(found, shown))
}

fn normalized_lines(text: &str) -> Vec<&str> {
    text.trim_end().lines().map(normalized).collect()
}

fn normalized(line: &str) -> &str {
    match line.trim() {
        "QUERY PLAN" => "QUERY PLAN",
        rule if !rule.is_empty() && rule.chars().all(|c| c == '-') => "-",
        _ => line.trim_end(),
    }
}

fn matches(line: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('…') else { return line == pattern };
    line.strip_prefix(begin)
        .is_some_and(|line| (0..=line.len()).any(|at| line.get(at..).is_some_and(|l| matches(l, rest))))
}

/// The table in docs/settings.md has exactly the settings of the library, and says correctly what their defaults are
/// and who may change them.
fn settings_are_documented(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    // For settings that users may change, compares `boot_val`, because the servers of the tests change some of them.
    let settings = "SELECT name, CASE context WHEN 'user' THEN set_config(name, boot_val || coalesce(unit, ''), false) \
                    ELSE current_setting(name) END, context FROM pg_settings WHERE name LIKE 'anker.%'";
    let mut expected = Vec::new();
    for row in client.query(settings, &[])? {
        let (name, value, context): (String, String, &str) = (row.get(0), row.get(1), row.get(2));
        let (who, when) = match context {
            "user" => ("anyone", "at once"),
            "superuser" => ("superuser", ""),
            "postmaster" => ("administrator", "when the server starts"),
            _ => ("administrator", ""),
        };
        expected.push((name, value, who, when));
    }
    let rows = include_str!("../../docs/settings.md").lines().filter_map(|line| line.strip_prefix("| `anker."));
    let mut documented = Vec::new();
    for row in rows.filter(|row| row.split('|').count() == 5) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        documented.push((format!("anker.{}", cells[0]), cells[1], cells[2], cells[3]));
    }
    ensure!(expected.len() > 20, "only {expected:?} were found");
    let is_documented = |(name, value, who, when): &&(String, String, &str, &str)| {
        documented.iter().any(|(n, v, w, t)| n == name && v == value && w.starts_with(who) && t.starts_with(when))
    };
    let missing: Vec<_> = expected.iter().filter(|setting| !is_documented(setting)).collect();
    ensure!(missing.is_empty(), "docs/settings.md lacks {missing:?}");
    ensure!(documented.len() == expected.len(), "docs/settings.md has settings that there are not");
    Ok(())
}
