//! A text column as it was, in Arrow's form: a view of 16 bytes for each text.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_buffer::Buffer;
use snapmem::{Charge, EpochSnapshot, OutOfMemory, Pool};

use super::Form;
use super::dictionary::Entries;
use super::heap::{Block, Place, text_at};
use crate::chunk::split;
use crate::patches::{self, Patches};
use crate::view::Pick;
use crate::zero_copy;

/// Longest text that lies in Arrow's view of it.
const INLINE: usize = 12;
/// Offsets are 32 bits wide, with a sign.
const MAX_PATCHES: usize = i32::MAX as usize;

/// A text column as it was, and private patches to it.
#[derive(Debug)]
pub struct TextSnapshot {
    references: EpochSnapshot,
    chunks: Vec<ChunkTexts>,
    /// Views in Arrow's form.
    patches: Patches,
    /// Long texts of patches, by chunk. Their block is numbered behind the chunk's own.
    long: HashMap<usize, Vec<u8>>,
    /// The same, once there will be no more of them.
    sealed: HashMap<usize, Buffer>,
    charge: Charge,
}

/// What the codes or places of a chunk refer to.
#[derive(Debug)]
pub struct ChunkTexts {
    pub blocks: Arc<Vec<Block>>,
    pub entries: Option<Entries>,
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
    /// Views of the texts that codes or places refer to.
    fn views(&self, form: Form, run: &[u8], pick: Pick<'_>) -> Vec<u128> {
        fn of<const N: usize>(run: &[u8], pick: Pick<'_>, view: impl Fn([u8; N]) -> u128) -> Vec<u128> {
            let references = run.as_chunks::<N>().0;
            pick.map(|row| view(references[row]))
        }
        let empty = inline_view(&[]);
        match form {
            Form::Codes(width) => {
                let entries = self.entries.iter();
                let of_entry = |entries: &Entries, code| self.view(entries.place(code));
                let views = entries.flat_map(|entries| (0..entries.len()).map(move |code| of_entry(entries, code)));
                let mut views: Vec<u128> = views.collect();
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
        }
    }
}

impl TextSnapshot {
    pub fn new(references: EpochSnapshot, chunks: Vec<ChunkTexts>, pool: &Pool) -> TextSnapshot {
        let (long, sealed) = Default::default();
        TextSnapshot { references, chunks, patches: Patches::new(pool), long, sealed, charge: pool.charge() }
    }

    pub fn patch(&mut self, slot: u32, text: &[u8]) -> Result<(), OutOfMemory> {
        let view = if text.len() <= INLINE { inline_view(text) } else { self.add_long(split(slot).0, text)? };
        self.patches.add(slot, view)
    }

    fn add_long(&mut self, chunk: usize, text: &[u8]) -> Result<u128, OutOfMemory> {
        self.charge.set(self.charge.bytes() + text.len() as u64)?;
        let block = self.chunks[chunk].blocks.len() as u32;
        let long = self.long.entry(chunk).or_default();
        let offset = long.len();
        if offset + text.len() > MAX_PATCHES {
            return Err(OutOfMemory { wanted: text.len() as u64, limit: MAX_PATCHES as u64 });
        }
        long.extend_from_slice(text);
        Ok(long_view(text, block, offset as u32))
    }

    /// No more patches.
    pub fn seal(&mut self) {
        let long = std::mem::take(&mut self.long).into_iter();
        self.sealed = long.map(|(chunk, texts)| (chunk, Buffer::from_vec(texts))).collect();
    }

    /// Arrow's views of a chunk's texts.
    pub fn views(&self, chunk: usize, pick: Pick<'_>) -> Result<Buffer, OutOfMemory> {
        let (run, label) = self.references.labelled_run(chunk)?;
        let (form, texts, patches) = (Form::from_label(label), &self.chunks[chunk], self.patches.of(chunk));
        if patches.is_empty() {
            return Ok(Buffer::from_vec(texts.views(form, &run, pick)));
        }
        let mut views = texts.views(form, &run, Pick::First(pick.reach()));
        patches::put(patches, &mut views, |view| view);
        Ok(Buffer::from_vec(patches::picked(views, pick)))
    }

    /// The chunk's blocks, as the views number them.
    pub fn buffers(&self, chunk: usize) -> Vec<Buffer> {
        let buffer = |block: &Block| {
            let (run, used) = block.clone().into_run();
            zero_copy::buffer(run, used)
        };
        self.chunks[chunk].blocks.iter().map(buffer).chain(self.sealed.get(&chunk).cloned()).collect()
    }
}

/// length: u32 | bytes, zero-padded
fn inline_view(text: &[u8]) -> u128 {
    let mut view = [0; 16];
    view[0] = text.len() as u8;
    view[4..4 + text.len()].copy_from_slice(text);
    u128::from_le_bytes(view)
}

/// length: u32 | first 4 bytes | block: u32 | offset: u32
fn long_view(text: &[u8], block: u32, offset: u32) -> u128 {
    let prefix = u32::from_le_bytes([text[0], text[1], text[2], text[3]]);
    text.len() as u128 | u128::from(prefix) << 32 | u128::from(block) << 64 | u128::from(offset) << 96
}
