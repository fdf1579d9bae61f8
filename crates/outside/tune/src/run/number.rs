//! Reads numbers as programs print them for people, in any locale.
//!
//! ```text
//!  1234.5  1234,5  1,234.5  1.234,5  1,234,567  1 234,5  1'234.5  1_234  -1.2e-3  1.2k  3 min
//!  1,021   both a decimal comma and a thousands separator are possible: refused
//! ```
//!
//! A comma (or a point, a space, an apostrophe, an underscore) separates thousands only if all
//! groups have three digits. A single comma does so only if something else shows that it is not a
//! decimal sign. A single point is a decimal sign, as in the C locale.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The decimal sign, for numbers that do not show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decimal {
    /// `1,021` is one thousand and twenty-one.
    Point,
    /// `1,021` is a little more than one.
    Comma,
}

impl Decimal {
    fn sign(self) -> char {
        match self {
            Self::Point => '.',
            Self::Comma => ',',
        }
    }

    /// The decimal sign that goes with this separator of thousands.
    fn beside(thousands: char) -> Option<Self> {
        match thousands {
            '.' => Some(Self::Comma),
            ',' => Some(Self::Point),
            _ => None,
        }
    }
}

/// The quantity that a unit measures. Figures of different kinds cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// No unit, or a prefix alone (`k`, `M`).
    Plain,
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bits.
    Bits,
    /// Hundredths.
    Percent,
}

/// A number, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// In base units: seconds, or the thing counted.
    pub value: f64,
    /// The quantity that its unit measures.
    pub kind: Kind,
    /// The decimal sign, if the separators show it and it was not given.
    pub decimal: Option<Decimal>,
}

/// Why a text cannot be read as a number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NumberError {
    /// It has something other than digits, separators, a sign, an exponent and a unit.
    #[error("it is not a number")]
    NotANumber,
    /// Its separators are meaningless, or contradict the given decimal sign.
    #[error("its separators are neither decimal signs nor groups of three digits")]
    Separators,
    /// It can be read in two ways.
    #[error(
        "it may be a number of thousands or one with a decimal comma; say which with --decimal \
         point or --decimal comma"
    )]
    Ambiguous,
    /// Its unit is unknown.
    #[error(
        "'{0}' is not a unit that is understood (ns, us, ms, s, min, h; k, M, G, T; Ki, Mi, Gi, \
         Ti; each of these may be followed by B or bit; %); have the group match the number alone"
    )]
    Unit(String),
}

/// Reads a text as a number in base units: seconds, or the thing counted.
///
/// # Errors
/// [`NumberError`].
pub fn number(text: &str, decimal: Option<Decimal>) -> Result<f64, NumberError> {
    reading(text, decimal).map(|reading| reading.value)
}

/// Reads a text as a number, with its kind of unit and its decimal sign.
///
/// # Errors
/// [`NumberError`].
pub fn reading(text: &str, decimal: Option<Decimal>) -> Result<Reading, NumberError> {
    let text: String = text.trim().chars().map(plain).collect();
    let (sign, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) if text.starts_with('-') => (-1.0, rest),
        Some(rest) => (1.0, rest),
        None => (1.0, text.as_str()),
    };
    let is_mantissa = |c: char| c.is_ascii_digit() || SEPARATORS.contains(&c);
    let end = text.find(|c| !is_mantissa(c)).unwrap_or(text.len());
    let (mantissa, rest) = text.split_at(end);
    let (exponent, unit) = exponent(rest);
    // Punctuation after a number does not belong to it.
    let mantissa = mantissa.trim_end_matches([' ', '.', ',', '\'', '_']);
    if !mantissa.contains(|c: char| c.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    let (digits, shown) = digits(mantissa, decimal, !exponent.is_empty())?;
    let value: f64 = format!("{digits}{exponent}").parse().map_err(|_| NumberError::NotANumber)?;
    let unit = unit.trim();
    let (kind, scale) = unit_of(unit).ok_or_else(|| {
        let is_word = unit.chars().all(|c| c.is_alphabetic() || c == '/' || c == '%');
        if is_word { NumberError::Unit(unit.to_owned()) } else { NumberError::NotANumber }
    })?;
    Ok(Reading { value: sign * value * scale, kind, decimal: shown })
}

/// Characters that may separate digits.
pub const SEPARATORS: [char; 5] = ['.', ',', ' ', '\'', '_'];

/// Maps typographic signs to those of ASCII.
pub fn plain(c: char) -> char {
    match c {
        // Minus, non-breaking and thin spaces, apostrophes.
        '\u{2212}' => '-',
        '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}' => ' ',
        '\u{2019}' | '\u{2bc}' => '\'',
        '\u{3bc}' | '\u{b5}' => 'u',
        c => c,
    }
}

/// Splits off the exponent at the start of a text.
fn exponent(text: &str) -> (&str, &str) {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return ("", text) };
    let digits = after.strip_prefix(['-', '+']).unwrap_or(after);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 {
        return ("", text);
    }
    text.split_at(text.len() - digits.len() + count)
}

/// The mantissa with a decimal point and without separators of thousands, and the decimal sign that
/// its separators show.
fn digits(
    text: &str,
    decimal: Option<Decimal>,
    has_exponent: bool,
) -> Result<(String, Option<Decimal>), NumberError> {
    let sign = decimal_sign(text, decimal, has_exponent)?;
    let (whole, fraction) = match sign {
        Some(sign) => text.rsplit_once(sign).unwrap_or((text, "")),
        None => (text, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(fraction) || sign.is_some_and(|sign| whole.contains(sign)) {
        return Err(NumberError::Separators);
    }
    let shown = match sign {
        Some('.') => Some(Decimal::Point),
        Some(_) => Some(Decimal::Comma),
        None => whole.chars().find_map(Decimal::beside),
    };
    let whole = ungrouped(whole).ok_or(NumberError::Separators)?;
    Ok((format!("{whole}.{fraction}"), shown.filter(|_| decimal.is_none())))
}

/// The decimal sign of a number, if it has one.
fn decimal_sign(
    text: &str,
    decimal: Option<Decimal>,
    has_exponent: bool,
) -> Result<Option<char>, NumberError> {
    let count = |sign: char| text.chars().filter(|c| *c == sign).count();
    let (points, commas) = (count('.'), count(','));
    if let Some(decimal) = decimal {
        return Ok((count(decimal.sign()) > 0).then_some(decimal.sign()));
    }
    Ok(match (points, commas) {
        (0, 0) => None,
        // Of two kinds, the last one is the decimal sign; several of one kind separate thousands.
        (1.., 1..) => text.chars().rfind(|c| matches!(c, '.' | ',')),
        (1, 0) => Some('.'),
        (0, 1) => {
            let (whole, fraction) = text.split_once(',').unwrap_or((text, ""));
            let may_be_thousands = fraction.len() == 3
                && (1..=3).contains(&whole.len())
                && !whole.starts_with('0')
                && whole.bytes().all(|byte| byte.is_ascii_digit());
            if may_be_thousands && !has_exponent {
                return Err(NumberError::Ambiguous);
            }
            Some(',')
        }
        _ => None,
    })
}

/// Digits without separators of thousands; `None` if the groups do not have three digits or the
/// separators differ.
fn ungrouped(text: &str) -> Option<String> {
    let Some(separator) = text.chars().find(|c| !c.is_ascii_digit()) else {
        return Some(text.to_owned());
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let (first, others) = groups.split_first()?;
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_grouped = (1..=3).contains(&first.len())
        && is_digits(first)
        && others.iter().all(|group| group.len() == 3 && is_digits(group));
    is_grouped.then(|| groups.concat())
}

/// The kind and the factor of a unit; `None` for a word that is not a unit. For a rate (`MiB/s`,
/// `ns/op`) the unit before the stroke counts.
pub fn unit_of(unit: &str) -> Option<(Kind, f64)> {
    let (hour, minute) = (3600.0, 60.0);
    let time = |seconds| Some((Kind::Time, seconds));
    let (unit, per) = parts(unit);
    if per.is_some_and(|per| per.is_empty() || !per.chars().all(char::is_alphabetic)) {
        return None;
    }
    match unit {
        "" => Some((Kind::Plain, 1.0)),
        "h" | "hr" | "hrs" | "hour" | "hours" => time(hour),
        "min" | "mins" | "minute" | "minutes" => time(minute),
        "s" | "sec" | "secs" | "second" | "seconds" => time(1.0),
        "ms" | "msec" | "millisecond" | "milliseconds" => time(1e-3),
        "us" | "usec" | "microsecond" | "microseconds" => time(1e-6),
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => time(1e-9),
        "%" => Some((Kind::Percent, 0.01)),
        "B" | "byte" | "bytes" | "Byte" | "Bytes" => Some((Kind::Bytes, 1.0)),
        "Bps" => Some((Kind::Bytes, 1.0)),
        "bit" | "bits" | "bps" => Some((Kind::Bits, 1.0)),
        _ => with_prefix(unit),
    }
}

/// A unit, and what follows the stroke of a rate.
fn parts(unit: &str) -> (&str, Option<&str>) {
    unit.split_once('/').map_or((unit, None), |(unit, per)| (unit, Some(per)))
}

/// The part of a unit that must agree, besides the [`Kind`], for numbers to be comparable: the text
/// after the stroke, or, if the word is not a unit, the word itself, without its plural.
pub fn common(unit: &str) -> String {
    let singular = |word: &str| match word.strip_suffix('s') {
        Some(stem) if stem.chars().count() > 1 => stem.to_owned(),
        _ => word.to_owned(),
    };
    if unit_of(unit).is_none() {
        return unit.split('/').map(singular).collect::<Vec<_>>().join("/");
    }
    let per = match parts(unit) {
        (word, None) if word.ends_with("ps") => "s",
        (_, None) => return String::new(),
        (_, Some(per)) => per,
    };
    // `/s` and `/sec` are the same, `/ms` is not.
    match unit_of(per) {
        Some((Kind::Time, seconds)) => format!("/{seconds}"),
        _ => format!("/{}", singular(per)),
    }
}

/// The kind and the factor of a unit with a prefix, or of a prefix alone.
fn with_prefix(unit: &str) -> Option<(Kind, f64)> {
    const PREFIXES: [(&str, f64); 9] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    PREFIXES.iter().find_map(|(prefix, scale)| {
        let kind = match unit.strip_prefix(prefix)? {
            "" => Kind::Plain,
            "B" | "byte" | "Byte" | "bytes" | "Bytes" | "Bps" => Kind::Bytes,
            "b" | "bit" | "bits" | "bps" => Kind::Bits,
            _ => return None,
        };
        Some((kind, *scale))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<f64, NumberError> {
        number(text, None)
    }

    #[test]
    fn what_has_one_reading_is_read() {
        for (text, value) in [
            ("12", 12.0),
            ("1.021", 1.021),
            ("1,5", 1.5),
            ("0,021", 0.021),
            ("1,0213", 1.0213),
            ("1234,567", 1234.567),
            ("1,234.5", 1234.5),
            ("1.234,5", 1234.5),
            ("1,234,567", 1_234_567.0),
            ("1.234.567", 1_234_567.0),
            ("1,234,567.25", 1_234_567.25),
            ("1 234,5", 1234.5),
            ("1\u{a0}234\u{a0}567", 1_234_567.0),
            ("1\u{202f}234,567", 1234.567),
            ("1\u{2009}234", 1234.0),
            ("1'234.5", 1234.5),
            ("1\u{2019}234", 1234.0),
            ("1_234", 1234.0),
            ("1,021e3", 1021.0),
            ("1.5e-3", 0.0015),
            ("1.5E+3", 1500.0),
            (" 7. ", 7.0),
            (".5", 0.5),
            ("\u{2212}1.5", -1.5),
            ("+3", 3.0),
            ("1.2k", 1200.0),
            ("3 min", 180.0),
            ("900 ms", 0.9),
            ("7 \u{b5}s", 7e-6),
            ("2 KiB", 2048.0),
            ("1,5 GB", 1.5e9),
            ("2 MiB/s", 2_097_152.0),
            ("3 Gbits/sec", 3e9),
            ("12 milliseconds", 0.012),
        ] {
            let read = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!((read - value).abs() <= 1e-12 * value.abs(), "{text} is read as {read}");
        }
    }

    #[test]
    fn what_has_two_readings_is_refused_until_the_user_says_which() {
        for (text, point, comma) in [("1,021", 1021.0, 1.021), ("999,000", 999_000.0, 999.0)] {
            assert_eq!(read(text), Err(NumberError::Ambiguous), "{text}");
            assert_eq!(number(text, Some(Decimal::Point)), Ok(point));
            assert_eq!(number(text, Some(Decimal::Comma)), Ok(comma));
        }
        assert_eq!(number("1.021", Some(Decimal::Comma)), Ok(1021.0));
        assert_eq!(number("1.234,5", Some(Decimal::Comma)), Ok(1234.5));
        assert_eq!(number("1,5", Some(Decimal::Point)), Err(NumberError::Separators));
        assert_eq!(number("1.5", Some(Decimal::Comma)), Err(NumberError::Separators));
        assert!(read("1,021").unwrap_err().to_string().contains("--decimal comma"));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-", ",", "x", "nan", "inf", "1:02", "1-2", "\u{661}"] {
            assert_eq!(read(text), Err(NumberError::NotANumber), "{text}");
        }
        for text in ["1,23,456", "1.2.3", "12,34.5.6", "1 2", "1,234'567", "1234 567", "1,,5"] {
            assert_eq!(read(text), Err(NumberError::Separators), "{text}");
        }
        for (text, unit) in
            [("3 m", "m"), ("5 furlongs", "furlongs"), ("2e", "e"), ("5 ops/sec", "ops/sec")]
        {
            assert_eq!(read(text), Err(NumberError::Unit(unit.into())), "{text}");
        }
    }

    #[test]
    fn units_have_in_common_what_they_are_a_rate_of() {
        for (one, other) in [
            ("us", "ms"),
            ("MiB/s", "GB/sec"),
            ("GBps", "MByte/s"),
            ("Mbps", "kbit/s"),
            ("ns/op", "us/ops"),
            ("run", "runs"),
            ("", "M"),
            ("k/s", "/s"),
            ("req/s", "reqs/s"),
        ] {
            assert_eq!(common(one), common(other), "{one} {other}");
        }
        for (one, other) in [
            ("kops/s", "Mops/s"),
            ("MFLOPS", "GFLOPS"),
            ("TiB/min", "GiB/s"),
            ("gb/s", "mb/s"),
            ("ns/op", "ns"),
            ("", "ops"),
            ("m", "h"),
        ] {
            assert_ne!(common(one), common(other), "{one} {other}");
        }
        let units = ["hr", "hrs", "mins", "secs", "Byte/s", "GByte/s", "GBps", "kbyte"];
        assert!(units.iter().all(|unit| unit_of(unit).is_some()));
    }

    proptest! {
        /// Numbers of any locale, grouped or not, are read with their value.
        #[test]
        fn numbers_of_every_locale_are_read_back(
            value in 0u64..10_000_000_000,
            fraction in 0u32..100,
            separators in prop::sample::select(vec![(',', '.'), ('.', ','), (' ', ','), ('\'', '.')]),
        ) {
            let (thousands, decimal) = separators;
            let digits = value.to_string();
            let mut grouped = String::new();
            for (index, digit) in digits.chars().enumerate() {
                if index > 0 && (digits.len() - index).is_multiple_of(3) {
                    grouped.push(thousands);
                }
                grouped.push(digit);
            }
            let text = format!("{grouped}{decimal}{fraction:02}");
            let meant: f64 = format!("{digits}.{fraction:02}").parse().unwrap();
            prop_assert_eq!(read(&text), Ok(meant), "{}", text);
        }

        #[test]
        fn nothing_is_a_panic(text in "[-+0-9.,' _eEkMs\u{a0}\u{2212}%x]{0,12}") {
            let _ = read(&text);
        }
    }
}
