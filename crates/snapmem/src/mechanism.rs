//! The mechanisms by name.

use std::fmt;
use std::str::FromStr;

use protocol::mechanism;

use crate::mechanisms::epochs::EpochRegion;
use crate::mechanisms::frames::FramesRegion;
use crate::mechanisms::physical::PhysicalRegion;
use crate::mechanisms::rewired::RewiredRegion;
use crate::mechanisms::scoot::ScootRegion;
use crate::mechanisms::{mremap_cow, vm_snapshot};
use crate::memory::error::Error;
use crate::memory::paged::probe_files;
use crate::memory::pool::Pool;
use crate::memory::region::{InPlace, Region};
use crate::memory::sys::PAGE;

/// The length of the shortest run of mechanisms that do not work on pages.
const LINE: usize = 64;

/// The way in which a region is snapshotted. `fork` is not listed, because its snapshot is a process, and has an
/// interface of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    Physical,
    Rewired,
    Scoot,
    VmSnapshot,
    MremapCow,
    Frames,
    Epochs,
    Auto,
}

impl Mechanism {
    pub const ALL: [Mechanism; 8] = [
        Mechanism::Physical,
        Mechanism::Rewired,
        Mechanism::Scoot,
        Mechanism::VmSnapshot,
        Mechanism::MremapCow,
        Mechanism::Frames,
        Mechanism::Epochs,
        Mechanism::Auto,
    ];

    /// The recommended mechanism. It works on every kernel, and no other mechanism was better in any measurement
    /// (docs/snapshots.md).
    pub const BEST: Mechanism = Mechanism::Epochs;

    pub fn name(self) -> &'static str {
        let name = match self {
            Mechanism::Physical => mechanism::PHYSICAL,
            Mechanism::Rewired => mechanism::REWIRED,
            Mechanism::Scoot => mechanism::SCOOT,
            Mechanism::VmSnapshot => mechanism::VM_SNAPSHOT,
            Mechanism::MremapCow => mechanism::MREMAP_COW,
            Mechanism::Frames => mechanism::FRAMES,
            Mechanism::Epochs => mechanism::EPOCHS,
            Mechanism::Auto => mechanism::AUTO,
        };
        name.text()
    }

    /// Checks whether this kernel supports the mechanism. The error says why not.
    pub fn probe(self) -> Result<(), Error> {
        match self {
            Mechanism::Rewired | Mechanism::Scoot => probe_files(),
            Mechanism::VmSnapshot => vm_snapshot::probe(),
            Mechanism::MremapCow => mremap_cow::probe(),
            Mechanism::Physical | Mechanism::Frames | Mechanism::Epochs | Mechanism::Auto => Ok(()),
        }
    }

    /// An empty region whose runs have `run_bytes`: a power of two, from 64 to 4 GiB. Mechanisms that work on pages
    /// need at least 4096.
    pub fn region(self, pool: &Pool, run_bytes: usize) -> Result<Box<dyn Region>, Error> {
        self.probe()?;
        Ok(self.in_place(pool, run_bytes)?)
    }

    /// The length of the shortest run that the mechanism supports.
    pub(crate) fn least_run(self) -> usize {
        match self {
            Mechanism::Physical | Mechanism::Frames | Mechanism::Epochs | Mechanism::Auto => LINE,
            Mechanism::Rewired | Mechanism::Scoot | Mechanism::VmSnapshot | Mechanism::MremapCow => PAGE,
        }
    }

    /// Like [`Mechanism::region`], but without the probe, which must have succeeded before.
    pub(crate) fn in_place(self, pool: &Pool, run_bytes: usize) -> Result<Box<dyn InPlace>, Error> {
        if !run_bytes.is_power_of_two() || !(LINE..=1 << 32).contains(&run_bytes) {
            return Err(Error::Unavailable("runs have a power of two of bytes, from 64 to 4 GiB"));
        }
        Ok(match self {
            Mechanism::Physical => Box::new(PhysicalRegion::new(pool, run_bytes)),
            Mechanism::Rewired => Box::new(RewiredRegion::new(pool, run_bytes)?),
            Mechanism::Scoot => Box::new(ScootRegion::new(pool, run_bytes)?),
            Mechanism::VmSnapshot => Box::new(vm_snapshot::region(pool, run_bytes)?),
            Mechanism::MremapCow => Box::new(mremap_cow::region(pool, run_bytes)?),
            Mechanism::Frames => Box::new(FramesRegion::new(pool, run_bytes)),
            Mechanism::Epochs => Box::new(EpochRegion::new(pool, run_bytes)),
            Mechanism::Auto => Box::new(EpochRegion::automatic(pool, run_bytes)),
        })
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that no mechanism has.
#[derive(Debug, thiserror::Error)]
#[error("no snapshot mechanism is called {0:?}")]
pub struct UnknownMechanism(String);

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(name: &str) -> Result<Mechanism, UnknownMechanism> {
        Mechanism::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| UnknownMechanism(name.to_owned()))
    }
}
