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
    let lines: Vec<&str> = text[start..].lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The end of the output, for an error message.
#[must_use]
pub fn end_of_output(tail: &str) -> String {
    match tail {
        "" => "It printed nothing.".to_owned(),
        tail => format!("The end of its output:\n{tail}"),
    }
}
