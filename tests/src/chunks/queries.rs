//! Random queries over tables of several chunks. They have conditions by which scans can skip chunks, and compute
//! something from the rows that satisfy the conditions.

use super::tables::{Column, EVENT, Kind, PIECE, SORT};
use crate::generated::dice::Dice;

pub struct Query {
    pub sql: String,
    /// Whether ORDER BY determines the order of all rows.
    pub ordered: bool,
}

/// Columns whose values are similar within a chunk, so that conditions on them let scans skip chunks.
const CLUSTERED: [&str; 12] =
    ["id", "step", "big", "day", "at", "done", "offside", "warm", "stamp", "address", "born", "mark"];

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

pub fn query(dice: &mut Dice) -> Query {
    let unordered = |sql| Query { sql, ordered: false };
    match dice.below(12) {
        0 | 1 => first_rows(dice),
        2 | 3 => unordered(rows(dice)),
        4..7 => unordered(groups(dice)),
        7 | 8 => unordered(joined(dice)),
        9 => unordered(looked_up(dice)),
        10 => unordered(computed(dice)),
        _ => unordered(sets(dice)),
    }
}

fn rows(dice: &mut Dice) -> String {
    let shown: Vec<&str> = dice.some(5, |dice| dice.pick(&names(PIECE)));
    let conditions = conditions(dice, "", PIECE);
    match dice.below(6) {
        0 => format!("SELECT * FROM piece WHERE {conditions} AND {}", narrow(dice, "")),
        1 => format!("SELECT DISTINCT {} FROM piece WHERE {conditions}", few(dice, "", PIECE).join(", ")),
        2 => format!("SELECT id, 1000 / (tiny - {}) FROM piece WHERE {conditions}", dice.below(2000)),
        _ => format!("SELECT {} FROM piece WHERE {conditions}", shown.join(", ")),
    }
}

fn first_rows(dice: &mut Dice) -> Query {
    let by = dice.pick(&names(PIECE));
    let direction = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let limit = dice.pick(&["LIMIT 1", "LIMIT 10", "LIMIT 100 OFFSET 7", "LIMIT 3000"]);
    let conditions = conditions(dice, "", PIECE);
    Query {
        sql: format!("SELECT id, {by}, name FROM piece WHERE {conditions} ORDER BY {by}{direction}, id {limit}"),
        ordered: true,
    }
}

fn groups(dice: &mut Dice) -> String {
    let mut keys = few(dice, "", PIECE);
    if dice.chance(3) {
        keys = vec![
            dice.pick(&[
                "step",
                "word",
                "code",
                "day",
                "date_trunc('month', at)",
                "id / 1000",
                "token",
                "length(name)",
            ])
            .into(),
        ];
    }
    let aggregates = aggregates(dice, "", PIECE).join(", ");
    let conditions = conditions(dice, "", PIECE);
    match dice.below(6) {
        0 => format!("SELECT {aggregates} FROM piece WHERE {conditions}"),
        1 => {
            let keys = keys.join(", ");
            format!(
                "SELECT {keys}, {aggregates} FROM piece WHERE {conditions} GROUP BY {keys} HAVING count(*) > {}",
                dice.pick(&[1, 30, 500])
            )
        }
        2 => {
            let keys = few(dice, "", PIECE).join(", ");
            format!("SELECT {keys}, {aggregates} FROM piece WHERE {conditions} GROUP BY ROLLUP ({keys})")
        }
        _ => {
            let keys = keys.join(", ");
            format!("SELECT {keys}, {aggregates} FROM piece WHERE {conditions} GROUP BY {keys}")
        }
    }
}

fn joined(dice: &mut Dice) -> String {
    let kind = dice.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let (of_piece, of_event) = (conditions(dice, "p.", PIECE), conditions(dice, "e.", EVENT));
    let aggregates = [aggregates(dice, "p.", PIECE), aggregates(dice, "e.", EVENT)].concat().join(", ");
    match dice.below(5) {
        0 => {
            let shown = [dice.pick(&names(PIECE)), dice.pick(&names(PIECE))].map(|name| format!("p.{name}")).join(", ");
            format!("SELECT {shown}, e.* FROM piece p {kind} event e ON p.id = e.piece WHERE {of_piece} AND {of_event}")
        }
        1 => {
            let keys = few(dice, "p.", PIECE).join(", ");
            format!("SELECT {keys}, {aggregates} FROM piece p {kind} event e ON p.id = e.piece WHERE {of_piece} GROUP BY {keys}")
        }
        2 => format!(
            "SELECT s.grade, {aggregates} FROM piece p {kind} sort s USING (sort) LEFT JOIN event e ON e.piece = p.id AND {of_event}
             WHERE {of_piece} GROUP BY s.grade"
        ),
        3 => {
            let own = narrow(dice, "a.");
            format!("SELECT count(*), min(a.id), max(b.id) FROM piece a JOIN piece b ON a.step = b.step AND a.word = b.word WHERE {own}")
        }
        _ => {
            let keys = few(dice, "e.", EVENT).join(", ");
            format!("SELECT {keys}, {aggregates} FROM event e {kind} piece p ON p.id = e.piece AND {of_piece} WHERE {of_event} GROUP BY {keys}")
        }
    }
}

fn looked_up(dice: &mut Dice) -> String {
    let (of_piece, of_event) = (conditions(dice, "p.", PIECE), conditions(dice, "e.", EVENT));
    let aggregates = aggregates(dice, "p.", PIECE).join(", ");
    let not = dice.pick(&["", "NOT "]);
    let condition = match dice.below(6) {
        0 => format!("{not}EXISTS (SELECT FROM event e WHERE e.piece = p.id AND {of_event})"),
        1 => format!("p.id {not}IN (SELECT e.piece FROM event e WHERE {of_event})"),
        2 => format!("p.gone {not}IN (SELECT e.quantity FROM event e WHERE {of_event})"),
        3 => format!("p.price > (SELECT avg(e.amount) FROM event e WHERE e.piece = p.id AND {of_event})"),
        4 => format!("p.same < (SELECT count(*) FROM event e WHERE {of_event})"),
        _ => format!("p.sort {not}IN (SELECT s.sort FROM sort s WHERE {})", conditions(dice, "s.", SORT)),
    };
    format!("SELECT {aggregates} FROM piece p WHERE {of_piece} AND {condition}")
}

/// A query over subqueries in FROM, some of which have window functions.
fn computed(dice: &mut Dice) -> String {
    let (conditions, column) = (conditions(dice, "", PIECE), dice.pick(&names(PIECE)));
    match dice.below(4) {
        0 => format!(
            "SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY {} ORDER BY {column}, id) AS n, sum(hop) OVER (ORDER BY id ROWS 5 PRECEDING) AS s
             FROM piece WHERE {conditions}) w WHERE n <= 3",
            dice.pick(&["sort", "tiny", "code", "gone"])
        ),
        1 => format!(
            "SELECT tiny, max(n), sum(s) FROM (SELECT tiny, word, count(*) AS n, sum(price) AS s FROM piece WHERE {conditions} GROUP BY tiny, word) g GROUP BY tiny"
        ),
        2 => format!("SELECT DISTINCT ON (code) code, {column}, id FROM piece WHERE {conditions} ORDER BY code, {column}, id"),
        _ => format!(
            "WITH w AS (SELECT id, {column} AS c FROM piece WHERE {conditions})
             SELECT count(*), count(a.c), min(b.id) FROM w a JOIN w b ON a.id = b.id + 1"
        ),
    }
}

fn sets(dice: &mut Dice) -> String {
    let (one, other) = (conditions(dice, "", PIECE), conditions(dice, "", PIECE));
    let column = dice.pick(&["id", "step", "word", "sort", "price", "day", "name"]);
    let operation = dice.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"]);
    format!("SELECT {column} FROM piece WHERE {one} {operation} SELECT {column} FROM piece WHERE {other}")
}

fn names(columns: &[Column]) -> Vec<&'static str> {
    columns.iter().map(|column| column.name).collect()
}

/// Group keys with few distinct values.
fn few(dice: &mut Dice, of: &str, columns: &'static [Column]) -> Vec<String> {
    let few: Vec<&str> = columns.iter().filter(|column| column.few).map(|column| column.name).collect();
    let mut keys = dice.some(2, |dice| format!("{of}{}", dice.pick(&few)));
    keys.dedup();
    keys
}

fn aggregates(dice: &mut Dice, of: &str, columns: &'static [Column]) -> Vec<String> {
    let all: Vec<&Column> = columns.iter().collect();
    let mut aggregates = dice.some(3, |dice| {
        let column = dice.pick(&all);
        let name = format!("{of}{}", column.name);
        let functions: &[&str] = match column.kind {
            Kind::Integer | Kind::Decimal => &["sum", "avg", "min", "max", "count", "count(DISTINCT"],
            Kind::Bool => &["bool_and", "bool_or", "count"],
            Kind::Uuid | Kind::Bytes => &["count", "count(DISTINCT"],
            Kind::Float | Kind::Date | Kind::Timestamp | Kind::Text => &["min", "max", "count", "count(DISTINCT"],
        };
        match dice.pick(functions) {
            "count(DISTINCT" => format!("count(DISTINCT {name})"),
            function => format!("{function}({name})"),
        }
    });
    aggregates.push("count(*)".into());
    aggregates
}

/// One to three conditions.
fn conditions(dice: &mut Dice, of: &str, columns: &'static [Column]) -> String {
    let conditions = dice.some(3, |dice| match dice.below(5) {
        0 => format!("({} OR {})", condition(dice, of, columns), condition(dice, of, columns)),
        _ => condition(dice, of, columns),
    });
    conditions.join(" AND ")
}

/// A condition that selects a small part of table `piece`.
fn narrow(dice: &mut Dice, of: &str) -> String {
    let from = dice.below(60_000);
    format!("{of}id BETWEEN {from} AND {}", from + dice.pick(&[0, 20, 300]))
}

fn condition(dice: &mut Dice, of: &str, columns: &'static [Column]) -> String {
    let may_exclude = |column: &&Column| CLUSTERED.contains(&column.name);
    let some: Vec<&Column> = match dice.chance(2) && columns.iter().any(|column| may_exclude(&column)) {
        true => columns.iter().filter(may_exclude).collect(),
        false => columns.iter().collect(),
    };
    let column = dice.pick(&some);
    let name = format!("{of}{}", column.name);
    let value = |dice: &mut Dice| match dice.below(12) {
        0 if column.odd.iter().any(|odd| *odd != "NULL") => {
            let odd: Vec<&str> = column.odd.iter().copied().filter(|odd| *odd != "NULL").collect();
            format!("({}::{})", dice.pick(&odd), column.ty())
        }
        _ => format!("({})", (column.value)(dice)),
    };
    match (dice.below(10), column.kind) {
        (0, _) => format!("{name} IS {}NULL", dice.pick(&["", "NOT "])),
        (_, Kind::Bool) => format!("{}{name}", dice.pick(&["", "NOT "])),
        (1 | 2, _) => {
            let list: Vec<String> = match dice.chance(4) {
                true => (0..30).map(|_| value(dice)).collect(),
                false => dice.some(4, &value),
            };
            format!("{name} {}IN ({})", dice.pick(&["", "", "NOT "]), list.join(", "))
        }
        (3, Kind::Text) if dice.chance(2) => {
            let start = format!("left({}, {})", value(dice), dice.pick(&[0, 1, 8, 12, 17]));
            match dice.chance(2) {
                true => format!("{name} LIKE {start} || '{}'", dice.pick(&["%", "_%", "", "%0"])),
                false => format!("starts_with({name}, {start})"),
            }
        }
        (3, Kind::Text) => {
            format!("{name} LIKE '{}'", dice.pick(&["%1", "sort%", "word1%", "%a%b%", "c1_%", "late 2%", "label _/1"]))
        }
        (3, Kind::Integer) => format!("{name} {} {}::numeric + 0.5", dice.pick(&COMPARISONS), value(dice)),
        (3, Kind::Date) => format!("{name} {} {} + interval '36 hours'", dice.pick(&COMPARISONS), value(dice)),
        (4, _) => format!("{name} IS DISTINCT FROM {}", value(dice)),
        (5, Kind::Integer) => format!("{name} % 10 = {}", dice.below(10)),
        (5..8, _) => format!("{name} BETWEEN {} AND {}", value(dice), value(dice)),
        (8, _) => format!("{} {} {name}", value(dice), dice.pick(&COMPARISONS)),
        _ => format!("{name} {} {}", dice.pick(&COMPARISONS), value(dice)),
    }
}
