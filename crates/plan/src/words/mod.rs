//! The texts of expressions, for EXPLAIN. They resemble the SQL of the query. The caller supplies the names.
//!
//! The texts contain the query's constants, but no values from rows. Casts that preserve the value are left out.

mod functions;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::algebra::aggregates::Agg;
use crate::algebra::expr::{Expr, Literal};
use crate::algebra::listed::{Listed, Listing};
use crate::algebra::rel::{Aggregation, JoinKind, Rel, SortKey};
use crate::algebra::unfold::{List, Unfold};
use crate::algebra::window::WindowFunction;
use crate::base::ops::{ArithOp, BoolOp, CmpOp, ColumnId};
use crate::base::types::Type;
use crate::functions::Named;

/// The length beyond which a text is cut off.
const LONGEST: usize = 2000;
/// The greatest depth of expressions that are written out. A computed column counts with the expression that computes
/// it.
const DEEPEST: usize = 200;
/// The mark that stands for omitted text.
const MORE: &str = "...";

/// The meaning of a plan's column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Meaning {
    /// The column with index `at` of a relation. A relation may be scanned several times.
    Column {
        scan: Scan,
        at: u16,
    },
    Computed(Expr),
    /// A column of a union: its number, from 1, and the expression that computes it in the first input.
    Union {
        number: u16,
        first: Expr,
    },
    /// A column of an aggregate. `part` is its number if the aggregate has two columns (see [`Agg::Avg`] and
    /// [`Agg::Spread`]).
    Aggregate {
        aggregation: Aggregation,
        part: u8,
    },
    Window {
        function: WindowFunction,
        part: u8,
    },
    /// An element of a row's list. With `of_number`, the element's number in the list instead.
    Element {
        unfold: Unfold,
        of_number: bool,
    },
    /// The column of a mark join: whether a row has a partner.
    Mark,
    /// The index of the grouping set to which a row belongs.
    GroupingSet,
}

/// A scan of a relation. `number` counts the scans of the same relation, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Scan {
    pub number: u16,
    pub relation: u16,
}

/// The meaning of each column that the operators of a plan make.
pub fn meanings(root: &Rel) -> Vec<(ColumnId, Meaning)> {
    let mut all = Vec::new();
    let mut scans: HashMap<u16, u16> = HashMap::new();
    root.visit(&mut |rel| match rel {
        Rel::Scan { relation, columns } => {
            let next = scans.entry(*relation).or_default();
            let scan = Scan { number: *next, relation: *relation };
            *next += 1;
            all.extend((0..).zip(columns).map(|(at, id)| (*id, Meaning::Column { scan, at })));
        }
        Rel::Map { computed, .. } => all.extend(computed.iter().map(|c| (c.column, Meaning::Computed(c.expr.clone())))),
        Rel::Join { kind: JoinKind::Mark(mark), .. } | Rel::Apply { kind: JoinKind::Mark(mark), .. } => {
            all.push((*mark, Meaning::Mark));
        }
        Rel::Union { columns, inputs } => {
            let first = inputs.first().map_or(&[][..], |part| &part.exprs);
            let column =
                |((number, id), expr): ((u16, &ColumnId), &Expr)| (*id, Meaning::Union { number, first: expr.clone() });
            all.extend((1..).zip(columns).zip(first).map(column));
        }
        Rel::Aggregate { keys, aggregates, .. } => {
            all.extend(keys.iter().map(|key| (key.column, Meaning::Computed(key.expr.clone()))));
            all.extend(aggregates.iter().flat_map(parts));
        }
        Rel::GroupingSets { grouping, .. } => {
            all.extend(grouping.keys.iter().map(|key| (key.column, Meaning::Computed(key.expr.clone()))));
            all.push((grouping.number, Meaning::GroupingSet));
            all.extend(grouping.aggregates.iter().flat_map(parts));
        }
        Rel::Window { calls, .. } => {
            for call in calls {
                let part =
                    |(part, id): (u8, &ColumnId)| (*id, Meaning::Window { function: call.function.clone(), part });
                all.extend((0..).zip(&call.columns).map(part));
            }
        }
        Rel::Unfold { unfold, .. } => {
            let elements = |of_number| Meaning::Element { unfold: (**unfold).clone(), of_number };
            all.push((unfold.column, elements(false)));
            all.extend(unfold.number.map(|number| (number, elements(true))));
        }
        Rel::Row | Rel::Filter { .. } | Rel::Join { .. } | Rel::Apply { .. } | Rel::Top { .. } => {}
    });
    all
}

fn parts(aggregation: &Aggregation) -> impl Iterator<Item = (ColumnId, Meaning)> {
    let meaning = |part| Meaning::Aggregate { aggregation: aggregation.clone(), part };
    (0..).zip(&aggregation.columns).map(move |(part, id)| (*id, meaning(part)))
}

/// Names and constants that a text needs, and that the plan does not contain.
pub trait Names {
    /// The name of the column with index `at` of a scan.
    fn column(&self, scan: Scan, at: u16) -> String;
    /// The text that a parameter has in the query; `None` if the query does not mention it.
    fn parameter(&self, index: u16) -> Option<String>;
    /// The text of a constant that is neither a number, nor a text, nor a boolean.
    fn constant(&self, ty: Type, value: &Literal) -> String;
}

/// Writes the texts of expressions of one plan.
pub struct Words<'a> {
    meanings: HashMap<ColumnId, &'a Meaning>,
    names: &'a dyn Names,
}

/// A text that is being written.
#[derive(Default)]
struct Text {
    text: String,
    depth: usize,
    full: bool,
}

impl Text {
    fn push(&mut self, part: &str) {
        if !self.full {
            self.text.push_str(part);
            self.full = self.text.len() > LONGEST;
        }
    }
}

impl<'a> Words<'a> {
    pub fn new(meanings: &'a [(ColumnId, Meaning)], names: &'a dyn Names) -> Words<'a> {
        Words { meanings: meanings.iter().map(|(id, meaning)| (*id, meaning)).collect(), names }
    }

    pub fn expression(&self, expr: &Expr) -> String {
        self.written(|text| self.write(expr, text))
    }

    /// The text of conditions that must all hold.
    pub fn conditions(&self, all: &[Expr]) -> String {
        match all {
            [one] => self.expression(one),
            all => self.written(|text| self.joined(all, " AND ", text)),
        }
    }

    /// The text of a join's keys. If nulls are to equal nulls, a pair of values has two keys: one compares the values,
    /// with nulls replaced by a constant; the other compares whether the values are null. These two keys are written as
    /// one condition, IS NOT DISTINCT FROM.
    pub fn equalities(&self, keys: &[(Expr, Expr)]) -> String {
        let values: Vec<Option<(&Expr, &Expr)>> = keys.iter().map(|key| both(key, value_or_constant)).collect();
        let nulls: Vec<Option<(&Expr, &Expr)>> = keys.iter().map(|key| both(key, tested_for_null)).collect();
        let mut all = Vec::new();
        for (at, (left, right)) in keys.iter().enumerate() {
            match (values[at], nulls[at]) {
                (Some(both), _) if nulls.contains(&Some(both)) => all.push((both.0, " IS NOT DISTINCT FROM ", both.1)),
                (_, Some(both)) if values.contains(&Some(both)) => {}
                _ => all.push((left, " = ", right)),
            }
        }
        self.written(|text| {
            text.push(if all.len() > 1 { "(" } else { "" });
            for (at, (left, word, right)) in all.iter().enumerate() {
                text.push(if at > 0 { " AND " } else { "" });
                self.infix(left, word, right, text);
            }
            text.push(if all.len() > 1 { ")" } else { "" });
        })
    }

    /// The text of a sort key. Its locale is left out, because the query names at most a collation.
    pub fn sort_key(&self, key: &SortKey) -> String {
        let nulls = match (key.descending, key.nulls_first) {
            (true, true) | (false, false) => "",
            (true, false) => " NULLS LAST",
            (false, true) => " NULLS FIRST",
        };
        let direction = if key.descending { " DESC" } else { "" };
        format!("{}{direction}{nulls}", self.expression(&key.expr))
    }

    pub fn aggregate(&self, aggregation: &Aggregation) -> String {
        self.written(|text| self.write_aggregate(&aggregation.agg, aggregation.distinct, text))
    }

    pub fn window_function(&self, function: &WindowFunction) -> String {
        self.written(|text| self.write_window(function, text))
    }

    pub fn list(&self, unfold: &Unfold) -> String {
        self.written(|text| self.write_list(unfold, text))
    }

    fn write_list(&self, Unfold { list, arguments, .. }: &Unfold, text: &mut Text) {
        let name = match list {
            List::Series => "generate_series",
            List::Elements(_) => "unnest",
            List::Documents(_) => "jsonb_array_elements",
            List::Texts(_) => "jsonb_array_elements_text",
            List::Fields => "string_to_table",
        };
        self.listed(name, arguments, text);
    }

    fn written(&self, write: impl FnOnce(&mut Text)) -> String {
        let mut text = Text::default();
        write(&mut text);
        if text.full {
            let end = (0..=LONGEST).rev().find(|end| text.text.is_char_boundary(*end)).unwrap_or(0);
            text.text.truncate(end);
            text.text.push_str(MORE);
        }
        text.text
    }

    fn write(&self, expr: &Expr, text: &mut Text) {
        if text.full || text.depth > DEEPEST {
            return text.push(MORE);
        }
        text.depth += 1;
        match expr {
            Expr::Column { id } => self.column(*id, text),
            Expr::Literal { ty, value } => self.literal(*ty, value.as_ref(), text),
            Expr::Param { index } => text.push(self.names.parameter(*index).as_deref().unwrap_or("the session's")),
            Expr::Cmp { op, left, right } => self.comparison(*op, left, right, text),
            Expr::Arith { op, left, right, .. } => {
                let op = match op {
                    ArithOp::Add => " + ",
                    ArithOp::Sub => " - ",
                    ArithOp::Mul => " * ",
                    ArithOp::Div => " / ",
                    ArithOp::Mod => " % ",
                };
                self.infix(left, op, right, text);
            }
            Expr::Neg(arg) => self.around("(- ", arg, ")", text),
            Expr::Cast { arg, .. } => self.write(arg, text),
            Expr::Bool { op, args } => self.joined(args, if *op == BoolOp::And { " AND " } else { " OR " }, text),
            Expr::Not(arg) => self.around("(NOT ", arg, ")", text),
            Expr::IsNull { arg, negated: false } => self.around("(", arg, " IS NULL)", text),
            Expr::IsNull { arg, negated: true } => self.around("(", arg, " IS NOT NULL)", text),
            Expr::Call { function, args, .. } => self.call(*function, args, text),
            Expr::Case { branches, otherwise } => {
                text.push("CASE");
                for (when, then) in branches {
                    self.around(" WHEN ", when, " THEN ", text);
                    self.write(then, text);
                }
                self.around(" ELSE ", otherwise, " END", text);
            }
            Expr::Coalesce(args) => self.listed("COALESCE", args, text),
        }
        text.depth -= 1;
    }

    fn around(&self, before: &str, expr: &Expr, behind: &str, text: &mut Text) {
        text.push(before);
        self.write(expr, text);
        text.push(behind);
    }

    fn infix(&self, left: &Expr, op: &str, right: &Expr, text: &mut Text) {
        self.around("(", left, op, text);
        self.write(right, text);
        text.push(")");
    }

    fn joined(&self, all: &[Expr], word: &str, text: &mut Text) {
        text.push("(");
        self.separated(all, word, text);
        text.push(")");
    }

    fn listed(&self, name: &str, args: &[Expr], text: &mut Text) {
        text.push(name);
        self.joined(args, ", ", text);
    }

    fn separated(&self, all: &[Expr], word: &str, text: &mut Text) {
        for (at, expr) in all.iter().enumerate() {
            if at > 0 {
                text.push(word);
            }
            if text.full {
                return;
            }
            self.write(expr, text);
        }
    }

    /// Writes a comparison of two texts in a locale. In the plan, it is a comparison of `CompareIn`'s result with zero;
    /// the text shows the operands of `CompareIn` instead.
    fn comparison(&self, op: CmpOp, left: &Expr, right: &Expr, text: &mut Text) {
        let word = match op {
            CmpOp::Eq => " = ",
            CmpOp::Ne => " <> ",
            CmpOp::Lt => " < ",
            CmpOp::Le => " <= ",
            CmpOp::Gt => " > ",
            CmpOp::Ge => " >= ",
        };
        match left {
            Expr::Call { function: Named::CompareIn, args, .. } if args.len() == 3 => {
                self.infix(&args[0], word, &args[1], text)
            }
            _ => self.infix(left, word, right, text),
        }
    }

    fn column(&self, id: ColumnId, text: &mut Text) {
        match self.meanings.get(&id) {
            Some(Meaning::Column { scan, at }) => text.push(&self.names.column(*scan, *at)),
            Some(Meaning::Computed(expr)) => self.write(expr, text),
            Some(Meaning::Union { first: first @ Expr::Column { .. }, .. }) => self.write(first, text),
            Some(Meaning::Union { number, .. }) => text.push(&format!("column{number}")),
            Some(Meaning::Aggregate { aggregation: Aggregation { agg, distinct, .. }, part }) => match (agg, part) {
                (Agg::Avg(arg), 0) => self.write_aggregate(&Agg::Sum(arg.clone()), *distinct, text),
                (Agg::Avg(arg) | Agg::Spread(arg), 1) => {
                    self.write_aggregate(&Agg::Count(arg.clone()), *distinct, text);
                }
                _ => self.write_aggregate(agg, *distinct, text),
            },
            Some(Meaning::Window { function: WindowFunction::Aggregate(agg), part }) => {
                let part = match (agg, part) {
                    (Agg::Avg(arg), 0) => Agg::Sum(arg.clone()),
                    (Agg::Avg(arg) | Agg::Spread(arg), 1) => Agg::Count(arg.clone()),
                    (agg, _) => agg.clone(),
                };
                self.write_window(&WindowFunction::Aggregate(part), text);
            }
            Some(Meaning::Window { function, .. }) => self.write_window(function, text),
            Some(Meaning::Element { unfold, of_number: false }) => self.write_list(unfold, text),
            Some(Meaning::Element { of_number: true, .. }) => text.push("ordinality"),
            Some(Meaning::Mark) => text.push("has a match"),
            Some(Meaning::GroupingSet) => text.push("grouping set"),
            None => text.push(MORE),
        }
    }

    fn write_aggregate(&self, agg: &Agg, distinct: bool, text: &mut Text) {
        let name = match agg {
            Agg::CountStar => return text.push("count(*)"),
            Agg::Listed(listed) => return self.write_listed(listed, agg.aggregate().row().name, distinct, text),
            // Only variance and standard deviation use this aggregate, so this name comes close enough.
            Agg::Spread(_) => "variance",
            Agg::InLocale(..) => agg.aggregate().row().name.trim_end_matches(" in a locale"),
            agg => agg.aggregate().row().name,
        };
        let arguments = match agg {
            // The second argument is the locale, which is left out.
            Agg::InLocale(_, pair) => &pair[..1],
            agg => agg.arguments(),
        };
        text.push(name);
        text.push(if distinct { "(DISTINCT " } else { "(" });
        self.separated(arguments, ", ", text);
        text.push(")");
    }

    fn write_listed(&self, listed: &Listed, name: &str, distinct: bool, text: &mut Text) {
        let order = |text: &mut Text| {
            let keys: Vec<String> = listed.sort_keys().iter().map(|key| self.sort_key(key)).collect();
            text.push(if keys.is_empty() { "" } else { "ORDER BY " });
            text.push(&keys.join(", "));
        };
        text.push(name);
        match (listed.of, listed.parts().0) {
            (Listing::Joined | Listing::Array, own) => {
                let belongs = own.last().filter(|_| listed.of == Listing::Array);
                text.push(if distinct { "(DISTINCT " } else { "(" });
                self.separated(if belongs.is_some() { &own[..1] } else { own }, ", ", text);
                text.push(if listed.order.is_empty() { "" } else { " " });
                order(text);
                text.push(")");
                if let Some(belongs) = belongs.filter(|belongs| !matches!(belongs, Expr::Literal { .. })) {
                    self.around(" FILTER (WHERE ", belongs, ")", text);
                }
            }
            (Listing::Discrete | Listing::Continuous | Listing::Mode, own) => {
                self.joined(&own[1..], ", ", text);
                text.push(" WITHIN GROUP (");
                order(text);
                text.push(")");
            }
        }
    }

    fn write_window(&self, function: &WindowFunction, text: &mut Text) {
        let arguments = |name: &str, args: &[&Expr], text: &mut Text| {
            text.push(name);
            text.push("(");
            for (at, arg) in args.iter().enumerate() {
                text.push(if at > 0 { ", " } else { "" });
                self.write(arg, text);
            }
        };
        match function {
            WindowFunction::RowNumber => text.push("row_number("),
            WindowFunction::Rank => text.push("rank("),
            WindowFunction::DenseRank => text.push("dense_rank("),
            WindowFunction::PercentRank => text.push("percent_rank("),
            WindowFunction::CumeDist => text.push("cume_dist("),
            WindowFunction::Ntile(buckets) => arguments("ntile", &[buckets], text),
            WindowFunction::Shifted { value, by, back, otherwise } => {
                let all: Vec<&Expr> = [value, by].into_iter().chain(otherwise).collect();
                arguments(if *back { "lag" } else { "lead" }, &all, text);
            }
            WindowFunction::First(value) => arguments("first_value", &[value], text),
            WindowFunction::Last(value) => arguments("last_value", &[value], text),
            WindowFunction::Nth(value, number) => arguments("nth_value", &[value, number], text),
            WindowFunction::SumOfReals(value) => arguments("sum", &[value], text),
            WindowFunction::Aggregate(agg) => {
                self.write_aggregate(agg, false, text);
                return text.push(" OVER (...)");
            }
        }
        text.push(") OVER (...)");
    }

    fn literal(&self, ty: Type, value: Option<&Literal>, text: &mut Text) {
        match (ty, value) {
            (_, None) => text.push("NULL"),
            (_, Some(Literal::Bool(truth))) => text.push(if *truth { "true" } else { "false" }),
            (Type::Int16 | Type::Int32 | Type::Int64 | Type::Oid, Some(Literal::Int(number))) => {
                text.push(&number.to_string());
            }
            (Type::Decimal64 { scale } | Type::Decimal128 { scale }, Some(value)) => match value {
                Literal::Int(number) => text.push(&decimal((*number).into(), scale)),
                Literal::Decimal(number) => text.push(&decimal(*number, scale)),
                other => text.push(&self.names.constant(ty, other)),
            },
            (_, Some(Literal::Float(number))) => text.push(&number.to_string()),
            (_, Some(Literal::Text(chars))) => text.push(&quoted(chars)),
            (_, Some(other)) => text.push(&self.names.constant(ty, other)),
        }
    }
}

fn both(key: &(Expr, Expr), part: fn(&Expr) -> Option<&Expr>) -> Option<(&Expr, &Expr)> {
    part(&key.0).zip(part(&key.1))
}

/// The value in a join key of the form `coalesce(value, constant)`.
fn value_or_constant(expr: &Expr) -> Option<&Expr> {
    let Expr::Coalesce(args) = expr else { return None };
    match &args[..] {
        [value, Expr::Literal { .. }] => Some(value),
        _ => None,
    }
}

fn tested_for_null(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::IsNull { arg, negated: false } => Some(arg),
        _ => None,
    }
}

/// The text of a scaled integer, with its decimal point.
pub fn decimal(unscaled: i128, scale: u8) -> String {
    let (digits, scale) = (unscaled.unsigned_abs().to_string(), usize::from(scale));
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A text as a constant in SQL. A long text is cut off.
fn quoted(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST / 4).map_or(text.len(), |(end, _)| end);
    let more = if end < text.len() { MORE } else { "" };
    format!("'{}{more}'", text[..end].replace('\'', "''"))
}

#[cfg(test)]
mod tests;
