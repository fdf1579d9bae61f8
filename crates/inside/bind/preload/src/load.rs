//! The functions that run when the library is loaded and when the process ends.

use crate::{agent, init, next, process, rehome, state};

extern "C" fn constructor() {
    next::find_all();
    init::state();
    rehome::watch_forks();
    agent::start_if_wanted();
}

extern "C" fn destructor() {
    if let Some(state) = state::ready() {
        process::release(state);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;
