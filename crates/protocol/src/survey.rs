//! The engine's description of a table's columns, for `anker.columns` and `anker.chunks`.

use plan::Type;
use serde::{Deserialize, Serialize};

/// Asks for the columns of a table as they are now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyRequest {
    pub relid: u32,
    pub fingerprint: u64,
    /// Each chunk by itself, instead of whole columns.
    pub by_chunk: bool,
}

/// Columns in the order of the layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableSurvey {
    pub columns: Vec<ColumnSurvey>,
    /// For each column, if they were asked for: then nothing but number and type stands in `columns`.
    pub chunks: Vec<Vec<ChunkSurvey>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSurvey {
    pub attnum: i16,
    pub ty: Type,
    /// How its chunks are written, and how many of them.
    pub codings: Vec<(String, u64)>,
    pub bytes: u64,
    /// Rows that there are.
    pub rows: u64,
    /// The rows among these that are null, or have a value that the mirror cannot hold.
    pub nulls: u64,
    /// How many of the other values differ, as far as a sample tells.
    pub distinct: u64,
    /// Between which they lie.
    pub bounds: Option<(i128, i128)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkSurvey {
    pub coding: String,
    pub bytes: u64,
    /// Places of rows, some of which may be free.
    pub slots: u64,
    pub rows: u64,
    pub nulls: u64,
    pub distinct: u64,
    pub bounds: Option<(i128, i128)>,
}

impl TableSurvey {
    pub fn of(&self, attnum: i16) -> Option<&ColumnSurvey> {
        self.columns.iter().find(|column| column.attnum == attnum)
    }
}

impl ColumnSurvey {
    /// The survey of a column about which nothing is known yet.
    pub fn of(attnum: i16, ty: Type) -> ColumnSurvey {
        ColumnSurvey { attnum, ty, codings: Vec::new(), bytes: 0, rows: 0, nulls: 0, distinct: 0, bounds: None }
    }

    /// Counts a chunk in, except its coding and its distinct values.
    pub fn add(&mut self, chunk: &ChunkSurvey) {
        self.bytes += chunk.bytes;
        self.rows += chunk.rows;
        self.nulls += chunk.nulls;
        self.bounds = match (self.bounds, chunk.bounds) {
            (Some((low, high)), Some((other_low, other_high))) => Some((low.min(other_low), high.max(other_high))),
            (one, other) => one.or(other),
        };
    }
}
