//! One running PostgreSQL server on a fresh data directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::server::{Server, run};
use crate::{Result, os};

/// The settings with which a cluster is created. With the defaults, pg_anker is loaded.
#[derive(Clone)]
pub struct Options {
    locale: &'static str,
    encoding: &'static str,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        let settings = [
            ("shared_preload_libraries", "pg_anker"),
            ("wal_level", "logical"),
            ("max_connections", "60"),
            ("max_worker_processes", "24"),
            ("max_replication_slots", "10"),
            ("shared_buffers", "512MB"),
            ("max_wal_size", "8GB"),
            ("autovacuum_naptime", "10s"),
            // fsync would make benchmarks measure the disk. It is needed only if the machine crashes, which no test
            // does.
            ("fsync", "off"),
            ("log_line_prefix", "%m [%p] %q%u@%d "),
            ("restart_after_crash", "on"),
        ];
        let settings = settings.map(|(k, v)| (k.into(), v.into())).into();
        Options { locale: "C.UTF-8", encoding: "UTF8", settings, environment: Vec::new() }
    }
}

impl Options {
    /// Adds or replaces a line of `postgresql.conf`.
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(k, _)| k != name);
        self.settings.push((name.into(), value.into()));
        self
    }

    pub fn locale(mut self, locale: &'static str, encoding: &'static str) -> Self {
        (self.locale, self.encoding) = (locale, encoding);
        self
    }

    /// Sets a variable in the environment of the server.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn unset(mut self, name: &str) -> Self {
        self.settings.retain(|(k, _)| k != name);
        self
    }
}

/// The port of all servers here. It is only a part of the socket's name: no server listens on the network, and each has
/// its socket in a directory of its own.
const PORT: u16 = 5432;

#[derive(Clone, Copy)]
pub enum Stop {
    /// The server ends all sessions and writes a checkpoint.
    Fast,
    /// The server stops as after a power failure.
    Immediate,
}

pub struct Cluster {
    server: Arc<Server>,
    directory: PathBuf,
    environment: Vec<(String, String)>,
}

impl Cluster {
    pub fn start(server: &Arc<Server>, options: &Options) -> Result<Cluster> {
        let directory = server.cluster_directory()?;
        let environment = options.environment.clone();
        let cluster = Cluster { server: server.clone(), directory, environment };
        let template = server.template(options.locale, options.encoding)?;
        run(Command::new("cp").arg("-a").arg(template).arg(cluster.data()))?;
        // The last line of a name wins.
        cluster.configure(&server.defaults().chain(options.settings.iter().cloned()).collect::<Vec<_>>())?;
        cluster.resume()?;
        Ok(cluster)
    }

    /// Copies this cluster, which must be stopped. The copy has the same data and settings, and `settings` in addition.
    pub fn copy(&self, settings: &[(&str, &str)]) -> Result<Cluster> {
        self.copy_for(&self.server, settings)
    }

    /// Like [`Cluster::copy`], with the programs of another server.
    pub fn copy_for(&self, server: &Arc<Server>, settings: &[(&str, &str)]) -> Result<Cluster> {
        let directory = server.cluster_directory()?;
        let environment = self.environment.clone();
        let copy = Cluster { server: server.clone(), directory, environment };
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(self.data()).arg(copy.data()))?;
        copy.configure(&settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<Vec<_>>())?;
        copy.resume()?;
        Ok(copy)
    }

    /// Like dropping the cluster, but returns an error if the server does not stop.
    pub fn discard(self) -> Result<()> {
        self.stop(Stop::Immediate)
    }

    /// Appends settings to `postgresql.conf`. They replace earlier settings with the same names, because the last line
    /// wins.
    fn configure(&self, settings: &[(String, String)]) -> Result<()> {
        let mut conf =
            format!("port = {PORT}\nlisten_addresses = ''\nunix_socket_directories = '{}'\n", self.directory.display());
        for (name, value) in settings {
            conf += &format!("{name} = '{}'\n", value.replace('\'', "''"));
        }
        let path = self.data().join("postgresql.conf");
        Ok(fs::write(&path, fs::read_to_string(&path)? + &conf)?)
    }

    /// Starts the server again after `stop`.
    pub fn resume(&self) -> Result<()> {
        self.resume_with("")
    }

    /// Starts the server with these arguments of `postgres`.
    pub fn resume_with(&self, arguments: &str) -> Result<()> {
        let mut start = self.pg_ctl();
        start.args(["start", "-w", "-t", "60", "-s", "-o", arguments, "-l"]).arg(self.log_path());
        run(&mut start).map(drop).map_err(|e| format!("{e}\n{}", tail(&self.log(), 30)).into())
    }

    pub fn stop(&self, how: Stop) -> Result<()> {
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        run(self.pg_ctl().args(["stop", "-w", "-t", "60", "-s", "-m", mode])).map(drop)
    }

    /// Creates a standby of this cluster with pg_basebackup, but does not start it. Returns it with the program's
    /// warnings.
    pub fn standby(&self) -> Result<(Cluster, String)> {
        let directory = self.server.cluster_directory()?;
        let environment = self.environment.clone();
        let standby = Cluster { server: self.server.clone(), directory, environment };
        let mut backup = self.server.command("pg_basebackup");
        backup.arg("-h").arg(&self.directory).args(["-U", "postgres", "-p", &PORT.to_string()]);
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "-D"]).arg(standby.data());
        let output = backup.output()?;
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("pg_basebackup: {complaints}").into());
        }
        standby.configure(&[])?;
        Ok((standby, complaints))
    }

    /// Ends recovery.
    pub fn promote(&self) -> Result<()> {
        run(self.pg_ctl().args(["promote", "-w", "-t", "60", "-s"])).map(drop)
    }

    /// Makes this stopped cluster equal to the running `source`; returns the output of pg_rewind.
    pub fn rewind_to(&self, source: &Cluster) -> Result<String> {
        let mut rewind = self.server.command("pg_rewind");
        rewind.arg("-D").arg(self.data()).arg(format!("--source-server={}", source.conninfo("postgres")));
        let output = rewind.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("pg_rewind: {said}").into());
        }
        // pg_rewind copies the settings too.
        self.configure(&[])?;
        Ok(said)
    }

    /// Moves everything from this cluster to a fresh one, perhaps of a newer version, by pg_upgrade. Both must be
    /// stopped. Returns the program's output.
    pub fn upgrade_to(&self, new: &Cluster) -> Result<String> {
        let mut upgrade = new.server.command("pg_upgrade");
        upgrade.arg("--old-bindir").arg(self.server.bin("")).arg("--new-bindir").arg(new.server.bin(""));
        upgrade.arg("--old-datadir").arg(self.data()).arg("--new-datadir").arg(new.data());
        // The messages of a failure are in files of the new data directory, and the program's output names them.
        run(upgrade.args(["--username", "postgres", "--verbose"]))
    }

    pub fn restart(&self) -> Result<()> {
        self.stop(Stop::Fast)?;
        self.resume()
    }

    /// Leaves the server running when this value is dropped. Returns a shell command that stops it.
    pub fn leave_running(self) -> String {
        let (pid, home) = (self.postmaster_pid().unwrap_or(0), self.server.home().display().to_string());
        std::mem::forget(self);
        format!("kill -QUIT {pid} && sleep 1 && rm -r {home}")
    }

    /// A connection string for people to copy: `psql "<string>"`.
    pub fn conninfo(&self, database: &str) -> String {
        format!("host={} port={PORT} user=postgres dbname={database}", self.directory.display())
    }

    pub fn config(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config.host_path(&self.directory).port(PORT).user("postgres").dbname("postgres");
        config
    }

    pub fn connect(&self) -> Result<Client> {
        self.connect_to("postgres")
    }

    pub fn connect_to(&self, database: &str) -> Result<Client> {
        Ok(self.config().dbname(database).connect(NoTls)?)
    }

    pub fn connect_as(&self, user: &str) -> Result<Client> {
        Ok(self.config().user(user).connect(NoTls)?)
    }

    /// Changes settings of the running server.
    pub fn alter_system(&self, settings: &[(&str, &str)]) -> Result<()> {
        let mut client = self.connect()?;
        for (name, value) in settings {
            client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{}'", value.replace('\'', "''")))?;
        }
        client.batch_execute("SELECT pg_reload_conf()")?;
        // Waits until the postmaster has signalled all processes, so that old and new sessions have the new values.
        std::thread::sleep(Duration::from_millis(200));
        Ok(())
    }

    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn port(&self) -> u16 {
        PORT
    }

    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn log(&self) -> String {
        fs::read(self.log_path()).map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into_owned())
    }

    /// Lines of the log which say that a server process crashed, or that the server restarted. There must be none,
    /// whatever happens to the engine. After a failed assertion, the stack that PostgreSQL prints is included.
    pub fn crashes(&self) -> Vec<String> {
        let signs = ["PANIC", "TRAP:", "was terminated by signal", "terminating any other active server processes"];
        let is_frame = |line: &str| line.ends_with(']') && line.contains("(") && line.contains("+0x");
        self.log().lines().filter(|l| signs.iter().any(|s| l.contains(s)) || is_frame(l)).map(str::to_owned).collect()
    }

    pub fn postmaster_pid(&self) -> Result<u32> {
        let text = fs::read_to_string(self.data().join("postmaster.pid"))?;
        Ok(text.lines().next().ok_or("empty postmaster.pid")?.trim().parse()?)
    }

    pub fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn pg_ctl(&self) -> Command {
        let mut command = self.server.command("pg_ctl");
        command.arg("-D").arg(self.data());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data().join("postmaster.pid").exists() {
            let _ = self.stop(Stop::Immediate);
        }
        // Deletes the files now, because hundreds of clusters would fill the disk. Files that cannot be deleted now are
        // deleted with the copy of PostgreSQL.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Calls `done` repeatedly until it returns true. Returns false if that takes longer than `limit`.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        if done()? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a process is gone.
pub fn wait_for_exit(pid: u32, limit: Duration) -> Result<bool> {
    wait_until(limit, || Ok(!os::alive(pid)))
}
