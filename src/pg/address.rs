//! Addresses of rows.

use pgrx::pg_sys;

/// The greatest number of rows in a block (`MaxHeapTuplesPerPage`).
pub const ROWS_PER_BLOCK: u32 = {
    const PAGE_HEAD: u32 = 24;
    const SHORTEST_ROW: u32 = 24;
    const POINTER: u32 = 4;
    (pg_sys::BLCKSZ - PAGE_HEAD) / (SHORTEST_ROW + POINTER)
};

/// The address of a row, as a number without gaps between full pages. So addresses of rows that lie side by side take
/// few bytes in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(i64);

impl Address {
    /// The address of line `line`, which counts from 1, in a block.
    pub(super) fn new(block: u32, line: u16) -> Address {
        Address(i64::from(block) * i64::from(ROWS_PER_BLOCK) + i64::from(line) - 1)
    }

    /// The address that PostgreSQL writes like this (`ctid`).
    pub(super) fn of(place: pg_sys::ItemPointerData) -> Address {
        let block = u32::from(place.ip_blkid.bi_hi) << 16 | u32::from(place.ip_blkid.bi_lo);
        Address::new(block, place.ip_posid)
    }

    pub fn number(self) -> i64 {
        self.0
    }
}

/// The addresses of a changed row, before and after the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The file in which they are (`relfilenode`).
    pub file: u32,
    pub old: Option<Address>,
    pub new: Option<Address>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_full_pages_leave_no_gap() {
        assert_eq!(ROWS_PER_BLOCK, 291);
        assert_eq!(Address::new(0, 1).number(), 0);
        assert_eq!(Address::new(1, 1).number(), Address::new(0, 291).number() + 1);
        assert_eq!(Address::new(u32::MAX, 291).number(), (1 << 32) * 291 - 1);
    }
}
