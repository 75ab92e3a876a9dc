//! The names of the snapshot mechanisms, which are the values of `anker.mechanism`.

use std::ffi::CStr;

/// The name of a mechanism, available as a C string and as a Rust string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(&'static CStr);

impl Name {
    pub const fn c_str(self) -> &'static CStr {
        self.0
    }

    pub const fn text(self) -> &'static str {
        match self.0.to_str() {
            Ok(text) => text,
            Err(_) => panic!("a mechanism's name is ASCII"),
        }
    }
}

/// The engine chooses the best mechanism itself.
pub const AUTO: Name = Name(c"auto");
pub const EPOCHS: Name = Name(c"epochs");
pub const FRAMES: Name = Name(c"frames");
pub const PHYSICAL: Name = Name(c"physical");
pub const REWIRED: Name = Name(c"rewired");
pub const SCOOT: Name = Name(c"scoot");
pub const VM_SNAPSHOT: Name = Name(c"vm_snapshot");
pub const MREMAP_COW: Name = Name(c"mremap_cow");
/// The engine is forked for each query. This is not a mechanism that columns can use.
pub const FORK: Name = Name(c"fork");

/// All names, the default first.
pub const NAMES: [Name; 9] = [AUTO, EPOCHS, FRAMES, PHYSICAL, REWIRED, SCOOT, VM_SNAPSHOT, MREMAP_COW, FORK];
