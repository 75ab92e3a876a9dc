//! Measures how soon the mirror is live again after it was lost, from a checkpoint and by a load of the tables. Also
//! measures the cost of checkpoints.
//!
//! | file | holds |
//! |---|---|
//! | `lost` | one loss of the mirror, and the parts of the time until all tables are live again |
//! | `beside` | transactions beside checkpoints and without, in turns |
//! | `page` | the report's page |

mod beside;
mod lost;
mod page;

use std::sync::Arc;
use std::time::Duration;

use anker_report::Report;
use postgres::Client;
use serde_json::{Value, json};

pub use self::page::page;

use self::lost::{Loss, lose};
use crate::arguments::{Arguments, Parsed};
use crate::cluster::{self, Cluster};
use crate::report::Findings;
use crate::server::Server;
use crate::sets::{self, Set};
use crate::tpcc::{self, Clients, Scale, Workload};
use crate::{Output, Result, anker};

pub const USAGE: &str =
    "restart [--quick] [--scale N] [--warehouses N] [--seconds N] [--rounds N] [--clients N] [--every N] [OUTPUT]";

const NAME: &str = "restart";
/// The two ways in which the mirror is made again.
const BY_LOAD: &str = "by a load";
const FROM_CHECKPOINT: &str = "from a checkpoint";
/// The two sets of tables.
const TPCH: &str = "TPC-H";
const TPCC: &str = "TPC-C";
const LIMIT: Duration = Duration::from_secs(600);
/// The time for which clients write before the mirror is lost, if it does not matter how many blocks they change.
const SHORTLY: Duration = Duration::from_secs(5);

pub struct Options {
    quick: bool,
    scale: f64,
    warehouses: u32,
    /// The time for which clients write between a checkpoint and a crash.
    seconds: u32,
    rounds: u32,
    clients: u32,
    /// The seconds from one checkpoint to the next, beside transactions.
    every: u32,
    pub output: Output,
}

impl Options {
    pub fn parse(given: impl Iterator<Item = String>) -> Parsed<Options> {
        let mut arguments = Arguments::new(given);
        let (mut quick, mut scale, mut output) = (false, None, Output::default());
        let (mut warehouses, mut seconds, mut rounds, mut clients, mut every) = (None, None, None, 2, None);
        while let Some(option) = arguments.option() {
            match option.as_str() {
                "--quick" => quick = true,
                "--scale" => scale = Some(arguments.number()?),
                "--warehouses" => warehouses = Some(arguments.number()?),
                "--seconds" => seconds = Some(arguments.number()?),
                "--rounds" => rounds = Some(arguments.number()?),
                "--clients" => clients = arguments.number()?,
                "--every" => every = Some(arguments.number()?),
                "--dsn" => return Err("--dsn: restart stops and kills a server of its own".into()),
                _ if arguments.output(&mut output)? => {}
                _ => return Err(format!("unknown argument {option}")),
            }
        }
        let usual = |given: Option<u32>, short, long| given.unwrap_or(if quick { short } else { long });
        Ok(Options {
            quick,
            scale: scale.unwrap_or(if quick { 0.02 } else { 1.0 }),
            warehouses: usual(warehouses, 1, 5),
            seconds: usual(seconds, 3, 60),
            rounds: usual(rounds, 1, 3),
            clients,
            every: usual(every, 1, 5),
            output,
        })
    }
}

/// A server with mirrored tables.
struct Data {
    name: &'static str,
    cluster: Cluster,
    tables: &'static [&'static str],
    /// The transactions that change the tables, if there are any.
    workload: Option<Workload>,
}

pub fn run(server: &Arc<Server>, options: &Options) -> Result<Report> {
    let mut findings = Findings::new(NAME);
    for (key, value) in [
        ("scale", json!(options.scale)),
        ("warehouses", json!(options.warehouses)),
        ("clients", json!(options.clients)),
        ("seconds", json!(options.seconds)),
        ("rounds", json!(options.rounds)),
        ("every", json!(options.every)),
    ] {
        findings.report.set_meta(key, value);
    }
    {
        let data = tpch(server, options)?;
        let version: String = data.cluster.connect()?.query_one("SHOW server_version", &[])?.get(0);
        findings.report.set_meta("postgresql", version);
        losses(&data, &[Loss::Restart, Loss::Engine], options, &mut findings)?;
    }
    let data = tpcc(server, options)?;
    losses(&data, &[Loss::Restart, Loss::Engine, Loss::Crash], options, &mut findings)?;
    beside::run(&data, options, &mut findings)?;
    Ok(findings.report)
}

/// Settings with which checkpoints are written only on request.
fn settings(options: cluster::Options) -> cluster::Options {
    options.set("anker.memory", "8GB").set("anker.checkpoint_interval", "1d")
}

fn tpch(server: &Arc<Server>, options: &Options) -> Result<Data> {
    let set = Set::named("tpch").ok_or("no set")?;
    let cluster = Cluster::start(server, &settings(sets::cluster_options()))?;
    eprintln!("loading {}, {} {}", set.name, set.scale_is, options.scale);
    set.create(&cluster.config(), options.scale)?;
    let data = Data { name: TPCH, cluster, tables: set.tables, workload: None };
    data.mirror()?;
    Ok(data)
}

fn tpcc(server: &Arc<Server>, options: &Options) -> Result<Data> {
    let standard = Scale::standard(options.warehouses);
    let scale = if options.quick { Scale::small(options.warehouses) } else { standard };
    let cluster = Cluster::start(server, &settings(cluster::Options::default().set("shared_buffers", "1GB")))?;
    eprintln!("loading TPC-C, {} warehouse(s)", options.warehouses);
    tpcc::create(&cluster.config(), scale)?;
    let workload = Some(Workload::of(scale, options.clients));
    let data = Data { name: TPCC, cluster, tables: &tpcc::TABLES, workload };
    data.mirror()?;
    Ok(data)
}

impl Data {
    fn mirror(&self) -> Result<()> {
        let mut client = self.cluster.connect()?;
        anker::create_extension(&mut client)?;
        anker::mirror(&mut client, self.tables, LIMIT)
    }

    fn start_clients(&self) -> Result<Option<Clients>> {
        self.workload.map(|workload| Clients::start(&self.cluster.config(), workload)).transpose()
    }

    /// Compares heap and mirror.
    fn verify(&self) -> Result<()> {
        let mut client = self.cluster.connect()?;
        for table in self.tables {
            if let Some(first) = anker::verify(&mut client, table)?.first() {
                return Err(format!("{table}: heap and mirror differ: {first}").into());
            }
        }
        Ok(())
    }
}

/// Loses the mirror in each of these ways, first without a checkpoint and then with one.
fn losses(data: &Data, ways: &[Loss], options: &Options, findings: &mut Findings) -> Result<()> {
    for round in 1..=options.rounds {
        for how in [BY_LOAD, FROM_CHECKPOINT] {
            eprintln!("{}, round {round} of {}: {how}", data.name, options.rounds);
            if how == FROM_CHECKPOINT {
                full_checkpoint(data, &json!({ "round": round, "data": data.name }), findings)?;
            }
            for &loss in ways {
                let params = json!({ "round": round, "data": data.name, "loss": loss.name() });
                one(data, loss, how, options, &params, findings)?;
            }
        }
        data.verify()?;
        findings.keep()?;
    }
    Ok(())
}

/// Loses the mirror once, and measures its return.
fn one(data: &Data, loss: Loss, how: &str, options: &Options, params: &Value, findings: &mut Findings) -> Result<()> {
    let mut client = data.cluster.connect()?;
    match how {
        // Files that the database does not name are not used.
        BY_LOAD => client.batch_execute("SELECT setval('anker.anchor', 1, false)")?,
        _ => drop(checkpoint(&mut client)?),
    }
    // PostgreSQL's own checkpoint makes its recovery short.
    client.batch_execute("CHECKPOINT")?;
    let mut clients = if loss == Loss::Restart { None } else { data.start_clients()? };
    if clients.is_some() {
        let all = Duration::from_secs(options.seconds.into());
        let is_repaired = loss == Loss::Crash && how == FROM_CHECKPOINT;
        std::thread::sleep(if is_repaired { all } else { all.min(SHORTLY) });
    }
    let returned = lose(data, loss, &mut client, &mut clients)?;
    // Clients whose server has crashed report that.
    let failed = clients.filter(|_| loss != Loss::Crash).and_then(|clients| clients.stop().errors.first().cloned());
    if let Some(error) = failed {
        return Err(format!("a client failed: {error}").into());
    }
    if (returned.checkpoint_rows > 0.0) != (how == FROM_CHECKPOINT) {
        let rows = returned.checkpoint_rows;
        return Err(format!("{}, {}, {how}: {rows} rows of a checkpoint", data.name, loss.name()).into());
    }
    returned.figures(|figure, value, unit| findings.row(figure, how, params, value, unit));
    Ok(())
}

/// A checkpoint that has to write everything, and after it another one that has nothing to write.
fn full_checkpoint(data: &Data, params: &Value, findings: &mut Findings) -> Result<()> {
    let mut client = data.cluster.connect()?;
    let (written, seconds) = checkpoint(&mut client)?;
    let (_, idle) = checkpoint(&mut client)?;
    let row = client.query_one(
        "SELECT (SELECT disk_bytes FROM anker.checkpoints)::float8, sum(bytes)::float8,
            sum(pg_table_size(relation))::float8, sum(rows)::float8 FROM anker.tables",
        &[],
    )?;
    let [disk, memory, heap, rows]: [f64; 4] = std::array::from_fn(|column| row.get(column));
    for (figure, value, unit) in [
        ("rows", rows, ""),
        ("checkpoint", written / 1e6, "MB"),
        ("seconds", seconds, "s"),
        ("seconds, nothing to write", idle, "s"),
        ("rate", written / 1e6 / seconds, "MB/s"),
        ("disk", disk / 1e6, "MB"),
        ("disk, of memory", disk / memory, "of the mirror's memory"),
        ("disk, of heap", disk / heap, "of the heap without indexes"),
    ] {
        findings.row(figure, data.name, params, value, unit);
    }
    Ok(())
}

/// Writes a checkpoint. Returns its bytes and seconds.
fn checkpoint(client: &mut Client) -> Result<(f64, f64)> {
    let row = client.query_one("SELECT bytes_written::float8, seconds FROM anker.checkpoint()", &[])?;
    Ok((row.get(0), row.get(1)))
}
