//! The C++ operators `new` and `delete`, by their mangled names (Itanium C++ ABI).
//!
//! Without these a program would reach the same memory through libstdc++'s operators, which call
//! malloc and free. With them there is one call less, and `delete` with a size saves the lookup.
//! When there is no memory, `new` calls the program's new-handler repeatedly. If there is no
//! handler, it throws `std::bad_alloc`. Both go through libstdc++'s own functions.

use core::arch::global_asm;
use core::ffi::c_void;
use core::ptr::null_mut;

use numapilot_alloc::api::{self, Errno, NoMemory};
use numapilot_alloc::report;
use numapilot_bind::address_of;

use crate::catch::{self, Handler};

// Null in a program without libstdc++, which cannot call these operators either.
global_asm!(".weak _ZSt15get_new_handlerv", ".weak _ZSt17__throw_bad_allocv");

fn new_handler() -> Option<Handler> {
    let address = address_of!("_ZSt15get_new_handlerv");
    if address == 0 {
        return None;
    }
    // SAFETY: `std::get_new_handler()` takes nothing and returns a function or null.
    unsafe {
        let get = core::mem::transmute::<usize, unsafe extern "C" fn() -> Option<Handler>>(address);
        get()
    }
}

fn throw_bad_alloc() -> ! {
    let address = address_of!("_ZSt17__throw_bad_allocv");
    if address == 0 {
        report::out_of_memory();
    }
    // SAFETY: throws and does not return. No frame of ours in between has anything to clean up, and
    // all have unwind tables.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> !>(address)() }
}

/// Tries again for as long as a new-handler promises more memory. Returns null if there is no
/// handler, or if the handler, called by `call`, gave up.
fn retry(size: usize, align: usize, call: impl Fn(Handler) -> bool) -> *mut u8 {
    while let Some(handler) = new_handler()
        && call(handler)
    {
        let object = api::allocate_aligned::<Errno>(size, align);
        if !object.is_null() {
            return object;
        }
    }
    null_mut()
}

/// Ends with null, even if the new-handler throws.
struct Nothrow;

impl NoMemory for Nothrow {
    fn result(size: usize, align: usize) -> *mut u8 {
        // SAFETY: the program's own function, called as the C++ standard specifies.
        retry(size, align, |handler| unsafe { catch::call(handler) })
    }
}

/// Ends with an exception, the new-handler's or ours.
struct Throw;

impl NoMemory for Throw {
    fn result(size: usize, align: usize) -> *mut u8 {
        let object = retry(size, align, |handler| {
            // SAFETY: as above.
            unsafe { handler() };
            true
        });
        if object.is_null() {
            throw_bad_alloc();
        }
        object
    }
}

macro_rules! new {
    ($way:ident: $($name:ident($($unused:ty),*))*) => {$(
        /// `operator new` in one of its forms.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(size: usize $(, _: $unused)*) -> *mut c_void {
            api::allocate::<$way>(size).cast()
        }
    )*};
}

macro_rules! new_aligned {
    ($way:ident: $($name:ident($($unused:ty),*))*) => {$(
        /// `operator new` with an alignment, in one of its forms.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(size: usize, align: usize $(, _: $unused)*) -> *mut c_void {
            api::allocate_aligned::<$way>(size, align).cast()
        }
    )*};
}

macro_rules! delete {
    ($($name:ident($($unused:ty),*))*) => {$(
        /// `operator delete` in one of its forms.
        ///
        /// # Safety
        /// As free(3).
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut c_void $(, _: $unused)*) {
            // SAFETY: by contract.
            unsafe { api::release(object.cast()) }
        }
    )*};
}

new!(Throw: _Znwm() _Znam());
new!(Nothrow: _ZnwmRKSt9nothrow_t(*const c_void) _ZnamRKSt9nothrow_t(*const c_void));
new_aligned!(Throw: _ZnwmSt11align_val_t() _ZnamSt11align_val_t());
new_aligned!(
    Nothrow: _ZnwmSt11align_val_tRKSt9nothrow_t(*const c_void)
    _ZnamSt11align_val_tRKSt9nothrow_t(*const c_void)
);
delete!(
    _ZdlPv() _ZdaPv() _ZdlPvm(usize) _ZdaPvm(usize)
    _ZdlPvRKSt9nothrow_t(*const c_void) _ZdaPvRKSt9nothrow_t(*const c_void)
    _ZdlPvSt11align_val_t(usize) _ZdaPvSt11align_val_t(usize)
    _ZdlPvmSt11align_val_t(usize, usize) _ZdaPvmSt11align_val_t(usize, usize)
    _ZdlPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void)
    _ZdaPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void)
);
