//! Texts, and bytes that are no text. Each chunk is written in the form that needs least memory:
//!
//! ```text
//!   few distinct texts    codes of 0, 1 or 2 bytes   | dictionary of places | heap
//!   many                  places of 4 or 8 bytes                            | heap
//!   many, at rest         lengths of 0, 1 or 2 bytes                        | one text behind the other, packed
//! ```
//!
//! A chunk begins with a dictionary. If too many of its texts differ, it gets places instead; when all its slots are
//! taken, it is checked whether a dictionary pays after all. Codes, places and lengths are stored in a run of a region.
//! Heap and dictionary are only appended to until they are rewritten, so a snapshot can share them. A chunk at rest is
//! converted to places before it is written to.
//!
//! | file | job |
//! |---|---|
//! | `form` | the references of rows to texts |
//! | `edges` | the least and the greatest text |
//! | `heap`, `dictionary`, `sequence` | the memory in which texts lie |
//! | `packing` | texts in fewer bits |
//! | `settle` | garbage collection of texts |
//! | `rest` | chunks that nobody writes to |
//! | `snapshot` | a column for readers |
//! | `image` | images of chunks |

mod dictionary;
mod edges;
mod form;
mod heap;
mod image;
mod packing;
mod rest;
mod sequence;
mod settle;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use foldhash::fast::RandomState;
use snapmem::{Extents, Mechanism, OutOfMemory, Pool, prefetch};

use self::dictionary::Dictionary;
pub use self::dictionary::MOST;
use self::edges::Edges;
use self::form::{FEW, Form};
use self::heap::{Heap, Place, record_bytes};
use self::rest::Rest;
use self::sequence::{GROUP, Sequence, Stored};
use self::snapshot::ChunkTexts;
pub use self::snapshot::TextSnapshot;
use crate::base::bitmap::Bitmap;
use crate::base::chunk::{CHUNK_ROWS, split};
use crate::cells::codes::coding::image;

/// The length of the shortest run in bytes.
const SHORTEST: usize = 64;
/// A dictionary has at most one entry for this many rows.
const ROWS_PER_ENTRY: usize = 4;
/// A chunk with more bytes of text than this is never rewritten in one piece, because that would block the writer for
/// too long.
const MOST_AT_ONCE: usize = 4 << 20;

#[derive(Debug)]
pub struct TextColumn {
    region: Extents,
    chunks: Vec<Chunk>,
    /// The number of slots for which there is room.
    rows: usize,
    rest: Rest,
    hasher: RandomState,
    pool: Pool,
}

#[derive(Debug)]
struct Chunk {
    form: Form,
    heap: Heap,
    /// The dictionary, if the chunk's rows have codes.
    dictionary: Option<Box<Dictionary>>,
    /// The texts, if the chunk is at rest.
    sequence: Option<Arc<Sequence>>,
    /// Whether all slots are taken.
    full: bool,
    /// The first slot that was never written; no later slot was, either.
    filled: usize,
    /// The number of live bytes in the heap when they were last counted.
    settled: usize,
    /// The number of bytes that were added or became dead since the live bytes were last counted.
    changed: usize,
    edges: Edges,
}

impl Chunk {
    /// The chunk's memory in bytes, without its run.
    fn bytes(&self) -> u64 {
        let beside = self.dictionary.as_ref().map(|dictionary| dictionary.bytes());
        self.heap.bytes() + beside.or(self.sequence.as_ref().map(|sequence| sequence.memory())).unwrap_or(0)
    }
}

impl TextColumn {
    /// A new column. `may_rest` says whether chunks that nobody writes to may be laid to rest. Slots of such chunks
    /// cannot be read with [`TextColumn::get`].
    pub fn new(pool: &Pool, mechanism: Mechanism, may_rest: bool) -> TextColumn {
        let (region, rest) = (Extents::new(pool, mechanism, SHORTEST), Rest::new(may_rest));
        TextColumn { region, chunks: Vec::new(), rows: 0, rest, hasher: RandomState::default(), pool: pool.clone() }
    }

    /// Makes room for `rows` texts: more texts of the first chunk, or one more chunk. `valid` has the texts that are
    /// not null, if some are null.
    pub fn grow(&mut self, rows: usize, valid: Option<&Bitmap>) -> Result<(), OutOfMemory> {
        if let Some(last) = self.chunks.len().checked_sub(1) {
            match rows <= CHUNK_ROWS {
                true => self.lengthen(last, rows)?,
                // A chunk from an image may be full already.
                false if self.chunks[last].full => {}
                false => self.fill_up(last, valid)?,
            }
        }
        while self.chunks.len() * CHUNK_ROWS < rows {
            self.push_chunk()?;
        }
        self.rows = rows;
        Ok(())
    }

    fn push_chunk(&mut self) -> Result<(), OutOfMemory> {
        let refused = OutOfMemory::Limit { wanted: size_of::<Chunk>() as u64, limit: self.pool.limit() };
        self.chunks.try_reserve(1).map_err(|_| refused)?;
        self.region.push_run()?;
        let dictionary = Some(Box::new(Dictionary::new(&self.pool)));
        let (form, heap) = (Form::Codes(0), Heap::default());
        let (full, filled, settled, changed) = (false, 0, 0, 0);
        let (sequence, edges) = (None, Edges::NONE);
        self.chunks.push(Chunk { form, heap, dictionary, sequence, full, filled, settled, changed, edges });
        Ok(())
    }

    fn lengthen(&mut self, chunk: usize, rows: usize) -> Result<(), OutOfMemory> {
        let form = self.chunks[chunk].form;
        let copy = |old: &[u8], new: &mut [u8]| new[..old.len()].copy_from_slice(old);
        match form.width() {
            0 => Ok(()),
            width => self.region.replace_run(chunk, run_bytes(width, rows), form.label(), copy),
        }
    }

    /// The text of a slot, in a column whose chunks never rest.
    #[inline]
    pub fn get(&self, slot: u32) -> &[u8] {
        let (chunk, row) = split(slot);
        self.text(chunk, row)
    }

    /// The text of a slot as it is stored, plain or packed.
    #[inline]
    pub fn stored(&self, slot: u32) -> Stored<'_> {
        let (chunk, row) = split(slot);
        self.stored_in(chunk, row)
    }

    #[inline]
    fn stored_in(&self, chunk: usize, row: usize) -> Stored<'_> {
        match &self.chunks[chunk].sequence {
            Some(sequence) => self.at_rest(chunk, row, sequence),
            None => Stored::Plain(self.text(chunk, row)),
        }
    }

    #[inline]
    fn at_rest<'a>(&'a self, chunk: usize, row: usize, sequence: &'a Sequence) -> Stored<'a> {
        let of = &self.chunks[chunk];
        let width = of.form.width();
        let group = |group: usize| self.region.bytes_in(chunk, group * GROUP * width, GROUP * width);
        let (start, length) = sequence.locate(row, width, group);
        sequence.stored(of.heap.only_block(), start, length)
    }

    /// Prefetches a slot's reference to its text, or the text itself if there is no reference.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        let (chunk, row) = split(slot);
        let of = &self.chunks[chunk];
        match (of.form.width(), &of.sequence) {
            (0, Some(_)) => self.prefetch_text(slot),
            (0, None) => {}
            (width, sequence) => {
                prefetch(self.region.bytes_in(chunk, row * width, width).as_ptr());
                if let Some(sequence) = sequence {
                    sequence.prefetch(row);
                }
            }
        }
    }

    /// Prefetches the text of a slot. Texts in a dictionary are few and likely in the cache, so they are not
    /// prefetched.
    #[inline]
    pub fn prefetch_text(&self, slot: u32) {
        let (chunk, row) = split(slot);
        let of = &self.chunks[chunk];
        match &of.sequence {
            Some(sequence) => match self.at_rest(chunk, row, sequence) {
                Stored::Plain(bytes) => prefetch_all(bytes),
                Stored::Packed { packing, bytes, characters } => prefetch_all(&bytes[..packing.bytes(characters)]),
            },
            None if of.dictionary.is_some() => {}
            None => {
                if let Some(place) = of.form.read(self.reference(chunk, row)) {
                    of.heap.prefetch(place);
                }
            }
        }
    }

    /// The code or place in a slot.
    #[inline]
    fn reference(&self, chunk: usize, row: usize) -> u64 {
        let bytes = |width| self.region.bytes_in(chunk, row * width, width);
        match self.chunks[chunk].form.width() {
            0 => 0,
            1 => bytes(1)[0].into(),
            2 => u16::from_le_bytes(image(bytes(2))).into(),
            4 => u32::from_le_bytes(image(bytes(4))).into(),
            _ => u64::from_le_bytes(image(bytes(8))),
        }
    }

    fn write(&mut self, chunk: usize, row: usize, reference: u64) -> Result<(), OutOfMemory> {
        match self.chunks[chunk].form.width() {
            0 => Ok(()),
            width => self.region.write_in(chunk, row * width, &reference.to_le_bytes()[..width]),
        }
    }

    pub fn put(&mut self, slot: u32, text: &[u8]) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        self.chunks[chunk].filled = self.chunks[chunk].filled.max(row + 1);
        loop {
            let of = &mut self.chunks[chunk];
            let Some(dictionary) = &mut of.dictionary else {
                of.edges.include(text);
                return self.put_place(chunk, row, text);
            };
            if let Some(code) = dictionary.code(text, &of.heap, &self.hasher) {
                // The dictionary has the empty text, but it may have stood for nulls only. Then the edges do not
                // include it yet.
                if text.is_empty() {
                    of.edges.include(text);
                }
                return self.write(chunk, row, code.into());
            }
            // The check must come before the new text is added. Otherwise it would remove the text, because no slot
            // refers to the text yet.
            if self.needs_a_look(chunk) {
                self.settle(chunk)?;
                continue;
            }
            let of = &mut self.chunks[chunk];
            let Some(dictionary) = &mut of.dictionary else { continue };
            let entries = dictionary.len();
            let most = if of.full { MOST } else { FEW.max(of.filled / ROWS_PER_ENTRY).min(MOST) };
            let form = Form::for_entries(entries + 1);
            if entries >= most {
                self.make_room(chunk, most)?;
            } else if form.width() > of.form.width() {
                self.widen(chunk, form)?;
            } else {
                let place = of.heap.append(text, &self.pool)?;
                of.changed += record_bytes(text.len());
                of.edges.include(text);
                let code = dictionary.add(place, &of.heap, &self.hasher)?;
                return self.write(chunk, row, code.into());
            }
        }
    }

    /// Writes a text into a chunk whose rows have places, converting a chunk at rest first.
    fn put_place(&mut self, chunk: usize, row: usize, text: &[u8]) -> Result<(), OutOfMemory> {
        self.disturb(chunk)?;
        let old = self.place(chunk, row).map(|place| self.chunks[chunk].heap.text(place).len());
        let of = &mut self.chunks[chunk];
        let place = if text.is_empty() { None } else { Some(of.heap.append(text, &self.pool)?) };
        if of.form.write(place).is_none() {
            self.widen(chunk, Form::Places(8))?;
        }
        let reference = self.chunks[chunk].form.write(place).expect("the widest form holds every place");
        self.write(chunk, row, reference)?;
        let Some(length) = old else { return Ok(()) };
        self.chunks[chunk].changed += record_bytes(length);
        if self.needs_a_look(chunk) { self.settle(chunk) } else { Ok(()) }
    }

    /// Called when no snapshot needs the text of a slot any more.
    pub fn forget(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        let of = &self.chunks[chunk];
        match of.sequence.is_some() || of.dictionary.is_none() && self.place(chunk, row).is_some() {
            true => self.put_place(chunk, row, &[]),
            false => Ok(()),
        }
    }

    /// The place of a slot's text, unless the text is empty or null. The chunk must not be at rest.
    #[inline]
    fn place(&self, chunk: usize, row: usize) -> Option<Place> {
        let of = &self.chunks[chunk];
        match &of.dictionary {
            Some(dictionary) if dictionary.len() == 0 => None,
            Some(dictionary) => Some(dictionary.entries().place(self.reference(chunk, row) as usize)),
            None => of.form.read(self.reference(chunk, row)),
        }
    }

    fn text(&self, chunk: usize, row: usize) -> &[u8] {
        self.place(chunk, row).map_or(&[], |place| self.chunks[chunk].heap.text(place))
    }

    /// The number of slots that each chunk has room for.
    fn rows_of(&self) -> usize {
        self.rows.min(CHUNK_ROWS)
    }

    /// Rewrites the codes or places of a chunk with more bytes each.
    fn widen(&mut self, chunk: usize, form: Form) -> Result<(), OutOfMemory> {
        let old = self.chunks[chunk].form;
        let wider = |reference| match old {
            Form::Places(_) => form.write(old.read(reference)).expect("the widest form holds every place"),
            Form::Codes(_) | Form::Rows(_) => reference,
        };
        let references: Vec<u64> = (0..self.rows_of()).map(|row| wider(self.reference(chunk, row))).collect();
        self.refer(chunk, form, &references)
    }

    /// Rewrites a chunk without room for future texts. It is called once all slots are taken.
    fn fill_up(&mut self, chunk: usize, valid: Option<&Bitmap>) -> Result<(), OutOfMemory> {
        self.chunks[chunk].full = true;
        if self.chunks[chunk].heap.written() > MOST_AT_ONCE {
            return Ok(());
        }
        if self.chunks[chunk].dictionary.is_some() {
            return self.drop_unused(chunk);
        }
        match self.write_as_codes(chunk)? || self.lay_to_rest(chunk, true, valid)? {
            true => Ok(()),
            false => self.compact(chunk),
        }
    }

    /// Rewrites a chunk's references as these places.
    fn refer_to(&mut self, chunk: usize, places: &[Option<Place>]) -> Result<(), OutOfMemory> {
        let fits = |form: Form| places.iter().all(|place| form.write(*place).is_some());
        let form = if fits(Form::Places(4)) { Form::Places(4) } else { Form::Places(8) };
        let references: Vec<u64> = places.iter().map(|place| form.write(*place).unwrap_or(0)).collect();
        self.refer(chunk, form, &references)
    }

    /// Gives a chunk another heap and dictionary, and rewrites its references as codes of that dictionary.
    fn install(
        &mut self,
        chunk: usize,
        (heap, dictionary): (Heap, Box<Dictionary>),
        references: &[u64],
    ) -> Result<(), OutOfMemory> {
        self.refer(chunk, Form::for_entries(dictionary.len()), references)?;
        let of = &mut self.chunks[chunk];
        let entries = dictionary.entries();
        let texts = (0..entries.len()).map(|code| heap.text(entries.place(code)));
        of.edges = of.edges.of_those_left(texts);
        (of.heap, of.dictionary) = (heap, Some(dictionary));
        Ok(())
    }

    /// Replaces the references of a chunk by these, in this form.
    fn refer(&mut self, chunk: usize, form: Form, references: &[u64]) -> Result<(), OutOfMemory> {
        let width = form.width();
        let fill = |_: &[u8], into: &mut [u8]| {
            for (reference, into) in references.iter().zip(into.chunks_exact_mut(width.max(1))) {
                into[..width].copy_from_slice(&reference.to_le_bytes()[..width]);
            }
        };
        self.region.replace_run(chunk, run_bytes(width, references.len()), form.label(), fill)?;
        self.chunks[chunk].form = form;
        Ok(())
    }

    pub fn snapshot(&mut self) -> Result<TextSnapshot, OutOfMemory> {
        let texts = |chunk: &Chunk| ChunkTexts {
            blocks: chunk.heap.blocks(),
            entries: chunk.dictionary.as_ref().map(|dictionary| dictionary.entries().clone()),
            sequence: chunk.sequence.clone(),
            edges: chunk.edges,
        };
        let reads = self.rest.reader();
        Ok(TextSnapshot::new(self.region.snapshot()?, self.chunks.iter().map(texts).collect(), reads, &self.pool))
    }

    /// See [`Extents::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.region.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.region.is_tidy() && self.rest.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        self.region.bytes() + self.chunks.iter().map(Chunk::bytes).sum::<u64>()
    }

    /// The memory of one chunk in bytes.
    pub fn bytes_of(&self, chunk: usize) -> u64 {
        let of = &self.chunks[chunk];
        run_bytes(of.form.width(), self.rows_of()) as u64 + of.bytes()
    }
}

/// Prefetches the first lines of a text. For a longer text, the processor itself prefetches the following lines,
/// because texts are compared from their beginning.
fn prefetch_all(bytes: &[u8]) {
    for line in bytes.chunks(64).take(4) {
        prefetch(line.as_ptr());
    }
}

fn run_bytes(width: usize, rows: usize) -> usize {
    (width * rows).max(SHORTEST)
}
