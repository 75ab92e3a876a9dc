//! Checks documents against a server: every SQL example works as written, and docs/settings.md lists the settings that
//! the library has.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use bench::cluster::Cluster;
use bench::{Result, server};

use crate::runner::{Context, ensure, tests};

tests![examples_run_as_written, settings_are_documented];

/// The document that prepares everything itself.
const FROM_NOTHING: &str = "docs/getting-started.md";

/// The tables that the other documents speak about, and what is mirrored of them.
const TABLES: &str = include_str!("documented/tables.sql");
const MIRRORS: &str = include_str!("documented/mirrors.sql");

/// Runs all SQL blocks of each document in order, in one session of psql on a new database. Each block returns the text
/// in the block that follows it, if there is one. Then runs the statements within the lines of the document.
fn examples_run_as_written(context: &Context) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cluster = context.cluster()?;
    cluster.connect()?.batch_execute("CREATE ROLE analyst")?;
    let (mut run, mut compared, mut wrong) = (0, 0, Vec::new());
    for file in documents(&root)? {
        let name = file.strip_prefix(&root)?.display().to_string();
        let document = fs::read_to_string(&file)?;
        let examples = examples(&document);
        if examples.blocks.is_empty() && examples.statements.is_empty() {
            continue;
        }
        match run_examples(&cluster, &name, &document, &examples) {
            Ok(differences) => wrong.extend(differences),
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
        run += examples.blocks.len();
        compared += examples.blocks.iter().filter(|block| block.output.is_some()).count();
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(run > 40 && compared > 20, "only {run} blocks were found, {compared} of them with output");
    Ok(())
}

/// All documents in a folder and the folders below it.
fn documents(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type()))?;
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if kind?.is_dir() && !is_hidden && !path.ends_with("target") {
            found.extend(documents(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs the examples of a document. Returns those whose output differs from the one in the document.
fn run_examples(cluster: &Cluster, name: &str, document: &str, examples: &Examples<'_>) -> Result<Vec<String>> {
    let mut client = cluster.connect()?;
    client.batch_execute("DROP DATABASE IF EXISTS shop WITH (FORCE)")?;
    client.batch_execute("CREATE DATABASE shop")?;
    if name != FROM_NOTHING {
        let mut client = cluster.connect_to("shop")?;
        client.batch_execute(TABLES)?;
        if !document.contains("CREATE EXTENSION") {
            MIRRORS.split(";\n").try_for_each(|statement| client.batch_execute(statement))?;
        }
    }
    let file = cluster.directory().join(name.replace('/', "-"));
    fs::write(&file, script(document, examples)?)?;
    cluster.server().own(&file)?;
    let mut psql = cluster.server().command("psql");
    psql.args(["-X", "-U", "postgres", "-d", "shop", "-v", "ON_ERROR_STOP=1", "-h"]).arg(cluster.directory());
    psql.arg("-p").arg(cluster.port().to_string()).arg("-f").arg(&file);
    let output = server::run(&mut psql)?;
    let (mut rest, mut wrong) = (output.as_str(), Vec::new());
    for block in &examples.blocks {
        let (found, after) = rest.split_once(&end_of(block)).ok_or("psql has left blocks out")?;
        rest = after.trim_start_matches('\n');
        if block.output.as_ref().is_some_and(|shown| !is_as_shown(found, shown)) {
            wrong.push(format!("{name}: the block of line {} returns:\n{found}", block.line));
        }
    }
    Ok(wrong)
}

/// A block of SQL: the numbers of its first line and of the line behind it, and the output that follows it in the
/// document, if there is one.
struct Block {
    line: usize,
    end: usize,
    output: Option<String>,
}

/// The blocks of SQL of a document, and the statements within its lines that call pg_anker.
#[derive(Default)]
struct Examples<'a> {
    blocks: Vec<Block>,
    statements: Vec<&'a str>,
}

fn examples(document: &str) -> Examples<'_> {
    let mut examples = Examples::default();
    let lines: Vec<&str> = document.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        if let Some(language) = lines[at].trim_start().strip_prefix("```") {
            let length = lines[at + 1..].iter().position(|line| line.trim() == "```").unwrap_or(lines.len() - at - 1);
            let end = at + 1 + length;
            let follows = |block: &Block| lines[block.end + 1..at].iter().all(|line| line.trim().is_empty());
            if language == "sql" {
                examples.blocks.push(Block { line: at + 1, end, output: None });
            } else if let ("text", Some(block)) = (language, examples.blocks.last_mut().filter(|block| follows(block)))
            {
                block.output = Some(lines[at + 1..end].join("\n"));
            }
            at = end;
        } else {
            let code = lines[at].split('`').skip(1).step_by(2);
            let is_statement =
                |code: &&str| code.starts_with("SELECT ") && code.contains("anker.") && !code.contains('…');
            examples.statements.extend(code.filter(is_statement));
        }
        at += 1;
    }
    examples
}

/// A script for psql whose line numbers are those of the document, so that psql's errors name the document's lines.
fn script(document: &str, examples: &Examples<'_>) -> Result<String> {
    let mut script = String::new();
    for (at, line) in document.lines().enumerate() {
        match examples.blocks.iter().find(|block| (block.line..=block.end).contains(&at)) {
            Some(block) if block.end == at => writeln!(script, "\\echo {}", end_of(block))?,
            Some(_) => writeln!(script, "{line}")?,
            None => writeln!(script)?,
        }
    }
    for statement in &examples.statements {
        writeln!(script, "BEGIN; {}; ROLLBACK;", statement.trim_end_matches(';'))?;
    }
    Ok(script)
}

fn end_of(block: &Block) -> String {
    format!("end of the block of line {}", block.line)
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
