//! The end of what a failed run has printed.

/// Most lines that are kept of the output of a failed run.
pub(super) const LINES: usize = 15;
/// Most bytes that are kept of them.
const BYTES: usize = 4096;

/// The last lines of the output.
pub(super) fn tail(text: &str) -> String {
    let mut start = text.len().saturating_sub(BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let lines: Vec<&str> = text[start..].lines().map(last_state).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// What a terminal would show of a line that was overwritten, as progress is.
fn last_state(line: &str) -> &str {
    line.rsplit('\r').map(str::trim_end).find(|state| !state.is_empty()).unwrap_or_default()
}

/// The end of the output, for an error message.
#[must_use]
pub fn end_of_output(tail: &str) -> String {
    match tail {
        "" => "It printed nothing.".to_owned(),
        tail => format!("The end of its output:\n{tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_shown_in_its_last_state() {
        assert_eq!(tail("a\n10 %\r50 %\r   \r100 %\r\n\n b\n"), "a\n100 %\n\n b");
        let long: String = (0..20).map(|line| format!("{line}\n")).collect();
        assert!(tail(&long).starts_with("5\n") && tail(&long).ends_with("\n19"));
    }
}
