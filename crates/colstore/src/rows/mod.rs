//! The rows of one table: columns, liveness, key index, free slots.
//!
//! A row keeps its slot from insert to delete, even if an update changes its key. The cells of a deleted row stay in
//! the slot until the delete's undo is discarded ([`Rows::release`]). Only then may the slot hold another row.
//!
//! | file | job |
//! |---|---|
//! | `index` | the key index, from a key to its slot |
//! | `backlog` | transactions that wait until a snapshot sees them |
//! | `apply` | changes to rows, with their undo |
//! | `load` | chunks from images |
//! | `undo` | old values of recent transactions, gates, floor |

pub mod apply;
pub mod backlog;
pub mod index;
pub mod load;
pub mod undo;

use plan::{TableLayout, Type};
use snapmem::{Charge, Mechanism, OutOfMemory, Pool};

use crate::base::bitmap::Bitmap;
use crate::base::chunk::{CHUNK_ROWS, SMALLEST_CHUNK, split};
use crate::base::image::ImageFault;
use crate::base::quiet::Quiet;
use crate::base::stamps::Stamps;
use crate::cells::column::{Cell, Column};
use crate::rows::index::{Duplicate, KeyIndex};
use crate::rows::undo::OpWriter;

/// The factor by which the first chunk's room grows.
const CHUNK_GROWTH: usize = 4;
/// Numbers are recoded only while more than 1/8 of the memory limit is free, because snapshots may keep the old runs.
const ROOM_FOR_LOOKS: u64 = 8;
/// The number of a column's runs that are merged in one step.
const TIDY_RUNS: usize = 16;

/// The reason why a table's mirror has to be given up.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    OutOfMemory(#[from] OutOfMemory),
    #[error("an update or delete found no row")]
    RowMissing,
    #[error("an insert found its key")]
    Duplicate,
    #[error("more rows than the mirror can number")]
    TooManyRows,
    #[error("no room for a transaction of {megabytes} MB or more")]
    TransactionTooLarge { megabytes: u64 },
    #[error("image of a chunk is not usable: {0}")]
    Image(&'static str),
    #[error("change cannot be decoded: {0}")]
    Undecodable(String),
    #[error("loader announced {announced} rows and sent {sent}")]
    RowCount { announced: u64, sent: u64 },
}

impl Fault {
    /// Whether the fault is an error, as opposed to a limit that was reached.
    pub fn is_error(&self) -> bool {
        !matches!(self, Fault::OutOfMemory(_) | Fault::TooManyRows | Fault::TransactionTooLarge { .. })
    }
}

impl From<ImageFault> for Fault {
    fn from(fault: ImageFault) -> Fault {
        match fault {
            ImageFault::OutOfMemory(refused) => Fault::OutOfMemory(refused),
            ImageFault::Wrong(rule) => Fault::Image(rule),
        }
    }
}

#[derive(Debug)]
pub struct Rows {
    /// The columns of the layout, and the column of addresses.
    pub columns: Vec<Column>,
    pub live: Bitmap,
    /// For each chunk, when `live` was last changed.
    pub live_stamps: Stamps,
    /// The number of live rows in each chunk.
    pub live_counts: Vec<u32>,
    /// The number of slots that were ever used.
    pub slots: u32,
    /// The number of slots that the columns have room for.
    room: usize,
    pub count: u64,
    free: Vec<u32>,
    free_charge: Charge,
    /// The number of free slots in each chunk.
    free_counts: Vec<u32>,
    quiet: Quiet,
    has_numbers: bool,
    index: KeyIndex,
    /// The positions of the key's columns.
    identity: Vec<usize>,
    /// A buffer into which packed texts are unpacked.
    buffer: Vec<u8>,
    pool: Pool,
}

impl Rows {
    pub fn new(layout: &TableLayout, pool: &Pool, mechanism: Mechanism) -> Rows {
        let identity = layout.key();
        let column = |(at, ty): (usize, Type)| Column::new(ty, pool, mechanism, identity.contains(&at));
        let columns: Vec<Column> = layout.types().into_iter().enumerate().map(column).collect();
        Rows {
            has_numbers: columns.iter().any(Column::has_numbers),
            columns,
            live: Bitmap::new(pool, mechanism, false),
            live_stamps: Stamps::new(),
            live_counts: Vec::new(),
            slots: 0,
            room: 0,
            count: 0,
            free: Vec::new(),
            free_charge: pool.charge(),
            free_counts: Vec::new(),
            quiet: Quiet::default(),
            index: KeyIndex::new(pool),
            identity,
            buffer: Vec::new(),
            pool: pool.clone(),
        }
    }

    /// Does a step of work for an idle writer: merges lines of memory that were put aside for snapshots back into the
    /// columns, or rewrites a chunk of texts. Returns whether there was anything to do.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let columns: usize = self.columns.iter_mut().map(|column| column.tidy(TIDY_RUNS)).sum();
        let merged = columns + self.live.tidy(TIDY_RUNS) > 0;
        merged || self.columns.iter_mut().any(|column| column.tidy_rest(now_ms))
    }

    /// If a check is due, checks one column of one chunk for numbers that now fit in fewer bytes. Returns whether a
    /// check was due.
    pub fn look(&mut self, now_ms: u64) -> bool {
        let slots_of = |chunk: usize| CHUNK_ROWS.min(self.slots as usize - chunk * CHUNK_ROWS);
        // While a deleted row's slot is not free, undo may restore the row. So a chunk is settled if each of its slots
        // is live or free.
        let (live, free) = (&self.live_counts, &self.free_counts);
        let is_roomy = self.pool.room() > self.pool.limit() / ROOM_FOR_LOOKS;
        let is_settled = |chunk: usize| is_roomy && (live[chunk] + free[chunk]) as usize == slots_of(chunk);
        while let Some((chunk, column)) = self.quiet.next(now_ms, self.columns.len(), is_settled) {
            let column = &mut self.columns[column];
            if column.has_numbers() {
                let rows = slots_of(chunk);
                if !is_settled(chunk) || column.look_at(chunk, rows, &self.live.mask(chunk, rows)).is_err() {
                    // The chunk keeps its coding. It is checked again later, when there may be memory for a new coding.
                    self.quiet.written(chunk);
                }
                return true;
            }
        }
        false
    }

    /// The time at which [`Rows::look`] has something to check.
    pub fn next_look_ms(&self) -> Option<u64> {
        self.quiet.next_ms()
    }

    /// Schedules checks of the chunks that were written to.
    pub fn expect_looks(&mut self, now_ms: u64) {
        self.quiet.expect_looks(now_ms);
    }

    /// Whether [`Rows::tidy`] has nothing to do. This stays true until the next write.
    pub fn is_tidy(&self) -> bool {
        self.live.is_tidy() && self.columns.iter().all(Column::is_tidy)
    }

    pub fn identity(&self) -> &[usize] {
        &self.identity
    }

    /// The hash of a row's key.
    #[inline]
    pub fn hash(&self, key: &[Cell<'_>]) -> u64 {
        self.index.hash(key.iter().copied())
    }

    /// Prefetches the row whose key has this hash, and returns its slot. It may prefetch another row whose key has the
    /// same hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) -> Option<u32> {
        let slot = self.index.find(hash, |_| true)?;
        // The cells are scattered in memory. Prefetching all of them takes no longer than prefetching one, because the
        // processor loads them at the same time.
        self.columns.iter().for_each(|column| column.prefetch(slot));
        Some(slot)
    }

    /// Prefetches the row's texts. Call it some time after [`Rows::prefetch`].
    #[inline]
    pub fn prefetch_texts(&self, slot: u32) {
        self.columns.iter().for_each(|column| column.prefetch_text(slot));
    }

    /// The slot of a row whose key is `key`.
    #[inline]
    pub fn locate(&self, key: &[Cell<'_>], hash: u64) -> Option<u32> {
        let equal = |slot| self.identity.iter().zip(key).all(|(&column, cell)| self.columns[column].get(slot) == *cell);
        self.index.find(hash, equal)
    }

    /// Inserts a row, and returns its slot. Every cell must be given.
    pub fn insert(&mut self, row: &[Option<Cell<'_>>], hash: u64) -> Result<u32, Fault> {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.free_counts[split(slot).0] -= 1;
                self.overwritten(slot);
                slot
            }
            // A new slot overwrites no older value, so the chunk needs no check for tighter bounds.
            None => self.append()?,
        };
        for (column, cell) in self.columns.iter_mut().zip(row) {
            let cell = cell.ok_or_else(|| Fault::Undecodable("a new row lacks a value".into()))?;
            column.check(cell).map_err(undecodable)?;
            column.put(slot, cell)?;
        }
        self.enter(slot, hash)?;
        self.set_live(slot, true)?;
        Ok(slot)
    }

    /// Appends rows of a table that is being loaded: those from `done` on of `count` rows, given column by column.
    fn append_all(&mut self, columns: &[Vec<Cell<'_>>], mut done: usize, count: usize) -> Result<(), Fault> {
        while done < count {
            if self.slots as usize == self.room {
                self.grow()?;
            }
            let first = self.slots;
            let in_chunk = CHUNK_ROWS - first as usize % CHUNK_ROWS;
            let more = (count - done).min(in_chunk).min(self.room - first as usize);
            // Slot `u32::MAX` must not be used, because it marks the end of a chain in the index.
            let behind = first.checked_add(more as u32).ok_or(Fault::TooManyRows)?;
            for (column, cells) in self.columns.iter_mut().zip(columns) {
                let cells = &cells[done..done + more];
                cells.iter().try_for_each(|cell| column.check(*cell)).map_err(undecodable)?;
                column.fill(first, cells)?;
            }
            self.slots = behind;
            for slot in first..behind {
                self.enter(slot, self.hash_of(slot))?;
                self.set_live(slot, true)?;
            }
            done += more;
        }
        Ok(())
    }

    pub fn delete(&mut self, slot: u32, undo: &mut OpWriter) -> Result<(), Fault> {
        self.overwritten(slot);
        self.leave(slot)?;
        self.set_live(slot, false)?;
        undo.delete(slot);
        for (i, column) in self.columns.iter_mut().enumerate() {
            if column.forget_unholdable(slot)? {
                undo.unholdable(i);
            }
        }
        undo.end();
        Ok(())
    }

    /// Overwrites the cells of a row that differ from the present cells. `None` stands for an unchanged cell.
    /// `same_key` says that no cell of the key differs.
    pub fn update(
        &mut self,
        slot: u32,
        row: &[Option<Cell<'_>>],
        same_key: bool,
        undo: &mut OpWriter,
    ) -> Result<(), Fault> {
        let differs = |&&column: &&usize| row[column].is_some_and(|cell| !self.columns[column].has(slot, cell));
        let moves = !same_key && self.identity.iter().find(differs).is_some();
        if moves {
            self.leave(slot)?;
        }
        let Some((addresses, columns)) = self.columns.split_last_mut() else { return Ok(()) };
        // `row` may go on with cells of other rows.
        let address = row.get(columns.len()).copied().flatten();
        let mut changed = false;
        undo.update(slot);
        for (i, (column, cell)) in columns.iter_mut().zip(row).enumerate() {
            let Some(cell) = *cell else { continue };
            if !column.has(slot, cell) {
                changed = true;
                column.check(cell).map_err(undecodable)?;
                undo.old(i, column.read(slot, &mut self.buffer));
                column.put(slot, cell)?;
            }
        }
        match changed {
            true => undo.end(),
            false => undo.cancel(),
        }
        // No query reads addresses, so they need no undo.
        if let Some(address) = address {
            addresses.put(slot, address)?;
        }
        self.overwritten(slot);
        if moves { self.enter(slot, self.hash_of(slot)) } else { Ok(()) }
    }

    /// Frees the slot of a deleted row. No snapshot may need the row any more.
    pub fn release(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        for column in &mut self.columns {
            column.forget(slot)?;
        }
        self.set_free(slot)
    }

    /// Adds a slot to the free ones. Its cells may still hold what is no longer needed.
    fn set_free(&mut self, slot: u32) -> Result<(), OutOfMemory> {
        if self.free.len() == self.free.capacity() {
            let more = self.free.len().max(1024);
            let wanted = (more * size_of::<u32>()) as u64;
            self.free_charge.set(self.free_charge.bytes() + wanted)?;
            let limit = self.pool.limit();
            self.free.try_reserve_exact(more).map_err(|_| OutOfMemory::Limit { wanted, limit })?;
        }
        self.free.push(slot);
        self.free_counts[split(slot).0] += 1;
        Ok(())
    }

    /// Records that numbers in the slot's chunk were overwritten. The present numbers may need fewer bytes, so the
    /// chunk will be checked.
    #[inline]
    fn overwritten(&mut self, slot: u32) {
        if self.has_numbers {
            self.quiet.written(split(slot).0);
        }
    }

    fn append(&mut self) -> Result<u32, Fault> {
        let slot = self.slots;
        // Slot `u32::MAX` must not be used, because it marks the end of a chain in the index.
        if slot == u32::MAX {
            return Err(Fault::TooManyRows);
        }
        if slot as usize == self.room {
            self.grow()?;
        }
        self.slots += 1;
        Ok(slot)
    }

    /// Makes room. The first chunk grows gradually, so that small tables stay small; later chunks are added whole.
    fn grow(&mut self) -> Result<(), OutOfMemory> {
        let room = match self.room {
            0 => SMALLEST_CHUNK,
            room if room < CHUNK_ROWS => (room * CHUNK_GROWTH).min(CHUNK_ROWS),
            room => room + CHUNK_ROWS,
        };
        for column in &mut self.columns {
            column.grow(room)?;
        }
        self.live.grow(room)?;
        self.count_chunks(room);
        Ok(())
    }

    /// Makes room in everything that is counted for each chunk.
    fn count_chunks(&mut self, room: usize) {
        let chunks = room.div_ceil(CHUNK_ROWS);
        self.live_counts.resize(chunks, 0);
        self.live_stamps.grow(chunks);
        self.free_counts.resize(chunks, 0);
        self.quiet.grow(chunks);
        self.room = room;
    }

    fn set_live(&mut self, slot: u32, live: bool) -> Result<(), OutOfMemory> {
        self.live.set(slot, live)?;
        let (chunk, _) = split(slot);
        self.live_stamps.written(chunk);
        if live {
            self.live_counts[chunk] += 1;
            self.count += 1;
        } else {
            self.live_counts[chunk] -= 1;
            self.count -= 1;
        }
        Ok(())
    }

    fn hash_of(&self, slot: u32) -> u64 {
        self.index.hash(key(&self.columns, &self.identity, slot))
    }

    /// Adds a slot to the index. `hash` is the hash of the key that the slot's cells form now.
    fn enter(&mut self, slot: u32, hash: u64) -> Result<(), Fault> {
        let Rows { columns, identity, index, .. } = self;
        let key_of = |slot| key(columns, identity, slot);
        match index.insert(hash, slot, |other| key_of(other).eq(key_of(slot)), key_of)? {
            Ok(()) => Ok(()),
            Err(Duplicate) => Err(Fault::Duplicate),
        }
    }

    /// Removes a slot from the index. It must be called before the cells of the key change.
    fn leave(&mut self, slot: u32) -> Result<(), Fault> {
        let hash = self.hash_of(slot);
        if self.index.remove(hash, slot) { Ok(()) } else { Err(Fault::RowMissing) }
    }

    /// The memory of columns, bitmaps, texts and key index in bytes.
    pub fn bytes(&self) -> u64 {
        let columns: u64 = self.columns.iter().map(Column::bytes).sum();
        columns + self.live.bytes() + self.index.bytes() + self.free_charge.bytes()
    }

    pub fn index_bytes(&self) -> u64 {
        self.index.bytes()
    }
}

/// The fault of an invalid message.
pub fn undecodable(what: impl ToString) -> Fault {
    Fault::Undecodable(what.to_string())
}

fn key<'a>(columns: &'a [Column], identity: &'a [usize], slot: u32) -> impl Iterator<Item = Cell<'a>> {
    identity.iter().map(move |&column| columns[column].get(slot))
}
