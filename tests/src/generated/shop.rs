//! A small schema similar to TPC-H's, and joins of its tables. It has foreign keys, composite keys, nullable columns,
//! partitions, and a table that is not mirrored.

use super::dice::Dice;
use super::expressions::Kind::{Bool, Date, Document, Enum, Integer, Interval, Numeric, Text, Uuid};
use super::expressions::{Column, Kind, Scope};
use super::select::From;
use super::subqueries;

/// The mirrored tables. The table `region` is not mirrored, so PostgreSQL has to send its rows along.
pub const TABLES: [&str; 7] = ["nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

pub const SCHEMA: &str = "
    CREATE TABLE region (r_key integer PRIMARY KEY, r_name text);
    CREATE TABLE nation (n_key integer PRIMARY KEY, n_name varchar(25), n_region integer NOT NULL REFERENCES region);
    CREATE TABLE supplier (
        s_key integer PRIMARY KEY, s_name char(8), s_nation integer REFERENCES nation, s_balance numeric);
    CREATE TABLE customer (
        c_key integer PRIMARY KEY, c_nation integer REFERENCES nation, c_segment char(10) NOT NULL,
        c_balance numeric(12,2), c_since date, c_active boolean, c_token uuid, c_mood mood);
    CREATE TABLE part (
        p_key integer PRIMARY KEY, p_brand char(10), p_type text NOT NULL, p_size smallint, p_price numeric(12,2) NOT NULL,
        p_doc jsonb);
    CREATE TABLE partsupp (
        ps_part integer REFERENCES part, ps_supp integer REFERENCES supplier, ps_qty integer, ps_cost numeric(12,2),
        PRIMARY KEY (ps_part, ps_supp)) PARTITION BY RANGE (ps_part);
    CREATE TABLE partsupp_low PARTITION OF partsupp FOR VALUES FROM (MINVALUE) TO (17);
    CREATE TABLE partsupp_high (
        ps_cost numeric(12,2), gone text, ps_qty integer, ps_supp integer NOT NULL, ps_part integer NOT NULL);
    ALTER TABLE partsupp_high DROP COLUMN gone;
    ALTER TABLE partsupp ATTACH PARTITION partsupp_high FOR VALUES FROM (17) TO (MAXVALUE);
    CREATE TABLE orders (
        o_key bigint PRIMARY KEY, o_customer integer REFERENCES customer, o_status char(1), o_total numeric,
        o_date date NOT NULL, o_priority smallint, o_clerk text, o_token uuid, o_mood mood,
        o_lead interval);
    CREATE TABLE lineitem (
        l_order bigint REFERENCES orders, l_line integer, l_part integer NOT NULL, l_supp integer NOT NULL,
        l_qty numeric(8,2) NOT NULL, l_price numeric(12,2), l_discount numeric(4,2), l_flag char(1), l_late boolean,
        l_ship date, l_commit date, l_mode text, PRIMARY KEY (l_order, l_line),
        FOREIGN KEY (l_part, l_supp) REFERENCES partsupp);

    INSERT INTO region SELECT i, CASE WHEN i < 4 THEN chr(97 + i) || i END FROM generate_series(0, 4) i;
    INSERT INTO nation SELECT i, 'n' || i % 11, i % 5 FROM generate_series(0, 24) i;
    INSERT INTO supplier SELECT i, 's' || i % 6, nullif(i * 7 % 26, 25), nullif(i * 311 % 97, 13) - 20.50
        FROM generate_series(1, 20) i;
    INSERT INTO customer SELECT i, nullif(i * 11 % 26, 25), 'a' || i % 4, (i * 137 % 211 - 60) / 4.0,
        date '2022-12-20' + nullif(i * 5 % 61, 7), nullif(i % 3, 2) = 1, md5(nullif(i % 40, 9)::text)::uuid,
        (ARRAY['calm', 'wild', NULL])[i % 3 + 1]::mood FROM generate_series(1, 60) i;
    INSERT INTO part SELECT i, 'b' || i % 5, chr(97 + i % 6) || i % 4, nullif(i % 12, 11), 1 + i % 17 * 2.25,
        CASE WHEN i % 7 > 0 THEN jsonb_build_object('a', i % 5, 'b', repeat('x', i % 3 * 2000)) END
        FROM generate_series(1, 50) i;
    INSERT INTO partsupp SELECT p, (p * 3 + s * 7) % 20 + 1, nullif((p + s) * 13 % 40, 0), (p * s + 5) % 31 + 0.75
        FROM generate_series(1, 50) p, generate_series(0, 2) s;
    INSERT INTO orders SELECT i * 3, nullif(i * 17 % 61, 0), (ARRAY['F', 'O', 'P'])[i % 3 + 1], nullif(i * 331 % 977, 5) * 1.5,
        date '2023-01-01' + i * 3 % 250, nullif(i % 6, 5), nullif('a' || i % 9, 'a4'),
        md5(nullif(i % 50, 3)::text)::uuid, (ARRAY['calm', 'wild', 'odd', NULL])[i % 4 + 1]::mood,
        nullif(i * 7 % 13, 4) * interval '1 day' FROM generate_series(1, 180) i;
    INSERT INTO lineitem SELECT o_key, l, ps_part, ps_supp, (o_key * l) % 50 + 1, nullif((o_key + l * 7) % 300, 3) * 1.25,
        nullif((o_key + l) % 11, 10) / 100.0, (ARRAY['A', 'N', 'R'])[(o_key / 3 + l) % 3 + 1], nullif((o_key / 3 + l) % 5, 4) > 2,
        o_date + (l * 11 % 40), CASE WHEN l < 4 THEN o_date + (o_key * l % 45)::integer END, (ARRAY['a1', 'b2', 'c3', NULL])[l]
        FROM orders, generate_series(1, 4) l,
            LATERAL (SELECT ps_part, ps_supp FROM partsupp WHERE ps_part = (o_key * 7 + l * 5) % 50 + 1
                ORDER BY ps_supp LIMIT 1 OFFSET (o_key + l) % 3) s
        WHERE (o_key / 3 + l) % 4 > 0;";

/// Statements that change and delete rows, and move rows between partitions, after the mirror was built.
pub const CHANGES: &str = "
    UPDATE lineitem SET l_price = l_price + 1, l_mode = 'b2' WHERE l_order % 7 = 0;
    DELETE FROM lineitem WHERE l_order % 31 = 2;
    UPDATE orders SET o_total = NULL, o_date = o_date + 1 WHERE o_key % 10 = 4;
    UPDATE customer SET c_active = NOT c_active WHERE c_key % 8 = 1;
    UPDATE supplier SET s_nation = 3 WHERE s_key = 9;
    INSERT INTO orders VALUES (9000, NULL, NULL, NULL, '2023-02-28', NULL, NULL), (9001, 7, 'O', -1, '2023-02-28', 1, 'a1');
    UPDATE orders SET o_token = md5('1')::uuid, o_mood = 'odd' WHERE o_key % 20 = 4;
    UPDATE part SET p_doc = '{\"a\": 1}' WHERE p_key % 9 = 4; UPDATE part SET p_size = p_size + 1 WHERE p_key % 2 = 0";

struct Table {
    name: &'static str,
    key: &'static [&'static str],
    columns: &'static [(&'static str, Kind, &'static [&'static str])],
}

const NATIONS: &[&str] = &["3", "7", "24", "0"];
const PARTS: &[&str] = &["1", "17", "50"];
const MONEY: &[&str] = &["0", "10.5", "100", "-5.25", "250"];
const DATES: &[&str] = &["date '2023-01-01'", "date '2023-03-15'", "date '2023-07-04'", "date '2023-08-30'"];
const CODES: &[&str] = &["'a1'", "'b2'", "'c3'", "'a0'", "''"];
const SIZES: &[&str] = &["1", "2", "5", "11"];
const TRUTHS: &[&str] = &["true", "false"];
const TOKENS: &[&str] = &["md5('1')::uuid", "'c81e728d-9d4c-2f63-6f06-7f89cc14862c'", "md5('40')::uuid"];
const LEADS: &[&str] = &["interval '0'", "interval '3 days'", "interval '12 days'", "interval '-1 day'"];
const MOODS: &[&str] = &["'calm'::mood", "'odd'::mood"];

const SHOP: [Table; 8] = [
    Table { name: "region", key: &["r_key"], columns: &[("r_key", Integer, SIZES), ("r_name", Text, CODES)] },
    Table {
        name: "nation",
        key: &["n_key"],
        columns: &[("n_key", Integer, NATIONS), ("n_name", Text, &["'n1'", "'n7'"]), ("n_region", Integer, SIZES)],
    },
    Table {
        name: "supplier",
        key: &["s_key"],
        columns: &[
            ("s_key", Integer, SIZES),
            ("s_name", Text, &["'s1'", "'s5'"]),
            ("s_nation", Integer, NATIONS),
            ("s_balance", Numeric, MONEY),
        ],
    },
    Table {
        name: "customer",
        key: &["c_key"],
        columns: &[
            ("c_key", Integer, PARTS),
            ("c_nation", Integer, NATIONS),
            ("c_segment", Text, CODES),
            ("c_balance", Numeric, MONEY),
            ("c_since", Date, DATES),
            ("c_active", Bool, TRUTHS),
            ("c_token", Uuid, TOKENS),
            ("c_mood", Enum, MOODS),
        ],
    },
    Table {
        name: "part",
        key: &["p_key"],
        columns: &[
            ("p_key", Integer, PARTS),
            ("p_brand", Text, &["'b1'", "'b2'"]),
            ("p_type", Text, CODES),
            ("p_size", Integer, SIZES),
            ("p_price", Numeric, MONEY),
            ("p_doc", Document, &["NULL"]),
        ],
    },
    Table {
        name: "partsupp",
        key: &["ps_part", "ps_supp"],
        columns: &[
            ("ps_part", Integer, PARTS),
            ("ps_supp", Integer, SIZES),
            ("ps_qty", Integer, SIZES),
            ("ps_cost", Numeric, MONEY),
        ],
    },
    Table {
        name: "orders",
        key: &["o_key"],
        columns: &[
            ("o_key", Integer, &["3", "210", "540"]),
            ("o_customer", Integer, PARTS),
            ("o_status", Text, &["'F'", "'O'"]),
            ("o_total", Numeric, MONEY),
            ("o_date", Date, DATES),
            ("o_priority", Integer, SIZES),
            ("o_clerk", Text, CODES),
            ("o_token", Uuid, TOKENS),
            ("o_lead", Interval, LEADS),
            ("o_mood", Enum, MOODS),
        ],
    },
    Table {
        name: "lineitem",
        key: &["l_order", "l_line"],
        columns: &[
            ("l_order", Integer, &["3", "210", "540"]),
            ("l_line", Integer, SIZES),
            ("l_part", Integer, PARTS),
            ("l_supp", Integer, SIZES),
            ("l_qty", Numeric, MONEY),
            ("l_price", Numeric, MONEY),
            ("l_discount", Numeric, &["0.05", "0", "0.09"]),
            ("l_flag", Text, &["'A'", "'N'"]),
            ("l_late", Bool, TRUTHS),
            ("l_ship", Date, DATES),
            ("l_commit", Date, DATES),
            ("l_mode", Text, CODES),
        ],
    },
];

/// A possible join: two tables, and the pairs of columns that must be equal.
type Edge = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const EDGES: [Edge; 19] = [
    ("lineitem", "orders", &[("l_order", "o_key")]),
    ("orders", "customer", &[("o_customer", "c_key")]),
    ("customer", "nation", &[("c_nation", "n_key")]),
    ("supplier", "nation", &[("s_nation", "n_key")]),
    ("nation", "region", &[("n_region", "r_key")]),
    ("lineitem", "partsupp", &[("l_part", "ps_part"), ("l_supp", "ps_supp")]),
    ("lineitem", "part", &[("l_part", "p_key")]),
    ("lineitem", "supplier", &[("l_supp", "s_key")]),
    ("partsupp", "part", &[("ps_part", "p_key")]),
    ("partsupp", "supplier", &[("ps_supp", "s_key")]),
    // Joins that follow no foreign key: with other types, with repeated values, and with NULLs on both sides.
    ("customer", "supplier", &[("c_nation", "s_nation")]),
    ("orders", "customer", &[("o_date", "c_since")]),
    ("orders", "customer", &[("o_token", "c_token")]),
    ("orders", "customer", &[("o_mood", "c_mood"), ("o_customer", "c_key")]),
    ("orders", "lineitem", &[("o_key", "l_order"), ("o_date", "l_ship")]),
    ("partsupp", "lineitem", &[("ps_qty", "l_qty"), ("ps_part", "l_part")]),
    ("part", "customer", &[("p_type", "c_segment"), ("p_key", "c_key")]),
    ("lineitem", "lineitem", &[("l_order", "l_order"), ("l_line", "l_line")]),
    ("nation", "nation", &[("n_region", "n_region")]),
];

/// SQL that creates two functions for each table. One returns the rows with a smaller key, the other the rows with this
/// key.
pub fn functions() -> String {
    let functions = SHOP.iter().map(|Table { name, key, .. }| {
        format!(
            "CREATE FUNCTION {name}_before(last integer DEFAULT 20) RETURNS SETOF {name} LANGUAGE sql STABLE AS
                 'SELECT * FROM {name} WHERE last IS NULL OR {key} < last';
             CREATE FUNCTION {name}_of(this bigint) RETURNS SETOF {name} LANGUAGE sql STABLE AS
                 'SELECT * FROM {name} WHERE {key} = this';",
            key = key[0]
        )
    });
    functions.collect()
}

/// An item of FROM.
struct Item {
    table: &'static Table,
    alias: String,
    sql: String,
    /// The WITH query that the item refers to, if any.
    with: Option<String>,
    /// Conditions that join the item with the items before it.
    on: Vec<String>,
    /// Whether the item is a subquery. If so, grouping by its primary key does not determine its other columns.
    is_subquery: bool,
}

/// A FROM clause with one to six tables, each of which is joined with one before it.
pub fn from(dice: &mut Dice) -> From {
    let first = first_table(dice);
    let mut items = vec![item(dice, first, 0)];
    let wanted = dice.pick(&[1, 2, 2, 3, 3, 4, 5, 6]);
    while items.len() < wanted {
        let near = dice.below(items.len() as u32) as usize;
        let (table, pairs) = neighbour(dice, items[near].table.name);
        let mut new = item(dice, table, items.len());
        new.on = pairs.iter().map(|(a, b)| format!("{}.{a} = {}.{b}", items[near].alias, new.alias)).collect();
        // Adds a second condition: an equality with another item, or a comparison that is no equality.
        if dice.chance(6) {
            let other = &items[dice.below(items.len() as u32) as usize];
            new.on.extend(second_condition(dice, other, &new));
        }
        items.push(new);
    }
    let mut from = join(dice, items);
    if wanted < 4 && dice.chance(10) {
        let (sql, columns) = subqueries::lateral(dice, &from.scope);
        from.sql += &sql;
        from.scope.columns.extend(columns);
    }
    if dice.chance(9) {
        let (sql, columns) = listed(dice, &from.scope);
        from.sql += &sql;
        from.scope.columns.extend(columns);
    }
    from
}

/// An item of FROM without a table (a list of rows), joined with a column of the items before it.
fn listed(dice: &mut Dice, scope: &Scope) -> (String, Vec<Column>) {
    let key = scope.column_of(dice, Integer).map_or("1".into(), |column| column.name);
    let join = dice.pick(&["JOIN", "LEFT JOIN"]);
    let number = Column { name: "li.n".into(), kind: Integer, literals: SIZES };
    if dice.chance(2) {
        let last = dice.pick(&["4", "1", "-1"]);
        return (format!(" {join} generate_series(0, {last}) AS li(n) ON li.n = {key} % 7"), vec![number]);
    }
    let code = Column { name: "li.c".into(), kind: Text, literals: CODES };
    let values = "(VALUES (1, 'a1'), (2, 'b2'), (3, NULL), (2, 'a1'), (NULL, 'c3'))";
    (format!(" {join} {values} AS li(n, c) ON li.n = {key} % 7"), vec![number, code])
}

/// The first table of a FROM clause. Large tables are chosen more often.
fn first_table(dice: &mut Dice) -> &'static Table {
    let at = dice.pick(&[7, 7, 7, 6, 6, 5, 4, 3, 3, 2, 1, 0]);
    table(SHOP[at].name)
}

fn table(name: &str) -> &'static Table {
    static ALL: [Table; 8] = SHOP;
    ALL.iter().find(|table| table.name == name).expect("a table of the shop")
}

fn neighbour(dice: &mut Dice, name: &str) -> (&'static Table, Vec<(&'static str, &'static str)>) {
    let mut ways = Vec::new();
    for (left, right, pairs) in EDGES {
        if left == name {
            ways.push((right, pairs.to_vec()));
        }
        if right == name {
            ways.push((left, pairs.iter().map(|&(a, b)| (b, a)).collect()));
        }
    }
    let (name, pairs) = dice.pick(&ways);
    (table(name), pairs)
}

fn second_condition(dice: &mut Dice, left: &Item, right: &Item) -> Option<String> {
    let column = |dice: &mut Dice, item: &Item, kind: Kind| {
        let of_kind: Vec<_> = item.table.columns.iter().filter(|column| column.1 == kind).collect();
        (!of_kind.is_empty()).then(|| format!("{}.{}", item.alias, dice.pick(&of_kind).0))
    };
    let kind = dice.pick(&[Integer, Numeric, Date]);
    let comparison = dice.pick(&["<", "<=", "<>", "="]);
    Some(format!("{} {comparison} {}", column(dice, left, kind)?, column(dice, right, kind)?))
}

/// An item of FROM that reads a table: the table itself, or a plain subquery or view, some columns of which are
/// computed.
fn item(dice: &mut Dice, table: &'static Table, number: usize) -> Item {
    let alias = format!("t{number}");
    let is_subquery = dice.below(9) < 2;
    let mut with = None;
    let sql = if is_subquery && dice.chance(4) {
        let how = dice.pick(&["AS", "AS", "AS MATERIALIZED", "AS NOT MATERIALIZED"]);
        with = Some(format!("w{number} {how} ({})", summed_up(dice, table)));
        format!("w{number} AS {alias}")
    } else if is_subquery && dice.chance(8) {
        format!("{}_before({}) AS {alias}", table.name, dice.pick(&["7", "40", "500", "NULL", ""]))
    } else if is_subquery && dice.chance(2) {
        format!("({}) AS {alias}", summed_up(dice, table))
    } else if is_subquery {
        let columns: Vec<String> =
            table.columns.iter().map(|column| shown_otherwise(dice, column.0, column.1)).collect();
        let filter = match dice.below(2) {
            0 => String::new(),
            _ => format!(" WHERE {}", scope(table, table.name).simple_condition(dice)),
        };
        format!("(SELECT {} FROM {}{filter}) AS {alias}", columns.join(", "), table.name)
    } else {
        format!("{} AS {alias}", table.name)
    };
    Item { table, alias, sql, with, on: Vec::new(), is_subquery }
}

/// A subquery with the table's columns that groups, orders, limits or combines rows.
fn summed_up(dice: &mut Dice, table: &'static Table) -> String {
    let own = scope(table, table.name);
    let all: Vec<&str> = table.columns.iter().map(|column| column.0).collect();
    let filter = if dice.chance(2) { format!(" WHERE {}", own.condition(dice, 1)) } else { String::new() };
    if dice.chance(4) {
        let other = scope(table, table.name).condition(dice, 1);
        let operations =
            ["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "EXCEPT ALL"];
        let operation = dice.pick(&operations);
        let rows = format!("SELECT {} FROM {}", all.join(", "), table.name);
        return format!("{rows}{filter} {operation} {rows} WHERE {other}");
    }
    if dice.chance(3) {
        return first(dice, table, &all.join(", "), &filter);
    }
    if dice.chance(2) {
        return windowed(dice, table, &filter);
    }
    if dice.chance(3) {
        return format!("SELECT DISTINCT {} FROM {}{filter}", all.join(", "), table.name);
    }
    // Columns of these kinds become group keys instead of being aggregated. Texts and enums have an order of their own,
    // other kinds have no min and max, and equal intervals may be shown differently.
    let (mut keys, mut items) = (Vec::new(), Vec::new());
    for &(name, kind, _) in table.columns {
        let is_key = table.key.contains(&name) || matches!(kind, Text | Bool | Uuid | Enum | Document | Interval);
        if is_key {
            keys.push(name);
        }
        items.push(match kind {
            _ if is_key => name.to_string(),
            Numeric => format!("{}({name}) AS {name}", dice.pick(&["max", "min", "sum"])),
            _ => format!("{}({name}) AS {name}", dice.pick(&["max", "min"])),
        });
    }
    let having = dice.pick(&["", "", " HAVING count(*) > 1", " HAVING count(*) < 4"]);
    format!("SELECT {} FROM {}{filter} GROUP BY {}{having}", items.join(", "), table.name, keys.join(", "))
}

/// Columns that the engine can order.
fn ordered(table: &'static Table) -> Vec<&'static str> {
    table.columns.iter().filter(|column| column.1.is_ordered()).map(|column| column.0).collect()
}

/// Columns that the engine can group.
fn grouped(table: &'static Table) -> Vec<&'static str> {
    table.columns.iter().filter(|column| column.1 != Document).map(|column| column.0).collect()
}

/// The first rows of a table. The last sort key is the primary key, so the order is complete.
fn first(dice: &mut Dice, table: &'static Table, columns: &str, filter: &str) -> String {
    let ordered = ordered(table);
    let direction = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let first = format!("{}{direction}", dice.pick(&ordered));
    let range =
        dice.pick(&["LIMIT 1", "LIMIT 9", "LIMIT 40 OFFSET 5", "OFFSET 10", "LIMIT 0", "LIMIT 1000", "LIMIT NULL"]);
    let rows = format!("SELECT {columns} FROM {}{filter} ORDER BY {first}", table.name);
    if dice.chance(4) {
        return format!("{rows} FETCH FIRST 5 ROWS WITH TIES");
    }
    format!("{rows}, {} {range}", table.key.join(", "))
}

/// A subquery that returns the rows of a table, but results of window functions instead of some number columns.
fn windowed(dice: &mut Dice, table: &'static Table, filter: &str) -> String {
    let by = dice.pick(&ordered(table));
    let key = table.key.join(", ");
    let part = match dice.below(3) {
        0 => String::new(),
        _ => format!("PARTITION BY {}", dice.pick(&grouped(table))),
    };
    let direction = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let values = table.columns.iter().find(|column| column.0 == by).and_then(|column| range_of(dice, column.1));
    let mut items = Vec::new();
    for &(name, kind, _) in table.columns {
        let frame = dice.pick(&[
            "",
            "ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
            "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE TIES",
            "GROUPS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING EXCLUDE GROUP",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
        ]);
        let own = table.key.contains(&name) || !dice.chance(2);
        items.push(match kind {
            // An aggregate over a RANGE frame. The frame contains the same values whatever the order of equal rows is.
            Integer | Numeric if !own && values.is_some() && dice.chance(2) => {
                let function = dice.pick(&["min", "max", "sum"]);
                let range = values.as_deref().unwrap_or_default();
                format!("{function}({name}) OVER ({part} ORDER BY {by}{direction} {range}) AS {name}")
            }
            // Window functions whose results do not depend on the order of equal rows.
            Integer if !own && dice.chance(3) => {
                let rank = dice.pick(&["rank()", "dense_rank()", "count(*)"]);
                format!("{rank} OVER ({part} ORDER BY {by}{direction}) AS {name}")
            }
            Numeric if !own && dice.chance(3) => {
                let function = dice.pick(&["sum", "avg", "stddev", "var_pop"]);
                format!("{function}({name}) OVER ({part} ORDER BY {by}{direction}, {key} {frame}) AS {name}")
            }
            Integer | Numeric if !own => {
                let number =
                    dice.pick(&table.columns.iter().filter(|c| c.1 == Integer).map(|c| c.0).collect::<Vec<_>>());
                let call = dice.pick(&[
                    "min({})",
                    "max({})",
                    "lag({})",
                    "lead({})",
                    "lag({}, ({n} % 3)::integer)",
                    "lead({}, ({n} % 5)::integer, {})",
                    "lag({}, 2, 0)",
                    "nth_value({}, 1 + abs({n} % 3)::integer)",
                    "first_value({})",
                    "lead({}, 1, {})",
                    "nth_value({}, 2)",
                    "last_value({})",
                ]);
                let call = call.replace("{n}", number).replace("{}", name);
                format!("{call} OVER ({part} ORDER BY {by}{direction}, {key} {frame}) AS {name}")
            }
            _ => name.to_string(),
        });
    }
    format!("SELECT {} FROM {}{filter}", items.join(", "), table.name)
}

/// A RANGE frame with offsets for values of this kind; `None` if the kind has no offsets.
fn range_of(dice: &mut Dice, kind: Kind) -> Option<String> {
    let offsets = match kind {
        Integer => ["0", "1", "3", "100"],
        Numeric => ["0", "0.25", "7.5", "100"],
        Date => ["interval '0'", "interval '1 day'", "interval '1 month -1 day'", "interval '36 hours'"],
        _ => return None,
    };
    let (from, to) = (dice.pick(&offsets), dice.pick(&offsets));
    let bounds = dice.pick(&[
        "({from}) PRECEDING AND ({to}) FOLLOWING",
        "({from}) PRECEDING AND ({to}) PRECEDING",
        "({from}) FOLLOWING AND ({to}) FOLLOWING",
        "CURRENT ROW AND ({to}) FOLLOWING",
        "({from}) PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
    ]);
    Some(format!("RANGE BETWEEN {}", bounds.replace("{from}", from).replace("{to}", to)))
}

/// A call of a function that returns rows of a table, and these columns with the alias.
pub fn rows_of(dice: &mut Dice, key: &str, alias: &str) -> (String, Vec<Column>) {
    let table = first_table(dice);
    (format!("{}_of({key})", table.name), scope(table, alias).columns)
}

/// A table for a subquery, and the table's columns with the alias.
pub fn inner_table(dice: &mut Dice, alias: &str) -> (&'static str, Scope) {
    let table = first_table(dice);
    (table.name, scope(table, alias))
}

fn shown_otherwise(dice: &mut Dice, name: &str, kind: Kind) -> String {
    let otherwise = match kind {
        _ if !dice.chance(4) => return name.into(),
        Integer => dice.pick(&["{} + 0", "- {}", "{} % 5"]),
        Numeric => dice.pick(&["{} * 2", "- {}"]),
        Bool => dice.pick(&["NOT {}", "{} = false", "{} IS TRUE"]),
        Date => "{} + 1",
        Interval => "- {}",
        Text | Uuid | Enum | Document => return name.into(),
    };
    format!("{} AS {name}", otherwise.replace("{}", name))
}

fn scope(table: &Table, alias: &str) -> Scope {
    let columns =
        table.columns.iter().map(|&(name, kind, literals)| Column { name: format!("{alias}.{name}"), kind, literals });
    Scope { columns: columns.collect(), extreme: false }
}

/// Joins the items in one of three forms: a list with the conditions in WHERE, JOIN … ON, or a JOIN in parentheses with
/// an alias.
fn join(dice: &mut Dice, items: Vec<Item>) -> From {
    let style = dice.below(4);
    let names: Vec<&str> = items.iter().map(|item| item.table.name).collect();
    let unique = names.iter().all(|name| names.iter().filter(|other| other == &name).count() == 1);
    let renamed = style == 3 && unique && items.len() > 1;
    let (mut sql, mut conditions, mut before) = (String::new(), Vec::new(), Vec::new());
    let with = items.iter().filter_map(|item| item.with.clone()).collect();
    for item in &items {
        match (sql.is_empty(), style) {
            (true, _) => sql = item.sql.clone(),
            (false, 0) => {
                sql += &format!(", {}", item.sql);
                conditions.extend(item.on.clone());
            }
            _ => {
                let kind = dice.pick(&["", "", "", "LEFT ", "LEFT ", "RIGHT ", "FULL "]);
                // PostgreSQL supports a full join only on conditions that can be hashed.
                let equal = item.on.iter().all(|condition| condition.contains(" = "));
                let kind = if kind == "FULL " && !equal { "LEFT " } else { kind };
                let mut on = item.on.join(" AND ");
                if dice.chance(10) {
                    let around = Scope { columns: before.clone(), extreme: false };
                    let own = scope(item.table, &item.alias);
                    let asked = if dice.chance(2) { around } else { own };
                    on = format!("(true AND {}) AND {on}", subqueries::condition(dice, &asked));
                }
                sql += &format!(" {kind}JOIN {} ON {on}", item.sql);
            }
        }
        before.extend(scope(item.table, &item.alias).columns);
    }
    let mut from = From { sql, conditions, with, scope: Scope::default(), keyed: Vec::new() };
    if renamed {
        from.sql = format!("({}) AS j", from.sql);
    }
    for item in &items {
        let alias = if renamed { "j" } else { &item.alias };
        let scope = scope(item.table, alias);
        if !item.is_subquery {
            let key = item.table.key.iter().map(|column| format!("{alias}.{column}")).collect();
            from.keyed.push((key, scope.clone()));
        }
        from.scope.columns.extend(scope.columns);
    }
    from
}
