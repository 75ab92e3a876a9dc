//! Memory outside of operators that counts against the queries' limit, too.

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use protocol::request::Failure;

use crate::base::error;
use crate::runtime::Runtime;

/// Memory of a query, which is released when the value is dropped.
#[derive(Debug)]
pub struct Reservation(MemoryReservation);

impl Runtime {
    /// Reserves `bytes`. If there is too little memory, the failure is the same as for a query that gets no memory.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, Failure> {
        let reservation = MemoryConsumer::new("result").register(&self.environment.memory_pool);
        // The pool adds numbers without a check for overflow. Half of the greatest number cannot overflow, and exceeds
        // every limit.
        reservation.try_grow(bytes.min(usize::MAX / 2)).map_err(|e| error::failure(&e))?;
        Ok(Reservation(reservation))
    }
}

impl Reservation {
    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.0.shrink(self.0.size().saturating_sub(bytes));
    }
}
