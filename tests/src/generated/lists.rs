//! Aggregates with ORDER BY or WITHIN GROUP. Their order is complete: only equal values may come in any order.

use super::dice::Dice;
use super::expressions::{Column, Kind, Scope};

pub fn aggregate(dice: &mut Dice, scope: &Scope) -> String {
    let first = by(dice, scope);
    match dice.below(6) {
        0 | 1 => joined(dice, scope, &first),
        2 => {
            let value = value(dice, scope);
            if dice.chance(4) {
                format!("array_agg(DISTINCT {value})")
            } else {
                format!("array_agg({value} ORDER BY {first}{value})")
            }
        }
        _ => number(dice, scope),
    }
}

/// An ordered aggregate whose result is a number or NULL.
pub fn number(dice: &mut Dice, scope: &Scope) -> String {
    let column = scope.column_of(dice, Kind::Integer).map_or("1".into(), |column| column.name);
    let share = dice.pick(&["0", "0.25", "0.5", "0.9", "1"]);
    let direction = dice.pick(&["", "", " DESC"]);
    match dice.below(4) {
        0 => format!("percentile_disc({share}) WITHIN GROUP (ORDER BY {column}{direction})"),
        1 => format!("percentile_cont({share}) WITHIN GROUP (ORDER BY {column}{direction})"),
        2 => format!("mode() WITHIN GROUP (ORDER BY {column}{direction})"),
        _ => {
            let first = by(dice, scope);
            format!("length({})", joined(dice, scope, &first))
        }
    }
}

fn joined(dice: &mut Dice, scope: &Scope, first: &str) -> String {
    let text = scope.column_of(dice, Kind::Text).map_or("'x'".into(), |column| format!("{}::text", column.name));
    match dice.below(4) {
        0 => format!("string_agg(DISTINCT {text}, ', ')"),
        1 => {
            let other =
                scope.column_of(dice, Kind::Text).map_or("'-'".into(), |column| format!("{}::text", column.name));
            format!("string_agg({text}, {other} ORDER BY {first}{text} DESC, {other})")
        }
        _ => format!("string_agg({text}, ',' ORDER BY {first}{text})"),
    }
}

/// A random sort key and a comma, to stand before the other keys of an ORDER BY; or an empty text.
pub fn by(dice: &mut Dice, scope: &Scope) -> String {
    let direction = dice.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    let is_ordered = |column: &Column| column.kind.is_ordered() && column.kind != Kind::Uuid;
    let column = Some(scope.column(dice)).filter(|_| dice.chance(2)).filter(is_ordered);
    column.map_or(String::new(), |column| format!("{}{direction}, ", column.name))
}

/// A column of a kind whose equal values are always shown in the same form.
pub fn value(dice: &mut Dice, scope: &Scope) -> String {
    let kind = dice.pick(&[Kind::Integer, Kind::Text, Kind::Date, Kind::Bool, Kind::Uuid]);
    scope.column_of(dice, kind).map_or("1".into(), |column| column.name)
}
