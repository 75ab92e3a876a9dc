//! Tests with the joins of TPC-H, at the sizes of its scale factor 1, and with small joins of special forms. No order
//! may multiply rows.

use plan::{BoolOp, CmpOp, ColumnId, Expr, Literal, Type};

use super::estimate::{Graph, Set};
use super::*;

/// A table: name, rows, number of leading columns that form the key, and the columns with their numbers of distinct
/// values.
type Table = (&'static str, f64, usize, &'static [(&'static str, f64)]);

const CUSTOMER: Table = ("c", 150e3, 1, &[("custkey", 150e3), ("nationkey", 25.0), ("mktsegment", 5.0)]);
const LINEITEM: Table = (
    "l",
    6e6,
    2,
    &[("orderkey", 1.5e6), ("linenumber", 7.0), ("partkey", 2e5), ("suppkey", 1e4), ("shipdate", 2.5e3), ("flag", 3.0)],
);
const NATION: Table = ("n", 25.0, 1, &[("nationkey", 25.0), ("regionkey", 5.0), ("name", 25.0)]);
const ORDERS: Table = ("o", 1.5e6, 1, &[("orderkey", 1.5e6), ("custkey", 1e5), ("orderdate", 2.4e3)]);
const PART: Table = ("p", 2e5, 1, &[("partkey", 2e5), ("type", 150.0), ("size", 50.0)]);
const PARTSUPP: Table = ("ps", 8e5, 2, &[("partkey", 2e5), ("suppkey", 1e4)]);
const REGION: Table = ("r", 5.0, 1, &[("regionkey", 5.0), ("name", 5.0)]);
const SUPPLIER: Table = ("s", 1e4, 1, &[("suppkey", 1e4), ("nationkey", 25.0)]);

/// The number of column ids that each table gets. No table of these tests has more columns.
const WIDTH: usize = 16;

fn id(rel: usize, col: usize) -> ColumnId {
    ColumnId((rel * WIDTH + col) as u16)
}

struct Query {
    tables: Vec<(String, Table)>,
    filters: Vec<Expr>,
}

impl Statistics for Query {
    fn distinct(&self, expr: &Expr) -> Option<f64> {
        match expr {
            Expr::Column { id } => Some(self.tables[id.0 as usize / WIDTH].1.3[id.0 as usize % WIDTH].1),
            _ => None,
        }
    }

    fn passing(&self, _: &[&Expr]) -> Option<f64> {
        None
    }

    fn is_asked_for(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Column { .. })
    }
}

impl Query {
    fn over(tables: &[Table]) -> Query {
        Query { tables: tables.iter().map(|table| (table.0.to_string(), *table)).collect(), filters: Vec::new() }
    }

    fn also(mut self, name: &str, table: Table) -> Query {
        self.tables.push((name.to_string(), table));
        self
    }

    fn owners(&self) -> Owners {
        let columns =
            |(rel, (_, table)): (usize, &(String, Table))| (0..table.3.len()).map(|col| id(rel, col)).collect();
        Owners::new(&self.tables.iter().enumerate().map(columns).collect::<Vec<_>>())
    }

    /// A column by its name, such as `o.custkey`.
    fn column(&self, name: &str) -> Expr {
        let (table, column) = name.split_once('.').unwrap();
        let rel = self.tables.iter().position(|(name, _)| name == table).unwrap();
        let col = self.tables[rel].1.3.iter().position(|(name, _)| *name == column).unwrap();
        Expr::column(id(rel, col))
    }

    /// Adds conditions, such as `o.custkey = c.custkey, r.name = ?, o.orderdate < ?`.
    fn filter(mut self, conditions: &str) -> Query {
        for condition in conditions.split(", ") {
            let words: Vec<&str> = condition.split(' ').collect();
            let op = if words[1] == "=" { CmpOp::Eq } else { CmpOp::Lt };
            let constant = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(1)) };
            let right = if words[2] == "?" { constant } else { self.column(words[2]) };
            self.filters.push(Expr::Cmp { op, left: self.column(words[0]).into(), right: right.into() });
        }
        self
    }

    /// Adds an OR of several lists of conditions.
    fn either(mut self, arms: &[&str]) -> Query {
        let before = self.filters.len();
        let mut args = Vec::new();
        for arm in arms {
            self = self.filter(arm);
            args.push(Expr::Bool { op: BoolOp::And, args: self.filters.split_off(before) });
        }
        self.filters.push(Expr::Bool { op: BoolOp::Or, args });
        self
    }

    /// The tree as text, in which each join is `(build probe)`. Then, for each join, its number of rows, and whether
    /// that number is a guess.
    fn ordered(&self, choice: Choice) -> (String, Vec<(f64, bool)>) {
        let mut conditions = self.filters.iter().collect();
        let owners = self.owners();
        let classes = Classes::extract(&mut conditions, &owners);
        let relation = |(rel, (_, table)): (usize, &(String, Table))| Relation {
            rows: table.1,
            key: (table.2 > 0).then(|| (0..table.2).map(|col| id(rel, col)).collect()),
        };
        let relations: Vec<Relation> = self.tables.iter().enumerate().map(relation).collect();
        let graph = Graph::new(&relations, &classes, &conditions, &owners, self);
        let tree = order(&relations, &classes, &conditions, &owners, self, choice);
        let mut joins = Vec::new();
        let (text, _) = self.walk(&tree, &graph, &mut joins);
        assert_eq!(joins.len(), self.tables.len() - 1);
        (text, joins)
    }

    fn walk(&self, tree: &Tree<'_>, graph: &Graph<'_, '_>, joins: &mut Vec<(f64, bool)>) -> (String, Set) {
        match &tree.node {
            Node::Scan(rel) => (self.tables[*rel as usize].0.clone(), graph.scan(*rel)),
            Node::Join { build, probe, keys } => {
                let (build, build_set) = self.walk(build, graph, joins);
                let (probe, probe_set) = self.walk(probe, graph, joins);
                assert_eq!(keys.is_empty(), !graph.is_linked(&build_set, &probe_set));
                let (set, guessed) = graph.join(&build_set, &probe_set);
                joins.push((set.rows, guessed));
                (format!("({build} {probe})"), set)
            }
        }
    }

    /// Checks that each join contains a key of one of its sides, and returns the tree as text.
    fn never_multiplies(&self) -> String {
        let (text, joins) = self.ordered(Choice::Cheapest);
        assert!(joins.iter().all(|(_, guessed)| !guessed), "{text} {joins:?}");
        text
    }
}

#[test]
fn q2_partsupp_of_small_brass_parts_in_a_region() {
    let query = Query::over(&[PART, SUPPLIER, PARTSUPP, NATION, REGION]).filter(
        "p.partkey = ps.partkey, s.suppkey = ps.suppkey, p.size = ?, s.nationkey = n.nationkey, \
         n.regionkey = r.regionkey, r.name = ?",
    );
    query.never_multiplies();
}

#[test]
fn q3_orders_of_a_segment() {
    let query = Query::over(&[CUSTOMER, ORDERS, LINEITEM])
        .filter("c.mktsegment = ?, c.custkey = o.custkey, l.orderkey = o.orderkey, o.orderdate < ?, l.shipdate < ?");
    assert_eq!(query.never_multiplies(), "((c o) l)");
}

#[test]
fn q5_customers_and_suppliers_of_one_nation_are_not_combined() {
    let query = Query::over(&[CUSTOMER, ORDERS, LINEITEM, SUPPLIER, NATION, REGION]).filter(
        "c.custkey = o.custkey, l.orderkey = o.orderkey, l.suppkey = s.suppkey, c.nationkey = s.nationkey, \
         s.nationkey = n.nationkey, n.regionkey = r.regionkey, r.name = ?, o.orderdate < ?, o.orderdate < ?",
    );
    let text = query.never_multiplies();
    let (_, joins) = query.ordered(Choice::Cheapest);
    assert!(joins.iter().all(|(rows, _)| *rows < 600_000.0), "{text} {joins:?}");
    // Suppliers are joined after the customers' nations are known. So only the lines of suppliers in these nations are
    // read.
    assert_eq!(text, "(((r n) c) (s (o l)))");
}

#[test]
fn q7_trade_between_two_nations() {
    let query = Query::over(&[SUPPLIER, LINEITEM, ORDERS, CUSTOMER]).also("n1", NATION).also("n2", NATION).filter(
        "s.suppkey = l.suppkey, o.orderkey = l.orderkey, c.custkey = o.custkey, s.nationkey = n1.nationkey, \
         c.nationkey = n2.nationkey, l.shipdate < ?",
    );
    query.never_multiplies();
}

#[test]
fn q8_market_share_of_eight_relations() {
    let tables = [PART, SUPPLIER, LINEITEM, ORDERS, CUSTOMER, REGION];
    let query = Query::over(&tables).also("n1", NATION).also("n2", NATION).filter(
        "p.partkey = l.partkey, s.suppkey = l.suppkey, l.orderkey = o.orderkey, o.custkey = c.custkey, \
         c.nationkey = n1.nationkey, n1.regionkey = r.regionkey, r.name = ?, s.nationkey = n2.nationkey, \
         o.orderdate < ?, p.type = ?",
    );
    let text = query.never_multiplies();
    assert!(text.contains("(p l)"), "few parts are wanted, so their lines come first: {text}");
}

#[test]
fn q9_both_columns_of_partsupps_key_are_used_at_once() {
    let query = Query::over(&[PART, SUPPLIER, LINEITEM, PARTSUPP, ORDERS, NATION]).filter(
        "s.suppkey = l.suppkey, ps.suppkey = l.suppkey, ps.partkey = l.partkey, p.partkey = l.partkey, \
         o.orderkey = l.orderkey, s.nationkey = n.nationkey, p.type < ?",
    );
    query.never_multiplies();
}

#[test]
fn q10_customers_who_sent_something_back() {
    let query = Query::over(&[CUSTOMER, ORDERS, LINEITEM, NATION]).filter(
        "c.custkey = o.custkey, l.orderkey = o.orderkey, o.orderdate < ?, o.orderdate < ?, l.flag = ?, \
         c.nationkey = n.nationkey",
    );
    query.never_multiplies();
}

#[test]
fn in_a_star_the_facts_stream_through_all_dimensions() {
    const FACTS: Table = ("f", 1e7, 0, &[("a", 100.0), ("b", 1000.0), ("d", 10.0)]);
    let dimension = |name, rows| (name, rows, 1, &[("id", 1.0)] as &'static [_]);
    let query = Query::over(&[FACTS, dimension("a", 100.0), dimension("b", 1000.0), dimension("d", 10.0)])
        .filter("f.a = a.id, f.b = b.id, f.d = d.id");
    let text = query.never_multiplies();
    assert!(text.ends_with(" f)))"), "{text}");
}

#[test]
fn a_chain_begins_where_it_does_not_multiply() {
    const A: Table = ("a", 1e4, 0, &[("x", 10.0)]);
    const B: Table = ("b", 1e4, 0, &[("x", 10.0), ("y", 1e4)]);
    const C: Table = ("c", 100.0, 0, &[("y", 100.0)]);
    let (text, joins) = Query::over(&[A, B, C]).filter("a.x = b.x, b.y = c.y").ordered(Choice::Cheapest);
    assert_eq!(text, "((c b) a)");
    assert!(joins.iter().all(|(rows, _)| *rows <= 1e5), "{joins:?}");
}

#[test]
fn a_cycle_is_closed_with_all_its_equalities() {
    const A: Table = ("a", 1e5, 0, &[("x", 1e5), ("y", 10.0)]);
    const B: Table = ("b", 1e5, 0, &[("x", 1e5), ("z", 10.0)]);
    const C: Table = ("c", 1e3, 0, &[("y", 10.0), ("z", 10.0)]);
    let query = Query::over(&[A, B, C]).filter("a.x = b.x, a.y = c.y, b.z = c.z");
    let (text, _) = query.ordered(Choice::Cheapest);
    assert_eq!(text, "(c (a b))");
    let mut conditions = query.filters.iter().collect();
    let owners = query.owners();
    let classes = Classes::extract(&mut conditions, &owners);
    let relations: Vec<Relation> = query.tables.iter().map(|(_, t)| Relation { rows: t.1, key: None }).collect();
    let Node::Join { keys, .. } = order(&relations, &classes, &conditions, &owners, &query, Choice::Cheapest).node
    else {
        panic!("{text}")
    };
    assert_eq!(keys.len(), 2);
}

#[test]
fn what_is_equal_to_the_same_is_joined_directly() {
    // The query does not say a.k = c.k, but both equal b.k.
    const A: Table = ("a", 10.0, 1, &[("k", 10.0)]);
    const B: Table = ("b", 1e6, 1, &[("k", 1e6)]);
    const C: Table = ("c", 20.0, 1, &[("k", 20.0)]);
    let (text, _) = Query::over(&[A, B, C]).filter("a.k = b.k, b.k = c.k").ordered(Choice::Cheapest);
    assert_eq!(text, "((a c) b)");
}

#[test]
fn a_key_that_a_constant_fixes_in_part_is_a_key() {
    // The customers of a warehouse in TPC-C: their key is (w, id), and w is a constant.
    const C: Table = ("c", 1e5, 2, &[("w", 100.0), ("id", 1e3)]);
    const O: Table = ("o", 1e6, 0, &[("w", 100.0), ("c", 1e3)]);
    Query::over(&[O, C]).filter("o.c = c.id, c.w = ?, o.w = ?").never_multiplies();
}

#[test]
fn relations_that_nothing_connects_come_last() {
    const A: Table = ("a", 1e3, 1, &[("k", 1e3)]);
    const B: Table = ("b", 1e3, 1, &[("k", 1e3)]);
    const LONE: Table = ("x", 2.0, 0, &[("k", 2.0)]);
    let (text, _) = Query::over(&[LONE, A, B]).filter("a.k = b.k").ordered(Choice::Cheapest);
    assert_eq!(text, "(x (a b))");
}

#[test]
fn many_relations_are_ordered_too() {
    const LINK: Table = ("", 1e5, 1, &[("k", 1e5), ("next", 1e5)]);
    for count in [9, MAX_RELATIONS] {
        let mut query = Query::over(&[]);
        for i in 0..count {
            query = query.also(&format!("t{i}"), LINK);
        }
        for i in 1..count {
            query = query.filter(&format!("t{}.next = t{i}.k", i - 1));
        }
        query.never_multiplies();
    }
    assert_eq!(Query::over(&[LINK]).ordered(Choice::Cheapest).0, "");
}

#[test]
fn random_orders_join_each_relation_once_and_what_is_connected() {
    let query = Query::over(&[CUSTOMER, ORDERS, LINEITEM, SUPPLIER, NATION, REGION]).filter(
        "c.custkey = o.custkey, l.orderkey = o.orderkey, l.suppkey = s.suppkey, c.nationkey = s.nationkey, \
         s.nationkey = n.nationkey, n.regionkey = r.regionkey",
    );
    let trees: Vec<String> = (0..100).map(|seed| query.ordered(Choice::Random(seed)).0).collect();
    for tree in &trees {
        for name in ["c", "o", "l", "s", "n", "r"] {
            assert_eq!(tree.matches(name).count(), 1, "{tree}");
        }
    }
    let different: std::collections::HashSet<_> = trees.iter().collect();
    assert!(different.len() > 80, "{} of 100 are different", different.len());
    assert_eq!(trees, (0..100).map(|seed| query.ordered(Choice::Random(seed)).0).collect::<Vec<_>>());
}

#[test]
fn the_quick_order_gives_as_many_rows() {
    let query = Query::over(&[CUSTOMER, ORDERS, LINEITEM, SUPPLIER, NATION, REGION]).filter(
        "c.custkey = o.custkey, l.orderkey = o.orderkey, l.suppkey = s.suppkey, c.nationkey = s.nationkey, \
         s.nationkey = n.nationkey, n.regionkey = r.regionkey",
    );
    let rows = |choice| query.ordered(choice).1.last().unwrap().0;
    let (quick, cheapest) = (rows(Choice::Quick), rows(Choice::Cheapest));
    assert!((quick / cheapest - 1.0).abs() < 1e-6, "{quick} {cheapest}");
}

#[test]
fn what_an_or_says_of_each_relation_counts_once() {
    let nations = || Query::over(&[]).also("n1", NATION).also("n2", NATION).filter("n1.regionkey = n2.regionkey");
    let each = |query: Query| query.either(&["n1.name = ?", "n1.name = ?"]).either(&["n2.name = ?", "n2.name = ?"]);
    let rows = |query: Query| query.ordered(Choice::Cheapest).1[0].0;
    let two_by_two = rows(each(nations()));
    let pairs = rows(each(nations()).either(&["n1.name = ?, n2.name = ?", "n1.name = ?, n2.name = ?"]));
    assert!((0.4..0.6).contains(&(pairs / two_by_two)), "{pairs} of {two_by_two}");
}
