//! One test with several thread counts, as tables and as a picture.

mod svg;
mod text;

pub use svg::draw;
pub use text::print;
