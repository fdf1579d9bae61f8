//! Initialises the state at its first use, and places the main thread.

use core::sync::atomic::Ordering::Relaxed;

use numapilot_bind::env::{BIND_CPUS, BIND_OCCUPANCY};
use numapilot_syscall::caller;

use crate::env::{complain, variable};
use crate::state::{self, State};
use crate::{kernel, openmp, process};

/// The state, if threads are placed in this process. The constructors of other libraries may create
/// threads before ours runs, so nothing else relies on our constructor. A call from within the
/// initialisation returns `None`.
pub fn state() -> Option<&'static State> {
    state::ready().or_else(|| {
        let state = kernel::keeping_errno(|| state::fill_once(fill))?;
        kernel::keeping_errno(|| process::place_main_thread(state));
        Some(state)
    })
}

/// Returns `None` if threads are not placed in this process.
fn fill(state: &mut State) -> Option<()> {
    let list = variable(BIND_CPUS)?;
    if let Err(error) = state.cpus.parse(list.to_bytes()) {
        return complain(&[BIND_CPUS, ": ", error.message(), "; threads are not placed\n"]);
    }
    state.occupancy = Some(process::map_occupancy_table(variable(BIND_OCCUPANCY))?);
    state.guides_openmp = openmp::has_the_order(state.cpus.as_slice());
    if !state.create_key() {
        return None;
    }
    state.pid.store(caller::process_id(), Relaxed);
    process::keep_usable_cpus(state);
    if state.cpus.as_slice().is_empty() {
        return complain(&[
            BIND_CPUS,
            ": this process may run on none of these CPUs; threads are not placed\n",
        ]);
    }
    state.mask = state.cpus.mask();
    process::watch_forks();
    Some(())
}
