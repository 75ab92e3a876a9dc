//! Makes random expressions that convert between values and texts, or use patterns.

use super::*;

impl Generator<'_> {
    /// A value of this type that is read from a text. If the type is text, it is the text of a value.
    pub(super) fn converted(&mut self, ty: Type, depth: u32) -> Option<Expr> {
        let function = match ty {
            Type::Text if self.chance(0.3) => return Some(self.changed(depth)),
            Type::Text => {
                let of = [Bool, Time, Uuid, Date, Timestamp, TimestampTz, Interval, Float32, Float64];
                use Type::*;
                let of = *of.choose(self.rng).unwrap();
                return Some(self.written(of, depth));
            }
            Type::Bool => Named::ToBool,
            Type::Int16 => Named::ToInt16,
            Type::Int32 => Named::ToInt32,
            Type::Int64 => Named::ToInt64,
            Type::Float64 => Named::ToFloat,
            Type::Numeric => {
                let of = *[Type::Float32, Type::Float64, Type::Numeric].choose(self.rng).unwrap();
                let arg = if of == Type::Numeric { self.read_from(of, depth) } else { self.expr(of, depth) };
                return Some(call(Named::ToNumeric, ty, vec![arg]));
            }
            Type::Date => Named::ReadDate,
            Type::Timestamp => Named::ReadTimestamp,
            Type::TimestampTz => Named::ReadTimestampIn,
            Type::Uuid => Named::ReadUuid,
            _ => return None,
        };
        let mut args = vec![self.read_from(ty, depth)];
        if function.takes_zone() {
            args.push(self.zone());
        }
        Some(call(function, ty, args))
    }

    /// A value of the type that is read from a text. The text may be invalid.
    fn read_from(&mut self, ty: Type, depth: u32) -> Expr {
        let said: &[&str] = match ty {
            Type::Bool => &["t", "off", "true", " on ", "maybe", ""],
            Type::Int16 | Type::Int32 | Type::Int64 => &["0", " 12 ", "-7", "40000", "3000000000", "1.5", "x"],
            Type::Float64 => &["1e3", "-0.5", "Infinity", "NaN", "abc", ""],
            Type::Numeric => &["1.50", "-0.007", "1e5", "NaN", "12345678901234567890123456789012345678901.5", "?"],
            Type::Uuid => &["00000000-0000-0000-0000-0000000000ff", "12345678-1234-1234-1234-1234567890AB", "x"],
            _ => &["2023-02-28", "1999-12-31 23:59:59.5", "2024-02-29 00:00:00", "2023-02-29", "today", "0001-01-01"],
        };
        // Texts of these types have a zone, or may be infinite, and the reference functions do not read such texts.
        let is_shown = !matches!(ty, Type::TimestampTz | Type::Timestamp | Type::Date);
        if is_shown && self.chance(0.5) {
            return self.written(ty, depth);
        }
        Expr::Literal { ty: Type::Text, value: Some(Literal::Text(said.choose(self.rng).unwrap().to_string())) }
    }

    fn written(&mut self, ty: Type, depth: u32) -> Expr {
        let constant = |text: &str| Expr::Literal { ty: Type::Text, value: Some(Literal::Text(text.into())) };
        let mut args = vec![self.expr(ty, depth)];
        let odd = self.chance(0.02);
        let (function, style) = match ty {
            Type::Date | Type::Timestamp => (Named::ToTextBy, Some(if odd { "SQL, DMY" } else { "ISO, MDY" })),
            Type::TimestampTz => (Named::ToTextIn, Some(if odd { "German" } else { "ISO, DMY" })),
            Type::Interval => (Named::ToTextBy, Some(if odd { "postgres_verbose" } else { "postgres" })),
            Type::Float32 | Type::Float64 => (Named::ToTextBy, Some(if odd { "0" } else { "1" })),
            _ => (Named::ToText, None),
        };
        args.extend(style.map(constant));
        if function.takes_zone() {
            args.push(self.zone());
        }
        call(function, Type::Text, args)
    }

    fn changed(&mut self, depth: u32) -> Expr {
        let text = |this: &mut Self| this.expr(Type::Text, depth);
        match self.rng.random_range(0..6) {
            4 | 5 => {
                let expressions = ["a*", "a|ab", "b$", "^.", "[^a](a*)", "(a+)b", "x?", "日"];
                let constant = |text: &str| Expr::Literal { ty: Type::Text, value: Some(Literal::Text(text.into())) };
                let functions = [Named::MatchedPart, Named::ReplacedMatch, Named::ReplacedMatches];
                let function = *functions.choose(self.rng).unwrap();
                let mut args = vec![text(self), constant(expressions.choose(self.rng).unwrap())];
                if function != Named::MatchedPart {
                    args.push(constant(["-", "", "aé"].choose(self.rng).unwrap()));
                }
                args.push(constant(""));
                call(function, Type::Text, args)
            }
            0 => call(Named::Initcap, Type::Text, vec![text(self)]),
            1 => {
                let code = *[65, 228, 0x1f980, 0, -1, 0xd800].choose(self.rng).unwrap();
                let code = if self.mood == Mood::Wild { code } else { code.clamp(1, 300) };
                let code = Expr::Literal { ty: Type::Int32, value: Some(Literal::Int(code)) };
                call(Named::Chr, Type::Text, vec![code])
            }
            _ => call(Named::Translate, Type::Text, vec![text(self), text(self), text(self)]),
        }
    }

    /// A random test whether a text matches a regular expression.
    pub(super) fn matched(&mut self, depth: u32) -> Expr {
        let expressions = [
            "",
            "a|b",
            "^a",
            "^[a-c]+$",
            "(a|ab)(b|$)",
            "[[:alpha:]]{2,3}",
            "\\d",
            "\\s\\w?",
            "^.*g.{3}",
            "[^a-z ]",
            "^(a %?)*b",
            "日.?",
            "string|\\\\",
            "x{0,2}$",
            "(?i)B",
            "[[:upper:]_%]",
        ];
        let constant = |text: &str| Expr::Literal { ty: Type::Text, value: Some(Literal::Text(text.into())) };
        let expression = constant(expressions.choose(self.rng).unwrap());
        let function = *[Named::Matches, Named::MatchesAnyCase].choose(self.rng).unwrap();
        let letters = constant(if self.chance(0.5) { "" } else { "database:" });
        call(function, Type::Bool, vec![self.expr(Type::Text, depth), expression, letters])
    }
}
