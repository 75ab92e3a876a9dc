//! Checks rules of docs/style.md in the comments of the sources and in the documents, as far as a program can check
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const SOURCES: [&str; 5] = ["src", "crates", "engine", "bench", "tests"];
const LONGEST_LINE: usize = 120;
const LONGEST_SENTENCE: usize = 40;
const LONGEST_README: usize = 800;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the tree").to_owned()
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the tree") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// All Rust sources of the repository: path from the root, and text.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    SOURCES.iter().for_each(|folder| files(&root().join(folder), "rs", &mut found));
    found.iter().map(|path| (shown(path), read(path))).collect()
}

/// All documents of the repository: path and text.
fn documents() -> Vec<(PathBuf, String)> {
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/hammerdb/README.md", "kernel-patch/README.md"];
    let mut found: Vec<PathBuf> = others.iter().map(|file| root().join(file)).collect();
    files(&root().join("docs"), "md", &mut found);
    found.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn assert_none(problems: &[String], what: &str) {
    assert!(problems.is_empty(), "{} {what}:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn comment_lines_end_at_column_120() {
    let mut long = Vec::new();
    for (file, text) in sources() {
        let lines = text.lines().enumerate();
        let lines =
            lines.filter(|(_, line)| line.trim_start().starts_with("//") && line.chars().count() > LONGEST_LINE);
        long.extend(lines.map(|(at, _)| format!("{file}:{}", at + 1)));
    }
    assert_none(&long, "comment lines are too long");
}

#[test]
fn doc_comments_say_first_what_the_item_is() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let mut before = "";
        for (at, line) in text.lines().map(str::trim_start).enumerate() {
            let opens = |mark: &str| line.starts_with(mark) && !before.starts_with(mark.trim_end());
            if opens("/// ") || opens("//! ") {
                let word = line[4..].split_whitespace().next().unwrap_or_default();
                if ["Of", "What", "Whoever"].contains(&word) {
                    wrong.push(format!("{file}:{}: {line}", at + 1));
                }
            }
            before = line;
        }
    }
    assert_none(&wrong, "doc comments open with Of, What or Whoever");
}

#[test]
fn lines_of_documents_end_at_column_120() {
    let mut long = Vec::new();
    for (path, text) in documents() {
        let mut in_code = false;
        for (at, line) in text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            // Rows of tables cannot be broken.
            if !in_code && !line.starts_with('|') && line.chars().count() > LONGEST_LINE {
                long.push(format!("{}:{}", shown(&path), at + 1));
            }
        }
    }
    assert_none(&long, "lines are too long");
}

#[test]
fn sentences_of_documents_are_short() {
    let mut long = Vec::new();
    for (path, text) in documents() {
        for paragraph in paragraphs(&text) {
            for sentence in sentences(&paragraph) {
                let words = sentence.split_whitespace().count();
                if words > LONGEST_SENTENCE {
                    let begin: Vec<&str> = sentence.split_whitespace().take(8).collect();
                    long.push(format!("{}: {words} words: {} …", shown(&path), begin.join(" ")));
                }
            }
        }
    }
    assert_none(&long, "sentences are too long");
}

#[test]
fn the_readme_is_short() {
    let words: usize = paragraphs(&read(&root().join("README.md"))).iter().map(|p| p.split_whitespace().count()).sum();
    assert!(words <= LONGEST_README, "README.md has {words} words");
}

/// The tests `documented::` run all blocks of SQL. This finds blocks that they would miss.
#[test]
fn code_blocks_name_their_language() {
    const LANGUAGES: [&str; 5] = ["sql", "sh", "conf", "yaml", "text"];
    const STATEMENTS: [&str; 9] = ["SELECT", "CREATE", "ALTER", "DROP", "GRANT", "SET", "EXPLAIN", "INSERT", "UPDATE"];
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let mut language = None;
        for (at, line) in text.lines().map(str::trim).enumerate() {
            let mut fail = |what: &str| wrong.push(format!("{}:{}: {what}", shown(&path), at + 1));
            match (line.strip_prefix("```"), language) {
                (Some(opened), None) => {
                    if !LANGUAGES.contains(&opened) {
                        fail("a block of code without a language");
                    }
                    language = Some(opened);
                }
                (Some(_), Some(_)) => language = None,
                (None, Some("sql") | None) => {}
                (None, Some(_)) => {
                    let word = line.split(' ').next().unwrap_or_default();
                    if STATEMENTS.contains(&word) && line.ends_with(';') {
                        fail("SQL in a block that is not marked as SQL");
                    }
                }
            }
        }
    }
    assert_none(&wrong, "blocks of code are not marked");
}

/// The paragraphs and list items of a document, without code blocks, tables and headings. Code within a line is
/// replaced by the word "Code".
fn paragraphs(text: &str) -> Vec<String> {
    let (mut all, mut current, mut in_code) = (Vec::new(), String::new(), false);
    for line in text.lines().map(str::trim) {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        let ends =
            is_fence || in_code || line.is_empty() || ["|", "#", "<!--", "!["].iter().any(|m| line.starts_with(m));
        let is_item = ["- ", "* "].iter().any(|mark| line.starts_with(mark))
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if (ends || is_item) && !current.is_empty() {
            all.push(std::mem::take(&mut current));
        }
        if !ends {
            current += line;
            current.push(' ');
        }
    }
    all.push(current);
    all.iter().map(|paragraph| without_code(paragraph)).collect()
}

fn without_code(paragraph: &str) -> String {
    let parts = paragraph.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 0 { part } else { "Code" }).collect()
}

/// The sentences of a paragraph. A sentence ends with a punctuation mark and a blank, unless a lower-case letter
/// follows.
fn sentences(paragraph: &str) -> Vec<&str> {
    let (mut all, mut begin) = (Vec::new(), 0);
    for (at, mark) in paragraph.char_indices() {
        let rest = &paragraph[at + mark.len_utf8()..];
        let next = rest.trim_start_matches(['*', '_', '"', '”', ')', ' ']).chars().next();
        let is_end = matches!(mark, '.' | '!' | '?') && rest.trim_start_matches(['*', '_', '"', ')']).starts_with(' ');
        if is_end && next.is_none_or(|c| !c.is_lowercase()) {
            all.push(&paragraph[begin..=at]);
            begin = at + 1;
        }
    }
    all.push(&paragraph[begin..]);
    all
}

#[test]
fn links_and_paths_lead_somewhere() {
    let mut broken = BTreeSet::new();
    for (path, text) in documents() {
        let mut fail = |what: &str| _ = broken.insert(format!("{}: {what}", shown(&path)));
        let prose = without_fences(&text);
        for link in links(&prose) {
            let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
            let target = if target.is_empty() { path.clone() } else { path.with_file_name("").join(target) };
            if !target.exists() {
                fail(link);
            } else if let (Some(anchor), true) = (anchor, target.extension().is_some_and(|e| e == "md"))
                && !anchors(&read(&target)).contains(anchor)
            {
                fail(link);
            }
        }
        for named in prose.split('`').skip(1).step_by(2).filter(|code| is_path(code)) {
            expanded(named).iter().filter(|file| !root().join(file).exists()).for_each(|file| fail(file));
        }
    }
    assert_none(&broken.into_iter().collect::<Vec<_>>(), "links or paths lead nowhere");
}

fn without_fences(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The targets of a document's links, without those to other sites.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = without_fences(text);
    let headings =
        headings.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// Whether a piece of code in a document looks like the path of a file or folder of the repository.
fn is_path(code: &str) -> bool {
    const FOLDERS: [&str; 11] = [
        "src",
        "crates",
        "engine",
        "bench",
        "tests",
        "docs",
        "scripts",
        "sql",
        "expected",
        "kernel-patch",
        "pgrx-config",
    ];
    code.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first))
        && code.chars().all(|c| c.is_ascii_alphanumeric() || "_-./{},".contains(c))
}

/// Expands braces: `a/{b,c}.rs` becomes `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((parts, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    parts.split(',').flat_map(|part| expanded(&format!("{before}{part}{after}"))).collect()
}
