//! Databases of a server that runs, made for a benchmark and taken away after it. The server may be somebody's, given by a
//! connection string: then it is not restarted, and its settings stay.

use std::cell::RefCell;
use std::time::Duration;

use postgres::config::Host;
use postgres::{Client, Config, NoTls};

use crate::cluster::wait_until;
use crate::{Result, os};

pub struct Databases {
    /// A superuser's, in a database that is always there.
    admin: Config,
    /// What was made and is still there.
    made: RefCell<Vec<String>>,
    /// The server goes on.
    stays: bool,
}

impl Databases {
    /// Of a server that goes away with them.
    pub fn of(admin: Config) -> Databases {
        Databases { admin, made: RefCell::default(), stays: false }
    }

    /// Of a server that is given: a superuser has to give it, and it must have pg_anker loaded.
    pub fn given(dsn: &str) -> Result<Databases> {
        let admin: Config = dsn.parse().map_err(|e| format!("--dsn: {e}"))?;
        let mut client = admin.connect(NoTls).map_err(|e| format!("--dsn: {}", crate::describe(&e)))?;
        let shown = "SELECT current_setting('wal_level'), current_setting('shared_preload_libraries'), \
                     current_setting('is_superuser')";
        let row = client.query_one(shown, &[])?;
        let [wal_level, libraries, superuser]: [String; 3] = std::array::from_fn(|i| row.get(i));
        if wal_level != "logical" || !libraries.contains("pg_anker") {
            return Err("the server of --dsn needs wal_level = logical and pg_anker in shared_preload_libraries".into());
        }
        if superuser != "on" {
            return Err("the user of --dsn has to be a superuser, who makes databases and the extension".into());
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

    /// An empty one, in which text is ordered as bytes.
    pub fn create(&self, name: &str) -> Result<Config> {
        self.refuse_taken(name)?;
        let how = "TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'";
        self.connect()?.batch_execute(&format!("CREATE DATABASE {name} {how}"))?;
        self.made.borrow_mut().push(name.to_owned());
        Ok(self.config(name))
    }

    /// A copy of another, which nobody is connected to.
    pub fn copy(&self, from: &str, name: &str, owner: Option<&str>) -> Result<Config> {
        self.refuse_taken(name)?;
        let mut client = self.connect()?;
        let version: i32 = client.query_one("SELECT current_setting('server_version_num')::integer", &[])?.get(0);
        // Files are copied, not written again through the log.
        let strategy = if version >= 150_000 { " STRATEGY file_copy" } else { "" };
        let owner = owner.map_or(String::new(), |owner| format!(" OWNER {owner}"));
        client.batch_execute(&format!("CREATE DATABASE {name}{owner} TEMPLATE {from}{strategy}"))?;
        self.made.borrow_mut().push(name.to_owned());
        Ok(self.config(name))
    }

    pub fn refuse_taken(&self, name: &str) -> Result<()> {
        match self.connect()?.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&name])? {
            Some(_) => Err(format!("there is a database {name} already; if a run has left it, drop it").into()),
            None => Ok(()),
        }
    }

    /// This one was made by somebody who acted for us.
    pub fn adopt(&self, name: &str) {
        self.made.borrow_mut().push(name.to_owned());
    }

    /// Takes away what was made here; the capture worker takes a moment to let a database go.
    pub fn discard(&self, name: &str) -> Result<()> {
        if !self.made.borrow().iter().any(|made| made == name) {
            return Ok(());
        }
        if let Ok(mut client) = self.config(name).connect(NoTls) {
            client.batch_execute("DROP EXTENSION IF EXISTS pg_anker CASCADE")?;
        }
        let (mut client, mut error) = (self.connect()?, None);
        let dropped = wait_until(Duration::from_secs(30), || {
            error = client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).err();
            Ok(error.is_none())
        })?;
        if !dropped {
            return Err(error.map_or("it stays".into(), Into::into));
        }
        self.made.borrow_mut().retain(|made| made != name);
        Ok(())
    }

    /// Whether the processes of the server can be looked at.
    pub fn is_on_this_machine(&self) -> bool {
        self.admin.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
    }

    /// The server's first process, which has started all others; `None` of a server elsewhere.
    pub fn postmaster(&self) -> Result<Option<u32>> {
        if !self.is_on_this_machine() {
            return Ok(None);
        }
        let backend: i32 = self.connect()?.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        Ok(os::parent(backend as u32))
    }
}

impl Drop for Databases {
    /// Leaves nothing in a server that goes on.
    fn drop(&mut self) {
        if !self.stays {
            return;
        }
        let made = self.made.borrow().clone();
        for name in made.iter().rev() {
            if let Err(error) = self.discard(name) {
                eprintln!("database {name} is left: {}", crate::describe(&*error));
            }
        }
    }
}
