//! Parses durations, sizes and whole numbers as people write them on a command line.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::str::FromStr;
use std::time::Duration;

/// Parses a duration such as `90`, `90s`, `1.5m`, `2h`, `500ms` or `5us`.
///
/// # Errors
/// The text is not a duration; the message says how to write one.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a duration; write 90s, 10m, 2h or 500ms");
    let (number, unit) = split(text);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * scale).ok().filter(|d| !d.is_zero()).ok_or_else(bad)
}

/// Parses milliseconds such as `100`, as in perf's `-I` and `--timeout`; with a unit as
/// [`duration`].
///
/// # Errors
/// The text is not a duration; the message says how to write one.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a duration; write 500 (milliseconds), 500ms or 2s");
    let (number, unit) = split(text);
    if !unit.is_empty() {
        return duration(text).map_err(|_| bad());
    }
    let number = number.parse().map_err(|_| bad())?;
    Some(Duration::from_millis(number)).filter(|time| !time.is_zero()).ok_or_else(bad)
}

/// Parses a [`duration`], or `0` for none.
///
/// # Errors
/// The text is not a duration; the message says how to write one.
pub fn span(text: &str) -> Result<Duration, String> {
    if text == "0" || text == "0s" { Ok(Duration::ZERO) } else { duration(text) }
}

/// Parses a size such as `8G`, `512m`, `1.5 GiB` or `4096`: binary units, in upper or lower case.
///
/// # Errors
/// The text is not a size; the message says how to write one.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a size; write 8G, 512M or 4096 (bytes)");
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    let bytes = number * f64::from(1u32 << (shift / 2)) * f64::from(1u32 << (shift - shift / 2));
    // Above 2^53 the conversion rounds by far less than a page; it saturates at the top.
    if bytes >= 1.0 && bytes.is_finite() { Ok(bytes as u64) } else { Err(bad()) }
}

/// A parser of whole numbers within a range, for clap.
///
/// # Errors
/// The parser fails if the text is not a whole number, and names the bound that it breaks.
pub fn whole<T>(
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let limits = || match (range.start_bound(), range.end_bound()) {
            (Bound::Included(least), Bound::Included(most)) => format!("from {least} to {most}"),
            (Bound::Included(least), _) => format!("of at least {least}"),
            _ => "in the range of this option".to_owned(),
        };
        let number: T =
            text.trim().parse().map_err(|_| format!("write a whole number {}", limits()))?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("write a number {}", limits()))
        }
    }
}

/// Parses a share in percent, above 0 and below 100: `2`, `2%`, `0.5%`.
///
/// # Errors
/// The text is not a percentage; the message says how to write one.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value / 100.0),
        _ => Err(format!("'{text}' is not a percentage; write a number above 0 and below 100")),
    }
}

/// Parses a [`percent`], or `0` for none.
///
/// # Errors
/// The text is not a percentage; the message says how to write one.
pub fn tolerance(text: &str) -> Result<f64, String> {
    if matches!(text, "0" | "0%") { Ok(0.0) } else { percent(text) }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("500 ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5us"), Ok(Duration::from_micros(5)));
        for bad in ["", "s", "-1s", "0", "1e400h", "10 parsecs", "1.2.3"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_milliseconds() {
        assert_eq!(milliseconds("250"), Ok(Duration::from_millis(250)));
        assert_eq!(milliseconds("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(milliseconds("1.5 ms"), Ok(Duration::from_micros(1500)));
        for bad in ["", "0", "0s", "-1", "1.5", "1 parsec", "99999999999999999999"] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("8G"), Ok(8 << 30));
        assert_eq!(size("1.5MiB"), Ok(3 << 19));
        assert_eq!(size("2TB"), Ok(2 << 40));
        for same in ["128M", "128m", "128MiB", "128 MiB", "128mb", "131072K", "134217728"] {
            assert_eq!(size(same), Ok(128 << 20), "{same}");
        }
        for bad in ["", "G", "0", "-1G", "1X"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn whole_numbers_say_their_bounds() {
        let repetitions = whole::<u16>(3..=1000);
        assert_eq!(repetitions("3"), Ok(3));
        assert_eq!(repetitions("2"), Err("write a number from 3 to 1000".to_owned()));
        assert_eq!(repetitions("70000"), Err("write a whole number from 3 to 1000".to_owned()));
        let pid = whole::<i32>(1..);
        assert_eq!(pid("0"), Err("write a number of at least 1".to_owned()));
        assert_eq!(pid("x"), Err("write a whole number of at least 1".to_owned()));
    }

    #[test]
    fn tolerances_may_be_nothing() {
        assert_eq!(tolerance("0"), Ok(0.0));
        assert_eq!(tolerance("5%"), Ok(0.05));
        assert!(tolerance("100").is_err() && tolerance("-1").is_err());
    }

    #[test]
    fn percentages() {
        assert_eq!(percent("2"), Ok(0.02));
        assert_eq!(percent("0.5%"), Ok(0.005));
        for bad in ["0", "100", "x", "NaN", "-3"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
