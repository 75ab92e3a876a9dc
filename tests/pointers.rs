//! Checks that no safe function of the extension dereferences a raw pointer that its caller passes to it. Code that
//! gets a pointer from PostgreSQL promises in an `unsafe` block that the pointer is valid. From then on it passes
//! references (`src/pg/tree`).
//!
//! The test cannot see a dereference itself. It reports each safe function that has a raw pointer as a parameter, and
//! an unsafe block in its body.

use std::fs;
use std::path::Path;

/// Files that are not checked: they store pointers in new nodes, but do not dereference them.
const HOLDERS: &[&str] = &["pg/make.rs"];

#[test]
fn safe_functions_follow_no_pointers_of_their_callers() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut found = Vec::new();
    search(&source, &source, &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn search(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            search(root, &path, found);
        } else if name.ends_with(".rs") && !HOLDERS.contains(&&*name) {
            let followers = followers(&fs::read_to_string(&path).unwrap());
            found.extend(followers.into_iter().map(|function| format!("{name}: {function}")));
        }
    }
}

/// The names of safe functions with a raw pointer as a parameter and an unsafe block, in a formatted source.
fn followers(code: &str) -> Vec<String> {
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else { continue };
        let is_item = before.trim().is_empty() || before.trim_start().starts_with("pub") || before.contains("extern");
        if !is_item || before.contains("unsafe") {
            continue;
        }
        // A declaration of a function of PostgreSQL has no body.
        let ends_head = |line: &&&str| line.ends_with(['{', ';']);
        if lines[at..].iter().find(ends_head).is_some_and(|line| line.ends_with(';')) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let item: Vec<&str> = lines[at..].iter().copied().take_while(|line| *line != end).collect();
        let head = item.iter().position(|line| line.ends_with('{')).map_or(1, |last| last + 1);
        let (head, body) = item.split_at(head);
        let head = head.concat();
        let parameters = head.split("->").next().unwrap_or_default();
        let takes_pointer = ["*mut ", "*const "].iter().any(|pointer| parameters.contains(pointer));
        if takes_pointer && body.iter().any(|line| line.contains("unsafe")) {
            found.push(after.split(['(', '<']).next().unwrap_or_default().to_owned());
        }
    }
    found
}

#[test]
fn followers_are_found() {
    let code = "impl A {\n    pub fn bad(\n        self,\n        list: *mut List,\n    ) -> bool {\n        unsafe { list.read() }\n    }\n\
                \n    fn maker(&self) -> *mut List {\n        unsafe { make() }\n    }\n\
                \n    unsafe fn told(list: *mut List) -> bool {\n        unsafe { list.read() }\n    }\n}\n\
                \nunsafe extern {\n    fn declared(at: *const u8);\n}\n\
                \nfn worse(at: *const u8) -> u8 {\n    unsafe { *at }\n}\n\nfn keeps(at: *const u8) -> Kept {\n    Kept(at)\n}\n";
    assert_eq!(followers(code), ["bad", "worse"]);
}
