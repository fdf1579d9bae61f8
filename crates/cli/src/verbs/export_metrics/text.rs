//! The text format of Prometheus.
//!
//! Source: prometheus.io, "Exposition formats", version 0.0.4.

use std::fmt::{Display, Write};

use numapilot_cli_kit::terminal::printable_lines;

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics, family by family.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// Name and description of the family, until its first sample is written: a family without a
    /// sample is left out.
    pending: Option<(&'static str, &'static str)>,
    name: &'static str,
    kind: &'static str,
}

impl Exposition {
    /// Begins a family of gauges. All of its samples follow.
    pub fn gauge(&mut self, name: &'static str, help: &'static str) {
        self.begin(name, help, "gauge");
    }

    /// Begins a family of counters: sums that only grow, until their process ends.
    pub fn counter(&mut self, name: &'static str, help: &'static str) {
        self.begin(name, help, "counter");
    }

    fn begin(&mut self, name: &'static str, help: &'static str, kind: &'static str) {
        self.pending = Some((name, help));
        (self.name, self.kind) = (name, kind);
    }

    /// Adds a sample to the family.
    pub fn sample(&mut self, labels: &[(&str, &dyn Display)], value: f64) {
        if let Some((name, help)) = self.pending.take() {
            self.line(format_args!("# HELP {name} {}", escaped(help, false)));
            let kind = self.kind;
            self.line(format_args!("# TYPE {name} {kind}"));
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(&value.to_string(), true)))
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let name = self.name;
        self.line(format_args!("{name}{labels} {value}"));
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Escapes a backslash and a line feed, and in the value of a label also the quote. Other control
/// characters, which any user can put into the name of a process, are written as text.
fn escaped(text: &str, is_label: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable_lines(text).chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '"' if is_label => escaped.push_str("\\\""),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_steer_a_terminal() {
        let mut text = Exposition::default();
        text.gauge("a", "A.");
        text.sample(&[("command", &"\x1b]0;x\x07")], 1.0);
        assert!(text.finish().ends_with("a{command=\"\\\\x1b]0;x\\\\x07\"} 1\n"));
    }

    #[test]
    fn families_have_their_lines_and_values_are_whole() {
        let mut text = Exposition::default();
        text.gauge("a_bytes", "Bytes of\n\"a\" \\.");
        text.sample(&[("node", &0), ("command", &"a \"b\"\\\nc")], (1_u64 << 40) as f64);
        text.sample(&[], 0.25);
        text.gauge("none", "Without a sample.");
        text.counter("b_total", "B.");
        text.sample(&[], 1.0);
        assert_eq!(
            text.finish(),
            "# HELP a_bytes Bytes of\\n\"a\" \\\\.\n# TYPE a_bytes gauge\n\
             a_bytes{node=\"0\",command=\"a \\\"b\\\"\\\\\\nc\"} 1099511627776\n\
             a_bytes 0.25\n# HELP b_total B.\n# TYPE b_total counter\nb_total 1\n"
        );
    }
}
