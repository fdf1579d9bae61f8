//! Statistics of memory: the functions of the GNU C library, and our own.

use core::ffi::{CStr, c_char, c_int, c_void};

use numapilot_alloc::profile;
use numapilot_alloc::usage::{self, Format, NodeUsage, Usage};

/// The result of mallinfo2(3). A type of our own, because not every C library declares it.
#[repr(C)]
#[derive(Default)]
pub struct Mallinfo2 {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

/// The result of mallinfo(3).
#[repr(C)]
pub struct Mallinfo {
    arena: c_int,
    ordblks: c_int,
    smblks: c_int,
    hblks: c_int,
    hblkhd: c_int,
    usmblks: c_int,
    fsmblks: c_int,
    uordblks: c_int,
    fordblks: c_int,
    keepcost: c_int,
}

/// mallinfo2(3): `arena` is memory that was not returned, in use (`uordblks`) or free (`fordblks`);
/// `ordblks` counts free objects; `keepcost` is what a trim would return at once. Large blocks are
/// not mapped one by one, so `hblks` and `hblkhd` are 0.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    let Ok(usage) = Usage::count() else { return Mallinfo2::default() };
    let in_use = usage.sum(NodeUsage::in_use_bytes);
    let keepcost = usage.sum(|node| node.free_bytes);
    let free = usage.sum(NodeUsage::cached_bytes) + keepcost;
    Mallinfo2 {
        arena: in_use + free,
        ordblks: usage.sum(NodeUsage::free_objects),
        uordblks: in_use,
        fordblks: free,
        keepcost,
        ..Mallinfo2::default()
    }
}

/// mallinfo(3): as [`mallinfo2`]; a value that is too large for an `int` becomes its largest value.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> Mallinfo {
    let info = mallinfo2();
    let int = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    Mallinfo {
        arena: int(info.arena),
        ordblks: int(info.ordblks),
        smblks: int(info.smblks),
        hblks: int(info.hblks),
        hblkhd: int(info.hblkhd),
        usmblks: int(info.usmblks),
        fsmblks: int(info.fsmblks),
        uordblks: int(info.uordblks),
        fordblks: int(info.fordblks),
        keepcost: int(info.keepcost),
    }
}

/// malloc_stats(3): writes tables to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    let _ = usage::write_to(libc::STDERR_FILENO, Format::Text);
}

/// malloc_info(3): writes an XML document.
///
/// # Safety
/// `stream` is open for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        // As in the GNU C library, the error is the result, not in `errno`.
        return libc::EINVAL;
    }
    // The figures are taken first, so they do not contain what the stream allocates meanwhile.
    let sink = &mut |text: &[u8]| {
        let start = text.as_ptr().cast::<c_void>();
        // SAFETY: the stream by contract; the bytes are those of the text.
        match unsafe { libc::fwrite(start, 1, text.len(), stream) } {
            written if written == text.len() => Ok(()),
            _ => Err(libc::EIO),
        }
    };
    match Usage::count().and_then(|usage| usage.write(Format::Xml, sink)) {
        Ok(()) => 0,
        Err(_) => -1,
    }
}

/// mallopt(3): the options tune how the GNU C library gets memory, and mean nothing here. Returns 1
/// if ignoring the option is harmless. Returns 0 for M_PERTURB, which requests contents, and for
/// unknown options.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(option: c_int, _value: c_int) -> c_int {
    const M_MXFAST: c_int = 1;
    const M_KEEP: c_int = 4;
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_CHECK_ACTION: c_int = -5;
    const M_ARENA_TEST: c_int = -7;
    const M_ARENA_MAX: c_int = -8;
    let ignored = matches!(
        option,
        M_MXFAST..=M_KEEP | M_CHECK_ACTION..=M_TRIM_THRESHOLD | M_ARENA_MAX..=M_ARENA_TEST
    );
    ignored.into()
}

/// Writes how the memory is used to a descriptor, as `text`, `json` or `prometheus`. Returns 0, or
/// -1 with `errno`: EINVAL for another format, ENOMEM, or the error of write(2).
///
/// # Safety
/// `format` is a string, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn numapilot_alloc_stats(descriptor: c_int, format: *const c_char) -> c_int {
    // SAFETY: by contract.
    let name = (!format.is_null()).then(|| unsafe { CStr::from_ptr(format) });
    let result = match name.and_then(|name| Format::parse(name.to_bytes())) {
        Some(format) => usage::write_to(descriptor, format),
        None => Err(libc::EINVAL),
    };
    as_in_c(result)
}

/// Writes the heap profile to a descriptor, in pprof's format. Returns 0, or -1 with `errno`:
/// EINVAL if NUMAPILOT_ALLOC_PROFILE did not request one, or the error of write(2).
#[unsafe(no_mangle)]
pub extern "C" fn numapilot_alloc_profile(descriptor: c_int) -> c_int {
    as_in_c(profile::write_to(descriptor))
}

/// Returns 0, or -1 with the number in `errno`.
fn as_in_c(result: Result<(), c_int>) -> c_int {
    let Err(number) = result else { return 0 };
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = number };
    -1
}
