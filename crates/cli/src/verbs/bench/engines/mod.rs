//! `bench w5`, `bench arrivals` and `bench clients`: real databases, one way of asking each.

pub mod arrivals;
pub mod clients;
mod open;
mod picture;
mod plot;
mod progress;
mod report;
pub mod w5;
