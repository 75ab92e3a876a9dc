//! SQL constructs that must occur in the generated queries. Their frequency is checked, because a construct that hardly
//! ever occurs is not tested.

use std::collections::BTreeMap;

/// Constructs, each with pieces of text. A query that contains one of these pieces has the construct.
const CONSTRUCTS: &[(&str, &[&str])] = &[
    ("join", &[" JOIN "]),
    ("left join", &["LEFT JOIN"]),
    ("right join", &["RIGHT JOIN"]),
    ("full join", &["FULL JOIN"]),
    ("subquery in FROM", &["FROM (SELECT", "JOIN (SELECT", ", (SELECT"]),
    ("LATERAL", &["LATERAL"]),
    ("lists of a row", &["LATERAL unnest(", "LATERAL generate_series("]),
    ("function in FROM", &["_before(", "_of("]),
    ("subquery in ON", &["ON (true AND "]),
    ("WITH", &["WITH w"]),
    ("VALUES", &["(VALUES"]),
    ("generate_series", &["generate_series("]),
    ("partitioned table", &["partsupp"]),
    ("table that is not mirrored", &["region"]),
    ("EXISTS", &["EXISTS (SELECT"]),
    ("IN a subquery", &[" IN (SELECT"]),
    ("ANY, ALL", &["ANY (SELECT", "ALL (SELECT"]),
    ("subquery as a value", &["(SELECT max(", "(SELECT min(", "(SELECT sum(", "(SELECT avg(", "(SELECT count("]),
    ("subquery in a subquery", &[" q2 "]),
    ("subqueries to depth 4", &[" q4 "]),
    ("GROUP BY", &["GROUP BY"]),
    ("HAVING", &["HAVING"]),
    ("grouping sets", &["ROLLUP", "CUBE", "GROUPING SETS"]),
    ("DISTINCT", &["SELECT DISTINCT"]),
    ("DISTINCT ON", &["DISTINCT ON"]),
    ("DISTINCT in an aggregate", &["(DISTINCT "]),
    ("FILTER", &["FILTER (WHERE"]),
    ("window function", &["OVER ("]),
    ("window frame", &[" PRECEDING", " FOLLOWING"]),
    ("numbers of window functions", &["lag(", "lead(", "nth_value("]),
    ("frame of a range of values", &["RANGE BETWEEN (", "CURRENT ROW AND ("]),
    ("ORDER BY", &["ORDER BY"]),
    ("LIMIT", &["LIMIT ", "FETCH FIRST"]),
    ("OFFSET", &["OFFSET "]),
    ("WITH TIES", &["WITH TIES"]),
    ("UNION", &["UNION"]),
    ("INTERSECT, EXCEPT", &["INTERSECT", "EXCEPT"]),
    ("CASE", &["CASE"]),
    ("COALESCE", &["coalesce("]),
    ("NULLIF", &["nullif("]),
    ("GREATEST, LEAST", &["greatest(", "least("]),
    ("IS DISTINCT FROM", &["DISTINCT FROM"]),
    ("LIKE", &[" LIKE "]),
    ("ILIKE", &[" ILIKE "]),
    ("regular expressions", &[" ~ '", " !~ '", " ~* '", " !~* '"]),
    ("comparison of rows", &["(ROW("]),
    ("list", &[" IN ('", " IN (1", "= ANY (ARRAY", "= ANY ($1)"]),
    ("BETWEEN", &[" BETWEEN "]),
    ("functions of text", &["substr", "left(", "right(", "replace(", "trim(", "pad(", "split_part(", "reverse("]),
    ("||", &[" || "]),
    ("functions of numbers", &["abs(", "ceil(", "floor(", "round(", "trunc(", "sign(", "mod("]),
    ("bits", &[" & ", " | ", " # ", "(~ ", " << ", " >> "]),
    ("division", &[" / "]),
    ("casts", &["::integer", "::text", "::numeric", "::bigint", "::smallint"]),
    ("extract", &["extract("]),
    ("date_trunc", &["date_trunc("]),
    ("intervals", &["interval '"]),
    ("columns of intervals", &["o_lead"]),
    ("roots, logarithms, powers", &["sqrt(", "ln(", "power(", "log("]),
    ("time zones", &["timestamptz", "AT TIME ZONE"]),
    ("jsonb", &["-> 'a'", "->> 'a'", "p_doc"]),
    ("count", &["count("]),
    ("sum, avg", &["sum(", "avg("]),
    ("min, max", &["min(", "max("]),
    ("variance", &["stddev", "var"]),
    ("pairs of floats", &["corr(", "covar_", "regr_"]),
    ("bool_and, bit_and", &["bool_", "every(", "bit_"]),
    ("array_agg, string_agg", &["array_agg(", "string_agg("]),
    ("ARRAY(SELECT ...)", &["ARRAY(SELECT"]),
    ("percentiles, mode", &["percentile_", "mode("]),
    ("aggregate that PostgreSQL computes", &["jsonb_agg("]),
    ("parameters", &["$1"]),
    ("view", &["recent_orders", "guarded_"]),
    ("security barrier", &["guarded_"]),
    ("function that is not leakproof", &["nosy("]),
];

/// The percentage of queries that must at least contain each construct.
const SHARE: usize = 2;

#[derive(Default)]
pub struct Seen {
    queries: usize,
    counts: BTreeMap<&'static str, usize>,
}

impl Seen {
    pub fn add(&mut self, sql: &str) {
        self.queries += 1;
        for (name, signs) in CONSTRUCTS {
            *self.counts.entry(name).or_default() += usize::from(signs.iter().any(|sign| sql.contains(sign)));
        }
    }

    /// Constructs that occur too seldom, with their counts. A count is too small if it is more than three standard
    /// deviations below the required share of the queries; a smaller deviation may be chance.
    pub fn rare(&self) -> Vec<String> {
        let expected = (self.queries * SHARE) as f64 / 100.0;
        let rare = self.counts.iter().filter(|(_, count)| (**count as f64) < expected - 3.0 * expected.sqrt());
        rare.map(|(name, count)| format!("{name} ({count})")).collect()
    }
}
