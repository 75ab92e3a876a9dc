//! Restricted access: security barrier views, row security, and columns without a privilege. All of these apply to the
//! role that runs the queries.

use super::dice::Dice;
use super::select::Query;

pub const ROLE: &str = "reader";

/// The function `nosy` raises an error if it is called for a row that the reader may not see. So the test notices a
/// call of `nosy` before the hidden rows are dropped. `nosy` is not leakproof, and only PostgreSQL can call it. To test
/// the engine in the same way, other queries divide by a column that is zero in each hidden row.
pub const SETUP: &str = "
    CREATE ROLE reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    REVOKE SELECT ON customer FROM reader;
    GRANT SELECT (c_key, c_nation, c_segment, c_since, c_active, c_token, c_mood) ON customer TO reader;
    CREATE FUNCTION nosy(integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT COST 0.0001 AS $$
        BEGIN
            IF $1 = 13 THEN RAISE EXCEPTION 'a row was seen that is hidden'; END IF;
            RETURN $1 % 4 <> 1;
        END $$;
    CREATE VIEW guarded_supplier WITH (security_barrier) AS SELECT * FROM supplier WHERE s_key <> 13;
    CREATE VIEW guarded_customer WITH (security_barrier) AS SELECT * FROM customer WHERE c_key % 20 <> 13;
    CREATE VIEW recent_orders AS SELECT * FROM orders WHERE o_date >= '2023-02-01';
    GRANT SELECT ON guarded_supplier, guarded_customer, recent_orders TO reader;
    ALTER TABLE part ENABLE ROW LEVEL SECURITY;
    CREATE POLICY small ON part TO reader USING (p_size IS DISTINCT FROM 5 AND p_key <> 13);
    ALTER TABLE lineitem ENABLE ROW LEVEL SECURITY;
    CREATE POLICY all_of_mine ON lineitem TO reader USING (l_order % 20 <> (SELECT current_setting('shop.hidden')::integer));
    CREATE POLICY but_these ON lineitem AS RESTRICTIVE TO reader
        USING (current_user = 'reader' AND l_line IS DISTINCT FROM 3);
    SET shop.hidden = 13;";

/// Tables; for each, what the reader reads instead, and the integer column that decides which rows are hidden.
const INSTEAD: [(&str, &str, Option<&str>); 5] = [
    ("supplier", "guarded_supplier", Some("s_key")),
    ("customer", "guarded_customer", Some("c_key")),
    ("orders", "recent_orders", None),
    ("part", "part", Some("p_key")),
    ("lineitem", "lineitem", Some("l_order")),
];

/// Changes a query for the reader. Most tables are replaced by views, and conditions are added that would raise an
/// error for hidden rows.
pub fn as_reader(dice: &mut Dice, query: Query) -> Query {
    let Query { mut sql, ordered } = query;
    for (table, view, hidden) in INSTEAD {
        if dice.chance(3) {
            continue;
        }
        sql = sql.replace(&format!("FROM {table} "), &format!("FROM {view} "));
        // Items of FROM have the aliases t0, t1, … If a join has an alias, the aliases within it cannot be used
        // outside.
        for alias in (0..6).map(|number| format!("t{number}")) {
            let item = format!("{table} AS {alias}");
            if !sql.contains(&item) {
                continue;
            }
            sql = sql.replace(&item, &format!("{view} AS {alias}"));
            if let Some(column) = hidden.filter(|_| !sql.contains(") AS j")) {
                let look = match dice.chance(2) {
                    true => format!("nosy({alias}.{column})"),
                    false => format!("10 / ({alias}.{column} - 13) < 5"),
                };
                sql = sql.replacen("anker.olap()", &format!("{look} AND anker.olap()"), 1);
            }
        }
    }
    Query { sql, ordered }
}
