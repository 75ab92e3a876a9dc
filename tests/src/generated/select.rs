//! Flagged SELECTs over a FROM clause: plain, aggregated or grouped. They also use what PostgreSQL computes above the
//! engine's rows, such as DISTINCT, ORDER BY and LIMIT.

use super::dice::Dice;
use super::expressions::{Expression, Kind, Scope, condition_on, form_of};
use super::{lists, subqueries};

/// A FROM clause with joined tables, and the parts of a query that belong to it.
pub struct From {
    pub sql: String,
    /// Join conditions that go into WHERE.
    pub conditions: Vec<String>,
    pub scope: Scope,
    /// The WITH queries before SELECT.
    pub with: Vec<String>,
    /// For each table with a primary key: the key's columns, and all columns of the table.
    pub keyed: Vec<(Vec<String>, Scope)>,
}

pub struct Query {
    pub sql: String,
    /// Whether ORDER BY determines the order of any two rows that differ.
    pub ordered: bool,
}

impl From {
    pub fn query(&self, dice: &mut Dice) -> Query {
        let query = match dice.below(10) {
            0..=2 => self.plain(dice),
            3 => self.aggregated(dice),
            4 => self.of_floats(dice),
            5 if dice.chance(4) => self.several(dice),
            _ => self.grouped(dice),
        };
        match self.with.is_empty() {
            true => query,
            false => Query { sql: format!("WITH {} {}", self.with.join(", "), query.sql), ..query },
        }
    }

    fn plain(&self, dice: &mut Dice) -> Query {
        let mut items: Vec<String> = dice.some(4, |dice| {
            let expression = self.scope.expression(dice);
            if dice.chance(4) { form_of(dice, &[expression]) } else { expression.sql }
        });
        if dice.chance(10) {
            items.push(subqueries::value(dice, &self.scope));
        }
        if dice.chance(8) {
            items.push(subqueries::array(dice, &self.scope));
        }
        if dice.chance(10) {
            items.push(subqueries::condition(dice, &self.scope));
        }
        if dice.chance(8) {
            let (part, order) = (self.scope.column(dice).name, self.scope.column(dice).name);
            items.push(format!("rank() OVER (PARTITION BY {part} ORDER BY {order})"));
        }
        // A condition that the engine does not support, so PostgreSQL evaluates it above the engine's rows.
        let residual = dice.chance(8).then(|| {
            let text = self.scope.column_of(dice, Kind::Text);
            text.map(|text| format!("{} ILIKE '%{}%'", text.name, dice.pick(&["a", "1", "x"])))
        });
        let rest = format!("FROM {} WHERE {}", self.sql, self.filter(dice, residual.flatten()));
        self.finish(dice, &items, &rest, &[])
    }

    fn aggregated(&self, dice: &mut Dice) -> Query {
        let items = dice.some(4, |dice| self.aggregate_form(dice));
        let having = if dice.chance(3) { format!(" HAVING {}", self.aggregate_condition(dice)) } else { "".into() };
        let sql = format!("SELECT {} FROM {} WHERE {}{having}", items.join(", "), self.sql, self.filter(dice, None));
        Query { sql, ordered: false }
    }

    /// A query that reads the same rows several times, or the same groups of these rows, with and without partners.
    fn several(&self, dice: &mut Dice) -> Query {
        let rows = format!("FROM {} WHERE {}", self.sql, self.filter(dice, None));
        let items: Vec<String> = if dice.chance(2) {
            dice.some(2, |dice| format!("(SELECT {} {rows})", self.aggregate_form(dice)))
        } else {
            let [group, column] = [(); 2].map(|()| self.scope.column(dice).name);
            let groups = format!("(SELECT {group} AS k, count(*) AS n, count({column}) AS m {rows} GROUP BY 1) AS g");
            let partner = dice.pick(&["JOIN generate_series(1, 3) AS s(i) ON n = i", ", (SELECT 1 AS i) AS s"]);
            dice.some(4, |dice| {
                let value = dice.pick(&["sum(n)", "max(n)", "count(k)", "avg(m)", "count(DISTINCT m)"]);
                format!("(SELECT {value} FROM {groups} {})", if dice.chance(3) { "" } else { partner })
            })
        };
        Query { sql: format!("SELECT {}", items.join(", ")), ordered: false }
    }

    fn grouped(&self, dice: &mut Dice) -> Query {
        let mut keys = dice.some(3, |dice| self.key(dice));
        let mut items = Vec::new();
        let depends = !self.keyed.is_empty() && dice.chance(5);
        // There are no grouping sets if the query reads columns that depend on a grouped primary key, because the key
        // may be missing in some sets. If a key is an expression, PostgreSQL computes the key's parts and simplified
        // forms from any row of the group.
        let sets = !depends && dice.chance(10);
        let whole = sets && dice.chance(2);
        if sets && !whole {
            keys = dice.some(3, |dice| {
                let column = self.scope.column(dice);
                Expression { sql: column.name, kind: column.kind }
            });
        }
        if depends {
            // Groups by a primary key, and reads other columns of its table, which depend on the key.
            let (key, scope) = dice.pick(&self.keyed);
            keys.truncate(dice.below(2) as usize);
            keys.extend(key.into_iter().map(|sql| Expression { sql, kind: Kind::Integer }));
            items = dice.some(3, |dice| {
                let column = scope.column(dice);
                form_of(dice, &[Expression { sql: column.name, kind: column.kind }])
            });
        }
        items.extend(dice.some(5, |dice| match dice.below(6) {
            0..3 if whole => dice.pick(&keys).sql,
            0 | 1 => form_of(dice, &keys),
            2 => condition_on(dice, &keys),
            _ => self.aggregate_form(dice),
        }));
        if !whole && dice.chance(6) {
            items.push(self.window(dice, &keys));
        }
        let mut rest = format!("FROM {} WHERE {}", self.sql, self.filter(dice, None));
        let list: Vec<String> = keys.iter().map(|key| key.sql.clone()).collect();
        let groups = list.join(", ");
        rest += &match dice.below(3) {
            0 if sets => format!(" GROUP BY ROLLUP ({groups})"),
            1 if sets => format!(" GROUP BY CUBE ({groups})"),
            2 if sets => format!(" GROUP BY GROUPING SETS (({groups}), ({}), ())", dice.pick(&list)),
            _ => format!(" GROUP BY {groups}"),
        };
        if dice.chance(3) {
            let having = match dice.below(4) {
                _ if whole => self.aggregate_condition(dice),
                0 => self.aggregate_condition(dice),
                1 => format!("{} OR {}", condition_on(dice, &keys), self.aggregate_condition(dice)),
                _ => condition_on(dice, &keys),
            };
            rest += &format!(" HAVING {having}");
        }
        self.finish(dice, &items, &rest, &keys)
    }

    /// An expression to group by. Booleans are frequent, because PostgreSQL's planner simplifies them most.
    fn key(&self, dice: &mut Dice) -> Expression {
        match dice.below(4) {
            0 | 1 => self.scope.expression(dice),
            2 => Expression { sql: self.scope.simple_condition(dice), kind: Kind::Bool },
            _ => {
                let column = self.scope.column(dice);
                Expression { sql: column.name, kind: column.kind }
            }
        }
    }

    fn aggregate(&self, dice: &mut Dice) -> String {
        let aggregate: String = match dice.below(11) {
            9 if dice.chance(2) => {
                let column = self.scope.column_of(dice, Kind::Integer).map_or("1".into(), |column| column.name);
                format!("{}({column})", dice.pick(&["bit_and", "bit_or", "bit_xor"]))
            }
            0 if dice.chance(2) => return self.list(dice),
            9 => format!("{}({})", dice.pick(&["bool_and", "bool_or", "every"]), self.scope.condition(dice, 1)),
            10 => format!("{}({})", dice.pick(&SPREADS), self.scope.number(dice)),
            0 | 1 => "count(*)".into(),
            2 => format!("count({})", self.scope.expression(dice).sql),
            3 | 4 => format!("sum({})", self.scope.number(dice)),
            5 => format!("avg({})", self.scope.number(dice)),
            kind => {
                let column = self.scope.column(dice);
                // PostgreSQL or the engine has no min and max for these types.
                let unordered = matches!(column.kind, Kind::Bool | Kind::Uuid) || !column.kind.is_ordered();
                let ordered = if unordered { self.scope.number(dice) } else { column.name };
                format!("{}({ordered})", if kind == 6 { "min" } else { "max" })
            }
        };
        let aggregate = match dice.below(6) {
            0 if !aggregate.contains("(*)") => aggregate.replacen('(', "(DISTINCT ", 1),
            _ => aggregate,
        };
        if dice.chance(8) { format!("{aggregate} FILTER (WHERE {})", self.scope.condition(dice, 0)) } else { aggregate }
    }

    /// A list aggregate with ORDER BY, in which only equal values may come in any order.
    fn list(&self, dice: &mut Dice) -> String {
        let list = lists::aggregate(dice, &self.scope);
        if dice.chance(5) { format!("{list} FILTER (WHERE {})", self.scope.condition(dice, 0)) } else { list }
    }

    /// Aggregates whose last digits depend on the order of rows.
    fn of_floats(&self, dice: &mut Dice) -> Query {
        let mut items = dice.some(3, |dice| self.float_aggregate(dice));
        items.push("count(*)".into());
        let mut rest = format!("FROM {} WHERE {}", self.sql, self.filter(dice, None));
        if !dice.chance(4) {
            let keys: Vec<String> = dice.some(2, |dice| self.key(dice)).into_iter().map(|key| key.sql).collect();
            rest += &format!(" GROUP BY {}", keys.join(", "));
            items.extend(keys);
        }
        Query { sql: format!("SELECT {} {rest}", items.join(", ")), ordered: false }
    }

    fn float_aggregate(&self, dice: &mut Dice) -> String {
        let float = self.float(dice);
        let aggregate = match dice.below(3) {
            0 => format!("{}({float})", dice.pick(&["sum", "avg"])),
            1 => format!("{}({float})", dice.pick(&SPREADS)),
            _ => {
                let x = self.float(dice);
                format!("{}({float}, {x})", dice.pick(&PAIRS))
            }
        };
        let aggregate = if dice.chance(6) { aggregate.replacen('(', "(DISTINCT ", 1) } else { aggregate };
        if dice.chance(6) { format!("{aggregate} FILTER (WHERE {})", self.scope.condition(dice, 0)) } else { aggregate }
    }

    /// A float expression with so few digits that the variance of equal values is exactly zero, in whatever order they
    /// are added up.
    fn float(&self, dice: &mut Dice) -> String {
        let column = self.scope.column_of(dice, Kind::Integer).map_or("1".into(), |column| column.name);
        format!("(({column} % 1000)::double precision / {})", dice.pick(&["1", "4", "8"]))
    }

    fn aggregate_form(&self, dice: &mut Dice) -> String {
        match dice.below(10) {
            0 if dice.chance(3) => {
                let column = self.scope.column_of(dice, Kind::Integer).map_or("1".into(), |column| column.name);
                format!("jsonb_agg({column} ORDER BY {column})")
            }
            0 => format!("sum({}) / nullif(count(*), 0)", self.scope.number(dice)),
            1 => format!("round(avg({}), 2)", self.scope.number(dice)),
            2 => self.aggregate_condition(dice),
            3 => format!("CASE WHEN NOT {} THEN 'few' ELSE 'many' END", self.aggregate_condition(dice)),
            4 => format!("{0} IS NULL OR {0} IS NOT NULL", self.aggregate(dice)),
            5 => format!("coalesce({}::text, 'none')", self.aggregate(dice)),
            _ => self.aggregate(dice),
        }
    }

    fn aggregate_condition(&self, dice: &mut Dice) -> String {
        match dice.below(5) {
            4 => {
                let looked_up = match dice.below(3) {
                    0 => "count(*)".to_owned(),
                    1 => format!("sum({})", self.scope.number(dice)),
                    _ => format!("max({})", self.scope.number(dice)),
                };
                let asked = dice.pick(&["IN", "NOT IN", ">= ALL", "< ANY", "<> ALL"]);
                format!("({looked_up} {asked} (SELECT i2 FROM kinds WHERE id < {}))", dice.pick(&["0", "8", "1000"]))
            }
            0 => format!("(sum({}) > {})", self.scope.number(dice), dice.pick(&["0", "100", "-5"])),
            1 => format!("(NOT (count(*) > {}))", dice.pick(&["1", "3", "20"])),
            2 => format!("(avg({}) IS NOT NULL)", self.scope.number(dice)),
            _ => format!("(count(*) BETWEEN 1 AND {})", dice.pick(&["2", "10", "100"])),
        }
    }

    fn window(&self, dice: &mut Dice, keys: &[Expression]) -> String {
        let (part, order) = (form_of(dice, keys), dice.pick(keys).sql);
        match dice.below(5) {
            0 => format!("rank() OVER (PARTITION BY {part} ORDER BY {order})"),
            1 => "sum(count(*)) OVER ()".into(),
            2 => format!("sum(sum({})) OVER (PARTITION BY {part})", self.scope.number(dice)),
            3 => format!("count(*) OVER (ORDER BY {order})"),
            _ => format!("dense_rank() OVER (ORDER BY {} DESC NULLS LAST)", self.aggregate(dice)),
        }
    }

    fn filter(&self, dice: &mut Dice, residual: Option<String>) -> String {
        let mut conditions = self.conditions.clone();
        conditions.push("anker.olap()".into());
        conditions.extend(residual);
        for _ in 0..dice.below(4) {
            conditions.push(match dice.below(5) {
                0 => subqueries::condition(dice, &self.scope),
                _ => self.scope.condition(dice, 1),
            });
        }
        conditions.join(" AND ")
    }

    /// Adds the select list, ORDER BY and LIMIT. A LIMIT is added only if the order determines which rows remain.
    fn finish(&self, dice: &mut Dice, items: &[String], rest: &str, keys: &[Expression]) -> Query {
        let list = items.join(", ");
        match dice.below(8) {
            0 => Query { sql: format!("SELECT DISTINCT {} {rest}", distinct(items)), ordered: false },
            1 => {
                let by: Vec<String> = (1..=items.len()).map(|at| format!("{at}{}", direction(dice))).collect();
                let (list, by) = (distinct(items), by.join(", "));
                let sql = format!("SELECT DISTINCT {list} {rest} ORDER BY {by}{}", self.limit(dice));
                Query { sql, ordered: true }
            }
            2 => {
                let first = match keys {
                    [] => "1".into(),
                    _ => form_of(dice, keys),
                };
                let by: Vec<String> = items.iter().map(|item| format!("({item})::text")).collect();
                let (first, by) = (format!("{first}{}", direction(dice)), by.join(", "));
                Query { sql: format!("SELECT {list} {rest} ORDER BY {first}, {by}{}", self.limit(dice)), ordered: true }
            }
            4 => {
                let first = if keys.is_empty() { "1".into() } else { form_of(dice, keys) };
                let by: Vec<String> = items.iter().map(|item| format!("({item})::text")).collect();
                let order = format!("{first}{}, {}", direction(dice), by.join(", "));
                let sql = format!("SELECT DISTINCT ON ({first}) {list} {rest} ORDER BY {order}{}", self.limit(dice));
                Query { sql, ordered: true }
            }
            3 if !keys.is_empty() => {
                let by = if dice.chance(2) { self.aggregate(dice) } else { form_of(dice, keys) };
                Query { sql: format!("SELECT {list} {rest} ORDER BY {by}{}", direction(dice)), ordered: false }
            }
            _ => Query { sql: format!("SELECT {list} {rest}"), ordered: false },
        }
    }

    /// A LIMIT clause. The plan decides whether rows beyond the limit are computed, and so whether they raise errors.
    fn limit(&self, dice: &mut Dice) -> &'static str {
        let limits = ["", " LIMIT 1", " LIMIT 7", " LIMIT 20 OFFSET 3", " FETCH FIRST 2 ROWS WITH TIES"];
        if self.scope.extreme { "" } else { dice.pick(&limits) }
    }
}

const SPREADS: [&str; 6] = ["variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop"];
const PAIRS: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// The select list for a query with DISTINCT. Equal quotients or chosen values may be shown with different numbers of
/// digits, and DISTINCT could return any of them. So such expressions are cast to text.
fn distinct(items: &[String]) -> String {
    let choices = ["avg(", "var", "stddev", " / ", "coalesce(", "CASE", "greatest(", "least("];
    let is_quotient = |item: &str| choices.iter().any(|choice| item.contains(choice));
    let shown = |item: &String| if is_quotient(item) { format!("({item})::text") } else { item.clone() };
    items.iter().map(shown).collect::<Vec<String>>().join(", ")
}

fn direction(dice: &mut Dice) -> &'static str {
    dice.pick(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
}
