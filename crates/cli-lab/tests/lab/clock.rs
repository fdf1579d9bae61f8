//! The guest's clock shows simulated time: programs read it, the kernel's work takes time and is
//! counted, idle time costs no time of the host, and runs with the same seed give the same figures.

use std::process::{Command, Stdio};

use numapilot_lab::Shape;
use numapilot_lab_model::Model;
use numapilot_topology::description::named;
use serde_json::Value;

use crate::guests::{NUMAPILOT, boots, compiled, err};

/// Runs a command with figures. Returns the figures and the program's output.
fn run(options: &[&str], command: &[&str]) -> (Value, String) {
    let output = Command::new(NUMAPILOT)
        .args(["lab", "run", "--json"])
        .args(options)
        .arg("--")
        .args(command)
        // That of cargo makes the guest's loader search many directories before a program begins.
        .env_remove("LD_LIBRARY_PATH")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let (printed, json) = text.split_at(text.find("{\n").unwrap());
    (serde_json::from_str(json).unwrap(), printed.to_owned())
}

fn numbers(text: &str) -> Vec<f64> {
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_program_measures_the_latencies_of_the_description() {
    const MACHINE: &str = "threadripper-1950x";
    let directory = tempfile::tempdir().unwrap();
    let Some(chase) = compiled("chase.c", directory.path()).filter(|_| boots()) else { return };
    let (name, description) = named(MACHINE).unwrap();
    let layout = Shape::new(&name, &description).unwrap().layout();
    let model = Model::from_description(&description, &layout).unwrap();
    // The first chase hits the first-level cache and measures the loop itself.
    let script = "$0 4096 0 200000; $0 67108864 0 200000; $0 67108864 1 200000";
    let script = format!("taskset 1 sh -c '{script}' $0");
    let options = ["-m", MACHINE, "--thp", "always", "--include", "taskset"];
    let (_, printed) = run(&options, &["sh", "-c", &script, chase.to_str().unwrap()]);
    let measured = numbers(&printed);
    assert_eq!(measured.len(), 3, "{printed}");
    for (home, expected) in model.latency_ns[0].iter().enumerate() {
        let each = measured[1 + home] - measured[0];
        println!("node {home}: {each:.1} ns, described as {expected:.1} ns");
        assert!((each / expected - 1.0).abs() < 0.03, "{each} for {expected}: {printed}");
    }
}

#[test]
fn waiting_takes_simulated_time_and_none_of_the_hosts() {
    if !boots() {
        return;
    }
    // Every run starts at the same time of day, whatever the host's clock shows.
    let script = "date -u +%Y-%m-%d; sleep 3600; date -u +%H; cut -d. -f1 /proc/uptime";
    let options = ["-m", "cxl", "--include", "sleep", "--include", "date"];
    let (json, printed) = run(&options, &["sh", "-c", script]);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..2], ["2024-01-01", "01"]);
    assert!((3_600..3_602).contains(&lines[2].parse::<u64>().unwrap()), "{printed}");
    let region = &json["regions"][0];
    let seconds = region["simulated_seconds"].as_f64().unwrap();
    // The guest's kernel knows the frequency of the time stamp counter within some parts per
    // million.
    assert!((3_599.9..3_600.2).contains(&seconds), "{seconds}");
    // The kernel's ticks during the sleep are counted apart from the programs' work.
    assert!(region["kernel"]["cpu_seconds"].as_f64() > region["user"]["cpu_seconds"].as_f64());
}

#[test]
fn timers_wake_an_idle_machine_on_time() {
    let directory = tempfile::tempdir().unwrap();
    let Some(sleeps) = compiled("sleeps.c", directory.path()).filter(|_| boots()) else { return };
    // No other CPU has work, so the sleeping one is the last to halt.
    let (_, printed) = run(&["-m", "cxl"], &[sleeps.to_str().unwrap()]);
    let [shortest, longest] = numbers(&printed)[..] else { panic!("{printed}") };
    // The kernel may add 50 us to a sleep (timer slack).
    assert!(shortest >= 1.0 && longest < 1.2, "{printed}");
}

#[test]
fn the_kernels_work_is_counted_apart() {
    const PAGES: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let Some(faults) = compiled("faults.c", directory.path()).filter(|_| boots()) else { return };
    let (json, printed) =
        run(&["-m", "threadripper-1950x"], &[faults.to_str().unwrap(), &PAGES.to_string()]);
    let region = &json["regions"][0];
    let number = |mode: &str, key: &str| region[mode][key].as_u64().unwrap();
    for key in ["instructions", "reads", "writes", "local_accesses", "cycles"] {
        let both = number("user", key) + number("kernel", key);
        assert!(region[key].as_u64().unwrap().abs_diff(both) <= 1, "{key}: {region}");
    }
    // The kernel clears each page: 64 lines of memory, of which some come from a cache.
    let lines = |mode| number(mode, "local_accesses") + number(mode, "remote_accesses");
    assert!(lines("kernel") > PAGES * 48, "{region}");
    assert!(number("kernel", "writes") > PAGES * 64, "{region}");
    assert!(lines("user") < PAGES * 4, "{region}");
    // The time of a fault results from the kernel's work alone; its order of magnitude is right.
    let each = numbers(&printed)[0];
    println!("{each} ns for a page fault");
    assert!((200.0..5_000.0).contains(&each), "{each}");
}

/// QEMU moves the counters of all CPUs when it sets up the 17th, the 33rd and so on.
#[test]
fn machines_of_many_cpus_count_as_small_ones_do() {
    if !boots() {
        return;
    }
    let script = "nproc; taskset -c 0 sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'";
    let cycles = |cpus: &str| {
        let options = ["-m", "xeon-8153", "--cpus-per-node", cpus, "--cache-scale", "1"];
        let include = ["--include", "taskset", "--include", "nproc"];
        let (json, printed) = run(&[&options[..], &include].concat(), &["sh", "-c", script]);
        assert_eq!(printed.trim().parse::<u32>().unwrap(), 8 * cpus.parse::<u32>().unwrap());
        json["regions"][0]["user"]["cycles"].as_f64().unwrap()
    };
    let few = cycles("1");
    for cpus in ["3", "8"] {
        let many = cycles(cpus);
        assert!((many / few - 1.0).abs() < 0.03, "{many} with {cpus} on each node, and {few}");
    }
}

#[test]
fn guest_clocks_run_faster_by_the_time_scale() {
    if !boots() {
        return;
    }
    let script = "cut -d' ' -f1 /proc/uptime; sleep 20; cut -d' ' -f1 /proc/uptime";
    let options = ["-m", "cxl", "--time-scale", "20", "--include", "sleep", "--include", "cut"];
    let (json, printed) = run(&options, &["sh", "-c", script]);
    let guest = numbers(&printed);
    assert!((guest[1] - guest[0] - 20.0).abs() < 0.5, "{printed}");
    assert_eq!(json["time_scale"], 20);
    let seconds = json["regions"][0]["simulated_seconds"].as_f64().unwrap();
    assert!((seconds - 1.0).abs() < 0.05, "{seconds}");
}

#[test]
fn a_varied_parameter_changes_what_it_stands_for() {
    if !boots() {
        return;
    }
    let run_varied = |vary: &str| {
        let options = ["-m", "cxl", "--vary", vary, "--include", "sleep"];
        let (json, _) = run(&options, &["sleep", "0.01"]);
        assert_eq!(json["varied"], serde_json::json!([vary]));
        // Of the program alone: what else the kernel does meanwhile depends on when it has booted.
        let count = |field: &str| json["regions"][0]["user"][field].as_f64().unwrap();
        (count("cycles"), count("first_level_misses"))
    };
    // Misses that overlap more cost less; smaller caches have more of them.
    let (cycles, _) = run_varied("memory-level-parallelism=0.5");
    let (fewer, _) = run_varied("memory-level-parallelism=2");
    assert!(cycles > 1.02 * fewer, "{cycles} {fewer}");
    let (_, misses) = run_varied("cache-scale=2");
    let (_, fewer) = run_varied("cache-scale=0.5");
    assert!(misses > 1.1 * fewer, "{misses} {fewer}");
}

/// The report without the times of the host.
fn repeatable(mut json: Value) -> Value {
    let fields = json.as_object_mut().unwrap();
    for of_host in ["boot_seconds", "host_seconds"] {
        assert!(fields.remove(of_host).is_some());
    }
    json
}

/// Processes that keep the host's CPUs busy until they are dropped.
struct Load(Vec<std::process::Child>);

impl Load {
    /// One process more than there are CPUs, so that each CPU is busy and threads are moved.
    fn start() -> Self {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let spin = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..=cpus).map(|_| spin()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn a_run_is_the_same_to_the_bit_whatever_the_host_does() {
    if !boots() {
        return;
    }
    // The script uses threads that share memory, allocate and wait for each other, files, pipes,
    // processes and random numbers.
    let script = "numapilot-lab bench w1 --records 20000 --threads 8 --json | grep -v version; \
                  cat /proc/uptime; od -An -tx8 -N8 /dev/urandom; ls /proc | wc -l";
    let options =
        ["-m", "threadripper-1950x", "--include", "od", "--include", "ls", "--include", "wc"];
    let with = |seed: &str| {
        let options = [&options[..], &["--include", "grep", "--seed", seed]].concat();
        let (json, printed) = run(&options, &["sh", "-c", script]);
        (repeatable(json), printed)
    };
    let first = with("1");
    assert!(first.0["regions"][0]["instructions"].as_u64().unwrap() > 1_000_000, "{first:?}");
    assert_eq!(with("1"), first);
    {
        let _load = Load::start();
        assert_eq!(with("1"), first, "under load");
        assert_eq!(with("1"), first, "under load");
    }
    let other = with("2");
    assert_ne!(other.1, first.1, "the seed changes nothing");
}

#[test]
fn seeds_show_the_spread_of_a_run() {
    if !boots() {
        return;
    }
    let command = ["sh", "-c", "echo seeded; exec sleep 0.01"];
    let options = ["-m", "cxl", "--seeds", "3", "--include", "sleep"];
    let (json, printed) = run(&options, &command);
    assert_eq!(printed, "seeded\n");
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    assert_eq!(json["runs"][2]["seed"], 3);
    let spread = &json["spread"][0]["simulated"];
    let figure = |key: &str| spread[key].as_f64().unwrap();
    assert!(figure("minimum") >= 0.01 && figure("minimum") <= figure("median"), "{spread}");
    assert!(figure("median") <= figure("maximum"), "{spread}");
    let single = run(&["-m", "cxl", "--seed", "3", "--include", "sleep"], &command).0;
    let of = |value: &Value| value["regions"].clone();
    assert_eq!(of(&json["runs"][2]), of(&single), "a seed is the same side by side and alone");
}
