//! One rule for each factor. Each names its source and the thresholds that it takes from there.

pub mod allocator;
pub mod balancing;
pub mod cores;
pub mod huge_pages;
pub mod memory;
pub mod threads;

mod stalls;

#[cfg(test)]
pub mod example;

/// A share in per cent.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        p if p != 0.0 && p < 0.01 => "less than 0.01 %".to_owned(),
        p if p < 1.0 => format!("{p:.2} %"),
        p => format!("{p:.1} %"),
    }
}

/// A count with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
