//! Columns of figures, laid out like perf's: value, name, and derived figures.

/// Stands for a missing figure.
pub const NOT_SUPPORTED: &str = "<not supported>";
/// Width of the column of values.
pub const VALUE: usize = 17;
/// Width of the column of names.
pub const NAME: usize = 22;
/// Width of the column of comments.
pub const COMMENT: usize = 26;

/// A ratio as `12.3 %`.
#[must_use]
pub fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// A count as `1,234,567`; the mean of few events keeps a decimal.
#[must_use]
pub fn grouped(value: f64) -> String {
    let decimals = if value.fract() != 0.0 && value < 100.0 { 1 } else { 0 };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(w, f)| (w, f));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if fraction.is_empty() { out } else { format!("{out}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(77.333), "77.3");
        assert_eq!(grouped(1000.5), "1,000");
    }
}
