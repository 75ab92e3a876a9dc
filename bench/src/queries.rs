//! The eight queries of AnKer's Figure 5, and the comparison of heap and mirror.

use postgres::Client;

use crate::{Result, anker};

pub struct Query {
    pub name: &'static str,
    select: &'static str,
    from: &'static str,
    filter: &'static str,
    group_by: &'static str,
}

pub const ANKER: [Query; 8] = [
    query("Q1", "w_id, count(*)", "warehouse, stock", "w_id = s_w_id", "w_id"),
    query("Q2", "ol_d_id, avg(ol_amount)", "order_line", "", "ol_d_id"),
    query("Q3", "ol_w_id, sum(ol_quantity), avg(ol_amount)", "order_line", "", "ol_w_id"),
    query("Q4", "*", "orders", "", ""),
    query("Q5", "*", "new_order", "", ""),
    query("Q6", "avg(d_tax), avg(d_ytd)", "district", "", ""),
    query("Q7", "avg(ol_amount)", "order_line", "", ""),
    query("Q8", "avg(s_quantity)", "stock", "", ""),
];

/// The tables that the eight queries read.
pub const TABLES: [&str; 6] = ["warehouse", "district", "stock", "orders", "new_order", "order_line"];

const fn query(
    name: &'static str,
    select: &'static str,
    from: &'static str,
    filter: &'static str,
    group_by: &'static str,
) -> Query {
    Query { name, select, from, filter, group_by }
}

impl Query {
    pub fn heap(&self) -> String {
        self.sql(&[self.filter])
    }

    pub fn flagged(&self) -> String {
        self.sql(&[self.filter, "anker.olap()"])
    }

    fn sql(&self, filters: &[&str]) -> String {
        let filters: Vec<&str> = filters.iter().copied().filter(|f| !f.is_empty()).collect();
        let mut sql = format!("SELECT {} FROM {}", self.select, self.from);
        if !filters.is_empty() {
            sql += &format!(" WHERE {}", filters.join(" AND "));
        }
        if !self.group_by.is_empty() {
            sql += &format!(" GROUP BY {}", self.group_by);
        }
        sql
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Heap,
    Mirror,
}

impl Side {
    pub fn sql(self, query: &Query) -> String {
        match self {
            Side::Heap => query.heap(),
            Side::Mirror => query.flagged(),
        }
    }
}

/// The answers of heap and mirror to a query under one snapshot.
pub struct Compared {
    pub heap: Vec<String>,
    pub mirror: Vec<String>,
}

impl Compared {
    /// Whether both answers have the same rows, in any order.
    pub fn same(&self) -> bool {
        let (mut heap, mut mirror) = (self.heap.clone(), self.mirror.clone());
        heap.sort_unstable();
        mirror.sort_unstable();
        heap == mirror
    }

    /// The first rows that only one side has.
    pub fn difference(&self) -> String {
        let only = |a: &[String], b: &[String]| {
            let mut b = b.to_vec();
            b.sort_unstable();
            let rows: Vec<String> = a.iter().filter(|r| b.binary_search(r).is_err()).take(3).cloned().collect();
            rows.join(" / ")
        };
        format!(
            "heap {} rows, mirror {} rows; only heap: {}; only mirror: {}",
            self.heap.len(),
            self.mirror.len(),
            only(&self.heap, &self.mirror),
            only(&self.mirror, &self.heap)
        )
    }
}

/// Statements that begin a comparison, so that both sides use the same snapshot. If the engine does not answer, the
/// query raises an error, because otherwise the heap would be compared with itself.
pub const COMPARING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL anker.fallback = off; \
                             SET LOCAL anker.max_wait = '60s'";

/// Runs both forms of a query in one REPEATABLE READ transaction. Returns an error if the engine does not answer.
pub fn compare(client: &mut Client, query: &Query) -> Result<Compared> {
    client.batch_execute(COMPARING)?;
    let both = anker::text_rows(client, &query.heap())
        .and_then(|heap| Ok(Compared { heap, mirror: anker::text_rows(client, &query.flagged())? }));
    client.batch_execute("ROLLBACK")?;
    both
}

/// The number of rows that a query returns. They are sent in binary form, and their values are not decoded.
pub fn count_rows(client: &mut Client, sql: &str) -> Result<usize> {
    use postgres::fallible_iterator::FallibleIterator;
    Ok(client.query_raw(sql, std::iter::empty::<i32>())?.count()?)
}
