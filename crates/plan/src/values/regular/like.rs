//! Regular expressions that are equivalent to a pattern of LIKE.

/// The LIKE pattern that matches the same texts as a regular expression. It exists if the expression consists of plain
/// characters, `.` and `.*`, with or without anchors at its ends; `None` otherwise.
pub fn as_like(expression: &str) -> Option<String> {
    let (at_start, rest) = match expression.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, expression),
    };
    let (at_end, rest) = match rest.strip_suffix('$') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let mut like = String::from(if at_start { "" } else { "%" });
    let mut characters = rest.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '.' if characters.next_if_eq(&'*').is_some() => {
                like.push('%');
                // A further quantifier after `.*` has another meaning, or is an error.
                if characters.peek().is_some_and(|next| "?*+{".contains(*next)) {
                    return None;
                }
            }
            '.' => like.push('_'),
            '_' | '%' => like.extend(['\\', character]),
            _ if is_plain(character) => like.push(character),
            _ => return None,
        }
    }
    like.push_str(if at_end { "" } else { "%" });
    Some(like)
}

fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || " -@#,;:/=<>!~\"'&".contains(character)
}

#[cfg(test)]
mod tests {
    use super::as_like;

    #[test]
    fn what_a_pattern_says_too() {
        for (expression, like) in [
            ("", "%%"),
            ("^", "%"),
            ("^$", ""),
            ("abc", "%abc%"),
            ("^a b$", "a b"),
            ("^a.*b", "a%b%"),
            ("a.c_%$", "%a_c\\_\\%"),
        ] {
            assert_eq!(as_like(expression).as_deref(), Some(like), "{expression}");
        }
        for more in ["a*", "a?", "^^", "a$b", "$$", "[a]", "a|b", "(a)", "\\d", "a{2}", ".*?", ".+", "***=a", "a\\$"] {
            assert_eq!(as_like(more), None, "{more}");
        }
    }
}
