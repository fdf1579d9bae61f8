//! Characters that a terminal obeys instead of showing them. Names of processes, files and variables
//! can contain them, and output without colours is stripped of escape sequences.

/// Whether a character is a control character or changes the writing direction.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_direction || c.is_control()
}

/// JSON in which such characters are escaped, also those that JSON permits in a string. The line feeds
/// between its values stay.
#[must_use]
pub fn visible_json(json: &str) -> String {
    let mut visible = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            c if is_obeyed(c) && c != '\n' => visible += &format!("\\u{:04x}", u32::from(c)),
            c => visible.push(c),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({"a": ["\u{7f}\u{9b}\u{202e}\x1b\n\t\u{e4}", 1]});
        let json = visible_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!json.contains(|c| is_obeyed(c) && c != '\n'), "{json:?}");
        assert!(json.contains("\\u007f\\u009b\\u202e\\u001b\\n\\t\u{e4}"), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }
}
