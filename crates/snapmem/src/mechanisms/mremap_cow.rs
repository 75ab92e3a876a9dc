//! mremap with the flag MREMAP_COW (thesis §4.2), which kernel-patch/ adds to Linux.
//!
//! MREMAP_DONTUNMAP moves the pages to a new mapping, and leaves the old mapping empty. With MREMAP_COW, the pages stay
//! in both mappings, and the kernel copies a page when either side first writes to it. Each piece of a region is one
//! mapping for the kernel, because mremap requires that.

#![allow(unsafe_code)]

use crate::mechanisms::kernel_cow::{self, KernelCowRegion};
use crate::memory::error::Error;
use crate::memory::pool::Pool;
use crate::memory::sys::{Mapping, faults};

const MISSING: &str = "this kernel has no MREMAP_COW: see kernel-patch/";

const MREMAP_COW: libc::c_int = 8;

/// Checks whether this kernel has the flag.
pub(crate) fn probe() -> Result<(), Error> {
    kernel_cow::probe(duplicate, &[libc::EINVAL], MISSING)
}

/// A region without pages. Runs consist of whole pages.
pub(crate) fn region(pool: &Pool, run_bytes: usize) -> Result<KernelCowRegion, Error> {
    KernelCowRegion::new(pool, run_bytes, duplicate)
}

fn duplicate(origin: &Mapping, bytes: usize) -> Result<Mapping, Error> {
    faults::check("mremap(MREMAP_COW)", "")?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP | MREMAP_COW;
    let anywhere = 0usize;
    // The system call is used directly, because the C library's mremap passes the new address on only with flags that
    // it knows. SAFETY: with MREMAP_COW the origin does not change, and a kernel without the flag does nothing; the
    // call returns a new mapping of that many bytes.
    unsafe {
        let start = libc::syscall(libc::SYS_mremap, origin.part(0, bytes), bytes, bytes, flags, anywhere);
        Mapping::from_call(start, bytes, "mremap(MREMAP_COW)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const RUN: usize = 16 << 10;

    /// If the kernel has the flag, tests the whole mechanism; otherwise, tests the error message.
    #[test]
    fn works_or_says_why_not() {
        let _others_may = testing::AREAS.read();
        match probe() {
            Ok(()) => testing::all(RUN, |pool| Box::new(region(pool, RUN).unwrap())),
            Err(error) => assert_eq!(error.to_string(), "this kernel has no MREMAP_COW: see kernel-patch/"),
        }
    }
}
