//! Databases in a running server. They are created for a benchmark and dropped after it. The server may be an existing
//! one, given by a connection string. An existing server is not restarted, and its settings are not changed.

use std::cell::RefCell;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use postgres::config::Host;
use postgres::{Client, Config, NoTls};

use crate::cluster::wait_until;
use crate::{Result, os};

/// Objects that were created in existing servers. They are dropped if this process is ended early.
static LEFT: Mutex<Vec<(Config, Made)>> = Mutex::new(Vec::new());

#[derive(Clone, PartialEq, Eq)]
enum Made {
    Database(String),
    Role(String),
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Made::Database(name) => write!(f, "database {name}"),
            Made::Role(name) => write!(f, "role {name}"),
        }
    }
}

pub struct Databases {
    /// The connection of a superuser to a database that always exists.
    admin: Config,
    /// Objects that were created here and still exist.
    made: RefCell<Vec<Made>>,
    /// Whether the server is an existing one, so that everything created there must be dropped.
    stays: bool,
}

impl Databases {
    /// Databases in a private server, which is removed after the benchmark.
    pub fn of(admin: Config) -> Databases {
        Databases { admin, made: RefCell::default(), stays: false }
    }

    /// Databases in a given server. The connection must be a superuser's, and pg_anker must be loaded.
    pub fn given(dsn: &str) -> Result<Databases> {
        let admin: Config = dsn.parse().map_err(|e| format!("--dsn: {e}"))?;
        let mut client = admin.connect(NoTls).map_err(|e| format!("--dsn: {}", crate::describe(&e)))?;
        // Only a superuser may see which libraries are preloaded.
        if client.query_one("SHOW is_superuser", &[])?.get::<_, &str>(0) != "on" {
            return Err("the user of --dsn has to be a superuser, who makes databases and the extension".into());
        }
        let shown = "SELECT current_setting('wal_level'), current_setting('shared_preload_libraries')";
        let row = client.query_one(shown, &[])?;
        let [wal_level, libraries]: [String; 2] = std::array::from_fn(|i| row.get(i));
        if wal_level != "logical" || !libraries.contains("pg_anker") {
            return Err("the server of --dsn needs wal_level = logical and pg_anker in shared_preload_libraries".into());
        }
        let mut databases = Databases::of(admin);
        databases.stays = true;
        Ok(databases)
    }

    pub fn admin(&self) -> &Config {
        &self.admin
    }

    pub fn connect(&self) -> Result<Client> {
        Ok(self.admin.connect(NoTls)?)
    }

    pub fn config(&self, database: &str) -> Config {
        let mut config = self.admin.clone();
        config.dbname(database);
        config
    }

    /// Creates an empty database, in which text is ordered by bytes.
    pub fn create(&self, name: &str) -> Result<Config> {
        self.refuse_taken(name)?;
        let how = "TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'";
        self.make(&mut self.connect()?, name, how)
    }

    /// Creates a copy of another database, which nobody may be connected to.
    pub fn copy(&self, from: &str, name: &str, owner: Option<&str>) -> Result<Config> {
        self.refuse_taken(name)?;
        let mut client = self.connect()?;
        let version: i32 = client.query_one("SELECT current_setting('server_version_num')::integer", &[])?.get(0);
        // Copies files, instead of writing all pages to WAL.
        let strategy = if version >= 150_000 { " STRATEGY file_copy" } else { "" };
        let owner = owner.map_or(String::new(), |owner| format!(" OWNER {owner}"));
        self.make(&mut client, name, &format!("{owner} TEMPLATE {from}{strategy}"))
    }

    /// Creates a database. Notes the name first, so that the database is dropped even if an interrupt ends this process
    /// meanwhile. If the database cannot be created, the note is removed, because a database with this name may belong
    /// to someone else.
    fn make(&self, client: &mut Client, name: &str, how: &str) -> Result<Config> {
        self.adopt(name);
        client
            .batch_execute(&format!("CREATE DATABASE {name} {how}"))
            .inspect_err(|_| self.forget(&Made::Database(name.to_owned())))?;
        Ok(self.config(name))
    }

    pub fn refuse_taken(&self, name: &str) -> Result<()> {
        match self.connect()?.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&name])? {
            Some(_) => Err(format!("there is a database {name} already; if a run has left it, drop it").into()),
            None => Ok(()),
        }
    }

    /// Notes the name of a database, so that the database will be dropped. This process, or another process that it has
    /// started, is about to create the database.
    pub fn adopt(&self, name: &str) {
        self.note(Made::Database(name.to_owned()));
    }

    /// Like `adopt`, but for a role. The role is dropped after all databases that were created later, because it may
    /// own them.
    pub fn adopt_role(&self, name: &str) {
        self.note(Made::Role(name.to_owned()));
    }

    fn note(&self, made: Made) {
        if self.stays {
            left().push((self.admin.clone(), made.clone()));
        }
        self.made.borrow_mut().push(made);
    }

    /// Drops a database that was created here. Makes several attempts if necessary, because the capture worker needs a
    /// moment to disconnect.
    pub fn discard(&self, name: &str) -> Result<()> {
        let database = Made::Database(name.to_owned());
        if !self.made.borrow().contains(&database) {
            return Ok(());
        }
        remove(&self.admin, &database)?;
        self.forget(&database);
        Ok(())
    }

    fn forget(&self, gone: &Made) {
        self.made.borrow_mut().retain(|made| made != gone);
        left().retain(|(_, left)| !self.stays || left != gone);
    }

    /// Whether the server runs on this machine, so that its processes can be observed.
    pub fn is_on_this_machine(&self) -> bool {
        let hosts = self.admin.get_hosts();
        // A connection string may have an address without a host name.
        let is_socket = |host: &Host| matches!(host, Host::Unix(_));
        !hosts.is_empty() && hosts.iter().all(is_socket) && self.admin.get_hostaddrs().is_empty()
    }

    /// The process id of the server's postmaster; `None` if the server is on another machine.
    pub fn postmaster(&self) -> Result<Option<u32>> {
        if !self.is_on_this_machine() {
            return Ok(None);
        }
        // The session must last until its process has been looked at.
        let mut session = self.connect()?;
        let backend: i32 = session.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        Ok(os::parent(backend as u32))
    }
}

/// Drops everything that was created in existing servers. Called when this process is ended early.
pub fn remove_made() {
    let left = left().clone();
    for (admin, made) in left.iter().rev() {
        if let Err(error) = cancel_making(admin, made).and_then(|()| remove(admin, made)) {
            eprintln!("{made} is left: {}", crate::describe(&*error));
        }
    }
}

fn left() -> std::sync::MutexGuard<'static, Vec<(Config, Made)>> {
    LEFT.lock().expect("no thread panics with the lock")
}

/// Cancels a CREATE DATABASE that is still running. Otherwise the database would exist after this process has ended.
fn cancel_making(admin: &Config, made: &Made) -> Result<()> {
    let Made::Database(name) = made else { return Ok(()) };
    let making = format!("CREATE DATABASE {name} %");
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query LIKE $1";
    admin.connect(NoTls)?.execute(cancel, &[&making])?;
    Ok(())
}

fn remove(admin: &Config, made: &Made) -> Result<()> {
    let drop = match made {
        Made::Role(name) => format!("DROP ROLE IF EXISTS {name}"),
        Made::Database(name) => {
            if let Ok(mut client) = admin.clone().dbname(name).connect(NoTls) {
                client.batch_execute("DROP EXTENSION IF EXISTS pg_anker CASCADE")?;
            }
            format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        }
    };
    let (mut client, mut error) = (admin.connect(NoTls)?, None);
    let dropped = wait_until(Duration::from_secs(30), || {
        error = client.batch_execute(&drop).err();
        Ok(error.is_none())
    })?;
    if dropped { Ok(()) } else { Err(error.map_or("it stays".into(), Into::into)) }
}

impl Drop for Databases {
    /// Drops everything that was created in an existing server.
    fn drop(&mut self) {
        if !self.stays {
            return;
        }
        let made = self.made.borrow().clone();
        for made in made.iter().rev() {
            match remove(&self.admin, made) {
                Ok(()) => self.forget(made),
                Err(error) => eprintln!("{made} is left: {}", crate::describe(&*error)),
            }
        }
    }
}
