//! QEMU's functions are resolved when QEMU loads the library. Test programs are not loaded by QEMU
//! and never call them.

fn main() {
    println!("cargo::rustc-link-arg=-Wl,-z,undefs");
}
