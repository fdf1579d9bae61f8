//! Functions and types of QEMU's plugin interface.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface that is used.
pub const API_VERSION: c_int = 4;

/// ID of a loaded plugin.
pub type Id = u64;
/// QEMU's information about the current access.
pub type MemInfo = u32;

/// Declares opaque types of QEMU.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[repr(C)] pub struct $name { _private: [u8; 0] })*
    };
}

opaque! {
    /// A translation block.
    Tb;
    /// An instruction of a block.
    Insn;
    /// A physical address.
    HwAddr;
    /// Memory with one element per virtual CPU.
    Scoreboard;
}

/// A 64-bit word of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Word {
    pub scoreboard: *mut Scoreboard,
    pub offset: usize,
}

/// The value that an access has read or written: its type, then 128 bits, low half first.
#[repr(C)]
pub struct MemValue {
    pub kind: c_int,
    pub low: u64,
    pub high: u64,
}

/// QEMU's description of itself when it loads a plugin.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub api_min: c_int,
    pub api_current: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// `QEMU_PLUGIN_CB_NO_REGS`: a callback does not read registers.
pub const NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_MEM_R`.
pub const READS: c_int = 1;
/// `QEMU_PLUGIN_MEM_W`.
pub const WRITES: c_int = 2;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const ADD: c_int = 0;
/// `QEMU_PLUGIN_INLINE_STORE_U64`.
pub const STORE: c_int = 1;
/// `QEMU_PLUGIN_COND_GE`.
pub const AT_LEAST: c_int = 7;

pub type CpuCallback = extern "C" fn(Id, c_uint);
pub type TbCallback = extern "C" fn(Id, *mut Tb);
pub type DataCallback = extern "C" fn(Id, *mut c_void);
pub type ExecCallback = extern "C" fn(c_uint, *mut c_void);
pub type MemCallback = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: TbCallback);
    pub fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: CpuCallback);
    pub fn qemu_plugin_register_atexit_cb(id: Id, callback: DataCallback, data: *mut c_void);

    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_tb_vaddr(tb: *const Tb) -> u64;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, length: usize) -> usize;

    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb: *mut Tb,
        operation: c_int,
        word: Word,
        value: u64,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        tb: *mut Tb,
        callback: ExecCallback,
        flags: c_int,
        condition: c_int,
        word: Word,
        value: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        operation: c_int,
        word: Word,
        value: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemCallback,
        flags: c_int,
        accesses: c_int,
        data: *mut c_void,
    );

    pub fn qemu_plugin_scoreboard_new(element_size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(scoreboard: *mut Scoreboard, cpu: c_uint) -> *mut c_void;

    pub fn qemu_plugin_get_hwaddr(info: MemInfo, address: u64) -> *mut HwAddr;
    pub fn qemu_plugin_hwaddr_is_io(address: *const HwAddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const HwAddr) -> u64;
    pub fn qemu_plugin_mem_get_value(info: MemInfo) -> MemValue;
}
