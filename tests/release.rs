//! The release's number stands in several files, which must agree.

use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The text between `before` and `after`.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{before:?} is missing"));
    rest.split_once(after).unwrap_or_else(|| panic!("{after:?} is missing")).0
}

#[test]
fn crates_and_extension_have_the_same_version() {
    let crates = read("Cargo.toml");
    let crates = between(&crates, "[workspace.package]\nversion = \"", "\"");
    let control = read("pgrx-config/pg_anker.control");
    let extension = between(&control, "default_version = '", "'");
    assert_eq!(crates, extension, "Cargo.toml and pgrx-config/pg_anker.control");
}
