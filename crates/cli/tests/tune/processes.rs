//! Processes that runs leave behind.

use std::fs;

use numapilot_sys::process::PidFd;

use super::{error, folder, tune_default};

pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

/// The process has neither the group, the session nor the environment of the run, and its parent
/// has ended.
#[test]
fn a_daemon_counts_in_the_memory_and_is_ended() {
    let folder = folder(&[]);
    // Without a newline, tail keeps everything until the input ends.
    let grows = "(head -c 100000000 /dev/zero; touch grown; exec sleep 60) | tail";
    let script = format!(
        "rm -f grown; (setsid env -i PATH=\"$PATH\" sh -c '{grows}' </dev/null >/dev/null 2>&1 &); \
         until test -e grown; do sleep 0.01; done"
    );
    let text = error(tune_default(folder.path(), &["--limit", "rss=60M"], &script), 125);
    assert!(text.contains("peak RSS") && text.contains("limit 60.0 MiB"), "{text}");
    let of_tail: Vec<&str> = text.split("it left tail (").skip(1).collect();
    assert!(!of_tail.is_empty(), "{text}");
    for rest in of_tail {
        let pid = rest.split(')').next().unwrap();
        assert!(!is_alive(pid), "tail {pid} lives on: {text}");
    }
}

#[test]
fn what_prepare_has_started_goes_on() {
    let folder = folder(&[]);
    let starts = "test -e server || \
         { (setsid env -i sleep 60 </dev/null >/dev/null 2>&1 & echo $! > server); }";
    let script = "kill -0 $(cat server)";
    let output = tune_default(folder.path(), &["--prepare", starts], script).output().unwrap();
    let server = fs::read_to_string(folder.path().join("server")).unwrap();
    let lives = is_alive(&server);
    let server = PidFd::open(server.trim().parse().unwrap());
    let _ = server.map(|server| server.signal(libc::SIGKILL));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && lives, "{text}");
    assert!(!text.contains("running, which was ended"), "{text}");
}

/// Its parent ends at once, and it ends before it was observed.
#[test]
fn the_limit_holds_for_a_daemon_that_has_ended() {
    let folder = folder(&[]);
    let script = "rm -f done; (sh -c 'head -c 90000000 /dev/zero | tail -c 90000000 | wc -c; \
                  : > done' > /dev/null 2>&1 &); until [ -e done ]; do sleep 0.01; done";
    let text = error(tune_default(folder.path(), &["--limit", "rss=60M"], script), 125);
    assert!(text.contains("peak RSS") && text.contains("limit"), "{text}");
}
