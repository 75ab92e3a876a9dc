//! Images of chunks of texts.
//!
//! ```text
//!   rest         width of a length | packing | lengths | count of bytes | texts, packed as in memory
//!   dictionary   count | lengths | texts | width of a code | codes
//!   plain        count | lengths | texts | for each row the number of its text, from 1 on; 0 for the empty text
//! ```
//!
//! Plain chunks list each text once, even if several rows share it. Otherwise the image could be much longer than the
//! chunk. Edges are computed anew.

use std::collections::HashMap;
use std::sync::Arc;

use plan::text_order;
use snapmem::OutOfMemory;

use super::edges::Edges;
use super::form::Form;
use super::heap::{Heap, Place, record_bytes, text_at};
use super::packing::{Packing, whole_blocks};
use super::sequence::{Length, Sequence, Stored};
use super::snapshot::ChunkTexts;
use super::{MOST, MOST_AT_ONCE, TextColumn, TextSnapshot, run_bytes};
use crate::base::bitmap::{self, Bitmap, Mask, has};
use crate::base::chunk::CHUNK_ROWS;
use crate::base::fastest::{Loop, fastest};
use crate::base::image::{ImageFault, Reader, ensure, reserve, wrong};

const REST: u8 = 3;
const DICTIONARY: u8 = 4;
const PLAIN: u8 = 5;

impl TextSnapshot {
    /// Appends the texts of a chunk, and returns the kind of the image. The snapshot must not have patches.
    pub fn encode(&self, chunk: usize, rows: usize, into: &mut Vec<u8>) -> Result<u8, OutOfMemory> {
        let (run, label) = self.references.labelled_run(chunk)?;
        let texts = &self.chunks[chunk];
        let (form, count) = (Form::from_label(label), texts.entries.as_ref().map_or(0, |entries| entries.len()));
        let references = &run[..form.width() * rows];
        match (form, &texts.sequence, &texts.entries) {
            (Form::Rows(width), Some(sequence), _) => {
                let block = texts.blocks.first().map_or(&[][..], |block| block.bytes());
                reserve(into, 128 + references.len() + block.len())?;
                into.extend([width as u8, sequence.is_packable().into(), sequence.packing.is_some().into()]);
                if let Some(packing) = &sequence.packing {
                    packing.encode(into);
                }
                match width {
                    0 => into.extend(sequence.same().0.to_le_bytes()),
                    _ => into.extend_from_slice(references),
                }
                into.extend((block.len() as u32).to_le_bytes());
                into.extend_from_slice(block);
                Ok(REST)
            }
            (Form::Codes(width), _, Some(entries)) => {
                texts.list(count, |code| entries.place(code), into)?;
                reserve(into, 1 + references.len())?;
                into.push(width as u8);
                into.extend_from_slice(references);
                Ok(DICTIONARY)
            }
            _ => {
                let (mut numbers, mut places) = (HashMap::new(), Vec::new());
                let mut number = |reference: u64| {
                    let Some(place) = form.read(reference) else { return 0 };
                    *numbers.entry(place).or_insert_with(|| {
                        places.push(place);
                        places.len() as u16
                    })
                };
                let numbers: Vec<u16> = match form.width() {
                    4 => {
                        references.as_chunks().0.iter().map(|place| number(u32::from_le_bytes(*place).into())).collect()
                    }
                    _ => references.as_chunks().0.iter().map(|place| number(u64::from_le_bytes(*place))).collect(),
                };
                texts.list(places.len(), |at| places[at], into)?;
                reserve(into, 2 * rows)?;
                into.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                Ok(PLAIN)
            }
        }
    }
}

impl ChunkTexts {
    /// Appends the number of texts, their lengths, and the texts.
    fn list(&self, count: usize, place: impl Fn(usize) -> Place, into: &mut Vec<u8>) -> Result<(), OutOfMemory> {
        let text = |at: usize| {
            let Place { block, offset } = place(at);
            text_at(self.blocks[block as usize].bytes(), offset as usize).1
        };
        let bytes: usize = (0..count).map(|at| text(at).len()).sum();
        reserve(into, 2 + 4 * count + bytes)?;
        into.extend((count as u16).to_le_bytes());
        (0..count).for_each(|at| into.extend((text(at).len() as u32).to_le_bytes()));
        (0..count).for_each(|at| into.extend_from_slice(text(at)));
        Ok(())
    }
}

/// The texts that [`ChunkTexts::list`] has written.
fn listed<'a>(most: usize, is_text: bool, from: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, ImageFault> {
    let count = usize::from(from.u16()?);
    ensure(count <= most, "more texts than a chunk can have")?;
    let lengths = from.bytes(4 * count)?.as_chunks().0;
    let texts = lengths.iter().map(|length| from.bytes(u32::from_le_bytes(*length) as usize));
    let texts: Vec<&[u8]> = texts.collect::<Result<_, _>>()?;
    ensure(!is_text || texts.iter().all(|text| std::str::from_utf8(text).is_ok()), "a text that is not UTF-8")?;
    Ok(texts)
}

impl TextColumn {
    /// Adds a chunk from its image, without closing the chunk before it. `read` has the rows that exist and are not
    /// null. `is_text` says whether the texts are UTF-8.
    pub fn load(
        &mut self,
        room: usize,
        rows: usize,
        read: &Mask,
        kind: u8,
        is_text: bool,
        from: &mut Reader<'_>,
    ) -> Result<(), ImageFault> {
        let chunk = self.chunks.len();
        self.push_chunk()?;
        self.rows = room;
        match kind {
            REST => {
                ensure(rows == CHUNK_ROWS && self.rest.is_allowed(), "a chunk at rest that cannot be")?;
                self.load_rest(chunk, read, is_text, from)?;
            }
            DICTIONARY => self.load_dictionary(chunk, rows, read, is_text, from)?,
            PLAIN => self.load_plain(chunk, rows, read, is_text, from)?,
            _ => return wrong("not a form of texts"),
        }
        let of = &mut self.chunks[chunk];
        (of.full, of.filled) = (rows == CHUNK_ROWS, rows);
        (of.settled, of.changed) = (of.heap.written(), 0);
        Ok(())
    }

    /// Lays a full chunk that was just loaded to rest, or gives it a dictionary. It may have been written to shortly
    /// before its image was taken.
    pub fn close(&mut self, chunk: usize, valid: Option<&Bitmap>) -> Result<(), OutOfMemory> {
        let of = &self.chunks[chunk];
        let is_plain = of.full && of.sequence.is_none() && of.dictionary.is_none();
        if is_plain && self.rest.is_allowed() && of.heap.written() <= MOST_AT_ONCE && !self.write_as_codes(chunk)? {
            self.lay_to_rest(chunk, true, valid)?;
        }
        Ok(())
    }

    fn load_rest(&mut self, chunk: usize, read: &Mask, is_text: bool, from: &mut Reader<'_>) -> Result<(), ImageFault> {
        let (width, is_packable, is_packed) = (from.u8()?, from.u8()?, from.u8()?);
        ensure(width <= 2 && is_packable <= 1 && is_packed <= is_packable, "lengths of no known form")?;
        let packing = if is_packed == 1 { Some(Packing::decode(from)?) } else { None };
        let same = if width == 0 { from.u16()? } else { 0 };
        let run = from.bytes(usize::from(width) * CHUNK_ROWS)?;
        let lengths: Vec<Length> = match width {
            0 => vec![Length(same); CHUNK_ROWS],
            1 => run.iter().map(|length| Length((*length).into())).collect(),
            _ => run.as_chunks().0.iter().map(|length| Length(u16::from_le_bytes(*length))).collect(),
        };
        ensure(packing.is_some() || !lengths.iter().any(|length| length.is_packed()), "texts that nothing unpacks")?;
        let characters: usize = lengths.iter().map(|length| length.characters()).sum();
        ensure(characters <= MOST_AT_ONCE, "a chunk at rest that is too long")?;
        let count = from.u32()? as usize;
        let block = from.bytes(count)?;
        let sequence = Sequence::new(packing, is_packable == 1, &lengths, &self.pool)?;
        ensure(sequence.is_of_one_length() == (width == 0), "lengths that do not differ")?;
        ensure(
            lengths.iter().map(|length| sequence.bytes(*length)).sum::<usize>() == count,
            "texts of another length",
        )?;
        let edges = fastest(Checked { sequence: &sequence, lengths: &lengths, block, read, is_text })?;
        let form = Form::Rows(width.into());
        let bytes = run_bytes(form.width(), CHUNK_ROWS);
        self.region.replace_run(chunk, bytes, form.label(), |_, into| into[..run.len()].copy_from_slice(run))?;
        self.rest.begins(&sequence);
        let of = &mut self.chunks[chunk];
        (of.heap, of.edges) = (Heap::of_block(block, &self.pool)?, edges);
        (of.form, of.dictionary, of.sequence) = (form, None, Some(Arc::new(sequence)));
        Ok(())
    }

    fn load_dictionary(
        &mut self,
        chunk: usize,
        rows: usize,
        read: &Mask,
        is_text: bool,
        from: &mut Reader<'_>,
    ) -> Result<(), ImageFault> {
        let texts = listed(MOST, is_text, from)?;
        let mut references: Vec<u64> = match from.u8()? {
            0 => vec![0; rows],
            1 => from.bytes(rows)?.iter().map(|code| u64::from(*code)).collect(),
            2 => from.bytes(2 * rows)?.as_chunks().0.iter().map(|code| u16::from_le_bytes(*code).into()).collect(),
            _ => return wrong("codes of no known width"),
        };
        ensure(references.iter().all(|code| *code < texts.len().max(1) as u64), "a code behind its dictionary")?;
        let mut edges = Edges::NONE;
        texts.iter().filter(|text| !text.is_empty()).for_each(|text| edges.include(text));
        let is_empty =
            |row: &usize| has(read, *row) && texts.get(references[*row] as usize).is_some_and(|t| t.is_empty());
        if (0..rows).any(|row| is_empty(&row)) {
            edges.include(&[]);
        }
        references.resize(self.rows_of(), 0);
        ensure(!texts.is_empty() || bitmap::count(read) == 0, "a text of an empty dictionary")?;
        let (heap, dictionary) = self.numbered(&texts)?;
        let is_own = |(text, code): (&&[u8], u16)| dictionary.code(text, &heap, &self.hasher) == Some(code);
        ensure(texts.iter().zip(0..).all(is_own), "a dictionary with a text twice")?;
        self.install(chunk, (heap, dictionary), &references)?;
        self.chunks[chunk].edges = edges;
        Ok(())
    }

    fn load_plain(
        &mut self,
        chunk: usize,
        rows: usize,
        read: &Mask,
        is_text: bool,
        from: &mut Reader<'_>,
    ) -> Result<(), ImageFault> {
        let texts = listed(CHUNK_ROWS, is_text, from)?;
        let numbers = from.bytes(2 * rows)?.as_chunks().0;
        let number = |row: usize| usize::from(u16::from_le_bytes(numbers[row]));
        ensure((0..rows).all(|row| number(row) <= texts.len()), "a number behind its texts")?;
        let mut left: usize = texts.iter().map(|text| record_bytes(text.len())).sum();
        let (mut heap, mut edges) = (Heap::default(), Edges::NONE);
        let (mut known, mut places) = (vec![None; texts.len()], vec![None; self.rows_of()]);
        for row in (0..rows).filter(|row| has(read, *row)) {
            let at = number(row).checked_sub(1).filter(|at| !texts[*at].is_empty());
            edges.include(at.map_or(&[], |at| texts[at]));
            let Some(at) = at else { continue };
            if known[at].is_none() {
                known[at] = Some(heap.append_of(texts[at], left, &self.pool)?);
                left -= record_bytes(texts[at].len());
            }
            places[row] = known[at];
        }
        self.refer_to(chunk, &places)?;
        let of = &mut self.chunks[chunk];
        (of.heap, of.dictionary, of.edges) = (heap, None, edges);
        Ok(())
    }
}

/// The edges of the texts in `read`. All texts must be UTF-8 if `is_text` is set.
struct Checked<'a> {
    sequence: &'a Sequence,
    lengths: &'a [Length],
    block: &'a [u8],
    read: &'a Mask,
    is_text: bool,
}

impl Loop for Checked<'_> {
    type Result = Result<Edges, ImageFault>;

    #[inline(always)]
    fn run(self) -> Self::Result {
        let Checked { sequence, lengths, block, read, is_text } = self;
        let packs_text = sequence.packing.as_ref().is_none_or(Packing::is_ascii);
        let needs_all = is_text && !packs_text;
        let (mut at, mut buffer, mut edges, mut is_valid) = (0, Vec::new(), Edges::NONE, true);
        // The starts of packed texts that are within the edges.
        let mut known = (u128::MAX, 0);
        for (row, length) in lengths.iter().enumerate() {
            let is_read = has(read, row);
            match sequence.stored(block, at, *length) {
                Stored::Plain(text) => {
                    is_valid &= !is_text || text.is_ascii() || std::str::from_utf8(text).is_ok();
                    if is_read {
                        edges.include(text);
                    }
                }
                Stored::Packed { packing, bytes, characters } => {
                    // Unpacking takes most of the time. It is seldom needed, because most texts lie within the edges.
                    let start = (characters >= text_order::LENGTH).then(|| packing.start(bytes));
                    let is_known = start.is_some_and(|start| known.0 <= start && start <= known.1);
                    if needs_all || is_read && !is_known {
                        let wanted = if needs_all { characters } else { characters.min(text_order::LENGTH + 1) };
                        buffer.resize(whole_blocks(wanted), 0);
                        packing.read_blocks(bytes, wanted, &mut buffer);
                        let text = &buffer[..wanted];
                        is_valid &= !needs_all || std::str::from_utf8(text).is_ok();
                        if is_read {
                            edges.include(text);
                        }
                    }
                    if let Some(start) = start.filter(|_| is_read) {
                        known = (known.0.min(start), known.1.max(start));
                    }
                }
            }
            at += sequence.bytes(*length);
        }
        ensure(is_valid, "a text that is not UTF-8")?;
        Ok(edges)
    }
}
