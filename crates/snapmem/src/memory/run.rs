//! The bytes of a run, as readers hold them.

use std::any::Any;
use std::fmt::{self, Debug};
use std::ops::Deref;
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// Immutable bytes, aligned for Arrow. They neither move nor change until the last clone of the run is dropped.
#[derive(Clone)]
pub struct Run {
    start: NonNull<u8>,
    bytes: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

impl Run {
    /// A run over bytes that `owner` keeps.
    ///
    /// # Safety
    ///
    /// As long as `owner` or a clone of it lives, the bytes are initialised, stay in place, and nobody writes to them.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> Run {
        Run { start, bytes, owner }
    }

    /// The first bytes of the run.
    pub(crate) fn shortened(self, bytes: usize) -> Run {
        assert!(bytes <= self.bytes);
        Run { bytes, ..self }
    }

    /// The owner that keeps the bytes alive.
    pub fn owner(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.owner
    }
}

// SAFETY: a run only allows reading bytes that nobody writes to, and its owner may be sent and shared.
#[allow(unsafe_code)]
unsafe impl Send for Run {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Run {}

// The bytes never change, so a panic elsewhere cannot leave them half changed.
impl RefUnwindSafe for Run {}

impl Deref for Run {
    type Target = [u8];

    #[inline]
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `new`'s caller ensures initialised, unchanging bytes as long as `owner` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({} bytes)", self.bytes)
    }
}
