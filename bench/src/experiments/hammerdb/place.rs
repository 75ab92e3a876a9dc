//! The server of HammerDB's database. A private cluster is restarted with other settings for each run. The settings of
//! an existing server are not changed.
//!
//! A minute of TPC-C adds half as many orders as there are in five warehouses at the beginning. So no run uses the
//! database that was built. Every run gets a fresh copy, with the same rows, indexes without gaps, and no dead rows.

use std::sync::Arc;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};
use rand::Rng;

use super::Configuration;
use super::installation::{Installation, Setting};
use crate::cluster::{Cluster, Options};
use crate::databases::Databases;
use crate::server::Server;
use crate::{Result, anker};

/// The user that HammerDB creates, and the database that it builds.
pub const USER: &str = "anker_hammerdb";
const BUILT: &str = "anker_hammerdb";
/// The database of one run, a copy of the one that was built.
const COPY: &str = "anker_hammerdb_run";

pub struct Place {
    databases: Databases,
    /// The private cluster; `None` for an existing server.
    cluster: Option<Cluster>,
    password: String,
}

impl Place {
    pub fn private(server: &Arc<Server>) -> Result<Place> {
        // The server starts without pg_anker. Settings of the extension take effect when it is loaded.
        //
        // With the default of `autovacuum_naptime`, nothing is vacuumed in a server's first minute. Until then
        // `district` grows by dead rows, and PostgreSQL may estimate that its primary key matches several rows. STOCK
        // LEVEL then reads all order lines of a district. Chance decides whether a run begins with this plan, and such
        // a run stays slow.
        let options = Options::default()
            .unset("shared_preload_libraries")
            .set("autovacuum_naptime", "5s")
            .set("wal_level", "replica")
            .set("synchronous_commit", "off")
            .set("shared_buffers", "2GB")
            .set("anker.memory", "6GB");
        let cluster = Cluster::start(server, &options)?;
        let databases = Databases::of(cluster.config());
        Ok(Place { databases, cluster: Some(cluster), password: password() })
    }

    /// The existing server with this connection string. The user must be a superuser, and pg_anker must be loaded.
    pub fn given(dsn: &str) -> Result<Place> {
        let databases = Databases::given(dsn)?;
        Ok(Place { databases, cluster: None, password: password() })
    }

    pub fn is_private(&self) -> bool {
        self.cluster.is_some()
    }

    /// A description of the server's relevant settings.
    pub fn described(&self) -> &'static str {
        if self.is_private() {
            "synchronous_commit off, fsync off, shared_buffers 2GB, autovacuum_naptime 5s"
        } else {
            "a server that was given"
        }
    }

    /// Builds the database.
    pub fn build(&self, hammerdb: &Installation, warehouses: u32) -> Result<()> {
        [BUILT, COPY].iter().try_for_each(|name| self.databases.refuse_taken(name))?;
        if self.connect()?.query_opt("SELECT FROM pg_roles WHERE rolname = $1", &[&USER])?.is_some() {
            return Err(format!("there is a role {USER} already; if a run has left it, drop it").into());
        }
        self.databases.adopt_role(USER);
        self.databases.adopt(BUILT);
        hammerdb.build(&self.settings(BUILT)?, warehouses)?;
        // After this VACUUM, vacuum has nothing to do in the copies.
        Ok(self.config(BUILT).connect(NoTls)?.batch_execute("VACUUM (FREEZE, ANALYZE)")?)
    }

    /// A fresh copy of the database, in a server with the settings of this configuration. Returns how a superuser
    /// connects to it.
    pub fn prepare(&self, configuration: &Configuration) -> Result<Config> {
        if let Some(cluster) = &self.cluster {
            load_library(cluster, configuration.library)?;
        }
        let config = self.databases.copy(BUILT, COPY, Some(USER))?;
        if configuration.library {
            anker::create_extension(&mut config.connect(NoTls)?)?;
        }
        Ok(config)
    }

    /// Drops the copy.
    pub fn discard(&self) -> Result<()> {
        self.databases.discard(COPY)
    }

    /// HammerDB's settings to build the database, or to run on the copy.
    fn settings(&self, database: &str) -> Result<Vec<Setting>> {
        let admin = self.databases.admin();
        let host = match admin.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => return Err("the connection string has no host".into()),
        };
        let superuser = admin.get_user().ok_or("the connection string has no user")?;
        let maintenance = admin.get_dbname().unwrap_or(superuser);
        let password = admin.get_password().map_or("none".into(), String::from_utf8_lossy);
        let sslmode = match admin.get_ssl_mode() {
            SslMode::Disable => "disable",
            SslMode::Require => "require",
            _ => "prefer",
        };
        Ok(vec![
            ("host", host),
            ("port", admin.get_ports().first().map_or(5432, |port| *port).to_string()),
            ("sslmode", sslmode.into()),
            ("superuser", superuser.into()),
            ("superuserpass", password.into_owned()),
            ("defaultdbase", maintenance.into()),
            ("user", USER.into()),
            ("pass", self.password.clone()),
            ("dbase", database.into()),
            ("storedprocs", "true".into()),
        ])
    }

    pub fn settings_of_a_run(&self) -> Result<Vec<Setting>> {
        self.settings(COPY)
    }

    /// The process id of the postmaster, if it is on this machine.
    pub fn postmaster(&self) -> Result<Option<u32>> {
        self.databases.postmaster()
    }

    pub fn connect(&self) -> Result<Client> {
        self.databases.connect()
    }

    fn config(&self, database: &str) -> Config {
        self.databases.config(database)
    }
}

/// Restarts the server with or without pg_anker. This is done for each run, so that all runs begin in the same state.
fn load_library(cluster: &Cluster, yes: bool) -> Result<()> {
    let mut client = cluster.connect()?;
    for (name, value) in [("shared_preload_libraries", "pg_anker"), ("wal_level", "logical")] {
        let what = if yes { format!("SET {name} = '{value}'") } else { format!("RESET {name}") };
        client.batch_execute(&format!("ALTER SYSTEM {what}"))?;
    }
    drop(client);
    cluster.restart()
}

/// A random password. Nobody needs to know it, because the user is dropped with the database.
fn password() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}
