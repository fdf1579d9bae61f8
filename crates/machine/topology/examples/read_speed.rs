//! Measures how long it takes to read a machine with 16 nodes and 1024 CPUs.
//!
//! `cargo run --release -p numapilot-topology --example read_speed [DIR]` writes the kernel files
//! of two such machines into a temporary directory (below DIR, when given) and reads each 51 times.
//! A file in `/sys` costs more to read than one in a directory, because the kernel generates its
//! text at each read. The last line therefore measures this machine.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use numapilot_topology::{Cache, CacheKind, CpuId, CpuSet, Machine, Recording, read};

const NODES: u32 = 16;
const CPUS: u32 = 1024;
const TIMES: usize = 51;

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    for threads_per_core in [2, 1] {
        let machine = machine(threads_per_core);
        let directory = tempfile::tempdir_in(&parent)?;
        Recording::synthesize(&machine).unpack(directory.path())?;
        if read(directory.path())? != machine {
            return Err("the machine that was read differs from the one that was written".into());
        }
        let cores = CPUS / threads_per_core;
        report(&format!("{NODES} nodes, {cores} cores, {CPUS} CPUs"), directory.path())?;
    }
    report("this machine", Path::new("/"))
}

fn report(what: &str, root: &Path) -> Result<(), Box<dyn Error>> {
    let (mut elapsed, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let (start, cpu) = (Instant::now(), cpu_time_ms());
        std::hint::black_box(read(root)?);
        elapsed.push(start.elapsed().as_secs_f64() * 1e3);
        busy.push(cpu_time_ms() - cpu);
    }
    for times in [&mut elapsed, &mut busy] {
        times.sort_unstable_by(f64::total_cmp);
    }
    let (wall, cpu) = (elapsed[TIMES / 2], busy[TIMES / 2]);
    let least = busy[0];
    println!("{what}: median {wall:.2} ms, {cpu:.2} ms of it CPU time (lowest {least:.2} ms)");
    Ok(())
}

/// The cost in CPU time, which other programs on the machine affect least.
fn cpu_time_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// CPU `c` is thread `c / cores` of core `c % cores`, as on most x86 servers. Each core has its own
/// L1 and L2; sixteen cores share an L3.
fn machine(threads_per_core: u32) -> Machine {
    let cores = CPUS / threads_per_core;
    let of_cores = |first: u32, count: u32| -> CpuSet {
        let threads = (0..threads_per_core).map(|t| t * cores);
        threads.flat_map(|t| (first..first + count).map(move |core| CpuId(t + core))).collect()
    };
    let mut machine = Machine::uniform(NODES, CPUS / NODES);
    machine.name = "synthetic".to_owned();
    let cores_per_node = cores / NODES;
    for (i, node) in (0..NODES).zip(&mut machine.nodes) {
        node.free_bytes = Some(1 << 29);
        node.cpus = of_cores(i * cores_per_node, cores_per_node);
    }
    for (id, cpu) in (0..CPUS).zip(&mut machine.cpus) {
        let core = id % cores;
        cpu.node = Some(machine.nodes[(core / cores_per_node) as usize].id);
        cpu.package = Some(core / cores_per_node);
        cpu.core = Some(core % cores_per_node);
        cpu.siblings = of_cores(core, 1);
    }
    let kinds = [
        (1, CacheKind::Data, 48, 1),
        (1, CacheKind::Instruction, 32, 1),
        (2, CacheKind::Unified, 1024, 1),
        (3, CacheKind::Unified, 32 << 10, 16),
    ];
    for (level, kind, kib, sharing) in kinds {
        machine.caches.extend((0..cores / sharing).map(|i| Cache {
            level,
            kind,
            size_bytes: Some(kib << 10),
            ways: Some(16),
            line_bytes: Some(64),
            cpus: of_cores(i * sharing, sharing),
        }));
    }
    machine
}
