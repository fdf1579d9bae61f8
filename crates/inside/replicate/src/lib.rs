//! Data that is read often and written seldom, with a copy on every node.
//!
//! Source: the replication of Carrefour (Gaud et al. 2015), which copies pages in the kernel. The
//! threads of a process share one page table, so on a stock kernel a page cannot be local to all of
//! them at one address. A program that asks for its copy does not need a modified kernel.
//!
//! ```text
//!  Replicated --> current version --> copies[0]  on node 0
//!   ^  ^                              copies[1]  on node 1   <-- node_id of rseq(2)
//!   |  '-- publish: another version, all nodes at once
//!   '-- Reader: pins the version that it reads
//! ```
//!
//! | file | what |
//! |---|---|
//! | `copies` | one value on every node |
//! | `replicated` | a value that is replaced as a whole while others read it |
//! | `swap`, `slots` | how versions come and go: lock-free, modelled in `tests/models.rs` |
//! | `file`, `lease` | copies of a file, dropped when a program opens it for writing |
//! | `rehome`, `inherited` | inherited memory of forked children |
//! | `nodes`, `here` | which nodes there are, and on which one a thread runs |
//! | `kernel`, `error` | system calls, and what can fail |
//!
//! The crate is `no_std` and needs no allocator, so any program can use it.
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

/// How the library finds the node on which a thread runs.
///
/// # Errors
/// [`Error::NoMemory`].
pub fn way() -> Result<Way, Error> {
    let bytes = size_of::<nodes::Nodes>();
    nodes::Nodes::get().map(nodes::Nodes::way).map_err(|_| Error::NoMemory { bytes, copies: 1 })
}
