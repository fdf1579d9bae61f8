//! A call that catches exceptions of the called function.
//!
//! `new (std::nothrow)` calls the program's new-handler, which may throw. Rust without `std` cannot
//! catch that, hence the assembler: a function with the tables of a C++ `try { handler(); return
//! true; } catch (...) { return false; }` (Itanium C++ ABI, Exception Handling, section 2;
//! language-specific data area as GCC writes it).

use core::arch::global_asm;

/// `std::new_handler`.
pub type Handler = unsafe extern "C" fn();

unsafe extern "C" {
    /// Calls a handler; returns false if it threw.
    ///
    /// # Safety
    /// As the handler requires.
    #[link_name = "numapilot_alloc_call"]
    pub unsafe fn call(handler: Handler) -> bool;
}

/// The parts common to both architectures: the position of the personality routine, and the table,
/// according to which any exception out of the call goes to the landing pad.
macro_rules! function {
    ($($line:literal),* $(,)?) => {
        global_asm!(
            ".weak __gxx_personality_v0",
            ".weak __cxa_begin_catch",
            ".weak __cxa_end_catch",
            ".pushsection .data.rel.ro.numapilot_alloc_call,\"aw\",%progbits",
            ".p2align 3",
            ".Lnumapilot_personality: .quad __gxx_personality_v0",
            ".popsection",
            ".pushsection .gcc_except_table.numapilot_alloc_call,\"a\",%progbits",
            ".p2align 2",
            ".Lnumapilot_lsda:",
            // Landing pads count from the function's start; types are relative to themselves.
            ".byte 0xff, 0x9b",
            ".uleb128 .Lnumapilot_types - .Lnumapilot_sites",
            ".Lnumapilot_sites:",
            ".byte 1",
            ".uleb128 .Lnumapilot_actions - .Lnumapilot_site",
            ".Lnumapilot_site:",
            ".uleb128 .Lnumapilot_try - numapilot_alloc_call",
            ".uleb128 .Lnumapilot_tried - .Lnumapilot_try",
            ".uleb128 .Lnumapilot_landing - numapilot_alloc_call",
            ".uleb128 1",
            ".Lnumapilot_actions:",
            ".byte 1, 0",
            ".p2align 2",
            ".long 0",
            ".Lnumapilot_types:",
            ".popsection",
            ".pushsection .text.numapilot_alloc_call,\"ax\",%progbits",
            ".hidden numapilot_alloc_call",
            ".globl numapilot_alloc_call",
            ".type numapilot_alloc_call,%function",
            "numapilot_alloc_call:",
            ".cfi_startproc",
            ".cfi_personality 0x9b, .Lnumapilot_personality",
            ".cfi_lsda 0x1b, .Lnumapilot_lsda",
            $($line,)*
            ".cfi_endproc",
            ".size numapilot_alloc_call, . - numapilot_alloc_call",
            ".popsection",
        );
    };
}

#[cfg(target_arch = "x86_64")]
function!(
    "sub rsp, 8",
    ".cfi_def_cfa_offset 16",
    ".Lnumapilot_try: call rdi",
    ".Lnumapilot_tried: mov eax, 1",
    ".Lnumapilot_leave: add rsp, 8",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_restore_state",
    ".Lnumapilot_landing: mov rdi, rax",
    "call __cxa_begin_catch@PLT",
    "call __cxa_end_catch@PLT",
    "xor eax, eax",
    "jmp .Lnumapilot_leave",
);

#[cfg(target_arch = "aarch64")]
function!(
    "stp x29, x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    ".Lnumapilot_try: blr x0",
    ".Lnumapilot_tried: mov w0, #1",
    ".Lnumapilot_leave: ldp x29, x30, [sp], #16",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    ".cfi_restore_state",
    ".Lnumapilot_landing: bl __cxa_begin_catch",
    "bl __cxa_end_catch",
    "mov w0, #0",
    "b .Lnumapilot_leave",
);
