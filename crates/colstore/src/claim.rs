//! A claim on the pool's memory that moves in steps, so that it costs nothing per transaction.

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

    /// What is really held.
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
        if self.bytes + 4 * self.step() < self.charge.bytes() {
            // Making a claim smaller does not fail.
            let _ = self.charge.set(self.bytes + self.step());
        }
    }

    /// Small for the many tables that change a little.
    fn step(&self) -> u64 {
        self.bytes.clamp(SMALLEST_STEP, LARGEST_STEP)
    }
}
