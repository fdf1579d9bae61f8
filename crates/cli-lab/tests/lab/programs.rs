//! Typical programs: scripts, static programs, databases with their files, and unprivileged users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use numapilot_test_kit::make_executable;

use crate::guests::{NUMAPILOT, boots, err, on_small};

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Standard output of a run that must succeed.
fn printed(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{}: {}", output.status, err(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn executable(path: &Path, text: &str) {
    make_executable(path, &mut text.as_bytes());
}

#[test]
fn scripts_find_their_interpreters_tools_and_data() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    // The interpreter is itself a script, whose interpreter is found by env.
    executable(&inner, "#!/usr/bin/env sh\necho \"inner of $(basename \"$1\")\"; cat \"$2\"\n");
    let outer = directory.path().join("outer");
    executable(&outer, &format!("#!{}\n", inner.display()));
    let data = directory.path().join("some data");
    fs::write(&data, "data\n").unwrap();
    let text =
        printed(on_small(&[outer.to_str().unwrap(), data.to_str().unwrap()]).env("LANG", "C"));
    assert_eq!(text, "inner of outer\ndata\n");
}

#[test]
fn a_static_program_runs() {
    if !boots() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("static.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"here\") < 0 ? 1 : 3; }")
        .unwrap();
    let program = directory.path().join("static");
    let mut cc = Command::new("cc");
    match cc.arg("-static").arg("-o").arg(&program).arg(&source).output() {
        Ok(output) if output.status.success() => {}
        _ => {
            println!("skipped: no C compiler that links static programs");
            return;
        }
    }
    let output = run(&mut on_small(&[program.to_str().unwrap()]));
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert_eq!(output.stdout, b"here\n");
}

/// The newest PostgreSQL in Debian's layout: its programs and its data.
fn postgresql() -> Option<[PathBuf; 2]> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let version = versions.map(|entry| entry.file_name()).max()?;
    let parts =
        ["/usr/lib/postgresql", "/usr/share/postgresql"].map(|p| Path::new(p).join(&version));
    parts.iter().all(|path| path.is_dir()).then_some(parts)
}

#[test]
fn postgresql_runs_as_its_own_user() {
    if !boots() {
        return;
    }
    let Some([programs, data]) = postgresql() else {
        println!("skipped: no PostgreSQL; Debian: apt-get install postgresql");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let closed = tempfile::tempdir().unwrap();
    // The guest's user must be able to read the directory.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let script = directory.path().join("query.sh");
    let text = "set -e\n\
                initdb -D /tmp/db > /dev/null\n\
                pg_ctl -D /tmp/db -l /tmp/log -o '-k /tmp' -w start > /dev/null\n\
                psql -h /tmp -d postgres -Atc 'select sum(x) from generate_series(1, 1000) x'\n\
                pg_ctl -D /tmp/db -m immediate stop > /dev/null\n\
                echo $USER\n";
    fs::write(&script, text).unwrap();
    let path = format!("{}/bin:{}", programs.display(), std::env::var("PATH").unwrap());
    let text = printed(
        Command::new(NUMAPILOT)
            .args(["lab", "run", "-m", "machine-b", "--no-model", "--user", "postgres"])
            .arg("--include")
            .arg(&programs)
            .arg("--include")
            .arg(&data)
            .args(["--", "sh", script.to_str().unwrap()])
            .env("PATH", path)
            // Only root may enter root's home directory.
            .current_dir(closed.path()),
    );
    assert_eq!(text, "500500\npostgres\n");
}

#[test]
fn python_brings_its_modules_along() {
    if !boots() {
        return;
    }
    let python = "/usr/bin/python3";
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let Ok(answer) = Command::new(python).args(["-c", ask]).output() else {
        println!("skipped: no {python}");
        return;
    };
    let library = String::from_utf8(answer.stdout).unwrap();
    // C modules are opened by name while the program runs.
    let program = "import sqlite3, os\n\
                   database = sqlite3.connect('/tmp/x.db')\n\
                   print(database.execute('select 6 * 7').fetchone()[0], os.cpu_count())";
    let text = printed(
        Command::new(NUMAPILOT)
            .args(["lab", "run", "--include", library.trim(), "-m", "cxl", "--no-model", "--"])
            .args([python, "-c", program]),
    );
    assert_eq!(text, "42 4\n");
}

/// Whether any user may read a file.
fn is_open(path: &Path) -> bool {
    path.ancestors()
        .all(|part| fs::metadata(part).is_ok_and(|m| m.permissions().mode() & 0o5 == 0o5))
}

#[test]
fn users_without_rights_have_labs_as_well() {
    const NOBODY: u32 = 65534;
    if !boots() {
        return;
    }
    if !rustix::process::getuid().is_root() {
        println!("skipped: not root: all the other tests are what this one is");
        return;
    }
    if !is_open(Path::new(NUMAPILOT)) {
        println!("skipped: {NUMAPILOT} is not open to other users");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let cache = directory.path().join("numapilot/lab");
    fs::create_dir_all(&cache).unwrap();
    for part in ["kernel", "tools"] {
        let real = numapilot_lab::cache_directory().unwrap().join(part);
        if real.is_dir() {
            printed(Command::new("cp").arg("-a").arg(real).arg(&cache));
        }
    }
    chown(&cache, Some(NOBODY), Some(NOBODY)).unwrap();
    let script = "id -u; echo x > /tmp/y; cat /tmp/y; hostname";
    let text = printed(
        on_small(&["sh", "-c", script])
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .env("HOME", "/nonexistent")
            .env("XDG_CACHE_HOME", directory.path()),
    );
    assert_eq!(text, "0\nx\ni9-7900x\n");
    assert_eq!(fs::read_dir(cache.join("scratch")).unwrap().count(), 0);
}
