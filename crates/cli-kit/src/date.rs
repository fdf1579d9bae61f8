//! Dates and times (UTC), for results that are kept longer than a day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Today's date (UTC) as `2026-01-31`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    date(seconds / 86_400)
}

/// A time in seconds since 1970 as `2026-03-01 12:30 UTC`.
pub fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!("{} {:02}:{:02} UTC", date(days), rest / 3600, rest / 60 % 60)
}

/// The date of a day counted from 1970-01-01: the Gregorian calendar with years that begin in
/// March, so that the leap day comes last.
fn date(day: u64) -> String {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_based = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * march_based + 2) / 5 + 1;
    let month = if march_based < 10 { march_based + 3 } else { march_based - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_484), "2026-01-31");
    }

    #[test]
    fn known_moments() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_000_000_000), "2001-09-09 01:46 UTC");
        assert_eq!(moment(4_102_444_799), "2099-12-31 23:59 UTC");
    }
}
