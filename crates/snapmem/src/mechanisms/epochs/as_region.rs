//! Implements [`Region`], the common interface of all mechanisms, for epochs.

use super::EpochRegion;
use crate::memory::error::Error;
use crate::memory::region::{InPlace, Region, Snapshot, Usage};

impl Region for EpochRegion {
    fn len(&self) -> usize {
        self.bytes as usize
    }

    fn run_bytes(&self) -> usize {
        EpochRegion::run_bytes(self)
    }

    fn grow(&mut self, len: usize) -> Result<(), Error> {
        let (before, wanted) = (self.frames.len(), len.div_ceil(self.run_bytes()));
        for _ in before..wanted {
            if let Err(error) = self.push_run() {
                // No snapshot has seen these frames. They are dropped one by one, because there may be no memory for a
                // list of them.
                self.frames.drain(before..).for_each(|fresh| drop(fresh.into_retired()));
                self.bytes = (before * self.run_bytes) as u64;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        Ok(EpochRegion::write(self, offset, bytes)?)
    }

    fn read(&self, offset: usize, into: &mut [u8]) {
        EpochRegion::read(self, offset, into);
    }

    fn snapshot(&mut self) -> Result<Box<dyn Snapshot>, Error> {
        Ok(Box::new(EpochRegion::snapshot(self)?))
    }

    fn usage(&self) -> Usage {
        EpochRegion::usage(self)
    }

    fn reason(&self) -> Option<String> {
        self.ahead.is_some().then(|| EpochRegion::reason(self))
    }
}

impl InPlace for EpochRegion {
    #[inline]
    fn bytes_in_place(&self, offset: usize, len: usize) -> &[u8] {
        let run_bytes = EpochRegion::run_bytes(self);
        self.bytes_in(offset / run_bytes, offset % run_bytes, len)
    }
}
