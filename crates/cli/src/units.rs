//! Durations and sizes as people write them on a command line.

use std::time::Duration;

use numapilot_tune::run::Limits;

/// `90`, `90s`, `1.5m`, `2h`, `500ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is not a duration; write 90s, 10m, 2h or 500ms");
    let (number, unit) = split(text);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * scale).ok().filter(|d| !d.is_zero()).ok_or_else(bad)
}

/// `100`: milliseconds, as perf's `-I` has them.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{text}' is no number of milliseconds; write 1000 for a second");
    let number = text.parse().map_err(|_| bad())?;
    Some(Duration::from_millis(number)).filter(|time| !time.is_zero()).ok_or_else(bad)
}

/// As [`duration`], or none: `0`.
pub fn span(text: &str) -> Result<Duration, String> {
    if text == "0" || text == "0s" { Ok(Duration::ZERO) } else { duration(text) }
}

/// `8G`, `512M`, `1.5GiB`, `4096`: binary units.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a size; write 8G, 512M or 4096 (bytes)");
    let (number, unit) = split(text);
    let unit = unit.strip_suffix("iB").or_else(|| unit.strip_suffix('B')).unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    let bytes = number * f64::from(1u32 << (shift / 2)) * f64::from(1u32 << (shift - shift / 2));
    // Above 2^53 the conversion rounds, far below a page of error; it saturates at the top.
    if bytes >= 1.0 && bytes.is_finite() { Ok(bytes as u64) } else { Err(bad()) }
}

/// `rss=8G` or `time=30s`.
pub fn limit(text: &str) -> Result<Limits, String> {
    match text.split_once('=') {
        Some(("rss", value)) => Ok(Limits { rss_bytes: Some(size(value)?), seconds: None }),
        Some(("time", value)) => {
            Ok(Limits { rss_bytes: None, seconds: Some(duration(value)?.as_secs_f64()) })
        }
        _ => Err(format!("'{text}' is not a limit; write rss=8G or time=30s")),
    }
}

/// `2`, `2%`, `0.5%`: a share in percent, above 0 and below 100.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value < 100.0 => Ok(value / 100.0),
        _ => Err(format!("'{text}' is not a percentage between 0 and 100; write for example 2")),
    }
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
        for bad in ["", "s", "-1s", "0", "1e400h", "10 parsecs", "1.2.3"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn milliseconds_have_no_unit() {
        assert_eq!(milliseconds("250"), Ok(Duration::from_millis(250)));
        for bad in ["", "0", "-1", "1s", "1.5", "99999999999999999999"] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_and_limits() {
        assert_eq!(size("8G"), Ok(8 << 30));
        assert_eq!(size("1.5MiB"), Ok(3 << 19));
        assert_eq!(size("2TB"), Ok(2 << 40));
        for bad in ["", "G", "0", "-1G", "1X"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert_eq!(limit("rss=1K").unwrap().rss_bytes, Some(1024));
        assert_eq!(limit("time=2m").unwrap().seconds, Some(120.0));
        assert!(limit("rss").is_err() && limit("cpu=1").is_err());
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
