//! The engine's description of a table's columns, for `anker.columns` and `anker.chunks`.

use plan::Type;
use serde::{Deserialize, Serialize};

/// A request for a survey of a table's columns, as they are at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyRequest {
    pub relid: u32,
    pub fingerprint: u64,
    /// Whether each chunk is described on its own, instead of whole columns.
    pub by_chunk: bool,
}

/// The survey of a table; columns are in the order of the layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableSurvey {
    pub columns: Vec<ColumnSurvey>,
    /// For each column, its chunks, if they were requested. The elements of `columns` then have only the column's
    /// number and type.
    pub chunks: Vec<Vec<ChunkSurvey>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnSurvey {
    pub attnum: i16,
    pub ty: Type,
    /// The codings of the column's chunks, each with the number of chunks that have it.
    pub codings: Vec<(String, u64)>,
    pub bytes: u64,
    /// The number of existing rows.
    pub rows: u64,
    /// The number of rows whose value is null. Values that the mirror cannot represent do not count.
    pub nulls: u64,
    /// The number of distinct values without nulls, as estimated from a sample.
    pub distinct: u64,
    /// The least and the greatest value, as numbers whose order is the order of the values.
    pub bounds: Option<(i128, i128)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkSurvey {
    pub coding: String,
    pub bytes: u64,
    /// The number of slots for rows, some of which may be free.
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
    /// The empty survey of a column.
    pub fn of(attnum: i16, ty: Type) -> ColumnSurvey {
        ColumnSurvey { attnum, ty, codings: Vec::new(), bytes: 0, rows: 0, nulls: 0, distinct: 0, bounds: None }
    }

    /// Adds the figures of a chunk, without its coding and its distinct values.
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
