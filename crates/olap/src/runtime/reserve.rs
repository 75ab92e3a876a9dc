//! Memory outside of the operators that still counts against the queries' limit.

use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use protocol::request::Failure;

use crate::base::error;
use crate::runtime::Runtime;

/// Memory of a query; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation(MemoryReservation);

impl Runtime {
    /// Room for `bytes`, or the failure of a query that finds none.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, Failure> {
        let reservation = MemoryConsumer::new("result").register(&self.environment.memory_pool);
        reservation.try_grow(bytes).map_err(|e| error::failure(&e))?;
        Ok(Reservation(reservation))
    }
}

impl Reservation {
    /// Gives back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.0.shrink(self.0.size().saturating_sub(bytes));
    }
}
