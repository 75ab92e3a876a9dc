//! Chunks at rest: full chunks that nobody writes to any more. Their texts are stored without gaps, and packed unless
//! queries read them often.
//!
//! ```text
//!   written to ---- full ----> at rest, packed <--- not read for long --- at rest, plain
//!       ^                       |     |                                       ^   |
//!       +------ a write --------+     +------------ read often ---------------+   |
//!       +------ a write ----------------------------------------------------------+
//!   quiet for a while: at rest again; each time it has to be quiet for longer
//! ```
//!
//! A chunk that becomes full, or is written to, is changed at once. All other changes are made by an idle writer, one
//! chunk at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use snapmem::OutOfMemory;

use super::edges::Edges;
use super::form::Form;
use super::heap::{Heap, record_bytes};
use super::packing::{Packing, Uses};
use super::sequence::{LONGEST, Length, Sequence};
use super::{MOST_AT_ONCE, TextColumn};
use crate::base::bitmap::{Bitmap, Mask, has};
use crate::base::chunk::CHUNK_ROWS;
use crate::base::quiet::{MOST_PATIENCE, ROUND_MILLIS};

/// Plain chunks at rest are packed again after this many rounds in which no query read them.
const UNREAD_ROUNDS: u32 = 32;
/// A chunk is packed only if that saves at least 1/8 of its bytes.
const WORTH_PACKING: usize = 8;
/// Chunks are unpacked only while more than 1/4 of the memory limit is free.
const ROOM_FOR_PLAIN: u64 = 4;

/// A column's statistics about its chunks at rest.
#[derive(Debug)]
pub struct Rest {
    /// Whether chunks may be laid to rest at all.
    allowed: bool,
    /// Chunks that were at rest and were then written to. `restless` counts those that have not come to rest again.
    disturbed: HashMap<usize, Disturbed>,
    restless: usize,
    /// The number of packed chunks at rest; `plain` counts the plain chunks that could be packed.
    packed: usize,
    plain: usize,
    /// The number of texts that queries have read from chunks at rest; `known_reads` is that number at the last round.
    reads: Arc<AtomicU64>,
    known_reads: u64,
    unread_rounds: u32,
    /// Whether a query has taken a snapshot since the last round.
    asked: bool,
    round_ms: u64,
    /// Chunks that are still to be rewritten in this round.
    due: Vec<Due>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Disturbed {
    rests: bool,
    /// Whether the chunk was written to since the last round.
    written: bool,
    quiet_rounds: u32,
    /// The number of times that the chunk was woken up by a write.
    times: u32,
}

/// A chunk that is to be rewritten.
#[derive(Clone, Copy, Debug)]
struct Due {
    chunk: usize,
    packed: bool,
}

impl Rest {
    pub fn new(allowed: bool) -> Rest {
        Rest {
            allowed,
            disturbed: HashMap::new(),
            restless: 0,
            packed: 0,
            plain: 0,
            reads: Arc::default(),
            known_reads: 0,
            unread_rounds: 0,
            asked: false,
            round_ms: 0,
            due: Vec::new(),
        }
    }

    /// The counter with which a new snapshot counts the texts that it reads from chunks at rest.
    pub fn reader(&mut self) -> Arc<AtomicU64> {
        self.asked = true;
        self.reads.clone()
    }

    /// Whether there is nothing to do for as long as nothing is written or read.
    pub fn is_tidy(&self) -> bool {
        self.due.is_empty() && self.restless == 0 && self.plain == 0 && !(self.asked && self.packed > 0)
    }

    /// Called when a chunk at rest is written to.
    fn disturb(&mut self, chunk: usize) {
        let disturbed = self.disturbed.entry(chunk).or_default();
        let times = disturbed.times + 1;
        *disturbed = Disturbed { rests: false, written: true, quiet_rounds: 0, times };
        self.restless += 1;
    }

    /// Called when a chunk has been laid to rest, for the first time or again.
    fn settled(&mut self, chunk: usize) {
        if let Some(disturbed) = self.disturbed.get_mut(&chunk)
            && !std::mem::replace(&mut disturbed.rests, true)
        {
            self.restless -= 1;
        }
    }

    /// Called when a chunk has got this sequence.
    pub fn begins(&mut self, sequence: &Sequence) {
        match sequence.packing {
            Some(_) => self.packed += 1,
            None => self.plain += usize::from(sequence.is_packable()),
        }
    }

    /// Whether chunks may be laid to rest at all.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Called when a chunk that was woken up cannot be laid to rest again. No further attempt is made.
    fn give_up(&mut self, chunk: usize) {
        self.settled(chunk);
        self.disturbed.remove(&chunk);
    }

    /// Records a write to a chunk that was at rest before.
    #[inline]
    pub fn written(&mut self, chunk: usize) {
        if self.restless > 0
            && let Some(disturbed) = self.disturbed.get_mut(&chunk)
        {
            disturbed.written = true;
        }
    }
}

impl TextColumn {
    /// Converts a chunk at rest to places, so that it can be written to.
    #[inline]
    pub(super) fn disturb(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        match self.chunks[chunk].sequence.is_some() {
            true => self.wake_up(chunk),
            false => {
                self.rest.written(chunk);
                Ok(())
            }
        }
    }

    #[cold]
    fn wake_up(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let Some(sequence) = self.chunks[chunk].sequence.clone() else { return Ok(()) };
        let stored = |row| self.at_rest(chunk, row, &sequence);
        let rows = 0..self.rows_of();
        let mut left = rows.clone().map(|row| record_bytes(stored(row).characters())).sum::<usize>();
        let (mut heap, mut buffer) = (Heap::default(), Vec::new());
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let text = stored(row).read(&mut buffer);
            places.push(if text.is_empty() { None } else { Some(heap.append_of(text, left, &self.pool)?) });
            left -= record_bytes(text.len());
        }
        self.refer_to(chunk, &places)?;
        let of = &mut self.chunks[chunk];
        (of.heap, of.sequence) = (heap, None);
        (of.settled, of.changed) = (of.heap.written(), 0);
        self.forget_rest(&sequence);
        self.rest.disturb(chunk);
        Ok(())
    }

    fn forget_rest(&mut self, sequence: &Sequence) {
        match sequence.packing {
            Some(_) => self.rest.packed -= 1,
            None => self.rest.plain -= usize::from(sequence.is_packable()),
        }
    }

    /// Moves the texts of a chunk into a new sequence. The chunk is full with places, or at rest. Returns false if a
    /// sequence would not be shorter. Rows that are null get empty texts.
    pub(super) fn lay_to_rest(
        &mut self,
        chunk: usize,
        packed: bool,
        valid: Option<&Bitmap>,
    ) -> Result<bool, OutOfMemory> {
        let of = &self.chunks[chunk];
        if !self.rest.allowed || of.dictionary.is_some() || self.rows_of() < CHUNK_ROWS {
            return Ok(false);
        }
        let valid = valid.map_or([u64::MAX; _], |valid| valid.mask(chunk, CHUNK_ROWS));
        let mut uses: Uses = [0; 256];
        let (mut total, mut buffer, mut edges) = (0, Vec::new(), Edges::NONE);
        for row in 0..CHUNK_ROWS {
            let text = self.kept(chunk, row, &valid, &mut buffer);
            edges.include_left(text, of.edges);
            text.iter().for_each(|character| uses[usize::from(*character)] += 1);
            total += text.len();
            if text.len() > LONGEST || total > MOST_AT_ONCE {
                return Ok(false);
            }
        }
        // Rows may share texts in the heap. A sequence has a copy of the text for each row, so it may be longer.
        if of.sequence.is_none() && total > of.heap.written() {
            return Ok(false);
        }
        let packing = Packing::of(&uses);
        let tried = packing.as_ref().map(|packing| self.laid(chunk, total, &valid, Some(packing)));
        let tried = tried.filter(|(bytes, _)| bytes.len() < total - total / WORTH_PACKING);
        let is_packable = tried.is_some();
        let ((bytes, lengths), packing) = match tried.filter(|_| packed) {
            Some(tried) => (tried, packing),
            None => (self.laid(chunk, total, &valid, None), None),
        };
        let sequence = Sequence::new(packing, is_packable, &lengths, &self.pool)?;
        let heap = Heap::of_block(&bytes, &self.pool)?;
        let width = match lengths.iter().map(|length| length.0).max() {
            _ if sequence.is_of_one_length() => 0,
            Some(0..=255) | None => 1,
            Some(_) => 2,
        };
        let written: Vec<u64> = lengths.iter().map(|length| length.0.into()).collect();
        self.refer(chunk, Form::Rows(width), &written)?;
        let of = &mut self.chunks[chunk];
        (of.heap, of.edges) = (heap, edges);
        self.rest.begins(&sequence);
        let before = of.sequence.replace(Arc::new(sequence));
        if let Some(before) = before {
            self.forget_rest(&before);
        }
        self.rest.settled(chunk);
        Ok(true)
    }

    /// The text of a row, or an empty one if the row is null.
    #[inline]
    fn kept<'a>(&'a self, chunk: usize, row: usize, valid: &Mask, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if has(valid, row) { self.stored_in(chunk, row).read(buffer) } else { &[] }
    }

    /// The texts of a chunk, one directly after the other, and the length entry of each.
    fn laid(&self, chunk: usize, total: usize, valid: &Mask, packing: Option<&Packing>) -> (Vec<u8>, Vec<Length>) {
        let (mut bytes, mut lengths) = (Vec::with_capacity(total), Vec::with_capacity(CHUNK_ROWS));
        let mut buffer = Vec::new();
        for row in 0..CHUNK_ROWS {
            let text = self.kept(chunk, row, valid, &mut buffer);
            let is_packed = packing.is_some_and(|packing| packing.append(text, &mut bytes));
            if !is_packed {
                bytes.extend_from_slice(text);
            }
            lengths.push(Length::new(text.len(), is_packed));
        }
        (bytes, lengths)
    }

    /// Lays a chunk to rest, packs it, or unpacks it. The writer calls this when it is idle. Returns whether a chunk
    /// was tried; one call rewrites at most one chunk.
    pub fn tidy_rest(&mut self, now_ms: u64, valid: Option<&Bitmap>) -> bool {
        if !self.rest.allowed || self.rest.is_tidy() {
            return false;
        }
        if self.rest.due.is_empty() {
            if now_ms < self.rest.round_ms + ROUND_MILLIS {
                return false;
            }
            self.rest.round_ms = now_ms;
            self.begin_round();
        }
        let Some(Due { chunk, packed }) = self.rest.due.pop() else { return false };
        let was_disturbed = self.chunks[chunk].sequence.is_none();
        // If memory is missing, or if the sequence would not be shorter, the chunk stays as it is.
        let rests = self.lay_to_rest(chunk, packed, valid).unwrap_or(false);
        if was_disturbed && !rests {
            self.rest.give_up(chunk);
        }
        true
    }

    fn begin_round(&mut self) {
        let reads = self.rest.reads.load(Ordering::Relaxed);
        let read = reads - std::mem::replace(&mut self.rest.known_reads, reads);
        self.rest.asked &= read > 0;
        self.rest.unread_rounds = if read > 0 { 0 } else { self.rest.unread_rounds.saturating_add(1) };
        // Reading is frequent if queries have read, since the last round, at least half as many texts as there are in
        // all chunks at rest that are packed or could be.
        let often = read as usize >= (self.rest.packed + self.rest.plain).div_ceil(2) * CHUNK_ROWS && read > 0;
        let is_roomy = self.pool.room() > self.pool.limit() / ROOM_FOR_PLAIN;
        let for_long = self.rest.unread_rounds >= UNREAD_ROUNDS;
        let is_packed = |chunk: &usize| match &self.chunks[*chunk].sequence {
            Some(sequence) if sequence.packing.is_some() => often && is_roomy,
            Some(sequence) => sequence.is_packable() && (for_long || !is_roomy),
            None => false,
        };
        let changes = self.rest.plain > 0 || often && is_roomy;
        let others = (0..if changes { self.chunks.len() } else { 0 }).filter(is_packed);
        let mut due: Vec<Due> = others
            .map(|chunk| Due {
                chunk,
                packed: self.chunks[chunk].sequence.as_ref().is_some_and(|s| s.packing.is_none()),
            })
            .collect();
        for (chunk, disturbed) in &mut self.rest.disturbed {
            let was_written = std::mem::take(&mut disturbed.written);
            disturbed.quiet_rounds = if was_written { 0 } else { disturbed.quiet_rounds + 1 };
            if !disturbed.rests && disturbed.quiet_rounds >= 1 << disturbed.times.min(MOST_PATIENCE) {
                due.push(Due { chunk: *chunk, packed: !often });
            }
        }
        self.rest.due = due;
    }
}
