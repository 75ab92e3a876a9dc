//! Checks the crates that others wrote: each direct dependency is used, and each crate's licence is one that we allow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Licences under which programs may be given away without their source, if the texts go with them.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "PostgreSQL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the tree").to_owned()
}

/// The packages that Cargo.lock names and this system builds, as `cargo metadata` describes them.
fn packages() -> Vec<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", &platform]);
    let output = cargo.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    metadata["packages"].as_array().expect("a list of packages").clone()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Whether a package is one of this repository.
fn is_ours(package: &Value) -> bool {
    package["source"].is_null()
}

fn assert_none(problems: &[String], what: &str) {
    assert!(problems.is_empty(), "{} {what}:\n{}", problems.len(), problems.join("\n"));
}

/// The text of a Rust source, or of all sources in a folder and the folders below it. Empty if there is none.
fn sources(path: &Path) -> String {
    if path.extension().is_some_and(|extension| extension == "rs") {
        return fs::read_to_string(path).unwrap_or_default();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| sources(&entry.path())).collect()
}

/// Whether a source names a crate: in a path, or alone behind `use`.
fn names(source: &str, name: &str) -> bool {
    source.match_indices(name).any(|(at, _)| {
        let before = source[..at].chars().next_back();
        let after = &source[at + name.len()..];
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        begins && ["::", ";", " as "].iter().any(|mark| after.starts_with(mark))
    })
}

#[test]
fn direct_dependencies_are_used() {
    let mut unused = Vec::new();
    for package in packages().iter().filter(|package| is_ours(package)) {
        let folder = Path::new(text(package, "manifest_path")).parent().expect("a folder").to_owned();
        let library = sources(&folder.join("src"));
        // tests/ of the root, and of tests/ itself, belong to the package of tests/.
        let tests = match () {
            () if folder == root() => String::new(),
            () if folder == root().join("tests") => sources(&folder),
            () => sources(&folder.join("tests")),
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["rename"].as_str().unwrap_or(text(dependency, "name")).replace('-', "_");
            let is_used = match text(dependency, "kind") {
                "dev" => names(&library, &name) || names(&tests, &name),
                "build" => names(&sources(&folder.join("build.rs")), &name),
                _ => names(&library, &name),
            };
            if !is_used {
                unused.push(format!("{} names {name}", text(package, "name")));
            }
        }
    }
    assert_none(&unused, "dependencies are not used");
}

/// Whether one of the licences between OR is allowed, in each part between AND.
fn is_allowed(expression: &str) -> bool {
    expression.split(" AND ").all(|part| {
        let grouped = part.strip_prefix('(').and_then(|part| part.strip_suffix(')'));
        grouped.unwrap_or(part).split(" OR ").flat_map(|some| some.split('/')).any(|one| ALLOWED.contains(&one))
    })
}

#[test]
fn licences_are_allowed() {
    let packages = packages();
    assert!(packages.len() > 200, "only {} packages were found", packages.len());
    let refused = packages.iter().filter(|package| !is_allowed(text(package, "license")));
    let refused = refused.map(|package| format!("{}: {}", text(package, "name"), package["license"]));
    assert_none(&refused.collect::<Vec<_>>(), "licences are not allowed");
}

#[test]
fn our_crates_have_the_licence_of_the_packages() {
    let copyright = fs::read_to_string(root().join("packaging/copyright")).expect("packaging/copyright");
    let (_, licence) = copyright.rsplit_once("License: ").expect("packaging/copyright names a licence");
    let others: Vec<String> = packages()
        .iter()
        .filter(|package| is_ours(package) && text(package, "license") != licence.trim())
        .map(|package| format!("{}: {}", text(package, "name"), package["license"]))
        .collect();
    assert_none(&others, "crates have another licence than packaging/copyright names");
}

#[test]
fn licences_that_leave_no_choice_are_refused() {
    assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
    assert!(is_allowed("MIT OR Apache-2.0 OR LGPL-2.1-or-later"));
    assert!(!is_allowed("MIT AND GPL-3.0"));
    assert!(!is_allowed("(MIT AND GPL-3.0) OR GPL-2.0"));
    assert!(!is_allowed(""));
}
