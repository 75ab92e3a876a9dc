//! A claim on the pool's memory, which is raised and lowered in large steps, so that most transactions do not touch the
//! pool's shared counter.

use snapmem::{Charge, OutOfMemory, Pool};

const SMALLEST_STEP: u64 = 1 << 10;
const LARGEST_STEP: u64 = 64 << 10;

#[derive(Debug)]
pub struct Claim {
    bytes: u64,
    charge: Charge,
}

impl Claim {
    pub fn new(pool: &Pool) -> Claim {
        Claim { bytes: 0, charge: pool.charge() }
    }

    /// The bytes in use. The pool is charged for at least this many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn add(&mut self, bytes: u64) -> Result<(), OutOfMemory> {
        self.bytes += bytes;
        if self.bytes > self.charge.bytes() {
            self.charge.set(self.bytes + self.step())?;
        }
        Ok(())
    }

    pub fn subtract(&mut self, bytes: u64) {
        self.bytes -= bytes;
        let keep = if self.bytes == 0 { 0 } else { self.bytes + self.step() };
        if keep == 0 || self.bytes + 4 * self.step() < self.charge.bytes() {
            // The result can be ignored, because reducing a charge cannot fail.
            let _ = self.charge.set(keep);
        }
    }

    /// The number of bytes by which the charge is raised or lowered. Small claims have small steps, because there are
    /// many of them (one per table), and the charge of each may exceed its use by up to a step.
    fn step(&self) -> u64 {
        self.bytes.clamp(SMALLEST_STEP, LARGEST_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_claimed_for_nothing() {
        let pool = Pool::new(1 << 20);
        let mut claim = Claim::new(&pool);
        for bytes in [1, 2000, 4000, 100_000] {
            claim.add(bytes).unwrap();
            assert!(pool.used() >= bytes);
            claim.subtract(bytes);
            assert_eq!((claim.bytes(), pool.used()), (0, 0), "after {bytes} bytes");
        }
    }
}
