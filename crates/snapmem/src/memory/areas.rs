//! A count of the kernel's areas of address space (VMAs) that mechanisms use.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory::error::Error;

/// The number of areas that mechanisms leave to the process, for code, stacks and large allocations.
const SPARE: usize = 4096;

/// Linux's default for vm.max_map_count.
const DEFAULT_LIMIT: usize = 65_530;

const HINT: &str = "the process has come near vm.max_map_count mapped areas: raise it, \
                    for example by sysctl -w vm.max_map_count=1048576";

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// A claim on a number of areas. It is released when dropped.
#[derive(Debug, Default)]
pub(crate) struct Areas(usize);

impl Areas {
    pub fn count(&self) -> usize {
        self.0
    }

    /// Changes the claim. On error, it stays as it was. Lowering it cannot fail.
    pub fn set(&mut self, count: usize) -> Result<(), Error> {
        if count > self.0 {
            let more = count - self.0;
            let claim = |limit: usize| {
                let fits = |used: usize| used.checked_add(more).filter(|&sum| sum <= limit.saturating_sub(SPARE));
                IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
            };
            // The administrator may have raised the limit since this process read it, so it is read again.
            if !claim(LIMIT.load(Ordering::Relaxed)) && !claim(read_limit()) {
                return Err(Error::System {
                    call: "mmap",
                    source: io::Error::from_raw_os_error(libc::ENOMEM),
                    hint: HINT,
                });
            }
            self.0 = count;
        } else {
            self.restore(count);
        }
        Ok(())
    }

    /// Sets the claim to its earlier value, even if there is no room.
    pub fn restore(&mut self, count: usize) {
        IN_USE.fetch_add(count.wrapping_sub(self.0), Ordering::Relaxed);
        self.0 = count;
    }
}

impl Drop for Areas {
    fn drop(&mut self) {
        IN_USE.fetch_sub(self.0, Ordering::Relaxed);
    }
}

fn read_limit() -> usize {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let limit = text.trim().parse().unwrap_or(DEFAULT_LIMIT);
    LIMIT.store(limit, Ordering::Relaxed);
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_system_s_less_what_others_need() {
        let mut areas = Areas::default();
        areas.set(3).unwrap();
        let refused = areas.set(read_limit()).unwrap_err().to_string();
        assert!(refused.contains("sysctl -w vm.max_map_count"), "{refused}");
        assert_eq!(areas.count(), 3);
        areas.set(1).unwrap();
        assert_eq!(areas.count(), 1);
    }
}
