//! AnKer's system call vm_snapshot (§5, appendix A), which kernel-patch/ adds to Linux.
//!
//! `void *vm_snapshot(void *src, size_t length)` maps a range of private memory a second time. It copies the page
//! tables and write-protects both mappings. The kernel copies a page when either side first writes to it. A snapshot
//! costs one call for each piece of the region, and a first write costs one page fault.

#![allow(unsafe_code)]

use crate::mechanisms::kernel_cow::{self, KernelCowRegion};
use crate::memory::error::Error;
use crate::memory::pool::Pool;
use crate::memory::sys::{Mapping, faults};

const MISSING: &str = "this kernel has no vm_snapshot: see kernel-patch/";

/// The number of the system call on x86-64, the only architecture for which the patch adds it.
const NUMBER: libc::c_long = 548;

/// Checks whether this kernel has the call.
pub(crate) fn probe() -> Result<(), Error> {
    // A sandbox may answer to an unknown system call with EPERM.
    kernel_cow::probe(duplicate, &[libc::ENOSYS, libc::EPERM], MISSING)
}

/// A region without pages. Runs consist of whole pages.
pub(crate) fn region(pool: &Pool, run_bytes: usize) -> Result<KernelCowRegion, Error> {
    KernelCowRegion::new(pool, run_bytes, duplicate)
}

fn duplicate(origin: &Mapping, bytes: usize) -> Result<Mapping, Error> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(Error::Unavailable(MISSING));
    }
    faults::check("vm_snapshot", "")?;
    // SAFETY: the call changes nothing about the origin's content; it returns a new mapping of that many bytes.
    unsafe { Mapping::from_call(libc::syscall(NUMBER, origin.part(0, bytes), bytes), bytes, "vm_snapshot") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const RUN: usize = 16 << 10;

    /// If the kernel has the call, tests the whole mechanism; otherwise, tests the error message.
    #[test]
    fn works_or_says_why_not() {
        let _others_may = testing::AREAS.read();
        match probe() {
            Ok(()) => testing::all(RUN, |pool| Box::new(region(pool, RUN).unwrap())),
            Err(error) => assert_eq!(error.to_string(), "this kernel has no vm_snapshot: see kernel-patch/"),
        }
    }
}
