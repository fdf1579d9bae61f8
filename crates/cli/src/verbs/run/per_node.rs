//! Runs one instance of the program for each node.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::thread::{self, JoinHandle};

use anyhow::bail;
use numapilot_cli_kit::plan_args::Variable;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_place::{
    MemoryMode, MemoryPolicy, Options, PlaceError, Plan, Prepared, Reach, Supervisor, Targets,
    prepare_targets,
};
use numapilot_topology::{Machine, NodeId, NodeSet, parse_nodes};

use super::effects::Watch;

/// The text that the number of the node replaces.
const PLACEHOLDER: &[u8] = b"{node}";

/// The program for one node.
pub struct Instance {
    node: NodeId,
    /// Its plan.
    pub plan: Plan,
    /// Its command.
    pub prepared: Prepared,
}

/// Longest line that is copied in one piece: a line without an end would fill the memory.
const LONGEST: u64 = 64 << 10;

/// Prepares one instance for each node with usable CPUs.
pub fn prepare(
    plan: &Plan,
    raw: &[Variable],
    reach: Reach,
    command: &[OsString],
    options: &Options,
) -> anyhow::Result<Vec<Instance>> {
    if plan.cpus.is_some() || plan.cpu_nodes.is_some() {
        bail!("--per-node gives each instance the CPUs of its node; leave out -N and -C");
    }
    let mut machine = numapilot_topology::read(Path::new("/"))?;
    reach.apply(&mut machine);
    let nodes: Vec<_> = machine
        .nodes
        .iter()
        .filter(|n| !n.cpus.intersection(&machine.allowed.cpus).is_empty())
        .collect();
    let ids: NodeSet = nodes.iter().map(|node| node.id).collect();
    check_memory(&plan.memory, &machine, &ids)?;
    nodes
        .into_iter()
        .map(|node| {
            let plan = plan_for(plan, &machine, node.id);
            let command: Vec<OsString> =
                command.iter().map(|word| replace(word, node.id)).collect();
            let targets = Targets { reach, ..Targets::of(&plan, &machine)? };
            let mut prepared = prepare_targets(&plan, targets, &command, options)?;
            for (name, value) in raw {
                prepared.set_variable(name, &replace(value, node.id))?;
            }
            Ok(Instance { node: node.id, plan, prepared })
        })
        .collect::<Result<_, PlaceError>>()
        .map_err(Into::into)
}

/// Refuses a memory policy that does not keep each instance's memory on its node.
fn check_memory(memory: &MemoryPolicy, machine: &Machine, ids: &NodeSet) -> anyhow::Result<()> {
    match memory.mode {
        MemoryMode::Inherit | MemoryMode::Local => {}
        MemoryMode::Bind if memory.nodes.is_empty() => {}
        MemoryMode::Bind => {
            let allowed = parse_nodes(&memory.nodes, machine)?;
            if let Some(other) = ids.iter().find(|&node| !allowed.contains(node)) {
                bail!(
                    "--per-node gives each instance the memory of its node, but the plan binds \
                     memory to {}, and node {other} gets an instance as well; leave out the nodes",
                    memory.nodes
                );
            }
        }
        _ => bail!(
            "--per-node gives each instance the memory of its node, and `{}` would take that of \
             others; use `local` or `bind`, or leave the memory policy out",
            memory.mode.name()
        ),
    }
    Ok(())
}

/// Binds a plan to the CPUs of the node, and to its memory if it has any that may be used. With the
/// policy `local`, memory of other nodes is used when that of the node is full.
fn plan_for(plan: &Plan, machine: &Machine, node: NodeId) -> Plan {
    let has_memory = machine.memory_nodes().intersection(&machine.allowed.nodes).contains(node);
    let memory = if has_memory && plan.memory.mode != MemoryMode::Local {
        MemoryPolicy {
            mode: MemoryMode::Bind,
            nodes: node.to_string(),
            balancing: plan.memory.balancing,
        }
    } else {
        MemoryPolicy { mode: MemoryMode::Local, ..MemoryPolicy::default() }
    };
    let env = plan
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.replace("{node}", &node.to_string())));
    Plan { cpu_nodes: Some(node.to_string()), memory, env: env.collect(), ..plan.clone() }
}

fn replace(word: &OsStr, node: NodeId) -> OsString {
    let mut rest = word.as_bytes();
    let mut replaced = Vec::with_capacity(rest.len());
    while let Some(at) = rest.windows(PLACEHOLDER.len()).position(|w| w == PLACEHOLDER) {
        replaced.extend(&rest[..at]);
        replaced.extend(node.to_string().bytes());
        rest = &rest[at + PLACEHOLDER.len()..];
    }
    replaced.extend(rest);
    OsString::from_vec(replaced)
}

/// Starts all instances, waits for all, and returns the first status that is not success.
pub fn run(
    terminal: &Terminal,
    instances: &[Instance],
    prefix: bool,
    watch: Watch,
) -> anyhow::Result<ExitCode> {
    let supervisor = Supervisor::new()?;
    let mut effects = Vec::new();
    let mut running = Vec::new();
    let mut copies = Vec::new();
    for instance in instances {
        // An error drops the running instances, which ends them.
        let streams = if prefix { Some((io::pipe()?, io::pipe()?)) } else { None };
        let program = match streams {
            None => instance.prepared.spawn(|_| {}),
            Some(((out, out_end), (err, err_end))) => {
                let label = format!("[node {}] ", instance.node);
                copies.push(copy(label.clone(), out, io::stdout())?);
                copies.push(copy(label, err, io::stderr())?);
                instance.prepared.spawn(|command| {
                    command.stdout(out_end).stderr(err_end);
                })
            }
        }?;
        let label = format!("node {}: ", instance.node);
        effects.push(watch.start(terminal, &instance.prepared, &program, &label));
        running.push(program);
    }
    let ends = supervisor.wait(running)?;
    for copy in copies {
        // If the reader went away, the copy ends early, and the programs notice by themselves.
        let _ = copy.join();
    }
    watch.finish(terminal, effects, &ends, &mut Vec::new())
}

/// Starts a thread that copies.
fn copy(
    label: String,
    from: PipeReader,
    mut to: impl Write + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let copy = move || copy_lines(&label, BufReader::new(from), &mut to);
    thread::Builder::new().name("output".to_owned()).spawn(copy)
}

/// Copies whole lines with a label before each, so that the lines of instances do not mix. A line
/// that is too long becomes several.
fn copy_lines(label: &str, mut from: impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend(label.bytes());
        if from.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // One write per line: standard streams are locked during a call.
        to.write_all(&line)?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_replaced() {
        let replaced = |text: &str| replace(OsStr::new(text), NodeId(12)).into_string().unwrap();
        assert_eq!(replaced("--dir=/data/{node}/{node}"), "--dir=/data/12/12");
        assert_eq!(replaced("{nod}{node"), "{nod}{node");
        assert_eq!(replaced(""), "");
    }

    #[test]
    fn a_line_without_end_is_copied_in_parts() {
        let copied = |text: &[u8]| {
            let mut to = Vec::new();
            copy_lines("[0] ", text, &mut to).unwrap();
            String::from_utf8(to).unwrap()
        };
        assert_eq!(copied(b"one\n\ntwo"), "[0] one\n[0] \n[0] two\n");
        let most = usize::try_from(LONGEST).unwrap();
        let endless = copied(&vec![b'x'; 2 * most + 1]);
        let lengths: Vec<usize> = endless.lines().map(|line| line.len() - "[0] ".len()).collect();
        assert_eq!(lengths, [most, most, 1]);
    }

    #[test]
    fn each_node_gets_its_own_memory() {
        let mut machine = Machine::uniform(2, 2);
        machine.nodes[1].memory_bytes = 0;
        let base =
            Plan { env: [("DIR".to_owned(), "/data/{node}".to_owned())].into(), ..Plan::default() };
        let with_memory = plan_for(&base, &machine, NodeId(0));
        assert_eq!(with_memory.memory.to_string(), "bind 0");
        assert_eq!(with_memory.env["DIR"], "/data/0");
        let without = plan_for(&base, &machine, NodeId(1));
        assert_eq!(without.memory.mode, MemoryMode::Local);
        assert_eq!(without.cpu_nodes.as_deref(), Some("1"));
    }

    fn policy(mode: MemoryMode, nodes: &str) -> MemoryPolicy {
        MemoryPolicy { mode, nodes: nodes.to_owned(), balancing: false }
    }

    #[test]
    fn local_and_bind_mean_the_node_of_the_instance() {
        let machine = Machine::uniform(2, 2);
        for (mode, nodes, expected) in [
            (MemoryMode::Local, "", "local"),
            (MemoryMode::Bind, "", "bind 1"),
            (MemoryMode::Bind, "0-1", "bind 1"),
        ] {
            let plan = Plan { memory: policy(mode, nodes), ..Plan::default() };
            assert!(check_memory(&plan.memory, &machine, &machine.memory_nodes()).is_ok());
            assert_eq!(plan_for(&plan, &machine, NodeId(1)).memory.to_string(), expected);
        }
    }

    #[test]
    fn a_policy_that_takes_memory_of_other_nodes_is_refused() {
        let machine = Machine::uniform(2, 2);
        let refusal = |mode, nodes| {
            let refused = check_memory(&policy(mode, nodes), &machine, &machine.memory_nodes());
            refused.unwrap_err().to_string()
        };
        for mode in [
            MemoryMode::Interleave,
            MemoryMode::WeightedInterleave,
            MemoryMode::Preferred,
            MemoryMode::PreferredMany,
        ] {
            let name = format!("`{}` would take", mode.name());
            assert!(refusal(mode, "").contains(&name));
        }
        assert!(refusal(MemoryMode::Bind, "0").contains("node 1 gets an instance as well"));
        assert!(refusal(MemoryMode::Bind, "7").contains('7'));
    }
}
