//! The monitoring kit: the queries of both exporters, and the alerts and the dashboard that use their figures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bench::{Result, anker};
use postgres::SimpleQueryMessage;

use crate::runner::{Context, ensure, tests};

tests![exporters_get_all_figures_with_few_rights, alerts_and_dashboard_know_the_exporters_figures];

fn kit(file: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring").join(file);
    Ok(std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// A query with the columns that the exporter expects of it.
#[derive(Debug, Default, PartialEq)]
struct Collector {
    sql: String,
    labels: BTreeSet<String>,
    values: BTreeSet<String>,
}

/// The queries of an exporter, by name. The name of a figure is the query's name and the column's name.
type Collectors = BTreeMap<String, Collector>;

fn metrics(collectors: &Collectors) -> BTreeSet<String> {
    let of_one = |(name, one): (&String, &Collector)| -> Vec<String> {
        one.values.iter().map(|value| format!("{name}_{value}")).collect()
    };
    collectors.iter().flat_map(of_one).collect()
}

/// Reads `sql_exporter.yml`: a list of figures that refer to queries, and the queries.
fn sql_exporter() -> Result<Collectors> {
    let mut collectors = Collectors::new();
    let (mut metric, mut labels, mut value, mut query) = (String::new(), Vec::new(), String::new(), String::new());
    for line in kit("sql_exporter.yml")?.lines() {
        if let Some(sql) = line.strip_prefix("      ") {
            let one = collectors.get_mut(&query).ok_or(format!("{query} has no figures"))?;
            one.sql += sql;
            one.sql.push('\n');
            continue;
        }
        let Some((key, rest)) = line.trim_start_matches([' ', '-']).split_once(": ") else { continue };
        let listed = || rest.trim_matches(['[', ']']).split(", ").map(str::to_owned);
        match key {
            "metric_name" => metric = rest.into(),
            "key_labels" => labels = listed().collect(),
            "values" => value = rest.trim_matches(['[', ']']).into(),
            "query_ref" => {
                ensure!(metric == format!("{rest}_{value}"), "{metric} is column {value} of {rest}");
                let one = collectors.entry(rest.into()).or_default();
                one.labels.extend(labels.drain(..));
                one.values.insert(std::mem::take(&mut value));
            }
            "query_name" => query = rest.into(),
            _ => {}
        }
    }
    Ok(collectors)
}

/// Reads `pg_exporter.yml`: queries, each with the usage of its columns.
fn pg_exporter() -> Result<Collectors> {
    let mut collectors = Collectors::new();
    let (mut name, mut in_query) = (String::new(), false);
    for line in kit("pg_exporter.yml")?.lines() {
        match line.strip_prefix("  name: ") {
            Some(begun) => name = begun.into(),
            None if line == "  query: |" => in_query = true,
            None if line == "  metrics:" => in_query = false,
            None => {
                let Some(rest) = line.strip_prefix("    ") else { continue };
                let one = collectors.entry(name.clone()).or_default();
                if in_query {
                    one.sql += rest;
                    one.sql.push('\n');
                } else if let Some((column, usage)) = rest.trim_start_matches("- ").split_once(": {usage: ") {
                    let columns = if usage.starts_with("LABEL") { &mut one.labels } else { &mut one.values };
                    columns.insert(column.into());
                }
            }
        }
    }
    Ok(collectors)
}

fn exporters_get_all_figures_with_few_rights(context: &Context) -> Result<()> {
    let (for_sql, for_pg) = (sql_exporter()?, pg_exporter()?);
    ensure!(for_sql == for_pg, "the exporters differ:\n{for_sql:#?}\n{for_pg:#?}");
    ensure!(metrics(&for_sql).len() > 20, "figures: {:?}", metrics(&for_sql));
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(
        "CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1);
         CREATE ROLE exporter LOGIN IN ROLE pg_monitor",
    )?;
    let mut exporter = cluster.connect_as("exporter")?;
    let mut collect = |what: &str| -> Result<BTreeMap<String, f64>> {
        let mut figures = BTreeMap::new();
        for (name, one) in &for_sql {
            let statement = exporter.prepare(&one.sql).map_err(|e| format!("{what}, {name}: {e}"))?;
            let columns: BTreeSet<String> = statement.columns().iter().map(|c| c.name().to_owned()).collect();
            let expected = one.labels.union(&one.values).cloned().collect();
            ensure!(columns == expected, "{name}: {columns:?} instead of {expected:?}");
            // The protocol of simple queries returns all values as text, as exporters want them.
            for message in exporter.simple_query(&one.sql)? {
                let SimpleQueryMessage::Row(row) = message else { continue };
                let labels: Vec<&str> = one.labels.iter().filter_map(|label| row.get(label.as_str())).collect();
                for value in &one.values {
                    let text = row.get(value.as_str()).ok_or(format!("{what}: {name}_{value} is NULL"))?;
                    figures.insert(format!("{name}_{value} {}", labels.join(" ")), text.parse()?);
                }
            }
        }
        Ok(figures)
    };
    collect("without a mirrored table")?;
    anker::mirror(&mut client, &["t"], Duration::from_secs(60))?;
    client.batch_execute("SELECT count(*) FROM t WHERE anker.olap(); SELECT ctid FROM t WHERE anker.olap()")?;
    let figures = collect("with a mirrored table")?;
    for (figure, value) in [
        ("anker_engine_up postgres", 1.0),
        ("anker_engine_queries_served postgres", 1.0),
        ("anker_engine_fallbacks postgres", 1.0),
        ("anker_table_tables postgres live", 1.0),
        ("anker_table_tables postgres broken", 0.0),
        ("anker_table_rows postgres live", 1.0),
        ("anker_activity_queries postgres running", 0.0),
    ] {
        ensure!(figures.get(figure) == Some(&value), "{figure} is {:?}; all: {figures:#?}", figures.get(figure));
    }
    for (figure, sum) in [("anker_statement_engine_calls", 1.0), ("anker_statement_heap_calls", 1.0)] {
        let of_statements = figures.iter().filter(|(name, _)| name.starts_with(figure)).map(|(_, value)| value);
        ensure!(of_statements.sum::<f64>() == sum, "{figure}; all: {figures:#?}");
    }
    for figure in ["anker_slot_retained_bytes", "anker_fallback_queries", "anker_engine_memory_bytes"] {
        ensure!(figures.keys().any(|name| name.starts_with(figure)), "no {figure}; all: {figures:#?}");
    }
    Ok(())
}

fn alerts_and_dashboard_know_the_exporters_figures(_context: &Context) -> Result<()> {
    let known = metrics(&sql_exporter()?);
    let dashboard = kit("grafana.json")?;
    serde_json::from_str::<serde_json::Value>(&dashboard)?;
    for (file, text) in [("alerts.yml", kit("alerts.yml")?), ("grafana.json", dashboard)] {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let used: BTreeSet<&str> = words.filter(|word| word.starts_with("anker_")).collect();
        ensure!(used.len() > 5, "{file} uses only {used:?}");
        let unknown: Vec<&&str> = used.iter().filter(|name| !known.contains(**name)).collect();
        ensure!(unknown.is_empty(), "{file} uses figures that no exporter has: {unknown:?}");
    }
    let alerts = kit("alerts.yml")?;
    let docs = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/monitoring.md"))?;
    for alert in alerts.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")) {
        ensure!(docs.contains(&format!("`{alert}`")), "docs/monitoring.md does not tell what to do about {alert}");
    }
    Ok(())
}
