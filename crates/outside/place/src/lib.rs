//! Plans, and starting programs under them.
//!
//! A [`Plan`] states which allocator, thread placement, memory policy, page size and kernel
//! settings a program gets. `run` applies it, `tune` searches for the best one, a profile file
//! stores it, and `export` writes it for other launchers.
//!
//! ```text
//!  Plan --Targets::of(machine)--> CPUs, nodes --prepare--> Prepared --spawn--> Running
//!                                               |                               |
//!                                             notes          wait: Finished; effect: whether it
//!                                                            took effect in the program
//! ```
#![forbid(unsafe_code)]

pub mod allocators;
pub mod daemons;
mod denial;
mod describe;
mod devices;
pub mod effect;
pub mod elf;
mod environment;
mod error;
mod explain;
pub mod export;
pub mod guard;
pub mod huge_pages;
pub mod live;
mod locked_directory;
mod managed;
mod note;
mod options;
mod own_program;
mod pid_namespace;
pub mod plan;
mod preload;
mod prepare;
mod profile;
mod profile_here;
mod regular_file;
mod running;
mod scratch;
pub mod settings_journal;
mod shell;
mod supervise;
mod tally;
mod targets;
pub mod threads;
pub mod via;
mod visible;

pub use denial::Denial;
pub use devices::DeviceError;
pub use error::{PlaceError, chain};
pub use locked_directory::{DirectoryError, LockedDirectory, remove_tree};
pub use managed::{AlreadyManaged, Managed, check_unmanaged};
pub use note::Note;
pub use numapilot_observe::ancestors;
pub use own_program::own_program;
pub use pid_namespace::{ForeignProc, check_proc};
pub use plan::{
    AllocatorChoice, Daemons, MemoryMode, MemoryPolicy, NumaBalancing, Plan, Thp, ThreadPlacement,
};
pub use prepare::{
    Applied, Options, Prepared, apply_profile, find_program, prepare, prepare_targets,
};
pub use profile::{Measured, Profile, ProfileError};
pub use profile_here::profile_here;
pub use running::{Finished, Running, Usage};
pub use scratch::{
    name_prefix, remove_stale_files, remove_stale_in, scratch_directory, shared_file, shared_memory,
};
pub use shell::quoted;
pub use supervise::Supervisor;
pub use tally::{Shown, Tally};
pub use targets::{MemoryTarget, Reach, Targets};
pub use visible::{is_obeyed, visible_json};
