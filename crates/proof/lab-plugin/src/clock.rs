//! The functions that replace QEMU's virtual clock, which drives the guest's timers, and its time
//! stamp counter (TSC). Both show the simulated time, multiplied by the time scale.

use crate::internals::ClockHooks;
use crate::machine::{machine, nanoseconds};

/// The functions for [`Internals::hook`](crate::internals::Internals::hook).
pub const HOOKS: ClockHooks = ClockHooks { clock, ticks };

extern "C" fn clock() -> i64 {
    machine().map_or(0, |machine| nanoseconds(machine.guest_ps()))
}

extern "C" fn ticks() -> i64 {
    machine().map_or(0, |machine| {
        machine.read_counter();
        let ticks = u128::from(machine.guest_ps()) * u128::from(machine.tsc_khz()) / 1_000_000_000;
        i64::try_from(ticks).unwrap_or(i64::MAX)
    })
}
