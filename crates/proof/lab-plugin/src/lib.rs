//! The QEMU plugin libnumapilot_lab_plugin.so: passes the guest's memory accesses to the timing
//! model of `numapilot-lab-model`, and makes the simulated time the guest's clock.
//!
//! ```text
//!  -plugin libnumapilot_lab_plugin.so,model=FILE,report=FILE,mailbox=FILE,streams=DESCRIPTORS
//!          [,pmu=FILE][,scale=NUMBER][,quantum=NANOSECONDS][,paced=on]
//!
//!  translation (translate): counters and callbacks for each instruction
//!  execution   (machine):   access, budget, halt, pause, mark -> Simulation -> report, PMU
//!  time        (schedule):  which CPU runs, and when the simulated time advances
//!              (clock):     QEMU's virtual clock and the TSC show the simulated time
//!  calls       (ports):     process 1 of the guest reads and writes the program's streams
//! ```
//!
//! Counters that QEMU adds to each translation block count instructions, reads and writes, in user
//! mode and in the kernel. An access causes a callback, unless the model would learn nothing from
//! it (redundant accesses). A CPU that has used up its budget of instructions calls the scheduler.
//! Instructions that flush the TLB (`mov` to CR3 or CR4, `invlpg`, `invpcid`), halt the CPU (`hlt`)
//! or wait in a spin loop (`pause`) are recognised at translation.
//!
//! QEMU runs all virtual CPUs on one thread (`-accel tcg,thread=single`), the CPU thread. Its main
//! loop is another thread, and QEMU's lock protects what both use.
//!
//! Sources: QEMU, docs/devel/tcg-plugins.rst, API version 4 (QEMU 9.1); for functions outside this
//! API, see `internals`.

mod arguments;
mod clock;
mod cpu_scoreboard;
mod install;
mod internals;
mod machine;
mod ports;
mod qemu;
mod redundant_accesses;
mod report;
mod schedule;
mod translate;
