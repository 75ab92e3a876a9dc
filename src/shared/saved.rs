//! The file that keeps the statements of `anker.statements` while the server is stopped.
//!
//! The postmaster writes the file when the server stops. It reads and removes the file when the server starts. So there
//! is no file after a crash.
//!
//! ```text
//!   "PGANKER\n"  format: u32  server's version: u32  checksum of the rest: u64  the statements, in postcard's form
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};

use pgrx::prelude::*;
use serde::{Deserialize, Serialize};

use super::FixedText;
use super::statements::{EngineFigures, Key, Statement, Times};
use crate::pg::compat;
use crate::reason::Why;

/// Relative to the data directory, like all paths of the postmaster.
const FILE: &str = "pg_stat/pg_anker.stat";
const UNFINISHED: &str = "pg_stat/pg_anker.tmp";

const MAGIC: &[u8; 8] = b"PGANKER\n";
/// The version of the file's form. It changes with the fields below.
const FORMAT: u32 = 1;
const HEAD: usize = MAGIC.len() + 4 + 4 + 8;

/// The statements, and the history of the list.
#[derive(Serialize, Deserialize)]
pub struct Saved {
    pub evicted: u64,
    pub reset: i64,
    pub statements: Vec<SavedStatement>,
}

#[derive(Serialize, Deserialize)]
pub struct SavedStatement {
    user: u32,
    database: u32,
    query_id: i64,
    engine: Times,
    heap: Times,
    /// Reasons stand here by name, because other versions of the library may have other reasons.
    reasons: Vec<(String, u64)>,
    last: Option<(String, String)>,
    rows: u64,
    figures: EngineFigures,
    since: i64,
    pub usage: f64,
}

impl From<&Statement> for SavedStatement {
    fn from(statement: &Statement) -> SavedStatement {
        let Statement { key, engine, heap, reasons, last_reason, last_text, rows, figures, since, usage } = *statement;
        let met = Why::ALL.iter().zip(reasons).filter(|(_, calls)| *calls > 0);
        SavedStatement {
            user: key.user.to_u32(),
            database: key.database.to_u32(),
            query_id: key.query_id,
            engine,
            heap,
            reasons: met.map(|(why, calls)| (why.name().to_owned(), calls)).collect(),
            last: last_reason.map(|why| (why.name().to_owned(), last_text.as_str().to_owned())),
            rows,
            figures,
            since,
            usage,
        }
    }
}

impl From<SavedStatement> for Statement {
    fn from(saved: SavedStatement) -> Statement {
        let SavedStatement { user, database, query_id, engine, heap, last, rows, figures, since, usage, .. } = saved;
        let mut reasons = [0; Why::ALL.len()];
        for (name, calls) in &saved.reasons {
            if let Some(why) = Why::named(name) {
                reasons[why.index()] = *calls;
            }
        }
        let last = last.and_then(|(name, text)| Some((Why::named(&name)?, text)));
        Statement {
            key: Key { user: user.into(), database: database.into(), query_id },
            engine,
            heap,
            reasons,
            last_reason: last.as_ref().map(|(why, _)| *why),
            last_text: last.map_or(FixedText::NONE, |(_, text)| FixedText::new(&text)),
            rows,
            figures,
            since,
            usage,
        }
    }
}

/// Writes the file. If that fails, the server's log says why, and there is no file.
pub fn write(saved: &Saved) {
    if let Err(error) = try_write(saved) {
        log!("pg_anker: could not write file \"{FILE}\": {error}");
        let _ = fs::remove_file(UNFINISHED);
    }
}

fn try_write(saved: &Saved) -> io::Result<()> {
    let content = postcard::to_stdvec(saved).map_err(io::Error::other)?;
    let mut file = File::create(UNFINISHED)?;
    file.write_all(&head(&content))?;
    file.write_all(&content)?;
    file.sync_all()?;
    fs::rename(UNFINISHED, FILE)
}

/// Reads the file, and removes it. `None` if there is none, or if it cannot be used, which the server's log says.
pub fn take() -> Option<Saved> {
    let read = fs::read(FILE);
    let saved = match &read {
        Ok(bytes) => parse(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
    };
    discard();
    saved.inspect_err(|why| log!("pg_anker: file \"{FILE}\" is ignored: {why}")).ok()
}

/// Removes the file.
pub fn discard() {
    match fs::remove_file(FILE) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            log!("pg_anker: could not remove file \"{FILE}\": {error}")
        }
        _ => {}
    }
}

fn parse(bytes: &[u8]) -> Result<Saved, String> {
    let (found, content) = bytes.split_at_checked(HEAD).ok_or("it is too short")?;
    let expected = head(content);
    if found[..HEAD - 8] != expected[..HEAD - 8] {
        return Err("it is of another version".into());
    }
    if found != expected {
        return Err("its checksum is wrong".into());
    }
    postcard::from_bytes(content).map_err(|error| error.to_string())
}

fn head(content: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    head[12..16].copy_from_slice(&compat::MAJOR_VERSION.to_le_bytes());
    head[16..].copy_from_slice(&checksum(content).to_le_bytes());
    head
}

/// The hash FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
