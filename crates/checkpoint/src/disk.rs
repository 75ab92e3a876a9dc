//! The calls to the file system, each a step at which a crash may happen.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// All names begin with this, so that pg_basebackup and pg_rewind skip them.
const PREFIX: &str = "pgsql_tmp_";

/// The name of a file with pieces.
pub fn chunk_file(number: u64) -> String {
    format!("{PREFIX}chunks_{number:016x}")
}

/// The name of a manifest.
pub fn manifest_file(number: u64) -> String {
    format!("{PREFIX}manifest_{number:016x}")
}

/// The name of a manifest that is not whole yet.
pub fn new_file() -> String {
    format!("{PREFIX}new")
}

/// The name of the file that a living process has locked.
pub fn lock_file() -> String {
    format!("{PREFIX}lock")
}

/// The number in a name.
pub fn number_in(name: &str) -> Option<u64> {
    u64::from_str_radix(name.rsplit('_').next()?, 16).ok()
}

pub fn is_manifest(name: &str) -> bool {
    number_in(name).is_some_and(|number| name == manifest_file(number))
}

/// A directory, and the names in it.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    /// The number of steps until nothing works any more, as after a crash.
    #[cfg(test)]
    pub steps_left: std::cell::Cell<usize>,
    /// The free space in bytes that tests pretend to have.
    #[cfg(test)]
    pub pretended: std::cell::Cell<Option<u64>>,
}

impl Disk {
    /// Makes the directory, if it is missing.
    pub fn new(path: &Path) -> Result<Disk, Error> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(Error::system("create", path, error)),
            _ => Ok(Disk {
                path: path.into(),
                #[cfg(test)]
                steps_left: std::cell::Cell::new(usize::MAX),
                #[cfg(test)]
                pretended: std::cell::Cell::new(None),
            }),
        }
    }

    /// Fails if a test lets the process crash here.
    fn step(&self) -> io::Result<()> {
        #[cfg(test)]
        match self.steps_left.get().checked_sub(1) {
            Some(left) => self.steps_left.set(left),
            None => return Err(io::Error::other("crashed")),
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn done<T>(&self, call: &'static str, name: &str, result: io::Result<T>) -> Result<T, Error> {
        result.map_err(|error| Error::system(call, &self.path_of(name), error))
    }

    /// The names of our files.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let entries = self.done("read", "", fs::read_dir(&self.path))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: io::Result<Vec<String>> = names.collect();
        let mut names = self.done("read", "", names)?;
        names.retain(|name| name.starts_with(PREFIX));
        Ok(names)
    }

    /// Opens a file that is locked by at most one process at a time. `None` if another process has locked it.
    pub fn lock(&self, name: &str) -> Result<Option<File>, Error> {
        let opened = OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(self.path_of(name));
        let file = self.done("open", name, opened)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => self.done("lock", name, Err(error)),
        }
    }

    /// A new file, to which one can only append.
    pub fn create(&self, name: &str) -> Result<File, Error> {
        let path = self.path_of(name);
        let open = || OpenOptions::new().create_new(true).append(true).mode(0o600).open(path);
        self.done("create", name, self.step().and_then(|()| open()))
    }

    pub fn append(&self, name: &str, file: &mut File, bytes: &[u8]) -> Result<(), Error> {
        self.done("write", name, self.step().and_then(|()| file.write_all(bytes)))
    }

    pub fn flush(&self, name: &str, file: &File) -> Result<(), Error> {
        self.done("flush", name, self.step().and_then(|()| file.sync_all()))
    }

    pub fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.done("rename", from, self.step().and_then(|()| fs::rename(self.path_of(from), self.path_of(to))))
    }

    /// Makes new names, and the absence of removed ones, durable.
    pub fn flush_names(&self) -> Result<(), Error> {
        let flush = || File::open(&self.path)?.sync_all();
        self.done("flush", "", self.step().and_then(|()| flush()))
    }

    pub fn remove(&self, name: &str) -> Result<(), Error> {
        match self.step().and_then(|()| fs::remove_file(self.path_of(name))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => self.done("remove", name, result),
        }
    }

    pub fn open(&self, name: &str) -> Result<File, Error> {
        self.done("open", name, File::open(self.path_of(name)))
    }

    pub fn length(&self, name: &str) -> Result<u64, Error> {
        Ok(self.done("read", name, fs::metadata(self.path_of(name)))?.len())
    }

    /// The length of a file that is open. It may have been removed.
    pub fn length_of(&self, name: &str, file: &File) -> Result<u64, Error> {
        Ok(self.done("read", name, file.metadata())?.len())
    }

    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        self.done("read", name, fs::read(self.path_of(name)))
    }

    pub fn read_at(&self, name: &str, file: &File, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.done("read", name, file.read_exact_at(into, offset))
    }

    /// The size of the file system, and the space that is left in it, both in bytes.
    #[allow(unsafe_code)]
    pub fn space(&self) -> Result<(u64, u64), Error> {
        #[cfg(test)]
        if let Some(free) = self.pretended.get() {
            return Ok((1 << 40, free));
        }
        let path = std::ffi::CString::new(self.path.as_os_str().as_bytes());
        let path = self.done("read", "", path.map_err(io::Error::from))?;
        let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: `path` ends with a zero byte, and `found` has room for the structure that the call writes.
        let result = unsafe { libc::statvfs(path.as_ptr(), found.as_mut_ptr()) };
        if result != 0 {
            return self.done("read", "", Err(io::Error::last_os_error()));
        }
        // SAFETY: the call has succeeded, so it has written the whole structure.
        let found = unsafe { found.assume_init() };
        Ok((found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize))
    }
}
