//! `bench w5`, `bench arrivals` and `bench clients` with real databases at a small scale.
//! Engines that are not installed are reported as skipped.

#![allow(clippy::unwrap_used, reason = "a failed expectation is what tests are for")]

use std::env::join_paths;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use numapilot_sys::process::PidFd;
use serde_json::Value;
use tempfile::TempDir;

const ENGINES: [&str; 4] = ["duckdb", "datafusion", "monetdbe", "postgresql"];

/// The databases of all tests share a cache, because loading takes most of the time. A server's
/// user must be able to enter it.
fn cache() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines");
    fs::create_dir_all(&path).unwrap();
    path
}

/// Where `scripts/setup test` installs Python modules, as in `PYTHONPATH`.
fn modules() -> OsString {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    join_paths(["python", "python-monetdbe"].map(|name| target.join(name))).unwrap()
}

fn arguments(name: &str, engine: &str, cache: &Path, more: &[&str]) -> Vec<String> {
    let cache = cache.to_str().unwrap();
    let common = ["bench", name, "--engine", engine, "--scale-factor", "0.01", "--cache", cache];
    common.iter().chain(more).map(ToString::to_string).collect()
}

fn bench(name: &str, engine: &str, cache: &Path, more: &[&str]) -> Command {
    let mut command = Command::cargo_bin("numapilot").unwrap();
    command.args(arguments(name, engine, cache, more));
    command.env("NO_COLOR", "1").env("PYTHONPATH", modules());
    command
}

/// Starts a bench in the background. The test reads its standard error line by line.
fn start(name: &str, engine: &str, cache: &Path, more: &[&str]) -> Child {
    Process::new(assert_cmd::cargo::cargo_bin("numapilot"))
        .args(arguments(name, engine, cache, more))
        .env("PYTHONPATH", modules())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The engines that are installed and whose servers can enter the cache. The others are reported as
/// skipped, by every test that would use them.
fn engines() -> Vec<&'static str> {
    static OBSTACLES: OnceLock<Vec<Option<String>>> = OnceLock::new();
    let obstacles = OBSTACLES.get_or_init(|| ENGINES.into_iter().map(obstacle).collect());
    for (engine, why) in ENGINES.iter().zip(obstacles) {
        if let Some(why) = why {
            println!("skipped: {engine}: {why}");
        }
    }
    let usable = |(engine, why): (_, &Option<String>)| why.is_none().then_some(engine);
    ENGINES.into_iter().zip(obstacles).filter_map(usable).collect()
}

/// Why an engine cannot be used. This loads its database into the shared cache.
fn obstacle(engine: &str) -> Option<String> {
    let mut command = bench("w5", engine, &cache(), &["--queries", "6", "--runs", "1"]);
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_missing = stderr.contains("is not installed")
        || stderr.contains("Permission denied") && stderr.contains("make a cluster");
    let why = || stderr.lines().find(|line| line.contains("error: ")).unwrap_or(&stderr).to_owned();
    is_missing.then(why)
}

fn lines(output: &[u8]) -> Vec<Value> {
    let lines = std::str::from_utf8(output).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The summary, which is the last line.
fn summary(mut command: Command) -> Value {
    let output = command.assert().success().get_output().stdout.clone();
    lines(&output).pop().unwrap()
}

fn runs(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("runs")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A directory for one test. A server's user can enter it.
fn own_cache() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

/// A cache with a copy of one engine's database from the shared cache, for a test to break. The lock
/// is held while the files are copied; those of other engines change meanwhile.
fn copied_cache(engine: &str) -> TempDir {
    let own = own_cache();
    let directory = own.path().join("tpch-sf0.01");
    fs::create_dir_all(directory.join("answers")).unwrap();
    let lock = entry(&cache(), engine, ".lock");
    let status = Process::new("flock")
        .arg(&lock)
        .args(["cp", "-a"])
        .args([&lock, &entry(&cache(), engine, ""), &directory])
        .status()
        .unwrap();
    assert!(status.success(), "{engine}");
    own
}

/// The path of an engine's entry in a cache: its database (empty `end`) or its lock.
fn entry(cache: &Path, engine: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(cache.join("tpch-sf0.01")).unwrap().flatten();
    let is_it = |name: &str| {
        name.starts_with(engine)
            && if end.is_empty() { !name.ends_with(".lock") } else { name.ends_with(end) }
    };
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| is_it(path.file_name().unwrap().to_str().unwrap())).unwrap()
}

#[test]
fn engines_agree_and_all_queries_are_answered() {
    let engines = engines();
    let mut digests = Vec::new();
    for engine in &engines {
        let arguments = ["--json", "--runs", "2", "--allocator", "jemalloc"];
        let mut command = bench("w5", engine, &cache(), &arguments);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if stderr.contains("jemalloc is not installed") {
            println!("skipped: {stderr}");
            return;
        }
        assert!(output.status.success(), "{stderr}");
        let mut lines = lines(&output.stdout);
        let summary = lines.pop().unwrap();
        // The warm-up round and two measured rounds.
        assert_eq!(lines.len(), 3 * 22);
        assert!(lines.iter().all(|line| line["engine_seconds"].as_f64() > Some(0.0)));
        assert_eq!(summary["workload"], "w5");
        assert_eq!(summary["queries"].as_array().unwrap().len(), 22);
        assert!(summary["seconds"].as_f64() > Some(0.0));
        assert!(summary["peak_rss_bytes"].as_u64() > Some(1 << 20), "{}", summary["unsupported"]);
        assert!(summary["note"].as_str().unwrap().contains("not comparable to TPC results"));
        let mallocs = &summary["malloc"];
        assert!(mallocs["processes"]["jemalloc"].as_u64() > Some(0), "{mallocs}");
        match *engine {
            "postgresql" => {
                // The server and its children.
                assert!(mallocs["processes"]["jemalloc"].as_u64() > Some(3), "{mallocs}");
                assert_eq!(mallocs["embedded"].as_array().unwrap().len(), 0);
            }
            "monetdbe" => {
                // One process, and no allocator of its own.
                assert_eq!(mallocs["processes"]["jemalloc"], 1, "{mallocs}");
                assert_eq!(mallocs["embedded"].as_array().unwrap().len(), 0);
            }
            _ => {
                let own = if *engine == "duckdb" { "duckdb_je_malloc" } else { "mimalloc" };
                assert_eq!(mallocs["embedded"][0]["symbol"], own);
                assert!(stderr.contains(&format!("an allocator of its own ({own})")), "{stderr}");
            }
        }
        digests.push(summary["checksum"].as_str().unwrap().to_owned());
    }
    digests.dedup();
    assert!(digests.len() <= 1, "engines disagree: {digests:?}");
}

#[test]
fn tpcds_has_the_same_answers_on_every_engine() {
    let mut digests = Vec::new();
    for engine in engines() {
        // MonetDBe refuses Q54 and Q72, and has no rows for Q70 and Q86.
        let (queries, count) = match engine {
            "monetdbe" => ("1-53,55-69,71,73-85,87-99", 95),
            _ => ("1-99", 99),
        };
        let arguments = ["--benchmark", "tpcds", "--queries", queries, "--runs", "1", "--json"];
        let output = bench("w5", engine, &cache(), &arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if stderr.contains("extension tpcds") && stderr.contains("is not installed") {
            println!("skipped: {stderr}");
            return;
        }
        assert!(output.status.success(), "{engine}: {stderr}");
        let summary = lines(&output.stdout).pop().unwrap();
        assert_eq!(summary["parameters"]["dataset"], "tpcds-sf0.01");
        let queries = summary["queries"].as_array().unwrap();
        assert_eq!(queries.len(), count);
        assert!(queries.iter().any(|query| query["rows"] == 100), "{engine}");
        assert!(summary["note"].as_str().unwrap().contains("derived from TPC-DS"));
        // The checksum is that of all queries. Each answer is compared in any case.
        if count == 99 {
            digests.push(summary["checksum"].as_str().unwrap().to_owned());
        }
    }
    digests.dedup();
    assert!(digests.len() <= 1, "engines disagree: {digests:?}");
}

#[test]
fn a_wrong_answer_fails_the_bench() {
    for engine in engines() {
        let own = copied_cache(engine);
        let answers = own.path().join("tpch-sf0.01/answers");
        let wrong = r#"{"engine": "Another 1.0", "answers": {"6": {"rows": [["1.5"]]}}}"#;
        fs::write(answers.join("another-1.json"), wrong).unwrap();
        let arguments = ["--queries", "1,6", "--runs", "1"];
        let output = bench("w5", engine, own.path(), &arguments).assert().code(125);
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(
            stderr.contains("query 6 gave a wrong answer: differs from Another 1.0's answer"),
            "{stderr}"
        );
        // The correct results are printed all the same.
        let table = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
        assert!(
            table.lines().any(|line| line.trim_start().starts_with("1 ") && line.contains("ms"))
        );
        assert!(runs(own.path()).is_empty());
    }
}

#[test]
fn a_query_that_fails_is_reported_and_the_others_go_on() {
    for engine in engines() {
        // Q6 at this scale takes longer than a microsecond, and so does every other query.
        let arguments = ["--queries", "6,1", "--runs", "1", "--timeout", "1ms", "--json"];
        let output = bench("w5", engine, &cache(), &arguments).assert().code(125);
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(stderr.contains("query 1 failed: "), "{stderr}");
        let summary = lines(&output.get_output().stdout).pop().unwrap();
        let failure = summary["queries"][1]["failure"].as_str().unwrap();
        assert!(failure.contains("failed: "), "{failure}");
        assert_eq!(summary["seconds"], Value::Null);
    }
}

#[test]
fn arrivals_wait_when_there_are_too_many() {
    for engine in engines() {
        let picture = own_cache();
        let svg = picture.path().join("x.svg");
        let arguments = ["--rate", "2000", "--arrivals", "40", "--active", "2", "--json"];
        let more = ["--queries", "1,3,6", "--svg", svg.to_str().unwrap()];
        let all: Vec<&str> = arguments.into_iter().chain(more).collect();
        let output = bench("arrivals", engine, &cache(), &all).assert().success();
        let mut lines = lines(&output.get_output().stdout);
        let summary = lines.pop().unwrap();
        assert_eq!(lines.len(), 40);
        assert_eq!(summary["answered"], 40);
        // Forty queries arrive within 20 ms, so the last one waits for most of the others.
        let seconds = |name: &str, share: &str| summary[name][share].as_f64().unwrap();
        assert!(seconds("wait_seconds", "most") > seconds("execution_seconds", "median"));
        assert!(seconds("latency_seconds", "most") >= seconds("wait_seconds", "most"));
        assert!(fs::read_to_string(svg).unwrap().contains("Latency by share"));
    }
}

#[test]
fn clients_are_measured_one_number_after_the_other() {
    for engine in engines() {
        let arguments = ["--clients", "1,3", "--time", "300ms", "--json"];
        let summary = summary(bench("clients", engine, &cache(), &arguments));
        let clients = summary["clients"].as_array().unwrap();
        assert_eq!(clients.len(), 2);
        assert_eq!(clients[1]["clients"], 3);
        assert!(clients.iter().all(|row| row["queries_per_second"].as_f64() > Some(0.0)));
        assert_eq!(summary["parameters"]["queries"], serde_json::json!([6]));
    }
}

#[test]
fn clients_may_send_a_number_of_queries_each() {
    for engine in engines() {
        let arguments = ["--clients", "1,3", "--count", "4", "--json"];
        let summary = summary(bench("clients", engine, &cache(), &arguments));
        let answered = |row: usize| summary["clients"][row]["answered"].clone();
        assert_eq!((answered(0), answered(1)), (4.into(), 12.into()));
        assert_eq!(summary["parameters"]["count"], 4);
        assert!(summary["clients"][1]["engine_minor_faults"].is_u64());
    }
}

/// A child process of the bench: the engine.
fn child_of(bench: &Child) -> Option<i32> {
    let path = format!("/proc/{0}/task/{0}/children", bench.id());
    let children = fs::read_to_string(path).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Waits until the bench has printed the first result, and returns its standard output.
fn first_result(bench: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut output = BufReader::new(bench.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("\"query\""), "{line}");
    output
}

const ENDLESS: [&str; 5] = ["--queries", "1,6", "--runs", "10000", "--json"];

fn ended_with(mut bench: Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut bench.stderr.take().unwrap(), &mut stderr).unwrap();
    (bench.wait().unwrap().code(), stderr)
}

#[test]
fn an_engine_that_dies_is_named_and_results_are_kept() {
    for engine in engines() {
        let own = copied_cache(engine);
        let mut broken = start("w5", engine, own.path(), &ENDLESS);
        let mut output = first_result(&mut broken);
        let engine_process = child_of(&broken).unwrap();
        PidFd::open(engine_process).unwrap().signal(libc::SIGKILL).unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
        let (status, stderr) = ended_with(broken);
        assert_eq!(status, Some(125), "{stderr}");
        assert!(stderr.contains("died during the run (signal 9)"), "{stderr}");
        let summary: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
        assert!(summary["queries"][0]["cold_seconds"].as_f64() > Some(0.0));
        assert!(runs(own.path()).is_empty(), "{stderr}");
        // The next bench works with what the dead engine left behind, and a server releases the
        // shared memory of its predecessor.
        let arguments = ["--queries", "6", "--runs", "1"];
        bench("w5", engine, own.path(), &arguments).assert().success();
    }
}

#[test]
fn signals_end_it_in_order() {
    for engine in engines() {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let own = copied_cache(engine);
            let mut bench = start("w5", engine, own.path(), &ENDLESS);
            let mut output = first_result(&mut bench);
            let engine_process = child_of(&bench).unwrap();
            PidFd::open(i32::try_from(bench.id()).unwrap()).unwrap().signal(signal).unwrap();
            let mut rest = String::new();
            std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
            let (status, stderr) = ended_with(bench);
            assert_eq!(status, Some(128 + signal), "{stderr}");
            let summary: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
            assert_eq!(summary["is_interrupted"], true);
            assert!(!Path::new(&format!("/proc/{engine_process}")).exists());
            assert!(runs(own.path()).is_empty());
        }
    }
}

#[test]
fn after_kill_9_the_engine_ends_and_the_next_bench_cleans_up() {
    for engine in engines() {
        let own = copied_cache(engine);
        let mut killed = start("w5", engine, own.path(), &ENDLESS);
        let output = first_result(&mut killed);
        let engine_process = PidFd::open(child_of(&killed).unwrap()).unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        drop(output);
        assert!(engine_process.ended_within(Some(Duration::from_secs(30))).unwrap(), "{engine}");
        assert_eq!(runs(own.path()).len(), 1);
        let arguments = ["--queries", "6", "--runs", "1"];
        // Children of the server may live slightly longer than the server.
        let deadline = Instant::now() + Duration::from_secs(30);
        while !bench("w5", engine, own.path(), &arguments).output().unwrap().status.success() {
            assert!(Instant::now() < deadline, "{engine}");
        }
        assert!(runs(own.path()).is_empty());
    }
}

#[test]
fn kept_directories_stay() {
    for engine in engines() {
        let own = copied_cache(engine);
        let arguments = ["--queries", "6", "--runs", "1", "--keep"];
        let output = bench("w5", engine, own.path(), &arguments).assert().success();
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        let kept = runs(own.path());
        assert_eq!(kept.len(), 1);
        assert!(stderr.contains(kept[0].to_str().unwrap()), "{stderr}");
        bench("w5", engine, own.path(), &arguments[..4]).assert().success();
        assert_eq!(runs(own.path()), kept);
    }
}

#[test]
fn a_database_in_use_by_a_stranger_is_named() {
    if !engines().contains(&"postgresql") {
        return;
    }
    let own = copied_cache("postgresql");
    let cluster = entry(own.path(), "postgresql", "");
    let owner = fs::metadata(&cluster).unwrap();
    // The lock file names a living process of the same user.
    let mut stranger =
        Process::new("sleep").arg("600").uid(owner.uid()).gid(owner.gid()).spawn().unwrap();
    let pid = cluster.join("postmaster.pid");
    let text = format!("{}\n{}\n0\n5432\n/nowhere\n\n", stranger.id(), cluster.display());
    fs::write(&pid, text).unwrap();
    std::os::unix::fs::chown(&pid, Some(owner.uid()), Some(owner.gid())).unwrap();
    let output = bench("w5", "postgresql", own.path(), &["--queries", "6"]).assert().code(125);
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(stderr.contains("did not start") && stderr.contains("postmaster.pid"), "{stderr}");
}

/// A file system of the given size, if this process may mount one.
fn small_disk(size: &str) -> Option<(TempDir, Mounted)> {
    let directory = own_cache();
    let options = format!("size={size},mode=755");
    let path = directory.path();
    let mounted = Process::new("mount")
        .args(["-t", "tmpfs", "-o", &options, "numapilot-test"])
        .arg(path)
        .output()
        .ok()?;
    if !mounted.status.success() {
        println!("skipped: mount: {}", String::from_utf8_lossy(&mounted.stderr).trim());
        return None;
    }
    let mounted = Mounted(path.to_owned());
    Some((directory, mounted))
}

/// Unmounts at the end of the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Process::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_too_small_is_known_beforehand() {
    for engine in engines() {
        let Some((_directory, disk)) = small_disk("8m") else { return };
        let output = bench("w5", engine, &disk.0, &["--queries", "6"]).assert().code(125);
        let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(stderr.contains("needs about") && stderr.contains("--cache DIR"), "{stderr}");
        assert!(runs(&disk.0).is_empty());
    }
}

#[test]
fn a_disk_that_fills_up_while_loading_is_named() {
    for engine in engines() {
        let Some((_directory, disk)) = small_disk("120m") else { return };
        // There is enough space when the bench checks, and none once the engine loads.
        let mut bench = start("w5", engine, &disk.0, &["--queries", "6"]);
        let mut errors = BufReader::new(bench.stderr.take().unwrap());
        let mut stderr = String::new();
        errors.read_line(&mut stderr).unwrap();
        assert!(stderr.contains("loading tpch-sf0.01"), "{stderr}");
        let filler = fs::File::create(disk.0.join("filler")).unwrap();
        let zeros = vec![0u8; 1 << 20];
        while std::io::Write::write_all(&mut &filler, &zeros).is_ok() {}
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut errors, &mut rest).unwrap();
        assert_eq!(bench.wait().unwrap().code(), Some(125), "{rest}");
        // The message contains the text of strerror, or the hint of an engine whose write was
        // truncated.
        assert!(rest.contains("free some space, or give --cache DIR"), "{rest}");
        assert!(runs(&disk.0).is_empty());
        let loaded = fs::read_dir(disk.0.join("tpch-sf0.01")).unwrap().flatten();
        let left: Vec<_> =
            loaded.filter(|e| e.path().is_dir() && e.file_name() != "answers").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn bad_arguments_are_refused() {
    let error = |more: &[&str]| {
        let output = bench("w5", "duckdb", &cache(), more).assert().code(125);
        String::from_utf8_lossy(&output.get_output().stderr).into_owned()
    };
    assert!(error(&["--queries", "23"]).contains("TPC-H has no query 23; there are 1 to 22"));
    assert!(error(&["--queries", "x"]).contains("is not a list of queries"));
    let mut command = bench("w5", "duckdb", &cache(), &["--benchmark", "tpcds"]);
    let output = command.env("PATH", "/nonexistent").assert().code(125);
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        stderr.contains("extension tpcds") && stderr.contains("duckdb-extension-tpcds"),
        "{stderr}"
    );
    let mut command = bench("w5", "duckdb", &cache(), &[]);
    let output = command.env("PATH", "/nonexistent").assert().code(125);
    let stderr = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
    assert!(
        stderr.contains("there is no python3 on PATH") && stderr.contains("pip install"),
        "{stderr}"
    );
}
