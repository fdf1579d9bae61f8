//! What the libraries inside a target and the launcher outside agree on.
//!
//! ```text
//!  launcher --NUMAPILOT_* variables--> library in every process of the target
//!      ^                                        |
//!      '------------- ledger (shared file) -----'  threads per CPU, what went wrong
//! ```
//!
//! The launcher hands down the CPUs in the order in which threads take them; that order
//! *is* the placement (sparse, dense or the user's own), so nothing in here knows about
//! nodes.
//!
//! `no_std` and without dependencies: the preloaded library links it, and so does the
//! launcher, so that the environment table and the ledger's layout exist once.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod cpus;
pub mod env;
pub mod ledger;
mod processes;
