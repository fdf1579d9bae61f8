//! `--limit`: the limits of a run.

use numapilot_cli_kit::units::{duration, size};
use numapilot_tune::run::Limits;

/// The unit of memory; every program uses at least this much.
const PAGE: u64 = 4096;

/// Parses `rss=8G` or `time=30s`.
pub fn limit(text: &str) -> Result<Limits, String> {
    match text.split_once('=') {
        Some(("rss", value)) => {
            let bytes = size(value)?;
            if bytes < PAGE && value.trim().ends_with(|c: char| c.is_ascii_digit()) {
                return Err(format!(
                    "'{text}' is {bytes} bytes, less than a page; give a unit, as in rss=8G"
                ));
            }
            Ok(Limits { rss_bytes: Some(bytes), seconds: None })
        }
        Some(("time", value)) => {
            Ok(Limits { rss_bytes: None, seconds: Some(duration(value)?.as_secs_f64()) })
        }
        _ => Err(format!("'{text}' is not a limit; write rss=8G or time=30s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_memory_or_time() {
        assert_eq!(limit("rss=1K").unwrap().rss_bytes, Some(1024));
        assert_eq!(limit("time=2m").unwrap().seconds, Some(120.0));
        assert!(limit("rss").is_err() && limit("cpu=1").is_err());
    }

    #[test]
    fn a_limit_of_memory_without_its_unit_is_refused() {
        assert!(limit("rss=8").unwrap_err().contains("unit"));
        assert_eq!(limit("rss=8M").map(|l| l.rss_bytes), Ok(Some(8 << 20)));
        assert_eq!(limit("rss=4096").map(|l| l.rss_bytes), Ok(Some(4096)));
    }
}
