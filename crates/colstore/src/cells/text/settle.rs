//! Garbage collection in chunks: removes texts to which no slot refers, removes memory reserved for future texts, and
//! merges short blocks.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasher;

use hashbrown::HashTable;
use snapmem::OutOfMemory;

use super::dictionary::{Dictionary, MOST};
use super::heap::{Heap, Place, record_bytes};
use super::{MOST_AT_ONCE, TextColumn};

/// The live bytes are not counted again before this many bytes have changed.
const MIN_CHANGED: usize = 16 << 10;
/// The greatest number of bytes of text that one pass moves in a chunk that is too long to be rewritten in one piece.
const SWEPT_AT_ONCE: usize = 1 << 20;
/// Blocks below this size are merged if there are too many of them.
const SHORT_BLOCK: usize = 64 << 10;

impl TextColumn {
    /// Whether so much has changed that the live bytes of the heap should be counted again.
    pub(super) fn needs_a_look(&self, chunk: usize) -> bool {
        let of = &self.chunks[chunk];
        of.changed > of.settled / 2 + MIN_CHANGED || of.heap.has_many_blocks()
    }

    /// Rewrites the texts of a chunk if less than two thirds of their bytes are live, or if they lie in too many
    /// blocks.
    pub(super) fn settle(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let places: HashSet<Place> = (0..self.rows_of()).filter_map(|row| self.place(chunk, row)).collect();
        let of = &mut self.chunks[chunk];
        let used = places.iter().map(|place| record_bytes(of.heap.text(*place).len())).sum::<usize>();
        (of.settled, of.changed) = (used, 0);
        match used + used / 2 + MIN_CHANGED < of.heap.written() || of.heap.has_many_blocks() {
            true if used > MOST_AT_ONCE => {
                if of.dictionary.is_some() {
                    self.give_up_codes(chunk)?;
                }
                self.sweep(chunk, places)
            }
            true if of.dictionary.is_some() => self.drop_unused(chunk),
            true => self.compact(chunk),
            false => {
                // Nothing is rewritten now. The next check comes when the changed bytes amount to half of the heap.
                of.settled = of.heap.written();
                Ok(())
            }
        }
    }

    /// Makes room in a dictionary that has `most` entries, the greatest number allowed.
    pub(super) fn make_room(&mut self, chunk: usize, most: usize) -> Result<(), OutOfMemory> {
        // Dropping unused texts pays only if it makes room for many new ones. Otherwise the chunk gives up its
        // dictionary.
        let is_long = self.chunks[chunk].heap.written() > MOST_AT_ONCE;
        if !is_long && self.used(chunk).iter().filter(|used| **used).count() <= most / 2 {
            self.drop_unused(chunk)
        } else {
            self.give_up_codes(chunk)
        }
    }

    /// For each code, whether a slot uses it.
    fn used(&self, chunk: usize) -> Vec<bool> {
        let entries = self.chunks[chunk].dictionary.as_ref().map_or(0, |dictionary| dictionary.len());
        let mut used = vec![false; entries];
        if entries > 0 {
            (0..self.rows_of()).for_each(|row| used[self.reference(chunk, row) as usize] = true);
        }
        used
    }

    /// Rewrites a dictionary without texts to which no slot refers, and renumbers the codes.
    pub(super) fn drop_unused(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
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

    /// Gives a chunk with places a dictionary, if few of its texts differ. Returns whether the chunk has a dictionary
    /// now.
    pub(super) fn write_as_codes(&mut self, chunk: usize) -> Result<bool, OutOfMemory> {
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

    /// A dictionary with these texts, which are distinct, and the heap that holds them.
    pub(super) fn numbered(&self, texts: &[&[u8]]) -> Result<(Heap, Box<Dictionary>), OutOfMemory> {
        let mut dictionary = Box::new(Dictionary::new(&self.pool));
        let mut heap = Heap::default();
        let total = texts.iter().map(|text| record_bytes(text.len())).sum::<usize>();
        for text in texts {
            let place = heap.append_of(text, total - heap.written(), &self.pool)?;
            dictionary.add(place, &heap, &self.hasher)?;
        }
        Ok((heap, dictionary))
    }

    /// Replaces the codes of a chunk by the places that they stand for. No text is copied, so several rows may refer to
    /// the same text.
    pub(super) fn give_up_codes(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
        let places: Vec<Option<Place>> = (0..self.rows_of()).map(|row| self.place(chunk, row)).collect();
        self.refer_to(chunk, &places)?;
        self.chunks[chunk].dictionary = None;
        Ok(())
    }

    /// Rewrites the texts of a chunk with places, without gaps. Rows that share a text continue to share it.
    pub(super) fn compact(&mut self, chunk: usize) -> Result<(), OutOfMemory> {
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

    /// Collects garbage in a heap that is too long to be rewritten in one piece: drops blocks without live texts, moves
    /// the live texts out of some sparse blocks, and renumbers the remaining blocks. `used` has the places of all rows.
    fn sweep(&mut self, chunk: usize, used: HashSet<Place>) -> Result<(), OutOfMemory> {
        let of = &mut self.chunks[chunk];
        let old = &of.heap;
        let bytes = |places: &[Place]| places.iter().map(|place| record_bytes(old.text(*place).len())).sum::<usize>();
        let mut by_block = BTreeMap::<u32, Vec<Place>>::new();
        used.into_iter().for_each(|place| by_block.entry(place.block).or_default().push(place));
        let many = old.has_many_blocks();
        let is_worth_it =
            |block: u32, bytes: usize| 4 * bytes < 3 * old.block_bytes(block) || many && bytes < SHORT_BLOCK;
        let worth_it = by_block.iter().map(|(block, places)| (bytes(places), *block));
        let mut worth_it: Vec<(usize, u32)> = worth_it.filter(|(bytes, block)| is_worth_it(*block, *bytes)).collect();
        // Blocks with the fewest live bytes come first, because emptying them costs least.
        worth_it.sort_unstable();
        let mut left = SWEPT_AT_ONCE;
        let swept: HashSet<u32> = worth_it
            .iter()
            .map_while(|(bytes, block)| {
                left = left.checked_sub(*bytes)?;
                Some(*block)
            })
            .collect();
        let all = swept.len() == worth_it.len();
        let kept: Vec<u32> = by_block.keys().copied().filter(|block| !swept.contains(block)).collect();
        let mut heap = old.with_blocks(&kept);
        let mut moved = HashMap::new();
        for place in swept.iter().flat_map(|block| &by_block[block]) {
            moved.insert(*place, heap.append(old.text(*place), &self.pool)?);
        }
        let renumbered: HashMap<u32, u32> = kept.iter().copied().zip(0..).collect();
        let now = |place: Place| match moved.get(&place) {
            Some(moved) => *moved,
            None => Place { block: renumbered[&place.block], ..place },
        };
        let places: Vec<_> = (0..self.rows_of()).map(|row| self.place(chunk, row).map(now)).collect();
        self.refer_to(chunk, &places)?;
        let of = &mut self.chunks[chunk];
        of.heap = heap;
        if !all {
            // More blocks are worth emptying, so the next pass is due soon.
            of.changed = (of.settled / 2 + MIN_CHANGED).saturating_sub(SWEPT_AT_ONCE / 4);
        }
        Ok(())
    }
}
