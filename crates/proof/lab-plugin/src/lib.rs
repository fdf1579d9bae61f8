//! QEMU plugin (libnumapilot_lab_plugin.so): shows every memory access of the guest's user
//! mode to the timing model of `numapilot-lab-model`.
//!
//! ```text
//!  -plugin libnumapilot_lab_plugin.so,model=FILE,report=FILE,apic=NUMBERS[,pmu=FILE]
//!
//!  translation (translate): what each instruction needs    qemu: the functions of QEMU
//!  execution   (machine):   access, budget, kernel, idle, marks -> Simulation -> report, PMU
//! ```
//!
//! Instructions are counted by code that QEMU puts into the translation, and so are accesses that
//! tell nothing new (redundant accesses); a call comes for all others of user mode, and after so
//! many instructions. The kernel's accesses are not seen, only its instructions are counted. What
//! the kernel does to the TLB is: its `mov` to CR3 and CR4, `invlpg` and `invpcid` are recognised
//! when they are translated. So is the `wrmsr` by which one CPU wakes another (apic, registers).
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
