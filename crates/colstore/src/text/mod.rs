//! Text, and bytes that are none. Each chunk is written in the way that suits it:
//!
//! ```text
//!   few distinct ones   codes of 0, 1 or 2 bytes | dictionary of places | heap
//!   others              places of 4 or 8 bytes                          | heap
//! ```
//!
//! A chunk begins with a dictionary and gives it up when too many of its texts differ; when all its slots are taken it is
//! looked at once more. Codes and places are a run of a region; heap and dictionary only grow, so that a snapshot holds
//! them as they are, until they are written anew.

mod dictionary;
mod heap;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use snapmem::{EpochRegion, Label, OutOfMemory, Pool};

use self::dictionary::{Dictionary, MOST};
use self::heap::{Heap, MAX_BLOCK, Place, record_bytes};
use self::snapshot::ChunkTexts;
pub use self::snapshot::TextSnapshot;
use crate::chunk::{CHUNK_ROWS, split};

/// The shortest run.
const SHORTEST: usize = 64;
/// A dictionary has at most one entry for so many rows.
const ROWS_PER_ENTRY: usize = 4;
/// Whatever the rows, it may have so many: as many as a code of one byte tells apart.
const FEW: usize = 256;
/// A full chunk with more bytes of text is left as it is: the writer has other things to do.
const MOST_FILLED_UP: u64 = 4 << 20;
/// Fewer bytes that have changed are not worth a look.
const MIN_CHANGED: usize = 16 << 10;

#[derive(Debug)]
pub struct TextColumn {
    region: EpochRegion,
    chunks: Vec<Chunk>,
    /// Slots that there is room for.
    rows: usize,
    hasher: RandomState,
    pool: Pool,
}

/// How a chunk refers to its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Codes of so many bytes.
    Codes(usize),
    /// Places of so many bytes; 0: the empty text.
    Places(usize),
}

impl Form {
    fn width(self) -> usize {
        match self {
            Form::Codes(width) | Form::Places(width) => width,
        }
    }

    fn label(self) -> Label {
        self.width() as Label
    }

    fn from_label(label: Label) -> Form {
        match label as usize {
            width @ 0..=2 => Form::Codes(width),
            width => Form::Places(width),
        }
    }

    /// Codes for so many entries.
    fn for_entries(entries: usize) -> Form {
        match entries {
            0..=1 => Form::Codes(0),
            2..=FEW => Form::Codes(1),
            _ => Form::Codes(2),
        }
    }

    /// How a place is written; `None`: it needs a wider form.
    fn write(self, place: Option<Place>) -> Option<u64> {
        let Some(Place { block, offset }) = place else { return Some(0) };
        match self {
            Form::Places(4) if block >= 0xfff || offset as usize >= MAX_BLOCK => None,
            Form::Places(4) => Some(u64::from(block + 1) << 20 | u64::from(offset)),
            _ => Some((u64::from(block) + 1) << 32 | u64::from(offset)),
        }
    }

    fn read(self, place: u64) -> Option<Place> {
        let shift = if self == Form::Places(4) { 20 } else { 32 };
        let block = (place >> shift).checked_sub(1)?;
        Some(Place { block: block as u32, offset: (place & ((1 << shift) - 1)) as u32 })
    }
}

#[derive(Debug)]
struct Chunk {
    form: Form,
    heap: Heap,
    /// Of a chunk of codes.
    dictionary: Option<Box<Dictionary>>,
    /// All slots are taken.
    full: bool,
    /// Slots below which some were written.
    filled: usize,
    /// Bytes of the heap that were of use when that was last looked at.
    settled: usize,
    /// Bytes that have come, or are of no use any more, since then.
    changed: usize,
}

impl TextColumn {
    pub fn new(pool: &Pool) -> TextColumn {
        let region = EpochRegion::automatic(pool, SHORTEST);
        TextColumn { region, chunks: Vec::new(), rows: 0, hasher: RandomState::default(), pool: pool.clone() }
    }

    /// Room for so many texts: up to a chunk's, or for one more chunk.
    pub fn grow(&mut self, rows: usize) -> Result<(), OutOfMemory> {
        if let Some(last) = self.chunks.len().checked_sub(1) {
            match rows <= CHUNK_ROWS {
                true => self.lengthen(last, rows)?,
                false => self.fill_up(last)?,
            }
        }
        while self.chunks.len() * CHUNK_ROWS < rows {
            let refused = OutOfMemory { wanted: size_of::<Chunk>() as u64, limit: self.pool.limit() };
            self.chunks.try_reserve(1).map_err(|_| refused)?;
            self.region.push_run()?;
            let dictionary = Some(Box::new(Dictionary::new(&self.pool)));
            let (form, heap) = (Form::Codes(0), Heap::default());
            self.chunks.push(Chunk { form, heap, dictionary, full: false, filled: 0, settled: 0, changed: 0 });
        }
        self.rows = rows;
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

    #[inline]
    pub fn get(&self, slot: u32) -> &[u8] {
        let (chunk, row) = split(slot);
        self.text(chunk, row)
    }

    /// A slot's code or place.
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
            let Some(dictionary) = &mut of.dictionary else { return self.put_place(chunk, row, text) };
            if let Some(code) = dictionary.code(text, &of.heap, &self.hasher) {
                return self.write(chunk, row, code.into());
            }
            // Before the new text is there: it would be one that nobody has.
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
                let code = dictionary.add(place, &of.heap, &self.hasher)?;
                return self.write(chunk, row, code.into());
            }
        }
    }

    /// Into a chunk of places.
    fn put_place(&mut self, chunk: usize, row: usize, text: &[u8]) -> Result<(), OutOfMemory> {
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

    /// Whether so much has changed that it is worth a look at how much of the heap is of use.
    fn needs_a_look(&self, chunk: usize) -> bool {
        let of = &self.chunks[chunk];
        of.changed > of.settled + MIN_CHANGED || of.heap.has_many_blocks()
    }

    /// Writes the texts anew if less than half of their bytes are of use, or they lie in too many blocks.
    fn settle(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let places: HashSet<Place> = (0..self.rows_of()).filter_map(|row| self.place(chunk, row)).collect();
        let of = &mut self.chunks[chunk];
        let used = places.iter().map(|place| record_bytes(of.heap.text(*place).len())).sum::<usize>();
        (of.settled, of.changed) = (used, 0);
        match 2 * used + MIN_CHANGED < of.heap.written() || of.heap.has_many_blocks() {
            true if of.dictionary.is_some() => self.drop_unused(chunk),
            true => self.compact(chunk),
            false => {
                // No sooner than when as much has come as is there.
                of.settled = of.heap.written();
                Ok(())
            }
        }
    }

    /// The slot's text is not needed any more.
    pub fn forget(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        let (chunk, row) = split(slot);
        match self.chunks[chunk].dictionary.is_none() && self.place(chunk, row).is_some() {
            true => self.put_place(chunk, row, &[]),
            false => Ok(()),
        }
    }

    /// Where a slot's text is, unless it is empty or nothing.
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

    /// Of each slot that the chunk has room for.
    fn rows_of(&self) -> usize {
        self.rows.min(CHUNK_ROWS)
    }

    /// The same codes or places, of more bytes.
    fn widen(&mut self, chunk: usize, form: Form) -> Result<(), OutOfMemory> {
        let old = self.chunks[chunk].form;
        let wider = |reference| match old {
            Form::Places(_) => form.write(old.read(reference)).expect("the widest form holds every place"),
            Form::Codes(_) => reference,
        };
        let references: Vec<u64> = (0..self.rows_of()).map(|row| wider(self.reference(chunk, row))).collect();
        self.refer(chunk, form, &references)
    }

    /// A dictionary has as many entries as it may.
    fn make_room(&mut self, chunk: usize, most: usize) -> Result<(), OutOfMemory> {
        // What writing it anew costs must be worth as many new texts.
        if self.used(chunk).iter().filter(|used| **used).count() <= most / 2 {
            self.drop_unused(chunk)
        } else {
            self.give_up_codes(chunk)
        }
    }

    /// All slots of the chunk are taken: what was left open for texts to come is not needed any more.
    fn fill_up(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        self.chunks[chunk].full = true;
        if self.chunks[chunk].heap.bytes() > MOST_FILLED_UP {
            return Ok(());
        }
        if self.chunks[chunk].dictionary.is_some() {
            return self.drop_unused(chunk);
        }
        match self.write_as_codes(chunk)? {
            true => Ok(()),
            false => self.compact(chunk),
        }
    }

    /// Which of the codes stand for a slot.
    fn used(&self, chunk: usize) -> Vec<bool> {
        let entries = self.chunks[chunk].dictionary.as_ref().map_or(0, |dictionary| dictionary.len());
        let mut used = vec![false; entries];
        if entries > 0 {
            (0..self.rows_of()).for_each(|row| used[self.reference(chunk, row) as usize] = true);
        }
        used
    }

    /// Numbers the texts of a dictionary anew, without those that no slot has.
    fn drop_unused(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let used = self.used(chunk);
        let of = &self.chunks[chunk];
        let Some(dictionary) = &of.dictionary else { return Ok(()) };
        let (mut texts, mut codes) = (Vec::new(), vec![0; used.len().max(1)]);
        for code in (0..used.len()).filter(|code| used[*code]) {
            codes[code] = texts.len() as u64;
            texts.push(of.heap.text(dictionary.entries().place(code)));
        }
        let references: Vec<u64> = (0..self.rows_of()).map(|row| codes[self.reference(chunk, row) as usize]).collect();
        let numbered = self.numbered(&texts)?;
        self.install(chunk, numbered, &references)
    }

    /// Gives a chunk of places a dictionary, if few of its texts differ.
    fn write_as_codes(&mut self, chunk: usize) -> Result<bool, OutOfMemory> {
        let mut codes = HashTable::<u16>::new();
        let mut texts: Vec<&[u8]> = Vec::new();
        let mut references = Vec::with_capacity(self.rows_of());
        for row in 0..self.rows_of() {
            let text = self.text(chunk, row);
            let hash = self.hasher.hash_one(text);
            let known = codes.find(hash, |code| texts[*code as usize] == text).copied();
            if known.is_none() {
                if texts.len() == MOST {
                    return Ok(false);
                }
                codes.insert_unique(hash, texts.len() as u16, |code| self.hasher.hash_one(texts[*code as usize]));
                texts.push(text);
            }
            references.push(known.map_or(texts.len() as u64 - 1, u64::from));
        }
        let numbered = self.numbered(&texts)?;
        self.install(chunk, numbered, &references)?;
        Ok(true)
    }

    /// A dictionary of distinct texts.
    fn numbered(&self, texts: &[&[u8]]) -> Result<(Heap, Box<Dictionary>), OutOfMemory> {
        let mut dictionary = Box::new(Dictionary::new(&self.pool));
        let mut heap = Heap::default();
        let total = texts.iter().map(|text| record_bytes(text.len())).sum::<usize>();
        for text in texts {
            let place = heap.append_of(text, total - heap.written(), &self.pool)?;
            dictionary.add(place, &heap, &self.hasher)?;
        }
        Ok((heap, dictionary))
    }

    /// From codes to the places that they stand for. No text is copied: rows may share one.
    fn give_up_codes(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let places: Vec<Option<Place>> = (0..self.rows_of()).map(|row| self.place(chunk, row)).collect();
        self.refer_to(chunk, &places)?;
        self.chunks[chunk].dictionary = None;
        Ok(())
    }

    /// Writes the texts of a chunk of places anew, one behind the other. Rows that shared one still do.
    fn compact(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let old: Vec<Option<Place>> = (0..self.rows_of()).map(|row| self.place(chunk, row)).collect();
        let of = &self.chunks[chunk];
        let bytes = |place: &Place| record_bytes(of.heap.text(*place).len());
        let distinct: HashSet<Place> = old.iter().flatten().copied().collect();
        let (mut heap, mut rest) = (Heap::default(), distinct.iter().map(bytes).sum());
        let mut moved = HashMap::with_capacity(distinct.len());
        let mut places = Vec::with_capacity(old.len());
        for place in old {
            let Some(place) = place else {
                places.push(None);
                continue;
            };
            if let Entry::Vacant(entry) = moved.entry(place) {
                entry.insert(heap.append_of(of.heap.text(place), rest, &self.pool)?);
                rest -= bytes(&place);
            }
            places.push(Some(moved[&place]));
        }
        self.refer_to(chunk, &places)?;
        self.chunks[chunk].heap = heap;
        Ok(())
    }

    /// Replaces the codes or places of a chunk by places.
    fn refer_to(&mut self, chunk: usize, places: &[Option<Place>]) -> Result<(), OutOfMemory> {
        let fits = |form: Form| places.iter().all(|place| form.write(*place).is_some());
        let form = if fits(Form::Places(4)) { Form::Places(4) } else { Form::Places(8) };
        let references: Vec<u64> = places.iter().map(|place| form.write(*place).unwrap_or(0)).collect();
        self.refer(chunk, form, &references)
    }

    /// Gives a chunk another dictionary, and codes for it.
    fn install(
        &mut self,
        chunk: usize,
        (heap, dictionary): (Heap, Box<Dictionary>),
        references: &[u64],
    ) -> Result<(), OutOfMemory> {
        self.refer(chunk, Form::for_entries(dictionary.len()), references)?;
        let of = &mut self.chunks[chunk];
        (of.heap, of.dictionary) = (heap, Some(dictionary));
        Ok(())
    }

    /// Replaces the codes or places of a chunk.
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
        };
        Ok(TextSnapshot::new(self.region.snapshot()?, self.chunks.iter().map(texts).collect(), &self.pool))
    }

    /// See [`EpochRegion::tidy`].
    pub fn tidy(&mut self, runs: usize) -> usize {
        self.region.tidy(runs)
    }

    pub fn is_tidy(&self) -> bool {
        self.region.is_tidy()
    }

    pub fn bytes(&self) -> u64 {
        let texts = |chunk: &Chunk| chunk.heap.bytes() + chunk.dictionary.as_ref().map_or(0, |d| d.bytes());
        self.region.bytes() + self.chunks.iter().map(texts).sum::<u64>()
    }
}

fn run_bytes(width: usize, rows: usize) -> usize {
    (width * rows).max(SHORTEST)
}

#[inline]
fn image<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.as_chunks::<N>().0[0]
}
