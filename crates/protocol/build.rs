//! Computes [`VERSION`](src/lib.rs), by which two programs recognise that they are of one build.
//!
//! The version is a hash of the release's number, and of all sources that define messages: those of this crate and of
//! `plan`. So it cannot be forgotten when a message changes.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const SOURCES: [&str; 2] = ["src", "../plan/src"];

fn main() -> io::Result<()> {
    let mut hash = Hash::default();
    hash.add(env::var("CARGO_PKG_VERSION").expect("Cargo sets it").as_bytes());
    for folder in SOURCES {
        println!("cargo:rerun-if-changed={folder}");
        let mut files = Vec::new();
        find(Path::new(folder), &mut files)?;
        // The order of a folder's entries differs from file system to file system.
        files.sort();
        for file in files {
            hash.add(file.as_os_str().as_encoded_bytes());
            hash.add(&fs::read(&file)?);
        }
    }
    println!("cargo:rustc-env=ANKER_PROTOCOL_VERSION={}", hash.0);
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { find(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// FNV-1a with 64 bits. It gives the same result with every compiler, unlike the hash of the standard library.
struct Hash(u64);

impl Default for Hash {
    fn default() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    /// Adds a text and its length, so that no two lists of texts are the same bytes.
    fn add(&mut self, text: &[u8]) {
        for byte in text.iter().chain(&(text.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
