//! Each crate that a Cargo.toml names has a reason in docs/internals/dependencies.md. The page also states the number
//! of crates in Cargo.lock, so that a change shows what a dependency or a feature brings along.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/internals/dependencies.md";

/// The rooms that name each crate.
type Named = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The folders with a Cargo.toml, from the list of the workspace's members. The root's own is the empty path.
fn rooms() -> Vec<String> {
    let workspace = read("Cargo.toml");
    let members = workspace.lines().find_map(|line| line.strip_prefix("members = [")).expect("the workspace's members");
    let mut rooms = vec![String::new()];
    for member in members.trim_end_matches(']').split(", ").map(|member| member.trim_matches('"')) {
        match member.strip_suffix("/*") {
            Some(folder) => rooms.extend(
                fs::read_dir(root().join(folder))
                    .expect("a folder of members")
                    .map(|entry| format!("{folder}/{}", entry.expect("an entry").file_name().display())),
            ),
            None => rooms.push(member.to_owned()),
        }
    }
    rooms
}

/// The lines of a manifest's sections on dependencies: name, and the rest of the line.
fn dependencies(manifest: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut listed = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            listed = matches!(section, "dependencies]" | "dev-dependencies]" | "build-dependencies]");
            let other = section.contains("dependencies") && section != "workspace.dependencies]";
            assert!(listed || !other, "a form of dependencies that this test does not read: {line}");
        } else if listed
            && !line.starts_with('#')
            && let Some((name, rest)) = line.split_once([' ', '.'])
        {
            found.push((name, rest));
        }
    }
    found
}

/// The crates that the manifests name, without those of this tree.
fn named() -> Named {
    let workspace = read("Cargo.toml");
    let ours: BTreeSet<&str> = workspace
        .lines()
        .filter(|line| line.contains("{ path = "))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, _)| name)
        .collect();
    let mut named = Named::new();
    for room in rooms() {
        let manifest = read(&Path::new(&room).join("Cargo.toml").display().to_string());
        let shown = if room.is_empty() { "src" } else { room.strip_prefix("crates/").unwrap_or(&room) };
        for (name, rest) in dependencies(&manifest) {
            if !ours.contains(name) && !rest.contains("path = ") {
                named.entry(name.to_owned()).or_default().insert(shown.to_owned());
            }
        }
    }
    named
}

/// The page's table: `| crate | rooms | reason |`.
fn listed(page: &str) -> Named {
    let mut listed = Named::new();
    for line in page.lines() {
        let Some((name, rest)) = line.strip_prefix("| `").and_then(|line| line.split_once("` | ")) else { continue };
        let (rooms, reason) = rest.split_once(" | ").expect("three columns");
        assert!(reason.trim_end_matches([' ', '|']).len() > 10, "{name} has no reason");
        listed.insert(name.to_owned(), rooms.split(", ").map(str::to_owned).collect());
    }
    listed
}

#[test]
fn each_dependency_has_a_reason() {
    let (named, listed) = (named(), listed(&read(PAGE)));
    let names: BTreeSet<&String> = named.keys().chain(listed.keys()).collect();
    let wrong: Vec<String> = names
        .into_iter()
        .filter(|name| named.get(*name) != listed.get(*name))
        .map(|name| format!("{name}: a Cargo.toml of {:?}, the page {:?}", named.get(name), listed.get(name)))
        .collect();
    assert!(wrong.is_empty(), "{PAGE} differs from the Cargo.toml files:\n{}", wrong.join("\n"));
}

#[test]
fn no_crate_comes_along_unseen() {
    let lock = read("Cargo.lock");
    let crates = lock.lines().filter(|line| line.starts_with("source = ")).count();
    let published = lock.matches("source = \"registry+https://github.com/rust-lang/crates.io-index\"").count();
    assert_eq!(crates, published, "crates from elsewhere than crates.io");
    let stated = format!("Cargo.lock contains {crates} crates of others");
    assert!(read(PAGE).contains(&stated), "{PAGE} does not say: {stated}");
}
