//! `bench w5`, `bench arrivals` and `bench clients`: real databases, one way of asking each.

mod open;
mod progress;
mod report;
pub mod w5;
