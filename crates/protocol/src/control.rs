//! Messages between the capture worker and its engine: settings when the engine starts, then reports from the engine.
//!
//! The control channel is a SOCK_SEQPACKET socketpair with one packet per message. End of file on it means that the
//! process at the other end is gone.

use serde::{Deserialize, Serialize};

/// A message from the engine to the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// The engine runs, and listens on its socket. This is the first message. An engine of another build than the
    /// worker sends it, too, and then does nothing.
    Hello { version: u64, pid: u32 },
    /// The snapshot mechanism that `anker.mechanism` selects does not work on this machine. No further message follows.
    NoMechanism { name: String, reason: String },
    /// The load of this generation is complete; from now on, the table serves queries.
    Live { relid: u32, generation: u64, rows: u64 },
    /// A checkpoint begins, so gates are wanted soon, even if nothing is written at the moment.
    GatesWanted,
    /// A checkpoint with this id is complete. The worker is to write the id into the database.
    Checkpoint { id: u64 },
    /// The mirror of this table was given up; the table has to be watched and loaded again. `error` is true for a fault
    /// (for example, a row was not found), and false for a lack of memory.
    Broken { relid: u32, generation: u64, error: bool, reason: String },
}

impl ToWorker {
    pub fn encode(&self) -> Vec<u8> {
        // Serialising plain data into memory cannot fail.
        postcard::to_stdvec(self).expect("plain data serialises")
    }

    pub fn decode(bytes: &[u8]) -> crate::Result<Self> {
        Ok(postcard::from_bytes(bytes)?)
    }
}

/// The settings with which the engine is started. Their values come from `anker.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The limit in bytes for the memory of everything that follows the heap: columns, indexes, undo and so on
    /// (`anker.memory`).
    pub memory_bytes: u64,
    /// The limit for the working memory of all running queries together (`anker.query_memory`).
    pub query_memory_bytes: u64,
    /// The limit for the data that all running queries together have on disk (`anker.query_disk`); 0 forbids the use of
    /// the disk.
    pub query_disk_bytes: u64,
    /// The limit for undo (`anker.undo_memory`), which is part of `memory_bytes`.
    pub undo_bytes: u64,
    /// The time for which undo is kept, in seconds (`anker.undo_time`).
    pub undo_seconds: u64,
    /// The number of threads that one query may use (`anker.query_threads`). A query may have a lower limit.
    pub query_threads: u32,
    /// The number of queries that may run at the same time; further queries wait in a queue (`anker.max_queries`).
    pub max_queries: u32,
    /// The nice value of the threads that run queries, so that PostgreSQL's processes take precedence
    /// (`anker.query_nice`). A query may have a higher one.
    pub query_nice: u32,
    /// The time between two checkpoints in seconds (`anker.checkpoint_interval`); 0 if there are none.
    pub checkpoint_seconds: u64,
    /// The limit for the files of checkpoints (`anker.checkpoint_disk`).
    pub checkpoint_bytes: u64,
    /// The number that the server's cluster got when it was made, and the database.
    pub system: u64,
    pub database: u32,
    /// The snapshot mechanism for columns (`anker.mechanism`); `auto` selects the best one.
    pub mechanism: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            memory_bytes: 1 << 30,
            query_memory_bytes: 512 << 20,
            query_disk_bytes: 10 << 30,
            undo_bytes: 128 << 20,
            undo_seconds: 60,
            query_threads: 2,
            max_queries: 8,
            query_nice: 0,
            checkpoint_seconds: 0,
            checkpoint_bytes: 0,
            system: 0,
            database: 0,
            mechanism: "auto".into(),
        }
    }
}

impl Settings {
    pub fn to_text(&self) -> String {
        format!(
            "memory_bytes={}\nquery_memory_bytes={}\nquery_disk_bytes={}\nundo_bytes={}\nundo_seconds={}\n\
             query_threads={}\nmax_queries={}\nquery_nice={}\ncheckpoint_seconds={}\n\
             checkpoint_bytes={}\nsystem={}\ndatabase={}\nmechanism={}\n",
            self.memory_bytes,
            self.query_memory_bytes,
            self.query_disk_bytes,
            self.undo_bytes,
            self.undo_seconds,
            self.query_threads,
            self.max_queries,
            self.query_nice,
            self.checkpoint_seconds,
            self.checkpoint_bytes,
            self.system,
            self.database,
            self.mechanism
        )
    }

    /// Reads the text that `to_text` has written. Unknown keys and invalid numbers are errors, because worker and
    /// engine have the same version.
    pub fn from_text(text: &str) -> std::result::Result<Self, String> {
        let mut settings = Settings::default();
        for line in text.lines().filter(|l| !l.is_empty()) {
            let (key, value) = line.split_once('=').ok_or_else(|| format!("not a setting: {line:?}"))?;
            if key == "mechanism" {
                settings.mechanism = value.into();
                continue;
            }
            let number: u64 = value.parse().map_err(|_| format!("not a number: {line:?}"))?;
            match key {
                "memory_bytes" => settings.memory_bytes = number,
                "query_memory_bytes" => settings.query_memory_bytes = number,
                "query_disk_bytes" => settings.query_disk_bytes = number,
                "undo_bytes" => settings.undo_bytes = number,
                "undo_seconds" => settings.undo_seconds = number,
                "query_threads" => settings.query_threads = number as u32,
                "max_queries" => settings.max_queries = number as u32,
                "query_nice" => settings.query_nice = number as u32,
                "checkpoint_seconds" => settings.checkpoint_seconds = number,
                "checkpoint_bytes" => settings.checkpoint_bytes = number,
                "system" => settings.system = number,
                "database" => settings.database = number as u32,
                _ => return Err(format!("unknown setting {key:?}")),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_the_round_trip() {
        let (query_disk_bytes, mechanism) = (0, "scoot".into());
        let settings =
            Settings { memory_bytes: 5, query_disk_bytes, query_threads: 3, mechanism, ..Settings::default() };
        assert_eq!(Settings::from_text(&settings.to_text()).unwrap(), settings);
        assert!(Settings::from_text("speed=1").is_err());
        assert!(Settings::from_text("undo_bytes=many").is_err());
    }
}
