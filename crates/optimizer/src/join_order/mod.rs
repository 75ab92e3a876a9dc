//! Join ordering: finds the cheapest order in which to join the relations of inner joins. The estimates know which
//! columns are keys.
//!
//! Estimates of sizes are often wrong. A query becomes slow if its joins *multiply* rows. If the equalities of a join
//! cover a key of one side, the join cannot multiply the rows of the other side, so its size is well known. The sizes
//! of other joins are estimated from the numbers of distinct values. Equalities are transitive. A join uses all
//! equalities between its sides, also those that close a cycle.
//!
//! ```text
//!   filters -> classes of equal expressions -> sets of relations: rows, keys -> the cheapest tree
//! ```
//!
//! If at most [`EXHAUSTIVE`] relations are connected, every tree is considered. With more relations, the pair that
//! yields the fewest rows is always joined next. Relations that no equality connects are joined last.
//!
//! Finally, for each possible last join, the cheapest tree gets a second cost, which includes the runtime filters that
//! build sides send to scans (`passing`).

mod classes;
mod estimate;
mod passing;
mod random;
#[cfg(test)]
mod tests;

use plan::Expr;

pub use self::classes::{Classes, Owners, Pair};
use self::estimate::{Graph, Set};
pub use self::estimate::{Relation, Statistics};
use self::random::Dice;

/// The greatest number of relations for which every tree is considered. For that many relations, there are some
/// thousand pairs of sets to join.
const EXHAUSTIVE: usize = 8;
/// The greatest number of relations, because a set of relations is stored as the bits of a word.
pub const MAX_RELATIONS: usize = 64;

/// The cost of inserting a row into a hash table. The unit is the cost of looking up a row.
const BUILD_COST: f64 = 2.0;
/// A tree replaces another only if its cost is at most this share of the other tree's cost, because estimates are not
/// exact.
const BETTER: f64 = 0.8;

/// A join tree.
#[derive(Debug)]
pub struct Tree<'a> {
    pub node: Node<'a>,
    /// The expected number of rows, after all filters that can be applied to these relations.
    pub rows: f64,
}

#[derive(Debug)]
pub enum Node<'a> {
    Scan(u16),
    Join {
        build: Box<Tree<'a>>,
        probe: Box<Tree<'a>>,
        /// Pairs of expressions that must be equal; each pair has an expression of the build side and one of the probe
        /// side. Without pairs, every row is joined with every row.
        keys: Vec<Pair<'a>>,
    },
}

impl Tree<'_> {
    /// The relations in the tree, as bits.
    fn relations(&self) -> u64 {
        match &self.node {
            Node::Scan(rel) => 1 << rel,
            Node::Join { build, probe, .. } => build.relations() | probe.relations(),
        }
    }

    /// The number of rows, after filters, of the tree's largest relation.
    pub fn largest_scan(&self) -> f64 {
        match &self.node {
            Node::Scan(_) => self.rows,
            Node::Join { build, probe, .. } => build.largest_scan().max(probe.largest_scan()),
        }
    }
}

/// The way in which a tree is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Cheapest,
    /// The tree that always joins the pair with the fewest rows next, even if there are few relations. It suffices for
    /// estimating the number of rows.
    Quick,
    /// A random tree that follows equalities; each number yields another tree. Comparing with such trees shows how good
    /// the cheapest tree is.
    Random(u64),
}

/// Finds a tree that joins all relations, between one and [`MAX_RELATIONS`]. `conditions` are the filters that are not
/// equalities in `classes`.
pub fn order<'a>(
    relations: &[Relation],
    classes: &Classes<'a>,
    conditions: &[&Expr],
    owners: &Owners,
    statistics: &dyn Statistics,
    choice: Choice,
) -> Tree<'a> {
    let graph = Graph::new(relations, classes, conditions, owners, statistics);
    let components = graph.components();
    let mut parts: Vec<Part<'a>> = match choice {
        Choice::Cheapest => components.iter().map(|component| connected(&graph, component)).collect(),
        Choice::Quick => components.iter().map(|component| greedy(&graph, component)).collect(),
        Choice::Random(seed) => {
            let mut dice = Dice::new(seed);
            components.iter().map(|component| random::connected(&graph, component, &mut dice)).collect()
        }
    };
    while let Some((i, j)) = closest(&parts, |a, b| (!graph.is_compared(a, b), a.rows * b.rows)) {
        join_parts(&graph, &mut parts, i, j);
    }
    parts.pop().map_or(Tree { node: Node::Scan(0), rows: 0.0 }, |part| part.tree)
}

struct Part<'a> {
    tree: Tree<'a>,
    set: Set,
}

/// The two parts to be joined next: the indexes of the pair with the least badness. `None` if there are fewer than two
/// parts.
fn closest<K: PartialOrd>(parts: &[Part<'_>], badness: impl Fn(&Set, &Set) -> K) -> Option<(usize, usize)> {
    let pairs = (0..parts.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    let mut best: Option<(K, (usize, usize))> = None;
    for (i, j) in pairs {
        let badness = badness(&parts[i].set, &parts[j].set);
        if best.as_ref().is_none_or(|(least, _)| badness < *least) {
            best = Some((badness, (i, j)));
        }
    }
    best.map(|(_, pair)| pair)
}

fn join_parts<'a>(graph: &Graph<'a, '_>, parts: &mut Vec<Part<'a>>, i: usize, j: usize) {
    let (later, earlier) = (parts.remove(j), parts.remove(i));
    let set = graph.join(&earlier.set, &later.set).0;
    parts.push(Part { tree: join(graph, earlier, later, set.rows), set });
}

/// Joins two parts. The smaller part becomes the build side.
fn join<'a>(graph: &Graph<'a, '_>, a: Part<'a>, b: Part<'a>, rows: f64) -> Tree<'a> {
    let (build, probe) = if b.set.rows < a.set.rows { (b, a) } else { (a, b) };
    join_sides(graph, build, probe, rows)
}

fn join_sides<'a>(graph: &Graph<'a, '_>, build: Part<'a>, probe: Part<'a>, rows: f64) -> Tree<'a> {
    let keys = graph.keys(&build.set, &probe.set);
    Tree { node: Node::Join { build: Box::new(build.tree), probe: Box::new(probe.tree), keys }, rows }
}

fn scan<'a>(rel: u16, set: &Set) -> Tree<'a> {
    Tree { node: Node::Scan(rel), rows: set.rows }
}

/// Joins relations that form one connected component.
fn connected<'a>(graph: &Graph<'a, '_>, relations: &[u16]) -> Part<'a> {
    if relations.len() <= EXHAUSTIVE { exhaustive(graph, relations) } else { greedy(graph, relations) }
}

fn scans<'a>(graph: &Graph<'a, '_>, relations: &[u16]) -> Vec<Part<'a>> {
    let part = |&rel: &u16| {
        let set = graph.scan(rel);
        Part { tree: scan(rel, &set), set }
    };
    relations.iter().map(part).collect()
}

fn greedy<'a>(graph: &Graph<'a, '_>, relations: &[u16]) -> Part<'a> {
    let mut parts = scans(graph, relations);
    while let Some((i, j)) = closest(&parts, |a, b| (!graph.is_linked(a, b), graph.join(a, b).0.rows)) {
        join_parts(graph, &mut parts, i, j);
    }
    parts.remove(0)
}

/// The best way to join a set of relations. Its index in the list, read as bits, is the set.
#[derive(Clone)]
struct Best {
    set: Set,
    cost: f64,
    /// The set's relations on one side of the last join, as bits; 0 for a single relation.
    side: usize,
}

fn exhaustive<'a>(graph: &Graph<'a, '_>, relations: &[u16]) -> Part<'a> {
    let mut best: Vec<Option<Best>> = vec![None; 1 << relations.len()];
    for bits in 1..best.len() {
        best[bits] = match bits.is_power_of_two() {
            true => Some(Best { set: graph.scan(relations[bits.ilog2() as usize]), cost: 0.0, side: 0 }),
            false => best_split(graph, &best, bits),
        };
    }
    let all = best.len() - 1;
    let set = best[all].as_ref().map_or_else(|| graph.scan(relations[0]), |all| all.set.clone());
    let cheapest = tree(graph, relations, &best, all);
    Part { tree: cheaper_by_asking(graph, relations, &best, cheapest), set }
}

/// The cheapest tree when runtime filters are counted. The candidates are `cheapest` and, for each possible last join,
/// the tree that is cheapest without counting runtime filters.
fn cheaper_by_asking<'a>(
    graph: &Graph<'a, '_>,
    relations: &[u16],
    best: &[Option<Best>],
    cheapest: Tree<'a>,
) -> Tree<'a> {
    let all = best.len() - 1;
    let mut least = passing::cost(graph, &cheapest) * BETTER;
    let mut found = cheapest;
    for (side, other) in splits(all) {
        if let (Some(a), Some(b)) = (&best[side], &best[other])
            && graph.is_linked(&a.set, &b.set)
        {
            let part = |bits: usize, set: &Set| Part { tree: tree(graph, relations, best, bits), set: set.clone() };
            let tree = join(graph, part(side, &a.set), part(other, &b.set), found.rows);
            let cost = passing::cost(graph, &tree);
            if cost < least {
                (least, found) = (cost, tree);
            }
        }
    }
    found
}

/// All ways to split a set of at least two relations into two sides. Each way occurs once, because the first relation
/// stays on one side.
fn splits(bits: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = bits & bits.wrapping_neg();
    let others = bits ^ first;
    let mut next = (others != 0).then_some(0usize);
    std::iter::from_fn(move || {
        let some = next?;
        let following = some.wrapping_sub(others) & others;
        next = (following != others).then_some(following);
        Some((first | some, others ^ some))
    })
}

/// The best way to split a set into two sides; `None` if the relations are not connected.
fn best_split(graph: &Graph<'_, '_>, best: &[Option<Best>], bits: usize) -> Option<Best> {
    let mut joined: Option<(Set, bool)> = None;
    let mut found: Option<Split> = None;
    for (side, other) in splits(bits) {
        if let (Some(a), Some(b)) = (&best[side], &best[other])
            && graph.is_linked(&a.set, &b.set)
        {
            let (small, large) = (a.set.rows.min(b.set.rows), a.set.rows.max(b.set.rows));
            let cost = a.cost + b.cost + BUILD_COST * small + large;
            if found.as_ref().is_none_or(|found| found.is_worse(cost, large)) {
                found = Some(Split { cost, large, side });
            }
            let this = graph.join(&a.set, &b.set);
            joined = Some(match joined {
                None => this,
                Some(known) => graph.better_known(known, this),
            });
        }
    }
    let ((set, _), split) = (joined?, found?);
    Some(Best { cost: split.cost + set.rows, set, side: split.side })
}

/// A way to split a set, with the cost of joining both sides.
struct Split {
    cost: f64,
    /// The number of rows of the larger side.
    large: f64,
    side: usize,
}

impl Split {
    /// Whether another split is better: its cost is lower or, if the costs are equal, its `large` is greater. The rows
    /// of the larger side are not kept in memory, so the last join should have as many rows as possible on that side.
    fn is_worse(&self, cost: f64, large: f64) -> bool {
        let same = (cost - self.cost).abs() <= self.cost * 1e-9;
        if same { large > self.large } else { cost < self.cost }
    }
}

fn tree<'a>(graph: &Graph<'a, '_>, relations: &[u16], best: &[Option<Best>], bits: usize) -> Tree<'a> {
    match &best[bits] {
        Some(Best { set, side, .. }) if *side != 0 => {
            let part = |bits: usize| {
                let set = best[bits].as_ref().map(|best| best.set.clone());
                Part { tree: tree(graph, relations, best, bits), set: set.unwrap_or_default() }
            };
            join(graph, part(*side), part(bits ^ side), set.rows)
        }
        _ => {
            let rel = relations[bits.trailing_zeros() as usize];
            scan(rel, &graph.scan(rel))
        }
    }
}
