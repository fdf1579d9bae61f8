//! Finds the number in the group of an expression, with the text around it: a group that matches
//! only a part of a number would give a different number.
//!
//! ```text
//!  expression          output           read
//!  Latency ([0-9.]+)   Latency 1.10 ms  1.10 ms: a unit that follows belongs to the number
//!  rate ([0-9.]+)      rate 9.5 Mops/s  9.5: the word is no unit, but that of all runs
//!  v ([0-9]+)          v 1,500          refused: a part of 1,500
//!  tps = ([0-9.]+)     tps = 1.2e+03    refused: a part of 1.2e+03
//!  a,([0-9]+),         a,120,98         120: the expression says what follows the number
//! ```

use std::sync::LazyLock;

use regex::{Match, Regex};
use regex_syntax::hir::{Hir, HirKind};

use super::no_number::NoNumber;
use super::number::{Decimal, NumberError, Reading, SEPARATORS, common, plain, reading, unit_of};

/// A number of the output, and how it is written there.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The number with its unit, or with the word that follows it.
    pub text: String,
    /// The [common] part of its unit, by which numbers of different runs can be compared.
    pub common: String,
    /// The parsed number.
    pub reading: Reading,
}

/// Largest number that is read. The sum of the squares of many numbers must be finite.
const MOST: f64 = 1e100;

/// Finds the number above 0 in the first group of the last match that has one, or the last match as
/// a whole for an expression without groups.
pub fn find_number(regex: &Regex, text: &str, decimal: Option<Decimal>) -> Result<Found, NoNumber> {
    let found = matches(regex, text).last().ok_or(NoNumber::NoMatch)?;
    let number = read(regex, text, found, decimal)?;
    if number.reading.value > 0.0 {
        return Ok(number);
    }
    Err(NoNumber::NotPositive(found.as_str().to_owned()))
}

/// Finds the numbers of all matches, as [`find_number`] finds that of the last. A load that makes no
/// progress for a moment prints 0, so single numbers may be 0.
pub fn find_numbers(
    regex: &Regex,
    text: &str,
    decimal: Option<Decimal>,
) -> Result<Vec<Found>, NoNumber> {
    let numbers: Vec<Found> = matches(regex, text)
        .map(|found| read(regex, text, found, decimal))
        .collect::<Result<_, _>>()?;
    let last = numbers.last().ok_or(NoNumber::NoMatch)?;
    if numbers.iter().any(|number| number.reading.value > 0.0) {
        return Ok(numbers);
    }
    Err(NoNumber::NotPositive(last.text.clone()))
}

/// The first group of each match that has one.
fn matches<'t>(regex: &'t Regex, text: &'t str) -> impl Iterator<Item = Match<'t>> {
    let group = usize::from(regex.captures_len() > 1);
    regex.captures_iter(text).filter_map(move |captures| captures.get(group))
}

/// Reads a match as a number of at least 0.
fn read(
    regex: &Regex,
    text: &str,
    found: Match<'_>,
    decimal: Option<Decimal>,
) -> Result<Found, NoNumber> {
    let matched = found.as_str();
    let unreadable = |why| NoNumber::Unreadable { matched: matched.to_owned(), why };
    let own = reading(matched, decimal);
    if own == Err(NumberError::NotANumber) {
        return Err(unreadable(NumberError::NotANumber));
    }
    let beside = Beside {
        before: &text[..found.start()],
        matched,
        after: &text[found.end()..],
        edges: Edges::of(regex),
        decimal,
    };
    if let Some(whole) = beside.whole() {
        return Err(NoNumber::Cut { matched: matched.to_owned(), group: group_for(&whole), whole });
    }
    let own = own.map_err(unreadable)?;
    let word = beside.word();
    let text = match &word {
        Some(Word { text, is_within: false }) => format!("{} {text}", matched.trim()),
        _ => matched.to_owned(),
    };
    let unit = word.as_ref().filter(|word| !word.is_within && unit_of(&word.text).is_some());
    let reading = unit.map_or(Ok(own), |_| reading(&text, decimal).map_err(unreadable))?;
    if reading.value > MOST {
        return Err(NoNumber::TooLarge(matched.to_owned()));
    }
    if reading.value >= 0.0 {
        let common = word.map(|word| common(&word.text)).unwrap_or_default();
        return Ok(Found { text, common, reading });
    }
    Err(NoNumber::NotPositive(matched.to_owned()))
}

/// What the expression itself requires of the characters around its group.
#[derive(Clone, Copy, Debug, Default)]
struct Edges {
    /// It matches something other than digits right before the group.
    before: bool,
    /// Whether that is a fixed text.
    is_fixed_before: bool,
    /// The same after the group.
    after: bool,
}

impl Edges {
    fn of(regex: &Regex) -> Self {
        let hir = regex_syntax::parse(regex.as_str()).ok();
        hir.and_then(|hir| Self::in_part(&hir)).unwrap_or_default()
    }

    fn in_part(hir: &Hir) -> Option<Self> {
        match hir.kind() {
            HirKind::Capture(capture) if capture.index == 1 => Some(Self::default()),
            HirKind::Capture(capture) => Self::in_part(&capture.sub),
            HirKind::Repetition(repetition) => Self::in_part(&repetition.sub),
            HirKind::Alternation(parts) => parts.iter().find_map(Self::in_part),
            HirKind::Concat(parts) => {
                let (at, mut edges) = parts
                    .iter()
                    .enumerate()
                    .find_map(|(at, part)| Self::in_part(part).map(|edges: Self| (at, edges)))?;
                let before = at.checked_sub(1).and_then(|at| parts.get(at));
                edges.before |= before.is_some_and(|part| is_no_digit(part, <[u8]>::last));
                edges.is_fixed_before |=
                    before.is_some_and(|part| matches!(part.kind(), HirKind::Literal(_)));
                edges.after |=
                    parts.get(at + 1).is_some_and(|part| is_no_digit(part, <[u8]>::first));
                Some(edges)
            }
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
        }
    }
}

/// Whether a part of an expression never matches a digit at this end.
fn is_no_digit(part: &Hir, end: fn(&[u8]) -> Option<&u8>) -> bool {
    match part.kind() {
        HirKind::Literal(literal) => end(&literal.0).is_some_and(|byte| !byte.is_ascii_digit()),
        HirKind::Class(class) => match class {
            regex_syntax::hir::Class::Unicode(class) => {
                class.ranges().iter().all(|range| range.end() < '0' || range.start() > '9')
            }
            regex_syntax::hir::Class::Bytes(class) => {
                class.ranges().iter().all(|range| range.end() < b'0' || range.start() > b'9')
            }
        },
        HirKind::Repetition(repetition) => is_no_digit(&repetition.sub, end),
        HirKind::Capture(capture) => is_no_digit(&capture.sub, end),
        HirKind::Empty | HirKind::Look(_) | HirKind::Concat(_) | HirKind::Alternation(_) => false,
    }
}

/// The match of the group, and the output around it.
struct Beside<'t> {
    before: &'t str,
    matched: &'t str,
    after: &'t str,
    edges: Edges,
    decimal: Option<Decimal>,
}

impl Beside<'_> {
    /// The number of which the group matched only a part; `None` if it matched all of it.
    fn whole(&self) -> Option<String> {
        let starts_with_digit = self.matched.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let ends_in_number = self.matched.ends_with(|c: char| c.is_ascii_digit() || c == '.');
        let mut whole = self.matched.to_owned();
        if ends_in_number {
            whole += &self.rest(&whole);
        }
        if starts_with_digit {
            whole = self.start(&whole) + &whole;
        }
        // The group matched a part of the unit.
        let is_letter = |c: char| c.is_alphabetic();
        if self.matched.ends_with(is_letter) && self.after.starts_with(is_letter) {
            whole.extend(self.after.chars().take_while(|c| c.is_alphabetic()));
        }
        (whole != self.matched).then_some(whole)
    }

    /// The text after the group that continues its number.
    fn rest(&self, number: &str) -> String {
        let mut rest = digits(self.after).to_owned();
        loop {
            let mut chars = self.after[rest.len()..].chars();
            let Some(separator) = chars.next().filter(|c| is_separator(*c)) else { break };
            let group = digits(chars.as_str());
            let is_fixed = self.edges.after && separator != '.';
            let longer = format!("{rest}{separator}{group}");
            if group.is_empty() || is_fixed || !self.is_number(&format!("{number}{longer}")) {
                break;
            }
            rest = longer;
        }
        let after = &self.after[rest.len()..];
        for more in [&EXPONENT, &LOWER_UNITS, &MINUTES_AFTER] {
            if let Some(found) = more.captures(after).and_then(|found| found.get(1)) {
                return rest + found.as_str();
            }
        }
        rest
    }

    /// The text before the group that belongs to its number.
    fn start(&self, number: &str) -> String {
        let mut from = self.before.len() - last_digits(self.before).len();
        while let Some(separator) = self.before[..from].chars().next_back() {
            let head = &self.before[..from - separator.len_utf8()];
            let group = last_digits(head);
            if !is_separator(separator) || group.is_empty() {
                break;
            }
            // Digits at the end of a name (`p99 300`) are not a number.
            let name = head[..head.len() - group.len()].ends_with(|c: char| c.is_alphabetic());
            let is_fixed = separator != '.' && (self.edges.before || name);
            let longer = &self.before[head.len() - group.len()..];
            if is_fixed || !self.is_number(&format!("{longer}{number}")) {
                break;
            }
            from = head.len() - group.len();
        }
        let head = &self.before[..from];
        let is_time = TIME.is_match(self.after);
        let is_of_two = last_digits(&number[..number.find('.').unwrap_or(number.len())]).len() == 2;
        for (more, applies) in
            [(&MANTISSA, true), (&HIGHER_UNITS, is_time), (&MINUTES_BEFORE, is_of_two)]
        {
            let found = more.captures(head).and_then(|found| found.get(1)).filter(|_| applies);
            if let Some(found) = found {
                return self.before[found.start()..].to_owned();
            }
        }
        let mut chars = head.chars();
        let is_minus = chars.next_back().is_some_and(|c| plain(c) == '-');
        let is_sign = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | ')'));
        if is_minus && !self.edges.is_fixed_before && chars.next_back().is_none_or(is_sign) {
            return format!("-{}", &self.before[from..]);
        }
        self.before[from..].to_owned()
    }

    fn is_number(&self, text: &str) -> bool {
        matches!(reading(text, self.decimal), Ok(_) | Err(NumberError::Ambiguous))
    }

    /// The unit of the number, or the word in the place of one: in the group or after it, directly,
    /// after blanks or in its own brackets.
    fn word(&self) -> Option<Word> {
        let text = |word: &str| word.chars().map(plain).collect::<String>();
        if !self.matched.ends_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | ',')) {
            let own = UNIT_AT_END.captures(self.matched)?.get(1)?.as_str();
            let per = PER.find(self.after).map_or("", |per| per.as_str());
            return Some(Word { text: text(&format!("{own}{per}")), is_within: true });
        }
        let found = WORD.captures(self.after)?;
        let (all, bracket, word) = (found.get(0)?, found.get(1)?, found.get(2)?.as_str());
        let rest = &self.after[all.end()..];
        let is_label = rest.starts_with(['=', ':'])
            // `avg 3.2 min 1.1`.
            || word == "min" && rest.trim_start_matches([' ', '=']).starts_with(|c: char| c.is_ascii_digit());
        let is_longer = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        // `950.5 (including 3 ms)`.
        let is_remark = !bracket.is_empty() && !rest.starts_with([')', ']']);
        let is_long = word.chars().count() > LONGEST_UNIT;
        let is_unit = !is_label && !is_longer && !is_remark && !is_long;
        is_unit.then(|| Word { text: text(word), is_within: false })
    }
}

/// Most letters of a word that may be a unit.
const LONGEST_UNIT: usize = 12;

/// A unit, or a word in its place.
struct Word {
    text: String,
    /// Whether it is in the group.
    is_within: bool,
}

/// Defines a regular expression.
macro_rules! pattern {
    ($name:ident, $text:literal) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("a correct expression"));
    };
}

pattern!(
    WORD,
    r"^(?:\x1b\[[0-9;]*m|[ \t\u{a0}\u{2009}\u{202f}])*([(\[]?)((?:%|\p{L}+)(?:/\p{L}+)*|(?:/\p{L}+)+)"
);
pattern!(UNIT_AT_END, r"((?:%|\p{L}+)(?:/\p{L}+)*)$");
pattern!(PER, r"^/\p{L}+");
pattern!(EXPONENT, r"^([eE][-+\u{2212}]?[0-9]+)");
pattern!(MANTISSA, r"([0-9][0-9.,]*[eE][-+\u{2212}]?)$");
// `1m30s`, `3 min 20 s`, `1:02.5`: a nonzero amount of a unit above seconds.
pattern!(TIME, r"^ ?(?:m|min|s|sec)(?:[^A-Za-z0-9]|$)");
pattern!(
    LOWER_UNITS,
    r"^( ?(?:d|h|m|min) ?[0-9]+(?:[.,][0-9]+)? ?(?:h|m|min|s|sec))(?:[^A-Za-z]|$)"
);
pattern!(HIGHER_UNITS, r"(?:^|[^0-9A-Za-z.,])([0-9]*[1-9][0-9]* ?(?:d|h|m|min) ?)$");
pattern!(MINUTES_AFTER, r"^(:[0-9]{2})(?:[^0-9]|$)");
pattern!(MINUTES_BEFORE, r"(?:^|[^0-9A-Za-z.,])((?:[0-9]+:)?[0-9]*[1-9][0-9]*:)$");

fn is_separator(c: char) -> bool {
    SEPARATORS.contains(&plain(c))
}

/// The digits that a text begins with.
fn digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

/// The digits that a text ends with.
fn last_digits(text: &str) -> &str {
    let from = text.rfind(|c: char| !c.is_ascii_digit());
    &text[from.map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))..]
}

/// A group that matches all of such a number; `None` if no such group can be read.
fn group_for(whole: &str) -> Option<String> {
    reading(whole, None).err().filter(|why| *why != NumberError::Ambiguous).map_or_else(
        || {
            let mut class = "0-9".to_owned();
            for c in whole.chars().filter(|c| is_separator(*c)) {
                if !class.contains(c) {
                    class.push(c);
                }
            }
            let sign = if whole.starts_with('-') { "-?" } else { "" };
            let exponent = if whole.contains(['e', 'E']) { "(?:[eE][-+]?[0-9]+)?" } else { "" };
            let unit = if whole.ends_with(char::is_alphabetic) { " ?[A-Za-z]+" } else { "" };
            Some(format!("({sign}[{class}]+{exponent}{unit})"))
        },
        |_| None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::number::Kind;

    fn found(regex: &str, text: &str) -> Result<Found, NoNumber> {
        find_number(&Regex::new(regex).unwrap(), text, None)
    }

    #[test]
    fn a_part_of_a_number_is_refused_with_a_group_that_takes_all() {
        for (regex, text, all, group) in [
            ("v ([0-9]+)", "v 1,500", "1,500", "([0-9,]+)"),
            ("v ([0-9]+)", "v 1 234 567", "1 234 567", "([0-9 ]+)"),
            ("v ([0-9]+)", "v 1'234", "1'234", "([0-9']+)"),
            ("v ([0-9]+)", "v 1\u{202f}234", "1\u{202f}234", "([0-9\u{202f}]+)"),
            ("v ([0-9]+)", "v 1e3", "1e3", "([0-9]+(?:[eE][-+]?[0-9]+)?)"),
            ("v ([0-9]+)", "v 10.5 s", "10.5", "([0-9.]+)"),
            ("v ([0-9]+)", "v 1.2M", "1.2", "([0-9.]+)"),
            ("v ([0-9]+)\\.", "v 10.5", "10.5", "([0-9.]+)"),
            ("tps = ([0-9.]+)", "tps = 1.2e+03", "1.2e+03", "([0-9.]+(?:[eE][-+]?[0-9]+)?)"),
            (r"v (\d)", "v 100", "100", "([0-9]+)"),
            (r"v.*(\d+)", "v 100", "100", "([0-9]+)"),
            (r"v.*?(\d+)$", "v 0.25", "0.25", "([0-9.]+)"),
            (r"v.*?([0-9]+)$", "v 1,500", "1,500", "([0-9,]+)"),
            (r"v.*?([0-9.]+)$", "v -1.5", "-1.5", "(-?[0-9.]+)"),
            (r"-([0-9]+)", "v 1e-05", "1e-05", "([0-9]+(?:[eE][-+]?[0-9]+)?)"),
            (r"v ([0-9]+ ?M)", "v 5 MiB", "5 MiB", "([0-9 ]+ ?[A-Za-z]+)"),
        ] {
            let Err(NoNumber::Cut { whole, group: shown, .. }) = found(regex, text) else {
                panic!("{regex} on {text}: {:?}", found(regex, text));
            };
            assert_eq!((whole.as_str(), shown.as_deref()), (all, Some(group)), "{regex} on {text}");
            let all_of_it = Regex::new(&format!("^{group}$")).unwrap();
            assert!(all_of_it.is_match(&whole), "{group} on {whole}");
        }
        // No group turns these into one number.
        for (regex, text) in [
            ("v ([0-9]+)", "v 1m30s"),
            ("m([0-9.]+)s", "real 1m1.021s"),
            ("v ([0-9]+)", "v 3 min 20 s"),
            ("[0-9]:([0-9.]+)", "Elapsed: 1:00.52"),
        ] {
            let found = found(regex, text);
            assert!(matches!(found, Err(NoNumber::Cut { group: None, .. })), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_unit_that_follows_belongs_to_the_number() {
        for (regex, text, value, kind) in [
            ("Latency ([0-9.]+)", "Latency 900.12 us", 900.12e-6, Kind::Time),
            ("Latency ([0-9.]+)", "Latency 1.10 ms", 1.1e-3, Kind::Time),
            ("Latency ([0-9.]+)", "Latency 1.10\u{b5}s", 1.1e-6, Kind::Time),
            ("v ([0-9.]+)", "v 1.2M", 1.2e6, Kind::Plain),
            ("v ([0-9.]+)", "v 3.5%, more", 0.035, Kind::Percent),
            ("v ([0-9.]+)", "v 3 min", 180.0, Kind::Time),
            ("Throughput: ([0-9.]+)", "Throughput: 2.5 MiB/s", 2.5 * 1_048_576.0, Kind::Bytes),
            ("v ([0-9.]+) ms", "v 7 ms", 7e-3, Kind::Time),
            ("seconds ([0-9.]+)", "seconds 1.02", 1.02, Kind::Plain),
            ("tps = ([0-9.]+)", "tps = 950.5 (including 3 ms)", 950.5, Kind::Plain),
            ("real.*m([0-9.]+)s", "real 0m1.021s", 1.021, Kind::Time),
            ("v ([0-9.]+)", "v 950 ops/sec", 950.0, Kind::Plain),
            ("v ([0-9.]+)", "v 950 tps", 950.0, Kind::Plain),
            ("v ([0-9.]+)", "v 5 seconds", 5.0, Kind::Time),
            ("avg ([0-9.]+)", "avg 3.2 min 1.1 max 9", 3.2, Kind::Plain),
            ("a=([0-9]+)", "a=5 s=7", 5.0, Kind::Plain),
            ("v ([0-9.]+)", "v 5 \nms", 5.0, Kind::Plain),
            ("v ([0-9.]+)", "v 1.1  ms", 1.1e-3, Kind::Time),
            ("v ([0-9.]+)", "v 1.1 (ms)", 1.1e-3, Kind::Time),
            ("v ([0-9.]+)", "v 1.1 [us], more", 1.1e-6, Kind::Time),
            (r"v \x1b\[1m([0-9.]+)", "v \x1b[1m1.1\x1b[0m ms", 1.1e-3, Kind::Time),
            ("v ([0-9.]+)", "v 2 hrs", 7200.0, Kind::Time),
            ("v ([0-9.]+)", "v 2 GByte/s", 2e9, Kind::Bytes),
            ("v ([0-9.]+)", "v 2 GBps", 2e9, Kind::Bytes),
        ] {
            let found = found(regex, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!((found.reading.value / value - 1.0).abs() < 1e-12, "{text}: {found:?}");
            assert_eq!(found.reading.kind, kind, "{text}");
        }
    }

    #[test]
    fn numbers_side_by_side_are_no_part_of_each_other() {
        for (regex, text, value) in [
            ("a,([0-9]+),", "a,120,980", 120.0),
            (r"p99\s+([0-9]+)", "p99 300", 300.0),
            ("p99 ([0-9.]+)", "p99 300.5 12", 300.5),
            ("v ([0-9]+)", "v 120 98 77", 120.0),
            ("v ([0-9.]+)", "v 12.5,13.5", 12.5),
            ("v=([0-9]+)", "{v=12, w=13}", 12.0),
            (r"v ([\d,.]+)", "v 12,345.5.", 12345.5),
            ("range 1-([0-9]+)", "range 1-64", 64.0),
            ("0:([0-9.]+)", "Elapsed: 0:59.52", 59.52),
        ] {
            let found = found(regex, text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!((found.reading.value - value).abs() < 1e-9, "{text}: {found:?}");
        }
    }
}
