//! Slurm's option `--numapilot-profile`: the plugin, compiled as a site does, in Slurm's daemons.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::slurm_cluster::start;
use crate::{NUMAPILOT, err, folder, out};

const C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../outside/place/c");

/// What a task prints: its node, a variable of the profile, its switch for huge pages, its memory
/// policy, and the number of mapped files of numapilot's malloc.
const SHOW: &str = "echo \"$SLURMD_NODENAME ${VALUE:-none} \
                    $(awk '/^THP_enabled/ { print $2 }' /proc/self/status) \
                    $(awk 'NR == 1 { print $2 }' /proc/self/numa_maps) \
                    $(grep -c 'r-xp.*libnumapilot_alloc.so' /proc/self/maps)\"";

/// Compiles the plugin, or says why that is impossible here.
fn compile(plugin: &Path) -> Result<(), String> {
    let libraries = Path::new(NUMAPILOT).parent().unwrap().display();
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(plugin)
        .arg(format!("{C}/slurm/spank_numapilot.c"))
        .args([format!("-I{C}/include"), format!("-L{libraries}")])
        .args([format!("-Wl,-rpath,{libraries}"), "-lnumapilot_place".to_owned()])
        .output()
        .map_err(|error| format!("no C compiler: {error}"))?;
    if err(&output).contains("slurm/spank.h: No such file") {
        return Err("no slurm/spank.h; Debian: libslurm-dev".to_owned());
    }
    assert!(output.status.success(), "{}", err(&output));
    Ok(())
}

#[test]
fn each_task_starts_under_the_profile_of_the_option() {
    let folder = folder(
        "thp = \"never\"\nallocator = \"numapilot\"\n[memory]\nmode = \"interleave\"\n[env]\n\
         VALUE = \"a b\"\n",
    );
    let file = |name: &str| folder.path().join(name);
    let plugin = file("spank_numapilot.so");
    let plugstack = file("plugstack.conf");
    let cluster = compile(&plugin).and_then(|()| {
        let line = format!("optional {} profiles={}\n", plugin.display(), folder.path().display());
        fs::write(&plugstack, line).unwrap();
        start(folder.path(), &format!("PlugStackConfig={}\n", plugstack.display()))
    });
    if let Err(reason) = &cluster {
        println!("skipped: {reason}");
        return;
    }
    // It is impossible everywhere.
    let impossible = "[memory]\nmode = \"local\"\nbalancing = true\n[env]\nVALUE = \"c\"\n";
    fs::write(file("impossible.toml"), impossible).unwrap();
    let shell = |arguments: &[&str], script: &str| -> Output {
        Command::new("srun")
            .env("SLURM_CONF", file("slurm.conf"))
            .env_remove("LD_PRELOAD")
            .args(arguments)
            .args(["sh", "-c", script])
            .output()
            .unwrap()
    };
    let srun = |arguments: &[&str]| shell(arguments, SHOW);
    let lines = |output: &Output| {
        assert!(output.status.success(), "{}", err(output));
        let text = out(output);
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let both = |rest: &str| [format!("n1 {rest}"), format!("n2 {rest}")];

    assert_eq!(lines(&srun(&["-N2"])), both("none 1 default 0"));
    let nodes = numapilot_topology::read("/".as_ref()).unwrap().allowed.nodes;
    let placed = both(&format!("a b 0 interleave:{nodes} 1"));
    assert_eq!(lines(&srun(&["-N2", "--numapilot-profile=p", "--numapilot-strict"])), placed);
    let path = file("p.toml");
    let by_path = format!("--numapilot-profile={}", path.display());
    assert_eq!(lines(&srun(&["-N2", &by_path])), placed);

    // The library in the program places its threads, by a table that its processes share.
    fs::write(file("threads.toml"), "threads = \"dense\"\n").unwrap();
    let table = "test -s \"$NUMAPILOT_BIND_OCCUPANCY\" && echo \"$NUMAPILOT_BIND_CPUS\"";
    let output = shell(&["-N1", "--numapilot-profile=threads", "--numapilot-strict"], table);
    let cpus = numapilot_topology::CpuSet::parse_list(&lines(&output).concat()).unwrap();
    assert_eq!(cpus, numapilot_topology::read("/".as_ref()).unwrap().allowed.cpus);

    // A note is not fatal, and each node shows it once.
    let output = srun(&["-N2", "-n4", "-O", "--numapilot-profile=impossible"]);
    assert_eq!(lines(&output).len(), 4);
    assert_eq!(err(&output).matches("numapilot: warning: memory balancing: ").count(), 2);
    // Errors are fatal, although plugstack.conf calls the plugin optional.
    let fails = |option: &str, cause: &str| {
        let output = srun(&["-N1", option, "--numapilot-strict"]);
        let text = err(&output);
        assert_eq!((output.status.code(), out(&output)), (Some(125), String::new()), "{text}");
        assert!(text.contains("numapilot: error: ") && text.contains(cause), "{text}");
    };
    fails("--numapilot-profile=impossible", "part of the plan is impossible");
    fails("--numapilot-profile=none", "none.toml; check the path");
    assert!(!srun(&["-N1", "--numapilot-profile="]).status.success());
}
