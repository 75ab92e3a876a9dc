//! The groups: a hash table in memory that is allocated before the fork, because the child must not allocate.

use super::evaluate::{Registers, State};
use super::program::{Program, What};
use super::trouble::Trouble;

/// The greatest number of groups; a query with more runs on the heap.
const MOST_GROUPS: usize = 1 << 16;
/// The approximate memory that the groups may take, in bytes.
const MOST_BYTES: usize = 16 << 20;
/// The mark of an empty place in the hash table.
const NOBODY: u32 = u32::MAX;

pub struct Groups {
    /// The hash table: each place holds the number of a group. There are at least twice as many places as groups.
    places: Vec<u32>,
    count: usize,
    most: usize,
    /// The keys of each group.
    keys: Vec<i128>,
    nulls: Vec<bool>,
    /// For each group and call, the number of values that were not null. `values` holds the aggregate of these values.
    counts: Vec<u64>,
    values: Vec<i128>,
    /// The key of the current row.
    key: Vec<i128>,
    null: Vec<bool>,
}

impl Groups {
    /// The number of groups that a child can make.
    pub fn most(program: &Program) -> usize {
        let group = Groups::group_bytes(program).max(1);
        if program.keys.is_empty() { 1 } else { (MOST_BYTES / group).min(MOST_GROUPS) }
    }

    fn group_bytes(program: &Program) -> usize {
        program.keys.len() * (size_of::<i128>() + 1) + program.calls.len() * (size_of::<i128>() + size_of::<u64>())
    }

    pub fn bytes(program: &Program) -> usize {
        Groups::most(program) * (Groups::group_bytes(program) + 4 * size_of::<u32>())
    }

    pub fn new(program: &Program) -> Groups {
        let most = Groups::most(program);
        let (keys, calls) = (program.keys.len(), program.calls.len());
        Groups {
            places: vec![NOBODY; (2 * most).next_power_of_two()],
            // Without keys, all rows form one group, which exists even without rows.
            count: usize::from(keys == 0),
            most,
            keys: vec![0; most * keys],
            nulls: vec![false; most * keys],
            counts: vec![0; most * calls],
            values: vec![0; most * calls],
            key: vec![0; keys],
            null: vec![false; keys],
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// The keys of a group; `None` for a null.
    pub fn keys(&self, group: usize) -> impl Iterator<Item = Option<i128>> {
        let keys = self.key.len();
        let of = group * keys..(group + 1) * keys;
        self.keys[of.clone()].iter().zip(&self.nulls[of]).map(|(key, null)| (!null).then_some(*key))
    }

    /// The number of values and their aggregate, for each call.
    pub fn calls(&self, group: usize, program: &Program) -> impl Iterator<Item = (u64, i128)> {
        let calls = program.calls.len();
        let of = group * calls..(group + 1) * calls;
        self.counts[of.clone()].iter().copied().zip(self.values[of].iter().copied())
    }

    /// Adds the rows that have passed the conditions.
    pub fn add(&mut self, program: &Program, registers: &Registers, rows: usize) -> Result<(), Trouble> {
        let mut group = 0;
        for at in 0..rows {
            let row = registers.row(at);
            let mut same = at > 0;
            for (i, key) in program.keys.iter().enumerate() {
                let state = registers.state(key.register, row);
                let value = if state == State::Value { registers.value(key.register, row) } else { 0 };
                if state == State::Error {
                    return Err(Trouble::Raised);
                }
                if key.is_text && value == colstore::LONG_TEXT {
                    return Err(Trouble::LongText);
                }
                let null = state == State::Null;
                same &= self.key[i] == value && self.null[i] == null;
                (self.key[i], self.null[i]) = (value, null);
            }
            // A row often belongs to the same group as the row before, so the group is looked up only if a key differs.
            if !same && !program.keys.is_empty() {
                group = self.find()?;
            }
            self.count_row(program, registers, group, row)?;
        }
        Ok(())
    }

    /// Finds or adds the group of the current key.
    fn find(&mut self) -> Result<usize, Trouble> {
        let keys = self.key.len();
        let mask = self.places.len() - 1;
        let mut place = hash(&self.key) & mask;
        loop {
            let group = self.places[place];
            if group == NOBODY {
                break;
            }
            let of = group as usize * keys..(group as usize + 1) * keys;
            if self.keys[of.clone()] == self.key && self.nulls[of] == self.null {
                return Ok(group as usize);
            }
            place = (place + 1) & mask;
        }
        if self.count == self.most {
            return Err(Trouble::TooManyGroups);
        }
        let group = self.count;
        self.count += 1;
        self.places[place] = group as u32;
        self.keys[group * keys..(group + 1) * keys].copy_from_slice(&self.key);
        self.nulls[group * keys..(group + 1) * keys].copy_from_slice(&self.null);
        Ok(group)
    }

    #[inline]
    fn count_row(&mut self, program: &Program, registers: &Registers, group: usize, row: u32) -> Result<(), Trouble> {
        for (i, call) in program.calls.iter().enumerate() {
            let at = group * program.calls.len() + i;
            let mut value = 0;
            if let Some(register) = call.of {
                match registers.state(register, row) {
                    State::Value => value = registers.value(register, row),
                    State::Null => continue,
                    State::Error => return Err(Trouble::Raised),
                }
            }
            let (count, kept) = (&mut self.counts[at], &mut self.values[at]);
            match call.what {
                What::Count => {}
                What::Sum => *kept = kept.checked_add(value).ok_or(Trouble::Raised)?,
                What::Min if *count > 0 => *kept = value.min(*kept),
                What::Max if *count > 0 => *kept = value.max(*kept),
                What::Min | What::Max => *kept = value,
            }
            *count += 1;
        }
        Ok(())
    }
}

fn hash(key: &[i128]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(ODD);
    let words = key.iter().flat_map(|part| [*part as u64, (*part >> 64) as u64]);
    let hash = words.fold(0, mix);
    (hash ^ hash >> 32) as usize
}
