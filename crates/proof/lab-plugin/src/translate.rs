//! Adds the counters and callbacks that the simulation needs to each block when QEMU translates it.

use std::ffi::{c_uint, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use numapilot_lab_model::Way;
use numapilot_lab_pmu::{Mark, Mode, is_call};

use crate::cpu_scoreboard::{BUDGET, Block, CpuScoreboard};
use crate::machine::{Machine, machine};
use crate::qemu::{self, Insn, Scoreboard, Tb, Word};
use crate::redundant_accesses::{self, Reported};

/// Addresses below this are user mode (x86-64, with four or five levels of page tables).
const KERNEL: u64 = 1 << 63;

/// Whether a mark was executed. From then on, accesses are modelled, and code at user-mode
/// addresses belongs to a program. Before, it may belong to the firmware.
static MARKED: AtomicBool = AtomicBool::new(false);

/// The scoreboard that translated code updates: one [`CpuScoreboard`] per CPU.
struct Counting(*mut Scoreboard);

// SAFETY: the pointer is an opaque handle that is only passed to QEMU, which accepts it from any
// thread.
unsafe impl Send for Counting {}
// SAFETY: as above.
unsafe impl Sync for Counting {}

static COUNTING: OnceLock<Counting> = OnceLock::new();

/// Creates the scoreboard. Must be called while QEMU installs the plugin.
pub fn prepare() {
    COUNTING.get_or_init(|| {
        // SAFETY: QEMU creates scoreboards from the installation of a plugin on.
        Counting(unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<CpuScoreboard>()) })
    });
}

/// The scoreboard element of a CPU that QEMU has set up, as long as QEMU sets up no other CPU. Null
/// if there is no scoreboard.
pub fn scoreboard_of(cpu: c_uint) -> *mut CpuScoreboard {
    // QEMU gives zeroed memory for `CpuScoreboard`, aligned for its words, which are atomics.
    COUNTING.get().map_or(ptr::null_mut(), |counting| {
        // SAFETY: the scoreboard exists, and so does the CPU.
        unsafe { qemu::qemu_plugin_scoreboard_find(counting.0, cpu).cast() }
    })
}

/// The origin of the code of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Program,
    Kernel,
    /// A program or the firmware, which cannot be told apart by address before the first mark.
    Unknown,
}

/// An instruction that the simulation must see for another reason than its memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Mark(Mark),
    Call,
    FlushTlb,
    Halt,
    Pause,
    EnableInterrupts,
}

impl Special {
    /// Recognises an instruction by its code.
    fn of(code: &[u8], origin: Origin) -> Option<Self> {
        if let [0xf3, 0x90, ..] = code {
            return Some(Self::Pause);
        }
        if origin != Origin::Kernel {
            let mark = Mark::decode(code).map(Self::Mark);
            let special = if is_call(code) { Some(Self::Call) } else { mark };
            if special.is_some() || origin == Origin::Program {
                return special;
            }
        }
        // Prefixes: a REX prefix for the upper registers, or 66 for invpcid.
        let code = match code {
            [0x40..=0x4f, rest @ ..] => rest,
            _ => code,
        };
        let register = |modrm: &u8| modrm >> 3 & 7;
        match code {
            // mov to CR3 or CR4; invlpg m.
            [0x0f, 0x22, modrm, ..] if matches!(register(modrm), 3 | 4) => Some(Self::FlushTlb),
            [0x0f, 0x01, modrm, ..] if register(modrm) == 7 && *modrm < 0xc0 => {
                Some(Self::FlushTlb)
            }
            [0x66, 0x0f, 0x38, 0x82, ..] => Some(Self::FlushTlb),
            [0xf4, ..] => Some(Self::Halt),
            [0xfb, ..] => Some(Self::EnableInterrupts),
            _ => None,
        }
    }

    /// Packs the callback's data into a word: the mode of a pause, the displacement of a mark, or
    /// the address of a halt.
    fn pack(self, origin: Origin, address: u64) -> *mut c_void {
        let value = match self {
            Self::Call | Self::FlushTlb | Self::EnableInterrupts => 0,
            Self::Halt => address as usize,
            Self::Pause => usize::from(origin == Origin::Kernel),
            Self::Mark(mark) => mark.displacement() as usize,
        };
        ptr::without_provenance_mut(value)
    }
}

/// Called when QEMU translates a block.
pub extern "C" fn translate(_id: qemu::Id, tb: *mut Tb) {
    let (Some(counting), Some(machine)) = (COUNTING.get(), machine()) else { return };
    let word = |offset| Word { scoreboard: counting.0, offset };
    // SAFETY: `tb` is the block being translated, valid during this call, and so are its
    // instructions; registering callbacks is what this call is for.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(tb);
        let address = qemu::qemu_plugin_tb_vaddr(tb);
        let is_kernel = address >= KERNEL;
        let has_started = MARKED.load(Ordering::Relaxed);
        let add = |offset, value| {
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                tb,
                qemu::ADD,
                word(offset),
                value,
            );
        };
        let insns = (0..count).map(|i| qemu::qemu_plugin_tb_get_insn(tb, i));
        let insns: Vec<(*mut Insn, Code)> = insns.map(|insn| (insn, Code::of(insn))).collect();
        // Until the first mark, only instructions take time: accesses are not modelled during boot.
        let is_modelled = has_started && machine.counts();
        let plan = is_modelled
            .then(|| redundant_accesses::plan(address, insns.iter().map(|(_, c)| c.bytes())));
        let instructions = count as u64;
        let (reads, writes) = plan.as_ref().map_or((0, 0), |plan| (plan.reads, plan.writes));
        let block = Block { instructions, reads, writes };
        if is_kernel {
            add(offset_of!(CpuScoreboard, kernel_block), block.pack());
            let time = Block { instructions, ..Block::default() };
            add(offset_of!(CpuScoreboard, block), time.pack());
        } else {
            add(offset_of!(CpuScoreboard, block), block.pack());
        }
        // A check once per iteration of a loop suffices, because few instructions are executed
        // between two backward jumps.
        if plan.as_ref().is_none_or(|plan| plan.goes_back) {
            qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                tb,
                on_budget,
                qemu::NO_REGS,
                qemu::AT_LEAST,
                word(offset_of!(CpuScoreboard, block)),
                Block { instructions: BUDGET, ..Block::default() }.pack(),
                ptr::null_mut(),
            );
        }
        let origin = match (is_kernel, has_started) {
            (true, _) => Origin::Kernel,
            (false, true) => Origin::Program,
            (false, false) => Origin::Unknown,
        };
        for (insn, code) in &insns {
            special(*insn, code, origin, word);
        }
        let reported = plan.into_iter().flat_map(|plan| plan.reported);
        for ((insn, _), reported) in insns.iter().zip(reported) {
            report_accesses(*insn, reported, is_kernel, machine.cpus());
        }
    }
}

/// The bytes of an instruction.
struct Code {
    bytes: [u8; 16],
    length: usize,
}

impl Code {
    /// # Safety
    /// `insn` belongs to the block being translated.
    unsafe fn of(insn: *const Insn) -> Self {
        let mut bytes = [0u8; 16];
        // SAFETY: the instruction is valid by contract; QEMU writes at most the given length.
        let length =
            unsafe { qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len()) };
        Self { length: length.min(bytes.len()), bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Registers the callback of a special instruction.
///
/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn special(insn: *mut Insn, code: &Code, origin: Origin, word: impl Fn(usize) -> Word) {
    let Some(special) = Special::of(code.bytes(), origin) else { return };
    // SAFETY: the instruction is valid by contract.
    let address = unsafe { qemu::qemu_plugin_insn_vaddr(insn) };
    let callback = match special {
        Special::EnableInterrupts => {
            let next = address + code.length as u64;
            let word = word(offset_of!(CpuScoreboard, interrupts_from));
            // SAFETY: as above.
            return unsafe {
                qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    insn,
                    qemu::STORE,
                    word,
                    next,
                );
            };
        }
        Special::Mark(_) => on_mark,
        Special::Call => on_call,
        Special::FlushTlb => on_flush_tlb,
        Special::Halt => on_halt,
        Special::Pause => on_pause,
    };
    // SAFETY: the instruction is valid by contract.
    unsafe {
        let data = special.pack(origin, address);
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, qemu::NO_REGS, data);
    }
}

/// Registers the callbacks for the reported accesses of an instruction.
///
/// # Safety
/// `insn` belongs to the block being translated, and `cpus` is [`Machine::cpus`] of the machine.
unsafe fn report_accesses(insn: *mut Insn, reported: Reported, is_kernel: bool, cpus: *mut c_void) {
    // Each kind of access has its own callback, so that the callbacks need no test for the kind.
    let [read, write]: [qemu::MemCallback; 2] = match (reported, is_kernel) {
        (Reported { elements: true, .. }, false) => [on_element_read, on_element_write],
        (Reported { elements: true, .. }, true) => {
            [on_kernel_element_read, on_kernel_element_write]
        }
        (Reported { value: true, .. }, false) => [on_load, on_write],
        (Reported { value: true, .. }, true) => [on_kernel_load, on_kernel_write],
        (_, false) => [on_read, on_write],
        (_, true) => [on_kernel_read, on_kernel_write],
    };
    let ways = [(reported.reads, read, qemu::READS), (reported.writes, write, qemu::WRITES)];
    for (_, callback, accesses) in ways.into_iter().filter(|(reported, ..)| *reported) {
        // SAFETY: the instruction is valid by contract.
        unsafe {
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, callback, qemu::NO_REGS, accesses, cpus);
        }
    }
}

/// The callbacks for accesses. Each only tests whether the access passes. The rest is in a separate
/// function, so that the test does not have to save the registers that the rest needs.
macro_rules! on_access {
    ($($callback:ident: $mode:expr, $way:expr, $rest:ident;)*) => {$(
        extern "C" fn $callback(cpu: c_uint, info: qemu::MemInfo, address: u64, cpus: *mut c_void) {
            // SAFETY: `cpus` is the pointer that `report_accesses` registered, and QEMU calls this
            // on the CPU thread.
            if !unsafe { Machine::passes(cpus, cpu, address, $way) } {
                $rest(cpu, info, address);
            }
        }

        #[inline(never)]
        extern "C" fn $rest(cpu: c_uint, info: qemu::MemInfo, address: u64) {
            if let Some(machine) = machine() {
                machine.access(cpu, info, address, $mode, $way);
            }
        }
    )*};
}

on_access! {
    on_read: Mode::User, Way::Read, read;
    on_load: Mode::User, Way::Load, load;
    on_write: Mode::User, Way::Write, write;
    on_kernel_read: Mode::Kernel, Way::Read, kernel_read;
    on_kernel_load: Mode::Kernel, Way::Load, kernel_load;
    on_kernel_write: Mode::Kernel, Way::Write, kernel_write;
}

/// The callbacks for instructions whose number of accesses is not known at translation.
macro_rules! on_element {
    ($($callback:ident: $mode:expr, $way:expr;)*) => {$(
        extern "C" fn $callback(cpu: c_uint, info: qemu::MemInfo, address: u64, _: *mut c_void) {
            if let Some(machine) = machine() {
                machine.access_element(cpu, info, address, $mode, $way);
            }
        }
    )*};
}

on_element! {
    on_element_read: Mode::User, Way::Read;
    on_element_write: Mode::User, Way::Write;
    on_kernel_element_read: Mode::Kernel, Way::Read;
    on_kernel_element_write: Mode::Kernel, Way::Write;
}

extern "C" fn on_budget(cpu: c_uint, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.budget(cpu);
    }
}

extern "C" fn on_flush_tlb(cpu: c_uint, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.flush_tlb(cpu);
    }
}

extern "C" fn on_call(_cpu: c_uint, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.call();
    }
}

extern "C" fn on_halt(cpu: c_uint, address: *mut c_void) {
    if let Some(machine) = machine() {
        machine.halt(cpu, address.addr() as u64);
    }
}

extern "C" fn on_pause(cpu: c_uint, data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.pause(cpu, if data.is_null() { Mode::User } else { Mode::Kernel });
    }
}

extern "C" fn on_mark(cpu: c_uint, data: *mut c_void) {
    let mark = u32::try_from(data.addr()).ok().and_then(Mark::from_displacement);
    let is_first = !MARKED.swap(true, Ordering::Relaxed);
    if let (Some(machine), Some(mark)) = (machine(), mark) {
        if is_first {
            machine.begin();
        }
        machine.mark(cpu, mark);
    }
}

#[cfg(test)]
mod tests {
    use numapilot_lab_pmu::MarkKind;

    use super::*;

    #[test]
    fn what_flushes_the_tlb_is_recognised_in_the_kernel_only() {
        let flushes: [&[u8]; 6] = [
            &[0x0f, 0x22, 0xd8],             // mov %rax,%cr3
            &[0x41, 0x0f, 0x22, 0xda],       // mov %r10,%cr3
            &[0x0f, 0x22, 0xe0],             // mov %rax,%cr4
            &[0x0f, 0x01, 0x38],             // invlpg (%rax)
            &[0x66, 0x0f, 0x38, 0x82, 0x07], // invpcid (%rdi),%rax
            &[0x41, 0x0f, 0x01, 0x3f],       // invlpg (%r15)
        ];
        for code in flushes {
            assert_eq!(Special::of(code, Origin::Kernel), Some(Special::FlushTlb), "{code:x?}");
            assert_eq!(Special::of(code, Origin::Program), None);
        }
        let others: [&[u8]; 4] = [
            &[0x0f, 0x22, 0xc0], // mov %rax,%cr0
            &[0x0f, 0x20, 0xd8], // mov %cr3,%rax
            &[0x0f, 0x01, 0x18], // lidt (%rax)
            &[],
        ];
        for code in others {
            assert_eq!(Special::of(code, Origin::Kernel), None, "{code:x?}");
        }
        assert_eq!(Special::of(&[0xf4], Origin::Kernel), Some(Special::Halt));
        assert_eq!(Special::of(&[0xfb], Origin::Kernel), Some(Special::EnableInterrupts));
        assert_eq!(Special::of(&[0xf4], Origin::Program), None);
        assert_eq!(Special::of(&[0xf3, 0x90], Origin::Kernel), Some(Special::Pause));
        assert_eq!(Special::of(&[0xf3, 0x90], Origin::Program), Some(Special::Pause));
    }

    #[test]
    fn marks_are_user_modes() {
        let mark = Mark { kind: MarkKind::End, slot: 3 };
        let code = [&[0x0f, 0x1f, 0x80][..], &mark.displacement().to_le_bytes()].concat();
        assert_eq!(Special::of(&code, Origin::Program), Some(Special::Mark(mark)));
        assert_eq!(Special::of(&code, Origin::Unknown), Some(Special::Mark(mark)));
        assert_eq!(Special::of(&code, Origin::Kernel), None);
        assert_eq!(
            Mark::from_displacement(Special::Mark(mark).pack(Origin::Program, 0).addr() as u32),
            Some(mark)
        );
    }
}
