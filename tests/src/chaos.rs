//! Tables with columns of every supported type, and sessions that change the tables at random at the same time.
//!
//! The writers make changes that are hard to replicate: they change and swap keys, delete rows and insert them again,
//! roll back savepoints and transactions, and use ON CONFLICT. Some updates leave a row's long (TOAST) values
//! unchanged. One table has no key, and identical rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use bench::cluster::Cluster;
use bench::{Result, describe};
use postgres::Client;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// The tables of [`SCHEMA`].
pub const TABLES: [&str; 6] = ["kinds", "facts", "pairs", "bag", "coded", "tokens"];

const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('calm', 'wild', 'odd');
    CREATE DOMAIN amount AS numeric(8,3);
    CREATE TABLE kinds (
        id integer PRIMARY KEY, b boolean, i2 smallint, i4 integer, i8 bigint, f8 double precision, n9 numeric(9,2),
        n30 numeric(30,10), t text, v varchar(40), c char(12), d date, ts timestamp, tz timestamptz, u uuid,
        r real, m mood, tm time, o oid, y bytea, dm amount, j jsonb, a integer[]);
    CREATE TABLE facts (fid bigint PRIMARY KEY, kid integer, amount numeric(12,2), at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE pairs (a integer, b text, x integer, long text, PRIMARY KEY (a, b));
    CREATE TABLE bag (k integer, v text, n numeric(6,2), r real, iv interval, j jsonb);
    ALTER TABLE bag REPLICA IDENTITY FULL;
    CREATE TABLE coded (code char(8) NOT NULL, part smallint NOT NULL, val bigint);
    CREATE UNIQUE INDEX coded_key ON coded (part, code);
    ALTER TABLE coded REPLICA IDENTITY USING INDEX coded_key;
    CREATE TABLE tokens (u uuid, m mood, n numeric, y bytea, j jsonb, PRIMARY KEY (u, m, n));";

pub fn create(client: &mut Client) -> Result<()> {
    client.batch_execute(SCHEMA)?;
    let mut values = Values::seeded(0);
    for table in TABLES {
        for _ in 0..20 {
            let rows: Vec<String> = (0..50).map(|_| values.row(table)).collect();
            client.batch_execute(&format!("INSERT INTO {table} VALUES {} ON CONFLICT DO NOTHING", rows.join(", ")))?;
        }
    }
    Ok(())
}

/// Sessions that write until [`Writers::stop`] is called, or this value is dropped.
pub struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    committed: AtomicU64,
    errors: Mutex<Vec<String>>,
}

impl Writers {
    /// Starts the sessions. Each runs `setup` first, and then makes a `pause` after each transaction.
    pub fn start(cluster: &Cluster, sessions: u64, setup: &str, pause: Duration) -> Result<Writers> {
        let shared = Arc::new(Shared { stop: false.into(), committed: 0.into(), errors: Mutex::default() });
        let mut threads = Vec::new();
        for number in 0..sessions {
            let mut client = cluster.config().application_name("chaos").connect(postgres::NoTls)?;
            // This thread checks the errors of statements itself. So the server need not log them, and its log shows
            // only unexpected errors.
            client.batch_execute("SET log_min_messages = fatal")?;
            client.batch_execute(setup)?;
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || {
                let mut values = Values::seeded(number + 1);
                while !shared.stop.load(Ordering::Relaxed) {
                    shared.note(&mut client, values.transaction());
                    std::thread::sleep(pause);
                }
            }));
        }
        Ok(Writers { shared, threads })
    }

    pub fn committed(&self) -> u64 {
        self.shared.committed.load(Ordering::Relaxed)
    }

    /// Stops the sessions, and returns the number of committed transactions. Fails if a session got an error that none
    /// of its statements can cause.
    pub fn stop(mut self) -> Result<u64> {
        self.halt();
        let errors = self.shared.errors.lock().expect("no writer panics with the lock");
        match errors.first() {
            None => Ok(self.committed()),
            Some(first) => Err(format!("{} errors of writers, the first: {first}", errors.len()).into()),
        }
    }

    fn halt(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.errors.lock().expect("no writer panics with the lock").push("a writer panicked".into());
            }
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Shared {
    fn note(&self, client: &mut Client, transaction: Transaction) {
        let ran = client.batch_execute(&transaction.sql);
        if transaction.ends_itself || ran.is_err() {
            // If the error happened inside a transaction block, ROLLBACK ends the block. Otherwise it only gives a
            // warning.
            if client.is_closed() || client.batch_execute("ROLLBACK").is_err() {
                self.errors.lock().expect("no writer panics with the lock").push("connection lost".into());
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
        }
        match ran {
            Ok(()) => drop(self.committed.fetch_add(1, Ordering::Relaxed)),
            Err(error) => {
                let code = error.code().map_or("", |c| c.code());
                // Violated constraints, deadlocks, and the RAISE of our own statements are expected.
                if !["23", "40", "P0"].contains(&code.get(..2).unwrap_or("")) {
                    let what = describe(&error);
                    let sql: String = transaction.sql.chars().take(300).collect();
                    self.errors.lock().expect("no writer panics with the lock").push(format!("{what}: {sql}"));
                }
            }
        }
    }
}

struct Transaction {
    sql: String,
    /// Whether the SQL itself contains BEGIN and COMMIT. An error in between then leaves a transaction block open.
    ends_itself: bool,
}

/// Random values, rows and statements.
pub struct Values {
    random: StdRng,
}

/// All columns of table `kinds` except its key.
const COLUMNS: [&str; 22] = [
    "b", "i2", "i4", "i8", "f8", "n9", "n30", "t", "v", "c", "d", "ts", "tz", "u", "r", "m", "tm", "o", "y", "dm", "j",
    "a",
];

/// The upper limit of keys. It is small, so that several sessions often change the same row.
const KEYS: i32 = 1500;

impl Values {
    pub fn seeded(seed: u64) -> Values {
        Values { random: StdRng::seed_from_u64(seed) }
    }

    fn transaction(&mut self) -> Transaction {
        let statements = self.random.random_range(1..=5);
        if self.chance(2) {
            return Transaction { sql: self.statement(), ends_itself: false };
        }
        let mut sql = String::from("BEGIN;");
        for _ in 0..statements {
            match self.random.random_range(0..10) {
                0 | 1 => sql += &format!("SAVEPOINT s; {}; ROLLBACK TO s;", self.statement()),
                2 => sql += &format!("SAVEPOINT s; {}; RELEASE s;", self.statement()),
                3 => {
                    sql +=
                        &format!("SAVEPOINT a; {}; SAVEPOINT b; {}; ROLLBACK TO a;", self.statement(), self.statement())
                }
                4 => sql += &self.caught_exception(),
                _ => sql += &format!("{};", self.statement()),
            }
        }
        sql += if self.chance(6) { "ROLLBACK" } else { "COMMIT" };
        Transaction { sql, ends_itself: true }
    }

    /// A subtransaction that fails after it has written.
    fn caught_exception(&mut self) -> String {
        format!(
            "DO $do$ BEGIN {}; RAISE 'undone'; EXCEPTION WHEN raise_exception OR integrity_constraint_violation
             THEN NULL; END $do$;",
            self.statement()
        )
    }

    fn statement(&mut self) -> String {
        let table = *TABLES.choose(&mut self.random).expect("there are tables");
        match self.random.random_range(0..12) {
            0..=2 => {
                let rows: Vec<String> = (0..self.random.random_range(1..8)).map(|_| self.row(table)).collect();
                format!("INSERT INTO {table} VALUES {} ON CONFLICT DO NOTHING", rows.join(", "))
            }
            3 => self.upsert(),
            4..=6 => self.update(table),
            7 => self.change_key(table),
            8 | 9 => format!("DELETE FROM {table} WHERE {}", self.some(table)),
            10 => self.replace(table),
            _ => {
                format!("UPDATE {table} SET {col} = {col} WHERE {}", self.some(table), col = Self::plain_column(table))
            }
        }
    }

    fn upsert(&mut self) -> String {
        match self.random.random_range(0..3) {
            0 => format!(
                "INSERT INTO kinds VALUES {} ON CONFLICT (id) DO UPDATE SET i4 = {}, t = excluded.t",
                self.row("kinds"),
                self.integer()
            ),
            1 => format!(
                "INSERT INTO pairs VALUES {} ON CONFLICT (a, b) DO UPDATE SET x = {}",
                self.row("pairs"),
                self.integer()
            ),
            _ => format!(
                "INSERT INTO coded VALUES {} ON CONFLICT (part, code) DO UPDATE SET val = coded.val / 2",
                self.row("coded")
            ),
        }
    }

    fn update(&mut self, table: &str) -> String {
        let set = match table {
            "kinds" => {
                let column = *COLUMNS.choose(&mut self.random).expect("there are columns");
                format!("{column} = {}", self.value(column))
            }
            "facts" => format!("amount = {}, kid = {}", self.money(), self.key()),
            "pairs" if self.chance(3) => format!("long = {}", self.long()),
            "pairs" => format!("x = {}", self.integer()),
            "bag" if self.chance(2) => format!("j = {}", self.value("j")),
            "bag" => format!("n = {}", self.value("n6")),
            "tokens" if self.chance(3) => format!("j = {}", self.value("long j")),
            "tokens" => format!("y = {}", self.value("y")),
            _ => format!("val = {}", self.value("i8")),
        };
        format!("UPDATE {table} SET {set} WHERE {}", self.some(table))
    }

    fn change_key(&mut self, table: &str) -> String {
        match table {
            "kinds" => format!("UPDATE kinds SET id = id + {} WHERE id = {}", self.key(), self.key()),
            "facts" => format!("UPDATE facts SET fid = {} - fid WHERE {}", 2 * KEYS, self.some("facts")),
            "pairs" => format!("UPDATE pairs SET b = b || 'x', a = a + 1 WHERE a = {}", self.key() % 50),
            "bag" => format!("UPDATE bag SET k = k + 1 WHERE k = {}", self.key() % 40),
            "tokens" if self.chance(2) => {
                // The new number equals the old one, but has a larger scale, so it is shown with more digits.
                format!("UPDATE tokens SET n = n + 0.00 WHERE {}", self.some("tokens"))
            }
            "tokens" => format!("UPDATE tokens SET m = {} WHERE {}", self.value("mood"), self.some("tokens")),
            _ => format!("UPDATE coded SET part = part + 1, code = 'n' || part WHERE {}", self.some("coded")),
        }
    }

    /// Deletes a row and inserts it again, or swaps the keys of two rows, in one transaction.
    fn replace(&mut self, table: &str) -> String {
        if table == "kinds" {
            let id = self.key();
            format!("DELETE FROM kinds WHERE id = {id}; INSERT INTO kinds (id, t) VALUES ({id}, 'again')")
        } else {
            let (a, b) = (self.key(), self.key());
            format!(
                "UPDATE facts SET fid = -{a} - 1 WHERE fid = {a}; UPDATE facts SET fid = {a} WHERE fid = {b};
                 UPDATE facts SET fid = {b} WHERE fid = -{a} - 1"
            )
        }
    }

    fn some(&mut self, table: &str) -> String {
        let key = self.key();
        match table {
            "kinds" => format!("id BETWEEN {key} AND {}", key + self.random.random_range(0..12)),
            "facts" => format!("fid BETWEEN {key} AND {}", key + self.random.random_range(0..12)),
            "pairs" => format!("a = {} AND b < {}", key % 50, self.word()),
            "bag" => format!("k = {} AND n > 0", key % 40),
            "tokens" => format!("u = {} AND n < {}", self.token(), key % 5),
            _ => format!("part = {} AND code > {}", key % 20, self.word()),
        }
    }

    fn plain_column(table: &str) -> &'static str {
        match table {
            "kinds" => "i4",
            "facts" => "amount",
            "pairs" => "long",
            "bag" => "v",
            "tokens" => "j",
            _ => "val",
        }
    }

    /// A row for INSERT INTO … VALUES.
    pub fn row(&mut self, table: &str) -> String {
        match table {
            "kinds" => {
                let values: Vec<String> = COLUMNS.iter().map(|c| self.value(c)).collect();
                format!("({}, {})", self.key(), values.join(", "))
            }
            "facts" => format!("({}, {}, {})", self.key(), self.key(), self.money()),
            "pairs" => format!("({}, {}, {}, {})", self.key() % 50, self.word(), self.integer(), self.long()),
            "bag" => {
                let values: Vec<String> = ["v", "n6", "r", "iv", "j"].iter().map(|c| self.value(c)).collect();
                format!("({}, {})", self.key() % 40, values.join(", "))
            }
            "tokens" => {
                let values: Vec<String> = ["mood", "digits", "y", "long j"].iter().map(|c| self.value(c)).collect();
                format!("({}, {})", self.token(), values.join(", "))
            }
            _ => format!("({}, {}, {})", self.word(), self.key() % 20, self.value("i8")),
        }
    }

    /// One of sixty uuids, with first bits of 0 and of 1.
    fn token(&mut self) -> String {
        format!("md5(({} % 60)::text)::uuid", self.key())
    }

    fn key(&mut self) -> i32 {
        self.random.random_range(0..KEYS)
    }

    fn integer(&mut self) -> i32 {
        self.random.random_range(-1000..1000)
    }

    fn money(&mut self) -> String {
        format!("{:.2}", self.random.random_range(-9999.0..9999.0))
    }

    fn word(&mut self) -> String {
        let words = ["a", "be", "sea", "Dee", "été", "ß", "日本", "", "x y", "zzzzzzz"];
        format!("'{}{}'", words.choose(&mut self.random).expect("there are words"), self.random.random_range(0..10))
    }

    /// A text that is long enough for TOAST. PostgreSQL stores some of these texts in the row, others in the TOAST
    /// table; some are compressible.
    fn long(&mut self) -> String {
        match self.random.random_range(0..4) {
            0 => "NULL".into(),
            1 => "repeat('mirror', 2000)".into(),
            2 => "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 150))".into(),
            _ => self.word(),
        }
    }

    /// An SQL expression for a value of a column of table `kinds`, or of a column with the same name in another table.
    /// One in eight is NULL.
    pub fn value(&mut self, column: &str) -> String {
        // These two columns are part of a key, so they must not be NULL.
        if self.chance(8) && column != "mood" && column != "digits" {
            return "NULL".into();
        }
        let one_of =
            |random: &mut StdRng, values: &[&str]| (*values.choose(random).expect("there are values")).to_owned();
        match column {
            "b" => self.random.random_bool(0.5).to_string(),
            "i2" => one_of(&mut self.random, &["-32768", "32767", "0", "1", "-7", "12"]),
            "i4" if self.chance(10) => one_of(&mut self.random, &["-2147483648", "2147483647"]),
            "i4" => self.integer().to_string(),
            "i8" if self.chance(10) => one_of(&mut self.random, &["-9223372036854775808", "9223372036854775807"]),
            "i8" => self.random.random_range(-5_000_000_000i64..5_000_000_000).to_string(),
            "f8" if self.chance(4) => {
                let hard = ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e-307", "1.7976931348623157e308"];
                one_of(&mut self.random, &hard) + "::float8"
            }
            "f8" => format!("{:e}", self.random.random_range(-1e6..1e6)),
            "n9" => one_of(&mut self.random, &["9999999.99", "-9999999.99", "0.00", "0.01", "-1.5", "3"]),
            "n6" => format!("{:.2}", self.random.random_range(-20i32..20) as f64 / 4.0),
            "n30" => format!(
                "{}.{:010}",
                self.random.random_range(-1_000_000i64..1_000_000),
                self.random.random_range(0..1_000_000_000)
            ),
            "t" => self.word(),
            "v" => one_of(&mut self.random, &["'plain'", "'trailing  '", "'naïve'", "'\u{10348}'", "''", "'quo''te'"]),
            "c" => one_of(&mut self.random, &["'pad'", "'pad '", "'twelve chars'", "''", "'ünïcödé'"]),
            "d" if self.chance(10) => {
                one_of(&mut self.random, &["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'5874897-12-31'"])
            }
            "d" => format!("date '2020-01-01' + {}", self.random.random_range(-5000..5000)),
            "ts" if self.chance(10) => {
                one_of(&mut self.random, &["'infinity'", "'-infinity'", "'294276-12-31 23:59:59.999999'"])
            }
            "ts" => format!(
                "timestamp '2020-01-01' + {} * interval '1 microsecond'",
                self.random.random_range(-9_000_000_000i64..9_000_000_000)
            ),
            "tz" => format!("to_timestamp({})", self.random.random_range(0..2_000_000_000)),
            "u" => self.token(),
            "r" if self.chance(4) => {
                one_of(&mut self.random, &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "1e-45", "3.4028235e38"])
                    + "::real"
            }
            "r" => format!("{:e}", self.random.random_range(-1e6..1e6)),
            "m" | "mood" => one_of(&mut self.random, &["'calm'", "'wild'", "'odd'"]) + "::mood",
            "tm" => one_of(&mut self.random, &["'00:00'", "'24:00'", "'12:34:56.789012'"]) + "::time",
            "o" => one_of(&mut self.random, &["'0'", "'4294967295'", "'2147483648'", "'7'"]) + "::oid",
            "y" => {
                one_of(&mut self.random, &["'\\x'", "'\\x00'", "'\\xff'", "'\\x000102030405060708090a0b0c0d'"])
                    + "::bytea"
            }
            "dm" => one_of(&mut self.random, &["99999.999", "0", "-1.5"]) + "::amount",
            "digits" => one_of(&mut self.random, &["1", "1.0", "2.50", "'NaN'", "-3.000"]) + "::numeric",
            "iv" => one_of(&mut self.random, &["'1 mon'", "'30 days'", "'720:00:00'"]) + "::interval",
            "j" => one_of(&mut self.random, &["'{}'", "'[1, 2]'", "'{\"a\": 1.0}'", "'{\"a\": 1}'"]) + "::jsonb",
            "long j" if self.chance(3) => "(SELECT jsonb_agg(md5(random()::text)) FROM generate_series(1, 150))".into(),
            "long j" => self.value("j"),
            "a" => {
                one_of(&mut self.random, &["'{}'", "'{1,2,3}'", "'[2:3]={1,NULL}'", "'{{1,2},{3,4}}'"]) + "::integer[]"
            }
            other => unreachable!("no column {other}"),
        }
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_range(0..one_in) == 0
    }

    pub fn random(&mut self) -> &mut StdRng {
        &mut self.random
    }
}
