//! Random expressions over the columns of a FROM clause. Each expression has a kind of value. If a query groups by an
//! expression, this module also makes other expressions from the grouped one, for the select list and HAVING.

use super::dice::Dice;

/// A kind of value. It determines which operations an expression can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Integer,
    Numeric,
    Date,
    Interval,
    Text,
    Uuid,
    Enum,
    /// A value that the engine only stores: jsonb.
    Document,
}

impl Kind {
    /// Whether the engine can also order values of this kind.
    pub fn is_ordered(self) -> bool {
        self != Kind::Document
    }
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    /// Constants that conditions compare the column with.
    pub literals: &'static [&'static str],
}

/// An expression. Its text has parentheses if it needs them inside a larger expression.
#[derive(Clone, Debug)]
pub struct Expression {
    pub sql: String,
    pub kind: Kind,
}

/// The columns that a query may name.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub columns: Vec<Column>,
    /// Whether columns hold the extreme values of their types. If so, arithmetic is rare, because it would mostly raise
    /// errors.
    pub extreme: bool,
}

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];
const SMALL: [&str; 6] = ["1", "2", "3", "5", "-1", "10"];

impl Scope {
    pub fn column(&self, dice: &mut Dice) -> Column {
        dice.pick(&self.columns)
    }

    pub fn column_of(&self, dice: &mut Dice, kind: Kind) -> Option<Column> {
        let of_kind: Vec<&Column> = self.columns.iter().filter(|column| column.kind == kind).collect();
        (!of_kind.is_empty()).then(|| dice.pick(&of_kind).clone())
    }

    /// A random expression to group by, to aggregate or to return.
    pub fn expression(&self, dice: &mut Dice) -> Expression {
        if dice.chance(3) {
            return Expression { sql: self.condition(dice, 2), kind: Kind::Bool };
        }
        let column = self.column(dice);
        let plain = dice.chance(2) || self.extreme && !dice.chance(6);
        let sql = if plain { column.name } else { self.computed(dice, &column) };
        Expression { sql, kind: column.kind }
    }

    pub fn number(&self, dice: &mut Dice) -> String {
        let kind = dice.pick(&[Kind::Integer, Kind::Numeric]);
        match self.column_of(dice, kind) {
            None => "1".into(),
            Some(column) if dice.chance(2) || self.extreme => column.name,
            Some(column) => self.computed(dice, &column),
        }
    }

    /// An expression of the column's kind that computes with the column.
    fn computed(&self, dice: &mut Dice, column: &Column) -> String {
        if column.kind == Kind::Document {
            return column.name.clone();
        }
        if dice.chance(3) {
            return self.chosen(dice, column);
        }
        let (name, small) = (&column.name, dice.pick(&SMALL));
        let other = self.column_of(dice, column.kind).map_or(small.into(), |other| other.name);
        match column.kind {
            Kind::Bool => format!("(NOT {name})"),
            Kind::Uuid | Kind::Enum | Kind::Document => name.clone(),
            Kind::Text if dice.chance(8) => {
                let kind = dice.pick(&[Kind::Date, Kind::Enum, Kind::Uuid, Kind::Bool, Kind::Interval]);
                self.column_of(dice, kind).map_or(name.clone(), |column| format!("{}::text", column.name))
            }
            Kind::Text if dice.chance(8) => match self.column_of(dice, Kind::Document) {
                Some(document) => format!("({} ->> {})", document.name, dice.pick(&["'a'", "'b'", "'c'", "0"])),
                None => text_made_of(dice, name, &other),
            },
            Kind::Text if dice.chance(8) => match self.column_of(dice, Kind::Date) {
                Some(date) => format!("to_char({}, {})", date.name, dice.pick(&TIME_PATTERNS)),
                None => text_made_of(dice, name, &other),
            },
            Kind::Text => text_made_of(dice, name, &other),
            Kind::Date if !self.extreme && dice.chance(2) => dice.pick(&DATES).replace("{}", name),
            Kind::Date => format!("({name}::date {} {})", dice.pick(&["+", "-"]), dice.pick(&["1", "30", "365"])),
            Kind::Interval => dice.pick(&INTERVALS).replace("{}", name),
            Kind::Integer if dice.chance(3) => self.integer_made_of(dice, name, small),
            Kind::Integer => match dice.below(10) {
                8 | 9 => match self.column_of(dice, Kind::Text) {
                    Some(text) => number_of_text(dice, &text.name),
                    None => format!("({name} - {small})"),
                },
                0 => match self.column_of(dice, Kind::Document).filter(|_| dice.chance(3)) {
                    Some(document) => format!("({} ->> 'a')::integer", document.name),
                    None => format!("({name} + {small})"),
                },
                1 => format!("({small} - {name})"),
                2 => format!("({name} * {small})"),
                3 => format!("({name} % {})", dice.pick(&["2", "3", "7"])),
                4 => format!("({name} / {small})"),
                5 => format!("(- {name})"),
                6 => format!("({name} + {other})"),
                _ => format!("{name}::bigint"),
            },
            Kind::Numeric if dice.chance(4) => match self.column_of(dice, Kind::Date) {
                Some(date) if dice.chance(2) => {
                    let casts = ["", "", "::timestamp", "::timestamptz"];
                    let cast = dice.pick(if self.extreme { &casts[..1] } else { &casts });
                    format!("extract({} from {}{cast})", dice.pick(&FIELDS), date.name)
                }
                None if dice.chance(2) => match self.column_of(dice, Kind::Interval) {
                    Some(interval) => format!("extract({} from {})", dice.pick(&["epoch", "day"]), interval.name),
                    None => name.clone(),
                },
                _ => format!("{}({name})", dice.pick(&["abs", "ceil", "floor", "round", "trunc", "sign"])),
            },
            Kind::Numeric => match dice.below(13) {
                10..13 => dice.pick(&POWERS).replace("{}", name),
                6 => format!("({name} / nullif({other}, 0))"),
                7 => format!("round({name} / 3, {})", dice.pick(&["0", "1", "4"])),
                8 => format!("({name} % {})", dice.pick(&["7", "0.25"])),
                9 => format!("({name} / {small})"),
                0 => format!("({name} + {small})"),
                1 => format!("({name} * (1 - {other}))"),
                2 => format!("({name} * 0.5)"),
                3 => format!("(- {name})"),
                4 => format!("({name} - {other})"),
                _ => match self.column_of(dice, Kind::Integer) {
                    Some(integer) => format!("({name} * {})", integer.name),
                    None => format!("(1.00 - {name})"),
                },
            },
        }
    }

    /// An expression that chooses one of several values of the column's kind (CASE, COALESCE and others). The values
    /// may be numerics of different scales.
    fn chosen(&self, dice: &mut Dice, column: &Column) -> String {
        let literal = dice.pick(column.literals);
        // Dates beyond the range of timestamps raise an error when they are compared with a timestamp.
        let same = self.extreme && column.kind == Kind::Date;
        let other = self.column_of(dice, column.kind).filter(|_| !same);
        let other = other.map_or(column.name.clone(), |other| other.name);
        let literal = if column.kind == Kind::Numeric && dice.chance(3) { "0" } else { literal };
        // Casts everything to text. If char(n) and text were mixed, equal values could be shown with or without
        // trailing blanks, and DISTINCT could return either form.
        let as_text = |name: &str| if column.kind == Kind::Text { format!("{name}::text") } else { name.into() };
        let (name, other) = (as_text(&column.name), as_text(&other));
        match dice.below(10) {
            0 => format!("coalesce({name}, {literal})"),
            1 => format!("coalesce({name}, {other})"),
            2 => format!("nullif({name}, {literal})"),
            3 | 9 if column.kind == Kind::Text => format!("nullif({name}, {other})"),
            3 | 9 if matches!(column.kind, Kind::Enum | Kind::Interval) => format!("nullif({name}, {literal})"),
            3 | 9 => format!("{}({name}, {other}, {literal})", dice.pick(&["greatest", "least"])),
            4 => format!("(CASE {name} WHEN {literal} THEN {other} WHEN {other} THEN {literal} ELSE {name} END)"),
            5 => format!("(CASE {name} WHEN {literal} THEN {other} END)"),
            6 => format!("(CASE WHEN {} THEN {name} ELSE {literal} END)", self.plain_comparison(dice)),
            7 => format!("(CASE WHEN {} THEN {name} END)", self.plain_comparison(dice)),
            _ => {
                let (first, second) = (self.plain_comparison(dice), self.plain_comparison(dice));
                format!("(CASE WHEN {first} THEN {name} WHEN {second} THEN {literal} ELSE {other} END)")
            }
        }
    }

    fn integer_made_of(&self, dice: &mut Dice, name: &str, small: &str) -> String {
        let of_kind = |dice: &mut Dice, kind| self.column_of(dice, kind).map(|column| column.name);
        match dice.below(8) {
            0 => format!("abs({name})"),
            1 => format!("mod({name}, {})", dice.pick(&["2", "3", "7"])),
            2 => format!("({name} {} {})", dice.pick(&["&", "|", "#"]), dice.pick(&["1", "6", "255"])),
            3 => format!("(~ {name})"),
            4 => format!("({name} {} {})", dice.pick(&["<<", ">>"]), dice.pick(&["1", "3", "33"])),
            5 => of_kind(dice, Kind::Numeric).map_or(name.into(), |numeric| format!("{numeric}::integer")),
            6 => of_kind(dice, Kind::Bool).map_or(name.into(), |truth| format!("{truth}::integer")),
            _ => format!("({name} + {small})::smallint"),
        }
    }

    fn plain_comparison(&self, dice: &mut Dice) -> String {
        let column = self.column(dice);
        if column.kind == Kind::Document {
            return format!("{} IS NULL", column.name);
        }
        let literal = dice.pick(column.literals);
        let comparison = dice.pick(&["=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]);
        format!("{} {comparison} {literal}", column.name)
    }

    /// A condition in parentheses.
    pub fn condition(&self, dice: &mut Dice, depth: u32) -> String {
        if depth == 0 || dice.chance(2) {
            return self.simple_condition(dice);
        }
        let (left, right) = (self.condition(dice, depth - 1), self.condition(dice, depth - 1));
        match dice.below(9) {
            0 | 1 => format!("({left} AND {right})"),
            2 | 3 => format!("({left} OR {right})"),
            4 => format!("(NOT {left})"),
            5 => format!("({left} = {})", dice.pick(&["true", "false"])),
            6 => format!("({left} IS {} {})", dice.pick(&["", "NOT"]), dice.pick(&["TRUE", "FALSE", "UNKNOWN"])),
            7 => format!("(({left} AND {right}) AND {})", self.simple_condition(dice)),
            _ => format!("({left} AND ({right} AND {}))", self.simple_condition(dice)),
        }
    }

    /// One comparison.
    pub fn simple_condition(&self, dice: &mut Dice) -> String {
        let column = self.column(dice);
        let name = &column.name;
        let literal = dice.pick(column.literals);
        if column.kind == Kind::Bool {
            return dice.pick(&["({})", "(NOT {})", "({} = false)", "({} IS NULL)"]).replace("{}", name);
        }
        if column.kind == Kind::Document {
            return dice.pick(&DOCUMENT_CONDITIONS).replace("{}", name);
        }
        if column.kind == Kind::Text && dice.chance(3) {
            return text_condition(dice, name);
        }
        if column.kind == Kind::Date && dice.chance(4) {
            return dice.pick(&DATE_CONDITIONS).replace("{}", name);
        }
        let ordered = column.kind.is_ordered();
        let comparison = if ordered { dice.pick(&COMPARISONS) } else { dice.pick(&COMPARISONS[..2]) };
        match dice.below(14) {
            6 => format!("({name} IS {} DISTINCT FROM {literal})", dice.pick(&["", "NOT"])),
            0 => format!("({name} IS {} NULL)", dice.pick(&["", "NOT"])),
            1 => {
                let more: Vec<&str> = (0..dice.pick(&[1, 1, 3, 7])).map(|_| dice.pick(column.literals)).collect();
                format!("({name} {} ({literal}, {}))", dice.pick(&["IN", "NOT IN"]), more.join(", "))
            }
            2 if ordered => format!("({name} BETWEEN {literal} AND {})", dice.pick(column.literals)),
            3 if ordered && !self.extreme => format!("({} {comparison} {literal})", self.computed(dice, &column)),
            4 => match self.column_of(dice, column.kind) {
                Some(other) => format!("({name} {comparison} {})", other.name),
                None => format!("({name} {comparison} {literal})"),
            },
            5 => format!("({literal} {comparison} {name})"),
            7 if matches!(column.kind, Kind::Integer | Kind::Numeric) => {
                format!(
                    "({name} {comparison} {} (ARRAY[{literal}, {}]))",
                    dice.pick(&["ANY", "ANY", "ALL"]),
                    dice.pick(column.literals)
                )
            }
            8 => match self.column_of(dice, column.kind) {
                // A comparison of two rows, such as `(a, b) < (c, d)`.
                Some(other) if ordered => {
                    let second = self.column(dice);
                    let (own, others) = (dice.pick(second.literals), dice.pick(column.literals));
                    let comparison = if second.kind.is_ordered() { comparison } else { "=" };
                    format!(
                        "(ROW({name}, {}) {comparison} ROW({}, {own}))",
                        second.name,
                        dice.pick(&[&other.name[..], others])
                    )
                }
                _ => format!("({name} {comparison} {literal})"),
            },
            _ => format!("({name} {comparison} {literal})"),
        }
    }
}

const FIELDS: [&str; 9] = ["year", "month", "day", "quarter", "week", "isoyear", "doy", "dow", "epoch"];
const TIME_PATTERNS: [&str; 4] = ["'YYYY-MM'", "'FMMonth YY'", "'IYYY-IW HH24'", "'Dy DD.MM.'"];
/// Expressions that compute a date from a date, some of them with the session's time zone.
const DATES: [&str; 7] = [
    "({} + interval '1 month')::date",
    "({}::timestamptz - interval '1 month 1 day')::date",
    "date_trunc('month', {})::date",
    "date_trunc('week', {}::timestamp)::date",
    "date_trunc('day', {}::timestamptz + interval '90 minutes', 'America/New_York')::date",
    "({} AT TIME ZONE 'Asia/Tokyo')::date",
    "({}::timestamp AT TIME ZONE 'Pacific/Auckland')::date",
];
/// Conditions on dates. None of them raises an error, even for dates that are infinite or out of the range of
/// timestamps.
const DATE_CONDITIONS: [&str; 7] = [
    "(CASE WHEN {} > '1990-01-01' AND {} < '2100-01-01' THEN date_trunc('month', {}) = '2023-03-01' END)",
    "(CASE WHEN {} > '1990-01-01' AND {} < '2100-01-01' THEN date_trunc('quarter', {}::timestamp) < '2023-07-01' END)",
    "({} < timestamptz '2023-06-01 22:30+00')",
    "({} >= timestamp '2023-06-01 00:00:01')",
    "(CASE WHEN {} > '1990-01-01' AND {} < '2100-01-01'
      THEN {}::timestamp - timestamp '2023-03-01 12:00' > interval '3 months' END)",
    "(CASE WHEN {} > '1990-01-01' AND {} < '2100-01-01'
      THEN extract(epoch from {}::timestamptz - timestamptz '2023-03-01 12:00+00') < 0 END)",
    "(isfinite({}))",
];
/// Expressions of intervals of whole days, so that equal values are shown in the same form.
const INTERVALS: [&str; 5] =
    ["({} + interval '2 hours')", "({} * 2)", "({} / 4)", "(- {})", "(interval '9 days' - {})"];
const DOCUMENT_CONDITIONS: [&str; 6] = [
    "({} IS NULL)",
    "({} IS NOT NULL)",
    "({} ->> 'a' = '1')",
    "({} ? 'b')",
    "(jsonb_typeof({} -> 'a') = 'number')",
    "(({} ->> 'a')::integer < 3)",
];
const EXPRESSIONS: [&str; 10] = [
    "'^a'",
    "'[a-c][0-9]+$'",
    "'(a|b)1'",
    "'\\d'",
    "'^.{2}$'",
    "'[[:alpha:]]{2}'",
    "'x|^$'",
    "'\\s$'",
    "'É'",
    "'(?i)A1'",
];
const POWERS: [&str; 4] = ["sqrt(abs({}))", "round(ln(abs({}) + 1), 4)", "power({}, 2)", "log(2, abs({}) + 2)"];
const PLACES: [&str; 7] = ["0", "1", "2", "3", "-1", "-2", "40"];
const PIECES: [&str; 7] = ["'a'", "'1'", "'ab'", "' '", "''", "'é'", "'a1'"];

/// An expression that computes a text from the texts `name` and `other`.
fn text_made_of(dice: &mut Dice, name: &str, other: &str) -> String {
    let (place, piece) = (dice.pick(&PLACES), dice.pick(&PIECES));
    match dice.below(22) {
        0 => format!("substring({name} from {place})"),
        1 => format!("substring({name} from {place} for {})", dice.pick(&["0", "1", "2", "30"])),
        2 => format!("substr({name}, {place}, 2)"),
        3 => format!("left({name}, {place})"),
        4 => format!("right({name}, {place})"),
        5 | 14..=20 => format!("({name} || {piece})"),
        6 => format!("replace({name}, {piece}, {})", dice.pick(&PIECES)),
        7 => format!("{}({name}, {piece})", dice.pick(&["btrim", "ltrim", "rtrim"])),
        8 => format!("{}({name}, {}, {})", dice.pick(&["lpad", "rpad"]), dice.pick(&PLACES), dice.pick(&PIECES)),
        9 => format!("reverse({name})"),
        10 => format!("split_part({name}, {piece}, {})", dice.pick(&["1", "2", "-1"])),
        11 => format!("{}({name} COLLATE \"C\")", dice.pick(&["upper", "lower"])),
        12 => format!("repeat({name}, {})", dice.pick(&["0", "1", "2"])),
        _ => format!("({name} || {other})"),
    }
}

fn number_of_text(dice: &mut Dice, name: &str) -> String {
    match dice.below(4) {
        0 => format!("length({name})"),
        1 => format!("char_length({name})"),
        2 => format!("position({} in {name})", dice.pick(&PIECES)),
        _ => format!("strpos({name}, {})", dice.pick(&PIECES)),
    }
}

fn text_condition(dice: &mut Dice, name: &str) -> String {
    let patterns = [
        "'a%'",
        "'%1'",
        "'%1%'",
        "'_1'",
        "'__'",
        "'%'",
        "''",
        "'a\\%'",
        "'%a%1%'",
        "'a1'",
        "'%_'",
        "'pad%'",
        "'long%9_'",
    ];
    let pattern = dice.pick(&patterns);
    match dice.below(8) {
        5 => format!("({name} {} {})", dice.pick(&["~", "!~", "~*", "!~*"]), dice.pick(&EXPRESSIONS)),
        6 | 7 => format!("({name} {} {})", dice.pick(&["ILIKE", "NOT ILIKE"]), pattern.to_uppercase()),
        0 => format!("({name} NOT LIKE {pattern})"),
        1 => format!("starts_with({name}, {})", dice.pick(&PIECES)),
        2 => format!("(left({name}, 1) = {})", dice.pick(&PIECES)),
        _ => format!("({name} LIKE {pattern})"),
    }
}

/// An expression that is computed from a grouped expression. PostgreSQL's planner simplifies some of the results to the
/// grouped expression itself, or to its negation.
pub fn form_of(dice: &mut Dice, keys: &[Expression]) -> String {
    let key = dice.pick(keys);
    let k = &key.sql;
    let forms: &[&str] = match key.kind {
        Kind::Bool => &[
            "NOT ({})",
            "({}) = false",
            "({}) = true",
            "({}) <> true",
            "({}) IS TRUE",
            "({}) IS NOT FALSE",
            "({}) IS NULL",
            "NOT (NOT ({}))",
            "CASE WHEN {} THEN 'yes' WHEN NOT ({}) THEN 'no' ELSE 'unknown' END",
            "CASE WHEN NOT ({}) THEN 1 ELSE 0 END",
            "coalesce({}, false)",
            "({})::integer",
            "NOT ({}) AND ({})",
            "true OR ({})",
        ],
        Kind::Integer => &[
            "{} + 1",
            "- ({})",
            "({}) * 2 - ({})",
            "({}) IS NULL",
            "({}) < 5",
            "NOT (({}) < 5)",
            "({}) IN (1, 2)",
            "CASE WHEN NOT (({}) IN (1, 2)) THEN 'other' ELSE 'few' END",
            "CASE {} WHEN 1 THEN 'one' WHEN 2 THEN 'two' END",
            "coalesce({}, 0)",
            "({})::text",
            "({})::numeric / 3",
        ],
        Kind::Numeric => &[
            "{} + 1",
            "- ({})",
            "({}) < 5",
            "NOT (({}) >= 5)",
            "round({}, 1)",
            "({}) IS NOT NULL",
            "({})::text",
            "CASE WHEN {} > 0 THEN 'plus' ELSE 'minus' END",
        ],
        Kind::Date => &[
            "({})::text",
            "({}) IS NULL",
            "({}) > '2023-06-01'",
            "NOT (({}) > '2023-06-01')",
            "extract(year FROM {})",
            "date_trunc('month', {}) IS NULL",
            "coalesce({}, '2000-01-01')",
        ],
        Kind::Interval => &[
            "({})::text",
            "({}) IS NULL",
            "({}) + interval '1 hour'",
            "extract(epoch FROM {})",
            "coalesce({}, '0')",
            "NOT (({}) > '2 days')",
        ],
        Kind::Document => &["({})::text", "({}) IS NULL", "({}) -> 'a'", "(({}) ->> 'a')::integer", "jsonb_typeof({})"],
        Kind::Uuid | Kind::Enum => &["({})::text", "({}) IS NULL", "({}) = ({})", "nullif({}, {})"],
        Kind::Text => &[
            "upper({})",
            "length({})",
            "{} || 'x'",
            "({}) IS NULL",
            "({}) = 'a1'",
            "NOT (({}) = 'a1')",
            "({}) LIKE '%1%'",
            "coalesce({}, 'none')",
        ],
    };
    if dice.chance(3) { k.clone() } else { format!("({})", dice.pick(forms).replace("{}", k)) }
}

/// A condition on the grouped expressions, or on parts of them.
pub fn condition_on(dice: &mut Dice, keys: &[Expression]) -> String {
    let key = dice.pick(keys);
    let k = &key.sql;
    let one = match key.kind {
        Kind::Bool => dice.pick(&[
            "({})",
            "(NOT ({}))",
            "(({}) = false)",
            "(({}) IS NOT TRUE)",
            "(({}) IS NULL)",
            "(({}) <> true)",
        ]),
        Kind::Integer => dice.pick(&["(({}) < 5)", "(NOT (({}) < 5))", "(({}) NOT IN (1, 2))", "(({}) = 1)"]),
        Kind::Numeric => dice.pick(&["(({}) > 1.5)", "(NOT (({}) > 1.5))", "(({}) IS NULL)"]),
        Kind::Date => dice.pick(&["(({}) >= '2023-03-01')", "(NOT (({}) >= '2023-03-01'))"]),
        Kind::Interval => dice.pick(&["(({}) > '2 days')", "(NOT (({}) > '2 days'))", "(({}) IS NULL)"]),
        Kind::Document => dice.pick(&["(({}) IS NULL)", "(({}) IS NOT NULL)"]),
        Kind::Uuid | Kind::Enum => dice.pick(&["(({}) IS NULL)", "(({}) = ({}))"]),
        Kind::Text => dice.pick(&["(({}) = 'a1')", "(NOT (({}) <> 'a1'))", "(({}) IN ('a1', 'b2'))"]),
    }
    .replace("{}", k);
    if dice.chance(3) {
        // If the left operand of an AND is an AND itself, the parser merges both into one list. If a group key is an
        // AND, PostgreSQL would then no longer find the key in the condition. IS TRUE prevents the merging.
        let other = condition_on(dice, keys);
        return format!("({one} IS TRUE {} {other})", dice.pick(&["AND", "OR", "AND NOT"]));
    }
    one
}
