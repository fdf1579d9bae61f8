//! The tokens of Rust source: identifiers, `::` and other punctuation. Comments, literals and
//! numbers are left out.

/// The tokens of a text.
#[must_use]
pub fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let bytes = skipped(rest);
        if bytes > 0 {
            rest = &rest[bytes..];
            continue;
        }
        let length = if is_in_name(first) {
            rest.find(|c| !is_in_name(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let token = &rest[..length];
        if !first.is_whitespace() && !first.is_ascii_digit() {
            found.push(token);
        }
        rest = &rest[length..];
    }
    found
}

/// The tokens before a file's module of unit tests.
#[must_use]
pub fn without_tests<'a, 't>(tokens: &'a [&'t str]) -> &'a [&'t str] {
    const TESTS: [&str; 10] = ["#", "[", "cfg", "(", "test", ")", "]", "mod", "tests", "{"];
    let at = tokens.windows(TESTS.len()).position(|some| some == TESTS);
    &tokens[..at.unwrap_or(tokens.len())]
}

/// Whether a token is an identifier or a keyword.
#[must_use]
pub fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| is_in_name(c) && !c.is_ascii_digit())
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment or literal that `rest` starts with.
fn skipped(rest: &str) -> usize {
    let until = |end: &str, from: usize| {
        rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len())
    };
    if rest.starts_with("//") {
        return until("\n", 2);
    }
    if rest.starts_with("/*") {
        return until("*/", 2);
    }
    // A raw string starts with r, br or cr; a plain one may start with b or c.
    let letters = rest.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(rest.len());
    let signs = rest[letters..].find(|c| c != '#').unwrap_or(0);
    let (prefix, quoted) = (&rest[..letters], &rest[letters + signs..]);
    if letters <= 2 && quoted.starts_with('"') {
        if prefix.ends_with('r') {
            return until(&format!("\"{}", "#".repeat(signs)), letters + signs + 1);
        }
        if signs == 0 && letters < 2 {
            return letters + escaped(quoted, '"');
        }
    }
    if let Some(after) = rest.strip_prefix('\'') {
        // 'a' is a character, 'a without a closing quote is a lifetime.
        let mut chars = after.chars();
        let is_character = chars.next() == Some('\\') || chars.next() == Some('\'');
        return if is_character { escaped(rest, '\'') } else { 1 };
    }
    0
}

/// The length of a quoted text with escapes, including both quotes.
fn escaped(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_numbers_are_left_out() {
        for (text, expected) in [
            ("use a::b_c; // d", vec!["use", "a", "::", "b_c", ";"]),
            ("/* a */ b /// c\nd", vec!["b", "d"]),
            (
                "f(\"a \\\" b\", 'c', '\\'', b\"d\", r#\"e\"f\"#)",
                vec!["f", "(", ",", ",", ",", ",", ")"],
            ),
            ("&'a str 12 0x1f", vec!["&", "a", "str"]),
            ("crate::r#mod brc", vec!["crate", "::", "r", "#", "mod", "brc"]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn unit_tests_are_cut_off() {
        let all = tokens("fn f() {}\n#[cfg(test)]\nmod tests {\n    use a;\n}\n");
        assert_eq!(without_tests(&all), ["fn", "f", "(", ")", "{", "}"]);
    }
}
