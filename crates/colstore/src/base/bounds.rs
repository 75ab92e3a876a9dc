//! Zone maps: the least and the greatest value of each chunk. Readers read them while the writer goes on.
//!
//! Bounds that a reader holds only become wider, so they stay valid for every snapshot that was taken with them.
//! Tighter bounds are stored in a new copy, which only later snapshots get.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The number of chunks whose bounds are allocated together.
const SEGMENT: usize = 64;

/// The least and the greatest value of each chunk of a segment. A value outside of the range of `i64` is stored as the
/// nearest end of that range.
type Segment = [[AtomicI64; 2]; SEGMENT];

#[derive(Clone, Debug)]
pub struct Bounds {
    segments: Arc<RwLock<Vec<Arc<Segment>>>>,
    /// The number of low bits that are cut off each value before it is stored: 64 for values of 128 bits, because an
    /// entry has only 64 bits.
    unseen: u32,
}

impl Bounds {
    pub fn new(unseen: u32) -> Bounds {
        Bounds { segments: Arc::default(), unseen }
    }

    /// Makes room for this many chunks, whose bounds are empty at first. Only the writer calls this.
    pub fn grow(&self, chunks: usize) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        while segments.len() * SEGMENT < chunks {
            segments.push(Arc::new([const { [AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN)] }; SEGMENT]));
        }
    }

    /// The list of segments. It is only ever extended, so it is valid even if another thread has panicked.
    fn segments(&self) -> RwLockReadGuard<'_, Vec<Arc<Segment>>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets wider bounds. The writer calls this before it writes a value outside of the old bounds.
    pub fn widen(&self, chunk: usize, low: i128, high: i128) {
        let clamped = |value: i128| (value >> self.unseen).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        let segments = self.segments();
        let [own_low, own_high] = &segments[chunk / SEGMENT][chunk % SEGMENT];
        own_low.store(clamped(low), Ordering::Relaxed);
        own_high.store(clamped(high), Ordering::Relaxed);
    }

    /// Sets tighter bounds, in a copy of the chunk's segment; only the writer calls this. Snapshots that hold the old
    /// segment do not see later changes of the bounds in it. They do not need to, because they do not see values that
    /// are written later.
    pub fn tighten(&mut self, chunk: usize, low: i128, high: i128) {
        let mut segments = self.segments().clone();
        let segment = &mut segments[chunk / SEGMENT];
        let copy = |[low, high]: &[AtomicI64; 2]| [low, high].map(|end| AtomicI64::new(end.load(Ordering::Relaxed)));
        *segment = Arc::new(std::array::from_fn(|at| copy(&segment[at])));
        self.segments = Arc::new(RwLock::new(segments));
        self.widen(chunk, low, high);
    }

    /// The least and the greatest value of a chunk, as the holder of these bounds sees them. If the chunk has no value,
    /// the first is greater than the second.
    pub fn of(&self, chunk: usize) -> (i128, i128) {
        let segments = self.segments();
        // Relaxed loads suffice, because the snapshot was handed to its holder after its values and their bounds were
        // written.
        let [low, high] = &segments[chunk / SEGMENT][chunk % SEGMENT];
        let low = match low.load(Ordering::Relaxed) {
            i64::MIN => i128::MIN,
            low => i128::from(low) << self.unseen,
        };
        let high = match high.load(Ordering::Relaxed) {
            i64::MAX => i128::MAX,
            high => (i128::from(high) << self.unseen) + ((1 << self.unseen) - 1),
        };
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_whatever_the_values() {
        let bounds = Bounds::new(0);
        bounds.grow(100);
        let (low, high) = bounds.of(99);
        assert!(low > high, "no values");
        let ends = [
            i128::MIN,
            i64::MIN as i128 - 1,
            i64::MIN as i128,
            -7,
            0,
            i64::MAX as i128,
            i64::MAX as i128 + 1,
            i128::MAX,
        ];
        for (at, low) in ends.into_iter().enumerate() {
            for high in ends[at..].iter().copied() {
                bounds.widen(70, low, high);
                let (found_low, found_high) = bounds.of(70);
                assert!(found_low <= low && high <= found_high, "{low} to {high}: {found_low} to {found_high}");
            }
        }
        bounds.widen(3, -5, 12);
        assert_eq!((bounds.of(3), bounds.of(69).0), ((-5, 12), i64::MAX as i128));
    }

    #[test]
    fn who_has_bounds_keeps_them_when_they_become_tighter() {
        let mut bounds = Bounds::new(0);
        bounds.grow(100);
        for chunk in [0, 63, 64] {
            bounds.widen(chunk, 0, 100);
        }
        let before = bounds.clone();
        bounds.tighten(63, 5, 7);
        bounds.widen(64, -1, 100);
        bounds.tighten(0, i128::MAX, i128::MIN);
        assert_eq!([0, 63].map(|chunk| before.of(chunk)), [(0, 100); 2]);
        assert_eq!([63, 64].map(|chunk| bounds.of(chunk)), [(5, 7), (-1, 100)]);
        let (low, high) = bounds.of(0);
        assert!(low > high, "no values are left");
    }

    #[test]
    fn bounds_hold_without_the_low_bits() {
        let bounds = Bounds::new(64);
        bounds.grow(1);
        let (low, high) = bounds.of(0);
        assert!(low > high, "no values");
        let ends = [i128::MIN, -(5 << 64) - 1, -(5 << 64), -1, 0, 1, (1 << 64) - 1, 1 << 64, i128::MAX];
        for (at, low) in ends.into_iter().enumerate() {
            for high in ends[at..].iter().copied() {
                bounds.widen(0, low, high);
                let (found_low, found_high) = bounds.of(0);
                assert!(found_low <= low && high <= found_high, "{low} to {high}: {found_low} to {found_high}");
                assert!(low - found_low < 1 << 64 && found_high - high < 1 << 64, "{low} to {high}");
            }
        }
    }
}
