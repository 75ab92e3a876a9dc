//! Estimates: how many rows a join of several relations has, and which keys of the relations are still keys of the
//! joined rows.

use std::cell::OnceCell;

use plan::{BoolOp, CmpOp, ColumnId, Expr};

use super::classes::{Classes, Member, Owners, Pair};
use crate::simplify::implied;

/// The assumed number of distinct values of an unknown expression.
const UNKNOWN: f64 = 200.0;
/// The assumed share of rows in which a column equals a constant, if nothing is known about the column's values.
const EQUAL: f64 = 0.05;

/// The facts about a relation from which estimates start.
#[derive(Clone, Debug)]
pub struct Relation {
    /// The exact number of rows before any filter.
    pub rows: f64,
    /// Columns that form a key: no two rows have the same values in all of them. `None` if no key is known, or if the
    /// scan does not return all columns of the key.
    pub key: Option<Vec<ColumnId>>,
}

/// Statistics that have to be looked up in the data.
pub trait Statistics {
    /// The approximate number of distinct values of an expression over one relation; `None` if it is not known.
    fn distinct(&self, expr: &Expr) -> Option<f64>;

    /// The share of a relation's rows that pass all `conditions`, which all concern this relation; `None` if it is not
    /// known.
    fn passing(&self, conditions: &[&Expr]) -> Option<f64>;

    /// Whether a scan can test an expression's values against the keys of a join's build side, and skip rows without a
    /// partner.
    fn is_asked_for(&self, expr: &Expr) -> bool;
}

/// A set of relations, joined.
#[derive(Clone, Debug, Default)]
pub struct Set {
    relations: u64,
    pub rows: f64,
    /// The relations whose key is also a key of the joined rows.
    keyed: u64,
}

pub struct Graph<'a, 'b> {
    relations: Vec<Node>,
    links: Vec<Link<'a>>,
    /// Filters that read several relations. For each: the relations as bits, and the share of rows that passes.
    conditions: Vec<(u64, f64)>,
    /// Equalities with a side that reads several relations. For each: the relations of both sides, as bits.
    compared: Vec<(u64, u64)>,
    statistics: &'b dyn Statistics,
}

struct Node {
    /// The exact number of rows before any filter.
    rows: f64,
    filtered: f64,
    /// For each column of the key, the link that contains the column. Columns that a filter equates with a constant are
    /// omitted, because the other columns then suffice as a key.
    key: Option<Vec<usize>>,
    neighbours: u64,
}

/// A class of equal expressions, which links the relations that they read.
struct Link<'a> {
    relations: u64,
    ends: Vec<End<'a>>,
}

struct End<'a> {
    member: Member<'a>,
    distinct: OnceCell<f64>,
}

fn bit(rel: u16) -> u64 {
    1 << rel
}

fn bits(relations: &[u16]) -> u64 {
    relations.iter().map(|&rel| bit(rel)).fold(0, |all, one| all | one)
}

impl<'a, 'b> Graph<'a, 'b> {
    pub fn new(
        relations: &[Relation],
        classes: &Classes<'a>,
        conditions: &[&Expr],
        owners: &Owners,
        statistics: &'b dyn Statistics,
    ) -> Graph<'a, 'b> {
        let end = |member: &Member<'a>| End { member: *member, distinct: OnceCell::new() };
        let links: Vec<Link<'a>> = (classes.iter())
            .map(|members| Link {
                relations: members.iter().map(|member| bit(member.rel)).fold(0, |all, one| all | one),
                ends: members.iter().map(end).collect(),
            })
            .collect();
        let mut graph =
            Graph { relations: Vec::new(), links, conditions: Vec::new(), compared: Vec::new(), statistics };
        for (rel, relation) in (0..).zip(relations) {
            let own: Vec<&Expr> = conditions.iter().copied().filter(|c| owners.of(c) == [rel]).collect();
            let guessed = || own.iter().map(|condition| selectivity(condition, statistics)).product();
            let passing: f64 = if own.is_empty() { 1.0 } else { statistics.passing(&own).unwrap_or_else(guessed) };
            let touching = graph.links.iter().map(|link| link.relations).filter(|links| links & bit(rel) != 0);
            graph.relations.push(Node {
                rows: relation.rows,
                filtered: relation.rows * passing,
                key: relation.key.as_ref().and_then(|key| graph.key_links(rel, key, &own)),
                neighbours: touching.fold(0, |all, one| all | one),
            });
        }
        for condition in conditions {
            let mentioned = owners.of(condition);
            if mentioned.len() > 1 {
                let passing =
                    selectivity(condition, statistics) / said_of_each(condition, &mentioned, owners, statistics);
                graph.conditions.push((bits(&mentioned), passing.min(1.0)));
            }
            if let Expr::Cmp { op: CmpOp::Eq, left, right } = condition {
                let (left, right) = (bits(&owners.of(left)), bits(&owners.of(right)));
                if left != 0 && right != 0 && left & right == 0 {
                    graph.compared.push((left, right));
                }
            }
        }
        graph
    }

    fn key_links(&self, rel: u16, key: &[ColumnId], conditions: &[&Expr]) -> Option<Vec<usize>> {
        let mut links = Vec::new();
        for &id in key {
            let column = Expr::column(id);
            if conditions.iter().any(|condition| fixed_column(condition) == Some(&column)) {
                continue;
            }
            let has = |link: &Link<'_>| link.ends.iter().any(|e| e.member.rel == rel && *e.member.expr == column);
            links.push(self.links.iter().position(has)?);
        }
        Some(links)
    }

    /// The connected components of the graph, that is, the sets of relations that equalities connect directly or
    /// through other relations.
    pub fn components(&self) -> Vec<Vec<u16>> {
        let mut components: Vec<Vec<u16>> = Vec::new();
        let mut seen = 0;
        for rel in 0..self.relations.len() as u16 {
            let mut component = bit(rel) & !seen;
            loop {
                let members = (0..).zip(&self.relations).filter(|(rel, _)| component & bit(*rel) != 0);
                let reached = members.fold(component, |all, (_, node)| all | node.neighbours);
                if reached == component {
                    break;
                }
                component = reached;
            }
            seen |= component;
            if component != 0 {
                components.push((0..self.relations.len() as u16).filter(|rel| component & bit(*rel) != 0).collect());
            }
        }
        components
    }

    pub fn scan(&self, rel: u16) -> Set {
        let node = &self.relations[rel as usize];
        Set { relations: bit(rel), rows: node.filtered, keyed: if node.key.is_some() { bit(rel) } else { 0 } }
    }

    /// Whether an equality connects the two sets.
    pub fn is_linked(&self, a: &Set, b: &Set) -> bool {
        self.links.iter().any(|link| link.connects(a, b))
    }

    /// Whether joining the sets makes a join key of an equality with a side that reads several relations.
    pub fn is_compared(&self, a: &Set, b: &Set) -> bool {
        let across = |left: u64, right: u64| left & !a.relations == 0 && right & !b.relations == 0;
        self.compared.iter().any(|&(left, right)| across(left, right) || across(right, left))
    }

    /// The join keys between two sets: for each class that connects the sets, a pair of equal expressions, one from
    /// each set.
    pub fn keys(&self, a: &Set, b: &Set) -> Vec<Pair<'a>> {
        let side = |link: &Link<'a>, set: &Set| link.ends_in(set).next().map(|end| end.member.expr);
        self.links.iter().filter_map(|link| Some((side(link, a)?, side(link, b)?))).collect()
    }

    /// The number of classes of equal expressions.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// The number of distinct values that a relation has in a class; `None` if it has no expression in the class.
    pub fn values(&self, link: usize, rel: u16) -> Option<f64> {
        let own = self.links[link].ends.iter().filter(|end| end.member.rel == rel);
        own.map(|end| self.distinct_at(end)).reduce(f64::min)
    }

    /// The classes that connect a build side with a probe side. Each comes with a relation whose scan, on the probe
    /// side, can test the class's values.
    pub fn asking(&self, build: u64, probe: u64) -> impl Iterator<Item = (usize, u16)> {
        let connecting = self.links.iter().enumerate().filter(move |(_, link)| link.relations & build != 0);
        let key = move |(at, link): (usize, &Link<'_>)| {
            let member = link.ends.iter().map(|end| end.member).find(|member| probe & bit(member.rel) != 0)?;
            self.statistics.is_asked_for(member.expr).then_some((at, member.rel))
        };
        connecting.filter_map(key)
    }

    /// Estimates the rows of a join. The flag is true if no key limits their number, so that the estimate is only a
    /// guess.
    pub fn join(&self, a: &Set, b: &Set) -> (Set, bool) {
        let linking: Vec<usize> = (0..self.links.len()).filter(|&i| self.links[i].connects(a, b)).collect();
        // Estimates the rows, provided that each row of `many` has at most one partner in `once` because of a key.
        let through_key = |many: &Set, once: &Set| {
            let ways = (0..).zip(&self.relations).filter(|(rel, _)| once.keyed & bit(*rel) != 0);
            let rows = ways.filter_map(|(_, node)| {
                let key = node.key.as_ref()?;
                let others: Vec<usize> = linking.iter().copied().filter(|link| !key.contains(link)).collect();
                let met = (once.rows / node.rows.max(1.0)).min(1.0);
                let covered = key.iter().all(|link| linking.contains(link));
                covered.then(|| many.rows * met * self.share(&others, 1, a, b))
            });
            rows.min_by(f64::total_cmp)
        };
        let (through_b, through_a) = (through_key(a, b), through_key(b, a));
        let exact = through_b.into_iter().chain(through_a).min_by(f64::total_cmp);
        let mut rows = exact.unwrap_or_else(|| a.rows * b.rows * self.share(&linking, 0, a, b));
        let relations = a.relations | b.relations;
        for (needed, passing) in &self.conditions {
            let complete = |set: u64| needed & !set == 0;
            if complete(relations) && !complete(a.relations) && !complete(b.relations) {
                rows *= passing;
            }
        }
        let keyed = if through_b.is_some() { a.keyed } else { 0 } | if through_a.is_some() { b.keyed } else { 0 };
        (Set { relations, rows, keyed }, exact.is_none())
    }

    /// Combines the estimates for two ways to join the same relations, which yield the same rows. A flag is true if the
    /// estimate is only a guess, see [`Graph::join`].
    pub fn better_known(&self, one: (Set, bool), two: (Set, bool)) -> (Set, bool) {
        let keyed = one.0.keyed | two.0.keyed;
        let two_is_better = (two.1, two.0.rows) < (one.1, one.0.rows);
        let (set, guessed) = if two_is_better { two } else { one };
        (Set { keyed, ..set }, guessed)
    }

    /// The share of all pairs of rows in which the expressions of each link are equal. Conditions often depend on each
    /// other. So only the most selective condition counts fully, the next one counts with its square root, and so on.
    /// `before` is the number of conditions that were counted already.
    fn share(&self, links: &[usize], before: i32, a: &Set, b: &Set) -> f64 {
        let values = |link: &Link<'_>| self.distinct(link, a).max(self.distinct(link, b));
        let mut values: Vec<f64> = links.iter().map(|&link| values(&self.links[link])).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        (before..).zip(values).map(|(i, values)| values.recip().powf(0.5f64.powi(i))).product()
    }

    fn distinct(&self, link: &Link<'_>, set: &Set) -> f64 {
        let least = link.ends_in(set).map(|end| self.distinct_at(end)).fold(set.rows, f64::min);
        least.max(1.0)
    }

    fn distinct_at(&self, end: &End<'_>) -> f64 {
        let expr = end.member.expr;
        *end.distinct.get_or_init(|| self.statistics.distinct(expr).unwrap_or(UNKNOWN))
    }
}

impl<'a> Link<'a> {
    fn connects(&self, a: &Set, b: &Set) -> bool {
        self.relations & a.relations != 0 && self.relations & b.relations != 0
    }

    fn ends_in(&self, set: &Set) -> impl Iterator<Item = &End<'a>> {
        self.ends.iter().filter(|end| set.relations & bit(end.member.rel) != 0)
    }
}

/// The expression that a condition equates with a constant, if it does.
fn fixed_column(condition: &Expr) -> Option<&Expr> {
    let Expr::Cmp { op: CmpOp::Eq, left, right } = condition else { return None };
    match (left.columns().is_empty(), right.columns().is_empty()) {
        (false, true) => Some(left),
        (true, false) => Some(right),
        _ => None,
    }
}

/// The share of rows that pass those parts of a condition that concern a single relation. The relations' rows are
/// already filtered by these parts, so the estimate for the whole condition is divided by this share.
fn said_of_each(condition: &Expr, relations: &[u16], owners: &Owners, statistics: &dyn Statistics) -> f64 {
    let of = |rel: u16| {
        let mut columns = condition.columns();
        columns.retain(|id| owners.of(&Expr::column(*id)) == [rel]);
        implied(condition, &columns)
    };
    relations.iter().filter_map(|rel| of(*rel)).map(|said| selectivity(&said, statistics)).product()
}

/// A guess at the share of rows for which a condition is true.
fn selectivity(condition: &Expr, statistics: &dyn Statistics) -> f64 {
    match condition {
        Expr::Cmp { op: CmpOp::Eq, .. } => {
            fixed_column(condition).and_then(|e| statistics.distinct(e)).map_or(EQUAL, |values| values.max(1.0).recip())
        }
        Expr::Cmp { op: CmpOp::Ne, .. } | Expr::IsNull { negated: true, .. } => 0.9,
        Expr::Bool { op: BoolOp::Or, args } => {
            args.iter().map(|arg| selectivity(arg, statistics)).sum::<f64>().min(0.9)
        }
        Expr::Bool { op: BoolOp::And, args } => args.iter().map(|arg| selectivity(arg, statistics)).product(),
        _ => 0.3,
    }
}
