//! A loaded database, of which every run gets a copy. So each run begins with the same rows, although earlier runs have
//! changed the rows of their copies.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use postgres::{Client, Config, NoTls};

use crate::cluster::{Cluster, Options, Stop};
use crate::databases::Databases;
use crate::server::Server;
use crate::{Result, anker};

const MIRRORING: Duration = Duration::from_secs(600);
/// The name of the loaded database in an existing server. Names of copies also have a number.
const LOADED: &str = "anker_bench";

/// The server that a benchmark runs on.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// Each run has a server of its own.
    Private(&'a Arc<Server>),
    /// An existing server, given by its connection string. It is not restarted, and pg_anker is loaded in all runs.
    Given(&'a str),
}

impl<'a> Place<'a> {
    pub fn new(server: &'a Arc<Server>, dsn: Option<&'a str>) -> Place<'a> {
        dsn.map_or(Place::Private(server), Place::Given)
    }

    pub fn is_private(self) -> bool {
        matches!(self, Place::Private(_))
    }

    /// A description of the server's settings. For a private server it is `settings`.
    pub fn described(self, settings: &str) -> String {
        if self.is_private() { settings.to_owned() } else { "a server that was given, with its own settings".into() }
    }

    /// An empty database for one experiment, with pg_anker loaded.
    pub fn database(self, options: &Options) -> Result<Database> {
        match self {
            Place::Private(server) => Ok(Database::Private(Cluster::start(server, options)?)),
            Place::Given(dsn) => {
                let databases = Rc::new(Databases::given(dsn)?);
                databases.create(LOADED)?;
                Ok(Database::Given { databases, name: LOADED.into() })
            }
        }
    }
}

pub enum Stage {
    /// A stopped cluster, whose data is copied.
    Private(Cluster),
    Given(Rc<Databases>),
}

/// A database for one run. A private server has only this database.
pub enum Database {
    Private(Cluster),
    Given { databases: Rc<Databases>, name: String },
}

impl Stage {
    /// Creates a database and has `load` fill it. `options` are for a private server, which does not load pg_anker.
    pub fn load(place: Place, options: Options, load: impl FnOnce(&Config) -> Result<()>) -> Result<Stage> {
        match place {
            Place::Private(server) => {
                let options = options.unset("shared_preload_libraries").set("wal_level", "replica");
                let original = Cluster::start(server, &options)?;
                load(&original.config())?;
                original.stop(Stop::Fast)?;
                Ok(Stage::Private(original))
            }
            Place::Given(dsn) => {
                let databases = Databases::given(dsn)?;
                load(&databases.create(LOADED)?)?;
                Ok(Stage::Given(Rc::new(databases)))
            }
        }
    }

    /// A copy of the database without the extension. If its server is private, the server does not load pg_anker,
    /// either.
    pub fn bare(&self) -> Result<Database> {
        self.copy(&[])
    }

    /// A copy with pg_anker and mirrors of these tables.
    pub fn mirrored(&self, tables: &[&str]) -> Result<Database> {
        self.mirrored_by("auto", tables)
    }

    /// Like [`Stage::mirrored`], with this mechanism for the engine's snapshots. An existing server keeps its own
    /// mechanism.
    pub fn mirrored_by(&self, mechanism: &str, tables: &[&str]) -> Result<Database> {
        let database = self.with_extension(mechanism)?;
        anker::mirror(&mut database.connect()?, tables, MIRRORING)?;
        Ok(database)
    }

    /// Like [`Stage::mirrored_by`], but no table is mirrored yet.
    pub fn with_extension(&self, mechanism: &str) -> Result<Database> {
        let database = self.copy(&[
            ("shared_preload_libraries", "pg_anker"),
            ("wal_level", "logical"),
            ("anker.memory", "8GB"),
            ("anker.mechanism", mechanism),
        ])?;
        let mut client = database.connect()?;
        anker::create_extension(&mut client)?;
        Ok(database)
    }

    fn copy(&self, settings: &[(&str, &str)]) -> Result<Database> {
        match self {
            Stage::Private(original) => Ok(Database::Private(original.copy(settings)?)),
            Stage::Given(databases) => {
                let is_free = |name: &String| databases.refuse_taken(name).is_ok();
                let name = (1..).map(|number| format!("{LOADED}_{number}")).find(is_free).unwrap_or_default();
                databases.copy(LOADED, &name, None)?;
                Ok(Database::Given { databases: databases.clone(), name })
            }
        }
    }
}

impl Database {
    pub fn config(&self) -> Config {
        match self {
            Database::Private(cluster) => cluster.config(),
            Database::Given { databases, name } => databases.config(name),
        }
    }

    pub fn connect(&self) -> Result<Client> {
        Ok(self.config().connect(NoTls)?)
    }

    /// The process id of the postmaster, if it is on this machine.
    pub fn postmaster(&self) -> Result<Option<u32>> {
        match self {
            Database::Private(cluster) => cluster.postmaster_pid().map(Some),
            Database::Given { databases, .. } => databases.postmaster(),
        }
    }

    /// Removes the database, so that its disk space can be used again.
    pub fn discard(self) -> Result<()> {
        match self {
            Database::Private(cluster) => cluster.discard(),
            Database::Given { databases, name } => databases.discard(&name),
        }
    }
}
