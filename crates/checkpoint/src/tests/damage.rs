//! Damaged files: a table is read as it was written, or not at all.

use std::collections::BTreeMap;

use super::{DATABASE, Folder, LIMITS, Tables, read, two, write};
use crate::{Database, Directory};

type Files = BTreeMap<String, Vec<u8>>;

/// The files of two checkpoints, the second of which is not confirmed; and their ids.
fn files() -> (Files, [u64; 2]) {
    let [before, after] = two();
    let folder = Folder::new();
    let mut directory = folder.open();
    let first = write(&mut directory, &before, &Tables::new(), LIMITS).unwrap();
    directory.confirm(first.id).unwrap();
    let second = write(&mut directory, &after, &before, LIMITS).unwrap();
    (folder.files(), [first.id, second.id])
}

/// Checks a damaged directory. Returns the numbers of manifests, of tables that can be read, and of those that cannot.
fn check(files: &Files, ids: &[u64; 2]) -> (usize, usize, usize) {
    let folder = Folder::with(files);
    let directory = folder.open();
    let want = two();
    let (mut good, mut bad) = (0, 0);
    for manifest in directory.remains() {
        let want = &want[ids.iter().position(|id| *id == manifest.id).unwrap()];
        for table in &manifest.tables {
            match read(&directory, table) {
                Ok(chunks) => {
                    assert_eq!(chunks, want[&table.head.relid]);
                    good += 1;
                }
                Err(_) => bad += 1,
            }
        }
    }
    (directory.remains().len(), good, bad)
}

#[test]
fn files_that_are_whole_are_read() {
    let (files, ids) = files();
    assert_eq!(check(&files, &ids), (2, 6, 0));
}

#[test]
fn torn_files_are_noticed() {
    let (files, ids) = files();
    for (name, bytes) in &files {
        for length in 0..bytes.len() {
            let mut torn = files.clone();
            torn.insert(name.clone(), bytes[..length].to_vec());
            let (manifests, _, bad) = check(&torn, &ids);
            assert!(manifests < 2 || bad > 0, "{length} bytes of {name}");
        }
        let mut longer = files.clone();
        longer.entry(name.clone()).and_modify(|bytes| bytes.push(0));
        assert_eq!(check(&longer, &ids).0, if name.contains("manifest") { 1 } else { 2 });
    }
}

#[test]
fn flipped_bits_are_noticed() {
    let (files, ids) = files();
    for (name, bytes) in &files {
        for at in 0..bytes.len() {
            let mut flipped = files.clone();
            flipped.entry(name.clone()).and_modify(|bytes| bytes[at] ^= 1 << (at % 8));
            let (manifests, _, bad) = check(&flipped, &ids);
            assert!(manifests < 2 || bad > 0, "byte {at} of {name}");
        }
    }
}

#[test]
fn missing_files_are_noticed() {
    let (files, ids) = files();
    for name in files.keys() {
        let mut fewer = files.clone();
        fewer.remove(name);
        let (manifests, good, bad) = check(&fewer, &ids);
        assert!(manifests == 1 && bad == 0 || bad > 0 && good > 0, "{name}: {manifests}, {good}, {bad}");
    }
}

#[test]
fn files_of_others_are_removed() {
    let (files, _) = files();
    let mut format = files.clone();
    format.iter_mut().filter(|(name, _)| name.contains("manifest")).for_each(|(_, bytes)| bytes[7] += 1);
    let (system, oid) = (Database { system: 8, ..DATABASE }, Database { oid: 6, ..DATABASE });
    for (files, database, left) in
        [(&files, DATABASE, 2), (&format, DATABASE, 0), (&files, system, 0), (&files, oid, 0)]
    {
        let folder = Folder::with(files);
        std::fs::write(folder.path().join("not_ours"), "x").unwrap();
        std::fs::write(folder.path().join("pgsql_tmp_chunks_00000000000000ff"), "x").unwrap();
        let directory = Directory::open(&folder.path(), database).unwrap();
        assert_eq!(directory.remains().len(), left);
        assert_eq!(folder.files().len(), if left == 2 { files.len() + 1 } else { 1 });
        assert!(directory.last >= 0xff, "a number that was ever used is not used again");
    }
}
