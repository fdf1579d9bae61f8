//! QEMU's functions are found when QEMU loads the library. Test programs, which QEMU does not
//! load, never call them.

fn main() {
    println!("cargo::rustc-link-arg=-Wl,--unresolved-symbols=ignore-in-object-files");
}
