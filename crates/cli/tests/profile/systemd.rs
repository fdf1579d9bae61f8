//! An exported drop-in in systemd itself: it runs as the first process of its own PID namespace,
//! with its own control groups, and ends with the service.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::targets::{PLAN, SHOW, export, shows_the_plan};
use crate::{err, folder};

const SYSTEMD: [&str; 2] = ["/lib/systemd/systemd", "/usr/lib/systemd/systemd"];

/// Puts itself into a new control group, and starts the second script in new namespaces, in which
/// this group is the root. Takes everything away again.
const OUTSIDE: &str = "set -e
mount --make-rprivate /
mkdir groups
mount -t cgroup2 none groups
before=groups$(sed -n 's/^0:://p' /proc/self/cgroup)
own=$before/numapilot-test-$$
mkdir \"$own\"
echo 0 > \"$own/cgroup.procs\"
status=0
timeout -k 5 60 unshare -p -f -C -m --net --kill-child sh inside || status=$?
echo 0 > \"$before/cgroup.procs\"
find \"$own\" -depth -type d -exec rmdir {} +
umount groups
exit $status
";

/// Mounts what systemd expects, and becomes systemd. Source: systemd(1), "SIGNALS" and the container
/// interface (systemd.io/CONTAINER_INTERFACE).
fn inside(systemd: &str) -> String {
    format!(
        "set -e
mount -t proc proc /proc
mount -t tmpfs none /run
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/systemd/system
cp -r x.service x.service.d /run/systemd/system/
exec env container=test {systemd} --system --unit=x.service --log-target=null --show-status=no
"
    )
}

/// The service, which prints the plan into a file and then ends systemd.
fn service(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit-force\nFailureAction=exit-force\n\
         [Service]\nType=oneshot\nExecStart=/bin/sh {folder}/show\n\
         StandardOutput=file:{folder}/out\nStandardError=file:{folder}/err\n"
    )
}

#[test]
fn a_service_of_systemd_has_the_exported_plan() {
    let Some(systemd) = SYSTEMD.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: no systemd");
        return;
    };
    let folder = folder(PLAN);
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("x.service.d")).unwrap();
    write("x.service.d/numapilot.conf", export(folder.path(), "systemd", &["--strict"]));
    write("x.service", service(folder.path()));
    write("show", SHOW.to_owned());
    write("outside", OUTSIDE.to_owned());
    write("inside", inside(systemd));
    let mut command = Command::new("unshare");
    let output = command.args(["-m", "sh", "outside"]).current_dir(folder.path()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: unshare: {error}");
            return;
        }
    };
    let text = err(&output);
    if ["Operation not permitted", "unknown filesystem type"].iter().any(|why| text.contains(why)) {
        println!("skipped: no namespaces or control groups of version 2: {}", text.trim());
        return;
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    assert!(output.status.success(), "{}: {text}{}", output.status, read("err"));
    shows_the_plan(&read("out"));
}
