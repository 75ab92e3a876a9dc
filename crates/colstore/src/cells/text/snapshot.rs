//! A snapshot of a text column in Arrow's form: a view of 16 bytes for each text.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::Buffer;
use snapmem::{Charge, ExtentsSnapshot, OutOfMemory, Pool, Run};

use super::dictionary::Entries;
use super::edges::Edges;
use super::form::Form;
use super::heap::{Block, Place, text_at};
use super::packing::whole_blocks;
use super::sequence::{Length, Sequence, Stored};
use crate::base::chunk::split;
use crate::base::fastest::{Loop, fastest};
use crate::base::pick::Pick;
use crate::base::zero_copy;
use crate::cells::patches::{self, Patches};

/// The length of the longest text that Arrow stores in the view itself.
const INLINE: usize = 12;
/// The greatest total length of a chunk's patched texts, because Arrow's offsets are signed numbers of 32 bits.
const MAX_PATCHES: usize = i32::MAX as usize;

/// A snapshot of a text column, with private patches.
#[derive(Debug)]
pub struct TextSnapshot {
    pub(super) references: ExtentsSnapshot,
    pub(super) chunks: Vec<ChunkTexts>,
    /// Patched cells: for each, the Arrow view of its older text.
    patches: Patches,
    /// The long texts of patches, by chunk. Views refer to them as one block, which is numbered after the chunk's own
    /// blocks.
    long: HashMap<usize, Vec<u8>>,
    /// The texts of `long` as buffers, made once all patches are there.
    sealed: HashMap<usize, Buffer>,
    reads: Arc<AtomicU64>,
    charge: Charge,
}

/// The texts that the codes or places of a chunk refer to.
#[derive(Debug)]
pub struct ChunkTexts {
    pub blocks: Arc<Vec<Block>>,
    pub entries: Option<Entries>,
    pub sequence: Option<Arc<Sequence>>,
    pub edges: Edges,
}

impl ChunkTexts {
    /// Arrow's view of a text.
    #[inline]
    fn view(&self, place: Place) -> u128 {
        let (start, text) = text_at(self.blocks[place.block as usize].bytes(), place.offset as usize);
        if text.len() <= INLINE { inline_view(text) } else { long_view(text, place.block, start as u32) }
    }
}

impl ChunkTexts {
    /// Views of a dictionary's entries, one after the other.
    fn entries(&self) -> Vec<u128> {
        let entries = self.entries.iter();
        let of_entry = |entries: &Entries, code| self.view(entries.place(code));
        entries.flat_map(|entries| (0..entries.len()).map(move |code| of_entry(entries, code))).collect()
    }

    /// Views of the texts that the codes or places of rows refer to.
    fn views(&self, form: Form, run: &[u8], pick: Pick<'_>) -> Vec<u128> {
        fn of<const N: usize>(run: &[u8], pick: Pick<'_>, view: impl Fn([u8; N]) -> u128) -> Vec<u128> {
            let references = run.as_chunks::<N>().0;
            pick.map(|row| view(references[row]))
        }
        let empty = inline_view(&[]);
        match form {
            Form::Codes(width) => {
                let mut views = self.entries();
                views.resize(views.len().max(1), empty);
                match width {
                    0 => vec![views[0]; pick.len()],
                    1 => of(run, pick, |[code]: [u8; 1]| views[code as usize]),
                    _ => of(run, pick, |code| views[u16::from_le_bytes(code) as usize]),
                }
            }
            Form::Places(width) => {
                let view = |place| form.read(place).map_or(empty, |place| self.view(place));
                match width {
                    4 => of(run, pick, |place| view(u32::from_le_bytes(place).into())),
                    _ => of(run, pick, |place| view(u64::from_le_bytes(place))),
                }
            }
            Form::Rows(_) => unreachable!("texts at rest have no places"),
        }
    }

    /// Views of the texts of a chunk at rest, and the long texts among them that had to be unpacked. The views refer to
    /// the unpacked texts as the block with number `own`.
    fn views_at_rest(
        &self,
        sequence: &Sequence,
        run: &[u8],
        width: usize,
        pick: Pick<'_>,
        own: u32,
    ) -> (Vec<u128>, Vec<u8>) {
        let block = self.blocks.first().map_or(&[][..], Block::bytes);
        let mut places = Vec::with_capacity(pick.len());
        sequence.walk(run, width, pick, |start, length| places.push((start, length)));
        fastest(ViewsAtRest { sequence, block, places: &places, own })
    }
}

/// A loop that makes a view from the start and length of each text.
struct ViewsAtRest<'a> {
    sequence: &'a Sequence,
    block: &'a [u8],
    places: &'a [(usize, Length)],
    own: u32,
}

impl Loop for ViewsAtRest<'_> {
    type Result = (Vec<u128>, Vec<u8>);

    #[inline(always)]
    fn run(self) -> Self::Result {
        let is_unpacked = |length: &Length| length.is_packed() && length.characters() > INLINE;
        let long = self.places.iter().filter(|(_, length)| is_unpacked(length));
        let total: usize = long.map(|(_, length)| length.characters()).sum();
        // Unpacking writes whole blocks of characters, so it may write beyond the end of a text. The next text then
        // overwrites that.
        let mut unpacked = vec![0; if total > 0 { whole_blocks(total) + whole_blocks(1) } else { 0 }];
        let (mut views, mut at) = (Vec::with_capacity(self.places.len()), 0);
        for &(start, length) in self.places {
            views.push(match self.sequence.stored(self.block, start, length) {
                Stored::Plain(text) if text.len() <= INLINE => inline_view(text),
                Stored::Plain(text) => long_view(text, 0, start as u32),
                Stored::Packed { packing, bytes, characters } if characters <= INLINE => {
                    let mut text = [0; whole_blocks(INLINE)];
                    packing.read_blocks(bytes, characters, &mut text);
                    inline_view(&text[..characters])
                }
                Stored::Packed { packing, bytes, characters } => {
                    packing.read_blocks(bytes, characters, &mut unpacked[at..]);
                    let view = long_view(&unpacked[at..at + characters], self.own, at as u32);
                    at += characters;
                    view
                }
            });
        }
        unpacked.truncate(at);
        (views, unpacked)
    }
}

impl TextSnapshot {
    /// A new snapshot. `reads` counts the texts that are read from chunks at rest.
    pub fn new(
        references: ExtentsSnapshot,
        chunks: Vec<ChunkTexts>,
        reads: Arc<AtomicU64>,
        pool: &Pool,
    ) -> TextSnapshot {
        let (long, sealed) = Default::default();
        let (patches, charge) = (Patches::new(pool), pool.charge());
        TextSnapshot { references, chunks, patches, long, sealed, reads, charge }
    }

    pub fn patch(&mut self, slot: u32, text: &[u8]) -> Result<(), OutOfMemory> {
        let view = if text.len() <= INLINE { inline_view(text) } else { self.add_long(split(slot).0, text)? };
        self.chunks[split(slot).0].edges.include(text);
        self.patches.add(slot, view)
    }

    /// The range of a chunk's texts, as places in [`plan::text_order`], including patched texts. The first is greater
    /// than the second if there are no texts.
    pub fn bounds(&self, chunk: usize) -> (i128, i128) {
        self.chunks[chunk].edges.bounds()
    }

    fn add_long(&mut self, chunk: usize, text: &[u8]) -> Result<u128, OutOfMemory> {
        self.charge.set(self.charge.bytes() + text.len() as u64)?;
        let block = self.chunks[chunk].blocks.len() as u32;
        let long = self.long.entry(chunk).or_default();
        let offset = long.len();
        if offset + text.len() > MAX_PATCHES {
            return Err(OutOfMemory::Limit { wanted: text.len() as u64, limit: MAX_PATCHES as u64 });
        }
        long.extend_from_slice(text);
        Ok(long_view(text, block, offset as u32))
    }

    /// Stops the counting of texts that this snapshot reads, because the reader is not a query.
    pub fn look_only(&mut self) {
        self.reads = Arc::default();
    }

    /// Turns the long patched texts into buffers. It is called when all patches have been made.
    pub fn seal(&mut self) {
        let long = std::mem::take(&mut self.long).into_iter();
        self.sealed = long.map(|(chunk, texts)| (chunk, Buffer::from_vec(texts))).collect();
    }

    /// The form in which a chunk is written, described for people.
    pub fn coding(&self, chunk: usize) -> Result<String, OutOfMemory> {
        let form = Form::from_label(self.references.labelled_run(chunk)?.1).in_words();
        let sequence = self.chunks[chunk].sequence.as_ref();
        Ok(match sequence.and_then(|sequence| sequence.packing) {
            Some(packing) => format!("{form}, {} bits a character", packing.bits()),
            None => form,
        })
    }

    /// Arrow's views of a chunk's texts, with the blocks that they refer to.
    pub fn texts(&self, chunk: usize, pick: Pick<'_>) -> Result<(Buffer, Vec<Buffer>), OutOfMemory> {
        let (run, label) = self.references.labelled_run(chunk)?;
        let (form, texts, patches) = (Form::from_label(label), &self.chunks[chunk], self.patches.of(chunk));
        let seen = if patches.is_empty() { pick } else { Pick::First(pick.reach()) };
        let mut blocks = self.blocks(chunk);
        let mut views = match &texts.sequence {
            Some(sequence) => {
                if sequence.is_packable() {
                    self.reads.fetch_add(pick.len() as u64, Ordering::Relaxed);
                }
                // The block of unpacked texts comes after the chunk's own blocks and the block of patched texts.
                let own = texts.blocks.len() + 1;
                let (views, unpacked) = texts.views_at_rest(sequence, &run, form.width(), seen, own as u32);
                if !unpacked.is_empty() {
                    blocks.resize_with(own, || Buffer::from(&[]));
                    blocks.push(Buffer::from_vec(unpacked));
                }
                views
            }
            None => texts.views(form, &run, seen),
        };
        if !patches.is_empty() {
            patches::put(patches, &mut views, |view| view);
            views = patches::picked(views, pick);
        }
        Ok((Buffer::from_vec(views), blocks))
    }

    /// The distinct texts of a chunk: a view of each, followed by the view of an empty text; the run with the code of
    /// each row; and the width of a code. `None` if the chunk has no dictionary, or has patches.
    pub fn distinct(&self, chunk: usize) -> Result<Option<(Vec<u128>, Run, usize)>, OutOfMemory> {
        let (run, label) = self.references.labelled_run(chunk)?;
        let texts = &self.chunks[chunk];
        Ok(match Form::from_label(label) {
            Form::Codes(width) if self.patches.of(chunk).is_empty() => {
                let mut views = texts.entries();
                views.push(inline_view(&[]));
                Some((views, run, width))
            }
            _ => None,
        })
    }

    /// The blocks to which a chunk's views refer, in the order of their numbers. The last block holds the patched
    /// texts.
    pub fn blocks(&self, chunk: usize) -> Vec<Buffer> {
        let buffer = |block: &Block| {
            let (run, used) = block.clone().into_run();
            zero_copy::buffer(run, used)
        };
        self.chunks[chunk].blocks.iter().map(buffer).chain(self.sealed.get(&chunk).cloned()).collect()
    }
}

/// The view of a short text: its length as u32, then its bytes, padded with zeros.
fn inline_view(text: &[u8]) -> u128 {
    let mut view = [0; 16];
    view[0] = text.len() as u8;
    view[4..4 + text.len()].copy_from_slice(text);
    u128::from_le_bytes(view)
}

/// The view of a long text: its length as u32, its first 4 bytes, its block as u32, its offset as u32.
fn long_view(text: &[u8], block: u32, offset: u32) -> u128 {
    let prefix = u32::from_le_bytes([text[0], text[1], text[2], text[3]]);
    text.len() as u128 | u128::from(prefix) << 32 | u128::from(block) << 64 | u128::from(offset) << 96
}
