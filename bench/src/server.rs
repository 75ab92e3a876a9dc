//! A private copy of the installed PostgreSQL, with the freshly built extension in it.
//!
//! PostgreSQL finds its files relative to its own executable, so a copy that keeps the layout of the directories works
//! anywhere. The system's installation is only read. A server refuses to run as root. If this process runs as root, the
//! copy, and everything that is started from it, belongs to the user `postgres`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Result, os};

/// The directory of Debian's packages of PostgreSQL, below which each version has its own.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The version of PostgreSQL that the tree is built for by default.
const DEFAULT_VERSION: &str = "15";
/// The account that Debian's packages make for the server.
const SERVER_USER: &str = "postgres";

/// The tree that this program was built from.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The name of a file that marks a directory which must not be removed after the process that created it has ended.
const KEEP: &str = "keep";

/// The private copy of PostgreSQL. It lies in a new directory under `/var/tmp`, because sockets need a short path.
/// Clusters are created beside the copy. Dropping this value removes the directory.
pub struct Server {
    home: PathBuf,
    bin: PathBuf,
    lib: PathBuf,
    share: PathBuf,
    clusters: AtomicU32,
    templates: Mutex<Vec<PathBuf>>,
    defaults: Vec<(&'static str, &'static str)>,
    keep: bool,
}

/// The directory of this process's server. The directory of a second server (see [`Server::install_other`]) has the
/// same name with a suffix.
fn home() -> PathBuf {
    PathBuf::from(format!("/var/tmp/pg_anker-{}", std::process::id()))
}

fn other_home() -> PathBuf {
    format!("{}-other", home().display()).into()
}

/// The process that made a directory under `/var/tmp`. `None` if the directory is no server's.
fn owner(directory: &Path) -> Option<u32> {
    directory.file_name()?.to_str()?.strip_prefix("pg_anker-")?.split('-').next()?.parse().ok()
}

impl Server {
    /// Copies PostgreSQL and installs the extension that lies beside the running executable. If there is none, the
    /// copied PostgreSQL must have the extension already.
    pub fn install() -> Result<Server> {
        match built_beside() {
            Some(built) => Server::without_extension()?.with_extension(&built),
            None => Server::installed(),
        }
    }

    /// A copy of a PostgreSQL that has the extension already.
    pub fn installed() -> Result<Server> {
        let server = Server::without_extension()?;
        if server.engine().exists() {
            Ok(server)
        } else {
            Err("pg_anker is neither built beside this program nor installed in PostgreSQL".into())
        }
    }

    /// A second server of this process, with another build of the extension: the library and the engine that lie in
    /// `built`, and the extension's SQL if it lies there, too.
    pub fn install_other(built: &Path) -> Result<Server> {
        Server::at(other_home(), &default_pg_config())?.with_extension(built)
    }

    /// A second server of this process, copied from another PostgreSQL. `built` is as in [`Server::install_other`].
    pub fn install_another(pg_config: &Path, built: &Path) -> Result<Server> {
        Server::at(other_home(), pg_config)?.with_extension(built)
    }

    fn with_extension(self, built: &Path) -> Result<Server> {
        let server = self;
        for (from, to) in [("libpg_anker.so", "pg_anker.so"), ("pg_anker_engine", "pg_anker_engine")] {
            let from = built.join(from);
            fs::copy(&from, server.lib.join(to))
                .map_err(|e| format!("{}: {e} (build with: cargo build --release --workspace)", from.display()))?;
        }
        let extension = server.share.join("extension");
        let own = Path::new(SOURCES).join("pgrx-config");
        let source = if built.join("pg_anker.control").exists() { built.to_owned() } else { own };
        for entry in fs::read_dir(&source).map_err(|e| format!("{}: {e}", source.display()))? {
            let path = entry?.path();
            if let (Some(name), Some("sql" | "control")) = (path.file_name(), path.extension().and_then(|e| e.to_str()))
            {
                fs::copy(&path, extension.join(name))?;
            }
        }
        Ok(server)
    }

    pub fn without_extension() -> Result<Server> {
        Server::at(home(), &default_pg_config())
    }

    fn at(home: PathBuf, pg_config: &Path) -> Result<Server> {
        fs::create_dir(&home).map_err(|e| format!("{}: {e}", home.display()))?;
        let mut server = Server {
            home,
            bin: PathBuf::new(),
            lib: PathBuf::new(),
            share: PathBuf::new(),
            clusters: AtomicU32::new(0),
            templates: Mutex::default(),
            defaults: Vec::new(),
            keep: false,
        };
        fs::set_permissions(&server.home, fs::Permissions::from_mode(0o700))?;
        server.own(&server.home)?;
        let copied = |option| -> Result<PathBuf> {
            let directory = answer(pg_config, option)?;
            let copy = server.home.join("tree").join(directory.strip_prefix("/").unwrap_or(&directory));
            fs::create_dir_all(&copy)?;
            // Copies the directory's contents, not the directory itself. If libraries and binaries share one directory,
            // it is copied twice, and the second copy must overwrite the first, not land inside it.
            run(Command::new("cp").arg("-RPp").arg(directory.join(".")).arg(&copy))?;
            Ok(copy)
        };
        let (bin, lib, share) = (copied("--bindir")?, copied("--pkglibdir")?, copied("--sharedir")?);
        (server.bin, server.lib, server.share) = (bin, lib, share);
        Ok(server)
    }

    /// Adds a line to the `postgresql.conf` of all clusters that do not set this name themselves.
    pub fn set_everywhere(&mut self, name: &'static str, value: &'static str) {
        self.defaults.push((name, value));
    }

    pub(crate) fn defaults(&self) -> impl Iterator<Item = (String, String)> {
        self.defaults.iter().map(|(name, value)| ((*name).into(), (*value).into()))
    }

    /// Keeps all files when this value is dropped, and also when later runs remove leftovers.
    pub fn keep(&mut self) -> Result<()> {
        self.keep = true;
        Ok(fs::write(self.home.join(KEEP), "")?)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn bin(&self, program: &str) -> PathBuf {
        self.bin.join(program)
    }

    /// A command that runs as the user who may run the server.
    pub fn command(&self, program: &str) -> Command {
        self.command_at(&self.bin(program))
    }

    /// PostgreSQL's own regression test driver, which is installed for building extensions; it finds psql beside the
    /// server.
    pub fn pg_regress(&self) -> Command {
        self.test_driver("regress/pg_regress")
    }

    /// The driver of PostgreSQL's isolation tests.
    pub fn pg_isolation_regress(&self) -> Command {
        self.test_driver("isolation/pg_isolation_regress")
    }

    fn test_driver(&self, program: &str) -> Command {
        let mut command = self.command_at(&self.lib.join("pgxs/src/test").join(program));
        command.arg("--bindir").arg(&self.bin);
        command
    }

    fn command_at(&self, program: &Path) -> Command {
        let mut command = if os::is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", SERVER_USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.home);
        // Removes variables that point to the caller's own server, and the variable that switches backtraces on.
        for name in ["PGDATA", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGOPTIONS", "RUST_BACKTRACE"] {
            command.env_remove(name);
        }
        command
    }

    /// A data directory as initdb leaves it. It is created once for each locale and encoding, and copied for each
    /// cluster.
    pub(crate) fn template(&self, locale: &str, encoding: &str) -> Result<PathBuf> {
        let mut ready = self.templates.lock().expect("no thread panics with the lock");
        let directory = self.home.join(format!("template-{locale}-{encoding}"));
        if !ready.contains(&directory) {
            run(self
                .command("initdb")
                .args(["-U", "postgres", "-A", "trust", "--no-sync", "-E", encoding])
                .arg(format!("--locale={locale}"))
                .arg("-D")
                .arg(&directory))?;
            ready.push(directory.clone());
        }
        Ok(directory)
    }

    /// A new directory for a cluster.
    pub(crate) fn cluster_directory(&self) -> Result<PathBuf> {
        let directory = self.home.join(format!("c{}", self.clusters.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&directory)?;
        self.own(&directory)?;
        Ok(directory)
    }

    /// Gives a file or directory to the user who runs the server.
    pub fn own(&self, path: &Path) -> Result<()> {
        if os::is_root() {
            let id = run(Command::new("id").args(["-u", SERVER_USER]))?;
            chown(path, Some(id.trim().parse()?), None)?;
        }
        Ok(())
    }

    /// The engine's executable.
    pub fn engine(&self) -> PathBuf {
        self.lib.join("pg_anker_engine")
    }

    /// The directory of libraries that the server loads.
    pub fn libraries(&self) -> &Path {
        &self.lib
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.keep {
            // If removing the files fails, nothing can be done about it here.
            let _ = fs::remove_dir_all(&self.home);
        }
    }
}

pub fn pg_config(option: &str) -> Result<PathBuf> {
    answer(&default_pg_config(), option)
}

fn answer(pg_config: &Path, option: &str) -> Result<PathBuf> {
    Ok(run(Command::new(pg_config).arg(option))?.trim().into())
}

/// The directory of the running executable, if the extension was built there.
fn built_beside() -> Option<PathBuf> {
    let directory = std::env::current_exe().ok()?.parent()?.to_owned();
    directory.join("libpg_anker.so").exists().then_some(directory)
}

/// The program that the environment names, or that of the version that the extension was built for, or of the newest
/// version in which it is installed.
fn default_pg_config() -> PathBuf {
    if let Some(program) = std::env::var_os("PGRX_PG_CONFIG_PATH") {
        return program.into();
    }
    let version = |version: &str| Path::new(DEBIAN).join(version);
    let installed = ["18", "17", "16", "15"].map(version).into_iter().find(|v| v.join("lib/pg_anker_engine").exists());
    let chosen = installed.filter(|_| built_beside().is_none()).unwrap_or_else(|| version(DEFAULT_VERSION));
    chosen.join("bin/pg_config")
}

/// Runs a command to its end, and returns its output. If the command fails, the error contains the output.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// Stops and removes the servers of this process.
pub fn remove_own() {
    for entry in fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        if owner(&entry.path()) == Some(std::process::id()) {
            remove(&entry.path());
        }
    }
}

/// Removes files that earlier runs left behind, if their process is gone (it was killed and could not clean up).
pub fn remove_leftovers() {
    for entry in fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        let Some(pid) = owner(&entry.path()) else { continue };
        let kept = entry.path().join(KEEP).exists();
        let ours = entry.metadata().is_ok_and(|m| m.is_dir() && (os::is_root() || m.uid() == own_uid()));
        if !kept && ours && !Path::new(&format!("/proc/{pid}")).exists() {
            remove(&entry.path());
        }
    }
}

fn own_uid() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |m| m.uid())
}

/// Stops the servers below a run's directory and removes it. The next run tries again to remove files that cannot be
/// removed now.
fn remove(home: &Path) {
    stop_servers_under(home);
    // If PostgreSQL is still being copied to this directory, new files may appear while others are removed.
    for _ in 0..20 {
        let _ = fs::remove_dir_all(home);
        std::thread::sleep(std::time::Duration::from_millis(50));
        if !home.exists() {
            return;
        }
    }
}

/// Kills the postmasters whose data directories lie below `home`, found by their pid files.
fn stop_servers_under(home: &Path) {
    for cluster in fs::read_dir(home).into_iter().flatten().flatten() {
        let Ok(text) = fs::read_to_string(cluster.path().join("data/postmaster.pid")) else { continue };
        let Some(pid) = text.lines().next().and_then(|l| l.trim().parse::<u32>().ok()) else { continue };
        // The process id may belong to another process by now. A postmaster of this run has its working directory below
        // `home`.
        if fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(home)) {
            // SIGQUIT is PostgreSQL's immediate shutdown: the children end, and shared memory is freed.
            let _ = os::kill(pid, libc::SIGQUIT);
            for _ in 0..100 {
                if !os::alive(pid) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }
}
