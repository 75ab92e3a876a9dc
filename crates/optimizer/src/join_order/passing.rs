//! The cost of a tree with runtime filters, by which build sides tell the scans of probe sides their keys. A scan then
//! returns only rows that have partners further up, and all joins in between look up fewer rows.
//!
//! ```text
//!           Join                 lineitem reads the lines of these suppliers only, orders those of these nations
//!          /    \
//!   suppliers    Join
//!   of Asia     /    \
//!           orders   lineitem
//! ```
//!
//! The cost of a part then depends on the joins above it. So this can compare complete trees, but it cannot search
//! for the best one.

use super::estimate::Graph;
use super::{BUILD_COST, Node, Tree};

/// The cost of testing whether a build side has a row's key, where a lookup in the hash table costs 1.
const ASK_COST: f64 = 0.1;
/// If a greater share of the rows has a partner, a scan gives up the filter.
const WORTH_ASKING: f64 = 0.75;

/// A runtime filter that a scan applies.
#[derive(Clone, Copy)]
struct Asked {
    link: usize,
    rel: u16,
    /// The values that the build side has.
    values: f64,
    /// The share of rows that has one of them.
    passing: f64,
}

/// Estimated output of a part of a tree.
struct Passed {
    relations: u64,
    rows: f64,
    /// The number of distinct values in each link; infinity if it does not limit anything.
    values: Vec<f64>,
    cost: f64,
}

pub fn cost(graph: &Graph<'_, '_>, tree: &Tree<'_>) -> f64 {
    passed(graph, tree, &[]).cost
}

/// `above` are the runtime filters of joins further up.
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
    // The filters are applied one after the other, each to the remaining rows.
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

/// The runtime filters that a build side offers to scans below the probe side.
fn asked(graph: &Graph<'_, '_>, build: &Passed, probe: u64) -> Vec<Asked> {
    let of_link = |(link, rel): (usize, u16)| {
        let (values, all) = (build.values[link].min(build.rows), graph.values(link, rel)?);
        let passing = values / all;
        (passing < WORTH_ASKING).then_some(Asked { link, rel, values, passing })
    };
    graph.asking(build.relations, probe).filter_map(of_link).collect()
}

/// The share of the joined rows of some relations that pass. If several filters test the same link, it counts once.
fn passing(above: &[Asked], relations: u64, links: usize) -> f64 {
    let of_link = |link: usize| {
        let own = above.iter().filter(|asked| asked.link == link && relations & (1 << asked.rel) != 0);
        own.map(|asked| asked.passing).fold(1.0, f64::min)
    };
    (0..links).map(of_link).product()
}
