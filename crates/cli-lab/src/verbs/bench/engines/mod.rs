//! `bench w5`, `bench arrivals` and `bench clients`: real databases under three query patterns.

mod args;
pub mod arrivals;
mod client_row;
pub mod clients;
mod context;
mod failure;
mod json;
mod open;
mod progress;
mod report;
mod svg;
mod text;
pub mod w5;
