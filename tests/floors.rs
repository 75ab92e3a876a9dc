//! Checks that each module ("room") uses only modules on lower floors. So there is no cycle of modules.
//!
//! A room is a folder or a file. It uses ("knows") each room that a module path in its code names. Modules of tests may
//! use all rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of sources, with the names of its rooms: one list for each floor, the lowest floor first.
struct House {
    folder: &'static str,
    floors: &'static [&'static [&'static str]],
}

const HOUSES: &[House] = &[
    House {
        folder: "crates/olap/src",
        floors: &[
            &["base"],
            &["forked", "functions", "spill"],
            &["expr"],
            &["aggregates"],
            &["operators"],
            &["observe"],
            &["build"],
            &["runtime"],
        ],
    },
    House {
        folder: "crates/olap/src/functions",
        floors: &[
            &["time"],
            &["numbers"],
            &["numerics", "order"],
            &["arrays", "convert", "documents", "enums", "greatest", "text"],
        ],
    },
    House {
        folder: "crates/olap/src/operators",
        floors: &[&["join", "order", "scan", "shared", "unfold", "window"], &["group"]],
    },
    House {
        folder: "crates/colstore/src",
        floors: &[&["base"], &["cells"], &["read", "rows"], &["table"], &["store"]],
    },
    House {
        folder: "crates/checkpoint/src",
        floors: &[&["checksum", "error"], &["disk", "manifest"], &["appender", "reader"], &["directory"], &["writer"]],
    },
    House { folder: "crates/plan/src", floors: &[&["values"], &["base"], &["functions"], &["algebra"], &["words"]] },
    House { folder: "crates/snapmem/src", floors: &[&["memory"], &["mechanisms"], &["mechanism"], &["extents"]] },
    House {
        folder: "src",
        floors: &[
            &["pg", "settings", "verifying"],
            &["client", "layout", "note", "reason"],
            &["shared", "spec"],
            &["load", "planner"],
            &["api", "capture", "scan"],
        ],
    },
    House {
        folder: "src/pg",
        floors: &[
            &["plain"],
            &["address", "changes", "error", "hooks", "memory", "owner", "rights", "sequence", "symbols", "tag"],
            &["compat"],
            &["make", "snapshot", "transaction", "walk"],
            &["attempt", "descriptor", "pages", "record", "tree", "wait", "wal", "zone"],
            &["catalog", "changed_row", "process", "utility"],
            &["session", "types"],
            &["collation", "relation", "tuple"],
            &["blocks", "decoding", "place", "planning", "primary_key", "rows"],
            &["child", "delivery", "tuple_store"],
            &["explain", "statement"],
            &["scan_node"],
            &["run"],
        ],
    },
    House {
        folder: "src/planner",
        floors: &[&["words"], &["rewrite"], &["translate"], &["tree"], &["route"], &["hook"], &["explained"]],
    },
    House {
        folder: "engine/src",
        floors: &[
            &["admission", "by_table", "control", "encode", "log", "memory", "process", "stats", "thresholds"],
            &["activity", "checkpoints", "peer", "room", "stream", "threads"],
            &["incoming", "writer"],
            &["scribe", "shared"],
            &["forked", "load", "survey"],
            &["query"],
            &["explain"],
            &["server"],
        ],
    },
];

/// A source file: its module's path from the root of the crate, and its code without comments and tests.
struct File {
    module: Vec<String>,
    code: String,
}

#[test]
fn rooms_know_only_those_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for House { folder, floors } in HOUSES {
        let within: Vec<String> = folder.split('/').skip_while(|part| *part != "src").skip(1).map(Into::into).collect();
        let mut files = Vec::new();
        read(&root.join(folder), &within, &mut files);
        let wrong = violations(&within, floors, &files);
        assert!(wrong.is_empty(), "{folder}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn only_one_room_asks_for_the_version_of_postgresql() {
    let mut files = Vec::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), &[], &mut files);
    assert!(files.iter().any(|file| file.code.contains("feature = \"since_")), "no guard was found");
    for File { module, code } in files {
        let module = module.join("::");
        assert!(!code.contains("feature = \"pg"), "{module}: a guard says since which version it holds");
        let is_compat = module == "pg::compat" || module.starts_with("pg::compat::");
        assert!(is_compat || !code.contains("feature = \"since_"), "{module}: versions differ in pg::compat alone");
    }
}

/// Reads all files of a folder, except those that are compiled only for tests.
fn read(folder: &Path, module: &[String], files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let face = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let faces = face("lib.rs") + &face("mod.rs") + &face("main.rs");
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let inner = [module, std::slice::from_ref(&name)].concat();
        if faces.contains(&format!("#[cfg(test)]\nmod {name};"))
            || faces.contains(&format!("#[cfg(test)]\npub mod {name};"))
        {
            continue;
        } else if path.is_dir() {
            read(&path, &inner, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_face = ["lib", "mod", "main"].contains(&&*name);
            let module = if is_face { module.to_vec() } else { inner };
            files.push(File { module, code: code_of(&fs::read_to_string(path).unwrap()) });
        }
    }
}

/// A file without its comments and its module of tests.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_tests = |next: &&str| next.contains("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(is_tests) {
            lines.by_ref().find(|line| *line == "}");
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Messages about module paths that lead to the same floor or a higher one, and about rooms that are on no floor.
/// `within` is the folder's own module, which may use all rooms.
fn violations(within: &[String], floors: &[&[&str]], files: &[File]) -> Vec<String> {
    let floor = |room: &str| floors.iter().position(|rooms| rooms.contains(&room));
    let room_of = |path: &[String]| path.strip_prefix(within).and_then(|path| path.first()).cloned();
    let rooms: BTreeSet<String> = files.iter().filter_map(|file| room_of(&file.module)).collect();
    let mut wrong: BTreeSet<String> =
        rooms.iter().filter(|room| floor(room).is_none()).map(|room| format!("{room} has no floor")).collect();
    let gone = floors.concat().into_iter().filter(|room| !rooms.contains(*room));
    wrong.extend(gone.map(|room| format!("{room} is on a floor and not there")));

    // If the folder's own module re-exports an item (`pub use`), the item belongs to the room that defines it.
    let mut handed_on: BTreeMap<String, String> = BTreeMap::new();
    for File { module, code } in files.iter().filter(|file| file.module == within) {
        for path in code.split("use ").skip(1).flat_map(paths).map(|path| absolute(module, path)) {
            let path =
                if path.first().is_some_and(|room| rooms.contains(room)) { [within, &path].concat() } else { path };
            handed_on.extend(path.last().cloned().zip(room_of(&path)));
        }
    }
    for File { module, code } in files {
        let Some(own) = room_of(module) else { continue };
        let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
        // Skips the second `super` of a path that begins with `super::super::`, because the path begins at the first
        // one.
        let starts = starts.filter(|(at, _)| !code[..*at].ends_with("::"));
        for path in starts.flat_map(|(at, _)| paths(&code[at..])).map(|path| absolute(module, path)) {
            let Some(name) = room_of(&path) else { continue };
            let known = if rooms.contains(&name) { Some(&name) } else { handed_on.get(&name) };
            match known {
                Some(room) if *room == own || floor(room) < floor(&own) => {}
                Some(room) => {
                    _ = wrong.insert(format!("{own} knows {room}: {} names {}", module.join("::"), path.join("::")))
                }
                None => {
                    _ = wrong.insert(format!("{own} knows the face: {} names {}", module.join("::"), path.join("::")))
                }
            }
        }
    }
    wrong.into_iter().collect()
}

/// The module paths at the beginning of a text. A path with braces, such as `a::{b, c}`, stands for several.
fn paths(text: &str) -> Vec<Vec<String>> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let start: Vec<String> = text[..end].split("::").filter(|name| !name.is_empty()).map(Into::into).collect();
    let Some(group) = text[end..].strip_prefix('{').filter(|_| text[..end].ends_with("::") || end == 0) else {
        return vec![start];
    };
    let (mut depth, mut first, mut all) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let inner = group[first..at].trim();
                all.extend(paths(inner).into_iter().map(|path| [&start[..], &path].concat()));
                first = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    all
}

/// Converts a path that is used in a module to a path from the root of the crate.
fn absolute(module: &[String], path: Vec<String>) -> Vec<String> {
    let up = path.iter().take_while(|name| *name == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        Some("super") => [&module[..module.len().saturating_sub(up)], &path[up..]].concat(),
        _ => path,
    }
}

#[test]
fn what_is_on_the_wrong_floor_is_found() {
    let floors: &[&[&str]] = &[&["ground"], &["middle"], &["top", "tower"]];
    let face = "mod ground;\npub use ground::Stone;\npub use self::top::{Roof, tile as brick};\n";
    let found = |module: &str, text: &str| {
        let file = |module: &str, text: &str| File {
            module: module.split("::").filter(|name| !name.is_empty()).map(Into::into).collect(),
            code: code_of(text),
        };
        let rooms = ["ground", "middle", "top", "tower"].map(|room| file(room, ""));
        let files: Vec<File> = rooms.into_iter().chain([file("", face), file(module, text)]).collect();
        violations(&[], floors, &files)
    };
    let fine = "use crate::ground::{a, b};\nuse super::other;\nuse crate::{Stone, ground};\n// crate::top\n\
                #[cfg(test)]\nmod tests {\n    use crate::top;\n}\nfn f() { super::super::ground::a() }\n";
    assert_eq!(found("middle::inner", fine), [""; 0]);
    for wrong in [
        "use crate::top::roof;",
        "use crate::{ground::{a, b}, top::Roof};",
        "use super::super::tower;",
        "fn f() -> crate::top::Roof {}",
        "use crate::Roof;",
        "use crate::unheard_of;",
    ] {
        assert_eq!(found("middle::inner", wrong).len(), 1, "{wrong}");
    }
    // Paths to the same floor are refused, too, because two rooms could use each other otherwise.
    assert_eq!(found("top", "use crate::tower::bell;").len(), 1);
    assert_eq!(found("cellar", ""), ["cellar has no floor"]);
    assert_eq!(violations(&[], floors, &[]).len(), 4, "rooms that are not there");
}
