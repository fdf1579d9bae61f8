//! `numapilot run`: what the program gets, and what the caller gets back.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use insta::assert_snapshot;
use numapilot_sys::process::PidFd;
use numapilot_sys::signals::catchable;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const NUMAPILOT: &str = env!("CARGO_BIN_EXE_numapilot");

fn run(arguments: &[&str]) -> Output {
    Command::new(NUMAPILOT).arg("run").args(arguments).output().unwrap()
}

fn out(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn failure(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(125), "{arguments:?}: {}", err(&output));
    assert!(output.stdout.is_empty());
    err(&output)
}

/// Compiles a C program, or says why the test is skipped.
fn compile(directory: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let file = directory.join("program.c");
    let program = directory.join("program");
    fs::write(&file, source).unwrap();
    let result = Command::new("cc").arg("-o").arg(&program).arg(&file).args(flags).output();
    match result {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            println!("skipped: cc {flags:?} fails here: {}", err(&output));
            None
        }
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            None
        }
    }
}

#[test]
fn the_status_is_the_programs() {
    let code = |arguments: &[&str]| run(arguments).status.code();
    for verbose in [&[][..], &["--verbose"]] {
        let with = |rest: &[&'static str]| [verbose, rest].concat();
        assert_eq!(code(&with(&["true"])), Some(0));
        assert_eq!(code(&with(&["--", "sh", "-c", "exit 3"])), Some(3));
        assert_eq!(code(&with(&["no-such-program-here"])), Some(127));
        assert_eq!(code(&with(&["/no/such/program"])), Some(127));
        assert_eq!(code(&with(&["/etc/passwd"])), Some(126));
        assert_eq!(code(&with(&["/etc"])), Some(126));
    }
    // Supervised: 128+n. Not supervised: numapilot became the program, which was killed.
    assert_eq!(code(&["--verbose", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).status.signal(), Some(15));
}

#[test]
fn every_memory_policy_reaches_the_program() {
    for (options, seen) in [
        (&[][..], " default "),
        (&["-l"], " local "),
        (&["-i", "all"], " interleave:"),
        (&["--interleave=0"], " interleave:0 "),
        (&["-w", "all"], " weighted interleave:"),
        (&["-m", "+0"], " bind:"),
        (&["-p", "+0"], " prefer:"),
        (&["-P", "all"], " prefer (many):"),
        (&["--numa-balancing", "off"], " local "),
        // The flag has the kernel show "=balancing" after the mode.
        (&["-b", "-m", "all"], " bind=balancing:"),
    ] {
        let output = run(&[options, &["head", "-n1", "/proc/self/numa_maps"]].concat());
        let said = err(&output);
        if said.contains("this kernel") {
            println!("skipped: {options:?}: {said}");
            continue;
        }
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.contains(seen), "{options:?}: {line}{said}");
    }
}

#[test]
fn cpus_huge_pages_and_variables_reach_the_program() {
    let status =
        out(&["-C", "+0", "--thp", "never", "grep", "-E", "Cpus_|THP", "/proc/self/status"]);
    assert!(status.contains("THP_enabled:\t0"), "{status}");
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:\t")).unwrap();
    assert!(list.parse::<u32>().is_ok(), "one CPU: {list}");
    assert_eq!(out(&["--env", "A=b c", "--env", "D=", "sh", "-c", "echo \"$A|$D\""]), "b c|\n");
    assert!(failure(&["--env", "A", "true"]).contains("NAME=VALUE"));
}

#[test]
fn options_after_the_command_belong_to_it() {
    assert_eq!(out(&["echo", "-i", "--help", "--", "x"]), "-i --help -- x\n");
    assert_eq!(out(&["-l", "--", "echo", "-l"]), "-l\n");
    assert!(failure(&["--alocator", "x", "true"]).contains("--allocator"));
    assert!(failure(&[]).contains("<COMMAND>"));
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_runs() {
    let touched = tempfile::tempdir().unwrap();
    let file = touched.path().join("ran");
    let refused = |options: &[&str], expected: &str| {
        let said = failure(&[options, &["touch", file.to_str().unwrap()]].concat());
        assert!(said.contains(expected), "{options:?}: {said}");
        assert!(!file.exists());
    };
    refused(&["-i", "9999"], "node 9999 is not on this machine, which has node");
    refused(&["-i", "x"], "bad node string");
    refused(&["-i", "same"], "another option");
    refused(&["-m", "netdev:none0"], "/sys/class/net/none0 is not there");
    refused(&["-m", "!all"], "selects nothing on this machine");
    refused(&["-C", "60000"], "CPU 60000 is not on this machine");
    refused(&["-i", "0", "-m", "0"], "cannot be used with");
    refused(&["-l", "-P", "0"], "cannot be used with");
    refused(&["-m", "0", "-b", "--numa-balancing", "off"], "contradict");
    refused(&["--thp", "sometimes"], "inherit, always, never");
    refused(&["--allocator", "nomalloc"], "known are jemalloc");
    refused(&["--allocator", "/nonexistent.so"], "give the path of a shared library");
    refused(&["--allocator", "/etc/passwd"], "not an ELF file");
    refused(&["--allocator", "scalloc"], "looked for libscalloc.so in");
    refused(&["--per-node", "-i", "0"], "--per-node gives each instance");
    refused(&["--profile", "/nonexistent.toml"], "/nonexistent.toml");
}

#[test]
fn a_dry_run_prints_the_line_and_runs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("liballoc.so");
    fs::copy(own_allocator(), &library).unwrap();
    let line = |options: &[&str]| {
        let all = [&["--dry-run"], options, &["--", "prog", "a b", "$x", "it's"]].concat();
        out(&all).replace(directory.path().to_str().unwrap(), "/lib")
    };
    assert_snapshot!(line(&[]), @r"prog 'a b' '$x' 'it'\''s'");
    assert_snapshot!(line(&["-C", "0"]), @r"taskset -c 0 prog 'a b' '$x' 'it'\''s'");
    assert_snapshot!(
        line(&["-i", "0", "-N", "0", "-C", "0", "--env", "A=b c"]),
        @r"numactl --physcpubind=0 --interleave=0 env 'A=b c' prog 'a b' '$x' 'it'\''s'"
    );
    assert_snapshot!(
        line(&["--numa-balancing", "off", "--allocator", library.to_str().unwrap()]),
        @r"numactl --localalloc env LD_PRELOAD=/lib/liballoc.so prog 'a b' '$x' 'it'\''s'"
    );
    assert_snapshot!(line(&["--thp", "never"]), @r"
    # before it starts: prctl(PR_SET_THP_DISABLE, 1)
    prog 'a b' '$x' 'it'\''s'
    ");
    // Also of a program that is not there.
    assert!(line(&["--threads", "sparse"]).contains(" NUMAPILOT_BIND_CPUS="));
}

#[test]
fn a_profile_is_applied_and_options_come_on_top() {
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.toml");
    let text = "thp = \"never\"\n[memory]\nmode = \"interleave\"\n[env]\nA = \"profile\"\n";
    fs::write(&profile, text).unwrap();
    let profile = profile.to_str().unwrap();
    let script = "head -n1 /proc/self/numa_maps; grep THP /proc/self/status; echo $A";
    let plain = out(&["--profile", profile, "sh", "-c", script]);
    assert!(plain.contains(" interleave:") && plain.contains("THP_enabled:\t0"), "{plain}");
    assert!(plain.ends_with("profile\n"), "{plain}");
    let over = out(&["--profile", profile, "-l", "--env", "A=option", "sh", "-c", script]);
    assert!(over.contains(" local ") && over.contains("THP_enabled:\t0"), "{over}");
    assert!(over.ends_with("option\n"), "{over}");
    fs::write(profile, "thp = \"never\"\nthp = \"always\"\n").unwrap();
    assert!(failure(&["--profile", profile, "true"]).contains("line 2"));
}

#[test]
fn one_instance_for_each_node() {
    let text =
        out(&["--per-node", "--prefix", "sh", "-c", "echo {node}; cat /proc/self/numa_maps"]);
    let nodes: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("[node ")?.split_once("] "))
        .inspect(|(node, rest)| assert!(rest == node || rest.contains(&format!(" bind:{node}"))))
        .filter_map(|(node, rest)| (node == rest).then_some(node))
        .collect();
    assert!(!nodes.is_empty(), "{text}");
    let lines = out(&["--per-node", "--dry-run", "prog", "{node}"]);
    assert_eq!(lines.lines().count(), nodes.len(), "{lines}");
    assert_eq!(run(&["--per-node", "sh", "-c", "exit 5"]).status.code(), Some(5));
}

#[test]
fn a_static_program_keeps_its_malloc_and_this_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nint main(void) { puts(\"ran\"); }";
    let Some(program) = compile(directory.path(), source, &["-static"]) else { return };
    refuses_preload(&program, "statically linked");
}

#[test]
fn a_program_with_its_own_malloc_keeps_it_and_this_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\nvoid *je_malloc(unsigned long n) { return n ? 0 : 0; }\n\
                  int main(void) { puts(\"ran\"); return je_malloc(0) != 0; }";
    let Some(program) = compile(directory.path(), source, &[]) else { return };
    refuses_preload(&program, "it defines je_malloc");
}

/// An allocator that is there wherever numapilot has been built.
fn own_allocator() -> PathBuf {
    Path::new(NUMAPILOT).with_file_name("libnumapilot_alloc.so")
}

fn refuses_preload(program: &Path, cause: &str) {
    let library = program.with_file_name("liballoc.so");
    fs::copy(own_allocator(), &library).unwrap();
    let arguments = ["--allocator", library.to_str().unwrap(), program.to_str().unwrap()];
    let dry = run(&[&["--dry-run"], &arguments[..]].concat());
    assert!(err(&dry).contains("warning: allocator liballoc.so: "), "{}", err(&dry));
    assert!(err(&dry).contains(cause), "{}", err(&dry));
    let strict = failure(&[&["--strict"], &arguments[..]].concat());
    assert!(strict.contains("strict was asked for") && strict.contains(cause), "{strict}");
}

/// Runs its arguments under a filter that answers CALL (with FIRST as its first argument, if
/// that is given) with ANSWER, as containers have it.
const FILTER: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FIRST, 0, FIRST < 0 ? 0 : 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ANSWER),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 99;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 98;
    execvp(argv[1], argv + 1);
    return 97;
}
"#;

/// The program that runs others under such a filter; -1 as `first` is any argument.
fn filter(directory: &Path, call: &str, first: i32, answer: &str) -> Option<PathBuf> {
    let flags =
        [format!("-DCALL={call}"), format!("-DFIRST={first}"), format!("-DANSWER={answer}")];
    compile(directory, FILTER, &flags.each_ref().map(String::as_str))
}

#[test]
fn a_filter_that_refuses_policies_is_named_and_the_rest_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let Some(filter) = filter(directory.path(), "SYS_set_mempolicy", -1, "EPERM") else { return };
    let filtered = |options: &[&str]| {
        Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
    };
    let output = filtered(&["-i", "all", "--thp", "never", "grep", "THP", "/proc/self/status"]);
    assert!(err(&output).contains("memory interleave: set_mempolicy is not permitted"));
    assert!(err(&output).contains("seccomp"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "THP_enabled:\t0\n");
    let strict = filtered(&["--strict", "-i", "all", "true"]);
    assert_eq!(strict.status.code(), Some(125), "{}", err(&strict));
}

#[test]
fn a_filter_that_refuses_affinity_is_named_and_the_program_runs() {
    let directory = tempfile::tempdir().unwrap();
    let call = "SYS_sched_setaffinity";
    let Some(filter) = filter(directory.path(), call, -1, "EPERM") else { return };
    let filtered = |options: &[&str]| {
        Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
    };
    let output = filtered(&["-C", "+0", "echo", "ran"]);
    assert_eq!(output.stdout, b"ran\n", "{}", err(&output));
    let said = err(&output);
    assert!(said.contains("sched_setaffinity is not permitted") && said.contains("seccomp"));
    assert!(said.contains("allow sched_setaffinity"), "{said}");
    assert_eq!(filtered(&["--strict", "-C", "+0", "true"]).status.code(), Some(125));
}

/// Whether huge pages are there to be switched off.
fn has_huge_pages() -> bool {
    use numapilot_place::huge_pages::{Choice, Switches};
    let on = Switches::read(Path::new("/")).is_some_and(|s| s.most() != Choice::Never);
    if !on {
        println!("skipped: no huge pages here");
    }
    on
}

#[test]
fn a_page_switch_that_is_refused_or_does_nothing_is_said() {
    // PR_SET_THP_DISABLE; an answer of 0 pretends that it was set.
    for (answer, said) in [
        ("EPERM", "refused (Operation not permitted"),
        ("ENOSYS", "refused (Function not implemented"),
        ("EINVAL", "refused (Invalid argument"),
        ("0", "accepted and has no effect"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let Some(filter) = filter(directory.path(), "SYS_prctl", 41, answer) else { return };
        if !has_huge_pages() {
            return;
        }
        let filtered = |options: &[&str]| {
            Command::new(&filter).args([NUMAPILOT, "run"]).args(options).output().unwrap()
        };
        let output = filtered(&["--thp", "never", "grep", "THP", "/proc/self/status"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "THP_enabled:\t1\n");
        let text = err(&output);
        assert!(text.contains("thp never: ") && text.contains(said), "{answer}: {text}");
        let strict = filtered(&["--strict", "--thp", "never", "true"]);
        assert_eq!(strict.status.code(), Some(125), "{answer}: {}", err(&strict));
    }
}

/// Gives itself the switch that spares memory for which huge pages are asked for, and runs its
/// arguments; without arguments it prints the switch it has.
const ADVISED: &str = r#"
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc < 2) return !printf("%d\n", prctl(42, 0, 0, 0, 0));
    if (prctl(41, 1, 2, 0, 0)) return 99;
    execvp(argv[1], argv + 1);
    return 97;
}
"#;

#[test]
fn huge_pages_are_off_also_where_only_advised_memory_had_them() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile(directory.path(), ADVISED, &[]) else { return };
    let switch = |thp: &str| {
        let run = [NUMAPILOT, "run", "--thp", thp, program.to_str().unwrap()];
        let output = Command::new(&program).args(run).output().unwrap();
        if output.status.code() == Some(99) {
            println!("skipped: PR_THP_DISABLE_EXCEPT_ADVISED came with Linux 6.18");
            return None;
        }
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(inherited) = switch("inherit") else { return };
    assert_eq!(inherited, "3\n");
    assert_eq!(switch("never").unwrap(), "1\n");
}

#[test]
fn what_a_plan_did_is_seen_in_the_running_program() {
    let output = run(&["-v", "-l", "-C", "+0", "--thp", "never", "sleep", "0.3"]);
    let said = err(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for line in ["memory local: in effect (local)", ": in effect (all 1 threads)"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(said.contains("thp never: in effect (THP_enabled: 0)"), "{said}");
    assert!(!said.contains("warning"), "{said}");
}

#[test]
fn a_setting_that_the_program_undoes_fails_under_strict() {
    let undone = ["-i", "all", "--", NUMAPILOT, "run", "-l", "sleep", "0.3"];
    let strict = run(&[&["--strict"], &undone[..]].concat());
    let said = err(&strict);
    assert_eq!(strict.status.code(), Some(125), "{said}");
    assert!(said.contains("memory interleave"), "{said}");
    assert!(said.contains("not in effect: sleep has the policy local"), "{said}");
    let plain = run(&[&["-v"], &undone[..]].concat());
    assert_eq!(plain.status.code(), Some(0));
    assert!(err(&plain).contains("sleep has the policy local"), "{}", err(&plain));
    // One that ends before it is seen may have had it all.
    let short = run(&["--strict", "-i", "all", "true"]);
    assert_eq!(short.status.code(), Some(0), "{}", err(&short));
}

/// Works for some time without a dynamic loader.
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
fn an_allocator_that_does_not_reach_a_scripts_program_is_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let Some(library) = library(directory.path()) else { return };
    let Some(program) = compile(directory.path(), WORK, &["-static"]) else { return };
    let script = format!("{}; true", program.display());
    let with = |option: &str| {
        run(&[option, "--allocator", library.to_str().unwrap(), "sh", "-c", &script])
    };
    let said = err(&with("-v"));
    let cause = "program does not load it: it is statically linked";
    assert_eq!(said.matches(cause).count(), 1, "{said}");
    let strict = with("--strict");
    assert_eq!(strict.status.code(), Some(125), "{}", err(&strict));
    assert!(err(&strict).contains(cause), "{}", err(&strict));
    // Started directly its file tells, and nothing is said a second time.
    let direct = run(&["-v", "--allocator", library.to_str().unwrap(), program.to_str().unwrap()]);
    assert_eq!(err(&direct).matches("warning").count(), 1, "{}", err(&direct));
    // A dynamic program has it.
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let dynamic = run(&["-v", "--allocator", library.to_str().unwrap(), "sh", "-c", script]);
    let said = err(&dynamic);
    assert!(said.contains("in effect (its library is mapped)"), "{said}");
}

#[test]
fn bytes_that_are_no_text_reach_the_program_and_the_printed_line() {
    let raw = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    let run = |arguments: &[OsString]| {
        let output = Command::new(NUMAPILOT).arg("run").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        output.stdout
    };
    let plain = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let variable = [plain(&["--env"]), vec![raw(b"A=\xff")]].concat();
    let seen = run(&[variable.clone(), plain(&["sh", "-c", "printf %s \"$A\""])].concat());
    assert_eq!(seen, b"\xff");
    let line =
        run(&[plain(&["--dry-run"]), variable, plain(&["cat"]), vec![raw(b"a\xff")]].concat());
    assert_eq!(String::from_utf8(line).unwrap(), "env $'A=\\xff' cat $'a\\xff'\n");
}

#[test]
fn a_profile_that_sets_what_code_runs_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let profile = directory.path().join("p.toml");
    fs::write(&profile, "[env]\nPATH = \"/usr/bin:/bin\"\nLD_PRELOAD = \"\"\nA = \"1\"\n").unwrap();
    let output = run(&["--profile", profile.to_str().unwrap(), "true"]);
    let said = err(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" sets PATH=/usr/bin:/bin") && said.contains(" sets LD_PRELOAD="));
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn all_reaches_the_cpus_that_the_affinity_leaves_out() {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let cpus = numapilot_topology::CpuSet::parse_list(online.trim()).unwrap();
    let Some(last) = cpus.iter().last().filter(|_| cpus.len() > 1) else {
        println!("skipped: one CPU");
        return;
    };
    let first = cpus.first().unwrap().to_string();
    let narrow = |options: &[&str]| {
        let run = [&["-c", &first, NUMAPILOT, "run"], options].concat();
        Command::new("taskset").args(run).output()
    };
    let last = last.to_string();
    let seen = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let Ok(all) = narrow(&[&["-a", "-C", &last], &seen[..]].concat()) else {
        println!("skipped: no taskset");
        return;
    };
    if err(&all).contains("cpuset") {
        println!("skipped: the cpuset of the tests does not hold every CPU");
        return;
    }
    assert_eq!(String::from_utf8_lossy(&all.stdout), format!("Cpus_allowed_list:\t{last}\n"));
    let refused = narrow(&["-C", &last, "true"]).unwrap();
    assert_eq!(refused.status.code(), Some(125));
    let said = err(&refused);
    assert!(said.contains("affinity that this process inherited"), "{said}");
    assert!(said.contains("-a (--all)"), "{said}");
}

#[test]
fn the_proc_of_another_pid_namespace_is_noticed() {
    let inside = |arguments: &[&str]| {
        Command::new("unshare").args(["-pf", NUMAPILOT]).args(arguments).output()
    };
    let allowed = Command::new("unshare").args(["-pf", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: no PID namespace can be made here");
        return;
    }
    for verb in [
        &["stat", "-p", "1"][..],
        &["stat", "true"],
        &["top", "-p", "1", "--once"],
        &["balance", "-p", "1"],
        &["cores", "-p", "1"],
    ] {
        let output = inside(verb).unwrap();
        assert_eq!(output.status.code(), Some(125), "{verb:?}: {}", err(&output));
        assert!(err(&output).contains("another PID namespace"), "{verb:?}: {}", err(&output));
    }
    let output = inside(&["run", "-v", "-l", "echo", "ran"]).unwrap();
    assert_eq!(output.stdout, b"ran\n");
    assert!(err(&output).contains("another PID namespace"), "{}", err(&output));
}

/// A supervised program that has said "ready".
fn ready(script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(NUMAPILOT)
        .args(["run", "--verbose", "sh", "-c", script])
        // Without a terminal the tests' own group is orphaned, and the kernel ignores SIGTSTP
        // in it; a group whose parent is in another group of the session is not.
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("ready"), "{line}");
    (child, stdout)
}

fn signal(child: &Child, signal: i32) {
    PidFd::open(child.id().cast_signed()).unwrap().signal(signal).unwrap();
}

#[test]
fn a_signal_that_ends_the_program_is_the_status() {
    let (mut child, _) = ready("echo ready; exec sleep 600");
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

/// Every signal that can be caught, also those that a list by hand forgets: SIGPWR, SIGIO,
/// SIGPIPE, which the runtime ignores, and SIGRTMIN+3, by which containers are stopped.
#[test]
fn all_signals_reach_the_program() {
    // Those that stop have a test of their own; SIGCHLD is about numapilot's own children.
    let special = [libc::SIGCHLD, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    let mut signals = catchable();
    signals.retain(|signal| !special.contains(signal));
    let traps: String = signals.iter().map(|s| format!("trap 'echo got {s}' {s}; ")).collect();
    let (mut child, mut stdout) =
        // Without numapilot, this ends.
        ready(&format!("{traps}echo ready; while [ -d /proc/$PPID ]; do sleep 0.005; done"));
    for number in signals {
        signal(&child, number);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, format!("got {number}\n"));
    }
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
}

/// `ssh -t host numapilot run`: the terminal that hangs up tells the leader of its session alone.
#[test]
fn a_hang_up_reaches_the_program_of_a_session_leader() {
    let directory = tempfile::tempdir().unwrap();
    let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keys).unwrap();
    unlockpt(&keys).unwrap();
    let name = ptsname(&keys, Vec::new()).unwrap().into_string().unwrap();
    let end = || fs::File::options().read(true).write(true).open(&name).unwrap();
    let script = "trap 'echo hung up >hup; exit 9' HUP; echo >ready; while :; do sleep 0.01; done";
    let mut child = Command::new("setsid")
        .args(["--ctty", NUMAPILOT, "run", "--verbose", "sh", "-c", script])
        .current_dir(directory.path())
        .stdin(end())
        .stdout(end())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = |name: &str| directory.path().join(name);
    while !path("ready").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(keys);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(fs::read_to_string(path("hup")).unwrap(), "hung up\n");
}

/// Field 3 of /proc/PID/stat.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

fn becomes(pid: u32, wanted: impl Fn(char) -> bool) {
    for _ in 0..1000 {
        if wanted(state(pid)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} stays in state {}", state(pid));
}

#[test]
fn stopping_stops_both_and_continuing_continues_both() {
    let (mut child, mut stdout) = ready("echo ready; echo $$; exec sleep 600");
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let program: u32 = line.trim().parse().unwrap();
    for stop in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        signal(&child, stop);
        becomes(child.id(), |s| s == 'T');
        becomes(program, |s| s == 'T');
        signal(&child, libc::SIGCONT);
        becomes(child.id(), |s| s != 'T');
        becomes(program, |s| s != 'T');
    }
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let mut child = Command::new("nohup")
        .args([
            NUMAPILOT,
            "run",
            "--verbose",
            "sh",
            "-c",
            "echo ready; grep SigIgn /proc/$$/status",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let mask = text.lines().find_map(|l| l.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{text}");
    assert!(child.wait().unwrap().success());
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
    // An allocator of the user's own, set in the environment, is kept behind it.
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
    assert!(err(&output).contains("LD_PRELOAD names jemalloc already"), "{}", err(&output));
}

/// What others have chosen does not steer the terminal of whoever looks.
#[test]
fn foreign_text_is_shown_and_not_sent() {
    let output = Command::new(env!("CARGO_BIN_EXE_numapilot"))
        .args(["run", "-v", "--env", "TITLE=\x1b]0;x\x07", "--", "true"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains(r"TITLE=\x1b]0;x\x07"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}
