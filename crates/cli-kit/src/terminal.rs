//! Terminal output for all verbs: colours, tables, units, errors.
//!
//! Colours follow `--color`, then NO_COLOR and CLICOLOR_FORCE, then whether the stream is a
//! terminal (anstream's rules). Standard output carries results only; all other messages go to
//! standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use numapilot_place::{is_obeyed, visible_json};

use crate::file;

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Headings.
pub const BOLD: Style = Style::new().bold();
/// Less important text.
pub const DIM: Style = Style::new().dimmed();
/// Works, won, improved.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Works in part, undecided.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Fails, lost, got worse.
pub const BAD: Style = AnsiColor::Red.on_default();

/// The streams of this process.
#[derive(Clone, Copy, Debug)]
pub struct Terminal(());

impl Terminal {
    /// Fixes the colour choice for both streams.
    pub fn new(color: ColorChoice) -> Self {
        match color {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
        .write_global();
        Self(())
    }

    /// Standard output; escape codes are removed if they are not wanted. Its errors name it.
    pub fn out(&self) -> impl Write + use<> {
        Stream { to: anstream::stdout().lock(), name: "standard output" }
    }

    /// Standard error, likewise.
    pub fn err(&self) -> impl Write + use<> {
        Stream { to: anstream::stderr().lock(), name: "standard error" }
    }

    /// Whether progress may be drawn.
    pub fn is_interactive(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// Columns of standard output; 80 when it is not a terminal.
    pub fn width(&self) -> usize {
        terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| width.0.into())
    }

    /// Prints a message on standard error.
    pub fn say(&self, message: impl Display) {
        // A closed stderr must not end the run.
        let _ = writeln!(self.err(), "numapilot: {}", one_message(&message.to_string()));
    }

    /// Prints a warning, which stops nothing.
    pub fn warn(&self, message: impl Display) {
        // A closed stderr must not end the run.
        let _ = writeln!(
            self.err(),
            "numapilot: {WARN}warning:{WARN:#} {}",
            one_message(&message.to_string())
        );
    }

    /// Prints an error with its causes.
    pub fn error(&self, error: &anyhow::Error) {
        // A failure to write to stderr cannot be reported.
        let _ = writeln!(
            self.err(),
            "numapilot: {BAD}error:{BAD:#} {}",
            one_message(&format!("{error:#}"))
        );
    }

    /// Writes one JSON value and a newline.
    ///
    /// # Errors
    /// Fails if standard output cannot be written.
    pub fn json(&self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut out = self.out();
        writeln!(out, "{}", visible_json(&serde_json::to_string_pretty(value)?))?;
        Ok(())
    }
}

/// A stream whose errors say what could not be written. They keep their kind: a reader that went away
/// is not a failure.
struct Stream<W> {
    to: W,
    name: &'static str,
}

impl<W> Stream<W> {
    fn named(&self, error: io::Error) -> io::Error {
        let name = self.name;
        let message = match error.kind() {
            // `write_all` tries again.
            ErrorKind::Interrupted => return error,
            kind if file::is_full(kind) => {
                format!("cannot write {name}: {error}; {}", file::FREE_SPACE)
            }
            _ => format!("cannot write {name}: {error}"),
        };
        io::Error::new(error.kind(), message)
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes).map_err(|error| self.named(error))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush().map_err(|error| self.named(error))
    }
}

/// Makes text from elsewhere (names of processes, files, hosts, models) printable. Control
/// characters, which would steer the terminal or break a line, are written as `\x1b`, and so are
/// characters that change the writing direction.
pub fn printable(text: &str) -> String {
    shown(text, |_| false)
}

/// The same for text that has several lines.
pub fn printable_lines(text: &str) -> String {
    shown(text, |character| matches!(character, '\n' | '\t'))
}

/// The same for a message. Its lines but the first (what a program has printed, a name with a line
/// feed) are indented: none of them looks like a message of its own.
fn one_message(text: &str) -> String {
    printable_lines(text).replace('\n', "\n  ")
}

fn shown(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            c if is_kept(c) => shown.push(c),
            c if c.is_control() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_obeyed(c) => shown.push_str(&c.escape_unicode().to_string()),
            c => shown.push(c),
        }
    }
    shown
}

/// Whether the reader of the output went away, which is not an error.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
            || cause
                .downcast_ref::<serde_json::Error>()
                .is_some_and(|e| e.io_error_kind() == Some(io::ErrorKind::BrokenPipe))
    })
}

/// An aligned table without lines; the columns in `right` are aligned to the right.
pub fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    for &column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The text of a table without spaces at the ends of its lines.
pub fn trimmed(table: &impl ToString) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Wraps a text into lines of at most `width` characters, the first after `first` and the others
/// after `next`. A longer word has its own line. Ends with a newline.
pub fn wrap(text: &str, width: usize, first: &str, next: &str) -> String {
    let count = |text: &str| text.chars().count();
    let mut out = first.to_owned();
    let mut column = count(first);
    let mut begins = true;
    for word in text.split(' ') {
        if !begins && column + 1 + count(word) > width {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out += next;
            column = count(next);
            begins = true;
        }
        if !begins {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += count(word);
        // Spaces at the beginning of a line belong to the end of the one before.
        begins &= word.is_empty();
    }
    out.push('\n');
    out
}

/// The remaining time of a long job: `12 s`, `3 min`, `1.5 h`.
pub fn left_time(s: f64) -> String {
    match s {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// `1 node`, `2 nodes`.
pub fn plural(n: impl TryInto<u64>, what: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Bytes in binary units with three significant digits: `1.50 GiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = n as f64;
    let mut unit = 0;
    // 999.5 is the first value that three significant digits would round up to 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{n} B");
    }
    format!("{value:.*} {}", three_digits(value), UNITS[unit])
}

/// Seconds in the most readable unit: `1.23 s`, `45.6 ms`, `789 ns`.
pub fn seconds(s: f64) -> String {
    let (value, unit) = match s {
        s if s >= 0.9995 || s == 0.0 => (s, "s"),
        s if s >= 0.999_5e-3 => (s * 1e3, "ms"),
        s if s >= 0.999_5e-6 => (s * 1e6, "µs"),
        s => (s * 1e9, "ns"),
    };
    format!("{value:.*} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> usize {
    match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_steers_nothing() {
        assert_eq!(printable("a\x1b[2J\n\u{9b}b"), r"a\x1b[2J\x0a\x9bb");
        assert_eq!(printable("\u{202e}ä µ"), "\\u{202e}ä µ");
        assert_eq!(printable_lines("one\n\ttwo\r\x1b"), "one\n\ttwo\\x0d\\x1b");
        assert_eq!(one_message("a\nb:\x1b\n  c"), "a\n  b:\\x1b\n    c");
    }

    #[test]
    fn bytes_keep_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1023), "1.00 KiB");
        assert_eq!(bytes(1536 << 20), "1.50 GiB");
        assert_eq!(bytes(96 << 10), "96.0 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn seconds_pick_a_unit() {
        assert_eq!(seconds(0.0), "0.00 s");
        assert_eq!(seconds(1.234), "1.23 s");
        assert_eq!(seconds(0.0456), "45.6 ms");
        assert_eq!(seconds(123e-6), "123 µs");
        assert_eq!(seconds(5e-9), "5.00 ns");
    }

    #[test]
    fn wrapped_text_fits() {
        let text = wrap(&"wörd ".repeat(50), 80, " ", "   ");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("   wörd")), "{text}");
        assert_eq!(wrap(&"x".repeat(200), 80, " ", "   ").lines().count(), 1);
        assert_eq!(wrap("one  two", 3, "", ""), "one\ntwo\n");
    }
}
