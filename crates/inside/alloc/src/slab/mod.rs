//! Small objects: their spans are taken from the page heap, carved, searched for free objects, and
//! given back.

pub mod give_back;
pub mod harden;
mod list;
pub mod scavenge;
pub mod spans;
