//! Checks that the fields of each node that the planner translates are listed in `src/pg/compat/nodes.rs`, so that the
//! extension does not compile for a version of PostgreSQL in which such a node has a field that nobody knows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The places where the type of a node stands.
const BEFORE: &[&str] = &["cast::<pg_sys::", "elements_of::<pg_sys::", "Ref<'_, pg_sys::", "Ref<'a, pg_sys::"];
/// Types in these places that are no nodes of a query: the beginning of any node, and an oid.
const OTHERS: &[&str] = &["Node", "Oid"];

#[test]
fn the_fields_of_translated_nodes_are_listed() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let list = fs::read_to_string(source.join("pg/compat/nodes.rs")).unwrap();
    let mut nodes = BTreeSet::new();
    for folder in ["translate", "rewrite", "words"] {
        collect(&source.join("planner").join(folder), &mut nodes);
    }
    assert!(nodes.contains("WindowFunc"), "the nodes of window functions were not found");
    let missing: Vec<&String> = nodes.iter().filter(|node| !list.contains(&format!("\n    {node} {{"))).collect();
    assert!(missing.is_empty(), "translated, but not listed: {missing:?}");
}

fn collect(folder: &Path, nodes: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, nodes);
            continue;
        }
        let code = fs::read_to_string(path).unwrap();
        for after in BEFORE.iter().flat_map(|before| code.split(before).skip(1)) {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            if !OTHERS.contains(&&*name) {
                nodes.insert(name);
            }
        }
    }
}
