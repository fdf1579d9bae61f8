//! Data that is read often and written seldom, with a copy on every node.
//!
//! Source: the replication of Carrefour (Gaud et al. 2015), which copies pages in the kernel.
//! The threads of a process share one page table, so that on a stock kernel a page cannot be
//! local to all of them at one address; a program that asks for its copy needs no such kernel.
//!
//! ```text
//!  Replicated --> current version --> copies[0]  on node 0
//!   ^  ^                              copies[1]  on node 1   <-- node_id of rseq(2)
//!   |  '-- publish: another version, all nodes at once
//!   '-- Reader: keeps the version that it reads
//! ```
//!
//! | file | what |
//! |---|---|
//! | `copies` | one value on every node |
//! | `replicated` | a value that is replaced as a whole while others read it |
//! | `swap`, `slots` | how versions come and go: lock-free, modelled in `tests/models.rs` |
//! | `file`, `lease` | copies of a file that are dropped when somebody writes to it |
//! | `rehome`, `inherited` | inherited memory of forked children |
//! | `nodes`, `here` | which nodes there are, and on which one a thread runs |
//! | `kernel`, `error` | system calls, and what can fail |
//!
//! `no_std` and without an allocator, so that it rides in any program.
#![cfg_attr(not(test), no_std)]

mod copies;
mod error;
mod file;
mod here;
mod inherited;
mod kernel;
mod lease;
mod nodes;
mod preference;
mod rehome;
mod replicated;
mod slots;
mod swap;
mod sync;

pub use copies::{Copies, Current, Home};
pub use error::Error;
pub use file::{FileCopies, FileReader};
pub use here::Way;
pub use inherited::rehome_inherited;
pub use rehome::{Rehomed, rehome, rehome_range};
pub use replicated::{Reader, Replicated};

/// How the library finds out on which node a thread runs.
///
/// # Errors
/// [`Error::NoMemory`].
pub fn way() -> Result<Way, Error> {
    let bytes = size_of::<nodes::Nodes>();
    nodes::Nodes::get().map(nodes::Nodes::way).map_err(|_| Error::NoMemory { bytes, copies: 1 })
}
