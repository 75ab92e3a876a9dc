//! Random subqueries in conditions and values, correlated or not, over the tables of [`super::shop`].

use super::dice::Dice;
use super::expressions::{Column, Kind, Scope};
use super::{lists, shop};

/// The greatest depth of nested subqueries.
const DEEPEST: u32 = 4;

/// A condition with a subquery that may read columns of `outer`, in parentheses.
pub fn condition(dice: &mut Dice, outer: &Scope) -> String {
    form(dice, outer, 1)
}

/// A scalar subquery, whose value is a number or NULL.
pub fn value(dice: &mut Dice, outer: &Scope) -> String {
    value_at(dice, outer, 1)
}

/// An array from a subquery, cast to text.
pub fn array(dice: &mut Dice, outer: &Scope) -> String {
    let (table, inner) = shop::inner_table(dice, "qa");
    let mut conditions = correlation(dice, outer, &inner);
    conditions.push(inner.simple_condition(dice));
    let (value, conditions) = (lists::value(dice, &inner), conditions.join(" AND "));
    let order = format!("{}{value}", lists::by(dice, &inner));
    let limit = dice.pick(&["", "", " LIMIT 3"]);
    format!("ARRAY(SELECT {value} FROM {table} qa WHERE {conditions} ORDER BY {order}{limit})::text")
}

/// A LATERAL item of FROM that reads columns of the items before it, and the item's columns.
pub fn lateral(dice: &mut Dice, outer: &Scope) -> (String, Vec<Column>) {
    match dice.below(6) {
        0..=2 => return list(dice, outer),
        3 => return rows_of_key(dice, outer),
        _ => {}
    }
    let (table, inner) = shop::inner_table(dice, "lq");
    let mut conditions = correlation(dice, outer, &inner);
    let is_total = dice.chance(2) || conditions.is_empty();
    if dice.chance(2) || conditions.is_empty() {
        conditions.push(inner.simple_condition(dice));
    }
    let conditions = conditions.join(" AND ");
    let shown = inner.column(dice);
    let (items, columns) = match inner.column_of(dice, Kind::Integer).filter(|_| is_total) {
        Some(number) => {
            let count = Column { name: "lat.n".into(), kind: Kind::Integer, literals: &["0", "1", "3"] };
            let most = Column { name: "lat.m".into(), ..number.clone() };
            (format!("count(*) AS n, max({}) AS m", number.name), vec![count, most])
        }
        None => (format!("{} AS c", shown.name), vec![Column { name: "lat.c".into(), ..shown }]),
    };
    let join = dice.pick(&["CROSS", "LEFT", "LEFT"]);
    let on = if join == "LEFT" { " ON true" } else { "" };
    (format!(" {join} JOIN LATERAL (SELECT {items} FROM {table} lq WHERE {conditions}) AS lat{on}"), columns)
}

/// A call of a set-returning function with a column of the outer row as argument, and the columns that it returns.
fn rows_of_key(dice: &mut Dice, outer: &Scope) -> (String, Vec<Column>) {
    let key = outer.column_of(dice, Kind::Integer).map_or("7".into(), |column| column.name);
    let (call, columns) = shop::rows_of(dice, &key, "lat");
    let join = dice.pick(&["CROSS JOIN LATERAL", "LEFT JOIN LATERAL"]);
    let on = if join.starts_with("LEFT") { " ON true" } else { "" };
    (format!(" {join} {call} AS lat{on}"), columns)
}

/// A LATERAL item that returns the elements of a list, which is made from columns of the outer row.
fn list(dice: &mut Dice, outer: &Scope) -> (String, Vec<Column>) {
    let element = |kind, literals| vec![Column { name: "lat.e".into(), kind, literals }];
    let (call, columns) = match outer.column_of(dice, Kind::Integer) {
        Some(number) if dice.chance(2) => {
            let call = format!("generate_series(1, least({}::bigint, 3))", number.name);
            (call, element(Kind::Integer, &["1", "2", "3"]))
        }
        _ => match outer.column_of(dice, Kind::Text) {
            Some(text) => {
                let call = format!("unnest(string_to_array({}, {}))", text.name, dice.pick(&["'1'", "'a'"]));
                (call, element(Kind::Text, &["'a'", "''", "'1'"]))
            }
            None => ("generate_series(1, 2)".into(), element(Kind::Integer, &["1", "2", "3"])),
        },
    };
    let join = dice.pick(&["CROSS", "CROSS", "LEFT"]);
    let on = if join == "LEFT" { " ON true" } else { "" };
    (format!(" {join} JOIN LATERAL {call} AS lat(e){on}"), columns)
}

/// A condition that contains a subquery in one of many forms.
fn form(dice: &mut Dice, outer: &Scope, level: u32) -> String {
    let condition = condition_at(dice, outer, level);
    let other = outer.simple_condition(dice);
    match dice.below(12) {
        0 => format!("({condition} OR {other})"),
        1 => format!("({condition} IS NOT TRUE)"),
        2 => format!("(CASE WHEN {other} THEN {condition} ELSE {} END)", outer.simple_condition(dice)),
        3 => format!("({condition} IS NULL OR {other})"),
        4 => format!("(({condition}) = ({other}))"),
        _ => condition,
    }
}

fn condition_at(dice: &mut Dice, outer: &Scope, level: u32) -> String {
    let alias = format!("q{level}");
    let (table, inner) = shop::inner_table(dice, &alias);
    let not = dice.pick(&["", "NOT "]);
    match dice.below(8) {
        0 | 1 => {
            let mut conditions = correlation(dice, outer, &inner);
            if conditions.is_empty() || dice.chance(3) {
                conditions.push(inner.condition(dice, 1));
            }
            conditions.extend(deeper(dice, outer, &inner, level));
            let list = dice.pick(&["1", "*", "*", "count(*)", "1, 2"]);
            format!("({not}EXISTS (SELECT {list} FROM {table} {alias} WHERE {}))", conditions.join(" AND "))
        }
        2 | 3 if dice.chance(5) => {
            let pairs: Vec<_> = (0..dice.pick(&[2, 2, 3])).filter_map(|_| alike(dice, outer, &inner)).collect();
            if pairs.len() < 2 {
                return outer.simple_condition(dice);
            }
            let mut conditions = vec![inner.condition(dice, 1)];
            if dice.chance(4) {
                conditions.extend(correlation(dice, outer, &inner));
            }
            let conditions = conditions.join(" AND ");
            let (own, others): (Vec<_>, Vec<_>) = pairs.into_iter().map(|(own, other)| (own.name, other.name)).unzip();
            let list = format!("SELECT {} FROM {table} {alias} WHERE {conditions}", others.join(", "));
            format!("(({}) {not}IN ({list}))", own.join(", "))
        }
        2 | 3 => {
            let Some((own, other)) = alike(dice, outer, &inner) else { return outer.simple_condition(dice) };
            let mut conditions = vec![inner.condition(dice, 1)];
            if dice.chance(3) {
                conditions.extend(correlation(dice, outer, &inner));
            }
            conditions.extend(deeper(dice, outer, &inner, level));
            let grouped =
                if dice.chance(4) { format!(" GROUP BY {} HAVING count(*) > 1", other.name) } else { "".into() };
            let conditions = conditions.join(" AND ");
            let aggregated = other.kind == Kind::Integer && grouped.is_empty() && dice.chance(6);
            let item = if aggregated { format!("max({})", other.name) } else { other.name };
            let list = format!("SELECT {item} FROM {table} {alias} WHERE {conditions}{grouped}");
            format!("({} {not}IN ({list}))", own.name)
        }
        4 => {
            let Some((own, other)) = alike(dice, outer, &inner) else { return outer.simple_condition(dice) };
            let ordered = own.kind != Kind::Bool && own.kind.is_ordered();
            let comparison = if ordered { dice.pick(&["=", "<>", "<", ">="]) } else { dice.pick(&["=", "<>"]) };
            let mut conditions = correlation(dice, outer, &inner);
            conditions.push(inner.simple_condition(dice));
            let (quantifier, conditions) = (dice.pick(&["ANY", "ALL"]), conditions.join(" AND "));
            let list = format!("SELECT {} FROM {table} {alias} WHERE {conditions}", other.name);
            format!("({not}{} {comparison} {quantifier} ({list}))", own.name)
        }
        _ => {
            let comparison = dice.pick(&["=", "<", ">=", "<>"]);
            match outer.column_of(dice, Kind::Integer).or_else(|| outer.column_of(dice, Kind::Numeric)) {
                Some(column) => format!("({} {comparison} {})", column.name, value_at(dice, outer, level)),
                None => format!("({} IS NOT NULL)", value_at(dice, outer, level)),
            }
        }
    }
}

fn value_at(dice: &mut Dice, outer: &Scope, level: u32) -> String {
    let alias = format!("q{level}");
    let (table, inner) = shop::inner_table(dice, &alias);
    let aggregate = dice.pick(&["max", "min", "sum", "avg", "count", "stddev", "var_pop"]);
    let mut conditions = vec!["true".to_string()];
    if dice.chance(2) {
        conditions.extend(correlation(dice, outer, &inner));
    }
    if dice.chance(2) {
        conditions.push(inner.simple_condition(dice));
    }
    conditions.extend(deeper(dice, outer, &inner, level));
    let having = if dice.chance(10) { " HAVING count(*) > 2" } else { "" };
    let conditions = conditions.join(" AND ");
    if dice.chance(5) {
        return format!("(SELECT {} FROM {table} {alias} WHERE {conditions}{having})", lists::number(dice, &inner));
    }
    if dice.chance(8) {
        let value = lists::value(dice, &inner);
        let rows = format!("SELECT {value} AS v FROM {table} {alias} WHERE {conditions} ORDER BY {value} DESC");
        return format!("(SELECT length(string_agg(v::text, ',')) FROM ({rows}) s{having})");
    }
    let number = inner.number(dice);
    let more = dice.pick(&["", "", " + 1", " * 2"]);
    format!("(SELECT {aggregate}({number}){more} FROM {table} {alias} WHERE {conditions}{having})")
}

/// Sometimes a condition with a nested subquery, which reads columns of the subquery `inner` and of the outer rows.
fn deeper(dice: &mut Dice, outer: &Scope, inner: &Scope, level: u32) -> Option<String> {
    // One in three subqueries at level 1 contains another subquery. At deeper levels, three in four do.
    let goes_on = if level == 1 { dice.chance(3) } else { !dice.chance(4) };
    if level == DEEPEST || !goes_on {
        return None;
    }
    let columns = inner.columns.iter().chain(&outer.columns).cloned().collect();
    let both = Scope { columns, extreme: inner.extreme };
    Some(form(dice, &both, level + 1))
}

/// Conditions that connect a subquery's rows with an outer row.
fn correlation(dice: &mut Dice, outer: &Scope, inner: &Scope) -> Vec<String> {
    let mut conditions = Vec::new();
    for _ in 0..dice.pick(&[0, 1, 1, 1, 2]) {
        if let Some((own, other)) = alike(dice, outer, inner) {
            let comparison = if dice.chance(6) { "<" } else { "=" };
            let comparison = if own.kind == Kind::Bool || !own.kind.is_ordered() { "=" } else { comparison };
            conditions.push(format!("{} {comparison} {}", other.name, own.name));
        }
    }
    conditions
}

/// A column of each side; both have the same kind of value.
fn alike(dice: &mut Dice, outer: &Scope, inner: &Scope) -> Option<(Column, Column)> {
    use Kind::*;
    let kind = dice.pick(&[Integer, Integer, Integer, Integer, Numeric, Date, Text, Bool, Uuid, Enum]);
    Some((outer.column_of(dice, kind)?, inner.column_of(dice, kind)?))
}
