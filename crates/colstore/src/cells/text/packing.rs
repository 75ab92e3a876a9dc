//! Packing of texts with few distinct characters into fewer bits.
//!
//! ```text
//!   codes of 6 bits    0 1 2 … 11 | 12 … 37 | 38 … 63
//!   characters         . / 0 …  9 |  A …  Z |  a …  z       a step (|) where unused characters are skipped
//! ```
//!
//! Characters are bytes here, so a character of several bytes in UTF-8 counts as several. The characters that a chunk
//! uses are numbered in their order. A gap between two of them is a step. Decoding needs no table: it compares a code
//! with each step, which the compiler does for many characters at once. Eight codes are packed into as many bytes as a
//! code has bits, without a branch.

use crate::base::image::{ImageFault, Reader, ensure};

/// The greatest number of steps. With more of them, packing is not worth it.
const MOST_STEPS: usize = 15;
/// The number of characters that are packed or unpacked at a time.
const BLOCK: usize = 32;
/// The number of codes that are packed together in one word.
const GROUP: usize = 8;
/// The possible lengths of a code in bits, shortest first.
const BITS: [u32; 3] = [4, 5, 6];

/// The number of uses of each character.
pub type Uses = [u32; 256];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// The length of a code in bits.
    bits: u32,
    /// The character of the code 0.
    first: u8,
    steps: [Step; MOST_STEPS],
    count: usize,
}

/// A step: a gap of `by` characters that have no code, directly before `character`, whose code is `code`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    code: u8,
    character: u8,
    by: u8,
}

impl Packing {
    /// A packing for texts with these uses of characters. If there are too many distinct characters, only the most
    /// frequent ones get a code; a text with any other character stays plain.
    pub fn of(uses: &Uses) -> Option<Packing> {
        let used: Vec<u8> = (0..=255).filter(|character| uses[usize::from(*character)] > 0).collect();
        let fitting = BITS.into_iter().filter(|bits| used.len() <= 1 << bits);
        // If the shortest possible codes leave too many gaps, longer codes can fill some of the gaps.
        let widest = BITS[BITS.len() - 1];
        fitting.chain([widest]).find_map(|bits| Packing::by(bits, uses, used.clone()))
    }

    fn by(bits: u32, uses: &Uses, mut used: Vec<u8>) -> Option<Packing> {
        used.sort_by_key(|character| std::cmp::Reverse(uses[usize::from(*character)]));
        used.truncate(1 << bits);
        used.sort_unstable();
        fill_gaps(&mut used, 1 << bits);
        let mut packing = Packing { bits, first: *used.first()?, steps: Default::default(), count: 0 };
        for (code, pair) in used.windows(2).enumerate() {
            let by = pair[1] - pair[0] - 1;
            if by > 0 {
                *packing.steps.get_mut(packing.count)? = Step { code: code as u8 + 1, character: pair[1], by };
                packing.count += 1;
            }
        }
        Some(packing)
    }

    /// Appends the packing to an image.
    pub fn encode(&self, into: &mut Vec<u8>) {
        into.extend([self.bits as u8, self.first, self.count as u8]);
        for Step { code, character, by } in &self.steps[..self.count] {
            into.extend([*code, *character, *by]);
        }
    }

    /// The packing in an image.
    pub fn decode(from: &mut Reader<'_>) -> Result<Packing, ImageFault> {
        let (bits, first, count) = (u32::from(from.u8()?), from.u8()?, usize::from(from.u8()?));
        ensure(BITS.contains(&bits) && count <= MOST_STEPS, "a packing of no known size")?;
        let mut packing = Packing { bits, first, steps: Default::default(), count };
        let (mut least, mut moved) = (1, u32::from(first));
        for step in &mut packing.steps[..count] {
            let (code, character, by) = (from.u8()?, from.u8()?, from.u8()?);
            moved += u32::from(by);
            let is_step =
                (least..1 << bits).contains(&code) && by > 0 && u32::from(character) == u32::from(code) + moved;
            ensure(is_step, "a packing that is none")?;
            (*step, least) = (Step { code, character, by }, code + 1);
        }
        Ok(packing)
    }

    /// The first 15 codes of a packed text that has at least as many characters, as a number. Such numbers have the
    /// order of the texts' first 15 characters.
    #[inline(always)]
    pub fn start(&self, packed: &[u8]) -> u128 {
        match self.bits {
            4 => start::<4>(packed),
            5 => start::<5>(packed),
            _ => start::<6>(packed),
        }
    }

    /// Whether all characters that a code stands for are ASCII.
    pub fn is_ascii(&self) -> bool {
        let moved: u32 = self.steps[..self.count].iter().map(|step| u32::from(step.by)).sum();
        u32::from(self.first) + moved + (1 << self.bits) <= 0x80
    }

    /// The length of a code in bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The length in bytes of this many packed characters.
    #[inline]
    pub fn bytes(&self, characters: usize) -> usize {
        (characters * self.bits as usize).div_ceil(8)
    }

    /// Packs a text and appends it, if all its characters have a code. Returns whether they have.
    pub fn append(&self, text: &[u8], to: &mut Vec<u8>) -> bool {
        let start = to.len();
        for block in text.chunks(BLOCK) {
            let mut characters = [self.first; BLOCK];
            characters[..block.len()].copy_from_slice(block);
            let codes = self.codes(&characters);
            if !codes.iter().all(|code| code >> self.bits == 0) || self.characters(&codes) != characters {
                to.truncate(start);
                return false;
            }
            for group in codes.as_chunks::<GROUP>().0.iter().take(block.len().div_ceil(GROUP)) {
                let packed = match self.bits {
                    4 => gathered::<4>(u64::from_le_bytes(*group)),
                    5 => gathered::<5>(u64::from_le_bytes(*group)),
                    _ => gathered::<6>(u64::from_le_bytes(*group)),
                };
                to.extend_from_slice(&packed.to_le_bytes()[..self.bits as usize]);
            }
        }
        to.truncate(start + self.bytes(text.len()));
        true
    }

    /// Whether the packed text equals `text`. Both must have the same number of characters.
    #[inline]
    pub fn is(&self, packed: &[u8], text: &[u8]) -> bool {
        text.chunks(BLOCK).enumerate().all(|(at, block)| self.block(packed, at, block.len())[..block.len()] == *block)
    }

    /// Unpacks the first `into.len()` characters of a text.
    #[inline]
    pub fn read(&self, packed: &[u8], into: &mut [u8]) {
        for (at, block) in into.chunks_mut(BLOCK).enumerate() {
            let length = block.len();
            block.copy_from_slice(&self.block(packed, at, length)[..length]);
        }
    }

    /// Like [`Packing::read`] for `characters` characters, but faster, because it writes whole blocks. `into` needs
    /// room for [`whole_blocks`] of `characters`.
    #[inline(always)]
    pub fn read_blocks(&self, packed: &[u8], characters: usize, into: &mut [u8]) {
        let blocks = into[..whole_blocks(characters)].as_chunks_mut::<BLOCK>().0;
        for (at, block) in blocks.iter_mut().enumerate() {
            *block = self.block(packed, at, characters - at * BLOCK);
        }
    }

    /// Unpacks the block with index `at`. Only its first `wanted` characters are needed.
    #[inline(always)]
    fn block(&self, packed: &[u8], at: usize, wanted: usize) -> [u8; BLOCK] {
        match self.bits {
            4 => self.block_of::<4>(packed, at, wanted),
            5 => self.block_of::<5>(packed, at, wanted),
            _ => self.block_of::<6>(packed, at, wanted),
        }
    }

    #[inline(always)]
    fn block_of<const B: u32>(&self, packed: &[u8], at: usize, wanted: usize) -> [u8; BLOCK] {
        let bytes = B as usize;
        let packed = &packed[at * (BLOCK / GROUP) * bytes..];
        let mut codes = [0; BLOCK];
        for (at, group) in codes.as_chunks_mut::<GROUP>().0.iter_mut().take(wanted.div_ceil(GROUP)).enumerate() {
            *group = spread::<B>(word(&packed[at * bytes..])).to_le_bytes();
        }
        self.characters(&codes)
    }

    #[inline(always)]
    fn characters(&self, codes: &[u8; BLOCK]) -> [u8; BLOCK] {
        let mut characters = codes.map(|code| code.wrapping_add(self.first));
        for Step { code, by, .. } in self.steps[..self.count].iter().copied() {
            for (character, own) in characters.iter_mut().zip(codes) {
                *character = character.wrapping_add(by & mask(*own >= code));
            }
        }
        characters
    }

    /// The code of each character. A character without a code gets an arbitrary number, which may be the code of
    /// another character.
    #[inline]
    fn codes(&self, characters: &[u8; BLOCK]) -> [u8; BLOCK] {
        let mut codes = characters.map(|character| character.wrapping_sub(self.first));
        for Step { character, by, .. } in self.steps[..self.count].iter().copied() {
            for (code, own) in codes.iter_mut().zip(characters) {
                *code = code.wrapping_sub(by & mask(*own >= character));
            }
        }
        codes
    }
}

/// The number of characters rounded up to whole blocks.
pub const fn whole_blocks(characters: usize) -> usize {
    characters.next_multiple_of(BLOCK)
}

/// A byte with all bits set if `is_set`, otherwise 0. The compiler vectorizes code with masks, but not code with
/// branches.
#[inline(always)]
fn mask(is_set: bool) -> u8 {
    0u8.wrapping_sub(is_set.into())
}

/// Fills the shortest gaps between used characters first, by adding the unused characters in them. The result has at
/// most `most` characters.
fn fill_gaps(used: &mut Vec<u8>, most: usize) {
    let mut gaps: Vec<(u8, u8)> = used.windows(2).map(|pair| (pair[0], pair[1])).collect();
    gaps.sort_by_key(|(low, high)| high - low);
    for (low, high) in gaps {
        let between = low + 1..high;
        if used.len() + between.len() <= most {
            used.extend(between);
        }
    }
    used.sort_unstable();
}

#[inline(always)]
fn start<const B: u32>(packed: &[u8]) -> u128 {
    let codes = |from: usize| spread::<B>(word(&packed[from..])).swap_bytes();
    (u128::from(codes(0)) << 64 | u128::from(codes(B as usize))) >> 8
}

/// The first eight bytes as a word. Missing bytes are zeros.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Spreads eight consecutive codes of `B` bits over the bytes of a word.
#[inline(always)]
fn spread<const B: u32>(word: u64) -> u64 {
    let (half, quarter, code) = masks::<B>();
    let word = word & half | (word >> (4 * B) & half) << 32;
    let word = word & quarter | (word & quarter << (2 * B)) << (16 - 2 * B);
    word & code | (word & code << B) << (8 - B)
}

/// The inverse of [`spread`]: eight bytes of a word become eight consecutive codes of `B` bits.
#[inline]
fn gathered<const B: u32>(word: u64) -> u64 {
    let (half, quarter, code) = masks::<B>();
    let word = word & code | word >> (8 - B) & code << B;
    let word = word & quarter | word >> (16 - 2 * B) & quarter << (2 * B);
    word & half | word >> (32 - 4 * B) & half << (4 * B)
}

/// Three masks: the lower four of eight codes; two codes in each half of a word; one code in each quarter.
const fn masks<const B: u32>() -> (u64, u64, u64) {
    ((1 << (4 * B)) - 1, ((1 << (2 * B)) - 1) * 0x0000_0001_0000_0001, ((1 << B) - 1) * 0x0001_0001_0001_0001)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn uses(texts: &[Vec<u8>]) -> Uses {
        let mut uses = [0; 256];
        texts.iter().flatten().for_each(|character| uses[usize::from(*character)] += 1);
        uses
    }

    fn check(packing: &Packing, texts: &[Vec<u8>], rnd: &mut StdRng) -> usize {
        let mut packed = Vec::new();
        let mut starts = Vec::new();
        let mut fit = 0;
        for text in texts {
            packed.clear();
            packed.extend_from_slice(b"before");
            if !packing.append(text, &mut packed) {
                assert_eq!(packed, b"before");
                continue;
            }
            fit += 1;
            assert_eq!(packed.len(), 6 + packing.bytes(text.len()));
            // Random bytes behind the text must not matter.
            packed.extend((0..rnd.random_range(0..10)).map(|_| rnd.random::<u8>()));
            let mut read = vec![1; text.len()];
            packing.read(&packed[6..], &mut read);
            assert_eq!(&read, text);
            assert!(packing.is(&packed[6..], text));
            if let Some(start) = text.first_chunk::<15>() {
                starts.push((packing.start(&packed[6..]), *start));
            }
            let mut blocks = vec![1; whole_blocks(text.len())];
            packing.read_blocks(&packed[6..], text.len(), &mut blocks);
            assert_eq!(&blocks[..text.len()], text);
            if !text.is_empty() {
                let mut other = text.clone();
                let at = rnd.random_range(0..other.len());
                other[at] = other[at].wrapping_add(rnd.random_range(1..=255));
                assert!(!packing.is(&packed[6..], &other), "{text:?} and {other:?}");
            }
        }
        for (number, start) in starts.windows(2).map(|pair| (pair[0].0.cmp(&pair[1].0), pair[0].1.cmp(&pair[1].1))) {
            assert_eq!(number, start, "{packing:?}");
        }
        fit
    }

    #[test]
    fn texts_of_every_alphabet_are_read_as_they_were() {
        let mut rnd = StdRng::seed_from_u64(3);
        let alphabets: [&[u8]; 9] = [
            b"a",
            b"01",
            b"0123456789",
            b"0123456789abcdef-",
            b"abcdefghijklmnopqrstuvwxyz ",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .",
            b"\x00\xff",
            "Příšerně žluťoučký kůň".as_bytes(),
            b"\x00\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0",
        ];
        for alphabet in alphabets {
            let text = |rnd: &mut StdRng| {
                let length = [rnd.random_range(0..40), rnd.random_range(0..600)][rnd.random_range(0..2)];
                (0..length).map(|_| alphabet[rnd.random_range(0..alphabet.len())]).collect::<Vec<u8>>()
            };
            let texts: Vec<Vec<u8>> = (0..200).map(|_| text(&mut rnd)).chain([alphabet.to_vec()]).collect();
            let packing = Packing::of(&uses(&texts)).unwrap();
            assert_eq!(check(&packing, &texts, &mut rnd), texts.len(), "{packing:?}");
            let distinct = alphabet.iter().collect::<std::collections::HashSet<_>>().len();
            assert!(distinct <= 1 << packing.bits() && (packing.bits() == 4 || distinct > 1 << (packing.bits() - 1)));
        }
    }

    #[test]
    fn alphabets_by_chance_hold_what_they_hold() {
        let mut rnd = StdRng::seed_from_u64(4);
        let mut packed = 0;
        for _ in 0..300 {
            let many = rnd.random_range(1..100);
            let span = rnd.random_range(1..=256);
            let alphabet: Vec<u8> = (0..many).map(|_| (rnd.random_range(0..span) + (256 - span)) as u8).collect();
            let texts: Vec<Vec<u8>> = (0..100)
                .map(|_| (0..rnd.random_range(0..70)).map(|_| alphabet[rnd.random_range(0..alphabet.len())]).collect())
                .collect();
            if let Some(packing) = Packing::of(&uses(&texts)) {
                let fit = check(&packing, &texts, &mut rnd);
                let distinct = texts.iter().flatten().collect::<std::collections::HashSet<_>>().len();
                assert!(fit == texts.len() || distinct > 64);
                packed += 1;
            }
        }
        assert!(packed > 100, "{packed}");
        assert_eq!(Packing::of(&[0; 256]), None);
    }

    #[test]
    fn longer_codes_fill_gaps_that_shorter_ones_leave() {
        let mut uses = [0; 256];
        (0..32).for_each(|at| uses[33 + 2 * at] = 1);
        let packing = Packing::of(&uses).unwrap();
        assert_eq!(packing.bits(), 6);
        assert!((0..32).all(|at| packing.append(&[33 + 2 * at], &mut Vec::new())));
        // There are more gaps than [`MOST_STEPS`], and each gap is too long to be filled.
        let mut far = [0; 256];
        (0..40).for_each(|at| far[6 * at] = 1);
        assert_eq!(Packing::of(&far), None);
    }

    #[test]
    fn characters_that_are_used_most_have_a_code() {
        let mut uses = [0; 256];
        (0..=255).for_each(|character: usize| uses[character] = if character < 100 { 1 + character as u32 } else { 0 });
        let packing = Packing::of(&uses).unwrap();
        let fits = |character: u8| packing.append(&[character], &mut Vec::new());
        assert!((36..100).all(fits) && !(0..36).any(fits) && !(100..=255).any(fits));
    }
}
