//! Tests of the program's malloc: which one it gets, and whether it uses it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{NUMAPILOT, compile, err, failure, own_allocator, run};

#[test]
fn a_static_program_keeps_its_malloc_and_this_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nint main(void) { puts(\"ran\"); }";
    let Some(program) = compile(directory.path(), source, &["-static"]) else { return };
    refuses_preload(&program, "statically linked");
}

#[test]
fn a_program_with_its_own_malloc_keeps_it_and_this_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nvoid *je_malloc(unsigned long n) { return n ? 0 : 0; }\n\
                  int main(void) { puts(\"ran\"); return je_malloc(0) != 0; }";
    let Some(program) = compile(directory.path(), source, &[]) else { return };
    refuses_preload(&program, "it defines je_malloc");
}

fn refuses_preload(program: &Path, cause: &str) {
    let library = program.with_file_name("liballoc.so");
    fs::copy(own_allocator(), &library).unwrap();
    let arguments = ["--allocator", library.to_str().unwrap(), program.to_str().unwrap()];
    let dry = run(&[&["--dry-run"], &arguments[..]].concat());
    assert!(err(&dry).contains("warning: allocator liballoc.so: "), "{}", err(&dry));
    assert!(err(&dry).contains(cause), "{}", err(&dry));
    let strict = failure(&[&["--strict"], &arguments[..]].concat());
    assert!(strict.contains("strict was requested") && strict.contains(cause), "{strict}");
}

/// A program with a malloc that it does not export, which runs for some time.
const HIDDEN: &str = r#"
#include <sys/mman.h>
#include <time.h>
static char *pool;
__attribute__((visibility("hidden"))) void *malloc(unsigned long size) {
    if (!pool) pool = mmap(0, 1 << 28, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool += (size + 15) & ~15UL;
    return pool - ((size + 15) & ~15UL);
}
int main(void) {
    while (clock() < CLOCKS_PER_SEC / 4) ((volatile char *)malloc(64))[0] = 1;
    return 0;
}
"#;

#[test]
fn a_hidden_malloc_is_seen_as_far_as_the_symbols_tell() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(directory.path(), HIDDEN, &["-fno-builtin"]) else { return };
    refuses_preload(&program, "it defines malloc");
    let library = program.with_file_name("liballoc.so");
    let Some(program) = compile(directory.path(), HIDDEN, &["-fno-builtin", "-s"]) else { return };
    let all = ["-v", "--allocator", library.to_str().unwrap(), program.to_str().unwrap()];
    let stderr = err(&run(&all));
    assert!(stderr.contains("its library is loaded, but program imports no malloc"), "{stderr}");
    assert!(!stderr.contains("in effect"), "{stderr}");
}

/// With `-static-libstdc++`, a program defines operator new, which calls the malloc that the loader
/// finds.
#[test]
fn an_operator_new_that_calls_malloc_is_no_malloc_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\n#include <unistd.h>\n\
                  void *_Znwm(unsigned long n) { return malloc(n); }\n\
                  int main(void) { usleep(700000); return _Znwm(9) == 0; }";
    for flags in [&["-rdynamic"][..], &[]] {
        let Some(program) = compile(directory.path(), source, flags) else { return };
        let library = own_allocator();
        let plan = ["--allocator", library.to_str().unwrap(), program.to_str().unwrap()];
        let output = run(&[&["-v", "--strict"], &plan[..]].concat());
        let stderr = err(&output);
        assert!(output.status.success(), "{flags:?}: {stderr}");
        assert!(stderr.contains(": in effect (its library is mapped)"), "{flags:?}: {stderr}");
    }
}

/// A program that prints the name of the file whose malloc it uses.
const USES: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    Dl_info where;
    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &where);
    puts(strrchr(where.dli_fname, '/') + 1);
    fflush(stdout);
    usleep(700000);
    return malloc(9) == 0;
}
"#;

/// Redis is linked with jemalloc on some systems.
#[test]
fn a_program_that_is_linked_with_another_malloc_uses_the_c_librarys() {
    let directory = tempfile::tempdir().unwrap();
    let Some(other) = library(directory.path()) else { return };
    let path = directory.path().to_str().unwrap();
    let flags = ["-Wl,--no-as-needed", "-L", path, "-lalloc", "-Wl,-rpath", "-Wl,", "-ldl"];
    let flags = flags.map(|flag| if flag == "-Wl," { format!("-Wl,{path}") } else { flag.into() });
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Some(program) = compile(directory.path(), USES, &flags) else { return };
    let program = program.to_str().unwrap();
    assert_eq!(run(&[program]).stdout, b"liballoc.so\n", "{}", other.display());
    let output = run(&["-v", "--strict", "--allocator", "glibc", program]);
    let stderr = err(&output);
    assert_eq!(output.stdout, b"libc.so.6\n", "{stderr}");
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("allocator glibc: in effect"), "{stderr}");
    // A wrapper that hides the preload from the program is seen.
    let script = format!("LD_PRELOAD=libm.so.6 exec {program}");
    let output = run(&["--strict", "--allocator", "glibc", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(125), "{}", err(&output));
    assert!(err(&output).contains("program uses liballoc.so"), "{}", err(&output));
}

#[test]
fn a_static_pie_keeps_its_malloc_and_this_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }";
    let Some(program) = compile(directory.path(), source, &["-static-pie"]) else { return };
    refuses_preload(&program, "statically linked");
}

#[test]
fn a_second_malloc_of_the_plan_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("liballoc.so");
    fs::copy(own_allocator(), &library).unwrap();
    let library = library.to_str().unwrap();
    let plan = ["--allocator", library, "--env", "LD_PRELOAD=/opt/libjemalloc.so.2"];
    let with = |options: &[&str]| run(&[options, &plan, &["true"]].concat());
    let output = with(&["--dry-run"]);
    let line = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(line.contains(&format!("LD_PRELOAD={library}:/opt/libjemalloc.so.2")), "{line}");
    let stderr = err(&output);
    assert!(stderr.contains("LD_PRELOAD: jemalloc also has a malloc"), "{stderr}");
    assert!(stderr.contains("liballoc.so comes first and is used"), "{stderr}");
    assert_eq!(with(&["--strict"]).status.code(), Some(125));
    // Libraries without a malloc are left to the user.
    let plain = ["--env", "LD_PRELOAD=libm.so.6", "--allocator", library, "--dry-run", "true"];
    assert_eq!(err(&run(&plain)), "");
}

/// A program that runs for some time without a dynamic loader.
const WORK: &str = "#include <time.h>\n\
     int main(void) { while (clock() < CLOCKS_PER_SEC / 4); return 0; }";

/// A library that can be preloaded and changes nothing.
fn library(directory: &Path) -> Option<PathBuf> {
    let malloc = "void *__libc_malloc(unsigned long);\n\
                  void *malloc(unsigned long size) { return __libc_malloc(size); }";
    let built = compile(directory, malloc, &["-shared", "-fPIC"])?;
    let library = directory.join("liballoc.so");
    fs::rename(built, &library).unwrap();
    Some(library)
}

#[test]
fn an_allocator_that_does_not_reach_a_scripts_program_is_reported_once() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(directory.path()) else { return };
    let Some(program) = compile(directory.path(), WORK, &["-static"]) else { return };
    let script = format!("{}; true", program.display());
    let with = |option: &str| {
        run(&[option, "--allocator", library.to_str().unwrap(), "sh", "-c", &script])
    };
    let stderr = err(&with("-v"));
    let cause = "program does not load it: it is statically linked";
    assert_eq!(stderr.matches(cause).count(), 1, "{stderr}");
    let strict = with("--strict");
    assert_eq!(strict.status.code(), Some(125), "{}", err(&strict));
    assert!(err(&strict).contains(cause), "{}", err(&strict));
    // If it is started directly, its file shows that, and there is only one message.
    let direct = run(&["-v", "--allocator", library.to_str().unwrap(), program.to_str().unwrap()]);
    assert_eq!(err(&direct).matches("warning").count(), 1, "{}", err(&direct));
    // A dynamic program loads it.
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let dynamic = run(&["-v", "--allocator", library.to_str().unwrap(), "sh", "-c", script]);
    let stderr = err(&dynamic);
    assert!(stderr.contains("in effect (its library is mapped)"), "{stderr}");
}

#[test]
fn an_installed_allocator_is_loaded() {
    let output =
        run(&["--allocator", "jemalloc", "-v", "grep", "-c", "jemalloc", "/proc/self/maps"]);
    if err(&output).contains("is not installed") {
        println!("skipped: {}", err(&output));
        return;
    }
    assert!(output.status.success(), "{}", err(&output));
    // The user's own allocator, set in the environment, stays behind it.
    let both = Command::new(NUMAPILOT)
        .args(["run", "--allocator", "jemalloc", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", "libm.so.6")
        .output()
        .unwrap();
    let both = String::from_utf8(both.stdout).unwrap();
    assert!(both.contains("jemalloc") && both.ends_with(":libm.so.6\n"), "{both}");
}

#[test]
fn glibc_is_not_claimed_when_something_else_is_preloaded() {
    let output = Command::new(NUMAPILOT)
        .args(["run", "--allocator", "glibc", "--dry-run", "true"])
        .env("LD_PRELOAD", "libjemalloc.so.2")
        .output()
        .unwrap();
    assert!(err(&output).contains("LD_PRELOAD already names jemalloc"), "{}", err(&output));
}
