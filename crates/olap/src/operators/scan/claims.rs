//! Distribution of chunks to threads. Each thread first reads its own range of chunks. Then it reads chunks from the
//! ranges of other threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use datafusion_common::error::{DataFusionError, Result};

#[derive(Debug)]
pub struct Claims {
    parts: Vec<Part>,
    /// Chunks that were taken but not read. Other readers take them.
    returned: Mutex<Vec<usize>>,
}

#[derive(Debug)]
struct Part {
    chunks: Range<usize>,
    next: AtomicUsize,
    begun: AtomicBool,
}

impl Claims {
    pub fn new(chunks: usize, partitions: usize) -> Claims {
        let part = |partition: usize| {
            let chunks = partition * chunks / partitions..(partition + 1) * chunks / partitions;
            Part { next: AtomicUsize::new(chunks.start), chunks, begun: AtomicBool::new(false) }
        };
        Claims { parts: (0..partitions).map(part).collect(), returned: Mutex::default() }
    }

    /// Begins a partition. A second call is an error, because a second reader would find no chunks.
    pub fn begin(&self, partition: usize) -> Result<()> {
        match self.parts[partition].begun.swap(true, Ordering::Relaxed) {
            true => Err(DataFusionError::Internal("a scan is read twice".into())),
            false => Ok(()),
        }
    }

    /// Takes the next chunk. No other reader gets it.
    pub fn next(&self, partition: usize) -> Option<usize> {
        let count = self.parts.len();
        let taken = (partition..partition + count).find_map(|part| self.parts[part % count].take());
        taken.or_else(|| self.returned.lock().unwrap_or_else(PoisonError::into_inner).pop())
    }

    /// Lets another reader continue with the partition. If `chunk` was taken but not read, that reader gets it, too.
    pub fn hand_over(&self, partition: usize, chunk: Option<usize>) {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).extend(chunk);
        self.parts[partition].begun.store(false, Ordering::Relaxed);
    }
}

impl Part {
    fn take(&self) -> Option<usize> {
        if self.next.load(Ordering::Relaxed) >= self.chunks.end {
            return None;
        }
        Some(self.next.fetch_add(1, Ordering::Relaxed)).filter(|chunk| *chunk < self.chunks.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_is_read_once_whoever_asks() {
        for (chunks, partitions) in [(0, 1), (1, 1), (10, 3), (733, 2)] {
            let claims = Claims::new(chunks, partitions);
            let mut taken: Vec<usize> = Vec::new();
            // The last partition takes the chunks of all.
            for partition in (0..partitions).rev() {
                taken.extend(std::iter::from_fn(|| claims.next(partition)).take(if partition > 0 {
                    2
                } else {
                    chunks
                }));
            }
            taken.sort_unstable();
            assert_eq!(taken, (0..chunks).collect::<Vec<_>>());
            assert_eq!(claims.next(partitions - 1), None);
        }
    }

    #[test]
    fn nobody_reads_a_partition_twice() {
        let claims = Claims::new(10, 2);
        assert!(claims.begin(1).is_ok() && claims.begin(0).is_ok());
        assert!(claims.begin(1).is_err());
        // Another reader continues with the partition.
        let chunk = claims.next(1);
        claims.hand_over(1, chunk);
        assert!(claims.begin(1).is_ok());
        assert_eq!(std::iter::from_fn(|| claims.next(1)).count(), 10);
    }
}
