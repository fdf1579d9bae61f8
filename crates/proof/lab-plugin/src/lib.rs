//! The QEMU plugin libnumapilot_lab_plugin.so: passes every memory access of the guest's user mode
//! to the timing model of `numapilot-lab-model`.
//!
//! ```text
//!  -plugin libnumapilot_lab_plugin.so,model=FILE,report=FILE,apic=NUMBERS[,pmu=FILE]
//!
//!  translation (translate): what each instruction needs    qemu: the functions of QEMU
//!  execution   (machine):   access, budget, kernel, idle, marks -> Simulation -> report, PMU
//! ```
//!
//! Code that QEMU adds to the translation counts instructions, and accesses that tell the model
//! nothing new (redundant accesses). All other accesses of user mode cause a call, and so does
//! every budget of instructions. The kernel's accesses are not seen; only its instructions are
//! counted. Its TLB flushes are seen: its `mov` to CR3 and CR4, `invlpg` and `invpcid` are
//! recognised at translation. So is the `wrmsr` by which a CPU wakes another one (apic, registers).
//!
//! Source: QEMU, docs/devel/tcg-plugins.rst; API version 4 (QEMU 9.1).

mod apic;
mod arguments;
mod cpu_scoreboard;
mod install;
mod machine;
mod qemu;
mod redundant_accesses;
mod registers;
mod report;
mod translate;
mod turnstile;
