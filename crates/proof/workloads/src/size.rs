//! Counts in the form that people write: `10M`, `1.5G`, `64Ki`.

use std::fmt;

/// Why a text is not a count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a count: write a number, with k, M, G or T (powers of 1000) or Ki, Mi, Gi or Ti (powers of 1024) after it if you like, below 2^64"
)]
pub struct ParseCountError(String);

/// Parses a count. A fraction may precede a suffix if the result is a whole number.
///
/// # Errors
/// For anything other than a number with an optional suffix, and for counts of 2^64 or more.
pub fn parse_count(text: &str) -> Result<u64, ParseCountError> {
    let error = || ParseCountError(text.to_owned());
    let trimmed = text.trim();
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &trimmed[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" | "m" => 1_000_000,
        "G" | "g" => 1_000_000_000,
        "T" | "t" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(error()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let number = |s: &str| {
        let plain = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| s.parse::<u64>().ok()).flatten().ok_or_else(error)
    };
    let mut count = number(whole)?.checked_mul(factor).ok_or_else(error)?;
    if digits.contains('.') {
        // 10^19 is the largest power of ten in 64 bits.
        let scale = u32::try_from(fraction.len()).ok().and_then(|n| 10u64.checked_pow(n));
        let parts = u128::from(number(fraction)?) * u128::from(factor);
        let scale = u128::from(scale.ok_or_else(error)?);
        if parts % scale != 0 {
            return Err(error());
        }
        let parts = u64::try_from(parts / scale).map_err(|_| error())?;
        count = count.checked_add(parts).ok_or_else(error)?;
    }
    Ok(count)
}

/// A count printed in groups of three digits: `10,000,000`.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (i, digit) in digits.char_indices() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn suffixes() {
        assert_eq!(parse_count("10M"), Ok(10_000_000));
        assert_eq!(parse_count("100k"), Ok(100_000));
        assert_eq!(parse_count("1.5G"), Ok(1_500_000_000));
        assert_eq!(parse_count("16Mi"), Ok(16 << 20));
        assert_eq!(parse_count(" 7 "), Ok(7));
        assert_eq!(parse_count("0.5k"), Ok(500));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "M",
            "-1",
            "1e6",
            "1.M",
            ".5M",
            "1.0001k",
            "1X",
            "1 M",
            "18446744073709551616",
            "99999999T",
        ] {
            assert!(parse_count(text).is_err(), "{text:?} was read as a count");
        }
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(Grouped(0).to_string(), "0");
        assert_eq!(Grouped(999).to_string(), "999");
        assert_eq!(Grouped(1_000).to_string(), "1,000");
        assert_eq!(format!("{:>10}", Grouped(123_456)), "   123,456");
    }

    proptest! {
        #[test]
        fn any_count_is_read_back(n: u64) {
            prop_assert_eq!(parse_count(&n.to_string()), Ok(n));
            prop_assert_eq!(parse_count(&Grouped(n).to_string().replace(',', "")), Ok(n));
        }

        #[test]
        fn a_damaged_count_is_read_or_refused(text in damaged("1.25Gi")) {
            if let Ok(count) = parse_count(&text) {
                prop_assert_eq!(parse_count(&count.to_string()), Ok(count));
            }
        }
    }
}
