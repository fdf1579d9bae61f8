//! Moments as people write them.

/// `2026-03-01 12:30 UTC` of seconds since 1970.
///
/// Source: E. G. Richards, "Calendars", in Explanatory Supplement to the Astronomical
/// Almanac (2013), 15.11.3: from a day's number to the Gregorian date.
pub fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let julian = days + 2_440_588;
    let f = julian + 1401 + (4 * julian + 274_277) / 146_097 * 3 / 4 - 38;
    let e = 4 * f + 3;
    let h = 5 * (e % 1461 / 4) + 2;
    let (day, month) = (h % 153 / 5 + 1, (h / 153 + 2) % 12 + 1);
    let year = e / 1461 - 4716 + (14 - month) / 12;
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_000_000_000), "2001-09-09 01:46 UTC");
        assert_eq!(moment(4_102_444_799), "2099-12-31 23:59 UTC");
    }
}
