//! Clients and CREATE TABLE AS get a description of a result's columns: name, origin, type and type modifier. It must
//! be the same as with PostgreSQL's own plan.

use bench::wire::{Form, Message, Wire};
use bench::{Result, anker};

use crate::generated::dice::Dice;
use crate::runner::{Context, ensure, tests};

tests![columns_are_described_as_by_the_heap, a_table_is_made_with_the_modifiers_of_the_heap];

const LIVE: std::time::Duration = std::time::Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE t (id integer PRIMARY KEY, c char(4), v varchar(6), n numeric(7,2), s timestamp(3));
    CREATE TABLE u (id integer PRIMARY KEY, c char(4), v varchar(9), n numeric(7,1), s timestamp(3));
    CREATE VIEW seen AS SELECT id, CASE WHEN true THEN c END AS c, coalesce(v) AS v, n, s FROM t;
    INSERT INTO t SELECT i, 'c' || i, 'v' || i, i / 4.0, '2026-01-01' FROM generate_series(1, 20) i;
    INSERT INTO u SELECT i, 'd' || i, 'w' || i, i / 2.0, '2026-01-02' FROM generate_series(1, 20) i;
    ANALYZE";

const COLUMNS: [&str; 4] = ["c", "v", "n", "s"];

/// The types of [`COLUMNS`], with modifiers that differ from the tables' columns.
const OTHERS: [&str; 4] = ["char(7)", "varchar(3)", "numeric(5,1)", "timestamp(0)"];

fn columns_are_described_as_by_the_heap(context: &Context) -> Result<()> {
    let (cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    client.batch_execute("SET anker.route = prefer")?;
    let (mut heap, mut engine) = (Wire::connect(&cluster.config())?, Wire::connect(&cluster.config())?);
    heap.run("SET anker.route = off")?;
    engine.run("SET anker.route = prefer")?;
    let (mut differences, mut with_modifier, mut by_engine) = (Vec::new(), 0, 0);
    let count = context.queries.unwrap_or(context.size(2000, 800));
    for seed in (context.seed..).take(count as usize) {
        let sql = query(&mut Dice::seeded(seed));
        let expected = Column::all_of(&heap.describe(&sql)?).map_err(|e| format!("seed {seed}: {sql}: {e}"))?;
        with_modifier += u32::from(expected.iter().any(|column| column.modifier != -1));
        // Tests both a plain query and a cursor. A cursor's heap plan is made at once, a plain query's heap plan only
        // when the heap must answer.
        for found in [engine.describe(&sql)?, fetched(&mut engine, &sql)?] {
            let found = Column::all_of(&found)?;
            if found != expected {
                differences.push(format!("seed {seed}: {found:?}, on the heap {expected:?}: {sql}"));
            }
        }
        by_engine += u32::from(anker::explained(&mut client, &sql)?.is_some_and(|who| who == "engine"));
    }
    ensure!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    ensure!(with_modifier * 3 >= count, "only {with_modifier} of {count} have a column with a modifier");
    ensure!(by_engine * 3 >= count * 2, "only {by_engine} of {count} are for the engine");
    Ok(())
}

fn a_table_is_made_with_the_modifiers_of_the_heap(context: &Context) -> Result<()> {
    let (_cluster, mut client) = context.anker()?;
    client.batch_execute(TABLES)?;
    anker::mirror(&mut client, &["t", "u"], LIVE)?;
    for (at, (value, rest)) in [
        ("CASE WHEN true THEN c END", ""),
        ("CASE WHEN true THEN c END", "GROUP BY 1"),
        ("CASE WHEN id > 0 THEN CASE WHEN false THEN NULL ELSE c END ELSE c END", ""),
        ("coalesce(NULL, v)", ""),
        ("coalesce(NULL, v)", "GROUP BY coalesce(NULL, v)"),
        ("greatest(coalesce(NULL, n), CASE WHEN true THEN n END)", ""),
        ("(SELECT CASE WHEN true THEN n END FROM u WHERE u.id = t.id)", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let query = format!("SELECT {value} AS a FROM t {rest}");
        let mut made = |route: &str| -> Result<Vec<String>> {
            client.batch_execute(&format!("SET anker.route = {route}; CREATE TABLE {route}_{at} AS {query}"))?;
            let ty = format!(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{route}_{at}'::regclass AND attnum = 1"
            );
            anker::text_rows(&mut client, &ty)
        };
        let (heap, engine) = (made("off")?, made("prefer")?);
        ensure!(heap == engine, "{query}: {engine:?}, on the heap {heap:?}");
        let who = anker::explained(&mut client, &query)?;
        ensure!(who.as_deref() == Some("engine"), "{query}: not for the engine: {who:?}");
    }
    Ok(())
}

/// Declares a cursor for the query, and returns the description of its rows.
fn fetched(wire: &mut Wire, sql: &str) -> Result<Message> {
    let statements = format!("BEGIN; DECLARE rows CURSOR FOR {sql}; FETCH 0 FROM rows; ROLLBACK");
    let answer = wire.ask(&statements, Form::Simple)?;
    let told = answer.into_iter().find(|message| matches!(message.kind, b'T' | b'E'));
    told.ok_or_else(|| "the server has described nothing".into())
}

/// A field of a row's description.
#[derive(Debug, PartialEq, Eq)]
struct Column {
    name: String,
    /// The table that the column comes from, and the column's number there.
    origin: (i32, i16),
    ty: i32,
    modifier: i32,
}

impl Column {
    fn all_of(message: &Message) -> Result<Vec<Column>> {
        if message.kind != b'T' {
            return Err(String::from_utf8_lossy(&message.content).into_owned().into());
        }
        let mut rest = message.content.get(2..).unwrap_or_default();
        let mut columns = Vec::new();
        while let Some(end) = rest.iter().position(|&byte| byte == 0) {
            let field = rest.get(end + 1..end + 19).ok_or("a description that is cut")?;
            let wide = |at: usize| i32::from_be_bytes([field[at], field[at + 1], field[at + 2], field[at + 3]]);
            let origin = (wide(0), i16::from_be_bytes([field[4], field[5]]));
            let name = String::from_utf8_lossy(&rest[..end]).into_owned();
            columns.push(Column { name, origin, ty: wide(6), modifier: wide(12) });
            rest = &rest[end + 19..];
        }
        Ok(columns)
    }
}

fn query(dice: &mut Dice) -> String {
    let column = dice.below(4) as usize;
    let depth = 1 + dice.below(2);
    let value = expression(dice, column, depth);
    let body = match dice.below(8) {
        0 => format!("SELECT DISTINCT {value} AS a FROM {}", source(dice, column, depth)),
        1 => format!("SELECT {value} AS a, count(*) FROM {} GROUP BY 1", source(dice, column, depth)),
        2 => format!("SELECT r.id, lag({value}) OVER (ORDER BY r.id) AS a FROM {}", source(dice, column, depth)),
        3 => union(dice, column, depth),
        _ => format!("SELECT r.id, {value} AS a FROM {}", source(dice, column, depth)),
    };
    if dice.chance(3) { format!("{body} ORDER BY 1 LIMIT 5") } else { body }
}

/// A SELECT that returns `id` and the columns of the tables, but an expression instead of one of the columns.
fn rows(dice: &mut Dice, column: usize, depth: u32) -> String {
    let value = expression(dice, column, depth);
    let columns = COLUMNS.map(|name| match name == COLUMNS[column] {
        true => format!("{value} AS {name}"),
        false => format!("r.{name}"),
    });
    format!("SELECT r.id, {} FROM {}", columns.join(", "), source(dice, column, depth))
}

fn union(dice: &mut Dice, column: usize, depth: u32) -> String {
    let operator = dice.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT ALL"]);
    format!("{} {operator} {}", rows(dice, column, depth), rows(dice, column, depth))
}

/// A random item of FROM with the alias `r`.
fn source(dice: &mut Dice, column: usize, depth: u32) -> String {
    if depth == 0 {
        return dice.pick(&["t r", "u r", "seen r"]).into();
    }
    match dice.below(10) {
        0 => format!("({}) r", rows(dice, column, depth - 1)),
        1 => format!("({} OFFSET 0) r", rows(dice, column, depth - 1)),
        2 => format!("({}) r", union(dice, column, depth - 1)),
        3 => format!("t LEFT JOIN ({}) r USING (id)", rows(dice, column, depth - 1)),
        4 => "(SELECT id, c, t.v, u.n, t.s FROM t FULL JOIN u USING (id, c)) r".into(),
        5 => {
            let materialized = dice.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]);
            format!("(WITH w AS {materialized}({}) SELECT * FROM w) r", rows(dice, column, depth - 1))
        }
        _ => source(dice, column, 0),
    }
}

/// An expression of the type of a column.
fn expression(dice: &mut Dice, column: usize, depth: u32) -> String {
    let name = COLUMNS[column];
    if depth == 0 || dice.chance(3) {
        return dice.pick(&[format!("r.{name}"), format!("r.{name}"), format!("NULL::{}", OTHERS[column])]);
    }
    let mut part = || expression(dice, column, depth - 1);
    let (a, b) = (part(), part());
    let condition = dice.pick(&["true", "true", "false", "r.id > 5"]);
    match dice.below(7) {
        0 => format!("CASE WHEN {condition} THEN {a} ELSE {b} END"),
        1 => format!("CASE WHEN {condition} THEN {a} END"),
        2 => format!("coalesce({a}, {b})"),
        3 => format!("nullif({a}, {b})"),
        4 => format!("greatest({a}, {b})"),
        5 => format!("({a})::{}", OTHERS[column]),
        _ => format!("(SELECT {} FROM u q WHERE q.id = r.id)", a.replace("r.", "q.")),
    }
}
