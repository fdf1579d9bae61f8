//! What translated code must do for the simulation, decided once for each block when QEMU
//! translates it.

use std::ffi::{c_uint, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use numapilot_lab_model::Way;
use numapilot_lab_pmu::Mark;

use crate::apic;
use crate::cpu_scoreboard::{BUDGET, Block, CpuScoreboard};
use crate::machine::{Machine, machine};
use crate::qemu::{self, Insn, Scoreboard, Tb, Word};
use crate::redundant_accesses::{self, Reported};
use crate::registers;

/// Addresses below this are user mode (x86-64, with four or five levels of page tables).
const KERNEL: u64 = 1 << 63;

/// Before the first mark, code below this address is the firmware or the kernel's decompressor.
/// Both look like user mode; simulating them would double the boot time.
const FIRMWARE: u64 = 1 << 32;

/// Whether a mark was seen: from then on there are only the kernel and user mode.
static MARKED: AtomicBool = AtomicBool::new(false);

/// The scoreboard in which translated code counts.
struct Counting(*mut Scoreboard);

// SAFETY: an opaque handle, used only to be given back to QEMU, from any thread.
unsafe impl Send for Counting {}
// SAFETY: as above.
unsafe impl Sync for Counting {}

static COUNTING: OnceLock<Counting> = OnceLock::new();

/// Makes the scoreboard. Must be called once, while the plugin is installed.
pub fn prepare() {
    COUNTING.get_or_init(|| {
        // SAFETY: called while the plugin is installed, when QEMU is ready for it.
        Counting(unsafe { qemu::qemu_plugin_scoreboard_new(size_of::<CpuScoreboard>()) })
    });
}

/// The scoreboard element of a CPU that QEMU has set up.
pub fn scoreboard_of(cpu: c_uint) -> Option<&'static CpuScoreboard> {
    let counting = COUNTING.get()?;
    // SAFETY: QEMU gives zeroed memory for `CpuScoreboard`, suitably aligned for its words, which
    // are atomics. It lives as long as the plugin: QEMU never frees scoreboards by itself,
    // and grows them only before CPUs beyond the first 64 kB of CPUs are added, none here.
    unsafe { qemu::qemu_plugin_scoreboard_find(counting.0, cpu).cast::<CpuScoreboard>().as_ref() }
}

/// The effect of an instruction on the simulation, besides memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Mark(Mark),
    FlushTlb,
    EnterKernel,
    Spin,
    WriteRegister,
}

impl Special {
    fn of(code: &[u8], kernel: bool) -> Option<Self> {
        if !kernel {
            return Mark::decode(code).map(Self::Mark);
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
            // swapgs: the first instruction on entry to the kernel, the last on exit.
            [0x0f, 0x01, 0xf8, ..] => Some(Self::EnterKernel),
            // wrmsr.
            [0x0f, 0x30, ..] => Some(Self::WriteRegister),
            // pause.
            [0xf3, 0x90, ..] => Some(Self::Spin),
            _ => None,
        }
    }

    /// Packs it into the word that a callback gets.
    fn pack(self) -> *mut c_void {
        let value = match self {
            Self::FlushTlb | Self::EnterKernel | Self::Spin | Self::WriteRegister => 0,
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
        if address < FIRMWARE && !MARKED.load(Ordering::Relaxed) {
            return;
        }
        let kernel = address >= KERNEL;
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
        if kernel {
            add(offset_of!(CpuScoreboard, kernel), count as u64);
            insns.iter().for_each(|(insn, code)| special(*insn, code, true));
            return;
        }
        let plan = redundant_accesses::plan(address, insns.iter().map(|(_, c)| c.bytes()));
        let block = Block { instructions: count as u64, reads: plan.reads, writes: plan.writes };
        add(offset_of!(CpuScoreboard, block), block.pack());
        // Once per iteration of a loop suffices, because little is executed outside loops.
        if plan.goes_back {
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
        for ((insn, code), reported) in insns.iter().zip(plan.reported) {
            special(*insn, code, false);
            report_accesses(*insn, reported, machine.cpus());
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
        // SAFETY: the caller vouches for the instruction; no more is written than there is
        // room.
        let length =
            unsafe { qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), bytes.len()) };
        Self { length: length.min(bytes.len()), bytes }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// # Safety
/// `insn` belongs to the block being translated.
unsafe fn special(insn: *mut Insn, code: &Code, kernel: bool) {
    let Some(special) = Special::of(code.bytes(), kernel) else { return };
    let callback = match special {
        Special::Mark(_) => on_mark,
        Special::FlushTlb => on_flush_tlb,
        Special::EnterKernel => on_enter_kernel,
        Special::Spin => on_spin,
        Special::WriteRegister => on_write_register,
    };
    let registers =
        if special == Special::WriteRegister { qemu::READS_REGS } else { qemu::NO_REGS };
    let data = special.pack();
    // SAFETY: the caller vouches for the instruction.
    unsafe { qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, registers, data) }
}

/// # Safety
/// `insn` belongs to the block being translated, and `cpus` are the machine's.
unsafe fn report_accesses(insn: *mut Insn, reported: Reported, cpus: *mut c_void) {
    // One callback for each kind of access, so that none has to test for it.
    let [read, write]: [qemu::MemCallback; 2] = match reported {
        Reported { elements: true, .. } => [on_element_read, on_element_write],
        Reported { value: true, .. } => [on_load, on_write],
        _ => [on_read, on_write],
    };
    let ways = [(reported.reads, read, qemu::READS), (reported.writes, write, qemu::WRITES)];
    for (_, callback, accesses) in ways.into_iter().filter(|(reported, ..)| *reported) {
        // SAFETY: the caller vouches for the instruction.
        unsafe {
            qemu::qemu_plugin_register_vcpu_mem_cb(insn, callback, qemu::NO_REGS, accesses, cpus);
        }
    }
}

/// The callbacks for accesses. Each tests whether the access passes; everything else is in another
/// function, so the test needs none of its registers.
macro_rules! on_access {
    ($($callback:ident: $way:expr, $rest:ident;)*) => {$(
        extern "C" fn $callback(cpu: c_uint, info: qemu::MemInfo, address: u64, cpus: *mut c_void) {
            // SAFETY: `cpus` is what `tell` was given, and QEMU calls on the CPU's thread.
            if !unsafe { Machine::passes(cpus, cpu, address, $way) } {
                $rest(cpu, info, address);
            }
        }

        #[inline(never)]
        extern "C" fn $rest(cpu: c_uint, info: qemu::MemInfo, address: u64) {
            if let Some(machine) = machine() {
                machine.access(cpu, info, address, $way);
            }
        }
    )*};
}

on_access! {
    on_read: Way::Read, read;
    on_load: Way::Load, load;
    on_write: Way::Write, write;
}

extern "C" fn on_element_read(cpu: c_uint, info: qemu::MemInfo, address: u64, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.access_element(cpu, info, address, Way::Read);
    }
}

extern "C" fn on_element_write(cpu: c_uint, info: qemu::MemInfo, address: u64, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.access_element(cpu, info, address, Way::Write);
    }
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

extern "C" fn on_enter_kernel(cpu: c_uint, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.enter_kernel(cpu);
    }
}

extern "C" fn on_spin(cpu: c_uint, _data: *mut c_void) {
    if let Some(machine) = machine() {
        machine.spin(cpu);
    }
}

extern "C" fn on_write_register(cpu: c_uint, _data: *mut c_void) {
    // SAFETY: this callback is registered as one that reads registers.
    let command = unsafe { registers::written_to(apic::COMMAND) };
    if let (Some(machine), Some(command)) = (machine(), command) {
        machine.interrupt(cpu, command);
    }
}

extern "C" fn on_mark(cpu: c_uint, data: *mut c_void) {
    let mark = u32::try_from(data.addr()).ok().and_then(Mark::from_displacement);
    MARKED.store(true, Ordering::Relaxed);
    if let (Some(machine), Some(mark)) = (machine(), mark) {
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
            assert_eq!(Special::of(code, true), Some(Special::FlushTlb), "{code:x?}");
            assert_eq!(Special::of(code, false), None);
        }
        let others: [&[u8]; 4] = [
            &[0x0f, 0x22, 0xc0], // mov %rax,%cr0
            &[0x0f, 0x20, 0xd8], // mov %cr3,%rax
            &[0x0f, 0x01, 0x18], // lidt (%rax)
            &[],
        ];
        for code in others {
            assert_eq!(Special::of(code, true), None, "{code:x?}");
        }
        assert_eq!(Special::of(&[0x0f, 0x01, 0xf8], true), Some(Special::EnterKernel), "swapgs");
        assert_eq!(Special::of(&[0x0f, 0x30], true), Some(Special::WriteRegister), "wrmsr");
        assert_eq!(Special::of(&[0xf3, 0x90], true), Some(Special::Spin), "pause");
        assert_eq!(Special::of(&[0xf3, 0x90], false), None, "pause");
    }

    #[test]
    fn marks_are_user_modes() {
        let mark = Mark { kind: MarkKind::End, slot: 3 };
        let code = [&[0x0f, 0x1f, 0x80][..], &mark.displacement().to_le_bytes()].concat();
        assert_eq!(Special::of(&code, false), Some(Special::Mark(mark)));
        assert_eq!(Special::of(&code, true), None);
        assert_eq!(Mark::from_displacement(Special::Mark(mark).pack().addr() as u32), Some(mark));
    }
}
