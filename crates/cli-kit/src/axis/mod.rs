//! Axes of pictures: where a value lies, which round values are marked, what is written there.

mod linear;
mod ratio;

pub use linear::LinearAxis;
pub use ratio::{RatioAxis, extremes};

/// Bytes of a MiB, in which memory is drawn: its round numbers are round numbers of bytes.
pub const MIB: f64 = 1_048_576.0;
