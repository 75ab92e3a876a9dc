//! The cost of a tree, including runtime filters. A build side sends its keys to scans of the probe side. Each scan
//! then returns only rows that have partners in that join, so that all joins in between look up fewer rows.
//!
//! ```text
//!           Join                 lineitem returns only lines of these suppliers, orders only those of these nations
//!          /    \
//!   suppliers    Join
//!   of Asia     /    \
//!           orders   lineitem
//! ```
//!
//! With runtime filters, the cost of a part of a tree depends on the joins above the part. So complete trees can be
//! compared by this cost, but it cannot guide the search for the best tree.

use super::estimate::Graph;
use super::{BUILD_COST, Node, Tree};

/// The cost of testing a row against a runtime filter. The unit is the cost of looking up a row in a hash table.
const ASK_COST: f64 = 0.1;
/// A scan uses a filter only if at most this share of its rows pass the filter. If more rows pass, the filter is not
/// worth its cost.
const WORTH_ASKING: f64 = 0.75;

/// A runtime filter that a scan applies.
#[derive(Clone, Copy)]
struct Asked {
    link: usize,
    rel: u16,
    /// The number of distinct values on the build side.
    values: f64,
    /// The share of the scan's rows that have one of these values.
    passing: f64,
}

/// The estimated result of a part of a tree.
struct Passed {
    relations: u64,
    rows: f64,
    /// For each link, the number of distinct values; infinite if the part does not limit them.
    values: Vec<f64>,
    cost: f64,
}

pub fn cost(graph: &Graph<'_, '_>, tree: &Tree<'_>) -> f64 {
    passed(graph, tree, &[]).cost
}

/// The estimate for a tree. `above` are the runtime filters that joins above the tree send.
fn passed(graph: &Graph<'_, '_>, tree: &Tree<'_>, above: &[Asked]) -> Passed {
    match &tree.node {
        Node::Scan(rel) => scanned(graph, *rel, tree.rows, above),
        Node::Join { build, probe, .. } => {
            let build = passed(graph, build, above);
            let asked = [above, &asked(graph, &build, probe.relations())].concat();
            let probe = passed(graph, probe, &asked);
            let relations = build.relations | probe.relations;
            let rows = tree.rows * passing(above, relations, graph.links());
            let left = build.values.iter().zip(&probe.values).map(|(a, b)| a.min(*b).min(rows));
            let values = left.collect();
            Passed {
                relations,
                rows,
                values,
                cost: build.cost + probe.cost + BUILD_COST * build.rows + probe.rows + rows,
            }
        }
    }
}

fn scanned(graph: &Graph<'_, '_>, rel: u16, all: f64, above: &[Asked]) -> Passed {
    let mut own: Vec<Asked> = above.iter().copied().filter(|asked| asked.rel == rel).collect();
    own.sort_by(|a, b| a.passing.total_cmp(&b.passing));
    // The filters are applied one after the other. Each tests only the rows that passed the filters before it.
    let (mut rows, mut cost) = (all, 0.0);
    for asked in &own {
        cost += ASK_COST * rows;
        rows *= asked.passing;
    }
    let values = |link: usize| {
        let known = graph.values(link, rel).unwrap_or(f64::INFINITY);
        let asked = own.iter().filter(|asked| asked.link == link).map(|asked| asked.values);
        asked.fold(known, f64::min).min(rows)
    };
    let values = (0..graph.links()).map(values).collect();
    Passed { relations: 1 << rel, rows, values, cost }
}

/// The runtime filters that a build side sends to scans on the probe side.
fn asked(graph: &Graph<'_, '_>, build: &Passed, probe: u64) -> Vec<Asked> {
    let of_link = |(link, rel): (usize, u16)| {
        let (values, all) = (build.values[link].min(build.rows), graph.values(link, rel)?);
        let passing = values / all;
        (passing < WORTH_ASKING).then_some(Asked { link, rel, values, passing })
    };
    graph.asking(build.relations, probe).filter_map(of_link).collect()
}

/// The share of the joined rows of `relations` that pass the filters. If several filters test the same link, only the
/// most selective of them counts.
fn passing(above: &[Asked], relations: u64, links: usize) -> f64 {
    let of_link = |link: usize| {
        let own = above.iter().filter(|asked| asked.link == link && relations & (1 << asked.rel) != 0);
        own.map(|asked| asked.passing).fold(1.0, f64::min)
    };
    (0..links).map(of_link).product()
}
