//! `anker.configure` says which lines `postgresql.conf` needs on this server, and why. It works without the library
//! being preloaded, because a missing line may be the reason why it is not.

use std::fs;
use std::path::Path;

use pgrx::prelude::*;

use crate::load::MAX_LOADERS;
use crate::pg::{decoding, session, wal};
use crate::shared;

/// Setting, present value, whether that suffices, the line that is needed otherwise, whether the server must be
/// restarted for it, and the reason.
type Row = (String, Option<String>, bool, Option<String>, bool, String);

#[pg_extern]
#[allow(clippy::type_complexity)]
fn configure() -> TableIterator<
    'static,
    (
        name!(setting, String),
        name!(current, Option<String>),
        name!(ok, bool),
        name!(line, Option<String>),
        name!(restart, bool),
        name!(reason, String),
    ),
> {
    let rows = session::with_settings(&[(c"search_path", c"pg_catalog, pg_temp")], || {
        let databases = shared::databases().len().max(1);
        let mut rows = vec![preloaded(), wal_level(), slots(databases), workers(databases)];
        rows.extend(plugins());
        rows.extend(memory(databases));
        rows
    });
    TableIterator::new(rows)
}

/// A setting whose present value suffices, or the line that it needs.
fn row(setting: &str, current: Option<String>, needed: Option<String>, restart: bool, reason: String) -> Row {
    let line = needed.map(|value| format!("{setting} = {value}"));
    (setting.into(), current, line.is_none(), line, restart, reason)
}

fn preloaded() -> Row {
    let name = "shared_preload_libraries";
    let current = setting(name).unwrap_or_default();
    let needed = (!shared::is_there()).then(|| with_item(&current, "pg_anker"));
    let reason = "The server's processes load pg_anker when the server starts.";
    row(name, Some(current), needed, true, reason.into())
}

fn wal_level() -> Row {
    let current = setting("wal_level").unwrap_or_default();
    let needed = (!wal::is_logical()).then(|| "logical".into());
    let reason = "Mirrors follow their tables by logical decoding.";
    row("wal_level", Some(current), needed, true, reason.into())
}

fn slots(databases: usize) -> Row {
    let name = "max_replication_slots";
    let others =
        number("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name !~ '^pg_anker_[0-9]+_[0-9]+$'");
    let wanted = others + databases as u64;
    let current = setting(name);
    let needed = (parsed(&current) < wanted).then(|| wanted.to_string());
    let reason = format!(
        "Each database with mirrored tables has a replication slot while its mirror runs: {databases} here. Others have \
         {others}."
    );
    row(name, current, needed, true, reason)
}

fn workers(databases: usize) -> Row {
    let name = "max_worker_processes";
    // Each database has one of these workers, besides its loaders: it decodes, or reads the list of mirrored tables.
    const FOLLOWERS: usize = 2;
    let ours = 1 + databases * (FOLLOWERS + MAX_LOADERS);
    let parallel = parsed(&setting("max_parallel_workers"));
    let others = number(
        "SELECT count(*)::text FROM pg_stat_activity WHERE backend_type NOT LIKE 'pg_anker%' AND backend_type NOT IN (
             'client backend', 'parallel worker', 'autovacuum launcher', 'autovacuum worker', 'background writer',
             'checkpointer', 'walwriter', 'walsender', 'walreceiver', 'walsummarizer', 'slotsync worker', 'startup',
             'archiver', 'logger', 'standalone backend', 'io worker')",
    );
    let wanted = ours as u64 + parallel + others;
    let current = setting(name);
    let needed = (parsed(&current) < wanted).then(|| wanted.to_string());
    let reason = format!(
        "pg_anker has a launcher, and for each database up to {} workers, half of them only while tables are loaded: \
         {ours} here. Parallel queries may have {parallel} (max_parallel_workers), and {others} others run.",
        FOLLOWERS + MAX_LOADERS
    );
    row(name, current, needed, true, reason)
}

/// The setting that restricts the output plugins of logical decoding, in versions of PostgreSQL that have it.
fn plugins() -> Option<Row> {
    let name = "output_plugin_libraries";
    let current = setting(name)?;
    let needed = (!decoding::is_plugin_allowed()).then(|| with_item(&current, decoding::PLUGIN));
    let reason = "pg_anker's decoding goes by the name of PostgreSQL's own plugin.";
    Some(row(name, Some(current), needed, false, reason.into()))
}

/// The memory of the engines. The defaults suit small servers, so a larger server gets lines until somebody has chosen
/// values.
fn memory(databases: usize) -> Vec<Row> {
    let Some(machine) = machine_bytes() else { return Vec::new() };
    let part = |name: &str, share: u64, what: &str| {
        let megabytes = rounded((machine / share / databases as u64) >> 20);
        let current = setting(name);
        let is_chosen = !text(&format!(
            "SELECT name FROM pg_settings WHERE name = '{name}' AND source NOT IN ('default', 'override')"
        ))
        .is_empty();
        let present = number(&format!("SELECT setting FROM pg_settings WHERE name = '{name}'"));
        // A value that somebody has chosen is right, unless all engines together could fill half of the machine.
        let too_much = present * databases as u64 > (machine / 2) >> 20;
        let suffices = current.is_some() && !too_much && (is_chosen || present >= megabytes);
        let reason = format!(
            "{what} of each database, of which there {} {databases}: a part of {share} of the machine's {} MB is for \
             all of them.",
            if databases == 1 { "is" } else { "are" },
            machine >> 20
        );
        row(name, current, (!suffices).then(|| format!("{megabytes}MB")), false, reason)
    };
    vec![
        part("anker.memory", 4, "The mirror lies in the memory of the engine"),
        part("anker.query_memory", 16, "Queries have working memory in the engine"),
    ]
}

/// A number of megabytes that is easy to read: a multiple of 64, or of 1024 if it is large.
fn rounded(megabytes: u64) -> u64 {
    let unit = if megabytes >= 4096 { 1024 } else { 64 };
    (megabytes / unit * unit).max(64)
}

/// The memory that the server may use: the machine's, or that of its control group if it is less.
fn machine_bytes() -> Option<u64> {
    let all = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = all.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"))?;
    let machine: u64 = kilobytes.trim().parse().ok()?;
    Some(group_bytes().unwrap_or(u64::MAX).min(machine * 1024))
}

/// The least limit of this process's control group and the groups above it.
fn group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let limit = |group: &Path| {
        let file = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()
    };
    Path::new(&group).ancestors().filter_map(limit).min()
}

/// The list with one more item, as a line of `postgresql.conf` writes it.
fn with_item(list: &str, item: &str) -> String {
    let list = list.trim().trim_end_matches(',');
    let list = if list.is_empty() { item.into() } else { format!("{list}, {item}") };
    format!("'{}'", list.replace('\'', "''"))
}

/// The present value of a setting, as SHOW returns it; `None` if there is no such setting.
fn setting(name: &str) -> Option<String> {
    let value = Spi::get_one_with_args::<String>("SELECT current_setting($1, true)", &[name.into()]);
    value.unwrap_or_else(|e| error!("could not read the setting {name}: {e}"))
}

fn parsed(number: &Option<String>) -> u64 {
    number.as_ref().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn number(query: &str) -> u64 {
    text(query).parse().unwrap_or(0)
}

/// The only value that a query returns; an empty text if it returns none.
fn text(query: &str) -> String {
    let found = Spi::connect(|client| match client.select(query, Some(1), &[])?.next() {
        Some(row) => row.get::<String>(1),
        None => Ok(None),
    });
    found.unwrap_or_else(|e| error!("could not read the settings: {e}")).unwrap_or_default()
}
