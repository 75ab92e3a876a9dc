//! Compares docs/troubleshooting.md with the messages in the source: each message of the page exists, and each error,
//! warning, notice and line of the log has a row there.

use std::fs;
use std::path::Path;

/// The shortest piece of a message, between its variable parts, by which it is recognised.
const SHORTEST: usize = 8;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the tree")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The sources of a folder and the folders below it, without comments and modules of tests.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = read(&path);
            // A quotation mark alone begins no literal.
            let text = text.replace("'\"'", "' '");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            code.lines().filter(|line| !line.trim_start().starts_with("//")).for_each(|line| {
                all += line;
                all.push('\n');
            });
        }
    }
    all
}

/// The first literal of a text: its content, and the text after it. A line that ends with a backslash goes on with the
/// first letter of the next line.
fn literal(code: &str) -> Option<(String, &str)> {
    let begin = code.find('"')? + 1;
    let (mut content, mut characters) = (String::new(), code[begin..].char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((content, &code[begin + at + 1..])),
            '\\' => match characters.next()?.1 {
                '\n' => {
                    let rest = characters.as_str();
                    let indent = rest.len() - rest.trim_start().len();
                    (0..rest[..indent].chars().count()).for_each(|_| _ = characters.next());
                }
                escaped => content.push(escaped),
            },
            _ => content.push(character),
        }
    }
    None
}

/// All literals of a source, one a line.
fn literals(mut code: &str) -> String {
    let mut all = String::new();
    while let Some((content, rest)) = literal(code) {
        all += &content;
        all.push('\n');
        code = rest;
    }
    all
}

/// The pieces of a message between its variable parts: `…` in the page, `{…}` in the source.
fn pieces(message: &str) -> Vec<&str> {
    let pieces = message.split(['…', '{', '}']).enumerate();
    let is_fixed = |at: usize| message.contains('…') || at.is_multiple_of(2);
    pieces.filter(|(at, piece)| is_fixed(*at) && piece.trim().len() >= SHORTEST).map(|(_, piece)| piece).collect()
}

/// The messages of the page: the code in the first cells of its tables.
fn documented() -> Vec<String> {
    let page = read(&root().join("docs/troubleshooting.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split_once(" | ")).map(|(cell, _)| format!("`{cell}"));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn documented_messages_exist() {
    let said = literals(&sources(&root().join("src"))) + &literals(&sources(&root().join("engine/src")));
    let messages = documented();
    assert!(messages.len() > 60, "only {} messages were found", messages.len());
    let is_said = |message: &&String| pieces(message).iter().all(|piece| said.contains(piece));
    let unknown: Vec<&String> = messages.iter().filter(|message| !is_said(message)).collect();
    assert!(unknown.is_empty(), "the source has no such messages: {unknown:#?}");
}

/// The beginnings of code that sends a message to a user or an administrator. `error!` is left out: the extension
/// raises it where PostgreSQL's own catalogue or its own plans are broken.
const SENDERS: [&str; 11] = [
    "warning!(",
    "notice!(",
    "log!(",
    "ereport!(",
    " Error::new(",
    "(Error::new(",
    "ErrorReport::new(",
    "report(STATE,",
    "give_up(&format!(",
    "give_up(\"",
    "log::line(format_args!(",
];

#[test]
fn messages_are_documented() {
    let source = sources(&root().join("src")) + &sources(&root().join("engine/src"));
    let page = documented().join("\n");
    let mut missing = Vec::new();
    let mut seen = 0;
    for sender in SENDERS {
        for (at, _) in source.match_indices(sender) {
            let call = &source[at + sender.trim_end_matches('"').len()..];
            // A call without a literal of its own passes on a message from elsewhere.
            let end = call.find(";\n").unwrap_or(call.len());
            let Some((message, _)) = literal(&call[..end]) else { continue };
            let pieces = pieces(&message);
            seen += usize::from(!pieces.is_empty());
            if !pieces.is_empty() && !pieces.iter().any(|piece| page.contains(piece)) {
                missing.push(message.clone());
            }
        }
    }
    assert!(seen > 30, "only {seen} messages were found");
    assert!(missing.is_empty(), "docs/troubleshooting.md lacks {missing:#?}");
}

#[test]
fn literals_and_pieces_are_found() {
    assert_eq!(literals("a(\"one\", b\"two \\\n   three\", \"\\\"four\\\"\")"), "one\ntwo three\n\"four\"\n");
    assert_eq!(pieces("table \"{name}\" has no replica identity: {}"), ["\" has no replica identity: "]);
    assert_eq!(pieces("the number is … of … pages of it"), ["the number is ", " pages of it"]);
}
